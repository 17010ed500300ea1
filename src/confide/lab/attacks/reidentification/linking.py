"""Linking: whom an attacker takes a reconstructed record for, and whether they are right.

- *putative*: a reconstructed record matched, without replacement, with a record of the attacker's file on block, sex
  and age (year first, then group). The attacker now believes the race and ethnicity of that person to be known.
- *confirmed*: the truth has this person in this block, of this sex and age, and the race and ethnicity are theirs.
- *precision*: confirmed over putative: how far the attacker may trust a match.

Files are first made *data-defined*: records with a person id, one for each person and block.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias

import numpy as np

from confide.arrays import Integers
from confide.lab.attacks.reidentification.baselines import Composition
from confide.lab.attacks.reidentification.matching import Coded, Coding, Matches, match
from confide.lab.attacks.reidentification.people_files import UNKNOWN

# Agreement: how much of the truth a reconstruction has right, person by person.
#
# Records are matched without replacement on block, sex, age, race and ethnicity, on the year of age first and on its
# group what is left. The agreement rate is matched records over all records of the truth, so that a reconstruction
# that leaves people out does not look better for it (Abowd and Hawes 2023, Table 1).


EXACT, BINNED = 0, 1
"""The passes: on the year of age, then on its group."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """Records of the truth in a universe, and how many of them the reconstruction has."""

    universe: str
    records: int
    agree: int
    agree_on_exact_age: int

    @property
    def rate(self) -> float | None:
        return self.agree / self.records if self.records else None

    @property
    def exact_age_rate(self) -> float | None:
        return self.agree_on_exact_age / self.records if self.records else None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"rate": self.rate, "exact_age_rate": self.exact_age_rate}


def agree(coding: Coding, reconstructed_order: Integers, truth_order: Integers) -> Matches:
    """The reconstruction (left) matched with the truth (right) on everything."""
    ours, truth = coding.reconstructed, coding.truth
    return match(
        [
            (coding.exact_key(ours, with_group=True), coding.exact_key(truth, with_group=True)),
            (coding.bin_key(ours, with_group=True), coding.bin_key(truth, with_group=True)),
        ],
        reconstructed_order,
        truth_order,
    )


def agreements(matches: Matches, truth: Traits) -> tuple[Agreement, ...]:
    """The agreement in every universe of the truth."""
    exact = matches.right[matches.passed == EXACT]
    return tuple(
        Agreement(name, int(mask.sum()), int(mask[matches.right].sum()), int(mask[exact].sum()))
        for name, mask in truth.universes().items()
        if name != NOT_THERE
    )


@dataclass(frozen=True, slots=True)
class Linkage:
    """The putative matches of an attack, and what the truth says about each."""

    matches: Matches
    """Rows of the reconstruction (left) and of the attacker's data-defined records (right)."""
    person_there: Mask = field(repr=False)
    """Whether the truth has this person in this block, of this sex and age."""
    confirmed: Mask = field(repr=False)
    modal: Mask = field(repr=False)
    """Whether the modal guesser would be confirmed."""
    proportional: np.ndarray[Any, np.dtype[np.float64]] = field(repr=False)
    """With which probability the proportional guesser would be."""


@dataclass(frozen=True, slots=True)
class LinkageRates:
    """Numbers of one universe. Rates divide by the attacker's records or by the data-defined persons of the truth."""

    universe: str
    attacker_records: int
    data_defined_persons: int
    putative: int
    confirmed: int
    modal_guesser_confirmed: int
    proportional_guesser_expected: float
    exact_age_putative: int
    exact_age_confirmed: int
    divided_by: int

    @property
    def putative_rate(self) -> float | None:
        return _ratio(self.putative, self.divided_by)

    @property
    def confirmed_rate(self) -> float | None:
        return _ratio(self.confirmed, self.divided_by)

    @property
    def precision(self) -> float | None:
        return _ratio(self.confirmed, self.putative)

    @property
    def modal_guesser_precision(self) -> float | None:
        return _ratio(self.modal_guesser_confirmed, self.putative)

    @property
    def proportional_guesser_precision(self) -> float | None:
        return _ratio(self.proportional_guesser_expected, self.putative)

    @property
    def better_of_attack_and_guessers(self) -> float | None:
        """The precision of whoever is right most often about these matches: an outsider can always guess instead."""
        if self.precision is None:
            return None
        return max(self.precision, self.modal_guesser_precision or 0.0, self.proportional_guesser_precision or 0.0)

    @property
    def no_better_than_a_guess(self) -> bool | None:
        """Whether a guesser is right as often as the attack: what is low is then the attack, not the risk."""
        if self.precision is None:
            return None
        return self.precision <= max(self.modal_guesser_precision or 0.0, self.proportional_guesser_precision or 0.0)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {
            "putative_rate": self.putative_rate,
            "confirmed_rate": self.confirmed_rate,
            "precision": self.precision,
            "modal_guesser_precision": self.modal_guesser_precision,
            "proportional_guesser_precision": self.proportional_guesser_precision,
            "better_of_attack_and_guessers": self.better_of_attack_and_guessers,
            "no_better_than_a_guess": self.no_better_than_a_guess,
            "exact_age_putative_rate": _ratio(self.exact_age_putative, self.divided_by),
            "exact_age_confirmed_rate": _ratio(self.exact_age_confirmed, self.divided_by),
            "exact_age_precision": _ratio(self.exact_age_confirmed, self.exact_age_putative),
        }


