"""Draws: the noise of coordinates, exactly distributed, in bulk.

A draw is decided in stages. Each reads more bits of the same uniform number and stops only when they leave no doubt:

1. one 16-bit word and one table lookup;
2. 64 more bits, compared with the one threshold in the cell, or searched among all where the cell is crowded;
3. Python integers, 64 more bits at a time, for as long as it takes (about one draw in 2**55 at sigma 17).

Where no table fits (``sigma > 7000`` or ``epsilon < 1/1000``) a draw is made by :mod:`confide.noise.sample` from the
extension words of its coordinate. The result is the same for any chunking and order. Derivation:
``docs/proofs/noise.md``, section 3.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import count as count_from
from math import isqrt

import numpy as np
import numpy.typing as npt

from confide.arrays import Integers
from confide.errors import CONFIDENTIAL, ParameterError
from confide.noise import distributions
from confide.noise.distributions import DiscreteGaussian
from confide.noise.stream import Coordinates, Extensions, Words, WordSource, check_span

# Lookup tables: most draws are decided by one 16-bit word.
#
# Bit 15 of a word is the sign; bits 0 to 14 are the first 15 bits of a uniform number ``U``, that is, one of
# 2**15 cells
# ``[c, c + 1) / 2**15``. Where a cell lies inside one step ``[G_{m-1}, G_m)`` of the folded distribution function, the
# draw is ``±m`` and the table says so. Elsewhere the cell is *undecided*, and more bits of the same ``U`` are compared
# with the threshold in it. An undecided cell with exactly one threshold is settled by one comparison; the others are
# *crowded*.
#
# Every entry follows from proved enclosures (:mod:`confide.noise.distributions`), so the table is right wherever it
# decides.
# Derivation: ``docs/proofs/noise.md``, section 3.


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

    distribution: distributions.NoiseDistribution
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


def fits_table(distribution: distributions.NoiseDistribution) -> bool:
    """Whether cells are wide enough to decide: ``sigma <= 7000`` or ``epsilon >= 1/1000``.

    Args:
        distribution: Noise without a bound.

    Returns:
        Whether a table of thresholds decides most draws.

    >>> from confide.noise import DiscreteGaussian
    >>> fits_table(DiscreteGaussian(100)), fits_table(DiscreteGaussian(10**8))
    (True, False)
    """
    return distribution.decay.first >= _SMALLEST_FIRST or distribution.decay.step >= _SMALLEST_STEP


@lru_cache(maxsize=128)
def table_for(distribution: distributions.NoiseDistribution) -> LookupTable:
    """The table of a law, built once per process and exact law."""
    return build_table(distribution, distributions.folded_thresholds(distribution.decay, THRESHOLD_BITS))


def build_table(
    distribution: distributions.NoiseDistribution, thresholds: distributions.FoldedThresholds
) -> LookupTable:
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


def _decided_cells(thresholds: distributions.FoldedThresholds) -> npt.NDArray[np.int64]:
    """For each cell the ``m`` whose step provably holds it, or ``UNDECIDED``."""
    shift = thresholds.bits - CELL_BITS
    cells = np.full(CELLS, UNDECIDED, np.int64)
    begin = 0
    for m, (lower, upper) in enumerate(zip(thresholds.lower, thresholds.upper, strict=True)):
        cells[begin : max(begin, lower >> shift)] = m
        begin = -(-upper >> shift)
    return cells


def _lone_thresholds(
    thresholds: distributions.FoldedThresholds,
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


# The samplers of Canonne, Kamath and Steinke in plain integers, over any source of uniform bits.
#
# They are exact, short and slow: the oracle that the table sampler is tested against, and the sampler for scales at
# which no table decides. Every random choice is a comparison of a uniform integer with an integer.
#
# Reference: Canonne, Kamath and Steinke, The Discrete Gaussian for Differential Privacy (2020), algorithms 1 to 3.


class UniformBits:
    """Uniform integers of any size from a supply of 64-bit words."""

    __slots__ = ("_available", "_next_word", "_pool")

    def __init__(self, next_word: Callable[[], int]):
        self._next_word = next_word
        self._pool = 0
        self._available = 0

    def take(self, count: int) -> int:
        """The next ``count`` bits as an integer."""
        while self._available < count:
            self._pool |= self._next_word() << self._available
            self._available += 64
        value = self._pool & ((1 << count) - 1)
        self._pool >>= count
        self._available -= count
        return value

    def below(self, bound: int) -> int:
        """Uniform on ``0 .. bound - 1``: draws of the right number of bits, until one is small enough."""
        count = (bound - 1).bit_length()
        while (value := self.take(count)) >= bound:
            pass
        return value


def sample(distribution: distributions.NoiseDistribution, bits: UniformBits) -> int:
    """One exact draw from ``law``."""
    if isinstance(distribution, DiscreteGaussian):
        return discrete_gaussian(distribution.sigma2.numerator, distribution.sigma2.denominator, bits)
    if isinstance(distribution, distributions.TwoSidedGeometric):
        return two_sided_geometric(distribution.epsilon.numerator, distribution.epsilon.denominator, bits)
    raise TypeError(f"no reference sampler for {type(distribution).__name__}")


def discrete_gaussian(numerator: int, denominator: int, bits: UniformBits) -> int:
    """``P(x)`` proportional to ``exp(-x**2 / (2 sigma2))``, ``sigma2 = numerator / denominator`` (algorithm 3).

    A two-sided geometric candidate ``y`` of scale ``t = floor(sigma) + 1`` is kept with probability
    ``exp(-(|y| - sigma2 / t)**2 / (2 sigma2))``.
    """
    scale = isqrt(numerator // denominator) + 1
    divisor = 2 * numerator * denominator * scale * scale
    while True:
        candidate = two_sided_geometric(1, scale, bits)
        distance = abs(candidate) * scale * denominator - numerator
        if bernoulli_exp(distance * distance, divisor, bits):
            return candidate


def two_sided_geometric(numerator: int, denominator: int, bits: UniformBits) -> int:
    """``P(x)`` proportional to ``exp(-epsilon |x|)``, ``epsilon = numerator / denominator`` (algorithm 2)."""
    while True:
        remainder = bits.below(denominator)
        if not bernoulli_exp(remainder, denominator, bits):
            continue
        quotient = 0
        while _bernoulli_exp_up_to_one(1, 1, bits):
            quotient += 1
        magnitude = (remainder + denominator * quotient) // numerator
        negative = bits.take(1)
        # Minus zero is the same as zero and would count twice.
        if magnitude or not negative:
            return -magnitude if negative else magnitude


def bernoulli_exp(numerator: int, denominator: int, bits: UniformBits) -> bool:
    """True with probability ``exp(-numerator / denominator)`` (algorithm 1)."""
    while numerator > denominator:
        if not _bernoulli_exp_up_to_one(1, 1, bits):
            return False
        numerator -= denominator
    return _bernoulli_exp_up_to_one(numerator, denominator, bits)


def _bernoulli_exp_up_to_one(numerator: int, denominator: int, bits: UniformBits) -> bool:
    """The same for a quotient of at most one: the parity of a run of ever rarer successes (von Neumann)."""
    run = 1
    while bits.below(denominator * run) < numerator:
        run += 1
    return run % 2 == 1


_CHUNK = 1 << 17
"""Draws at a time: words, lookups and counts stay in the processor's cache."""

