"""The problem of a TopDown release: strategy, frame and spine, and the plan that follows from them.

Units of one level can have different shares of the budget (the one-child bypass), so a query is one measurement for
each class of shares. A record lies on one path from the root to its block and takes part in the measurements of that
path alone; every path has the whole budget, exactly. Proof: ``docs/proofs/topdown.md``, section 1.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confide.arrays import Integers
from confide.documents import load_shipped
from confide.engines import Engine, Source
from confide.errors import ConfideError, Finding, InputError, Place, SpecError
from confide.geography import Spine
from confide.inputs.frame import Frame, read_counts, read_frame, reading_facts
from confide.mechanisms.topdown import build_spine
from confide.mechanisms.topdown.constraints import NO_LIMIT, check_invariant_level, check_sizes
from confide.mechanisms.topdown.from_below import levels_used
from confide.mechanisms.topdown.measurements.layout import FileLayout
from confide.mechanisms.topdown.output.settings import Output, prepare_output
from confide.mechanisms.topdown.spec import TopDownPart, TopDownSpec
from confide.mechanisms.topdown.spine import TopDownLevel, TopDownSpine
from confide.mechanisms.topdown.strategy import (
    OWN,
    CellGroups,
    LevelStrategy,
    Strategy,
    check_levels,
    law_of,
    stated_of,
    unit_shares,
)
from confide.mechanisms.topdown.strategy_file import load_strategy
from confide.privacy import ZCDP
from confide.releases.plan import Plan, PlannedMeasurement
from confide.releases.spec import KeyPath, LoadedSpec, find_sources, frame_rules
from confide.releases.tabular import AreaNames, area_names, check_column_names, placed


@dataclass(frozen=True)
class TopDownProblem:
    """Everything the release depends on but the records themselves."""

    spec: TopDownSpec
    strategy: Strategy
    frame: Frame
    spine: TopDownSpine
    columns: Mapping[str, Integers]
    """Columns of the block table that constraints use, in the order of the spine's blocks."""
    records: Source
    blocks_file: str
    """The name of the block table, for messages."""
    output: Output = field(default_factory=Output)
    """What the release contains apart from the records."""

    @cached_property
    def file_layout(self) -> FileLayout:
        """The words of the measurement file, if there is one."""
        return FileLayout.of(self.strategy)

    @cached_property
    def cells(self) -> int:
        """The cells of the histogram."""
        return int(np.prod([attribute.size for attribute in self.strategy.schema.attributes], dtype=np.int64))

    @cached_property
    def evidence_levels(self) -> tuple[str, ...]:
        """The levels whose measurements tell of the units above them; none where the strategy does not use them."""
        if self.strategy.evidence == OWN:
            return ()
        return levels_used(self.strategy, self.spine)

    def cell_groups(self, query: str) -> CellGroups:
        """The groups of histogram cells of a query, worked out where they are needed."""
        if query not in self._groups:
            self._groups[query] = CellGroups(self.strategy.schema, self.strategy.query(query))
        return self._groups[query]

    def groups(self, query: str) -> Integers:
        """The groups of all cells of the histogram."""
        return self.cell_groups(query)[np.arange(self.cells)]

    @cached_property
    def area_names(self) -> AreaNames | None:
        """The names of all units and areas, where the frame has any."""
        levels = (*self.frame.spine.levels, *self.frame.spine.areas)
        return area_names(self.frame, levels, named=self.spec.geography.has_names)

    @cached_property
    def _groups(self) -> dict[str, CellGroups]:
        return {}

    def limits(self, level: TopDownLevel) -> dict[str, tuple[Integers, Integers]]:
        """For each query that the frame limits, the least and the largest counts in each unit: units x groups.

        Limits are found block by block and added up: where two bounds limit one group, one may be the smaller in one
        block and the other in the next, and the sum of what the blocks can have is less than either sum.
        """
        result = {}
        for name in self.strategy.constraints.limited:
            least, largest = self.strategy.constraints.limits(name, self.strategy.query(name).cells, self.columns)
            unlimited = (largest == NO_LIMIT).any(axis=0)
            summed = self.spine.roll_up(level.name, np.where(unlimited, 0, largest))
            result[name] = self.spine.roll_up(level.name, least), np.where(unlimited, NO_LIMIT, summed)
        return result

    def impossible(self, query: str) -> NDArray[np.bool_]:
        """The groups of a query that structural zeros leave nobody in."""
        zero = self.strategy.constraints.zero_cells(self.strategy.schema)
        possible = np.bincount(self.groups(query)[~zero], minlength=self.strategy.query(query).cells)
        return np.asarray(possible == 0)

    def levels(self) -> list[tuple[LevelStrategy, TopDownLevel]]:
        """Strategy and spine, level by level, the root first."""
        return [(self.strategy.level(level.name), level) for level in self.spine.levels]

    @cached_property
    def share_runs(self) -> dict[str, list[tuple[int, int] | None]]:
        """For each class of units of each level the levels whose shares it has, from one to another; None where it has
        none."""
        result = {}
        for first, level in enumerate(self.spine.levels):
            ends, total = {}, Fraction(0)
            for last, own in enumerate(self.strategy.levels[first:], start=first + 1):
                total += own.share
                ends[total] = last
            result[level.name] = [(first, ends[share]) if share else None for share in level.shares.table]
        return result

    def with_parts(self, parts: Mapping[tuple[str, ...], Fraction]) -> TopDownProblem:
        """The problem of a strategy with other parts of the budget: units that took over shares have those of it."""
        strategy, levels = self.strategy.with_parts(parts), []
        for level in self.spine.levels:
            runs = self.share_runs[level.name]
            sums = (sum((own.share for own in strategy.levels[slice(*run)]), Fraction(0)) if run else 0 for run in runs)
            table = tuple(Fraction(share) for share in sums)
            levels.append(replace(level, shares=replace(level.shares, table=table)))
        return replace(self, strategy=strategy, spine=replace(self.spine, levels=tuple(levels)))


