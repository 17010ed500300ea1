"""Least squares of a node, side by side: ``python -m benchmarks.estimation [--json]``.

Made-up problems of the shapes that a release meets, solved in turn by Confide's whole chain (preparation, solve,
certificate) and by PIQP on the same preparation (the sparse form with a variable for each margin). CPU time, medians
over problems; the ratio is what travels to other machines. Goals are those of the two-core machine on which the system
was sized. One thread of linear algebra, as the workers of a run have it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections import Counter
from typing import Any

import numpy as np
from tests.kits.least_squares import made_up
from threadpoolctl import threadpool_limits

from confide.estimation.least_squares import interior_point, solve
from confide.estimation.prepare import prepare, reference_point

SHAPES: list[tuple[str, str, int, int, dict[str, Any], float, int, bool]] = [
    ("block", "block", 85, 25, {"gq": True}, 3, 40, True),
    ("block group, total within 0.01", "group", 140, 3, {"gq": True, "slack": 0.01}, 5, 30, True),
    ("tract, total within 0.01", "tract", 280, 20, {"gq": True, "slack": 0.01}, 130, 8, True),
    ("tract, equal weights", "equal", 280, 20, {"gq": True, "slack": 0.01}, 130, 4, True),
    ("county, 140 tracts, total within 0.01", "tract", 600, 140, {"gq": True, "slack": 0.01}, 3000, 1, False),
    ("state, 60 counties, total within 0.01", "county", 1000, 60, {"gq": True, "slack": 0.01}, 1000, 3, False),
    ("state, 60 counties, no zeros", "county", 1000, 60, {"slack": 0.01}, 1000, 2, False),
    ("nation, 51 states", "state", 2016, 51, {"gq": True, "slack": 0.01}, 3000, 1, False),
]
"""(name, level, cells, children, constraints, goal in ms, problems, whether PIQP is asked as well)."""


def measure() -> list[dict[str, Any]]:
    """Times in ms and ratios, one row for each shape."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    solve(made_up(np.random.default_rng(0), 20, 3, "group"))
    results = []
    for name, level, cells, children, constraints, goal, problems, peer in SHAPES:
        ours, theirs, gaps, outcomes = [], [], [], Counter[str]()
        for seed in range(problems):
            problem = made_up(np.random.default_rng(seed), cells, children, level, **constraints)
            begin = time.process_time()
            _, report = solve(problem)
            ours.append(1000 * (time.process_time() - begin))
            outcomes[report.outcome.value] += 1
            gaps.append(report.certificate.relative_gap)
            if peer:
                begin = time.process_time()
                prepared = prepare(problem)
                interior_point(prepared, reference_point(prepared))
                theirs.append(1000 * (time.process_time() - begin))
        median = statistics.median(ours)
        results.append(
            {
                "shape": name,
                "cells": cells,
                "children": children,
                "ms": median,
                "ms_longest": max(ours),
                "goal_ms": goal,
                "ratio_piqp": statistics.median(theirs) / median if theirs else None,
                "largest_gap": max(gaps),
                "outcomes": dict(outcomes),
            }
        )
    return results


def report(results: list[dict[str, Any]]) -> str:
    """A small table for people."""
    lines = [f"{'':40}{'cells':>6}{'units':>6}{'ms':>10}{'longest':>10}{'goal':>7}{'PIQP / ours':>13}{'gap':>10}  by"]
    for row in results:
        ratio = "" if row["ratio_piqp"] is None else f"{row['ratio_piqp']:.1f}"
        by = ", ".join(f"{name} {count}" for name, count in row["outcomes"].items())
        lines.append(
            f"{row['shape']:40}{row['cells']:>6}{row['children']:>6}{row['ms']:>10.1f}{row['ms_longest']:>10.1f}"
            f"{row['goal_ms']:>7.0f}{ratio:>13}{row['largest_gap']:>10.0e}  {by}"
        )
    return "\n".join(lines)


def main() -> int:
    """Prints the table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    with threadpool_limits(1):
        results = measure()
    print(json.dumps(results) if parser.parse_args().json else report(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
