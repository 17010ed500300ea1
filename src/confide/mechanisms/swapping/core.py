"""The swap itself, from people and settings to who exchanged places with whom: a pure function of these and a key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from confide.arrays import Integers
from confide.documents import load_schema
from confide.errors import CONFIDENTIAL, Finding, InputError, ParameterError, Place, RunError
from confide.geography import Spine, build_spine
from confide.mechanisms.swapping.people import ADULTS, People, arrange, combined
from confide.mechanisms.swapping.permutation import kinds_in_blocks, permutation_swap, strata_findings
from confide.mechanisms.swapping.settings import NO_NOISE, NOISE, SwapSettings
from confide.mechanisms.swapping.swap import (
    KeptCount,
    Streams,
    Swap,
    choices,
    kept_in_blocks,
    random_order,
    risk_levels,
    rounded,
    targeted_swap,
)
from confide.noise import ReleaseKey, draw_subset
from confide.releases.tabular import with_own_memory
from confide.schema import NO_GROUP, Attribute, Recode, Schema

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


def enhanced_swap(people: People, settings: SwapSettings, streams: Streams) -> Swap:
    """The swap."""
    size = rounded(streams.of("total"), people.households * settings.rate)
    taken = draw_subset(people.households, size, streams.of("taken"), 0)
    noise = np.array(NOISE)[choices(streams.of("key"), people.households, settings.key_noise)]
    key = (people.size + noise)[taken]
    levels = pairing_levels(people, settings)
    units = _pseudo_units(people, settings, streams, levels, taken)
    order = random_order(streams.of("order"), people.households)
    turn = np.empty(people.households, np.int64)
    turn[order] = np.arange(people.households)
    partner = np.arange(people.households, dtype=np.int64)
    unpaired = np.arange(len(taken))
    by_stage: dict[str, int] = {}
    for position in reversed(range(len(levels))):
        by_stage[levels[position]] = 0
        for begin in (0, 1):
            one, other = _paired(
                combined([key[unpaired], units[position][unpaired]]),
                turn[taken[unpaired]],
                people.block_of[taken[unpaired]],
                begin,
            )
            first, second = taken[unpaired[one]], taken[unpaired[other]]
            partner[first], partner[second] = second, first
            by_stage[levels[position]] += len(one)
            unpaired = np.delete(unpaired, np.concatenate([one, other]))
    return Swap(partner, {TAKEN: len(taken)}, {TAKEN: len(unpaired)}, by_stage)


def pairing_levels(people: People, settings: SwapSettings) -> tuple[str, ...]:
    """The levels that are paired within, coarsest first: those named, or the finest above the blocks, one for each
    group."""
    above = tuple(level.name for level in people.spine.levels[:-1])
    return settings.levels or above[-len(settings.groups) :]


def _pseudo_units(
    people: People, settings: SwapSettings, streams: Streams, levels: tuple[str, ...], taken: Integers
) -> list[Integers]:
    """For each household taken its pseudo-unit on every level, coarsest first."""
    group = choices(streams.of("group"), people.households, settings.groups)[taken]
    turn = np.argsort(random_order(streams.of("mixing"), people.households))[taken]
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
    people: People,
    settings: SwapSettings,
    values: Mapping[str, Integers],
    age: Integers | None,
    key: ReleaseKey,
    question: bytes,
) -> Swap:
    """Who exchanges places with whom. ``values`` has the groups of every variable that the settings name, ``question``
    the hash of what the draws are bound to besides people and settings. What is said to stay is counted again."""
    _check_carried(people, settings)
    if not people.households:
        return Swap(np.empty(0, np.int64), {}, {}, {})
    named = looked_at(settings, values, age)
    streams = Streams(key, people.fingerprint, settings.fingerprint + question)
    if settings.variant == "targeted":
        swap = targeted_swap(people, settings, named, streams)
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
    people: People, settings: SwapSettings, swap: Swap, values: Mapping[str, Integers]
) -> Iterator[KeptCount]:
    """Everything that is said to stay, counted before and after the swap."""
    yield from kept_in_blocks(people, settings, swap, values)
    if settings.variant == "permutation":
        yield from kinds_in_blocks(people, settings, swap, values)


def looked_at(settings: SwapSettings, values: Mapping[str, Integers], age: Integers | None) -> dict[str, Integers]:
    """The groups of every variable that the settings name, and ``adults`` where a profile has it."""
    groups = {name: values[name] for name in settings.variables}
    if settings.needs_age:
        assert age is not None
        groups[ADULTS] = (age >= settings.adult_age).astype(np.int64)
    return groups


def anybody_can_move(people: People, settings: SwapSettings, values: Mapping[str, Integers]) -> bool:
    """Whether there are two households that could exchange their places, whatever is drawn.

    Targeted: both alike in a profile, in one unit of ``within``, in two of the finest level of the risk. Enhanced: of
    one size where the key has no noise, in one unit of the coarsest level that is paired within, in two blocks.
    """
    if settings.variant == "targeted":
        within = [] if settings.within is None else [people.unit_of(settings.within)[people.block_of]]
        groups = [combined([people.alike(profile, values), *within]) for profile in settings.profiles]
        area = people.unit_of(risk_levels(people, settings)[-1])[people.block_of]
    else:
        unit = people.unit_of(pairing_levels(people, settings)[0])[people.block_of]
        groups = [combined([people.size, unit]) if settings.key_noise == NO_NOISE else unit]
        area = people.block_of
    return any(len(np.unique(combined([group, area]))) > len(np.unique(group)) for group in groups)


def check_levels(spine: Spine, settings: SwapSettings) -> list[Finding]:
    """What the settings ask of the geography, and it has not."""
    names = [level.name for level in spine.levels]
    findings = [
        Finding.of(
            "swapping-levels/level", where=Place(path="swapping.levels"), found=name, name=name, names=", ".join(names)
        )
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
                    found=settings.within,
                    within=settings.within,
                    names=", ".join(names[:-1]),
                )
            )
        elif positions and positions[0] <= names.index(settings.within):
            findings.append(
                Finding.of(
                    "swapping-within/leave",
                    where=Place(path="swapping.within"),
                    found=settings.within,
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


def _check_carried(people: People, settings: SwapSettings) -> None:
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
    """The records with the places of swapped households exchanged: the same rows, in the same order, of which the block
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
    people, order, _ = arrange(spine, _ids(records, layout), block.astype(np.int64), codes)
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
