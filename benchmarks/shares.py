"""The shares of ``pl94-persons-2026``: ``python -m benchmarks.shares [--spec FILE …] [--gain T] [--write FILE]``.

Looks for shares on made-up states of several shapes, and nowhere else; ``--spec`` names others on which the result is
only looked at. Those that ship were found on Rhode Island 2010 (``docs/concepts/strategy.md``); what is found here is
shipped only if it is better by the same tables.

In every kind of area that users read (levels, places, districts, unions of blocks off the spine), and
for every query of the tables of the product, the mean variance of least squares over areas and cells is held within
that of production at its own budget: the measurements of the 2020 Census, estimated as well as linear estimates can be
that learn nothing from below, which production's passes are no better than. Totals and race by origin are the aims:
their variances are held within a part of production's, a small one in blocks and in unions of blocks (``--unions``),
where that is cheap, and a larger one elsewhere (``--gain``). The least budget of all shares that do so is a convex
problem (:func:`confide.estimation.tree_design.best_shares`); the parts are taken so small that it is that of 2020.

Nothing but frames is looked at: no person, made up or not, has a part in it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp

from benchmarks.processes import processor_time
from confide.arrays import Floats, Integers
from confide.documents import load_named
from confide.engines import LocalEngine
from confide.estimation.tree_design import (
    AreaFunctions,
    BestShares,
    LimitedVariances,
    best_shares,
    joined_counts,
    vectors_of,
)
from confide.inputs.made_up import nobody
from confide.lab.population import Population, write_population
from confide.lab.population.settings import load_settings
from confide.mechanisms import SPECS
from confide.mechanisms.topdown.evaluate import geographies
from confide.mechanisms.topdown.mechanism import TopDown
from confide.mechanisms.topdown.problem import TopDownProblem
from confide.mechanisms.topdown.strategy import BY_LEVEL, TREE, Strategy
from confide.mechanisms.topdown.strategy_file import STRATEGY, StrategyFile, load_strategy
from confide.mechanisms.topdown.targets import ShareDesign, cell_weights, cells_of, distinct_cells, strategy_text
from confide.releases.spec import load_spec

NAME, PRODUCTION, BUDGET = "pl94-persons-2026", "pl94-persons", Fraction(208, 125)
SPEC = f"""
[release]
name = "shares"
mechanism = "topdown"

[data]
records = "persons.parquet"
blocks = "blocks.parquet"

[geography]
levels = [
  {{ name = "state", digits = 2 }}, {{ name = "county", digits = 5 }}, {{ name = "tract", digits = 11 }},
  {{ name = "block_group", digits = 12 }},
]
areas = [
  {{ name = "place", column = "place", none = "99999" }}, {{ name = "cousub", column = "cousub" }},
  {{ name = "upper_district", column = "upper_district" }}, {{ name = "lower_district", column = "lower_district" }},
]

[privacy]
ledger = "none.ledger"
budget = "{{budget}}"

