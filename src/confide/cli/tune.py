"""``confide tune``: what budgets buy, before any is spent."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from confide.cli.show import Json, out, print_json, table, write
from confide.cli.tune_cellkey import cellkey
from confide.errors import Finding, ParameterError, Place
from confide.exact import exact
from confide.mechanisms.safetab.settings import GRIDS, ITERATION_LEVELS
from confide.mechanisms.safetab.tuning import (
    AccountingComparison,
    BudgetRule,
    LevelAnswer,
    LevelQuestion,
    TuningAnswer,
    TuningQuestion,
    compare,
    production_tuning,
    question_of,
    tune,
)
from confide.mechanisms.safetab.tuning.answer import by_budget, by_size
from confide.mechanisms.safetab.tuning.comparison import ACCOUNTINGS, STAGE_1
from confide.mechanisms.safetab.tuning.question import floor_margin
from confide.official_safetab import settings_of
from confide.privacy import Definition
from confide.report.charts import Chart, chart
from confide.report.render import fraction_up, up

# The answer of ``confide tune safetab`` on a terminal, and its pictures.


NAMES = {"USA": "nation", "AIANNH": "AIANNH", "PR-STATE": "Puerto Rico"}
NEIGHBOURS = {
    "unbounded": "one person more or fewer (unbounded)",
    "bounded": "one person's answers changed (bounded)",
}


def show_answer(answer: TuningAnswer) -> None:
    """What each level buys, where tables begin to be worth it, what suppression does, and what all of it costs."""
    question, alike = answer.question, _alike(answer.levels)
    noise = "discrete Gaussian" if question.definition is Definition.ZCDP else "two-sided geometric"
    out.print(
        f"[bold]SafeTab-P, {noise} noise.[/] A person is in up to {question.groups_per_person} groups of a level; "
        f"{_percent(float(question.stage_1_fraction))} of a level's budget chooses the table of a group.\n"
    )
    _show_levels(question, alike)
    _show_sizes(question, alike)
    _show_groups(question, alike)
    _show_totals(answer)


def _show_levels(question: TuningQuestion, alike: dict[str, LevelAnswer]) -> None:
    rows = []
    for title, level in alike.items():
        target, floor = level.level_question.target, floor_margin(level.stage_2)
        holds = "" if target is None else f"±{target:,} {'holds' if level.target_holds else 'DOES NOT HOLD'}"
        threshold = (
            "nothing" if level.level_question.is_large or level.threshold is None else f"up to {level.threshold:,}"
        )
        rows.append(
            (
                title,
                fraction_up(level.budget),
                f"±{level.margin:,}",
                "" if floor is None else f"±{floor:,}",
                holds,
                threshold,
            )
        )
    columns = ["level", f"{question.unit} ", "noise margin ", "⌊1.96σ⌋ ", "target ", "suppressed "]
    table(columns, rows, title="A released count is within its noise margin of the truth in 95 of 100 cases")
    out.print()


def _show_sizes(question: TuningQuestion, alike: dict[str, LevelAnswer]) -> None:
    rows = [(title, *(f"{size['cell']:,}" for size in level.sizes().values())) for title, level in alike.items()]
    columns = ["level", "total ", *(f"sex by {grid.ages} ages " for grid in GRIDS)]
    wanted = _percent(float(question.relative_error))
    table(columns, rows, title=f"Persons that a group needs for an average cell to have a margin of {wanted} of itself")
    out.print()


def _show_groups(question: TuningQuestion, alike: dict[str, LevelAnswer]) -> None:
    small = {title: level for title, level in alike.items() if not level.level_question.is_large}
    if not small or not question.zero_suppression or not question.sizes:
        return
    rows = []
    for title, level in small.items():
        found = [level.group_of(size) for size in question.sizes]
        rows.append(
            (title, *(f"{_chance(row['suppression_probability'])}, +{row['bias_if_released']:.1f}" for row in found))
        )
    chance = _percent(float(question.zero_suppression))
    columns = ["level", *(f"{size:,} persons " for size in question.sizes)]
    table(
        columns,
        rows,
        title=f"How often a group is suppressed, if {chance} of the empty ones are, and how much too high it is if not",
    )
    out.print()


def _show_totals(answer: TuningAnswer) -> None:
    question = answer.question
    named = {"all": answer.totals()} if len(answer.passes) == 1 else {}
    if not named:
        named = {name: answer.totals_of(name) for name in answer.passes} | {"all": answer.totals()}
    rows = []
    for name, both in named.items():
        for side, loss in both.items():
            what = NEIGHBOURS[side] if len(named) == 1 else f"{name}: {NEIGHBOURS[side]}"
            more = () if loss.epsilon is None else (up(loss.epsilon["canonne_kamath_steinke"], 2),)
            rows.append((what, fraction_up(loss.amount), *more))
    epsilon = () if question.definition is not Definition.ZCDP else (f"epsilon at delta {float(question.delta):g} ",)
    table(["what is compared", f"{question.unit} ", *epsilon], rows, title="The cost of all levels together")


def show_comparison(rows: Iterable[AccountingComparison], question: TuningQuestion) -> None:
    """Gaussian and geometric noise at the same margins."""
    shown = [
        (
            STAGE_1[row.stage_1],
            ACCOUNTINGS[row.accounting],
            up(row.gaussian, 2),
            up(row.geometric, 2),
            f"{100 * abs(row.saving):.1f} % {'less' if row.saving >= 0 else 'more'}",
        )
        for row in rows
    ]
    out.print()
    columns = ["stage 1", "accounting", "Gaussian ", "geometric ", "Gaussian costs "]
    table(columns, shown, title=f"Epsilon at delta {float(question.delta):g} for the same noise margins")


def draw(answer: TuningAnswer, folder: Path) -> list[Path]:
    """The three pictures as SVG files; those of suppression only if there is any."""
    pictures: dict[str, Callable[[], Chart]] = {
        "margin-by-budget.svg": lambda: chart("tune-margin-by-budget", by_budget(answer), unit=answer.question.unit)
    }
    if sizes := by_size(answer):
        rows = [row | {"curve": f"{row['budget']} (T = {row['threshold']:,})"} for row in sizes]
        pictures["suppression-by-size.svg"] = lambda: chart("tune-suppression-by-size", rows)
        pictures["bias-by-size.svg"] = lambda: chart("tune-bias-by-size", rows)
    return write(folder, pictures)


def _alike(levels: Iterable[LevelAnswer]) -> dict[str, LevelAnswer]:
    """One level for all that differ in their name alone, under a title that names them all; largest budgets first."""
    groups: dict[object, list[LevelAnswer]] = {}
    for level in levels:
        asked = level.level_question
        key = (asked.of_puerto_rico, asked.iteration_level, level.budget, asked.target, asked.is_large)
        groups.setdefault(key, []).append(level)
    ordered = sorted(
        groups.values(),
        key=lambda members: (
            members[0].level_question.of_puerto_rico,
            -members[0].budget,
            not members[0].level_question.is_large,
        ),
    )
    return {_title(members): members[0] for members in ordered}


def _title(levels: list[LevelAnswer]) -> str:
    names = [NAMES.get(level.level_question.region_type, level.level_question.region_type.lower()) for level in levels]
    names = [name.replace("pr-", "PR ") for name in names]
    return f"{', '.join(names)} ({ITERATION_LEVELS[levels[0].level_question.iteration_level]})"


def _percent(share: float) -> str:
    return f"{100 * share:.6g} %"


def _chance(probability: float) -> str:
    """A probability in per cent that never claims certainty."""
    if probability < 0.0005:
        return "under 0.1 %"
    return "over 99.9 %" if probability > 0.9995 else f"{100 * probability:.1f} %"


app = typer.Typer(help="Choose budgets: what they buy and what they cost. No records are read.", no_args_is_help=True)

_FORM = "REGION_TYPE:ITERATION_LEVEL=NUMBER, such as STATE:2=2.134"


@app.callback()
def group() -> None:
    """Choose budgets: what they buy and what they cost. No records are read."""


app.command()(cellkey)


@app.command()
def safetab(
    settings: Annotated[
        Path | None,
        typer.Option("--settings", metavar="FILE", help="Begin with those of a spec.toml, or of a config.json."),
    ] = None,
    level: Annotated[
        list[str] | None,
        typer.Option(metavar="REGION:LEVEL=BUDGET", help="A level with its budget, such as STATE:2=2.134; repeatable."),
    ] = None,
    moe: Annotated[
        list[str] | None,
        typer.Option(metavar="REGION:LEVEL=PERSONS", help="A level with its target margin, as STATE:2=3; repeatable."),
    ] = None,
    add: Annotated[
        bool, typer.Option("--add", help="Change or add these levels; the others stay those of 2020. Budget 0: none.")
    ] = False,
    from_targets: Annotated[
        bool, typer.Option("--from-targets", help="For the levels of 2020: find budgets from the published targets.")
    ] = False,
    definition: Annotated[
        str | None, typer.Option(show_default="zcdp", help="zcdp (discrete Gaussian) or pure (two-sided geometric).")
    ] = None,
    gamma: Annotated[str | None, typer.Option(show_default="0.1", help="The share of stage 1.")] = None,
    race_codes: Annotated[
        int | None, typer.Option(show_default="8", help="How many race codes of a person count.")
    ] = None,
    stability: Annotated[
        int | None, typer.Option(help="Groups of a level that a person can be in, if unusual.")
    ] = None,
    suppression: Annotated[
        str | None, typer.Option(show_default="0.9999", help="The probability of suppressing a true zero.")
    ] = None,
    relative_error: Annotated[
        str, typer.Option(help="The largest relative error of a cell that is accepted.")
    ] = "0.05",
    size: Annotated[list[int] | None, typer.Option(help="A size of a group to look at; repeatable.")] = None,
    delta: Annotated[str, typer.Option(help="The delta at which epsilon is stated.")] = "1e-10",
    rule: Annotated[
        BudgetRule, typer.Option(help="From target to budget: the paper's formula, or the smallest that holds.")
    ] = BudgetRule.formula,
    decimals: Annotated[int, typer.Option(help="Decimals of a budget that is found.")] = 3,
    puerto_rico: Annotated[bool, typer.Option("--puerto-rico", help="The Puerto Rico levels of 2020 as well.")] = False,
    comparison: Annotated[
        bool, typer.Option("--compare", help="Compare with geometric noise that is as accurate.")
    ] = False,
    plots: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Draw suppression, bias and margins into this folder (SVG).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Budgets and noise margins of a SafeTab-P release, either from the other; suppression, bias, and the total.

    Without options: the production settings of the 2020 Census, United States.
    """
    if settings is None:
        kind = _definition(definition or "zcdp")
        by = "target" if from_targets or kind is Definition.PURE else "budget"
        begin = production_tuning(puerto_rico=puerto_rico, by=by)
    else:
        begin = question_of(settings_of(settings))
        kind = begin.definition if definition is None else _definition(definition)
    question = replace(
        begin,
        definition=kind,
        levels=_levels(level or [], moe or [], begin.levels if add or not (level or moe) else ()),
        stage_1_fraction=begin.stage_1_fraction if gamma is None else exact(gamma, "gamma"),
        max_race_codes=begin.max_race_codes if race_codes is None else race_codes,
        zero_suppression=begin.zero_suppression if suppression is None else exact(suppression, "suppression"),
        relative_error=exact(relative_error, "relative error"),
        sizes=tuple(size) if size else begin.sizes,
        delta=exact(delta, "delta"),
        rule=rule,
        decimals=decimals,
        stability=stability,
    )
    answer = tune(question)
    compared = compare(answer) if comparison else None
    drawn = None if plots is None else draw(answer, plots)
    if as_json:
        result = answer.as_dict()
        if compared is not None:
            result["comparison"] = [row.as_dict() for row in compared]
        if drawn is not None:
            result["plots"] = [str(path) for path in drawn]
        print_json(result)
        return
    show_answer(answer)
    if compared is not None:
        show_comparison(compared, question)
    for path in drawn or ():
        out.print(f"Drawn: {escape(str(path))}")


