"""Trials of ``tables`` and ``topdown``: their made-up neighbours, and what is measured of them."""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from confide.arrays import Booleans, Floats, Integers
from confide.confidential import Confidential
from confide.engines import Source
from confide.errors import Place, RunError
from confide.inputs.made_up import MeasuredCells, RecordForm
from confide.mechanisms.phsafe import measure as phsafe_measure
from confide.mechanisms.phsafe.problem import PHSafeProblem
from confide.mechanisms.phsafe.tabulate import PERSON_COLUMNS as COLUMNS_OF_PERSONS
from confide.mechanisms.phsafe.tabulate import UNIT_COLUMNS, HouseholdFiles
from confide.mechanisms.safetab import made_up
from confide.mechanisms.safetab import made_up as safetab_made_up
from confide.mechanisms.safetab.output.publish import measured_folder
from confide.mechanisms.safetab.problem import SafeTabProblem, query_key
from confide.mechanisms.safetab.records import PERSON_COLUMNS
from confide.mechanisms.safetab.settings import TABLE, TOTAL_ONLY
from confide.mechanisms.safetab_h import measure as households_measured
from confide.mechanisms.safetab_h import problem as households_problem
from confide.mechanisms.safetab_h.problem import SafeTabHProblem
from confide.mechanisms.safetab_h.records import HOUSEHOLD_COLUMNS, TENURE, TYPE
from confide.mechanisms.safetab_h.settings import TABLES
from confide.mechanisms.tables import mechanism
from confide.mechanisms.tables.programme import TablesProblem
from confide.mechanisms.topdown.measure import Children, TrueCounts, measure_fully
from confide.mechanisms.topdown.mechanism import DrawnEvidence, counts_file
from confide.mechanisms.topdown.problem import TopDownProblem, with_plain_records
from confide.noise import DiscreteGaussian, ReleaseNoise
from confide.privacy import Neighbours
from confide.releases import Job, Mechanism, NoiseSource, Plan
from confide.releases.abilities import REHEARSAL
from confide.releases.tabular import COUNT
from confide.schema import identity

