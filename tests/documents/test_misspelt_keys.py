"""One slip, one answer: every kind of settings file is read by its own public reader, and a slip in it is told with the
line and with what was meant."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.kits.bad_input import SCHEMA, SPEC
from tests.kits.safetab import config

from confide import api, drafting
from confide.documents import FOLDER, load_schema
from confide.errors import ConfideError, Finding
from confide.geography import Geolevel, Spine
from confide.inputs.frame import Frame
from confide.lab.attacks.reconstruction.description import read_description
from confide.lab.comparison.comparison_spec import load_comparison
from confide.lab.population import load_settings
from confide.lab.risk.bayesian import load_tree
from confide.lab.risk.bounded_noise import load_programme
from confide.lab.risk.invariant_sets import load_invariants
from confide.mechanisms import swapping
from confide.mechanisms.safetab.official import read_config
from confide.mechanisms.suppression.given.description import describe
from confide.mechanisms.topdown.output.settings import prepare_output
from confide.mechanisms.topdown.strategy_file import load_strategies, load_strategy


def ships(folder: str, name: str) -> str:
    return (FOLDER / folder / f"{name}.toml").read_text(encoding="utf-8")


def topdown_output(key: str) -> Callable[[Path], object]:
    """The output settings as a TopDown spec names them."""

    def read(path: Path) -> object:
        made = drafting.new("topdown", path.parent / "project")
        text = made.spec.read_text(encoding="utf-8")
        output = f'[output]\n{key} = "../{path.name}"\n'
        output += 'tables = []\nmicrodata = ["records", "mdf"]\n' if key == "layout" else 'microdata = ["records"]\n'
        spec = path.parent / "project" / "own.toml"
        spec.write_text(text.split("\n[output]")[0] + "\n" + output, encoding="utf-8")
        blocks = Geolevel("block", ("440070101022003",), np.zeros(1, np.int64))
        frame = Frame(Spine((blocks,)), "none")
        return prepare_output(api.load(spec), load_strategy("pl94-persons"), frame)

    return read


@dataclass(frozen=True)
class Case:
    """A good file, who reads it, and three slips: what is replaced by what, once.

    ``meant`` is the key that was misspelt; ``expected`` says what a value of the wrong type should have been; ``lost``
    is the path of the key that is missing.
    """

    file: str
    text: str
    read: Callable[[Path], object]
    misspelt: tuple[str, str]
    meant: str
    wrong: tuple[str, str]
    expected: str
    missing: tuple[str, str]
    lost: str
    codes: tuple[str, str, str]
    """Of the unknown key, of the wrong value, of the missing key."""


def of(code: str) -> tuple[str, str, str]:
    return code, code, code


PLAIN = ("unknown-key", "bad-value", "missing-key")
TREE = """\
target = "block"

[[nodes]]
name = "county"
rho = "0.05"
released = 12

[[nodes]]
name = "block"
parent = "county"
rho = "0.0992"
released = 2
prior = 0.5

[[nodes]]
name = "others"
parent = "county"
released = [0, 1]
rho = 1
prior = "flat:3"
"""
TREE_VALUES = {
    "target": "a",
    "nodes": [
        {"name": "p", "rho": "1/4", "released": 3},
        {"name": "a", "parent": "p", "rho": 0.1, "released": 2},
        {"name": "b", "parent": "p", "prior": "point:0"},
    ],
}
DESCRIPTION = """\
title = "Two streets"

[attributes.sex]
levels = [[1, "men"], [2, "women"]]

[geography]
block = "street"
levels = [{ name = "town", digits = 1 }]

[[tables]]
name = "total"
level = "town"
file = "total.csv"
queries = ["total"]
"""
AUDIT = """\
[variables.sex]
total = "all"

[[tables]]
file = "jobs.csv"
value = "count"

[attacker]
low = 0
integer = true
"""
COMPARISON = """\
[comparison]
made_up = 1000
seed = 7

[[protections]]
name = "mine"
mechanism = "cellkey"
D = 3

