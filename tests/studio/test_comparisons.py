"""Methods compared in the studio: the numbers of the library, one more protection on request, and nothing outside."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.kits.studio import ORIGIN, Visitor, entered, studio_of

from confide.errors import ConfideError
from confide.lab.comparison import compare, read_comparison
from confide.lab.comparison.comparing import ASKED, NUMBERS, asked_before
from confide.lab.comparison.page import MADE_UP
from confide.lab.studio import comparisons
from confide.releases.dossier import BANNER
from confide.studio import jobs
from confide.studio.jobs import Jobs

SPEC = """
[comparison]
title = "A few people"
made_up = 400
seed = 3
[[protections]]
name = "heavy"
mechanism = "swapping"
settings = "heavy"
[attack]
noisy_blocks = 1
blocks = 6
processes = 1
"""
ASK = {"comparison": "made"}


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compared")
    (folder / "spec.toml").write_text(SPEC)
    compare(folder / "spec.toml", folder / "made", processes=1)
    return folder


@pytest.fixture
def own(compared: Path, tmp_path: Path) -> Path:
    return shutil.copytree(compared, tmp_path / "own")


def ask(browser: Visitor, **wanted: str) -> Any:
    headers = ORIGIN | {"content-type": "application/json"}
    return browser.post("/api/compare", params=ASK, headers=headers, content=json.dumps(wanted).encode())


def forge(folder: Path, **values: Any) -> None:
    file = folder / "made" / NUMBERS
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


def test_the_view_is_that_of_the_library(compared: Path) -> None:
    browser = entered(compared)
    made = read_comparison(compared / "made")
    for level in made.numbers["levels"]:
        for group in made.view().groups:
            asked = ASK | {"characteristic": "age: 0-17", "level": level, "group": group}
            shown = browser.get("/api/compare", params=asked).json()
            assert shown["view"] == made.view("age: 0-17", level, group).as_dict()
            first = shown["view"]["protections"][1]
            of_file = made.numbers["protections"][1]
            assert first["mean_absolute_error"] == of_file["errors"][level]["age: 0-17"]["mean_absolute_error"]
            assert first["rates"] == of_file["attack"]["perfect"]["universes"][group]
    page = browser.get("/compare", params=ASK | {"level": "county"}).text
    assert MADE_UP in page
    assert 'class="panel secret"' not in page
    assert "confide compare spec.toml --out made" in page
    for picture in comparisons.PICTURES:
        drawn = browser.get("/compare/figure.svg", params=ASK | {"picture": picture, "level": "county"})
        assert drawn.content.startswith(b"<svg")
    assert "A few people" in browser.get("/compare").text
    assert "1 in this folder" in browser.get("/").text


@pytest.mark.parametrize(
    "wrong", [{"characteristic": "x"}, {"level": "x"}, {"group": "x"}, {"comparison": "spec.toml"}]
)
def test_what_is_not_there_is_a_finding(compared: Path, wrong: dict[str, str]) -> None:
    answer = entered(compared).get("/api/compare", params=ASK | wrong)
    assert answer.status_code == 400
    assert answer.json()["findings"][0]["expected"]


@pytest.mark.usefixtures("here")
def test_an_interrupted_comparison_goes_on_and_what_is_finished_is_kept(own: Path) -> None:
    folder = own.resolve() / "made"
    (folder / ASKED).write_text(json.dumps({"spec": "../spec.toml", "also": ["tables=3"]}))
    notes = own / jobs.OWN / jobs._key(own.resolve(), folder / NUMBERS)
    notes.mkdir(parents=True)
    begun = {"action": "compare", "spec": NUMBERS, "job": "b", "state": "running", "begun": 0.0, "stages": []}
    (notes / "compare.json").write_text(json.dumps(begun))
    browser = entered(own)
    page = browser.get("/compare", params=ASK).text
    assert "It was interrupted" in page
    assert "Go on" in page
    before = read_comparison(folder).numbers["protections"]
    assert [each["name"] for each in before] == ["none", "heavy"], "to look is not to ask"
    assert browser.post("/compare/do", params=ASK, headers=ORIGIN, form={"go": "on"}).status_code == 303
    after = read_comparison(folder).numbers["protections"]
    assert [each["name"] for each in after] == ["none", "heavy", "tables-at-3"]
    assert after[:2] == before, "what is finished is kept"
    assert ask(browser, mechanism="tables", rho="3").json()["job"] == "done"
    assert read_comparison(folder).numbers["protections"] == after, "once is enough"
    assert asked_before(folder) == (own.resolve() / "spec.toml", ("tables=3",))
    page = browser.get("/compare", params=ASK).text
    assert "confide compare spec.toml --out made --also tables=3" in page
    assert "data-done" in page
    said = json.loads((notes / "compare.json").read_text())["notes"]
    assert said
    assert all(each.startswith("Protection ") for each in said), "no note says anything of records"
    assert (notes / "compare.json").stat().st_mode & 0o077 == 0


def test_the_notes_of_a_job_say_nothing_of_records(tmp_path: Path) -> None:
    noting = jobs.Noting(tmp_path / "compare.json", {"notes": [], "stages": []})
    progress = comparisons._StagesAlone(noting)
    progress.note("Protection 2 of 3: heavy")
    progress.note("374 of 767 households moved (48.76 %). Confidential: the release does not say it.")
    with progress.stage("Swapping households", 2) as advance:
        advance(2)
    values = json.loads((tmp_path / "compare.json").read_text())
    assert values["notes"] == ["Protection 2 of 3: heavy"]
    assert values["stages"][0]["done"] == 2


@pytest.mark.parametrize("wrong", [{"mechanism": "swapping", "rho": "1"}, {"rho": "0"}, {"rho": "-1"}, {"rho": "x"}])
def test_a_wrong_budget_is_refused_before_anything_begins(own: Path, wrong: dict[str, str]) -> None:
    browser = entered(own)
    assert ask(browser, **wrong).status_code == 400
    assert not (own / jobs.OWN).exists()


def test_another_origin_host_or_visitor_and_a_way_out_are_refused(own: Path) -> None:
    browser = entered(own)
    stranger = Visitor(browser.application)
    paths = (
        "/compare",
        "/compare?comparison=made",
        "/compare/figure.svg?comparison=made",
        "/api/compare?comparison=made",
    )
    for path in (*paths, "/laboratory", "/laboratory/figure.svg", "/documentation/proofs/tables"):
        assert stranger.get(path).status_code == 403, path
        assert browser.get(path, headers={"host": "evil.example"}).status_code == 421, path
    for path in ("/compare/do?comparison=made", "/compare/new"):
        assert browser.post(path, form={"rho": "1"}).status_code == 403, "no origin"
        assert browser.post(path, form={"rho": "1"}, headers={"origin": "http://evil.example"}).status_code == 403
        assert stranger.post(path, form={"rho": "1"}, headers=ORIGIN).status_code == 403
    for name in ("../own/made", "/etc", "made/../../x", "..", ""):
        assert browser.get("/compare/figure.svg", params={"comparison": name}).status_code in (400, 422), name
    assert not (own / jobs.OWN).exists()


def test_a_spec_outside_the_folder_is_not_run(own: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere.toml").write_text(SPEC)
    (own / "made" / ASKED).write_text(json.dumps({"spec": "../../elsewhere.toml", "also": []}))
    browser = entered(own)
    assert ask(browser, mechanism="topdown", rho="1").status_code == 400
    page = browser.get("/compare", params=ASK).text
    assert "not in the folder that is open" in page
    assert "elsewhere" not in page
    assert not (own / jobs.OWN).exists()


def test_scripts_in_a_comparison_are_text_and_a_confidential_one_is_framed(own: Path) -> None:
    script = "<script>alert(1)</script>"
    numbers = json.loads((own / "made" / NUMBERS).read_text())
    numbers["protections"][1] |= {"title": script, "guarantee": script}
    numbers["words"]["levels"]["county"] = [script, script]
    forge(
        own, title=script, confidential=True, made_up=False, protections=numbers["protections"], words=numbers["words"]
    )
    browser = entered(own)
    for path in ("/compare", "/compare?comparison=made&level=county", "/"):
        assert script not in browser.get(path).text
    page = browser.get("/compare?comparison=made").text
    assert 'class="panel secret"' in page
    assert BANNER in page
    assert MADE_UP not in page
    assert browser.get("/compare?comparison=made").headers["cache-control"] == "no-store"
    assert browser.get("/api/compare?comparison=made").json()["confidential"] is True
    (own / "made" / NUMBERS).write_text("{}")
    assert browser.get("/compare?comparison=made").status_code == 400
    with pytest.raises(ConfideError):
        read_comparison(own / "made")


@pytest.mark.usefixtures("here")
def test_an_empty_folder_gets_a_small_comparison(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(Jobs, "start", lambda _, *action, **given: asked.append((action, given)))
    browser, door, _ = studio_of(tmp_path)
    browser.get("/", params={"token": door.new_token()})
    assert "Make a small one with made-up people" in browser.get("/compare").text
    assert browser.post("/compare/new", headers=ORIGIN).status_code == 303
    (((action, file), given),) = asked
    assert action == "compare"
    assert file == tmp_path.resolve() / "comparison/made" / NUMBERS
    from confide.lab.comparison import load_comparison

    spec = load_comparison(given["made_from"])
    assert spec.spec.comparison.made_up == 3000
    assert len(spec.protections) == 5