def plan_problem(problem: TopDownProblem) -> Plan:
    """Every measurement of the release and its price."""
    strategy = problem.strategy
    measures: list[PlannedMeasurement] = []
    numbers: dict[tuple[str, int], list[int]] = {}
    for level_strategy, level in problem.levels():
        units = np.bincount(level.shares.index, minlength=len(level.shares.table))
        for share_class, share in enumerate(level.shares.table):
            numbers[level.name, share_class] = []
            if not share:
                continue
            for query_share in level_strategy.queries:
                numbers[level.name, share_class].append(len(measures))
                measures.append(
                    PlannedMeasurement(
                        level.name,
                        query_share.name,
                        int(units[share_class]),
                        query_share.query.cells,
                        law_of(strategy, level_strategy, query_share, share),
                        ZCDP(strategy.budget * unit_shares(strategy, level_strategy, share)[query_share.name]),
                        tuple(variable.attribute.name for variable in query_share.query.variables),
                    )
                )
    paths = tuple(
        tuple(number for name, share_class in kind for number in numbers[name, share_class])
        for kind in _kinds_of_path(problem.spine)
    )
    spine = tuple(problem.spine.names)
    facts = facts_of(problem)
    definition, neighbours = strategy.definition, strategy.neighbours
    return Plan("topdown", neighbours, definition, tuple(measures), spine, facts, paths, free=FREE)


FREE = (
    "strategy.evidence",
    "evidence",
    "strategy.levels.*.estimation",
    "strategy.constraints.bounds",
    "strategy.constraints.zeros",
    "bounds",
    "frame_columns",
    "frame_counts",
    "output",
    "measurements",
)
"""What is made of the measurements: how they are estimated, what public knowledge bounds them, what is written.
Invariants are not among it, nor the counts of the frame that tell them: they are published as they are."""


def counts_by_code(problem: TopDownProblem) -> dict[str, Integers]:
    """The counts of the frame that constraints use, blocks in the order of their codes; those off the spine, which have
    no unit to live in, count zero."""
    order = np.argsort(problem.frame.spine.blocks.unit_of_block)
    counts = {}
    for name, values in problem.columns.items():
        by_row = np.zeros(len(order), np.int64)
        by_row[problem.spine.rows] = values
        counts[name] = by_row[order]
    return counts


