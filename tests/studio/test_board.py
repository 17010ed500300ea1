"""The trade-off board: what is typed is worked in exactly, and every state has an address."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from fractions import Fraction
from html import unescape
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from tests.contract.kit import EXAMPLES
from tests.kits.studio import ORIGIN, Answer, Visitor, entered
from typer.testing import CliRunner

from confide.cli.main import app

SPEC = {"spec": "spec.toml"}
FIRST = "margin:age-by-sex:county"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return shutil.copytree(EXAMPLES / "tables", tmp_path / "office")


def typed(browser: Visitor, where: str, **values: str) -> Answer:
    """Changes some fields of the form on a page and sends it, as a browser without a script does."""
    page = browser.get(where).text
    form = page.partition('<form id="board"')[2].partition("</form>")[0]
    pairs = [
        (unescape(name), unescape(value))
        for name, value in re.findall(
            r'<input type="(?:hidden|number|text)"[^>]*?name="([^"]*)"[^>]*?value="([^"]*)"', form
        )
    ]
    pairs += [("lock", unescape(row)) for row in re.findall(r'name="lock"[^>]*value="([^"]*)" checked', form)]
    locks = [("lock", row) for row in values.pop("lock", "").split() if row]
    named = {name if name == "do" else f"typed.{name}": value for name, value in values.items()}
    sent = [(name, named.get(name, value)) for name, value in pairs] + locks
    sent += [(name, value) for name, value in named.items() if name not in dict(pairs)]
    if posted := re.match(r'[^>]*method="post" action="([^"]*)"', form):
        typed_in = {"content-type": "application/x-www-form-urlencoded"}
        return browser.post(unescape(posted[1]), headers=ORIGIN | typed_in, content=urlencode(sent).encode())
    return browser.get("/board", params=sent)


def stands_at(answer: Answer) -> str:
    """The address of the board as it stands after what was typed."""
    assert answer.status_code == 200
    found = re.search(r'<link rel="canonical" href="([^"]*)">', answer.text)
    assert found is not None
    return unescape(found[1])


def test_a_margin_that_is_typed_moves_the_rest_and_has_an_address(folder: Path) -> None:
    browser = entered(folder)
    before = browser.get("/api/board", params=SPEC).json()
    answer = typed(browser, "/board?spec=spec.toml", **{FIRST: "8", "lock": "tongue:block"})
    address = stands_at(answer)
    now = browser.get("/api/board", params=parse_qsl(urlsplit(address).query)).json()
    assert int(now["rows"][2]["margin"]) <= 8 < int(before["rows"][2]["margin"])
    parts = [Fraction(part) for name, part in now["choices"].items() if name.startswith("part:")]
    assert Fraction(now["entries"]["budget"]) == Fraction(before["entries"]["budget"]) == sum(parts)
    assert now["rows"][-1] == before["rows"][-1], "it is locked"
    page = browser.get(address)
    assert stands_at(page) == address
    assert page.text == answer.text, "the same board"
    assert "was 11" in page.text


def test_epsilon_that_is_typed_gives_a_budget_that_holds_it(folder: Path) -> None:
    browser = entered(folder)
    address = stands_at(typed(browser, "/board?spec=spec.toml", epsilon="5"))
    now = browser.get("/api/board", params=parse_qsl(urlsplit(address).query)).json()
    assert 4.9 < now["protection"]["epsilon"] <= 5
    address = stands_at(typed(browser, "/board?spec=spec.toml", budget="0.75"))
    now = browser.get("/api/board", params=parse_qsl(urlsplit(address).query)).json()
    assert now["entries"]["budget"] == "0.75"


@pytest.mark.parametrize(
    ("field", "text", "said"),
    [
        ("margin:age-by-sex:nation", "1.5", "whole number from 1"),
        ("margin:age-by-sex:nation", "0", "cannot stand here"),
        ("part:age-by-sex:nation", "-1", ""),
        ("part:age-by-sex:nation", "9", "Nothing of the budget would be left"),
        ("budget", "<script>", ""),
    ],
)
def test_what_cannot_be_is_said_and_nothing_moves(folder: Path, field: str, text: str, said: str) -> None:
    browser = entered(folder)
    page = typed(browser, "/board?spec=spec.toml", **{field: text})
    assert page.status_code == 200
    assert 'role="alert"' in page.text
    assert said in page.text
    assert "<script>" not in page.text.replace('<script type="module"', "")
    assert "was " not in page.text


def test_alternatives_are_pinned_and_freed(folder: Path) -> None:
    browser = entered(folder)
    first = stands_at(typed(browser, "/board?spec=spec.toml", do="pin B"))
    second = stands_at(typed(browser, first, **{"margin:age-by-sex:tract": "4"}))
    page = browser.get(second).text
    assert "Go to B" in page
    assert re.search(r"<b>\d+</b></td>", page), "what differs is marked"
    assert "Go to A" not in page
    freed = stands_at(typed(browser, second, do="free B"))
    assert "Go to B" not in browser.get(freed).text


def test_the_spec_is_written_once_and_the_plan_has_its_margins(folder: Path) -> None:
    browser = entered(folder)
    address = stands_at(typed(browser, "/board?spec=spec.toml", **{FIRST: "8"}))
    query = urlsplit(address).query
    promised = browser.get("/api/board", params=parse_qsl(query)).json()
    for name in ("../up.toml", "spec.toml", "x.txt", ""):
        answer = browser.post(f"/board/spec?{query}", headers=ORIGIN, form={"name": name})
        assert answer.status_code == 400, name
    written = browser.post(f"/board/spec?{query}", headers=ORIGIN, form={"name": "tuned.toml"})
    assert (written.status_code, written.headers["location"]) == (
        303,
        "/board/written?spec=tuned.toml&before=spec.toml",
    )
    assert sorted(file.name for file in folder.glob("*.toml")) == ["schema.toml", "spec.toml", "tuned.toml"]
    again = browser.get("/api/board", params={"spec": "tuned.toml"}).json()
    assert again["rows"] == promised["rows"]
    before, now = (tomllib.loads((folder / name).read_text()) for name in ("spec.toml", "tuned.toml"))
    for table in before["tables"] + now["tables"]:
        table.pop("weight", None)
        table.pop("level_weights", None)
    for values in (before, now):
        values["privacy"].pop("budget")
        values["programme"].pop("level_weights", None)
    assert before == now, "nothing else has changed"


def test_the_memo_has_what_the_board_has(folder: Path) -> None:
    browser = entered(folder)
    page = browser.get("/board/memo", params=SPEC | {"at": "persons=380", "prior": "1/4"}).text
    assert "what one person's record says" in unescape(page)
    assert "of a typical area" in page
    assert "confide tune spec.toml --set persons=380" in page
    assert "redistricting" in page


def test_a_spec_of_another_mechanism_has_no_board(tmp_path: Path) -> None:
    folder = shutil.copytree(EXAMPLES / "postprocess", tmp_path / "office")
    answer = entered(folder).get("/api/board", params=SPEC)
    assert answer.json()["findings"][0]["code"] == "no-board"
    assert "Trade-off board" not in entered(folder).get("/").text


def test_no_record_is_read_for_the_board(folder: Path) -> None:
    (folder / "persons.csv").unlink()
    assert entered(folder).get("/api/board", params=SPEC).status_code == 200


def test_the_command_does_the_same(folder: Path) -> None:
    browser = entered(folder)
    address = stands_at(typed(browser, "/board?spec=spec.toml", **{FIRST: "8"}))
    now = browser.get("/api/board", params=parse_qsl(urlsplit(address).query)).json()
    asked = now["command"].split()[1:]
    asked[1] = str(folder / asked[1])
    shown = CliRunner().invoke(app, [*asked, "--json"])
    assert shown.exit_code == 0, shown.output
    rows = json.loads(shown.stdout)["rows"]
    assert [row["margin"] for row in rows] == [row["margin"] for row in now["rows"]]
    by_margin = [
        "tune",
        str(folder / "spec.toml"),
        "--move",
        "margin:age-by-sex:county=8",
        "--out",
        str(folder / "new.toml"),
    ]
    done = CliRunner().invoke(app, by_margin)
    assert done.exit_code == 0, done.output
    assert (folder / "new.toml").is_file()
    row = next(line for line in done.stdout.splitlines() if line.startswith("age-by-sex:county"))
    assert "8" in row.split(), "the margin that was asked for"
