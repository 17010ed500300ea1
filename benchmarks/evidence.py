"""Tree evidence against own measurements: ``python -m benchmarks.evidence [--spec FILE] [--keys N] [--json FILE]``.

Estimates one and the same noise twice, ``evidence = "own"`` and ``evidence = "tree"``, under several keys, and prints
for each geography and query the mean absolute errors and their ratio with its standard error, and for totals what the
noise alone would make of both. Without a spec, it makes up people of a state. Measurements are drawn from true counts
with keys that everybody knows: for data that are public or made up. Below the tables it says in which figures tree
evidence is worse by more than chance explains, how many least-squares problems were left without a proof, and the
processor time of a descent.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.sparse import csr_array

from benchmarks.processes import processor_time
from confide.engines import LocalEngine
from confide.estimation.least_squares import SolveOutcome
from confide.lab.population import Population, write_population
from confide.mechanisms.topdown.descent import descend, estimates_folder, read_statistics
from confide.mechanisms.topdown.evaluate import geographies
from confide.mechanisms.topdown.figure_noise import TopDownNoise, areas_there
from confide.mechanisms.topdown.mechanism import DrawnEvidence, TopDown, write_counts
from confide.mechanisms.topdown.problem import TopDownProblem, plan_problem
from confide.noise import ReleaseKey
from confide.releases.ledger import Ledger
from confide.releases.mechanism import Job, NoiseSource
from confide.releases.spec import LoadedSpec, load_spec
from confide.releases.workspace import Silent, Workspace
from confide.schema import DETAILED, TOTAL

SPEC = """
[release]
name = "evidence"
mechanism = "topdown"

[data]
records = "persons.parquet"
blocks = "blocks.parquet"

[geography]
levels = [
  { name = "state", digits = 2 }, { name = "county", digits = 5 }, { name = "tract", digits = 11 },
  { name = "block_group", digits = 12 },
]
areas = [
  { name = "place", column = "place", none = "99999" }, { name = "cousub", column = "cousub" },
]

[privacy]
ledger = "people.ledger"
budget = "382536000/229881913"

