"""Inference at the size of a large State: ``python -m benchmarks.large_inference FOLDER [--scale 1.0]``.

Writes noisy measurements of 33 million made-up people as the public files have them: 58 counties, 9,129 tracts, 40,000
block groups of the spine and 519,723 blocks, as many as California had in 2020, every query of the redistricting data
with the variance of production. Then opens them, estimates, gives intervals for all eleven queries in every unit above
blocks, and says how the measurements fit. Prints processor time and memory of each stage, and the nation by arithmetic.

Noise here is rounded normal, from a seeded generator: nobody is protected by it, because nobody is real.
"""

from __future__ import annotations

import argparse
import resource
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tests.kits.public_files import PL94, PL94_LEVELS

from benchmarks.processes import processor_time
from confide.inference import InferenceSource, infer, open_source
from confide.mechanisms.topdown.measurements.layout import Words, public_words
from confide.mechanisms.topdown.strategy import measures_of
from confide.mechanisms.topdown.strategy_file import load_strategy

STATE = "006"
ATTRIBUTES = ("hhgq", "votingage", "hispanic", "cenrace")
PERSONS, COUNTIES, TRACTS, BLOCK_GROUPS, BLOCKS = 33_000_000, 58, 9_129, 40_000, 519_723
NATION_BLOCKS, NATION_CORES = 5_892_698, 2
"""Blocks of the nation that may be populated."""
UNITS_AT_ONCE = 1_000
IN_QUARTERS = 0.04
"""The share of blocks with a kind of group quarters."""
NAMES = {"hhinstlevels": "hhgq:residence", "hispanic * votingage": "votingage*hispanic"}
"""Queries that our strategy calls otherwise than the public files."""


@dataclass
class Files:
    """The open files of a level, DPQuery and Constraint."""

    folder: Path
    level: str
    words: Words
    variances: dict[str, float]
    rng: np.random.Generator
    _open: dict[str, pq.ParquetWriter] = field(default_factory=dict)

    def add(self, ids: Any, histogram: Any) -> None:
        """Measurements and constraints of some units."""
        units = len(ids)
        cells = histogram.reshape(units, *self.words.shape)
        parts: list[tuple[str, dict[str, str], Any]] = []
        for name, said in PL94.items():
            if name not in self.variances:
                continue
            words = {attribute: said.get(attribute, "*") for attribute in self.words.attributes}
            exact = _marginal(self.words, words, cells)
            sd = np.float32(np.sqrt(self.variances[name] - 1 / 12))
            noise = np.rint(sd * self.rng.standard_normal(exact.shape, np.float32)).astype(np.int32)
            parts.append((f"{name}_dpq", words, exact + noise))
        variance = np.repeat(np.float32([self.variances[name] for name in PL94 if name in self.variances]), units)
        self._write("DPQuery", ids, parts, {"variance": pa.array(variance)})
        of_type = cells.sum(axis=(2, 3, 4))
        none = dict.fromkeys(self.words.attributes, "*")
        quarters = {**none, "hhgq": "hhgq"}
        nobody = {**none, "hhgq": "gqNursingTotal", "votingage": "nonvoting"}
        limits = [
            ("hhgq_total_lb_con", quarters, (of_type > 0).astype(np.int32)),
            ("hhgq_total_ub_con", quarters, (99_999 * (of_type > 0)).astype(np.int32)),
            ("nurse_nva_0_con", nobody, np.zeros((units, 1), np.int32)),
        ]
        self._write("Constraint", ids, limits, {"sign": pa.array(np.repeat([">=", "<=", "="], units))})

    def _write(self, kind: str, ids: Any, parts: Sequence[tuple[str, dict[str, str], Any]], more: Any) -> None:
        units = len(ids)
        sizes = np.concatenate([np.full(units, values[0].size) for *_, values in parts])
        offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]), pa.int32())
        flat = pa.array(np.concatenate([values.ravel() for *_, values in parts]))
        which = pa.array(np.repeat(np.arange(len(parts)), units))
        shapes = [_shape(self.words, words) for _, words, _ in parts]
        columns = {"geocode": pa.array(np.tile(ids, len(parts))), "query_name": pa.array([p[0] for p in parts])}
        columns["query_name"] = columns["query_name"].take(which)
        for name in self.words.attributes:
            columns[name] = pa.array([words[name] for _, words, _ in parts]).take(which)
        columns["query_shape"] = pa.array(shapes, pa.list_(pa.int32())).take(which)
        columns["value"] = pa.ListArray.from_arrays(offsets, flat)
        table = pa.table(columns | more)
        if kind not in self._open:
            place = self.folder / f"{self.level}.parquet" / kind / f"State={STATE}"
            place.mkdir(parents=True)
            self._open[kind] = pq.ParquetWriter(place / "part-00000.snappy.parquet", table.schema)
        self._open[kind].write_table(table)

    def close(self) -> None:
        """The files are whole."""
        for writer in self._open.values():
            writer.close()


