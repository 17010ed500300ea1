"""The page of an office's own files: every command of it, on files with all that it lists, to two sealed releases."""

from __future__ import annotations

import csv
import re
import shlex
from pathlib import Path

import pytest
from tests.kits.commands import run
from tests.kits.messy_office import MUNICIPALITIES, messy_office

from confide.releases.ledger import Ledger

PAGE = Path(__file__).parents[2] / "docs" / "from-your-own-files.md"


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A folder in which every command of the page was run, and what each printed."""
    folder = tmp_path_factory.mktemp("office")
    messy_office(folder, persons=240)
    commands = re.findall(r"^confide (.+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return folder, [run(*shlex.split(command)) for command in commands]


def test_the_page_leads_to_two_sealed_releases(office: tuple[Path, list[str]]) -> None:
    folder, printed = office
    assert [text for text in printed if "is as sealed" in text or "consistent with itself" in text] == printed[5::4]
    account = Ledger(folder / "people.ledger").account()
    assert (account.spent, {each.state for each in account.runs.values()}) == (2, {"sealed"})
    assert (folder / "records" / "my-release" / "release" / "tables" / "records.csv").exists()


def test_tables_have_the_codes_labels_and_words_of_the_office(office: tuple[Path, list[str]]) -> None:
    path = office[0] / "office/my-release/release/tables/kon-by-age.csv"
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["area"] for row in rows if row["level"] == "kommun"} == set(MUNICIPALITIES)
    assert {(row["kön"], row["kön_label"]) for row in rows} >= {("M", "male"), ("F", "female"), ("_U", "not stated")}
    assert "65 and over" in {row["age:broad_label"] for row in rows}


def test_the_page_shows_what_is_printed(office: tuple[Path, list[str]]) -> None:
    page = PAGE.read_text(encoding="utf-8")
    for text in (*office[1][:4], office[1][-1]):
        shown = [line for line in text.splitlines() if not re.search(r"\d+ +±|…", line)]
        assert [line for line in shown if line.strip() and line.rstrip() not in page] == []


def test_what_is_proposed_is_for_its_owner_alone_and_says_so(office: tuple[Path, list[str]]) -> None:
    folder, _ = office
    for name in ("schema.toml", "office/schema.toml", "office/spec.toml", "records/strategy.toml"):
        assert (folder / name).stat().st_mode & 0o077 == 0
    assert "Keeping it makes these codes, labels and ranges public" in (folder / "schema.toml").read_text(
        encoding="utf-8"
    )
