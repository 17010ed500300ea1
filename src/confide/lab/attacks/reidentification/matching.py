"""Matching records of two files one to one, in passes, and the codes that files of people are matched by.

A pass has a key for every record of both files. Records on the left are taken in their order; each takes the first
record on the right, in the order there, that has the same key and was not taken; both are then out. The next pass goes
over what is left. Within a key the r-th of the left thereby meets the r-th of the right, so that a pass is a sort of
each side and no search. How many are matched does not depend on the orders: see ``docs/proofs/reidentification.md``.

Before that three files of people are brought to one set of codes, so that equal values are equal numbers. How values
are compared: :mod:`confide.lab.attacks.reidentification.people_files`. What is to be learnt, all attributes together,
is the *group* of a record: race and ethnicity in the United States, 63 × 2 of them. What else is known, apart from
block and age, is one code as well: sex there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from confide.arrays import Integers
from confide.errors import Finding, InputError, ParameterError, Place
from confide.lab.attacks.reidentification import people_files


@dataclass(frozen=True, slots=True)
class Matches:
    """Pairs: row ``left[i]`` with row ``right[i]``, found in pass ``passed[i]``."""

    left: Integers = field(repr=False)
    right: Integers = field(repr=False)
    passed: Integers = field(repr=False)

    def __len__(self) -> int:
        return len(self.left)


Pass = tuple[Integers, Integers]
"""The keys of all records on the left, and on the right. A key below zero matches nothing."""


def match(passes: Sequence[Pass], left_order: Integers | None = None, right_order: Integers | None = None) -> Matches:
    """The pairs of all passes.

    Args:
        passes: For each pass the keys of all records on the left, shape (left,), and on the right, shape (right,). A
            key below zero matches nothing.
        left_order: All rows of the left, first to last; by default, as they stand.
        right_order: All rows of the right.

    Returns:
        Pairs, with the pass that each is of.

    >>> match([(np.array([7, 7, 8]), np.array([8, 7]))]).left.tolist()
    [0, 2]
    """
    if not passes:
        raise ParameterError("no-pass/matching")
    rows = [
        np.arange(len(keys), dtype=np.int64) if order is None else np.asarray(order, dtype=np.int64)
        for keys, order in zip(passes[0], (left_order, right_order), strict=True)
    ]
    pairs: list[tuple[Integers, Integers, Integers]] = []
    for number, (left_keys, right_keys) in enumerate(passes):
        left, right = _one_pass(left_keys, right_keys, rows[0], rows[1])
        pairs.append((left, right, np.full(len(left), number, dtype=np.int64)))
        rows = [_without(rows[0], left, len(left_keys)), _without(rows[1], right, len(right_keys))]
    return Matches(*(np.concatenate(parts) for parts in zip(*pairs, strict=True)))


def combine(*parts: tuple[Integers, int]) -> Integers:
    """One key of several codes, each given with the number of codes there are; :data:`UNKNOWN` where one of them is."""
    total = 1
    for _, number in parts:
        total *= max(number, 1)
    if total >= 1 << 63:
        raise ParameterError("too-many-keys", total=total)
    first, number = parts[0]
    key, valid = first.astype(np.int64), first >= 0
    for codes, number in parts[1:]:
        key = key * number + codes
        valid = valid & (codes >= 0)
    return np.where(valid, key, people_files.UNKNOWN)


def _one_pass(left_keys: Integers, right_keys: Integers, left: Integers, right: Integers) -> tuple[Integers, Integers]:
    """The pairs of one pass over the rows ``left`` and ``right``, which are in the order of their side."""
    left, left_values, left_starts, left_counts = _grouped(left_keys, left)
    right, right_values, right_starts, right_counts = _grouped(right_keys, right)
    _, here, there = np.intersect1d(left_values, right_values, assume_unique=True, return_indices=True)
    counts = np.minimum(left_counts[here], right_counts[there])
    within = _ranks(counts)
    return left[np.repeat(left_starts[here], counts) + within], right[np.repeat(right_starts[there], counts) + within]


def _grouped(keys: Integers, rows: Integers) -> tuple[Integers, Integers, Integers, Integers]:
    """Rows sorted by key, in their order within it; then the keys, and where each begins and how many rows it has."""
    own = keys[rows]
    rows, own = rows[own >= 0], own[own >= 0]
    order = np.argsort(own, kind="stable")
    values, starts, counts = np.unique(own[order], return_index=True, return_counts=True)
    return rows[order], values, starts.astype(np.int64), counts.astype(np.int64)


def _ranks(counts: Integers) -> Integers:
    """0, 1, …, c − 1 for each count c, one after the other."""
    ends = np.cumsum(counts)
    return np.arange(int(ends[-1]) if len(ends) else 0, dtype=np.int64) - np.repeat(ends - counts, counts)


def _without(rows: Integers, taken: Integers, number: int) -> Integers:
    gone = np.zeros(number, dtype=bool)
    gone[taken] = True
    return rows[~gone[rows]]


# Files that cannot be about the same people, found before anything is counted.
#
# An attack on files that name blocks, persons or sexes differently finds nobody, and a rate of zero looks like
# safety. Refused is a file that has no block (the attacker's: no person) in common with the truth, and one whose
# codes are of another kind: numbers here and words there. A single record may well be a stranger, and is not refused.


# Three files of people in one set of codes, so that equal values are equal numbers.


MUST_MEET = ("geocode", "person_id")


def refuse_strangers(
    name: str, codes: Mapping[people_files.Role, Integers], names: pa.Array, linked: people_files.LinkedAttributes
) -> None:
    """Refuses a column whose codes (places in ``names``) cannot be compared with the truth's."""
    findings = []
    for role in (people_files.Role.RECONSTRUCTED, people_files.Role.ATTACKER):
        if name not in linked.columns(role):
            continue
        if min(len(codes[role]), len(codes[people_files.Role.TRUTH])) <= 1:
            continue
        there = [_present(codes[one], len(names)) for one in (role, people_files.Role.TRUTH)]
        if not there[0].any() or (there[0] & there[1]).any():
            continue
        ours, true = map(np.flatnonzero, there)
        words = [_described(name, names, listed) for listed in (ours, true)]
        if name in MUST_MEET or (len(true) and words[0] != words[1] and _MIXED not in words):
            findings.append(
                Finding.of(
                    "strangers",
                    where=Place(file=role.value, column=name),
                    role=role.value,
                    word=words[0],
                    word_found=words[1],
                    geocode=name == "geocode",
                    person=name == "person_id",
                )
            )
    if findings:
        raise InputError(findings)