def _definition(text: str) -> Definition:
    if text in (Definition.ZCDP, Definition.PURE):
        return Definition(text)
    raise ParameterError(
        "unknown-definition",
        "this is not a definition that SafeTab-P has noise for",
        where=Place(path="--definition"),
        found=text[:40],
        expected="zcdp or pure",
        remedy="correct --definition",
    )


def _levels(budgets: list[str], targets: list[str], begin: tuple[LevelQuestion, ...]) -> tuple[LevelQuestion, ...]:
    """The levels that were typed, on top of those to begin with; every mistake is reported."""
    findings: list[Finding] = []
    given: dict[tuple[str, int], LevelQuestion] = {}
    thresholds = {(level.region_type, level.iteration_level): level.thresholds for level in begin}
    for option, texts in (("level", budgets), ("moe", targets)):
        for text in texts:
            try:
                key, number = _parsed(option, text)
            except ParameterError as error:
                findings += error.findings
                continue
            if key in given:
                findings.append(_twice(key, given[key], option))
            elif option == "level":
                given[key] = LevelQuestion(*key, number, None, thresholds.get(key))
            else:
                given[key] = LevelQuestion(*key, None, int(number), thresholds.get(key))
    if findings:
        raise ParameterError(findings)
    kept = {(level.region_type, level.iteration_level): level for level in begin} | given
    return tuple(level for level in kept.values() if level.budget is None or level.budget != 0)


