"""Noise throughput on one core, side by side: ``python -m benchmarks.noise [--json]``.

Three ways to draw noise of standard deviation 17 in blocks of whole numbers, measured in turn within one run:

* Confide: exact keyed draws, added in place to int64;
* OpenDP: its exact vector Gaussian on the same integers;
* numpy: ``rint(normal)`` to int64, which is neither exact nor secure, as the mark of what plain arrays can do.

Rates are draws per second of CPU time, medians over rounds; the ratios are what travels to other machines. Bars: 2,000
times OpenDP and 3 times numpy.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from confide.noise import DiscreteGaussian, ReleaseKey, add_noise, derive_stream

SIGMA = 17
BARS = {"ratio_opendp": 2000.0, "ratio_numpy": 3.0}
_BLOCK = 1 << 22
_OPENDP_BLOCK = 1 << 13
_HOW_TO_INSTALL = (
    "OpenDP is not installed: run `make bench`, which installs it, or `python -m pip install --group bench`"
)


def confide_draws() -> Callable[[], int]:
    """Adds exact noise to the same block again and again, each time at new coordinates."""
    stream = derive_stream(
        ReleaseKey.from_system(),
        records_fingerprint=b"no records",
        plan_hash=b"no plan",
        mechanism="benchmark",
        level="none",
        query="none",
    )
    law = DiscreteGaussian(SIGMA**2)
    counts = np.zeros(_BLOCK, np.int64)
    start = 0

    def once() -> int:
        nonlocal start
        add_noise(counts, law, stream, start)
        start += _BLOCK
        return _BLOCK

    return once


def numpy_draws() -> Callable[[], int]:
    """Rounded normal numbers as int64; they are not even added to anything."""
    generator = np.random.default_rng()

    def once() -> int:
        np.rint(generator.normal(0.0, SIGMA, _BLOCK)).astype(np.int64)
        return _BLOCK

    return once


def opendp_draws() -> Callable[[], int] | None:
    """OpenDP's integer Gaussian on a vector, or None where OpenDP is missing."""
    try:
        import opendp.prelude as dp  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return None
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
    measurement = dp.m.make_gaussian(*space, scale=float(SIGMA))
    counts = [0] * _OPENDP_BLOCK

    def once() -> int:
        measurement(counts)
        return _OPENDP_BLOCK

    return once


def measure(rounds: int) -> dict[str, Any]:
    """Rates and ratios. The contestants take turns, so that a busy machine slows all of them alike."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    makers = {"confide": confide_draws, "numpy": numpy_draws, "opendp": opendp_draws}
    contestants = {name: once for name, make in makers.items() if (once := make()) is not None}
    rates: dict[str, list[float]] = {name: [] for name in contestants}
    for once in contestants.values():
        once()
    for _ in range(rounds):
        for name, once in contestants.items():
            begin = time.process_time()
            draws = sum(once() for _ in range(4))
            rates[name].append(draws / (time.process_time() - begin))
    result: dict[str, Any] = {f"rate_{name}": statistics.median(values) for name, values in rates.items()}
    for peer in ("opendp", "numpy"):
        pairs = zip(rates["confide"], rates.get(peer, []), strict=False)
        ratios = [ours / theirs for ours, theirs in pairs]
        result[f"ratio_{peer}"] = statistics.median(ratios) if ratios else None
    return {"sigma": SIGMA, "rounds": rounds, **result}


def report(result: dict[str, Any]) -> str:
    """A small table for people."""
    lines = [f"Noise of standard deviation {SIGMA}, one core, medians of {result['rounds']} interleaved rounds", ""]
    labels = {"confide": "Confide, exact, keyed", "opendp": "OpenDP, exact", "numpy": "numpy rint(normal), inexact"}
    lines.append(f"{'':30}{'million draws / s':>20}{'Confide is faster by':>24}")
    for name, label in labels.items():
        rate, ratio = result.get(f"rate_{name}"), result.get(f"ratio_{name}")
        shown = "not installed" if rate is None else f"{rate / 1e6:,.3f}"
        lines.append(f"{label:30}{shown:>20}{'' if ratio is None else f'{ratio:,.1f} times':>24}")
    if result["ratio_opendp"] is None:
        lines += ["", _HOW_TO_INSTALL]
    return "\n".join(lines)


def below_bar(result: dict[str, Any]) -> list[str]:
    """The ratios that were measured and are too small."""
    return [name for name, bar in BARS.items() if result[name] is not None and result[name] < bar]


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and fail if a bar is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.noise", description="Noise throughput against peers.")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--rounds", type=int, default=7, help="interleaved rounds (default 7)")
    options = parser.parse_args(arguments)
    result = measure(options.rounds)
    print(json.dumps(result, indent=2) if options.json else report(result))
    missed = below_bar(result)
    if missed:
        print(f"below the bar: {', '.join(missed)}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
