"""What ``verify`` looks at in a TopDown release: everything that is promised exactly, from the written files alone.

Records are whole and non-negative by being records. From them and the geography in the table of blocks, everything else
is made again and compared: the lines of the other layout one by one, each table unit by unit. Bounds, structural zeros
and what the frame says are checked in every block. Records are read once, in batches, and kept as sparse counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import scipy.sparse as sp
from numpy.typing import NDArray

from confide.arrays import Integers
from confide.geography import OUTSIDE, Geolevel
from confide.mechanisms.topdown.constraints import Side
from confide.mechanisms.topdown.measurements.verify import verify_measurements
from confide.mechanisms.topdown.output import tabulation
from confide.mechanisms.topdown.output.accuracy import described_files, verify_accuracy
from confide.mechanisms.topdown.output.settings import MDF, RECORDS, UNITS, ExplainedRelease, MicrodataLayout, Output
from confide.mechanisms.topdown.output.tabulation import FIGURES, CrossedTable
from confide.mechanisms.topdown.problem import counts_fingerprint
from confide.releases import tabular
from confide.releases.certificate import CERTIFICATE
from confide.releases.companions.programs import LABELLED, labelled_check
from confide.releases.folder import COMPANIONS, SealedRelease
from confide.releases.mechanism import Check
from confide.releases.tabular.checks import STAMP_FILE, STATEMENT, ListedAreas, TableCopies, areas_check
from confide.releases.tabular.table import in_dictionaries, of_schema, of_type, same_rows, written_out

# Released tables against the records: made again, and added up from children to parents, from the written rows.


@dataclass
class _TableReading:
    """What one pass over the rows of a table has found so far."""

    rows: int = 0
    equal: bool = True
    negative: int = 0
    sums: int = 0
    unequal_sums: int = 0


def verify_tables(
    folder: Path,
    manifest: dict[str, Any],
    tables: Sequence[tabulation.TabulatedTable],
    tabulator: tabulation.Tabulator,
    spine: Sequence[str],
) -> Iterator[Check]:
    """Every table: there, the same in every format, what the records come to, non-negative, and adding up.

    ``spine`` names the tabulated levels that nest, root first; areas need not add up to anything.
    """
    once = len({level.name for level in tabulator.levels}) == len(tabulator.levels)
    once &= all(len(set(level.codes)) == level.units for level in tabulator.levels)
    for table in tables:
        copies = TableCopies.open(
            SealedRelease(folder, manifest), f"tables/{table.name}", tabulation.table_schema(table)
        )
        if not copies.fits:
            detail = f"files: {copies.formats or 'none'}; not with the lines of the plan"
            yield Check(f"{table.name}: there", False, detail)
            continue
        seen = _pass(table, tabulator, spine, copies)
        complete = copies.at_end()
        yield Check(f"{table.name}: the same in every format", copies.same, copies.formats)
        yield Check(f"{table.name}: a key for each row", once, ", ".join(level.name for level in tabulator.levels))
        yield Check(f"{table.name}: what the records come to", seen.equal and complete, f"{seen.rows:,} rows")
        yield Check(f"{table.name}: no negative count", not seen.negative, f"{seen.negative:,} negative counts")
        detail = f"{seen.unequal_sums:,} of {seen.sums:,} sums over children differ from their parent"
        yield Check(f"{table.name}: children add up to parents", not seen.unequal_sums, detail)


def _pass(
    table: tabulation.TabulatedTable, tabulator: tabulation.Tabulator, spine: Sequence[str], copies: TableCopies
) -> _TableReading:
    seen, matrix = _TableReading(), table.matrix()
    above: tuple[Geolevel, Integers] | None = None
    for level in tabulator.levels:
        nests = level.name in spine
        sums = _SumsOfChildren(level, *above) if nests and above is not None else None
        expected_rows = []
        for codes, expected in tabulator.lines(matrix, level):
            released = copies.take(len(codes))
            seen.rows += released.num_rows
            lines = np.stack([released.column(column).to_numpy() for column in table.columns], axis=1)
            seen.equal &= _of_units(released, level.name, codes) and np.array_equal(lines, expected)
            if released.num_rows < len(codes):
                return seen
            seen.negative += int((lines < 0).sum())
            if sums is not None:
                sums.add(lines)
            if nests and level.name != spine[-1]:  # the blocks are nobody's parents, and too many to keep
                expected_rows.append(lines)
        if sums is not None:
            seen.sums += sums.wanted.size
            seen.unequal_sums += sums.different
        if expected_rows:
            above = level, np.concatenate(expected_rows)
    return seen


def _of_units(released: pa.Table, level: str, codes: Sequence[str]) -> bool:
    """Whether the rows of a table are those of these units of a level."""
    level_column, code_column = (of_type(released.column(place), pa.string()) for place in (0, 1))
    units = pa.chunked_array([pa.array(codes, pa.string())])
    return bool(code_column.equals(units)) and level_column.unique().to_pylist() == [level]


class _SumsOfChildren:
    """The lines of a level's units, added up over the units of a level above, as they come."""

    def __init__(self, level: Geolevel, above: Geolevel, wanted: Integers):
        self.wanted = wanted
        self._parent = np.zeros(level.units, np.int64)
        self._parent[level.unit_of_block] = above.unit_of_block
        self._sums = np.zeros_like(wanted)
        self._done = 0

    def add(self, lines: Integers) -> None:
        """The next units of the level."""
        parents = self._parent[self._done : self._done + len(lines)]
        ones, starts = np.ones(len(lines), np.int64), np.arange(len(lines) + 1)
        self._sums += sp.csr_matrix((ones, parents, starts), (len(lines), len(self._sums))).T @ lines
        self._done += len(lines)

    @property
    def different(self) -> int:
        """How many sums are not what the level above has."""
        return int((self._sums != self.wanted).sum())


