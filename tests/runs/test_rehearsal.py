"""A rehearsal: made-up records, a ledger to throw away, stamps on everything; and nothing of the office's touched."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.kits.commands import codes, run, run_json
from tests.kits.office import lay_out

import confide
from confide import api
from confide.errors import ConfideError
from confide.inputs.made_up import draw
from confide.rehearsal import MARK, RECORDS
from confide.releases.folder import read_manifest
from confide.releases.ledger import Ledger
from confide.report import charts

STAMP = "NOT FOR RELEASE: a rehearsal on made-up records"


@pytest.fixture(autouse=True)
def _no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(charts, "available", lambda: False)


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes], confide.rehearsal.Rehearsal]:
    """The office's folder with records that no reader could take and a real ledger, as it was; and its rehearsal."""
    folder = tmp_path_factory.mktemp("office")
    spec = lay_out(folder)
    (folder / "people.csv").write_text("mun;kjonn;alder;yrke\n0A;SECRET;999;SECRET\n")
    Ledger.open_new(folder / "norland.ledger", data_set="norland", definition="zcdp", neighbours="change-one", budget=1)
    before = files_of(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(charts, "available", lambda: False)
        return folder, before, confide.rehearse(spec, persons=900, processes=1)


def test_nothing_of_the_office_is_read_charged_or_left_behind(rehearsed) -> None:
    folder, before, answer = rehearsed
    own = answer.folder.relative_to(folder)
    after = files_of(folder)
    assert {name: content for name, content in after.items() if Path(name).parts[0] != str(own)} == before
    assert [entry.kind for entry in Ledger(folder / "norland.ledger").history()] == ["open"]
    assert answer.records == 900
    assert not any(b"SECRET" in content for name, content in after.items() if name not in before)


def test_the_records_may_be_absent_and_so_may_the_ledger(tmp_path: Path) -> None:
    spec = lay_out(tmp_path)
    before = files_of(tmp_path)
    answer = confide.rehearse(spec, persons=300, out=tmp_path / "elsewhere", processes=1)
    assert answer.verification.ok
    assert answer.run.plan.hash == api.MECHANISMS["tables"].plan(_problem(spec, tmp_path)).hash
    assert {name for name in files_of(tmp_path) if not name.startswith("elsewhere")} == set(before)


def _problem(spec: Path, folder: Path):
    from confide.engines import LocalEngine
    from confide.inputs.made_up import nobody

    with LocalEngine(folder / "elsewhere" / "scratch", processes=1) as engine:
        loaded = api.load(spec).with_data(records=str(nobody(folder / "elsewhere")))
        return api.MECHANISMS["tables"].prepare(loaded, engine)


def test_everything_is_stamped(rehearsed) -> None:
    _, _, answer = rehearsed
    release = answer.run.release
    assert answer.verification.ok
    assert answer.verification.stamp == "NOT FOR RELEASE"
    manifest = read_manifest(release)
    assert (manifest["stamp"], manifest["rehearsal"]) == ("NOT FOR RELEASE", True)
    assert all("NOT-FOR-RELEASE" in path.name for path in (release / "tables").iterdir())
    for page in (release / "certificate.html", release / MARK, answer.folder / MARK, answer.evaluated.dossier):
        assert STAMP in page.read_text(encoding="utf-8"), page
    assert "CONFIDENTIAL" not in answer.evaluated.dossier.read_text(encoding="utf-8").split("<h1")[0]


def test_its_own_spec_is_whole_and_cannot_be_released(rehearsed) -> None:
    _, _, answer = rehearsed
    spec = answer.folder / "spec.toml"
    assert confide.replay(spec, processes=1).ok
    assert codes("run", spec) == ["rehearsal-spec"]


def test_a_rehearsal_is_replaced_by_the_next_and_nothing_else_is(tmp_path: Path) -> None:
    spec = lay_out(tmp_path)
    (tmp_path / "norland-rehearsal").mkdir()
    own = tmp_path / "norland-rehearsal" / "mine.txt"
    own.write_text("mine")
    assert codes("rehearse", spec, "--persons", 100) == ["there-already"]
    assert own.read_text() == "mine"
    first = confide.rehearse(spec, persons=100, out=tmp_path / "try", processes=1)
    again = confide.rehearse(spec, persons=100, out=tmp_path / "try", processes=1)
    assert first.run.manifest_sha256 == again.run.manifest_sha256, "the same seed gives the same people and noise"


def test_people_are_drawn_from_public_margins_and_sizes(tmp_path: Path) -> None:
    spec = lay_out(tmp_path)
    margin = tmp_path / "margin.csv"
    margin.write_text("region;alder:group;count\nR0;old;9000\nR2;young;1000\n")
    by_sex = tmp_path / "sex.csv"
    by_sex.write_text("kjonn,count\nM,1\nfemale,3\n")
    answer = confide.rehearse(spec, persons=2000, margins=[margin, by_sex], processes=1)
    rows = pq.read_table(answer.folder / RECORDS).to_pylist()
    kinds = Counter((int(row["mun"].lstrip("0")[:-1] or 0) // 4, row["alder"] >= 67) for row in rows)
    assert set(kinds) == {(0, True), (2, False)}
    assert kinds[0, True] == pytest.approx(1800, abs=80)
    sexes = Counter(row["kjonn"] for row in rows)
    assert set(sexes) == {"M", "F"}
    assert sexes["F"] == pytest.approx(1500, abs=120)
    assert answer.sizes == "population"
    assert answer.expected == 10_000
    least, most = answer.estimate()
    assert answer.run_seconds < least < most == pytest.approx(5 * answer.run_seconds)


def test_without_a_number_there_are_as_many_as_the_sizes_add_up_to(tmp_path: Path) -> None:
    spec = lay_out(tmp_path)
    areas = tmp_path / "areas.csv"
    areas.write_text(areas.read_text().replace(";10", ";0"))  # nobody in ten of twelve
    answer = confide.rehearse(spec, processes=1)
    lived_in = {row["mun"] for row in pq.read_table(answer.folder / RECORDS).to_pylist()}
    assert lived_in <= {f"{'' if n % 3 else '0'}{n}A" for n in range(12)}
    assert answer.records == sum(int(line.split(";")[2]) for line in areas.read_text().splitlines()[1:])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("region,sex,count\nR0,M,1\n", "'sex'"),
        ("region,number\nR0,1\n", "region, number"),
        ("region,count\nR9,1\n", "'R9'"),
        ("kjonn,count\nM,1.5\n", "another row"),
        ("kjonn,count\nM,0\n", "1 rows"),
        ("region,mun,count\nR0,1A,1\n", "'mun'"),
        ("region,municipality,count\nR2,1A,1\n", "no such code"),
        ("kjonn,count\n", "1 lines"),
    ],
)
def test_a_margin_that_is_wrong_is_one_finding(tmp_path: Path, text: str, found: str) -> None:
    spec, margin = lay_out(tmp_path), tmp_path / "margin.csv"
    margin.write_text(text)
    with pytest.raises(ConfideError) as refused:
        confide.rehearse(spec, margins=[margin])
    assert found in str(refused.value.findings[0].found)
    assert refused.value.findings[0].remedy
    assert not (tmp_path / "norland-rehearsal").exists()


def test_two_margins_of_the_same_are_refused(tmp_path: Path) -> None:
    spec = lay_out(tmp_path)
    (tmp_path / "a.csv").write_text("kjonn,count\nM,1\n")
    (tmp_path / "b.csv").write_text("kjonn,region,count\nF,R0,1\n")
    assert codes("rehearse", spec, "--margins", tmp_path / "a.csv", "--margins", tmp_path / "b.csv") == [
        "margins-overlap"
    ]


def test_the_command_says_what_it_did(tmp_path: Path) -> None:
    spec = lay_out(tmp_path)
    answer = run_json("rehearse", spec, "--persons", 200, "--expected", 4000, "--processes", 1, "--json")
    assert (answer["ok"], answer["records"], answer["charged"]) == (True, 200, None)
    assert answer["estimate"]["records"] == 4000
    assert json.loads(json.dumps(answer))["stamp"].startswith("NOT FOR RELEASE")
    said = run("rehearse", spec, "--persons", 200, "--processes", 1)
    assert "Nothing was spent, and no record was read." in said
    assert "cost zcdp rho = 1/2" in said
    assert codes("rehearse", spec, "--persons", 0) == ["rehearsal-size"]
    assert codes("rehearse", spec, "--sizes", "nonsense") == ["missing-column"]


def test_uniform_where_nothing_is_known() -> None:
    from confide.documents import parse_schema
    from confide.inputs.made_up import RecordForm

    levels = {"levels": [[number, f"kind {number}"] for number in range(5)]}
    schema = parse_schema({"id": "s", "provenance": "an example", "attributes": {"kind": levels}})
    form = RecordForm(schema.attributes, block="b", blocks=["x", "y"]).sized({"x": 1, "y": 3})
    people = draw(form, 20_000, (), np.random.default_rng(1))
    assert np.bincount(people.levels["kind"]) == pytest.approx([4000] * 5, abs=300)
    assert np.bincount(people.block) == pytest.approx([5000, 15000], abs=350)
