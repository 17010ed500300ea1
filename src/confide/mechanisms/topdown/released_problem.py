"""The problem of a release made again from its own files: strategy, frame and spine. No truth is needed.

The plan describes the strategy, the table ``units`` what the frame says of every block, and the settings of the spine
what is made of it. Where the spine was read from measurements, a file of its own has its units. What the plan does not
have are the groups of recodes: they are in the manifest, beside the method of the expected errors that they serve.
Nothing of it has to be believed: schema and spine have fingerprints in the plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from confide.arrays import Integers
from confide.engines import Source
from confide.errors import Place, ReleaseError
from confide.geography import Spine, build_spine
from confide.inputs.frame import Frame
from confide.mechanisms.topdown.measurements.folder import UnitsOfLevel
from confide.mechanisms.topdown.measurements.folder import spine_of as spine_of_units
from confide.mechanisms.topdown.output.settings import RECORDS, UNITS, Output
from confide.mechanisms.topdown.problem import TopDownProblem, spine_of
from confide.mechanisms.topdown.spec import TopDownPart, TopDownSpec
from confide.mechanisms.topdown.spine import TopDownSpine
from confide.mechanisms.topdown.strategy import Strategy, read_strategy
from confide.releases.folder import SealedRelease
from confide.schema import Attribute, Group, Level, Recode, Schema

ACCURACY = "accuracy"
"""The entry of a manifest that says how expected errors were worked out, and the name of their files."""
SPINE = "spine"
"""The file with the units of a spine that was read from measurements."""


def recodes_of(schema: Schema) -> dict[str, list[dict[str, Any]]]:
    """The recodes of a schema for a manifest: for each its groups, with label and codes."""
    return {
        recode.name: [{"label": group.label, "codes": list(group.codes)} for group in recode.groups]
        for recode in schema.recodes
    }


def released_strategy(manifest: Mapping[str, Any]) -> Strategy:
    """The strategy of a release whose manifest has its recodes. Raises ``ValueError`` unless it is the one of the plan:
    the same shares, constraints and passes, and a schema with the same fingerprint."""
    facts = manifest["plan"]["question"]
    explained = Output.from_dict(facts["output"]).explained
    attributes = {
        name: Attribute(name, said.title, tuple(map(Level, facts["output"]["codes"][name], said.labels)))
        for name, said in explained.by_name.items()
    }
    recodes = tuple(
        Recode(
            name,
            attributes[name.partition(":")[0]],
            tuple(Group(group["label"], tuple(group["codes"])) for group in groups),
        )
        for name, groups in manifest[ACCURACY]["recodes"].items()
    )
    described = facts["strategy"]
    schema = Schema(described["schema"]["id"], "", tuple(attributes.values()), recodes)
    spellings = facts.get("reading", {}).get("attributes", {})
    strategy = read_strategy(described, schema, facts["record"])
    same = strategy.as_dict() | {"schema": described["schema"]} == described
    if not same or schema.fingerprint_with(spellings) != described["schema"]["sha256"]:
        raise ValueError("the strategy is not that of the plan")
    return strategy


def released_table(release: SealedRelease, place: str, texts: Sequence[str]) -> pa.Table:
    """A table such as ``tables/units``, from whichever of its files there is. Raises ``FileNotFoundError`` where
    the release has no such file.

    Args:
        release: The release.
        place: The path of the table, without stamp and ending.
        texts: The columns that are texts, also where they look like numbers.
    """
    file = release.table(f"{place}.")
    if file is None:
        raise FileNotFoundError(place)
    if file.suffix == ".parquet":
        return pq.read_table(file)
    kinds: dict[str, pa.DataType] = dict.fromkeys(texts, pa.string())
    options = pyarrow.csv.ConvertOptions(column_types=kinds, strings_can_be_null=False)
    return pyarrow.csv.read_csv(file, convert_options=options)


def released_frame(release: SealedRelease, units: pa.Table | None = None) -> tuple[Spine, dict[str, Integers]]:
    """The frame, blocks in the order of their codes, and its counts that constraints use; ``units`` is the table of
    blocks, where it was read before."""
    facts = release.facts
    block = facts["layout"]["block"]
    texts_of = [block, *facts["levels"], *facts["areas"]]
    table = released_table(release, f"tables/{UNITS}", texts_of) if units is None else units

    def texts(name: str) -> list[str | None]:
        return [code or None for code in table.column(name).cast(pa.string()).to_pylist()]

    *above, last = facts["levels"]
    levels = {name: [code or "" for code in texts(name)] for name in above}
    levels[last] = [code or "" for code in texts(block)]
    frame = build_spine(levels, {name: texts(name) for name in facts["areas"]}, file=UNITS)
    return frame, {name: table.column(name).to_numpy().astype(np.int64) for name in facts["frame_columns"]}


def released_spine(
    release: SealedRelease, strategy: Strategy, frame: Spine, columns: Mapping[str, Integers]
) -> TopDownSpine:
    """The spine. Raises ``ValueError`` unless it has the fingerprint of the plan."""
    facts = release.facts
    if release.paths(f"{SPINE}."):
        block = facts["layout"]["block"]
        listed = released_table(release, SPINE, ["level", "unit", block])
        spine = _listed_spine(listed, block, strategy, frame)
    else:
        settings = TopDownPart.model_validate({"strategy": strategy.id} | facts["spine_settings"])
        spine = spine_of(settings, strategy, frame, columns)
    if spine.fingerprint() != facts["spine"]:
        raise ValueError("the spine is not that of the plan")
    return spine


def spine_table(levels: Sequence[UnitsOfLevel], block: str, codes: Sequence[str]) -> pa.Table:
    """The units of a spine that was read from measurements, level by level in the order of their ids.

    Args:
        levels: The units of each level, the root first.
        block: The name of the column of block codes.
        codes: The official codes of the blocks.
    """
    numbers = [len(level.ids) for level in levels]
    kinds = {
        "level": (pa.string(), "level of the spine"),
        "unit": (pa.string(), "id of the unit, as in the measurements; it begins with the id of its parent"),
        "measured": (pa.int64(), "1: there are measurements of the unit; 0: it is the only part of another, or as one"),
        block: (pa.string(), "code of a unit of the last level; empty above it"),
    }
    columns = [
        [name for level, number in zip(levels, numbers, strict=True) for name in [level.name] * number],
        [unit for level in levels for unit in level.ids.tolist()],
        np.concatenate([level.measured.astype(np.int64) for level in levels]),
        [""] * sum(numbers[:-1]) + list(codes),
    ]
    fields = [pa.field(name, kind, False, {"description": said}) for name, (kind, said) in kinds.items()]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, fields, strict=True)], schema=pa.schema(fields))


def _listed_spine(table: pa.Table, block: str, strategy: Strategy, frame: Spine) -> TopDownSpine:
    level, unit, code = (np.array(table.column(name).to_pylist(), np.str_) for name in ("level", "unit", block))
    measured = table.column("measured").to_numpy() == 1
    levels = [UnitsOfLevel(name, unit[level == name], measured[level == name], None) for name in strategy.level_names]
    # The frame has its blocks in the order of their codes.
    rows = np.searchsorted(np.array(frame.blocks.codes), code[level == strategy.level_names[-1]])
    return spine_of_units(levels, strategy.shares, frame, rows)


def released_problem(
    release: SealedRelease, output: Output | None = None, units: pa.Table | None = None
) -> TopDownProblem:
    """The problem of a release, with its own records as the records. Raises ``ValueError``, ``LookupError`` or
    ``OSError`` where files and plan do not belong together.

    Args:
        release: The release.
        output: What its plan says is written, where that was read before.
        units: The table of blocks, likewise.
    """
    strategy = released_strategy(release.manifest)
    frame, counts = released_frame(release, units)
    spine = released_spine(release, strategy, frame, counts)
    columns = {name: values[spine.rows] for name, values in counts.items()}
    manifest, facts = release.manifest, release.facts
    spec = {
        "release": {"name": manifest["release"], "mechanism": manifest["mechanism"], "rehearsal": True},
        "data": {"records": RECORDS, "blocks": "units"},
        "geography": {"block": facts["layout"]["block"]},
        "privacy": {"ledger": "none", "budget": facts["strategy"]["budget"]},
        "topdown": {"strategy": strategy.id} | facts["spine_settings"],
    }
    return TopDownProblem(
        TopDownSpec.model_validate(spec),
        strategy,
        Frame(spine.frame, facts["frame"]),
        spine,
        columns,
        Source(release.folder / "tables" / RECORDS, "parquet"),
        "units",
        output or Output.from_dict(facts["output"]),
    )


# A release for whoever asks what it says of its own making.

NEEDED = ("strategy", "record", "spine", "spine_settings", "levels", "areas", "frame_columns", "layout", "output")
"""What a plan has to say apart from its measurements: how they hang together, and what was published of them."""


@dataclass(frozen=True, eq=False)
class ReleasedPlan(SealedRelease):
    """What a release says of its own making."""

    problem: TopDownProblem

    @property
    def strategy(self) -> Strategy:
        """What was measured, and what was kept."""
        return self.problem.strategy

    @property
    def spine(self) -> TopDownSpine:
        """The units along which it was measured."""
        return self.problem.spine

    @property
    def columns(self) -> Mapping[str, Integers]:
        """Counts of the frame that constraints use, in the order of the spine's blocks."""
        return self.problem.columns

    def records(self) -> tuple[Integers, Integers]:
        """The published records: for each, the row of its block in the frame and its cell of the histogram."""
        block = self.facts["layout"]["block"]
        try:
            # Codes are texts, also where those of the records alone look like numbers.
            texts = [block, *self.facts["output"]["codes"]]
            table = released_table(self, f"tables/{RECORDS}", texts)
        except (OSError, pa.ArrowException):
            raise ReleaseError(
                "no-release-risk/table-read", where=Place(file=str(self.folder)), records=RECORDS
            ) from None
        codes = self.spine.frame.blocks.codes
        row_of_unit = np.empty(len(codes), np.int64)
        row_of_unit[self.spine.frame.blocks.unit_of_block] = np.arange(len(codes))
        place = pc.index_in(table.column(block).cast(pa.string()), value_set=pa.array(codes))
        cell = np.zeros(table.num_rows, np.int64)
        valid = pc.is_valid(place).to_numpy()
        for name, listed in self.facts["output"]["codes"].items():
            values = table.column(name)
            index = pc.index_in(values, value_set=pa.array(listed).cast(values.type))
            valid &= pc.is_valid(index).to_numpy()
            cell = cell * len(listed) + pc.fill_null(index, 0).to_numpy().astype(np.int64)
        if not valid.all():
            raise ReleaseError("no-release-risk/records", where=Place(file=str(self.folder)), valid=int((~valid).sum()))
        return row_of_unit[place.to_numpy().astype(np.int64)], cell


def released_plan(given: Path | SealedRelease) -> ReleasedPlan:
    """A TopDown release as it says itself that it was made, from public files.

    Args:
        given: A sealed release, or the folder of a run; or a release that was opened before.
    """
    release = given if isinstance(given, SealedRelease) else SealedRelease.of(given)
    folder, plan = release.folder, release.plan
    if not plan.measures or not set(NEEDED) <= plan.question.keys():
        raise ReleaseError(
            "no-release-risk/topdown", where=Place(file=str(folder)), found=release.manifest["mechanism"]
        )
    try:
        return ReleasedPlan(folder, release.manifest, released_problem(release))
    except (OSError, pa.ArrowException):
        raise ReleaseError("no-release-risk/readable-file", where=Place(file=str(folder)), units=UNITS) from None
    except (KeyError, TypeError, ValueError):
        raise ReleaseError("no-release-risk/say", where=Place(file=str(folder))) from None