_BLOCK = 1 << 20
"""Undecided draws are settled together once per block, because a call costs more than a draw."""

_REFERENCE_CHUNK = 1 << 12
_REFERENCE_WORDS = 16
_LARGEST_VALUE = 1 << 62
_WIDEST = Fraction(1, 1 << 50)


@dataclass(slots=True)
class Tally:
    """How many draws were made and how many of them went how far. Depends on the key only, never on the values."""

    draws: int = 0
    extended: int = 0
    exact: int = 0
    reference: int = 0


def draw(
    distribution: distributions.NoiseDistribution,
    stream: WordSource,
    start: int,
    count: int,
    tally: Tally | None = None,
) -> Integers:
    """The noise of the coordinates ``start .. start + count - 1``.

    Args:
        distribution: Noise without a bound.
        stream: Where the bits come from.
        start: The first coordinate, zero or more.
        count: How many.
        tally: Takes note of how far draws went; for the manifest.

    Returns:
        ``count`` whole numbers. The same coordinate has the same noise in any call.

    >>> from confide.noise import DiscreteGaussian, NoiseStream
    >>> draw(DiscreteGaussian(4), NoiseStream.fresh("study"), 0, 4)
    array([ 1,  1, -3, -1])
    """
    check_span(start, count)
    noise = np.zeros(count, np.int64)
    _add(noise, distribution, stream, start, tally or Tally())
    return noise


