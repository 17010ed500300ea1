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
from decimal import Context, Decimal
from enum import StrEnum
from fractions import Fraction
from itertools import product
from math import ceil, expm1, log1p, log10, prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confide.errors import ParameterError, Place
from confide.lab.risk.bounded_noise.noise_rows import LEVEL, checked_level, symmetric_row
from confide.lab.risk.bounded_noise.static_programme import BreakdownLevel, BreakdownRule, StaticProgramme
from confide.noise.max_entropy import MaxEntropyRow, NoiseRow, uniform_variance

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


# Revealing the bound of noise, and what knowing it gives away (Bach 2020, section 3.2; Asghar & Kaafar 2020).
#
# Three published counts with F + M = T in truth have independent noise, so s = F + M − T is noise alone. |s| > 3(E−1)
# happens only if all three noises are large, and then ⌈|s|/3⌉ = E (equation 10). The probability for one triple is
#
#   p₁ = P(|s| > 3(E−1)),
#
# of both signs, as for uniform noise p₁ = 20/(2E+1)³; it is summed here exactly from the convolution of the three laws.
# A release with n independent triples reveals E with probability 1 − (1−p₁)ⁿ, and m = ⌈ln(1−α)/ln(1−p₁)⌉ triples are
# needed for probability α (equation 11). With E known, |s| = 3E says that each noise was ±E: the three true counts
# follow. That happens with probability 2p(E)³.


_STEP = Fraction(1, 1000)
_DIGITS = 40


@dataclass(frozen=True)
class BoundRisk:
    """What triples tell about the bound of one row of noise, at a confidence level."""

    row: MaxEntropyRow
    level: float = LEVEL

    @property
    def exact_p1(self) -> Fraction:
        """p₁, summed exactly from the row's probabilities as they are stored."""
        return _both_tails(self.row)

    @property
    def p1(self) -> float:
        return float(self.exact_p1)

    @property
    def m(self) -> int:
        """The triples that reveal the bound with the probability ``level``."""
        return tuples_needed(self.exact_p1, self.level)

    @property
    def log10_m(self) -> float:
        """The logarithm of m, which can be beyond any floating-point number."""
        return log10(self.m)

    @property
    def exact_triple(self) -> float:
        """2p(E)³: the probability that a triple gives its three true counts away, once the bound is known."""
        p = Fraction(self.row.pmf(self.row.bound))
        return float(2 * p**3)

    def revealed(self, triples: int) -> float:
        """The probability that so many triples reveal the bound."""
        return -expm1(triples * log1p(-self.p1)) if self.p1 < 1 else 1.0

    def expected_exact(self, triples: int) -> float:
        """How many triples are expected to give their counts away, once the bound is known."""
        return triples * self.exact_triple

    def as_dict(self) -> dict[str, object]:
        """The numbers as plain values."""
        return {
            "D": self.row.bound,
            "V": float(self.row.variance_limit),
            "variance": self.row.variance,
            "attained": self.row.attained,
            "b": self.row.b,
            "alpha": self.level,
            "p1": self.p1,
            "m": json_integer(self.m),
            "log10_m": self.log10_m,
            "p_bound": self.row.pmf(self.row.bound),
            "exact_triple": self.exact_triple,
        }


def bound_risk(bound: int, variance: Fraction | int | str, level: float = LEVEL) -> BoundRisk:
    """The risk for the row of maximum entropy with a bound and a variance.

    Args:
        bound: The largest noise, E.
        variance: The variance of the noise.
        level: The confidence level.

    Returns:
        The probabilities of a triple, and the triples that are needed.

    >>> risk = bound_risk(5, 2)
    >>> f"{risk.p1:.2e} {risk.m:.2e}"
    '1.52e-07 7.49e+06'
    """
    return BoundRisk(symmetric_row(bound, variance), checked_level(level))


def tuples_needed(p1: Fraction, level: float = LEVEL) -> int:
    """m = ⌈ln(1−α)/ln(1−p₁)⌉, for p₁ as small as one likes."""
    checked_level(level)
    if p1 >= 1:
        return 1
    context = Context(prec=_DIGITS)
    tail = context.ln(1 - Decimal(level)).copy_negate()
    if p1 > Fraction(1, 10**9):
        per_triple = context.ln(
            context.divide(Decimal((1 - p1).numerator), Decimal((1 - p1).denominator))
        ).copy_negate()
    else:
        # −ln(1−p) = p + p²/2 + p³/3 + …; what is left out is below p³ of the whole.
        series = p1 + p1**2 / 2 + p1**3 / 3
        per_triple = context.divide(Decimal(series.numerator), Decimal(series.denominator))
    return max(1, ceil(Fraction(context.divide(tail, per_triple))))


def largest_protected_variance(bound: int, triples: int, level: float = LEVEL) -> Fraction:
    """The largest variance, in thousandths, at which more than ``triples`` are needed; 0 if even the smallest is too
    much.

    p₁ rises with the variance until the row is uniform, so bisection finds it. Where a uniform row is still protected,
    any variance is, and E(E+1)/3 is returned.

    Args:
        bound: The largest noise, E.
        triples: How many triples there are.
        level: The confidence level.

    Returns:
        The variance.

    >>> float(largest_protected_variance(5, 10**6))
    2.361
    """
    top = uniform_variance(bound)
    if bound_risk(bound, top, level).m > triples:
        return top
    low, high = 0, ceil(top / _STEP)
    while high - low > 1:
        middle = (low + high) // 2
        if bound_risk(bound, middle * _STEP, level).m > triples:
            low = middle
        else:
            high = middle
    return low * _STEP


