"""The frame: codes nest, areas cross the spine, sizes are skewed, and nothing depends on who does the work."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from confide.lab.population import BLOCKS_SCHEMA, Population
from confide.lab.population.neighbourhoods import UNIT_TRACTS, bisect
from confide.lab.population.settings import Chances, apportion, cumulative_shares, positions


@pytest.fixture(scope="module")
def frame() -> pa.Table:
    return Population(400_000, 11).blocks()


def test_codes_are_digits_and_nest(frame: pa.Table) -> None:
    for name, width in {"geocode": 15, "state": 2, "county": 5, "tract": 11, "block_group": 12}.items():
        column = frame[name]
        assert pc.all(pc.match_substring_regex(column, f"^[0-9]{{{width}}}$")).as_py(), name
        assert column.equals(pc.utf8_slice_codeunits(frame["geocode"], 0, width)), name
    geocode = frame["geocode"].to_numpy()
    assert (geocode[1:] > geocode[:-1]).all()
    # The block group is the first digit of the block.
    assert set(pc.utf8_slice_codeunits(frame["geocode"], 11, 12).unique().to_pylist()) <= set("123456789")


def test_states_are_none_that_exist(frame: pa.Table) -> None:
    assert frame["state"].unique().to_pylist() == ["90"]
    large = Population(45_000_000, 1)
    states = {int(state) for state in large._land.state}
    assert states == {90, 91, 92, 93, 94}


def test_the_columns_of_the_frame(frame: pa.Table) -> None:
    assert frame.schema.equals(BLOCKS_SCHEMA)
    for name, width in (("place", 5), ("cousub", 5), ("aiannh", 4)):
        assert pc.all(pc.equal(pc.utf8_length(frame[name]), width)).as_py()
    assert pc.sum(pc.equal(frame["aiannh"], "9999")).as_py() < frame.num_rows
    assert "99999" in frame["place"].unique().to_pylist()
    assert "99999" not in frame["cousub"].unique().to_pylist()


def test_a_county_subdivision_is_in_one_county_and_a_place_crosses_tracts(frame: pa.Table) -> None:
    pairs = frame.group_by(["cousub"]).aggregate([("county", "count_distinct")])
    assert pc.max(pairs["county_count_distinct"]).as_py() == 1
    inside = frame.filter(pc.not_equal(frame["place"], "99999"))
    per_place = inside.group_by("place").aggregate([("tract", "count_distinct"), ("county", "count_distinct")])
    assert pc.max(per_place["county_count_distinct"]).as_py() == 1
    assert pc.max(per_place["tract_count_distinct"]).as_py() > 3
    per_group = frame.group_by("block_group").aggregate([("place", "count_distinct"), ("cousub", "count_distinct")])
    assert pc.mean(pc.greater(per_group["place_count_distinct"], 1).cast(pa.int8())).as_py() > 0.2
    assert pc.mean(pc.greater(per_group["cousub_count_distinct"], 1).cast(pa.int8())).as_py() > 0.02


def test_blocks_lie_within_the_plane_apart_from_each_other(frame: pa.Table) -> None:
    plane = np.column_stack([frame["x"].to_numpy(), frame["y"].to_numpy()])
    assert np.isfinite(plane).all()
    assert plane.min() >= 0
    assert len(np.unique(plane, axis=0)) > 0.95 * len(plane)


def test_tracts_and_block_groups_are_of_the_usual_size() -> None:
    population = Population(400_000, 11)
    people = pa.Table.from_batches(population.person_batches())
    geocode = people["geocode"].cast(pa.string())
    tracts = np.array(pc.value_counts(pc.utf8_slice_codeunits(geocode.combine_chunks(), 0, 11)).field("counts"))
    groups = np.array(pc.value_counts(pc.utf8_slice_codeunits(geocode.combine_chunks(), 0, 12)).field("counts"))
    assert 3_500 < np.median(tracts) < 4_500
    assert np.mean((tracts >= 1_200) & (tracts <= 8_000)) > 0.97
    assert 900 < np.median(groups) < 1_900


def test_the_frame_is_the_same_with_and_without_the_records() -> None:
    population = Population(60_000, 3)
    alone = list(population.block_batches())
    together = [population.unit(unit)[0] for unit in population.units]
    assert all(one.equals(other) for one, other in zip(alone, together, strict=True))


def test_units_are_the_same_in_any_order() -> None:
    population = Population(600_000, 5)
    assert len(population.units) > 5
    forward = {unit.index: population.unit(unit) for unit in population.units}
    other = Population(600_000, 5)
    for unit in reversed(other.units):
        blocks, persons = other.unit(unit)
        assert blocks.equals(forward[unit.index][0])
        assert persons.equals(forward[unit.index][1])


def test_units_cover_every_tract_once() -> None:
    population = Population(3_000_000, 5)
    tracts = [(unit.county, tract) for unit in population.units for tract in range(unit.first, unit.last)]
    assert len(set(tracts)) == len(tracts) == population._land.tracts.sum()
    assert max(unit.last - unit.first for unit in population.units) <= UNIT_TRACTS
    assert [unit.index for unit in population.units] == list(range(len(population.units)))


def test_seed_and_number_change_the_people() -> None:
    one = Population(20_000, 1).blocks()
    assert not one.equals(Population(20_000, 2).blocks())
    assert not one.equals(Population(20_001, 1).blocks())
    assert one.equals(Population(20_000, 1).blocks())


@given(
    st.lists(
        st.tuples(st.integers(0, 10**9), st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=8)), min_size=1, max_size=6
    )
)
def test_apportioned_numbers_add_up_and_follow_the_weights(groups: list[tuple[int, list[float]]]) -> None:
    totals = np.array([total for total, _ in groups])
    counts = np.array([len(weights) for _, weights in groups])
    weights = np.array([weight for _, group in groups for weight in group])
    parts = apportion(totals, weights, counts)
    assert (parts >= 0).all()
    start = 0
    for (total, group), count in zip(groups, counts, strict=True):
        mine = parts[start : start + count]
        assert mine.sum() == total
        assert np.abs(mine - total * np.array(group) / sum(group)).max() <= 1 + 1e-3 * total**0.5
        start += count


def test_cumulative_shares_end_at_one_in_every_group() -> None:
    counts = np.array([3, 1, 0, 2])
    lower, upper = cumulative_shares(np.array([1.0, 1.0, 2.0, 5.0, 3.0, 1.0]), counts)
    assert lower.tolist() == [0, 0.25, 0.5, 0, 0, 0.75]
    assert upper.tolist() == [0.25, 0.5, 1, 1, 0.75, 1]
    assert positions(counts).tolist() == [0, 1, 2, 0, 0, 1]


@pytest.mark.statistical
def test_draws_follow_the_weights_of_their_rows() -> None:
    """Five standard errors on 6 cells of a fixed stream: a false alarm of the order of 1e-6."""
    weights = np.array([[1.0, 0.0, 3.0], [0.0, 5.0, 0.0], [2.0, 2.0, 4.0]])
    rows = np.repeat([0, 1, 2], 40_000)
    drawn = Chances(weights).draw(np.random.default_rng(1), rows)
    seen = np.bincount(rows * 3 + drawn, minlength=9).reshape(3, 3) / 40_000
    expected = weights / weights.sum(axis=1, keepdims=True)
    assert not seen[weights == 0].any()
    assert np.abs(seen - expected).max() < 5 * 0.5 / 40_000**0.5


def test_bisection_tiles_the_square() -> None:
    weights = np.random.default_rng(3).random(37) + 0.1
    corner = bisect(weights)
    areas = (corner[:, 2] - corner[:, 0]) * (corner[:, 3] - corner[:, 1])
    assert np.allclose(areas, weights / weights.sum())
