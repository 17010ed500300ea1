"""The swap: what stays, who moves, with whom; on any population, and on towns made by hand."""

from __future__ import annotations

import hashlib
import tomllib
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.kits.swapping import (
    SCHEMA,
    SECRET,
    block_table,
    counts,
    multiset,
    people_of,
    places,
    plain_town,
    populations,
    settings_of,
    town,
)

from confide.documents import parse_schema
from confide.errors import ConfideError, InputError, ParameterError, RunError
from confide.mechanisms.swapping import Columns, core, load_settings, swap, swap_records, swap_settings
from confide.mechanisms.swapping.core import spine_of, swap_people
from confide.mechanisms.swapping.swap import NOBODY, Donors, People, Swap, arrange, first_level, smallest_shared
from confide.noise import ReleaseKey, derive_stream

ADULT = 18


def adults(row: dict[str, Any]) -> bool:
    return bool(row["age"] >= ADULT)


def swapped_pairs(before: pa.Table, after: pa.Table) -> Counter[tuple[str, str]]:
    """How many households went from one block to another."""
    old, new = places(before), places(after)
    assert old.keys() == new.keys()
    return Counter((old[number], new[number]) for number in old if old[number] != new[number])


VARIANTS = st.one_of(
    st.builds(
        lambda rate, k, near, profiles: settings_of(rate=rate, k_anonymity=k, near=near, profiles=profiles),
        st.sampled_from(["0.1", "1/2", 1]),
        st.sampled_from([0, 2, 3]),
        st.booleans(),
        st.sampled_from([[["size", "adults"]], [["size", "adults", "sex"], ["size", "adults"]], [["age", "adults"]]]),
    ),
    st.builds(lambda rate: settings_of(variant="enhanced", rate=rate), st.sampled_from(["0.05", "1/2", 1])),
)


@given(populations(), VARIANTS, st.integers(0, 255))
@settings(max_examples=70, deadline=None)
def test_block_populations_stay_and_nobody_moves_twice(
    people: tuple[pa.Table, pa.Table], asked: Any, byte: int
) -> None:
    records, blocks = people
    after = swap_records(records, blocks, asked, ReleaseKey.choose(f"{byte:02x}" * 32))
    assert after.drop_columns(["geocode"]).equals(records.drop_columns(["geocode"]))
    assert counts(after) == counts(records)
    if asked.variant == "targeted":
        assert counts(after, adults) == counts(records, adults)
    # Exchanges in pairs: as many came from there to here as went from here to there.
    moves = swapped_pairs(records, after)
    assert all(moves[here, there] == moves[there, here] for here, there in moves)
    assert Counter(places(after).values()) == Counter(places(records).values())
    outside = pa.compute.equal(records.column("hhgq"), 1)
    assert after.filter(outside).equals(records.filter(outside))
    asked_for = len(places(records)) * asked.rate
    if asked.k_anonymity < 2:
        assert sum(moves.values()) <= asked_for + 2


@given(populations(), st.integers(0, 255))
@settings(max_examples=35, deadline=None)
def test_with_noise_in_the_key_partners_differ_by_two_at_most(people: tuple[pa.Table, pa.Table], byte: int) -> None:
    records, blocks = people
    after = swap_records(records, blocks, load_settings("heavy"), ReleaseKey.choose(f"{byte:02x}" * 32))
    sizes = Counter(row["household_id"] for row in records.to_pylist() if row["hhgq"] == 0)
    old, new = places(records), places(after)
    came: dict[tuple[str, str], list[int]] = defaultdict(list)
    for number in old:
        if old[number] != new[number]:
            came[old[number], new[number]].append(sizes[number])
    for (here, there), found in came.items():
        assert here[0] == there[0]  # nobody leaves the state
        other = came[there, here]
        assert len(found) == len(other)
        assert all(abs(a - b) <= 2 for a, b in zip(sorted(found), sorted(other), strict=True))


@given(populations(), VARIANTS, st.randoms(use_true_random=False))
@settings(max_examples=35, deadline=None)
def test_the_order_of_rows_does_not_matter(people: tuple[pa.Table, pa.Table], asked: Any, random: Any) -> None:
    records, blocks = people
    order = list(range(records.num_rows))
    random.shuffle(order)
    shuffled = swap_records(
        records.take(pa.array(order, pa.int64())), blocks.take(list(range(blocks.num_rows))[::-1]), asked, SECRET
    )
    assert multiset(shuffled) == multiset(swap_records(records, blocks, asked, SECRET))


