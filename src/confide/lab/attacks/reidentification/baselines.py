"""What an attack has to beat: guesses without any reconstruction, of everybody, and of as many as an attacker is surest
of.

The *modal guesser* (MDG) says of everybody that they are of the commonest group of their block, the *proportional
guesser* (PRG) draws the group by the shares pᵍ of the block. Of n people in a block, nᵍ of them in group g, the modal
guesser is right about max nᵍ; the proportional guesser is expected to be right about Σ nᵍ pᵍ = n Σ pᵍ². Both are given
the same frame (block, sex, age) as the attack, so that they have the same putative matches and differ in precision
alone.

The mode: the commonest group of the block. Where two share the first place, or a block has one person, that of the
block group; where that has none either, that of the whole file (non-Hispanic White alone, in the United States).

*Confidence-ranked reconstruction* asks how many of the k records that an attacker is surest of are true:
T. Dick, C. Dwork, M. Kearns, T. Liu, A. Roth, G. Vietri and Z. S. Wu, *Confidence-ranked reconstruction of census
microdata from published statistics*, PNAS 120 (2023). A record is *true* if the truth has somebody of that block, sex,
age group, race and ethnicity, each person once. The match rate at k is the share of true ones among the first k.

A rate says little by itself: where most people are alike, anybody's first k guesses are right. So two who never saw a
figure of the block are beside, and know no more than how many records the attack has there:

- the *hold-out* knows the people of all **other** blocks. With n records in the block and a share s of a kind
  elsewhere, the j-th person of the kind is there with the chance that a Poisson number of mean n s is at least j; the
  first k are those of largest chance;
- the *modal* guesser says the commonest kind of the other blocks everywhere, blocks ranked by that chance.

An attack that is below one of the two at k has learnt nothing about its first k records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from enum import IntEnum
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from confide.arrays import Integers
from confide.errors import InputError, ParameterError, Place
from confide.lab.attacks.reidentification import people_files
from confide.lab.attacks.reidentification.matching import Coded, Coding, code, combine


class ModeFrom(IntEnum):
    """Where the mode of a block was found."""

    BLOCK = 0
    BLOCK_GROUP = 1
    WHOLE = 2


@dataclass(frozen=True, slots=True)
class Composition:
    """The groups of the people of each block, as someone who guesses knows them."""

    mode: Integers = field(repr=False)
    """The modal group of each block."""
    source: Integers = field(repr=False)
    """Where it was found: :class:`ModeFrom`, for each block."""
    people: Integers = field(repr=False)
    """How many people each block has."""
    _cells: Integers = field(repr=False)
    _counts: Integers = field(repr=False)
    _groups: int = field(repr=False)

    def share(self, block: Integers, group: Integers) -> np.ndarray[Any, np.dtype[np.float64]]:
        """pᵍ: the share of a group in a block; 0 where nobody is."""
        wanted = block * self._groups + group
        place = np.minimum(np.searchsorted(self._cells, wanted), max(len(self._cells) - 1, 0))
        if not len(self._cells):
            return np.zeros(len(wanted))
        counts = np.where((self._cells[place] == wanted) & (block >= 0) & (group >= 0), self._counts[place], 0)
        return np.asarray(counts / np.maximum(self.people[block], 1), dtype=np.float64)


def composition(coding: Coding, people: Coded, whole_mode: int | None = None) -> Composition:
    """The groups of each block among ``people``. ``whole_mode`` is the code of the last resort, by default theirs."""
    complete = (people.block >= 0) & (people.group >= 0)
    block, group = people.block[complete], people.group[complete]
    cells, counts = np.unique(block * coding.groups + group, return_counts=True)
    numbers = np.bincount(block, minlength=coding.blocks)
    in_block = _unique_mode(cells // coding.groups, cells % coding.groups, counts, coding.blocks)
    # Where a block has no single commonest group: that of its block group, if it has one.
    above = coding.block_group
    members = np.flatnonzero(above[block] >= 0)
    wide = above[block[members]] * coding.groups + group[members]
    wide_cells, wide_counts = np.unique(wide, return_counts=True)
    size = int(above.max(initial=0)) + 1
    in_group = _unique_mode(wide_cells // coding.groups, wide_cells % coding.groups, wide_counts, size)
    # And where that fails too: the commonest of all.
    if whole_mode is None:
        whole_mode = int(np.argmax(np.bincount(group, minlength=1)))
    over = np.where(above >= 0, in_group[np.maximum(above, 0)], people_files.UNKNOWN)
    mode = np.where(in_block >= 0, in_block, np.where(over >= 0, over, whole_mode))
    source = np.where(in_block >= 0, ModeFrom.BLOCK, np.where(over >= 0, ModeFrom.BLOCK_GROUP, ModeFrom.WHOLE))
    return Composition(
        mode.astype(np.int64), source.astype(np.int64), numbers.astype(np.int64), cells, counts, coding.groups
    )


def _unique_mode(unit: Integers, group: Integers, counts: Integers, units: int) -> Integers:
    """The commonest group of each unit; :data:`UNKNOWN` for a tie, one person or nobody."""
    most = np.zeros(units, dtype=np.int64)
    np.maximum.at(most, unit, counts)
    first = counts == most[unit]
    tied = np.bincount(unit[first], minlength=units)
    modes = np.full(units, people_files.UNKNOWN, dtype=np.int64)
    modes[unit[first]] = group[first]
    people = np.bincount(unit, weights=counts, minlength=units)
    return np.where((tied == 1) & (people > 1), modes, people_files.UNKNOWN)


def modal_guesser(counts: Sequence[int]) -> Fraction:
    """The share of a block that the modal guesser is right about: max nᵍ / n.

    >>> modal_guesser([9, 1])
    Fraction(9, 10)
    """
    numbers = _checked(counts)
    return Fraction(max(numbers), sum(numbers))


def proportional_guesser(counts: Sequence[int]) -> Fraction:
    """The share that the proportional guesser is expected to be right about: Σ pᵍ².

    >>> proportional_guesser([9, 1])
    Fraction(41, 50)
    """
    numbers = _checked(counts)
    return Fraction(sum(number * number for number in numbers), sum(numbers) ** 2)


def proportional_guesser_of_others(counts: Sequence[int]) -> Fraction:
    """The same for a guesser who knows the n − 1 others alone, so that nobody gives themselves away:
    Σ nᵍ(nᵍ − 1) / (n(n − 1)).

    >>> proportional_guesser_of_others([9, 1])
    Fraction(4, 5)
    """
    numbers = _checked(counts)
    people = sum(numbers)
    return Fraction(sum(n * (n - 1) for n in numbers), people * (people - 1)) if people > 1 else Fraction(0)


def proportional_guesser_as_printed(counts: Sequence[int]) -> Fraction:
    """A reading under which ten people, nine and one, come to the 81.1 % that a published example prints: 73/90.

    Σ nᵍ max(nᵍ − 1, 1) / (n(n − 1)): everyone is guessed from the n − 1 others, but somebody alone in their group is
    counted with one such other instead of none. This is our inference. It is not the expected value of either guesser
    above (82 % and 80 %), and nothing here uses it: see ``docs/concepts/reidentification.md``.

    >>> proportional_guesser_as_printed([9, 1])
    Fraction(73, 90)
    """
    numbers = [number for number in _checked(counts) if number]
    people = sum(numbers)
    return Fraction(sum(n * max(n - 1, 1) for n in numbers), people * (people - 1)) if people > 1 else Fraction(1)


def _checked(counts: Sequence[int]) -> list[int]:
    numbers = [int(number) for number in counts]
    if any(number < 0 for number in numbers) or not sum(numbers):
        raise ParameterError("bad-counts/people")
    return numbers


# Confidence-ranked reconstruction: how many of the k records that an attacker is surest of are true.


CONFIDENCE = "confidence"
STEPS = (1, 2, 5)
FIRST = 10
MOST_COPIES = 200
"""More people of one kind than so many are not looked for in a block: they are the same guess."""

Floats = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, slots=True)
class RankedMatches:
    """The match rates of the first k records: of the attack, and of the two who know other blocks alone."""

    k: int
    match_rate: float
    hold_out_match_rate: float
    modal_match_rate: float

    @property
    def better_than_guessing(self) -> bool:
        """Whether the attack is above both."""
        return self.match_rate > max(self.hold_out_match_rate, self.modal_match_rate)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"better_than_guessing": self.better_than_guessing}


def match_rates(
    reconstructed: pa.Table,
    truth: pa.Table,
    *,
    age_bins: str | tuple[int, ...] = "sf1-block",
    seed: int = 0,
    linked: people_files.LinkedAttributes = people_files.UNITED_STATES,
) -> tuple[RankedMatches, ...]:
    """The match rates at k of reconstructed records with a column ``confidence``.

    Args:
        reconstructed: Records as :func:`confide.lab.attacks.reconstruct` writes them.
        truth: The confidential records: person_id, geocode, sex, age, cenrace, hispanic.
        age_bins: The age groups, as in :func:`confide.lab.attacks.reidentify`.
        seed: Records of the same confidence come in an order drawn from it.
        linked: What is known of people, and what is learnt.

    Returns:
        One entry for each k = 10, 20, 50, 100, … and for all records; nothing if no record has a confidence.

    >>> people = {"geocode": ["1", "2"], "sex": [1, 2], "age": [30, 40], "cenrace": [0, 1], "hispanic": [0, 0]}
    >>> truth = pa.table({"person_id": [1, 2]} | people)
    >>> match_rates(pa.table(people | {"confidence": [0.9, 0.5]}), truth)[-1].match_rate
    1.0
    """
    coding = code(reconstructed, truth, truth, people_files.load_age_bins(age_bins), linked=linked)
    return ranked_matches(coding, confidence_of(reconstructed), seed)


def confidence_of(reconstructed: pa.Table) -> Floats | None:
    """The confidence of each record, NaN where it has none; None if no record has one."""
    if CONFIDENCE not in reconstructed.column_names:
        return None
    try:
        given = people_files.plain(reconstructed.column(CONFIDENCE)).cast(pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowException:
        given = np.array([np.inf])
    if ((given < 0) | (given > 1)).any():
        raise InputError("bad-confidence", where=Place(file=people_files.Role.RECONSTRUCTED.value, column=CONFIDENCE))
    return None if np.isnan(given).all() else np.asarray(given, np.float64)


def ranked_matches(coding: Coding, confidence: Floats | None, seed: int) -> tuple[RankedMatches, ...]:
    """The match rates of coded records; see :func:`match_rates`."""
    if confidence is None or not len(confidence):
        return ()
    kinds = coding.known_kinds * len(coding.bins) * coding.groups
    ours, truth = _kind(coding, coding.reconstructed), _kind(coding, coding.truth)
    people, true = coding.reconstructed.block, coding.truth.block
    number = _Counted(np.where(truth >= 0, true * kinds + truth, -1))
    tie = np.random.default_rng([seed, 5]).random(len(ours))
    order = np.lexsort((tie, -np.nan_to_num(confidence, nan=-1.0)))
    keys = np.where(ours >= 0, people * kinds + ours, -1)[order]
    matched = (keys >= 0) & (_copies(keys) <= number.at(keys))
    sizes = np.bincount(people[people >= 0], minlength=coding.blocks)
    hold_out, modal = _guesses(sizes, true[truth >= 0], truth[truth >= 0], kinds)
    rates = [_running(matched), *(_running(_copies(guess) <= number.at(guess)) for guess in (hold_out, modal))]
    return tuple(RankedMatches(k, *(_rate(rate, k) for rate in rates)) for k in _places(len(matched)))


def _kind(coding: Coding, people: Any) -> Integers:
    """Sex, age group, race and ethnicity as one number."""
    parts = ((people.known, coding.known_kinds), (people.bin, len(coding.bins)), (people.group, coding.groups))
    return np.asarray(np.where(people.block >= 0, combine(*parts), -1), np.int64)


def _places(records: int) -> list[int]:
    """10, 20, 50, 100, … up to all records."""
    places, scale = [], FIRST
    while scale < records:
        places += [scale * step for step in STEPS if scale * step < records]
        scale *= 10
    return [*places, records]


def _running(matched: Any) -> Floats:
    return np.cumsum(matched) / np.arange(1, len(matched) + 1)


def _rate(rates: Floats, k: int) -> float:
    """The rate at k, or of all guesses that there are."""
    return float(rates[min(k, len(rates)) - 1]) if len(rates) else 0.0


def _copies(keys: Integers) -> Integers:
    """For each entry how many with its key there are up to it, from 1 on."""
    order = np.argsort(keys, kind="stable")
    first = np.flatnonzero(np.diff(keys[order], prepend=-2))
    copies = np.empty(len(keys), np.int64)
    copies[order] = np.arange(len(keys)) - np.repeat(first, np.diff(np.append(first, len(keys)))) + 1
    return copies


class _Counted:
    """How often each key occurs."""

    def __init__(self, keys: Integers):
        self._keys, self._counts = np.unique(keys[keys >= 0], return_counts=True)

    def at(self, keys: Integers) -> Integers:
        if not len(self._keys):
            return np.zeros(len(keys), np.int64)
        place = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[place] == keys, self._counts[place], 0)


def _guesses(sizes: Integers, block: Integers, kind: Integers, kinds: int) -> tuple[Integers, Integers]:
    """What the hold-out and the modal guesser say of all blocks, the surest guess first: block and kind as one key."""
    there, place = np.unique(kind, return_inverse=True)
    everywhere = np.bincount(place, minlength=len(there)).astype(np.float64)
    order = np.argsort(block, kind="stable")
    begin = np.searchsorted(block[order], np.arange(len(sizes) + 1))
    chances: list[Floats] = []
    keys: list[Integers] = []
    modal: list[Integers] = []
    modal_chances: list[Floats] = []
    for number in np.flatnonzero(sizes).tolist():
        own = np.bincount(place[order[begin[number] : begin[number + 1]]], minlength=len(there))
        others = everywhere - own  # nobody of the block itself
        if not others.sum() > 0:
            continue
        size = int(sizes[number])
        which, chance = _likeliest(size * others / others.sum(), size)
        keys.append(number * kinds + there[which])
        chances.append(chance)
        mode = int(np.argmax(others))
        mean = np.array([size * others[mode] / others.sum()])
        which, chance = _likeliest(mean, size)
        modal.append(np.full(len(which), number * kinds + there[mode]))
        modal_chances.append(chance)
    if not keys:
        nothing = np.zeros(0, np.int64)
        return nothing, nothing
    return _ordered(keys, chances), _ordered(modal, modal_chances)


def _ordered(keys: list[Integers], chances: list[Floats]) -> Integers:
    joined: Integers = np.concatenate(keys)
    return joined[np.argsort(-np.concatenate(chances), kind="stable")]


def _likeliest(means: Floats, size: int) -> tuple[Integers, Floats]:
    """The likeliest ``size`` pairs of a kind and a copy j, with the chance that a Poisson number is at least j."""
    which, chance = [], []
    probability, below = np.exp(-means), np.zeros(len(means))
    for copy in range(1, min(size, MOST_COPIES) + 1):
        below = below + probability
        at_least = np.maximum(1.0 - below, 0.0)
        which.append(np.arange(len(means)))
        chance.append(at_least)
        if at_least.max() < 1e-3:
            break
        probability = probability * means / copy
    every, values = np.concatenate(which), np.concatenate(chance)
    best = np.argsort(-values, kind="stable")[:size]
    return every[best], values[best]
