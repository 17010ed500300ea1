"""Targets in words: how far off a figure may be, in which areas, and how often.

    total <= 5 in tract @95%
    hispanic <= 20 in county, place @90%
    total <= 1% in place >= 500
    share of the largest hispanic*cenrace group <= 5pp in block_group, place >= 500 @95%

A target is met if, in every area that it names, the margin z·sd of the figure is within the limit: z is the quantile of
the normal law for the probability after ``@``, 95 per cent where none is given. ``>=`` leaves out areas with fewer
people; it holds for all kinds of area of the target. Of a query with several cells, every cell is meant.

A share is that of one cell in everybody: with N people in an area, p the share of the largest group, E its error and
E_N that of the total, the share is off by (E − p E_N)/N to the first order. Areas, N and p come from people who are
made up, or published: :mod:`confide.inference.tuning`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from statistics import NormalDist
from typing import Protocol

import numpy as np

from confide.arrays import Floats, Integers
from confide.errors import ConfideError, Finding, ParameterError
from confide.estimation.sectors import SectorCount, Sectors
from confide.estimation.tree_design import AreaFunctions, joined_counts, vectors_of
from confide.geography.spine import OUTSIDE
from confide.mechanisms.topdown.characteristics import EvaluationGeography, geographies
from confide.mechanisms.topdown.problem import TopDownProblem
from confide.mechanisms.topdown.strategy import Strategy
from confide.mechanisms.topdown.whole_tree import grouping_of
from confide.schema import DETAILED, TOTAL
from confide.utility.target_words import CHANCE, bad_target, meant, nearest, split_target

_LARGEST = re.compile(r"share\s+of\s+(?:the\s+)?largest\s+(?:group\s+of\s+)?(.+?)(?:\s+group)?$", re.IGNORECASE)
_SHORT = re.compile(r"share\s*:\s*(.+)", re.IGNORECASE)
_MADE = re.compile(r"(?:made\s+(\w+)|(\w+)\s*\(\s*made\s*\))$", re.IGNORECASE)


@dataclass(frozen=True)
class Target:
    """One target, read."""

    text: str
    query: str
    """What is counted; of a share, the query whose largest cell it is."""
    limit: Fraction
    """The largest margin: in records, or as a part of one where ``of_share`` or ``relative``."""
    kinds: tuple[str, ...]
    """The kinds of area: levels, areas of the frame, or what the spine makes."""
    of_share: bool = False
    relative: bool = False
    """Whether the limit is a part of the area's own count."""
    least: int = 0
    """Areas with fewer people do not count."""
    chance: Fraction = CHANCE

    @property
    def quantile(self) -> float:
        """z: noise is within z standard deviations with the target's probability."""
        return NormalDist().inv_cdf((1 + float(self.chance)) / 2)

    def largest_variance(self, people: Floats) -> Floats:
        """τ of each area: the variance at which its margin is just the limit."""
        limit = float(self.limit) * (people if self.relative else 1.0)
        return np.asarray(np.broadcast_to((limit / self.quantile) ** 2, people.shape), np.float64)

    @property
    def needs_people(self) -> bool:
        """Whether the target asks how many people there are in an area, or of which kind."""
        return self.of_share or self.relative or self.least > 0

    @property
    def unit(self) -> str:
        """The unit of the limit, for people."""
        return "points" if self.of_share else "per cent" if self.relative else "records"


def parse_target(text: str, strategy: Strategy, kinds: Sequence[str]) -> Target:
    """A target in words.

    Args:
        text: See the head of the module.
        strategy: Whose queries can be named.
        kinds: The kinds of area that there are.

    Returns:
        The target; raises with what is wrong, what is expected, and what may have been meant.
    """
    words = split_target(text)
    statistic, of_points = words.statistic, words.unit == "points"
    largest = _LARGEST.fullmatch(statistic) or _SHORT.fullmatch(statistic)
    if largest is None and statistic.lower().startswith("share"):
        expected = "share of the largest QUERY group, such as share of the largest hispanic*cenrace group"
        raise bad_target(text, "this is not a share", statistic, expected)
    query = _query(text, strategy, statistic if largest is None else largest.group(1))
    if largest is not None and query == TOTAL:
        raise bad_target(text, "everybody is the only group of the total", largest.group(1), "a query with groups")
    if largest is not None and not of_points:
        raise bad_target(text, "the limit of a share is in points", words.amount, f"{words.limit}pp")
    if largest is None and of_points:
        expected = f"{words.limit} without a unit, or share of the largest … group"
        raise bad_target(text, "points are for shares", words.amount, expected)
    if words.unit == "%" and query != TOTAL:
        raise bad_target(text, "a limit in per cent is for totals", words.amount, "a number of records, or a total")
    return Target(
        words.text,
        query,
        words.limit / 100 if words.unit else words.limit,
        tuple(_kind(text, name, kinds) for name in words.kinds),
        largest is not None,
        words.unit == "%",
        words.least,
        words.chance,
    )


