"""The release of every example has the bytes that were written down, file by file.

The hashes are of releases with a chosen key, where there is one. They depend on the releases of NumPy, PyArrow and
SciPy that constraints.txt names; not on machine, folder, time, version of Confide or number of processes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.contract.kit import NAMES, Project, digests, lay_out, written_down
from tests.contract.write_bytes import BYTES, write_bytes


def expected(name: str) -> dict[str, str]:
    """What is written down of a mechanism."""
    listed = written_down(BYTES)
    if name not in listed:
        pytest.fail(
            f"Nobody has written down which bytes the example of {name} releases. Look at its release, and if it is "
            f"right: python -m tests.contract.write_bytes {name}",
            pytrace=False,
        )
    return listed[name]


def differences(found: Mapping[str, str], listed: Mapping[str, str]) -> list[str]:
    """The files that are not as they were, or not there, or new."""
    return sorted(path for path in found.keys() | listed.keys() if found.get(path) != listed.get(path))


def test_the_example_is_released_byte_by_byte_as_written_down(sealed: Project) -> None:
    listed = expected(sealed.name)
    assert differences(digests(sealed.release), listed) == []


@pytest.mark.process
def test_neither_processes_nor_place_change_a_byte(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = expected(name)
    monkeypatch.chdir(tmp_path)
    project = lay_out(name, tmp_path / "another place" / "farther" / "down")
    elsewhere = Project(name, Path(os.path.relpath(project.folder)))
    elsewhere.run(processes=2)
    assert differences(digests(elsewhere.release), listed) == []


def test_nothing_is_written_down_of_mechanisms_that_are_gone() -> None:
    assert set(written_down(BYTES)) <= set(NAMES)


def test_bytes_that_are_written_down_are_changed_only_on_purpose(tmp_path: Path) -> None:
    first, second, *_ = NAMES
    file = tmp_path / "bytes.json"
    file.write_text(json.dumps({first: {"a": "1"}}))
    refused = write_bytes([second, first], file=file, make=lambda _: {"a": "2"})
    assert refused is not None
    assert "--replace" in refused
    assert written_down(file) == {first: {"a": "1"}}
    assert write_bytes([second], file=file, make=lambda _: {"a": "2"}) is None
    assert written_down(file) == {first: {"a": "1"}, second: {"a": "2"}}
    assert write_bytes([first], replace=True, file=file, make=lambda _: {"a": "3"}) is None
    assert written_down(file) == {first: {"a": "3"}, second: {"a": "2"}}


def test_bytes_of_no_mechanism_are_not_written_down(tmp_path: Path) -> None:
    file = tmp_path / "bytes.json"
    file.write_text("{}")
    assert "no mechanism 'magic'" in str(write_bytes(["magic"], file=file))
    assert written_down(file) == {}


def test_a_mechanism_without_written_bytes_fails_with_the_way_to_write_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.contract.test_bytes.written_down", lambda _: {})
    with pytest.raises(pytest.fail.Exception, match=r"python -m tests\.contract\.write_bytes tables"):
        expected("tables")