def _present(codes: Integers, number: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which of the codes 0, 1, … occur."""
    present = np.zeros(number, dtype=bool)
    present[codes[codes >= 0]] = True
    return present


_MIXED = "words and whole numbers"


def _described(name: str, names: pa.Array, listed: Integers) -> str:
    """Codes without showing one: how long they are, or whether they are words or numbers."""
    if not len(listed):
        return "nothing"
    texts = names.take(pa.array(listed))
    if name in MUST_MEET:
        lengths = pc.min_max(pc.utf8_length(texts)).as_py()
        low, high = lengths["min"], lengths["max"]
        return f"codes of {low if low == high else f'{low} to {high}'} characters"
    numbers = pc.match_substring_regex(texts, "^[0-9]+$")
    if pc.all(numbers).as_py():
        return "whole numbers"
    return _MIXED if pc.any(numbers).as_py() else "words"


@dataclass(frozen=True, slots=True)
class Coded:
    """One file: a code for each record, :data:`UNKNOWN` where nothing is given."""

    block: Integers = field(repr=False)
    known: Integers = field(repr=False)
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
    known_kinds: int
    groups: int
    bins: people_files.AgeBins
    block_group: Integers = field(repr=False)
    """The block group of each block; :data:`UNKNOWN` if it is in none."""
    solution_variability: np.ndarray[Any, np.dtype[np.float64]] | None = field(repr=False)
    """Of each block, in the unit of the file; NaN where it is not known. None if the file does not tell."""

    def exact_key(self, people: Coded, *, with_group: bool = False) -> Integers:
        """Block, what is known, and year of age; with the group if asked."""
        return self._key(people, people.age, people_files.OLDEST + 1, with_group)

    def bin_key(self, people: Coded, *, with_group: bool = False) -> Integers:
        """Block, what is known, and age group; with the group if asked."""
        return self._key(people, people.bin, len(self.bins), with_group)

    def _key(self, people: Coded, age: Integers, ages: int, with_group: bool) -> Integers:
        parts = [(people.block, self.blocks), (people.known, self.known_kinds), (age, ages)]
        return combine(*parts, *([(people.group, self.groups)] if with_group else []))


def code(
    reconstructed: pa.Table,
    attacker: pa.Table,
    truth: pa.Table,
    bins: people_files.AgeBins,
    block_group_digits: int = 12,
    linked: people_files.LinkedAttributes = people_files.UNITED_STATES,
) -> Coding:
    """The codes of three tables with the columns of :mod:`confide.lab.attacks.reidentification.people_files`."""
    tables = {
        people_files.Role.RECONSTRUCTED: reconstructed,
        people_files.Role.ATTACKER: attacker,
        people_files.Role.TRUTH: truth,
    }
    for role, table in tables.items():
        people_files.check_columns(role, table, linked)
    block, block_names = _shared(tables, "geocode", linked)
    known, kinds = _together(tables, linked.known, linked)
    group, groups = _together(tables, linked.learnt, linked)
    person, _ = _shared(tables, "person_id", linked)
    if not linked.with_age:
        bins = people_files.AgeBins("none", (0,))
    coded = {}
    for role, table in tables.items():
        age, low, high = _ages(role, table) if linked.with_age else (np.zeros(len(table), np.int64),) * 3
        coded[role] = Coded(block[role], known[role], age, bins.of_ranges(low, high), group[role], person[role])
    return Coding(
        reconstructed=coded[people_files.Role.RECONSTRUCTED],
        attacker=coded[people_files.Role.ATTACKER],
        truth=coded[people_files.Role.TRUTH],
        blocks=len(block_names),
        known_kinds=kinds,
        groups=groups,
        bins=bins,
        block_group=_block_groups(truth, coded[people_files.Role.TRUTH].block, block_names, block_group_digits),
        solution_variability=_variability(
            reconstructed, coded[people_files.Role.RECONSTRUCTED].block, len(block_names)
        ),
    )


def _together(
    tables: dict[people_files.Role, pa.Table], names: tuple[str, ...], linked: people_files.LinkedAttributes
) -> tuple[dict[people_files.Role, Integers], int]:
    """Some columns as one code in each table, unknown where one of them is, and how many codes there can be."""
    parts = [_shared(tables, name, linked) for name in names]
    if not parts:
        return {role: np.zeros(len(table), np.int64) for role, table in tables.items()}, 1
    codes = {role: combine(*((part[role], len(values)) for part, values in parts)) for role in tables}
    return codes, prod(len(values) for _, values in parts)


def _shared(
    tables: dict[people_files.Role, pa.Table], name: str, linked: people_files.LinkedAttributes
) -> tuple[dict[people_files.Role, Integers], pa.Array]:
    """The codes of a column in each table, and what they stand for. A table without the column is all unknown."""
    texts = {
        role: people_files.text_of(role, name, table.column(name))
        if name in table.column_names
        else pa.nulls(len(table), pa.string())
        for role, table in tables.items()
    }
    # Large text, because a nation's geocodes are more than two gigabytes.
    joined = pa.chunked_array([text.cast(pa.large_string()) for text in texts.values()]).combine_chunks()
    encoded = pc.dictionary_encode(joined)
    codes, names = _indices(encoded), encoded.dictionary
    if name in linked.learnt:  # in the order of their names, so that no tie is broken by the order of rows
        order = pc.array_sort_indices(names)
        codes = np.where(
            codes < 0, people_files.UNKNOWN, np.append(np.argsort(order.to_numpy()), people_files.UNKNOWN)[codes]
        )
        names = names.take(order)
    ends = np.cumsum([len(text) for text in texts.values()])
    parts = dict(zip(texts, np.split(codes, ends[:-1]), strict=True))
    refuse_strangers(name, parts, names, linked)
    return parts, names


def _ages(role: people_files.Role, table: pa.Table) -> tuple[Integers, Integers, Integers]:
    """The exact age, and the range that is known. A range of one year is an exact age."""
    age = people_files.ages_of(role, table, "age")
    if role is not people_files.Role.RECONSTRUCTED:
        return age, age, age
    low, high = age.copy(), age.copy()
    if "age_bin" in table.column_names:
        encoded = pc.dictionary_encode(people_files.plain(table.column("age_bin")).cast(pa.large_string()))
        ranges = [
            people_files.range_of_label(label) or (people_files.UNKNOWN, people_files.UNKNOWN)
            for label in encoded.dictionary.to_pylist()
        ]
        ends = np.array([*ranges, (people_files.UNKNOWN, people_files.UNKNOWN)], dtype=np.int64)
        given = ends[pc.fill_null(encoded.indices, len(ranges)).to_numpy(zero_copy_only=False)]
        low, high = np.where(low < 0, given[:, 0], low), np.where(high < 0, given[:, 1], high)
    if "age_low" in table.column_names:
        first, last = people_files.ages_of(role, table, "age_low"), people_files.ages_of(role, table, "age_high")
        last = np.where((first >= 0) & (last < 0), people_files.OLDEST, last)
        unknown = (age < 0) & (first >= 0)
        low, high = np.where(unknown, first, low), np.where(unknown, last, high)
    return np.where(low == high, low, people_files.UNKNOWN).astype(np.int64), low, high


def _block_groups(truth: pa.Table, block: Integers, names: pa.Array, digits: int) -> Integers:
    """From the column ``block_group`` of the truth, or the first digits of the geocode."""
    if "block_group" not in truth.column_names:
        prefixes = pc.dictionary_encode(pc.utf8_slice_codeunits(names, 0, digits))
        return _indices(prefixes)
    own = people_files.text_of(people_files.Role.TRUTH, "block_group", truth.column("block_group"))
    groups = np.full(len(names), people_files.UNKNOWN, dtype=np.int64)
    groups[block] = _indices(pc.dictionary_encode(own))
    return groups


def _indices(encoded: pa.DictionaryArray) -> Integers:
    codes = pc.fill_null(encoded.indices, people_files.UNKNOWN).to_numpy(zero_copy_only=False)
    return np.asarray(codes, dtype=np.int64)


def _variability(table: pa.Table, block: Integers, blocks: int) -> np.ndarray[Any, np.dtype[np.float64]] | None:
    """The largest solution variability given for each block; None if none is given."""
    if "solution_variability" not in table.column_names:
        return None
    values = people_files.plain(table.column("solution_variability"))
    try:
        given = values.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowException:
        raise InputError(
            "bad-variability/solution-share-people",
            where=Place(file=people_files.Role.RECONSTRUCTED.value, row=None, column="solution_variability"),
        ) from None
    wrong = np.flatnonzero((given < 0) | (given > 100))
    if len(wrong):
        raise InputError(
            "bad-variability/out",
            where=Place(
                file=people_files.Role.RECONSTRUCTED.value, row=int(wrong[0]) + 1, column="solution_variability"
            ),
        )
    stated = (block >= 0) & ~np.isnan(given)
    if not stated.any():
        return None
    largest = np.full(blocks, -np.inf)
    np.maximum.at(largest, block[stated], given[stated])
    return np.where(np.isneginf(largest), np.nan, largest)
