"""Confidence-ranked reconstruction: how many of the k records that an attacker is surest of are true.

T. Dick, C. Dwork, M. Kearns, T. Liu, A. Roth, G. Vietri and Z. S. Wu, *Confidence-ranked reconstruction of census
microdata from published statistics*, PNAS 120 (2023). A record is *true* if the truth has somebody of that block, sex,
age group, race and ethnicity, each person once. The match rate at k is the share of true ones among the first k.

A rate says little by itself: where most people are alike, anybody's first k guesses are right. So two who never saw a
figure of the block stand beside, and know no more than how many records the attack has there:

- the *hold-out* knows the people of all **other** blocks. With n records in the block and a share s of a kind
  elsewhere, the j-th person of the kind is there with the chance that a Poisson number of mean n s is at least j; the
  first k are those of largest chance;
- the *modal* guesser says the commonest kind of the other blocks everywhere, blocks ranked by that chance.

An attack that is below one of the two at k has learnt nothing about its first k records.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from confide.attacks.reidentification.coding import Coding, code
from confide.attacks.reidentification.columns import Integers, load_age_bins, plain
from confide.attacks.reidentification.matching import combine
from confide.attacks.reidentification.people_files import UNITED_STATES, LinkedAttributes, Role
from confide.errors import InputError, Place

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
    linked: LinkedAttributes = UNITED_STATES,
) -> tuple[RankedMatches, ...]:
    """The match rates at k of reconstructed records with a column ``confidence``.

    Args:
        reconstructed: Records as :func:`confide.attacks.reconstruct` writes them.
        truth: The confidential records: person_id, geocode, sex, age, cenrace, hispanic.
        age_bins: The age groups, as in :func:`confide.attacks.reidentify`.
        seed: Records of the same confidence come in an order drawn from it.
        linked: What is known of people, and what is learnt.

    Returns:
        One entry for each k = 10, 20, 50, 100, … and for all records; nothing if no record has a confidence.

    >>> people = {"geocode": ["1", "2"], "sex": [1, 2], "age": [30, 40], "cenrace": [0, 1], "hispanic": [0, 0]}
    >>> truth = pa.table({"person_id": [1, 2]} | people)
    >>> match_rates(pa.table(people | {"confidence": [0.9, 0.5]}), truth)[-1].match_rate
    1.0
    """
    coding = code(reconstructed, truth, truth, load_age_bins(age_bins), linked=linked)
    return ranked_matches(coding, confidence_of(reconstructed), seed)


def confidence_of(reconstructed: pa.Table) -> Floats | None:
    """The confidence of each record, NaN where it has none; None if no record has one."""
    if CONFIDENCE not in reconstructed.column_names:
        return None
    try:
        given = plain(reconstructed.column(CONFIDENCE)).cast(pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowException:
        given = np.array([np.inf])
    if ((given < 0) | (given > 1)).any():
        raise InputError(
            "bad-confidence",
            "the confidence of a record is not a probability",
            where=Place(file=Role.RECONSTRUCTED.value, column=CONFIDENCE),
            found="something else",
            expected="numbers from 0 to 1, or nothing",
            remedy="correct the column, or leave it out",
        )
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