# One- and two-way tables, labels and areas.


def verify_explained(
    folder: Path, manifest: dict[str, Any], output: Output, tabulator: tabulation.Tabulator
) -> Iterator[Check]:
    """Every one- and two-way table made again from the records, and compared in every format; cells and areas."""
    explained, files = output.explained, [file["path"] for file in manifest["files"]]
    listed = ListedAreas.open(folder, files)
    units = {level.name: level.units for level in tabulator.levels}
    # A kind of area that is declared and has no area has no line in the list.
    there = [level for level in tabulator.levels if level.units]
    same = units == dict(explained.units) and [*listed.levels] == [level.name for level in there]
    same = same and all(tuple(listed.levels[level.name][0]) == level.codes for level in there)
    yield Check("areas: those of the units", same, ", ".join(explained.units))
    names = None if explained.area_names is None else tabular.AreaNames(listed.levels)
    for table in explained.crossed.tables:
        yield tabular.labels_tell_apart(table.layout)
        copies = TableCopies.open(
            SealedRelease(folder, manifest), f"tables/{table.layout.name}", table.columns.schema(FIGURES)
        )
        if not copies.fits:
            detail = f"files: {copies.formats or 'none'}; not with the columns of the plan"
            yield Check(f"{table.layout.name}: there", False, detail)
            continue
        observed, cells = _Observed.open(folder, files, table, explained), _CellsAlone.open(folder, manifest, table)
        rows, equal, schema = 0, True, in_dictionaries(table.columns.schema(FIGURES))
        for batch in table.batches(tabulator, output.axes):
            expected = table.columns.coded(batch, names, schema)
            released = copies.take(expected.num_rows)
            rows += released.num_rows
            equal &= same_rows(released, pa.Table.from_batches([expected]))
            observed.compare(batch, names)
            cells.compare(released)
            if released.num_rows < expected.num_rows:
                break
        name = table.layout.name
        complete = copies.at_end()
        yield Check(f"{name}: the same in every format", copies.same and observed.same, copies.formats)
        yield Check(f"{name}: what the records come to", equal and complete, f"{rows:,} rows")
        yield cells.check(copies.formats)
    yield from _labelled(folder, manifest, output, explained)
    # That tables have these areas and no other was seen above, row by row.
    yield from areas_check(folder, [], files, explained.units, explained.area_names, listed)
    others = sorted(set(files) - _expected_files(files, output, manifest))
    yield Check("no other files", not others, ", ".join(others) or "every file is one of the plan, or a page")