def test_heavy_swaps_change_block_populations_and_light_ones_do_not() -> None:
    """Otherwise nothing above would say that people move."""
    records = town()
    light, heavy = (swap_records(records, block_table(), load_settings(name), SECRET) for name in ("light", "heavy"))
    assert counts(light) == counts(records)
    assert counts(light, adults) != counts(records, adults)
    assert counts(heavy) != counts(records)
    moved = {name: sum(swapped_pairs(records, each).values()) for name, each in (("light", light), ("heavy", heavy))}
    assert 14 <= moved["light"] <= 20
    assert 180 <= moved["heavy"] <= 200


def test_the_shipped_settings_are_the_published_ones() -> None:
    light, heavy = load_settings("light").as_dict(), load_settings("heavy").as_dict()
    assert (light["rate"], light["key_noise"], light["groups"]) == ("1/20", ["0", "1", "0"], ["1", "0", "0"])
    assert heavy["rate"] == "1/2"
    assert (heavy["key_noise"], heavy["groups"]) == (["1/4", "1/2", "1/4"], ["3/10", "2/5", "3/10"])
    assert load_settings("light").kept == ("size",)
    assert load_settings("heavy").kept == ()


def test_what_stays_is_what_all_profiles_have() -> None:
    assert settings_of(profiles=[["size", "adults", "sex"], ["adults", "size"]]).kept == ("size", "adults")
    assert settings_of(profiles=[["age", "sex"], ["sex"]]).kept == ("size", "sex")
    assert settings_of(profiles=[["adults"]]).kept == ("adults",)
    assert settings_of(profiles=[["size"], ["adults"]]).kept == ()


def test_adults_alone_keep_adults_and_not_people() -> None:
    records = town()
    after = swap_records(records, block_table(), settings_of(profiles=[["adults"]], rate=1), SECRET)
    assert counts(after, adults) == counts(records, adults)
    assert counts(after) != counts(records)


def test_a_variable_in_the_profile_keeps_its_counts() -> None:
    records = town()
    after = swap_records(records, block_table(), settings_of(profiles=[["sex"]], rate=1), SECRET)
    for sex in (1, 2):
        assert counts(after, lambda row, sex=sex: row["sex"] == sex) == counts(
            records, lambda row, sex=sex: row["sex"] == sex
        )
    assert counts(after, adults) != counts(records, adults)


# --- risk and targeting --------------------------------------------------------------------------------------------


TWO_COUNTIES = people_of([("0000", [(1, 40, "a")], "own"), ("0100", [(1, 40, "a")], "own")]), block_table()


@given(populations(), VARIANTS, st.sampled_from([None, "county"]), st.integers(0, 255))
@example(TWO_COUNTIES, settings_of(), None, 0)
@example(TWO_COUNTIES, settings_of(), "county", 0)
@settings(max_examples=30, deadline=None)
def test_whether_anybody_can_move_by_brute_force(
    people: tuple[pa.Table, pa.Table], asked: Any, within: str | None, byte: int
) -> None:
    """Every pair of households is looked at; and nobody moves where nobody can."""
    (records, blocks), known = people, []
    if asked.variant == "targeted":
        asked = replace(asked, within=within)

    def told(people: People, settings: Any, values: Any, age: Any, *rest: Any) -> Swap:
        named = core.looked_at(settings, values, age)
        known.append(bool(people.households) and core.anybody_can_move(people, settings, named))
        return swap_people(people, settings, values, age, *rest)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(core, "swap_people", told)
        after = swap_records(records, blocks, asked, ReleaseKey.choose(f"{byte:02x}" * 32))
    members: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in records.to_pylist():
        if row["hhgq"] == 0:
            members[row["household_id"]].append(row)
    digits = {None: 0, "county": 2}[within] if asked.variant == "targeted" else 1
    kinds = {
        "size": len,
        "adults": lambda rows: sum(map(adults, rows)),
        "sex": lambda rows: sorted(row["sex"] for row in rows),
        "age": lambda rows: sorted(row["age"] for row in rows),
    }
    profiles = asked.profiles if asked.variant == "targeted" else [["size"]]
    possible = any(
        one[0]["geocode"] != other[0]["geocode"]
        and one[0]["geocode"][:digits] == other[0]["geocode"][:digits]
        and any(all(kinds[name](one) == kinds[name](other) for name in profile) for profile in profiles)
        for one, other in combinations(members.values(), 2)
    )
    assert known == [possible]
    assert possible or places(after) == places(records)


