"""Modified tables: the same law in another layout, so that keys that lie close together say less about each other.

Every interval of at least ``threshold * whole`` keys is cut into pieces of that many keys and a remainder; the pieces
of a row are put into an order that a key decides. Lengths are whole numbers, so the law of every row stays, exactly.

The order is a Fisher-Yates shuffle: for ``k = m - 1 .. 1`` the pieces ``k`` and ``j`` change places, ``j`` uniform on
``0 .. k``, read from the first bits of the extension words of coordinate ``k``; a number above ``k`` is passed over.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from confide.cellkey.ptables.table import LookupRow, PTable
from confide.errors import Finding, ParameterError, Place
from confide.exact import Exact, exact
from confide.noise import NoiseStream, ReleaseKey, derive_stream

LAYOUT = "confide/ptable/modified/v1"
_WORD = 64


def key_of(seed: str | None) -> ReleaseKey:
    """The key of a seed of up to 64 hexadecimal digits, zeros before it; without one, from the operating system."""
    return ReleaseKey.from_system() if seed is None else ReleaseKey.choose(seed.strip().rjust(64, "0"))


def modify(table: PTable, threshold: Exact, key: ReleaseKey) -> PTable:
    """The table with its intervals cut at ``threshold`` and put into the order that the key decides."""
    share = exact(threshold, "threshold")
    piece = share * table.whole
    if not 0 < share < 1 or piece < 1:
        raise _refused("the threshold is out of range", str(threshold), f"at least 1/{table.whole} and below one")
    if piece.denominator != 1:
        raise _refused(
            "the threshold does not divide the keys into whole pieces",
            f"{share} of {table.whole} keys",
            "a threshold that is a whole number of keys",
        )
    rows = []
    for row in table.rows:
        stream = derive_stream(
            key,
            records_fingerprint=bytes.fromhex(table.fingerprint),
            plan_hash=LAYOUT.encode(),
            mechanism="cellkey",
            level="ptable",
            query=f"row {row.i}, threshold {share}",
        )
        pieces = _pieces(row, int(piece), table.whole)
        order = _permutation(len(pieces), stream)
        noise, lengths = zip(*(pieces[k] for k in order), strict=True)
        rows.append(LookupRow(row.i, noise, tuple(int(bound) for bound in np.cumsum(lengths))))
    return PTable(tuple(rows), table.whole, table.step, table.kind, table.cycle)


def _pieces(row: LookupRow, piece: int, whole: int) -> list[tuple[int, int]]:
    """Noise and length of each piece; intervals without keys are left out."""
    found: list[tuple[int, int]] = []
    for value, length in zip(row.noise, row.lengths, strict=True):
        if length == whole:
            return [(value, length)]
        cut, rest = divmod(length, piece)
        found += [(value, piece)] * cut
        if rest:
            found.append((value, rest))
    return found


def _permutation(size: int, stream: NoiseStream) -> list[int]:
    order = list(range(size))
    for k in range(size - 1, 0, -1):
        j = _uniform(k + 1, k, stream)
        order[k], order[j] = order[j], order[k]
    return order


def _uniform(below: int, coordinate: int, stream: NoiseStream) -> int:
    bits = (below - 1).bit_length()
    number = 0
    while True:
        word = int(stream.extension(np.array([coordinate], np.uint64), number)[0])
        drawn = word >> (_WORD - bits)
        if drawn < below:
            return drawn
        number += 1


def _refused(what: str, found: str, expected: str) -> ParameterError:
    return ParameterError(Finding("bad-threshold", what, Place(path="--modify"), found, expected, "correct --modify"))


def same_law(one: PTable, other: PTable) -> bool:
    """Whether two tables have the same law in every row, exactly, whatever their layout."""
    if one.step != other.step or [row.i for row in one.rows] != [row.i for row in other.rows]:
        return False
    return all(
        {value: Fraction(keys, one.whole) for value, keys in a.law().items()}
        == {value: Fraction(keys, other.whole) for value, keys in b.law().items()}
        for a, b in zip(one.rows, other.rows, strict=True)
    )
