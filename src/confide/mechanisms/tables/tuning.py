"""The board of a programme of tables: what its budget buys, and what accuracy costs, before any is spent.

A *row* is a table on one of its levels. It has a part of the budget, b, and of that each of the m margins of the table
takes b/m; so the noise of its cells, and their noise margin, follow from b alone (pooled, from the parts of all tables
that contain the cross-classification). What follows from what: :mod:`confide.releases.boards`. In the spec the
parts are the weights of tables and of their levels.

**Targets in words** (``confide tune SPEC --target``) say which noise margin the counts of a table have on a level:
``margin <= 10 in county`` for every table, ``age-by-sex <= 5 in tract, place @90%`` for one. Every cross-classification
that a table measures there needs the loss of the widest noise with that margin; so a table with k of them needs k times
that loss. What a total leaves is shared by rows without a target, in their present proportions; where all rows have
one, all get more. These parts are exact fractions.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, ClassVar

from confide.answers import AnswerPart, ShownTable, TypedAnswer
from confide.errors import Finding, ParameterError, Place, RunError
from confide.exact import Exact, exact_text, positive
from confide.file_system import write_text
from confide.mechanisms.tables.mechanism import Tables
from confide.mechanisms.tables.programme import LAWS, MeasuredTable, TablesProblem, TablesSpec, level_weight
from confide.noise import ReleaseNoise
from confide.noise.fitting import NoiseKind, of_margin
from confide.privacy import ZCDP, Definition, Neighbours, PureDP, calibrate, event_of_noise, price
from confide.releases import LoadedSpec, boards, load_spec
from confide.releases.draft import relocated_values, toml_text
from confide.schema import Query
from confide.utility.target_words import CHANCE, TargetWords, bad_target, meant, nearest, split_target

MARGIN = "margin"
"""The word for the noise margin of every table, in targets."""


@dataclass(frozen=True, slots=True)
class TunedRow:
    """A table on a level: its part of the budget, and what that buys."""

    table: str
    level: str
    title: str
    budget: Fraction
    margin: int
    """The noise of a cell is at most this far from zero, with the probability of the margin."""
    law: ReleaseNoise
    """Of each of its cells."""
    areas: int
    cells: int
    """Counts of one area, margins included."""
    typical: Fraction | None = None
    """Persons in an area of the mean size, where somebody said how many persons there are."""

    @property
    def name(self) -> boards.RowName:
        return self.table, self.level

    @property
    def share(self) -> float | None:
        """The margin as a share of the persons of a typical area."""
        return None if not self.typical else self.margin / float(self.typical)

    def as_dict(self) -> dict[str, Any]:
        return {
            "table": self.table,
            "level": self.level,
            "budget": str(self.budget),
            "margin": self.margin,
            "variance": self.law.variance(),
            "areas": self.areas,
            "cells": self.cells,
            "share_of_typical_area": self.share,
        }


@dataclass(frozen=True, eq=False, kw_only=True)
class TablesTuning(boards.BudgetBoard):
    """A programme with a part of the budget for each of its rows."""

    programme: TablesProblem
    tables: Mapping[str, MeasuredTable]
    sharing: Mapping[boards.RowName, tuple[tuple[boards.RowName, int], ...]]
    """For each row the rows whose parts its noise is made from, with the numbers of their margins: its own, and pooled
    those of all tables that show its cross-classification on its level."""

    row_head: ClassVar[str] = "Table and level"

    @classmethod
    def of(cls, problem: TablesProblem, persons: int | None = None) -> TablesTuning:
        """As the spec has it."""
        spec = problem.spec
        if Definition(spec.privacy.definition) is Definition.APPROXIMATE or spec.noise.variance or spec.noise.margin:
            raise ParameterError("not-tunable/parts", where=Place(path="privacy.definition"))
        whole_weight = sum((table.weight for table in problem.tables), Fraction(0))
        budgets: dict[boards.RowName, Fraction] = {}
        for table in problem.tables:
            weights = {level.name: level_weight(spec, table.name, level.name) for level in table.levels}
            for level, weight in weights.items():
                part = table.weight / whole_weight * weight / sum(weights.values())
                budgets[table.name, level] = spec.privacy.budget * part
        tables = {table.name: table for table in problem.tables}
        sharing = _shared_rows(problem)
        return cls(programme=problem, budgets=budgets, persons=persons, tables=tables, sharing=sharing)

    @property
    def loss(self) -> ZCDP | PureDP:
        """The budget as a loss."""
        return self._as_loss(self.total)

    @cached_property
    def claim(self) -> boards.LossClaim:
        return boards.LossClaim(self.loss, self.neighbours, self.programme.spec.privacy.delta)

    @property
    def neighbours(self) -> Neighbours:
        return Neighbours(self.programme.spec.privacy.neighbours)

    @property
    def probability(self) -> Fraction:
        """Of the noise margins."""
        return self.programme.spec.output.noise_margin or CHANCE

    @property
    def caption(self) -> str:  # type: ignore[override]
        chance = f"{float(100 * self.probability):.4g}"
        return f"In {chance} of 100 cases the noise of a figure is within its margin."

    @cached_property
    def tuned_rows(self) -> tuple[TunedRow, ...]:
        """What each part buys, in the order of the spec."""
        return tuple(self._tuned_row(name) for name in self.budgets)

    def _tuned_row(self, name: boards.RowName) -> TunedRow:
        table = self.tables[name[0]]
        level = next(each for each in table.levels if each.name == name[1])
        law = self.law(name)
        typical = None if self.persons is None else Fraction(self.persons, max(1, level.units))
        margin, cells = _margin(law, self.probability), table.rows_per_unit
        part = self.budgets[name]
        return TunedRow(table.name, level.name, table.title, part, margin, law, level.units, cells, typical)

    def facts(self, row: boards.RowName) -> boards.RowFacts:
        table = self.tables[row[0]]
        level = next(each for each in table.levels if each.name == row[1])
        margin = _margin(self.law(row), self.probability)
        return boards.RowFacts(table.title, level.name, level.units, str(margin), margin)

    def reached(self, row: boards.RowName, margin: Fraction) -> bool:
        return _margin(self.law(row), self.probability) <= margin

    def law(self, row: boards.RowName, budget: Fraction | None = None, query: Query | None = None) -> ReleaseNoise:
        """The noise of the cells of a row, with its part of the budget or with another; or of one of its margins."""
        own = self.budgets[row] if budget is None else budget
        shared = (
            self.sharing[row] if query is None else _sharing_rows(self.programme, self.tables[row[0]], row[1], query)
        )
        loss = sum(((own if each == row else self.budgets[each]) / margins for each, margins in shared), Fraction(0))
        return calibrate(self._as_loss(loss), self.neighbours)

    def margin(self, row: boards.RowName, probability: Fraction) -> int:
        """The largest noise margin of the counts of a row, those of its margins included."""
        return max(_margin(self.law(row, query=query), probability) for query in self.tables[row[0]].margins)

    def measurements(self, row: boards.RowName) -> int:
        """How many cross-classifications the table of a row measures there."""
        return len(self.tables[row[0]].margins)

    def tuned(self, loaded: LoadedSpec, stem: str) -> boards.TunedValues:  # noqa: ARG002 - it needs no other file
        return boards.TunedValues(self.spec_values(loaded.values))

    def spec_values(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values of the spec with these parts as its weights.

        Args:
            values: What the spec file has.

        Returns:
            A copy of them with another budget and other weights, and nothing else changed.
        """
        changed = copy.deepcopy(dict(values))
        changed["privacy"]["budget"] = exact_text(self.total)
        for table in changed["tables"]:
            own = {level: part for (name, level), part in self.budgets.items() if name == table["name"]}
            table["weight"] = exact_text(sum(own.values(), Fraction(0)))
            table["level_weights"] = {level: exact_text(part) for level, part in own.items()}
        changed.get("programme", {}).pop("level_weights", None)
        return {name: part for name, part in changed.items() if name != "programme" or part}

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "definition": self.programme.spec.privacy.definition,
            "neighbours": self.neighbours.value,
            "budget": str(self.total),
            "probability": str(self.probability),
            "persons": self.persons,
            "rows": [row.as_dict() for row in self.tuned_rows],
        }

    def _as_loss(self, amount: Fraction) -> ZCDP | PureDP:
        zcdp = Definition(self.programme.spec.privacy.definition) is Definition.ZCDP
        return ZCDP(amount) if zcdp else PureDP(amount)

    def smallest(self, row: boards.RowName, margin: Fraction) -> Fraction:
        """The smallest part, in steps, that gives a noise margin: margins fall as parts grow."""
        step = self.step()

        def fits(steps: int) -> bool:
            return _margin(self.law(row, steps * step), self.probability) <= margin

        # Where the noise is Gaussian, parts go with the inverse square of margins: a good place to begin.
        now = _margin(self.law(row), self.probability)
        guess = float(self.budgets[row] / step) * ((now + 0.5) / (float(margin) + 0.5)) ** 2
        return step * boards.first_that_fits(fits, max(1, int(guess)))


