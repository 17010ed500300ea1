"""The trade-off board of every mechanism that declares one: exact, honest, with an address, a command and a spec."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import tomllib
from fractions import Fraction
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contract.kit import EXAMPLES
from tests.kits.studio import ORIGIN, entered
from tests.studio.test_board import stands_at, typed
from typer.testing import CliRunner

from confide import api
from confide.cli.main import app
from confide.errors import ConfideError
from confide.lab.studio.shields_of_claims import region_of
from confide.mechanisms import MECHANISMS
from confide.mechanisms.cellkey.board import CellKeyBoard, noise_margin
from confide.mechanisms.safetab.board import SafeTabBoard
from confide.mechanisms.suppression.board import SuppressionBoard
from confide.mechanisms.swapping.board import SwappingBoard
from confide.mechanisms.topdown.board import TopDownBoard, Z
from confide.mechanisms.topdown.output.accuracy import accuracy_table
from confide.mechanisms.topdown.problem import plan_problem
from confide.privacy.conversion import exchange_epsilon
from confide.releases.boards import Board, Moving, declared_board, prepared_without_records, spec_changes
from confide.trade_offs import opened_board, shield_of, tunable, tune

MOVES = {
    "tables": {"margin:age-by-sex:county": "8"},
    "topdown": {"margin:county:hispanic*cenrace": "12"},
    "safetab": {"margin:AIANNH:regional": "3", "thresholds:COUNTY:detailed": "12/30/60"},
    "safetab-h": {"margin:COUNTY:detailed:type": "9", "thresholds:COUNTY:detailed:tenure": "40"},
    "phsafe": {"margin:PH2:state:*": "200", "tau:PH7": "8", "sensitivity": "household"},
    "cellkey": {"margin:age-by-sex:all records": "2"},
    "swapping": {"stay:origin:tract": "85", "within": "county"},
    "suppression": {"persons": "433", "hidden:work:state": "20"},
}


def board_of(mechanism: str) -> Any:
    return declared_board(MECHANISMS[mechanism], api.load(EXAMPLES / mechanism / "spec.toml"))


@pytest.fixture(scope="module")
def boards() -> dict[str, Any]:
    return {name: board_of(name) for name in MOVES}


def moved_all(board: Board, moves: dict[str, str]) -> Board:
    for name, text in moves.items():
        board = board.moved(name, text, Moving())
    return board


def test_every_mechanism_has_a_board_but_that_of_published_measurements() -> None:
    assert sorted(tunable()) == sorted(MOVES)
    assert sorted(set(MECHANISMS.own) - set(tunable())) == ["postprocess"]


@pytest.mark.parametrize("mechanism", MOVES)
def test_choices_say_everything(boards: dict[str, Any], mechanism: str) -> None:
    start = boards[mechanism]
    now = moved_all(start, MOVES[mechanism])
    differing = {name: text for name, text in now.choices().items() if start.choices()[name] != text}
    assert differing, "something moved"
    again = start.chosen(differing)
    assert again.choices() == now.choices()
    assert [row.entries for row in again.rows] == [row.entries for row in now.rows]
    assert shield_of(again.claim, Fraction(1, 100)) == shield_of(now.claim, Fraction(1, 100))
    names = [entry.name for entry in now.entries()]
    assert len(names) == len(set(names))
    with pytest.raises(ConfideError) as error:
        start.chosen({"no-such-entry": "1"})
    assert error.value.findings[0].code == "no-entry"


@pytest.mark.parametrize("mechanism", MOVES)
def test_no_record_is_read_and_the_spec_that_is_written_has_what_was_promised(tmp_path: Path, mechanism: str) -> None:
    """Without the records: the page, the command and the spec give the same board."""
    folder = shutil.copytree(EXAMPLES / mechanism, tmp_path / "office")
    records = tomllib.loads((folder / "spec.toml").read_text())["data"]["records"]
    (folder / records).unlink()
    (folder / "spec.toml").chmod(0o600)
    browser = entered(folder)
    assert "Trade-off board" in browser.get("/").text
    address = "/board?spec=spec.toml"
    for name, text in MOVES[mechanism].items():
        address = stands_at(typed(browser, address, **{name: text}))
    query = urlsplit(address).query
    assert stands_at(browser.get(address)) == address
    promised = browser.get("/api/board", params=parse_qsl(query)).json()

    asked = shlex.split(promised["command"])[1:]
    asked[1] = str(folder / asked[1])
    shown = CliRunner().invoke(app, [*asked, "--json"])
    assert shown.exit_code == 0, shown.output
    said = json.loads(shown.stdout)
    assert {name: said[name] for name in ("choices", "rows", "entries")} == {
        name: promised[name] for name in ("choices", "rows", "entries")
    }

    memo = browser.get(address.replace("/board", "/board/memo", 1)).text
    assert "No record" not in memo
    assert "no record was read" in memo
    written = browser.post(f"/board/spec?{query}", headers=ORIGIN, form={"name": "tuned.toml"})
    assert written.status_code == 303
    shown = browser.get(written.headers["location"])
    assert "The spec is written" in shown.text
    assert "/cockpit?spec=tuned.toml" in shown.text
    choices = {name: text for name, text in promised["choices"].items() if name in ("persons", "size")}
    at = ";".join(f"{name}={text}" for name, text in choices.items() if text)
    again = browser.get("/api/board", params={"spec": "tuned.toml", "at": at}).json()
    assert again["rows"] == promised["rows"]
    before, now = (tomllib.loads((folder / name).read_text()) for name in ("spec.toml", "tuned.toml"))
    changed = {key for key, _, _ in spec_changes(before, now)}
    assert changed
    allowed = ("privacy.budget", "tables.", "programme.level_weights", "levels.", mechanism)
    assert all(key.startswith(allowed) for key in changed), changed
    assert (folder / "tuned.toml").stat().st_mode & 0o777 == 0o600, "a spec may hold a secret"


@pytest.mark.parametrize("mechanism", MOVES)
def test_what_is_typed_badly_is_a_finding_and_nothing_else(boards: dict[str, Any], mechanism: str) -> None:
    for entry in boards[mechanism].entries():
        for text in ("x", "-3", "1e999", "<b>"):
            with pytest.raises(ConfideError):
                boards[mechanism].moved(entry.name, text, Moving())


# TopDown: against the accuracy that every release states, and against the plan of the spec that is written.


def test_margins_of_topdown_are_those_that_a_release_states(tmp_path: Path) -> None:
    folder = shutil.copytree(EXAMPLES / "topdown", tmp_path / "office")
    tuned = tune(folder / "spec.toml", moves=MOVES["topdown"], out=folder / "tuned.toml").board
    for name, board in (("spec.toml", tuned.start), ("tuned.toml", tuned.now)):
        problem = prepared_without_records(MECHANISMS["topdown"].prepare, api.load(folder / name))
        stated = {(row["geography"], row["query"]): row["sd"] for row in accuracy_table(problem).to_pylist()}
        rows = {row.name: row for row in board.rows}
        compared = 0
        for (kind, query), sd in stated.items():
            row = rows.get(f"{kind}:{query}")
            if row is not None and sd:
                assert float(row.entries["margin"].text) == pytest.approx(Z * sd, rel=6e-3), (kind, query)  # type: ignore[union-attr]
                compared += 1
        assert compared > 60
        assert isinstance(board, TopDownBoard)
        assert plan_problem(problem).loss == board.claim.loss


def test_a_memo_has_choices_side_by_side() -> None:
    board = opened_board(EXAMPLES / "topdown/spec.toml").start
    memo = entered(EXAMPLES / "topdown").get("/board/memo", params={"spec": "spec.toml", "pin": "-", "at": "budget=3"})
    assert memo.status_code == 400, "a budget is no choice by itself"
    choices = {"spec": "spec.toml", "pin": "-", "at": "part:county:hispanic*cenrace=0.2"}
    memo = entered(EXAMPLES / "topdown").get("/board/memo", params=choices)
    assert memo.text.count("<tr>") < 60, "two pages"
    assert "more are on the board" in memo.text
    margins = {row.name: row.entries["margin"].text for row in board.rows}  # type: ignore[union-attr]
    assert f'<td class="n">{margins["us:cenrace"]}</td>' in memo.text


@pytest.mark.parametrize("keep_total", [True, False])
def test_a_margin_of_topdown_is_reached_exactly_enough(boards: dict[str, Any], keep_total: bool) -> None:
    board, row, kept = boards["topdown"], ("county", "hispanic*cenrace"), ("tract", "total")
    now = board.with_row(row, margin=12, locked=[kept], keep_total=keep_total)
    assert now.budgets[kept] == board.budgets[kept]
    assert sum(now.budgets.values()) == now.total
    assert (now.total == board.total) is keep_total
    margin = float({each.name: each for each in now.rows}["county:hispanic*cenrace"].entries["margin"].text)
    assert margin == 12
    less = now.with_row(row, budget=now.budgets[row] * Fraction(99, 100), keep_total=False)
    assert not less.reached(row, Fraction(12)), "a smaller part would not do"


def test_a_place_beside_the_spine_gets_its_margin_by_the_budget(boards: dict[str, Any]) -> None:
    board = boards["topdown"]
    now = board.moved("margin:place:total", "5", Moving())
    rows = {row.name: row for row in now.rows}
    assert float(rows["place:total"].entries["margin"].text) == pytest.approx(5, rel=2e-3)
    shares = [now.budgets[row] / now.total / (board.budgets[row] / board.total) for row in board.budgets]
    assert max(shares) / min(shares) < 1 + Fraction(1, 10**4), "all parts in their proportions"
    assert not rows["place:total"].lockable


def test_a_board_that_has_worked_out_much_says_what_a_new_one_says(boards: dict[str, Any]) -> None:
    board = boards["topdown"]
    moves = [
        ("margin:county:hispanic*cenrace", "12"),
        ("part:tract:total", "0.3"),
        ("part:tract:total", "0.3001"),
        ("margin:block:total", "9"),
        ("budget", "2.5"),
    ]
    for name, text in moves:
        now = board.moved(name, text, Moving())
        rows, anew_from = list(now.budgets), TopDownBoard.of(board.problem)
        known, anew = (each.variances(rows, now.budgets) for each in (board, anew_from))
        for row, variance in anew.items():
            assert known[row] == pytest.approx(variance, rel=1e-8), (name, text, row)


# SafeTab-P.


def test_rows_of_safetab_are_those_of_its_plan(boards: dict[str, Any]) -> None:
    board = boards["safetab"]
    assert isinstance(board, SafeTabBoard)
    mechanism = MECHANISMS["safetab"]
    problem = prepared_without_records(mechanism.prepare, api.load(EXAMPLES / "safetab" / "spec.toml"))
    for level in problem.levels:
        row = next(each for each in board.budgets if level.settings.title == f"{each[0]}, {each[1]}")
        assert board.law(row) == level.second
        shown = {each.name: each for each in board.rows}[":".join(row)].entries["suppressed"]
        assert shown == ("nothing" if level.suppressed_up_to is None else f"{level.suppressed_up_to:,}")


def test_nobody_is_in_both_passes(boards: dict[str, Any]) -> None:
    board = boards["safetab"]
    now = board.moved("margin:AIANNH:regional", "2", Moving())
    sums = dict.fromkeys(("PR", "US"), Fraction(0))
    for row, part in now.budgets.items():
        sums[now.pool(row)] += part
    assert sums == {"PR": 5, "US": 8}, "Puerto Rico keeps its parts, and the other pass its sum"
    assert now.total == 8
    more = board.moved("budget", "16", Moving())
    assert sum(part for row, part in more.budgets.items() if row[0].startswith("PR")) == 10


# The cell key method.


@settings(max_examples=20, deadline=None)
@given(bound=st.integers(2, 12), margin=st.integers(0, 6))
def test_a_margin_of_cell_keys_gives_the_largest_variance(boards: dict[str, Any], bound: int, margin: int) -> None:
    start = boards["cellkey"]
    assert isinstance(start, CellKeyBoard)
    board = start.chosen({"js": "0", "V": "1/2", "D": str(bound)})
    if margin > bound:
        with pytest.raises(ConfideError, match="cannot stand here"):
            board.moved("margin:work:all records", str(margin), Moving())
        return
    now = board.moved("margin:work:all records", str(margin), Moving())
    assert noise_margin(now.bound, now.variance) <= margin
    more = now.variance + Fraction(1, 100)
    assert more > Fraction(bound * (bound + 1), 3) or more > 50 or noise_margin(bound, more) > margin


def test_what_withstands_attacks_is_shown_where_it_stands(boards: dict[str, Any]) -> None:
    board = boards["cellkey"]
    region = region_of(board.claim.tables)
    best = region.recommended
    assert best is not None
    chosen = board.chosen({"js": "0", "D": str(best.risk.row.bound), "V": str(best.variance)})
    assert shield_of(chosen.claim, Fraction(1, 100)).figures[0].text == "yes"
    weak = board.chosen({"js": "0", "D": "4", "V": "0.1"})
    assert shield_of(weak.claim, Fraction(1, 100)).figures[0].text == "no"
    picture = shield_of(chosen.claim, Fraction(1, 100)).region
    assert picture is not None
    column = next(each for each in picture.columns if each.bound == chosen.bound)
    assert column.strict is not None
    assert column.strict[0] <= picture.y <= column.strict[0] + column.strict[1] + 1e-6
    with pytest.raises(ConfideError):
        board.chosen({"js": "2", "V": "1.5"})  # there is no such table: V must be above 2


# Swapping and suppression: nothing is promised that is not.


def test_swapping_promises_no_epsilon_unless_it_permutes(boards: dict[str, Any], tmp_path: Path) -> None:
    board = boards["swapping"]
    assert isinstance(board, SwappingBoard)
    text = " ".join((*board.claim.words, *(figure.title for figure in board.claim.figures)))
    assert "No differential privacy is promised" in text
    assert "psilon" not in text
    assert "keeps secret" in text
    exact = {row.name for row in board.rows if str(row.entries["figures"]).startswith("exact")}
    assert exact == {"population:state"}, "nobody leaves a state"
    folder = shutil.copytree(EXAMPLES / "swapping", tmp_path / "office")
    spec = (folder / "spec.toml").read_text(encoding="utf-8")
    head, _, rest = spec.partition("[swapping]")
    part = '[swapping]\nvariant = "permutation"\nrate = "1/10"\nmatch = ["size"]\nlargest_stratum = 100\n\n[[tables]]'
    (folder / "spec.toml").write_text(head + part + rest.partition("[[tables]]")[2], encoding="utf-8")
    permuted = tune(folder / "spec.toml", moves={"epsilon": "12"}).board.now
    assert isinstance(permuted, SwappingBoard)
    assert (
        exchange_epsilon(100, permuted.swap.rate) <= 12 < exchange_epsilon(100, permuted.swap.rate - Fraction(1, 1000))
    )


def hidden(board: Board) -> float:
    entry = {row.name: row for row in board.rows}["work:state"].entries["hidden"]
    assert not isinstance(entry, str)
    return float(entry.text)


def test_a_share_of_hidden_cells_gives_the_largest_threshold(boards: dict[str, Any]) -> None:
    board = boards["suppression"].chosen({"persons": "433"})
    assert isinstance(board, SuppressionBoard)
    now = board.moved("hidden:work:state", "20", Moving())
    assert now.threshold is not None
    more = board.chosen({"threshold": str(now.threshold + 1)})
    assert hidden(now) <= 20 < hidden(more)
    assert "no differential privacy" in " ".join(now.claim.words)
    for bad in ({"threshold": ""}, {"threshold": "0"}, {"zeros": "never"}):
        with pytest.raises(ConfideError):
            board.chosen(bad)


def test_a_row_that_is_not_there_is_not_locked_in_silence() -> None:
    """Whoever misspells a row would believe that its figure stays, and see it move."""
    spec = EXAMPLES / "tables" / "spec.toml"
    for named in ("nosuch", "age-by-sex:nosuch"):
        with pytest.raises(ConfideError) as caught:
            tune(spec, moves={"budget": "2"}, locked=[named])
        (finding,) = caught.value.findings
        assert (finding.code, finding.found) == ("no-row", named)
        assert "age-by-sex:nation" in str(finding.expected)
    kept = tune(spec, moves={"budget": "2"}, locked=["age-by-sex:nation"]).board
    before = tune(spec).board
    assert kept.now.choices()["part:age-by-sex:nation"] == before.now.choices()["part:age-by-sex:nation"]
    assert kept.now.choices()["part:age-by-sex:state"] != before.now.choices()["part:age-by-sex:state"]


def test_an_entry_that_is_no_choice_is_said_to_be_one_to_type() -> None:
    with pytest.raises(ConfideError) as caught:
        tune(EXAMPLES / "tables" / "spec.toml", choices={"budget": "2"})
    assert "--move budget=" in str(caught.value.findings[0].remedy)


def test_settings_that_are_secret_stand_in_no_address(tmp_path: Path) -> None:
    """Typed, pinned, in the memo and written: every address of the pages, and every request, is without the rate."""
    folder = shutil.copytree(EXAMPLES / "swapping", tmp_path / "office")
    browser = entered(folder)
    answer = typed(browser, "/board?spec=spec.toml", rate="0.0831")
    assert "0.0831" in answer.text
    pinned = typed(browser, stands_at(answer), do="pin A", rate="0.0832")
    here = stands_at(pinned)
    seen = [answer, pinned, browser.get(here), browser.get(here.replace("/board", "/board/memo"))]
    for page in seen:
        assert page.status_code == 200
        addresses = re.findall(r'(?:href|action)="([^"]*)"', page.text)
        assert addresses
        assert not [each for each in addresses if "083" in each]
    assert 'value="0.0832"' in seen[2].text, "the address leads to what was typed"
    assert "at=%7E" in stands_at(pinned) or "at=~" in stands_at(pinned)
    for query in ("at=rate%3D0.083", "typed.rate=0.083", "pin=rate%3D0.083", "at=~0000000000000000"):
        for path in ("/board", "/board/memo", "/api/board"):
            if query.startswith("typed") and path != "/board":
                continue
            refused = browser.get(f"{path}?spec=spec.toml&{query}")
            assert refused.status_code == 400, (path, query)
            assert "083" not in refused.text
    assert entered(folder).get(stands_at(pinned)).status_code == 400, "in the memory of one studio alone"
    stranger = browser.post("/board/typed?spec=spec.toml", form={"typed.rate": "0.5"})
    assert stranger.status_code == 403