def draw_at(
    distribution: distributions.NoiseDistribution,
    stream: WordSource,
    coordinates: npt.NDArray[np.uint64] | Integers,
    tally: Tally | None = None,
) -> Integers:
    """The noise of any coordinates, in any order, repeats allowed: each the same as :func:`draw` gives it.

    Args:
        distribution: Noise without a bound.
        stream: Where the bits come from.
        coordinates: A row of 64-bit integers from 0 to ``2**63 - 1``.
        tally: Takes note of how far draws went.

    Returns:
        One whole number for each coordinate.

    >>> from confide.noise import DiscreteGaussian, NoiseStream
    >>> noise = draw_at(DiscreteGaussian(4), NoiseStream.fresh(), np.array([7, 3, 7]))
    >>> bool(noise[0] == noise[2])
    True
    """
    places = _as_coordinates(coordinates)
    check_width(distribution)
    tally = tally or Tally()
    noise = np.empty(len(places), np.int64)
    table = table_for(distribution) if fits_table(distribution) else None
    for begin in range(0, len(places), _CHUNK):
        chunk = places[begin : begin + _CHUNK]
        noise[begin : begin + _CHUNK] = (
            _draw_reference(distribution, stream, chunk, tally)
            if table is None
            else decide(table, stream.words_at(chunk), chunk, stream, tally)
        )
    return noise


def add_noise(
    values: Integers,
    distribution: distributions.NoiseDistribution,
    stream: WordSource,
    start: int,
    tally: Tally | None = None,
) -> None:
    """Add to ``values``, in place, the noise of the coordinates from ``start`` on, in the order of a flat view.

    Args:
        values: Writable, contiguous counts of any shape; a value is at most ``2**62`` in size.
        distribution: Noise without a bound. For any noise, on a copy, see :func:`confide.noise.perturb`.
        stream: Where the bits come from.
        start: The coordinate of the first value.
        tally: Takes note of how far draws went.

    >>> from confide.noise import DiscreteGaussian, NoiseStream
    >>> counts = np.array([5, 0, 3])
    >>> add_noise(counts, DiscreteGaussian(4), NoiseStream.fresh(), start=0)
    >>> counts.shape
    (3,)
    """
    check_values(values)
    check_span(start, values.size)
    _add(values.reshape(-1), distribution, stream, start, tally or Tally())


def decide(table: LookupTable, words: Words, coordinates: Coordinates, source: WordSource, tally: Tally) -> Integers:
    """The draws of ``words``, with further words of the same coordinates from ``source`` where these do not decide."""
    # Stage 1: one lookup decides all but a few words.
    noise = table.signed[words].astype(np.int64)
    open_ = np.flatnonzero(noise == UNDECIDED)
    noise[open_] = _settle(table, words[open_], coordinates[open_], source, tally)
    tally.draws += len(words)
    return noise


def _add(
    values: Integers, distribution: distributions.NoiseDistribution, source: WordSource, start: int, tally: Tally
) -> None:
    check_width(distribution)
    if not fits_table(distribution):
        for begin in range(0, len(values), _REFERENCE_CHUNK):
            chunk = values[begin : begin + _REFERENCE_CHUNK]
            chunk += _draw_reference(distribution, source, _span(start + begin, len(chunk)), tally)
        return
    table = table_for(distribution)
    for begin in range(0, len(values), _BLOCK):
        _add_block(values[begin : begin + _BLOCK], table, source, start + begin, tally)


def _add_block(values: Integers, table: LookupTable, source: WordSource, start: int, tally: Tally) -> None:
    """Stage 1 in chunks, then the later stages for what the block has left open."""
    looked_up = np.empty(min(_CHUNK, len(values)), np.int16)
    marked = np.empty(len(looked_up), np.bool_)
    open_places, open_words = [], []
    for begin in range(0, len(values), _CHUNK):
        chunk = values[begin : begin + _CHUNK]
        words = source.words(start + begin, len(chunk))
        noise = looked_up[: len(chunk)]
        # Every word is a valid index; "wrap" is the quickest way to tell numpy so.
        np.take(table.signed, words, out=noise, mode="wrap")
        open_here = np.equal(noise, UNDECIDED, out=marked[: len(chunk)]).nonzero()[0]
        noise[open_here] = 0
        np.add(chunk, noise, out=chunk)
        open_places.append(open_here + begin)
        open_words.append(words[open_here])
    places = np.concatenate(open_places)
    coordinates = places.astype(np.uint64) + np.uint64(start)
    values[places] += _settle(table, np.concatenate(open_words), coordinates, source, tally)
    tally.draws += len(values)


def _settle(table: LookupTable, words: Words, coordinates: Coordinates, source: WordSource, tally: Tally) -> Integers:
    """Stage 2 for draws in undecided cells; what it cannot decide goes on to the search and to stage 3."""
    tally.extended += len(words)
    # A word is a sign and a cell of the unit interval; 64 more bits are a place within the cell.
    cells = words & np.uint16(CELLS - 1)
    extensions = source.extension(coordinates, 0)
    rank = table.rank[cells]
    upper = table.upper[rank]
    # With one threshold in the cell the magnitude is the one below it, or the next.
    magnitudes = table.below[rank] + (extensions > upper)
    # Between the rounded threshold and its rounded-up neighbour nothing is decided.
    open_ = np.flatnonzero((extensions >= table.lower[rank]) & (extensions <= upper))
    magnitudes[open_] = _search(table, cells[open_], extensions[open_], coordinates[open_], source, tally)
    signed: Integers = np.where(words >> np.uint16(CELL_BITS), -magnitudes, magnitudes)
    return signed


