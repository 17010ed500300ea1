"""Dossiers of all mechanisms say, area by area, how many figures of one record are shown as they are."""

from __future__ import annotations

import csv
import hashlib
import re
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.contract.kit import Project, lay_out
from tests.kits.cellkey_areas import AREA_TABLES, people_in_blocks, true_area_cells, write_areas

import confide
from confide.mechanisms.suppression import evaluate as suppression
from confide.releases.dossier import LoneFigures, risk_pictures
from confide.releases.ledger import Ledger

Numbers = dict[tuple[str, str], tuple[int, int, int]]
DIGITS = {"nation": 0, "state": 2, "county": 5, "tract": 11, "block": 15}


def risk_of(spec: Path, **options: Any) -> dict[str, Any]:
    """What the dossier's file says."""
    evaluated = confide.evaluate(spec, processes=1, **options)
    risk: dict[str, Any] = evaluated.accuracy.reveal("made-up people")["risk_by_area"]
    return risk


def by_area(risk: dict[str, Any]) -> Numbers:
    """Of each area with anything to say: figures of one record, those shown as 1, and all figures shown as 1."""
    found = {
        (row["level"], each["area"]): (each["lone"], each["shown"], each["published_as_1"])
        for row in risk["levels"]
        for each in row["by_area"]
    }
    return {area: numbers for area, numbers in found.items() if any(numbers)}


def has(code: str, value: str) -> bool:
    """Whether a value is in a group of a published table."""
    first, dash, last = code.partition("-")
    return int(first) <= int(value) <= int(last) if dash else code in ("_T", value)


def counted_by_hand(project: Project) -> Numbers:
    """The same from the published rows and the records, one person after the other."""
    people = list(csv.DictReader((project.folder / "persons.csv").read_text(encoding="utf-8").splitlines()))
    true, shown = Counter[Any](), dict[Any, int | None]()
    for file in (project.release / "tables").glob("*.parquet"):
        rows = pq.read_table(file).to_pylist()
        if "level" not in rows[0]:
            continue
        names = [name for name in rows[0] if f"{name}_label" in rows[0] and name not in ("level", "area")]
        counts = Counter[Any]()
        codes = {name: dict.fromkeys(row[name] for row in rows) for name in names}
        kinds = {(row["level"], *(row[name] == "_T" for name in names)) for row in rows}
        for row in rows:
            key = (row["level"], row["area"], frozenset((n, row[n]) for n in names if row[n] != "_T"))
            shown[key] = None if row.get("status") == "suppressed" else row["count"]
        for person in people:
            own = [[code for code in codes[name] if has(code, person[name.partition(":")[0]])] for name in names]
            for level in {kind[0] for kind in kinds} & {*DIGITS, "_T"}:
                area = {"nation": "all", "_T": "_T"}.get(level) or person["geocode"][: DIGITS[level]]
                for cell in product(*own):
                    if (level, *(code == "_T" for code in cell)) in kinds:
                        pairs = zip(names, cell, strict=True)
                        counts[level, area, frozenset(pair for pair in pairs if pair[1] != "_T")] += 1
        true.update({key: number for key, number in counts.items() if key not in true})
    result: Numbers = {}
    for key in {*true, *shown}:
        alone, one = true[key] == 1, shown.get(key) == 1
        if (alone or one) and (key[0] in DIGITS or key[0] == "_T"):
            so_far = result.get(key[:2], (0, 0, 0))
            result[key[:2]] = (so_far[0] + alone, so_far[1] + (alone and one), so_far[2] + one)
    return result


def hashes(folder: Path) -> dict[str, str]:
    files = (file for file in folder.rglob("*") if file.is_file())
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def shown_rows(page: str, level: str) -> dict[str, tuple[float | None, ...]]:
    """The table below the picture of risk."""
    part = page.partition(f"<summary>The same as a table: {level}, risk</summary>")[2].partition("</details>")[0]
    lines = re.findall(r'<tr><td class="name">(.*?)</td>(.*?)</tr>', part)
    cells = {name: re.findall(r'<td class="n">(.*?)</td>', rest) for name, rest in lines}
    return {name: tuple(None if n == "–" else float(n.replace(",", "")) for n in each) for name, each in cells.items()}


@pytest.mark.parametrize("name", ["tables", "swapping", "suppression"])
def test_the_risk_of_every_area_is_counted_again_by_hand(name: str, tmp_path: Path) -> None:
    project = lay_out(name, tmp_path / name)
    project.run()
    before = hashes(project.release)
    evaluated = confide.evaluate(project.spec, processes=1)
    risk = evaluated.accuracy.reveal("made-up people")["risk_by_area"]
    assert hashes(project.release) == before, "the truth stays in the dossier"
    found = {area: numbers for area, numbers in by_area(risk).items() if area[0] != "place"}
    assert found == counted_by_hand(project)
    assert sum(lone for lone, _, _ in found.values()) >= 10
    page = evaluated.dossier.read_text(encoding="utf-8")
    assert "Where do people stand out?" in page
    for row in risk["levels"]:
        assert row["lone"] == sum(each["lone"] for each in row["by_area"])
        if row["lone"] and row["areas"] > 1:
            listed = {
                each["area"]: (each["percent"], each["lone"], each["shown"], each["published_as_1"])
                for each in row["by_area"]
            }
            assert shown_rows(page, row["level"]) == listed


