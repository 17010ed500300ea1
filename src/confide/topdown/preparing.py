"""From a TopDown spec to its question: strategy, frame, spine. Every problem is a finding; no record is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from confide.engines import Engine
from confide.errors import ConfideError, Finding, InputError, Place, SpecError
from confide.geography import Spine
from confide.geography.aian import aian_flags, parse_area_types
from confide.geography.off_spine import (
    divisions_or_places,
    off_spine_entities,
    parse_strong_mcd_states,
    split_areas,
)
from confide.geography.topdown_spine import Optimisation, build_topdown_spine
from confide.geography.topdown_tree import TopDownSpine
from confide.inputs.frame import AreaRule, LevelRule, read_counts, read_frame
from confide.inputs.shipped import load_shipped
from confide.runs.load_spec import LoadedSpec
from confide.runs.sources import find_sources
from confide.topdown.output.settings import prepare_output
from confide.topdown.question import Question
from confide.topdown.records.counted import check_kinds
from confide.topdown.records.invariant_totals import check_invariant_level
from confide.topdown.spec import TopDownPart, TopDownSpec
from confide.topdown.strategies.file import load_strategy
from confide.topdown.strategies.strategy import Strategy, check_levels

STATE, TRACT_GROUP, BLOCK_GROUP = "state", "tract_group", "block_group"


def prepare(loaded: LoadedSpec, engine: Engine) -> Question:
    """The question of a spec. Raises with all findings of a stage."""
    spec = loaded.spec
    assert isinstance(spec, TopDownSpec)
    sources, findings = find_sources(loaded)
    try:
        strategy = load_strategy(
            spec.topdown.strategy, loaded.path.parent, root=spec.topdown.root, budget=spec.privacy.budget
        )
    except ConfideError as error:
        place = loaded.place("topdown", "strategy")
        raise SpecError(
            [*findings, *(replace(f, where=f.where if f.where.file else place) for f in error.findings)]
        ) from None
    findings += _levels(loaded, spec, strategy)
    findings += check_kinds(loaded, spec, strategy)
    findings += _presence(loaded, spec, strategy)
    findings += _around(loaded, spec)
    if findings:
        raise SpecError(findings)
    levels = [LevelRule(level.name, level.digits, level.column) for level in spec.geography.levels]
    blocks = sources["blocks"]
    present = engine.kinds(blocks)
    areas = [
        AreaRule(area.name, area.column, area.none, area.within)
        for area in spec.geography.areas
        if not area.optional or blocks.theirs(area.column) in present
    ]
    frame = read_frame(engine, blocks, spec.geography.block, levels, areas)
    counts = read_counts(engine, blocks, strategy.frame_columns)
    counts |= {name: np.minimum(counts[name], 1) for name in spec.data.presence if name in counts}
    try:
        spine = spine_of(spec.topdown, strategy, frame.spine, counts)
    except InputError as error:
        place = Place(file=blocks.file)
        raise InputError(replace(f, where=f.where if f.where.file else place) for f in error.findings) from None
    if findings := check_invariant_level(strategy, spine, loaded.place("topdown", "strategy")):
        raise SpecError(findings)
    columns = {name: values[spine.rows] for name, values in counts.items()}
    output = prepare_output(loaded, strategy, frame.spine)
    return Question(spec, strategy, frame, spine, columns, sources["records"], blocks.file, output)


def _levels(loaded: LoadedSpec, spec: TopDownSpec, strategy: Strategy) -> list[Finding]:
    """The levels of the frame must be those of the strategy; levels that the spine makes need not be there."""
    names = [level.name for level in spec.geography.levels]
    place = loaded.place("geography", "levels")
    if spec.topdown.spine == "optimised":
        for made in (name for name in (TRACT_GROUP, BLOCK_GROUP) if name in strategy.level_names and name not in names):
            names.insert(strategy.level_names.index(made), made)
        if STATE not in names or BLOCK_GROUP not in names:
            return [
                Finding(
                    code="spine-levels",
                    what="an optimised spine makes block groups around places or divisions, State by State",
                    where=place,
                    found=" > ".join(names) or "no levels",
                    expected=f"levels {STATE!r} and {BLOCK_GROUP!r}",
                    remedy='take spine = "plain" under [topdown]',
                )
            ]
    return [replace(finding, where=place) for finding in check_levels(strategy, [*names, "block"])]


def _around(loaded: LoadedSpec, spec: TopDownSpec) -> list[Finding]:
    declared = [area.name for area in spec.geography.areas]
    return [
        Finding(
            code="unknown-area",
            what=f"block groups cannot be made around {name!r}",
            where=loaded.place("topdown", "around", position),
            found=repr(name),
            expected="one of "
            + (", ".join(declared) or "the areas under [[geography.areas]]")
            + ", none of them optional",
            remedy="declare the area, or leave it out",
        )
        for position, name in enumerate(spec.topdown.around or [])
        if name not in declared
    ]


def _presence(loaded: LoadedSpec, spec: TopDownSpec, strategy: Strategy) -> list[Finding]:
    known = strategy.frame_columns
    return [
        Finding(
            code="unknown-column",
            what=f"the strategy uses no column {name!r} of the block table",
            where=loaded.place("data", "presence", position),
            found=repr(name),
            expected="one of " + ", ".join(known),
            remedy="correct the name",
        )
        for position, name in enumerate(spec.data.presence)
        if name not in known
    ]


def spine_of(
    settings: TopDownPart, strategy: Strategy, frame: Spine, counts: Mapping[str, NDArray[np.int64]]
) -> TopDownSpine:
    """The spine that the settings make of a frame; ``counts`` are the columns of the block table."""
    with_units = np.any([counts[name] > 0 for name in strategy.blocks_with], axis=0) if strategy.blocks_with else None
    if settings.spine == "plain":
        return build_topdown_spine(frame, strategy.shares, with_units=with_units)
    names = frame.names
    split = None
    if settings.split_aian and "aiannh" in names:
        split = aian_flags(frame.level("aiannh"), parse_area_types(load_shipped("geography", "aiannh-types")))
    if settings.around is None:
        strong = parse_strong_mcd_states(load_shipped("geography", "strong-mcd-states"))
        division, place = (frame.level(name) if name in names else None for name in ("cousub", "place"))
        kinds = [divisions_or_places(frame.level(STATE), strong, division=division, place=place, split=split)]
    else:
        kinds = [frame.level(name) for name in settings.around if name in names]
    if split is not None:
        kinds.append(split_areas(frame.level("aiannh"), split))
    presence = np.stack([counts[name] > 0 for name in strategy.apart], axis=1) if strategy.apart else None
    optimisation = Optimisation(
        off_spine_entities(kinds, presence, blocks=len(frame.blocks.unit_of_block)),
        BLOCK_GROUP,
        TRACT_GROUP if TRACT_GROUP in strategy.level_names and TRACT_GROUP not in names else None,
        settings.fanout,
        settings.entity_threshold,
    )
    return build_topdown_spine(frame, strategy.shares, with_units=with_units, split=split, optimise=optimisation)
