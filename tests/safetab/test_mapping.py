"""From codes to iterations: known answers, a plain implementation with sets, and the bound on how many there can be."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations_with_replacement
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kits.safetab_codes import write_lists

from confide.errors import InputError, ParameterError
from confide.mechanisms.safetab.code_files import read_code_lists
from confide.mechanisms.safetab.codes import (
    KINDS,
    CodeLists,
    Iteration,
    iterations_of,
    published_rule,
    stability,
    worst_case,
)

COLUMNS = [*(f"QRACE{number}" for number in range(1, 9)), "QSPAN"]
Pattern = tuple[tuple[str, ...], str]
"""Race codes, and an ethnicity code."""

REGIONS = [(level, large) for level in (1, 2) for large in (True, False)]


def table_of(patterns: Sequence[Pattern]) -> pa.Table:
    rows = [[*races, *["Null"] * (8 - len(races)), span] for races, span in patterns]
    return pa.table({name: pa.array([row[at] for row in rows], pa.string()) for at, name in enumerate(COLUMNS)})


def mapped(lists: CodeLists, patterns: Sequence[Pattern], most: int = 8) -> list[set[int]]:
    result = iterations_of(lists, table_of(patterns), most)
    assert result.schema == pa.schema({"pattern": pa.int64(), "iteration": pa.int64()})
    pairs = list(zip(*(column.to_pylist() for column in result.columns), strict=True))
    assert pairs == sorted(set(pairs))
    groups: list[set[int]] = [set() for _ in patterns]
    for pattern, iteration in pairs:
        groups[pattern].add(iteration)
    return groups


def by_sets(lists: CodeLists, links: set[tuple[str, str]], pattern: Pattern, most: int, kept: set[int]) -> set[int]:
    """The definition, literally, for one level in one kind of region: the maps are restricted before anything else."""
    number = {item.code: at for at, item in enumerate(lists.iterations)}

    def of(kind: str, code: str) -> set[int]:
        return {
            number[iteration]
            for iteration, member in links
            if member == code and number[iteration] in kept and lists.iterations[number[iteration]].kind == kind
        }

    races = [code for code in pattern[0][:most] if code != "Null"]
    alone = set.intersection(*(of("race-alone", code) for code in races)) if races else set()
    return alone.union(of("ethnicity", pattern[1]), *(of("race-combination", code) for code in races))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> CodeLists:
    return read_code_lists(write_lists(tmp_path_factory.mktemp("lists")))


@pytest.mark.parametrize(
    ("races", "span", "most", "expected"),
    [
        ("1010", "9950", 8, "1001 1002 1101 1102"),
        ("1010 1011", "9950", 8, "1001 1002 1101 1102"),  # two codes of one detailed group
        ("1010 1010 1010", "9950", 8, "1001 1002 1101 1102"),  # the same code again has no effect
        ("1010 1030", "9950", 8, "1001 1002 1102 1302"),  # regionally alone, in detail not
        ("1010 2010", "9950", 8, "1002 1102 2002 2102"),  # not alone in anything
        ("1010 2010", "9950", 1, "1001 1002 1101 1102"),  # the second code is not looked at
        ("1010 1000", "9950", 8, "1001 1002 1102"),  # the box has no detailed group, so nobody is alone in one
        ("1010 3010", "9950", 8, "1002 1102"),  # a code of no group takes "alone" away
        ("3010", "9950", 8, ""),
        ("1020", "9000", 8, "1001 1002 1201 1202 1301 1302 4001 4003 4004"),  # total-only and coarse-only
        ("1020 1030", "9000", 8, "1001 1002 1202 1301 1302 4001 4003 4004"),  # alone below the states only
        ("2020", "9010", 8, "2001 2002 2202 4001 4002"),
        ("9010", "1010", 8, ""),  # an origin among races, and a race as origin, count for nothing
    ],
)
def test_known_answers(small: CodeLists, races: str, span: str, most: int, expected: str) -> None:
    (found,) = mapped(small, [(tuple(races.split()), span)], most)
    assert [small.iterations[number].code for number in sorted(found)] == expected.split()


def test_no_patterns_and_no_races(small: CodeLists) -> None:
    assert mapped(small, []) == []
    assert mapped(small, [((), "9950")]) == [set()]
    assert mapped(small, [(("Null", "1010"), "9950")]) == mapped(small, [(("1010",), "9950")])


def test_dictionary_columns(small: CodeLists) -> None:
    table = table_of([(("1010", "2010"), "9000"), (("2010",), "9950")])
    coded = pa.table({name: table[name].dictionary_encode() for name in COLUMNS})
    assert iterations_of(small, coded, 8).equals(iterations_of(small, table, 8))


def test_an_unknown_code_is_refused_and_not_shown(small: CodeLists) -> None:
    with pytest.raises(InputError) as caught:
        mapped(small, [(("1010", "7654"), "9950")])
    assert "7654" not in str(caught.value)
    assert "column 'QRACE2'" in str(caught.value)


@pytest.mark.parametrize("most", [0, 9, -1])
def test_number_of_race_codes(small: CodeLists, most: int) -> None:
    with pytest.raises(ParameterError, match="1 to 8"):
        mapped(small, [], most)
    with pytest.raises(ParameterError, match="1 to 8"):
        stability(small, 1, large=True, max_race_codes=most)


Links = set[tuple[str, str]]


@st.composite
def random_lists(draw: st.DrawFn, most_codes: int = 6) -> tuple[CodeLists, Links]:
    """Valid lists: a code has in each kind and level nothing, a common iteration, or up to two others."""
    codes = [str(1000 + number) for number in range(draw(st.integers(1, most_codes)))]
    iterations: list[Iteration] = []
    links: Links = set()
    for kind in KINDS:
        for level in (1, 2):
            flags = [(False, False)] * 3 + [(True, False)] * 2 + [(False, True)] * 2
            first = len(iterations)
            iterations += [
                Iteration(f"{first + at:04d}", f"{first + at}", level, kind, total, coarse)
                for at, (total, coarse) in enumerate(flags)
            ]
            for code in codes:
                chosen = draw(st.sampled_from([(), (0,), (1,), (2,), (3,), (5,), (3, 5), (4, 5), (4, 6)]))
                links |= {(iterations[first + at].code, code) for at in chosen}
    return CodeLists.build(dict.fromkeys(codes, ""), iterations, links), links


@settings(max_examples=150, deadline=None)
@given(random_lists(), st.data(), st.integers(1, 8))
def test_against_sets(made: tuple[CodeLists, Links], data: st.DataObject, most: int) -> None:
    """Restricting the result to an iteration level and a kind of region is the definition for these."""
    lists, links = made
    race = st.lists(st.sampled_from([*lists.codes, "Null"]), max_size=8).map(tuple)
    patterns = data.draw(st.lists(st.tuples(race, st.sampled_from(lists.codes)), min_size=1, max_size=6))
    for pattern, found in zip(patterns, mapped(lists, patterns, most), strict=True):
        for level, large in REGIONS:
            kept = set(lists.tabulated(level, large=large).tolist())
            assert found & kept == by_sets(lists, links, pattern, most, kept)
        assert found == {
            n for level, large in REGIONS for n in found & set(lists.tabulated(level, large=large).tolist())
        }


@settings(max_examples=80, deadline=None)
@given(random_lists(most_codes=5), st.integers(1, 4))
def test_no_tuple_of_codes_is_in_more_groups(made: tuple[CodeLists, Links], most: int) -> None:
    """Over all sets of codes the largest number of groups is exactly the worst case, which never exceeds s."""
    lists, _ = made
    # with replacement: all sets of one to ``most`` codes, and the ethnicity code is free
    tuples: list[Pattern] = [
        (races, span) for races in combinations_with_replacement(lists.codes, most) for span in lists.codes
    ]
    found = mapped(lists, tuples, most)
    for level, large in REGIONS:
        kept = set(lists.tabulated(level, large=large).tolist())
        largest = max(len(groups & kept) for groups in found)
        bound = worst_case(lists, level, large=large, max_race_codes=most)
        rule = published_rule(lists, level, large=large, max_race_codes=most)
        assert largest == bound <= rule + 1
        assert stability(lists, level, large=large, max_race_codes=most) == max(1, bound, rule)


def test_the_published_rule_can_fall_short() -> None:
    """Two codes in one group alone, but in two groups in combination: three race groups with two race codes."""
    alone = Iteration("0001", "", 2, "race-alone", False, False)
    others = [Iteration(f"000{at}", "", 2, "race-combination", False, False) for at in (2, 3)]
    links = [("0001", "1000"), ("0001", "1001"), ("0002", "1000"), ("0003", "1001")]
    lists = CodeLists.build({"1000": "", "1001": ""}, [alone, *others], links)
    assert mapped(lists, [(("1000", "1001"), "1000")], 2) == [{0, 1, 2}]
    bounds = [
        (rule(lists, 2, large=True, max_race_codes=most))
        for rule in (published_rule, worst_case, stability)
        for most in (1, 2, 3)
    ]
    assert bounds == [2, 2, 3, 2, 3, 3, 2, 3, 3]


def test_stability_of_small_lists(small: CodeLists) -> None:
    for level, large in REGIONS:
        bounds = [stability(small, level, large=large, max_race_codes=most) for most in range(1, 9)]
        assert bounds == [3, 3, 4, 5, 6, 7, 8, 9]


def test_stability_where_kinds_are_missing() -> None:
    def bounds(*kinds: str) -> list[int]:
        made = [Iteration(f"000{KINDS.index(k)}", "", 1, k, False, False) for k in KINDS if k in kinds]
        lists = CodeLists.build({"1000": ""}, made, [(item.code, "1000") for item in made])
        return [stability(lists, level, large=True, max_race_codes=8) for level in (1, 2)]

    assert bounds("race-alone") == [8, 1]
    assert bounds("race-combination", "ethnicity") == [9, 1]  # the first version of the rule would have said 1
    assert bounds("ethnicity") == [1, 1]
    assert bounds() == [1, 1]


def test_lists_of_files_and_links_agree(small: CodeLists, tmp_path: Path) -> None:
    files = write_lists(tmp_path)
    lines = files.code_to_iteration.read_text().split("\n")[1:-1]
    links = {(line[:4], line[5:]) for line in lines if line[:4] in {item.code for item in small.iterations}}
    patterns: list[Pattern] = [
        ((one, other), span) for one in small.codes for other in small.codes for span in small.codes
    ]
    every = set(range(len(small.iterations)))
    assert mapped(small, patterns) == [by_sets(small, links, pattern, 8, every) for pattern in patterns]
