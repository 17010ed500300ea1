"""``confide risk bayes``: what one noisy count, or several of the same cell, tells about one person."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from fractions import Fraction
from math import inf, prod
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from confide.cli.show import Json, Plots, number, out, print_json, table, write
from confide.errors import ParameterError, Place
from confide.exact import probability
from confide.noise import Law
from confide.privacy import Neighbours
from confide.report import bayes_plots
from confide.risk.bayesian import sequential as curves
from confide.risk.bayesian.evidence import Evidence, LawEvidence, evidence_of, gaussian_for, geometric_for
from confide.risk.bayesian.one_level import assess, checked_value, risk_at
from confide.risk.bayesian.sequential import JointDecision, combined_risk, combined_risk_at, in_sequence

# The answers of ``confide risk bayes`` on a terminal, and their pictures.


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
    folder: Path, comparisons: Sequence[Evidence], priors: Sequence[str], neighbours: Neighbours, gaussian: bool
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
        assert isinstance(first, LawEvidence)
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


_SMALLEST, _LARGEST = Fraction(1, 10**11), Fraction(10**4)


class NoiseLaw(StrEnum):
    """The laws that have a budget."""

    DISCRETE_GAUSSIAN = "discrete-gaussian"
    GEOMETRIC = "geometric"


def bayes(
    rho: Annotated[str | None, typer.Option("--rho", help="The ρ of the count; for discrete Gaussian noise.")] = None,
    prior: Annotated[
        list[str] | None, typer.Option("--prior", help="The belief before the release, such as 1/2; repeatable.")
    ] = None,
    released: Annotated[
        list[str] | None,
        typer.Option("--released", metavar="COUNT", help="A released count, or several: 3, or -1,0,2; repeatable."),
    ] = None,
    law: Annotated[NoiseLaw, typer.Option("--law", help="The noise.")] = NoiseLaw.DISCRETE_GAUSSIAN,
    epsilon: Annotated[str | None, typer.Option("--epsilon", help="The ε of the count; for geometric noise.")] = None,
    neighbours: Annotated[
        Neighbours, typer.Option("--neighbours", help="What the budget compares; change-one has more noise.")
    ] = Neighbours.ADD_REMOVE,
    known_count: Annotated[
        int, typer.Option("--known-count", min=0, help="How many others are known to be in the cell.")
    ] = 0,
    also_rho: Annotated[
        list[str] | None,
        typer.Option("--also-rho", help="A further noisy count of the cell: a level, or a release; repeatable."),
    ] = None,
    plots: Plots = None,
    as_json: Json = False,
) -> None:
    """What an adversary who knows everyone else learns about one person from a noisy count."""
    laws = [_law(law, rho, epsilon, neighbours)]
    laws += [gaussian_for(_budget(text, "also-rho"), neighbours) for text in also_rho or ()]
    priors = [probability(text, "--prior") for text in prior or ["1/2"]]
    comparisons = [evidence_of(each) for each in laws]
    values = [value for text in released or () for value in _values(text)]
    rows = _expected(comparisons, priors, known_count)
    limit = prod(comparison.limit for comparison in comparisons)
    seen = _seen(comparisons, priors, values, known_count) if values else []
    drawn = (
        [] if plots is None else draw(plots, comparisons, prior or [], neighbours, law is NoiseLaw.DISCRETE_GAUSSIAN)
    )
    if as_json:
        head: dict[str, Any] = {
            "laws": [each.as_dict() for each in laws],
            "neighbours": neighbours.value,
            "known_count": known_count,
            "risk_limit": limit if limit < inf else None,
        }
        for row, more in zip(rows, seen or [{}] * len(rows), strict=True):
            row.update(more)
        if drawn:
            head["plots"] = [str(path) for path in drawn]
        print_json(head | (rows[0] if len(rows) == 1 else {"adversaries": rows}))
        return
    show_adversaries(laws, rows, limit, neighbours, known_count)
    if seen:
        show_released(rows, seen, len(laws))
    for path in drawn:
        out.print(f"Drawn: {escape(str(path))}")


def _expected(comparisons: Sequence[Evidence], priors: Sequence[Fraction], known: int) -> list[dict[str, Any]]:
    """What is expected over releases, for each prior."""
    rows: list[dict[str, Any]] = []
    if len(comparisons) == 1:
        for found in assess(comparisons[0], priors):
            smallest = found.decision.region.smallest
            rows.append(
                {
                    "prior": str(found.prior),
                    "marginal_posterior": found.marginal_posterior,
                    "risk": found.risk,
                    "threshold": None if smallest is None else smallest + known,
                    "decides": found.decision.region.kind,
                    "correct_given_1": found.decision.given_1,
                    "correct_given_0": found.decision.given_0,
                    "average_accuracy": found.decision.average,
                }
            )
        return rows
    together = JointDecision(comparisons)
    for total in combined_risk(comparisons, priors):
        p = total.prior
        right = together.decide(p)
        rows.append(
            {
                "prior": str(p),
                "marginal_posterior": total.marginal_posterior,
                "risk": total.risk,
                "threshold": None,
                "decides": "together",
                "correct_given_1": right and right[0],
                "correct_given_0": right and right[1],
                "average_accuracy": right and float(p) * right[0] + float(1 - p) * right[1],
            }
        )
    return rows


def _seen(
    comparisons: Sequence[Evidence], priors: Sequence[Fraction], values: Sequence[int], known: int
) -> list[dict[str, Any]]:
    """Posterior and R' at what was released, for each prior: a number for one value, a list for several."""
    if len(comparisons) == 1:
        ratios = risk_at(comparisons[0], priors, values, known)
        lines = [[float(ratio) for ratio in line] for line in ratios]
        return [
            {
                "released": _one(list(values)),
                "posterior": _one([float(p) * ratio for ratio in line]),
                "risk_at": _one(line),
            }
            for p, line in zip(priors, lines, strict=True)
        ]
    counts = [known] * len(comparisons)
    result = []
    for p, ratio in zip(priors, combined_risk_at(comparisons, priors, values, counts), strict=True):
        steps = in_sequence(comparisons, p, values, counts)
        result.append(
            {
                "released": list(values),
                "posterior": float(p) * float(ratio),
                "risk_at": float(ratio),
                "steps": [
                    {"released": s.released, "prior": s.prior, "posterior": s.posterior, "risk_at": s.risk_at}
                    for s in steps
                ],
            }
        )
    return result


