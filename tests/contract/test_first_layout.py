"""A spec that asks for the first layout gets the bytes of the first releases, file by file, and they are still read.

``first_layout.json`` has what ``bytes.json`` said of the examples before there was a second layout: of tables, and of
the measurement files of ``topdown``.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import confide
from tests.contract.kit import SPEC, digests, lay_out

FIRST = json.loads(Path(__file__).with_name("first_layout.json").read_text(encoding="utf-8"))
SETTING = {"topdown": "release_layout = 1\nmeasurement_layout = 1", "postprocess": "release_layout = 1"}
"""What asks for the first layout, where it is not ``layout = 1``."""


@pytest.mark.parametrize("name", FIRST)
def test_the_first_layout_is_made_byte_by_byte_and_verified(name: str, tmp_path: Path) -> None:
    project = lay_out(name, tmp_path / name)
    spec = project.folder / SPEC
    text = spec.read_text(encoding="utf-8")
    assert "[output]\n" in text
    spec.write_text(text.replace("[output]\n", f"[output]\n{SETTING.get(name, 'layout = 1')}\n"), encoding="utf-8")
    project.run()
    # Files of data carry the hash of their plan; the words of pages and manifests change with the version.
    assert {path: digest for path, digest in digests(project.release).items() if "/" in path} == FIRST[name]
    assert confide.verify(project.release).ok
    assert confide.open_release(project.release).tables
