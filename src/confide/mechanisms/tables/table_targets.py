"""``confide tune tables``: from noise margins to the shares of tables and levels.

A target says which noise margin the counts of a table have on a level, in words: ``margin <= 10 in county`` for every
table, ``age-by-sex <= 5 in tract, place @90%`` for one. Every cross-classification that a table measures there needs
the loss of the widest noise with that margin; so a table with k of them needs k times that loss. What a total leaves is
shared by tables and levels without a target, in their present proportions; where all have one, all get more.

Shares are exact: weights of tables, and of levels within each table, that sum to one to the last digit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from confide.answers import TypedAnswer
from confide.engines import LocalEngine
from confide.engines.groups import write_text
from confide.errors import Finding, ParameterError, Place
from confide.exact import Exact, positive
from confide.inputs.made_up import nobody
from confide.mechanisms.tables.mechanism import Tables
from confide.mechanisms.tables.programme import TablesProblem, level_weight, plan_programme
from confide.mechanisms.tables.spec import LAWS, TablesSpec
from confide.noise.fitting import NoiseKind, of_margin
from confide.privacy import ZCDP, Definition, Neighbours, PureDP, event_of_noise, price
from confide.releases.check import throwaway_workspace
from confide.releases.draft import relocated_values, there_already, toml_text
from confide.releases.spec import LoadedSpec, load_spec
from confide.utility.target_words import TargetWords, bad_target, nearest, split_target

MARGIN = "margin"
"""The word for the noise margin of every table."""


@dataclass(frozen=True)
class TableShare:
    """What a table has on one level, before and after."""

    table: str
    level: str
    target: TargetWords | None
    measurements: int
    """How many cross-classifications it measures there."""
    present: Fraction
    """Its share of the budget of the spec."""
    share: Fraction
    """Its share of the total."""
    loss: Fraction
    """What one cross-classification spends."""
    margin: int
    """The largest noise margin of its counts, at the target's probability."""

    def as_dict(self) -> dict[str, Any]:
        return {
            "table": self.table,
            "level": self.level,
            "target": None if self.target is None else self.target.text,
            "measurements": self.measurements,
            "present_share": str(self.present),
            "share": str(self.share),
            "loss_of_one": str(self.loss),
            "margin": self.margin,
        }


