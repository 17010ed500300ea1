"""Cell suppression: ``python -m benchmarks.suppression [--large]``.

Tables of made-up counts with two hierarchies, threshold 3 and singletons, from 525 to 93,100 cells: what is hidden by
``heuristic``, how long that and the audit of the whole take. Then small tables that ``optimal`` solves, and how much
more the patterns of the other two methods cost.
"""

from __future__ import annotations

import argparse
import os
import platform
import time

import numpy as np

from confide.mechanisms.suppression import (
    Attacker,
    Dimension,
    SuppressionResult,
    flat,
    suppress_tables,
    tree,
    with_totals,
)
from confide.mechanisms.suppression.suppress import Method

SEED = 7
SIZES = ((4, 4, 1), (4, 4, 2), (10, 10, 2), (20, 20, 2), (30, 30, 3))
"""Larger areas, smaller ones in each, and groups of the third variable."""
LARGE, MODULAR = 20, 2_000
"""Larger areas of the tables that are left out by default, and cells up to which ``modular`` is set beside."""
SMALL_TABLES = 72


def areas(larger: int, smaller: int) -> Dimension:
    """Areas in areas."""
    names = [f"a{number}" for number in range(larger)]
    return tree("area", {"_T": names} | {name: [f"{name}.{part}" for part in range(smaller)] for name in names})


def ages() -> Dimension:
    """Six age groups of three each."""
    names = [f"g{number}" for number in range(6)]
    return tree("age", {"_T": names} | {name: [f"{name}.{part}" for part in range(3)] for name in names})


def counts(dimensions: list[Dimension], seed: int, mean: float = 9.0) -> np.ndarray:
    """Uneven counts with all their totals: many small ones, few large."""
    rng = np.random.default_rng(seed)
    shape = tuple(sum(not parts for parts in dimension.children) for dimension in dimensions)
    return with_totals(dimensions, rng.poisson(rng.gamma(1.0, mean, size=shape)))


def described(dimensions: list[Dimension]) -> str:
    return " × ".join(f"{dimension.size} {dimension.name}" for dimension in dimensions)


def of_size(larger: int, smaller: int, groups: int) -> None:
    dimensions = [areas(larger, smaller), ages()]
    if groups > 1:
        dimensions.append(flat("sex", [f"s{number}" for number in range(groups)]))
    tables = {"t": (dimensions, counts(dimensions, SEED))}
    began = time.perf_counter()
    done = suppress_tables(tables, method="heuristic")
    middle = time.perf_counter()
    found = audited(done)
    end = time.perf_counter()
    primary = int(done.problem.levels.primary.sum())
    print(
        f"{described(dimensions):<32}{done.cells:>8,}{primary:>9,}{done.suppressed:>9,}"
        f"{middle - began:>9.1f} s{end - middle:>9.1f} s{found:>9,}",
        flush=True,
    )
    if done.cells <= MODULAR:
        began = time.perf_counter()
        other = suppress_tables(tables, method="modular")
        cheaper = 1 - other.pattern.cost / done.pattern.cost
        print(
            f"  modular: {cheaper:.0%} cheaper, {other.suppressed:,} hidden, {time.perf_counter() - began:.0f} s",
            flush=True,
        )


def audited(done: SuppressionResult) -> int:
    """How many primary cells an attacker knows more closely than the rule allows, by the interval of every cell."""
    problem, hidden = done.problem, done.pattern.suppressed
    size = len(problem.value)
    known = Attacker(problem.structure, problem.value.astype(float), hidden, np.zeros(size), np.full(size, np.inf))
    found = known.intervals()
    asked_low = problem.value - problem.levels.lower
    asked_high = problem.value + problem.levels.upper
    inside = (found.low <= asked_low + 1e-6) & (found.high >= asked_high - 1e-6)
    return int((problem.levels.primary & ~inside).sum())


def small() -> None:
    """The cost of patterns beside that of the best, over small tables."""
    dearer: dict[Method, list[float]] = {"heuristic": [], "modular": []}
    for seed in range(SMALL_TABLES):
        rng = np.random.default_rng(seed)
        dimensions = [
            areas(int(rng.integers(2, 4)), int(rng.integers(2, 4))),
            flat("sex", list("abcd"[: 2 + seed % 3])),
        ]
        table = {"t": (dimensions, counts(dimensions, seed, mean=float(rng.choice([3, 10, 40]))))}
        best = suppress_tables(table, method="optimal").pattern.cost
        for method, found in dearer.items():
            cost = suppress_tables(table, method=method).pattern.cost
            found.append(cost / best if best else 1.0)
    for method, found in dearer.items():
        share = np.mean(np.array(found) < 1 + 1e-9)
        print(
            f"{len(found)} tables that optimal solves: {method} costs {np.mean(found) - 1:.0%} more in the mean, "
            f"{max(found) - 1:.0%} at most; the best pattern in {share:.0%}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true", help="also the tables of 31,575 and 93,100 cells")
    options = parser.parse_args()
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    titles = f"{'cells':>8}{'primary':>9}{'hidden':>9}{'time':>11}{'audit':>11}{'unsafe':>9}"
    print(f"{'table':<32}{titles}")
    for size in SIZES:
        if options.large or size[0] < LARGE:
            of_size(*size)
    small()


if __name__ == "__main__":
    main()
