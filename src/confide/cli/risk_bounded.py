"""``confide risk bound|averaging|areas``: what bounded noise gives away, before anything is published."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from confide.cli.show import Json, Plots, out, print_json, table, write
from confide.errors import Finding, InputError, ParameterError, Place
from confide.exact import exact
from confide.report import risk_plots
from confide.risk.bounded_noise import withstanding as curves
from confide.risk.bounded_noise.averaging import (
    CountingScheme,
    Optimum,
    Representations,
    Single,
    Target,
    parse_target,
    representations,
    target_name,
    triples,
)
from confide.risk.bounded_noise.bound import BoundRisk, bound_risk
from confide.risk.bounded_noise.noise_rows import LEVEL, Model, laplace_epsilon, success_probability, variance_needed
from confide.risk.bounded_noise.small_areas import distortions, epsilon_for_bound, exceedance
from confide.risk.bounded_noise.static_programme import LevelRule, StaticProgramme, load_programme

# The answers of ``confide risk`` on a terminal, and their pictures.


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
    programme: StaticProgramme, rows: Rows, rule: LevelRule, areas: Mapping[str, int], top: int, confidence: float
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
    folder: Path, rows: Rows, programme: StaticProgramme, number: int, bound: int, confidence: float
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


ProgrammeName = Annotated[
    str, typer.Option("--programme", metavar="NAME", help="A programme that ships, or the path of a TOML file.")
]
Country = Annotated[
    str | None, typer.Option("--country", metavar="CODE", help="Whose areas; default: what the programme says.")
]
Areas = Annotated[
    list[str] | None, typer.Option("--areas", metavar="NAME=NUMBER", help="A number of areas of your own; repeatable.")
]
Unit = Annotated[str | None, typer.Option("--unit", help="What is counted, such as persons.")]
LeaveOut = Annotated[
    list[str] | None, typer.Option("--leave-out", metavar="BREAKDOWN", help="Leave a breakdown out; repeatable.")
]
Alpha = Annotated[str, typer.Option("--alpha", help="The confidence level.")]
RuleOption = Annotated[
    LevelRule, typer.Option("--rule", help="Count the finest levels alone, or inner levels of breakdowns too.")
]


def bound(
    largest: Annotated[int, typer.Option("-D", "--bound", help="The largest noise.")],
    variance: Annotated[str, typer.Option("-V", "--variance", help="The variance of the noise.")],
    alpha: Alpha = str(LEVEL),
    programme: ProgrammeName = "eu-2021",
    country: Country = None,
    areas: Areas = None,
    unit: Unit = None,
    rule: RuleOption = LevelRule.INNER_LEVELS,
    available: Annotated[
        int | None, typer.Option("--triples", min=0, help="Triples F + M = T that there are; default: the programme's.")
    ] = None,
    plots: Plots = None,
    as_json: Json = False,
) -> None:
    """How many triples F + M = T reveal the largest noise, and what knowing it would give away."""
    risk = bound_risk(largest, exact(variance, "-V"), level(alpha))
    if available is None:
        chosen = load_programme(programme)
        count = CountingScheme(rule, same_noise=True, single=Single.MERGE, unit=unit)
        available = triples(chosen, areas_of(chosen, country, areas), count)
    drawn = [] if plots is None else draw_bound(plots, available, risk.level)
    if as_json:
        result = risk.as_dict() | {
            "triples": available,
            "revealed": risk.revealed(available),
            "triples_given_away": risk.expected_exact(available),
        }
        print_json(_with(result, drawn))
        return
    show_bound(risk, available)
    _say(drawn)


def averaging(
    programme: ProgrammeName = "eu-2021",
    rule: RuleOption = LevelRule.PLAIN,
    country: Country = None,
    areas: Areas = None,
    target: Annotated[
        list[str] | None,
        typer.Option("--target", metavar="LEVELS", help='A statistic, such as "SEX AGE.M" or total; repeatable.'),
    ] = None,
    single: Annotated[
        Single, typer.Option("--single", help="With the same noise for the same members: levels of one category.")
    ] = Single.KEEP,
    optimum: Annotated[
        Optimum, typer.Option("--optimum", help="Which mean the attacker takes, for the order of statistics.")
    ] = Optimum.GREEDY,
    unit: Unit = None,
    leave_out: LeaveOut = None,
    alpha: Alpha = str(LEVEL),
    top: Annotated[int, typer.Option("--top", min=1, help="How many statistics are shown as text.")] = 10,
    plots: Plots = None,
    as_json: Json = False,
) -> None:
    """Count the ways to have each statistic of a programme, and what averaging them would find.

    With the same noise for the same members (SPSN) and without.
    """
    chosen = load_programme(programme).leave_out(leave_out or ())
    numbers = areas_of(chosen, country, areas)
    kinds = {
        "with_spsn": CountingScheme(rule, same_noise=True, single=single, unit=unit),
        "without_spsn": CountingScheme(rule, same_noise=False, unit=unit),
    }
    wanted = [parse_target(text) for text in target or ()]
    found = {
        name: (
            {goal: representations(chosen, numbers, count, goal)[goal] for goal in wanted}
            if wanted
            else representations(chosen, numbers, count)
        )
        for name, count in kinds.items()
    }
    confidence = level(alpha)
    rows = averaging_rows(found, optimum, confidence)
    drawn = [] if plots is None else draw_averaging(plots, rows, confidence)
    if as_json:
        head = {
            "programme": chosen.id,
            "rule": rule.value,
            "country": country or chosen.country,
            "areas": numbers,
            "single": single.value,
            "tables": len(chosen.of_unit(unit)),
            "alpha": confidence,
        }
        print_json(_with(head | {"targets": rows}, drawn))
        return
    show_averaging(chosen, rows, rule, numbers, top, confidence)
    _say(drawn)


def areas(
    epsilon: Annotated[list[str], typer.Option("--epsilon", help="The ε of a count; repeatable.")],
    bound: Annotated[int, typer.Option("-E", "--bound", min=1, help="The noise that no area should exceed.")] = 20,
    programme: ProgrammeName = "eu-2021",
    country: Country = None,
    number: Annotated[int | None, typer.Option("--number", min=1, help="How many areas there are.")] = None,
    populations: Annotated[
        Path | None, typer.Option("--populations", metavar="FILE", help="Published sizes of areas, one on each line.")
    ] = None,
    alpha: Alpha = str(LEVEL),
    plots: Plots = None,
    as_json: Json = False,
) -> None:
    """What unbounded noise does to small areas: bounds that hold with some probability, and counts that are far off."""
    epsilons = [exact(text, "--epsilon") for text in epsilon]
    confidence = level(alpha)
    sizes = [] if populations is None else read_sizes(populations)
    chosen = load_programme(programme)
    if number is None:
        number = len(sizes) or chosen.areas(country).get(chosen.geography[-1] if chosen.geography else "", 1)
    rows = [row.as_dict() for row in distortions(sizes, epsilons)] if sizes else []
    drawn = [] if plots is None else draw_areas(plots, rows, chosen, number, bound, confidence)
    needed = epsilon_for_bound(bound, number, confidence)
    chances = {text: exceedance(value, bound) for text, value in zip(epsilon, epsilons, strict=True)}
    if as_json:
        result = {
            "areas": number,
            "bound": bound,
            "alpha": confidence,
            "epsilon_at_least": needed,
            "exceeded": chances,
            "size_classes": rows,
        }
        print_json(_with(result, drawn))
        return
    show_areas(number, bound, needed, chances, rows, confidence)
    _say(drawn)


def areas_of(programme: StaticProgramme, country: str | None, texts: list[str] | None) -> dict[str, int]:
    """The numbers of areas, from a country and from NAME=NUMBER as typed."""
    own: dict[str, int] = {}
    for text in texts or ():
        name, equals, digits = text.partition("=")
        if not equals or not (digits.isascii() and digits.isdigit() and 0 < len(digits) < 10 and int(digits)):
            raise ParameterError(
                "not-areas",
                "this is not a number of areas",
                where=Place(path="--areas"),
                found=text[:60],
                expected="NAME=NUMBER, such as LAU=68",
                remedy="correct --areas",
            )
        own[name] = int(digits)
    return programme.areas(country, own)


def level(text: str) -> float:
    """A confidence level as typed."""
    return float(exact(text, "--alpha"))


def _with(result: dict[str, object], drawn: list[Path]) -> dict[str, object]:
    return result | ({"plots": [str(path) for path in drawn]} if drawn else {})


def _say(drawn: list[Path]) -> None:
    for path in drawn:
        out.print(f"Drawn: {escape(str(path))}")
