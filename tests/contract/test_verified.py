"""No run seals what ``verify`` would call wrong: it keeps what it measured, and goes on at no further cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from confide.releases import run as running
from confide.releases.folder import SealedRelease
from tests.contract.kit import Check, Project, accounted, charged_once, digests, findings_of, mechanism_of
from tests.contract.test_bytes import differences, expected

UNSEALED = ["open", "reserve", "measured"]


def spoiled(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the mechanism write another figure than it measured: the first table loses its last row."""
    kind = type(mechanism_of(project.name))
    publish = kind.publish

    def lose_a_row(self: Any, problem: Any, job: Any, release: Any) -> None:
        write, spoilt = release._write, []

        def without_its_end(paths: Any, schema: Any, batches: Any, *rest: Any, **named: Any) -> None:
            rows = [batch for batch in batches if batch.num_rows]
            place = next(iter(paths.values()))
            if rows and not spoilt and place.startswith(("tables/", "t1/")):
                spoilt.append(place)
                rows[-1] = rows[-1].slice(0, rows[-1].num_rows - 1)
            write(paths, schema, iter(rows), *rest, **named)

        release._write = without_its_end
        publish(self, problem, job, release)
        assert spoilt

    monkeypatch.setattr(kind, "publish", lose_a_row)


def test_a_release_with_a_wrong_table_is_not_sealed(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as planted:
        spoiled(project, planted)
        findings = findings_of(project.run)
    assert {finding.code for finding in findings} == {"not-verified"}
    assert not project.release.exists()
    assert not list(project.run_folder.glob("release*"))
    assert project.charges() == (UNSEALED if accounted(project.name) else [])
    project.run()
    assert differences(digests(project.release), expected(project.name)) == []
    assert project.charges() == charged_once(project.name)


def test_what_verify_finds_is_what_the_run_says(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Any, release: SealedRelease) -> Iterator[Check]:
        yield Check("a table", True, "as it should be")
        yield Check("another table", False, "3 rows too many")

    monkeypatch.setattr(type(mechanism_of(project.name)), "verify", refuse)
    (finding,) = findings_of(project.run)
    assert "another table" in finding.what
    assert finding.found == "3 rows too many"
    assert "nothing more is charged" in str(finding.remedy)
    assert not project.release.exists()


READ = {"topdown": 1, "postprocess": 1, "safetab": 4}
"""How often a run reads the rows of one of its own files, at most, before it seals."""


def test_no_file_is_read_again_and_again_before_it_is_sealed(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a large release the reading is most of what it costs to look at it: at most a tenth of a run."""
    read: Counter[str] = Counter()
    verified, first, table = running.verify_staged, pq.ParquetFile.__init__, pq.read_table
    rows, text = pq.ParquetFile.iter_batches, pyarrow.csv.open_csv

    def noted(file: pq.ParquetFile, source: Any, *arguments: Any, **named: Any) -> None:
        file.noted = str(source)
        first(file, source, *arguments, **named)

    def rows_read(file: pq.ParquetFile, *arguments: Any, **named: Any) -> Any:
        read[file.noted] += 1
        return rows(file, *arguments, **named)

    def table_read(source: Any, *arguments: Any, **named: Any) -> Any:
        read[str(source)] += 1
        return table(source, *arguments, **named)

    def text_read(source: Any, *arguments: Any, **named: Any) -> Any:
        read[str(source)] += "convert_options" in named  # without them, only its head is
        return text(source, *arguments, **named)

    def looked_at(folder: Path, *arguments: Any) -> Any:
        with monkeypatch.context() as watched:
            watched.setattr(pq.ParquetFile, "__init__", noted)
            watched.setattr(pq.ParquetFile, "iter_batches", rows_read)
            watched.setattr(pq, "read_table", table_read)
            watched.setattr(pyarrow.csv, "open_csv", text_read)
            return verified(folder, *arguments)

    monkeypatch.setattr(running, "verify_staged", looked_at)
    project.run()
    assert len(read) > 1
    often = {path: times for path, times in read.items() if times > READ.get(project.name, 3)}
    assert not often
