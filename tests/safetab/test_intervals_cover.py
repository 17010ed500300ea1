"""Intervals beside published figures have the true count in them as often as they say, whatever the count is.

200,000 made-up people in the settings of 2020, released with four keys: groups of every size, those of 1 to 10 persons
among them, whose totals are published only if noise lifted them above 21 or 93.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from scipy.stats import binom
from tests.kits.safetab_releases import read, release_of, write_people

from confide.mechanisms.safetab.settings import GRIDS

CLASSES = (0, 1, 11, 21, 31, 51, 101, 1_001)
"""Where classes of true counts begin."""
ONCE_IN = 1 / 1_000
"""How often a class of intervals that hold exactly as often as they must fails."""


def groups_of(root: Path) -> dict[tuple[str, str, str], tuple[str, int]]:
    """For each published group the file of its level, and its number there: from the files of the release alone."""
    release = root / "release"
    question = json.loads((release / "manifest.json").read_text())["plan"]["question"]
    (areas_file,) = release.glob("areas*.csv")
    texts = pyarrow.csv.ConvertOptions(column_types={"level": "string", "area": "string"})
    areas = pyarrow.csv.read_csv(areas_file, convert_options=texts)
    numbers: dict[tuple[str, str, str], tuple[str, int]] = {}
    for name, facts in question["levels"].items():
        region = facts["region_type"]
        flag = "coarse_only" if region in ("USA", "STATE", "PR-STATE") else "total_only"
        codes = [
            each["code"]
            for each in question["iterations"]
            if each["level"] == facts["iteration_level"] and not each[flag]
        ]
        here = areas.filter(pc.equal(areas.column("level"), region)).column("area").to_pylist()
        assert (len(here), len(codes)) == (facts["areas"], facts["iterations"])
        numbers |= {
            (region, area, code): (name, place * len(codes) + position)
            for place, area in enumerate(here)
            for position, code in enumerate(codes)
        }
    return numbers


def truth_of(root: Path) -> dict[tuple[str, int], Counter[int]]:
    """For each group with anybody, how many are in each cell of sex by 23 ages."""
    counts: dict[tuple[str, int], Counter[int]] = {}
    for file in (root / "confidential" / "counts").glob("*-[12]*.parquet"):
        rows = pq.read_table(file)
        level = file.name.split(".")[0]
        columns = (rows.column(name).to_pylist() for name in ("group", "cell", "n"))
        for group, cell, n in zip(*columns, strict=True):
            counts.setdefault((level, group), Counter())[cell] += n
    return counts


class Held:
    """How many figures there are by class of the true count, and how many have it in their interval."""

    def __init__(self) -> None:
        self.figures = np.zeros(len(CLASSES), np.int64)
        self.held = np.zeros(len(CLASSES), np.int64)

    def add(self, truth: Any, low: Any, high: Any) -> None:
        size = np.searchsorted(CLASSES, truth, side="right") - 1
        np.add.at(self.figures, size, 1)
        np.add.at(self.held, size, (low <= truth) & (truth <= high))

    def report(self) -> list[tuple[int, int, float]]:
        return [
            (first, int(number), float(held / number))
            for first, number, held in zip(CLASSES, self.figures, self.held, strict=True)
            if number
        ]


def add_release(root: Path, totals: Held, cells: Held, below: Held) -> None:
    numbers, truth = groups_of(root), truth_of(root)
    for name, grid in [("T01001", None), *((grid.table, grid) for grid in GRIDS)]:
        table = read(root / "release", name)
        rows = table.filter(pc.equal(table.column("margin"), "cell"))
        keys = zip(*(rows.column(column).to_pylist() for column in ("level", "area", "iteration")), strict=True)
        low, high = (rows.column(column).to_numpy() for column in ("low", "high"))
        if grid is None:
            groups = [numbers[key] for key in keys]
            true = np.array([sum(truth.get(group, {}).values()) for group in groups])
            totals.add(true, low, high)
            alone = np.array(rows.column("measured_as").to_pylist()) == "total"
            small = ~np.isin(np.array(rows.column("level").to_pylist()), ["USA", "STATE", "PR-STATE"])
            chosen = alone & small
            below.add(true[chosen], low[chosen], high[chosen])
        else:
            true = _cells(list(keys), numbers, truth, grid)
            cells.add(true, low, high)


def _cells(keys: list[Any], numbers: Any, truth: Any, grid: Any) -> Any:
    """The true counts of the cells of tables, a group's rows one after the other: men by age, women by age."""
    true = []
    for key in keys[:: grid.cells]:
        counts = np.zeros(grid.cells, np.int64)
        for cell, n in truth.get(numbers[key], {}).items():
            counts[grid.of_finest[cell]] += n
        true.append(counts)
    return np.concatenate(true) if true else np.zeros(0, np.int64)


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize(
    "settings",
    [{}, {"zero_suppression": '"0.95"'}, {"negative_counts": "false", "zero_suppression": '"0.99"'}],
    ids=["as in 2020", "more is shown", "set to zero"],
)
def test_in_every_class_of_true_counts(
    settings: dict[str, str], tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Four keys. Figures of different groups have independent noise, so that the number that is held is binomial. A
    class fails if so few are held that intervals which hold exactly as often as they must, 95 in 100, hold so few once
    in a thousand times; they hold more often."""
    write_people(tmp_path / "people", 200_000)
    totals, cells, below = Held(), Held(), Held()
    for key in range(4):
        root = release_of(tmp_path / "people", tmp_path / f"run-{key}", f"{key + 7:064x}", **settings)
        add_release(root, totals, cells, below)
    for name, held in (("totals", totals), ("totals alone below the states", below), ("cells", cells)):
        for first, number, share in held.report():
            record_property(f"{name}, from {first}", f"{number} figures, {share:.4f} held")
            assert binom.cdf(round(share * number), number, 0.95) >= ONCE_IN, (name, first, number, share)
    assert {first: number for first, number, _ in below.report()}[1] >= (10 if not settings else 300)
