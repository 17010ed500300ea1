"""Whether tables agree with one another in what every reader can add up: the number of people of a unit."""

from __future__ import annotations

import numpy as np

from confide.attacks.reconstruction.marginals import Floats, Marginal, Published
from confide.errors import Finding, Place

NAMED = 5


def check_totals(published: Published) -> list[Finding]:
    """A finding for each unit whose exact tables count different numbers of people, and for each coarser unit whose
    blocks do not add up. Differences in finer figures are found when the programme is solved."""
    geography = published.geography
    known: list[tuple[Marginal, Floats]] = [
        (item, item.totals) for item in published.marginals if item.exact and item.totals is not None
    ]
    findings: list[Finding] = []
    first: dict[int, tuple[str, Floats]] = {}
    for item, totals in known:
        if item.depth not in first:
            first[item.depth] = (item.name, totals)
            continue
        name, other = first[item.depth]
        findings += _differences(published, item.depth, (name, other), (item.name, totals))
    if 0 in first:
        name, totals = first[0]
        for depth, (coarse, above) in first.items():
            if depth:
                of_block = geography.unit_of_block[depth]
                sums: Floats = np.bincount(of_block, totals, len(geography.units[depth])).astype(np.float64)
                label = f"{name}, summed over its {geography.levels[0]}s"
                findings += _differences(published, depth, (label, sums), (coarse, above))
    return findings


def _differences(published: Published, depth: int, one: tuple[str, Floats], two: tuple[str, Floats]) -> list[Finding]:
    with np.errstate(invalid="ignore"):
        apart = np.flatnonzero(np.abs(one[1] - two[1]) > 0)
    level, codes = published.geography.levels[depth], published.geography.units[depth]
    return [
        Finding(
            code="totals-differ",
            what=f"two tables count different numbers of people in {level} {codes[unit]}",
            where=Place(path=f"{one[0]}; {two[0]}"),
            found=f"{one[1][unit]:,.0f} and {two[1][unit]:,.0f}"
            + (f"; {len(apart):,} such units" if len(apart) > NAMED else ""),
            expected="the same number, because both are said to be exact",
            remedy='correct the tables; if they have noise, say so: variance = "..."',
        )
        for unit in apart[:NAMED].tolist()
    ]
