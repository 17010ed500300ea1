"""``explore.html``: a release as one page, from its rows and nothing else."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.kits.pages import requests

import confide
from confide.errors import ConfideError
from confide.studio import explore_file
from confide.studio.explore_file import MOST_BYTES, write_explore


def unpacked(table: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows again, from what the page has."""
    columns = {each["column"]: [each["codes"][place][0] for place in each["places"]] for each in table["dimensions"]}
    columns |= dict(zip(table["heads"], table["figures"], strict=True))
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


@pytest.mark.parametrize("name", ["tables", pytest.param("suppression", marks=pytest.mark.slow)])
def test_the_page_has_every_row_as_published_and_asks_nobody(seal: Any, tmp_path: Path, name: str) -> None:
    release = confide.open_release(seal(name))
    written = write_explore(seal(name).parent, tmp_path / "explore.html")
    page = written.file.read_text(encoding="utf-8")
    assert written.bytes == len(page.encode()) < MOST_BYTES
    assert written.left_out == {}
    content = re.search(r'<script type="application/json" id="content">(.*?)</script>', page, re.DOTALL)
    assert content is not None
    tables = {table["name"]: unpacked(table) for table in json.loads(content[1])["tables"]}
    assert set(tables) == set(release.tables)
    for table, rows in tables.items():
        published = release.tables[table].arrow().to_pylist()
        assert rows == [{key: row[key] for key in rows[0]} for row in published]
    outside = [
        each for each in requests(page) if not each.startswith(("<script", 'http-equiv="Content-Security-Policy"'))
    ]
    assert outside == []
    assert "default-src 'none'" in page


def test_what_is_too_large_is_left_out_and_named(seal: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explore_file, "MOST_BYTES", 50_000)
    written = write_explore(seal("tables"), tmp_path / "explore.html")
    assert written.left_out
    page = written.file.read_text(encoding="utf-8")
    assert len(page.encode()) < 50_000
    assert all(name in page for name in written.left_out)


def test_a_release_stays_as_it_was_sealed(seal: Any) -> None:
    with pytest.raises(ConfideError) as error:
        write_explore(seal("tables"), seal("tables") / "explore.html")
    assert error.value.findings[0].code == "into-release"
    with pytest.raises(ConfideError) as error:
        write_explore(seal("tables"), Path("/nowhere/at/all.html"))
    assert error.value.findings[0].code == "explore-file"
