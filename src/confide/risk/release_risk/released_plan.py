"""A sealed TopDown release read for its risk: plan, strategy, spine and published counts. No truth is needed.

The manifest has the plan, and the table ``units`` what the frame says of every block. The spine is made of both again,
and has to have the published fingerprint. A strategy of one's own is read from the spec.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from confide.documents import shipped
from confide.errors import ConfideError, Place, ReleaseError
from confide.geography.spine import Spine, build_spine
from confide.mechanisms import SPECS
from confide.mechanisms.topdown.output.settings import RECORDS, UNITS
from confide.mechanisms.topdown.problem import spine_of
from confide.mechanisms.topdown.spec import TopDownPart, TopDownSpec
from confide.mechanisms.topdown.spine import TopDownSpine
from confide.mechanisms.topdown.strategy import Strategy
from confide.mechanisms.topdown.strategy_file import KIND, load_strategy
from confide.releases.folder import read_manifest, release_of
from confide.releases.plan import Plan, read_plan
from confide.releases.spec import load_spec
from confide.releases.workspace import Workspace

Integers = NDArray[np.int64]
NEEDED = ("strategy", "record", "spine", "spine_settings", "levels", "areas", "frame_columns", "layout", "output")
"""What a plan has to say besides its measurements: how they hang together, and what was published of them."""


@dataclass(frozen=True, eq=False)
class ReleasedPlan:
    """What a release says of its own making."""

    folder: Path
    manifest: dict[str, Any]
    plan: Plan
    strategy: Strategy
    spine: TopDownSpine
    columns: dict[str, Integers]
    """Counts of the frame that constraints use, in the order of the spine's blocks."""

    @property
    def facts(self) -> dict[str, Any]:
        """What decided the release besides its measurements."""
        question: dict[str, Any] = self.manifest["plan"]["question"]
        return question

    def records(self) -> tuple[Integers, Integers]:
        """The published records: for each, the row of its block in the frame and its cell of the histogram."""
        block = self.facts["layout"]["block"]
        table = _table(self.folder, self.manifest, RECORDS)
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
            raise _cannot(
                self.folder, "the records do not fit the plan", f"{int((~valid).sum()):,} records that do not"
            )
        return row_of_unit[place.to_numpy().astype(np.int64)], cell


def open_release(path: Path, spec: Path | None = None) -> ReleasedPlan:
    """The release in a folder, or that of the run in a folder. ``spec`` where the strategy does not ship.

    Args:
        path: A sealed release, or the folder of a run.
        spec: The spec, where the strategy does not ship.

    Returns:
        Plan, strategy and spine of the release, made again from public files.
    """
    run = Workspace(path)
    folder = release_of(path)
    manifest = read_manifest(folder)
    plan = read_plan(manifest["plan"])
    if not plan.measures or not set(NEEDED) <= plan.question.keys():
        raise _cannot(folder, "this is not a release of the TopDown algorithm", manifest["mechanism"])
    identity = run.identity() if spec is None and folder != path else None
    if identity is not None and (path / identity.spec).is_file():
        spec = path / identity.spec
    settings = None if spec is None else _read_spec(spec, folder)
    try:
        facts = manifest["plan"]["question"]
        strategy = _strategy(folder, facts, spec, settings)
        frame, columns = _frame(folder, manifest)
        spine = _spine(folder, facts, strategy, frame, columns)
    except (KeyError, TypeError, ValueError):
        raise _cannot(folder, "the release does not say how it was made", "another form of the plan") from None
    return ReleasedPlan(
        folder, manifest, plan, strategy, spine, {name: values[spine.rows] for name, values in columns.items()}
    )


def _read_spec(spec: Path, folder: Path) -> TopDownPart:
    loaded = load_spec(spec, SPECS).spec
    if not isinstance(loaded, TopDownSpec):
        raise _cannot(folder, "the spec is not one of the TopDown algorithm", str(spec))
    return loaded.topdown


def _strategy(folder: Path, facts: dict[str, Any], spec: Path | None, settings: TopDownPart | None) -> Strategy:
    described = facts["strategy"]
    name = described["id"] if settings is None else settings.strategy
    if settings is None and name not in shipped(KIND):
        raise _cannot(folder, "the strategy of the release does not ship with Confide", described["id"], need_spec=True)
    base = Path() if spec is None else spec.parent
    try:
        strategy = load_strategy(name, base, root=described["root"], budget=Fraction(described["budget"]))
        strategy = strategy.with_smallest(described["levels"][-1]["name"])
        same = strategy.as_dict() == described
    except ConfideError:
        same = False
    if not same:
        raise _cannot(folder, "the strategy is not the one of the release", described["id"], need_spec=True)
    return strategy


def _frame(folder: Path, manifest: dict[str, Any]) -> tuple[Spine, dict[str, Integers]]:
    facts = manifest["plan"]["question"]
    table = _table(folder, manifest, UNITS)

    def texts(name: str) -> list[str | None]:
        return [code or None for code in table.column(name).cast(pa.string()).to_pylist()]

    *above, last = facts["levels"]
    levels = {name: [code or "" for code in texts(name)] for name in above}
    levels[last] = [code or "" for code in texts(facts["layout"]["block"])]
    frame = build_spine(levels, {name: texts(name) for name in facts["areas"]}, file=UNITS)
    return frame, {name: table.column(name).to_numpy().astype(np.int64) for name in facts["frame_columns"]}


def _spine(
    folder: Path, facts: dict[str, Any], strategy: Strategy, frame: Spine, columns: dict[str, Integers]
) -> TopDownSpine:
    settings = TopDownPart.model_validate({"strategy": strategy.id} | facts["spine_settings"])
    spine = spine_of(settings, strategy, frame, columns)
    if spine.fingerprint() != facts["spine"]:
        raise _cannot(folder, "the spine of the release cannot be made again", "another fingerprint")
    return spine


def _table(folder: Path, manifest: dict[str, Any], name: str) -> pa.Table:
    """A table of the release, from whichever of its files there is."""
    listed = [file["path"] for file in manifest["files"] if file["path"].startswith(f"tables/{name}.")]
    files = {Path(path).suffix: folder / path for path in listed}  # names of trials have a stamp
    try:
        if ".parquet" in files:
            return pq.read_table(files[".parquet"])
        if ".csv" in files:
            facts = manifest["plan"]["question"]
            texts = [facts["layout"]["block"], *facts["levels"], *facts["areas"]]
            options = pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(texts, pa.string()), strings_can_be_null=False
            )
            return pyarrow.csv.read_csv(files[".csv"], convert_options=options)
    except (OSError, pa.ArrowException):
        raise _cannot(folder, f"the table {name!r} cannot be read", "no readable file") from None
    raise _cannot(folder, f"the release has no table {name!r}", "no such file")


def _cannot(folder: Path, what: str, found: str, *, need_spec: bool = False) -> ReleaseError:
    return ReleaseError(
        "no-release-risk",
        what,
        where=Place(file=str(folder)),
        found=found,
        expected="a sealed release whose plan has a strategy and a spine, as those of the TopDown algorithm have",
        remedy="give the spec of the release with --spec" if need_spec else "check the folder with `confide verify`",
    )
