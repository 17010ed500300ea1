"""What an attack found: records with their confidence, and the solution variability of every block."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from threadpoolctl import threadpool_limits

from confide.answers import AnswerPart, Said, ShownTable, Tone, TypedAnswer
from confide.arrays import Floats, Integers
from confide.engines.protocol import worker_died, workers_with
from confide.errors import Finding, InputError, ParameterError
from confide.file_system import PRIVATE_FILE
from confide.inputs.table_files import refuse_unwritable, write_file
from confide.lab.attacks.reconstruction import integer_program
from confide.lab.attacks.reconstruction.description import Axis, Space
from confide.lab.attacks.reconstruction.sources import read_source
from confide.lab.attacks.reconstruction.unit import Attack, AttackSettings, UnitSolution, Variability
from confide.lab.published.marginals import Published
from confide.lab.published.published_rows import KnownAreas
from confide.releases.workspace import Progress, Silent

SIZES = ((1, 9), (10, 49), (50, 99), (100, 249), (250, 499), (500, 999), (1000, None))
"""The classes of block sizes of Abowd and Hawes (2023), Table 1."""


CONFIDENT = 0.9
"""From this confidence on a record is counted as a confident one."""


def size_name(size: tuple[int, int | None]) -> str:
    """``10-49``, ``1000+``."""
    return f"{size[0]}+" if size[1] is None else f"{size[0]}-{size[1]}"


@dataclass(frozen=True, eq=False)
class Reconstruction(TypedAnswer):
    """Records, one entry for each person, and what is known of every block with people."""

    published: Published = field(repr=False)
    level: str
    space: Space = field(repr=False)
    block_space: Space = field(repr=False)
    block: Integers = field(repr=False)
    cell: Integers = field(repr=False)
    confidence: Floats = field(repr=False)
    certain: integer_program.Flags = field(repr=False)
    guessed: Integers = field(repr=False)
    """For each person the attributes that no figure tells, as bits: 1 for the first axis of the space, and so on."""
    variability: dict[int, Variability | None] = field(repr=False)
    exact: bool
    deviation: float
    unsolved: int
    """Units for which the time was up before a solution was found."""
    seconds: float
    records_file: Path | None = None
    """Where the records were written, if they were."""
    repeats: int = 0
    """How many programmes with random objectives there were."""

    @classmethod
    def gather(cls, attack: Attack, results: Sequence[UnitSolution], seconds: float) -> Reconstruction:
        """The results of all units, records in the order of blocks and cells."""
        nothing: Any = np.zeros(0, np.int64)
        block = np.concatenate([nothing, *(item.block for item in results)])
        cell = np.concatenate([nothing, *(item.cell for item in results)])
        confidence = np.concatenate([np.zeros(0), *(item.confidence for item in results)])
        certain = np.concatenate([np.zeros(0, bool), *(item.certain for item in results)])
        guessed = np.concatenate([nothing, *(item.guessed for item in results)])
        order = np.lexsort((cell, block))
        variability = {number: value for item in results for number, value in item.variability.items()}
        return cls(
            attack.published,
            attack.published.geography.levels[attack.settings.depth],
            attack.plan.space,
            attack.block_plan.space,
            block[order],
            cell[order],
            confidence[order],
            certain[order],
            guessed[order],
            dict(sorted(variability.items())),
            attack.published.exact,
            sum(item.deviation for item in results),
            sum(not item.solved for item in results),
            seconds,
            repeats=attack.settings.repeats,
        )

    @property
    def persons(self) -> int:
        """How many records there are."""
        return len(self.block)

    @property
    def people(self) -> dict[int, int]:
        """For each block with people, how many."""
        blocks, counts = np.unique(self.block, return_counts=True)
        return dict(zip(blocks.tolist(), counts.tolist(), strict=True))

    @property
    def mean(self) -> float | None:
        """The mean solution variability, weighted by people; an upper bound where a block's is one."""
        if not self.variability or any(item is None for item in self.variability.values()):
            return None
        people = self.people
        weighted = sum(people[block] * item.at_most for block, item in self.variability.items() if item is not None)
        return weighted / max(1, self.persons)

    @property
    def expected_matches(self) -> float | None:
        """How many records are expected to be true, by their confidence; None where figures are exact."""
        return None if self.exact else float(np.nansum(self.confidence))

    def by_size(self) -> list[dict[str, Any]]:
        """For each class of block sizes: blocks, people, and how many of both have one solution alone."""
        people = self.people
        rows = []
        for size in SIZES:
            blocks = [b for b, n in people.items() if size[0] <= n and (size[1] is None or n <= size[1])]
            unique = [b for b in blocks if (item := self.variability.get(b)) is not None and item.unique]
            persons = sum(people[block] for block in blocks)
            in_unique = sum(people[block] for block in unique)
            rows.append(
                {
                    "size": size_name(size),
                    "blocks": len(blocks),
                    "persons": persons,
                    "blocks_at_0": len(unique),
                    "persons_at_0": in_unique,
                    "share_of_blocks_at_0": len(unique) / len(blocks) if blocks and self.exact else None,
                    "share_of_persons_at_0": in_unique / persons if persons and self.exact else None,
                }
            )
        return rows

    def as_dict(self) -> dict[str, Any]:
        """The result in plain numbers, without records: what ``confide attack reconstruct --json`` prints."""
        codes = self.published.geography.blocks
        sizes = self.by_size()
        unique = [item for item in self.variability.values() if item is not None and item.unique]
        bounds = {codes[b]: [v.at_least, v.at_most] for b, v in self.variability.items() if v and v.status != "proven"}
        has_variability = self.mean is not None
        return {
            "ok": True,
            "out": None if self.records_file is None else str(self.records_file),
            "source": self.published.source,
            "tables": list(self.published.tables),
            "level": self.level,
            "exact": self.exact,
            "blocks": len(self.people),
            "empty_blocks": len(codes) - len(self.people),
            "persons": self.persons,
            "unsolved": self.unsolved,
            "deviation": None if self.exact else self.deviation,
            "solution_variability": {
                codes[block]: None if item is None else item.at_most for block, item in self.variability.items()
            },
            "bounds": bounds,
            "mean_solution_variability": self.mean,
            "share_of_blocks_at_0": len(unique) / len(self.variability) if has_variability else None,
            "share_of_persons_at_0": sum(row["persons_at_0"] for row in sizes) / self.persons
            if has_variability
            else None,
            "by_size": sizes,
            "certain_persons": int(self.certain.sum()),
            "guessed_persons": int((self.guessed > 0).sum()),
            "expected_matches": self.expected_matches,
            "confident_persons": int((self.confidence >= CONFIDENT).sum()),
            "notes": list(self.published.notes),
            "seconds": self.seconds,
        }

    def records(self) -> pa.Table:
        """The records: where, what, how sure.

        An attribute whose levels tables tell apart one by one is a column with codes. One that is published in groups
        has its code where the group is a single one, the lowest and highest code of the group, and the label of the
        group that block tables show (``age``, ``age_low``, ``age_high``, ``age_bin``). ``guessed`` names attributes
        that no figure tells: another value would do as well.
        """
        block = pa.array(self.block)
        columns: dict[str, pa.Array] = {
            name: pa.array(values, pa.string()).take(block) for name, values in self.published.geography.columns.items()
        }
        places = np.unravel_index(self.cell, self.space.shape) if self.space.axes else ()
        for axis, coarse, place in zip(self.space.axes, self.block_space.axes, places, strict=True):
            columns |= _attribute(axis, coarse, np.asarray(place))
        columns["confidence"] = pa.array(self.confidence, from_pandas=True)
        columns["certain"] = pa.array(self.certain)
        variability = {block: None if item is None else item.at_most for block, item in self.variability.items()}
        columns["guessed"] = self._guesses()
        columns["solution_variability"] = pa.array([variability.get(int(b)) for b in self.block], pa.float64())
        return pa.table(columns)

    def _guesses(self) -> pa.Array:
        """For each person the names of the attributes that are a guess, with blanks between."""
        names = [axis.attribute.name for axis in self.space.axes]
        kinds, which = np.unique(self.guessed, return_inverse=True)
        texts = [" ".join(name for bit, name in enumerate(names) if kind >> bit & 1) for kind in kinds.tolist()]
        return pa.array(texts, pa.string()).take(pa.array(which))

    def described(self) -> Iterator[AnswerPart]:
        """What was found, and how sure it is."""
        result = self.as_dict()
        tables = len(result["tables"])
        word = "table" if tables == 1 else "tables"
        yield (
            f"{self.persons:,} records in {result['blocks']:,} blocks from {tables} {word} "
            f"({self.published.source}), solved by {self.level} in {self.seconds:.1f} s."
        )
        yield from (f"  {each}" for each in self.published.notes)
        if self.unsolved:
            why = ": the time was up. --time-limit gives more."
            yield Said(f"{self.unsolved:,} units have no solution yet", why, Tone.CAREFUL, aside=True)
        guessed = result["guessed_persons"]
        if guessed:
            yield (
                f"{guessed:,} records have an attribute that no published figure tells; another value would do as well "
                "(column guessed)."
            )
        if not self.exact:
            yield (
                f"\nThe likeliest people, given the law of the noise and what is published above: "
                f"{self.deviation:,.1f} standard deviations over all figures. Others are nearly as likely, so that no "
                f"solution variability is claimed; of these records about {self.expected_matches or 0:,.0f} are "
                f"expected to be true, and {result['confident_persons']:,} have a probability of at least 90 % "
                "(column confidence)."
            )
            return
        yield "Every published figure was checked again: the records have these tables exactly.\n"
        if self.mean is None:
            yield "The number of people of a block is not published, so that no solution variability is claimed."
            return
        yield from _sizes_described(self)
        bounds = len(result["bounds"])
        if bounds:
            yield (
                f"For {bounds:,} blocks the time was up: their variability is an upper bound. --time-limit gives more."
            )
        at_most = "at most " if bounds else ""
        yield (
            f"Mean solution variability {at_most}{self.mean:.1f} %: another set of records with the same tables "
            "differs in at most that share of people."
        )
        sure = result["certain_persons"]
        yield f"At least {sure:,} of {self.persons:,} records are in every solution that the tables allow."
        if self.repeats:
            always = int((self.confidence == 1.0).sum()) - sure
            often = f"{self.repeats:,} repeats with random objectives"
            yield f"{always:,} more were in all of {often}, which proves nothing."
        if self.records_file is not None:
            yield f"Records: {self.records_file}"


