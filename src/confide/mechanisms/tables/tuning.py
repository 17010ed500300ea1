"""What the budget of a programme of tables buys, and what accuracy costs: either from the other, before any is spent.

A *row* is a table on one of its levels. It has a part of the budget, b, of which each of the m margins of the table
takes b/m; so the noise of its cells, and their noise margin, follow from b alone (pooled, from the parts of all tables
that contain the cross-classification). The budget of the release is the sum of the parts, exactly. Some parts are set,
some are locked, and the others follow: they keep their proportions and take what the budget leaves.

Parts are short decimals: what follows is rounded down to a step, and the last row takes the rest, so that the sum is
the budget to the last digit. In the spec they are the weights of tables and of their levels.

**Targets in words** (``confide tune tables``) say which noise margin the counts of a table have on a level:
``margin <= 10 in county`` for every table, ``age-by-sex <= 5 in tract, place @90%`` for one. Every cross-classification
that a table measures there needs the loss of the widest noise with that margin; so a table with k of them needs k times
that loss. What a total leaves is shared by rows without a target, in their present proportions; where all rows have
one, all get more. These parts are exact fractions.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from confide.answers import TypedAnswer
from confide.engines import LocalEngine
from confide.engines.groups import write_text
from confide.errors import Finding, ParameterError, Place
from confide.exact import Exact, positive
from confide.inputs.made_up import nobody
from confide.mechanisms.tables.mechanism import Tables
from confide.mechanisms.tables.programme import MeasuredTable, TablesProblem, level_weight
from confide.mechanisms.tables.spec import LAWS, TablesSpec
from confide.noise import ReleaseNoise
from confide.noise.fitting import NoiseKind, of_margin
from confide.privacy import ZCDP, Definition, Neighbours, PureDP, calibrate, event_of_noise, price
from confide.releases.check import throwaway_workspace
from confide.releases.draft import relocated_values, there_already, toml_text
from confide.releases.mechanism import Mechanism
from confide.releases.spec import LoadedSpec, load_spec
from confide.report.render import exact_text
from confide.schema import Query
from confide.utility.target_words import CHANCE, TargetWords, bad_target, nearest, split_target

RowName = tuple[str, str]
"""A table and a level."""
MARGIN = "margin"
"""The word for the noise margin of every table, in targets."""
PLACES = 6
LARGEST_MARGIN = 10**9
_ROUNDS = 40


@dataclass(frozen=True)
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
    def name(self) -> RowName:
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


@dataclass(frozen=True, eq=False)
class TablesTuning(TypedAnswer):
    """A programme with a part of the budget for each of its rows."""

    programme: TablesProblem
    budgets: Mapping[RowName, Fraction]
    persons: int | None = None

    @classmethod
    def of(cls, programme: TablesProblem, persons: int | None = None) -> TablesTuning:
        """As the spec has it."""
        spec = programme.spec
        if Definition(spec.privacy.definition) is Definition.APPROXIMATE or spec.noise.variance or spec.noise.margin:
            raise ParameterError(
                "not-tunable",
                "the parts of this budget cannot be chosen one by one",
                where=Place(path="privacy.definition"),
                found="a budget in approximate differential privacy, or noise of a given size",
                expected="definition zcdp or pure, and noise that the budget gives",
                remedy="choose another definition, or edit the spec by hand",
            )
        whole_weight = sum((table.weight for table in programme.tables), Fraction(0))
        budgets = {}
        for table in programme.tables:
            weights = {level.name: level_weight(spec, table.name, level.name) for level in table.levels}
            for level, weight in weights.items():
                part = table.weight / whole_weight * weight / sum(weights.values())
                budgets[table.name, level] = spec.privacy.budget * part
        return cls(programme, budgets, persons)

    @property
    def total(self) -> Fraction:
        """The budget of the release: the sum of its parts."""
        return sum(self.budgets.values(), Fraction(0))

    @property
    def loss(self) -> ZCDP | PureDP:
        """The budget as a loss."""
        return self._as_loss(self.total)

    @property
    def neighbours(self) -> Neighbours:
        return Neighbours(self.programme.spec.privacy.neighbours)

    @property
    def probability(self) -> Fraction:
        """Of the noise margins."""
        return self.programme.spec.output.noise_margin or CHANCE

    @cached_property
    def rows(self) -> tuple[TunedRow, ...]:
        """What each part buys, in the order of the spec."""
        rows = []
        for name in self.budgets:
            table = self._tables[name[0]]
            level = next(each for each in table.levels if each.name == name[1])
            law = self.law(name)
            typical = None if self.persons is None else Fraction(self.persons, max(1, level.units))
            margin, cells = _margin(law, self.probability), table.rows_per_unit
            rows.append(TunedRow(*name, table.title, self.budgets[name], margin, law, level.units, cells, typical))
        return tuple(rows)

    def law(self, row: RowName, budget: Fraction | None = None, query: Query | None = None) -> ReleaseNoise:
        """The noise of the cells of a row, with its part of the budget or with another; or of one of its margins."""
        table, level = self._tables[row[0]], row[1]
        budgets = self.budgets if budget is None else {**self.budgets, row: budget}
        pooled = self.programme.spec.programme.repeated == "pooled"
        sharing = self._sharing(query or table.query, level) if pooled else (table,)
        loss = sum((budgets[each.name, level] / len(each.margins) for each in sharing), Fraction(0))
        return calibrate(self._as_loss(loss), self.neighbours)

    def margin(self, row: RowName, probability: Fraction) -> int:
        """The largest noise margin of the counts of a row, those of its margins included."""
        queries = (margin for margin in self._tables[row[0]].margins)
        return max(_margin(self.law(row, query=query), probability) for query in queries)

    def measurements(self, row: RowName) -> int:
        """How many cross-classifications the table of a row measures there."""
        return len(self._tables[row[0]].margins)

    def with_persons(self, persons: int | None) -> TablesTuning:
        """The same, for so many persons."""
        return replace(self, persons=persons)

    def with_budgets(self, budgets: Mapping[RowName, Fraction]) -> TablesTuning:
        """The same rows with other parts."""
        for row, budget in budgets.items():
            self._require(row)
            if budget <= 0:
                raise _too_little(row)
        return replace(self, budgets={row: budgets.get(row, own) for row, own in self.budgets.items()})

    def with_total(self, total: Fraction, locked: Collection[RowName] = ()) -> TablesTuning:
        """Another budget: locked rows keep their parts, and the others follow."""
        return self._followed({row: self.budgets[row] for row in self.budgets if row in locked}, total)

    def with_row(
        self,
        row: RowName,
        *,
        budget: Fraction | None = None,
        margin: int | None = None,
        locked: Collection[RowName] = (),
        keep_total: bool = True,
    ) -> TablesTuning:
        """Another part of the budget for a row, or the smallest that gives it a noise margin.

        Args:
            row: The table and the level.
            budget: Its part.
            margin: Or the noise margin that its cells should have, in persons.
            locked: Rows that keep their parts.
            keep_total: Whether the budget of the release stays and the other rows follow; else they stay, and the
                budget follows.

        Returns:
            The new parts.
        """
        self._require(row)
        if margin is not None and not 1 <= margin <= LARGEST_MARGIN:
            raise ParameterError(
                "margin-range",
                "the noise margin is out of range",
                where=Place(path=":".join(row)),
                found=str(margin),
                expected=f"from 1 to {LARGEST_MARGIN:,} persons",
                remedy="give another margin",
            )
        changed = self
        for _ in range(_ROUNDS):
            part = budget if margin is None else changed._smallest(row, margin)
            assert part is not None
            if part <= 0:
                raise _too_little(row)
            if not keep_total:
                changed = replace(self, budgets={**self.budgets, row: part})
            else:
                kept = {each: self.budgets[each] for each in self.budgets if each in locked and each != row}
                changed = self._followed({**kept, row: part}, self.total)
            # Pooled, what follows may have taken from this row's noise as well: then it needs a little more.
            if margin is None or _margin(changed.law(row), self.probability) <= margin:
                return changed
        raise _too_little(row)

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
            "rows": [row.as_dict() for row in self.rows],
        }

    @cached_property
    def _tables(self) -> dict[str, MeasuredTable]:
        return {table.name: table for table in self.programme.tables}

    def _sharing(self, query: Query, level: str) -> tuple[MeasuredTable, ...]:
        """The tables that show this cross-classification on this level."""
        wanted = set(query.variables)
        return tuple(
            table
            for table in self.programme.tables
            if any(set(margin.variables) == wanted for margin in table.margins)
            and any(each.name == level for each in table.levels)
        )

    def _as_loss(self, amount: Fraction) -> ZCDP | PureDP:
        zcdp = Definition(self.programme.spec.privacy.definition) is Definition.ZCDP
        return ZCDP(amount) if zcdp else PureDP(amount)

    def _smallest(self, row: RowName, margin: int) -> Fraction:
        """The smallest part, in steps, that gives a noise margin: margins fall as parts grow."""
        step = _step(self.total)

        def fits(steps: int) -> bool:
            return _margin(self.law(row, steps * step), self.probability) <= margin

        # Where the noise is Gaussian, parts go with the inverse square of margins: a good place to begin.
        now = _margin(self.law(row), self.probability)
        guess = float(self.budgets[row] / step) * ((now + 0.5) / (margin + 0.5)) ** 2
        return step * _first(fits, max(1, int(guess)))

    def _followed(self, kept: Mapping[RowName, Fraction], total: Fraction) -> TablesTuning:
        """The budget ``total``, with some parts as they are given and the others in their proportions."""
        others = [row for row in self.budgets if row not in kept]
        remaining = total - sum(kept.values(), Fraction(0))
        if remaining != 0 and not others:
            raise ParameterError(
                "nothing-follows",
                "every row is locked, and their parts are not the budget",
                found=f"parts of {float(total - remaining):.6g} together, and a budget of {float(total):.6g}",
                expected="a row that is not locked, or a budget that may follow",
                remedy="unlock a row, or let the budget follow",
            )
        step = _step(total)
        before = sum((self.budgets[row] for row in others), Fraction(0))
        parts = dict(kept)
        for place, row in enumerate(others):
            part = self.budgets[row] * remaining / before // step * step
            if place == len(others) - 1:
                part = remaining - sum((parts[each] for each in others[:-1]), Fraction(0))
            if part <= 0:
                raise _too_little(row)
            parts[row] = part
        return replace(self, budgets={row: parts[row] for row in self.budgets})

    def _require(self, row: RowName) -> None:
        if row not in self.budgets:
            raise ParameterError(
                "no-row",
                "the programme has no such row",
                found=":".join(row)[:80],
                expected="one of " + ", ".join(":".join(each) for each in self.budgets),
                remedy="give a table and one of its levels, such as " + ":".join(next(iter(self.budgets))),
            )


def tables_tuning(loaded: LoadedSpec, mechanism: Mechanism[Any], persons: int | None = None) -> TablesTuning:
    """The programme of a spec, for tuning. Reads the spec, the schema and the frame, and no record.

    Args:
        loaded: The spec.
        mechanism: The mechanism ``tables``.
        persons: How many persons there are, for shares of a typical area.

    Returns:
        The parts as the spec has them.
    """
    with throwaway_workspace() as scratch, LocalEngine(scratch.scratch, processes=1) as engine:
        problem = mechanism.prepare(loaded.with_data(records=str(nobody(scratch.root))), engine)
    assert isinstance(problem, TablesProblem)
    return TablesTuning.of(problem, persons)


def _step(total: Fraction) -> Fraction:
    """What parts are multiples of: a millionth of the budget or less."""
    return Fraction(1, 10 ** (PLACES + max(0, math.ceil(-math.log10(total)))))


def _first(fits: Callable[[int], bool], guess: int) -> int:
    """The smallest number from 1 on that fits, if all larger ones do; searched for from a guess on."""
    low, high, jump = 0, guess, max(1, guess // 64)
    if fits(high):
        while high - jump > 0 and fits(high - jump):
            high, jump = high - jump, 2 * jump
        low = max(0, high - jump)
    else:
        while not fits(high):
            low, high, jump = high, high + jump, 2 * jump
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


@lru_cache(maxsize=65536)
def _margin(law: ReleaseNoise, probability: Fraction) -> int:
    return law.noise_margin(probability)


def _too_little(row: RowName) -> ParameterError:
    return ParameterError(
        "budget-too-small",
        "nothing of the budget would be left for a row",
        where=Place(path=":".join(row)),
        found="a part of zero or less",
        expected="a part above zero for each row",
        remedy="ask for wider margins, unlock rows, or decide on a larger budget",
    )


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
    present = tables_tuning(loaded, Tables())
    wanted = _wanted(targets, present.programme)
    tuned, needed = _for_targets(present, wanted, None if total is None else positive(total, "total"))
    if out is not None:
        values = tuned.spec_values(relocated_values(loaded, Path(out).parent))
        write_text(Path(out), f"# Shares by `confide tune tables`: {'; '.join(targets)}.\n\n{toml_text(values)}")
    rows = tuple(_share(present, tuned, row, wanted.get(row)) for row in tuned.budgets)
    definition, written = present.programme.spec.privacy.definition, None if out is None else Path(out)
    return TablesFromTargets(loaded.path, definition, tuned.total, needed, rows, written)


def _wanted(targets: Sequence[str], problem: TablesProblem) -> dict[RowName, TargetWords]:
    """For each row its target; of several the one that needs most."""
    names = [table.name for table in problem.tables]
    levels = list(dict.fromkeys(level.name for table in problem.tables for level in table.levels))
    result: dict[RowName, TargetWords] = {}
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
                rows = [
                    (table.name, kind)
                    for table in problem.tables
                    if words.statistic in (MARGIN, table.name) and kind in [level.name for level in table.levels]
                ]
                if not rows:
                    what = f"the table {words.statistic!r} is not published for {kind!r}"
                    raise bad_target(text, what, kind, "a level of the table")
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
    present: TablesTuning, wanted: Mapping[RowName, TargetWords], total: Fraction | None
) -> tuple[TablesTuning, Fraction]:
    """The parts that meet the targets, and what rows with a target need together."""
    need = {row: present.measurements(row) * _loss(present.programme, words) for row, words in wanted.items()}
    needed = sum(need.values(), Fraction(0))
    others = {row: part for row, part in present.budgets.items() if row not in need}
    open_parts = sum(others.values(), Fraction(0))
    spent = needed + open_parts if total is None else total
    if needed > spent or (needed == spent and others):
        raise _refused(
            "targets-too-dear",
            "the targets need more than the total" if needed > spent else "the targets leave nothing for other tables",
            f"{float(needed):.6g} for tables and levels with a target",
            f"less than {spent} ({float(spent):.6g})" if others else f"at most {spent}",
            "give a larger --total, or wider margins",
        )
    if others:
        parts = need | {row: (spent - needed) * part / open_parts for row, part in others.items()}
    else:
        parts = {row: loss * spent / needed for row, loss in need.items()}
    tuned = present.with_budgets(parts)
    assert tuned.total == spent
    return tuned, needed


def _share(present: TablesTuning, tuned: TablesTuning, row: RowName, words: TargetWords | None) -> TableShare:
    chance = tuned.probability if words is None else words.chance
    measured, part = tuned.measurements(row), tuned.budgets[row]
    now = present.budgets[row] / present.total
    return TableShare(*row, words, measured, now, part / tuned.total, part / measured, tuned.margin(row, chance))


def _refused(code: str, what: str, found: str, expected: str, remedy: str) -> ParameterError:
    return ParameterError(code, what, Place(path="tune tables"), found, expected, remedy)
