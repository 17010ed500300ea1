"""A release comes with a certificate or a statement, and nobody can take a trial for a release."""

from __future__ import annotations

import html
import json

import confide
from tests.contract.kit import MANIFEST, Project, accounted, keyed
from tests.kits.pages import explored

STAMP = "NOT FOR RELEASE"


def test_it_seals_a_certificate_or_a_statement(sealed: Project) -> None:
    (document,) = (
        file for file in sealed.release.glob("*.html") if file.name in ("certificate.html", "statement.html")
    )
    manifest = json.loads((sealed.release / MANIFEST).read_text(encoding="utf-8"))
    certified = manifest["privacy"]["loss"] is not None
    assert certified or not accounted(sealed.name)
    assert document.name == ("certificate.html" if certified else "statement.html")
    text = document.read_text(encoding="utf-8")
    assert html.escape(sealed.values["release"]["title"]) in text
    assert len(text) > 1_000
    assert (STAMP in text) == keyed(sealed.name)
    (listed,) = [file for file in manifest["files"] if file["path"] == document.name]
    assert listed["bytes"] == document.stat().st_size
    for sentence in manifest["privacy"]["in_words"]:
        assert sentence in html.unescape(text)


def test_a_trial_is_stamped_everywhere(sealed: Project) -> None:
    manifest = json.loads((sealed.release / MANIFEST).read_text(encoding="utf-8"))
    assert manifest.get("stamp") == (STAMP if keyed(sealed.name) else None)
    names = {path.name for path in sealed.release.rglob("*") if path.is_file()}
    assert ("NOT-FOR-RELEASE.txt" in names) == keyed(sealed.name)
    tables = {name for name in names if name.endswith((".parquet", ".csv"))}
    assert tables
    assert {name for name in tables if "NOT-FOR-RELEASE" in name} == (tables if keyed(sealed.name) else set())


def test_a_small_release_has_a_page_with_every_row_of_its_tables(sealed: Project) -> None:
    manifest = json.loads((sealed.release / MANIFEST).read_text(encoding="utf-8"))
    release = confide.open_release(sealed.release)
    described = {name: table for name, table in release.tables.items() if table.described is not None}
    small = 0 < sum(table.listed_rows for table in described.values()) <= 50_000
    assert (sealed.release / "explore.html").exists() == ("explore" in manifest) == small
    if not small:
        return
    page = (sealed.release / "explore.html").read_text(encoding="utf-8")
    assert len(page.encode()) < 3_000_000
    tables = explored(page)
    assert set(tables) == set(described)
    for name, rows in tables.items():
        published = described[name].arrow().to_pylist()
        listed = [{key: row[key] for key in rows[0]} for row in published]
        assert len(rows) == len(listed)
        # One by one: pytest takes minutes to say how two long lists differ.
        assert next((pair for pair in zip(rows, listed, strict=True) if pair[0] != pair[1]), None) is None
    assert (STAMP in page) == keyed(sealed.name)
