"""People who are not confidential, for tuning: made up, of an older census, or public figures of areas.

The confidential records are looked at for one purpose: a file that is theirs, or a part of them, is refused, by its
path, by its bytes, and by its people, in whatever order and format. Shares that were chosen by them would give
something away that no budget pays for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from math import pi
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import scipy.sparse as sp

from confide.arrays import Floats, Integers
from confide.engines import LocalEngine, Source, format_of
from confide.errors import ConfideError, Finding, InputError, Place
from confide.geography import OUTSIDE
from confide.inference.pooled_errors import query_matrix
from confide.inference.replicates import counts_matrix
from confide.inputs.made_up import block_sizes, draw
from confide.inputs.records import records_fingerprint
from confide.inputs.table_files import read_margins
from confide.mechanisms.topdown.evaluate import EvaluationGeography, geographies
from confide.mechanisms.topdown.made_up import keeping_constraints, record_form
from confide.mechanisms.topdown.problem import TopDownProblem, with_plain_records
from confide.mechanisms.topdown.records import write_histogram
from confide.releases.spec import LoadedSpec, find_source
from confide.schema import TOTAL

MADE_UP = "made-up"
PERSONS = 100_000
PER_DWELLING = Fraction(5, 2)
"""How many people are made up for a dwelling, where the block table counts dwellings and nobody says how many."""
SAME = 0.5
"""Counts that differ from the records' by less than this part of what chance would do are a copy of them."""
SMALL = 0.2
"""Where chance moves more of the people than this, counts are so small that one file within another is a copy."""
MOST_EQUAL, FEWEST = 0.9, 3
"""Public figures count as figures of the records if more than this part of them, and so many, are the records' own."""
PEOPLE_COLUMNS = ("persons", "population", "inhabitants", "size")


@dataclass(frozen=True, eq=False)
class CountedPeople:
    """People by block and cell of the histogram."""

    problem: TopDownProblem
    histogram: pa.Table
    """``unit`` (a block of the spine), ``cell`` and ``n``."""
    kinds_known: bool
    """Whether they say which kinds of people live where; those drawn uniformly do not."""

    @cached_property
    def _counts(self) -> Any:
        return counts_matrix(self.problem, self.histogram)

    def figures(self, geography: EvaluationGeography, query: str, counts: Any = None) -> Floats:
        """The counts of a query: areas x cells."""
        area = geography.unit_of_block[self.problem.spine.rows]
        block = np.flatnonzero(area != OUTSIDE)
        shape = (geography.units, len(area))
        members = sp.csr_matrix((np.ones(len(block), np.int64), (area[block], block)), shape=shape)
        own = self._counts if counts is None else counts
        return np.asarray((members @ own @ query_matrix(self.problem, query)).toarray(), np.float64)

    def total(self, geography: EvaluationGeography) -> Floats:
        """How many people each area has."""
        return self.figures(geography, TOTAL)[:, 0]

    def largest(self, geography: EvaluationGeography, query: str) -> tuple[Integers, Floats]:
        """For each area the largest cell of a query, and its share; unknown where kinds are drawn uniformly."""
        if not self.kinds_known:
            return np.full(geography.units, -1, np.int64), np.full(geography.units, np.nan)
        figures = self.figures(geography, query)
        everybody = np.maximum(figures.sum(axis=1), 1.0)
        return figures.argmax(axis=1).astype(np.int64), figures.max(axis=1) / everybody


@dataclass(frozen=True, eq=False)
class PublicFigures:
    """Totals of areas and, where they are known, shares of largest groups, from a table that was published."""

    totals: Mapping[tuple[str, str], float]
    largest_shares: Mapping[tuple[str, str], float]

    def total(self, geography: EvaluationGeography) -> Floats:
        """How many people each area has; NaN where the table does not say."""
        name = geography.name
        return np.array([self.totals.get((name, code), np.nan) for code in geography.codes], np.float64)

    def largest(self, geography: EvaluationGeography, query: str) -> tuple[Integers, Floats]:  # noqa: ARG002
        """Which cell is the largest is not said, so that every kind of cell is looked at; its share may be."""
        name = geography.name
        share = np.array([self.largest_shares.get((name, code), np.nan) for code in geography.codes], np.float64)
        return np.full(geography.units, -1, np.int64), share


def refuse_confidential(file: Path, loaded: LoadedSpec) -> None:
    """Raises if a file is the confidential records of a spec, by path or by its bytes."""
    data = loaded.spec.data
    confidential = [loaded.resolve(name) for name in (data.records, data.households) if name]
    if any(
        each.exists() and (file.samefile(each) or records_fingerprint(file) == records_fingerprint(each))
        for each in confidential
    ):
        raise InputError("confidential-people/records-spec-shares", where=Place(path="--people"))


