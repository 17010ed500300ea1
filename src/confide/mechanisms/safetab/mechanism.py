"""The mechanism ``safetab``, from top to bottom: SafeTab-P (Haney et al. 2024).

    records ─► iterations and areas ─► counts of groups ─► stage 1: choice of table ─► stage 2: the table ─► release

Every population group, an area crossed with a race or ethnicity group, gets a total, or sex by age in 4, 9 or 23
groups, depending on a first noisy total (Algorithms 1 to 3). Proof of the guarantee: ``docs/proofs/safetab.md``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from confide.engines import Engine
from confide.errors import Finding
from confide.inputs.made_up import Canaries, MadeUpPeople, RecordForm, require_room
from confide.inputs.records import records_fingerprint
from confide.mechanisms.safetab import statement
from confide.mechanisms.safetab.codes import iterations_of
from confide.mechanisms.safetab.measure import measure_groups
from confide.mechanisms.safetab.official import DATA, PARAMETERS
from confide.mechanisms.safetab.output import verify as verification
from confide.mechanisms.safetab.output.publish import measured_folder, publish
from confide.mechanisms.safetab.problem import (
    GroupLevel,
    SafeTabProblem,
    check_persons_of,
    plan_safetab,
    prepare,
    query_key,
)
from confide.mechanisms.safetab.records import CODE_COLUMNS, LAST_CENRACE, NULL, PERSON_COLUMNS
from confide.mechanisms.safetab.regions import BLOCK_COLUMNS, DIGITS
from confide.mechanisms.safetab.settings import CHOICE, OLDEST, SEXES, TABLE, TOTAL_ONLY
from confide.mechanisms.safetab.spec import SafeTabSpec, spec_text
from confide.mechanisms.safetab.tabulate import counts_file, tabulate
from confide.mechanisms.safetab.tuning.question import production_settings
from confide.releases.boards import Board, prepared_without_records
from confide.releases.companions import Codebook
from confide.releases.draft import LEDGER, SPEC, Draft, no_product
from confide.releases.figure_noise import FigureNoise
from confide.releases.folder import ReleaseWriter
from confide.releases.mechanism import SILENT, Check, Job, Mechanism, NoiseSource, Residuals, TrialCounts
from confide.releases.plan import Plan, Summary
from confide.releases.published import Published
from confide.releases.spec import LoadedSpec
from confide.report.dossier import Evaluated, Evaluating
from confide.schema import Attribute, Level

BYTES_PER_GROUP = 40
BYTES_PER_BLOCK = 400
"""Generous guesses of what a run takes on the disk."""


class SafeTab(Mechanism[SafeTabProblem]):
    """See :class:`confide.releases.mechanism.Mechanism` for the verbs."""

    name = "safetab"
    spec = SafeTabSpec
    accounted = True
    keyed = True
    tunable = True
    on_spark = True

    def prepare(self, loaded: LoadedSpec, engine: Engine) -> SafeTabProblem:
        return prepare(loaded, engine)

    def plan(self, problem: SafeTabProblem) -> Plan:
        return plan_safetab(self.name, problem)

    def bytes_needed(self, problem: SafeTabProblem, plan: Plan) -> int:  # noqa: ARG002
        groups = sum(level.groups for level in problem.levels)
        return groups * BYTES_PER_GROUP + int(problem.regions.blocks.num_rows) * BYTES_PER_BLOCK

    def fingerprint(self, problem: SafeTabProblem) -> str:
        return records_fingerprint(problem.records.path)

    def check(self, problem: SafeTabProblem, job: Job) -> list[Finding]:
        return check_persons_of(problem, job)

    def count(self, problem: SafeTabProblem, job: Job) -> None:
        tabulate(problem, job)

    def measure(self, problem: SafeTabProblem, job: Job, noise: NoiseSource | None) -> None:
        assert noise is not None
        job.plan.check_measured(
            (level.settings.region_type, query_key(level, query))
            for level in problem.levels
            for query in _queries(level)
        )
        with job.progress.stage("Measuring with noise", sum(len(level.parts) for level in problem.levels)) as advance:
            for level in problem.levels:
                job.engine.map_groups(
                    measure_groups(level, noise),
                    counts_file(job.workspace, level),
                    "part",
                    level.parts,
                    measured_folder(job.workspace, level),
                    advance=advance,
                )

    def publish(self, problem: SafeTabProblem, job: Job, release: ReleaseWriter) -> None:
        publish(problem, job, release)

    def documents(self, manifest: Mapping[str, Any]) -> Mapping[str, str]:
        return statement.documents(manifest)

    def codebook(self, manifest: Mapping[str, Any]) -> Codebook | None:
        return statement.codebook(manifest["plan"])

    def figure_noise(self, manifest: Mapping[str, Any]) -> FigureNoise | str:
        return statement.GroupFigures.of(manifest["plan"])

    def verify(self, folder: Path, manifest: dict[str, Any]) -> Iterator[Check]:
        return verification.verify(folder, manifest)

    def board(self, loaded: LoadedSpec) -> Board:
        from confide.mechanisms.safetab.board import SafeTabBoard

        return SafeTabBoard.of(prepared_without_records(self.prepare, loaded))

    def draft(self, product: str | None, values: Mapping[str, str]) -> Draft:
        no_product(self.name, product)
        settings = replace(production_settings(), puerto_rico=False)
        settings = replace(settings, levels=settings.passes["US"])
        files = {key: f"{stem}.txt" for key, stem in (PARAMETERS | DATA).items()}
        named = {"name": "detailed-groups", "title": "Detailed race and ethnicity groups"} | dict(values)
        text = spec_text(settings, files, **named, ledger=LEDGER, file=SPEC)
        return Draft(text, settings.total, "add-remove")

    def summary(self, plan: Plan) -> Summary:
        return statement.summary(plan)

    def evaluate(self, request: Evaluating) -> Evaluated:
        from confide.mechanisms.safetab.dossier import evaluate_safetab

        return evaluate_safetab(request)

    def published(self, folder: Path, manifest: dict[str, Any], *choice: Any) -> Published:
        from confide.mechanisms.safetab.published import read_published

        return read_published(folder, manifest, *choice)

    def residuals(self, problem: SafeTabProblem, job: Job, noise: NoiseSource | None) -> Iterator[Residuals]:
        """From the measurements: what is published may have been set to zero or copied from an area of one extent. The
        noise of stage 1 is drawn again while the key is kept."""
        from confide.mechanisms.safetab.residuals import residuals

        return residuals(problem, job.workspace, noise)

    def made_up_records(self, problem: SafeTabProblem, twins: int) -> tuple[pa.Table, pa.Table]:
        """Everybody is a boy below 5 in one block, with the same codes: so in every table that a group may get, the
        first cell has all that are in the group. There are so many of them that no group is suppressed."""
        person = BOY | _best_block(problem) | _best_codes(problem)
        base = _never_suppressed(problem)
        one = pa.table({name: [person[name]] for name in PERSON_COLUMNS})
        return one.take([0] * (base + twins)), one.take([0] * base)

    def made_up_canaries(self, problem: SafeTabProblem, number: int) -> Canaries:
        """The same boys in blocks of different areas, the first in the costliest one. So many are always there that no
        group of a canary is suppressed."""
        blocks, codes = _blocks_apart(problem), _codes_within(problem)
        require_room(number, len(blocks), len(codes))
        people = []
        for k in range(number):
            turn, block = divmod(k, len(blocks))
            people.append(BOY | blocks[block] | codes[(block + turn) % len(codes)])
        heads = pa.table({name: [person[name] for person in people] for name in PERSON_COLUMNS})
        return Canaries(heads.take(np.repeat(np.arange(number), _never_suppressed(problem))), heads, None)

    def record_form(self, problem: SafeTabProblem) -> RecordForm:
        return _record_form(problem)

    def made_up_people(self, problem: SafeTabProblem, people: MadeUpPeople) -> pa.Table:
        return _official_layout(problem, people)

    def silenced(self, problem: SafeTabProblem, plan: Plan) -> tuple[SafeTabProblem, Plan]:
        levels = tuple(replace(level, first=SILENT, second=SILENT, total=SILENT) for level in problem.levels)
        return replace(problem, levels=levels), super().silenced(problem, plan)[1]

    def trial_counts(
        self, problem: SafeTabProblem, job: Job, noise: NoiseSource, mapped: Mapping[Path, Sequence[pa.Table]]
    ) -> Iterator[TrialCounts]:
        """The counts of the second stage. The total that chooses a table is seen by nobody."""
        self.measure(problem, job, noise)
        for level in problem.levels:
            rows = pa.concat_tables(mapped[measured_folder(job.workspace, level)])
            cell, group, count = (rows.column(name).to_numpy() for name in ("cell", "group", "count"))
            total_only = level.total_only[group % len(level.iterations)]
            for query, law, chosen in ((TABLE, level.second, ~total_only), (TOTAL_ONLY, level.total, total_only)):
                seen = np.flatnonzero(chosen & (cell == 0))
                region = level.settings.region_type
                yield TrialCounts(region, query_key(level, query), law, group[seen], count[seen])


def _queries(level: GroupLevel) -> Iterator[str]:
    """The measurements of a level."""
    if level.adaptive:
        yield from (CHOICE, TABLE)
    if level.adaptive < level.groups:
        yield TOTAL_ONLY


BOY = {"QAGE": "0", "QSEX": "1", "HOUSEHOLDER": "False", "CENRACE": "01"}
"""A made-up person, but for block and codes."""


def _never_suppressed(problem: SafeTabProblem) -> int:
    """So many in a group, and it is published whatever the noise."""
    far = max(int(10 * level.second.variance() ** 0.5) for level in problem.levels)
    return far + max(level.suppressed_up_to or 0 for level in problem.levels) + 1


def _block_costs(problem: SafeTabProblem) -> npt.NDArray[np.float64]:
    """For each block what the levels cost that it lies in an area of."""
    cost = np.zeros(problem.regions.blocks.num_rows)
    for level in problem.levels:
        cost += float(level.settings.budget) * (problem.regions.numbers(level.settings.region_type) >= 0)
    return cost


def _best_block(problem: SafeTabProblem) -> dict[str, str]:
    """The block that lies in areas of the costliest levels, as columns of a person record."""
    return _block_columns(problem, int(_block_costs(problem).argmax()))


def _blocks_apart(problem: SafeTabProblem) -> list[dict[str, str]]:
    """One block for each area of the level with most areas, from the block that lies in areas of the costliest levels
    on."""
    cost = _block_costs(problem)
    level = max(problem.levels, key=lambda level: level.areas)
    areas = problem.regions.numbers(level.settings.region_type)
    order = np.argsort(-cost, kind="stable")
    order = order[areas[order] >= 0]
    _, first = np.unique(areas[order], return_index=True)
    return [_block_columns(problem, int(block)) for block in order[np.sort(first)]]


def _codes_within(problem: SafeTabProblem) -> list[dict[str, str]]:
    """The race and ethnicity codes of the person who counts in many groups, and of those with another first code who
    count in no more of any level."""
    best, codes = _best_codes(problem), [str(code) for code in problem.lists.codes]
    tried = pa.table({name: [best[name]] * (len(codes) + 1) for name in CODE_COLUMNS})
    tried = tried.set_column(tried.column_names.index("QRACE1"), "QRACE1", pa.array([best["QRACE1"], *codes]))
    counted = iterations_of(problem.lists, tried, problem.settings.max_race_codes)
    pattern, iteration = (counted.column(name).to_numpy() for name in ("pattern", "iteration"))
    of_level = (pattern[np.isin(iteration, level.iterations)] for level in problem.levels)
    counts = np.stack([np.bincount(patterns, minlength=len(codes) + 1) for patterns in of_level])
    within = np.flatnonzero((counts <= counts[:, :1]).all(axis=0) & counts.any(axis=0))[1:]
    others = {codes[place - 1]: best | {"QRACE1": codes[place - 1]} for place in within.tolist()}
    return list(({best["QRACE1"]: best} | others).values())


def _block_columns(problem: SafeTabProblem, block: int) -> dict[str, str]:
    code, columns = str(problem.regions.blocks.column("code")[block]), {}
    for name in BLOCK_COLUMNS:
        columns[name], code = code[: DIGITS[name]], code[DIGITS[name] :]
    return columns


def _best_codes(problem: SafeTabProblem) -> dict[str, str]:
    """The race and ethnicity codes of a person who counts in many groups: one code after the other, each the best."""
    codes = np.array(problem.lists.codes)
    chosen = dict.fromkeys(CODE_COLUMNS, NULL) | {"QRACE1": str(codes[0]), "QSPAN": str(codes[0])}
    best = -1.0
    for column in ("QRACE1", "QSPAN", *CODE_COLUMNS[1 : problem.settings.max_race_codes]):
        tried = pa.table({name: pa.array([value] * len(codes)) for name, value in chosen.items()})
        tried = tried.set_column(tried.column_names.index(column), column, pa.array(codes.tolist()))
        counted = iterations_of(problem.lists, tried, problem.settings.max_race_codes)
        pattern, iteration = (counted.column(name).to_numpy() for name in ("pattern", "iteration"))
        cost = np.zeros(len(codes))
        for level in problem.levels:
            here = pattern[np.isin(iteration, level.iterations)]
            cost += float(level.settings.budget) / level.stability * np.bincount(here, minlength=len(codes))
        if cost.max() <= best:
            if column != "QSPAN":
                break
            continue
        best, chosen[column] = float(cost.max()), str(codes[int(cost.argmax())])
    return chosen


# Made-up person records in the official layout, for a rehearsal.


SECOND_RACE = 0.1
"""The share of people with a second race code."""
BLOCK = "block"


def _record_form(problem: SafeTabProblem) -> RecordForm:
    """Ages, sexes and codes of the lists, each alike; areas by the names of the region types."""
    regions, codes = problem.regions, problem.lists.codes
    columns: dict[str, Iterable[str]] = {
        "QAGE": map(str, range(OLDEST + 1)),
        "QSEX": SEXES,
        "HOUSEHOLDER": ("True", "False"),
        "CENRACE": (f"{number:02d}" for number in range(1, LAST_CENRACE + 1)),
        "QRACE1": codes,
        "QSPAN": codes,
    }
    attributes = tuple(
        Attribute(name, name, tuple(Level(str(code), str(code)) for code in values)) for name, values in columns.items()
    )
    areas = {name: (identifiers, regions.numbers(name)) for name, identifiers in regions.areas.items()}
    return RecordForm(attributes, {}, BLOCK, regions.blocks.column("code").to_pylist(), areas)


def _official_layout(problem: SafeTabProblem, people: MadeUpPeople) -> pa.Table:
    """The records with every column of the layout, some with a second race code.

    Args:
        problem: The prepared problem.
        people: The drawn people.

    Returns:
        The table of records, all of it text.
    """
    drawn = people.table(str)
    columns = {name: drawn.column(name) for name in drawn.column_names if name != BLOCK}
    start = 0
    for name in BLOCK_COLUMNS:
        columns[name] = pc.utf8_slice_codeunits(drawn.column(BLOCK), start, start + DIGITS[name])
        start += DIGITS[name]
    nothing = pa.array(np.full(people.number, NULL))
    codes = pa.array([*problem.lists.codes, NULL], pa.string())
    second = people.random.integers(len(problem.lists.codes), size=people.number)
    second[people.random.random(people.number) >= SECOND_RACE] = len(problem.lists.codes)
    columns["QRACE2"] = codes.take(pa.array(second))
    for name in CODE_COLUMNS:
        columns.setdefault(name, nothing)
    theirs = problem.records.theirs
    return pa.table({theirs(name): columns[name] for name in PERSON_COLUMNS})