def write_records(reconstruction: Reconstruction, file: str | Path) -> Path:
    """The records as a file that only its owner can read: they may be true.

    Args:
        reconstruction: The people that it is made of.
        file: A name that ends in ``.parquet`` or ``.csv``.

    Returns:
        The file.

    >>> import confide
    >>> from confide.lab.attacks import tabulate_sf1
    >>> made = tabulate_sf1(project / "persons.parquet", tmp_path / "tables", tables=["P1", "P12"])
    >>> write_records(confide.reconstruct(made.folder), tmp_path / "people.csv").name
    'people.csv'
    """
    file = Path(file)
    write_file(reconstruction.records(), file, mode=PRIVATE_FILE)
    return file


def _attribute(axis: Axis, coarse: Axis, place: Integers) -> dict[str, pa.Array]:
    name = axis.attribute.name
    kind = pa.int64() if axis.attribute.is_integer else pa.string()
    index = pa.array(place)
    single = pa.array([codes[0] if len(codes) == 1 else None for codes in axis.codes], kind)
    columns = {name: single.take(index)}
    if max(len(codes) for codes in (*axis.codes, *coarse.codes)) == 1:
        return columns
    if axis.attribute.is_integer:
        columns[f"{name}_low"] = pa.array([min(codes) for codes in axis.codes], kind).take(index)
        columns[f"{name}_high"] = pa.array([max(codes) for codes in axis.codes], kind).take(index)
    labels = pa.array(coarse.labels, pa.string())
    columns[f"{name}_bin"] = labels.take(pa.array(axis.to(coarse)[place]))
    return columns


