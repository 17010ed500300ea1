"""What intervals cover, against the truth: ``python -m benchmarks.inference [--rhode-island] [--keys N]``.

Releases of a made-up state of 200,000 persons, or of Rhode Island 2010 (``../shared``), with production noise under
several keys; each with replicates and releases of made-up people. Then ``infer`` with the rule ``auto``, with least
squares alone and with records alone, held against the true counts: the share of intervals that have the truth in them,
by kind of area, query and class of size, as it is *shown* and as it is *true*, and their mean width. Least squares off
the spine by query, with standard errors by area. Everything that was made in a folder before is taken from there.

The truth is read here to say what the margins are worth. The margins themselves never see it.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from tests.kits.inferred import OUTPUT, true_counts
from tests.kits.rhode_island import BLOCKS, KEYS, lay_out_as_published
from tests.kits.topdown import write_spec

import confide
from confide import api
from confide.estimation.tree_gls import cells_at_once
from confide.geography import AreaSet
from confide.inference import InferenceSource, infer, open_source
from confide.inference.inferring import Figures, Inference
from confide.inference.pooled_errors import SIZES, size_class, size_names
from confide.lab.population import Population, write_population

LEVEL, HIGHER = 0.9, 0.95
ENOUGH = 500
"""Classes with more figures are looked at."""
LOWEST, HIGHEST = 0.87, 0.97
"""Where the coverage of 90 per cent should be."""
METHODS = ("auto", "gls", "release")
KINDS = ("county", "tract", "spine:block_group", "block_group", "place", "cousub", "block")
DISTRICTS = ("SLDU", "SLDL")
MANY_CELLS, SOME_BLOCKS = 100, 4
"""Of queries with more cells, every fourth block is looked at."""


@dataclass
class Share:
    """How many figures of a class there are, how many are covered, and how wide their intervals are together."""

    figures: int = 0
    held: int = 0
    width: int = 0

    @property
    def coverage(self) -> float:
        return self.held / self.figures if self.figures else float("nan")

    @property
    def mean_width(self) -> float:
        return self.width / self.figures if self.figures else float("nan")


@dataclass
class Clustered:
    """A share with its standard error: errors of one area go together, those of two areas hardly."""

    level: float
    figures: int = 0
    held: int = 0
    squares: float = 0.0

    def add(self, held: Any, counted: Any) -> None:
        self.figures += int(counted.sum())
        self.held += int((held & counted).sum())
        self.squares += float((((held - self.level) * counted).sum(axis=1) ** 2).sum())

    @property
    def coverage(self) -> float:
        return self.held / self.figures

    @property
    def error(self) -> float:
        return self.squares**0.5 / self.figures


@dataclass
class Coverage:
    """What intervals of several releases cover."""

    shares: dict[tuple[str, str, str, str, int], Share] = field(default_factory=dict)
    """By kind of area, query, method, ``shown`` or ``true``, and class."""
    squares: dict[tuple[str, str, float], Clustered] = field(default_factory=dict)
    """Least squares, by kind of area, query and level."""
    chosen: dict[tuple[str, str, int], set[str]] = field(default_factory=dict)
    """Which methods the rule took, by kind of area, query and class that is shown."""

    def add_source(
        self,
        source: InferenceSource,
        run: Path,
        kinds: Sequence[str],
        queries: Sequence[str] = (),
        areas: Sequence[AreaSet] = (),
    ) -> None:
        """The intervals of one release."""
        truth = true_counts(source, run)
        asked = queries or [share.name for level in source.released.strategy.levels for share in level.queries]
        answer = infer(source, list(dict.fromkeys(asked)), [*kinds, *(one.kind for one in areas)], areas=areas)
        for kind in answer.kinds:
            members = kind.members(len(source.block_codes))
            for query in answer.queries:
                counts = truth @ query.matrix(source.vocabulary.shape)
                step = SOME_BLOCKS if kind.kind == "block" and query.cells > MANY_CELLS else 1
                for choice in answer.rules[kind.kind, query.name].choices:
                    key = kind.kind, query.name, size_names().index(choice.size)
                    self.chosen.setdefault(key, set()).add(choice.method)
                for places in _some(kind.areas, cells_at_once(query.cells), step):
                    true = np.asarray((members[places] @ counts).toarray(), np.int64)
                    self._add(answer, kind, query, answer.figures(kind, places, query), true)

    def _add(self, answer: Inference, kind: AreaSet, query: Any, figures: Figures, true: Any) -> None:
        noisy = ~figures.exact
        released = figures.released
        assert released is not None
        classes = {"shown": size_class(released), "true": size_class(true)}
        for method in METHODS:
            own = figures
            if method != "auto":
                own = replace(figures, by_least_squares=np.full(true.shape, method == "gls"))
            ends = answer.intervals(kind, query, own, LEVEL)
            held = (ends.low <= true) & (true <= ends.high)
            for by, sizes in classes.items():
                for size in range(len(SIZES)):
                    counted = noisy & (sizes == size)
                    if counted.any():
                        share = self.shares.setdefault((kind.kind, query.name, method, by, size), Share())
                        share.figures += int(counted.sum())
                        share.held += int(held[counted].sum())
                        share.width += int((ends.high - ends.low)[counted].sum())
            if method == "gls":
                levels = {LEVEL: held}
                if kind.kind != "block":
                    wider = answer.intervals(kind, query, own, HIGHER)
                    levels[HIGHER] = (wider.low <= true) & (true <= wider.high)
                for level, inside in levels.items():
                    key = kind.kind, query.name, level
                    self.squares.setdefault(key, Clustered(level)).add(inside, noisy)

    def of(self, kind: str, query: str, by: str, size: int, method: str = "auto") -> Share:
        return self.shares.get((kind, query, method, by, size), Share())

    def pairs(self) -> list[tuple[str, str]]:
        """Kinds of area with queries."""
        return list(dict.fromkeys((kind, query) for kind, query, *_ in self.shares))

    def outside(self, by: str) -> list[tuple[str, str, str, Share]]:
        """The classes with enough figures whose coverage is not where it should be."""
        return [
            (kind, query, size_names()[size], share)
            for kind, query in self.pairs()
            for size in range(len(SIZES))
            if (share := self.of(kind, query, by, size)).figures > ENOUGH and not LOWEST <= share.coverage <= HIGHEST
        ]

    def all_sizes(self, kind: str, query: str, method: str) -> Share:
        """All classes together."""
        parts = [self.of(kind, query, "shown", size, method) for size in range(len(SIZES))]
        return Share(*(sum(getattr(part, name) for part in parts) for name in ("figures", "held", "width")))


def _some(areas: int, at_once: int, step: int) -> Iterator[Any]:
    places = np.arange(0, areas, step)
    for first in range(0, len(places), at_once):
        yield places[first : first + at_once]


def print_coverage(coverage: Coverage) -> None:
    """Tables in Markdown."""
    names = size_names()
    for by in ("shown", "true"):
        print(f"\nCoverage of 90 % intervals of `auto` by the size that is *{by}* (classes with more than {ENOUGH}).\n")
        print("| | " + " | ".join(names) + " |\n|---|" + "---|" * len(names))
        for kind, query in coverage.pairs():
            cells = []
            for size in range(len(names)):
                share = coverage.of(kind, query, by, size)
                mark = "".join(sorted(m[0] for m in coverage.chosen[kind, query, size])) if by == "shown" else ""
                cells.append(f"{share.coverage:.3f}{' ' + mark if mark else ''}" if share.figures > ENOUGH else "")
            if any(cells):
                print(f"| {kind}, {query} | " + " | ".join(cells) + " |")
        for kind, query, size, share in coverage.outside(by):
            print(
                f"outside by {by}: {kind}, {query}, {size}: "
                f"{share.coverage:.4f} of {share.figures:,}, width {share.mean_width:.2f}"
            )
    print("\nMean width, and least and largest coverage by class (shown; true): auto, least squares, records\n")
    print(
        "| | figures | auto | least squares | records | auto by shown | auto by true "
        "| least squares by shown | records by true |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for kind, query in coverage.pairs():
        whole = {method: coverage.all_sizes(kind, query, method) for method in METHODS}
        if whole["auto"].figures <= ENOUGH:
            continue
        ranges = []
        for method, by in (("auto", "shown"), ("auto", "true"), ("gls", "shown"), ("release", "true")):
            parts = [coverage.of(kind, query, by, size, method) for size in range(len(names))]
            listed = [part.coverage for part in parts if part.figures > ENOUGH]
            ranges.append(f"{min(listed):.3f}-{max(listed):.3f}" if listed else "")
        widths = " | ".join(f"{whole[method].mean_width:.2f}" for method in METHODS)
        print(f"| {kind}, {query} | {whole['auto'].figures:,} | {widths} | " + " | ".join(ranges) + " |")
    print("\nLeast squares: coverage, and how many standard errors (by area) from the level\n")
    print("| | figures | 90 % | | 95 % | |\n|---|---|---|---|---|---|")
    for kind, query in coverage.pairs():
        cells = []
        for level in (LEVEL, HIGHER):
            one = coverage.squares.get((kind, query, level))
            if one is None or not one.figures or not one.error:
                cells += ["", ""]
            else:
                cells += [f"{one.coverage:.4f}", f"{(one.coverage - level) / one.error:+.1f}"]
        figures = coverage.squares[kind, query, LEVEL].figures if (kind, query, LEVEL) in coverage.squares else 0
        print(f"| {kind}, {query} | {figures:,} | " + " | ".join(cells) + " |")


def made(folder: Path, key: str, *, rhode_island: bool, persons: int) -> Path:
    """A release with its measurements, and the folder of its run."""
    place = folder / "where.json"
    if not place.exists():
        folder.mkdir(parents=True, exist_ok=True)
        if rhode_island:
            spec = lay_out_as_published(folder, output=OUTPUT)
        else:
            write_population(Population(persons, 5), folder)
            spec = write_spec(folder, output=OUTPUT)
        run = api.run(spec, insecure_key=key, processes=1).release.parent
        place.write_text(json.dumps(str(run)))
    return Path(json.loads(place.read_text()))


def districts(source: InferenceSource) -> list[AreaSet]:
    """Districts of Rhode Island, which the frame does not have."""
    blocks = pq.read_table(BLOCKS, columns=["geocode", *DISTRICTS])
    order = np.argsort(source.block_codes)
    codes = np.array(blocks.column("geocode").to_pylist())
    known = np.isin(codes, source.block_codes)
    place = order[np.searchsorted(source.block_codes[order], codes[known])]
    result = []
    for name in DISTRICTS:
        listed, number = np.unique(np.array(blocks.column(name).to_pylist())[known], return_inverse=True)
        area = np.full(len(source.block_codes), -1, np.int64)
        area[place] = number
        result.append(AreaSet.partition(name.lower(), [str(code) for code in listed.tolist()], area))
    return result


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rhode-island", action="store_true")
    parser.add_argument("--persons", type=int, default=200_000)
    parser.add_argument("--keys", type=int, default=2)
    parser.add_argument("--replicates", type=int, default=12)
    parser.add_argument("--calibration", type=int, default=3)
    parser.add_argument("--query", action="append", default=[])
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        base = given.folder or Path(scratch)
        coverage = Coverage()
        for number in range(given.keys):
            folder = base / f"key-{number + 1}"
            run = made(folder, KEYS[number], rhode_island=given.rhode_island, persons=given.persons)
            replicates = folder / "replicates"
            confide.replicate(run, replicates, replicates=given.replicates, calibration=given.calibration, processes=1)
            source = open_source(run, replicates=replicates)
            areas = districts(source) if given.rhode_island else []
            coverage.add_source(source, run, KINDS, given.query, areas)
        print_coverage(coverage)


if __name__ == "__main__":
    main(sys.argv[1:])