[[protections]]
name = "light"
mechanism = "swapping"
"""
SWAPPING = """\
[swapping]
variant = "enhanced"
rate = "0.05"
key_noise = [0, 1, 0]
adult_age = 18
"""
BUDGET = "privacy_budget_p_level_1_usa"

CASES = {
    "spec": Case(
        "spec.toml",
        SPEC,
        api.load,
        ("ledger =", "leger ="),
        "ledger",
        ("digits = 3", 'digits = "3"'),
        "a whole number",
        ('name = "tiny"\n', ""),
        "release.name",
        PLAIN,
    ),
    "strategy": Case(
        "strategy.toml",
        ships("strategies", "pl94-persons"),
        lambda path: load_strategies(path.name, path.parent),
        ("per_unit =", "per_units ="),
        "per_unit",
        ('neighbours = "change-one"', "neighbours = 1"),
        "'change-one' or 'add-remove'",
        ('from = "us"\n', ""),
        "derived.state.from",
        PLAIN,
    ),
    "schema inside a strategy": Case(
        "strategy.toml",
        ships("strategies", "pl94-units"),
        lambda path: load_strategies(path.name, path.parent),
        ('levels = [[0, "vacant"], [1, "occupied"]]', 'levls = [[0, "vacant"], [1, "occupied"]]'),
        "levels",
        ('record = "', 'record = 1 # "'),
        "text in quotes",
        ('from = "us"\n', ""),
        "derived.state.from",
        PLAIN,
    ),
    "tabulation": Case(
        "own-tables.toml",
        ships("tabulations", "pl94-persons"),
        topdown_output("tabulation"),
        ("universe =", "univers ="),
        "universe",
        ('name = "p2"', "name = 2"),
        "text in quotes",
        ('prefix = "P003"\n', ""),
        "tables[2].prefix",
        of("bad-tabulation"),
    ),
    "layout": Case(
        "own-layout.toml",
        ships("layouts", "mdf-pl94-persons"),
        topdown_output("layout"),
        ("attribute =", "atribute ="),
        "attribute",
        ("block_digits = 15", 'block_digits = "15"'),
        "a whole number",
        ('id = "mdf-pl94-persons"\n', ""),
        "id",
        of("bad-layout"),
    ),
    "description of tables": Case(
        "tables.toml",
        DESCRIPTION,
        read_description,
        ("level =", "levell ="),
        "level",
        ("digits = 1", 'digits = "1"'),
        "a whole number",
        ('name = "total"\n', ""),
        "tables[0].name",
        of("bad-description"),
    ),
    "comparison": Case(
        "comparison.toml",
        COMPARISON,
        load_comparison,
        ("made_up =", "made_upp ="),
        "made_up",
        ("D = 3", 'D = "3"'),
        "a whole number",
        ('name = "light"\n', ""),
        "protections[1].name",
        of("bad-comparison"),
    ),
    "audit": Case(
        "table.toml",
        AUDIT,
        describe,
        ("value =", "valu ="),
        "value",
        ("integer = true", "integer = 1"),
        "true or false",
        ("[variables.sex]\n", "[variables]\n"),
        "",
        of("table-description"),
    ),
    "tree": Case(
        "tree.toml",
        TREE,
        load_tree,
        ("parent =", "parrent ="),
        "parent",
        ("released = 12", 'released = "12"'),
        "a whole number",
        ('name = "others"\n', ""),
        "nodes[2].name",
        of("bad-tree"),
    ),
    "tree in JSON": Case(
        "tree.json",
        json.dumps(TREE_VALUES, indent=2),
        load_tree,
        ('"released": 2', '"relesed": 2'),
        "released",
        ('"rho": "1/4"', '"rho": true'),
        "a number",
        ('"name": "b",', ""),
        "nodes[2].name",
        of("bad-tree"),
    ),
    "programme": Case(
        "programme.toml",
        ships("programmes", "eu-2021"),
        lambda path: load_programme(path.name, path.parent),
        ('unit = "persons"', 'units = "persons"'),
        "unit",
        ("MT = [1, 1, 2, 68]", 'MT = [1, 1, "2", 68]'),
        "a whole number",
        (", categories = 13", ""),
        "breakdowns.LOC.categories",
        of("bad-programme"),
    ),
    "invariants": Case(
        "own.toml",
        ships("invariants", "C5"),
        lambda path: load_invariants([path.name], path.parent),
        ("at_most =", "at_mots ="),
        "at_most",
        ("at_least = 1", 'at_least = "1"'),
        "a whole number",
        ('by = "block"\n', ""),
        "bounds[0].by",
        of("bad-invariants"),
    ),
    "schema": Case(
        "schema.toml",
        SCHEMA,
        lambda path: load_schema(path.name, path.parent),
        ("starts =", "strats ="),
        "starts",
        ("range = [0, 9]", 'range = [0, "9"]'),
        "a whole number",
        ('id = "tiny"\n', ""),
        "id",
        of("schema"),
    ),
    "population": Case(
        "own.toml",
        ships("population", "default"),
        load_settings,
        ("county_growth =", "county_grwth ="),
        "county_growth",
        ("waves = ", 'waves = "many" # '),
        "a whole number",
        ("first_state = 90", "# none"),
        "spine.first_state",
        of("settings-invalid"),
    ),
    "swapping settings": Case(
        "own.toml",
        SWAPPING,
        lambda path: swapping.load_settings(path.name, path.parent),
        ("key_noise =", "key_nois ="),
        "key_noise",
        ("adult_age = 18", 'adult_age = "18"'),
        "a whole number",
        ('rate = "0.05"\n', ""),
        "swapping.rate",
        ("swapping-settings", "swapping-settings", "missing-key"),
    ),
    "the Bureau's config": Case(
        "config.json",
        json.dumps(config(**{BUDGET: 0.5}), indent=2),
        read_config,
        ('"max_race_codes"', '"max_race_code"'),
        "max_race_codes",
        (f'"{BUDGET}": 0.5', f'"{BUDGET}": "0.5"'),
        "a number",
        ('"reader": "csv",\n', ""),
        "reader",
        ("config-unknown-key", "config-number", "config-missing-key"),
    ),
}
TOGETHER = {name: case for name, case in CASES.items() if name != "swapping settings" and case.lost}
"""Where a missing key is a matter of form, as most are."""


def changed(text: str, *changes: tuple[str, str]) -> str:
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new, 1)
    return text


def line_of_change(before: str, after: str) -> int:
    """The line, from one, of the first difference."""
    pairs = enumerate(zip(before.split("\n"), after.split("\n"), strict=False), start=1)
    return next(line for line, (old, new) in pairs if old != new)


def refusal(case: Case, folder: Path, text: str) -> Sequence[Finding]:
    (folder / case.file).write_text(text, encoding="utf-8")
    with pytest.raises(ConfideError) as caught:
        case.read(folder / case.file)
    findings = caught.value.findings
    assert all(finding.where.file == case.file for finding in findings), findings
    assert all(finding.found and finding.expected and finding.remedy for finding in findings), findings
    return findings


@pytest.mark.parametrize("name", CASES)
def test_the_good_file_is_read(tmp_path: Path, name: str) -> None:
    case = CASES[name]
    (tmp_path / case.file).write_text(case.text, encoding="utf-8")
    case.read(tmp_path / case.file)


@pytest.mark.parametrize("name", CASES)
def test_a_misspelt_key_is_told_with_its_line_and_what_was_meant(tmp_path: Path, name: str) -> None:
    case = CASES[name]
    text = changed(case.text, case.misspelt)
    (finding,) = (each for each in refusal(case, tmp_path, text) if "unknown key" in each.what)
    assert finding.remedy == f'did you mean "{case.meant}"?'
    assert finding.where.line == line_of_change(case.text, text)
    assert finding.code == case.codes[0]
    assert (finding.expected or "").startswith("one of ")
    assert case.meant in (finding.expected or "")


@pytest.mark.parametrize("name", CASES)
def test_a_value_of_the_wrong_type_is_told_with_its_line(tmp_path: Path, name: str) -> None:
    case = CASES[name]
    text = changed(case.text, case.wrong)
    (finding,) = refusal(case, tmp_path, text)
    assert case.expected in (finding.expected or "")
    assert finding.where.line == line_of_change(case.text, text)
    assert finding.code == case.codes[1]


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.lost])
def test_a_missing_key_is_told_with_its_path(tmp_path: Path, name: str) -> None:
    case = CASES[name]
    (finding,) = refusal(case, tmp_path, changed(case.text, case.missing))
    key = case.lost.rsplit(".", 1)[-1]
    assert finding.where.path == case.lost
    assert finding.what == f"{key!r} is missing"
    assert finding.code == case.codes[2]


@pytest.mark.parametrize("name", TOGETHER)
def test_several_mistakes_are_told_together(tmp_path: Path, name: str) -> None:
    case = TOGETHER[name]
    findings = refusal(case, tmp_path, changed(case.text, case.misspelt, case.wrong, case.missing))
    assert f'did you mean "{case.meant}"?' in [finding.remedy for finding in findings]
    assert any(case.expected in (finding.expected or "") for finding in findings)
    assert case.lost in [finding.where.path for finding in findings]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("damage", ["not UTF-8", "not closed", "empty of form"])
def test_a_file_that_is_none_is_one_finding(tmp_path: Path, name: str, damage: str) -> None:
    case = CASES[name]
    content = case.text.encode()
    lines = content.count(b"\n") + 1
    content += {"not UTF-8": b"\xff", "not closed": b'\nlast = "', "empty of form": b"\n[[["}[damage]
    path = tmp_path / case.file
    path.write_bytes(content)
    with pytest.raises(ConfideError) as caught:
        case.read(path)
    (finding,) = caught.value.findings
    assert Path(finding.where.file or "").name == case.file
    assert finding.where.line in (lines, lines + 1)
    assert finding.remedy


def test_a_misspelt_key_releases_and_spends_nothing(tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text(changed(SPEC, ("ledger =", "leger =")), encoding="utf-8")
    (tmp_path / "schema.toml").write_text(SCHEMA, encoding="utf-8")
    before = contents(tmp_path)
    for verb in (api.check, api.run):
        with pytest.raises(ConfideError, match="did you mean"):
            verb(tmp_path / "spec.toml")
    assert contents(tmp_path) == before


def contents(folder: Path) -> dict[str, Any]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
        for path in folder.rglob("*")
    }
