"""The answers of ``confide risk bayes`` on a terminal, and their pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import inf
from pathlib import Path
from typing import Any

from confide.cli.pictures import write
from confide.cli.show import out, table
from confide.noise import Law
from confide.privacy import Neighbours
from confide.report import bayes_plots
from confide.risk.bayesian import curves
from confide.risk.bayesian.comparison import Comparison
from confide.risk.bayesian.noise_pmf import LawComparison

Rows = list[dict[str, Any]]


def show_adversaries(laws: Sequence[Law], rows: Rows, limit: float, neighbours: Neighbours, known: int) -> None:
    """What each adversary can expect, in one table."""
    for law in laws:
        out.print(f"[bold]{law.title} noise, {law.parameter_name} {float(law.parameter):.6g}[/] ({neighbours.value}).")
    others = "nobody else is" if not known else f"{known:,} other is" if known == 1 else f"{known:,} others are"
    seen = "The noisy count is seen" if len(laws) == 1 else f"{len(laws)} noisy counts of the cell are seen"
    out.print(f"{seen}; {others} known to be in the cell. Is the target in it?\n")
    lines = [
        (
            row["prior"],
            _probability(row["marginal_posterior"]),
            f"{row['risk']:.4f}",
            _threshold(row),
            *(_probability(row[key]) for key in ("correct_given_1", "correct_given_0", "average_accuracy")),
        )
        for row in rows
    ]
    columns = ["prior ", "posterior if in ", "risk R ", "decides “in” ", "right if in ", "right if not "]
    table([*columns, "right on average "], lines)
    out.print()
    out.print("Posterior: what is expected if the target is in the cell; R is that over the prior.")
    most = f"{limit:.6g}" if limit < inf else "one over it"
    out.print(f"No prior makes R more than {most}. An even posterior decides “not in”.")
    best = [row for row in rows if row["average_accuracy"] is not None]
    if best and all(row["average_accuracy"] - _guess(row) < 5e-4 for row in best):
        out.print("Decisions are hardly better than the prior alone would make them.")
    if neighbours is Neighbours.CHANGE_ONE:
        out.print("Who knows the target to be in one of two cells sees both counts, which is as good as two releases.")


def show_released(rows: Rows, seen: Rows, releases: int) -> None:
    """The posterior at what was released."""
    out.print()
    if releases > 1:
        for row, found in zip(rows, seen, strict=True):
            lines = [
                (s["released"], _probability(s["prior"]), _probability(s["posterior"]), f"{s['risk_at']:.4f}")
                for s in found["steps"]
            ]
            table(["released ", "belief before ", "after ", "R′ "], lines, title=f"Prior {row['prior']}")
            out.print(f"All together: R′ = {found['risk_at']:.4f}, the product.\n")
        return
    lines = []
    for row, found in zip(rows, seen, strict=True):
        parts = [
            found[key] if isinstance(found[key], list) else [found[key]] for key in ("released", "posterior", "risk_at")
        ]
        lines += [
            (value, row["prior"], _probability(after), f"{ratio:.4f}")
            for value, after, ratio in zip(*parts, strict=True)
        ]
    table(["released ", "prior ", "posterior ", "R′ "], lines)


def draw(
    folder: Path, comparisons: Sequence[Comparison], priors: Sequence[str], neighbours: Neighbours, gaussian: bool
) -> list[Path]:
    """Figures 1, 2, 3 of the paper, and 7 where there are several counts."""
    shown = list(priors) if len(priors) > 1 else list(dict.fromkeys([*priors, *curves.PRIORS]))
    first = comparisons[0]
    released = curves.by_released(first, shown)
    pictures: dict[str, Callable[[], str]] = {
        "posterior-by-released.svg": lambda: bayes_plots.posterior_by_released(released),
        "risk-by-released.svg": lambda: bayes_plots.risk_by_released(released),
    }
    if gaussian:
        assert isinstance(first, LawComparison)
        chosen = float((first.rho or Fraction(0)) * (2 if neighbours is Neighbours.CHANGE_ONE else 1))
        over = curves.by_rho(shown, neighbours)
        pictures |= {
            "posterior-by-rho.svg": lambda: bayes_plots.posterior_by_rho(over, chosen),
            "risk-by-rho.svg": lambda: bayes_plots.risk_by_rho(over, chosen),
            "right-by-rho.svg": lambda: bayes_plots.right_by_rho(over, chosen),
            "average-by-rho.svg": lambda: bayes_plots.average_by_rho(over, chosen),
        }
    if len(comparisons) > 1:
        levels = curves.by_levels(comparisons, shown)
        pictures |= {
            "posterior-by-levels.svg": lambda: bayes_plots.posterior_by_levels(levels),
            "risk-by-levels.svg": lambda: bayes_plots.risk_by_levels(levels),
        }
    return write(folder, pictures)


def _threshold(row: dict[str, Any]) -> str:
    if row["decides"] == "from":
        return f"from {row['threshold']:,} on"
    return str(row["decides"])


def _guess(row: dict[str, Any]) -> float:
    prior = float(Fraction(row["prior"]))
    return max(prior, 1 - prior)


def _probability(value: float | None) -> str:
    if value is None:
        return "not computed"
    return f"{value:.6f}" if value >= 1e-4 or value == 0 else f"{value:.3g}"
