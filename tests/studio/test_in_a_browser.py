"""The studio in Chromium: each screen's main task, with the keyboard's landmarks, and nothing asked of anybody else."""

from __future__ import annotations

import json
import re
import shutil
import time
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from tests.contract.kit import EXAMPLES
from tests.kits.messy_office import messy_office
from tests.kits.screenshots import PICTURES, take
from tests.kits.studio import browsing, enlarged, missing

from confide.lab.demonstration import demo_studio
from confide.lab.studio.laboratory import experiments

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
        page.get_by_role("link", name="Figure").focus()
        page.keyboard.press("Enter")
        page.wait_for_selector("th[aria-sort=ascending]")
        assert page.evaluate("document.activeElement.textContent") == "Figure", "the keyboard goes on from there"
        page.get_by_text("Lines").click()
        page.wait_for_selector("text=A line for each")
        assert page.evaluate("document.querySelector('figure img').decode().then(() => true)")
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
        page.reload()
        page.get_by_role("link", name="Release cockpit").click()
        page.wait_for_selector("text=Check and price")
        page.go_back()
        assert watched.serious() == []
        page.go_back()
        page.get_by_role("link", name="Memo to print").click()
        page.wait_for_selector("text=What is promised")
        assert len(re.findall(rb"/Type\s*/Page\b", page.pdf(format="A4"))) <= 2, "a memo has two pages"
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


@pytest.mark.parametrize("name", BOARDS)
def test_every_board_is_moved_kept_and_gone_back_from(name: str, tmp_path: Path) -> None:
    label, text, said = BOARDS[name]
    shutil.copytree(EXAMPLES / name, tmp_path / "office" / name)
    with browsing(tmp_path / "office") as watched:
        page = watched.page
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
        if name == "cellkey":
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


def test_an_office_goes_from_its_own_files_to_the_cockpit(tmp_path: Path) -> None:
    messy_office(tmp_path)
    with browsing(tmp_path) as watched:
        page = watched.page
        page.get_by_role("link", name="people.csv").click()
        page.get_by_label("File of areas, if there is one").select_option("areas.csv")
        page.wait_for_url(re.compile("areas=areas.csv"))
        page.get_by_role("link", name=re.compile("^civil")).click()
        page.wait_for_url(re.compile("column=civil"))
        page.get_by_label("What NS means").select_option("a level of its own")
        page.wait_for_selector("[aria-label='Label of NS']")
        page.get_by_label("Remove NS").check()
        page.wait_for_selector("text=Some values are no level of the attribute")
        page.reload()
        assert page.locator("text=Some values are no level of the attribute").count() == 1, "a change stays"
        assert watched.serious() == []
        page.get_by_label("What NS means").select_option("a missing value")
        page.wait_for_selector("text=✓ none")
        page.get_by_role("link", name=re.compile("^kön")).click()
        page.wait_for_selector("[aria-label='Label of F']")
        page.get_by_label("Label of F", exact=True).fill("women")
        page.keyboard.press("Tab")
        page.wait_for_selector("[aria-label='Label of F'][value=women]")
        page.go_back()
        page.wait_for_selector("[aria-label='What NS means']")
        page.get_by_label("Name of the data set, again").fill("people")
        page.get_by_role("button", name="Write schema and spec").click()
        page.wait_for_selector("text=You did not type the name of the data set")
        page.go_back()
        page.get_by_label("Type the name of the data set whose ledger it is").fill("people")
        page.get_by_label("Name of the data set, again").fill("people")
        page.get_by_role("button", name="Write schema and spec").click()
        page.wait_for_url(re.compile("/cockpit"))
        page.go_back()
        page.wait_for_selector("text=Data doctor")
        page.go_forward()
        page.wait_for_selector("text=Check and price")
        assert not [each for each in watched.requests if re.search("women|widowed|924A|Female", unquote(each))]
        assert page.evaluate("localStorage.length + sessionStorage.length") == 0
        assert watched.outside() == []
        refused = "Failed to load resource: the server responded with a status of 400 (Bad Request)"
        assert [each for each in watched.complaints if each != refused] == []
    assert '"women"' in (tmp_path / "office/schema.toml").read_text(encoding="utf-8")


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
        names = [part.title for part in experiments().values()]
        for name, part in zip(names, experiments().values(), strict=True):
            page.get_by_role("link", name=part.tab, exact=True).click(timeout=120_000)
            page.wait_for_selector(f"h1:text-is({json.dumps(name)})", timeout=60_000)
            page.wait_for_load_state("networkidle", timeout=60_000)
            assert watched.serious() == [], name
        page.go_back()
        page.wait_for_selector(f"h1:text-is({json.dumps(names[-2])})")
        assert watched.outside() == []
        assert watched.complaints == []


