"""The swap itself, from people and settings to who exchanged places with whom: a pure function of these and a key."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from confide.arrays import Integers
from confide.documents import load_schema
from confide.errors import CONFIDENTIAL, Finding, InputError, ParameterError, Place, RunError
from confide.geography import Spine, build_spine
from confide.mechanisms.swapping import swap as swapping_swap
from confide.mechanisms.swapping.spec import ADULTS, NO_NOISE, NOISE, SIZE, SwapSettings
from confide.noise import ReleaseKey, draw_subset
from confide.releases.tabular import with_own_memory
from confide.schema import NO_GROUP, Attribute, Recode, Schema

# Permutation swapping: within public strata households are selected by chance, and their places permuted by chance.
#
# 1. A stratum has the households that are alike in the ``match`` variables and, with ``within``, lie in one unit of
#    that level. Spec, schema and block table say what a stratum is; nothing about it is chosen by looking at the
#    records.
# 2. Each household of a stratum is selected with the probability ``rate``, independently of all others. If exactly one
#    is selected, the whole stratum is drawn again: one alone cannot exchange its place with anybody, and a selection
#    that is thrown away as a whole changes the probabilities of all others by the same factor.
# 3. The places of the selected are permuted by a derangement, each being as likely: a uniform permutation, drawn again
#    for as long as it leaves somebody in place.
#
# What every household has of ``match`` stays in every block, and all that is counted of households without their place
# stays in every unit of ``within``. Subject to that, an exchange of two places within a stratum is hidden with a stated
# ε (:mod:`confide.privacy.conversion`). Nothing may depend on how it went: a run in which nobody moved is released like
# any other, since a reader who knew that somebody did move could tell the truth from it.
#
# Reference: the Permutation Swapping Algorithm of J. Bailie, R. Gong and X.-L. Meng, *A refreshment stirred, not
# shaken*, 2025 (arXiv 2501.08449, 2504.15246). Proof: ``docs/proofs/swapping.md``, section 7.


SELECTED = "selected"
KINDS = "households by kind"


def strata_of(people: swapping_swap.People, settings: SwapSettings, values: Mapping[str, Integers]) -> Integers:
    """For each household the number of its stratum, from zero. ``values`` has the groups of the ``match`` variables."""
    kind = people.alike(settings.match, values)
    if settings.within is None:
        return kind
    return swapping_swap.combined([people.unit_of(settings.within)[people.block_of], kind])


def largest_of(strata: Integers) -> int:
    """How many households the largest stratum has."""
    return int(np.bincount(strata).max(initial=0))


def strata_findings(
    people: swapping_swap.People, settings: SwapSettings, values: Mapping[str, Integers]
) -> list[Finding]:
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


def permutation_swap(
    people: swapping_swap.People, settings: SwapSettings, values: Mapping[str, Integers], streams: swapping_swap.Streams
) -> swapping_swap.Swap:
    """The swap."""
    strata = strata_of(people, settings, values)
    taken = select(strata, settings, streams)
    partner = np.arange(people.households, dtype=np.int64)
    partner[taken] = deranged(strata, taken, streams)
    return swapping_swap.Swap(partner, {SELECTED: len(taken)}, {}, {})


def select(strata: Integers, settings: SwapSettings, streams: swapping_swap.Streams) -> Integers:
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


def selections(
    streams: swapping_swap.Streams, attempt: int, households: Integers, settings: SwapSettings
) -> npt.NDArray[np.bool_]:
    """Whether each household is selected in an attempt: with exactly the probability ``rate``."""
    probabilities = (1 - settings.rate, settings.rate)
    return np.asarray(
        swapping_swap.choices_at(streams.of("selected", f"attempt {attempt}"), households, probabilities) == 1
    )


def deranged(strata: Integers, taken: Integers, streams: swapping_swap.Streams) -> Integers:
    """For each household that is taken the one whose place it gets: of its own stratum, and never itself."""
    result = taken.copy()
    waiting = np.arange(len(taken))
    attempt = 0
    while len(waiting):
        group = strata[taken[waiting]]
        base = waiting[np.argsort(group, kind="stable")]
        result[base] = taken[
            waiting[swapping_swap.shuffled(streams.of("order", f"attempt {attempt}"), group, taken[waiting])]
        ]
        stayed = np.zeros(int(strata.max()) + 1, np.bool_)
        stayed[group[result[waiting] == taken[waiting]]] = True
        waiting = waiting[stayed[group]]
        attempt += 1
    return result


def kinds_in_blocks(
    people: swapping_swap.People, settings: SwapSettings, swap: swapping_swap.Swap, values: Mapping[str, Integers]
) -> Iterator[swapping_swap.KeptCount]:
    """The invariants, counted again: households of each kind, with what is carried, in every block; and nobody leaves
    the unit of ``within``."""
    kind = people.alike(settings.match, values)
    place = [people.codes[name][people.first] for name in settings.carry]
    before = [people.block_of, kind, *place]
    after = [people.block_of[swap.partner], kind, *(codes[swap.partner] for codes in place)]
    both = swapping_swap.combined([np.concatenate(pair) for pair in zip(before, after, strict=True)])
    number, half = int(both.max(initial=-1)) + 1, people.households
    changed = np.bincount(both[:half], minlength=number) != np.bincount(both[half:], minlength=number)
    blocks = np.unique(np.concatenate([before[0], after[0]])[changed[both]])
    yield swapping_swap.KeptCount(KINDS, people.spine.blocks.units, len(blocks))
    if settings.within is not None:
        unit = people.unit_of(settings.within)
        deserted = np.unique(people.block_of[unit[before[0]] != unit[after[0]]])
        yield swapping_swap.KeptCount(f"households by {settings.within}", people.spine.blocks.units, len(deserted))


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
        return swapping_swap.kinds_of_households(self.household, settings["match"], values)

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
        return int(np.bincount(swapping_swap.combined([*units, self.kinds()])).max())

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
    person = swapping_swap.combined(list(people.rows.T))
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
        ordered = rows[np.argsort(swapping_swap.combined(list(rows.T)), kind="stable")]
        digest.update(np.array(rows.shape, "<i8").tobytes() + ordered.astype("<i8").tobytes())
    return digest.hexdigest()


# The enhanced variant: households of all kinds alike, paired by a key that may have noise.
#
# 1. Of N households N · rate, rounded at random, are taken, every set of so many being as likely.
# 2. The key of a household is its size plus −1, 0 or 1, with given probabilities.
# 3. Each household taken is in one of the groups, with given probabilities. The first keeps its unit of the finest
#    level (say, its tract). In the group after it, units are exchanged at random among those of the group within the
#    same unit one level up (county); in the next, within that two levels up (state). What comes of it is a
#    household's pseudo-unit; its pseudo-county is the county of that.
# 4. Sorted by key, pseudo-unit and a random number, neighbours are paired: first those with the same key and
#    pseudo-tract, of the rest those with the same key and pseudo-county, then those with the same key in the state.
#    Two of one block are no pair: nothing would move. They are tried once more with others of the same stage. Pairs
#    exchange their places; who is left stays.
#
# With noise in the key, partners may differ in size by up to two, and no count of a block stays as it was.
#
# Reference: the public replication code of the U.S. Census Bureau's reconstruction study, as described by Hawes and
# Rodriguez (2021). Where its description leaves a choice, it is said here what is done.


TAKEN = "taken"


def enhanced_swap(
    people: swapping_swap.People, settings: SwapSettings, streams: swapping_swap.Streams
) -> swapping_swap.Swap:
    """The swap."""
    size = swapping_swap.rounded(streams.of("total"), people.households * settings.rate)
    taken = draw_subset(people.households, size, streams.of("taken"), 0)
    noise = np.array(NOISE)[swapping_swap.choices(streams.of("key"), people.households, settings.key_noise)]
    key = (people.size + noise)[taken]
    levels = pairing_levels(people, settings)
    units = _pseudo_units(people, settings, streams, levels, taken)
    order = swapping_swap.random_order(streams.of("order"), people.households)
    turn = np.empty(people.households, np.int64)
    turn[order] = np.arange(people.households)
    partner = np.arange(people.households, dtype=np.int64)
    unpaired = np.arange(len(taken))
    by_stage: dict[str, int] = {}
    for position in reversed(range(len(levels))):
        by_stage[levels[position]] = 0
        for begin in (0, 1):
            one, other = _paired(
                swapping_swap.combined([key[unpaired], units[position][unpaired]]),
                turn[taken[unpaired]],
                people.block_of[taken[unpaired]],
                begin,
            )
            first, second = taken[unpaired[one]], taken[unpaired[other]]
            partner[first], partner[second] = second, first
            by_stage[levels[position]] += len(one)
            unpaired = np.delete(unpaired, np.concatenate([one, other]))
    return swapping_swap.Swap(partner, {TAKEN: len(taken)}, {TAKEN: len(unpaired)}, by_stage)


def pairing_levels(people: swapping_swap.People, settings: SwapSettings) -> tuple[str, ...]:
    """The levels that are paired within, coarsest first: those named, or the finest above the blocks, one for each
    group."""
    above = tuple(level.name for level in people.spine.levels[:-1])
    return settings.levels or above[-len(settings.groups) :]


def _pseudo_units(
    people: swapping_swap.People,
    settings: SwapSettings,
    streams: swapping_swap.Streams,
    levels: tuple[str, ...],
    taken: Integers,
) -> list[Integers]:
    """For each household taken its pseudo-unit on every level, coarsest first."""
    group = swapping_swap.choices(streams.of("group"), people.households, settings.groups)[taken]
    turn = np.argsort(swapping_swap.random_order(streams.of("mixing"), people.households))[taken]
    block = people.block_of[taken]
    unit = [people.unit_of(level)[block] for level in levels]
    source = np.arange(len(taken))
    for number in range(1, len(settings.groups)):
        members = np.flatnonzero(group == number)
        area = unit[len(levels) - 1 - number][members]
        # Standing in the order of the area, then shuffled within it: each gets the units of another of the same area.
        source[members[np.argsort(area, kind="stable")]] = members[np.lexsort((turn[members], area))]
    return [units[source] for units in unit]


def _paired(group: Integers, rank: Integers, block: Integers, begin: int) -> tuple[Integers, Integers]:
    """Neighbours of a group, in the order of rank, from the first or the second on: each with the next, unless both
    are of one block. Two that were no pair the first time have other neighbours the second."""
    order = np.lexsort((rank, group))
    sorted_group = group[order]
    begins = np.flatnonzero(np.diff(sorted_group, prepend=-1))
    lengths = np.diff(np.append(begins, len(order)))
    place = np.arange(len(order)) - np.repeat(begins, lengths)
    one = np.flatnonzero((place % 2 == begin) & (np.repeat(lengths, lengths) > place + 1))
    apart = block[order[one]] != block[order[one + 1]]
    return order[one[apart]], order[one[apart] + 1]


def swap_people(
    people: swapping_swap.People,
    settings: SwapSettings,
    values: Mapping[str, Integers],
    age: Integers | None,
    key: ReleaseKey,
    question: bytes,
) -> swapping_swap.Swap:
    """Who exchanges places with whom. ``values`` has the groups of every variable that the settings name, ``question``
    the hash of what the draws are bound to apart from people and settings. What is said to stay is counted again."""
    _check_carried(people, settings)
    if not people.households:
        return swapping_swap.Swap(np.empty(0, np.int64), {}, {}, {})
    named = looked_at(settings, values, age)
    streams = swapping_swap.Streams(key, people.fingerprint, settings.fingerprint + question)
    if settings.variant == "targeted":
        swap = swapping_swap.targeted_swap(people, settings, named, streams)
    elif settings.variant == "permutation":
        if findings := strata_findings(people, settings, named):
            raise InputError(findings)
        swap = permutation_swap(people, settings, named, streams)
    else:
        swap = enhanced_swap(people, settings, streams)
    back = np.argsort(swap.partner) if settings.variant == "permutation" else swap.partner
    twice = bool((swap.partner[back] != np.arange(people.households)).any())
    if twice or any(count.changed for count in counted_again(people, settings, swap, named)):
        raise RunError("swap-broken", found=CONFIDENTIAL)
    return swap


def counted_again(
    people: swapping_swap.People, settings: SwapSettings, swap: swapping_swap.Swap, values: Mapping[str, Integers]
) -> Iterator[swapping_swap.KeptCount]:
    """Everything that is said to stay, counted before and after the swap."""
    yield from swapping_swap.kept_in_blocks(people, settings, swap, values)
    if settings.variant == "permutation":
        yield from kinds_in_blocks(people, settings, swap, values)


def looked_at(settings: SwapSettings, values: Mapping[str, Integers], age: Integers | None) -> dict[str, Integers]:
    """The groups of every variable that the settings name, and ``adults`` where a profile has it."""
    groups = {name: values[name] for name in settings.variables}
    if settings.needs_age:
        assert age is not None
        groups[ADULTS] = (age >= settings.adult_age).astype(np.int64)
    return groups


def anybody_can_move(people: swapping_swap.People, settings: SwapSettings, values: Mapping[str, Integers]) -> bool:
    """Whether there are two households that could exchange their places, whatever is drawn.

    Targeted: both alike in a profile, in one unit of ``within``, in two of the finest level of the risk. Enhanced: of
    one size where the key has no noise, in one unit of the coarsest level that is paired within, in two blocks.
    """
    if settings.variant == "targeted":
        within = [] if settings.within is None else [people.unit_of(settings.within)[people.block_of]]
        groups = [swapping_swap.combined([people.alike(profile, values), *within]) for profile in settings.profiles]
        area = people.unit_of(swapping_swap.risk_levels(people, settings)[-1])[people.block_of]
    else:
        unit = people.unit_of(pairing_levels(people, settings)[0])[people.block_of]
        groups = [swapping_swap.combined([people.size, unit]) if settings.key_noise == NO_NOISE else unit]
        area = people.block_of
    return any(len(np.unique(swapping_swap.combined([group, area]))) > len(np.unique(group)) for group in groups)


def check_levels(spine: Spine, settings: SwapSettings) -> list[Finding]:
    """What the settings ask of the geography, and it has not."""
    names = [level.name for level in spine.levels]
    findings = [
        Finding.of("swapping-levels/level", where=Place(path="swapping.levels"), name=name, names=", ".join(names))
        for name in settings.levels
        if name not in names
    ]
    positions = [names.index(name) for name in settings.levels if name in names]
    if positions != sorted(set(positions)):
        listed = ", ".join(settings.levels)
        findings.append(Finding.of("swapping-levels/order", where=Place(path="swapping.levels"), found=listed))
    if settings.variant == "enhanced":
        levels = settings.levels or names[:-1][-len(settings.groups) :]
        if len(levels) != len(settings.groups) or names[-1] in levels:
            findings.append(
                Finding.of(
                    "swapping-levels/groups",
                    where=Place(path="swapping.levels"),
                    levels=len(levels),
                    groups=len(settings.groups),
                )
            )
    if settings.variant != "enhanced" and settings.within is not None:
        if settings.within not in names[:-1]:
            findings.append(
                Finding.of(
                    "swapping-within/level",
                    where=Place(path="swapping.within"),
                    within=settings.within,
                    names=", ".join(names[:-1]),
                )
            )
        elif positions and positions[0] <= names.index(settings.within):
            findings.append(
                Finding.of(
                    "swapping-within/leave",
                    where=Place(path="swapping.within"),
                    level=settings.levels[0],
                    within=settings.within,
                )
            )
    return findings


def check_settings(spine: Spine, settings: SwapSettings) -> None:
    """Raises if the geography has not what the settings ask of it."""
    findings = check_levels(spine, settings)
    if findings:
        raise ParameterError(findings)


def exact_levels(spine: Spine, settings: SwapSettings) -> tuple[str, ...]:
    """The levels whose units nobody leaves, so that whatever is counted there is as it was."""
    names = [level.name for level in spine.levels]
    if settings.variant == "enhanced":
        limit = (settings.levels or tuple(names[:-1][-len(settings.groups) :]))[0]
        return tuple(names[: names.index(limit) + 1])
    below = 0 if settings.within is None else names.index(settings.within) + 1
    return tuple(level.name for position, level in enumerate(spine.levels) if position < below or level.units == 1)


def _check_carried(people: swapping_swap.People, settings: SwapSettings) -> None:
    for name in settings.carry:
        values = people.codes[name][people.members]
        if len(values) and bool((values != values[people.first][people.household[people.members]]).any()):
            raise InputError("carried-differs/members-household-differ", found=CONFIDENTIAL, name=name)


# Swapping as one function of two tables, settings and a key: for comparisons, trials and other programs.


@dataclass(frozen=True)
class Columns:
    """What the columns of records and blocks are called; the defaults are those of made-up people."""

    household: str = "household_id"
    block: str = "geocode"
    levels: tuple[str, ...] = ("state", "county", "tract")
    """Columns of the block table, coarsest first: the levels above the blocks."""
    in_households: Mapping[str, int | str] = field(default_factory=lambda: {"hhgq": 0})
    """Records with these values live in households; others never move."""
    age: str = "age"


def swap_records(
    records: pa.Table,
    blocks: pa.Table,
    settings: SwapSettings,
    key: ReleaseKey,
    *,
    columns: Columns | None = None,
    schema: Schema | str | Path | None = None,
) -> pa.Table:
    """The records with the places of swapped households exchanged: the same rows, in the same order; of each the block
    and the columns to be carried are new.

    The result is a function of the arguments: shuffled rows give the same rows, shuffled.

    Args:
        records: One row for each person.
        blocks: One row for each block, with its unit on every level above.
        settings: Which households are swapped, how many, and with whom.
        key: The key that all draws follow from.
        columns: What the columns are called; None: as in simulated populations.
        schema: Variables of the settings are columns as they are or, with a schema, its attributes and recodes, such
            as ``age:five-year``: a schema, the name of one that is shipped, or a TOML file.

    Returns:
        The records: only blocks, and columns to be carried, differ.

    Raises:
        ParameterError: A column is missing, or the geography lacks what the settings ask for.
        InputError: A record does not fit the blocks or the schema, or a household lies in two blocks.

    >>> from confide.mechanisms.swapping import swap_settings
    >>> blocks = pa.table({"geocode": ["a1", "a2"], "county": ["a", "a"]})
    >>> records = pa.table({"household_id": ["h", "i"], "geocode": ["a1", "a2"], "sex": [1, 2], "age": [30, 40]})
    >>> settings = swap_settings(variant="targeted", rate=1, risk=["sex"])
    >>> where = Columns(levels=("county",), in_households={})
    >>> swap_records(records, blocks, settings, ReleaseKey.choose("00" * 32), columns=where)["geocode"].to_pylist()
    ['a2', 'a1']
    """
    layout, given = columns or Columns(), schema
    schema = load_schema(str(given), Path()) if isinstance(given, str | Path) else given
    _require(records, [layout.household, layout.block, *layout.in_households, *settings.carry], "records")
    _require(blocks, [layout.block, *layout.levels], "blocks")
    spine = spine_of(blocks, layout)
    check_settings(spine, settings)
    named = {name: _recode(schema, name, records) for name in settings.variables}
    used = [recode.attribute.name if recode else name for name, recode in named.items()]
    used += [*settings.carry, *([layout.age] if settings.needs_age else [])]
    _require(records, used, "records")
    attributes = {recode.attribute.name: recode.attribute for recode in named.values() if recode}
    codes = {name: coded(records.column(name), attributes.get(name)) for name in dict.fromkeys(used)}
    texts = records.column(layout.block).combine_chunks().cast(pa.string())
    block = pc.fill_null(pc.index_in(texts, pa.array(spine.blocks.codes)), -1).to_numpy(zero_copy_only=False)
    if bool((block < 0).any()):
        raise InputError("unknown-block/record", where=Place(column=layout.block), found=CONFIDENTIAL)
    people, order, _ = swapping_swap.arrange(spine, _ids(records, layout), block.astype(np.int64), codes)
    values = {
        name: people.codes[name] if recode is None else recode.assignment[people.codes[recode.attribute.name]]
        for name, recode in named.items()
    }
    if any(bool((groups == NO_GROUP).any()) for groups in values.values()):
        raise ParameterError("incomplete-recode/people", where=Place(column=None), found=CONFIDENTIAL)
    age = None
    if settings.needs_age:
        years = records.column(layout.age).combine_chunks().cast(pa.int64()).to_numpy(zero_copy_only=False)
        age = years[order].astype(np.int64)
    swap = swap_people(people, settings, values, age, key, b"records")
    back = np.argsort(order)
    new = swap.block(people)[back]
    kind = records.schema.field(layout.block).type
    result = _replaced(records, layout.block, pa.array(spine.blocks.codes).take(pa.array(new)).cast(kind))
    inside = people.members
    row = np.arange(len(order))
    row[inside] = people.first[swap.partner][people.household[inside]]
    for name in settings.carry:
        result = _replaced(result, name, records.column(name).combine_chunks().take(pa.array(order[row][back])))
    return with_own_memory(result)


def spine_of(blocks: pa.Table, layout: Columns) -> Spine:
    """The geography of a block table."""
    names = [*layout.levels, layout.block]
    codes = {name: blocks.column(name).combine_chunks().cast(pa.string()).to_pylist() for name in names}
    return build_spine({name: codes[name] for name in layout.levels} | {"block": codes[layout.block]})


def coded(column: pa.ChunkedArray, attribute: Attribute | None) -> Integers:
    """A column as whole numbers from zero: the levels of an attribute, or the distinct values in their order."""
    array = column.combine_chunks()
    if array.null_count:
        raise InputError("missing-value/record", where=Place(column=None), found=CONFIDENTIAL)
    if attribute is None:
        distinct = pc.unique(array)
        levels = distinct.take(pc.sort_indices(distinct))
    else:
        levels = pa.array([level.code for level in attribute.levels])
        array = array.cast(levels.type)
    places: Integers = pc.fill_null(pc.index_in(array, levels), -1).to_numpy(zero_copy_only=False).astype(np.int64)
    if bool((places < 0).any()):
        raise InputError(
            "bad-record/code-schema", where=Place(column=attribute.name if attribute else None), found=CONFIDENTIAL
        )
    return places


def _ids(records: pa.Table, layout: Columns) -> pa.Array:
    """The ids of the households as text, null where somebody lives in none."""
    ids = records.column(layout.household).combine_chunks().cast(pa.string())
    inside = pa.array(np.ones(records.num_rows, np.bool_))
    for name, code in layout.in_households.items():
        column = records.column(name).combine_chunks()
        inside = pc.and_(inside, pc.fill_null(pc.equal(column, pa.scalar(code).cast(column.type)), False))
    if pc.any(pc.and_(inside, pc.is_null(ids))).as_py():
        raise InputError("no-household/record-id", where=Place(column=layout.household), found=CONFIDENTIAL)
    return pc.if_else(inside, ids, pa.scalar(None, pa.string()))


def _recode(schema: Schema | None, name: str, records: pa.Table) -> Recode | None:
    if schema is None and ":" in name and name not in records.column_names:
        raise ParameterError("no-schema/recode", where=Place(column=name), name=name)
    return None if schema is None else schema.variable(name)


def _replaced(table: pa.Table, name: str, values: pa.Array) -> pa.Table:
    return table.set_column(table.column_names.index(name), table.schema.field(name), values)


def _require(table: pa.Table, names: Sequence[str], which: str) -> None:
    twice = next((name for name in table.column_names if table.column_names.count(name) > 1), None)
    if twice is not None:
        raise InputError("repeated-column/two-columns", where=Place(column=twice), which=which, twice=twice)
    missing = [name for name in dict.fromkeys(names) if name not in table.column_names]
    if missing:
        raise ParameterError(
            "missing-column/settings",
            where=Place(column=missing[0]),
            which=which,
            missing=missing[0],
            num_columns=table.num_columns,
        )