def data_defined(people: Coded, order: Integers) -> Integers:
    """The rows with a person, a block, a sex and an age; the first in ``order`` of each person and block. They rise."""
    complete = (people.person >= 0) & (people.block >= 0) & (people.known >= 0) & (people.age >= 0)
    rows = order[complete[order]]
    by_person = rows[np.lexsort((np.arange(len(rows)), people.block[rows], people.person[rows]))]
    first = np.ones(len(by_person), dtype=bool)
    first[1:] = np.diff(people.person[by_person]).astype(bool) | np.diff(people.block[by_person]).astype(bool)
    return np.sort(by_person[first])


def same_person(people: Coded, truth: Coded, defined: Integers, blocks: int) -> Integers:
    """For each record, the data-defined row of the truth of the same person in the same block, or UNKNOWN."""
    keys = truth.person[defined] * blocks + truth.block[defined]
    order = np.argsort(keys)
    keys = keys[order]
    wanted = people.person * blocks + people.block
    if not len(keys):
        return np.full(len(people), UNKNOWN, dtype=np.int64)
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    present = (keys[place] == wanted) & (people.person >= 0) & (people.block >= 0)
    return np.where(present, defined[order][place], UNKNOWN)


def link_records(
    coding: Coding,
    attacker: Coded,
    same: Integers,
    guesses: Composition,
    reconstructed_order: Integers,
    attacker_order: Integers,
) -> Linkage:
    """The putative matches, confirmed or not, by the reconstruction and by both guessers."""
    ours, truth = coding.reconstructed, coding.truth
    matches = match(
        [
            (coding.exact_key(ours), coding.exact_key(attacker)),
            (coding.bin_key(ours), coding.bin_key(attacker)),
        ],
        reconstructed_order,
        attacker_order,
    )
    people, true = attacker.take(matches.right), same[matches.right]
    # The same year of age is the same group.
    there = (true != UNKNOWN) & (truth.known[true] == people.known) & (truth.bin[true] == people.bin)
    group = truth.group[true]
    block = truth.block[true]
    return Linkage(
        matches,
        there,
        there & (ours.group[matches.left] == group),
        there & (guesses.mode[block] == group),
        np.where(there, guesses.share(block, group), 0.0),
    )


def linkage_rates(
    links: Linkage, coding: Coding, attacker: Coded, same: Integers, traits: Traits, persons: Traits, by_persons: bool
) -> tuple[LinkageRates, ...]:
    """The numbers of every universe. ``traits`` are of the attacker's records, ``persons`` of the truth's."""
    exact = links.matches.passed == EXACT
    right = links.matches.right
    # An exact match is confirmed as such only if the truth has the same year, not just the same group.
    exact_confirmed = links.confirmed & exact & (coding.truth.age[same[right]] == attacker.age[right])
    of_persons = persons.universes()
    rates = []
    for name, mask in traits.universes().items():
        here = mask[right]
        records, defined = int(mask.sum()), int(of_persons[name].sum())
        rates.append(
            LinkageRates(
                universe=name,
                attacker_records=records,
                data_defined_persons=defined,
                putative=int(here.sum()),
                confirmed=int(links.confirmed[here].sum()),
                modal_guesser_confirmed=int(links.modal[here].sum()),
                proportional_guesser_expected=float(links.proportional[here].sum()),
                exact_age_putative=int((here & exact).sum()),
                exact_age_confirmed=int(exact_confirmed[here].sum()),
                divided_by=defined if by_persons else records,
            )
        )
    return tuple(rates)


def _ratio(part: float, total: float) -> float | None:
    return part / total if total else None


