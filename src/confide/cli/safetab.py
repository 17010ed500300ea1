"""``confide safetab``: the Census Bureau's program, as its operators know it, and what budgets buy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from confide import official_safetab
from confide.cli.requests import Given, command
from confide.cli.show import Json, err, out, print_json, show_findings, table
from confide.errors import Finding, ParameterError, Place
from confide.exact import exact, fraction_up, up
from confide.mechanisms.safetab.settings import GRIDS, ITERATION_LEVELS, TOTAL_TABLE
from confide.mechanisms.safetab.tuning import (
    LevelTuning,
    NoiseCostComparison,
    ReleaseTuning,
    TuningQuestion,
    safetab_tuning,
)
from confide.mechanisms.safetab.tuning.answer import by_budget, by_size
from confide.mechanisms.safetab.tuning.question import floor_margin
from confide.official_safetab import settings_of
from confide.privacy import Definition
from confide.report.charts import Chart, chart

LedgerFile = Annotated[
    Path | None,
    typer.Option("--ledger", help="The ledger of the data set. Without it, one is opened with this run's budget."),
]


def _show_validation(answer: official_safetab.Validation) -> None:
    show_findings(answer.findings)
    if answer.ok:
        out.print("[bold green]No problems found.[/] Nothing was spent.")


def _show_execution(answer: official_safetab.Execution, ledger: Path | None) -> None:
    show_findings(answer.warnings)
    if answer.run.was_sealed_before:
        out.print("This run was sealed before. Nothing was done and nothing was charged.")
    if answer.infinite:
        err.print(
            "[bold yellow]NOT FOR RELEASE[/]: a budget is infinite, so counts are published as they are. "
            "Every file says so."
        )
    else:
        ((name, number),) = answer.run.plan.loss.parameters().items()
        out.print(f"cost      {name} = {fraction_up(number)} ({answer.run.plan.neighbours.value})")
    if ledger is None:
        out.print("ledger    a new one; to charge the ledger of the data set, name it with --ledger")
    out.print(f"tables    {escape(str(answer.folder))}")
    out.print(f"kept      {escape(str(answer.private))}  (confidential: key, counts and spec)")


FOLDERS: dict[str, Given | str] = {"parameters": "PARAMETERS", "data": "DATA", "memory": Given(default="4GiB")}
validate = command(
    "Find every problem of an official input at once. Nothing is written and nothing spent; exits 1 on findings.",
    official_safetab.validate,
    _show_validation,
    options=FOLDERS,
)
execute = command(
    """Make the tables of an official input. On invalid input nothing is written, and the exit code is 1.

    OUT holds what may be published and nothing else. Key, counts and ledger are kept beside it, in OUT-confidential.
    After a crash, run the same command again: it continues and costs nothing more.
    """,
    official_safetab.execute,
    _show_execution,
    options={**FOLDERS, "out": "OUT"},
)


def convert(
    parameters: Annotated[Path, typer.Argument(metavar="PARAMETERS", help="The folder with config.json.")],
    data: Annotated[Path, typer.Argument(metavar="DATA", help="The folder with person-records and GRF-C.")],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where to write spec.toml.")],
    ledger: LedgerFile = None,
    as_json: Json = False,
) -> None:
    """Write a spec of ours for an official input, from its config.json; with a ledger of its budget."""
    spec = official_safetab.convert(parameters, data, folder, ledger=ledger)
    if as_json:
        print_json({"ok": True, "spec": str(spec)})
    else:
        out.print(escape(f"Wrote {spec}. Then: confide check {spec}"))


# The answer of ``confide safetab tune`` on a terminal, and its pictures.


NAMES = {"USA": "nation", "AIANNH": "AIANNH", "PR-STATE": "Puerto Rico"}
NEIGHBOURS = {
    "unbounded": "one person more or fewer (unbounded)",
    "bounded": "one person's answers changed (bounded)",
}


def show_tuning(answer: safetab_tuning.SafeTabTuning) -> None:
    """The tuning of a release and, if asked for, what geometric noise would cost."""
    show_release(answer.release)
    if answer.comparison is not None:
        show_comparison(answer.comparison, answer.question)


def show_release(answer: ReleaseTuning) -> None:
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


def _show_levels(question: TuningQuestion, alike: dict[str, LevelTuning]) -> None:
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
                ", ".join(f"±{margin:,}" for name, margin in level.total_margins.items() if name != TOTAL_TABLE),
                "" if floor is None else f"±{floor:,}",
                holds,
                threshold,
            )
        )
    columns = ["level", f"{question.unit} ", "a count ", "totals of tables ", "⌊1.96σ⌋ ", "target ", "suppressed "]
    ages = ", ".join(str(grid.ages) for grid in GRIDS[:-1]) + f" or {GRIDS[-1].ages}"
    table(columns, rows, title="Noise is within these margins in 95 of 100 cases")
    out.print(
        "A count is a cell of a table, or a total that stands alone; targets are for counts. The total of a group with "
        f"sex by {ages} ages is the sum of its noisy cells: its margin is one of the wider three.\n"
    )


def _show_sizes(question: TuningQuestion, alike: dict[str, LevelTuning]) -> None:
    rows = [(title, *(f"{size['cell']:,}" for size in level.sizes().values())) for title, level in alike.items()]
    columns = ["level", "total ", *(f"sex by {grid.ages} ages " for grid in GRIDS)]
    wanted = _percent(float(question.relative_error))
    table(columns, rows, title=f"Persons that a group needs for an average cell to have a margin of {wanted} of itself")
    out.print()


def _show_groups(question: TuningQuestion, alike: dict[str, LevelTuning]) -> None:
    small = {title: level for title, level in alike.items() if not level.level_question.is_large}
    if not small or not question.zero_suppression or not question.sizes:
        return
    rows = []
    for title, level in small.items():
        groups = [level.group_of(size) for size in question.sizes]
        rows.append(
            (title, *(f"{_chance(row['suppression_probability'])}, +{row['bias_if_released']:.1f}" for row in groups))
        )
    _show_published(small)
    chance = _percent(float(question.zero_suppression))
    columns = ["level", *(f"{size:,} persons " for size in question.sizes)]
    table(
        columns,
        rows,
        title=f"How often a group is suppressed, if {chance} of the empty ones are, and how much too high it is if not",
    )
    out.print()


def _show_published(small: dict[str, LevelTuning]) -> None:
    rows = []
    for title, level in small.items():
        explained = [(figure, *level.interval_of(figure)) for figure in level.shown_figures]
        means = [f"{figure:,}: {low:,} to {high:,}" for figure, low, high in explained]
        rows.append((title, *means, *[""] * (4 - len(means))))
    columns = ["level", "the smallest ", "", "", "as if all were shown "]
    table(columns, rows, title="What a published total that stands alone means: the true count, in 95 of 100 cases")
    out.print()


def _show_totals(answer: ReleaseTuning) -> None:
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


def show_comparison(rows: Iterable[NoiseCostComparison], question: TuningQuestion) -> None:
    """Gaussian and geometric noise at the same margins."""
    costs = [
        (
            safetab_tuning.STAGE_1[row.stage_1],
            safetab_tuning.ACCOUNTINGS[row.accounting],
            up(row.gaussian, 2),
            up(row.geometric, 2),
            f"{100 * abs(row.saving):.1f} % {'less' if row.saving >= 0 else 'more'}",
        )
        for row in rows
    ]
    out.print()
    columns = ["stage 1", "accounting", "Gaussian ", "geometric ", "Gaussian costs "]
    table(columns, costs, title=f"Epsilon at delta {float(question.delta):g} for the same noise margins")


def pictures(answer: ReleaseTuning) -> dict[str, Callable[[], Chart]]:
    """The three pictures; those of suppression only if there is any."""
    drawn: dict[str, Callable[[], Chart]] = {
        "margin-by-budget": lambda: chart("tune-margin-by-budget", by_budget(answer), unit=answer.question.unit)
    }
    if sizes := by_size(answer):
        rows = [row | {"curve": f"{row['budget']} (T = {row['threshold']:,})"} for row in sizes]
        drawn["suppression-by-size"] = lambda: chart("tune-suppression-by-size", rows)
        drawn["bias-by-size"] = lambda: chart("tune-bias-by-size", rows)
    return drawn


def _alike(levels: Iterable[LevelTuning]) -> dict[str, LevelTuning]:
    """One level for all that differ in their name alone, under a title that names them all; largest budgets first."""
    groups: dict[object, list[LevelTuning]] = {}
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


def _title(levels: list[LevelTuning]) -> str:
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


def _levels(
    budget_texts: Sequence[str], target_texts: Sequence[str]
) -> tuple[dict[safetab_tuning.LevelKey, Fraction], dict[safetab_tuning.LevelKey, int]]:
    """Budgets and targets of levels as typed; every mistake is reported."""
    findings: list[Finding] = []
    budgets: dict[safetab_tuning.LevelKey, Fraction] = {}
    targets: dict[safetab_tuning.LevelKey, int] = {}
    for option, texts in (("level", budget_texts), ("moe", target_texts)):
        for text in texts:
            try:
                key, number = _parsed(option, text)
            except ParameterError as error:
                findings += error.findings
                continue
            if key in budgets or key in targets:
                findings.append(
                    Finding.of(
                        "budget-and-target/level-determines"
                        if (key in targets) is not (option == "moe")
                        else "level-twice/budget",
                        where=Place(path=f"--{option}"),
                        both=(key in targets) is not (option == "moe"),
                        key=key[0],
                        key_found=key[1],
                    )
                )
            elif option == "level":
                budgets[key] = number
            else:
                targets[key] = int(number)
    if findings:
        raise ParameterError(findings)
    return budgets, targets


def _parsed(option: str, text: str) -> tuple[safetab_tuning.LevelKey, Fraction]:
    name, equals, number = text.partition("=")
    region_type, colon, iteration_level = name.strip().rpartition(":")
    numbered = iteration_level.isascii() and iteration_level.isdigit() and len(iteration_level) < 9
    value = exact(number, f"--{option} {name[:40]}") if equals and colon and numbered else None
    if value is None or (option == "moe" and value.denominator != 1):
        raise ParameterError(
            "not-a-level", where=Place(path=f"--{option}"), found=text[:60], is_level=option == "level", option=option
        )
    return (region_type.upper(), int(iteration_level)), value


def _by_level(values: dict[str, Any]) -> None:
    values["budgets"], values["targets"] = _levels(values.get("budgets", ()), values.get("targets", ()))


tune = command(
    """Budgets and noise margins of a SafeTab-P release, either from the other; suppression, bias, and the total.

    Without options: the production settings of the 2020 Census, United States.
    """,
    safetab_tuning.tune_safetab,
    show_tuning,
    settings="add from_targets definition gamma race_codes stability suppression relative_error sizes delta rule "
    "decimals puerto_rico compare",
    options={
        "settings": Given("--settings FILE", settings_of, Path, "Begin with those of a spec.toml or a config.json."),
        "budgets": Given("--level REGION:LEVEL=BUDGET", list, None, "A level with its budget, such as STATE:2=2.134."),
        "targets": Given("--moe REGION:LEVEL=PERSONS", list, None, "A level with its target margin, as STATE:2=3."),
        "definition": Given(kind=str),
        "sizes": "--size",
    },
    prepare=_by_level,
    pictures=lambda answer, _: pictures(answer.release),
)