def _labelled(folder: Path, manifest: dict[str, Any], output: Output, explained: ExplainedRelease) -> Iterator[Check]:
    """The files for Stata and SPSS that were asked for, read again and compared with the records."""
    formats = [format_ for format_ in LABELLED if format_ in explained.formats]
    if not formats:
        return
    files = {file["path"]: file["columns"] for file in manifest["files"] if "columns" in file}
    block = manifest["plan"]["question"]["layout"]["block"]
    kinds = [(block, pa.string()), *((name, _kind(codes)) for name, codes in output.axes.items())]
    copies = TableCopies.open(SealedRelease(folder, manifest), f"tables/{RECORDS}", pa.schema(kinds))
    batches = [*copies.batches(ROWS_AT_ONCE)]
    for format_ in formats:
        stem = f"{LABELLED[format_]}/{RECORDS}"
        path = next((path for path in files if path.split(".")[0] == stem), None)
        if path is None:
            yield Check(f"{RECORDS}: there for {format_}", False, "the file is missing")
            continue
        described = [pa.field(name, kind, False, {"description": files[path].get(name, "")}) for name, kind in kinds]
        empty = in_dictionaries(pa.schema(kinds)).empty_table()
        records = pa.concat_tables([empty, *batches]).cast(pa.schema(described))
        yield labelled_check(folder / path, records, explained.by_name, format_, RECORDS)


def _kind(codes: Sequence[Any]) -> pa.DataType:
    return pa.int64() if isinstance(codes[0], int) else pa.string()


def _expected_files(files: Sequence[str], output: Output, manifest: dict[str, Any]) -> set[str]:
    """Of the files of a release those that the plan says are there."""
    crossed = [table.layout.name for table in output.explained.crossed.tables]
    lines = [RECORDS, UNITS, *([MDF] if output.layout is not None else []), *(table.name for table in output.tables)]
    stems = (
        {f"tables/{name}" for name in (*lines, *crossed)}
        | {f"{tabular.CELLS}/{name}" for name in crossed}
        | {tabular.AREAS}
    )
    stems |= {f"sdmx/{name}" for name in crossed} if tabular.SDMX in output.explained.formats else set()
    stems |= {f"{place}/{RECORDS}" for format_, place in LABELLED.items() if format_ in output.explained.formats}
    stems |= {file.path for file in described_files(manifest)}
    pages = {*COMPANIONS, STATEMENT, CERTIFICATE, STAMP_FILE}
    return {
        path
        for path in files
        if path.split(".")[0] in stems or path in pages or path.startswith(("geo/", "measurements/"))
    }


@dataclass
class _Observed:
    """The observations of a table in SDMX-CSV, read along; nothing where it has none."""

    table: CrossedTable
    agency: str
    rows: tabular.RowsInOrder | None
    same: bool = True

    @classmethod
    def open(cls, folder: Path, files: Sequence[str], table: CrossedTable, explained: ExplainedRelease) -> _Observed:
        """The file of a table; where one was asked for and is missing, it is not the same."""
        path = next((path for path in files if path.split(".")[0] == f"sdmx/{table.layout.name}"), None)
        rows = None if path is None else tabular.text_batches(folder / path)
        agency = str(explained.companions["agency"])
        return cls(table, agency, rows, (tabular.SDMX in explained.formats) == (rows is not None))

    def compare(self, batch: pa.RecordBatch, names: tabular.AreaNames | None) -> None:
        """The next rows, given with their labels."""
        if self.rows is None:
            return
        schema = tabular.sdmx_columns(self.table.columns, FIGURES)
        name = self.table.layout.name
        (expected,) = tabular.sdmx_batches(iter([batch]), self.table.columns, schema, self.agency, name, names)
        wanted = tabular.as_text(pa.Table.from_batches([expected]))
        self.same &= self.rows.take(batch.num_rows).equals(wanted)