def test_risk_by_brute_force() -> None:
    records, blocks = town(120), block_table()
    spine = spine_of(blocks, Columns())
    race = np.array([{"a": 0, "b": 1, "c": 2}[each] for each in records.column("race").to_pylist()])
    block = np.array([list(spine.blocks.codes).index(code) for code in records.column("geocode").to_pylist()])
    people, _, ids = arrange(
        spine, records.column("household_id").cast(pa.string()).combine_chunks(), block, {"race": race}
    )
    rows = records.to_pylist()
    for level, digits in (("state", 1), ("county", 2), ("tract", 3), ("block", 4)):
        shared = Counter((row["geocode"][:digits], row["race"]) for row in rows)
        expected: dict[str, int] = {}
        for row in rows:
            if row["household_id"] is not None:
                number = str(row["household_id"])
                expected[number] = min(expected.get(number, 10**9), shared[row["geocode"][:digits], row["race"]])
        found = dict(zip(ids.to_pylist(), smallest_shared(people, people.codes["race"], level).tolist(), strict=True))
        assert found == expected


def test_the_risk_of_a_household_is_that_of_its_member_who_stands_out() -> None:
    code = block_table().column("geocode").to_pylist()[0]
    records = people_of([(code, [(1, 40, "a"), (2, 38, "c")], "own"), *[(code, [(1, 40, "a")], "own")] * 4])
    spine = spine_of(block_table(), Columns())
    race = np.array([{"a": 0, "c": 1}[each] for each in records.column("race").to_pylist()])
    block = np.zeros(len(race), np.int64)
    ids = records.column("household_id").cast(pa.string()).combine_chunks()
    people, _, _ = arrange(spine, ids, block, {"race": race})
    assert smallest_shared(people, people.codes["race"], "block").tolist() == [1, 5, 5, 5, 5]


def test_in_every_area_those_who_must_be_swapped_ask_first_and_then_the_riskiest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, original = [], swap._Swapping._asking

    def noted(swapping: Any, position: int, *, everybody: bool) -> Any:
        turns = list(original(swapping, position, everybody=everybody))
        for area in dict.fromkeys(area for area, _ in turns):
            of_area = [household for other, household in turns if other == area]
            asked.append([(swapping.must[one] != position, swapping.rank[position][one]) for one in of_area])
        return iter(turns)

    monkeypatch.setattr(swap._Swapping, "_asking", noted)
    swap_records(town(600, seed=5), block_table(), settings_of(rate="1/2", k_anonymity=3), SECRET)
    assert all(turns == sorted(turns) for turns in asked)
    assert any(len({must for must, _ in turns}) == 2 for turns in asked), "some must, and some need not"


def test_a_swap_that_changes_what_is_said_to_stay_is_not_handed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """What stays is counted again, whoever found the pairs: here two households of different size exchange places."""

    def wrong(people: People, *_: object) -> Swap:
        partner = np.arange(people.households)
        other = int(np.flatnonzero((people.size != people.size[0]) & (people.block_of != people.block_of[0]))[0])
        partner[[0, other]] = partner[[other, 0]]
        return Swap(partner, {}, {}, {})

    monkeypatch.setattr("confide.mechanisms.swapping.swap.targeted_swap", wrong)
    with pytest.raises(RunError, match="a count that is declared unchanged has changed"):
        swap_records(town(), block_table(), settings_of(), SECRET)


