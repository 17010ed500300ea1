"""Areas of the same extent made alike in a finished release: what the option ``coterminous`` of a run does, afterwards.

For every set of areas and every iteration the donor is the first area, in the order of tabulation, that has a total;
the others get its rows, total and table alike, and lose their own (paper, Algorithm 4; see
:func:`confide.mechanisms.safetab.output.publish.unify`). It works on ``t1`` and ``t2`` as they were released, so that
it costs nothing, and doing it again changes nothing.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from confide import mechanisms
from confide.answers import AnswerPart, Said, Tone, TypedAnswer
from confide.arrays import Booleans, Integers
from confide.engines import LocalEngine, Source, format_of
from confide.errors import ConfideError, InputError, Place, RunError
from confide.file_system import write_text
from confide.mechanisms.safetab.codes import read_iterations
from confide.mechanisms.safetab.output import reading
from confide.mechanisms.safetab.output.coded import T1, T2
from confide.mechanisms.safetab.problem import coterminous_sets
from confide.mechanisms.safetab.program import KEPT
from confide.mechanisms.safetab.regions import read_regions
from confide.mechanisms.safetab.settings import REGION_TYPES
from confide.releases import SealedRelease, Workspace, no_room_is_an_error
from confide.releases.draft import SPEC
from confide.releases.spec import find_source, load_spec
from confide.releases.verify import read_public_input

MEMORY = "4GiB"
"""For reading the geography."""

AreaSet = Sequence[tuple[str, str]]
"""Areas that are taken for the same, in the order of region types: type and code."""


@dataclass(frozen=True, eq=False)
class Unified:
    """For each row of the new tables the row of the old ones that it is, and its group."""

    t1: Integers
    t1_keys: Integers
    t2: Integers
    t2_keys: Integers
    sets: int
    copied: int
    """How many groups have the figures of another area."""

    def take(self, name: str, rows: pa.Table) -> pa.Table:
        """The new rows of a table, from the old ones."""
        at, keys = (self.t1, self.t1_keys) if name == "t1" else (self.t2, self.t2_keys)
        taken = rows.take(pa.array(at))
        kinds = reading.region_of(keys)
        areas = [
            f"{area:0{reading.width_of(REGION_TYPES[kind])}d}"
            for kind, area in zip(kinds.tolist(), reading.area_of(keys).tolist(), strict=True)
        ]
        types = pa.array(REGION_TYPES, pa.string()).take(pa.array(kinds))
        taken = taken.set_column(0, rows.schema.field(0), pa.array(areas, pa.string()))
        return taken.set_column(1, rows.schema.field(1), types)


def unify_released(release: SealedRelease, sets: Sequence[AreaSet]) -> Unified:
    """The rows of ``t1`` and ``t2`` of a release, which are in order, with areas of the same extent made alike."""
    copies = reading.open_official(release)
    t1, t2 = reading.read_rows(copies["t1"]), reading.read_rows(copies["t2"])
    area, number = _members(sets)
    place = reading.find(area, t1.key // reading.CODES)
    inside = np.flatnonzero(place >= 0)
    # Rows are in the order of region types, so the first of a set and an iteration is that of its donor.
    pair = number[place[inside]] * reading.CODES + reading.code_of(t1.key[inside])
    _, first = np.unique(pair, return_index=True)
    donors = inside[first]
    row, key = _given(t1.key, donors, number[place[donors]], area, number, release)
    outside = np.flatnonzero(place < 0)
    t1_rows, t1_keys = np.concatenate([outside, row]), np.concatenate([t1.key[outside], key])
    order = np.argsort(t1_keys, kind="stable")
    t1_rows, t1_keys = t1_rows[order], t1_keys[order]
    t2_rows, t2_keys = _tables(t1.key[t1_rows], t1_keys, t2.key)
    return Unified(t1_rows, t1_keys, t2_rows, t2_keys, len(sets), int((t1.key[t1_rows] != t1_keys).sum()))


def _members(sets: Sequence[AreaSet]) -> tuple[Integers, Integers]:
    """The areas of all sets, as numbers that sort like groups, and the set of each."""
    areas = [
        (reading.group_key(kind, code, "0") // reading.CODES, number)
        for number, members in enumerate(sets)
        for kind, code in members
    ]
    table = np.array(sorted(areas), np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def _given(
    keys: Integers, donors: Integers, donor_set: Integers, area: Integers, number: Integers, release: SealedRelease
) -> tuple[Integers, Integers]:
    """What each member of a set gets from the donors of the set: the row, and the group that it becomes."""
    by_set = np.argsort(number, kind="stable")
    begin, end = (np.searchsorted(number[by_set], donor_set, side) for side in ("left", "right"))
    times = end - begin
    row = np.repeat(donors, times)
    step = np.arange(len(row)) - np.repeat(np.cumsum(times) - times, times)
    member = area[by_set[np.repeat(begin, times) + step]]
    key = member * reading.CODES + reading.code_of(keys[row])
    kept = _tabulated(release)[reading.region_of(key), reading.code_of(key)]
    return row[kept], key[kept]


def _tabulated(release: SealedRelease) -> Booleans:
    """Whether areas of a type have groups of an iteration's level, by region type and iteration code."""
    plan = release.facts
    levels = {(level["region_type"], level["iteration_level"]) for level in plan["levels"].values()}
    known = np.zeros((len(REGION_TYPES), reading.CODES), np.bool_)
    for each in read_iterations(plan):
        known[:, int(each.code)] = [(kind, each.level) in levels for kind in REGION_TYPES]
    return known


