"""Controlled rounding on one core: ``python -m benchmarks.rounding [--json]``.

Made-up children of one parent in the persons' schema of the 2020 Census (8 × 2 × 2 × 63 cells), two kinds:

* *typical*: most cells of most children are empty or whole, as after non-negative least squares;
* *dense*: every cell of every child is fractional, as bad as it gets.

Totals come first, then hhgq (with bounds), hhgq*hispanic, hhgq*hispanic*cenrace and the cells, counted twice. For
each size: ``round_counts`` as a whole, the simplex pivots, and on the smaller ones the same problem through HiGHS
(``scipy.optimize.linprog``), which is the fallback. The distances of the two are compared, and have to be equal.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from typing import Any

import numpy as np

from confide.estimation.rounding import (
    Partition,
    RoundingProblem,
    objective,
    round_counts,
    rounding_remainder,
    solve_linear,
)

SIZES = {(60, 10): 20, (85, 25): 20, (300, 20): 10, (300, 200): 3, (500, 500): 1, (600, 2500): 1}
"""Cells × children, and how many instances of each."""
BARS = {"60x10": 0.002, "85x25": 0.006, "300x20": 0.020, "300x200": 2.0, "500x500": 20.0, "600x2500": 60.0}
"""Seconds; twice the goals for the small ones, since machines differ."""
_LARGEST_FOR_HIGHS = 6_000
_LARGEST_DENSE = 250_000
_SHAPE = (8, 2, 2, 63)


def made_up(cells: int, children: int, seed: int, kind: str) -> RoundingProblem:
    """A problem with a solution: rows scaled to whole parent counts, bounds that the estimate keeps."""
    rng = np.random.default_rng(seed)
    weight = rng.lognormal(0, 2, int(np.prod(_SHAPE))).reshape(_SHAPE)
    weight *= np.array([150, 1, 0.1, 1, 0.1, 1.5, 0.3, 0.6])[:, None, None, None]
    weight *= (1.0 + np.arange(63)) ** -1.6
    chosen = np.sort(np.argsort(-weight.ravel() * rng.gamma(0.5, 1, weight.size), kind="stable")[:cells])
    parent = 1 + rng.poisson(30 * cells * weight.ravel()[chosen] / weight.ravel()[chosen].sum())
    hhgq, _, hispanic, cenrace = np.unravel_index(chosen, _SHAPE)
    allowed = np.ones((cells, children), np.bool_)
    if kind == "typical":
        for number in range(1, 8):  # few children have group quarters
            there = rng.random(children) < 0.15
            there[rng.integers(children)] = True
            allowed[hhgq == number] = there
    share = rng.dirichlet(np.full(children, 1.5)) * rng.gamma(3, 1 / 3, (cells, children)) * allowed
    share /= share.sum(axis=1, keepdims=True)
    if kind == "typical":
        estimate = np.array([rng.multinomial(p, row) for p, row in zip(parent, share, strict=True)], float)
        estimate += np.where(allowed, rng.laplace(0, 2, estimate.shape), -np.inf)
        estimate = np.array([_onto_simplex(row, p) for row, p in zip(estimate, parent, strict=True)])
    else:
        estimate = share * parent[:, None]
    sums = np.zeros((8, children))
    np.add.at(sums, hhgq, estimate)
    lower = np.minimum(np.floor(sums + 1e-9).astype(np.int64), 1)
    chain = (
        Partition("total", hhgq * 0),
        Partition("hhgq", hhgq, 1, lower=lower, upper=np.where(sums > 0, 99_999, 0)),
        Partition("hhgq*hispanic", hhgq * 2 + hispanic, 1),
        Partition("hhgq*hispanic*cenrace", (hhgq * 2 + hispanic) * 63 + cenrace, 1),
    )
    return RoundingProblem(estimate, parent, chain, 2, 1, allowed)


def _onto_simplex(values: np.ndarray, total: int) -> np.ndarray:
    """The nearest point with no negative entry and the given sum."""
    ordered = np.sort(values[np.isfinite(values)])[::-1]
    excess = (np.cumsum(ordered) - total) / np.arange(1, len(ordered) + 1)
    return np.maximum(values - excess[np.flatnonzero(ordered > excess)[-1]], 0.0)


def measure() -> list[dict[str, Any]]:
    """A row of figures for each kind and size."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    round_counts(made_up(10, 3, 0, "dense"))
    rows = []
    for kind in ("typical", "dense"):
        for (cells, children), instances in SIZES.items():
            if kind == "dense" and cells * children > _LARGEST_DENSE:
                continue
            own, highs, pivots, fractional = [], [], [], []
            for seed in range(instances):
                problem = made_up(cells, children, seed, kind)
                begin = time.process_time()
                result = round_counts(problem)
                own.append(time.process_time() - begin)
                pivots.append(result.report.pivots)
                fractional.append(float((problem.estimate % 1 > 1e-6).mean()))
                if cells * children <= _LARGEST_FOR_HIGHS:
                    left = rounding_remainder(problem)
                    begin = time.process_time()
                    linear = solve_linear(left)
                    highs.append(time.process_time() - begin)
                    assert linear.ups is not None
                    assert objective(left, linear.ups)[:-1] == result.report.distances
            rows.append(
                {
                    "kind": kind,
                    "size": f"{cells}x{children}",
                    "fractional": statistics.mean(fractional),
                    "seconds": statistics.median(own),
                    "pivots": int(statistics.median(pivots)),
                    "seconds_highs": statistics.median(highs) if highs else None,
                }
            )
    return rows


def report(rows: list[dict[str, Any]]) -> str:
    """A small table for people."""
    lines = ["Controlled rounding, one core, medians", ""]
    lines.append(f"{'':10}{'cells x children':>18}{'fractional':>12}{'ms':>12}{'pivots':>10}{'HiGHS LP, ms':>16}")
    for row in rows:
        highs = "" if row["seconds_highs"] is None else f"{1e3 * row['seconds_highs']:,.1f}"
        lines.append(
            f"{row['kind']:10}{row['size']:>18}{row['fractional']:>12.0%}{1e3 * row['seconds']:>12,.2f}"
            f"{row['pivots']:>10,}{highs:>16}"
        )
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and fail if a bar is missed on typical problems."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rounding", description="Time of controlled rounding.")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args(arguments)
    rows = measure()
    print(json.dumps(rows, indent=2) if options.json else report(rows))
    missed = [row["size"] for row in rows if row["kind"] == "typical" and row["seconds"] > BARS[row["size"]]]
    if missed:
        print(f"slower than the bar: {', '.join(missed)}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
