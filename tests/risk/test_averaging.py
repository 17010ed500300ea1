"""Counting representations: the toy table, the EU programme, and the optima."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import prod
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from confide.errors import ParameterError
from confide.lab.risk.bounded_noise import (
    BreakdownRule,
    CountingScheme,
    Optimum,
    Representations,
    Single,
    StaticProgramme,
    load_programme,
    representations,
)
from confide.lab.risk.bounded_noise.averaging import parse_target, target_name, triples
from confide.lab.risk.bounded_noise.static_programme import parse_programme

TOY = """
id = "toy"
[breakdowns]
SEX = 2
AGE = 2
[tables.persons]
1 = ["SEX AGE"]
"""


@pytest.fixture(scope="module")
def europe() -> StaticProgramme:
    return load_programme("eu-2021")


def programme(tmp_path: Path, text: str) -> StaticProgramme:
    (tmp_path / "own.toml").write_text(text)
    return load_programme("own.toml", tmp_path)


def counted(
    programme: StaticProgramme, target: str, count: CountingScheme, country: str | None = None
) -> Representations:
    goal = parse_target(target)
    return representations(programme, programme.areas(country), count, goal)[goal]


@pytest.mark.parametrize("same_noise", [True, False])
def test_one_table_of_sex_and_age_with_its_margins(tmp_path: Path, same_noise: bool) -> None:
    toy = programme(tmp_path, TOY)
    found = representations(toy, {}, CountingScheme(same_noise=same_noise))
    ratios = {target_name(goal): item.mean(Optimum.ALL).exact_ratio for goal, item in found.items()}
    assert ratios == {"total": Fraction(9, 16), "SEX": Fraction(3, 4), "AGE": Fraction(3, 4), "AGE SEX": 1}
    assert found[frozenset()].costs == (1, 2, 2, 4)


PLAIN = {"total": (1244, 3432), "SEX": (615, 1692), "AGE.M": (448, 1276), "GEO.L": (480, 1344), "SEX AGE.M": (221, 630)}
INNER = {
    "total": (2775, 6378),
    "SEX": (1376, 3105),
    "AGE.M": (928, 2281),  # the paper: 926, 2281
    "GEO.L": (766, 1734),
    "SEX AGE.M": (459, 1097),  # the paper: 458, 1097
}


@pytest.mark.parametrize(("rule", "expected"), [(BreakdownRule.PLAIN, PLAIN), (BreakdownRule.INNER_LEVELS, INNER)])
def test_numbers_of_representations_in_the_european_programme(
    europe: StaticProgramme, rule: BreakdownRule, expected: dict[str, tuple[int, int]]
) -> None:
    found = {
        name: tuple(counted(europe, name, CountingScheme(rule, same_noise)).t for same_noise in (True, False))
        for name in expected
    }
    assert found == expected


@pytest.mark.parametrize(
    ("target", "country", "same_noise", "cells", "published"),
    [
        ("total", "DE", True, 7.60e7, 8.6e7),
        ("total", "MT", True, 2.028e6, 2.1e6),
        ("SEX", "DE", True, 2.484e7, 2.8e7),
        ("SEX", "MT", True, 6.701e5, 7.1e5),
        ("AGE.M", "DE", True, 2.614e6, 3.0e6),
        ("GEO.L", "DE", True, 5.066e5, 5.4e5),
        ("GEO.L", "MT", False, 6.220e5, 6.6e5),
        ("total", "DE", False, 8.528e7, 9.7e7),
        ("total", "MT", False, 2.443e6, 2.6e6),
    ],
)
def test_numbers_of_cells_come_within_an_eighth_of_the_published_ones(
    europe: StaticProgramme, target: str, country: str, same_noise: bool, cells: float, published: float
) -> None:
    found = counted(europe, target, CountingScheme(BreakdownRule.INNER_LEVELS, same_noise), country).k
    assert found == pytest.approx(cells, rel=4e-4)
    assert 0.86 * published < found < published


@pytest.mark.parametrize(
    ("target", "t", "k"),
    [("total", 385, 1715), ("GEO.L", 267, 1216), ("AGE.M", 268, 1197), ("SEX", 217, 1061), ("GEO.L AGE.M", 192, 874)],
)
def test_where_the_greedy_mean_stops_without_the_same_noise(
    europe: StaticProgramme, target: str, t: int, k: int
) -> None:
    mean = counted(europe, target, CountingScheme(BreakdownRule.INNER_LEVELS, same_noise=False)).mean()
    assert (mean.t, mean.k, mean.exact_ratio) == (t, k, Fraction(k, t * t))


def test_where_the_greedy_mean_stops_with_the_same_noise(europe: StaticProgramme) -> None:
    mean = counted(europe, "total", CountingScheme(BreakdownRule.INNER_LEVELS)).mean()
    assert (mean.t, mean.k) == (142, 2119)
    small = counted(europe, "AGE.M", CountingScheme(BreakdownRule.INNER_LEVELS), "MT").mean()
    merged = counted(europe, "AGE.M", CountingScheme(BreakdownRule.INNER_LEVELS, single=Single.MERGE), "MT").mean()
    assert (small.t, small.k, merged.t, merged.k) == (188, 1657, 95, 887)


def test_greedy_can_stop_early_and_the_best_prefix_does_not() -> None:
    item = Representations(frozenset(), (1, 1, 2, 2, 2, 2, 3, 3, 4))
    assert item.mean(Optimum.GREEDY).exact_ratio == Fraction(20, 81)  # it falls to the end
    long = Representations(frozenset(), (1, *(4,) * 40))
    assert long.mean(Optimum.GREEDY).exact_ratio == 1
    assert long.mean(Optimum.PREFIX).exact_ratio == Fraction(161, 41**2)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=12))
def test_no_mean_beats_the_weighted_one_and_no_equal_one_the_best_prefix(costs: list[int]) -> None:
    item = Representations(frozenset(), tuple(sorted(costs)))
    weighted, prefix = item.mean(Optimum.INVERSE_VARIANCE).exact_ratio, item.mean(Optimum.PREFIX).exact_ratio
    best = min(
        Fraction(sum(chosen), size * size) for size in range(1, len(costs) + 1) for chosen in combinations(costs, size)
    )
    assert prefix == best
    assert weighted <= prefix <= item.mean(Optimum.GREEDY).exact_ratio
    assert weighted == 1 / sum(Fraction(1, cost) for cost in costs)


_TABLES = st.lists(st.sets(st.sampled_from("ABCDE"), min_size=1, max_size=4), min_size=1, max_size=4)
_SIZES = {"A": 2, "B": 3, "C": 5, "D": 7, "E": 11}


@given(_TABLES, st.sets(st.sampled_from("ABCDE"), max_size=2))
def test_counting_agrees_with_subsets_written_out(tables: list[set[str]], goal: set[str]) -> None:
    lines = [" ".join(sorted(table)) for table in tables]
    parsed = parse_programme({"breakdowns": _SIZES, "tables": {"all": {"1": lines}}}, "own")
    assert list(parsed.tables["all"].values()) == [tuple(sorted(table)) for table in tables]
    made = _made(lines)
    having = [frozenset(table - goal) for table in tables if goal <= table]
    subsets = [
        frozenset(chosen) for rest in having for size in range(len(rest) + 1) for chosen in combinations(rest, size)
    ]
    for same_noise in (True, False):
        count = CountingScheme(same_noise=same_noise)
        if not having:
            with pytest.raises(ParameterError, match="no table"):
                representations(made, {}, count, goal)
            continue
        listed = set(subsets) if same_noise else subsets
        expected = sorted(prod(_SIZES[name] for name in chosen) for chosen in listed)
        assert list(representations(made, {}, count, goal)[frozenset(goal)].costs) == expected
        assert list(representations(made, {}, count)[frozenset(goal)].costs) == expected


def _made(lines: list[str]) -> StaticProgramme:
    return parse_programme({"id": "own", "breakdowns": _SIZES, "tables": {"all": {"1": lines}}}, "own.toml")


def test_triples_are_the_margins_that_a_breakdown_in_two_is_crossed_with(
    tmp_path: Path, europe: StaticProgramme
) -> None:
    toy = programme(tmp_path, TOY.replace("AGE = 2", "AGE = 3"))
    assert triples(toy, {}, CountingScheme()) == 1 + 3  # for everybody, and for each of three ages
    found = triples(europe, europe.areas("DE"), CountingScheme(BreakdownRule.INNER_LEVELS))
    assert found == pytest.approx(2.485e7, rel=1e-3)


def test_a_country_of_one_region_has_no_level_of_regions(europe: StaticProgramme) -> None:
    kept = counted(europe, "total", CountingScheme(BreakdownRule.INNER_LEVELS), "MT")
    merged = counted(europe, "total", CountingScheme(BreakdownRule.INNER_LEVELS, single=Single.MERGE), "MT")
    assert kept.costs.count(1) == 3  # the total, and the total of the one NUTS 1 and the one NUTS 2 region
    assert merged.costs.count(1) == 1