def _shared_rows(programme: TablesProblem) -> Mapping[boards.RowName, tuple[tuple[boards.RowName, int], ...]]:
    """For each row the rows that its noise is made from."""
    return {
        (table.name, level.name): _sharing_rows(programme, table, level.name, table.query)
        for table in programme.tables
        for level in table.levels
    }


def _sharing_rows(
    programme: TablesProblem, table: MeasuredTable, level: str, query: Query
) -> tuple[tuple[boards.RowName, int], ...]:
    pooled = programme.spec.programme.repeated == "pooled"
    sharing = _sharing(programme, query, level) if pooled else (table,)
    return tuple(((each.name, level), len(each.margins)) for each in sharing)


def _sharing(programme: TablesProblem, query: Query, level: str) -> tuple[MeasuredTable, ...]:
    """The tables that show this cross-classification on this level."""
    wanted = set(query.variables)
    return tuple(
        table
        for table in programme.tables
        if any(set(margin.variables) == wanted for margin in table.margins)
        and any(each.name == level for each in table.levels)
    )


@lru_cache(maxsize=65536)
def _margin(law: ReleaseNoise, probability: Fraction) -> int:
    return law.noise_margin(probability)


# From targets in words to parts.


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

    def described(self) -> Iterator[AnswerPart]:
        rows = [
            (
                row.table,
                row.level,
                "" if row.target is None else row.target.text,
                f"{100 * float(row.present):.3g}",
                f"{100 * float(row.share):.3g}",
                f"±{row.margin:,}",
            )
            for row in self.rows
        ]
        columns = ["table", "level", "target", "share now, per cent ", "share, per cent ", "margin "]
        unit = "rho" if self.definition == "zcdp" else "epsilon"
        title = f"Shares of {unit} {float(self.total):.6g}; targets need {float(self.needed):.6g}"
        yield ShownTable(columns, rows, title=title)
        if self.written is not None:
            yield f"\nWrote {self.written}. Check it: confide check {self.written}"


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
        raise RunError("there-already/name", where=Place(file=str(Path(out))))
    if not targets:
        raise ParameterError("no-target/nothing", where=Place(path="tune"))
    present = TablesTuning.of(boards.prepared_without_records(Tables().prepare, loaded))
    wanted = _wanted(targets, present.programme)
    tuned, needed = _for_targets(present, wanted, None if total is None else positive(total, "total"))
    if out is not None:
        values = tuned.spec_values(relocated_values(loaded, Path(out).parent))
        write_text(Path(out), f"# Shares by `confide tune`: {'; '.join(targets)}.\n\n{toml_text(values)}")
    rows = tuple(_share(present, tuned, row, wanted.get(row)) for row in tuned.budgets)
    definition, written = present.programme.spec.privacy.definition, None if out is None else Path(out)
    return TablesFromTargets(loaded.path, definition, tuned.total, needed, rows, written)


