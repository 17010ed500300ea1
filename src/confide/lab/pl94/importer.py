"""``confide import pl94``: a person file and a block file out of a PL 94-171 zip.

Both files are written under temporary names, the person file is read back and tabulated again against every published
cell, and only then do they take their names: a failed import leaves nothing behind.
"""

from __future__ import annotations

import filecmp
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from confide.answers import AnswerPart, TypedAnswer
from confide.errors import InputError, ParameterError, Place, RunError
from confide.lab.pl94.segments import (
    CELLS,
    RACES,
    SIZE_LIMIT,
    Archive,
    CellArray,
    Findings,
    Header,
    IntArray,
    Progress,
    PublishedTable,
    SparseRows,
    SummaryLevel,
    geo_layout,
    pieces,
    read_header,
    read_segment,
    table_layout,
)

PERSONS, BLOCKS = "persons.parquet", "blocks.parquet"
PEOPLE_AT_ONCE = 1 << 20
SCHEMA = pa.schema(
    [("geocode", pa.string()), ("votingage", pa.int8()), ("hispanic", pa.int8()), ("cenrace", pa.int8())],
    metadata={"confide.layout": f"{geo_layout().id}, {table_layout().id}"},
)


@dataclass(frozen=True, slots=True)
class ImportSummary(TypedAnswer):
    """What an import made, and what it was checked against. All of it is in the published file."""

    source: str
    state: str
    persons: int
    adults: int
    hispanic: int
    blocks: int
    populated_blocks: int
    housing_units: int
    persons_file: Path
    blocks_file: Path
    comparisons: tuple[LevelComparison, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain values for ``--json``."""
        return asdict(self) | {"persons_file": str(self.persons_file), "blocks_file": str(self.blocks_file)}

    def described(self) -> Iterator[AnswerPart]:
        """What was written, and that it agrees with the file."""
        cells = sum(comparison.cells for comparison in self.comparisons)
        yield (
            f"{self.source}: {self.persons:,} persons ({self.adults:,} adults, {self.hispanic:,} Hispanic) "
            f"in {self.blocks:,} blocks, {self.populated_blocks:,} of them populated; "
            f"{self.housing_units:,} housing units"
        )
        yield f"tabulated again: all {cells:,} published cells of P1 to P4 agree: " + ", ".join(
            f"{item.level.replace('_', ' ')} {item.areas:,}" for item in self.comparisons
        )
        yield f"wrote {self.persons_file} and {self.blocks_file}"


def import_pl94(
    zip_path: Path | str,
    out_folder: Path | str,
    *,
    limit: int = 20,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> ImportSummary:
    """Make ``persons.parquet`` and ``blocks.parquet`` in ``out_folder`` from a state's 2010 PL 94-171 zip.

    Args:
        zip_path: The zip of a state.
        out_folder: The folder to write to.
        limit: How many disagreements of one kind are listed.
        overwrite: Whether other files of the same names are replaced.
        progress: Receives stages; none by default.

    Returns:
        What was read, written and tabulated again.

    Raises:
        InputError: The file is damaged or contradicts itself.
        RunError: The folder cannot be written, or already holds other files of these names.

    >>> import confide
    >>> confide.import_pl94(pl94_zip, tmp_path).persons
    35
    """

    def tell(stage: str, done: int, total: int) -> None:
        if progress is not None:
            progress(stage, done, total)

    file = read_pl94(zip_path, limit=limit, progress=progress)
    tell("checking sums", 0, 1)
    check_consistency(file, limit=limit)
    tell("checking sums", 1, 1)
    counts = persons_from_pl94(file, limit=limit)
    with _writing(Path(out_folder), overwrite) as (persons, blocks):
        frame = file.blocks()
        parquet.write_table(frame.replace_schema_metadata(SCHEMA.metadata), blocks, compression="zstd")
        _write_persons(file, counts, persons, tell)
        tell("tabulating again", 0, 1)
        findings = Findings(file.path.name, limit)
        read_back = count_persons(persons, file.geocodes("block"))
        comparisons = compare(file, read_back, findings=findings)
        findings.stop_if_any()
        tell("tabulating again", 1, 1)
    everywhere = np.zeros(len(counts), np.int64)
    people = counts.sums(np.arange(len(counts)), everywhere, 1).reshape(2, 2, RACES)
    return ImportSummary(
        source=file.path.name,
        state=file.state,
        persons=int(people.sum()),
        adults=int(people[1].sum()),
        hispanic=int(people[:, 1].sum()),
        blocks=len(counts),
        populated_blocks=int((np.diff(counts.starts) > 0).sum()),
        housing_units=int(frame["housing_units"].to_numpy().sum(dtype=np.int64)),
        persons_file=Path(out_folder) / PERSONS,
        blocks_file=Path(out_folder) / BLOCKS,
        comparisons=comparisons,
    )


def _write_persons(file: Pl94File, counts: SparseRows, path: Path, tell: Progress) -> None:
    """One row for each person, sorted by geocode, votingage, hispanic, cenrace."""
    codes = file.geocodes("block")
    block = np.repeat(np.arange(len(counts)), np.diff(counts.starts))
    ends = np.cumsum(counts.values, dtype=np.int64)
    total = int(ends[-1]) if len(ends) else 0
    with parquet.ParquetWriter(path, SCHEMA, compression="zstd") as writer:
        for start in range(0, total, PEOPLE_AT_ONCE):
            # person number i belongs to the first entry whose running total exceeds i
            entry = np.searchsorted(ends, np.arange(start, min(start + PEOPLE_AT_ONCE, total)), side="right")
            cell = counts.columns[entry].astype(np.int64)
            columns = [
                codes.take(pa.array(block[entry])),
                pa.array((cell // (2 * RACES)).astype(np.int8)),
                pa.array((cell // RACES % 2).astype(np.int8)),
                pa.array((cell % RACES).astype(np.int8)),
            ]
            writer.write_batch(pa.record_batch(columns, schema=SCHEMA))
            tell("writing persons", min(start + PEOPLE_AT_ONCE, total), total)


@contextmanager
def _writing(folder: Path, overwrite: bool) -> Iterator[tuple[Path, Path]]:
    """Temporary names for the two files, which take their own names if all goes well and vanish if not."""
    targets = (folder / PERSONS, folder / BLOCKS)
    drafts = tuple(folder / f".{target.name}.{os.getpid()}.part" for target in targets)
    new_folders = [path for path in (folder, *folder.parents) if not path.exists()]
    finished = False
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield drafts[0], drafts[1]
        for draft, target in zip(drafts, targets, strict=True):
            _sync(draft)
            if target.exists() and not overwrite and not filecmp.cmp(draft, target, shallow=False):
                raise RunError("pl94.exists", where=Place(file=str(target)))
        for draft, target in zip(drafts, targets, strict=True):
            draft.replace(target)
        finished = True
    except OSError as error:
        raise RunError("pl94.write", where=Place(file=str(folder)), found=error.strerror or str(error)) from None
    finally:
        if not finished:
            _remove(drafts, new_folders)


def _sync(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _remove(drafts: tuple[Path, ...], new_folders: list[Path]) -> None:
    """Take away drafts, and folders that were made for them."""
    try:
        for draft in drafts:
            draft.unlink(missing_ok=True)
        for path in new_folders:
            if path.exists():
                path.rmdir()
    except OSError:
        pass  # the first error is the one to report


# From people back to the published tables, and whether the two agree.
#
# :func:`tabulate` computes P1 to P4 of any area from its counts of people; :func:`compare` reads a written person file
# and sets its tabulations against every published cell, level by level; :func:`check_consistency` asks the same of the
# sums inside the published tables.


PERSON_TABLES = ("P1", "P2", "P3", "P4")


@dataclass(frozen=True, slots=True)
class LevelComparison:
    """How one level's published cells compare with a tabulation of the person file."""

    level: str
    areas: int
    cells: int
    different: int

    @property
    def ok(self) -> bool:
        return self.different == 0


def race_table(counts: CellArray | IntArray) -> CellArray | IntArray:
    """The 71 lines of a table by race, from counts of shape (areas, 63)."""
    layout = table_layout()
    lines = np.zeros((len(counts), layout.tables["P1"].lines), counts.dtype)
    lines[:, layout.race_lines - 1] = counts
    for subtotal in layout.subtotals:
        lines[:, subtotal.line - 1] = counts[:, subtotal.start : subtotal.stop].sum(axis=1)
    lines[:, layout.total - 1] = counts.sum(axis=1)
    return lines


def tabulate(counts: CellArray | IntArray, table: PublishedTable) -> CellArray | IntArray:
    """The lines of P1, P2, P3 or P4 from counts of people, of shape (areas, 252) or (areas, 2, 2, 63).

    Args:
        counts: Counts of people.
        table: One of P1 to P4.

    Returns:
        A row for each area, a column for each line.

    >>> tabulate(np.ones((1, 252), np.int64), published_table("P1")).shape
    (1, 71)
    """
    layout = table_layout()
    people = counts.reshape(len(counts), 2, 2, RACES)
    people = people[:, 1] if table.universe == "adults" else people.sum(axis=1, dtype=counts.dtype)
    if table.by == "race":
        return race_table(people.sum(axis=1, dtype=counts.dtype))
    not_hispanic = race_table(people[:, 0])
    lines = np.zeros((len(counts), table.lines), counts.dtype)
    lines[:, layout.hispanic - 1] = people[:, 1].sum(axis=1)
    lines[:, layout.shift :] = not_hispanic  # its total lands on the line "not Hispanic"
    lines[:, layout.total - 1] = lines[:, layout.hispanic - 1] + not_hispanic[:, layout.total - 1]
    return lines


def count_persons(persons: Path, geocodes: pa.Array, *, batch: int = 1 << 20) -> SparseRows:
    """Counts of people by block from a person file: a row for each of the sorted ``geocodes``.

    Args:
        persons: A file as :func:`import_pl94` writes it.
        geocodes: The codes of the blocks, sorted.
        batch: How many rows are read at once.

    Returns:
        A row for each block.

    >>> from pyarrow import parquet
    >>> made = import_pl94(pl94_zip, tmp_path)
    >>> blocks = sorted(parquet.read_table(made.blocks_file).column("geocode").to_pylist())
    >>> len(count_persons(made.persons_file, pa.array(blocks)).starts) - 1
    5
    """
    keys, counts = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    with parquet.ParquetFile(persons, read_dictionary=["geocode"]) as file:
        for rows in file.iter_batches(batch, columns=["geocode", "votingage", "hispanic", "cenrace"]):
            codes = rows["geocode"]
            block = pc.index_in(codes.dictionary, value_set=geocodes).take(codes.indices)
            if block.null_count:
                raise InputError("pl94.persons/person", where=Place(file=persons.name))
            key = block.to_numpy().astype(np.int64)
            for name, size in (("votingage", 2), ("hispanic", 2), ("cenrace", RACES)):
                code = rows[name].to_numpy()
                if len(code) and not 0 <= int(code.min()) <= int(code.max()) < size:
                    raise InputError("pl94.persons/code", where=Place(file=persons.name, column=name), size=size - 1)
                key = key * size + code
            unique, times = np.unique(key, return_counts=True)
            keys.append(unique)
            counts.append(times)
    cell, inverse = np.unique(np.concatenate(keys), return_inverse=True)
    total = np.zeros(len(cell), np.int64)
    np.add.at(total, inverse, np.concatenate(counts))
    starts = np.searchsorted(cell, np.arange(len(geocodes) + 1, dtype=np.int64) * CELLS)
    return SparseRows(CELLS, starts.astype(np.int64), (cell % CELLS).astype(np.uint16), total.astype(np.int32))


def compare(file: Pl94File, counts: SparseRows, *, findings: Findings | None = None) -> tuple[LevelComparison, ...]:
    """Set tabulations of people by block against the published P1 to P4 of every level that is verified.

    ``counts`` is what :func:`count_persons` or :func:`persons_from_pl94` gives. Differences go into ``findings``.

    Args:
        file: What :func:`read_pl94` gives.
        counts: What :func:`count_persons` or :func:`persons_from_pl94` gives.
        findings: Takes the differences; without it, they are raised.

    Returns:
        For each level how many areas and cells were compared.

    >>> from confide.lab.pl94 import persons_from_pl94, read_pl94
    >>> file = read_pl94(pl94_zip)
    >>> compare(file, persons_from_pl94(file))[0].level
    'state'
    """
    findings = Findings(file.path.name) if findings is None else findings
    return tuple(
        _compare_level(file, counts, level, findings) for level in geo_layout().levels.values() if level.verify
    )


def _compare_level(file: Pl94File, counts: SparseRows, level: SummaryLevel, findings: Findings) -> LevelComparison:
    layout = table_layout()
    codes, rows = file.geocodes(level.name), file.rows(level.name)
    area = _area_of_block(file, level, findings)
    cells = different = 0
    for start, piece, people in _sums(counts, area, rows, level.name == "block"):
        for name in PERSON_TABLES:
            table = layout.tables[name]
            tabulated, published = tabulate(people, table), file.dense(table, piece)
            cells += published.size
            wrong = np.argwhere(tabulated != published)
            different += len(wrong)
            for row, line in wrong.tolist():
                findings.note(
                    "pl94.tabulation",
                    file.members[f"{table.segment:05}"],
                    int(file.lines[piece[row]]),
                    column=layout.cell_name(table, line),
                    found=str(tabulated[row, line]),
                    name=level.name,
                    area=codes[start + row].as_py(),
                    published=published[row, line],
                )
    return LevelComparison(level.name, len(rows), cells, different)


def _sums(
    counts: SparseRows, area: IntArray, rows: IntArray, blocks: bool
) -> Iterator[tuple[int, IntArray, CellArray | IntArray]]:
    """Pieces of a level: where it starts, its rows in the file, and its counts of people."""
    done = 0
    for piece in pieces(rows):
        here = np.arange(done, done + len(piece))
        if blocks:
            yield done, piece, counts.dense(here)
        else:
            inside = np.flatnonzero((area >= done) & (area < done + len(piece)))
            yield done, piece, counts.sums(inside, area[inside] - done, len(piece))
        done += len(piece)


def _area_of_block(file: Pl94File, level: SummaryLevel, findings: Findings) -> IntArray:
    """For each block in order of geocode, the place of its area among the level's sorted rows; -1 for none."""
    codes = file.codes(level, file.rows("block"))
    place = pc.index_in(codes, value_set=file.geocodes(level.name))
    lost = pc.is_null(place)
    if level.none is not None:
        lost = pc.and_(lost, pc.invert(pc.ends_with(codes, pattern=level.none)))
    for code in pc.unique(codes.filter(lost)).to_pylist():
        findings.note("pl94.area", file.members["geo"], name=level.name, area=code, sumlev=level.sumlev)
    return np.asarray(pc.fill_null(place, -1).to_numpy(), dtype=np.int64)


# From the published tables to people: the cross-classification that P1 to P4 determine.
#
# For a block and a set of races, let P1 count everybody, P2 those not Hispanic, P3 those aged 18 and over and P4
# those both. Inclusion and exclusion give the four parts of votingage x hispanic:
#
#     not Hispanic, 18 and over   P4
#     Hispanic, 18 and over       P3 - P4
#     not Hispanic, under 18      P2 - P4
#     Hispanic, under 18          P1 - P2 - P3 + P4
#
# The map is one to one, so the records made from it tabulate back to every published cell (docs/concepts/pl94.md).
# Nothing else about a person is determined. A negative part means that the tables contradict each other.


PARTS = (
    ("not Hispanic, under 18", "P2 - P4"),
    ("Hispanic, under 18", "P1 - P2 - P3 + P4"),
    ("not Hispanic, 18 and over", "P4"),
    ("Hispanic, 18 and over", "P3 - P4"),
)


def people(p1: CellArray, p2: CellArray, p3: CellArray, p4: CellArray) -> CellArray:
    """Counts of shape (areas, 2, 2, 63), axes votingage, hispanic, cenrace, from the race lines of P1 to P4.

    Args:
        p1: The race lines of P1, (areas, 63).
        p2: Those of P2: not Hispanic.
        p3: Those of P3: adults.
        p4: Those of P4: adults who are not Hispanic.

    Returns:
        The counts of people.

    >>> one = np.ones((1, 63), np.int64)
    >>> people(one, one, one, one).shape
    (1, 2, 2, 63)
    """
    return np.stack([p2 - p4, p1 - p2 - p3 + p4, p4, p3 - p4], axis=1).reshape(len(p1), 2, 2, -1)


def persons_from_pl94(file: Pl94File, *, limit: int = 20) -> SparseRows:
    """Counts of people by block: a row for each block in order of geocode, 252 = 2 x 2 x 63 cells in C order.

    Raises :class:`InputError` naming block, race line and tables where a count would be negative.

    Args:
        file: What :func:`read_pl94` gives.
        limit: How many negative counts are listed.

    Returns:
        A row for each block.

    >>> from confide.lab.pl94 import read_pl94
    >>> int(persons_from_pl94(read_pl94(pl94_zip)).values.sum())
    35
    """
    findings = Findings(file.path.name, limit)
    counts = SparseRows.gather(CELLS, _counts(file, findings))
    findings.stop_if_any()
    return counts


def _counts(file: Pl94File, findings: Findings) -> Iterator[CellArray]:
    layout = table_layout()
    tables = [layout.tables[name] for name in ("P1", "P2", "P3", "P4")]
    done = 0
    for rows in pieces(file.rows("block")):
        segments = [segment.dense(rows) for segment in file.segments]
        counts = people(*(segments[table.segment - 1][:, layout.race_columns(table)] for table in tables))
        if int(counts.min()) < 0:
            _negative(file, findings, counts, rows, done, tables)
        done += len(rows)
        yield np.maximum(counts, 0).reshape(len(rows), CELLS)


def _negative(
    file: Pl94File, findings: Findings, counts: CellArray, rows: IntArray, done: int, tables: list[PublishedTable]
) -> None:
    layout, codes = table_layout(), file.geocodes("block")
    flat = counts.reshape(len(rows), 4, RACES)
    for row, part, race in np.argwhere(flat < 0).tolist():
        who, formula = PARTS[part]
        used = [table for table in tables if table.name in formula]
        cells = [(table, int(layout.race_columns(table)[race]) - table.first) for table in used]
        values = [f"{layout.cell_name(t, c)} = {file.dense(t, rows[row : row + 1])[0, c]}" for t, c in cells]
        findings.note(
            "pl94.negative",
            file.members[f"{used[-1].segment:05}"],
            int(file.lines[rows[row]]),
            column=layout.cell_name(*cells[-1]),
            found=f"{', '.join(values)}: {flat[row, part, race]}",
            tables=", ".join(table.name for table in used),
            block=codes[done + row].as_py(),
            who=who,
            formula=formula,
        )


# Whether the numbers of a PL 94-171 file agree with each other, at every level.
#
# In each table by race: every subtotal is the sum of its race lines, and the total the sum of all. In each table by
# origin: the same for people not Hispanic, and the total is Hispanic plus not Hispanic. Between tables: P1 and P2
# have the same total, P3 and P4 too. H1 is occupied plus vacant. The header's POP100 and HU100 are the totals of P1
# and H1.


Sum = tuple[PublishedTable, int, CellArray | IntArray, str]
"""A table, a line counted from 1, what it must be, and that in words."""


def check_consistency(file: Pl94File, *, limit: int = 20) -> None:
    """Raise :class:`InputError` with every contradiction, up to ``limit``.

    Args:
        file: What :func:`read_pl94` gives.
        limit: How many contradictions are listed.

    >>> from confide.lab.pl94 import read_pl94
    >>> check_consistency(read_pl94(pl94_zip))
    """
    findings = Findings(file.path.name, limit)
    layout = table_layout()
    for level in geo_layout().levels:
        codes, done = file.geocodes(level), 0
        for rows in pieces(file.rows(level)):
            segments = [segment.dense(rows) for segment in file.segments]
            cells = {name: segments[table.segment - 1][:, table.cells] for name, table in layout.tables.items()}
            for table, line, expected, words in _sums_consistency(file, cells, rows):
                line_counts = cells[table.name][:, line - 1]
                for row in np.flatnonzero(line_counts != expected).tolist():
                    findings.note(
                        "pl94.sum",
                        file.members[f"{table.segment:05}"],
                        int(file.lines[rows[row]]),
                        column=layout.cell_name(table, line - 1),
                        found=str(line_counts[row]),
                        table=table.name,
                        level=level,
                        area=codes[done + row].as_py(),
                        words=words,
                        sum=expected[row],
                    )
            done += len(rows)
    findings.stop_if_any()


def _sums_consistency(file: Pl94File, cells: dict[str, CellArray], rows: IntArray) -> Iterator[Sum]:
    """Everything that must hold, for a piece of rows."""
    layout = table_layout()
    tables = layout.tables
    for name in ("P1", "P2", "P3", "P4"):
        table, shift = tables[name], layout.shift if tables[name].by == "origin" else 0
        races = cells[name][:, layout.race_lines - 1 + shift]
        for part in layout.subtotals:
            yield table, part.line + shift, races[:, part.start : part.stop].sum(axis=1), "the sum of its race lines"
        yield table, layout.total + shift, races.sum(axis=1), "the sum of its race lines"
        if shift:
            both = cells[name][:, layout.hispanic - 1] + cells[name][:, layout.total + shift - 1]
            yield table, layout.total, both, "the sum of Hispanic and not Hispanic"
    for name, other in (("P2", "P1"), ("P4", "P3")):
        yield tables[name], layout.total, cells[other][:, layout.total - 1], f"the total of {other}"
    units, line = cells["H1"], layout.occupancy
    both = units[:, line["occupied"] - 1] + units[:, line["vacant"] - 1]
    yield tables["H1"], line["total"], both, "the sum of occupied and vacant"
    yield tables["P1"], layout.total, file.header.population[rows], "the header's POP100"
    yield tables["H1"], line["total"], file.header.housing_units[rows], "the header's HU100"


# A PL 94-171 file in memory: geography and published cells by summary level.


@dataclass(frozen=True, eq=False, repr=False)
class Pl94File:
    """The rows of the summary levels in ``data/pl94/geo2010.toml``, sorted by geocode within each level."""

    path: Path
    header: Header
    segments: tuple[SparseRows, SparseRows]
    members: dict[str, str]

    def __repr__(self) -> str:
        return f"<PL 94-171 file {self.path.name}: {self.header.state}, {len(self.header.level):,} rows>"

    @property
    def state(self) -> str:
        """The state's two letters."""
        return self.header.state

    @cached_property
    def lines(self) -> IntArray:
        """The line, in every member, of each kept row."""
        return np.flatnonzero(self.header.kept) + 1

    @cached_property
    def _levels(self) -> dict[str, tuple[IntArray, pa.Array]]:
        """By level: the kept rows in order of geocode, and the geocodes."""
        result = {}
        for number, level in enumerate(geo_layout().levels.values()):
            rows = np.flatnonzero(self.header.level == number)
            codes = self.codes(level, rows)
            order = pc.sort_indices(codes).to_numpy()
            result[level.name] = (rows[order], codes.take(order))
        return result

    def codes(self, level: SummaryLevel, rows: IntArray) -> pa.Array:
        """The geocodes at ``level`` of kept rows: of a block's row, the code of the area the block is in."""
        parts = [
            self.header.geography[name].take(rows).combine_chunks() for name in geo_layout().geocode_columns(level)
        ]
        return pc.binary_join_element_wise(*parts, "")

    def _level(self, level: str) -> tuple[IntArray, pa.Array]:
        try:
            return self._levels[level]
        except KeyError:
            names = ", ".join(self._levels)
            raise ParameterError("pl94.level", found=repr(level), names=names) from None

    def rows(self, level: str) -> IntArray:
        """The positions, among the kept rows, of a level's rows in order of geocode."""
        return self._level(level)[0]

    def geocodes(self, level: str) -> pa.Array:
        """The geocodes of a level, sorted."""
        return self._level(level)[1]

    def geography(self, level: str) -> pa.Table:
        """The geography of a level: geocode, outer codes, areas in square metres, interior point, name."""
        rows, codes = self._level(level)
        columns = [name for name, column in geo_layout().columns.items() if column.kind != "geocode"]
        return self.header.geography.select(columns).take(rows).add_column(0, "geocode", codes).combine_chunks()

    def cells(self, level: str, table: str) -> CellArray:
        """The published cells of a table (``P1`` to ``P4``, ``H1``), of shape (areas of the level, lines)."""
        published = published_table(table)
        return self.dense(published, self.rows(level))

    def dense(self, table: PublishedTable, rows: IntArray) -> CellArray:
        """The published cells of a table for kept rows."""
        return self.segments[table.segment - 1].dense(rows)[:, table.cells]

    def blocks(self) -> pa.Table:
        """The frame of blocks: geography and housing units. It holds no count of people."""
        units = self.cells("block", "H1")
        frame = self.geography("block")
        line = table_layout().occupancy
        place = frame.schema.get_field_index("land_area")
        frame = frame.add_column(place, "occupied_units", pa.array(units[:, line["occupied"] - 1]))
        return frame.add_column(place, "housing_units", pa.array(units[:, line["total"] - 1]))


def published_table(name: str) -> PublishedTable:
    """A published table by name.

    Args:
        name: ``P1``, ``P2``, ``P3``, ``P4`` or ``H1``.

    Returns:
        The table.

    >>> published_table("P1").name
    'P1'
    """
    tables = table_layout().tables
    if name not in tables:
        raise ParameterError("pl94.table", found=repr(name), tables=", ".join(tables))
    return tables[name]


def read_pl94(
    path: Path | str, *, limit: int = 20, size_limit: int = SIZE_LIMIT, progress: Progress | None = None
) -> Pl94File:
    """Read a state's 2010 PL 94-171 zip.

    Whether its numbers agree with each other is asked by :func:`confide.lab.pl94.check_consistency`.

    Args:
        path: The zip, as the Census Bureau publishes it.
        limit: How many findings are gathered before the reading stops.
        size_limit: The most bytes that the files may have when they are unpacked.
        progress: A display, if one is wanted.

    Returns:
        The file.

    Raises:
        InputError: With everything that is wrong with its form.

    >>> read_pl94(pl94_zip).state
    'RI'
    """
    path = Path(path)
    findings = Findings(path.name, limit)
    with Archive(path, findings, size_limit=size_limit, progress=progress) as archive:
        header = read_header(archive)
        segments = (read_segment(archive, 1, header), read_segment(archive, 2, header))
        members = {part: archive.name(part) for part in archive.members}
    file = Pl94File(path, header, segments, members)
    _check_codes(file, findings)
    findings.stop_if_any()
    return file


def _check_codes(file: Pl94File, findings: Findings) -> None:
    """A state and blocks are there; no geocode is there twice; block codes are 15 digits."""
    layout = geo_layout()
    for level in layout.levels.values():
        rows, codes = file.rows(level.name), file.geocodes(level.name)
        if not len(rows) and level.name in ("state", "block"):
            findings.note("pl94.level/row", name=level.name, sumlev=level.sumlev)
        twice = np.flatnonzero(pc.equal(codes[1:], codes[:-1]).to_numpy(zero_copy_only=False)) if len(rows) else ()
        for row in twice:
            line, code = int(file.lines[rows[row + 1]]), codes[int(row) + 1].as_py()
            findings.note("pl94.geocode/twice", file.members["geo"], line, found=code, name=level.name)
    rows, codes = file.rows("block"), file.geocodes("block")
    group = file.header.geography["BLKGRP"].take(rows).combine_chunks()
    good = pc.and_(
        pc.match_substring_regex(codes, "^[0-9]{15}$"), pc.equal(pc.utf8_slice_codeunits(codes, 11, 12), group)
    )
    for row in np.flatnonzero(~good.to_numpy(zero_copy_only=False)):
        found = f"{codes[int(row)].as_py()}, block group {group[int(row)].as_py()}"
        findings.note("pl94.geocode/digits", file.members["geo"], int(file.lines[rows[row]]), found=found)
