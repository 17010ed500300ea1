"""One measurement, as the audit looks at it: its draws in the order of their coordinates, their scores, and the
evidence against its laws.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from confide.arrays import Booleans, Floats, Integers
from confide.releases.evaluate import ChoiceLaw, OutcomeLaw, ResidualLaw, Residuals, SurvivorLaw
from confide.risk.noise_audit.laws import (
    DEGREES,
    SCALES,
    TILTS,
    likelihood_evidence,
    moments,
    scale_evidence,
    scaled,
    shape_evidence,
    tails,
)


@dataclass(frozen=True, eq=False)
class SeenMeasurement:
    """The draws of a measurement in the order of their coordinates, with scores, and the evidence against its laws."""

    residuals: Residuals
    run: str
    units: int
    """Rows, those without a draw included."""
    score: Floats
    value: Integers
    law: Integers
    """Which of all laws of the audit; -1 where nothing was drawn."""
    impossible: int
    scale: Floats
    shape: Floats
    squares: float
    squared: int
    """How many draws the standardised squares are summed over: those that are seen whatever they are."""
    scatter: float
    """The variance that the sum of standardised squares has."""

    @property
    def name(self) -> str:
        prefix = f"{self.run}: " if self.run else ""
        return f"{prefix}{self.residuals.level} {self.residuals.query}"

    @property
    def cells(self) -> int:
        return int(self.residuals.noise.shape[1])

    @property
    def draws(self) -> int:
        return int((self.law >= 0).sum())

    @property
    def ratio(self) -> float | None:
        """The standardised variance, 1 if the scale is right."""
        return self.squares / self.squared if self.squared else None

    def head(self, most: int) -> Floats:
        """The scores of the first draws."""
        return self.score[:most]


class LawNumbers:
    """Laws, numbered in the order in which they are met."""

    def __init__(self) -> None:
        self.laws: list[ResidualLaw] = []
        self._number: dict[ResidualLaw, int] = {}

    def number(self, law: ResidualLaw) -> int:
        if law not in self._number:
            self._number[law] = len(self.laws)
            self.laws.append(law)
        return self._number[law]


def look_at(residuals: Residuals, numbers: LawNumbers, run: str = "") -> SeenMeasurement:
    """The scores and the evidence of a measurement.

    Args:
        residuals: What was added to the truth.
        numbers: The laws that were met so far; new ones are added.
        run: The name of the run, where an audit has several.
    """
    noise = np.asarray(residuals.noise, np.int64)
    given = np.zeros((1, 1), np.int64) if residuals.law_of is None else residuals.law_of
    which = np.broadcast_to(given, noise.shape)
    own = [numbers.number(law) for law in residuals.laws]
    score, law = np.zeros(noise.shape), np.full(noise.shape, -1, np.int64)
    scale, shape = np.zeros(2 * len(SCALES)), np.zeros(len(DEGREES) * len(TILTS))
    impossible, squares, squared, scatter = 0, 0.0, 0, 0.0
    for number, name in enumerate(own):
        chosen = which == number
        if not chosen.any():
            continue
        law[chosen] = name
        distribution = residuals.laws[number]
        x, limits, back, times = _distinct(residuals, noise, chosen)
        below, at, over = tails(distribution, x, *limits)
        score[chosen] = (below - over)[back]
        possible = at > 0
        impossible += int(times[~possible].sum())
        parts = below[possible], at[possible], over[possible]
        some = [None if limit is None else limit[possible] for limit in limits]
        scale += scale_evidence_of(distribution, x[possible], some, parts) @ times[possible]
        shape += shape_evidence(*parts) @ times[possible]
        if not residuals.conditional and not isinstance(distribution, OutcomeLaw | ChoiceLaw | SurvivorLaw):
            mean, variance, excess = moments(distribution)
            if variance > 0:
                squares += float((x - mean) ** 2 @ times) / variance
                squared += int(times.sum())
                scatter += excess * int(times.sum())
    rows = np.arange(len(noise)) if residuals.units is None else residuals.units
    dense = _dense_rows(rows, noise.shape[1])
    return SeenMeasurement(
        residuals,
        run,
        len(noise) if dense is None else int(dense.max(initial=-1)) + 1,
        _laid_out(score, dense, 0.0),
        _laid_out(noise, dense, 0),
        _laid_out(law, dense, -1),
        impossible,
        scale,
        shape,
        squares,
        squared,
        scatter,
    )


Limits = list[Integers | None]


def _distinct(residuals: Residuals, noise: Integers, chosen: Booleans) -> tuple[Integers, Limits, Integers, Integers]:
    """The draws of a law without repeats: values, what they are given, for each draw its place, and how often."""
    columns = [noise[chosen]]
    limits = [residuals.above, residuals.up_to]
    columns += [np.broadcast_to(limit, noise.shape)[chosen] for limit in limits if limit is not None]
    if len(columns) == 1:
        x, back, times = np.unique(columns[0], return_inverse=True, return_counts=True)
        return x, [None, None], back.reshape(-1), times
    code = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        values, place = np.unique(column, return_inverse=True)
        code = code * len(values) + place.reshape(-1)
    _, first, back, times = np.unique(code, return_index=True, return_inverse=True, return_counts=True)
    parts = iter(column[first] for column in columns[1:])
    return columns[0][first], [None if limit is None else next(parts) for limit in limits], back.reshape(-1), times


def scale_evidence_of(law: ResidualLaw, x: Integers, limits: Limits, parts: tuple[Floats, Floats, Floats]) -> Floats:
    """By the likelihood ratio where a law is conditional or that of a choice, and by quantiles elsewhere."""
    plain = all(limit is None for limit in limits) and not isinstance(law, ChoiceLaw | SurvivorLaw)
    wrong = [None if plain else scaled(law, Fraction(str(scale))) for scale in SCALES]
    others = [tails(other, x, *limits)[1] for other in wrong if other is not None]
    return likelihood_evidence(parts[1], np.stack(others)) if others else scale_evidence(*parts)


def _dense_rows(units: Integers, cells: int) -> Integers | None:
    """For each row its place among all units, so that shifts mean what they mean in coordinates; none where rows stand
    one after the other, or units are so few of many that the gaps would be nearly all of it."""
    if not len(units):
        return None
    places = units - units[0]
    span = int(places[-1]) + 1
    if span == len(units) or span * cells > max(8 * len(units) * cells, 1 << 16):
        return None
    return np.asarray(places)


def _laid_out(values: Any, places: Integers | None, missing: Any) -> Any:
    if places is None:
        return values.reshape(-1)
    full = np.full((int(places[-1]) + 1, values.shape[1]), missing, values.dtype)
    full[places] = values
    return full.reshape(-1)


def listed(names: Sequence[str], most: int = 4) -> str:
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