def _query(text: str, strategy: Strategy, name: str) -> str:
    measured = (share.name for level in strategy.levels for share in level.queries)
    names = dict.fromkeys((TOTAL, *strategy.schema.variables, *measured))
    query = "*".join(meant(part.strip(), names) for part in name.replace("×", "*").split("*"))
    try:
        asked = strategy.query(query)
    except ConfideError as error:
        expected = "a query of the schema: " + ", ".join(names) + ", or several with *"
        raise bad_target(text, error.findings[0].what, name, expected, nearest(query, names)) from None
    return DETAILED if query == DETAILED else asked.name


def _kind(text: str, name: str, kinds: Sequence[str]) -> str:
    match = _MADE.fullmatch(name)
    wanted = meant(f"{match.group(1) or match.group(2)} (made)" if match else name, kinds)
    if wanted in kinds:
        return wanted
    made_kind = meant(f"{name} (made)", kinds)
    if made_kind in kinds:
        return made_kind
    raise bad_target(
        text, f"there is no kind of area {name!r}", name, "one of " + ", ".join(kinds), nearest(name, kinds)
    )


def parse_targets(texts: Sequence[str], problem: TopDownProblem) -> tuple[Target, ...]:
    """All targets, with every mistake at once."""
    kinds = [geography.name for geography in geographies(problem)]
    findings: list[Finding] = []
    result: list[Target] = []
    for text in texts:
        try:
            result.append(parse_target(text, problem.strategy, kinds))
        except ParameterError as error:
            findings += error.findings
    if findings:
        raise ParameterError(findings)
    return tuple(result)


# From targets to linear functions of cells with limits.


class KnownPeople(Protocol):
    """What is known of people by area, from anything but the confidential records."""

    def total(self, geography: EvaluationGeography) -> Floats:
        """How many people each area has."""
        ...

    def largest(self, geography: EvaluationGeography, query: str) -> tuple[Integers, Floats]:
        """For each area the largest cell of a query and its share; −1 and NaN where nobody knows."""
        ...


class AreaDesign(Protocol):
    """What functions of areas are made with."""

    @property
    def sectors(self) -> Sectors:
        """Core and free axes."""

    def area_counts(self, area_of_block: Integers, vectors: Floats, /) -> AreaFunctions:
        """Functions of areas that no two share a block of."""


@dataclass(frozen=True, eq=False)
class LimitedCounts:
    """What a target limits in one kind of area: a linear function for each area and kind of cell, with its limit."""

    target: Target
    geography: EvaluationGeography
    areas: Integers
    """For each function its area."""
    people: Floats
    """How many people that area has; NaN where nobody asked."""
    counts: AreaFunctions
    limits: Floats
    """τ: the largest variance."""

    def binding(self, variances: Floats) -> int:
        """The function that needs the largest budget."""
        return int(np.argmax(variances / self.limits))

    def code(self, function: int) -> str:
        """The code of the area of a function."""
        return self.geography.codes[int(self.areas[function])]


def limited_counts(
    problem: TopDownProblem, design: AreaDesign, targets: Sequence[Target], people: KnownPeople | None
) -> list[LimitedCounts]:
    """What the targets limit, kind of area by kind of area.

    Args:
        problem: Strategy, frame and spine.
        design: The tree of the plan, or its levels one by one.
        targets: What is wanted.
        people: How many people areas have; needed where a target asks for it.
    """
    known = {geography.name: geography for geography in geographies(problem)}
    result = []
    for target in targets:
        for kind in target.kinds:
            limited = _limited(problem, design, target, known[kind], people)
            if limited is None:
                raise bad_target(
                    target.text,
                    f"no {kind} counts for the target",
                    "no area",
                    f"areas of {kind} with at least {target.least:,} people"
                    if target.least
                    else f"areas of {kind} with blocks on the spine",
                    "take a smaller number after >=, or other areas",
                )
            result.append(limited)
    return result