[topdown]
strategy = "{PRODUCTION}"
root = "state"
around = ["cousub", "place", "block_group", "upper_district", "lower_district"]
"""
SHAPES: dict[str, tuple[int, int, dict[str, dict[str, float]]]] = {
    "mixed": (200_000, 11, {}),
    "city": (
        400_000,
        12,
        {"spine": {"county_persons": 60_000.0}, "blocks": {"persons_urban": 130.0, "persons_rural": 90.0}},
    ),
    "rural": (
        90_000,
        13,
        {
            "spine": {"tract_persons": 2_600.0, "block_group_persons": 1_000.0, "county_persons": 1_500.0},
            "blocks": {"persons_urban": 30.0, "persons_rural": 16.0},
        },
    ),
}
"""Made-up states: persons, a seed, and what differs from the default settings of made-up people."""
QUERIES = (
    "total",
    "votingage",
    "hispanic",
    "hhgq",
    "cenrace",
    "hispanic*cenrace",
    "votingage*hispanic",
    "votingage*cenrace",
    "votingage*hispanic*cenrace",
)
"""The queries of the tables P1 to P5."""
RUNS, LOOSE = (10, 60, 400), "loose blocks"
"""Unions of blocks off the spine: runs of so many blocks in the order of their codes, and blocks from anywhere."""
AREAS, PERSONS_OF_A_DISTRICT = 6, 28_000
"""Of each kind so many areas are looked at; those of a kind are much alike."""
TINY = 1e-6
"""What is left of the shares of lower levels, for estimates that learn nothing from there."""


def lay_out(folder: Path, name: str) -> Path:
    """A made-up state of a shape, with two kinds of districts that follow no other boundary; its people are removed."""
    persons, seed, changes = SHAPES[name]
    base = load_settings("default")
    parts = {part: getattr(base, part).model_copy(update=values) for part, values in changes.items()}
    folder.mkdir(parents=True)
    write_population(Population(persons, seed, base.model_copy(update=parts)), folder)
    (folder / "persons.parquet").unlink()
    blocks = pq.read_table(folder / "blocks.parquet")
    order = np.argsort(np.array(blocks.column("geocode").to_pylist()))
    size = np.cumsum(blocks.column("housing_units").to_numpy()[order] + 0.01)
    number = max(3, persons // PERSONS_OF_A_DISTRICT)
    for column, districts in (("upper_district", number), ("lower_district", 2 * number + 1)):
        code = np.empty(len(order), np.int64)
        code[order] = np.minimum(size / size[-1] * districts, districts - 1).astype(np.int64)
        blocks = blocks.append_column(column, pa.array([f"{each:03}" for each in code.tolist()]))
    pq.write_table(blocks, folder / "blocks.parquet")
    spec = folder / "spec.toml"
    spec.write_text(SPEC.replace("{budget}", str(load_strategy(PRODUCTION, root="state").budget)))
    return spec


def opened(spec: Path, scratch: Path) -> TopDownProblem:
    """The problem of a spec, with nobody in it."""
    with LocalEngine(scratch / "engine", processes=1) as engine:
        return TopDown().prepare(load_spec(spec, SPECS).with_data(records=str(nobody(scratch))), engine)


@dataclass(frozen=True)
class Aims:
    """Which parts of production's variances the aims may have."""

    gain: float
    unions: float

    def part(self, kind: str, query: str) -> float:
        """For one kind of area and query."""
        if query not in ("total", "hispanic*cenrace"):
            return 1.0
        return self.unions if kind.endswith(("block", "blocks")) else self.gain


