"""What a release publishes, counted: small cells and the units with the least protection. From its public files alone.

The counts are those of the protected records. That a published cell is one does not say that somebody is alone in it:
noise makes ones, and unmakes them. How many there are is still the first thing that readers ask.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confide.risk.releases.effective import Effective, LevelEffective
from confide.risk.releases.reading import ReadRelease
from confide.topdown.strategies.strategy import DETAILED

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

SIZES = ((0, 0), (1, 1), (2, 2), (3, 9), (10, None))
"""Classes of published counts, from and to."""


def size_name(low: int, high: int | None) -> str:
    """A class of counts in words: 0, 3-9, 10+."""
    return f"{low}+" if high is None else str(low) if low == high else f"{low}-{high}"


@dataclass(frozen=True, eq=False)
class Published:
    """The published records on the spine and on the official levels."""

    release: ReadRelease
    row: Integers
    """For each record the row of its block in the frame."""
    cell: Integers

    @classmethod
    def of(cls, release: ReadRelease) -> Published:
        return cls(release, *release.records())

    def by_size(self) -> list[dict[str, Any]]:
        """For each official level, how many histogram cells of its units have a published count of each size, and how
        many records are in those. Cells that are structurally zero are left out, and units without a block."""
        strategy, spine = self.release.strategy, self.release.spine
        possible = int((~strategy.constraints.zero_cells(strategy.schema)).sum())
        cells = len(strategy.constraints.zero_cells(strategy.schema))
        result = []
        for level in spine.frame.levels:
            units = len(np.unique(level.unit_of_block[spine.rows]))
            _, counts = np.unique(level.unit_of_block[self.row] * cells + self.cell, return_counts=True)
            classes = {}
            for low, high in SIZES:
                inside = counts[(counts >= low) & ((counts <= high) if high is not None else True)]
                number = len(inside) if low else units * possible - len(counts)
                classes[size_name(low, high)] = {"cells": number, "records": int(inside.sum())}
            result.append({"level": level.name, "units": units, "counts": classes})
        return result

    def by_record(self, effective: Effective) -> Floats:
        """The effective rho of the histogram cell of its block, for each record."""
        blocks = effective.levels[-1]
        place = np.full(len(self.release.spine.frame.blocks.unit_of_block), -1, np.int64)
        place[self.release.spine.rows] = np.arange(len(self.release.spine.rows))
        found: Floats = blocks.rho[DETAILED][blocks.kind[place[self.row]], effective.core_of(self.cell)]
        return found

    def in_units(self, level: LevelEffective) -> Integers:
        """The number of records in each unit of a level of the spine."""
        spine = self.release.spine
        place = np.full(len(spine.frame.blocks.unit_of_block), 0, np.int64)
        place[spine.rows] = spine.unit_of_block(level.level.name)
        return np.bincount(place[self.row], minlength=level.level.units)


def least_protected(
    effective: Effective, level: LevelEffective, published: Published, most: int
) -> list[dict[str, Any]]:
    """The units of a level with the largest effective rho of a histogram cell: few siblings, a share taken over from an
    only child, or cells that no other unit has."""
    spine = published.release.spine
    rho = np.where(np.isnan(level.rho[DETAILED]), 0.0, level.rho[DETAILED])
    worst = rho.max(axis=1)[level.kind]
    order = np.argsort(-worst, kind="stable")[:most].tolist()
    ids, records = spine.ids(level.level.name), published.in_units(level)
    parent = level.level.parent
    siblings = np.bincount(parent)[parent] - 1 if len(parent) else np.zeros(level.level.units, np.int64)
    return [
        {
            "level": level.level.name,
            "unit": str(ids[unit]),
            "cell": effective.core_label(int(rho[level.kind[unit]].argmax())),
            "rho": float(worst[unit]) if np.isfinite(worst[unit]) else None,
            "siblings": int(siblings[unit]),
            "blocks": int(level.level.first_block[unit + 1] - level.level.first_block[unit]),
            "share": str(level.level.shares[unit]),
            "records": int(records[unit]),
        }
        for unit in order
    ]
