"""What ``verify`` asks of every tabular release, and how an evaluation finds the files of a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from confide.arrays import Integers
from confide.errors import Place, ReleaseError
from confide.releases.folder import ARGUS, COMPANIONS, SealedRelease
from confide.releases.mechanism import Check
from confide.releases.tabular import table as tabular_table
from confide.releases.tabular.described import AREAS, CELLS, DescribedTable, Rows, listed_areas
from confide.releases.tabular.rows import SDMX, RowsInOrder, TableRows

STATEMENT, STAMP_FILE = "statement.html", "NOT-FOR-RELEASE.txt"
R = TypeVar("R")


def table_files(name: str, files: Iterable[str]) -> dict[str, str]:
    """The files of a table by their format, stamped or not."""
    stems = {f"tables/{name}": ("parquet", "csv"), f"sdmx/{name}": ("csv",)}
    paths = {}
    for path in files:
        stem, ending = path.split(".")[0], path.rsplit(".", maxsplit=1)[-1]
        if ending in stems.get(stem, ()):
            paths[SDMX if stem.startswith("sdmx/") else ending] = path
    return {format_: paths[format_] for format_ in ("parquet", "csv", SDMX) if format_ in paths}


def no_other_files(names: Iterable[str], files: Collection[str], also: Iterable[str] = ()) -> Check:
    """Every file is a table of the plan, the statement, or named in ``also``."""
    listed = list(names)
    planned = {path for name in listed for path in table_files(name, files).values()} | {STATEMENT, STAMP_FILE, *also}
    stems = {f"{CELLS}/{name}" for name in listed} | {AREAS}
    stems |= {path.split(".")[0] for path in files if path.startswith("geo/")}  # they have checks of their own
    others = sorted(
        path
        for path in set(files) - planned - COMPANIONS
        if path.split(".")[0] not in stems and not path.startswith(ARGUS)
    )
    return Check("no other files", not others, ", ".join(others) or "every file is one of the plan, or the statement")


def every_format(names: Iterable[str], files: Collection[str]) -> Check:
    """All tables are there, in the same formats."""
    formats = {tuple(table_files(name, files)) for name in names}
    detail = ", ".join(sorted(set().union(*formats))) or "no file of any table is in the release"
    return Check("every table in every format", len(formats) == 1 and () not in formats, detail)


def unique_keys(name: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Check:
    """Whether the columns that say which cell a row is tell every row apart from every other.

    Args:
        name: The name of the table.
        columns: These columns.
        rows: Texts that must all differ: those of each row, or for each variable its labels and the total's.

    Returns:
        The check: without it, two figures would stand for one cell.
    """
    twice = [text for text, times in Counter(tuple(row) for row in rows).items() if times > 1]
    twice += [(column,) for column, times in Counter(column.lower() for column in columns).items() if times > 1]
    detail = f"{' '.join(twice[0])} stands for two" if twice else ", ".join(columns) or "one row"
    return Check(f"{name}: a key for each row", not twice, detail)


def labels_tell_apart(table: tabular_table.Table) -> Check:
    """The same from the labels of the plan, for tables whose rows are known to have each combination of them once."""
    labels = ((variable.name, text) for variable in table.variables for text in table.label_texts(variable))
    return unique_keys(table.name, table.columns, labels)


def read_formats(
    folder: Path, name: str, files: Iterable[str], read: Callable[[Path, str], R]
) -> tuple[dict[str, R], str]:
    """A table as each of its files has it, and the first problem in words.

    Args:
        folder: The release.
        name: The name of the table.
        files: The files that the manifest lists.
        read: Reads one file, given its path and format.

    Returns:
        What was read by format, and what is not as the plan describes it, or nothing.
    """
    contents: dict[str, R] = {}
    paths = table_files(name, files)
    problem = "" if paths else "no file of this table is in the release"
    for format_, path in paths.items():
        try:
            contents[format_] = read(folder / path, format_)
        except tabular_table.UnlikePlanError as error:
            problem = problem or f"{format_}: {error}"
    return contents, problem


def same_formats(name: str, contents: Mapping[str, R], equal: Callable[[R, R], bool]) -> Check:
    """Every format has the same rows."""
    first, *others = contents.values()
    same = all(equal(first, other) for other in others)
    return Check(f"{name}: the same in every format", same, ", ".join(contents))


def checked_rows(
    folder: Path, table: tabular_table.Table, files: Collection[str], read: Callable[[Path, str], TableRows], cells: int
) -> Generator[Check, None, TableRows | None]:
    """What is asked of every table of margins: columns, labels and keys, the same rows in every format, in order.

    Args:
        folder: The release.
        table: The table as the plan describes it.
        files: The files that the manifest lists.
        read: Reads one file, given its path and format.
        cells: How many cells there are, with those that are not listed.

    Returns:
        The rows, where they can be read and each cell is there once, in order.
    """
    contents, problem = read_formats(folder, table.name, files, read)
    yield Check(f"{table.name}: columns and labels", not problem, problem or f"{cells:,} cells in all")
    yield labels_tell_apart(table)
    if problem:
        return None
    yield same_formats(table.name, contents, TableRows.equals)
    rows = next(iter(contents.values()))
    ordered = rows.in_order()
    yield Check(f"{table.name}: every cell once, in order", ordered, f"{len(rows.cell):,} cells that are listed")
    return rows if ordered else None


# What tables have in common: a cross-classification that several have has the same figures in each.


@dataclass(frozen=True, eq=False)
class MarginRows:
    """The published cells of a margin, on a level by the number of the area among those that are listed."""

    cell: Integers
    """``area * cells + cell``, ascending."""
    rows: TableRows
    areas: pa.Array | None

    def same_as(self, other: MarginRows, order: Sequence[int], shape: Sequence[int]) -> bool:
        """Whether both have the same figures; ``order`` says which axes of this one are those of the other."""
        size = int(np.prod(shape, dtype=np.int64))
        within = _turned(self.cell % size, order, shape)
        at = np.lexsort((within, self.cell // size))
        return (
            np.array_equal(within[at], other.cell % size)
            and (self.rows.area is None or self.rows.area.take(pa.array(at)).equals(other.rows.area))
            and all(np.array_equal(values[at], other.rows.figures[name]) for name, values in self.rows.figures.items())
        )


def margin_rows(table: tabular_table.Table, rows: TableRows) -> Iterator[tuple[tuple[str | None, str], MarginRows]]:
    """For each level and margin of a table its cells."""
    for place, level in enumerate(table.levels or (None,)):
        here = rows if level is None else rows.on_level(place)
        areas, number = None, np.zeros(len(here.cell), np.int64)
        if here.area is not None and level is not None:
            coded = here.area.dictionary_encode()
            areas, number = coded.dictionary, coded.indices.to_numpy().astype(np.int64)
        for position, margin in enumerate(table.margins):
            of = np.flatnonzero(here.margin == position)
            chosen = here.where(here.margin == position)
            yield (level, margin.name), MarginRows(number[of] * margin.cells + here.cell[of], chosen, areas)


@dataclass(frozen=True, eq=False)
class SharedFigures:
    """The figures of cross-classifications that more than one table has, as they were met first."""

    repeated: frozenset[str]
    """Those that are worth keeping."""
    met: dict[str, tuple[tuple[str, ...], MarginRows]] = field(default_factory=dict)
    """Variables and cells."""

    @classmethod
    def of(cls, tables: Iterable[tabular_table.Table]) -> SharedFigures:
        """None so far, of the tables of a release."""
        times = Counter(
            _shared_name(level, margin)
            for table in tables
            for level in table.levels or (None,)
            for margin in table.margins
        )
        return cls(frozenset(margin for margin, number in times.items() if number > 1))

    def check(
        self, table: tabular_table.Table, figures: Mapping[tuple[str | None, str], MarginRows], said: str
    ) -> Iterator[Check]:
        """Whether a table has the figures of the tables before it, whatever order their variables have.

        Args:
            table: The table.
            figures: Its cells, from :func:`margin_rows`.
            said: What the check is called.
        """
        again, wrong = [], []
        margins = {margin.name: margin for margin in table.margins}
        for (level, margin), cells in figures.items():
            name = _shared_name(level, margins[margin])
            own = tuple(variable.name for variable in margins[margin].variables)
            if name in self.met:
                names, before = self.met[name]
                again.append(name)
                order = [own.index(variable) for variable in names]
                if not cells.same_as(before, order, margins[margin].shape):
                    wrong.append(name)
            elif name in self.repeated:
                self.met[name] = own, cells
        if again:
            detail = ", ".join(wrong) or f"{len(again)} cross-classifications that tables before it have too"
            yield Check(f"{table.name}: {said}", not wrong, detail)


def _shared_name(level: str | None, margin: tabular_table.Margin) -> str:
    """The same for the same cross-classification, whatever order its variables have."""
    name = "*".join(sorted(variable.name for variable in margin.variables))
    return name if level is None else f"{level}/{name}"


def _turned(cell: Integers, order: Sequence[int], shape: Sequence[int]) -> Integers:
    """Numbers of cells with their variables in another order."""
    if list(order) == sorted(order):
        return cell
    places = np.unravel_index(cell, tuple(shape))
    turned = np.ravel_multi_index(tuple(places[at] for at in order), tuple(shape[at] for at in order))
    return np.asarray(turned, np.int64)


# Beside each table is a file of its cells alone, and beside all of them one of all areas.


ROWS_AT_ONCE = 1 << 17


def text_batches(path: Path) -> RowsInOrder:
    """The rows of a file, Parquet or CSV, with every column as text: enough to see whether two files say the same."""
    if path.suffix == ".parquet":
        file = pq.ParquetFile(path)
        names = file.schema_arrow.names
        plain = pa.schema([pa.field(name, pa.string()) for name in names])
        batches = (pa.table(batch).replace_schema_metadata(None) for batch in file.iter_batches(ROWS_AT_ONCE))
        return RowsInOrder((as_text(batch) for batch in batches), plain.empty_table())
    names = pyarrow.csv.open_csv(path).schema.names
    options = pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False)
    plain = pa.schema([pa.field(name, pa.string()) for name in names])
    return RowsInOrder(
        (pa.table(batch) for batch in pyarrow.csv.open_csv(path, convert_options=options)), plain.empty_table()
    )


def as_text(batch: pa.Table) -> pa.Table:
    """The same rows with every column as text."""
    plain = pa.schema([pa.field(name, pa.string()) for name in batch.column_names])
    columns = [
        column.cast(pa.string()) if not pa.types.is_floating(column.type) else _float_texts(column)
        for column in batch.columns
    ]
    return pa.table(columns, schema=plain)


def _float_texts(column: pa.ChunkedArray) -> pa.Array:
    return pa.array([None if value is None else repr(value) for value in column.to_pylist()], pa.string())


def cells_and_areas(
    folder: Path, names: Sequence[str], files: Collection[str], levels: Mapping[str, int], fingerprint: str | None
) -> Iterator[Check]:
    """What is asked of the files of cells alone, and of that of areas.

    Args:
        folder: The release.
        names: The tables.
        files: The files that the manifest lists.
        levels: The levels of the tables, with their numbers of areas.
        fingerprint: That of the names of areas in the plan; None where areas have no names.
    """
    for name in names:
        yield cells_check(folder, name, files)
    if levels:
        listed = ListedAreas.open(folder, files)
        yield from areas_check(folder, names, files, levels, fingerprint, listed)


def cells_check(folder: Path, name: str, files: Collection[str]) -> Check:
    """The file of cells alone has just the rows of the table that are cells, in every format that the table has."""
    tables = {format_: path for format_, path in table_files(name, files).items() if format_ != SDMX}
    problem = ""
    rows = 0
    for format_, path in tables.items():
        own = CELLS + path.removeprefix("tables")
        if own not in files:
            problem = problem or f"{own} is missing"
            continue
        schema = _columns_of(folder / path)
        alone = schema.remove(schema.get_field_index(tabular_table.MARGIN))
        source, cells = _rows_of(folder / path, schema), _rows_of(folder / own, alone)
        while not problem and (part := source.take(ROWS_AT_ONCE)).num_rows:
            wanted = tabular_table.cells_alone(part)
            rows += wanted.num_rows
            if not tabular_table.same_rows(_exact(cells.take(wanted.num_rows)), _exact(wanted)):
                problem = f"{format_}: other rows than the cells of the table"
        if not problem and cells.take(1).num_rows:
            problem = f"{format_}: more rows than the table has cells"
    return Check(f"{name}: cells alone", not problem, problem or f"{rows // max(1, len(tables)):,} cells")


def _columns_of(path: Path) -> pa.Schema:
    """The columns of a file; those of a CSV file are read as texts, which is enough to compare it with another."""
    if path.suffix == ".parquet":
        return pq.read_schema(path)
    return pa.schema([pa.field(name, pa.string()) for name in pyarrow.csv.open_csv(path).schema.names])


def _rows_of(path: Path, schema: pa.Schema) -> RowsInOrder:
    """The rows of a file; none if it has other columns."""
    return RowsInOrder(_open(path, schema, None) or iter(()), tabular_table.in_dictionaries(schema).empty_table())


def _exact(rows: pa.Table) -> pa.Table:
    """The same rows with the bits of numbers that are not whole: one that is no number is equal to none."""
    bits = {4: pa.int32(), 8: pa.int64()}
    for place, column in enumerate(rows.columns):
        if pa.types.is_floating(column.type):
            kind = bits[column.type.byte_width]
            chunks = [chunk.view(kind) for chunk in column.chunks]
            rows = rows.set_column(place, rows.column_names[place], pa.chunked_array(chunks, kind))
    return rows


@dataclass(frozen=True, eq=False)
class ListedAreas:
    """The file of areas, read once, with every column as text; that its areas are those of the plan is a check."""

    rows: pa.Table | None
    """None where the file is missing."""

    @classmethod
    def open(cls, folder: Path, files: Collection[str]) -> ListedAreas:
        """The file among those of a release."""
        path = next((path for path in files if path.split(".")[0] == AREAS), None)
        return cls(None if path is None else text_batches(folder / path).take(1 << 40))

    @cached_property
    def levels(self) -> dict[str, tuple[list[str], list[str]]]:
        """For each level the codes and the names of its areas, as they are listed; names are empty where there are
        none."""
        if self.rows is None or self.rows.num_columns < len((tabular_table.LEVEL, tabular_table.AREA)):
            return {}
        of_row, codes, *names = self.rows.columns
        result = {}
        for level in of_row.unique().to_pylist():
            here = pc.equal(of_row, level)
            listed = codes.filter(here).to_pylist()
            result[level] = listed, names[0].filter(here).to_pylist() if names else [""] * len(listed)
        return result


def areas_check(
    folder: Path,
    names: Sequence[str],
    files: Collection[str],
    levels: Mapping[str, int],
    fingerprint: str | None,
    listed: ListedAreas,
) -> Iterator[Check]:
    """Every area of the plan is listed once, with the name that the plan is bound to; tables have no other."""
    if listed.rows is None:
        yield Check("areas", False, "the file of areas is missing")
        return
    expected = [
        tabular_table.LEVEL,
        tabular_table.AREA,
        *((tabular_table.AREA_NAME,) if fingerprint is not None else ()),
    ]
    if listed.rows.column_names != expected:
        yield Check("areas", False, "other columns than " + ", ".join(expected))
        return
    by_level: dict[str, tuple[list[str], list[str]]] = dict.fromkeys(levels, ([], [])) | listed.levels
    wrong = [
        level for level, (codes, _) in by_level.items() if len(codes) != levels.get(level) or codes != sorted({*codes})
    ]
    detail = ", ".join(wrong) or ", ".join(f"{level}: {number:,}" for level, number in levels.items())
    yield Check("areas: each once, in order", not wrong, detail)
    if fingerprint is not None:
        same = tabular_table.AreaNames(listed.levels).fingerprint == fingerprint
        yield Check("areas: the names that the plan is bound to", same, fingerprint)
    known = set(zip(*(column.to_pylist() for column in listed.rows.columns), strict=True)) if names else set()
    others = [name for name in names if _areas_of(folder, name, files, expected) - known]
    yield Check("areas: those of the tables", not others, ", ".join(others) or "the tables have exactly these areas")


def _areas_of(folder: Path, name: str, files: Collection[str], columns: Sequence[str]) -> set[tuple[str, ...]]:
    """The areas that a table has, with their names: distinct rows of these columns."""
    distinct: set[tuple[str, ...]] = set()
    for format_, path in table_files(name, files).items():
        if format_ == SDMX:
            continue
        source = text_batches(folder / path)
        while (part := source.take(ROWS_AT_ONCE)).num_rows:
            if tabular_table.LEVEL in part.column_names:
                rows = part.select(columns).group_by(list(columns)).aggregate([])
                distinct |= set(zip(*(rows.column(each).to_pylist() for each in columns), strict=True))
    return distinct


def released(release: Path, name: str, formats: Sequence[str], read: Callable[[Path, str], R]) -> R:
    """A released table as one of its files has it, a plain one if there is any; raises where it is not as planned."""
    file, format_ = released_file(release, name, formats)
    try:
        return read(file, format_)
    except (tabular_table.UnlikePlanError, OSError, pa.ArrowException) as error:
        raise unlike_plan(name, error) from None


def released_file(release: Path, name: str, formats: Sequence[str]) -> tuple[Path, str]:
    """One file of a released table and its format: a plain one, if there is any."""
    present = [str(file.relative_to(release)) for file in release.rglob(f"{name}.*") if file.is_file()]
    paths = table_files(name, present)
    for format_ in (*(each for each in formats if each != SDMX), SDMX):
        if format_ in paths:
            return release / paths[format_], format_
    raise unlike_plan(name, tabular_table.UnlikePlanError("no file"))


def unlike_plan(file: str, problem: Exception) -> ReleaseError:
    """The error for a released table that an evaluation cannot read."""
    return ReleaseError(
        "release-unlike",
        where=Place(file=file),
        problem=problem,
        problem_found=isinstance(problem, tabular_table.UnlikePlanError),
    )


_BATCH_BYTES = 1 << 22
VALUES_AT_ONCE = 1 << 21


@dataclass
class TableCopies:
    """The files of one table, one for each format, read together some rows at a time, and compared as they are read.

    Texts are in dictionaries (:func:`~confide.releases.tabular.table.in_dictionaries`).
    """

    files: tuple[RowsInOrder, ...]
    fits: bool
    """Whether there is a file, and every file has the columns that it should have."""
    formats: str
    same: bool = True

    @classmethod
    def open(cls, release: SealedRelease, place: str, schema: pa.Schema, delimiter: str | None = None) -> TableCopies:
        """The files that the manifest lists for a table.

        Args:
            release: The release.
            place: The path of the table, without stamp and ending.
            schema: Its columns.
            delimiter: Of text without quotes, where it is not a comma.
        """
        paths = sorted(map(Path, release.paths(f"{place}.")), key=lambda path: (path.suffix != ".parquet", path))
        opened = [_open(release.folder / path, schema, delimiter) for path in paths]
        empty = tabular_table.in_dictionaries(schema).empty_table()
        rows = tuple(RowsInOrder(iter(batches or ()), empty) for batches in opened)
        fits = bool(opened) and all(batches is not None for batches in opened)
        return cls(rows, fits, ", ".join(path.suffix[1:] for path in paths))

    def take(self, rows: int) -> pa.Table:
        """The next rows of the first file. The others are read along."""
        first, *others = (file.take(rows) for file in self.files)
        self.same = self.same and all(tabular_table.same_rows(other, first) for other in others)
        return first

    def batches(self, rows: int = ROWS_AT_ONCE) -> Iterator[pa.Table]:
        """All rows that are left."""
        while (taken := self.take(rows)).num_rows:
            yield taken

    def at_end(self) -> bool:
        """Whether no file has a row left."""
        return not any(file.take(1).num_rows for file in self.files)


def _open(path: Path, schema: pa.Schema, delimiter: str | None) -> Iterator[pa.Table] | None:
    """The rows of a file, with texts in dictionaries; none if it has other columns than it should have."""
    wanted = tabular_table.in_dictionaries(schema)
    types: dict[str, Any] = {field.name: field.type for field in wanted}
    if path.suffix == ".parquet":
        own = pq.read_schema(path)
        if [(field.name, field.type) for field in own] != [(field.name, field.type) for field in schema]:
            return None
        file = pq.ParquetFile(
            path, read_dictionary=[name for name, kind in types.items() if kind == tabular_table.DICTIONARY]
        )
        # One column after the other: the memory of several threads costs more than they save.
        batches = file.iter_batches(max(1, VALUES_AT_ONCE // len(schema)), use_threads=False)
        return (pa.table(batch).cast(wanted) for batch in batches)
    reader = pyarrow.csv.open_csv(
        path,
        read_options=pyarrow.csv.ReadOptions(block_size=_BATCH_BYTES, use_threads=False),
        parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter or ",", quote_char=False if delimiter else '"'),
        convert_options=pyarrow.csv.ConvertOptions(column_types=types, strings_can_be_null=False),
    )
    return (pa.table(batch) for batch in reader) if reader.schema.names == schema.names else None


# ``verify`` for tables for people that are made of others in another layout: they are made anew, and compared.


def open_described(release: SealedRelease, table: DescribedTable) -> TableCopies:
    """The files of a table for people, but for SDMX-CSV."""
    assert isinstance(table.columns, tabular_table.CodedColumns)
    return TableCopies.open(release, f"tables/{table.name}", table.columns.schema(table.figures))


def remade(
    release: SealedRelease, table: DescribedTable, rows: Rows, names: tabular_table.AreaNames | None, source: str
) -> Iterator[Check]:
    """A table has the rows that its source gives, in every format.

    Args:
        release: The release.
        table: The table as the plan describes it.
        rows: Its rows with labels, made of the source at each call.
        names: What areas are called, where they have names.
        source: What the rows are made of, in words.
    """
    name, columns, copies = table.name, table.columns, open_described(release, table)
    assert isinstance(columns, tabular_table.CodedColumns)
    yield Check(f"{name}: columns of the layout", copies.fits, copies.formats or "no file of this table is there")
    if not copies.fits:
        return
    schema = tabular_table.in_dictionaries(columns.schema(table.figures))
    batches = (pa.Table.from_batches([columns.coded(batch, names, schema)]) for batch in rows())
    expected, number, wrong = RowsInOrder(batches, schema.empty_table()), 0, False
    for batch in copies.batches():
        number += batch.num_rows
        wrong = wrong or not tabular_table.same_rows(expected.take(batch.num_rows), batch)
    wrong = wrong or bool(expected.take(1).num_rows)
    yield Check(f"{name}: the same in every format", copies.same, copies.formats)
    yield Check(f"{name}: says what {source} say", not wrong, f"{number:,} rows")
    paths = table_files(name, release.files)
    if SDMX in paths:
        yield _observations(release.folder / paths[SDMX], table, rows)


def _observations(path: Path, table: DescribedTable, rows: Rows) -> Check:
    name, problem = f"{table.name}: SDMX-CSV says the same", ""
    batches = list(rows())
    try:
        read = table.read(path, SDMX)
        if batches:
            expected = pa.Table.from_batches(batches)
            plain = pa.schema([pa.field(field.name, field.type) for field in expected.schema])
            same = read.cast(plain).combine_chunks().equals(expected.cast(plain).combine_chunks())
            problem = "" if same else "other rows than the table has"
        elif read.num_rows:
            problem = "rows that the table does not have"
    except tabular_table.UnlikePlanError as error:
        problem = str(error)
    return Check(name, not problem, problem or f"{sum(batch.num_rows for batch in batches):,} rows")


def released_names(release: SealedRelease) -> tabular_table.AreaNames | None:
    """The names that ``areas.csv`` has, which the plan is bound to."""
    rows = listed_areas(release)
    if rows is None:
        return None
    levels: dict[str, tuple[list[str], list[str]]] = {}
    for level, area, name in zip(*(column.to_pylist() for column in rows.columns), strict=True):
        codes, texts = levels.setdefault(level, ([], []))
        codes.append(area)
        texts.append(name)
    return tabular_table.AreaNames(dict(levels))
