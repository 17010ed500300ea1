"""Truth plus noise: the one module of the mechanism in which true counts and noise meet.

The noise of area a, iteration i and cell c of a query with I iterations and C cells has the coordinate (aI + i)C + c of
the query's stream.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from confide.arrays import Integers
from confide.engines.protocol import write_parquet
from confide.file_system import private_folder
from confide.mechanisms.phsafe import tabulate
from confide.mechanisms.phsafe.problem import PHSafeProblem
from confide.mechanisms.phsafe.settings import CountQuery, CountTable, iterations_of, sql_of
from confide.noise import perturb
from confide.releases import Job, NoiseSource, Workspace
from confide.releases.tabular import COUNT

CHOICE_LEVEL, CHOICE, KEY_WORDS = "household", "who counts", 16
"""The stream of the key by which persons are chosen: its first 256 bits."""


def counts_file(workspace: Workspace, table: str, *, everybody: bool = False) -> Path:
    """Where the counts of a table are that noise is added to; ``everybody``: those without
    truncation, of tables of persons."""
    return workspace.counts / f"{table}{'.everybody' if everybody else ''}.parquet"


def measured_file(workspace: Workspace, query: CountQuery) -> Path:
    """Where the measurements of a query are."""
    word = {"*": "all", "H,I": "H-I"}.get(query.iteration_level, query.iteration_level)
    return workspace.measured / query.level / f"{query.table}.{word}.parquet"


def count(problem: PHSafeProblem, job: Job) -> None:
    """Joins the files and counts every table: truncated, and for the curator's own report with everybody."""
    wanted = {query.table: query.counted for query in problem.queries}
    keyed = problem.settings.truncation == "keyed"
    missing = [
        each
        for name, each in wanted.items()
        if not counts_file(job.workspace, name).exists() and not (keyed and crowded_file(job.workspace, name).exists())
    ]
    with job.progress.stage("Counting records", 2 + len(wanted)) as advance:
        advance(len(wanted) - len(missing))
        if not missing:
            advance(2)
            return
        folder = private_folder(job.workspace.scratch)
        units, persons = folder / "units.parquet", folder / "persons.parquet"
        tabulate.write_units(job.engine, problem.files, problem.settings.states, units)
        advance(1)
        tabulate.write_persons(job.engine, problem.files, units, persons)
        advance(1)
        kept = dict[tuple[str, int], Path]()
        for each in missing:
            into, tau = counts_file(job.workspace, each.name), problem.settings.tau.get(each.name)
            if not each.of_persons or tau is None:
                tabulate.count_table(job.engine, each, None, units, into)
            else:
                tabulate.count_table(
                    job.engine, each, None, persons, counts_file(job.workspace, each.name, everybody=True)
                )
                if problem.settings.truncation == "keyed":
                    _set_aside(job, each, tau, persons)
                    advance(1)
                    continue
                people = sql_of(each.universe), tau
                if people not in kept:  # tables that take the same people share them
                    kept[people] = folder / f"kept-{len(kept)}.parquet"
                    job.engine.write(f"SELECT * FROM ({tabulate.taken(each, tau)}) AS kept", kept[people], rows=persons)
                tabulate.count_table(job.engine, each, None, kept[people], into)
            advance(1)
        for file in (units, persons, *kept.values()):
            file.unlink()


def crowded_file(workspace: Workspace, table: str) -> Path:
    """Where the persons of households with too many are kept, until the key of the release chooses among them."""
    return workspace.counts / f"{table}.crowded.parquet"


def _set_aside(job: Job, counted: CountTable, tau: int, persons: Path) -> None:
    """Counts the households that need no choice, and keeps the persons of the others."""
    tabulate.count_table(
        job.engine, counted, None, persons, _uncrowded_file(job.workspace, counted.name), uncrowded=tau
    )
    people = tabulate.crowded(tabulate.taken(counted, None), tau)
    job.engine.write(people, crowded_file(job.workspace, counted.name), rows=persons)


def _uncrowded_file(workspace: Workspace, table: str) -> Path:
    return workspace.counts / f"{table}.uncrowded.parquet"


def choose(problem: PHSafeProblem, job: Job, noise: NoiseSource) -> None:
    """Chooses by the key of the release who counts of households with too many persons, and counts them.

    The key of the choice is derived from that of the release under a name that no measurement has, and so independent
    of all noise; a run that goes on after a crash chooses the same persons. Other than noise it is not bound to the
    records: it is one rule for all of them, as the proof has it, and each release has a key of its own.
    """
    of_no_records = replace(noise, records_fingerprint="00" * 32)
    key = of_no_records.stream(CHOICE_LEVEL, CHOICE).words(0, KEY_WORDS).tobytes()
    folder = private_folder(job.workspace.scratch)
    for counted in {query.table: query.counted for query in problem.queries}.values():
        into, waiting = counts_file(job.workspace, counted.name), crowded_file(job.workspace, counted.name)
        if not waiting.exists():
            continue
        chosen, counts = folder / f"chosen-{counted.name}.parquet", folder / f"counts-{counted.name}.parquet"
        write_parquet(tabulate.kept_by_key(pq.read_table(waiting), problem.settings.tau[counted.name], key), chosen)
        tabulate.count_table(job.engine, counted, None, chosen, counts)
        both = [pq.read_table(_uncrowded_file(job.workspace, counted.name)), pq.read_table(counts)]
        write_parquet(pa.concat_tables([both[0], both[1].cast(both[0].schema)]), into)
        for file in (waiting, chosen, counts):
            file.unlink()


def true_counts(problem: PHSafeProblem, workspace: Workspace, query: CountQuery) -> Integers:
    """The true counts of a query: areas, iterations, cells. Confidential."""
    counts = pq.read_table(counts_file(workspace, query.table))
    cells = [cell.code for cell in query.counted.interior]
    return tabulate.dense(counts, query.level, query.iteration_level, problem.states, cells)


def measure(problem: PHSafeProblem, job: Job, noise: NoiseSource) -> None:
    """Draws the noise of every query and adds it."""
    queries = problem.queries
    if problem.settings.truncation == "keyed":
        choose(problem, job, noise)
    job.plan.check_measured((query.level, query.name) for query in queries)
    with job.progress.stage("Measuring with noise", len(queries)) as advance:
        for query in queries:
            into = measured_file(job.workspace, query)
            if not into.exists():
                private_folder(into.parent)
                truth = true_counts(problem, job.workspace, query).ravel()
                law = job.plan.measure(query.level, query.name).law
                noisy = perturb(truth, law, noise.stream(query.level, query.name))
                write_parquet(pa.table({COUNT: noisy}), into)
            advance(1)


def read_measured(problem: PHSafeProblem, workspace: Workspace, query: CountQuery) -> Integers:
    """The measurements of a query: areas, iterations, cells."""
    counts = np.asarray(pq.read_table(measured_file(workspace, query)).column(COUNT).to_numpy(), np.int64)
    shape = len(problem.areas(query.level)), len(iterations_of(query.iteration_level)), len(query.counted.interior)
    return counts.reshape(shape)
