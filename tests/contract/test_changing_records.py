"""Records that change while a release is made of them: it is refused, or it is the release of the records as they were.

What is counted has to be what was checked, and what the noise is bound to. So from the first time that the records are
read until the last, any change of them is refused, before anything is drawn; and a change after that changes nothing.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.contract.kit import Project, charged_once, digests, findings_of, lay_out, unverified
from tests.contract.moments import Watched, few_steps
from tests.contract.test_bytes import differences, expected
from tests.kits.times import mostly_slow

Change = Callable[[Path], None]


def halve(file: Path) -> None:
    """The first half of the rows, as a file that is whole in itself."""
    rows = read_rows(file)
    file.write_bytes(written(file, rows[: len(rows) // 2]))


def exchange_one(file: Path) -> None:
    """One row is another one's copy, in a file of the same length and the same time wherever that can be."""
    rows, content, status = read_rows(file), file.read_bytes(), file.stat()
    options = []
    for number, row in enumerate(rows):
        other = next((other for other in rows[number + 1 :] if other != row and len(other) == len(row)), None)
        if other is None:
            continue
        options.append(written(file, [*rows[:number], other, *rows[number + 1 :]]))
        if len(options[-1]) == len(content) or len(options) == 20:
            break
    file.write_bytes(min(options, key=lambda option: abs(len(option) - len(content))))
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


CHANGES: dict[str, Change] = {"half of the records are gone": halve, "one record is another": exchange_one}


def read_rows(file: Path) -> list[bytes] | list[pa.Table]:
    """The rows of a table, without the line of names: as lines, or each as a small table."""
    if file.suffix == ".parquet":
        table = pq.ParquetFile(file).read()
        return [table.slice(number, 1) for number in range(table.num_rows)]
    return file.read_bytes().splitlines(keepends=True)[1:]


def written(file: Path, rows: list[bytes] | list[pa.Table]) -> bytes:
    """The content of a file of the same layout with these rows."""
    if file.suffix == ".parquet":
        to = io.BytesIO()
        pq.write_table(pa.concat_tables([pq.ParquetFile(file).schema_arrow.empty_table(), *rows]), to)
        return to.getvalue()
    return b"".join([file.read_bytes().splitlines(keepends=True)[0], *rows])


def changing(project: Project, number: int, change: Change) -> Watched:
    """A display of progress that changes the largest of the inputs at one moment of a run."""
    moments = iter(range(10_000))
    file = largest_input(project)

    def at(_: str) -> None:
        if next(moments) == number:
            change(file)

    return Watched(at)


def largest_input(project: Project) -> Path:
    return max(project.inputs, key=lambda file: file.stat().st_size)


@pytest.mark.parametrize("change", mostly_slow(CHANGES, 1))
def test_records_that_change_are_refused_or_have_been_read(
    name: str, change: str, moments: list[str], tmp_path: Path
) -> None:
    wrong, refused = [], []
    for number in few_steps(moments):
        project = lay_out(name, tmp_path / str(number))
        file = largest_input(project)
        original = file.read_bytes()
        with unverified():
            findings = findings_of(partial(project.run, progress=changing(project, number, CHANGES[change])))
        assert file.read_bytes() != original, f"nothing was changed at the {moments[number]}"
        if findings:
            assert not list(project.run_folder.glob("release*")), moments[number]
            assert project.charges() in ([], ["open"], ["open", "reserve"]), moments[number]
            refused.append((project, file, original))
        elif not differences(digests(project.release), expected(name)):
            # Nothing reads the records any more: a later change would have been seen now.
            break
        elif number or digests(project.release) != started_with(name, CHANGES[change], tmp_path / "other"):
            # Before the first moment nothing was read, and the records that are there then are simply the records.
            wrong.append(moments[number])
    assert wrong == [], f"the release is sealed where {change} at these moments"
    assert refused, "no change was refused"
    assert_goes_on(*refused[-1])


def started_with(name: str, change: Change, folder: Path) -> dict[str, str]:
    """The release of an example whose records were changed before it began."""
    project = lay_out(name, folder)
    change(largest_input(project))
    project.run()
    return digests(project.release)


def assert_goes_on(project: Project, file: Path, original: bytes) -> None:
    """With the records as they were, the same command makes the release that it would have made."""
    file.write_bytes(original)
    project.run()
    assert differences(digests(project.release), expected(project.name)) == []
    assert project.charges() == charged_once(project.name)


@pytest.mark.parametrize("change", CHANGES)
def test_the_changes_are_changes_that_a_release_shows(project: Project, change: str) -> None:
    """Otherwise a release of changed records could not be told from that of the records as they were."""
    file = largest_input(project)
    rows, size = len(read_rows(file)), file.stat().st_size
    CHANGES[change](file)
    assert len(read_rows(file)) == (rows // 2 if CHANGES[change] is halve else rows)
    if CHANGES[change] is exchange_one and file.suffix != ".parquet":
        assert file.stat().st_size == size
    if not findings_of(project.run):
        assert differences(digests(project.release), expected(project.name)) != []