def test_invariants_are_edited_and_seven_people_are_found_step_by_step(tmp_path: Path) -> None:
    with browsing(tmp_path) as watched:
        page = watched.page
        page.get_by_role("link", name="What can somebody learn?").click()
        page.get_by_role("link", name="Exact figures").click()
        page.get_by_label("Area of count 1").select_option("block")
        page.wait_for_url(re.compile("by-0=block"))
        page.get_by_label("Who in count 1").select_option(label="householder")
        page.wait_for_selector("text=[[counts]]")
        page.wait_for_selector("text=confide risk invariants C1 own.toml")
        page.get_by_label("C2 Voting-age population of every block").check()
        page.wait_for_selector("text=confide risk invariants C1 C2 own.toml")
        shown = page.locator("#shown").inner_text()
        page.reload()
        assert page.locator("#shown").inner_text() == shown, "the table has an address"
        assert watched.serious() == []
        page.go_back()
        page.wait_for_selector("text=confide risk invariants C1 own.toml")
        page.get_by_role("link", name="The proof").click()
        page.wait_for_selector("article h1")
        assert watched.serious() == []
        page.go_back()
        page.get_by_role("link", name="Seven people").click()
        page.get_by_role("link", name="Ages of women").click()
        page.wait_for_selector("h2:text('Step 1')")
        for number in range(2, 7):
            page.get_by_role("link", name="Next step").click()
            page.wait_for_selector(f"h2:text('Step {number}')")
        assert "84 male, Black, married" in page.locator("#shown").inner_text()
        page.go_back()
        page.wait_for_selector("h2:text('Step 5')")
        page.get_by_label("leave out: Black women").check()
        page.wait_for_selector("dd:text('2')")
        page.reload()
        assert page.get_by_label("leave out: Black women").is_checked()
        assert watched.serious() == []
        assert watched.outside() == []
        assert watched.complaints == []


def test_what_is_chosen_before_the_script_is_there_is_shown(tmp_path: Path) -> None:
    with browsing(tmp_path) as watched:
        page, waiting = watched.page, list[Any]()
        page.route("**/studio.js", lambda route: waiting.append(route))
        page.get_by_role("link", name="What can somebody learn?").click()
        page.goto(page.get_by_role("link", name="Exact figures").evaluate("link => link.href"), wait_until="commit")
        page.get_by_label("Area of count 1").select_option("block")
        assert "by-0=block" not in page.url
        for route in waiting:
            route.continue_()
        page.unroute("**/studio.js")
        page.wait_for_url(re.compile("by-0=block"))
        page.reload()
        assert page.get_by_label("Area of count 1").input_value() == "block"
        assert watched.complaints == []


