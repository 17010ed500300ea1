"""SafeTab-P as one would first write it, for comparison: a dictionary for the counts, a draw for each measurement.

Person by person and group by group, in plain Python, from text to noisy totals, with the textbook sampler. It checks
nothing, makes no table of sex by age and writes nothing: that is in its favour.
"""

from __future__ import annotations

import secrets
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from confide.mechanisms.safetab.codes import CodeLists
from confide.mechanisms.safetab.problem import GroupLevel
from confide.mechanisms.safetab.regions import NO_AIANNH, NO_PLACE
from confide.noise.sample import UniformBits, sample

Areas = dict[str, set[str]]


@dataclass(frozen=True)
class PlainTimes:
    """Seconds that the plain program takes: for all persons, and for the noise of all groups."""

    persons: int
    counting: float
    groups: int
    noise: float

    def for_size(self, persons: int, groups: int) -> float:
        """In proportion to persons and groups."""
        return self.counting / self.persons * persons + self.noise / self.groups * groups


def run_plainly(data: Path, lists: CodeLists, levels: tuple[GroupLevel, ...]) -> PlainTimes:
    """Counts the persons of ``data`` and draws the noise of every group of ``levels``."""
    begin = time.perf_counter()
    persons, counts, areas = _count(data, lists, levels)
    counted = time.perf_counter()
    bits = UniformBits(lambda: secrets.randbits(64))
    groups = 0
    for level in levels:
        region = level.settings.region_type
        for area in sorted(areas[region]):
            for number, total_only in zip(level.iterations.tolist(), level.total_only.tolist(), strict=True):
                groups += 1
                true = counts[region, area, number]
                if total_only:
                    true += sample(level.total, bits)
                elif true + sample(level.first, bits) < level.settings.thresholds[0]:
                    true += sample(level.second, bits)
    return PlainTimes(persons, counted - begin, groups, time.perf_counter() - counted)


def _count(
    data: Path, lists: CodeLists, levels: tuple[GroupLevel, ...]
) -> tuple[int, Counter[tuple[str, str, int]], Areas]:
    alone, combined, origin = ({}, {}, {})  # type: tuple[dict[str, set[int]], dict[str, set[int]], dict[str, set[int]]]
    for kind, table in (("race-alone", alone), ("race-combination", combined), ("ethnicity", origin)):
        for at, code in enumerate(lists.codes):
            found = {int(lists.groups(kind, level, large=True)[at]) for level in (1, 2)}
            table[code] = found - {-1}
    regions = {level.settings.region_type for level in levels}
    areas_of = {}
    areas: Areas = {region: set() for region in regions}
    for line in (data / "GRF-C.txt").read_text().splitlines()[1:]:
        state, county, tract, block, place, aiannh = line.split("|")
        here = {"USA": "1", "STATE": state, "COUNTY": state + county, "TRACT": state + county + tract}
        if place != NO_PLACE:
            here["PLACE"] = state + place
        if aiannh != NO_AIANNH:
            here["AIANNH"] = aiannh
        areas_of[state, county, tract, block] = [(region, area) for region, area in here.items() if region in regions]
        for region, area in areas_of[state, county, tract, block]:
            areas[region].add(area)
    counts: Counter[tuple[str, str, int]] = Counter()
    persons = 0
    for line in (data / "person-records.txt").read_text().splitlines()[1:]:
        values = line.split("|")
        races = [code for code in values[8:16] if code != "Null"]
        iterations = set.intersection(*(alone[code] for code in races)) | origin[values[16]]
        iterations |= set.union(*(combined[code] for code in races))
        for region, area in areas_of[values[3], values[4], values[5], values[6]]:
            for iteration in iterations:
                counts[region, area, iteration] += 1
        persons += 1
    return persons, counts, areas
