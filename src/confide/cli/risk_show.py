"""The answers of ``confide risk`` on a terminal, and their pictures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from confide.cli.pictures import write
from confide.cli.show import out, table
from confide.errors import Finding, InputError, Place
from confide.report import risk_plots
from confide.risk.bounded_noise import curves
from confide.risk.bounded_noise.averaging import Optimum, Representations, Target, target_name
from confide.risk.bounded_noise.bound import BoundRisk
from confide.risk.bounded_noise.programme import Programme, Rule
from confide.risk.bounded_noise.success import Model, laplace_epsilon, success_probability, variance_needed

Rows = list[dict[str, Any]]
KINDS = {"with_spsn": "same members, same noise", "without_spsn": "noise of its own in every table"}
_VARIANCES = (0.5, 50.0)
_EPSILONS = (0.1, 3.0)


def show_bound(risk: BoundRisk, available: int) -> None:
    """The chance of one triple, the triples that are needed, and what there is."""
    row = risk.row
    out.print(f"[bold]Noise within ±{row.bound}, variance {row.variance:.4g}.[/]")
    if not row.attained:
        out.print(f"  A variance of {float(row.asked or 0):g} is more than this bound allows: the noise is uniform.")
    rows = [
        ("a triple F + M = T reveals the bound with probability", f"{risk.p1:.3g}"),
        (f"triples that reveal it with probability {risk.level:g}", _large(risk.log10_m, risk.m)),
        ("triples that the programme has", f"{available:,}"),
        ("probability that they reveal it", _chance(risk.revealed(available))),
        ("triples expected to give their counts away, if it is known", f"{risk.expected_exact(available):.2g}"),
    ]
    table(["", " "], rows)
    safe = risk.m > available
    verdict = "[bold green]The bound is protected[/]" if safe else "[bold red]The bound is not protected[/]"
    out.print(f"{verdict} at the level {risk.level:g}.")


def averaging_rows(found: Mapping[str, Mapping[Target, Representations]], optimum: Optimum, confidence: float) -> Rows:
    """Every statistic with its representations, with SPSN and without, riskiest first."""
    first = found["with_spsn"]
    targets = sorted(
        first.keys() | found["without_spsn"].keys(),
        key=lambda goal: (
            first[goal].mean(optimum).ratio if goal in first else found["without_spsn"][goal].mean(optimum).ratio,
            target_name(goal),
        ),
    )
    return [
        {"target": target_name(goal), "levels": sorted(goal)}
        | {kind: _numbers(found[kind][goal], optimum, confidence) if goal in found[kind] else None for kind in KINDS}
        for goal in targets
    ]


def _numbers(item: Representations, optimum: Optimum, confidence: float) -> dict[str, Any]:
    result: dict[str, Any] = {"t": item.t, "k": item.k, "k_over_t2": item.mean(Optimum.ALL).ratio}
    for kind in Optimum:
        if kind is Optimum.ALL:
            continue
        mean = item.mean(kind)
        result[kind.value] = {"t": mean.t, "k": mean.k, "k_over_t2": mean.ratio}
    ratio = item.mean(optimum).ratio
    needed = variance_needed(ratio, confidence)
    result["V_needed"] = needed
    result["V_needed_chebyshev"] = variance_needed(ratio, confidence, Model.CHEBYSHEV)
    result["epsilon_allowed"] = laplace_epsilon(needed)
    return result


def show_averaging(
    programme: Programme, rows: Rows, rule: Rule, areas: Mapping[str, int], top: int, confidence: float
) -> None:
    """The riskiest statistics, and the variance that averaging asks for."""
    where = ", ".join(f"{number:,} {name}" for name, number in areas.items())
    out.print(f"[bold]{programme.title or programme.id}[/], rule {rule.value}{', ' + where if where else ''}.\n")
    for kind, title in KINDS.items():
        listed = sorted((row for row in rows if row[kind]), key=lambda row: row[kind]["V_needed"], reverse=True)[:top]
        shown = [
            (
                row["target"],
                f"{row[kind]['t']:,}",
                _short(row[kind]["k"]),
                f"{row[kind]['greedy']['k_over_t2']:.4g}",
                f"{row[kind]['prefix']['k_over_t2']:.4g}",
                f"{row[kind]['inverse-variance']['k_over_t2']:.4g}",
                f"{row[kind]['V_needed']:.3f}",
                f"{row[kind]['epsilon_allowed']:.3f}",
            )
            for row in listed
        ]
        columns = ["statistic", "t ", "k ", "k/t²: greedy ", "prefix ", "weighted ", "V from ", "ε to "]
        table(columns, shown, title=title[0].upper() + title[1:])
        out.print()
    worst = min((row["with_spsn"]["greedy"]["k_over_t2"] for row in rows if row["with_spsn"]), default=1.0)
    chances = ", ".join(f"{success_probability(v, worst):.0%} at V {v}" for v in (1, 2, 3, 5))
    out.print(f"V and ε: for a probability of {confidence:g} to find the count. The riskiest is found with {chances}.")


def show_areas(
    number: int, bound: int, needed: float, chances: Mapping[str, float], rows: Rows, confidence: float
) -> None:
    """What ε keeps small areas close, and how many would be far off."""
    out.print(f"{number:,} areas stay within ±{bound} with probability {confidence:g} from ε = {needed:.3f} on.")
    shown = [(f"ε {text}", f"{chance:.3g}", f"{number * chance:,.3g}") for text, chance in chances.items()]
    table(["", f"noise above {bound} ", "areas expected "], shown)
    for epsilon in dict.fromkeys(row["epsilon"] for row in rows):
        of_epsilon = [row for row in rows if row["epsilon"] == epsilon]
        errors = list(dict.fromkeys(row["relative_error"] for row in of_epsilon))
        sizes = list(dict.fromkeys((row["above"], row["to"], row["areas"]) for row in of_epsilon))
        lines = []
        for above, to, areas in sizes:
            name = f"above {above:,}" if to is None else f"{above:,} to {to:,}"
            counts = [row["expected"] for row in of_epsilon if (row["above"], row["to"]) == (above, to)]
            lines.append((name, f"{areas:,}", *(f"{count:,.1f}" for count in counts)))
        columns = ["people", "areas ", *(f"off by {error:.0%} " for error in errors)]
        out.print()
        table(columns, lines, title=f"Areas expected to be off by at least so much, ε = {epsilon:g}")


def draw_bound(folder: Path, available: int, confidence: float) -> list[Path]:
    """The heat map of triples that are needed (Figure 1)."""
    return write(
        folder, {"triples-needed.svg": lambda: risk_plots.triples_needed(curves.bound_grid(confidence), available)}
    )


def draw_averaging(folder: Path, rows: Rows, confidence: float) -> list[Path]:
    """The heat maps of success, over the variance and over ε (Figure 2)."""
    marks = []
    for kind, title in (("with_spsn", "with SPSN"), ("without_spsn", "without SPSN")):
        worst = min((row[kind]["greedy"]["k_over_t2"] for row in rows if row[kind]), default=None)
        if worst is not None and curves.RATIOS[0] < worst < curves.RATIOS[1]:
            marks.append({"x": worst, "name": title})

    def picture(parameter: str, span: tuple[float, float], title: str) -> Callable[[], str]:
        return lambda: risk_plots.averaging_success(
            curves.success_cells(parameter, *span), curves.success_contours(parameter, confidence), marks, title
        )

    return write(
        folder,
        {
            "averaging-variance.svg": picture("variance", _VARIANCES, "variance V"),
            "averaging-epsilon.svg": picture("epsilon", _EPSILONS, "ε of a count with Laplace noise"),
        },
    )


def draw_areas(
    folder: Path, rows: Rows, programme: Programme, number: int, bound: int, confidence: float
) -> list[Path]:
    """Distortions by size (Figure 4), and the ε that a bound needs (Figure 5)."""
    smallest = programme.geography[-1] if programme.geography else None
    known = {code: areas[smallest] for code, areas in (programme.countries or {}).items()} if smallest else {}
    named = {"all countries": sum(known.values())} if known else {}
    if known:
        extremes = (max(known, key=lambda code: known[code]), min(known, key=lambda code: known[code]))
        named |= {code: known[code] for code in extremes}
    if number not in named.values():
        named["asked for"] = number
    pictures: dict[str, Callable[[], str]] = {
        "epsilon-by-bound.svg": lambda: risk_plots.epsilon_by_bound(
            curves.epsilon_curves(named, confidence), chosen=bound
        )
    }
    for epsilon in dict.fromkeys(row["epsilon"] for row in rows):
        of_epsilon = [row for row in rows if row["epsilon"] == epsilon]
        pictures[f"distortions-epsilon-{epsilon:g}.svg"] = lambda of=of_epsilon: risk_plots.distortions_by_size(of)  # type: ignore[misc]
    return write(folder, pictures)


def read_sizes(path: Path) -> list[int]:
    """Published sizes of areas: one whole number on each line."""
    found = []
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError):
        raise InputError(_bad_sizes(path, None, "a file that cannot be read")) from None
    for place, line in enumerate(lines, start=1):
        text = line.strip()
        if text and not (text.isascii() and text.isdigit() and len(text) < 12):
            raise InputError(_bad_sizes(path, place, text[:40]))
        if text:
            found.append(int(text))
    return found


def _bad_sizes(path: Path, line: int | None, found: str) -> Finding:
    return Finding(
        code="bad-populations",
        what="this is not a list of sizes",
        where=Place(file=path.name, line=line),
        found=found,
        expected="a text file with one whole number on each line",
        remedy="correct the file",
    )


def _short(value: int) -> str:
    return f"{value:,}" if value < 100_000 else f"{value:.2e}".replace("e+0", "e")


def _large(exponent: float, value: int) -> str:
    return f"{value:,}" if exponent < 9 else f"about 10^{exponent:.1f}"


def _chance(probability: float) -> str:
    return "over 99.9 %" if probability > 0.999 else f"{100 * probability:.3g} %"