@dataclass
class _CellsAlone:
    """The file of a table's cells alone, in every format, read along."""

    name: str
    copies: TableCopies
    same: bool
    rows: int = 0

    @classmethod
    def open(cls, folder: Path, manifest: dict[str, Any], table: CrossedTable) -> _CellsAlone:
        """The files of a table."""
        name, schema = table.layout.name, table.columns.schema(FIGURES)
        alone = schema.remove(schema.get_field_index(tabular.MARGIN))
        copies = TableCopies.open(SealedRelease(folder, manifest), f"{tabular.CELLS}/{name}", alone)
        return cls(name, copies, copies.fits)

    def compare(self, rows: pa.Table) -> None:
        """The next rows of the table."""
        if self.same:
            wanted = tabular.cells_alone(rows)
            self.rows += wanted.num_rows
            self.same = same_rows(self.copies.take(wanted.num_rows), wanted)

    def check(self, formats: str) -> Check:
        """Whether the files have just the rows that are cells, in all formats of the table."""
        right = self.same and self.copies.same and self.copies.at_end() and self.copies.formats == formats
        detail = f"{self.rows:,} cells" if right else "other files or rows than the cells of the table"
        return Check(f"{self.name}: cells alone", right, detail)


ROWS_AT_ONCE = 1 << 18


def verify(folder: Path, manifest: dict[str, Any]) -> Iterator[Check]:
    """Every constraint of the strategy, block by block, and every table."""
    facts = manifest["plan"]["question"]
    output = Output.from_dict(facts["output"])
    block = facts["layout"]["block"]
    geography = [*facts["levels"][:-1], *facts["areas"]]
    opened = _open(folder, manifest, block, geography, facts["frame_columns"], output)
    for name, copies in opened.items():
        if not copies.fits:
            yield Check(f"{name}: there", False, f"files: {copies.formats or 'none'}; not with the columns they had")
    if not all(copies.fits for copies in opened.values()):
        return
    units = written_out(pa.concat_tables(opened[UNITS].batches(ROWS_AT_ONCE))).combine_chunks()
    yield _same(UNITS, opened[UNITS])
    codes = units.column(block).to_numpy(zero_copy_only=False).astype(str)
    rising = bool((codes[1:] > codes[:-1]).all())
    yield Check("units: each block once, in order", rising, f"{len(codes):,} blocks")
    if not rising:
        return
    read = _Records(block, codes, output)
    counts = read.count(opened[RECORDS], opened.get(MDF), units)
    yield _same(RECORDS, opened[RECORDS])
    yield Check("records: in blocks of the frame", read.in_frame, f"{read.rows:,} records")
    yield Check("records: codes of the schema", read.in_schema, ", ".join(output.axes))
    if MDF in opened:
        yield _same(MDF, opened[MDF])
        yield Check("mdf: says what the records say", read.agree, f"{read.lines:,} lines")
    if not read.in_frame or not read.in_schema:
        return
    yield from _constraints(facts, output, counts, units)
    smallest = facts["levels"][-1]
    levels = {name: _level(name, units) for name in geography} | {smallest: _blocks(smallest, codes)}
    yield _nested([levels[name] for name in facts["levels"]])
    tabulator = tabulation.Tabulator(counts, tuple(levels[name] for name in output.levels))
    spine = [name for name in facts["levels"] if name in output.levels]
    yield from verify_tables(folder, manifest, output.tables, tabulator, spine)
    everywhere = replace(tabulator, levels=tuple(levels[name] for name in output.explained.units))
    yield from verify_explained(folder, manifest, output, everywhere)
    problem = yield from verify_accuracy(folder, manifest, output, units)
    if facts["measurements"] and problem is not None:
        yield from verify_measurements(folder, manifest, problem, counts)


