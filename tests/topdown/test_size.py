"""What a large release must not stumble over: room on the disk, and the frame of a nation in memory."""

from __future__ import annotations

import shutil
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kits.descent import lay_out
from tests.kits.topdown import COUNTED, write_small_state, write_spec

from confide import api
from confide.inputs.frame import _shared
from confide.lab.population import Population, write_population
from confide.mechanisms.tables.mechanism import BYTES_PER_COUNT
from confide.mechanisms.topdown.mechanism import BYTES_PER_BLOCK, BYTES_PER_RECORD
from confide.mechanisms.topdown.spine import TopDownSpine


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    people = tmp_path / "people"
    write_population(Population(2_000, 5), people)
    return lay_out(tmp_path, people)


def test_the_room_on_the_disk_is_that_of_blocks_and_not_of_all_noisy_counts(
    spec: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few of the planned counts are ever drawn: a tenth of the nation would ask for 170 GB and needs a few."""
    plan = api.check(spec, processes=1).plan
    assert plan is not None
    blocks = max(measure.units for measure in plan.measures if measure.level == "block")
    records = pq.read_metadata(spec.parent / "persons.parquet").num_rows
    needed = blocks * BYTES_PER_BLOCK + records * BYTES_PER_RECORD
    assert needed < plan.counts * BYTES_PER_COUNT
    for free, expected in ((needed * 2, []), (needed // 2, ["disk-full"])):
        monkeypatch.setattr(shutil, "disk_usage", lambda _, free=free: SimpleNamespace(free=free))
        assert [finding.code for finding in api.check(spec, processes=1).errors] == expected


def test_records_that_come_counted_need_room_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few rows may stand for more records than any disk holds."""
    write_small_state(tmp_path, 300, 4)
    table = pq.read_table(tmp_path / "blocks.parquet")
    units = table.column("housing_units").to_pylist()
    units[0] += 10**12
    pq.write_table(
        table.set_column(table.column_names.index("housing_units"), "housing_units", pa.array(units)),
        tmp_path / "blocks.parquet",
    )
    write_spec(tmp_path, product="pl94-units", records="blocks.parquet", data=COUNTED)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=10**13))
    (finding,) = api.check(tmp_path / "spec.toml", processes=1).errors
    assert finding.code == "disk-full"
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=10**15))
    assert not api.check(tmp_path / "spec.toml", processes=1).errors


def test_equal_codes_of_the_frame_are_one_object() -> None:
    read = _shared(pa.chunked_array([["90 001", None, "90 001"], ["", "90 001"]]))
    assert read == ["90 001", None, "90 001", "", "90 001"]
    assert read[0] is read[2] is read[4]
    assert _shared(pa.chunked_array([], pa.string())) == []


def test_the_codes_of_blocks_are_made_once_and_not_for_every_file_of_estimates(
    spec: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    original = TopDownSpine.block_codes.func

    def counted(spine: TopDownSpine) -> object:
        asked.append(1)
        return original(spine)

    codes = cached_property(counted)
    codes.__set_name__(TopDownSpine, "block_codes")
    monkeypatch.setattr(TopDownSpine, "block_codes", codes)
    monkeypatch.setattr("confide.mechanisms.topdown.descent.CHILDREN_PER_GROUP", 5)
    result = api.run(spec, processes=1, insecure_key="7e" * 32)
    assert len(list((result.workspace.measured / "block").glob("*.parquet"))) > 3
    assert asked == [1]