def _wanted(targets: Sequence[str], problem: TablesProblem) -> dict[boards.RowName, TargetWords]:
    """For each row its target; of several the one that needs most."""
    names = [table.name for table in problem.tables]
    levels = list(dict.fromkeys(level.name for table in problem.tables for level in table.levels))
    result: dict[boards.RowName, TargetWords] = {}
    findings: list[Finding] = []
    for text in targets:
        try:
            words = split_target(text)
            kinds = tuple(meant(kind, levels) for kind in words.kinds)
            words = replace(words, statistic=meant(words.statistic, (MARGIN, *names)), kinds=kinds)
            if words.unit or words.least or words.limit.denominator != 1:
                raise bad_target("bad-target/noise", text, found=words.amount)
            if words.statistic not in (MARGIN, *names):
                near = nearest(words.statistic, (MARGIN, *names))
                raise bad_target(
                    "bad-target/table", text, found=words.statistic, margin=MARGIN, names=", ".join(names), remedy=near
                )
            for kind in words.kinds:
                if kind not in levels:
                    raise bad_target(
                        "bad-target/level",
                        text,
                        kind=kind,
                        levels=", ".join(levels),
                        remedy=nearest(kind, levels),
                    )
                rows = [
                    (table.name, kind)
                    for table in problem.tables
                    if words.statistic in (MARGIN, table.name) and kind in [level.name for level in table.levels]
                ]
                if not rows:
                    raise bad_target("bad-target/published", text, statistic=words.statistic, kind=kind)
                for row in rows:
                    if row not in result or _loss(problem, words) > _loss(problem, result[row]):
                        result[row] = words
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


def _for_targets(
    present: TablesTuning, wanted: Mapping[boards.RowName, TargetWords], total: Fraction | None
) -> tuple[TablesTuning, Fraction]:
    """The parts that meet the targets, and what rows with a target need together."""
    need = {row: present.measurements(row) * _loss(present.programme, words) for row, words in wanted.items()}
    needed = sum(need.values(), Fraction(0))
    others = {row: part for row, part in present.budgets.items() if row not in need}
    open_parts = sum(others.values(), Fraction(0))
    spent = needed + open_parts if total is None else total
    if needed > spent or (needed == spent and others):
        raise ParameterError(
            "targets-too-dear",
            where=Place(path="tune"),
            more=needed > spent,
            needed=float(needed),
            spent=spent,
            spent_expected=float(spent) if others else None,
            others=others,
        )
    if others:
        parts = need | {row: (spent - needed) * part / open_parts for row, part in others.items()}
    else:
        parts = {row: loss * spent / needed for row, loss in need.items()}
    tuned = present.with_budgets(parts)
    assert tuned.total == spent
    return tuned, needed


def _share(present: TablesTuning, tuned: TablesTuning, row: boards.RowName, words: TargetWords | None) -> TableShare:
    chance = tuned.probability if words is None else words.chance
    measured, part = tuned.measurements(row), tuned.budgets[row]
    now = present.budgets[row] / present.total
    table, level = row
    return TableShare(
        table, level, words, measured, now, part / tuned.total, part / measured, tuned.margin(row, chance)
    )
