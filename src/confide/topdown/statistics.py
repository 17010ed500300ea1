"""How the estimates came about, level by level, for the manifest: what the solvers did, and what they could not prove.

The tallies travel with the estimates (``levels.TALLY``). They follow from measurements, frame and strategy alone, as
the estimates do, so publishing them is post-processing and costs nothing. Numbers are added and the largest of several
is taken; so neither groups, nor processes, nor an interruption shows. The gap is given as a power of ten, because the
last digits of a gap are rounding errors, which differ between machines.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from confide.estimation.certificate import GAP
from confide.estimation.rounding import Outcome as RoundingOutcome
from confide.estimation.solve import Outcome
from confide.runs.mechanism import Check
from confide.topdown.levels import TALLY

COPIED = "copied"
"""An only child, or the children of an empty parent: there was nothing to estimate."""
OUTCOMES = (COPIED, *(outcome.value for outcome in Outcome))


def read_statistics(folders: Mapping[str, Path]) -> dict[str, Any]:
    """The tallies of every level from its folder of estimates, and their sum."""
    tallies = {name: [_tally(file) for file in sorted(folder.glob("*.parquet"))] for name, folder in folders.items()}
    everything = [tally for of_level in tallies.values() for tally in of_level]
    return {"levels": {name: _added(of_level) for name, of_level in tallies.items()}, "whole": _added(everything)}


def solver_check(statistics: Mapping[str, Any]) -> Check:
    """Says how many least-squares problems were solved, and how many of them without a proof.

    An estimate whose optimality was not proved keeps every promise that is made exactly; it may be a little less
    accurate than it could be. So it is told, and the release is what it says all the same.
    """
    levels, whole = statistics["levels"], statistics["whole"]
    parts = [
        {outcome: level["least_squares"][outcome] for outcome in OUTCOMES} | {"nodes": level["nodes"]}
        for level in (*levels.values(), whole)
    ]
    adds_up = all(sum(part[key] for part in parts[:-1]) == parts[-1][key] for key in parts[-1])
    return Check("least squares", adds_up, solver_words(whole) if adds_up else "the levels do not add up to the whole")


def solver_words(whole: Mapping[str, Any]) -> str:
    """One line on the proofs of optimality."""
    solved, inexact, gap = problems(whole), whole["least_squares"][Outcome.INEXACT.value], whole["relative_gap_at_most"]
    shown = "" if gap is None else f"{gap:.0e}".replace("e-0", "e-").replace("e+0", "e+")
    if not inexact:
        return f"all {solved:,} problems proved to be within {shown} of the optimum"
    proved = "for some nothing is proved" if gap is None else f"the largest gap is at most {shown} of the objective"
    return f"{inexact:,} of {solved:,} problems not proved optimal; {proved}"


def problems(whole: Mapping[str, Any]) -> int:
    """How many least-squares problems there were."""
    return sum(int(number) for outcome, number in whole["least_squares"].items() if outcome != COPIED)


def _tally(file: Path) -> dict[str, Any]:
    tally: dict[str, Any] = json.loads(pq.read_schema(file).metadata[TALLY])
    return tally


def _added(tallies: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    parts = list(tallies)
    unknown = {outcome for tally in parts for outcome in tally["least_squares"]} - set(OUTCOMES)
    assert not unknown, f"outcomes that are not counted: {unknown}"
    roundings = [tally["rounding"] for tally in parts]
    return {
        "nodes": sum(tally["nodes"] for tally in parts),
        "least_squares": {o: sum(tally["least_squares"].get(o, 0) for tally in parts) for o in OUTCOMES},
        "fallbacks": sum(tally["fallbacks"] for tally in parts),
        "relative_gap_at_most": power_of_ten(max((tally["largest_gap"] for tally in parts), default=0.0)),
        "rounding": {
            "outcomes": {
                o.value: sum(rounding["outcomes"][o.value] for rounding in roundings) for o in RoundingOutcome
            },
            **{key: sum(rounding[key] for rounding in roundings) for key in ("open_cells", "pivots", "distance")},
            "largest_gap": max((rounding["largest_gap"] for rounding in roundings), default=0.0),
        },
    }


def power_of_ten(gap: float) -> float | None:
    """The least power of ten that a gap does not exceed, never below what is accepted as proved; None for no bound."""
    if gap <= GAP:
        return GAP
    if not math.isfinite(gap):
        return None
    exponent = Decimal(gap).adjusted()
    power = float(f"1e{exponent}")
    return power if gap <= power else float(f"1e{exponent + 1}")