@pytest.mark.parametrize("variant", ["targeted", "enhanced"])
def test_draws_are_bound_to_the_people_so_that_a_correction_draws_anew(
    variant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the same draws two releases would tell who moved, and what was corrected."""
    seen: list[bytes] = []

    def noted(*arguments: Any, **named: Any) -> Any:
        seen.append(derive_stream(*arguments, **named).word_key)
        return derive_stream(*arguments, **named)

    monkeypatch.setattr("confide.mechanisms.swapping.swap.derive_stream", noted)
    records = town()
    streams = []
    for table in (records, records.slice(1)):
        seen.clear()
        swap_records(table, block_table(), settings_of(variant=variant), SECRET)
        streams.append(set(seen))
    assert streams[0]
    assert not streams[0] & streams[1]


def test_a_household_must_be_swapped_at_the_first_level_where_it_stands_out() -> None:
    coarse, fine = np.array([5, 2, 9, 1]), np.array([1, 1, 4, 1])
    assert first_level([coarse, fine], 0).tolist() == [-1] * 4
    assert first_level([coarse, fine], 1).tolist() == [-1] * 4
    assert first_level([coarse, fine], 2).tolist() == [1, 1, -1, 0]
    assert first_level([coarse, fine], 3).tolist() == [1, 0, -1, 0]


def test_the_one_who_stands_out_in_a_county_leaves_it() -> None:
    """One household of race c in county 00, twins of its size everywhere: with k = 2 it has to go to county 01."""
    households = [(code, [(1, 40, "a")], "own") for code in block_table().column("geocode").to_pylist() for _ in "xy"]
    households[0] = (households[0][0], [(1, 40, "c")], "own")
    households[20] = (households[20][0], [(1, 40, "c")], "own")
    records = people_of(households)
    assert households[20][0].startswith("01")
    asked = settings_of(rate=0, k_anonymity=2, levels=["county", "tract", "block"], profiles=[["size"]])
    for byte in range(5):
        after = swap_records(records, block_table(), asked, ReleaseKey.choose(f"{byte:02x}" * 32))
        rare = [row["geocode"][:2] for row in after.to_pylist() if row["race"] == "c"]
        assert sorted(rare) == ["00", "01"]
        first = next(row for row in after.to_pylist() if row["household_id"] == 0)
        assert first["geocode"].startswith("01")


def test_risky_households_are_taken_more_often() -> None:
    records = town(600, seed=5)
    share = {"a": 0.0, "c": 0.0}
    of_race = {row["household_id"]: row["race"] for row in records.to_pylist() if row["household_id"] is not None}
    old = places(records)
    for byte in range(12):
        new = places(
            swap_records(records, block_table(), settings_of(rate="0.1"), ReleaseKey.choose(f"{byte:02x}" * 32))
        )
        for race in share:
            members = [number for number, each in of_race.items() if each == race]
            share[race] += sum(old[number] != new[number] for number in members) / len(members) / 12
    assert share["c"] > 3 * share["a"] > 0


def test_near_partners_are_nearer_and_within_is_a_limit() -> None:
    blocks = block_table(states=2)
    records = town(800, blocks=blocks)

    def left(digits: int, **changes: Any) -> int:
        after = swap_records(records, blocks, settings_of(**{"rate": "0.3", "profiles": [["size"]]} | changes), SECRET)
        old, new = places(records), places(after)
        return sum(old[number][:digits] != new[number][:digits] for number in old)

    assert left(3) < 20 < left(3, near=False)
    assert left(1, near=False) > 20
    assert left(1, near=False, within="state") == 0
    assert left(2, near=False, within="county") == 0 < left(3, near=False, within="county")
    assert left(4, levels=["county"]) == left(2, levels=["county"]) > 0  # outside of the county, always


def test_donors_by_brute_force() -> None:
    draw = np.random.default_rng(2)
    group, area = draw.integers(0, 4, 300), draw.integers(0, 6, 300)
    rank = draw.random(300)
    used = bytearray(300)
    donors = Donors(group.astype(np.int64), area.astype(np.int64), rank, used)
    found = 0
    for household in draw.permutation(300).tolist():
        if used[household]:
            continue
        open_ = [
            each
            for each in range(300)
            if not used[each] and group[each] == group[household] and area[each] != area[household]
        ]
        expected = min(open_, key=lambda each: rank[each], default=NOBODY)
        assert donors.best(household) == expected
        if expected != NOBODY:
            found += 1
            used[household] = used[expected] = 1
    assert found > 100


def test_a_household_without_a_twin_stays() -> None:
    households = [("0000", [(1, 40, "c")] * 5, "own"), *((code, [(1, 40, "a")], "own") for code in ("0000", "0001"))]
    records = people_of(households)
    after = swap_records(records, block_table(), settings_of(rate=1), SECRET)
    assert places(after)[0] == "0000"
    assert sum(swapped_pairs(records, after).values()) == 2


def test_what_belongs_to_the_place_is_exchanged_with_it() -> None:
    records = town()
    after = swap_records(records, block_table(), settings_of(carry=["tenure"], rate="1/2"), SECRET)
    per_block = [Counter((row["geocode"], row["tenure"]) for row in each.to_pylist()) for each in (records, after)]
    assert per_block[0] == per_block[1]
    assert not records.column("tenure").equals(after.column("tenure"))
    homes = [
        Counter(
            (row["geocode"], row["tenure"]) for row in {row["household_id"]: row for row in each.to_pylist()}.values()
        )
        for each in (records, after)
    ]
    assert homes[0] == homes[1]


def test_recodes_of_a_schema() -> None:
    schema = parse_schema(tomllib.loads(SCHEMA))
    asked = settings_of(risk=["race", "age:broad"], profiles=[["age:broad"]])
    records = town()
    after = swap_records(records, block_table(), asked, SECRET, schema=schema)
    assert asked.kept == ("size", "age:broad")
    assert counts(after, adults) == counts(records, adults)
    assert not after.equals(records)
    with pytest.raises(ParameterError, match="leaves people out"):
        swap_records(records, block_table(), settings_of(risk=["age:some"]), SECRET, schema=schema)


def test_the_same_key_the_same_swap_and_another_another() -> None:
    records = town()
    first = swap_records(records, block_table(), settings_of(), SECRET)
    assert first.equals(swap_records(records, block_table(), settings_of(), SECRET))
    assert not first.equals(swap_records(records, block_table(), settings_of(), ReleaseKey.choose("5b" * 32)))


@pytest.mark.parametrize(
    ("changes", "digest"),
    [
        ({}, "06d10394bd8ff9f3"),
        ({"k_anonymity": 3, "near": False, "profiles": [["size", "sex"], ["size"]]}, "a4826113b5f58c42"),
        (
            {"variant": "enhanced", "key_noise": ["1/4", "1/2", "1/4"], "groups": ["0.3", "0.4", "0.3"]},
            "2156d31fe08ab4c6",
        ),
    ],
)
def test_a_key_gives_this_swap_on_every_machine(changes: dict[str, Any], digest: str) -> None:
    """Another result is another sampler, and wants another version of it."""
    after = swap_records(plain_town(), block_table(), settings_of(**changes), SECRET)
    assert hashlib.sha256(" ".join(after.column("geocode").to_pylist()).encode()).hexdigest()[:16] == digest


# --- what is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rate": "-0.1"}, "no share"),
        ({"rate": "1.1"}, "no share"),
        ({"rate": 0}, "nobody would be swapped"),
        ({"rate": 0.1}, "floating-point"),
        ({"variant": "other"}, "no such variant"),
        ({"profiles": []}, "a profile is empty"),
        ({"profiles": [[]]}, "a profile is empty"),
        ({"risk": []}, "no variable says who is at risk"),
        ({"k_anonymity": -1}, "negative"),
        ({"carry": ["race"]}, "belongs to the place"),
        ({"key_noise": ["1/2", "1/4", "1/2"]}, "no list of probabilities"),
        ({"key_noise": [1, -1, 1]}, "no list of probabilities"),
        ({"groups": ["1/2"]}, "no list of probabilities"),
    ],
)
def test_settings_that_cannot_be(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        swap_settings(**{"variant": "targeted", "rate": "0.1", "risk": ["race"]} | changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"levels": ["town"]}, "no level 'town'"),
        ({"levels": ["tract", "county"]}, "not in their order"),
        ({"within": "town"}, "no level 'town'"),
        ({"within": "tract", "levels": ["county"]}, "nobody can leave"),
        ({"variant": "enhanced", "groups": ["1/4", "1/4", "1/4", "1/4"]}, "need a level each"),
        ({"risk": ["creed"]}, "no column 'creed'"),
        ({"profiles": [["size", "creed"]]}, "no column 'creed'"),
    ],
)
def test_settings_that_the_data_cannot_have(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfideError, match=words):
        swap_records(town(20), block_table(), settings_of(**changes), SECRET)


def test_records_that_cannot_be_swapped() -> None:
    records = town(20)

    def broken(name: str, change: Any) -> pa.Table:
        values = records.column(name).to_pylist()
        change(values)
        return records.set_column(records.column_names.index(name), records.schema.field(name), pa.array(values))

    large = next(row for row in range(records.num_rows - 1)
                 if records["household_id"][row].as_py() == records["household_id"][row + 1].as_py())  # fmt: skip
    other = "0112" if records["geocode"][large].as_py() != "0112" else "0111"
    for table, words in (
        (broken("geocode", lambda v: v.__setitem__(large, other)), "are in different blocks"),
        (broken("household_id", lambda v: v.__setitem__(0, None)), "no household id"),
        (broken("geocode", lambda v: v.__setitem__(0, "9999")), "block table lacks"),
        (broken("race", lambda v: v.__setitem__(0, None)), "no value"),
    ):
        with pytest.raises(InputError, match=words) as caught:
            swap_records(table, block_table(), settings_of(), SECRET)
        assert "9999" not in str(caught.value)
    table = broken("tenure", lambda v: v.__setitem__(large, "rent" if v[large + 1] == "own" else "own"))
    with pytest.raises(InputError, match="differ in 'tenure'"):
        swap_records(table, block_table(), settings_of(carry=["tenure"]), SECRET)


def test_nobody_at_all() -> None:
    nobody = town(3).slice(0, 0)
    assert swap_records(nobody, block_table(), settings_of(), SECRET).num_rows == 0
