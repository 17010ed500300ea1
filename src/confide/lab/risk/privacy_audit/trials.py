"""Trials on made-up records: what a mechanism gives to an audit from outside, twins that differ and canaries that stand
apart.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

import numpy as np
import pyarrow as pa

from confide.arrays import Booleans, Integers
from confide.engines import Source
from confide.errors import Place, RunError
from confide.inputs.made_up import MeasuredCells, RecordForm
from confide.noise import DiscreteGaussian, ReleaseNoise
from confide.privacy import Neighbours
from confide.releases import Job, Mechanism, NoiseSource, Plan
from confide.releases.abilities import REHEARSAL
from confide.schema import identity

P = TypeVar("P")

# Canaries: made-up records for an audit in one run, each in a place of its own.


@dataclass(frozen=True, eq=False)
class Canaries:
    """A coin decides of each canary which of two records it is, or whether it is there."""

    base: pa.Table
    """Records that are there whatever coins say, so that every area that a canary is in is measured."""
    heads: pa.Table
    """The record of each canary if its coin shows heads."""
    tails: pa.Table | None
    """The record that it is otherwise; none: it is then not there."""

    @classmethod
    def at(cls, places: Sequence[Mapping[str, Any]], base: pa.Table, neighbours: Neighbours) -> Self:
        """Canaries at all places; where a record is changed, they go from the first half of them to the second."""
        everybody = pa.Table.from_pylist([dict(place) for place in places])
        if neighbours is not Neighbours.CHANGE_ONE:
            return cls(base, everybody, None)
        half = len(places) // 2
        return cls(base, everybody.slice(0, half), everybody.slice(half, half))

    @property
    def number(self) -> int:
        """How many there are."""
        return int(self.heads.num_rows)

    def file(self, heads: Booleans) -> pa.Table:
        """The file in which the coins of some canaries show heads."""
        parts = [self.base, self.heads.filter(pa.array(heads))]
        if self.tails is not None:
            parts.append(self.tails.filter(pa.array(~heads)))
        return pa.concat_tables(parts)


def places_needed(number: int, neighbours: Neighbours) -> int:
    """How many places so many canaries take: two each where a record is changed."""
    return 2 * number if neighbours is Neighbours.CHANGE_ONE else number


def one_in_each(places: Sequence[Mapping[str, Any]], column: str) -> pa.Table:
    """One record for each block that some place is in."""
    return pa.Table.from_pylist(list({place[column]: dict(place) for place in places}.values()))


def canary_places(form: RecordForm, number: int) -> list[dict[str, Any]]:
    """Records of which no two are counted in the same count of one measurement: each has that count to itself.

    The measurement is the coarsest that has counts enough: records that it keeps apart are kept apart by all finer ones
    too, so that canaries own as many counts as they can. Place k is in the unit k mod U of U, and in the cell
    k mod U + ⌊k / U⌋ of the query, counted through: so records of one larger area differ as far as there are cells.

    Args:
        form: What a record is made of, and what is measured.
        number: How many records.

    Returns:
        The records, as they stand in a file.
    """
    assert form.block is not None
    everything = MeasuredCells(np.arange(len(form.blocks)), tuple(identity(attribute) for attribute in form.attributes))
    candidates = sorted(form.measured or (everything,), key=lambda measured: measured.units * measured.cells)
    chosen = next((each for each in candidates if each.units * each.cells >= number), candidates[-1])
    require_room(number, chosen.units, chosen.cells)
    blocks_of = [np.flatnonzero(chosen.unit == unit) for unit in np.unique(chosen.unit[chosen.unit >= 0])]
    levels_of = {
        variable.attribute.name: [np.flatnonzero(variable.assignment == group) for group in range(len(variable.groups))]
        for variable in chosen.variables
    }
    places = []
    for k in range(number):
        turn, unit = divmod(k, len(blocks_of))
        person: dict[str, Any] = {form.block: form.blocks[int(blocks_of[unit][turn % len(blocks_of[unit])])]}
        rest = (unit + turn) % chosen.cells
        level = {attribute.name: k % attribute.size for attribute in form.attributes}
        for variable in reversed(chosen.variables):  # the last variable turns fastest
            rest, group = divmod(rest, len(variable.groups))
            members = levels_of[variable.attribute.name][group]
            level[variable.attribute.name] = int(members[turn % len(members)])
        person |= {attribute.name: attribute.levels[level[attribute.name]].code for attribute in form.attributes}
        places.append(person)
    return places


def require_room(number: int, areas: int, cells: int) -> None:
    """Raises where there are fewer places than are needed."""
    if number > areas * cells:
        raise RunError(
            "too-many-canaries",
            where=Place(path="--canaries"),
            number=number,
            areas=areas * cells,
            areas_expected=areas,
            cells=cells,
        )


# Made-up records for an audit from outside: as many alike as it takes, and others that differ from them in everything.


def blocks_apart(unit_of_block: Sequence[Integers]) -> tuple[int, int]:
    """Two blocks that lie in different units of as many levels as can be, found from the first that lies in most.

    Args:
        unit_of_block: For each measured level, the unit of each block; negative where it lies in none.

    Returns:
        The positions of both.
    """
    units = np.stack(unit_of_block)
    first = int((units >= 0).sum(axis=0).argmax())
    apart = (units >= 0) & (units != units[:, first : first + 1])
    return first, int(apart.sum(axis=0).argmax())


def twins_of(people: Sequence[Mapping[str, Any]], twins: int, neighbours: Neighbours) -> tuple[pa.Table, pa.Table]:
    """Two files of made-up records that are neighbours ``twins`` times over.

    Args:
        people: Two records. One of each stands in both files besides.
        twins: How many of the first kind the first file has; in the second file they are of the second kind, or gone.
        neighbours: Which of both.

    Returns:
        Both files, with the columns of the records.
    """
    both = pa.Table.from_pylist([dict(person) for person in people])
    changed = twins if neighbours is Neighbours.CHANGE_ONE else 0
    return both.take([0] * (twins + 1) + [1]), both.take([0] + [1] * (changed + 1))


# What a mechanism measures of them.


SILENT = DiscreteGaussian("1/1000")
"""Noise that is zero but once in e^500 draws."""


@dataclass(frozen=True, eq=False)
class TrialCounts:
    """Noisy counts of one measurement of the plan with one law, from a trial on made-up records.

    ``coordinates`` rise; the same coordinate is the same count in every trial of the same problem.
    """

    level: str
    query: str
    law: ReleaseNoise
    coordinates: Integers
    values: Integers


@dataclass(frozen=True)
class TrialAudit(ABC, Generic[P]):
    """An audit from outside, on made-up records and in this process."""

    mechanism: Mechanism[P]

    @abstractmethod
    def made_up_records(self, problem: P, twins: int) -> tuple[pa.Table, pa.Table]:
        """Two made-up files of records, from schema and frame alone, that are neighbours ``twins`` times over: in the
        second, ``twins`` records that are all alike were changed into others, or removed, as the plan's relation says.
        """

    @abstractmethod
    def trial_counts(
        self, problem: P, job: Job, noise: NoiseSource, mapped: Mapping[Path, Sequence[pa.Table]]
    ) -> Iterator[TrialCounts]:
        """Measures by the code that ``measure`` runs, and reads what came of it. The engine of ``job`` maps in this
        process, and leaves the tables of each folder in ``mapped``. Every measurement of the plan is there, as far as
        anybody could ever see it."""

    def made_up_canaries(self, problem: P, number: int) -> Canaries:
        """Made-up records for an audit in one run, from schema and frame alone, placed by what the plan measures, so
        that each has a count to itself; a finding where there is not room enough for so many."""
        rehearsal = REHEARSAL.of(self.mechanism)
        form = None if rehearsal is None else rehearsal(self.mechanism).record_form(problem)
        if form is None or form.block is None:
            raise RunError(
                "no-canaries/releases",
                where=Place(path="release.mechanism"),
                mechanism=self.mechanism.name,
                number=number,
            )
        neighbours = self.mechanism.plan(problem).neighbours
        places = canary_places(form, places_needed(number, neighbours))
        return Canaries.at(places, one_in_each(places, form.block), neighbours)

    def with_records(self, problem: P, records: Source) -> P:
        """The same problem with made-up records, in the codes of the schema, one row each."""
        changed: P = replace(problem, records=records)  # type: ignore[type-var]
        return changed

    def silenced(self, problem: P, plan: Plan) -> tuple[P, Plan]:
        """Problem and plan with noise that is zero: what a trial gives then are the true counts of made-up records."""
        return problem, replace(plan, measures=tuple(replace(measure, law=SILENT) for measure in plan.measures))
