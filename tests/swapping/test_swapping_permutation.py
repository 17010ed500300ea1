"""Permutation swapping: its loss by full enumeration, the law of what is drawn, and what stays."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations, permutations
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from scipy.stats import chi2
from tests.kits.swapping import SECRET, block_table, multiset, people_of, places, populations, town

from confide.errors import InputError, ParameterError, RunError
from confide.mechanisms.swapping import SwapSettings, core, swap_records, swap_settings
from confide.mechanisms.swapping.swap import People, Streams, Swap, shuffled
from confide.privacy.conversion import derangements, exchange_epsilon, exchange_odds

PROBABILITIES = [Fraction(text) for text in ("1/20", "1/4", "1/2", "3/4", "19/20")]
Permutation = tuple[int, ...]


def asked(**changes: Any) -> SwapSettings:
    named = {"variant": "permutation", "rate": "1/2", "match": ["size"], "within": "county", "largest_stratum": 1000}
    return swap_settings(**named | changes)


# --- the loss, by full enumeration ---------------------------------------------------------------------------------


def law(b: int, p: Fraction, *, alone: str = "drawn again") -> dict[Permutation, Fraction]:
    """The probability of every permutation of a stratum, from the words of the algorithm: every selection, every
    derangement of it. ``alone`` says what becomes of a selection of one."""
    chances: dict[Permutation, Fraction] = defaultdict(Fraction)
    for m in range(b + 1):
        for selected in combinations(range(b), m):
            chance = p**m * (1 - p) ** (b - m)
            if m == 1 and alone == "drawn again":
                continue
            without_fixed = [q for q in permutations(selected) if all(i != j for i, j in zip(q, selected, strict=True))]
            for q in without_fixed or [selected]:
                whole = list(range(b))
                for i, j in zip(selected, q, strict=True):
                    whole[i] = j
                chances[tuple(whole)] += chance / max(1, len(without_fixed))
    total = sum(chances.values())
    return {outcome: chance / total for outcome, chance in chances.items()}


def neighbours(arrangement: Permutation) -> Iterator[Permutation]:
    """The same after each exchange of two places."""
    for i, j in combinations(range(len(arrangement)), 2):
        changed = list(arrangement)
        changed[i], changed[j] = changed[j], changed[i]
        yield tuple(changed)


def released(truth: Permutation, contents: Permutation, chances: dict[Permutation, Fraction]) -> dict[Any, Fraction]:
    """The law of the swapped records, as a multiset of content and place: nobody sees who is who."""
    result: dict[Any, Fraction] = defaultdict(Fraction)
    for outcome, chance in chances.items():
        result[tuple(sorted((contents[i], truth[outcome[i]]) for i in range(len(truth))))] += chance
    return result


def worst(truth: Permutation, contents: Permutation, chances: dict[Permutation, Fraction]) -> Fraction:
    """The largest ratio of probabilities of one release, over all neighbours of a truth, in both directions."""
    mine, largest = released(truth, contents, chances), Fraction(1)
    for other in neighbours(truth):
        theirs = released(other, contents, chances)
        assert mine.keys() == theirs.keys()
        largest = max(largest, *(max(mine[seen] / theirs[seen], theirs[seen] / mine[seen]) for seen in mine))
    return largest


@pytest.mark.parametrize("b", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("p", PROBABILITIES)
def test_the_loss_is_that_of_full_enumeration(b: int, p: Fraction) -> None:
    """All truths of the invariant set are alike up to names where contents and places differ; one stands for all."""
    chances = law(b, p)
    assert sum(chances.values()) == 1
    everybody = tuple(range(b))
    assert worst(everybody, everybody, chances) == exchange_odds(b, p)


@pytest.mark.parametrize("p", PROBABILITIES)
def test_the_loss_is_that_of_full_enumeration_for_six(p: Fraction) -> None:
    """Without the sorting of the test above: each permutation against each of its products with a transposition."""
    chances, largest = law(6, p), Fraction(1)
    for outcome, chance in chances.items():
        for i, j in combinations(range(6), 2):
            exchanged = tuple({i: j, j: i}.get(place, place) for place in outcome)
            largest = max(largest, chance / chances[exchanged])
    assert largest == exchange_odds(6, p)


@pytest.mark.parametrize("p", [Fraction(1, 10), Fraction(3, 5)])
@pytest.mark.parametrize("contents", [(0, 0, 1, 2), (0, 0, 1, 1)])
def test_the_loss_bounds_every_pair_of_the_invariant_set_where_households_or_places_are_alike(
    p: Fraction, contents: Permutation
) -> None:
    """Every arrangement of every multiset of places, against every neighbour: never above the formula."""
    chances, most = law(4, p), exchange_odds(4, p)
    for kinds in ((0, 1, 2, 3), (0, 0, 1, 2), (0, 0, 1, 1), (0, 0, 0, 1)):
        for truth in set(permutations(kinds)):
            assert worst(truth, contents, chances) <= most


def test_the_closed_form_is_the_maximum_over_all_numbers_of_moved() -> None:
    """For strata of any size: up to 40 households exactly, beyond that from above and next to it."""
    for b in (*range(2, 50), 75):
        numbers = (0, *range(2, b + 1))
        ratio = {m: Fraction(1, derangements(m)) for m in numbers}
        for p in (*PROBABILITIES, Fraction(999, 1000)):
            o = p / (1 - p)
            full = max(o ** (m - k) * ratio[m] / ratio[k] for m in numbers for k in numbers if abs(m - k) <= 2)
            stated = exchange_odds(b, p)
            assert full <= stated <= full * (1 + Fraction(1, 10**40))
            assert stated == full or b > 40


def test_the_loss_rises_with_the_largest_stratum() -> None:
    for p in PROBABILITIES:
        odds = [exchange_odds(b, p) for b in range(200)]
        assert odds == sorted(odds)


def test_other_rules_cost_more_or_promise_nothing() -> None:
    """Why a lone selection is drawn again, why nobody may be refused for having stayed, and why pairs will not do."""
    p = Fraction(1, 20)
    stays = law(3, p, alone="stays")
    assert worst((0, 1, 2), (0, 1, 2), stays) > exchange_odds(3, p)
    never_nobody = {outcome: chance for outcome, chance in law(3, p).items() if outcome != (0, 1, 2)}
    with pytest.raises(AssertionError):
        worst((0, 1, 2), (0, 1, 2), never_nobody)
    pairs = {q: Fraction(1, 10) for q in permutations(range(4)) if all(q[q[i]] == i for i in range(4))}
    with pytest.raises(AssertionError):
        worst((0, 1, 2, 3), (0, 1, 2, 3), pairs)


def test_epsilon_is_rounded_up() -> None:
    assert exchange_epsilon(4, "1/2", 3) == Fraction(2198, 1000)  # ln 9 = 2.19722…
    assert exchange_epsilon(100, "1/20", 2) == Fraction(1509, 100)
    assert exchange_epsilon(1, "1/2") == 0
    assert exchange_epsilon(10**12, "1/2", 2) == Fraction(5527, 100)
    for bad in (0, 1, "3/2"):
        with pytest.raises(ParameterError):
            exchange_odds(4, bad)


# --- the law of what is drawn --------------------------------------------------------------------------------------

STREAMS = Streams(SECRET, b"people", b"question")
TRIALS = 40_000


def drawn(strata: np.ndarray, p: str) -> np.ndarray:
    """For each household the one whose place it takes, by the code that a run uses."""
    partner = np.arange(len(strata))
    taken = core.select(strata, asked(rate=p), STREAMS)
    partner[taken] = core.deranged(strata, taken, STREAMS)
    return partner


def surprise(observed: Counter[Any], expected: dict[Any, Fraction], trials: int) -> float:
    """The probability of so large a chi-square; zero for an outcome that the law does not have."""
    if not observed.keys() <= expected.keys():
        return 0.0
    statistic = sum((observed[o] - trials * float(q)) ** 2 / (trials * float(q)) for o, q in expected.items())
    return float(chi2.sf(statistic, len(expected) - 1))


@pytest.mark.statistical
@pytest.mark.parametrize(("b", "p"), [(4, "1/2"), (3, "1/10"), (2, "1/3")])
def test_permutations_have_the_law_that_the_loss_is_computed_for(b: int, p: str) -> None:
    """With a fixed key nothing is left to chance; for any other key a false alarm has the probability 1e-6. A selection
    probability 3 % off has a chi-square of some hundreds."""
    strata = np.random.default_rng(1).permutation(np.repeat(np.arange(TRIALS), b))
    partner = drawn(strata, p)
    by_stratum = np.argsort(strata, kind="stable").reshape(TRIALS, b)
    place = np.empty(len(strata), np.int64)
    place[by_stratum] = np.arange(b)
    assert (strata[partner] == strata).all()
    outcomes = Counter(map(tuple, place[partner[by_stratum]].tolist()))
    assert surprise(outcomes, law(b, Fraction(p)), TRIALS) > 1e-6


@pytest.mark.statistical
def test_strata_are_permuted_independently() -> None:
    """Pairs of strata of three: the joint law is the product. The false alarm rate is 1e-6 for another key."""
    partner = drawn(np.repeat(np.arange(TRIALS), 3), "1/2").reshape(TRIALS, 3) % 3
    pairs = Counter(map(tuple, partner.reshape(-1, 6).tolist()))
    single = law(3, Fraction(1, 2))
    both = {one + other: single[one] * single[other] for one in single for other in single}
    assert surprise(pairs, both, TRIALS // 2) > 1e-6


def test_large_strata_are_deranged_and_small_ones_left_alone() -> None:
    strata = np.concatenate([np.zeros(5000, np.int64), np.arange(1, 2000)])
    partner = drawn(strata, "3/10")
    moved = np.flatnonzero(partner != np.arange(len(strata)))
    assert (moved < 5000).all()
    assert 1300 < len(moved) < 1700
    assert sorted(partner.tolist()) == list(range(len(strata)))
    assert sorted(core.select(strata, asked(rate="3/10"), STREAMS).tolist()) == moved.tolist()


def test_orders_are_told_apart_by_as_many_bits_as_it_takes() -> None:
    """Elements whose first words are equal are ordered by their next ones, and groups are kept together."""

    class Planted:
        def extension(self, coordinates: np.ndarray, number: int) -> np.ndarray:
            return np.array([[7, 7, 7, 1], [5, 5, 4, 9], [2, 1, 3, 3]], np.uint64)[number][coordinates]

    group, coordinates = np.array([1, 1, 1, 0]), np.arange(4)
    assert shuffled(Planted(), group, coordinates).tolist() == [3, 2, 1, 0]  # type: ignore[arg-type]


def test_the_draws_of_a_key_never_change() -> None:
    """Published noise is a promise: another partner for the same key, people and settings needs a new version."""
    partner = drawn(np.arange(3000) % 37, "1/5")
    assert hashlib.sha256(partner.astype("<i8").tobytes()).hexdigest()[:16] == "957be8bc414076d8"


# --- strata, and what stays ----------------------------------------------------------------------------------------


def kinds(records: pa.Table) -> Counter[tuple[str, int, int]]:
    """Households by block, size and adults."""
    members: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in records.to_pylist():
        if row["hhgq"] == 0:
            members[row["household_id"]].append(row)
    return Counter((of[0]["geocode"], len(of), sum(row["age"] >= 18 for row in of)) for of in members.values())


@given(populations())
@settings(max_examples=25, deadline=None)
def test_kinds_stay_in_every_block_and_everybody_in_their_county(made: tuple[pa.Table, pa.Table]) -> None:
    records, blocks = made
    wanted = asked(match=["size", "adults"], rate="9/10")
    strata = Counter[tuple[str, int, int]]()
    for (block, size, adults), number in kinds(records).items():
        strata[block[:2], size, adults] += number
    if max(strata.values(), default=0) < 2:
        if strata:
            with pytest.raises(InputError, match="nobody could move"):
                swap_records(records, blocks, wanted, SECRET)
        return
    after = swap_records(records, blocks, wanted, SECRET)
    assert kinds(after) == kinds(records)
    assert {i: block[:2] for i, block in places(after).items()} == {i: b[:2] for i, b in places(records).items()}
    assert after.drop_columns(["geocode"]).equals(records.drop_columns(["geocode"]))


def test_strata_are_what_the_settings_say_and_nothing_else() -> None:
    """With a rate next to one everybody moves who can, and any place of the stratum is taken by somebody of it."""
    records = town(600)
    wanted = asked(match=["race"], within=None, rate="999/1000")
    before, after = places(records), places(swap_records(records, block_table(), wanted, SECRET))
    race = {row["household_id"]: row["race"] for row in records.to_pylist() if row["hhgq"] == 0}
    size = Counter(row["household_id"] for row in records.to_pylist() if row["hhgq"] == 0)
    for kind in set(race.values()):
        for number in set(size.values()):
            ids = [i for i in race if (race[i], size[i]) == (kind, number)]
            assert Counter(before[i] for i in ids) == Counter(after[i] for i in ids)
    frequent = [i for i in race if race[i] == "a" and size[i] == 1]
    assert {(before[i][:2], after[i][:2]) for i in frequent} == {(x, y) for x in ("00", "01") for y in ("00", "01")}


def test_strata_are_the_units_of_within_and_no_smaller_ones() -> None:
    """Households of a county get places of all its tracts, from all its tracts."""
    records = town(600)
    before, after = places(records), places(swap_records(records, block_table(), asked(), SECRET))
    moves = {(before[i][:3], after[i][:3]) for i in before}
    tracts = ["000", "001", "010", "011"]
    assert moves == {(x, y) for x in tracts for y in tracts if x[:2] == y[:2]}


def test_what_belongs_to_the_place_goes_with_it() -> None:
    records = town(600)
    after = swap_records(records, block_table(), asked(carry=["tenure"]), SECRET)
    held = [multiset(table.select(["geocode", "tenure"])) for table in (records, after)]
    assert held[0] == held[1]
    assert not after.column("tenure").equals(records.column("tenure"))


def test_draws_are_bound_to_the_people() -> None:
    """A corrected age draws everything anew: two releases with the same draws would tell who moved."""
    records = town(600)
    ages = records.column("age").to_pylist()
    corrected = records.set_column(3, "age", pa.array([ages[0] + 1, *ages[1:]]))
    one, other = (
        places(swap_records(table, block_table(), asked(match=["size", "adults"]), SECRET))
        for table in (records, corrected)
    )
    assert sum(one[i] != other[i] for i in one) > 100


@pytest.mark.parametrize("kind", ["another county", "another kind", "twice"])
def test_an_invariant_that_changed_is_not_handed_out(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run counts the invariants again, whoever drew the permutation."""

    def wrong(people: People, settings: SwapSettings, *_: object) -> Swap:
        partner = np.arange(people.households)
        county = people.unit_of("county")[people.block_of]
        alike = people.size == people.size[0]
        lone = people.codes["race"][people.first] == people.codes["race"][0]
        if kind == "another county":
            other = int(np.flatnonzero(alike & lone & (county != county[0]))[0])
        elif kind == "another kind":
            other = int(
                np.flatnonzero(alike & ~lone & (county == county[0]) & (people.block_of != people.block_of[0]))[0]
            )
        else:
            partner[1] = 0
            return Swap(partner, {}, {}, {})
        partner[[0, other]] = other, 0
        return Swap(partner, {}, {}, {})

    monkeypatch.setattr(core, "permutation_swap", wrong)
    with pytest.raises(RunError, match="a count that is declared unchanged has changed"):
        swap_records(town(600), block_table(), asked(match=["race"]), SECRET)


def test_strata_that_are_too_large_are_refused() -> None:
    records = people_of([(f"000{i % 3}", [(1, 30, "a")], "own") for i in range(12)])
    with pytest.raises(InputError) as refused:
        swap_records(records, block_table(), asked(largest_stratum=11), SECRET)
    (finding,) = refused.value.findings
    assert (finding.code, finding.found) == ("stratum-too-large", "more than 11")
    swap_records(records, block_table(), asked(largest_stratum=12), SECRET)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"rate": 0}, "swapping-rate"),
        ({"rate": 1}, "swapping-rate"),
        ({"rate": "3/2"}, "swapping-rate"),
        ({"largest_stratum": 1}, "swapping-largest_stratum"),
        ({"largest_stratum": 0}, "swapping-largest_stratum"),
        ({"match": ["race"], "carry": ["race"]}, "swapping-carry"),
    ],
)
def test_settings_that_hide_nothing_or_state_nothing_are_refused(changes: dict[str, Any], code: str) -> None:
    with pytest.raises(ParameterError) as refused:
        asked(**changes)
    assert [finding.code for finding in refused.value.findings] == [code]