def _shape(words: Words, said: dict[str, str]) -> list[int]:
    groups = (words.meaning(attribute, word) for attribute, word in said.items())
    return [1 if one is None else int(one.max()) + 1 for one in groups]


def _marginal(words: Words, said: dict[str, str], cells: Any) -> Any:
    """The answers of some units to the query of some words, one row each."""
    result = cells
    for axis, (attribute, word) in enumerate(said.items(), 1):
        groups = words.meaning(attribute, word)
        if groups is None:
            result = result.sum(axis=axis, keepdims=True, dtype=np.int32)
        elif int(groups.max()) + 1 < words.shape[axis - 1]:
            result = np.stack(
                [result.compress(groups == group, axis).sum(axis=axis) for group in range(int(groups.max()) + 1)],
                axis=axis,
            )
    return result.reshape(len(cells), -1).astype(np.int32)


def write_state(folder: Path, scale: float, seed: int = 1) -> int:
    """A product in the public layout, and ``totals.csv`` beside it; the number of people."""
    words = public_words(ATTRIBUTES)
    assert words is not None
    assert tuple(words.attributes) == ATTRIBUTES
    rng = np.random.default_rng(seed)
    numbers = {"County": COUNTIES, "Tract": TRACTS, "Block_Group": BLOCK_GROUPS, "Block": BLOCKS}
    numbers = {name: max(2, int(number * scale)) for name, number in numbers.items()}
    parents, ids = _tree(numbers, rng)
    planned: dict[str, dict[str, float]] = {}
    for measure in measures_of(load_strategy("pl94-persons", Path(), root="state")):
        planned.setdefault(measure.level, {})[measure.query] = measure.law.variance()
    files = {}
    for level in ["State", *numbers]:
        own = planned[level.lower()]
        variances = {name: NAMES.get(name, name.replace(" ", "")) for name in PL94}
        variances = {name: own[ours] for name, ours in variances.items() if ours in own}
        files[level] = Files(folder / "US_Person_PL_PROD", level, words, variances, rng)
    sums = {level: np.zeros((len(ids[level]), 2_016), np.int32) for level in ["State", "County", "Tract"]}
    groups = np.zeros((len(ids["Block_Group"]), 2_016), np.int32)
    persons = 0
    for first, histogram in _people(len(ids["Block"]), int(PERSONS * scale), rng):
        files["Block"].add(ids["Block"][first : first + len(histogram)], histogram)
        np.add.at(groups, parents["Block"][first : first + len(histogram)], histogram)
        persons += int(histogram.sum(dtype=np.int64))
    np.add.at(sums["Tract"], parents["Block_Group"], groups)
    np.add.at(sums["County"], parents["Tract"], sums["Tract"])
    sums["State"][0] = sums["County"].sum(axis=0)
    for level, histograms in [("Block_Group", groups), *sums.items()]:
        for first in range(0, len(histograms), UNITS_AT_ONCE):
            some = slice(first, first + UNITS_AT_ONCE)
            files[level].add(ids[level][some], histograms[some])
    for each in files.values():
        each.close()
    (folder / "totals.csv").write_text(f"code,total\n{STATE[1:]},{persons}\n")
    return persons