def copied(given: Floats, own: Floats, part: float = SAME) -> bool:
    """Whether counts are too like those of the records to be of other people, or of another time.

    If both were drawn anew from what they have in common, a count n would exceed the other by √(n/π) on average. Counts
    of another census differ more. Those of a copy, of a large part of it or of it several times differ far less, once
    both have the same sum. Where counts are small, records that hold nearly all of a file, or the other way round, are
    as unlikely.

    Args:
        given: Counts of people who are said to be others.
        own: Those of the records, of the same cells.
        part: How much less than by chance they differ.

    >>> copied(np.array([3.0, 8, 1, 0]), np.array([3.0, 8, 1, 0])), copied(np.array([1.0, 9, 4]), np.array([3.0, 8, 1]))
    (True, False)
    """
    if not given.sum() or not own.sum():
        return False
    scaled = given * (own.sum() / given.sum())
    chance = float(np.sqrt((scaled + own) / (2 * pi)).sum())
    if float(np.maximum(scaled - own, 0).sum()) < part * chance:
        return True
    by_chance = float(np.sqrt((given + own) / (2 * pi)).sum())
    within = min(float(np.maximum(a - b, 0).sum()) for a, b in ((given, own), (own, given)))
    return by_chance > SMALL * min(given.sum(), own.sum()) and within < part / 2 * by_chance