def counts_fingerprint(counts: Integers) -> str:
    """SHA-256 of a column of counts, by which a plan knows the numbers that a release keeps to."""
    return hashlib.sha256(counts.astype("<i8").tobytes()).hexdigest()


def facts_of(problem: TopDownProblem) -> dict[str, Any]:
    """What decides a release apart from its measurements, and what a reader needs to check it."""
    strategy = problem.strategy
    counts = {name: counts_fingerprint(values) for name, values in counts_by_code(problem).items()}
    below = {"evidence": list(problem.evidence_levels)} if problem.evidence_levels else {}
    return (
        below
        | {
            "strategy": strategy.as_dict(),
            "record": strategy.record,
            "frame": problem.frame.fingerprint,
            "spine": problem.spine.fingerprint(),
            "spine_settings": problem.spec.topdown.model_dump(exclude={"strategy", "root"}),
            **stated_of(strategy),
            "frame_columns": list(problem.columns),
            "frame_counts": counts,
            "told_counts": {
                column: counts[column] for invariant in strategy.constraints.invariants for column in invariant.frame
            },
            "levels": [level.name for level in problem.frame.spine.levels],
            "areas": [area.name for area in problem.frame.spine.areas],
            "output": problem.output.as_dict(),
            "measurements": problem.spec.output.measurements and problem.file_layout.as_question,
            "layout": {
                "block": problem.spec.geography.block,
                "columns": problem.spec.data.columns,
                "block_columns": problem.spec.data.block_columns,
                "delimiter": problem.spec.data.delimiter,
                "counted": [part.model_dump() for part in problem.spec.data.counted],
                "presence": problem.spec.data.presence,
            },
        }
        | reading_facts(strategy.schema, problem.records, problem.spec.geography.block)
    )


def _kinds_of_path(spine: TopDownSpine) -> list[list[tuple[str, int]]]:
    """The distinct sequences of share classes from the root to a block."""
    classes = [level.shares.index[spine.unit_of_block(level.name)] for level in spine.levels]
    # One number for each sequence sorts much faster than rows, in the same order.
    number = np.zeros(len(spine.rows), np.int64)
    for level, share_class in zip(spine.levels, classes, strict=True):
        number = np.unique(number * len(level.shares.table) + share_class, return_inverse=True)[1].reshape(-1)
    _, first = np.unique(number, return_index=True)
    return [
        [(name, int(share_class[block])) for name, share_class in zip(spine.names, classes, strict=True)]
        for block in first.tolist()
    ]


# From a TopDown spec to its problem: strategy, frame, spine. Every problem is a finding; no record is read.


STATE, TRACT_GROUP, BLOCK_GROUP = "state", "tract_group", "block_group"
MADE_LEVELS = (
    build_spine.PRIM,
    build_spine.TRACT_SUBSET_GROUP,
    build_spine.TRACT_SUBSET,
    TRACT_GROUP,
    BLOCK_GROUP,
)
"""The levels that an optimised spine makes where the strategy has them, from the top down."""


def prepare(loaded: LoadedSpec, engine: Engine) -> TopDownProblem:
    """The problem of a spec: strategy, frame, spine and output, without a look at the records.

    Args:
        loaded: A TopDown spec with its place in the file system.
        engine: What reads the block table.

    Returns:
        Everything the release depends on but the records. Raises with all findings of a stage.
    """
    spec = loaded.spec
    assert isinstance(spec, TopDownSpec)
    sources, findings = find_sources(loaded)
    try:
        strategy = load_strategy(
            spec.topdown.strategy, loaded.path.parent, root=spec.topdown.root, budget=spec.privacy.budget
        ).with_smallest(spec.geography.smallest)
    except ConfideError as error:
        place = loaded.place("topdown", "strategy")
        raise SpecError(
            [*findings, *(replace(f, where=f.where if f.where.file else place) for f in error.findings)]
        ) from None
    findings += _levels(loaded, spec, strategy)
    findings += check_kinds(loaded, spec, strategy)
    findings += _presence(loaded, spec, strategy)
    findings += _around(loaded, spec)
    findings += _column_names(loaded, spec, strategy)
    if findings:
        raise SpecError(findings)
    blocks = sources["blocks"]
    frame = read_topdown_frame(engine, blocks, spec)
    counts = read_counts(engine, blocks, strategy.frame_columns)
    counts |= {name: np.minimum(counts[name], 1) for name in spec.data.presence if name in counts}
    if findings := check_sizes(strategy.constraints, counts, blocks.file):
        raise InputError(findings)
    try:
        spine = spine_of(spec.topdown, strategy, frame.spine, counts)
    except InputError as error:
        place = Place(file=blocks.file)
        raise InputError(replace(f, where=f.where if f.where.file else place) for f in error.findings) from None
    if findings := check_invariant_level(strategy, spine, loaded.place("topdown", "strategy")):
        raise SpecError(findings)
    columns = {name: values[spine.rows] for name, values in counts.items()}
    output = prepare_output(loaded, strategy, frame)
    return TopDownProblem(spec, strategy, frame, spine, columns, sources["records"], blocks.file, output)