@dataclass(frozen=True)
class TablesFromTargets(TypedAnswer):
    """Shares of tables and levels that meet the targets."""

    spec: Path
    definition: str
    total: Fraction
    """What the release spends."""
    needed: Fraction
    """What tables and levels with a target need."""
    rows: tuple[TableShare, ...]
    written: Path | None

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``; the keys are listed in ``docs/concepts/tuning.md``."""
        return {
            "ok": True,
            "spec": str(self.spec),
            "definition": self.definition,
            "total": str(self.total),
            "total_decimal": float(self.total),
            "needed": str(self.needed),
            "needed_decimal": float(self.needed),
            "shares": [row.as_dict() for row in self.rows],
            "written": None if self.written is None else str(self.written),
            "charged": None,
        }


def tune_tables(
    spec: str | Path, targets: Sequence[str], *, total: Exact | None = None, out: str | Path | None = None
) -> TablesFromTargets:
    """Shares of tables and levels from noise margins. Nothing is spent, and no record is read.

    Args:
        spec: A spec of the mechanism ``tables``, in zCDP or pure differential privacy.
        targets: In words, such as ``margin <= 10 in county``, or with the name of a table in place of ``margin``.
        total: What the release spends; by default what the targets need, beside what all others have now.
        out: A new file for the spec with these shares.

    Returns:
        The shares, exactly, and the margins that they give.
    """
    loaded = load_spec(Path(spec), {"tables": TablesSpec})
    if out is not None and Path(out).exists():
        raise there_already(Path(out), "a file of this name")
    if not targets:
        raise _refused("no-target", "there is nothing to tune for", "no --target", "a target", "give --target")
    with throwaway_workspace() as scratch, LocalEngine(scratch.scratch, processes=1) as engine:
        problem = Tables().prepare(loaded.with_data(records=str(nobody(scratch.root))), engine)
    _check_definition(problem.spec)
    wanted = _wanted(targets, problem)
    amount = None if total is None else positive(total, "total")
    shares, needed, spent = _shares(problem, wanted, amount)
    values = _changed(loaded, problem, shares, spent, Path(out) if out is not None else loaded.path)
    if out is not None:
        write_text(Path(out), f"# Shares by `confide tune tables`: {'; '.join(targets)}.\n\n{toml_text(values)}")
    rows = _rows(problem, wanted, shares, spent)
    return TablesFromTargets(
        loaded.path, problem.spec.privacy.definition, spent, needed, rows, None if out is None else Path(out)
    )


Cell = tuple[str, str]
"""A table and a level."""


def _check_definition(spec: TablesSpec) -> None:
    if spec.privacy.definition == Definition.APPROXIMATE.value:
        found, expected = "approximate", "zcdp or pure, where losses add up"
        raise _refused("definition", "shares are tuned where losses add up", found, expected, "take zcdp")
    if spec.noise.variance is not None or spec.noise.margin is not None:
        what, found = (
            "every count has the same noise by this spec, whatever the shares are",
            "[noise] variance or margin",
        )
        raise _refused("noise-twice", what, found, "noise that follows from the budget", "remove it")


def _wanted(targets: Sequence[str], problem: TablesProblem) -> dict[Cell, TargetWords]:
    """For each table and level its target; of several the one with the smallest margin."""
    names = [table.name for table in problem.tables]
    levels = list(dict.fromkeys(level.name for table in problem.tables for level in table.levels))
    result: dict[Cell, TargetWords] = {}
    findings: list[Finding] = []
    for text in targets:
        try:
            words = split_target(text)
            if words.unit or words.least or words.limit.denominator != 1:
                what, expected = "a noise margin is a whole number, and the same in all areas", "such as margin <= 10"
                raise bad_target(text, what, words.amount, expected)
            if words.statistic not in (MARGIN, *names):
                expected = f"{MARGIN!r} for all tables, or one of " + ", ".join(names)
                near = nearest(words.statistic, (MARGIN, *names))
                raise bad_target(text, "there is no such table", words.statistic, expected, near)
            for kind in words.kinds:
                if kind not in levels:
                    expected = "one of " + ", ".join(levels)
                    raise bad_target(text, f"no table has the level {kind!r}", kind, expected, nearest(kind, levels))
                cells = [
                    (table.name, kind)
                    for table in problem.tables
                    if words.statistic in (MARGIN, table.name) and kind in [level.name for level in table.levels]
                ]
                if not cells:
                    what = f"the table {words.statistic!r} is not published for {kind!r}"
                    raise bad_target(text, what, kind, "a level of the table")
                for cell in cells:
                    if cell not in result or _loss(problem, words) > _loss(problem, result[cell]):
                        result[cell] = words
        except ParameterError as error:
            findings += error.findings
    if findings:
        raise ParameterError(findings)
    return result


def _loss(problem: TablesProblem, words: TargetWords) -> Fraction:
    """What one cross-classification spends for the widest noise with this margin."""
    privacy = problem.spec.privacy
    definition, neighbours = Definition(privacy.definition), Neighbours(privacy.neighbours)
    kind = NoiseKind(problem.spec.noise.law or LAWS[privacy.definition][0])
    law = of_margin(kind, int(words.limit), words.chance)
    loss = price(event_of_noise(law), neighbours, definition)  # type: ignore[arg-type]
    assert isinstance(loss, ZCDP | PureDP)
    return loss.rho if isinstance(loss, ZCDP) else loss.epsilon


def _shares(
    problem: TablesProblem, wanted: Mapping[Cell, TargetWords], total: Fraction | None
) -> tuple[dict[Cell, Fraction], Fraction, Fraction]:
    """For each table and level its share of the total; what targets need; and the total."""
    budget = problem.spec.privacy.budget
    present, number = _present(problem), {table.name: len(table.margins) for table in problem.tables}
    need = {cell: number[cell[0]] * _loss(problem, words) for cell, words in wanted.items()}
    needed = sum(need.values(), Fraction(0))
    others = {cell: share for cell, share in present.items() if cell not in need}
    spent = needed + budget * sum(others.values(), Fraction(0)) if total is None else total
    if needed > spent or (needed == spent and others):
        raise _refused(
            "targets-too-dear",
            "the targets need more than the total" if needed > spent else "the targets leave nothing for other tables",
            f"{float(needed):.6g} for tables and levels with a target",
            f"less than {spent} ({float(spent):.6g})" if others else f"at most {spent}",
            "give a larger --total, or wider margins",
        )
    rest = spent - needed
    if others:
        open_shares = sum(others.values(), Fraction(0))
        for_others = {cell: rest * share / open_shares for cell, share in others.items()}
    else:
        for_others = {}
        need = {cell: loss * spent / needed for cell, loss in need.items()}
    losses = need | for_others
    result = {cell: losses[cell] / spent for cell in present}
    assert sum(result.values()) == 1
    return result, needed, spent


def _present(problem: TablesProblem) -> dict[Cell, Fraction]:
    result = {}
    every = sum((table.weight for table in problem.tables), Fraction(0))
    for table in problem.tables:
        weights = {level.name: level_weight(problem.spec, table.name, level.name) for level in table.levels}
        for level, weight in weights.items():
            result[table.name, level] = table.weight / every * weight / sum(weights.values())
    return result


def _changed(
    loaded: LoadedSpec, problem: TablesProblem, shares: Mapping[Cell, Fraction], total: Fraction, file: Path
) -> dict[str, Any]:
    """The values of the spec with these shares and this budget."""
    values = relocated_values(loaded, file.parent)
    values["privacy"] = dict(values["privacy"]) | {"budget": str(total)}
    values["tables"] = [
        dict(part)
        | {
            "weight": str(sum((shares[table.name, level.name] for level in table.levels), Fraction(0))),
            "level_weights": {level.name: str(shares[table.name, level.name]) for level in table.levels},
        }
        for part, table in zip(values["tables"], problem.tables, strict=True)
    ]
    return values


def _rows(
    problem: TablesProblem, wanted: Mapping[Cell, TargetWords], shares: Mapping[Cell, Fraction], total: Fraction
) -> tuple[TableShare, ...]:
    """Every table and level with the margin that it will have, from the plan itself."""
    privacy = problem.spec.privacy.model_copy(update={"budget": total})
    weights = {
        table.name: sum((shares[table.name, level.name] for level in table.levels), Fraction(0))
        for table in problem.tables
    }
    parts = [
        part.model_copy(
            update={
                "weight": weights[part.name],
                "level_weights": {level: shares[part.name, level] for level in part.levels},
            }
        )
        for part in problem.spec.tables
    ]
    spec = problem.spec.model_copy(update={"privacy": privacy, "tables": parts})
    tables = tuple(replace(table, weight=weights[table.name]) for table in problem.tables)
    changed = replace(problem, spec=spec, tables=tables)
    plan, present = plan_programme(changed), _present(problem)
    rows = []
    for table in changed.tables:
        for level in table.levels:
            words = wanted.get((table.name, level.name))
            chance = spec.output.noise_margin or Fraction(19, 20) if words is None else words.chance
            laws = [plan.measure(level.name, changed.query_key(table, margin)).law for margin in table.margins]
            cell = (table.name, level.name)
            one = total * shares[cell] / len(table.margins)
            margin = max(law.noise_margin(chance) for law in laws)
            rows.append(TableShare(*cell, words, len(table.margins), present[cell], shares[cell], one, margin))
    return tuple(rows)


def _refused(code: str, what: str, found: str, expected: str, remedy: str) -> ParameterError:
    return ParameterError(code, what, Place(path="tune tables"), found, expected, remedy)
