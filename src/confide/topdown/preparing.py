"""From a TopDown spec to its question: strategy, frame, spine. Every problem is a finding; no record is read."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from confide.engines import Engine
from confide.errors import ConfideError, Finding, SpecError
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
from confide.topdown.question import Question
from confide.topdown.spec import TopDownSpec
from confide.topdown.strategy import Strategy, check_levels
from confide.topdown.strategy_file import load_strategy

BLOCK_GROUP = "block_group"


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
    if findings:
        raise SpecError(findings)
    levels = [LevelRule(level.name, level.digits, level.column) for level in spec.geography.levels]
    areas = [AreaRule(area.name, area.column, area.none) for area in spec.geography.areas]
    frame = read_frame(engine, sources["blocks"], spec.geography.block, levels, areas)
    counts = read_counts(engine, sources["blocks"], strategy.constraints.frame_columns)
    spine = _spine(spec, strategy, frame.spine, counts)
    columns = {name: values[spine.rows] for name, values in counts.items()}
    return Question(spec, strategy, frame, spine, columns, sources["records"])


def _levels(loaded: LoadedSpec, spec: TopDownSpec, strategy: Strategy) -> list[Finding]:
    """The levels of the frame must be those of the strategy; block groups that the spine makes need not be there."""
    names = [level.name for level in spec.geography.levels]
    if spec.topdown.spine == "optimised" and BLOCK_GROUP not in names:
        names.append(BLOCK_GROUP)
    place = loaded.place("geography", "levels")
    return [replace(finding, where=place) for finding in check_levels(strategy, [*names, "block"])]


def _spine(spec: TopDownSpec, strategy: Strategy, frame: Spine, counts: dict[str, NDArray[np.int64]]) -> TopDownSpine:
    with_units = np.sum(list(counts.values()), axis=0) > 0 if counts else None
    if spec.topdown.spine == "plain":
        return build_topdown_spine(frame, strategy.shares, with_units=with_units)
    names = frame.names
    split = None
    if spec.topdown.split_aian and "aiannh" in names:
        split = aian_flags(frame.level("aiannh"), parse_area_types(load_shipped("geography", "aiannh-types")))
    state = frame.level("state")
    strong = parse_strong_mcd_states(load_shipped("geography", "strong-mcd-states"))
    division, place = (frame.level(name) if name in names else None for name in ("cousub", "place"))
    kinds = [divisions_or_places(state, strong, division=division, place=place, split=split)]
    if split is not None:
        kinds.append(split_areas(frame.level("aiannh"), split))
    quarters = [name for name in counts if name.startswith("gq")]
    presence = np.stack([counts[name] > 0 for name in quarters], axis=1) if quarters else None
    entities = off_spine_entities(kinds, presence)
    return build_topdown_spine(
        frame, strategy.shares, with_units=with_units, split=split, optimise=Optimisation(entities, BLOCK_GROUP)
    )
