"""Errors, published cells and sums, on figures whose answers are worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from tests.kits.comparison import areas, truth

from confide.lab.comparison.common_tables import common_tables
from confide.lab.comparison.figures import AreaFigures, cells_published, characteristics, errors, sums_agree


def changed(key: tuple[str, str], unit: int, cell: int, by: int) -> AreaFigures:
    counts = {name: matrix.copy() for name, matrix in truth().counts.items()}
    counts[key][unit, cell] += by
    return AreaFigures(counts)


def test_characteristics_are_the_population_the_ages_the_races_and_hispanic() -> None:
    found = [item.id for item in characteristics(common_tables().tables)]
    assert found[:4] == ["population", "age: 0-17", "age: 18-64", "age: 65+"]
    assert len(found) == 1 + 3 + 7 + 1
    assert found[-1] == "origin: Hispanic"


def test_the_error_is_the_mean_over_the_areas_of_a_level() -> None:
    """Three blocks; the children of the second are off by 6, so by 2 in the mean. True children: 1, 0, 1."""
    found = errors(changed(("block", "age"), 1, 0, -6), truth(), common_tables())
    assert found["block"]["age: 0-17"] == {
        "mean_absolute_error": 2.0,
        "mean_true": 2 / 3,
        "units": 3,
        "published": 1.0,
    }
    assert found["block"]["age: 18-64"]["mean_absolute_error"] == 0
    assert found["tract"]["age: 0-17"]["mean_absolute_error"] == 0


def test_what_is_not_published_has_no_error() -> None:
    """Of two blocks that were protected, one has no population: the other's error is 0, and half is published."""
    true = truth()
    there = np.array([[True], [False], [False]])
    counts = dict(true.counts) | {("block", "population"): np.array([[3], [0], [0]])}
    figures = AreaFigures(counts, {("block", "population"): there}, covered={"block": np.array([0, 1])})
    item = errors(figures, true, common_tables())["block"]["population"]
    assert (item["mean_absolute_error"], item["published"], item["units"]) == (0.0, 0.5, 2)
    nothing = AreaFigures(counts, {("block", "population"): np.zeros((3, 1), np.bool_)})
    assert errors(nothing, true, common_tables())["block"]["population"]["mean_absolute_error"] is None


def test_published_cells_are_counted_among_those_with_somebody() -> None:
    true, made = truth(), common_tables()
    assert cells_published(true, true, made) == {"all": 1.0, "county": 1.0, "tract": 1.0, "block": 1.0}
    hidden = {("block", table.name): true.counts["block", table.name] != 1 for table in made.tables}
    ones = sum(int((true.counts["block", table.name] == 1).sum()) for table in made.tables)
    above = sum(int((true.counts["block", table.name] > 0).sum()) for table in made.tables)
    assert cells_published(AreaFigures(true.counts, hidden), true, made)["block"] == (above - ones) / above


def test_true_tables_add_up_and_each_break_is_counted() -> None:
    """One cell of a county's race table: the sum of its blocks is no more, nor is the county's population."""
    made = common_tables()
    whole = sums_agree(truth(), areas(), made)
    assert whole["all"]
    assert whole["share"] == 1
    # For each table and cell a county and two tracts; for seven tables each of 1 + 2 + 3 areas.
    assert whole["checked"] == 629 * 3 + 7 * 6
    broken = sums_agree(changed(("county", "race"), 0, 2, 1), areas(), made)
    assert not broken["all"]
    assert round((1 - broken["share"]) * broken["checked"]) == 2


def test_sums_over_hidden_cells_are_not_checked() -> None:
    true, made = truth(), common_tables()
    there = np.ones(true.counts["block", "race"].shape, np.bool_)
    there[0, 0] = False
    counts = dict(true.counts) | {("block", "race"): np.where(there, true.counts["block", "race"], 0)}
    found = sums_agree(AreaFigures(counts, {("block", "race"): there}), areas(), made)
    assert found["all"]
    assert found["checked"] == 629 * 3 + 7 * 6 - 2 - 1


def test_a_sample_of_blocks_stands_for_all_of_them() -> None:
    """One block of three is protected, and hidden whole: then no block figure is published, and the share of everything
    is that of counties and tracts among all occupied cells, however few blocks were looked at."""
    true, made = truth(), common_tables()
    hidden = {
        ("block", table.name): np.zeros(true.counts["block", table.name].shape, np.bool_) for table in made.tables
    }
    found = cells_published(AreaFigures(true.counts, hidden, covered={"block": np.array([0])}), true, made)
    above = {
        level: sum(int((true.counts[level, t.name] > 0).sum()) for t in made.tables) for level in common_tables().levels
    }
    assert found["block"] == 0
    assert found["all"] == pytest.approx((above["county"] + above["tract"]) / sum(above.values()))