[topdown]
strategy = "pl94-persons"
root = "state"
around = ["place", "cousub"]
"""
PERSONS = 200_000
QUERIES = ("total", "votingage", "hhgq", "hispanic*cenrace", "votingage*hispanic*cenrace", DETAILED)
"""What is looked at where the strategy measures it all; of other strategies, everything that they measure."""
WORSE, ERRORS = 1.01, 3.0
"""A ratio is worse if it is above this by more than so many standard errors."""


@dataclass(frozen=True)
class Compared:
    """The errors of one query in one geography: a mean absolute error for each key and mode."""

    geography: str
    areas: int
    query: str
    errors: dict[str, list[float]]

    def ratio(self, mode: str, base: str = "own") -> tuple[float, float]:
        """The ratio of mean errors, and its standard error from how keys differ."""
        own, other = np.array(self.errors[base]), np.array(self.errors[mode])
        if not own.sum():
            return 1.0, 0.0
        ratio, keys = float(other.sum() / own.sum()), len(own)
        spread = float(np.square(other - ratio * own).sum()) * keys / max(keys - 1, 1)
        return ratio, float(np.sqrt(spread)) / float(own.sum())


def lay_out(folder: Path, persons: int = PERSONS) -> Path:
    """Made-up people of a state, a ledger and the spec."""
    write_population(Population(persons, 7), folder)
    Ledger.open_new(folder / "people.ledger", data_set="made-up", definition="zcdp", neighbours="change-one", budget=3)
    spec = folder / "spec.toml"
    spec.write_text(SPEC)
    return spec


class Comparison:
    """A spec with its true counts, estimated as often as one likes."""

    def __init__(self, spec: Path, folder: Path, engine: LocalEngine):
        self.folder, self.engine, mechanism = folder, engine, TopDown()
        self.loaded: LoadedSpec = load_spec(spec, {"topdown": mechanism.spec})
        self.problem = mechanism.prepare(self.loaded, engine)
        self.plan = plan_problem(self.problem)
        self.fingerprint = mechanism.fingerprint(self.problem)
        counted = Workspace(folder / "counted")
        mechanism.count(self.problem, Job(self.loaded, self.plan, engine, counted, Silent()))
        self.truth = pq.read_table(counted.counts / f"{self.problem.spine.levels[-1].name}.parquet")
        levels = self.problem.strategy.levels
        measured = dict.fromkeys([TOTAL, *(query.name for level in levels for query in level.queries)])
        self.queries = QUERIES if {*QUERIES} <= {*measured} else tuple(measured)

    def with_evidence(self, evidence: str) -> TopDownProblem:
        """The same problem with the other estimator."""
        return replace(self.problem, strategy=replace(self.problem.strategy, evidence=evidence))

    def descend(self, problem: TopDownProblem, number: int) -> tuple[pa.Table, float, int]:
        """The estimates of the blocks under a key, the processor time, and how many problems have no proof."""
        key = ReleaseKey.choose(f"{number:02x}" * 32)
        noise = NoiseSource(key, self.fingerprint, self.plan.hash, "topdown")
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            workspace = Workspace(Path(folder))
            write_counts(problem, workspace, self.truth)
            begin = processor_time()
            job = Job(self.loaded, self.plan, self.engine, workspace, Silent())
            descend(problem, job, DrawnEvidence(problem, self.plan, noise, workspace))
            taken = processor_time() - begin
            folders = {level.name: estimates_folder(workspace, level) for level in problem.spine.levels}
            unproved = read_statistics(folders)["whole"]["least_squares"][SolveOutcome.INEXACT.value]
            files = sorted(folders[problem.spine.levels[-1].name].glob("*.parquet"))
            tables = [pq.read_table(file).replace_schema_metadata(None) for file in files]
            return pa.concat_tables(tables), taken, unproved

    def errors(self, estimates: pa.Table) -> Iterator[tuple[str, int, str, float]]:
        """Geography, number of areas, query, and mean absolute error of a cell."""
        spine, cells = self.problem.spine, self.problem.cells
        off = _sparse(estimates, len(spine.rows), cells) - _sparse(self.truth, len(spine.rows), cells)
        for geography in geographies(self.problem):
            area = geography.unit_of_block[spine.rows]
            inside = np.flatnonzero(area >= 0)
            shape = (int(area.max()) + 1, len(area))
            of_areas = csr_array((np.ones(len(inside)), (area[inside], inside)), shape=shape) @ off
            areas = len(np.unique(area[inside]))
            for query in self.queries:
                groups = self.problem.groups(query)
                number = int(groups.max()) + 1
                grouped = of_areas @ csr_array((np.ones(cells), (np.arange(cells), groups)), shape=(cells, number))
                yield geography.name, areas, query, float(abs(grouped).sum()) / (areas * number)


def _sparse(rows: pa.Table, units: int, cells: int) -> csr_array:
    unit, cell, n = (rows.column(name).to_numpy() for name in ("unit", "cell", "n"))
    return csr_array((n.astype(np.float64), (unit, cell)), shape=(units, cells))


def compare(comparison: Comparison, keys: int, problems: dict[str, TopDownProblem]) -> tuple[list[Compared], list[str]]:
    """The errors of every mode under the same keys, and lines on processor time."""
    result: dict[tuple[str, str], Compared] = {}
    seconds: dict[str, list[float]] = {mode: [] for mode in problems}
    without: dict[str, int] = dict.fromkeys(problems, 0)
    for number in range(1, keys + 1):
        for mode, problem in problems.items():
            estimates, taken, unproved = comparison.descend(problem, number)
            seconds[mode].append(taken)
            without[mode] += unproved
            for geography, areas, query, error in comparison.errors(estimates):
                empty = Compared(geography, areas, query, {name: [] for name in problems})
                result.setdefault((geography, query), empty).errors[mode].append(error)
    lines = [
        f"{mode}: {np.mean(taken):.1f} s of processor time for a descent; {without[mode]} problems without a proof"
        for mode, taken in seconds.items()
    ]
    return list(result.values()), [*worse(result.values()), *lines]


def worse(rows: Iterable[Compared], mode: str = "tree") -> Iterator[str]:
    """Lines on the figures whose ratio is above what is allowed by more than chance."""
    for row in rows:
        ratio, error = row.ratio(mode)
        if ratio - ERRORS * error > WORSE:
            yield f"worse: {row.query} in {row.geography}, {ratio:.3f} ± {error:.3f}"


def table(rows: Sequence[Compared], mode: str = "tree") -> str:
    """A table for people: a row for each geography, a column for each query."""
    geographies_ = list(dict.fromkeys(row.geography for row in rows))
    queries = list(dict.fromkeys(row.query for row in rows))
    found = {(row.geography, row.query): row for row in rows}
    lines = ["| | areas | " + " | ".join(queries) + " |", "|---|" + "---|" * (len(queries) + 1)]
    for name in geographies_:
        parts = []
        for query in queries:
            row = found[name, query]
            own, other = (np.mean(row.errors[each]) for each in ("own", mode))
            ratio, error = row.ratio(mode)
            digits = 2 if max(own, other) >= 1 else 4
            parts.append("exact" if not own else f"{ratio:.3f} ± {error:.3f} ({own:.{digits}f} → {other:.{digits}f})")
        lines.append(f"| {name} | {found[name, queries[0]].areas:,} | " + " | ".join(parts) + " |")
    return "\n".join(lines)


def expected_totals(problems: dict[str, TopDownProblem]) -> str:
    """What theory expects of totals: mean absolute errors of the noise alone, before non-negativity and rounding."""
    noise = {mode: TopDownNoise(problem) for mode, problem in problems.items()}
    lines = ["| totals, by the noise alone | own | tree | ratio |", "|---|---|---|---|"]
    for name, areas in areas_there(problems["own"].spine).items():
        errors = {}
        for mode, of_mode in noise.items():
            variances = of_mode.variances({}, areas)
            errors[mode] = float(np.sqrt(2 / np.pi * np.maximum(variances, 0.0)).mean())
        if errors["own"]:
            ratio = errors["tree"] / errors["own"]
            lines.append(f"| {name} | {errors['own']:.2f} | {errors['tree']:.2f} | {ratio:.3f} |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Compare and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.evidence", description="Tree evidence against own.")
    parser.add_argument("--spec", type=Path, help="a spec with its data, instead of made-up people")
    parser.add_argument("--persons", type=int, default=PERSONS, help=f"how many to make up (default {PERSONS:,})")
    parser.add_argument("--keys", type=int, default=6)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--json", type=Path, help="a file for all errors")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="confide-evidence-") as text:
        folder = Path(text)
        spec = options.spec or lay_out(folder, options.persons)
        with LocalEngine(folder / "scratch", processes=options.processes) as engine:
            comparison = Comparison(spec, folder, engine)
            problems = {mode: comparison.with_evidence(mode) for mode in ("own", "tree")}
            print("evidence from", ", ".join(problems["tree"].evidence_levels))
            rows, lines = compare(comparison, options.keys, problems)
            expected = expected_totals(problems)
    print(table(rows), expected, *lines, sep="\n")
    if options.json:
        options.json.write_text(json.dumps([vars(row) for row in rows], indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