def _open(
    folder: Path, manifest: dict[str, Any], block: str, geography: list[str], counts: list[str], output: Output
) -> dict[str, TableCopies]:
    """The tables that the plan says are there, but the tabulated ones."""
    texts = [(name, pa.string()) for name in (block, *geography)]
    schemas = {UNITS: pa.schema([*texts, *((name, pa.int64()) for name in counts)])}
    kinds = [(name, _kind(codes)) for name, codes in output.axes.items()]
    schemas[RECORDS] = pa.schema([(block, pa.string()), *kinds])
    if output.microdata is not None:
        schemas[MDF] = output.microdata.schema
    return {
        name: TableCopies.open(SealedRelease(folder, manifest), f"tables/{name}", schema)
        for name, schema in schemas.items()
    }


def _same(name: str, copies: TableCopies) -> Check:
    return Check(f"{name}: the same in every format", copies.same and copies.at_end(), copies.formats)


@dataclass
class _Records:
    """One pass over the records, and over their lines in another layout beside them."""

    block: str
    codes: NDArray[np.str_]
    output: Output
    rows: int = 0
    lines: int = 0
    in_frame: bool = True
    in_schema: bool = True
    agree: bool = True

    def count(self, records: TableCopies, other: TableCopies | None, units: pa.Table) -> Any:
        """The histograms of the blocks."""
        counts = tabulation.histograms(
            len(self.codes), tabulation.number_of_cells(self.output.axes), self._parts(records, other)
        )
        layout = self.output.microdata
        if layout is not None and other is not None:
            self._appended(layout, other, units)
        return counts

    def _parts(self, records: TableCopies, other: TableCopies | None) -> Iterator[tuple[Integers, Integers, Integers]]:
        cells = tabulation.number_of_cells(self.output.axes)
        for batch in records.batches(ROWS_AT_ONCE):
            place, cell = self._place(batch), self._cell(batch)
            self._compare(batch, other)
            self.rows += batch.num_rows
            in_domain = (place >= 0) & (cell >= 0)
            keys, times = np.unique(place[in_domain] * cells + cell[in_domain], return_counts=True)
            yield keys // cells, keys % cells, times

    def _place(self, batch: pa.Table) -> Integers:
        """For each record the position of its block, or -1."""
        coded = batch.column(self.block).combine_chunks().dictionary_encode()
        used = coded.dictionary.to_numpy(zero_copy_only=False).astype(str)
        position = np.minimum(np.searchsorted(self.codes, used), len(self.codes) - 1)
        position = np.where(self.codes[position] == used, position, -1)
        place: Integers = position[coded.indices.to_numpy()]
        self.in_frame &= bool((place >= 0).all())
        return place

    def _cell(self, batch: pa.Table) -> Integers:
        """For each record its cell of the histogram, or a negative number."""
        cell, in_domain = np.zeros(batch.num_rows, np.int64), np.ones(batch.num_rows, bool)
        for name, codes in self.output.axes.items():
            index = pc.index_in(batch.column(name), value_set=pa.array(codes))
            index = pc.fill_null(index, -1).to_numpy().astype(np.int64)
            in_domain &= index >= 0
            cell = cell * len(codes) + index
        self.in_schema &= bool(in_domain.all())
        return np.where(in_domain, cell, -1)

    def _compare(self, batch: pa.Table, other: TableCopies | None) -> None:
        layout = self.output.microdata
        if layout is None or other is None or not self.in_schema:
            return
        self._expect(layout.encode(batch, self.block, self.rows + 1), other)

    def _appended(self, layout: MicrodataLayout, other: TableCopies, units: pa.Table) -> None:
        if layout.file.appended is not None:
            times = np.sum([units.column(name).to_numpy() for name in layout.file.appended.frame], axis=0)
            blocks = units.column(self.block).combine_chunks()
            for batch in layout.appended(blocks, times, self.rows + 1):
                self._expect(batch, other)
        self.agree &= other.at_end()

    def _expect(self, batch: pa.RecordBatch, other: TableCopies) -> None:
        released = other.take(batch.num_rows)
        self.agree &= same_rows(released, pa.Table.from_batches([of_schema(batch, released.schema)]))
        self.lines += released.num_rows