@dataclass(eq=False)
class State:
    """A frame with some areas of each kind, and the mean variances of all queries in them."""

    problem: TopDownProblem
    areas: int = AREAS

    @cached_property
    def shares(self) -> ShareDesign:
        return ShareDesign(self.problem)

    @cached_property
    def kinds(self) -> dict[str, tuple[Integers, int, str]]:
        """For each kind of area: the area of each block or −1, how many, and the lowest level that it is made of."""
        rng, spine = np.random.default_rng(5), self.problem.spine
        blocks = len(spine.rows)
        result: dict[str, tuple[Integers, int, str]] = {}
        for geography in geographies(self.problem):
            area = geography.unit_of_block[spine.rows]
            there = np.unique(area[area >= 0])
            if len(there):
                some = np.sort(rng.choice(there, min(len(there), self.areas), replace=False))
                place = np.full(geography.units + 1, -1, np.int64)
                place[some] = np.arange(len(some))
                result[geography.name] = (place[area], len(some), self._made_of(area))
        for size in RUNS:
            number = min(self.areas, blocks // size)
            label = np.full(blocks, -1, np.int64)
            for place, first in enumerate(rng.choice(blocks // size, number, replace=False) * size):
                label[first : first + size] = place
            result[f"{size} blocks"] = (label, number, "block")
        label = np.full(blocks, -1, np.int64)
        label[rng.permutation(blocks)[: 30 * self.areas]] = np.repeat(np.arange(self.areas), 30)
        return result | {LOOSE: (label, self.areas, "block")}

    def _made_of(self, area: Integers) -> str:
        """The highest level whose units these areas never cut."""
        for level in self.problem.spine.levels:
            first = area[level.first_block[:-1]]
            if (first[self.problem.spine.unit_of_block(level.name)] == area).all():
                return level.name
        raise AssertionError

    @cached_property
    def groups(self) -> list[tuple[str, str]]:
        """Kind of area and query of every mean."""
        return [(kind, query) for kind in self.kinds for query in QUERIES]

    @cached_property
    def counted(self) -> tuple[AreaFunctions, sp.csr_matrix]:
        """What is counted, and the means: kinds and queries x counts."""
        design, strategy = self.shares.design, self.problem.strategy
        parts: list[AreaFunctions] = []
        rows: list[Integers] = []
        weights: list[Floats] = []
        for row, (kind, query) in enumerate(self.groups):
            label, number, _ = self.kinds[kind]
            cells = cells_of(strategy, design.sectors, query)
            of_kind = cell_weights(design.sectors, cells)
            for cell, times in zip(distinct_cells(design.sectors, cells), of_kind, strict=True):
                parts.append(design.area_counts(label, vectors_of(design.sectors, [cell], np.ones((number, 1)))))
                rows.append(np.full(number, row))
                weights.append(np.full(number, times / of_kind.sum() / number))
        counts = joined_counts(parts)
        row_of = np.concatenate(rows)
        entries = (np.concatenate(weights), (row_of, np.arange(counts.number)))
        return counts, sp.csr_matrix(entries, shape=(len(self.groups), counts.number))

    def means(self, strategy: Strategy, *, from_below: bool = True) -> Floats:
        """The mean variance of each kind and query with a strategy and its budget; without what lower levels tell of
        upper ones if not ``from_below``."""
        counts, means = self.counted
        precisions = self.shares.precisions(strategy)
        everything = means @ np.maximum(self.shares.design.variances(precisions, counts)[0], 0.0)
        if from_below:
            return np.asarray(everything / float(strategy.budget), np.float64)
        levels = [level.name for level in self.problem.spine.levels]
        made_of = np.array([levels.index(self.kinds[kind][2]) for kind, _ in self.groups])
        for position in range(len(levels) - 1):
            scale = [1.0 if levels[place] in levels[: position + 1] else TINY for place in range(len(levels))]
            cut = [each * 1.0 for each in precisions]
            for place, factor in zip(self.shares.tree.position, scale, strict=True):
                cut[place] = precisions[place] * factor
            chosen = np.flatnonzero(made_of == position)
            rows = np.unique(means[chosen].indices)
            variances = self.shares.design.variances(cut, counts.chosen(rows))[0]
            everything[chosen] = means[chosen][:, rows] @ np.maximum(variances, 0.0)
        return np.asarray(everything / float(strategy.budget), np.float64)

    @cached_property
    def production(self) -> Floats:
        """The mean variances of production, estimated without what lower levels tell."""
        return self.means(self.problem.strategy, from_below=False)

    @cached_property
    def held(self) -> Integers:
        """The kinds and queries that are not known anyway."""
        return np.flatnonzero(self.production > 1e-6)

    def limited(self, aims: Aims) -> LimitedVariances:
        """Production's variances as limits; of the aims, parts of them."""
        counts, means = self.counted
        factor = np.array([aims.part(*self.groups[row]) for row in self.held.tolist()])
        return LimitedVariances(
            self.shares.design, self.shares.linear, counts, self.production[self.held] * factor, means[self.held]
        )


def choose(
    states: Sequence[State], aims: Aims, sharpness: Sequence[float], steps: int, begin: Strategy | None = None
) -> BestShares:
    """The shares of the least budget."""
    shares = states[0].shares
    present = shares.shares_of(states[0].problem.strategy)
    first = present / 2 + 1 / (2 * len(present)) if begin is None else shares.shares_of(begin)
    return best_shares([state.limited(aims) for state in states], first, present / 100, sharpness, steps)


def ratios(state: State, strategy: Strategy) -> Iterator[tuple[str, str, float, float]]:
    """Kind, query, and standard deviations over those of production: as estimated in 2020, and by least squares."""
    own = state.means(strategy)
    first, second = state.production, state.means(state.problem.strategy)
    for row in state.held.tolist():
        yield (*state.groups[row], float(np.sqrt(own[row] / first[row])), float(np.sqrt(own[row] / second[row])))


def main(arguments: list[str] | None = None) -> int:
    """Choose, print, and write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shares", description="Shares of a strategy of our own.")
    parser.add_argument("--spec", type=Path, action="append", default=[], help="a frame to look at; repeatable")
    parser.add_argument("--gain", type=float, default=1.0, help="the part of production's variance that aims may have")
    parser.add_argument("--unions", type=float, default=0.5, help="the same in blocks and unions of blocks")
    parser.add_argument("--strategy", help="look at a strategy (a name or a file), and choose nothing")
    parser.add_argument("--write", type=Path, help="a file for the strategy")
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--sharpness", default="32,128,512", help="p-norms that stand for the maximum")
    parser.add_argument("--begin", help="a strategy whose shares to begin with")
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="confide-shares-") as text:
        folder = Path(text)
        names = [name for name in options.shapes.split(",") if name]
        specs = [*(lay_out(folder / name, name) for name in names), *options.spec]
        states = []
        for number, spec in enumerate(specs):
            scratch = folder / str(number)
            scratch.mkdir()
            states.append(State(opened(spec, scratch)))
        made_up = states[: len(names)]
        if options.strategy is None:
            powers = [float(each) for each in options.sharpness.split(",")]
            begin = None if options.begin is None else load_strategy(options.begin)
            best = choose(made_up, Aims(options.gain, options.unions), powers, options.steps, begin)
            print(f"least rho {best.needed:.4f}, of any shares {best.bound:.4f}; {best.evaluations} evaluations")
            print(_binding(made_up, best))
            strategy = _shipped(made_up[0].shares.with_shares(best.shares, BUDGET))
        else:
            strategy = load_strategy(options.strategy)
        if options.write:
            options.write.write_text(_text(strategy))
        for name, state in zip([*names, *map(str, options.spec)], states, strict=True):
            print(f"\n## {name}\n{table(state, strategy)}")
    print(f"{processor_time():.0f} s of processor time")
    return 0


def table(state: State, strategy: Strategy) -> str:
    """Standard deviations over those of production, for people; and the least budget that is nowhere worse."""
    found = list(ratios(state, strategy))
    lines = ["| in | " + " | ".join(QUERIES) + " |", "|---|" + "---|" * len(QUERIES)]
    for kind in state.kinds:
        row = {query: f"{a:.2f} ({b:.2f})" for k, query, a, b in found if k == kind}
        lines.append(f"| {kind} | " + " | ".join(row.get(query, "-") for query in QUERIES) + " |")
    for place, what in ((2, "as estimated in 2020"), (3, "by least squares")):
        worst = max(found, key=lambda row, place=place: row[place])  # type: ignore[misc]
        needed = float(strategy.budget) * worst[place] ** 2
        lines.append(f"nowhere worse than production {what} from rho {needed:.4f}: {worst[1]} in {worst[0]}")
    return "\n".join(lines)


def _binding(states: Sequence[State], best: BestShares) -> str:
    names = [state.groups[row] for state in states for row in state.held.tolist()]
    order = np.argsort(-best.multipliers)[:16].tolist()
    return "binding: " + "; ".join(f"{names[k][1]} in {names[k][0]} {best.multipliers[k]:.3f}" for k in order)


def _shipped(best: Strategy) -> Strategy:
    """Shares are found for only children that are bypassed by query; the strategy that ships bypasses them as
    production does, which their totals gain from."""
    return replace(best, bypass=BY_LEVEL)


def _text(strategy: Strategy) -> str:
    source = load_named(PRODUCTION, Path(), StrategyFile, kind=STRATEGY)
    named = replace(strategy, id=NAME, title="Redistricting data, persons, shares of 2026", evidence=TREE)
    return strategy_text(named, source.values, source.values["schema"])


if __name__ == "__main__":
    sys.exit(main())