def read_topdown_frame(engine: Engine, blocks: Source, spec: TopDownSpec) -> Frame:
    """The frame of a block table, without the optional areas that it lacks."""
    geography, present = spec.geography, engine.kinds(blocks)
    levels, areas = frame_rules(geography)
    absent = {area.name for area in geography.areas if area.optional and blocks.theirs(area.column) not in present}
    areas = [rule for rule in areas if rule.name not in absent]
    return read_frame(engine, blocks, geography.block, levels, areas, geography.block_names, geography.smallest)


def _levels(loaded: LoadedSpec, spec: TopDownSpec, strategy: Strategy) -> list[Finding]:
    """The levels of the frame must be those of the strategy; levels that the spine makes need not be there."""
    names = [level.name for level in spec.geography.levels]
    place = loaded.place("geography", "levels")
    if spec.topdown.spine == "optimised":
        if build_spine.PRIM in strategy.level_names and build_spine.PRIM not in names:
            if build_spine.TRACT not in names:
                return [Finding.of("spine-levels/prims", where=place, names=" > ".join(names), tract=build_spine.TRACT)]
            names.remove(build_spine.TRACT)  # its parts by prim are on the spine in its place
        for level_name in (name for name in MADE_LEVELS if name in strategy.level_names and name not in names):
            names.insert(strategy.level_names.index(level_name), level_name)
        if STATE not in names or BLOCK_GROUP not in names:
            return [
                Finding.of("spine-levels", where=place, names=" > ".join(names), state=STATE, block_group=BLOCK_GROUP)
            ]
    return [replace(finding, where=place) for finding in check_levels(strategy, [*names, spec.geography.smallest])]


def check_kinds(loaded: LoadedSpec, spec: TopDownSpec, strategy: Strategy) -> Iterator[Finding]:
    """What is wrong with the kinds of record that a spec says are counted."""
    attributes = {attribute.name: attribute for attribute in strategy.schema.attributes}
    seen: list[dict[str, int | str]] = []
    for position, part in enumerate(spec.data.counted):
        at: KeyPath = ("data", "counted", position, "where")
        wrong = [name for name, code in part.where.items() if code not in getattr(attributes.get(name), "index", {})]
        lacking = [name for name in attributes if name not in part.where]
        if wrong or lacking or part.where in seen:
            yield Finding.of(
                "counted-kind",
                where=loaded.place(*at),
                place=", ".join((f"{name} = {code!r}" for name, code in part.where.items())),
                attributes=", ".join(attributes),
            )
        seen.append(part.where)


MEASURED_COLUMNS = ("geocode", "query_name", "query_shape", "value", "variance", "sigma2", "plb", "sign")
"""Columns of the measurement file, beside one for each attribute (``measurements/layout.py``)."""


def _column_names(loaded: LoadedSpec, spec: TopDownSpec, strategy: Strategy) -> list[Finding]:
    """Attributes are beside columns of ours: the block in the records, and those of the measurement file."""
    columns = (spec.geography.block, *(MEASURED_COLUMNS if spec.output.measurements else ()))
    try:
        check_column_names(strategy.schema.attributes, columns)
    except ConfideError as error:
        return placed(error, loaded.place("topdown", "strategy"))
    return []