@pytest.mark.slow
def test_a_comparison_is_made_looked_at_and_gets_one_more_protection(tmp_path: Path) -> None:
    (tmp_path / "comparison").mkdir()
    small = "[comparison]\nmade_up = 500\n[[protections]]\nname = 'heavy'\nmechanism = 'swapping'\nsettings = 'heavy'\n"
    (tmp_path / "comparison/spec.toml").write_text(small + "[attack]\nnoisy_blocks = 1\nprocesses = 1\n")
    with browsing(tmp_path) as watched:
        page = watched.page
        page.get_by_role("link", name="Compare methods").click()
        page.get_by_role("button", name="Make a small one with made-up people").click()
        page.reload()
        page.locator("#characteristic").wait_for(timeout=180_000)
        assert "MADE-UP PEOPLE" in page.inner_text("main")
        page.locator("#level").select_option("county")
        page.wait_for_url(re.compile("level=county"))
        page.locator("#group").select_option("all")
        page.wait_for_url(re.compile("group=all"))
        page.locator("label", has_text="Right, of matches").click()
        page.wait_for_url(re.compile("picture=precision"))
        assert page.evaluate("document.querySelector('figure img').decode().then(() => true)")
        shown = page.locator("#compared").inner_text()
        page.reload()
        assert page.locator("#compared").inner_text() == shown, "the view has an address"
        assert watched.serious() == []
        page.go_back()
        page.wait_for_url(re.compile("picture=trade-off"))
        page.get_by_label("Budget (rho)").fill("x")
        page.get_by_role("button", name="Protect and attack once more").click()
        page.wait_for_selector("text=This cannot be done")
        page.go_back()
        page.locator("#mechanism").select_option("tables")
        page.get_by_label("Budget (rho)").fill("1/2")
        page.get_by_role("button", name="Protect and attack once more").click()
        page.wait_for_selector("text=Another protection is being made")
        assert watched.serious() == []
        page.reload()
        page.wait_for_selector("th:has-text('ρ = 0.5')", timeout=180_000)
        assert "--also tables=1/2" in page.inner_text("#command")
        assert watched.outside() == []
        refused = "Failed to load resource: the server responded with a status of 400 (Bad Request)"
        assert [each for each in watched.complaints if each != refused] == []


@pytest.mark.slow
def test_whoever_presses_the_first_button_of_each_page_has_rehearsed_within_ten_clicks(tmp_path: Path) -> None:
    """Nothing is read: it is always the first main button that is pressed, and the browser counts the clicks."""
    clicks: list[str] = []
    first = "main button:not(.plain):not([hidden]), main a.button:not(.plain)"
    with browsing(tmp_path) as watched:
        page = watched.page
        page.context.expose_function("noted", lambda words: clicks.append(words))
        page.context.add_init_script(
            "addEventListener('click', (e) => { if (e.isTrusted) noted(e.target.textContent); }, true)"
        )
        page.reload()
        until = time.monotonic() + 420
        while "✓ rehearsed" not in page.inner_text("main"):
            assert time.monotonic() < until, clicks
            assert len(clicks) < 10, clicks
            if page.locator("[data-poll]").count():
                page.wait_for_timeout(500)  # something is being made
                continue
            page.locator(first).first.click()
            page.wait_for_load_state("networkidle")
        assert 1 <= len(clicks) <= 10
        assert clicks[-1] == "Rehearse"
        assert watched.complaints == []
    assert list(tmp_path.rglob("*-rehearsal")), "there is a rehearsed release"


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
@pytest.mark.parametrize(("width", "dark"), [(1280, True), (375, False)])
def test_axe_finds_nothing_serious_in_the_dark_and_on_a_phone(seal: Any, width: int, dark: bool) -> None:
    release = "/explore?release=two-states%2Frelease"
    shows = [f"{TABLE}&show={show}" for show in ("table", "cross", "bars", "lines", "pyramid", "map")]
    boards = [
        "/board?spec=spec.toml&persons=380",
        "/board/memo?spec=spec.toml&pin=-",
        "/cockpit?spec=spec.toml",
        *(f"/laboratory?experiment={each}" for each in experiments() if each != "cellkey"),
        "/documentation/concepts/comparison",
        "/compare",
    ]
    with browsing(seal("tables").parents[1], width=width, dark=dark) as watched:
        for path in ("/", release, *shows, "/explore/seal?release=two-states%2Frelease", *boards, "/api", "/nothing"):
            watched.page.goto(watched.home + path)
            watched.page.wait_for_load_state("networkidle")
            assert watched.serious() == [], path
            wide = watched.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert wide <= 0, f"{path} scrolls sideways"
        assert watched.outside() == []
        assert [each for each in watched.complaints if "404 (Not Found)" not in each] == []


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