def _limited(
    problem: TopDownProblem,
    design: AreaDesign,
    target: Target,
    geography: EvaluationGeography,
    people: KnownPeople | None,
) -> LimitedCounts | None:
    sectors, area = design.sectors, geography.unit_of_block[problem.spine.rows]
    there = np.bincount(area[area != OUTSIDE], minlength=geography.units) > 0
    size = np.full(geography.units, np.nan)
    if target.needs_people:
        assert people is not None
        size = people.total(geography)
        there &= (size >= max(target.least, 1)) & np.isfinite(size)
    chosen = np.flatnonzero(there)
    if not len(chosen):
        return None
    if not target.of_share:
        cells = distinct_cells(sectors, cells_of(problem.strategy, sectors, target.query))
        parts = [(chosen, vectors_of(sectors, [cell], np.ones((len(chosen), 1)))) for cell in cells]
    else:
        assert people is not None
        parts = list(_share_vectors(problem, sectors, target, geography, people, chosen, size))
    areas = np.concatenate([part for part, _ in parts])
    listed = []
    for members, vector in parts:
        place = np.full(geography.units + 1, -1, np.int64)  # the last entry is what OUTSIDE finds
        place[members] = np.arange(len(members))
        listed.append(design.area_counts(place[area], vector))
    limits = target.largest_variance(size[areas])
    return LimitedCounts(target, geography, areas, size[areas], joined_counts(listed), limits)


def _share_vectors(
    problem: TopDownProblem,
    sectors: Sectors,
    target: Target,
    geography: EvaluationGeography,
    people: KnownPeople,
    chosen: Integers,
    size: Floats,
) -> Iterable[tuple[Integers, Floats]]:
    """(c − p·1)/N of each area, for its largest cell. Where that is not known it is every kind of cell; and where p is
    not, both p = 0 and p = 1, since the variance is convex in p."""
    cells, everybody = cells_of(problem.strategy, sectors, target.query), sectors.count({})
    largest, share = people.largest(geography, target.query)
    kinds = [(cell, cells[cell]) for cell in np.unique(largest[chosen]).tolist() if cell >= 0]
    kinds += [(-1, cell) for cell in distinct_cells(sectors, cells)] if (largest[chosen] < 0).any() else []
    for number, cell in kinds:
        own = chosen[largest[chosen] == number]
        for members, shares in (
            (own[np.isfinite(share[own])], share),
            (own[~np.isfinite(share[own])], np.zeros(geography.units)),
            (own[~np.isfinite(share[own])], np.ones(geography.units)),
        ):
            if len(members):
                coefficients = np.stack([np.ones(len(members)), -shares[members]], axis=1) / size[members, None]
                yield members, vectors_of(sectors, [cell, everybody], coefficients)


def cells_of(strategy: Strategy, sectors: Sectors, query: str) -> list[SectorCount]:
    """The cells of a query, in C order, each a product of sets of levels."""
    names = [attribute.name for attribute in strategy.schema.attributes]
    groups = grouping_of(names, strategy.query(query))
    listed = product(*([(axis, g == k) for k in range(int(g.max()) + 1)] for axis, g in groups.items()))
    return [sectors.count(dict(cell)) for cell in listed]


def distinct_cells(sectors: Sectors, cells: Sequence[SectorCount]) -> list[SectorCount]:
    """One cell of each kind: cells whose variances are the same whatever is measured stand for each other."""
    return list({_kind_of_cell(sectors, cell): cell for cell in reversed(cells)}.values())[::-1]


def cell_weights(sectors: Sectors, cells: Sequence[SectorCount]) -> Floats:
    """How many cells each of the :func:`distinct_cells` stands for."""
    kinds = Counter(_kind_of_cell(sectors, cell) for cell in cells)
    return np.array([kinds[_kind_of_cell(sectors, cell)] for cell in distinct_cells(sectors, cells)], np.float64)


def _kind_of_cell(sectors: Sectors, cell: SectorCount) -> tuple[bytes, tuple[float, ...]]:
    return cell.core.tobytes(), tuple(sectors.weights(cell).round(12).tolist())


def price_list(margins: Iterable[int], chance: Fraction = CHANCE) -> list[Mapping[str, float]]:
    """What it costs to publish one query on one level within ±m, all cells of all units, without the help of others.

    ρ = (z/m)², since noise of variance σ² costs 1/σ² between records of which one changes, and z·σ is the margin.

    Args:
        margins: The margins m.
        chance: How often noise is within the margin.

    Returns:
        For each margin its rho.

    >>> [round(row["rho"], 4) for row in price_list([1, 5, 10])]
    [3.8415, 0.1537, 0.0384]
    """
    z = NormalDist().inv_cdf((1 + float(chance)) / 2)
    return [{"margin": margin, "rho": (z / margin) ** 2} for margin in margins]
