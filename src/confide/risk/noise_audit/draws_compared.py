"""Draws against each other: within a measurement, between measurements, within a unit, and in runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import ceil, log, log2
from typing import Any

import numpy as np

from confide.arrays import Booleans, Integers
from confide.releases.mechanism import Check
from confide.releases.residuals import ResidualLaw
from confide.risk.noise_audit.independence import (
    MOST_COMPARED,
    Peak,
    equal_runs,
    shifts_between,
    shifts_within,
    within_units,
)
from confide.risk.noise_audit.law_evidence import ALARM, KINDS
from confide.risk.noise_audit.laws import likelier_sign, likeliest
from confide.risk.noise_audit.seen import SeenMeasurement, listed

MOST_POINTS = 100_000_000
"""Points of Fourier transforms between measurements: some ten seconds."""
MOST_PRODUCTS = 20_000_000_000
MOST_IN_RUNS = 1 << 24
MOST_ALIKE = 2_000
"""Longer runs of equal draws are not looked for: a law that gives them has next to one value."""


class DrawComparison:
    """Draws against each other."""

    def __init__(self, seen: Sequence[SeenMeasurement], laws: Sequence[ResidualLaw]):
        self._laws = laws
        self._seen = [one for one in seen if one.draws]
        families: dict[str, list[SeenMeasurement]] = {}
        for one in self._seen:
            families.setdefault(one.residuals.family, []).append(one)
        self._families = list(families.values())
        self.notes: list[str] = []

    def checks(self) -> Iterator[Check]:
        yield self._check("draws within a measurement", self._within(), "shifts")
        yield self._check("draws of different measurements", self._between(), "shifts")
        yield self._check("cells of the same unit", self._aligned(), "pairs")
        yield self._runs("runs of equal values", self._by_law())
        yield self._runs("runs of equal signs", self._by_sign())

    def _check(self, name: str, peaks: Iterable[tuple[Peak | None, int]], unit: str) -> Check:
        every_peak = list(peaks)
        tests = sum(number for _, number in every_peak)
        limit = log(ALARM / KINDS / max(1, tests))
        wrong = sorted(
            (peak for peak, _ in every_peak if peak is not None and peak.log_chance < limit),
            key=lambda peak: peak.log_chance,
        )
        detail = (
            listed([peak.words for peak in wrong], 3)
            if wrong
            else f"nothing in common at {tests:,} {unit}"
            if tests
            else "none to compare"
        )
        return Check(name, not wrong, detail)

    def _within(self) -> Iterator[tuple[Peak | None, int]]:
        for one in self._seen:
            if len(one.score) > MOST_COMPARED:
                self.notes.append(f"Of {one.name} the first {MOST_COMPARED:,} draws are compared with each other.")
            yield shifts_within(one)

    def _between(self) -> Iterator[tuple[Peak | None, int]]:
        for members in self._families:
            if len(members) < 2:
                continue
            most = MOST_COMPARED
            while len(members) * sum(min(len(one.score), most) for one in members) > MOST_POINTS and most > 1 << 10:
                most //= 2
            if any(len(one.score) > most for one in members):
                self.notes.append(f"Of each measurement the first {most:,} draws are compared with those of others.")
            yield from shifts_between(members, most)

    def _aligned(self) -> Iterator[tuple[Peak | None, int]]:
        for members in self._families:
            alike: dict[tuple[str, int], list[SeenMeasurement]] = {}
            for one in members:
                alike.setdefault((one.residuals.level, one.units), []).append(one)
            for (level, units), some in alike.items():
                cells = sum(one.cells + 1 for one in some)
                if units * cells**2 > MOST_PRODUCTS or cells > 12_000:
                    self.notes.append(f"Cells of the same unit are not compared on the level {level}: {cells:,} cells.")
                elif cells > 1 and units > 1:
                    yield within_units(some)

    def _runs(self, name: str, parts: Iterable[tuple[Integers, Booleans, int, list[tuple[int, str]]]]) -> Check:
        wrong, looked = [], 0
        for symbols, usable, length, starts in parts:
            looked += int(usable.sum())
            places = equal_runs(symbols, usable, length)
            if places is not None:
                first, second = (next(text for at, text in reversed(starts) if at <= place) for place in places)
                wrong.append(f"{length} in a row are the same in {first} and in {second}")
        return Check(name, not wrong, listed(wrong) if wrong else f"none among {looked:,} draws")

    def _by_law(self) -> Iterator[tuple[Integers, Booleans, int, list[tuple[int, str]]]]:
        """The draws of each law, and how many equal ones in a row chance does not give."""
        for members in self._families:
            used = {number for one in members for number in np.unique(one.law).tolist() if number >= 0}
            for number in sorted(used):
                law = self._laws[number]
                largest = likeliest(law)
                parts = [one for one in members if (one.law == number).any()]
                symbols, usable, starts = self._joined(parts, lambda one: one.value, lambda one, n=number: one.law == n)
                if largest > 0.999 or not len(symbols):
                    continue
                tests = max(2.0, float(usable.sum()) ** 2 / 2) * len(used) * KINDS * len(self._families)
                length = ceil(log(tests / ALARM) / -log(largest)) if largest < 1 else 0
                if length <= MOST_ALIKE:
                    yield symbols, usable, length, starts

    def _by_sign(self) -> Iterator[tuple[Integers, Booleans, int, list[tuple[int, str]]]]:
        """The signs of scores: the same for draws of the same bits, whatever their laws."""
        for members in self._families:
            symbols, usable, starts = self._joined(
                members, lambda one: np.sign(one.score).astype(np.int64), lambda one: one.score != 0
            )
            if len(symbols):
                tests = max(2.0, float(usable.sum()) ** 2 / 2) * KINDS * len(self._families)
                used = {number for one in members for number in np.unique(one.law).tolist() if number >= 0}
                length = ceil(log2(tests / ALARM) / -log2(max(likelier_sign(self._laws[number]) for number in used)))
                if length <= MOST_ALIKE:
                    yield symbols, usable, length, starts

    def _joined(
        self, parts: Sequence[SeenMeasurement], values: Any, usable: Any
    ) -> tuple[Integers, Booleans, list[tuple[int, str]]]:
        """Arrays one after the other, with a place between them that is not usable."""
        symbols, usables, starts, place = [], [], [], 0
        for one in parts:
            room = MOST_IN_RUNS - place
            if room <= 0:
                self.notes.append(f"Runs are looked for among the first {MOST_IN_RUNS:,} draws.")
                break
            some = values(one)[:room]
            symbols += [some, np.zeros(1, np.int64)]
            usables += [usable(one)[:room], np.zeros(1, np.bool_)]
            starts.append((place, one.name))
            place += len(some) + 1
        if not symbols:
            return np.zeros(0, np.int64), np.zeros(0, np.bool_), []
        return np.concatenate(symbols), np.concatenate(usables), starts