def _around(loaded: LoadedSpec, spec: TopDownSpec) -> list[Finding]:
    names = [level.name for level in spec.geography.levels] + [area.name for area in spec.geography.areas]
    return [
        Finding.of(
            "unknown-area/block",
            where=loaded.place("topdown", "around", position),
            found=repr(name),
            name=name,
            names=", ".join(names),
        )
        for position, name in enumerate(spec.topdown.around or [])
        if name not in names
    ]


def absent_areas(problem: TopDownProblem) -> list[Finding]:
    """A warning for the optional areas that the block table has no column for, if there are any."""
    there, geography = problem.frame.spine.names, problem.spec.geography
    absent = [area for area in geography.areas if area.optional and area.name not in there]
    if not absent:
        return []
    around = [area.name for area in absent if area.name in (problem.spec.topdown.around or ())]
    columns = {**problem.spec.data.columns, **problem.spec.data.block_columns}
    return [
        Finding.of(
            "absent-area",
            where=Place(file=problem.blocks_file),
            severity="warning",
            around=", ".join(around) if around else None,
            absent=", ".join(repr(columns.get(area.column, area.column)) for area in absent),
            absent_expected=", ".join(area.name for area in absent),
        )
    ]


def _presence(loaded: LoadedSpec, spec: TopDownSpec, strategy: Strategy) -> list[Finding]:
    columns = strategy.frame_columns
    return [
        Finding.of(
            "unknown-column",
            where=loaded.place("data", "presence", position),
            found=repr(name),
            name=name,
            columns=", ".join(columns),
        )
        for position, name in enumerate(spec.data.presence)
        if name not in columns
    ]


def spine_of(
    settings: TopDownPart, strategy: Strategy, frame: Spine, counts: Mapping[str, NDArray[np.int64]]
) -> TopDownSpine:
    """The spine that the settings make of a frame; ``counts`` are the columns of the block table."""
    with_units = np.any([counts[name] > 0 for name in strategy.blocks_with], axis=0) if strategy.blocks_with else None
    if settings.spine == "plain":
        return build_spine.build_topdown_spine(frame, strategy.shares, with_units=with_units)
    names = frame.names
    split = None
    if settings.split_aian and "aiannh" in names:
        split = build_spine.aian_flags(
            frame.level("aiannh"), build_spine.parse_area_types(load_shipped("geography", "aiannh-types"))
        )
    strong = build_spine.parse_strong_mcd_states(load_shipped("geography", "strong-mcd-states"))
    division, place = (frame.level(name) if name in names else None for name in ("cousub", "place"))
    prims = None
    if build_spine.PRIM in strategy.level_names and build_spine.PRIM not in names:
        prims = build_spine.primitive_areas(frame.level(STATE), strong, division=division, place=place)
    if settings.around is not None:
        kinds = [frame.level(name) for name in settings.around if name in names]
    elif prims is not None:
        # Divisions and places are above the block groups already.
        kinds = [frame.level(name) for name in (BLOCK_GROUP,) if name in names]
    else:
        kinds = [
            build_spine.divisions_or_places(frame.level(STATE), strong, division=division, place=place, split=split)
        ]
    if split is not None:
        kinds.append(build_spine.split_areas(frame.level("aiannh"), split))
    presence = np.stack([counts[name] > 0 for name in strategy.apart], axis=1) if strategy.apart else None
    optimisation = build_spine.Optimisation(
        build_spine.off_spine_entities(kinds, presence, blocks=len(frame.blocks.unit_of_block)),
        BLOCK_GROUP,
        TRACT_GROUP if TRACT_GROUP in strategy.level_names and TRACT_GROUP not in names else None,
        prims,
        settings.fanout,
        settings.entity_threshold,
    )
    return build_spine.build_topdown_spine(
        frame, strategy.shares, with_units=with_units, split=split, optimise=optimisation
    )


def with_plain_records(problem: TopDownProblem, records: Source) -> TopDownProblem:
    """The problem with other records, made-up ones: they have a row each, also where the office's come counted."""
    plain = problem.spec.data.model_copy(update={"counted": []})
    return replace(problem, records=records, spec=problem.spec.model_copy(update={"data": plain}))
