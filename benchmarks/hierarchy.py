"""Posteriors of adversaries with hierarchical information: ``python -m benchmarks.hierarchy [--json]``.

Three ways to the posterior for one released (x1*, x2*, y*), on one core and measured in turn within one run:

* Confide, in bulk: exact sums for many releases at once;
* Confide, one release at a time;
* the published Gibbs sampler in plain numpy, a thousand draws for a release, whose answer is off by about 0.016.

And the posterior of a target in a tree of three levels with thirty children each. Bars: a hundred microseconds in bulk,
three seconds for the tree.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import expit

from confide.lab.risk.bayesian import Flat, Tree, TreeNode, TwoLevel, target_leaf

RHO1, RHO2, SIBLINGS = "0.099226354", "0.24648451", 27
BARS = {"bulk_microseconds": 100.0, "tree_seconds": 3.0}
_RELEASES, _SWEEPS = 20_000, 1000


def gibbs(x1: int, x2: int, y: int, draw: np.random.Generator) -> float:
    """The share of draws with X1 = 1."""
    rho1, rho2 = float(RHO1), float(RHO2)
    grid = np.arange(60)
    laws = []
    for k1 in (0, 1):
        weights = np.exp(-rho2 * (x2 - grid) ** 2 - rho1 / SIBLINGS * (y + k1 - grid) ** 2) * (grid >= k1)
        laws.append(np.cumsum(weights) / weights.sum())
    chances = expit(rho1 * (2 * x1 - 1) + rho1 / SIBLINGS * (2 * (grid - y) - 1)) * (grid >= 1)
    state, total = 0, 0
    for first, second in draw.random((_SWEEPS, 2)):
        state = int(second < chances[min(int(np.searchsorted(laws[state], first)), 59)])
        total += state
    return total / _SWEEPS


def large_tree() -> Tree:
    """Three levels, thirty children each, counts up to three thousand."""
    draw = np.random.default_rng(3)
    middle = []
    for place in range(30):
        counts = draw.integers(0, 200, 30).tolist()
        leaves = [
            TreeNode(f"{place}.{each}", rho=RHO1, released=count, prior=Flat(3000)) for each, count in enumerate(counts)
        ]
        if place == 0:
            leaves[0] = target_leaf("target", rho=RHO1, released=1)
        middle.append(TreeNode(f"{place}", *leaves, rho=RHO2, released=sum(counts)))
    return Tree(TreeNode("root", *middle, rho="0.05", released=sum(node.released or 0 for node in middle)))


def seconds(once: Callable[[], object], rounds: int) -> float:
    """The median of the CPU time of one call."""
    once()
    times = []
    for _ in range(rounds):
        begin = time.process_time()
        once()
        times.append(time.process_time() - begin)
    return statistics.median(times)


def measure(rounds: int) -> dict[str, Any]:
    model, draw = TwoLevel(RHO1, RHO2, SIBLINGS), np.random.default_rng(1)
    released = draw.integers(-5, 8, _RELEASES), draw.integers(-3, 8, _RELEASES), draw.integers(-30, 31, _RELEASES)
    tree = large_tree()
    one = 1e6 * seconds(lambda: [model.posterior(2, 1, -1) for _ in range(100)], rounds) / 100
    bulk = 1e6 * seconds(lambda: model.posterior(*released), rounds) / _RELEASES
    sampled = 1e6 * seconds(lambda: gibbs(2, 1, -1, draw), rounds)
    return {
        "rounds": rounds,
        "bulk_microseconds": bulk,
        "single_microseconds": one,
        "gibbs_microseconds": sampled,
        "ratio_gibbs": sampled / bulk,
        "tree_seconds": seconds(lambda: tree.posterior("target"), min(rounds, 3)),
    }


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and fail if a bar is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hierarchy", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--rounds", type=int, default=5, help="rounds (default 5)")
    options = parser.parse_args(arguments)
    result = measure(options.rounds)
    if options.json:
        print(json.dumps(result, indent=2))
    else:
        print("Posterior of one target, one core, medians\n")
        print(f"{'Confide, exact, in bulk':44}{result['bulk_microseconds']:>12,.1f} microseconds")
        print(f"{'Confide, exact, one at a time':44}{result['single_microseconds']:>12,.1f} microseconds")
        print(f"{'Gibbs sampler, a thousand draws':44}{result['gibbs_microseconds']:>12,.1f} microseconds")
        print(f"{'Confide in bulk is faster by':44}{result['ratio_gibbs']:>12,.0f} times")
        print(f"{'A tree of 30 × 30 leaves, counts to 3,000':44}{result['tree_seconds']:>12,.2f} seconds")
    missed = [name for name, bar in BARS.items() if result[name] > bar]
    if missed:
        print(f"above the bar: {', '.join(missed)}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