def _one(values: list[Any]) -> Any:
    return values[0] if len(values) == 1 else values


def _law(law: NoiseLaw, rho: str | None, epsilon: str | None, neighbours: Neighbours) -> Law:
    gaussian = law is NoiseLaw.DISCRETE_GAUSSIAN
    wanted, other = (rho, epsilon) if gaussian else (epsilon, rho)
    name = "rho" if gaussian else "epsilon"
    if wanted is None or other is not None:
        raise ParameterError(
            "no-budget",
            f"{law.value} noise is given by --{name} alone",
            where=Place(path=f"--{name}"),
            found="none" if wanted is None else "--rho and --epsilon",
            expected=f"--{name} with an exact number",
            remedy=f"give --{name}" + ("" if gaussian or rho is None else " in place of --rho"),
        )
    value = _budget(wanted, name)
    return gaussian_for(value, neighbours) if gaussian else geometric_for(value, neighbours)


def _budget(text: str, name: str) -> Fraction:
    return number(text, name, _SMALLEST, _LARGEST)


def _values(text: str) -> list[int]:
    try:
        return [checked_value(int(part)) for part in text.split(",")]
    except ValueError:
        raise ParameterError(
            "not-a-count",
            "this is not a list of released counts",
            where=Place(path="--released"),
            found=text[:40],
            expected="whole numbers, such as 3 or -1,0,2",
            remedy="correct --released",
        ) from None
