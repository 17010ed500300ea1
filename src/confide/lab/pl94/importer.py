"""``confide import pl94``: a person file and a block file out of a PL 94-171 zip.

Both files are written under temporary names, the person file is read back and tabulated again against every published
cell, and only then do they take their names: a failed import leaves nothing behind.
"""

from __future__ import annotations

import filecmp
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from confide.answers import AnswerPart, TypedAnswer
from confide.errors import Place, RunError
from confide.lab.pl94.archive import Findings, Progress
from confide.lab.pl94.reader import Pl94File, read_pl94
from confide.lab.pl94.retabulate import LevelComparison, check_consistency, compare, count_persons, persons_from_pl94
from confide.lab.pl94.segments import RACES, SparseRows, geo_layout, table_layout

PERSONS, BLOCKS = "persons.parquet", "blocks.parquet"
PEOPLE_AT_ONCE = 1 << 20
SCHEMA = pa.schema(
    [("geocode", pa.string()), ("votingage", pa.int8()), ("hispanic", pa.int8()), ("cenrace", pa.int8())],
    metadata={"confide.layout": f"{geo_layout().id}, {table_layout().id}"},
)


@dataclass(frozen=True, slots=True)
class ImportSummary(TypedAnswer):
    """What an import made, and what it was checked against. All of it is in the published file."""

    source: str
    state: str
    persons: int
    adults: int
    hispanic: int
    blocks: int
    populated_blocks: int
    housing_units: int
    persons_file: Path
    blocks_file: Path
    comparisons: tuple[LevelComparison, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain values for ``--json``."""
        return asdict(self) | {"persons_file": str(self.persons_file), "blocks_file": str(self.blocks_file)}

    def __str__(self) -> str:
        cells = sum(comparison.cells for comparison in self.comparisons)
        lines = [
            f"{self.source}: {self.persons:,} persons ({self.adults:,} adults, {self.hispanic:,} Hispanic) "
            f"in {self.blocks:,} blocks, {self.populated_blocks:,} of them populated; "
            f"{self.housing_units:,} housing units",
            f"tabulated again: all {cells:,} published cells of P1 to P4 agree: "
            + ", ".join(f"{item.level.replace('_', ' ')} {item.areas:,}" for item in self.comparisons),
            f"wrote {self.persons_file} and {self.blocks_file}",
        ]
        return "\n".join(lines)

    def described(self) -> Iterator[AnswerPart]:
        """What was written, and that it agrees with the file."""
        yield str(self)


def import_pl94(
    zip_path: Path | str,
    out_folder: Path | str,
    *,
    limit: int = 20,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> ImportSummary:
    """Make ``persons.parquet`` and ``blocks.parquet`` in ``out_folder`` from a state's 2010 PL 94-171 zip.

    Args:
        zip_path: The zip of a state.
        out_folder: The folder to write to.
        limit: How many disagreements of one kind are listed.
        overwrite: Whether other files of the same names are replaced.
        progress: Receives stages; none by default.

    Returns:
        What was read, written and tabulated again.

    Raises:
        InputError: The file is damaged or contradicts itself.
        RunError: The folder cannot be written, or already holds other files of these names.
    """

    def tell(stage: str, done: int, total: int) -> None:
        if progress is not None:
            progress(stage, done, total)

    file = read_pl94(zip_path, limit=limit, progress=progress)
    tell("checking sums", 0, 1)
    check_consistency(file, limit=limit)
    tell("checking sums", 1, 1)
    counts = persons_from_pl94(file, limit=limit)
    with _writing(Path(out_folder), overwrite) as (persons, blocks):
        frame = file.blocks()
        parquet.write_table(frame.replace_schema_metadata(SCHEMA.metadata), blocks, compression="zstd")
        _write_persons(file, counts, persons, tell)
        tell("tabulating again", 0, 1)
        findings = Findings(file.path.name, limit)
        read_back = count_persons(persons, file.geocodes("block"))
        comparisons = compare(file, read_back, findings=findings)
        findings.stop_if_any()
        tell("tabulating again", 1, 1)
    everywhere = np.zeros(len(counts), np.int64)
    people = counts.sums(np.arange(len(counts)), everywhere, 1).reshape(2, 2, RACES)
    return ImportSummary(
        source=file.path.name,
        state=file.state,
        persons=int(people.sum()),
        adults=int(people[1].sum()),
        hispanic=int(people[:, 1].sum()),
        blocks=len(counts),
        populated_blocks=int((np.diff(counts.starts) > 0).sum()),
        housing_units=int(frame["housing_units"].to_numpy().sum(dtype=np.int64)),
        persons_file=Path(out_folder) / PERSONS,
        blocks_file=Path(out_folder) / BLOCKS,
        comparisons=comparisons,
    )


def _write_persons(file: Pl94File, counts: SparseRows, path: Path, tell: Progress) -> None:
    """One row for each person, sorted by geocode, votingage, hispanic, cenrace."""
    codes = file.geocodes("block")
    block = np.repeat(np.arange(len(counts)), np.diff(counts.starts))
    ends = np.cumsum(counts.values, dtype=np.int64)
    total = int(ends[-1]) if len(ends) else 0
    with parquet.ParquetWriter(path, SCHEMA, compression="zstd") as writer:
        for start in range(0, total, PEOPLE_AT_ONCE):
            # person number i belongs to the first entry whose running total exceeds i
            entry = np.searchsorted(ends, np.arange(start, min(start + PEOPLE_AT_ONCE, total)), side="right")
            cell = counts.columns[entry].astype(np.int64)
            columns = [
                codes.take(pa.array(block[entry])),
                pa.array((cell // (2 * RACES)).astype(np.int8)),
                pa.array((cell // RACES % 2).astype(np.int8)),
                pa.array((cell % RACES).astype(np.int8)),
            ]
            writer.write_batch(pa.record_batch(columns, schema=SCHEMA))
            tell("writing persons", min(start + PEOPLE_AT_ONCE, total), total)


@contextmanager
def _writing(folder: Path, overwrite: bool) -> Iterator[tuple[Path, Path]]:
    """Temporary names for the two files, which take their own names if all goes well and vanish if not."""
    targets = (folder / PERSONS, folder / BLOCKS)
    drafts = tuple(folder / f".{target.name}.{os.getpid()}.part" for target in targets)
    new_folders = [path for path in (folder, *folder.parents) if not path.exists()]
    finished = False
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield drafts[0], drafts[1]
        for draft, target in zip(drafts, targets, strict=True):
            _sync(draft)
            if target.exists() and not overwrite and not filecmp.cmp(draft, target, shallow=False):
                raise RunError("pl94.exists", where=Place(file=str(target)))
        for draft, target in zip(drafts, targets, strict=True):
            draft.replace(target)
        finished = True
    except OSError as error:
        raise RunError("pl94.write", where=Place(file=str(folder)), found=error.strerror or str(error)) from None
    finally:
        if not finished:
            _remove(drafts, new_folders)


def _sync(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _remove(drafts: tuple[Path, ...], new_folders: list[Path]) -> None:
    """Take away drafts, and folders that were made for them."""
    try:
        for draft in drafts:
            draft.unlink(missing_ok=True)
        for path in new_folders:
            if path.exists():
                path.rmdir()
    except OSError:
        pass  # the first error is the one to report
