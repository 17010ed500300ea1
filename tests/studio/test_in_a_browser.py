"""The studio in Chromium: each screen's main task, with the keyboard's landmarks, and nothing asked of anybody else."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.contract.kit import EXAMPLES
from tests.kits.screenshots import PICTURES, take
from tests.kits.studio import browsing, missing

from confide.demonstration import demo_studio
from confide.studio.explore_file import write_explore

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(bool(missing()), reason=missing() or "a browser is there"),
]
TABLE = "/explore/table?release=two-states%2Frelease&table=age-by-sex"


def test_a_release_is_explored_from_the_first_page_to_a_ratio(seal: Any) -> None:
    with browsing(seal("tables").parents[1]) as watched:
        page = watched.page
        assert "token" not in page.url
        page.get_by_role("button", name="Get a new address").click()
        assert f"{watched.home}/?token=" in page.locator("#link").inner_text()
        page.go_back()
        page.get_by_role("link", name="Two states: age, work and mother tongue").first.click()
        page.get_by_role("link", name="Age by sex", exact=True).click()
        page.get_by_label("Level").select_option(label="county")
        page.wait_for_url(re.compile("where=level%3Dcounty"))
        page.get_by_label("Area: code or part of the name").fill("90001")
        page.wait_for_selector("#count b:text-is('18')")
        boxes = page.locator("input[name=a]")
        boxes.nth(1).check()
        page.wait_for_selector("text=Sum of A")
        page.locator("input[name=b]").nth(0).check()
        page.wait_for_selector("text=A / B")
        address, shown = page.url, page.locator(".sums").inner_text()
        page.reload()
        assert page.locator(".sums").inner_text() == shown, "the view has an address"
        assert watched.serious() == []
        page.go_back()
        page.wait_for_selector("text=A / B", state="detached")
        assert page.url != address
        page.get_by_text("Cross-table").click()
        page.wait_for_selector("table.cross")
        page.get_by_text("Pyramid").click()
        page.wait_for_selector("figure img")
        assert page.evaluate("document.querySelector('figure img').decode().then(() => true)")
        assert watched.serious() == []
        assert watched.outside() == []
        assert watched.complaints == []


def test_a_budget_is_chosen_on_the_board_and_written(tmp_path: Path) -> None:
    folder = shutil.copytree(EXAMPLES / "tables", tmp_path / "office")
    with browsing(folder) as watched:
        page = watched.page
        page.get_by_role("link", name="Trade-off board").click()
        page.get_by_label("Lock: Age by sex, nation").check()
        page.wait_for_url(re.compile("lock=age-by-sex"))
        page.get_by_role("button", name="Pin as A").click()
        page.wait_for_selector("text=Go to A")
        margin = page.get_by_label("Margin in persons: Age by sex, county")
        margin.fill("8")
        margin.press("Tab")
        page.wait_for_selector("text=was 11")
        assert page.get_by_label("Margin in persons: Age by sex, nation").input_value() == "11"
        shown = page.locator("#board").inner_text()
        page.reload()
        assert page.locator("#board").inner_text() == shown, "the board has an address"
        assert watched.serious() == []
        page.get_by_label("Margin in persons: Age by sex, county").fill("0")
        page.keyboard.press("Tab")
        page.wait_for_selector("[role=alert]")
        page.go_back()
        page.wait_for_selector("[role=alert]", state="detached")
        page.get_by_label("Write a new spec, called").fill("tuned.toml")
        page.get_by_role("button", name="Write it").click()
        page.wait_for_selector("text=The spec is written")
        assert watched.serious() == []
        page.go_back()
        page.get_by_role("link", name="Memo to print").click()
        page.wait_for_selector("text=What is promised")
        assert watched.serious() == []
        assert watched.outside() == []
        assert watched.complaints == []
    assert (folder / "tuned.toml").is_file()


BOARDS = {
    "topdown": ("Margin in persons: county, hispanic*cenrace", "12", "was 14"),
    "safetab": ("Margin in persons: AIANNH, regional", "3", "was 4"),
    "suppression": ("Persons in all, for shares of hidden cells", "433", "Persons of a mean cell"),
    "swapping": ("Households that stay, in per cent: Race by origin, tract", "90", "was 80"),
    "cellkey": ("Margin in persons: Work by sex, by state, all records", "2", "was 3"),
}
"""For each board what is typed where, and what the page says then."""


def test_every_board_is_moved_kept_and_gone_back_from(tmp_path: Path) -> None:
    folder = tmp_path / "office"
    for name in BOARDS:
        shutil.copytree(EXAMPLES / name, folder / name)
    with browsing(folder) as watched:
        page = watched.page
        for name, (label, text, said) in BOARDS.items():
            page.goto(f"{watched.home}/board?spec={name}%2Fspec.toml")
            before = page.locator("#board").inner_text()
            field = page.get_by_label(label)
            field.fill(text)
            field.press("Tab")
            page.wait_for_selector(f"#board :text('{said}')")
            shown = page.locator("#board").inner_text()
            page.reload()
            assert page.locator("#board").inner_text() == shown, "the board has an address"
            assert watched.serious() == []
            page.get_by_role("button", name="Pin as B").click()
            page.wait_for_selector("text=Go to B")
            page.go_back()
            page.wait_for_selector("text=Go to B", state="detached")
            page.go_back()
            page.wait_for_function("text => document.querySelector('#board')?.innerText === text", arg=before)
        _dragged(page)
        assert watched.serious() == []
        assert watched.outside() == []
        assert watched.complaints == []


def _dragged(page: Any) -> None:
    """The point of the region goes where it is dropped, and where the arrows of a slider put it."""
    frame = page.locator(".plane .frame").bounding_box()
    page.locator(".plane .choice").hover()
    page.mouse.down()
    page.mouse.move(frame["x"] + 6.5 / 15 * frame["width"], frame["y"] + frame["height"] / 2, steps=4)
    page.mouse.up()
    page.wait_for_selector("#D[value='7']")
    page.wait_for_selector("#V[value='4']")
    page.get_by_label("Largest noise, D, slider").focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("#D[value='8']")
    page.reload()
    assert page.locator("#D").input_value() == "8"
    assert page.locator("#V").input_value() == "4"


@pytest.mark.slow
def test_a_slider_moves_a_belief(tmp_path: Path) -> None:
    with browsing(tmp_path) as watched:
        page = watched.page
        page.get_by_role("link", name="What can somebody learn?").click()
        before = page.locator("#shown dd").first.inner_text()
        page.get_by_label("Budget of the count (rho), slider").focus()
        for _ in range(6):
            page.keyboard.press("ArrowRight")
        page.wait_for_selector("#rho[value='0.2']")
        assert page.locator("#shown dd").first.inner_text() != before
        page.get_by_label("Belief beforehand (prior)", exact=True).fill("1/3")
        page.keyboard.press("Tab")
        page.wait_for_url(re.compile("prior=1%2F3"))
        shown = page.locator("#shown").inner_text()
        page.reload()
        assert page.locator("#shown").inner_text() == shown, "the experiment has an address"
        for name in ("Which noise for", "What the area around it adds", "How well the best test does"):
            page.get_by_role("link", name=name).click()
            page.wait_for_load_state("networkidle")
            assert watched.serious() == []
        page.go_back()
        page.wait_for_selector("text=Effective rho")
        assert watched.outside() == []
        assert watched.complaints == []


@pytest.mark.slow
def test_an_empty_folder_leads_to_a_rehearsed_and_a_sealed_release(tmp_path: Path) -> None:
    with browsing(tmp_path) as watched:
        page = watched.page
        page.get_by_role("button", name="Make a demonstration here").click()
        page.get_by_role("link", name="Release cockpit").last.wait_for(timeout=180_000)
        page.wait_for_selector("text=3 tables", timeout=180_000)
        cockpit = page.locator("li", has_text="education.toml").get_by_role("link", name="Release cockpit")
        cockpit.click()
        page.get_by_role("button", name="Check").click()
        page.wait_for_selector("text=no problems", timeout=120_000)
        assert watched.serious() == []
        page.get_by_role("button", name="Rehearse").click()
        page.reload()
        page.wait_for_selector("text=✓ rehearsed", timeout=180_000)
        page.get_by_label("To make this release, type its name").fill("educatio")
        page.get_by_role("button", name="Make the release").click()
        page.wait_for_selector("text=You did not type the name")
        page.go_back()
        page.get_by_label("To make this release, type its name").fill("education")
        page.get_by_role("button", name="Make the release").click()
        page.wait_for_selector("text=✓ sealed", timeout=120_000)
        page.get_by_role("button", name="Make the dossier").click()
        page.get_by_role("link", name="Open the dossier").wait_for(timeout=120_000)
        assert watched.serious() == []
        page.get_by_role("link", name="Open the dossier").click()
        page.wait_for_load_state()
        page.go_back()
        page.get_by_label("To destroy the key, type the name").fill("education")
        page.get_by_role("button", name="Destroy the key").click()
        page.wait_for_selector("text=✓ final", timeout=60_000)
        assert watched.outside() == []
        refused = "Failed to load resource: the server responded with a status of 400 (Bad Request)"
        assert [each for each in watched.complaints if each != refused] == []


@pytest.mark.slow
@pytest.mark.parametrize(("width", "dark"), [(1280, True), (390, False)])
def test_axe_finds_nothing_serious_in_the_dark_and_on_a_phone(seal: Any, width: int, dark: bool) -> None:
    release = "/explore?release=two-states%2Frelease"
    shows = [f"{TABLE}&show={show}" for show in ("table", "cross", "bars", "pyramid", "map")]
    boards = [
        "/board?spec=spec.toml&persons=380",
        "/board/memo?spec=spec.toml",
        "/cockpit?spec=spec.toml",
        "/laboratory",
    ]
    with browsing(seal("tables").parents[1], width=width, dark=dark) as watched:
        for path in ("/", release, *shows, "/explore/seal?release=two-states%2Frelease", *boards, "/api", "/nothing"):
            watched.page.goto(watched.home + path)
            watched.page.wait_for_load_state("networkidle")
            assert watched.serious() == [], path
            wide = watched.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert wide <= 0, f"{path} scrolls sideways"
        assert watched.outside() == []


@pytest.mark.slow
def test_the_pictures_of_the_docs_can_be_taken_and_are_small(tmp_path: Path) -> None:
    demo_studio(tmp_path / "demo", persons=2_000)
    taken = {file.name: file.stat().st_size for file in take(tmp_path / "demo", tmp_path)}
    page = (PICTURES.parent / "studio.md").read_text(encoding="utf-8")
    assert set(re.findall(r"pictures/(studio-[a-z-]+\.png)", page)) == set(taken)
    assert max(taken.values()) < 200_000
    assert all((PICTURES / name).stat().st_size < 200_000 for name in taken)


@pytest.mark.slow
def test_pages_work_without_a_script(seal: Any) -> None:
    with browsing(seal("tables").parents[1]) as watched:
        context = watched.page.context.browser.new_context(java_script_enabled=False)
        context.add_cookies(watched.page.context.cookies())
        page = context.new_page()
        page.goto(watched.home + TABLE)
        page.get_by_label("Level").select_option(label="county")
        page.locator("input[name=a]").nth(1).check()
        page.get_by_role("button", name="Show").click()
        assert "Sum of A" in page.content()
        assert "where=level%3Dcounty" in page.url


@pytest.mark.slow
def test_the_page_of_a_release_opens_from_a_file(seal: Any, tmp_path: Path) -> None:
    written = write_explore(seal("tables"), tmp_path / "explore.html")
    with browsing(seal("tables").parents[1]) as watched:
        asked: list[str] = []
        page = watched.page.context.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: watched.complaints.append(str(error)))
        page.goto(written.file.as_uri())
        page.get_by_label("Level").select_option("county")
        assert page.locator("tbody tr").count() == 72
        page.get_by_label("Show as").select_option("cross")
        page.get_by_label("Show as").select_option("bars")
        assert page.locator("svg rect").count() > 1
        watched.page = page
        assert watched.serious() == []
        assert [url for url in asked if not url.startswith("file:")] == []
        assert watched.complaints == []


@pytest.mark.slow
def test_a_map_is_uploaded_and_drawn(seal: Any, tmp_path: Path) -> None:
    folder = shutil.copytree(seal("tables").parents[1], tmp_path / "copy")
    ring = [[0, 0], [1, 0], [1, 1], [0, 0]]
    shapes = ", ".join(
        f'{{"properties": {{"id": "{code}"}}, "geometry": {{"type": "Polygon", "coordinates": [{ring}]}}}}'
        for code in ("90", "91")
    )
    (tmp_path / "own.geojson").write_text(f'{{"features": [{shapes}]}}')
    with browsing(folder) as watched:
        page = watched.page
        page.goto(f"{watched.home}{TABLE}&show=map&where=level%3Dstate&chosen=1")
        page.locator("input[type=file]").set_input_files(tmp_path / "own.geojson")
        page.wait_for_url(re.compile("map=maps%2Fown.geojson"))
        page.wait_for_selector("text=Outlines from maps/own.geojson")
        assert page.evaluate("document.querySelector('figure img').decode().then(() => true)")
        assert watched.complaints == []
    assert (folder / "maps" / "own.geojson").exists()