def _drawn_from_a_file(page: Any, folder: Path) -> None:
    """A reader's own outlines make a map; a file that is none, or of other areas, is said; a view has an address."""
    ring = [[10, 50], [11, 50], [11, 51], [10, 50]]
    shapes = [
        {"properties": {"GEOID": f"05000US{code}", "n": "1"}, "geometry": {"type": "Polygon", "coordinates": [ring]}}
        for code in ("90001", "90003", "91001")
    ]
    for name, content in {
        "none.geojson": "[1]",
        "other.geojson": json.dumps({"features": [shapes[0] | {"properties": {"GEOID": "7"}}]}),
        "own.geojson": json.dumps({"features": shapes}),
    }.items():
        (folder / name).write_text(content)
    chooser = page.get_by_label("Outlines of the areas (GeoJSON file)")
    chooser.set_input_files(folder / "none.geojson")
    page.wait_for_selector("[role=alert]:has-text('not GeoJSON')")
    chooser.set_input_files(folder / "other.geojson")
    page.wait_for_selector("[role=alert]:has-text('such as 90001')")
    assert page.locator(".tiles li").count() == 4, "tiles stay"
    chooser.set_input_files(folder / "own.geojson")
    page.wait_for_selector("svg path")
    assert page.locator("svg path").count() == 3
    assert "1 areas without an outline" in page.locator("figcaption").inner_text()
    assert "90001: " in page.locator("svg path title").first.text_content()
    page.reload()
    assert page.locator(".tiles li").count() == 4, "the view has an address, and no file is kept"
    assert page.get_by_label("Colour by").input_value() == "margin"
    page.go_back()
    assert page.get_by_label("Colour by").input_value() == "figure"
    page.go_back()
    page.wait_for_selector("svg[aria-label^=Pyramid]")
    page.go_forward()


def test_the_page_of_a_release_opens_from_a_file(seal: Any, tmp_path: Path) -> None:
    file = seal("tables") / "explore.html"
    with browsing(seal("tables").parents[1]) as watched:
        asked: list[str] = []
        page = watched.page.context.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: watched.complaints.append(str(error)))
        page.goto(file.as_uri())
        page.get_by_label("Level").select_option("county")
        assert page.locator("tbody tr").count() == 72
        page.get_by_label("Show as").select_option("cross")
        page.get_by_label("Show as").select_option("bars")
        assert page.locator("svg rect").count() > 1
        page.get_by_label("Show as").select_option("line")
        assert page.locator("svg polyline").count() == 3, "both sexes and all together"
        page.get_by_label("Show as").select_option("pyramid")
        assert page.locator("svg rect").count() == 10
        page.get_by_label("Show as").select_option("map")
        page.get_by_label("Colour by").select_option("margin")
        assert page.locator(".tiles li").count() == 4
        _drawn_from_a_file(page, tmp_path)
        page.get_by_label("Show as").select_option("rows")
        page.get_by_role("button", name="Figure").click()
        page.get_by_role("button", name="Figure").click()
        assert page.locator("th[aria-sort=descending]").count() == 1
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


SCROLLED = """async () => {
  let longest = 0, last = performance.now(), going = true;
  const frame = (now) => {
    longest = Math.max(longest, now - last);
    last = now;
    if (going) requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
  const grid = document.querySelector(".grid");
  for (let step = 0; step < 40; step++) {
    grid.scrollTop = grid.scrollHeight;
    await new Promise((done) => setTimeout(done, 50));
  }
  going = false;
  return [longest, document.querySelectorAll(".grid tbody tr").length];
}"""
"""Scrolls to the end again and again; gives the longest time between two frames, and how many rows there are then."""


@pytest.mark.slow
def test_a_table_of_a_hundred_thousand_rows_scrolls_and_filters_without_freezing(seal: Any, tmp_path: Path) -> None:
    folder = shutil.copytree(seal("tables").parents[1], tmp_path / "copy")
    enlarged(folder / "two-states/release", "age-by-sex", 100_000)
    with browsing(folder) as watched:
        page = watched.page
        page.goto(f"{watched.home}{TABLE}&chosen=1")
        longest, rows = page.evaluate(SCROLLED)
        assert rows > 200
        assert longest < 1_000, "milliseconds in which nothing moved"
        page.get_by_label("Area: code or part of the name").fill("90001-00042")
        page.wait_for_selector("#count b:text-is('18')")
        assert watched.complaints == []
