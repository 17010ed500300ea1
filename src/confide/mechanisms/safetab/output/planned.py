"""A SafeTab-P release as the plan in its manifest describes it: levels with their noise, and iterations with their
names. Plans of the first layout do not list iterations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from confide.mechanisms.safetab.codes import Iteration
from confide.mechanisms.safetab.intervals import margin_of_sum
from confide.mechanisms.safetab.settings import (
    CELLS_OF_LEVEL,
    GRIDS,
    ITERATION_LEVELS,
    LARGE_REGIONS,
    REGION_TYPES,
    TABLE,
    TOTAL_ONLY,
    LevelName,
)
from confide.noise import NoiseDistribution
from confide.schema import TOTAL_CODE


@dataclass(frozen=True)
class PlannedLevel:
    """A population group level as the plan in the manifest describes it."""

    region: int
    iteration_level: int
    areas: int
    iterations: int
    total_only: int
    suppressed_up_to: int | None
    law: NoiseDistribution | None
    total_law: NoiseDistribution | None

    @property
    def region_type(self) -> str:
        """The type of its areas."""
        return REGION_TYPES[self.region]

    @property
    def title(self) -> str:
        """For people: ``STATE, detailed``."""
        return LevelName(self.region_type, self.iteration_level).title

    def number(self, total_only: bool) -> int:
        """How many iterations of one kind there are."""
        return self.total_only if total_only else self.iterations - self.total_only

    def margins(self, probability: Fraction, statistics_level: int, *, total_only: bool = False) -> list[int]:
        """The noise margins of a group's total, and with a table of a sex and of a cell; none if there is none."""
        law = self.total_law if total_only else self.law
        if law is None or (total_only and statistics_level):
            return []
        grid = [] if statistics_level == 0 else [GRIDS[statistics_level - 1].ages, 1]
        sums = [CELLS_OF_LEVEL[statistics_level], *grid]
        return [margin_of_sum(law, cells, probability) for cells in sums]


def read_planned(plan: Mapping[str, Any]) -> list[PlannedLevel]:
    """The levels of a plan."""
    laws = {
        (measure["level"], measure["query"]): NoiseDistribution.from_dict(measure["law"])
        for measure in plan["measures"]
    }
    return [
        PlannedLevel(
            REGION_TYPES.index(level["region_type"]),
            level["iteration_level"],
            level["areas"],
            level["iterations"],
            level["total_only_iterations"],
            level["suppressed_up_to"],
            *(
                laws.get((level["region_type"], f"{ITERATION_LEVELS[level['iteration_level']]}: {query}"))
                for query in (TABLE, TOTAL_ONLY)
            ),
        )
        for level in plan["question"]["levels"].values()
    ]


@dataclass(frozen=True)
class PlannedIteration:
    """A race or ethnicity group as plans of the second layout list it."""

    code: str
    label: str
    """Its name, and its code besides where another one has the same name."""
    level: int
    total_only: bool
    coarse_only: bool

    def tabulated(self, region_type: str) -> bool:
        """Whether areas of a type have it."""
        return not (self.coarse_only if region_type in LARGE_REGIONS else self.total_only)


def planned_iterations(iterations: Sequence[Iteration]) -> list[dict[str, Any]]:
    """The iterations of the code lists as a plan has them."""
    names = [iteration.name for iteration in iterations]
    both = [f"{each.name} ({each.code})" for each in iterations]
    times = Counter([*names, *both])
    plain = [times[name] == 1 and name not in ("", TOTAL_CODE) for name in names]
    return [
        asdict(PlannedIteration(each.code, name if alone else pair, each.level, each.total_only, each.coarse_only))
        for each, name, pair, alone in zip(iterations, names, both, plain, strict=True)
    ]


def read_iterations(question: Mapping[str, Any]) -> tuple[PlannedIteration, ...]:
    """The iterations of a plan of the second layout."""
    return tuple(PlannedIteration(**values) for values in question["iterations"])