def _parsed(option: str, text: str) -> tuple[tuple[str, int], Fraction]:
    name, equals, number = text.partition("=")
    region_type, colon, iteration_level = name.strip().rpartition(":")
    whole = iteration_level.isascii() and iteration_level.isdigit() and len(iteration_level) < 9
    value = exact(number, f"--{option} {name[:40]}") if equals and colon and whole else None
    if value is None or (option == "moe" and value.denominator != 1):
        raise ParameterError(
            "not-a-level",
            "this is not a level with a number",
            where=Place(path=f"--{option}"),
            found=text[:60],
            expected=_FORM if option == "level" else "REGION_TYPE:ITERATION_LEVEL=PERSONS, such as STATE:2=3",
            remedy=f"correct --{option}",
        )
    return (region_type.upper(), int(iteration_level)), value


def _twice(key: tuple[str, int], before: LevelQuestion, option: str) -> Finding:
    both = (before.target is None) is (option == "moe")
    return Finding(
        code="budget-and-target" if both else "level-twice",
        what="a level has both a budget and a target margin" if both else "a level is given twice",
        where=Place(path=f"--{option}"),
        found=f"{key[0]}:{key[1]}",
        expected="a budget or a target for each level, once; each determines the other",
        remedy="leave one of them out",
    )
