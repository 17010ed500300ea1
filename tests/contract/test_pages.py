"""The pages of every mechanism, for all who read them: with a mouse, a keyboard, a screen reader, on paper, offline."""

from __future__ import annotations

from pathlib import Path

import pytest

import confide
from tests.contract.kit import Project, evaluable
from tests.kits.pages import SERIOUS, SIZES, form, missing, requests, violations

in_a_browser = pytest.mark.skipif(bool(missing()), reason=missing() or "a browser is there")


def test_the_page_of_a_release_has_a_good_form_and_asks_nobody(sealed: Project) -> None:
    pages = {file.name: file.read_text(encoding="utf-8") for file in sealed.release.rglob("*.html")}
    assert pages
    for name, page in pages.items():
        assert form(page) == []
        assert requests(page, scripted=name == "explore.html") == []


@pytest.mark.slow
@in_a_browser
@pytest.mark.parametrize("size", SIZES)
def test_axe_finds_nothing_serious_on_the_page_of_a_release(sealed: Project, size: str, tmp_path: Path) -> None:
    for file in sealed.release.rglob("*.html"):
        found = violations(file.read_text(encoding="utf-8"), size, tmp_path)
        assert [each for each in found if each["impact"] in SERIOUS] == [], file.name


@pytest.mark.slow
def test_the_dossier_has_a_good_form_and_axe_finds_nothing_serious(sealed: Project, tmp_path: Path) -> None:
    if not evaluable(sealed.name):
        pytest.skip("there are no true figures to compare with, and so no dossier")
    copy = sealed.copy(tmp_path / "copy")
    pages = [confide.evaluate(copy.spec, processes=1).dossier]
    pages += sorted(pages[0].parent.glob("*.svg"))
    for file in pages:
        page = file.read_text(encoding="utf-8")
        assert requests(page) == []
        if file.suffix == ".html":
            assert form(page) == []
            for size in () if missing() else SIZES:
                serious = [each for each in violations(page, size, tmp_path) if each["impact"] in SERIOUS]
                assert serious == [], (size, file.name)
