"""Permutation swapping: within public strata households are selected by chance, and their places permuted by chance.

1. A stratum has the households that are alike in the ``match`` variables and, with ``within``, lie in one unit of that
   level. Spec, schema and block table say what a stratum is; nothing about it is chosen by looking at the records.
2. Each household of a stratum is selected with the probability ``rate``, independently of all others. If exactly one
   is selected, the whole stratum is drawn again: one alone cannot exchange its place with anybody, and a selection
   that is thrown away as a whole changes the probabilities of all others by the same factor.
3. The places of the selected are permuted by a derangement, each being as likely: a uniform permutation, drawn again
   for as long as it leaves somebody in place.

What every household has of ``match`` stays in every block, and all that is counted of households without their place
stays in every unit of ``within``. Subject to that, an exchange of two places within a stratum is hidden with a stated ε
(:mod:`confide.privacy.conversion`). Nothing may depend on how it went: a run in which nobody moved is released like
any other, since a reader who knew that somebody did move could tell the truth from it.

Reference: the Permutation Swapping Algorithm of J. Bailie, R. Gong and X.-L. Meng, *A refreshment stirred, not shaken*,
2025 (arXiv 2501.08449, 2504.15246). Proof: ``docs/proofs/swapping.md``, section 7.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from confide.arrays import Integers
from confide.errors import CONFIDENTIAL, Finding, Place
from confide.mechanisms.swapping.people import ADULTS, SIZE, People, combined, kinds_of_households
from confide.mechanisms.swapping.settings import SwapSettings
from confide.mechanisms.swapping.swap import KeptCount, Streams, Swap, choices_at, shuffled

SELECTED = "selected"
KINDS = "households by kind"


def strata_of(people: People, settings: SwapSettings, values: Mapping[str, Integers]) -> Integers:
    """For each household the number of its stratum, from zero. ``values`` has the groups of the ``match`` variables."""
    kind = people.alike(settings.match, values)
    if settings.within is None:
        return kind
    return combined([people.unit_of(settings.within)[people.block_of], kind])


def largest_of(strata: Integers) -> int:
    """How many households the largest stratum has."""
    return int(np.bincount(strata).max(initial=0))


def strata_findings(people: People, settings: SwapSettings, values: Mapping[str, Integers]) -> list[Finding]:
    """A finding if a stratum has more households than the loss is stated for, or none has two.

    How many households a stratum has follows from what stays, so that a refusal tells nothing that a release would not.
    """
    largest = largest_of(strata_of(people, settings, values)) if people.households else 0
    if largest < 2:
        return [Finding.of("nobody-moves/same", where=Place(path="swapping.match"), found=CONFIDENTIAL)]
    if largest <= settings.largest_stratum:
        return []
    return [
        Finding.of(
            "stratum-too-large", where=Place(path="swapping.largest_stratum"), largest_stratum=settings.largest_stratum
        )
    ]


def permutation_swap(people: People, settings: SwapSettings, values: Mapping[str, Integers], streams: Streams) -> Swap:
    """The swap."""
    strata = strata_of(people, settings, values)
    taken = select(strata, settings, streams)
    partner = np.arange(people.households, dtype=np.int64)
    partner[taken] = deranged(strata, taken, streams)
    return Swap(partner, {SELECTED: len(taken)}, {}, {})


def select(strata: Integers, settings: SwapSettings, streams: Streams) -> Integers:
    """The households that are selected, ascending: in each stratum none, or two or more."""
    taken = np.zeros(len(strata), np.bool_)
    # One that is alone in its stratum could only be drawn again until it is not selected.
    waiting = np.flatnonzero(np.bincount(strata)[strata] > 1)
    attempt = 0
    while len(waiting):
        drawn = selections(streams, attempt, waiting, settings)
        taken[waiting] = drawn
        alone = np.bincount(strata[waiting][drawn], minlength=int(strata.max()) + 1) == 1
        waiting = waiting[alone[strata[waiting]]]
        attempt += 1
    return np.flatnonzero(taken)


def selections(streams: Streams, attempt: int, households: Integers, settings: SwapSettings) -> npt.NDArray[np.bool_]:
    """Whether each household is selected in an attempt: with exactly the probability ``rate``."""
    probabilities = (1 - settings.rate, settings.rate)
    return np.asarray(choices_at(streams.of("selected", f"attempt {attempt}"), households, probabilities) == 1)


def deranged(strata: Integers, taken: Integers, streams: Streams) -> Integers:
    """For each household that is taken the one whose place it gets: of its own stratum, and never itself."""
    result = taken.copy()
    waiting = np.arange(len(taken))
    attempt = 0
    while len(waiting):
        group = strata[taken[waiting]]
        base = waiting[np.argsort(group, kind="stable")]
        result[base] = taken[waiting[shuffled(streams.of("order", f"attempt {attempt}"), group, taken[waiting])]]
        stayed = np.zeros(int(strata.max()) + 1, np.bool_)
        stayed[group[result[waiting] == taken[waiting]]] = True
        waiting = waiting[stayed[group]]
        attempt += 1
    return result


def kinds_in_blocks(
    people: People, settings: SwapSettings, swap: Swap, values: Mapping[str, Integers]
) -> Iterator[KeptCount]:
    """The invariants, counted again: households of each kind, with what is carried, in every block; and nobody leaves
    the unit of ``within``."""
    kind = people.alike(settings.match, values)
    place = [people.codes[name][people.first] for name in settings.carry]
    before = [people.block_of, kind, *place]
    after = [people.block_of[swap.partner], kind, *(codes[swap.partner] for codes in place)]
    both = combined([np.concatenate(pair) for pair in zip(before, after, strict=True)])
    number, half = int(both.max(initial=-1)) + 1, people.households
    changed = np.bincount(both[:half], minlength=number) != np.bincount(both[half:], minlength=number)
    blocks = np.unique(np.concatenate([before[0], after[0]])[changed[both]])
    yield KeptCount(KINDS, people.spine.blocks.units, len(blocks))
    if settings.within is not None:
        unit = people.unit_of(settings.within)
        deserted = np.unique(people.block_of[unit[before[0]] != unit[after[0]]])
        yield KeptCount(f"households by {settings.within}", people.spine.blocks.units, len(deserted))


# The invariants of permutation swapping, counted from records as they are published: of the truth and of a release.
#
# A run counts them in the records as they were, before the swap, and the manifest has their hashes; whoever has the
# published records counts them again. There are three: households by kind and place, households with all that is
# recorded of their members by unit of ``within``, and the people outside of households. They are hashed only where the
# records are published, which has all of them in it: a hash of figures that are not published could be searched for.


BLOCK = "block"


@dataclass(frozen=True, eq=False, repr=False)
class PublishedHouseholds:
    """Records in households, household by household, and those outside of them, with codes or with their texts."""

    members: pa.Table
    household: Integers
    """For each member the number of the household, ascending from zero."""
    outside: pa.Table
    facts: Mapping[str, Any]

    @classmethod
    def of(cls, records: pa.Table, household: str, facts: Mapping[str, Any]) -> PublishedHouseholds:
        """``records`` has a column with the numbers of households, null outside of them; ``facts`` is what the plan
        says of the swap."""
        inside = pc.is_valid(records.column(household))
        members, outside = records.filter(inside), records.filter(pc.invert(inside))
        numbers = members.column(household).to_numpy().astype(np.int64)
        order = np.argsort(numbers, kind="stable")
        dense = np.unique(numbers[order], return_inverse=True)[1].astype(np.int64)
        return cls(members.take(pa.array(order)), dense, outside.drop_columns([household]), facts)

    @property
    def first(self) -> Integers:
        """The first member of each household."""
        return np.flatnonzero(np.diff(self.household, prepend=-1)).astype(np.int64)

    def kinds(self) -> Integers:
        """For each household a number for what its stratum has in common."""
        settings, strata = self.facts["settings"], self.facts["strata"]
        values = {}
        for name in settings["match"]:
            if name == ADULTS:
                place, texts = coded_text(self.members, strata["age"])
                values[name] = np.array([int(text) >= settings["adult_age"] for text in texts], np.int64)[place]
            elif name != SIZE:
                values[name] = self._groups(**strata["codes"][name])
        return kinds_of_households(self.household, settings["match"], values)

    def _groups(self, attribute: str, groups: Sequence[Sequence[int | str]]) -> Integers:
        group_of = {str(code): number for number, group in enumerate(groups) for code in group}
        place, texts = coded_text(self.members, attribute)
        return np.asarray(np.array([group_of[text] for text in texts], np.int64)[place])

    def largest_stratum(self) -> int:
        """How many households the largest stratum has."""
        if not len(self.household):
            return 0
        within = self.facts["settings"]["within"]
        units = [] if within is None else [coded_text(self.members, within)[0][self.first]]
        return int(np.bincount(combined([*units, self.kinds()])).max())

    def digests(self, attributes: Sequence[str]) -> dict[str, str]:
        """SHA-256 of each of the invariants. ``attributes`` are those of the published records."""
        settings = self.facts["settings"]
        place, held = [BLOCK, *settings["carry"]], [name for name in attributes if name not in settings["carry"]]
        within = [] if settings["within"] is None else [settings["within"]]
        first = self.members.take(pa.array(self.first))
        people = Content.of(self.members, held)
        unit = Content.of(first, within)
        return {
            "households_by_kind_and_place": Content.of(first, place).hashed(self.kinds()[:, None]),
            "households_by_unit": _households_hashed(self.household, people, unit),
            "people_outside_of_households": Content.of(self.outside, self.outside.column_names).hashed(),
        }


@dataclass(frozen=True, eq=False, repr=False)
class Content:
    """Rows of text as whole numbers, with the texts that these stand for."""

    texts: tuple[tuple[str, ...], ...]
    rows: Integers

    @classmethod
    def of(cls, table: pa.Table, names: Sequence[str]) -> Content:
        coded = [coded_text(table, name) for name in names]
        rows = np.column_stack([np.zeros(table.num_rows, np.int64), *(numbers for numbers, _ in coded)])
        return cls(tuple(texts for _, texts in coded), rows)

    def hashed(self, more: Integers | None = None) -> str:
        """SHA-256 of the rows, whatever their order, with further columns of numbers."""
        return _hash(self.texts, [self.rows if more is None else np.hstack([self.rows, more])])


def coded_text(table: pa.Table, name: str) -> tuple[Integers, tuple[str, ...]]:
    """A column as places in the sorted list of its distinct texts, and that list."""
    column = table.column(name).combine_chunks().dictionary_encode()
    distinct = [str(value) for value in column.dictionary.to_pylist()]
    texts = tuple(sorted(distinct))
    rank = {text: number for number, text in enumerate(texts)}
    return np.array([rank[text] for text in distinct], np.int64)[column.indices.to_numpy(zero_copy_only=False)], texts


def _households_hashed(household: Integers, people: Content, unit: Content) -> str:
    """SHA-256 of households as lists of their members, whatever the order of either, with the unit of each."""
    person = combined(list(people.rows.T))
    distinct = people.rows[np.unique(person, return_index=True)[1]]
    ordered = person[np.lexsort((person, household))]
    sizes = np.bincount(household)
    first = np.cumsum(sizes) - sizes
    parts = [distinct]
    for size in np.unique(sizes).tolist():
        of_size = np.flatnonzero(sizes == size)
        parts.append(np.hstack([unit.rows[of_size], ordered[first[of_size][:, None] + np.arange(size)]]))
    return _hash((*people.texts, *unit.texts), parts)


def _hash(texts: Sequence[Sequence[str]], parts: Sequence[Integers]) -> str:
    digest = hashlib.sha256(b"confide/swapping/invariants/v1")
    for column in texts:
        encoded = [text.encode() for text in column]
        digest.update(np.array([len(encoded), *map(len, encoded)], "<i8").tobytes() + b"".join(encoded))
    for rows in parts:
        ordered = rows[np.argsort(combined(list(rows.T)), kind="stable")]
        digest.update(np.array(rows.shape, "<i8").tobytes() + ordered.astype("<i8").tobytes())
    return digest.hexdigest()
