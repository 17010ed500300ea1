"""What the dossier of suppressed cells shows: losses by hand and by brute force, intervals, and the pictures."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kits.suppression import is_safe, two_way

from confide import api
from confide.mechanisms.suppression import evaluate as suppression_figures
from confide.mechanisms.suppression.attacker import Intervals
from confide.mechanisms.suppression.evaluate import (
    Bar,
    Losses,
    drawn,
    interval_statistics,
    intervals_chart,
    lost_share,
    shares_chart,
)
from confide.mechanisms.suppression.heuristic import heuristic
from confide.mechanisms.suppression.problem import threshold
from confide.mechanisms.suppression.programme import described
from confide.mechanisms.suppression.suppress import add_up, joined, pose
from confide.releases.tabular import TOTAL_CODE
from confide.report import charts

needs_plots = pytest.mark.skipif(not charts.available(), reason="the extra plots is not installed")

AREA = {
    "codes": ["_T", "county X", "county Y", "tract 1", "tract 2"],
    "parent": [-1, 0, 0, 1, 1],
    "areas": True,
    # The only tract of county Y is county Y.
    "groupings": {
        "state": {"labels": ["S"], "codes": [0]},
        "county": {"labels": ["X", "Y"], "codes": [1, 2]},
        "tract": {"labels": ["1", "2", "3"], "codes": [3, 4, 2]},
    },
}
SEX = {
    "codes": ["_T", "f", "m"],
    "parent": [-1, 0, 0],
    "areas": False,
    "groupings": {"sex": {"labels": ["f", "m"], "codes": [1, 2]}},
}
AGE = {
    "codes": ["_T", "young", "old"],
    "parent": [-1, 0, 0],
    "areas": False,
    "groupings": {"age": {"labels": ["young", "old"], "codes": [1, 2]}},
}


def posed(levels=("state", "county", "tract")):
    """Sex in areas, and sex by age without areas. Women: 2 in tract 1, 5 in tract 2, 6 in county Y; men: 7, 0 and 9."""
    groupings = {name: AREA["groupings"][name] for name in levels}
    tables = [
        {"name": "places", "title": "Places", "variables": {"area": list(levels), "sex": ["sex"]}},
        {"name": "ages", "title": "Ages", "variables": {"sex": ["sex"], "age": ["age"]}},
    ]
    variables = {"area": AREA | {"groupings": groupings}, "sex": SEX, "age": AGE}
    programme = described({"variables": variables, "tables": tables, "area_names": None})
    places, ages = np.zeros((5, 3), np.int64), np.zeros((3, 3), np.int64)
    places[2:, 1], places[2:, 2] = [6, 2, 5], [9, 7, 0]
    ages[1, 1:], ages[2, 1:] = [10, 3], [8, 8]
    counts = [add_up(t.layout.dimensions, x) for t, x in zip(programme.tables, (places, ages), strict=True)]
    value = joined(programme.linked, counts)
    problem = pose(
        programme.linked,
        value,
        threshold(value, 3),
        zeros="secondary",
        weight="constant",
        single=np.zeros(len(value), np.bool_),
    )
    return programme, problem


def number(programme, table, *codes):
    """The number of a cell by its codes."""
    at = [
        variable.tree.codes.index(code) for variable, code in zip(programme.tables[table].variables, codes, strict=True)
    ]
    return int(programme.linked.numbers[table][np.ravel_multi_index(at, programme.tables[table].layout.shape)])


def pattern(programme, problem):
    """The square of both tracts, and the square of sex and age: not said to be safe."""
    hidden = np.zeros(len(problem.value), np.bool_)
    for area in ("tract 1", "tract 2"):
        hidden[[number(programme, 0, area, "f"), number(programme, 0, area, "m")]] = True
    for sex in ("f", "m"):
        hidden[[number(programme, 1, sex, "young"), number(programme, 1, sex, "old")]] = True
    return hidden


def by_hand(cells, empty, primary, complementary, hidden_value, value):
    """What a row must say, in the order in which one counts."""
    return {
        "cells": cells,
        "empty": empty,
        "hidden": primary + complementary,
        "primary": primary,
        "complementary": complementary,
        "hidden_value": hidden_value,
        "value": value,
    }


def told(rows, key):
    """Rows by what they are about, with what can be counted by hand."""
    names = by_hand(0, 0, 0, 0, 0, 0)
    return {row[key]: {name: row[name] for name in names} for row in rows}


def test_losses_of_tables_levels_and_crossings_counted_by_hand() -> None:
    programme, problem = posed()
    losses = Losses(programme, problem, pattern(programme, problem))
    assert told(losses.by_table(), "name") == {
        # Primary is the 2 alone; the zero of tract 2 is hidden too. All 29 by county, and the 14 of county X by tract.
        "places": by_hand(15, 1, 1, 3, 14, 2 * (29 + 29 + 14)),
        "ages": by_hand(9, 0, 1, 3, 29, 4 * 29),
    }
    assert told(losses.by_level(), "level") == {
        # The table without areas speaks of the state. County Y is a tract as well, and is counted on both levels.
        "state": by_hand(9, 0, 1, 3, 29, 4 * 29),
        "county": by_hand(6, 0, 0, 0, 0, 2 * 29),
        "tract": by_hand(9, 1, 1, 3, 14, 2 * 29),
    }
    assert told(losses.by_crossing(), "crossed") == {
        0: by_hand(1, 0, 0, 0, 0, 29),
        1: by_hand(2 + 2 + 4, 0, 0, 0, 0, 29 + 29 + 29 + 14),
        2: by_hand(8 + 4, 1, 2, 6, 14 + 29, 29 + 14 + 29),
    }
    whole = losses.of_programme()
    assert (whole["cells"], whole["hidden"], whole["complementary_empty"], whole["primary_empty"]) == (21, 8, 1, 0)
    assert whole["hidden_share"] == 8 / 21
    assert whole["primary_value_share"] == (2 + 3) / whole["value"]
    assert whole["complementary_value_share"] == (12 + 26) / whole["value"]
    assert lost_share(whole) == 7 / 20
    assert whole["cost"] == 6


def test_groups_that_lose_most_come_first_and_hidden_totals_are_not_told() -> None:
    programme, problem = posed()
    hidden = pattern(programme, problem)
    rows = list(Losses(programme, problem, hidden).by_group())
    found = [(row["variable"], row["group"], row["size"], row["groups"]) for row in rows]
    # Tract 2 loses one of its two figures that are not zero, tract 1 two of three. County Y loses nothing.
    assert found[:2] == [("area", "tract 1", 9, 4), ("area", "tract 2", 5, 4)]
    assert [lost_share(row) for row in rows[:2]] == [2 / 3, 1 / 2]
    # Both ages lose both of their crossings with sex, and the older are fewer.
    assert [row["group"] for row in rows if row["variable"] == "age"] == ["young", "old"]
    women = next(row for row in rows if row["group"] == "f")
    # Women: one total, four areas of which two are hidden, two ages; 2 in tract 1 and 3 older ones are primary.
    assert (women["cells"], women["hidden"], women["primary"]) == (7, 4, 2)
    hidden[number(programme, 0, "tract 2", "_T")] = True
    rows = list(Losses(programme, problem, hidden).by_group())
    assert next(row for row in rows if row["group"] == "tract 2")["size"] is None
    assert len(list(Losses(programme, problem, hidden).by_group(1))) == 3
    assert not list(Losses(programme, problem, np.zeros_like(hidden)).by_group())


def test_totals_of_all_areas_are_a_line_of_their_own_where_no_level_has_them() -> None:
    programme, problem = posed(("county", "tract"))
    rows = told(Losses(programme, problem, pattern(programme, problem)).by_level(), "level")
    assert list(rows) == [TOTAL_CODE, "county", "tract"]
    assert rows[TOTAL_CODE] == by_hand(9, 0, 1, 3, 29, 4 * 29)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.booleans(), min_size=21, max_size=21), st.sampled_from([0, 1]))
def test_losses_agree_with_the_lines_of_the_tables(flags: list[bool], which: int) -> None:
    """Any pattern, counted over the lines as they are published: level, labels, and what is there."""
    programme, problem = posed((("state", "county", "tract"), ("county", "tract"))[which])
    hidden = np.array(flags)
    losses = Losses(programme, problem, hidden)
    levels: dict[str, set[int]] = {}
    groups: dict[tuple[str, str], set[int]] = {}
    top = "state" if which == 0 else TOTAL_CODE
    same = {"X": "county X", "Y": "county Y", "1": "tract 1", "2": "tract 2", "3": "county Y"}
    for table, numbers in zip(programme.tables, programme.linked.numbers, strict=True):
        for labels, at in zip(*table.lines, strict=True):
            line = dict(zip(table.columns, labels, strict=True))
            level, cell = line.pop("level", top), int(numbers[at])
            area = line.pop("area", "S")
            levels.setdefault(level, set()).add(cell)
            for name, label in line.items():
                if label != TOTAL_CODE:
                    groups.setdefault((name, label), set()).add(cell)
            if level not in ("state", TOTAL_CODE):
                groups.setdefault(("area", same[area]), set()).add(cell)
    found = {row["level"]: (row["cells"], row["hidden"]) for row in losses.by_level()}
    assert found == {name: (len(cells), int(hidden[list(cells)].sum())) for name, cells in levels.items()}
    rows = {(row["variable"], row["group"]): row for row in losses.by_group()}
    assert set(rows) == {name for name, cells in groups.items() if hidden[list(cells)].any()}
    for name, row in rows.items():
        cells = np.array(sorted(groups[name]))
        gone = cells[hidden[cells] & (problem.value[cells] > 0)]
        assert (row["cells"], row["hidden"]) == (len(cells), int(hidden[cells].sum()))
        assert lost_share(row) == len(gone) / (problem.value[cells] > 0).sum()
        assert row["hidden_value"] == problem.value[gone].sum()


def test_widths_are_held_against_what_was_asked_for() -> None:
    """2 beside 9, 8 beside 7, all four hidden: the 2 may be 0 to 10. Asked: up to 4, and 3 wide."""
    linked, problem = two_way([[2, 9], [8, 7]])
    hidden = heuristic(problem).suppressed
    found = problem.attacker(hidden).intervals()
    row = interval_statistics(problem, found, hidden & problem.levels.primary)
    assert (row["cells"], row["protected"], row["known_exactly"]) == (1, 1, 0)
    assert row["width"]["0.5"] == pytest.approx(10)
    assert row["width_by_figure"]["0.5"] == pytest.approx(5)
    assert row["width_by_asked"]["0.5"] == pytest.approx(10 / 3)
    (only,) = drawn(problem, found, hidden & problem.levels.primary, relative=False)
    assert only == {
        "place": 0.5,
        "truth": 2,
        "low": pytest.approx(0),
        "high": pytest.approx(10),
        "asked_low": 2,
        "asked_high": 4,
    }
    assert linked.structure.cells == 9


@pytest.mark.parametrize("seed", range(6))
def test_protected_means_at_least_as_wide_as_asked(seed: int) -> None:
    rng = np.random.default_rng(seed)
    _, problem = two_way(rng.integers(0, 14, (4, 5)), lower=1)
    hidden = problem.levels.primary | (rng.random(len(problem.value)) < 0.4)
    found = problem.attacker(hidden).intervals()
    row = interval_statistics(problem, found, problem.levels.primary)
    assert (row["protected"] == row["cells"]) == is_safe(problem, hidden)
    for cell in np.flatnonzero(problem.levels.primary):
        each = interval_statistics(problem, found, np.arange(len(hidden)) == cell)
        if each["protected"] and each["width_by_asked"]:
            assert each["width_by_asked"]["0.5"] >= 1 - 1e-6


def many(number: int, *, endless: int = 0):
    """A column of up to eight primary cells of 1 to 3, with intervals made up, some of them without an end."""
    _, problem = two_way(np.arange(number).reshape(-1, 1) % 3 + 1)
    low = np.zeros(len(problem.value))
    high = problem.value + 3.0 + np.arange(len(problem.value))
    high[len(high) - endless :] = np.inf
    return problem, Intervals(low, high, 0)


def test_drawn_intervals_are_in_order_and_evenly_chosen() -> None:
    problem, found = many(8, endless=2)
    chosen = problem.levels.primary
    rows = drawn(problem, found, chosen, relative=False, most=5)
    widths = [np.inf if row["high"] is None else row["high"] - row["low"] for row in rows]
    every = np.sort(found.width[chosen])
    assert widths == sorted(widths)
    assert (widths[0], widths[-1]) == (every[0], every[-1])
    assert [row["place"] for row in rows] == [0.1, 0.3, 0.5, 0.7, 0.9]
    assert len(drawn(problem, found, chosen, relative=False)) == chosen.sum()
    assert drawn(problem, found, np.zeros_like(chosen), relative=False) == []
    json.dumps(rows, allow_nan=False)


def test_relative_intervals_do_not_tell_the_figure() -> None:
    problem, found = many(6)
    twice = replace(problem, value=2 * problem.value, levels=replace(problem.levels, upper=2 * problem.levels.upper))
    wider = Intervals(2 * found.low, 2 * found.high, 0)
    rows = drawn(problem, found, problem.levels.primary, relative=True)
    assert rows == drawn(twice, wider, problem.levels.primary, relative=True)
    assert {row["truth"] for row in rows} == {1.0}
    widths = [row["high"] - row["low"] for row in rows]
    assert widths == sorted(widths)


def test_a_bar_has_its_shares_over_cells_that_are_not_zero() -> None:
    row = {"cells": 12, "empty": 2, "primary": 3, "primary_empty": 1, "complementary": 5, "complementary_empty": 1}
    made = suppression_figures.bar("b", row | {"primary_value_share": 0.01, "complementary_value_share": 0.2})
    assert made.shares == ((0.2, 0.4), (0.01, 0.2))


@needs_plots
@pytest.mark.parametrize(
    ("share", "text"), [(0, "0 %"), (0.0004, "< 0.1 %"), (0.0123, "1.2 %"), (0.25, "25 %"), (1, "100 %")]
)
def test_a_little_is_not_nothing(share: float, text: str) -> None:
    picture = shares_chart([("One", [Bar("a", ((share, 0),))])], ["of cells"]).svg()
    assert f">{text.replace('<', '&lt;')}</text>" in picture


def test_bars_say_what_is_hidden_under_the_title_of_their_section() -> None:
    bars = [Bar("a", ((0.1, 0.25), (0.0, 0.0004))), Bar("b", ((0, 0), (0, 0)))]
    picture = shares_chart([("One", bars[:1]), ("Two", bars)], ["of cells", "of the sum"]).as_dict()
    rows = [(row["panel"], row["line"], row["primary"], row["complementary"]) for row in picture["datasets"]["bars"]]
    assert [row[1:] for row in rows[:5]] == [
        ("One\t", None, None),
        ("One\ta", 0.1, 0.25),
        ("Two\t", None, None),
        ("Two\ta", 0.1, 0.25),
        ("Two\tb", 0, 0),
    ]
    assert ("of the sum", "Two\ta", 0.0, 0.0004) in rows
    assert len(rows) == 10


@needs_plots
def test_bars_of_the_same_name_stay_apart() -> None:
    picture = shares_chart([("One", [Bar("a", ((0.1, 0.2),))]), ("Two", [Bar("a", ((0.4, 0.2),))])], ["of cells"]).svg()
    assert picture.count(">a</text>") == 2
    assert ">30 %</text>" in picture
    assert ">60 %</text>" in picture
    assert picture.count(">One</text>") == picture.count(">Two</text>") == 1


def test_an_interval_without_an_end_goes_to_the_top() -> None:
    problem, found = many(6, endless=1)
    rows = drawn(problem, found, np.isinf(found.high) | problem.levels.primary, relative=False)
    picture = intervals_chart(rows, relative=False).as_dict()
    ends = [row["high"] for row in rows if row["high"] is not None]
    assert picture["transform"] == [
        {"calculate": f"datum.high === null ? {2 * max(ends)} : datum.high", "as": "end"},
    ]
    assert [row["high"] for row in picture["datasets"]["rows"]] == [row["high"] for row in rows]


SCHEMA = """
id = "isle"
provenance = "made up for tests"
[attributes.quarter]
title = "quarter of the isle"
levels = [["E", "east"], ["M", "middle"], ["W", "west"]]
[attributes.work]
title = "work"
levels = [["a", "works"], ["b", "looks for work"], ["c", "neither"]]
"""
SPEC = """
[release]
name = "isle"
mechanism = "suppression"
title = "An isle"
[data]
records = "people.parquet"
schema = "schema.toml"
[suppression]
threshold = 3
[[tables]]
name = "work"
variables = ["quarter", "work"]
"""


def isle(folder: Path, numbers: list[list[int]], spec: str = SPEC) -> Path:
    """A release of a table given by its numbers."""
    names = "EMW", "abc"
    rows = [
        {"quarter": quarter, "work": work, "pay": 10 + 3 * each}
        for quarter, line in zip(names[0], numbers, strict=True)
        for work, many in zip(names[1], line, strict=True)
        for each in range(many)
    ]
    pq.write_table(pa.Table.from_pylist(rows), folder / "people.parquet")
    (folder / "schema.toml").write_text(SCHEMA)
    (folder / "spec.toml").write_text(spec)
    api.run(folder / "spec.toml")
    return folder / "isle"


def page_of(run: Path) -> str:
    return api.evaluate(run).dossier.read_text()


def test_the_dossier_has_three_pictures_or_says_what_they_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = isle(tmp_path, [[20, 2, 9], [15, 8, 0], [30, 5, 7]])
    page = page_of(run)
    assert page.count("<svg") == page.count("<figure>") == (3 if charts.available() else 0)
    assert ("confide[plots]" in page) == (not charts.available())
    if charts.available():
        assert "Quarter of the isle: " in page
        assert "every primary cell" in page
    monkeypatch.setattr(charts, "available", lambda: False)
    page = page_of(run)
    assert page.count("<svg") == 0
    assert "confide[plots]" in page
    assert "Who loses most" in page  # the numbers are there all the same


def test_where_nothing_is_hidden_there_is_nothing_to_draw(tmp_path: Path) -> None:
    page = page_of(isle(tmp_path, [[20, 12, 9], [15, 8, 6], [30, 5, 7]]))
    assert "<figure>" not in page
    assert "Who loses most" not in page


@needs_plots
def test_magnitudes_are_drawn_as_multiples(tmp_path: Path) -> None:
    spec = SPEC.replace('schema = "schema.toml"', 'schema = "schema.toml"\nvalue = "pay"').replace("= 3", "= 2")
    run = isle(tmp_path, [[20, 2, 9], [15, 8, 1], [30, 5, 7]], spec)
    evaluated = api.evaluate(run)
    rows = evaluated.accuracy.reveal("a test")["intervals"]["drawn"]
    assert rows
    assert {row["truth"] for row in rows} == {1.0}
    assert "as a multiple of the true one" in evaluated.dossier.read_text()
