"""The answer of ``confide tune safetab`` on a terminal, and its pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from confide.cli.pictures import write
from confide.cli.show import out, table
from confide.privacy import Definition
from confide.report import safetab_plots
from confide.report.render import fraction_up, up
from confide.safetab.grids import GRIDS
from confide.safetab.settings import ITERATION_LEVELS
from confide.safetab.tuning import Answer, Comparison, LevelAnswer, Question
from confide.safetab.tuning.comparison import ACCOUNTINGS, STAGE_1
from confide.safetab.tuning.curves import by_budget, by_size
from confide.safetab.tuning.laws import floor_margin

NAMES = {"USA": "nation", "AIANNH": "AIANNH", "PR-STATE": "Puerto Rico"}
NEIGHBOURS = {
    "unbounded": "one person more or fewer (unbounded)",
    "bounded": "one person's answers changed (bounded)",
}


def show(answer: Answer) -> None:
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


def _show_levels(question: Question, alike: dict[str, LevelAnswer]) -> None:
    rows = []
    for title, level in alike.items():
        target, floor = level.asked.target, floor_margin(level.stage_2)
        holds = "" if target is None else f"±{target:,} {'holds' if level.target_holds else 'DOES NOT HOLD'}"
        threshold = "nothing" if level.asked.is_large or level.threshold is None else f"up to {level.threshold:,}"
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


def _show_sizes(question: Question, alike: dict[str, LevelAnswer]) -> None:
    rows = [(title, *(f"{size['cell']:,}" for size in level.sizes().values())) for title, level in alike.items()]
    columns = ["level", "total ", *(f"sex by {grid.ages} ages " for grid in GRIDS)]
    wanted = _percent(float(question.relative_error))
    table(columns, rows, title=f"Persons that a group needs for an average cell to have a margin of {wanted} of itself")
    out.print()


def _show_groups(question: Question, alike: dict[str, LevelAnswer]) -> None:
    small = {title: level for title, level in alike.items() if not level.asked.is_large}
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


def _show_totals(answer: Answer) -> None:
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


def show_comparison(rows: Iterable[Comparison], question: Question) -> None:
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


def draw(answer: Answer, folder: Path) -> list[Path]:
    """The three pictures as SVG files; those of suppression only if there is any."""
    pictures: dict[str, Callable[[], str]] = {
        "margin-by-budget.svg": lambda: safetab_plots.margin_by_budget(by_budget(answer), answer.question.unit)
    }
    if sizes := by_size(answer):
        pictures["suppression-by-size.svg"] = lambda: safetab_plots.suppression_by_size(sizes)
        pictures["bias-by-size.svg"] = lambda: safetab_plots.bias_by_size(sizes)
    return write(folder, pictures)


def _alike(levels: Iterable[LevelAnswer]) -> dict[str, LevelAnswer]:
    """One level for all that differ in their name alone, under a title that names them all; largest budgets first."""
    groups: dict[object, list[LevelAnswer]] = {}
    for level in levels:
        asked = level.asked
        key = (asked.of_puerto_rico, asked.iteration_level, level.budget, asked.target, asked.is_large)
        groups.setdefault(key, []).append(level)
    ordered = sorted(
        groups.values(),
        key=lambda members: (members[0].asked.of_puerto_rico, -members[0].budget, not members[0].asked.is_large),
    )
    return {_title(members): members[0] for members in ordered}


def _title(levels: list[LevelAnswer]) -> str:
    names = [NAMES.get(level.asked.region_type, level.asked.region_type.lower()) for level in levels]
    names = [name.replace("pr-", "PR ") for name in names]
    return f"{', '.join(names)} ({ITERATION_LEVELS[levels[0].asked.iteration_level]})"


def _percent(share: float) -> str:
    return f"{100 * share:.6g} %"


def _chance(probability: float) -> str:
    """A probability in per cent that never claims certainty."""
    if probability < 0.0005:
        return "under 0.1 %"
    return "over 99.9 %" if probability > 0.9995 else f"{100 * probability:.1f} %"
