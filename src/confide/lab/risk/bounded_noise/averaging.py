"""Counting independent redundant representations of a statistic in a static programme (Bach 2020, Annex B).

A table with the breakdowns A_I publishes all its margins. A target A ⊆ A_I can be had from it in as many ways as the
rest A_I \\ A has subsets S: add up the margin A ∪ S over S, which takes k_S = ∏|b|, b ∈ S, cells (equation 17). If
every table has noise of its own, each table's subsets count (equations 19, 21). If the same members have the same
noise (SPSN), the margin A ∪ S is the same numbers in all tables, and only distinct S count (equations 20, 22). t is
the number of representations and k the number of noisy cells in them.

The mean of the t cheapest is best for an attacker at some t. Four answers are given, each as k/t²:

* ``all``: all representations;
* ``greedy``: sorted by k_S, until k/t² rises for the first time (the paper's optimum);
* ``prefix``: the smallest k/t² among all prefixes of the sorted list, which is the best equally weighted mean;
* ``inverse_variance``: weights 1/k_S over all, which is the best linear estimate: 1/∑ 1/k_S.

Proofs: ``docs/proofs/bounded-noise.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confide.errors import ParameterError, Place
from confide.lab.risk.bounded_noise.static_programme import BreakdownLevel, BreakdownRule, StaticProgramme

TOTAL = "total"
Target = frozenset[str]


class Single(StrEnum):
    """What is done with a level of one category, which has the members of its total."""

    KEEP = "keep"
    MERGE = "merge"


class Optimum(StrEnum):
    """Which mean an attacker takes."""

    ALL = "all"
    GREEDY = "greedy"
    PREFIX = "prefix"
    INVERSE_VARIANCE = "inverse-variance"


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean of ``t`` representations that add up ``k`` noisy cells; its variance is V · ``ratio``."""

    t: int
    k: int
    exact_ratio: Fraction

    @property
    def ratio(self) -> float:
        return float(self.exact_ratio)


@dataclass(frozen=True)
class Representations:
    """The representations of one target: what each costs in cells, cheapest first."""

    target: Target
    costs: tuple[int, ...]

    @property
    def t(self) -> int:
        return len(self.costs)

    @property
    def k(self) -> int:
        return sum(self.costs)

    def mean(self, optimum: Optimum = Optimum.GREEDY) -> Mean:
        """The mean that an attacker takes."""
        if optimum is Optimum.ALL:
            return Mean(self.t, self.k, Fraction(self.k, self.t**2))
        if optimum is Optimum.INVERSE_VARIANCE:
            return Mean(self.t, self.k, 1 / _sum_of_inverses(self.costs))
        return self._best_prefix(stop=optimum is Optimum.GREEDY)

    def _best_prefix(self, *, stop: bool) -> Mean:
        best_t, best_k, k = 1, self.costs[0], 0
        for t, cost in enumerate(self.costs, start=1):
            k += cost
            if k * best_t**2 <= best_k * t**2:
                best_t, best_k = t, k
            elif stop:
                break
        return Mean(best_t, best_k, Fraction(best_k, best_t**2))


@dataclass(frozen=True)
class CountingScheme:
    """How representations are counted: rule, noise, and levels of one category."""

    rule: BreakdownRule = BreakdownRule.PLAIN
    same_noise: bool = True
    single: Single = Single.KEEP
    unit: str | None = None


def representations(
    programme: StaticProgramme, areas: Mapping[str, int], count: CountingScheme, target: Iterable[str] | None = None
) -> dict[Target, Representations]:
    """The representations of every target of a programme, or of one, by target.

    Args:
        programme: The programme.
        areas: Numbers of areas by name.
        count: How representations are counted.
        target: The levels of one statistic; without it, all statistics.

    Returns:
        The costs of the representations, by target.

    >>> from confide.lab.risk.bounded_noise.static_programme import load_programme
    >>> eu = load_programme("eu-2021")
    >>> sex = representations(eu, eu.areas("MT"), CountingScheme(), {"SEX"})[frozenset({"SEX"})]
    >>> sex.t, round(sex.mean().ratio, 5)
    (615, 0.11597)
    """
    wanted = None if target is None else frozenset(target)
    costs: dict[Target, list[int]] = {}
    for statistic, _, _, cost in _ways(programme, areas, count, wanted):
        costs.setdefault(statistic, []).append(cost)
    if wanted is not None and wanted not in costs:
        raise ParameterError("unknown-target", where=Place(path="--target"), found=target_name(wanted)[:80])
    return {statistic: Representations(statistic, tuple(sorted(listed))) for statistic, listed in costs.items()}


