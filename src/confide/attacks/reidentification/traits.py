"""What is known of people from the truth: how large their block is, whether they stand out in it.

- *population unique*: the only record of the truth in its block with that sex and age group;
- *modal*: of the modal group of the block (:mod:`confide.attacks.reidentification.baselines`), *non-modal*: not so;
- *block of solution variability 0*: one for which no other records fit the published tables.

People who are unique, non-modal and in such a block are those whom no statistic protects: guessing the mode is wrong
about all of them, and a reconstruction can be verified from the tables alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from confide.attacks.reidentification.baselines import Composition
from confide.attacks.reidentification.coding import Coded, Coding
from confide.attacks.reidentification.columns import UNKNOWN, Integers

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