def test_cell_keys_are_counted_by_hand_and_a_cross_classification_once(tmp_path: Path) -> None:
    records = people_in_blocks(150)
    spec = write_areas(tmp_path, records)
    release = confide.run(spec, processes=1).release
    found = by_area(risk_of(spec))
    true, shown = dict[Any, int](), dict[Any, int]()
    for name, variables, levels in AREA_TABLES:
        for level in levels:
            for cell, (count, _) in true_area_cells(records, variables, level).items():
                pairs = zip(variables, cell[2:], strict=True)
                true[cell[0], cell[1], frozenset(pair for pair in pairs if pair[1] != "_T")] = count
        (file,) = (release / "tables").glob(f"{name}*.parquet")
        for row in pq.read_table(file).to_pylist():
            if levels:
                pairs = ((variable, row[f"{variable}_label"]) for variable in variables)
                shown[row["level"], row["area"], frozenset(p for p in pairs if p[1] != "_T")] = row["count"]
    expected: Numbers = {}
    for key in {*true, *shown}:
        alone, one = true.get(key) == 1, shown.get(key) == 1
        if alone or one:
            so_far = expected.get(key[:2], (0, 0, 0))
            expected[key[:2]] = (so_far[0] + alone, so_far[1] + (alone and one), so_far[2] + one)
    assert found == expected
    assert 0 < sum(shown for _, shown, _ in found.values()) < sum(lone for lone, _, _ in found.values())


def test_a_hidden_figure_that_can_be_worked_out_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = lay_out("suppression", tmp_path / "suppression")
    project.run()
    hidden = by_area(risk_of(project.spec))
    assert {shown for _, shown, _ in hidden.values()} == {0}
    attack = suppression.intervals_of

    def known(problem: Any, suppressed: Any) -> Any:
        value = problem.value.astype(np.float64)
        return replace(attack(problem, suppressed), low=value, high=value)

    monkeypatch.setattr(suppression, "intervals_of", known)
    worked_out = by_area(risk_of(project.spec))
    assert worked_out == {area: (lone, lone, lone) for area, (lone, _, _) in hidden.items()}


def test_without_noise_to_speak_of_every_group_of_one_is_shown(tmp_path: Path) -> None:
    noisy, exact = lay_out("safetab", tmp_path / "noisy"), lay_out("safetab", tmp_path / "exact")
    text = exact.spec.read_text(encoding="utf-8")
    more = re.sub(r'(?m)^budget = "?([\d/]+)"?', lambda found: f'budget = "{Fraction(found[1]) * 10**6}"', text)
    exact.spec.write_text(more, encoding="utf-8")
    (tmp_path / "exact" / "data-set.ledger").unlink()
    opened = {"data_set": "safetab", "definition": "zcdp", "neighbours": "add-remove", "budget": 8 * 10**6, "delta": 0}
    Ledger.open_new(tmp_path / "exact" / "data-set.ledger", **opened)
    found = []
    for project in (noisy, exact):
        project.run()
        found.append(by_area(risk_of(project.spec)))
    lone = [{area: numbers[0] for area, numbers in each.items() if numbers[0]} for each in found]
    assert lone[0] == lone[1] != {}
    assert all(shown < alone for alone, shown, _ in found[0].values() if alone)
    (file,) = (exact.release / "tables").glob("T01001*.parquet")
    rows = pq.read_table(file).to_pylist()
    assert lone[1] == Counter((row["level"], row["area"]) for row in rows if row["count"] == 1)
    assert found[1] == {area: (number, number, number) for area, number in lone[1].items()}


def test_lone_figures_by_hand() -> None:
    lone, codes = LoneFigures(), ["a", "b", "c"]
    area = np.array([0, 0, 0, 1, 1, 2])
    lone.add("town", codes, area, np.array([1, 1, 0, 1, 5, 2]), np.array([1, 0, 1, -1, 1, 2]))
    lone.add("town", codes, np.array([0]), np.array([1]), np.array([1]))
    (row,) = lone.as_dict({})["levels"]
    assert [tuple(each.values()) for each in row.pop("by_area")] == [
        ("a", 3, 2, 3, 66.67),
        ("b", 1, 0, 1, 0.0),
        ("c", 0, 0, 0, None),
    ]
    assert row == {"level": "town", "areas": 3, "lone": 4, "shown": 2, "published_as_1": 4, "percent": 50.0}
    assert [lone.takes("town", "sex", table) for table in ("one", "one", "two")] == [True, True, False]
    assert lone.takes("land", "sex", "two")


def test_areas_of_a_level_are_listed_where_they_can_be_shown() -> None:
    lone, codes = LoneFigures(), [str(number) for number in range(401)]
    lone.add("block", codes, np.arange(401), np.ones(401, np.int64), np.zeros(401, np.int64))
    risk = lone.as_dict({})
    assert risk["levels"][0]["by_area"] is None
    assert risk["levels"][0]["lone"] == 401
    assert risk_pictures(risk, None, {}, "")["maps"] == []
    listed = lone.as_dict({"block": Path("blocks.geojson")})["levels"][0]["by_area"]
    assert [each["area"] for each in listed] == codes