# Trials on made-up records: what a mechanism gives to an audit from outside, twins that differ and canaries that stand
# apart.


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
    """Records such that no two are counted in the same count of one measurement: each has that count to itself.

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
        people: Two records. One of each is also in both files.
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


# Trials of ``tables`` and ``topdown``: their made-up neighbours, and what is measured of them.


class TablesAudit(TrialAudit[TablesProblem]):
    """Twins that differ in every table, and every measurement of the plan."""

    def made_up_records(self, problem: TablesProblem, twins: int) -> tuple[pa.Table, pa.Table]:
        spine = problem.spine
        levels = {level.name: level for table in problem.tables for level in table.levels}
        order = spine.blocks.unit_of_block.argsort()
        first, second = blocks_apart([level.unit_of_block[order] for level in levels.values()])
        codes = [spine.blocks.codes[block] for block in (first, second)]
        people = []
        for code, place in zip(codes, (0, 1), strict=True):
            person: dict[str, Any] = {problem.spec.geography.block: code}
            for attribute in problem.attributes:
                recodes = [v for t in problem.tables for v in t.query.variables if v.attribute.name == attribute.name]
                groups = np.array([recode.assignment for recode in recodes])
                other = int((groups != groups[:, :1]).sum(axis=0).argmax())
                person[attribute.name] = attribute.levels[(0, other)[place]].code
            people.append(person)
        return twins_of(people, twins, Neighbours(problem.spec.privacy.neighbours))

    def trial_counts(
        self, problem: TablesProblem, job: Job, noise: NoiseSource, mapped: Mapping[Path, Sequence[pa.Table]]
    ) -> Iterator[TrialCounts]:
        self.mechanism.measure(problem, job, noise)
        for table in problem.tables:
            for level in table.levels:
                parts = mapped[mechanism.measured_folder(job.workspace, table, level)]
                counts = np.concatenate([part.column(COUNT).to_numpy() for part in parts]).reshape(level.units, -1)
                begin = 0
                for margin in table.margins:
                    planned = job.plan.measure(level.name, problem.query_key(table, margin))
                    values = counts[:, begin : begin + margin.cells].ravel()
                    yield TrialCounts(level.name, planned.query, planned.law, np.arange(len(values)), values)
                    begin += margin.cells


class TopDownAudit(TrialAudit[TopDownProblem]):
    """Twins in blocks that lie apart on every level."""

    def made_up_records(self, problem: TopDownProblem, twins: int) -> tuple[pa.Table, pa.Table]:
        spine, attributes = problem.spine, problem.strategy.schema.attributes
        first, second = blocks_apart([spine.unit_of_block(level.name) for level in spine.levels if level.units > 1])
        people: list[dict[str, Any]] = [
            {attribute.name: attribute.levels[place].code for attribute in attributes}
            | {problem.spec.geography.block: str(spine.block_codes[block])}
            for block, place in ((first, 0), (second, -1))
        ]
        return twins_of(people, twins, problem.strategy.neighbours)

    def with_records(self, problem: TopDownProblem, records: Source) -> TopDownProblem:
        return with_plain_records(problem, records)

    def trial_counts(
        self,
        problem: TopDownProblem,
        job: Job,
        noise: NoiseSource,
        mapped: Mapping[Path, Sequence[pa.Table]],  # noqa: ARG002
    ) -> Iterator[TrialCounts]:
        """The full set of measurements of every unit that anybody is in, as it is published with
        ``output.measurements``. What a descent looks at is a part of it, drawn by the same function from the same
        streams and coordinates."""
        drawn = DrawnEvidence(problem, job.plan, noise, job.workspace)
        for level_strategy, level in problem.levels():
            rows = pq.read_table(counts_file(job.workspace, level))
            unit, cell, count = (rows.column(name).to_numpy() for name in ("unit", "cell", "n"))
            units = np.unique(unit)
            units = units[level.measured[units]]
            if not len(units):
                continue
            seen = np.isin(unit, units)
            truth = TrueCounts(np.searchsorted(units, unit[seen]), cell[seen], count[seen])
            classes = level.shares.index[units].astype(np.int64)
            asked = Children(Confidential(truth), units, classes, np.arange(problem.cells))
            measured = measure_fully(drawn.level_queries(level_strategy, level), asked)
            for query_share, values in zip(level_strategy.queries, measured, strict=True):
                cells = query_share.query.cells
                planned = iter(job.plan.laws(level.name, query_share.name))
                for share_class, share in enumerate(level.shares.table):
                    law = next(planned) if share else None
                    chosen = classes == share_class
                    if law is not None and chosen.any():
                        places = (units[chosen, None] * cells + np.arange(cells)).ravel()
                        yield TrialCounts(level.name, query_share.name, law, places, values[chosen].ravel())


# Trials of ``safetab`` and ``safetab-h``: neighbours who count in many groups, and what is measured of them.


class SafeTabAudit(TrialAudit[SafeTabProblem]):
    """Persons who count in many groups, none of which is suppressed."""

    def made_up_records(self, problem: SafeTabProblem, twins: int) -> tuple[pa.Table, pa.Table]:
        """Everybody is a boy below 5 in one block, with the same codes: so in every table that a group may get, the
        first cell has all that are in the group. There are so many of them that no group is suppressed."""
        block = safetab_made_up.block_columns(problem.regions, int(_block_costs(problem).argmax()))
        person = (
            BOY | block | safetab_made_up.best_codes(problem.lists, problem.settings.max_race_codes, _weights(problem))
        )
        base = _never_suppressed(problem)
        one = pa.table({name: [person[name]] for name in PERSON_COLUMNS})
        return one.take([0] * (base + twins)), one.take([0] * base)

    def made_up_canaries(self, problem: SafeTabProblem, number: int) -> Canaries:
        """The same boys in blocks of different areas, the first in the costliest one. So many are always there that no
        group of a canary is suppressed."""
        largest = max(problem.levels, key=lambda level: level.areas).region_type
        blocks = made_up.blocks_apart(problem.regions, largest, _block_costs(problem))
        codes = safetab_made_up.codes_within(problem.lists, problem.settings.max_race_codes, _weights(problem))
        require_room(number, len(blocks), len(codes))
        people = []
        for k in range(number):
            turn, block = divmod(k, len(blocks))
            people.append(BOY | blocks[block] | codes[(block + turn) % len(codes)])
        heads = pa.table({name: [person[name] for person in people] for name in PERSON_COLUMNS})
        return Canaries(heads.take(np.repeat(np.arange(number), _never_suppressed(problem))), heads, None)

    def silenced(self, problem: SafeTabProblem, plan: Plan) -> tuple[SafeTabProblem, Plan]:
        levels = tuple(replace(level, first=SILENT, second=SILENT, total=SILENT) for level in problem.levels)
        return replace(problem, levels=levels), super().silenced(problem, plan)[1]

    def trial_counts(
        self, problem: SafeTabProblem, job: Job, noise: NoiseSource, mapped: Mapping[Path, Sequence[pa.Table]]
    ) -> Iterator[TrialCounts]:
        """The counts of the second stage. The total that chooses a table is seen by nobody."""
        self.mechanism.measure(problem, job, noise)
        for level in problem.levels:
            rows = pa.concat_tables(mapped[measured_folder(job.workspace, level)])
            cell, group, count = (rows.column(name).to_numpy() for name in ("cell", "group", "count"))
            total_only = level.total_only[group % len(level.iterations)]
            for query, law, chosen in ((TABLE, level.second, ~total_only), (TOTAL_ONLY, level.total, total_only)):
                seen = np.flatnonzero(chosen & (cell == 0))
                region = level.settings.region_type
                yield TrialCounts(region, query_key(level, query), law, group[seen], count[seen])


BOY = {"QAGE": "0", "QSEX": "1", "HOUSEHOLDER": "False", "CENRACE": "01"}
"""A made-up person, but for block and codes."""


def _never_suppressed(problem: SafeTabProblem) -> int:
    """So many in a group, and it is published whatever the noise."""
    far = max(int(10 * level.second.variance() ** 0.5) for level in problem.levels)
    return far + max(level.suppressed_up_to or 0 for level in problem.levels) + 1


def _block_costs(problem: SafeTabProblem) -> Floats:
    """For each block what the levels cost that it lies in an area of."""
    budgets: dict[str, float] = {}
    for level in problem.levels:
        budgets[level.region_type] = budgets.get(level.region_type, 0.0) + float(level.settings.budget)
    return safetab_made_up.block_costs(problem.regions, budgets)


def _weights(problem: SafeTabProblem) -> safetab_made_up.GroupWeights:
    """For each level its iterations, and what a group of it costs."""
    return [(level.iterations, float(level.settings.budget) / level.stability) for level in problem.levels]


MARRIED = {"HHRACE": "01", TYPE: "1", TENURE: "1"}
"""A made-up household, but for block and codes: it is in the first cell of every table."""


class SafeTabHAudit(TrialAudit[SafeTabHProblem]):
    """Households that count in many groups."""

    def made_up_records(self, problem: SafeTabHProblem, twins: int) -> tuple[pa.Table, pa.Table]:
        """Every household is a married couple that owns, in one block, with the same codes: so in every table that a
        group may have, the first cell has all that are in the group."""
        block = safetab_made_up.block_columns(
            problem.regions, int(safetab_made_up.block_costs(problem.regions, _h_budgets(problem)).argmax())
        )
        codes = safetab_made_up.best_codes(problem.lists, problem.settings.max_race_codes, _h_weights(problem))
        household = MARRIED | block | codes
        one = pa.table({name: [household[name]] for name in HOUSEHOLD_COLUMNS})
        return one.take([0] * (1 + twins)), one

    def made_up_canaries(self, problem: SafeTabHProblem, number: int) -> Canaries:
        """The same households in blocks of different areas, the first in the costliest one."""
        largest = max(problem.levels, key=lambda level: level.areas).region_type
        blocks = made_up.blocks_apart(
            problem.regions, largest, safetab_made_up.block_costs(problem.regions, _h_budgets(problem))
        )
        codes = safetab_made_up.codes_within(problem.lists, problem.settings.max_race_codes, _h_weights(problem))
        require_room(number, len(blocks), len(codes))
        households = []
        for k in range(number):
            turn, block = divmod(k, len(blocks))
            households.append(MARRIED | blocks[block] | codes[(block + turn) % len(codes)])
        heads = pa.table({name: [each[name] for each in households] for name in HOUSEHOLD_COLUMNS})
        return Canaries(heads, heads, None)

    def silenced(self, problem: SafeTabHProblem, plan: Plan) -> tuple[SafeTabHProblem, Plan]:
        levels = tuple(
            replace(level, tables={name: replace(each, law=SILENT) for name, each in level.tables.items()})
            for level in problem.levels
        )
        return replace(problem, levels=levels), super().silenced(problem, plan)[1]

    def trial_counts(
        self, problem: SafeTabHProblem, job: Job, noise: NoiseSource, mapped: Mapping[Path, Sequence[pa.Table]]
    ) -> Iterator[TrialCounts]:
        """The first measured cell of each group, by table."""
        self.mechanism.measure(problem, job, noise)
        for level in problem.levels:
            rows = pa.concat_tables(mapped[households_measured.measured_folder(job.workspace, level)])
            table, group, cell, count = (rows.column(each).to_numpy() for each in ("table", "group", "cell", "count"))
            for name, tables in level.measured():
                seen = np.flatnonzero((table == TABLES.index(name)) & (cell == 0))
                query = households_problem.query_key(level.settings, name)
                yield TrialCounts(level.region_type, query, tables.law, group[seen], count[seen])


def _h_budgets(problem: SafeTabHProblem) -> dict[str, float]:
    """What the levels of each type of area cost together."""
    budgets: dict[str, float] = {}
    for level in problem.levels:
        budgets[level.region_type] = budgets.get(level.region_type, 0.0) + float(sum(level.settings.budgets))
    return budgets


def _h_weights(problem: SafeTabHProblem) -> safetab_made_up.GroupWeights:
    """For each level its iterations, and what a group of it costs."""
    return [(level.iterations, float(sum(level.settings.budgets)) / level.stability) for level in problem.levels]


# PHSafe: households whose unit becomes another, with one person fewer.


FIRST_ADDRESS = 100_000_001
BEFORE = {"HHT": "1", "HHT2": "01", "CPLT": "1", "TEN": "1", "HHRACE": "01", "HHSPAN": 1}
AFTER = {"HHT": "3", "HHT2": "06", "CPLT": "5", "TEN": "3", "HHRACE": "02", "HHSPAN": 2}
"""What the unit of a twin says with it and without it: every member moves to another cell wherever one can."""


class PHSafeAudit(TrialAudit[PHSafeProblem]):
    """Households as large as any table counts, that lose a child and whose unit becomes another."""

    def made_up_records(self, problem: PHSafeProblem, twins: int) -> tuple[pa.Table, pa.Table]:
        """A row for each person, with what its unit says; one household of either kind is in both files."""
        size = max([2, *problem.settings.tau.values()])
        with_twin, without = _family(size, BEFORE), _family(size - 1, AFTER)
        files = []
        for kind in (with_twin, without):
            households = [with_twin, without, *([kind] * twins)]
            rows = [{**row, "MAFID": FIRST_ADDRESS + k} for k, each in enumerate(households) for row in each]
            files.append(pa.Table.from_pylist(rows))
        return files[0], files[1]

    def with_records(self, problem: PHSafeProblem, records: Source) -> PHSafeProblem:
        """The rows as three files beside each other; all addresses are in the first state."""
        rows = pq.read_table(records.path)
        first = [rows.column("MAFID").to_pylist().index(each) for each in sorted(set(rows.column("MAFID").to_pylist()))]
        units = rows.take(first)
        units = pa.table(
            {
                "RTYPE": pa.array(["2"] * units.num_rows),
                **{name: units.column(name) for name in ("MAFID", *UNIT_COLUMNS[2:])},
            }
        )
        state = pa.array([problem.states[0]] * units.num_rows)
        geo = pa.table({"RTYPE": units.column("RTYPE"), "MAFID": units.column("MAFID"), "TABBLKST": state})
        folder = Path(records.path).parent
        tables = {"persons": rows.select(list(COLUMNS_OF_PERSONS)), "units": units, "geo": geo}
        for name, table in tables.items():
            pq.write_table(table, folder / f"{name}.parquet")
        sources = (Source(folder / f"{name}.parquet", "parquet") for name in ("persons", "units", "geo"))
        return replace(problem, files=HouseholdFiles(*sources))

    def trial_counts(
        self,
        problem: PHSafeProblem,
        job: Job,
        noise: NoiseSource,
        mapped: Mapping[Path, Sequence[pa.Table]],  # noqa: ARG002 - it measures without parts
    ) -> Iterator[TrialCounts]:
        """Every count of every query."""
        shutil.rmtree(job.workspace.measured, ignore_errors=True)
        self.mechanism.measure(problem, job, noise)
        for query in problem.queries:
            values = phsafe_measure.read_measured(problem, job.workspace, query).ravel()
            law = job.plan.measure(query.level, query.name).law
            yield TrialCounts(query.level, query.name, law, np.arange(len(values)), values)


def _family(size: int, unit: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A householder and own children of five."""
    person = {"RTYPE": "3", "CENHISP": 1, "CENRACE": "01", "FINAL_POP": size, "NPF": size, **unit}
    return [{**person, "QAGE": 40, "RELSHIP": "20"}, *({**person, "QAGE": 5, "RELSHIP": "25"} for _ in range(size - 1))]
