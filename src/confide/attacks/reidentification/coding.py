"""Three files of people in one set of codes, so that equal values are equal numbers.

Codes are compared as text, whole numbers without leading zeros (``1``, ``01`` and 1 are one sex); geocodes are compared
as they are written. Race and ethnicity together are the *group* of a record, 63 × 2 in the United States.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from confide.attacks.reidentification.ages import OLDEST, UNKNOWN, AgeBins, Integers, range_of_label
from confide.attacks.reidentification.matching import combine
from confide.attacks.reidentification.reading import NEEDED, Role
from confide.errors import CONFIDENTIAL, Finding, InputError, Place


@dataclass(frozen=True, slots=True)
class Coded:
    """One file: a code for each record, :data:`UNKNOWN` where nothing is given."""

    block: Integers = field(repr=False)
    sex: Integers = field(repr=False)
    age: Integers = field(repr=False)
    bin: Integers = field(repr=False)
    group: Integers = field(repr=False)
    person: Integers = field(repr=False)

    def __len__(self) -> int:
        return len(self.block)

    def take(self, rows: Integers) -> Coded:
        """The records ``rows``, in that order."""
        return Coded(*(getattr(self, name)[rows] for name in self.__slots__))


@dataclass(frozen=True, slots=True)
class Coding:
    """The three files, how many codes there are of each kind, and what is known of the blocks."""

    reconstructed: Coded
    attacker: Coded
    truth: Coded
    blocks: int
    sexes: int
    groups: int
    bins: AgeBins
    block_group: Integers = field(repr=False)
    """The block group of each block; :data:`UNKNOWN` if it is in none."""
    solution_variability: np.ndarray[Any, np.dtype[np.float64]] | None = field(repr=False)
    """Of each block, in the unit of the file; NaN where it is not known. None if the file does not tell."""

    def exact_key(self, people: Coded, *, with_group: bool = False) -> Integers:
        """Block, sex and year of age; with race and ethnicity if asked."""
        return self._key(people, people.age, OLDEST + 1, with_group)

    def bin_key(self, people: Coded, *, with_group: bool = False) -> Integers:
        """Block, sex and age group; with race and ethnicity if asked."""
        return self._key(people, people.bin, len(self.bins), with_group)

    def _key(self, people: Coded, age: Integers, ages: int, with_group: bool) -> Integers:
        parts = [(people.block, self.blocks), (people.sex, self.sexes), (age, ages)]
        return combine(*parts, *([(people.group, self.groups)] if with_group else []))


def code(
    reconstructed: pa.Table, attacker: pa.Table, truth: pa.Table, bins: AgeBins, block_group_digits: int = 12
) -> Coding:
    """The codes of three tables with the columns of :mod:`confide.attacks.reidentification.reading`."""
    tables = {Role.RECONSTRUCTED: reconstructed, Role.ATTACKER: attacker, Role.TRUTH: truth}
    for role, table in tables.items():
        _check(role, table)
    block, block_names = _shared(tables, "geocode")
    sex, sex_names = _shared(tables, "sex")
    race, race_names = _shared(tables, "cenrace")
    ethnicity, ethnicity_names = _shared(tables, "hispanic")
    person, _ = _shared(tables, "person_id")
    coded = {}
    for role, table in tables.items():
        age, low, high = _ages(role, table)
        group = combine((race[role], len(race_names)), (ethnicity[role], len(ethnicity_names)))
        coded[role] = Coded(block[role], sex[role], age, bins.of_ranges(low, high), group, person[role])
    return Coding(
        reconstructed=coded[Role.RECONSTRUCTED],
        attacker=coded[Role.ATTACKER],
        truth=coded[Role.TRUTH],
        blocks=len(block_names),
        sexes=len(sex_names),
        groups=len(race_names) * len(ethnicity_names),
        bins=bins,
        block_group=_block_groups(truth, coded[Role.TRUTH].block, block_names, block_group_digits),
        solution_variability=_variability(reconstructed, coded[Role.RECONSTRUCTED].block, len(block_names)),
    )


def _check(role: Role, table: pa.Table) -> None:
    missing = [name for name in NEEDED[role] if name not in table.column_names]
    if missing:
        raise InputError(
            Finding(
                code="missing-column",
                what=f"the table {role.value} lacks a column",
                where=Place(column=name),
                found=", ".join(table.column_names)[:300],
                expected=", ".join(NEEDED[role]),
                remedy="rename or add the column",
            )
            for name in missing
        )
    kind = table.schema.field("geocode").type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise InputError(
            Finding(
                code="column-type",
                what="geocodes are not text",
                where=Place(file=role.value, column="geocode"),
                found=f"a column of type {kind}",
                expected="text, with leading zeros",
                remedy="write the geocode as text",
            )
        )
    if role is Role.TRUTH:
        _refuse_nulls(table)


def _refuse_nulls(truth: pa.Table) -> None:
    findings = []
    for name in NEEDED[Role.TRUTH]:
        column = truth.column(name)
        if column.null_count:
            row = int(pc.index(pc.is_null(column), value=True).as_py()) + 1
            findings.append(
                Finding(
                    code="missing-value",
                    what="a record of the truth lacks a value",
                    where=Place(file=Role.TRUTH.value, row=row, column=name),
                    found=f"{column.null_count:,} records without",
                    expected="a value in every record",
                    remedy="complete the truth, or leave such records out of it",
                )
            )
    if findings:
        raise InputError(findings)


def _shared(tables: dict[Role, pa.Table], name: str) -> tuple[dict[Role, Integers], pa.Array]:
    """The codes of a column in each table, and what they stand for. A table without the column is all unknown."""
    texts = {
        role: _text(role, name, table.column(name)) if name in table.column_names else pa.nulls(len(table), pa.string())
        for role, table in tables.items()
    }
    # Large text, because a nation's geocodes are more than two gigabytes.
    joined = pa.chunked_array([text.cast(pa.large_string()) for text in texts.values()]).combine_chunks()
    encoded = pc.dictionary_encode(joined)
    codes = _indices(encoded)
    ends = np.cumsum([len(text) for text in texts.values()])
    parts = dict(zip(texts, np.split(codes, ends[:-1]), strict=True))
    return parts, encoded.dictionary


def _text(role: Role, name: str, column: pa.ChunkedArray) -> pa.Array:
    values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    values = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if name in ("geocode", "person_id"):
        return values.cast(pa.large_string())
    if pa.types.is_floating(values.type):
        values = _whole(role, name, values)
    text = pc.utf8_trim_whitespace(values.cast(pa.large_string()))
    return pc.replace_substring_regex(text, pattern="^0+([0-9]+)$", replacement=r"\1")


def _whole(role: Role, name: str, values: pa.Array) -> pa.Array:
    """Whole numbers, from numbers or from text."""
    try:
        return values.cast(pa.int64())
    except pa.ArrowException:
        raise InputError(
            Finding(
                code="not-whole",
                what="a value is not a whole number",
                where=Place(file=role.value, column=name),
                found=CONFIDENTIAL,
                expected="whole numbers",
                remedy="correct the column",
            )
        ) from None


def _numbers(role: Role, table: pa.Table, name: str) -> Integers:
    """Ages of a column; :data:`UNKNOWN` where there is none."""
    if name not in table.column_names:
        return np.full(len(table), UNKNOWN, dtype=np.int64)
    values = pa.chunked_array(table.column(name)).combine_chunks()
    if pa.types.is_null(values.type):
        return np.full(len(table), UNKNOWN, dtype=np.int64)
    given = pc.fill_null(_whole(role, name, values), UNKNOWN).to_numpy(zero_copy_only=False)
    numbers = np.asarray(given, dtype=np.int64)
    wrong = np.flatnonzero((numbers < UNKNOWN) | (numbers > OLDEST))
    if len(wrong):
        raise InputError(
            Finding(
                code="bad-age",
                what="an age is out of range",
                where=Place(file=role.value, column=name, row=int(wrong[0]) + 1),
                found=CONFIDENTIAL,
                expected=f"years from 0 to {OLDEST}",
                remedy="correct the column",
            )
        )
    return numbers


def _ages(role: Role, table: pa.Table) -> tuple[Integers, Integers, Integers]:
    """The exact age, and the range that is known. A range of one year is an exact age."""
    age = _numbers(role, table, "age")
    if role is not Role.RECONSTRUCTED:
        return age, age, age
    low, high = age.copy(), age.copy()
    if "age_bin" in table.column_names:
        encoded = pc.dictionary_encode(
            pa.chunked_array(table.column("age_bin")).combine_chunks().cast(pa.large_string())
        )
        ranges = [range_of_label(label) or (UNKNOWN, UNKNOWN) for label in encoded.dictionary.to_pylist()]
        ends = np.array([*ranges, (UNKNOWN, UNKNOWN)], dtype=np.int64)
        given = ends[pc.fill_null(encoded.indices, len(ranges)).to_numpy(zero_copy_only=False)]
        low, high = np.where(low < 0, given[:, 0], low), np.where(high < 0, given[:, 1], high)
    if "age_low" in table.column_names:
        first, last = _numbers(role, table, "age_low"), _numbers(role, table, "age_high")
        last = np.where((first >= 0) & (last < 0), OLDEST, last)
        unknown = (age < 0) & (first >= 0)
        low, high = np.where(unknown, first, low), np.where(unknown, last, high)
    return np.where(low == high, low, UNKNOWN).astype(np.int64), low, high


def _block_groups(truth: pa.Table, block: Integers, names: pa.Array, digits: int) -> Integers:
    """From the column ``block_group`` of the truth, or the first digits of the geocode."""
    if "block_group" not in truth.column_names:
        prefixes = pc.dictionary_encode(pc.utf8_slice_codeunits(names, 0, digits))
        return _indices(prefixes)
    own = _text(Role.TRUTH, "geocode", truth.column("block_group"))
    groups = np.full(len(names), UNKNOWN, dtype=np.int64)
    groups[block] = _indices(pc.dictionary_encode(own))
    return groups


def _indices(encoded: pa.DictionaryArray) -> Integers:
    codes = pc.fill_null(encoded.indices, UNKNOWN).to_numpy(zero_copy_only=False)
    return np.asarray(codes, dtype=np.int64)


def _variability(table: pa.Table, block: Integers, blocks: int) -> np.ndarray[Any, np.dtype[np.float64]] | None:
    """The largest solution variability given for each block; None if none is given."""
    if "solution_variability" not in table.column_names:
        return None
    values = pa.chunked_array(table.column("solution_variability")).combine_chunks()
    try:
        given = values.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowException:
        raise InputError(
            Finding(
                code="not-a-number",
                what="a solution variability is not a number",
                where=Place(file=Role.RECONSTRUCTED.value, column="solution_variability"),
                expected="numbers, 0 where the reconstruction of the block is the only one",
                remedy="correct the column, or leave it out",
            )
        ) from None
    known = (block >= 0) & ~np.isnan(given)
    if not known.any():
        return None
    found = np.full(blocks, -np.inf)
    np.maximum.at(found, block[known], given[known])
    return np.where(np.isneginf(found), np.nan, found)