def grid(bounds: Iterable[int], variances: Iterable[Fraction], level: float = LEVEL) -> list[dict[str, object]]:
    """m over the plane of bound and variance (Bach 2020, Figure 1)."""
    listed = list(variances)
    return [bound_risk(bound, variance, level).as_dict() for bound in bounds for variance in listed]


def json_integer(value: int) -> int | float | None:
    """A whole number for JSON: exact where floating point is, rounded above, none where nothing can hold it."""
    if value <= 2**53:
        return value
    return float(value) if value < 10**308 else None


def _both_tails(row: NoiseRow) -> Fraction:
    """P(|F + M − T| ≥ 3E−2), the part of the convolution that is asked for, summed exactly.

    The three noises, that of T mirrored, fall short of ±E by at most 2 together, so that values further inside play no
    part.
    """
    bound, total = row.bound, Fraction(0)
    near = range(3)
    for side in (1, -1):
        for first, second, third in product(near, near, near):
            if first + second + third <= 2:  # 3E − (3E − 2)
                f, m, t = side * (bound - first), side * (bound - second), -side * (bound - third)
                total += Fraction(row.pmf(f)) * Fraction(row.pmf(m)) * Fraction(row.pmf(t))
    return total


# The attack on the bound, carried out on published numbers.
#
# Given arrays F, M and T with F + M = T in truth, each with noise within ±E:
#
# * the bound is estimated by Ê = max ⌈|F + M − T|/3⌉ over all triples; it is never too large, and right as soon as one
#   triple has three large noises (:mod:`confide.lab.risk.bounded_noise.averaging`);
# * with the bound known, each true count lies within E of what is published, and is not negative; the equation narrows
#   the three intervals further, and a count is recovered where one value is left. For counts that are large compared
#   with E that is where F + M − T = ±3E.
#
# If zeros are known never to be perturbed, as in the cell key method, a published count above zero was not zero: one
# more fact for small counts (Enderle, Giessing & Tent 2020).


Counts = NDArray[np.int64]
Truths = NDArray[np.bool_]


@dataclass(frozen=True)
class CountIntervals:
    """What is known of each true count: an interval, and whether it is one value."""

    lowest: Counts
    highest: Counts

    @property
    def known(self) -> Truths:
        return np.asarray(self.lowest == self.highest)


@dataclass(frozen=True)
class BoundAttack:
    """The bound as estimated or given, and what it gives away. ``consistent``: triples that the bound can explain."""

    bound: int
    f: CountIntervals
    m: CountIntervals
    t: CountIntervals
    consistent: Truths

    @property
    def triples_recovered(self) -> int:
        """Triples whose three counts are all known."""
        return int(np.count_nonzero(self.f.known & self.m.known & self.t.known & self.consistent))


def estimate_bound(f: ArrayLike, m: ArrayLike, t: ArrayLike) -> int:
    """Ê = max ⌈|F + M − T|/3⌉ (Bach 2020, equation 10).

    Args:
        f: Published counts, an array of whole numbers.
        m: Counts of the other half, of the same shape.
        t: Counts of both together, of the same shape.

    Returns:
        The estimate, which is never too large.

    >>> estimate_bound([3], [2], [11])
    2
    """
    first, second, total = _arrays(f, m, t)
    largest = int(np.abs(first + second - total).max(initial=0))
    return -(-largest // 3)


def attack_bound(
    f: ArrayLike, m: ArrayLike, t: ArrayLike, *, bound: int | None = None, zeros_kept: bool = False
) -> BoundAttack:
    """Recover counts where one value is left, with the bound given or estimated.

    Args:
        f: Published counts, an array of whole numbers.
        m: Counts of the other half, of the same shape.
        t: Counts of both together, of the same shape.
        bound: The largest noise, if it is known; otherwise it is estimated.
        zeros_kept: Whether zeros are known never to be perturbed.

    Returns:
        An interval for each true count.

    >>> found = attack_bound([3], [2], [11], bound=2)
    >>> [int(part.lowest[0]) for part in (found.f, found.m, found.t)], found.triples_recovered
    ([5, 4, 9], 1)
    """
    parts = _arrays(f, m, t)
    within = estimate_bound(*parts) if bound is None else bound
    lows = [np.maximum(part - within, np.where(part > 0, 1 if zeros_kept else 0, 0)) for part in parts]
    highs = [part + within for part in parts]
    # One equation: each interval follows from the other two, and narrowing once is all that can be said.
    narrow = (
        CountIntervals(np.maximum(lows[0], lows[2] - highs[1]), np.minimum(highs[0], highs[2] - lows[1])),
        CountIntervals(np.maximum(lows[1], lows[2] - highs[0]), np.minimum(highs[1], highs[2] - lows[0])),
        CountIntervals(np.maximum(lows[2], lows[0] + lows[1]), np.minimum(highs[2], highs[0] + highs[1])),
    )
    consistent = np.logical_and.reduce([part.lowest <= part.highest for part in narrow])
    return BoundAttack(within, *narrow, consistent)


def _arrays(f: ArrayLike, m: ArrayLike, t: ArrayLike) -> tuple[Counts, Counts, Counts]:
    parts = [np.asarray(part) for part in (f, m, t)]
    if any(part.dtype.kind not in "iu" for part in parts) or len({part.shape for part in parts}) != 1:
        raise ParameterError("bad-triples", found=", ".join(f"{part.dtype} {part.shape}" for part in parts))
    first, second, total = (part.astype(np.int64) for part in parts)
    return first, second, total