def _tables(old: Integers, new: Integers, t2: Integers) -> tuple[Integers, Integers]:
    """The rows of ``t2`` that go with rows of ``t1``, each under its new group."""
    begin, end = (np.searchsorted(t2, old, side) for side in ("left", "right"))
    times = end - begin
    step = np.arange(int(times.sum())) - np.repeat(np.cumsum(times) - times, times)
    return np.repeat(begin, times) + step, np.repeat(new, times)


# Coterminous areas of a finished release.


@dataclass(frozen=True)
class CoterminousTables(TypedAnswer):
    """Where the tables are, and what was made alike."""

    folder: Path
    source: str
    """SHA-256 of the manifest of the release that they were made from."""
    sets: int
    copied: int
    """How many groups have the figures of another area."""
    stamped: bool

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "ok": True,
            "folder": str(self.folder),
            "source_manifest_sha256": self.source,
            "sets": self.sets,
            "groups_copied": self.copied,
            "not_for_release": self.stamped,
        }

    def described(self) -> Iterator[AnswerPart]:
        of_others = f"{self.copied:,} groups have the figures of another area"
        yield f"{self.sets:,} sets of areas of the same extent; {of_others}."
        yield f"tables    {self.folder}  (made of released figures: it costs nothing)"
        if self.stamped:
            yield Said("NOT FOR RELEASE", ": so was the release that they were made from", Tone.BAD, aside=True)


def coterminous(release: Path, out: Path, *, sets: str = "derived", geography: Path | None = None) -> CoterminousTables:
    """Gives areas of the same extent the same figures in a finished release of SafeTab-P, by the paper's Algorithm 4.

    Made of released figures and public files alone, so it costs nothing; done again, it changes nothing.

    Args:
        release: The release, the folder of its run, or the folder of tables that ``execute`` made.
        out: A new folder for t1 and t2.
        sets: How the sets are found: derived, derived-on-land (but for blocks of water), or a file with
            SET|REGION_TYPE|REGION_ID.
        geography: The geographic reference file, where it is not that of the run beside the release.

    Returns:
        Where the tables are, and how many groups were made alike.
    """
    if not release.exists():
        raise InputError("not-a-release/folder", where=Place(file=str(release)))
    given = read_public_input(release, Place(file=str(release)), mechanisms.MECHANISMS.__getitem__, ["safetab"])
    if given.release is None:
        raise InputError("not-a-release/folder", where=Place(file=str(release)))
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise RunError("there-already/ours", where=Place(file=str(out)))
    facts, source = given.release.facts, _geography(given.release.folder, geography)
    with (
        tempfile.TemporaryDirectory(prefix="confide-coterminous-") as scratch,
        LocalEngine(Path(scratch), processes=1, memory=MEMORY) as engine,
    ):
        regions = read_regions(engine, source, facts["states"], facts["puerto_rico"])
    if regions.fingerprint != facts["geography"]:
        raise InputError("other-geography", where=Place(file=source.file), found=regions.fingerprint[:16])
    members = coterminous_sets(sets, Path(sets), regions)
    unified = unify_released(
        given.release, [[(kind, regions.areas[kind][number]) for kind, number in areas] for areas in members]
    )
    with no_room_is_an_error(out):
        _write_tables(given.release, unified, out)
    return CoterminousTables(out, given.sha256, unified.sets, unified.copied, given.stamped)


def _geography(release: Path, given: Path | None) -> Source:
    """The geographic reference file that was named, or that of the run that a release was made by."""
    if given is not None:
        return Source(given, format_of(given) or "csv", {}, "|", quoted=False)
    specs = [release.with_name(release.name + KEPT) / SPEC]
    with suppress(ConfideError):
        identity = Workspace(release.parent).identity()
        specs += [] if identity is None else [release.parent / identity.spec]
    for path in specs:
        if path.is_file():
            source = find_source(load_spec(path, mechanisms.SPECS), "blocks")
            if isinstance(source, Source):
                return replace(source, quoted=False)
    raise InputError("no-geography-of-release", where=Place(file=str(release)))


def _write_tables(release: SealedRelease, unified: Unified, out: Path) -> None:
    """``t1`` and ``t2`` in every format of the release, under the names that they have there; whole or not at all."""
    partial_folder = out.with_name(out.name + ".partial")
    shutil.rmtree(partial_folder, ignore_errors=True)
    for name, schema in (("t1", T1), ("t2", T2)):
        for path in release.paths(f"{name}/{name}."):
            file = partial_folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            taken = unified.take(name, _rows(release.folder / path, schema))
            if path.endswith(".parquet"):
                pq.write_table(taken, file)
            else:
                write_text(file, "".join(_lines(taken)), mode=0o644)
    if out.exists():
        out.rmdir()
    partial_folder.replace(out)


def _rows(path: Path, schema: pa.Schema) -> pa.Table:
    if path.suffix == ".parquet":
        return pq.read_table(path)
    types = {field.name: field.type for field in schema}
    return pyarrow.csv.read_csv(
        path,
        parse_options=pyarrow.csv.ParseOptions(delimiter="|", quote_char=False),
        convert_options=pyarrow.csv.ConvertOptions(column_types=types, strings_can_be_null=False),
    )


def _lines(rows: pa.Table) -> Iterator[str]:
    """The text of a table in the Bureau's layout."""
    yield "|".join(rows.column_names) + "\n"
    for batch in rows.to_batches(1 << 16):
        columns = [column.to_pylist() for column in batch.columns]
        yield "".join("|".join(map(str, row)) + "\n" for row in zip(*columns, strict=True))
