"""Two rooms, one fact: whatever ``check``, the run, the ledger, the manifest, its pages and its tables state about one
release is the same, over random specs of every mechanism."""

from __future__ import annotations

import html
import json
import re
import shutil
from collections import defaultdict
from fractions import Fraction
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import confide
from confide.cli.main import app
from confide.errors import ConfideError
from confide.releases.ledger import Ledger
from tests.contract.kit import MANIFEST, accounted
from tests.contract.test_random_specs import fuzzed
from tests.kits.random_specs import LEDGER, MAKERS, measured

AS_TEXT = pyarrow.csv.ConvertOptions(column_types={"level": "string", "area": "string"}, strings_can_be_null=False)
TRIED, LEAST = 16, 2
"""Random specs of each mechanism, and how many of them at least are released."""


def price_in_every_room(checked: Any, result: Any, manifest: dict[str, Any], ledger: Ledger) -> None:
    """Check, run, ledger, manifest and certificate state one loss, and ``account`` the same epsilon."""
    said, privacy = checked.as_dict(), manifest["privacy"]
    loss = said["price"]["loss"]
    assert loss == said["plan"]["loss"] == result.as_dict()["cost"] == privacy["loss"] == manifest["plan"]["loss"]
    (charged,) = (entry.event for entry in ledger.history() if entry.kind == "reserve")
    assert (str(charged.cost), charged.delta or None) == (said["cost"], said["delta"] and Fraction(said["delta"]))
    account = ledger.account()
    assert account.left == Fraction(said["left"]) - charged.cost == Fraction(result.as_dict()["left"])
    assert charged.plan_hash == said["plan"]["hash"] == manifest["plan_hash"]
    page = text_of(result.release / "certificate.html")
    exact = loss.get("rho", loss.get("epsilon"))
    assert re.search(rf"(?<![\d/.]){re.escape(exact)}(?![\d/])", page), exact
    if loss["definition"] == "zcdp":
        stated = privacy["epsilon_at_delta"]
        assert (said["price"]["epsilon"], said["price"]["delta"]) == (
            stated["canonne_kamath_steinke"],
            stated["delta"],
        )
        command = ["account", "convert", "--rho", loss["rho"], "--delta", stated["delta"], "--json"]
        answer = CliRunner().invoke(app, command)
        assert answer.exit_code == 0, answer.output
        assert stated["canonne_kamath_steinke"] in json.loads(answer.stdout).values(), answer.stdout


def areas_in_every_room(checked: Any, release: Path, manifest: dict[str, Any]) -> None:
    """The plan of check and of the manifest measure as many areas on a level as the summary says and tables have."""
    units: dict[str, set[int]] = defaultdict(set)
    for measure in manifest["plan"]["measures"]:
        units[measure["level"]].add(measure["units"])
    assert manifest["plan"]["measures"] == checked.as_dict()["plan"]["measures"]
    if manifest["mechanism"] == "tables":
        said = {row[0]: int(row[1].replace(",", "")) for row in checked.summary.rows}
        assert {level: {number} for level, number in said.items()} == units
        tabulated = areas_of_tables(release)
        assert {level: {len(codes)} for level, codes in tabulated.items()} == units
    if manifest["mechanism"] == "safetab":
        for region, _, areas, *_ in checked.summary.rows:
            published = areas_of_tables(release).get(region, set())
            assert len(published) <= int(areas.replace(",", ""))


def listed_areas_are_those_of_tables(release: Path) -> None:
    """The file of areas has exactly the areas that tables name; where noise leaves out groups, no fewer."""
    files = list(release.glob("areas*.csv"))
    if not files:
        return
    listed: dict[str, set[str]] = defaultdict(set)
    for row in pyarrow.csv.read_csv(files[0], convert_options=AS_TEXT).to_pylist():
        listed[row["level"]].add(row["area"])
    for level, codes in areas_of_tables(release).items():
        assert codes <= listed[level], level


def areas_of_tables(release: Path) -> dict[str, set[str]]:
    """The areas of each level that any table has a row for. There are none where all tables are SDMX alone."""
    areas: dict[str, set[str]] = defaultdict(set)
    for file in (release / "tables").glob("*"):
        if file.suffix not in (".parquet", ".csv"):
            continue
        is_parquet = file.suffix == ".parquet"
        table = pq.read_table(file) if is_parquet else pyarrow.csv.read_csv(file, convert_options=AS_TEXT)
        if {"level", "area"} <= set(table.column_names):
            for level, area in zip(table["level"].to_pylist(), table["area"].to_pylist(), strict=True):
                areas[level].add(area)
    return areas


def text_of(page: Path) -> str:
    return html.unescape(re.sub(r"<[^>]+>", " ", page.read_text(encoding="utf-8")))


def compared(mechanism: str, draw: Any) -> bool:
    """Whether a random spec is released, and everything that is stated of it was compared."""
    folder = Path(mkdtemp())
    try:
        spec = MAKERS[mechanism](draw, folder / "project")
        try:
            checked = confide.check(spec, processes=1)
            result = confide.run(spec, processes=1)
        except ConfideError:
            return False
        manifest = json.loads((result.release / MANIFEST).read_text(encoding="utf-8"))
        if accounted(mechanism):
            price_in_every_room(checked, result, manifest, Ledger(spec.parent / LEDGER))
            areas_in_every_room(checked, result.release, manifest)
        else:
            loss = manifest["privacy"]["loss"]
            assert result.as_dict()["cost"] == loss == manifest["plan"]["loss"]
            assert checked.as_dict()["cost"] == (None if loss is None else "0"), "no ledger is charged"
        assert manifest["plan_hash"] == checked.as_dict()["plan"]["hash"]
        listed_areas_are_those_of_tables(result.release)
        return True
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("mechanism", sorted(MAKERS))
def test_whatever_two_rooms_state_is_one_fact(mechanism: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured, "SOURCES", 6)
    released = []

    @seed(23)
    @settings(fuzzed, max_examples=TRIED)
    @given(st.data())
    def tried(data: st.DataObject) -> None:
        released.append(compared(mechanism, data.draw))

    tried()
    assert sum(released) >= LEAST, released