@dataclass(eq=False)
class PeopleForTuning:
    """People as somebody asked for them, read or made up when they are needed."""

    loaded: LoadedSpec
    blank: LoadedSpec
    """The spec without its records."""
    problem: TopDownProblem
    engine: LocalEngine
    scratch: Path
    asked: str | Path = MADE_UP
    persons: int | None = None
    margins: tuple[Path, ...] = ()
    said: str = "nobody was needed"
    """Where they come from, in words."""
    warnings: list[Finding] = field(default_factory=list)

    @cached_property
    def known(self) -> CountedPeople | PublicFigures:
        """People who are not confidential, as asked for."""
        if str(self.asked) == MADE_UP:
            return self._made_up()
        file = Path(self.asked)
        if not file.is_file():
            raise InputError("no-such-file/people", where=Place(path="--people"), found=str(file), made_up=MADE_UP)
        refuse_confidential(file, self.loaded)
        figures = _read_figures(file)
        if figures is not None:
            self._refuse_the_same_figures(figures)
            self.said = f"public figures of {len(figures.totals):,} areas ({file.name})"
            return figures
        return self._of_file(file)

    @cached_property
    def counted(self) -> CountedPeople:
        """People for runs: those that were given, or made-up ones where only figures were."""
        return self.known if isinstance(self.known, CountedPeople) else self._made_up()

    def _made_up(self) -> CountedPeople:
        problem = self.problem
        form = record_form(problem)
        blocks = find_source(self.blank, "blocks")
        assert isinstance(blocks, Source)
        column, by_code = block_sizes(self.engine, blocks, form, None)
        if column and sum(by_code.values()):
            form = form.sized(by_code)
        public = read_margins(list(self.margins), form)
        size = 0 if not column or form.sizes is None else int(form.sizes.sum())
        known = size if column in PEOPLE_COLUMNS else int(size * PER_DWELLING)
        number = form.fixed_number or self.persons or max((int(m.counts.sum()) for m in public), default=known)
        number = number or PERSONS
        drawn = keeping_constraints(problem, draw(form, number, public, np.random.default_rng(7)))
        shape = tuple(attribute.size for attribute in problem.strategy.schema.attributes)
        attributes = problem.strategy.schema.attributes
        cell = np.ravel_multi_index([drawn.levels[attribute.name] for attribute in attributes], shape)
        assert drawn.block is not None
        key, count = np.unique(drawn.block * problem.cells + cell, return_counts=True)
        table = pa.table({"unit": key // problem.cells, "cell": key % problem.cells, "n": count})
        by = f" by {column}" if column else ", all blocks alike"
        self.said = f"{drawn.number:,} made-up people{by}" + (", from public margins" if public else "")
        return CountedPeople(problem, table, kinds_known=bool(public))

    def _of_file(self, file: Path) -> CountedPeople:
        problem = self.problem
        kind = format_of(file)
        if kind is None:
            raise InputError("unknown-format/name-file", where=Place(path="--people"), found=file.name)
        source = replace(problem.records, path=file, format=kind, name=file.name)
        with_file = with_plain_records(problem, source)
        histogram = self.scratch / "people.parquet"
        try:
            write_histogram(with_file, self.engine, histogram)
        except ConfideError as error:
            raise InputError(replace(f, where=Place(file=file.name)) for f in error.findings) from None
        rows = pq.read_table(histogram)
        self._refuse_the_same_people(rows)
        codes = pa.array(problem.spine.block_codes.tolist())
        place = pc.fill_null(pc.index_in(rows.column("code").cast(pa.string()), value_set=codes), -1).to_numpy()
        cell, count = (rows.column(name).to_numpy(zero_copy_only=False) for name in ("cell", "n"))
        inside = (place >= 0) & np.isfinite(cell.astype(np.float64))
        outside, everybody = int(count[~inside].sum()), int(count.sum())
        if outside * 2 > everybody or not everybody:
            raise InputError("other-blocks/most", where=Place(path="--people"), outside=outside, everybody=everybody)
        if outside:
            self.warnings.append(
                Finding.of(
                    "other-blocks/kind",
                    where=Place(path="--people"),
                    severity="warning",
                    outside=outside,
                    everybody=everybody,
                )
            )
        self.said = f"{everybody - outside:,} people of an older census ({file.name})"
        columns = {"unit": place[inside].astype(np.int64), "cell": cell[inside].astype(np.int64), "n": count[inside]}
        return CountedPeople(problem, pa.table(columns), kinds_known=True)

    def _refuse_the_same_people(self, people: pa.Table) -> None:
        """Raises if the people of a file are the confidential records, in whatever order and format, or nearly all of
        them, or they with some others, or each of them several times, or with other attributes in the same blocks."""
        records = self._records()
        if records is None:
            return
        # By block and kind; and by block alone, whatever became of the kinds.
        for keys in (["code", "cell"], ["code"]):
            tables = [rows.group_by(keys).aggregate([("n", "sum")]) for rows in (people, records)]
            both = tables[0].join(tables[1], keys, right_suffix="_own", join_type="full outer")
            given, own = (
                pc.fill_null(both.column(name), 0).to_numpy().astype(np.float64) for name in ("n_sum", "n_sum_own")
            )
            if copied(given, own, SAME if "cell" in keys else SAME / 2):
                raise InputError("confidential-people/same", where=Place(path="--people"))

    def _refuse_the_same_figures(self, figures: PublicFigures) -> None:
        """Raises if nearly all totals of areas are those of the confidential records."""
        records = self._records()
        if records is None:
            return
        codes = self.problem.frame.spine.blocks
        row = pc.index_in(records.column("code").cast(pa.string()), value_set=pa.array(codes.codes)).to_numpy(
            zero_copy_only=False
        )
        known = np.isfinite(row.astype(np.float64))
        people = np.bincount(
            row[known].astype(np.int64), records.column("n").to_numpy()[known], minlength=len(codes.codes)
        )[codes.unit_of_block]
        equal = listed = 0
        for geography in geographies(self.problem):
            inside = geography.unit_of_block != OUTSIDE
            own = np.bincount(geography.unit_of_block[inside], people[inside], minlength=geography.units)
            given = figures.total(geography)
            stated = np.isfinite(given) & (given > 0) & (len(given) > 1)
            listed, equal = listed + int(stated.sum()), equal + int((given[stated] == own[stated]).sum())
        if equal >= FEWEST and equal > MOST_EQUAL * listed:
            raise InputError("confidential-people/totals", where=Place(path="--people"))

    def _records(self) -> pa.Table | None:
        """The confidential records, counted by block and kind, to see that others are not they; no count of them goes
        any further."""
        records = find_source(self.loaded, "records")
        if not isinstance(records, Source) or not records.path.exists():
            return None
        counted = self.scratch / "confidential.parquet"
        try:
            write_histogram(with_plain_records(self.problem, records), self.engine, counted)
        except ConfideError:
            return None  # what cannot be read as records is not what was read as people
        table = pq.read_table(counted).select(["code", "cell", "n"])
        counted.unlink()
        return table


def _read_figures(file: Path) -> PublicFigures | None:
    """A table of public figures; none if the file has no column of them."""
    try:
        table = pq.read_table(file) if file.suffix.lower() == ".parquet" else pyarrow.csv.read_csv(file)
    except (OSError, pa.ArrowException):
        return None  # whatever it is, it is no table of figures: reading it as people says what is wrong
    if not {"geography", "code", "total"} <= set(table.column_names):
        return None
    names, codes = (table.column(name).cast(pa.string()).to_pylist() for name in ("geography", "code"))
    keys = list(zip(names, codes, strict=True))
    columns = {
        name: table.column(name).cast(pa.float64()).to_pylist() if name in table.column_names else []
        for name in ("total", "largest")
    }
    largest = dict(zip(keys, columns["largest"], strict=False))
    return PublicFigures(dict(zip(keys, columns["total"], strict=True)), largest)
