"""What is done to noisy counts once they are measured: coterminous areas, suppressions of the tabulation, margins.

Each step is compared with a plain one that goes through groups one by one.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kits.safetab import (
    KEY,
    MEMORY,
    Rows,
    budgets,
    config,
    stream_of,
    tables,
    thresholds,
    write_input,
)

from confide import api
from confide.mechanisms.safetab import problem as question
from confide.mechanisms.safetab import tallies
from confide.mechanisms.safetab.output.coded import GroupCounts
from confide.mechanisms.safetab.output.publish import suppress, unify
from confide.mechanisms.safetab.settings import CELLS_OF_LEVEL
from confide.mechanisms.safetab.tallies import margin_of_sum
from confide.noise import DiscreteGaussian, NoiseDistribution, TwoSidedGeometric, draw
from confide.official_runs import convert

REGIONS = ("STATE", "COUNTY", "TRACT", "PLACE")
ITERATIONS = 4
Plain = dict[tuple[int, int], tuple[int, tuple[int, ...]]]
"""For an area and an iteration the statistics level and the cells."""


def packed(plain: Plain) -> GroupCounts:
    keys = sorted(plain)
    return GroupCounts(
        area=np.array([area for area, _ in keys], np.int64),
        iteration=np.array([iteration for _, iteration in keys], np.int64),
        level=np.array([plain[key][0] for key in keys], np.int64),
        origin=np.zeros(len(keys), np.int64),
        values=np.array([value for key in keys for value in plain[key][1]], np.int64),
    )


def unpacked(counts: GroupCounts) -> Plain:
    plain: Plain = {}
    for place in range(len(counts)):
        start, level = counts.starts[place], int(counts.level[place])
        cells = counts.values[start : start + CELLS_OF_LEVEL[level]].tolist()
        plain[int(counts.area[place]), int(counts.iteration[place])] = (level, tuple(cells))
    return plain


groups = st.dictionaries(
    st.tuples(st.integers(0, 4), st.integers(0, ITERATIONS - 1)),
    st.integers(0, 1).flatmap(
        lambda level: st.tuples(
            st.just(level), st.lists(st.integers(-9, 99), min_size=8 if level else 1, max_size=8 if level else 1)
        ).map(lambda pair: (pair[0], tuple(pair[1])))
    ),
    max_size=15,
)


@st.composite
def sets_of_areas(draw: st.DrawFn) -> list[tuple[tuple[str, int], ...]]:
    """Disjoint sets, each with at least two areas and at most one of a type."""
    orders = {region: draw(st.permutations(range(5))) for region in REGIONS}
    found = []
    for number in range(draw(st.integers(0, 3))):
        some = draw(st.sets(st.sampled_from(REGIONS), min_size=2))
        found.append(tuple((region, orders[region][number]) for region in REGIONS if region in some))
    return found


@settings(max_examples=60, deadline=None)
@given(st.fixed_dictionaries(dict.fromkeys(REGIONS, groups)), sets_of_areas())
def test_coterminous_areas_get_the_figures_of_the_first_that_has_any(
    counts: Mapping[str, Plain], sets: list[tuple[tuple[str, int], ...]]
) -> None:
    expected = {region: dict(plain) for region, plain in counts.items()}
    for areas in sets:
        for iteration in range(ITERATIONS):
            figures = [counts[region][area, iteration] for region, area in areas if (area, iteration) in counts[region]]
            for region, area in areas:
                expected[region].pop((area, iteration), None)
                if figures:
                    expected[region][area, iteration] = figures[0]
    once = unify({region: packed(counts[region]) for region in REGIONS}, sets, ITERATIONS)
    assert {region: unpacked(each) for region, each in once.items()} == expected
    again = unify(once, sets, ITERATIONS)
    assert {region: unpacked(each) for region, each in again.items()} == expected


@settings(max_examples=60, deadline=None)
@given(groups, st.sampled_from([(-1, -1, -1, -1), (1, -1, -1, -1), (2, 3, -1, -1), (-1, 0, -1, -1)]))
def test_negative_totals_and_groups_alone_above_their_twin_are_left_out(plain: Plain, twins: tuple[int, ...]) -> None:
    total = {key: sum(cells) for key, (_, cells) in plain.items()}
    expected = {
        (area, iteration): figures
        for (area, iteration), figures in plain.items()
        if total[area, iteration] >= 0
        and not (
            twins[iteration] >= 0
            and (area, twins[iteration]) in total
            and total[area, iteration] > total[area, twins[iteration]]
        )
    }
    assert unpacked(suppress(packed(plain), np.array(twins))) == expected


class TestMargins:
    @pytest.mark.parametrize("law", [DiscreteGaussian(2), DiscreteGaussian(625), TwoSidedGeometric("1/4")])
    @pytest.mark.parametrize("cells", [1, 2, 8])
    def test_of_a_sum_by_plain_convolution(self, law: NoiseDistribution, cells: int) -> None:
        reach = law.noise_margin(1 - Fraction(1, 10**14))
        one = np.array([law.pmf(x) for x in range(-reach, reach + 1)])
        summed = one
        for _ in range(cells - 1):
            summed = np.convolve(summed, one)
        middle = cells * reach

        def within(margin: int) -> float:
            return float(summed[middle - margin : middle + margin + 1].sum())

        found = margin_of_sum(law, cells, Fraction(19, 20))
        assert within(found) >= 0.95 > within(found - 1)

    def test_without_noise(self) -> None:
        assert margin_of_sum(DiscreteGaussian(Fraction(9, 10**12)), 46, Fraction(19, 20)) == 0

    @pytest.mark.parametrize("law", [DiscreteGaussian(3_600), TwoSidedGeometric("1/90")])
    def test_of_wide_noise_is_rounded_up_a_little(
        self, law: NoiseDistribution, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        exact = [margin_of_sum(law, cells, Fraction(19, 20)) for cells in (2, 46)]
        monkeypatch.setattr(tallies, "WIDEST", law.noise_margin(1 - Fraction(1, 10**13)) // 4)
        margin_of_sum.cache_clear()
        scaled = [margin_of_sum(law, cells, Fraction(19, 20)) for cells in (2, 46)]
        margin_of_sum.cache_clear()
        assert all(one <= two <= 1.06 * one for one, two in zip(exact, scaled, strict=True))

    @pytest.mark.parametrize("law", [DiscreteGaussian(5 * 10**14), TwoSidedGeometric(Fraction(1, 10**6))])
    def test_of_very_wide_noise_holds(self, law: NoiseDistribution) -> None:
        """Of 20,000 sums of eight draws 95 per cent are within the margin; the share is off by 0.15 per cent."""
        margin = margin_of_sum(law, 8, Fraction(19, 20))
        if isinstance(law, DiscreteGaussian):
            assert margin / (8 * float(law.sigma2)) ** 0.5 == pytest.approx(1.96, rel=0.01)
            return
        narrow = TwoSidedGeometric(law.epsilon * 1_000)  # the same shape, which a table holds
        sums = draw(narrow, stream_of(1), 0, 160_000).reshape(-1, 8).sum(axis=1)
        assert np.mean(np.abs(sums) <= margin / 1_000) == pytest.approx(0.95, abs=0.008)


def noisy_release(folder: Path, option: str, **values: object) -> tuple[Rows, Rows]:
    """A release with noise under an option of ``[output]`` that the converted spec has as a comment."""
    parameters, data = write_input(folder, config(**budgets(0.3), **thresholds(2, 20, 30), **values))
    spec = convert(parameters, data, folder / "spec")
    text = spec.read_text()
    assert f"# {option}" in text
    spec.write_text(text.replace(f"# {option}", option))
    return tables(api.run(spec, processes=1, memory=MEMORY, insecure_key=KEY).release)


def test_a_release_with_coterminous_areas(tmp_path: Path) -> None:
    """State 02 is one county of one tract; in county 01003 there is one block, the only one of AIANNH area 5000."""
    first, second = noisy_release(tmp_path, 'coterminous = "derived"', zero_suppression_chance=0.9)

    def figures(rows: Rows, region: str, area: str) -> dict[str, list[tuple[str, ...]]]:
        mine = [row for row in rows if row[:2] == (area, region)]
        return {code: [row[3:] for row in some] for code, some in groupby(mine, key=lambda row: row[2])}

    for rows in (first, second):
        state = figures(rows, "STATE", "02")
        assert state
        assert figures(rows, "COUNTY", "02020") == state == figures(rows, "TRACT", "02020000101")
        county = figures(rows, "COUNTY", "01003")
        assert figures(rows, "TRACT", "01003000100") == county == figures(rows, "AIANNH", "5000")
    assert "1201" in figures(first, "TRACT", "02020000101")  # total-only: measured for the state alone
    assert figures(first, "STATE", "01") != figures(first, "STATE", "02")


def test_a_release_with_the_suppressions_of_the_tabulation_system(tmp_path: Path) -> None:
    first, second = noisy_release(tmp_path, "tabulation_suppression = true")
    assert all(int(row[-1]) >= 0 for row in (*first, *second))
    total = {row[:3]: int(row[-1]) for row in first}
    twins = {"1001": "1002", "1101": "1102", "1201": "1202", "1301": "1302", "2001": "2002", "2101": "2102"}
    pairs = [(total[group], total.get((*group[:2], twins[group[2]]))) for group in total if group[2] in twins]
    assert len([pair for pair in pairs if pair[1] is not None]) > 10
    assert all(other is None or alone <= other for alone, other in pairs)


def test_a_level_in_several_parts_is_read_back_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(question, "GROUPS_PER_PART", 20)
    parted = noisy_release(tmp_path / "parts", 'coterminous = "derived"')
    monkeypatch.undo()
    assert noisy_release(tmp_path / "whole", 'coterminous = "derived"') == parted
