"""From a spec for post-processing to its problem: strategy, measurements, and the spine and frame that they tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field

from confide.arrays import Integers
from confide.documents import load_shipped
from confide.engines import Engine, Source
from confide.errors import ConfideError, Finding, InputError, Place, SpecError
from confide.geography import Spine, build_spine
from confide.inputs.frame import WHOLE, Frame, fingerprint, read_counts
from confide.mechanisms.topdown.constraints import check_sizes
from confide.mechanisms.topdown.measurements import reading
from confide.mechanisms.topdown.measurements.folder import (
    MeasurementFolder,
    find_measurements,
    official_codes,
    spine_of,
)
from confide.mechanisms.topdown.measurements.layout import FileLayout
from confide.mechanisms.topdown.output.settings import prepare_output
from confide.mechanisms.topdown.problem import TopDownProblem, read_topdown_frame
from confide.mechanisms.topdown.spec import CountedPart, TopDownData, TopDownPart, TopDownSpec
from confide.mechanisms.topdown.strategy import Strategy
from confide.mechanisms.topdown.strategy_file import load_strategy
from confide.releases.spec import LoadedSpec, PrivacyPart, Problem, find_source, is_path

# The spec of a release that is made from published measurements: no records, no budget, no ledger.


NOTHING = "-"


class PostprocessData(TopDownData):
    """Where the measurements are."""

    measurements: str = Field(
        description="The noisy measurement file: a folder with LEVEL.parquet/DPQuery and LEVEL.parquet/Constraint."
    )
    blocks: str | None = Field(  # type: ignore[assignment]
        None, description="The block table: for areas, for levels by column, and for counts that no constraint tells."
    )
    recodes: dict[str, str] = Field(
        default_factory=dict, description="Our name of a recode = what the measurements call it, where they differ."
    )
    totals: dict[str, int] = Field(
        default_factory=dict,
        description="Known numbers of records, by code of the unit, where the constraints do not have them.",
    )
    records: ClassVar[str] = NOTHING  # type: ignore[misc]
    counted: ClassVar[list[CountedPart]] = []  # type: ignore[misc]
    presence: ClassVar[list[str]] = []  # type: ignore[misc]


class PostprocessPart(TopDownPart):
    """What was measured: the strategy says which queries there are and how they become estimates."""

    spine: ClassVar[Literal["plain"]] = "plain"  # type: ignore[misc]
    split_aian: ClassVar[bool] = False  # type: ignore[misc]
    around: ClassVar[None] = None  # type: ignore[misc]
    fanout: ClassVar[int] = 0  # type: ignore[misc]
    entity_threshold: ClassVar[int] = 0  # type: ignore[misc]


class PostprocessSpec(TopDownSpec):
    """Records from noisy measurements that were published. Nothing confidential is read and nothing is spent."""

    data: PostprocessData
    topdown: PostprocessPart
    privacy: ClassVar[PrivacyPart] = PrivacyPart(ledger=NOTHING, budget=Fraction(1))  # type: ignore[misc]

    def problems(self) -> list[Problem]:
        problems = super().problems()
        if self.output.measurements:
            problems.append(Problem.of(("output", "measurements"), "measured-before"))
        texts: dict[str, Any] = {"measurements": self.data.measurements}
        problems += [
            Problem.of(("data", key), "bad-path/folder", found=repr(text), key=key)
            for key, text in texts.items()
            if not is_path(text)
        ]
        problems += [
            Problem.of(("data", "totals", code), "bad-total/number", found=str(n))
            for code, n in self.data.totals.items()
            if n < 0
        ]
        if self.data.blocks is None and self.geography.has_names:
            problems.append(Problem.of(("geography",), "no-block-table/columns"))
        if self.data.blocks is None:
            problems += [
                Problem.of(("geography", "areas", position), "no-block-table/areas", area=area.name)
                for position, area in enumerate(self.geography.areas)
                if not area.optional
            ]
            problems += [
                Problem.of(("geography", "levels", position), "no-block-table/level", level=level.name)
                for position, level in enumerate(self.geography.levels)
                if level.column is not None
            ]
        return problems


@dataclass(frozen=True, kw_only=True)
class PostprocessProblem(TopDownProblem):
    """Everything that a release from measurements depends on."""

    folder: MeasurementFolder
    readers: tuple[reading.LevelReader, ...]
    totals: Mapping[str, pa.Table]
    """Known numbers of records, by level: unit, cell (what is known together) and n."""
    total: int | None
    """The number of records, where it is an invariant."""
    known: Mapping[str, int]
    """Totals that the spec gives."""
    source: Mapping[str, Any]
    """What the measurements are: fingerprint, and what they say of themselves."""
    place: Place
    """Where the spec names them."""


def prepare_measured(loaded: LoadedSpec, engine: Engine) -> PostprocessProblem:
    """The problem of a spec. Raises with all findings of a stage."""
    spec = loaded.spec
    assert isinstance(spec, PostprocessSpec)
    place = loaded.place("data", "measurements")
    strategy = _strategy(loaded, spec)
    sizes = {attribute.name: attribute.size for attribute in strategy.schema.attributes}
    folder = find_measurements(loaded.resolve(spec.data.measurements), strategy.level_names, place, sizes)
    try:
        levels = [folder.units(name) for name in strategy.level_names]
        recodes = load_shipped("measurements", "recodes")["recodes"]
        recodes |= dict(FileLayout.of(strategy).recodes) | spec.data.recodes
        readers = tuple(
            reading.level_reader(folder, units, strategy.level(units.name), strategy.schema, recodes)
            for units in levels
        )
        codes = official_codes(levels[-1])
        blocks = _blocks(loaded, spec)
        frame = _frame(spec, engine, blocks, codes)
        rows = _rows(frame.spine, codes, place)
        spine = spine_of(levels, strategy.shares, frame.spine, rows)
        columns = reading.frame_columns(folder, strategy, levels[-1])
        columns |= _counts(engine, blocks, [c for c in strategy.constraints.frame_columns if c not in columns], rows)
        if findings := check_sizes(strategy.constraints, columns, place.file or folder.path.name):
            raise InputError(findings)
        reading.check_limits(folder, strategy, levels[-1], columns)
        totals = reading.known_totals_of(folder, strategy, levels, spine, spec.data.totals)
        total = reading.root_total(strategy, totals, columns, strategy.level_names[0])
        source = {"sha256": folder.fingerprint(), "files": len(folder.all_files)} | folder.said()
    except (pa.ArrowException, KeyError) as error:
        raise InputError("measurements/read", where=place, name=type(error).__name__) from None
    return PostprocessProblem(
        spec,
        strategy,
        frame,
        spine,
        {name: columns[name] for name in strategy.constraints.frame_columns},
        Source(folder.path, "parquet"),
        folder.path.name,
        prepare_output(loaded, strategy, frame),
        folder=folder,
        readers=readers,
        totals=totals,
        total=total,
        known=spec.data.totals,
        source=source,
        place=place,
    )


def _strategy(loaded: LoadedSpec, spec: PostprocessSpec) -> Strategy:
    try:
        strategy = load_strategy(spec.topdown.strategy, loaded.path.parent, root=spec.topdown.root)
        return strategy.with_smallest(spec.geography.smallest)
    except ConfideError as error:
        place = loaded.place("topdown", "strategy")
        raise SpecError(replace(f, where=f.where if f.where.file else place) for f in error.findings) from None


def _blocks(loaded: LoadedSpec, spec: PostprocessSpec) -> Source | None:
    if spec.data.blocks is None:
        return None
    source = find_source(loaded, "blocks")
    if isinstance(source, Finding):
        raise SpecError(source)
    return source


def _frame(spec: PostprocessSpec, engine: Engine, blocks: Source | None, codes: NDArray[np.str_]) -> Frame:
    """The frame of the block table, or, without one, what the block codes tell."""
    if blocks is not None:
        return read_topdown_frame(engine, blocks, spec)
    listed, parts = codes.tolist(), spec.geography.levels
    levels = {part.name: [code[: part.digits] if part.digits else WHOLE for code in listed] for part in parts}
    spine = build_spine(levels | {spec.geography.smallest: listed})
    return Frame(spine, fingerprint(spine))


def _rows(frame: Spine, codes: NDArray[np.str_], place: Place) -> Integers:
    """For each block of the measurements its row in the frame."""
    frame_codes = np.array(frame.blocks.codes)
    position = np.minimum(np.searchsorted(frame_codes, codes), len(frame_codes) - 1)
    missing = np.flatnonzero(frame_codes[position] != codes)
    if len(missing):
        code = repr(str(codes[missing[0]]))
        raise InputError("unknown-block/blocks", where=place, found=code, missing=len(missing))
    row_of = np.empty(len(frame_codes), np.int64)
    row_of[frame.blocks.unit_of_block] = np.arange(len(frame_codes))
    return row_of[position]


def _counts(engine: Engine, blocks: Source | None, names: list[str], rows: Integers) -> dict[str, Integers]:
    """Counts of the frame that the constraints do not tell, from the block table."""
    if not names:
        return {}
    if blocks is None:
        raise InputError("no-constraints", where=Place(file="Constraint"), names=", ".join(names))
    return {name: values[rows] for name, values in read_counts(engine, blocks, names).items()}