# What is known of people from the truth: how large their block is, whether they stand out in it.
#
# - *population unique*: the only record of the truth in its block with that sex and age group;
# - *modal*: of the modal group of the block (:mod:`.baselines`), *non-modal*: not so;
# - *block of solution variability 0*: one for which no other records fit the published tables.
#
# People who are unique, non-modal and in such a block are those whom no statistic protects: guessing the mode is
# wrong
# about all of them, and a reconstruction can be verified from the tables alone.


Mask: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]

SIZES = (1, 10, 50, 100, 250, 500, 1000)
"""The first population of each class of blocks."""

ALL, UNIQUE, MODAL, NONMODAL, NOT_THERE, CERTAIN = "all", "unique", "modal", "nonmodal", "not-there", "solvar0"
CROSSED = (
    (UNIQUE,),
    (MODAL,),
    (NONMODAL,),
    (UNIQUE, MODAL),
    (UNIQUE, NONMODAL),
    (NOT_THERE,),
)


def size_labels() -> tuple[str, ...]:
    """The classes of blocks in words: ``1-9`` to ``1000+``."""
    ends = [start - 1 for start in SIZES[1:]]
    return (*(f"{a}-{b}" for a, b in zip(SIZES, ends, strict=False)), f"{SIZES[-1]}+")


@dataclass(frozen=True, slots=True)
class Traits:
    """Of some records: the class of their block, and whether each is unique, modal, non-modal, in a certain block."""

    size: Integers = field(repr=False)
    """The class of the block's true population; :data:`UNKNOWN` for a block where nobody lives."""
    unique: Mask = field(repr=False)
    modal: Mask = field(repr=False)
    nonmodal: Mask = field(repr=False)
    certain: Mask | None = field(repr=False)

    def universes(self) -> dict[str, Mask]:
        """Every class of records that rates are given for, by name: ``all``, ``size:1-9``, ``unique``,
        ``unique&nonmodal&solvar0`` and so on."""
        every = np.ones(len(self.size), dtype=bool)
        parts: Mapping[str, Mask] = {
            UNIQUE: self.unique,
            MODAL: self.modal,
            NONMODAL: self.nonmodal,
            NOT_THERE: ~(self.modal | self.nonmodal),
        }
        masks = {ALL: every}
        masks |= {f"size:{label}": self.size == place for place, label in enumerate(size_labels())}
        crossed = {"&".join(names): np.logical_and.reduce([parts[name] for name in names]) for names in CROSSED}
        masks |= crossed
        stands_out = crossed[f"{UNIQUE}&{NONMODAL}"]
        masks |= {
            f"{UNIQUE}&{NONMODAL}&size:{label}": stands_out & (self.size == place)
            for place, label in enumerate(size_labels())
        }
        if self.certain is not None:
            masks[CERTAIN] = self.certain
            masks |= {f"{name}&{CERTAIN}": mask & self.certain for name, mask in crossed.items() if name != NOT_THERE}
        return masks


def population_unique(coding: Coding, people: Coded, *, with_group: bool = False) -> Mask:
    """Whether each record is the only one of its file with its block, sex and age group (race and ethnicity)."""
    keys = coding.bin_key(people, with_group=with_group)
    return np.asarray(_counts_at(keys, keys) == 1)


def traits(coding: Coding, people: Coded, same: Integers, truth: Composition) -> Traits:
    """The traits of ``people``, who may be the truth itself or someone's file about it.

    A record is placed where its own file puts it: the class of the block, and whether the truth has exactly one person
    of that sex and age group there. Modal and non-modal are of the truth's record of the same person in that block, row
    ``same`` of it; where there is none, the record is neither.
    """
    size = np.searchsorted(np.asarray(SIZES), truth.people[people.block], side="right") - 1
    unique = _counts_at(coding.bin_key(coding.truth), coding.bin_key(people)) == 1
    there = same != UNKNOWN
    modal = coding.truth.group[same] == truth.mode[people.block]
    variability = coding.solution_variability
    certain = None if variability is None else variability[people.block] == 0
    return Traits(size.astype(np.int64), unique, there & modal, there & ~modal, certain)


def _counts_at(among: Integers, keys: Integers) -> Integers:
    """How often each of ``keys`` occurs in ``among``; an unknown key never does."""
    values, counts = np.unique(among[among >= 0], return_counts=True)
    if not len(values):
        return np.zeros(len(keys), dtype=np.int64)
    place = np.minimum(np.searchsorted(values, keys), len(values) - 1)
    return np.where((values[place] == keys) & (keys >= 0), counts[place], 0).astype(np.int64)