def each_representation(
    programme: StaticProgramme, areas: Mapping[str, int], count: CountingScheme, target: Target
) -> Iterator[tuple[str | None, Target, int]]:
    """Every representation of one target: the table, if it matters which, what is added up, and its cost in cells."""
    for _, table, summed, cost in _ways(programme, areas, count, target):
        yield table, summed, cost


def riskiest(by_target: Mapping[Target, Representations], optimum: Optimum = Optimum.GREEDY) -> list[Representations]:
    """All targets, those with the smallest k/t² first.

    Args:
        by_target: Representations by target.
        optimum: Which mean an attacker takes.

    Returns:
        The representations, riskiest first.
    """
    return sorted(
        by_target.values(), key=lambda item: (item.mean(optimum).exact_ratio, -item.t, target_name(item.target))
    )


def triples(programme: StaticProgramme, areas: Mapping[str, int], count: CountingScheme) -> int:
    """How many independent triples F + M = T a programme has: for every breakdown in two, the margins it is crossed
    with.

    The k of the target SEX, in a programme where sex alone has two categories (Bach 2020, section 3.2).

    Args:
        programme: The programme.
        areas: Numbers of areas by name.
        count: How representations are counted.

    Returns:
        The number of triples.

    >>> from confide.lab.risk.bounded_noise.static_programme import load_programme
    >>> eu = load_programme("eu-2021")
    >>> triples(eu, eu.areas("MT"), CountingScheme())
    463671
    """
    halves = {
        level.name
        for _, dims in _dimensions(programme, areas, count)
        for levels in dims
        for level in levels
        if level.size == 2  # two halves and their whole
    }
    return sum(representations(programme, areas, count, {name})[frozenset({name})].k for name in halves)


def target_name(target: Iterable[str]) -> str:
    """A target in words: its levels, or ``total``."""
    return " ".join(sorted(target)) or TOTAL


def parse_target(text: str) -> Target:
    """A target as typed: names of levels with spaces, commas, ``*`` or ``+`` in between; ``total`` for none."""
    words = text.replace(",", " ").replace("*", " ").split()
    return frozenset() if [word.lower() for word in words] == [TOTAL] else frozenset(words)


def _ways(
    programme: StaticProgramme, areas: Mapping[str, int], count: CountingScheme, wanted: Target | None
) -> Iterator[tuple[Target, str | None, Target, int]]:
    """Every representation that counts: its target, its table or none, what is added up, its cost."""
    once = count.rule is BreakdownRule.INNER_LEVELS
    seen: set[tuple[Target, Target]] = set()
    for number, dims in _dimensions(programme, areas, count):
        if wanted is not None and not wanted <= {level.name for levels in dims for level in levels}:
            continue
        for statistic, summed, cost in _choices(dims, wanted):
            if not count.same_noise and (summed or not once):
                yield statistic, number, summed, cost
            elif (statistic, summed) not in seen:
                seen.add((statistic, summed))
                yield statistic, None if count.same_noise else number, summed, cost


def _dimensions(
    programme: StaticProgramme, areas: Mapping[str, int], count: CountingScheme
) -> Iterator[tuple[str, list[tuple[BreakdownLevel, ...]]]]:
    least = 2 if count.single is Single.MERGE else 1
    for number, table in programme.of_unit(count.unit).items():
        counted = (
            tuple(level for level in programme.levels(name, areas, count.rule) if level.size >= least) for name in table
        )
        yield number, [levels for levels in counted if levels]