# The answer in sentences and tables.


def _sizes_described(answer: Reconstruction) -> Iterator[AnswerPart]:
    rows = [
        (
            row["size"],
            f"{row['blocks']:,}",
            f"{row['persons']:,}",
            f"{row['blocks_at_0']:,}",
            f"{row['share_of_blocks_at_0']:.1%}",
            f"{row['share_of_persons_at_0']:.1%}",
        )
        for row in answer.by_size()
        if row["blocks"]
    ]
    headings = ["people in block", "blocks ", "people ", "one solution ", "of blocks ", "of people "]
    yield ShownTable(headings, rows, title="Blocks with one solution alone (solution variability 0)")


# The attack as a whole: every unit, in this process or several, to a file of records.
#
# ::
#
#     tables ─► zero propagation ─► bounds ─► integer programme ─► records, one for each person
#                                      └► solution variability of each block


# Which tables contradict one another: those that even the closest counts do not meet.


def explain(attack: Attack, blocks: Sequence[int]) -> list[str]:
    """The tables whose figures a fit of all exact figures misses. Some are wrong; which, the fit cannot know.

    If it misses none, it is tables with noise that are further off than their bound allows: all that have one.
    """
    try:
        program = integer_program.integer_program(attack.plan, blocks)
    except integer_program.NoSolution as error:
        return list(error.tables)
    rows = replace(program.exact, at_most=np.zeros(len(program.exact.count), bool))
    equal = np.flatnonzero(~program.exact.at_most)
    rows = replace(rows, matrix=rows.matrix[equal], count=rows.count[equal], layer=rows.layer[equal])
    empty = program.exact.matrix[:0]
    reduced = integer_program.ReducedProgram(
        np.zeros(program.size), program.upper, np.arange(program.size), empty, np.zeros(0), np.zeros(0)
    )
    anywhere = np.full(len(equal), np.inf)
    nothing = np.zeros(program.size)
    answer = integer_program.closest(
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
        except integer_program.NoSolution as error:
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