def _search(
    table: LookupTable, cells: Words, extensions: Extensions, coordinates: Coordinates, source: WordSource, tally: Tally
) -> Integers:
    """Magnitudes by binary search with 64 bits of ``U``, or by :func:`invert` where they touch a threshold."""
    first = (cells.astype(np.uint64) << np.uint64(64 - CELL_BITS)) | (extensions >> np.uint64(CELL_BITS))
    # The first threshold whose upper rounding is not below the bits; it decides if its lower rounding is above them.
    magnitudes = np.searchsorted(table.first_upper, first, side="left")
    clipped = np.minimum(magnitudes, len(table.first_lower) - 1)
    open_ = np.flatnonzero((magnitudes != clipped) | (first >= table.first_lower[clipped]))
    tally.exact += len(open_)
    # Stage 3, about one draw in 2**55: the threshold itself is worked out, and bits added until they differ from it.
    for i in open_:
        prefix = int(cells[i]) << 64 | int(extensions[i])
        next_word = _words_of(source, coordinates[i : i + 1], first=1)
        magnitudes[i] = distributions.invert(table.distribution.decay, prefix, CELL_BITS + 64, next_word)
    return magnitudes


def _draw_reference(
    distribution: distributions.NoiseDistribution, source: WordSource, coordinates: Coordinates, tally: Tally
) -> Integers:
    """One draw per coordinate by the reference sampler; a few words for all coordinates are fetched at a time."""
    tally.draws += len(coordinates)
    tally.reference += len(coordinates)
    noise = np.empty(len(coordinates), np.int64)
    for begin in range(0, len(coordinates), _REFERENCE_CHUNK):
        chunk = coordinates[begin : begin + _REFERENCE_CHUNK]
        fetched = [source.extension(chunk, number).tolist() for number in range(_REFERENCE_WORDS)]
        for i in range(len(chunk)):
            next_word = _words_of(source, chunk[i : i + 1], first=0, fetched=[column[i] for column in fetched])
            value = sample(distribution, UniformBits(next_word))
            if abs(value) > _LARGEST_VALUE:
                raise OverflowError("a draw does not fit into 64 bits")
            noise[begin + i] = value
    return noise


def _words_of(
    source: WordSource, coordinate: Coordinates, first: int, fetched: list[int] | None = None
) -> Callable[[], int]:
    """Extension words ``first``, ``first + 1``, ... of one coordinate, without end, one per call."""
    ready = fetched or []

    def generate() -> Iterator[int]:
        yield from ready
        for number in count_from(first + len(ready)):
            yield int(source.extension(coordinate, number)[0])

    return generate().__next__


def _span(start: int, count: int) -> Coordinates:
    return np.arange(start, start + count, dtype=np.uint64)


def _as_coordinates(coordinates: npt.NDArray[np.uint64] | Integers) -> Coordinates:
    if coordinates.ndim != 1 or coordinates.dtype not in (np.dtype(np.uint64), np.dtype(np.int64)):
        raise ParameterError("bad-coordinates", ndim=coordinates.ndim, dtype=coordinates.dtype)
    if len(coordinates):
        check_span(int(coordinates.min()), 1)
        check_span(int(coordinates.max()), 1)
    return coordinates.astype(np.uint64, copy=False)


def check_values(values: Integers) -> None:
    """Refuse arrays that noise cannot be added to in place, exactly and without overflow."""
    if values.dtype != np.dtype(np.int64) or not values.flags.c_contiguous or not values.flags.writeable:
        raise ParameterError("bad-array", dtype=values.dtype)
    # Seen as unsigned, a count of zero or more is small: one pass settles the usual case.
    if values.size == 0 or int(values.view(np.uint64).max()) <= _LARGEST_VALUE:
        return
    if int(values.min()) < -_LARGEST_VALUE or int(values.max()) > _LARGEST_VALUE:
        raise ParameterError("overflow", found=CONFIDENTIAL)


def check_width(distribution: distributions.NoiseDistribution) -> None:
    """Within these scales a draw exceeds 2**62 with probability below exp(-4095), and then fails rather than wraps.

    Args:
        distribution: Noise without a bound.

    >>> from confide.noise import DiscreteGaussian
    >>> check_width(DiscreteGaussian(10**6))
    """
    if distribution.decay.first < _WIDEST and distribution.decay.step < _WIDEST**2:
        raise ParameterError("law-too-wide", found=repr(distribution))
