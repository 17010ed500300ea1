"""A run that goes on: only with the records and the plan it was begun with, whoever else would have refused it; and in
folders that nobody else may open, whatever they were before."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.contract.kit import lay_out
from tests.kits.small import KEY

import confide
from confide.errors import RunError
from confide.mechanisms import MECHANISMS
from confide.releases.ledger import Ledger


class StopHere(Exception):  # noqa: N818
    """Stands for a power cut."""


def stop(*_: object) -> None:
    raise StopHere


def test_records_that_changed_are_refused_before_the_ledger_is_asked(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("confide.mechanisms.tables.mechanism.Tables.count", stop)
    with pytest.raises(StopHere):
        confide.run(project / "spec.toml", insecure_key=KEY)
    pq.write_table(pq.read_table(project / "persons.parquet").slice(1), project / "persons.parquet")
    monkeypatch.setattr(Ledger, "reserve", stop)
    with pytest.raises(RunError, match="the records are not those this run was begun with"):
        confide.run(project / "spec.toml", insecure_key=KEY)


@pytest.mark.costly
@pytest.mark.parametrize("mechanism", ["swapping", "suppression"])
def test_records_that_changed_are_refused_where_there_is_no_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mechanism: str
) -> None:
    example = lay_out(mechanism, tmp_path / mechanism)
    with monkeypatch.context() as patch:
        patch.setattr(type(MECHANISMS[mechanism]), "measure", stop)
        with pytest.raises(StopHere):
            example.run()
    (records,) = example.inputs
    lines = records.read_text().splitlines(keepends=True)
    records.write_text("".join([lines[0], *lines[2:], lines[1]]))
    with pytest.raises(RunError, match="the records are not those this run was begun with"):
        example.run()


@pytest.mark.costly
def test_folders_that_were_open_to_all_are_closed_before_anything_is_written(project: Path) -> None:
    confidential = project / "small" / "confidential"
    before = os.umask(0)
    try:
        for name in ("counts", "scratch"):
            (confidential / name).mkdir(parents=True, exist_ok=True)
        result = confide.run(project / "spec.toml", insecure_key=KEY)
        confide.evaluate(result.workspace.root)
    finally:
        os.umask(before)
    for zone in (confidential, result.workspace.dossier):
        for path in (zone, *zone.rglob("*")):
            assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
