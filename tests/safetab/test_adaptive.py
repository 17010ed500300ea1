"""Both stages of SafeTab-P, level by level: which table a group gets, and that all noise has its planned law.

Tests of laws use fixed keys, so that they give the same answer every time; each says how far from theory the figures
may be, and shows that noise with a scale wrong by a tenth would be found out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kits.safetab import counts, level_of, measured, noise_source, same_size, stream_of

from confide.mechanisms.safetab import problem as empty_groups
from confide.mechanisms.safetab import problem as question
from confide.mechanisms.safetab.measure import MeasureGroups, measure_groups, noise_at
from confide.mechanisms.safetab.problem import GroupLevel, is_sparse
from confide.mechanisms.safetab.settings import AGE_23, CELLS_OF_LEVEL, CHOICE, GRIDS, TOTAL_ONLY, TOTAL_TABLE
from confide.noise import DiscreteGaussian, NoiseDistribution, TwoSidedGeometric, draw_at
from confide.privacy import Definition

Integers = npt.NDArray[np.int64]
FAR = (10**6, 10**7, 10**8)
EXACT = "1e12"
"""A budget at which there is no noise."""


def column(table: pa.Table, name: str) -> Integers:
    values: Integers = table.column(name).to_numpy().astype(np.int64)
    return values


def levels_of(table: pa.Table) -> dict[int, int]:
    """The statistics level of each published group."""
    return dict(zip(column(table, "group").tolist(), column(table, "level").tolist(), strict=True))


@pytest.fixture
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """All groups are drawn one by one, also where the sparse method could be used."""
    monkeypatch.setattr(empty_groups, "MOST_SURVIVORS", 0)


class TestTheChoiceOfATable:
    @given(
        st.lists(st.integers(-3, 12), min_size=3, max_size=3).map(sorted),
        st.lists(st.integers(0, 12), min_size=1, max_size=8),
    )
    def test_a_group_that_equals_a_threshold_reaches_it(self, steps: list[int], sizes: list[int]) -> None:
        first, second, third = steps
        level = level_of(budget=EXACT, steps=(first, second, third), areas=len(sizes), iterations=1, suppression=None)
        truth = counts({group: {group % 46: size} for group, size in enumerate(sizes) if size})
        found = measured(level, truth)
        assert levels_of(found) == {group: sum(step <= size for step in steps) for group, size in enumerate(sizes)}
        for group, size in enumerate(sizes):
            rows = found.filter(pc.equal(found.column("group"), group))
            assert rows.num_rows == CELLS_OF_LEVEL[sum(step <= size for step in steps)]
            assert column(rows, "count").sum() == size
            assert column(rows, "cell").tolist() == list(range(rows.num_rows))

    def test_with_noise_the_first_noisy_total_decides(self) -> None:
        """The thresholds are values that the noisy total often takes, so that reaching and passing differ."""
        level = level_of(budget="2.134", steps=(0, 1, 5), suppression=None, areas=50)
        sizes = {group: {3: group % 4} for group in range(level.groups) if group % 4}
        found = levels_of(measured(level, counts(sizes), key=7))
        noise = draw_at(level.first, noise_source(7).stream("COUNTY", f"detailed: {CHOICE}"), np.arange(level.groups))
        noisy = [group % 4 + int(noise[group]) for group in range(level.groups)]
        assert found == {group: sum(step <= total for step in (0, 1, 5)) for group, total in enumerate(noisy)}
        assert {total for total in noisy if total in (0, 1, 5)} == {0, 1, 5}

    def test_every_cell_of_a_grid_is_the_sum_of_its_finest_cells(self) -> None:
        truth = {0: {cell: cell + 1 for cell in range(AGE_23.cells)}}
        for number, grid in enumerate(GRIDS, start=1):
            steps = tuple(0 if place < number else 10**6 for place in range(3))
            level = level_of(budget=EXACT, steps=(steps[0], steps[1], steps[2]), areas=1, iterations=1)
            expected = [0] * grid.cells
            for sex in range(2):
                for age, (low, _) in enumerate(AGE_23.bounds):
                    group = sum(low >= cut for cut in grid.cuts)
                    expected[sex * grid.ages + group] += truth[0][sex * AGE_23.ages + age]
            assert column(measured(level, counts(truth)), "count").tolist() == expected

    def test_total_only_groups_are_never_chosen_for(self) -> None:
        level = level_of(region="STATE", total_only=(1, 4), budget=EXACT, steps=(0, 1, 2), areas=3, suppression=None)
        found = levels_of(measured(level, same_size(range(30), 9)))
        assert {group % 10 for group, number in found.items() if number == 0} == {1, 4}
        assert set(found) == set(range(30))


def spread(noise: Integers, law: NoiseDistribution) -> float:
    """How many standard errors the variance of noise is off. The fourth moment is that of the law, or nearly."""
    kurtosis = 3.0 if isinstance(law, DiscreteGaussian) else 6.0
    expected = law.variance()
    return float((np.mean(noise.astype(float) ** 2) / expected - 1) / np.sqrt((kurtosis - 1) / len(noise)))


def chi_square(noise: Integers, law: NoiseDistribution, cuts: list[int]) -> float:
    """The statistic of how noise falls between cuts, about a normal deviate: (X - df) / sqrt(2 df)."""
    cdf = [0.0, *(law.cdf(cut) for cut in cuts), 1.0]
    expected = np.array([high - low for low, high in pairwise(cdf)]) * len(noise)
    found = np.bincount(np.searchsorted(np.array(cuts), noise), minlength=len(cuts) + 1)
    freedom = len(cuts)
    return float((((found - expected) ** 2 / expected).sum() - freedom) / np.sqrt(2 * freedom))


def wrong(law: NoiseDistribution, factor: Fraction) -> NoiseDistribution:
    """The same kind of law with another scale."""
    if isinstance(law, DiscreteGaussian):
        return DiscreteGaussian(law.sigma2 * factor**2)
    assert isinstance(law, TwoSidedGeometric)
    return TwoSidedGeometric(law.epsilon / factor)


TENTH = (Fraction(9, 10), Fraction(11, 10))
LAWS = [("0.159", Definition.ZCDP), ("2.134", Definition.ZCDP), ("2.43", Definition.PURE)]


def published_noise(level: GroupLevel, size: int, key: int) -> Integers:
    """The noise of the published counts, every group having ``size`` persons in the cell 7 of sex by 23 ages."""
    found = measured(level, same_size(range(level.groups), size), key)
    number, cell, noisy = (column(found, name) for name in ("level", "cell", "count"))
    home = np.array([0, *(int(grid.of_finest[7]) for grid in GRIDS)])
    return noisy - np.where(cell == home[number], size, 0)


@pytest.mark.statistical
class TestNoise:
    """20,000 draws or more: a variance is off by one per cent, so a scale wrong by a tenth is twenty errors away."""

    def assert_law(self, noise: Integers, law: NoiseDistribution) -> None:
        assert len(noise) >= 20_000
        reach = law.noise_margin("0.9")
        cuts = sorted({-reach, -reach // 2, 0, reach // 2, reach})
        assert abs(spread(noise, law)) < 5
        assert chi_square(noise, law, cuts) < 6
        for factor in TENTH:
            assert abs(spread(noise, wrong(law, factor))) > 7
            assert chi_square(noise, wrong(law, factor), cuts) > 12

    @pytest.mark.parametrize(("budget", "definition"), LAWS)
    def test_of_totals(self, budget: str, definition: Definition) -> None:
        level = level_of(budget=budget, definition=definition, steps=FAR, areas=3_000, suppression=None)
        self.assert_law(published_noise(level, 5, key=1), level.second)

    @pytest.mark.parametrize(("budget", "definition"), LAWS)
    def test_of_total_only_groups(self, budget: str, definition: Definition) -> None:
        level = level_of(
            region="STATE", budget=budget, definition=definition, areas=3_000, total_only=range(10), suppression=None
        )
        self.assert_law(published_noise(level, 5, key=2), level.total)

    @pytest.mark.parametrize("number", [1, 2, 3])
    def test_of_cells(self, number: int) -> None:
        steps = [-(10**6)] * number + [10**6] * (3 - number)
        level = level_of(steps=(steps[0], steps[1], steps[2]), areas=400, suppression=None)
        noise = published_noise(level, 5, key=3)
        assert len(noise) == level.groups * CELLS_OF_LEVEL[number]
        self.assert_law(noise, level.second)

    @pytest.mark.parametrize(("budget", "definition"), LAWS)
    def test_of_the_choice(self, budget: str, definition: Definition) -> None:
        """It is never published; how often thresholds are reached gives its law away all the same."""
        level = level_of(budget=budget, definition=definition, areas=3_000, suppression=None)
        reach = level.first.noise_margin("0.7")
        steps = (20 - reach, 20, 20 + reach)
        level = replace(level, settings=replace(level.settings, thresholds=steps))
        chosen = levels_of(measured(level, same_size(range(level.groups), 20), key=4))
        between = np.array([steps[number - 1] - 20 if number else -(10**6) for number in chosen.values()])
        cuts = [step - 21 for step in steps]
        assert chi_square(between, level.first, cuts) < 6
        for factor in TENTH:
            assert chi_square(between, wrong(level.first, factor), cuts) > 12

    def test_both_stages_are_independent(self) -> None:
        level = level_of(steps=(5, 10**6, 10**7), areas=6_000, suppression=None)
        source = noise_source(5)

        def second_given_first(measure: MeasureGroups) -> tuple[float, float]:
            """How far the mean noise of totals is off, and that of tables, in standard errors."""
            found = measure(0, same_size(range(level.groups), 5))
            number, noisy = column(found, "level"), column(found, "count")
            totals, cells = noisy[number == 0] - 5, noisy[number == 1].reshape(-1, 8).sum(axis=1) - 5
            scale = level.second.variance() ** 0.5
            return (
                float(totals.mean() / scale * len(totals) ** 0.5),
                float(cells.mean() / scale * (len(cells) / 8) ** 0.5),
            )

        measure = measure_groups(level, source)
        assert all(abs(off) < 5 for off in second_given_first(measure))
        shared = replace(measure, streams=dict(measure.streams) | {TOTAL_TABLE: measure.streams[CHOICE]})
        assert abs(second_given_first(shared)[0]) > 50

    def test_no_two_measurements_share_a_stream(self) -> None:
        level = level_of(areas=5_000, iterations=2_000)
        measure = measure_groups(level, noise_source())
        assert len(level.parts) > 1
        assert set(measure.empty) == set(level.parts)
        keys = [(each.word_key, each.extension_key) for each in (*measure.streams.values(), *measure.empty.values())]
        assert len(set(keys)) == len(keys) == 6 + len(level.parts)


OCCUPIED = {group: {group % 46: 1 + group % 60, 5: 3} for group in range(0, 20_000, 23)}
RARE = level_of(areas=2_000, steps=(45, 50, 60), suppression=Fraction("0.98"))
"""A level with 20,000 groups; an empty one is published in about one case of forty, now and then with a table."""


class TestSparseAndDense:
    def test_which_way_is_taken_follows_from_public_settings(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert is_sparse(RARE)
        assert not is_sparse(replace(RARE, suppressed_up_to=None))
        assert not is_sparse(level_of(suppression=Fraction("0.9")))
        assert not is_sparse(level_of(steps=(0, 1, 2)))
        assert not is_sparse(level_of(total_only=(3,)))
        assert not is_sparse(level_of(budget="1e-9"))  # too wide for a table: see confide.noise.sparse
        monkeypatch.setattr(empty_groups, "MOST_SURVIVORS", 0)
        assert not is_sparse(RARE)

    def test_groups_with_anybody_are_the_same(self, monkeypatch: pytest.MonkeyPatch) -> None:
        occupied = pa.array(sorted(OCCUPIED))

        def of_occupied() -> pa.Table:
            found = measured(RARE, counts(OCCUPIED), key=11)
            return found.filter(pc.is_in(found.column("group"), occupied)), found

        sparse, all_sparse = of_occupied()
        monkeypatch.setattr(empty_groups, "MOST_SURVIVORS", 0)
        dense, all_dense = of_occupied()
        assert sparse.equals(dense)
        assert set(levels_of(sparse).values()) == {0, 1, 2, 3}
        assert all_sparse.num_rows > sparse.num_rows
        assert not all_sparse.equals(all_dense)  # of empty groups, others are published, by the same law

    @pytest.mark.parametrize("way", ["sparse", "dense"])
    @pytest.mark.statistical
    def test_empty_groups_follow_the_same_law(self, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """About 190,000 empty groups, by either way against theory: within 4.5 standard errors (one alarm in 10**5)."""
        if way == "dense":
            monkeypatch.setattr(empty_groups, "MOST_SURVIVORS", 0)
        assert is_sparse(RARE) == (way == "sparse")
        levels, values, places = [], [], []
        for key in range(10):
            found = measured(RARE, counts(OCCUPIED), key=100 + key)
            empty = found.filter(pc.invert(pc.is_in(found.column("group"), pa.array(sorted(OCCUPIED)))))
            first = empty.filter(pc.equal(empty.column("cell"), 0))
            levels += column(first, "level").tolist()
            places += column(first, "group").tolist()
            values += column(first.filter(pc.equal(first.column("level"), 0)), "count").tolist()
        number = 10 * (RARE.groups - len(OCCUPIED))
        reached = [RARE.first.tail(step - 1) for step in (*RARE.settings.thresholds, 10**6)]
        above = RARE.suppressed_up_to
        assert above is not None
        chances = [(1 - reached[0]) * RARE.second.tail(above)]
        chances += [high - low for high, low in pairwise(reached)]
        for level, chance in enumerate(chances):
            off = (levels.count(level) - number * chance) / (number * chance * (1 - chance)) ** 0.5
            assert abs(off) < 4.5, level
        totals = np.array(values)
        assert totals.min() == above + 1
        chance = RARE.second.tail(above + 2) / RARE.second.tail(above)
        off = (np.count_nonzero(totals > above + 2) - len(totals) * chance) / (
            len(totals) * chance * (1 - chance)
        ) ** 0.5
        assert abs(off) < 4.5
        halves = np.count_nonzero(np.array(places) < RARE.groups // 2)
        assert abs(halves - len(places) / 2) < 4.5 * (len(places) / 4) ** 0.5

    @pytest.mark.parametrize("occupied", [0, 1, 9, 10])
    def test_hardly_any_or_nearly_all_groups_empty(self, occupied: int) -> None:
        level = replace(RARE, areas=1)
        assert is_sparse(level)
        truth = counts({group: {0: 500} for group in range(10) if group < occupied})
        for key in range(40):
            found = measured(level, truth, key)
            groups = column(found, "group").tolist()
            assert groups == sorted(groups)
            assert set(range(occupied)) <= set(groups) <= set(range(10))

    @pytest.mark.usefixtures("one_by_one")
    def test_parts_do_not_matter_to_dense_groups(self, monkeypatch: pytest.MonkeyPatch) -> None:
        level = replace(RARE, areas=100)
        truth = counts({group: cells for group, cells in OCCUPIED.items() if group < level.groups})
        whole = measured(level, truth, key=3)
        monkeypatch.setattr(question, "GROUPS_PER_PART", 70)
        assert in_parts(level, truth, 3).equals(whole)

    def test_parts_do_not_matter_to_groups_with_anybody(self, monkeypatch: pytest.MonkeyPatch) -> None:
        level = replace(RARE, areas=100)
        truth = counts({group: cells for group, cells in OCCUPIED.items() if group < level.groups})
        occupied: Callable[[pa.Table], pa.Table] = lambda table: table.filter(  # noqa: E731
            pc.is_in(table.column("group"), truth.column("group"))
        )
        whole = occupied(measured(level, truth, key=3))
        monkeypatch.setattr(question, "GROUPS_PER_PART", 70)
        assert occupied(in_parts(level, truth, 3)).equals(whole)


def in_parts(level: GroupLevel, truth: pa.Table, key: int) -> pa.Table:
    """What is measured part by part."""
    assert len(level.parts) > 10
    measure = measure_groups(level, noise_source(key))
    area = column(truth, "group") // len(level.iterations)
    pieces = []
    for part in level.parts:
        mine = (area >= part) & (area < part + level.areas_per_part)
        pieces.append(measure(part, truth.filter(pa.array(mine))))
    return pa.concat_tables(pieces).combine_chunks()


@settings(deadline=None)
@given(st.sets(st.integers(0, 300), max_size=40), st.integers(0, 2**40), st.sampled_from(["0.159", "1e-9"]))
def test_noise_is_the_same_wherever_its_coordinates_lie(places: set[int], first: int, budget: str) -> None:
    """Drawn as a span or one by one, next to each other or far apart, from a table or not."""
    law, stream = level_of(budget=budget).second, stream_of(3)
    coordinates = first + np.array(sorted(places), np.int64)
    one_by_one = [int(draw_at(law, stream, coordinates[at : at + 1])[0]) for at in range(len(coordinates))]
    assert noise_at(law, stream, coordinates).tolist() == one_by_one


def test_the_streams_are_named_after_their_measurements() -> None:
    """The names are part of what makes a release reproducible."""
    measure, source = measure_groups(level_of(), noise_source(9)), noise_source(9)
    assert measure.streams[CHOICE] == source.stream("COUNTY", "detailed: choice of table")
    assert measure.streams[TOTAL_ONLY] == source.stream("COUNTY", "detailed: total-only groups")
    for name in (TOTAL_TABLE, *(grid.table for grid in GRIDS)):
        assert measure.streams[name] == source.stream("COUNTY", f"detailed: table {name}")
    assert measure.empty[0] == source.stream("COUNTY", "detailed: table, empty groups from area 0")
