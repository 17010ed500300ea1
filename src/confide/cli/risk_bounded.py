"""``confide risk bound|averaging|areas``: what bounded noise gives away, before anything is published."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from confide.cli import risk_show
from confide.cli.pictures import Plots
from confide.cli.show import Json, out, print_json
from confide.errors import Finding, ParameterError, Place
from confide.exact import exact
from confide.risk.bounded_noise.averaging import Count, Optimum, Single, parse_target, representations, triples
from confide.risk.bounded_noise.bound import bound_risk
from confide.risk.bounded_noise.programme import Programme, Rule, load_programme
from confide.risk.bounded_noise.small_areas import distortions, epsilon_for_bound, exceedance
from confide.risk.bounded_noise.success import LEVEL

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
    Rule, typer.Option("--rule", help="Count the finest levels alone, or inner levels of breakdowns too.")
]


def bound(
    largest: Annotated[int, typer.Option("-D", "--bound", help="The largest noise.")],
    variance: Annotated[str, typer.Option("-V", "--variance", help="The variance of the noise.")],
    alpha: Alpha = str(LEVEL),
    programme: ProgrammeName = "eu-2021",
    country: Country = None,
    areas: Areas = None,
    unit: Unit = None,
    rule: RuleOption = Rule.INNER_LEVELS,
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
        count = Count(rule, same_noise=True, single=Single.MERGE, unit=unit)
        available = triples(chosen, areas_of(chosen, country, areas), count)
    drawn = [] if plots is None else risk_show.draw_bound(plots, available, risk.level)
    if as_json:
        result = risk.as_dict() | {
            "triples": available,
            "revealed": risk.revealed(available),
            "triples_given_away": risk.expected_exact(available),
        }
        print_json(_with(result, drawn))
        return
    risk_show.show_bound(risk, available)
    _say(drawn)


def averaging(
    programme: ProgrammeName = "eu-2021",
    rule: RuleOption = Rule.PLAIN,
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
        "with_spsn": Count(rule, same_noise=True, single=single, unit=unit),
        "without_spsn": Count(rule, same_noise=False, unit=unit),
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
    rows = risk_show.averaging_rows(found, optimum, confidence)
    drawn = [] if plots is None else risk_show.draw_averaging(plots, rows, confidence)
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
    risk_show.show_averaging(chosen, rows, rule, numbers, top, confidence)
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
    sizes = [] if populations is None else risk_show.read_sizes(populations)
    chosen = load_programme(programme)
    if number is None:
        number = len(sizes) or chosen.areas(country).get(chosen.geography[-1] if chosen.geography else "", 1)
    rows = [row.as_dict() for row in distortions(sizes, epsilons)] if sizes else []
    drawn = [] if plots is None else risk_show.draw_areas(plots, rows, chosen, number, bound, confidence)
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
    risk_show.show_areas(number, bound, needed, chances, rows, confidence)
    _say(drawn)


def areas_of(programme: Programme, country: str | None, texts: list[str] | None) -> dict[str, int]:
    """The numbers of areas, from a country and from NAME=NUMBER as typed."""
    own: dict[str, int] = {}
    for text in texts or ():
        name, equals, digits = text.partition("=")
        if not equals or not (digits.isascii() and digits.isdigit() and 0 < len(digits) < 10 and int(digits)):
            raise ParameterError(
                Finding(
                    code="not-areas",
                    what="this is not a number of areas",
                    where=Place(path="--areas"),
                    found=text[:60],
                    expected="NAME=NUMBER, such as LAU=68",
                    remedy="correct --areas",
                )
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
