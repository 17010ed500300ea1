"""A noisy measurement file as it is found: its files, its fingerprint, and the spine that its ids make.

Ids are hierarchical: an id begins with that of its parent, except next to the root. So the units of all levels are a
spine without any block table. The official code of a block is in the folder ``Unit`` (ours); in the public files of the
2020 Census it is the last 16 characters of the id: State 2, county 3, tract 6, block group 1, block 4, of which the
first repeats the block group.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from confide.arrays import Floats, Integers
from confide.errors import ConfideError, Finding, InputError, Place
from confide.file_system import sha256_of
from confide.geography import Spine
from confide.mechanisms.topdown.measurements import layout
from confide.mechanisms.topdown.spine import Shares, TopDownLevel, TopDownSpine
from confide.schema import DETAILED

PUBLIC_DIGITS = 16
"""How many last characters of a public block id are its official code, with the block group in it twice."""

NO_ATTRIBUTES = ("geocode", "query_name", "query_shape", "value", "variance", "sigma2", "plb", "sign")
"""Columns that are no attribute."""

Texts = NDArray[np.str_]


@dataclass(frozen=True, eq=False)
class UnitsOfLevel:
    """The units of one level, in the order of their ids."""

    name: str
    ids: Texts
    measured: NDArray[np.bool_]
    codes: Texts | None
    """Official codes, where the file has them."""

    def numbers(self, geocodes: pa.Array | pa.ChunkedArray) -> Integers:
        """For each geocode the number of its unit, or −1. What a search needs is made once, not for every batch."""
        place = self._places
        return np.array([place.get(geocode, -1) for geocode in geocodes.to_pylist()], np.int64)

    @cached_property
    def _places(self) -> dict[str | None, int]:
        return {id_: number for number, id_ in enumerate(self.ids.tolist())}


@dataclass(frozen=True)
class MeasurementFolder:
    """The files of some levels."""

    path: Path
    files: dict[str, dict[str, tuple[Path, ...]]]
    """By level and kind (DPQuery, Constraint, Unit), in the order of their names."""
    attributes: Mapping[str, int] = field(default_factory=dict)
    """The attributes of the records with their levels, in the order in which values are asked for."""

    @property
    def all_files(self) -> list[Path]:
        """Every file that is read."""
        return sorted({file for kinds in self.files.values() for files in kinds.values() for file in files})

    def fingerprint(self) -> str:
        """SHA-256 of the names and contents of all files."""
        digest = hashlib.sha256(b"confide/measurements/v1")
        for file in self.all_files:
            digest.update(f"{file.relative_to(self.path).as_posix()}\0{sha256_of(file)}\0".encode())
        return digest.hexdigest()

    def said(self) -> dict[str, str]:
        """What the files say of themselves, if Confide wrote them: the release, its plan, and a stamp."""
        said: dict[str, str] = {}
        for file in self.all_files:
            with _opened(file) as opened:
                metadata = opened.schema_arrow.metadata or {}
            said |= {key: metadata[key.encode()].decode() for key in SAID if key.encode() in metadata}
        return said

    @staticmethod
    def columns(file: Path) -> list[str]:
        """The names of the columns of a file."""
        with _opened(file) as opened:
            return list(opened.schema_arrow.names)

    def has_everywhere(self, level: str, kind: str, column: str) -> bool:
        """Whether all files of a level have a column. Files of one level may differ."""
        return all(column in self.columns(file) for file in self.files[level][kind])

    def batches(
        self, level: str, kind: str, columns: list[str], rows: int, optional: str | None = None
    ) -> Iterator[tuple[Path, pa.RecordBatch]]:
        """The rows of a level, some at a time, with the file they are in. A file without an optional column of text has
        nulls for it. Values and shapes have the order of :attr:`attributes`, whatever order the file has."""
        for file in self.files[level][kind]:
            with _opened(file) as opened:
                missing = [name for name in columns if name not in opened.schema_arrow.names]
                if missing:
                    found = ", ".join(opened.schema_arrow.names)
                    raise InputError(
                        "measurements/column-missing",
                        where=_place(file),
                        found=found,
                        missing=missing[0],
                        expected=", ".join(columns),
                    )
                for name in columns:
                    _check_type(file, name, opened.schema_arrow.field(name).type)
                there = optional is not None and optional in opened.schema_arrow.names
                asked = [*columns, optional] if there else columns
                axes = self._axes(file, kind) if "value" in columns else None
                needed = asked if axes is None else [*asked, SHAPE]
                for batch in opened.iter_batches(rows, columns=list(dict.fromkeys(needed))):
                    if axes is not None:
                        batch = _transposed(batch, axes).select(asked)
                    if optional is not None and not there:
                        batch = batch.append_column(optional, pa.nulls(batch.num_rows, pa.string()))
                    yield file, batch

    def _axes(self, file: Path, kind: str) -> list[int] | None:
        """For each attribute its axis in the shapes of a file that has them in another order; None if it has ours.

        A file whose columns of attributes have another order than ours may have written shapes and values in that
        order, or may have been given other columns later. The words of its rows tell which: an axis has the levels of
        its attribute, or one where it is summed out. Where both fit, and it makes a difference, the file is refused.
        """
        ours = list(self.attributes)
        theirs = [name for name in self.columns(file) if name in self.attributes]
        if kind not in (layout.DP_QUERY, layout.CONSTRAINT) or theirs == ours or set(theirs) != set(ours):
            return None
        with _opened(file) as opened:
            rows = opened.read(columns=[SHAPE, *ours]).to_pylist()
        distinct = {(tuple(row[SHAPE] or ()), *(row[name] for name in ours)) for row in rows}
        by_axis = [one for one in distinct if len(one[0]) == len(ours)]
        fit = {
            tuple(order): all(self._fits(dict(zip(order, shape, strict=True)), words) for shape, *words in by_axis)
            for order in (theirs, ours)
        }
        if fit[tuple(theirs)] and fit[tuple(ours)]:
            if any(sum(size > 1 for size in shape) > 1 for shape, *_ in by_axis):
                raise InputError(
                    "measurements/give-published-levels",
                    where=_place(file),
                    found=", ".join(theirs),
                    order=", ".join(ours),
                )
            return None
        return [theirs.index(name) for name in ours] if fit[tuple(theirs)] else None

    def _fits(self, shape: Mapping[str, int], words: Sequence[str]) -> bool:
        """Whether each attribute has an axis as long as its word says: one, all of its levels, or at most those."""
        for (name, levels), word in zip(self.attributes.items(), words, strict=True):
            least = {layout.SUMMED_OUT: 1, DETAILED: levels, name: levels}.get(word, 1)
            if not least <= shape[name] <= (1 if word == layout.SUMMED_OUT else levels):
                return False
        return True

    def units(self, level: str) -> UnitsOfLevel:
        """The units of a level. Raises if there are none, or if ids differ in width."""
        measured = self._distinct(level, layout.DP_QUERY)
        codes = None
        if self.files[level][layout.UNIT]:
            parts = [batch for _, batch in self.batches(level, layout.UNIT, ["geocode", "code"], 1 << 16)]
            listed = pa.Table.from_batches(parts, parts[0].schema) if parts else pa.table({"geocode": [], "code": []})
            ids = listed.column("geocode").to_numpy(zero_copy_only=False).astype(str)
            order = np.argsort(ids)
            ids = ids[order]
            if not listed.column("code").null_count:
                codes = listed.column("code").to_numpy(zero_copy_only=False).astype(str)[order]
        else:
            constrained = [
                id_ for id_ in self._distinct(level, layout.CONSTRAINT).tolist() if layout.TOGETHER not in id_
            ]
            ids = np.unique(np.array(constrained, np.str_)) if constrained else measured
            ids = ids[np.strings.str_len(ids) == np.strings.str_len(ids).max()] if len(ids) else ids
        where = Place(file=layout.level_folder(level))
        if not len(ids):
            raise InputError("measurements/level-units", where=where)
        if len(np.unique(ids)) < len(ids) or np.strings.str_len(ids).min() != np.strings.str_len(ids).max():
            raise InputError("measurements/ids", where=where)
        inside = np.isin(measured, ids)
        if not inside.all():
            found = repr(str(measured[~inside][0]))
            raise InputError("measurements/among", where=where, found=found)
        return UnitsOfLevel(level, ids, np.isin(ids, measured), codes)

    def _distinct(self, level: str, kind: str) -> Texts:
        parts = [np.array([], np.str_)]
        for file, batch in self.batches(level, kind, ["geocode"], 1 << 17):
            ids = pc.unique(batch.column(0))
            if ids.null_count:
                raise InputError("measurements/geocode", where=_place(file))
            parts.append(np.unique(ids.to_numpy(zero_copy_only=False).astype(np.str_)))
        return np.unique(np.concatenate(parts))


def _transposed(batch: pa.RecordBatch, axes: Sequence[int]) -> pa.RecordBatch:
    """Rows whose shapes have an axis for each attribute, with these axes in this order; other rows as they are."""
    shapes, values = [], []
    for shape, value in zip(batch.column(SHAPE).to_pylist(), batch.column("value").to_pylist(), strict=True):
        if shape is not None and value is not None and len(shape) == len(axes) and prod(shape) == len(value):
            value = np.array(value, object).reshape(shape).transpose(axes).ravel().tolist()
            shape = [shape[axis] for axis in axes]
        shapes.append(shape)
        values.append(value)
    for name, column in ((SHAPE, shapes), ("value", values)):
        place = batch.schema.get_field_index(name)
        batch = batch.set_column(place, name, pa.array(column, batch.schema.field(name).type))
    return batch


SHAPE = "query_shape"
SAID = ("release", "plan_hash", "stamp", "measurement_layout")


def _check_type(file: Path, column: str, kind: pa.DataType) -> None:
    """Refuses a column of another type than those that files of measurements have; integers may have any width."""
    types = pa.types
    plain = kind.value_type if types.is_dictionary(kind) else kind
    if column in ("value", "query_shape"):
        fits = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
        expected = "a list of whole numbers in each row"
    elif column == "variance":
        fits = types.is_floating(kind) or types.is_integer(kind) or types.is_decimal(kind)
        expected = "a number in each row"
    else:
        fits = types.is_string(plain) or types.is_large_string(plain) or types.is_string_view(plain)
        fits, expected = fits or types.is_null(plain), "a text in each row"
    if not fits:
        raise InputError("measurements/another", where=_place(file), found=str(kind), column=column, expected=expected)


@contextmanager
def _opened(file: Path) -> Iterator[pq.ParquetFile]:
    """A Parquet file; a finding if it, or a part of it, cannot be read."""
    try:
        with pq.ParquetFile(file) as opened:
            yield opened
    except (pa.ArrowException, OSError, EOFError) as error:
        raise InputError("measurements/file", where=_place(file), found=type(error).__name__) from None


def _place(file: Path) -> Place:
    """A file by the names of its last folders: those of all levels are called alike."""
    folders = [part for part in file.parts if part.endswith(".parquet")]
    first = file.parts.index(folders[0]) if len(folders) > 1 else -1
    return Place(file="/".join(file.parts[first:]))


@dataclass(frozen=True)
class ProductFolder:
    """A folder that has a folder for each level."""

    path: Path
    folders: dict[str, Path]
    """By the name of the level, in small letters."""


def find_product(path: Path, where: Place) -> ProductFolder:
    """The folder that holds the folders of levels: this one, its ``measurements``, or the only one in it that does."""
    if not path.is_dir():
        raise InputError("no-such-folder/measurements", where=where, found=path.name, file=path.exists())
    inside = [folder for folder in sorted(path.iterdir()) if folder.is_dir()]
    candidates = [product for folder in (path, *inside) if (product := _levels_in(folder)).folders]
    if len(candidates) == 1:
        return candidates[0]
    names = ", ".join(product.path.name for product in candidates) or ", ".join(one.name for one in inside[:5])
    raise InputError("measurements/folder", where=where, candidates=candidates, seen=names)


def _levels_in(folder: Path) -> ProductFolder:
    folders = [one for one in sorted(folder.iterdir()) if one.is_dir() and one.name.lower().endswith(".parquet")]
    return ProductFolder(folder, {one.name.lower().removesuffix(".parquet"): one for one in folders})


def find_measurements(
    path: Path, levels: tuple[str, ...], where: Place, attributes: Mapping[str, int] | None = None
) -> MeasurementFolder:
    """The files of these levels. Raises with a finding for each level that is not there.

    Args:
        path: The folder that has a folder for each level.
        levels: The names of the levels, the root first.
        where: The place of the path, for findings.
        attributes: Attributes with their levels, in the order in which values are to be read; without them in that of
            the files, which is for files of our own.
    """
    if not path.is_dir():
        raise InputError("no-such-folder/correct", where=where, found=path.name)
    folders = {folder.name.lower(): folder for folder in sorted(path.iterdir()) if folder.is_dir()}
    files, findings = {}, []
    for level in levels:
        folder = folders.get(f"{level}.parquet")
        if folder is None and level == levels[-1]:  # measurements of others call the smallest places blocks
            folder = folders.get("block.parquet")
        if folder is None or not _parquet(folder / layout.DP_QUERY) + _parquet(folder / layout.CONSTRAINT):
            findings.append(
                Finding.of(
                    "no-level/measurements",
                    where=where,
                    level=level,
                    folders=", ".join(folders),
                    level_expected=layout.level_folder(level),
                    dp_query=layout.DP_QUERY,
                )
            )
            continue
        files[level] = {kind: _parquet(folder / kind) for kind in (layout.DP_QUERY, layout.CONSTRAINT, layout.UNIT)}
    if findings:
        raise InputError(findings)
    return MeasurementFolder(path, files, attributes or {})


def _parquet(folder: Path) -> tuple[Path, ...]:
    return tuple(sorted(file for file in folder.rglob("*.parquet") if file.is_file() and file.name[0] not in "._"))


def unit_codes(level: UnitsOfLevel) -> Texts:
    """Official codes of units: as the file has them; of public States what follows the AIAN flag."""
    if level.codes is not None:
        return level.codes
    if level.name == "state" and len(level.ids) and int(np.strings.str_len(level.ids[0])) == 3:
        return np.array([id_[1:] for id_ in level.ids.tolist()], np.str_)
    return level.ids


def official_codes(blocks: UnitsOfLevel) -> Texts:
    """The official codes of the blocks: as the file has them, or cut from public ids, or the ids themselves."""
    if blocks.codes is not None:
        return blocks.codes
    width = int(np.strings.str_len(blocks.ids[0]))
    if width < PUBLIC_DIGITS:
        return blocks.ids
    letters = np.ascontiguousarray(blocks.ids).view("U1").reshape(len(blocks.ids), -1)[:, :width]
    last = letters[:, -PUBLIC_DIGITS:]
    if not np.char.isdigit(last).all() or (last[:, 11] != last[:, 12]).any():
        return blocks.ids
    code_letters = np.ascontiguousarray(np.delete(last, 11, axis=1))
    return code_letters.view(f"U{PUBLIC_DIGITS - 1}").reshape(-1)


def spine_of(levels: list[UnitsOfLevel], shares: dict[str, Fraction], frame: Spine, rows: Integers) -> TopDownSpine:
    """The spine of ids, root first. ``rows`` has for each block its row in the frame."""
    if len(levels[0].ids) != 1:
        place = Place(file=layout.level_folder(levels[0].name))
        raise InputError("measurements/root-unit", where=place, ids=len(levels[0].ids))
    parents = [
        np.empty(0, np.int64),
        *(parents_of(above, level) for above, level in pairwise(levels)),
    ]
    unit_of_block = np.arange(len(levels[-1].ids))
    first_block = {levels[-1].name: np.arange(len(levels[-1].ids) + 1)}
    for position in range(len(levels) - 1, 0, -1):
        unit_of_block = parents[position][unit_of_block]
        above = levels[position - 1]
        first_block[above.name] = np.searchsorted(unit_of_block, np.arange(len(above.ids) + 1))
    topdown_levels = []
    for position, level in enumerate(levels):
        below = parents[position + 1] if position + 1 < len(levels) else None
        units = len(level.ids)
        first_child = np.zeros(units + 1, np.int64) if below is None else np.searchsorted(below, np.arange(units + 1))
        share, first = _shares(shares[level.name], level.measured), first_block[level.name]
        official = _official(frame, level.name, rows, first)
        topdown_levels.append(TopDownLevel(level.name, parents[position], first_child, first, share, official))
    return TopDownSpine(tuple(topdown_levels), frame, rows, None)


def _official(frame: Spine, name: str, rows: Integers, first_block: Integers) -> Integers | None:
    """For each unit the official unit that it is, or is a part of; none where units were made."""
    if name not in frame.names:
        return None
    of_block = frame.level(name).unit_of_block[rows]
    official = of_block[first_block[:-1]]
    return official if (np.repeat(official, np.diff(first_block)) == of_block).all() else None


def _shares(share: Fraction, measured: NDArray[np.bool_]) -> Shares:
    """Which units are measured; the share itself stands for all, because the variances are in the file."""
    table = tuple(dict.fromkeys(share if own else Fraction(0) for own in np.unique(measured).tolist()))
    return Shares(table, (measured if len(table) > 1 else np.zeros(len(measured))).astype(np.int16))


def parents_of(above: UnitsOfLevel, level: UnitsOfLevel) -> Integers:
    """For each unit the unit above whose id its own begins with. Next to a root of another code none need to, but in a
    file without codes either all of them do or none: otherwise the units are not all of that one unit."""
    width = int(np.strings.str_len(above.ids[0]))
    if len(above.ids) == 1:
        inside = np.strings.startswith(level.ids, above.ids[0])
        if not width or level.codes is not None or not inside.any():
            return np.zeros(len(level.ids), np.int64)
    prefix = level.ids.astype(f"U{width}")
    parent = np.minimum(np.searchsorted(above.ids, prefix), len(above.ids) - 1)
    where = Place(file=layout.level_folder(level.name))
    orphans = np.flatnonzero(above.ids[parent] != prefix)
    if len(orphans):
        found = repr(str(level.ids[orphans[0]]))
        raise InputError("measurements/parent", where=where, found=found, orphans=len(orphans), above=above.name)
    childless = np.setdiff1d(np.arange(len(above.ids)), parent)
    if len(childless):
        raise InputError(
            "measurements/units-unit",
            where=where,
            found=repr(str(above.ids[childless[0]])),
            childless=len(childless),
            above=above.name,
            level=level.name,
        )
    return parent


# What a product is, by its folders and files.


def product_words(path: Path, folders: Mapping[str, Path]) -> layout.Words:
    """The words of the public product in a folder, by the attributes of its first file."""
    first = next((file for folder in folders.values() for file in sorted(folder.rglob("*.parquet"))), None)
    if first is None:
        raise InputError("measurements/parquet", where=Place(file=path.name))
    attributes = [name for name in MeasurementFolder.columns(first) if name not in NO_ATTRIBUTES]
    words = layout.public_words(attributes)
    if words is None:
        raise InputError("unknown-product", where=Place(file=first.name), attributes=", ".join(attributes))
    return words


def levels_of_product(folders: Mapping[str, Path], words: layout.Words, path: Path) -> tuple[str, ...]:
    """The levels of a public product that must be there: all of them, from the first that is."""
    there = [name for name in words.levels if name in folders]
    if not there:
        raise InputError(
            "measurements/product",
            where=Place(file=path.name),
            folders=", ".join(folders),
            expected=", ".join(words.levels),
        )
    return words.levels[words.levels.index(there[0]) :]


# What a row of DPQuery has of numbers: the measured values, and the noise in them.


def whole_values(column: pa.ChunkedArray, cells: int, query: str, where: Place) -> Integers:
    """The values of some rows of one query: rows x cells. Raises unless all are whole numbers, and as many."""
    listed = column.combine_chunks()
    listed = listed.chunk(0) if isinstance(listed, pa.ChunkedArray) else listed
    values = listed.flatten()
    fits = pa.types.is_integer(values.type) and not values.null_count and not listed.null_count
    try:
        numbers = values.cast(pa.int64()) if fits else None
    except pa.ArrowInvalid:
        numbers = None
    if numbers is None or not bool((pc.list_value_length(listed).to_numpy() == cells).all()):
        raise InputError("measurements/whole", where=where, query=query, cells=cells)
    return np.asarray(numbers.to_numpy().reshape(len(listed), cells))


def variances_in(column: pa.ChunkedArray, of: Callable[[Any], float], known: dict[Any, float], where: Place) -> Floats:
    """The variance of each row, by what a file says of its noise.

    Args:
        column: The exact parameter of the noise, as a text, or its variance.
        of: What one of these comes to.
        known: What was worked out before.
        where: The file.
    """
    coded = column.combine_chunks().dictionary_encode()
    if coded.null_count:
        raise InputError("measurements/variance-measurement-positive", where=where)
    said = coded.dictionary.to_pylist()
    for value in said:
        if value not in known:
            try:
                known[value] = of(value)
            except (ConfideError, ValueError, TypeError):
                known[value] = 0.0
        if not 0 < known[value] < np.inf:
            raise InputError("measurements/positive-number", where=where, found=repr(value))
    table = np.array([known[value] for value in said], np.float64)
    return np.asarray(table[coded.indices.to_numpy(zero_copy_only=False)], np.float64)


def known_totals(folder: MeasurementFolder, level: UnitsOfLevel) -> list[tuple[Integers, int]]:
    """The known totals of a level: units that are known together, and their number. A strategy that fixes a number in
    two ways has it in two rows."""
    number_of: dict[tuple[int, ...], int] = {}
    place: dict[str, int] = {}
    for file, batch in folder.batches(level.name, layout.CONSTRAINT, ["geocode", "query_name", "value"], 1 << 16):
        where = Place(file=f"{layout.level_folder(level.name)}/{layout.CONSTRAINT}/…/{file.name}")
        rows = pa.table(batch).filter(pc.equal(batch.column("query_name"), layout.KNOWN_TOTAL))
        if rows.num_rows and not place:
            place = {str(id_): number for number, id_ in enumerate(level.ids)}
        for geocode, value in zip(rows.column("geocode").to_pylist(), rows.column("value").to_pylist(), strict=True):
            members = tuple(sorted(place.get(id_, -1) for id_ in geocode.split(layout.TOGETHER)))
            if members[0] < 0 or value is None or len(value) != 1 or value[0] is None or value[0] < 0:
                raise InputError("measurements/total", where=where, value=value, geocode=geocode)
            number = number_of.setdefault(members, int(value[0]))
            if number != value[0]:
                raise InputError("measurements/differ", where=where, number=number, value=value[0], geocode=geocode)
    # The parts of a sum may have numbers of their own; whether these add up to it is checked with all other sums.
    together = [unit for members in number_of if len(members) > 1 for unit in members]
    if len(set(together)) < len(together):
        place_of_both = Place(file=f"{layout.level_folder(level.name)}/{layout.CONSTRAINT}")
        raise InputError("measurements/two", where=place_of_both, known_total=layout.KNOWN_TOTAL)
    return [(np.array(members, np.int64), number) for members, number in number_of.items()]


def add_given_totals(
    known_sums: list[list[tuple[Integers, int]]], units: Sequence[UnitsOfLevel], given: Mapping[str, int]
) -> None:
    """Totals by code: of the first level that has a unit with the code."""
    unknown = []
    code_of: dict[tuple[int, int], str] = {}
    for code, number in given.items():
        for position, level in enumerate(units):
            members = np.flatnonzero((level.ids == code) | (unit_codes(level) == code))
            if len(members):
                known_sums[position] = [one for one in known_sums[position] if not np.isin(one[0], members).any()]
                known_sums[position].append((members, number))
                others = {code_of.setdefault((position, unit), code) for unit in members.tolist()} - {code}
                if others:
                    raise InputError("bad-total/two", where=Place(file="totals"), others=min(others), its_code=code)
                break
        else:
            unknown.append(code)
    if unknown:
        raise InputError(
            "no-such-unit",
            where=Place(file="totals"),
            found=", ".join(repr(code) for code in unknown[:3]),
            unknown=len(unknown),
        )
