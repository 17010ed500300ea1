"""Lookup tables: most draws are decided by one 16-bit word.

Bit 15 of a word is the sign; bits 0 to 14 are the first 15 bits of a uniform number ``U``, that is, one of 2**15 cells
``[c, c + 1) / 2**15``. Where a cell lies inside one step ``[G_{m-1}, G_m)`` of the folded distribution function, the
draw is ``±m`` and the table says so. Elsewhere the cell is *undecided*, and more bits of the same ``U`` are compared
with the threshold in it. An undecided cell with exactly one threshold is settled by one comparison; the others are
*crowded*.

Every entry follows from proved enclosures (:mod:`confide.noise.enclosure`), so the table is right wherever it decides.
Derivation: ``docs/proofs/noise.md``, section 3.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from confide.noise.distributions import NoiseDistribution
from confide.noise.enclosure import FoldedThresholds, folded_thresholds

CELL_BITS = 15
CELLS = 1 << CELL_BITS
UNDECIDED = -(1 << 15)
"""Marks an undecided cell; no decided magnitude comes near it."""

THRESHOLD_BITS = 192
_WORD = 64
_LARGEST_WORD = (1 << _WORD) - 1
_SMALLEST_FIRST = Fraction(1, 1000)
_SMALLEST_STEP = Fraction(1, 7000**2)


@dataclass(frozen=True, slots=True, eq=False)
class LookupTable:
    """What the sampler looks up for one law. All arrays are read-only.

    ``signed`` maps a raw word to the draw or to ``UNDECIDED``. For the undecided cell ``c`` with ``r = rank[c]``, an
    extension word below ``lower[r]`` means the magnitude ``below[r]``, one above ``upper[r]`` means ``below[r] + 1``; a
    crowded cell has the bounds 0 and 2**64 - 1, between which every word is open. For crowded cells, the first 64 bits
    of ``U`` are below ``G_m`` if they are below ``first_lower[m]``, and not below it if they exceed ``first_upper[m]``.
    """

    distribution: NoiseDistribution
    signed: npt.NDArray[np.int16]
    rank: npt.NDArray[np.uint16]
    below: npt.NDArray[np.int64]
    lower: npt.NDArray[np.uint64]
    upper: npt.NDArray[np.uint64]
    first_lower: npt.NDArray[np.uint64]
    first_upper: npt.NDArray[np.uint64]

    @property
    def undecided_share(self) -> Fraction:
        """The probability that one word does not decide a draw: for comparing counts with their expectation."""
        return Fraction(len(self.below), CELLS)

    def sha256(self) -> str:
        """A fingerprint of the law and of every number in the table, for the manifest."""
        digest = hashlib.sha256(json.dumps(self.distribution.as_dict(), sort_keys=True).encode())
        for values in (self.signed, self.rank, self.below, self.lower, self.upper, self.first_lower, self.first_upper):
            digest.update(values.astype(values.dtype.newbyteorder("<")).tobytes())
        return digest.hexdigest()

    def __repr__(self) -> str:
        return f"LookupTable({self.distribution!r}, undecided_share={float(self.undecided_share):.4%})"


def fits_table(distribution: NoiseDistribution) -> bool:
    """Whether cells are wide enough to decide: ``sigma <= 7000`` or ``epsilon >= 1/1000``."""
    return distribution.decay.first >= _SMALLEST_FIRST or distribution.decay.step >= _SMALLEST_STEP


@lru_cache(maxsize=128)
def table_for(distribution: NoiseDistribution) -> LookupTable:
    """The table of a law, built once per process and exact law."""
    return build_table(distribution, folded_thresholds(distribution.decay, THRESHOLD_BITS))


def build_table(distribution: NoiseDistribution, thresholds: FoldedThresholds) -> LookupTable:
    """The table that follows from enclosures of the thresholds ``G_m``."""
    cells = _decided_cells(thresholds)
    undecided = np.flatnonzero(cells == UNDECIDED)
    rank = np.zeros(CELLS, np.uint16)
    rank[undecided] = np.arange(len(undecided))
    below, lower, upper = _lone_thresholds(thresholds)
    table = LookupTable(
        distribution=distribution,
        signed=np.concatenate([cells, np.where(cells == UNDECIDED, UNDECIDED, -cells)]).astype(np.int16),
        rank=rank,
        below=below[undecided],
        lower=lower[undecided],
        upper=upper[undecided],
        first_lower=_cut(thresholds.lower, thresholds.bits - _WORD),
        first_upper=_cut(thresholds.upper, thresholds.bits - _WORD),
    )
    for values in (
        table.signed,
        table.rank,
        table.below,
        table.lower,
        table.upper,
        table.first_lower,
        table.first_upper,
    ):
        values.setflags(write=False)
    return table


def _decided_cells(thresholds: FoldedThresholds) -> npt.NDArray[np.int64]:
    """For each cell the ``m`` whose step provably holds it, or ``UNDECIDED``."""
    shift = thresholds.bits - CELL_BITS
    cells = np.full(CELLS, UNDECIDED, np.int64)
    begin = 0
    for m, (lower, upper) in enumerate(zip(thresholds.lower, thresholds.upper, strict=True)):
        cells[begin : max(begin, lower >> shift)] = m
        begin = -(-upper >> shift)
    return cells


def _lone_thresholds(
    thresholds: FoldedThresholds,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """For each cell with one threshold: which, and the 64 bits after the first 15 of its enclosure."""
    shift = thresholds.bits - CELL_BITS
    first = np.array([lower >> shift for lower in thresholds.lower])
    last = np.array([upper >> shift for upper in thresholds.upper])
    touching = np.bincount(first, minlength=CELLS + 1) + np.bincount(last[last != first], minlength=CELLS + 1)
    # The last cell also holds the infinitely many thresholds beyond the enclosed ones.
    lone = np.flatnonzero((first == last) & (touching[first] == 1) & (first < CELLS - 1))
    below = np.zeros(CELLS, np.int64)
    lower = np.zeros(CELLS, np.uint64)
    upper = np.full(CELLS, _LARGEST_WORD, np.uint64)
    beyond = thresholds.bits - CELL_BITS - _WORD
    below[first[lone]] = lone
    lower[first[lone]] = [thresholds.lower[m] >> beyond & _LARGEST_WORD for m in lone]
    upper[first[lone]] = [thresholds.upper[m] >> beyond & _LARGEST_WORD for m in lone]
    return below, lower, upper


def _cut(bounds: list[int], shift: int) -> npt.NDArray[np.uint64]:
    """The first 64 bits of each bound. One as an upper bound becomes the largest word, which no word exceeds."""
    return np.array([min(bound >> shift, _LARGEST_WORD) for bound in bounds], np.uint64)
