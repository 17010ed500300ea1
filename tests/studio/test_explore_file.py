"""``explore.html``: a release as one page, from its rows and nothing else; small releases have it in their folder."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.contract.kit import lay_out
from tests.kits.forged import rehash
from tests.kits.pages import explored, requests

import confide
from confide.errors import ConfideError
from confide.messages import LANGUAGES, messages
from confide.opened import write_explore
from confide.releases.companions import explanations
from confide.releases.folder import read_manifest
from confide.releases.tabular import Codebook, DescribedTable, GivenColumns

ASKED_NOT = "[output]\nexplore = false\n"


@pytest.mark.parametrize("name", ["tables", pytest.param("suppression", marks=pytest.mark.slow)])
def test_the_page_outside_has_every_row_as_published_and_asks_nobody(seal: Any, tmp_path: Path, name: str) -> None:
    release = confide.open_release(seal(name))
    written = write_explore(seal(name).parent, tmp_path / "explore.html")
    page = written.file.read_text(encoding="utf-8")
    assert written.bytes == len(page.encode()) < explanations.MOST_BYTES
    assert written.left_out == {}
    tables = explored(page)
    assert set(tables) == set(release.tables)
    for table, rows in tables.items():
        published = release.tables[table].arrow().to_pylist()
        assert rows == [{key: row[key] for key in rows[0]} for row in published]
    assert requests(page, scripted=True) == []
    assert "default-src 'none'" in page
    inside = (seal(name) / "explore.html").read_text(encoding="utf-8")
    assert explored(inside) == tables
    assert 'href="codebook.html"' in inside
    assert 'href="codebook.html"' not in page, "the page is given away without the folder"


def test_what_is_too_large_is_left_out_and_named(seal: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = seal("tables")  # whole: sealed before the limit is lower, as other tests share it
    monkeypatch.setattr(explanations, "MOST_BYTES", 62_000)
    written = write_explore(release, tmp_path / "explore.html")
    assert written.left_out
    page = written.file.read_text(encoding="utf-8")
    assert len(page.encode()) < 62_000
    assert all(name in page for name in written.left_out)
    assert not set(written.left_out) & set(explored(page))


def test_a_release_stays_as_it_was_sealed(seal: Any) -> None:
    with pytest.raises(ConfideError) as error:
        write_explore(seal("tables"), seal("tables") / "explore.html")
    assert error.value.findings[0].code == "into-release"
    with pytest.raises(ConfideError) as error:
        write_explore(seal("tables"), Path("/nowhere/at/all.html"))
    assert error.value.findings[0].code == "explore-file"


def test_a_spec_may_ask_for_no_page_and_nothing_else_changes(seal: Any, tmp_path: Path) -> None:
    project = lay_out("tables", tmp_path / "tables")
    text = project.spec.read_text(encoding="utf-8")
    assert "[output]\n" in text
    project.spec.write_text(text.replace("[output]\n", ASKED_NOT), encoding="utf-8")
    project.run()
    own, other = read_manifest(project.release), read_manifest(seal("tables"))
    assert explanations.EXPLORE not in own
    assert other[explanations.EXPLORE] == explanations.VERSION
    assert own["plan_hash"] == other["plan_hash"]
    data = [{file["path"]: file["sha256"] for file in each["files"] if "rows" in file} for each in (own, other)]
    assert data[0] == data[1], "tables and noise are the same"
    pages = [{file["path"] for file in each["files"]} for each in (own, other)]
    assert pages[1] - pages[0] == {"explore.html"}
    assert confide.verify(project.release).ok, "as releases from before there was such a page"
    assert "explore.html" not in (project.release / "README.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize(("asked", "rows", "there"), [(None, 10, True), (None, 11, False), (True, 11, True)])
def test_the_published_rows_decide_unless_the_spec_does(
    asked: bool | None, rows: int, there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explanations, "MOST_PAGE_ROWS", 10)
    table = DescribedTable("a", "A", GivenColumns(("sex",)), ())
    files = [{"path": "tables/a.csv", "rows": rows}, {"path": "tables/a.parquet", "rows": rows}]
    assert explanations.page_version(files, Codebook((table,)), asked) == (explanations.VERSION if there else None)
    assert explanations.page_version(files, Codebook((table,)), False) is None
    assert explanations.page_version([], Codebook((table,)), True) is None, "there is nothing to look at"


def forged_page(release: Path) -> None:
    page = release / "explore.html"
    page.write_text(page.read_text(encoding="utf-8").replace('"figures":[[', '"figures":[[9'), encoding="utf-8")


def taken_page(release: Path) -> None:
    manifest = read_manifest(release)
    manifest["files"] = [file for file in manifest["files"] if file["path"] != "explore.html"]
    (release / "explore.html").unlink()
    rehash(release, manifest)


@pytest.mark.parametrize("forge", [forged_page, taken_page])
def test_verify_makes_the_page_anew(seal: Any, tmp_path: Path, forge: Any) -> None:
    release = shutil.copytree(seal("tables"), tmp_path / "release")
    forge(release)
    rehash(release)
    verification = confide.verify(release)
    assert [check.name for check in verification.checks if not check.ok] == ["pages as the manifest has them"]


def test_verify_knows_what_a_manifest_may_say_of_the_page(seal: Any, tmp_path: Path) -> None:
    release = shutil.copytree(seal("tables"), tmp_path / "release")
    rehash(release, read_manifest(release) | {"explore": "whatever somebody likes to say"})
    wrong = [check for check in confide.verify(release).checks if not check.ok]
    assert [check.name for check in wrong] == ["what is promised follows from the plan"]
    assert "explore" in wrong[0].detail


def test_an_area_has_its_own_name_though_its_code_stands_on_two_levels() -> None:
    rows = pa.table({"level": ["county", "town", "town"], "area": ["1", "2", "1"], "area_name": ["C", "B", "A"]})
    dimension = explanations._dimension(rows, "area", "area_name", messages("en"))
    assert dimension["codes"] == [["1", "C"], ["2", "B"], ["1", "A"]]


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_page_speaks_the_language_of_the_release(seal: Any, language: str) -> None:
    opened = confide.open_release(seal("tables"))
    manifest = {**opened.manifest, "publication": {"language": language}}
    spoken = confide.opened.Release(opened.folder, manifest, opened.noise).page().text
    assert f'<html lang="{language}">' in spoken
    own, english = (messages(each).texts for each in (language, "en"))
    words = [key for key, text in english.items() if key.startswith("explore.word_") and text != own[key]]
    assert [key for key in words if f":{json.dumps(english[key])}" in spoken] == []
    assert own["explore.lead"] in spoken
