"""What a cluster is given by every mechanism that may run on one: no key, and nothing in the clear."""

from __future__ import annotations

import os
import pickle
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.contract.kit import (
    KEY,
    NAMES,
    LocalEngine,
    NoiseStream,
    Project,
    lay_out,
    map_groups_on_spark,
    mechanism_of,
    tree,
)
from tests.kits.cluster import FakeContext, without_pyspark

WITH_KEYS = {"tables", "topdown", "safetab"}
"""Those whose functions draw noise where the groups are."""

ON_SPARK = [name for name in NAMES if mechanism_of(name).on_spark]


@pytest.mark.parametrize("name", ON_SPARK)
def test_no_key_is_given_to_spark(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seal: Callable[[str], Project]
) -> None:
    """Neither in a function that is mapped, nor in its groups, answers or queries. The release is the same."""
    expected = tree(seal(name).release)
    without_pyspark(monkeypatch)
    context, scratch, functions, keys = FakeContext(), tmp_path / "scratch", list[bytes](), {bytes.fromhex(KEY)}
    checked, disk = NoiseStream.__post_init__, tmp_path / "disk"

    def kept(stream: NoiseStream) -> None:
        checked(stream)
        keys.update((stream.word_key, stream.extension_key))

    def mapped(
        _: LocalEngine, function: Any, rows: Path, key: str, groups: Any, into: Path, *, advance: Any = None
    ) -> list[Path]:
        functions.append(pickle.dumps(function))
        return map_groups_on_spark(context, function, rows, key, groups, into, scratch, advance)

    def asked(verb: str) -> Any:
        original = getattr(LocalEngine, verb)

        def recorded(self: LocalEngine, *given: Any, **named: Any) -> Any:
            context.wire.append(repr((given, named)).encode())
            return original(self, *given, **named)

        return recorded

    def look() -> None:
        """While a worker is at work, the functions lie in the scratch folder, for their owner alone."""
        assert stat.S_IMODE(scratch.stat().st_mode) == 0o700
        (file,) = scratch.iterdir()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        disk.mkdir(exist_ok=True)
        os.link(file, disk / file.name)  # its place on the disk, after it was removed

    for verb in ("sql", "write", "count_by", "explode_count", "first_rows"):
        monkeypatch.setattr(LocalEngine, verb, asked(verb))
    monkeypatch.setattr(LocalEngine, "map_groups", mapped)
    monkeypatch.setattr(NoiseStream, "__post_init__", kept)
    context.at_work = look
    project = lay_out(name, tmp_path / name)
    project.run()
    assert tree(project.release) == expected
    assert sorted(project.release.parent.rglob("mapped-function-*")) == []
    assert not scratch.exists() or list(scratch.iterdir()) == []
    assert any(key in function for key in keys for function in functions) == (name in WITH_KEYS), "or nothing is shown"
    assert context.wire
    for sent in (*context.wire, *(file.read_bytes() for file in disk.glob("*"))):
        assert [key for key in keys if key in sent or key.hex().encode() in sent] == []
