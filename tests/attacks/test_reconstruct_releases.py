"""Releases of Confide as tables: what the attack makes of each mechanism, and what it says of it."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest
from tests.kits.cellkey import release_of
from tests.kits.commands import run
from tests.kits.small import KEY
from tests.kits.swapping import release_of as swapped
from tests.kits.topdown import write_small_state, write_spec

import confide
from confide import drafting
from confide.errors import ConfideError
from confide.lab.attacks.reconstruction import NoiseBound, read_source, reconstruct


def test_tables_are_fitted(project: Path) -> None:
    release = confide.run(project / "spec.toml", processes=1, insecure_key=KEY).release
    published = read_source(release)
    assert published.geography.levels[0] == "block"
    assert not published.exact
    assert any("noise" in note for note in published.notes)
    assert any("place" in note for note in published.notes)
    plan = json.loads((release / "manifest.json").read_text())["plan"]
    measured = {(m["level"], m["query"]) for m in plan["measures"] if m["level"] != "place"}
    assert len(published.marginals) == len(measured)
    found = reconstruct(published, level="state", processes=1, time_limit=20)
    persons = pq.read_table(project / "persons.parquet").num_rows
    assert found.persons == pytest.approx(persons, rel=0.2)
    assert not found.exact
    assert found.deviation > 0
    assert found.mean is None


def test_cell_key_tables_are_fitted(tmp_path: Path) -> None:
    release = release_of(tmp_path)
    with pytest.raises(ConfideError) as caught:
        read_source(release)
    assert caught.value.findings[0].code == "release-schema"
    published = read_source(release, tmp_path / "town.toml")
    assert {float(m.variance) for m in published.marginals if m.variance is not None} == {2.0}
    assert {m.bound for m in published.marginals} == {NoiseBound(5, zeros_kept=True)}
    found = reconstruct(published, processes=1, time_limit=20)
    assert found.persons == pytest.approx(2_003, abs=40)
    assert found.as_dict()["exact"] is False
    other = tmp_path / "other.toml"
    other.write_text((tmp_path / "town.toml").read_text().replace("women", "others"))
    with pytest.raises(ConfideError) as caught:
        read_source(release, other)
    assert caught.value.findings[0].code == "release-schema"


def test_topdown_records_are_what_they_are(tmp_path: Path) -> None:
    write_small_state(tmp_path, 2_000, 3)
    release = confide.run(write_spec(tmp_path), processes=1, insecure_key=KEY).release
    published = read_source(release)
    assert published.geography.levels[:2] == ("block", "block_group")
    found = reconstruct(published, processes=1)
    mine = found.records()
    records = pq.read_table(next((release / "tables").glob("records*.parquet")))
    keys = records.column_names
    both = [Counter(zip(*(t.column(k).to_pylist() for k in keys), strict=True)) for t in (mine, records)]
    assert both[0] == both[1]
    assert found.mean == 0.0
    assert any("protected records" in note for note in published.notes)


def test_the_folder_of_a_run_stands_for_its_release(tmp_path: Path) -> None:
    release = release_of(tmp_path)
    assert release.name == "release"
    run = release.parent
    schema = tmp_path / "town.toml"
    assert read_source(run, schema).notes == read_source(release, schema).notes
    assert confide.verify(run).ok
    assert confide.open_release(run).tables.keys() == confide.open_release(release).tables.keys()


def test_magnitudes_are_refused_with_a_remedy(tmp_path: Path) -> None:
    release = release_of(tmp_path)
    manifest = json.loads((release / "manifest.json").read_text())
    manifest["plan"]["question"]["value"] = "turnover"
    (release / "manifest.json").write_text(json.dumps(manifest | {"mechanism": "suppression"}))
    with pytest.raises(ConfideError) as caught:
        read_source(release)
    finding = caught.value.findings[0]
    assert finding.code == "not-attacked"
    assert "audit suppression" in str(finding.remedy)


def test_swapped_records_and_swapped_tables(tmp_path: Path) -> None:
    with_records = swapped(tmp_path / "a")
    found = reconstruct(read_source(with_records, tmp_path / "a" / "town.toml"), processes=1)
    records = pq.read_table(next((with_records / "microdata").glob("persons*.parquet")))
    keys = ["geocode", "sex", "race", "age"]
    both = [Counter(zip(*(t.column(k).to_pylist() for k in keys), strict=True)) for t in (found.records(), records)]
    assert both[0] == both[1]
    release = swapped(tmp_path / "b", output="microdata = false")
    published = read_source(release, tmp_path / "b" / "town.toml")
    assert published.exact
    assert published.geography.levels[0] == "block"
    assert any("place" in note for note in published.notes)
    rows = reconstruct(published, processes=1, level="block").records().to_pylist()
    table = pq.read_table(next((release / "tables").glob("race.*parquet"))).to_pylist()
    schema = published.schema
    for name, labels in (("sex", schema.variable("sex").labels), ("race", schema.variable("race").labels)):
        codes = [level.code for level in schema.variable(name).attribute.levels]
        mine = Counter((row["geocode"], labels[codes.index(row[name])]) for row in rows)
        other = "race" if name == "sex" else "sex"
        shown = [r for r in table if r["level"] == "block" and r[name] != "_T" and r[other] == "_T"]
        assert mine == Counter({(r["area"], r[f"{name}_label"]): r["count"] for r in shown})


def test_suppressed_tables_are_exact_with_holes(project: Path) -> None:
    spec = drafting.new("suppression", project / "suppressed").spec
    text = spec.read_text()
    assert "threshold = 3" in text
    spec.write_text(text.replace("threshold = 3", "threshold = 30"))
    for name in ("persons.parquet", "blocks.parquet"):
        shutil.copy(project / name, spec.parent / name)
    release = confide.run(spec, processes=1).release
    published = read_source(release)
    assert published.exact
    assert any("left out" in note for note in published.notes)
    counts = {(m.depth, m.query.name): m for m in published.marginals}
    hidden = sum(
        1
        for file in (release / "tables").glob("*.csv")
        for line in file.read_text().splitlines()
        if "suppressed" in line
    )
    assert hidden > 0
    assert len(counts) > 6
    found = reconstruct(published, processes=1, time_limit=20)
    assert found.exact
    assert found.persons == pq.read_table(project / "persons.parquet").num_rows


PEOPLE = """
[release]
name = "town"
mechanism = "suppression"
[data]
records = "people.csv"
schema = "schema.toml"
blocks = "blocks.csv"
[geography]
levels = [{ name = "city", digits = 1 }]
[suppression]
threshold = 2
[[tables]]
name = "sexes"
variables = ["sex", "age:grown"]
[[tables]]
name = "ages"
variables = ["age:grown", "age"]
"""
WHERE = """
[[tables]]
name = "where"
variables = ["sex"]
levels = ["city", "block"]
"""
SCHEMA = """
id = "people"
provenance = "made up for tests"
[attributes.sex]
title = "sex"
levels = [["f", "women"], ["m", "men"]]
[attributes.age]
title = "age"
levels = [["c", "children"], ["y", "young"], ["o", "old"]]
[attributes.age.recodes.grown]
groups = { children = "c", grown = ["y", "o"] }
"""


@pytest.mark.parametrize("where", ["", WHERE, WHERE.replace('"city", ', "")])
def test_suppressed_tables_without_areas_and_beside_some_with(tmp_path: Path, where: str) -> None:
    """A group that two recodes have in common has one row, and is known in both."""
    rng = Random(4)
    people = [(rng.choice("fm"), rng.choice("ccyyyyoo"), rng.choice(["1a", "1b", "2a"])) for _ in range(40)]
    (tmp_path / "people.csv").write_text("sex,age,geocode\n" + "".join(",".join(row) + "\n" for row in people))
    (tmp_path / "blocks.csv").write_text("geocode\n1a\n1b\n2a\n")
    (tmp_path / "schema.toml").write_text(SCHEMA)
    (tmp_path / "spec.toml").write_text(PEOPLE + where)
    release = confide.run(tmp_path / "spec.toml", processes=1).release
    published = read_source(release, tmp_path / "schema.toml")
    assert published.geography.levels[-1] == "all"
    assert len(published.geography.blocks) == (3 if where else 1)
    whole = len(published.geography.levels) - 1
    grown = next(m for m in published.marginals if m.table == "ages" and m.query.name == "age:grown")
    fine = next(m for m in published.marginals if m.table == "ages" and m.query.name == "age")
    assert (grown.depth, fine.depth) == (whole, whole)
    children = sum(row[1] == "c" for row in people)
    assert grown.counts(0)[0] == fine.counts(0)[0] == children
    found = reconstruct(published, processes=1, time_limit=20)
    assert found.exact
    assert found.persons == 40
    mine = Counter((row["sex"]) for row in found.records().to_pylist())
    truth = Counter(row[0] for row in people)
    shown = next(m for m in published.marginals if m.table == "sexes" and m.query.name == "sex").counts(0)
    for place, code in enumerate("fm"):
        if shown[place] == shown[place]:
            assert mine[code] == truth[code] == shown[place]
    assert json.loads(run("attack", "reconstruct", release, "--schema", tmp_path / "schema.toml", "--json"))["ok"]