def _choices(dims: Sequence[tuple[BreakdownLevel, ...]], wanted: Target | None) -> Iterator[tuple[Target, Target, int]]:
    """Every way to use a table: the target, what is added up, and how many cells that takes.

    Each breakdown is left at its total, part of the target, or added up, at one of its levels.
    """
    options: list[list[tuple[str | None, BreakdownLevel | None]]] = []
    for levels in dims:
        names = [level.name for level in levels]
        fixed_names = [name for name in names if wanted is None or name in wanted]
        adding: list[tuple[str | None, BreakdownLevel | None]] = [(None, None), *((None, level) for level in levels)]
        fixing: list[tuple[str | None, BreakdownLevel | None]] = [(name, None) for name in fixed_names]
        options.append(fixing if wanted is not None and fixed_names else adding + fixing)
    for choice in product(*options):
        statistic = frozenset(name for name, _ in choice if name is not None)
        added = [level for _, level in choice if level is not None]
        yield statistic, frozenset(level.name for level in added), prod(level.size for level in added)


def _sum_of_inverses(costs: Iterable[int]) -> Fraction:
    """∑ 1/k exactly; costs repeat, and equal ones are added first."""
    times: dict[int, int] = {}
    for cost in costs:
        times[cost] = times.get(cost, 0) + 1
    # Pairwise, so that the large denominators meet only at the end.
    terms = [Fraction(number, cost) for cost, number in sorted(times.items())]
    while len(terms) > 1:
        terms = [sum(terms[place : place + 2], Fraction(0)) for place in range(0, len(terms), 2)]
    return terms[0]


# Massive averaging, carried out: the mean of independent representations of a count (Bach 2020, equations 19, 20).
#
# The attacker asks for published cells and adds them up. How a cell is looked up is left to a function, so that the
# attack runs on a release, on files, or on simulated noise alike: ``query(representation)`` gives the cells that
# represent the target, along the last axis; further axes in front are attacked side by side.


@dataclass(frozen=True, slots=True)
class Representation:
    """One way to have the target: add up the margin ``target`` ∪ ``summed`` of a table over ``summed``, ``cost`` cells.

    ``table`` is None where the same members have the same noise, as then all tables give the same cells.
    """

    target: Target
    summed: Target
    cost: int
    table: str | None


Query = Callable[[Representation], NDArray[Any]]


@dataclass(frozen=True)
class AveragingEstimate:
    """The mean, the whole number next to it, and what it was made of."""

    mean: NDArray[np.float64]
    count: NDArray[np.int64]
    t: int
    k: int
    ratio: float


def chosen_representations(
    programme: StaticProgramme,
    areas: Mapping[str, int],
    count: CountingScheme,
    target: Target,
    optimum: Optimum = Optimum.GREEDY,
) -> list[Representation]:
    """The representations that an attacker uses, cheapest first.

    Args:
        programme: The programme.
        areas: Numbers of areas by name.
        count: How representations are counted.
        target: The statistic.
        optimum: Which mean the attacker takes.

    Returns:
        What is added up for each of them.
    """
    ordered = sorted(
        (
            Representation(target, summed, cost, table)
            for table, summed, cost in each_representation(programme, areas, count, target)
        ),
        key=lambda item: (item.cost, sorted(item.summed), item.table or ""),
    )
    used = Representations(target, tuple(item.cost for item in ordered)).mean(optimum).t
    return ordered[:used]


def average(used: list[Representation], query: Query, optimum: Optimum = Optimum.GREEDY) -> AveragingEstimate:
    """The mean of representations, equally weighted or by 1/k; the count is the whole number next to it.

    Args:
        used: The representations.
        query: Gives the published cells of a representation, along the last axis.
        optimum: Equal weights, or 1/k.

    Returns:
        The mean, and the whole number next to it.
    """
    if optimum is Optimum.INVERSE_VARIANCE:
        weights = np.array([1 / item.cost for item in used])
        weights /= weights.sum()
    else:
        weights = np.full(len(used), 1 / len(used))
    # Sums of cells are whole; weights of equal size are applied once, so that t sums of a true count give it exactly.
    sums = [np.asarray(query(item)).sum(axis=-1) for item in used]
    if optimum is Optimum.INVERSE_VARIANCE:
        mean = sum(weight * total for weight, total in zip(weights, sums, strict=True))
    else:
        mean = np.sum(sums, axis=0) / len(used)
    costs = np.array([item.cost for item in used])
    means = np.asarray(mean, dtype=np.float64)
    return AveragingEstimate(
        mean=means,
        count=np.rint(means).astype(np.int64),
        t=len(used),
        k=int(costs.sum()),
        ratio=float((weights**2 * costs).sum()),
    )
