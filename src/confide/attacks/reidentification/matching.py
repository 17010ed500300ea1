"""Matching records of two files one to one, in passes.

A pass has a key for every record of both files. Records on the left are taken in their order; each takes the first
record on the right, in the order there, that has the same key and was not taken; both are then out. The next pass goes
over what is left. Within a key the r-th of the left thereby meets the r-th of the right, so that a pass is a sort of
each side and no search. How many are matched does not depend on the orders: see ``docs/proofs/reidentification.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from confide.attacks.reidentification.columns import UNKNOWN, Integers
from confide.errors import ParameterError


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
        raise ParameterError("no-pass", "matching needs a pass", found="none", expected="at least one pair of keys")
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
        raise ParameterError(
            "too-many-keys",
            "the codes in the files have more combinations than a key can hold",
            found=f"{total:.3g} combinations",
            expected="fewer than 2^63",
            remedy="match part of the geography at a time",
        )
    first, number = parts[0]
    key, valid = first.astype(np.int64), first >= 0
    for codes, number in parts[1:]:
        key = key * number + codes
        valid = valid & (codes >= 0)
    return np.where(valid, key, UNKNOWN)


def _one_pass(left_keys: Integers, right_keys: Integers, left: Integers, right: Integers) -> tuple[Integers, Integers]:
    """The pairs of one pass over the rows ``left`` and ``right``, which stand in the order of their side."""
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
