"""The attack as a whole: every unit, in this process or several, to a file of records.

::

    tables ─► zero propagation ─► bounds ─► integer programme ─► records, one for each person
                                     └► solution variability of each block
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from confide.arrays import Integers
from confide.engines.protocol import worker_died, workers_with
from confide.errors import Finding, InputError, ParameterError
from confide.inputs.table_files import refuse_unwritable
from confide.lab.attacks.reconstruction.highs import closest
from confide.lab.attacks.reconstruction.integer_program import NoSolution, ReducedProgram, integer_program
from confide.lab.attacks.reconstruction.result import Reconstruction, write_records
from confide.lab.attacks.reconstruction.sources import read_source
from confide.lab.attacks.reconstruction.unit import Attack, AttackSettings, UnitSolution
from confide.lab.published.marginals import Published
from confide.lab.published.published_rows import KnownAreas
from confide.releases.workspace import Progress, Silent

# Which tables contradict one another: those that even the closest counts do not meet.


def explain(attack: Attack, blocks: Sequence[int]) -> list[str]:
    """The tables whose figures a fit of all exact figures misses. Some are wrong; which, the fit cannot know.

    If it misses none, it is tables with noise that are further off than their bound allows: all that have one.
    """
    try:
        program = integer_program(attack.plan, blocks)
    except NoSolution as error:
        return list(error.tables)
    rows = replace(program.exact, at_most=np.zeros(len(program.exact.count), bool))
    equal = np.flatnonzero(~program.exact.at_most)
    rows = replace(rows, matrix=rows.matrix[equal], count=rows.count[equal], layer=rows.layer[equal])
    empty = program.exact.matrix[:0]
    reduced = ReducedProgram(
        np.zeros(program.size), program.upper, np.arange(program.size), empty, np.zeros(0), np.zeros(0)
    )
    anywhere = np.full(len(equal), np.inf)
    nothing = np.zeros(program.size)
    answer = closest(
        rows, np.ones(len(equal)), (anywhere, anywhere), reduced, nothing, attack.settings.seconds, integers=False
    )
    if answer.values is None:
        return []
    missed = np.flatnonzero(np.abs(rows.matrix @ answer.values[: program.size] - rows.count) > 1e-6)
    bounded = [item.marginal.name for item in program.structure.layers if item.marginal.bound is not None]
    return list(dict.fromkeys(program.row_name(rows, int(row)) for row in missed)) or bounded


BLOCK_SECONDS, UNIT_SECONDS = 10.0, 600.0
"""The time for one programme of a block, and of a larger unit, unless said otherwise."""
MOST_BLOCKS = 500
"""Larger units are solved as a whole only if asked for."""
UNITS_AT_ONCE = 25
FINDINGS = 10

_held: list[Attack] = []
"""In a worker process: the attack it works on."""

UnitOutcome = tuple[int, UnitSolution | Finding]


def reconstruct(
    source: Published | str | Path,
    *,
    schema: str | Path | None = None,
    groups: Sequence[str] = (),
    areas: KnownAreas | None = None,
    level: str | None = None,
    repeats: int = 0,
    seed: int = 0,
    processes: int | None = None,
    time_limit: float | None = None,
    out: str | Path | None = None,
    progress: Progress | None = None,
) -> Reconstruction:
    """Records that have the published tables (``confide attack reconstruct``).

    Args:
        source: The tables: :meth:`Published.from_tables <confide.lab.published.Published.from_tables>`, a folder with a
            ``tables.toml``, or a release folder.
        schema: The schema file of a release whose schema does not ship.
        groups: The iteration codes of a SafeTab-P release to attack; all if there is none.
        areas: The list of areas, by :func:`confide.lab.attacks.read_areas`, of a release whose codes do not say which
            areas lie in which.
        level: The level whose units are solved as a whole; by default the coarsest with tables and at most 500 blocks
            in each unit, or the blocks if some tables are noisy, unless the source says otherwise.
        repeats: So many programmes with random objectives say how often each record is found.
        seed: The seed of these.
        processes: How many processes; all cores by default.
        time_limit: Seconds for one programme; 10 for a block and 600 for a larger unit by default.
        out: A file for the records (``.parquet`` or ``.csv``), which may be true: only its owner can read it.
        progress: A display, if one is wanted.

    Returns:
        The records, how sure each is, and the solution variability of every block.

    Raises:
        ConfideError: If exact tables contradict one another, with the units and the tables.

    >>> from confide.lab.published.marginals import Published
    >>> tables = {"sex": {"sex": ["male", "female"], "count": [2, 0]}}
    >>> found = reconstruct(Published.from_tables(tables, "persons"), processes=1)
    >>> found.persons, found.mean
    (2, 0.0)
    """
    began = time.monotonic()
    file = None if out is None else Path(out)
    if file is not None:
        refuse_unwritable(file)
    published = source if isinstance(source, Published) else read_source(source, schema, groups, areas)
    depth = _depth(published, level)
    seconds = time_limit if time_limit is not None else (UNIT_SECONDS if depth else BLOCK_SECONDS)
    settings = AttackSettings(depth, repeats, seed, seconds)
    units = published.geography.blocks_of(depth)
    display = progress or Silent()
    solutions: dict[int, UnitSolution] = {}
    findings: list[Finding] = []
    title = f"Reconstructing the records by {published.geography.levels[depth]}"
    with display.stage(title, len(units)) as advance:
        for number, result in _all(Attack(published, settings), units, processes or os.cpu_count() or 1):
            if isinstance(result, Finding):
                findings.append(result)
            else:
                solutions[number] = result
            advance(1)
    if findings:
        findings.sort(key=lambda finding: finding.what)
        more = len(findings) - FINDINGS
        others = [Finding.of("no-solution/units", more=more)] if more > 0 else []
        raise InputError([*findings[:FINDINGS], *others])
    results = [solutions[number] for number in sorted(solutions)]
    reconstruction = Reconstruction.gather(Attack(published, settings), results, time.monotonic() - began)
    if file is None:
        return reconstruction
    return replace(reconstruction, records_file=write_records(reconstruction, file))


def _depth(published: Published, level: str | None) -> int:
    geography = published.geography
    level = level or published.together
    if level is None:
        if not published.exact:
            return 0
        depths = {item.depth for item in published.marginals}
        return max(
            depth
            for depth in (0, *depths)
            if depth == 0 or np.bincount(geography.unit_of_block[depth]).max() <= MOST_BLOCKS
        )
    if level == "block":
        return 0
    if level not in geography.levels:
        raise ParameterError(
            "no-level/choose", found=level, value=", ".join(dict.fromkeys(("block", *geography.levels)))
        )
    return geography.depth(level)


def _all(attack: Attack, units: Sequence[Integers], processes: int) -> Iterator[UnitOutcome]:
    """Every unit, the largest first, so that no process is left with a large one at the end."""
    order = sorted(range(len(units)), key=lambda number: -len(units[number]))
    size = min(UNITS_AT_ONCE, max(1, len(order) // (4 * processes)))
    chunks = [[(number, units[number]) for number in order[at : at + size]] for at in range(0, len(order), size)]
    if processes == 1 or len(chunks) == 1:
        for chunk in chunks:
            with threadpool_limits(1):
                yield from _attack(attack, chunk)
        return
    held = (attack.published, attack.settings)
    with workers_with(held, min(processes, len(chunks)), _hold) as pool:
        try:
            for task in as_completed([pool.submit(_attack_held, chunk) for chunk in chunks]):
                yield from task.result()
        except BrokenProcessPool:
            raise worker_died() from None


def _hold(held: tuple[Published, AttackSettings]) -> None:
    threadpool_limits(1)
    _held.append(Attack(*held))


def _attack_held(chunk: list[tuple[int, Integers]]) -> list[UnitOutcome]:
    return _attack(_held[0], chunk)


def _attack(attack: Attack, chunk: list[tuple[int, Integers]]) -> list[UnitOutcome]:
    results: list[UnitOutcome] = []
    for number, blocks in chunk:
        try:
            results.append((number, attack.unit(number, blocks.tolist())))
        except NoSolution as error:
            geography = attack.published.geography
            depth = attack.settings.depth
            unit = error.unit or f"{geography.levels[depth]} {geography.units[depth][number]}"
            tables = error.tables or explain(attack, blocks.tolist())
            results.append(
                (
                    number,
                    Finding.of(
                        "no-solution/records-tables",
                        unit=unit,
                        what=error.what,
                        tables=", ".join(dict.fromkeys(tables)) if tables else None,
                    ),
                )
            )
    return results