def _constraints(facts: dict[str, Any], output: Output, counts: Any, units: pa.Table) -> Iterator[Check]:
    """Structural zeros, bounds and what the frame says, in every block."""

    def of(*conditions: dict[str, list[Any]]) -> Integers:
        """How many records of each block meet each condition: blocks x conditions."""
        chosen = [tabulation.cells_where(output.axes, where) for where in conditions]
        dense: Integers = (counts @ tabulation.indicators(counts.shape[1], chosen)).toarray()
        return dense

    for zero in facts["strategy"]["constraints"]["zeros"]:
        records = int(of(zero["where"]).sum())
        yield Check(f"structural zero {zero['name']}", not records, f"{records:,} records")
    for bound in facts["bounds"]:
        found_in = of(*({bound["attribute"]: group["codes"]} for group in bound["groups"]))
        limit = bound["per_unit"] * _columns(units, [group["column"] for group in bound["groups"]])
        broken = int((found_in < limit if bound["side"] == Side.LOWER.value else found_in > limit).sum())
        yield Check(f"bound {bound['name']}", not broken, f"{broken:,} blocks out of bounds")
    kept = {name: counts_fingerprint(units.column(name).to_numpy()) for name in facts["frame_columns"]}
    yield Check("units: counts of the frame as planned", kept == facts["frame_counts"], ", ".join(kept) or "none")
    for invariant in facts["told"]:
        found_in = of(*(cell["where"] for cell in invariant["cells"]))
        broken = int((found_in != _columns(units, [cell["column"] for cell in invariant["cells"]])).sum())
        yield Check(
            f"invariant {invariant['name']}", not broken, f"{broken:,} blocks with another count than the frame's"
        )


def _columns(units: pa.Table, names: Sequence[str]) -> Integers:
    return np.stack([units.column(name).to_numpy() for name in names], axis=1)


def _level(name: str, units: pa.Table) -> Geolevel:
    """A level or area as the released table of blocks has it; an empty code is in none."""
    coded = units.column(name).combine_chunks().dictionary_encode()
    used = coded.dictionary.to_numpy(zero_copy_only=False).astype(str)
    order = np.array([position for position in np.argsort(used).tolist() if used[position]], np.int64)
    number = np.full(len(used), OUTSIDE, np.int64)
    number[order] = np.arange(len(order))
    return Geolevel(name, tuple(used[order].tolist()), number[coded.indices.to_numpy()])


def _blocks(name: str, codes: NDArray[np.str_]) -> Geolevel:
    return Geolevel(name, tuple(codes.tolist()), np.arange(len(codes)))


def _nested(levels: Sequence[Geolevel]) -> Check:
    """Whether each unit of a level lies in one of the level above, so that sums over children mean something."""
    nested = all((level.unit_of_block >= 0).all() for level in levels)
    for above, level in pairwise(levels):
        parent = np.zeros(level.units, np.int64)
        parent[level.unit_of_block] = above.unit_of_block
        nested &= bool((parent[level.unit_of_block] == above.unit_of_block).all())
    detail = ", ".join(f"{level.units:,} {level.name}" for level in levels)
    return Check("units: levels nest", nested, detail)