def _tree(numbers: dict[str, int], rng: np.random.Generator) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parent and the id of every unit, in the order of ids: each has a child at least, others go at random."""
    ids: dict[str, Any] = {"State": np.array([STATE])}
    parents: dict[str, Any] = {"State": np.zeros(1, np.int64)}
    above = "State"
    for level, number in numbers.items():
        many = len(ids[above])
        parent = np.sort(np.concatenate([np.arange(many), rng.integers(0, many, number - many)]))
        ordinal = np.arange(number) - np.searchsorted(parent, parent)
        width = PL94_LEVELS[level] - PL94_LEVELS[above]
        if level == "County":
            part = [f"10{2 * place + 1:03}1" for place in ordinal.tolist()]
        elif level == "Block":
            tract = parents["Block_Group"][parent]
            group = parent - np.searchsorted(parents["Block_Group"], tract)
            codes = zip(parents["Tract"][tract].tolist(), tract.tolist(), group.tolist(), ordinal.tolist(), strict=True)
            # Made block groups cut official ones: the official code has the number modulo ten.
            part = [f"06{2 * c + 1:03}{t:06}{g % 10}{g % 10}{(100 * (g // 10) + b) % 1000:03}" for c, t, g, b in codes]
        else:
            part = [f"{place + 1:0{width}}" for place in ordinal.tolist()]
        ids[level] = np.strings.add(ids[above][parent], np.array(part))
        parents[level], above = parent, level
    return parents, ids


def _people(blocks: int, persons: int, rng: np.random.Generator) -> Iterator[tuple[int, Any]]:
    """Histograms of blocks, some at a time: uneven sizes, races that differ between neighbourhoods, few in quarters."""
    sizes = rng.lognormal(0, 1, blocks)
    sizes = rng.poisson(sizes * persons / sizes.sum())
    for first in range(0, blocks, UNITS_AT_ONCE):
        own = sizes[first : first + UNITS_AT_ONCE]
        shares = rng.dirichlet(np.concatenate([[40, 6, 1, 8, 1, 5], np.full(57, 0.05)]), 1)[0]
        chances = np.outer(np.outer([0.22, 0.78], [0.62, 0.38]).ravel(), shares).ravel()
        histogram = np.zeros((len(own), 8, 2, 2, 63), np.int32)
        histogram[:, 0] = rng.multinomial(own, chances / chances.sum()).reshape(-1, 2, 2, 63)
        with_quarters = np.flatnonzero(rng.random(len(own)) < IN_QUARTERS)
        kinds = rng.integers(1, 8, len(with_quarters))
        adults = np.where(np.arange(252) < 126, 0.0, chances)
        inside = rng.multinomial(rng.poisson(40, len(with_quarters)), adults / adults.sum())
        histogram[with_quarters, kinds] = inside.reshape(-1, 2, 2, 63)
        yield first, histogram.reshape(len(own), -1)


class Stages:
    """Prints what each stage took."""

    def __init__(self) -> None:
        self._last = self._first = processor_time()

    def end(self, title: str) -> None:
        now = processor_time()
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(f"{title:<44}{now - self._last:>9.1f} s of processor time {memory:>7.2f} GiB at most", flush=True)
        self._last = now

    @property
    def in_all(self) -> float:
        return self._last - self._first


def _made(source: InferenceSource, stages: Stages, *kinds: str) -> int:
    """How many rows there are of all queries in these kinds of area, once they were made."""
    rows = 0
    for kind in kinds:
        answer = infer(source, list(PL94), [kind])
        own = sum(batch.num_rows for batch in answer.batches(answer.kinds[0]))
        stages.end(f"{own:,} rows of {kind}")
        rows += own
    return rows


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--write", action="store_true", help="write the files and stop")
    given = parser.parse_args(arguments)
    stages = Stages()
    if not (given.folder / "totals.csv").exists():
        persons = write_state(given.folder, given.scale)
        stages.end(f"{persons:,} people measured and written")
    if given.write:
        return
    stages = Stages()
    source = open_source(given.folder, totals=given.folder / "totals.csv")
    stages.end(f"read, {len(source.block_codes):,} blocks")
    assert source.tree is not None
    _ = source.tree.estimates
    stages.end("least squares")
    rows = _made(source, stages, "state", "county", "tract")
    fits = infer(source, ["total"], ["state"]).fits
    stages.end("goodness of fit")
    rows += _made(source, stages, "spine:block_group")
    print(f"in all, {rows:,} rows: {stages.in_all:,.0f} s of processor time")
    print("fit by level and query, from", min(fit.ratio for fit in fits), "to", max(fit.ratio for fit in fits))
    print("does not fit:", [(fit.level, fit.query) for fit in fits if fit.suspicious])
    seconds = stages.in_all * NATION_BLOCKS / len(source.block_codes)
    print(
        f"nation: {stages.in_all:,.0f} s x {NATION_BLOCKS:,} / {len(source.block_codes):,} blocks = {seconds:,.0f} s, "
        f"{seconds / 60 / NATION_CORES:.0f} min on {NATION_CORES} cores, State by State"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
