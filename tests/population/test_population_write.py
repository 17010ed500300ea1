"""The files: byte for byte the same, complete or not there, quick to make and small in memory."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from confide.errors import RunError
from confide.lab.population import Population, write_population
from confide.lab.population import generate as write_module


class Display:
    """A display of progress that counts, and stops the work when it is told to."""

    def __init__(self, stop_after: int | None = None):
        self.steps = self.done = 0
        self._stop_after = stop_after

    @contextmanager
    def stage(self, _title: str, steps: int) -> Iterator[Callable[[int], None]]:
        self.steps = steps
        yield self._advance

    def _advance(self, persons: int) -> None:
        self.done += persons
        if self._stop_after is not None and self.done > self._stop_after:
            raise KeyboardInterrupt


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_same_population_gives_the_same_bytes(tmp_path: Path) -> None:
    first = write_population(Population(50_000, 7), tmp_path / "a")
    again = write_population(Population(50_000, 7), tmp_path / "b")
    assert digest(first.persons) == digest(again.persons)
    assert digest(first.blocks) == digest(again.blocks)
    other = write_population(Population(50_000, 8), tmp_path / "c")
    assert digest(first.persons) != digest(other.persons)


@pytest.mark.process
def test_another_process_gives_the_same_bytes(tmp_path: Path) -> None:
    here = write_population(Population(20_000, 7), tmp_path / "here")
    code = (
        "from confide.lab.population import Population, write_population;"
        f"write_population(Population(20_000, 7), {str(tmp_path / 'there')!r})"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONHASHSEED": "5"})
    assert digest(here.persons) == digest(tmp_path / "there" / "persons.parquet")
    assert digest(here.blocks) == digest(tmp_path / "there" / "blocks.parquet")


def test_the_files_are_plain_and_hold_what_was_streamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_module, "PERSONS_PER_ROW_GROUP", 10_000)
    population = Population(50_000, 7)
    written = write_population(population, tmp_path)
    persons = pq.read_table(written.persons)
    assert persons.schema.field("geocode").type == pa.string()
    assert persons.schema.names == [
        "geocode", "household_id", "relationship", "age", "sex", "hhgq", "cenrace", "hispanic", "votingage",
    ]  # fmt: skip
    assert pq.ParquetFile(written.persons).num_row_groups > 1
    streamed = pa.Table.from_batches(population.person_batches())
    for name in persons.schema.names:
        expected = streamed[name].cast(persons.schema.field(name).type)
        assert persons[name].equals(expected), name
    assert pq.read_table(written.blocks).replace_schema_metadata().equals(population.blocks())
    stamp = json.loads(pq.read_metadata(written.persons).metadata[b"confide.population"])
    assert stamp == population.identity
    query = "select count(*), count(distinct geocode), max(length(geocode)) from read_parquet(?)"
    assert duckdb.execute(query, [str(written.persons)]).fetchall()[0][::2] == (50_000, 15)


def test_progress_ends_at_all_persons(tmp_path: Path) -> None:
    display = Display()
    write_population(Population(60_000, 7), tmp_path, progress=display)
    assert display.steps == display.done == 60_000
    assert sorted(path.name for path in tmp_path.iterdir()) == ["blocks.parquet", "persons.parquet"]


def test_an_interrupted_run_leaves_nothing_and_keeps_what_was_there(tmp_path: Path) -> None:
    before = write_population(Population(10_000, 1), tmp_path)
    old = digest(before.persons), digest(before.blocks)

    with pytest.raises(KeyboardInterrupt):
        write_population(Population(60_000, 7), tmp_path, progress=Display(stop_after=20_000))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["blocks.parquet", "persons.parquet"]
    assert (digest(before.persons), digest(before.blocks)) == old


def test_a_folder_that_cannot_be_made_is_a_finding(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(RunError) as caught:
        write_population(Population(1_000, 7), tmp_path / "file")
    assert caught.value.findings[0].code == "cannot-write-population"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, a disk that is always full")
def test_a_full_disk_is_a_finding_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = pq.ParquetWriter

    def full(path: Path, *args: object, **options: object) -> pq.ParquetWriter:
        path.touch()
        return real(pa.OSFile("/dev/full", "wb"), *args, **options)

    monkeypatch.setattr(write_module.pq, "ParquetWriter", full)
    with pytest.raises(RunError) as caught:
        write_population(Population(50_000, 7), tmp_path)
    assert caught.value.findings[0].code == "cannot-write-population"
    assert list(tmp_path.iterdir()) == []


MEASURE = """
import sys
from pathlib import Path
from confide.lab.population import Population, write_population
write_population(Population(int(sys.argv[1]), 7), sys.argv[2])
# Not getrusage: its peak takes in that of the process that forked this one.
print(next(line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")))
"""


@pytest.mark.slow
def test_a_million_persons_take_seconds(tmp_path: Path) -> None:
    """A generous bound for a busy machine: the generator makes and writes more than a million persons a second."""
    start = time.perf_counter()
    write_population(Population(1_000_000, 7), tmp_path)
    assert time.perf_counter() - start < 5


@pytest.mark.process
@pytest.mark.slow
def test_ten_million_persons_need_no_more_memory_than_one(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, "10000000", str(tmp_path)], check=True, capture_output=True, text=True
    )
    assert int(done.stdout) < 600 * 1024
    assert pq.read_metadata(tmp_path / "persons.parquet").num_rows == 10_000_000
