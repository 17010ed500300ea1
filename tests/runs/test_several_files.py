"""Records in several files, and releases that are made with others: one fingerprint, one check, witnesses, verified."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from tests.contract.kit import KEY, LEDGER, Project, lay_out

import confide
from confide.engines import Engine
from confide.errors import ConfideError, Place, RunError, SpecError
from confide.file_system import sha256_of
from confide.inputs.records import fingerprint_of_files, records_fingerprint
from confide.mechanisms import MECHANISMS
from confide.mechanisms.tables.mechanism import Tables
from confide.mechanisms.tables.programme import TablesData, TablesProblem, TablesSpec
from confide.releases.ledger import Ledger
from confide.releases.mechanism import Job
from confide.releases.plan import PUBLIC_INPUTS, Plan
from confide.releases.spec import FilePath, LoadedSpec, find_sources
from confide.releases.verify import PublicInput, read_public_input


class TwoFilesData(TablesData):
    """Persons and households."""

    more_records = ("dwellings",)
    dwellings: FilePath | None = None
    published: FilePath | None = None


class TwoFilesSpec(TablesSpec):
    """The same tables, with a second file of records."""

    data: TwoFilesData


@dataclass(frozen=True)
class TwoFilesProblem(TablesProblem):
    """What the spec says besides."""

    files: Mapping[str, Path] = None  # type: ignore[assignment]
    given: PublicInput | None = None


class TwoFiles(Tables):
    """Tables of persons that say of households as well that they were read."""

    spec = TwoFilesSpec

    def prepare(self, loaded: LoadedSpec, engine: Engine) -> TablesProblem:
        sources, findings = find_sources(loaded)
        if findings:
            raise SpecError(findings)
        problem, data = super().prepare(loaded, engine), loaded.spec.data
        assert isinstance(data, TwoFilesData)
        given, place = None, loaded.place("data", "published")
        if data.published is not None:
            given = read_public_input(loaded.resolve(data.published), place, MECHANISMS.__getitem__, ["tables"])
        files = {key: source.path for key, source in sources.items() if key != "blocks"}
        return TwoFilesProblem(**vars(problem), files=files, given=given)

    def plan(self, problem: TablesProblem) -> Plan:
        assert isinstance(problem, TwoFilesProblem)
        plan = super().plan(problem)
        if problem.given is None:
            return plan
        return replace(plan, question={**plan.question, PUBLIC_INPUTS: {"published": problem.given.as_dict()}})

    def public_inputs(self, problem: TablesProblem) -> Mapping[str, PublicInput]:
        assert isinstance(problem, TwoFilesProblem)
        return {} if problem.given is None else {"published": problem.given}

    def fingerprint(self, problem: TablesProblem) -> str:
        assert isinstance(problem, TwoFilesProblem)
        return fingerprint_of_files(problem.files)


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """An example of tables, whose persons live in households of another file."""
    project = lay_out("tables", tmp_path / "two")
    monkeypatch.setitem(MECHANISMS._imported, "tables", TwoFiles())
    (project.folder / "households.csv").write_text("number,tenure\n1,owner\n2,renter\n")
    text = project.spec.read_text().replace("[data]", '[data]\ndwellings = "households.csv"')
    project.spec.write_text(text)
    return project


def test_one_fingerprint_of_several_files(tmp_path: Path) -> None:
    persons, households = tmp_path / "p.csv", tmp_path / "h.csv"
    persons.write_text("a\n1\n")
    households.write_text("b\n2\n")
    both = fingerprint_of_files({"records": persons, "households": households})
    assert fingerprint_of_files({"records": persons}) == records_fingerprint(persons)
    assert both == fingerprint_of_files({"households": households, "records": persons})
    assert both != fingerprint_of_files({"records": households, "households": persons})
    assert both == "015c92040c7f9216acb6985a17229b9c10243b5645c7c7d19d0a49e580d902be"
    households.write_text("b\n3\n")
    assert both != fingerprint_of_files({"records": persons, "households": households})


def test_a_run_leaves_a_witness_beside_each_file(two: Project) -> None:
    confide.run(two.spec, processes=1)
    witnesses = [two.folder / f".{name}.csv.witness.json" for name in ("persons", "households")]
    assert witnesses[0].read_bytes() == witnesses[1].read_bytes()
    # A ledger that was opened anew is noticed from either file.
    witnesses[0].unlink()
    (two.folder / LEDGER).unlink()
    shutil.rmtree(two.run_folder)
    Ledger.open_new(two.folder / LEDGER, data_set="again", definition="zcdp", neighbours="change-one", budget="3/2")
    assert {finding.code for finding in confide.check(two.spec, processes=1).errors} == {"ledger-second"}


def test_a_change_of_either_file_is_a_change_of_the_records(two: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while they are read: nothing is kept of what was counted then."""
    counted = TwoFiles.count

    def count_and_change(self: TwoFiles, problem: TablesProblem, job: Job) -> None:
        counted(self, problem, job)
        (two.folder / "households.csv").write_text("number,tenure\n1,renter\n")

    monkeypatch.setattr(TwoFiles, "count", count_and_change)
    with pytest.raises(RunError) as error:
        confide.run(two.spec, processes=1)
    assert error.value.findings[0].code == "run-changed"
    assert not (two.run_folder / "confidential" / "counts").exists()
    monkeypatch.undo()
    monkeypatch.setitem(MECHANISMS._imported, "tables", TwoFiles())
    assert "run-changed" in {finding.code for finding in confide.check(two.spec, processes=1).errors}


@pytest.mark.parametrize(("name", "code"), [("persons.csv", "records-twice"), ("nowhere.csv", "no-such-file")])
def test_two_files_are_two_files(two: Project, name: str, code: str) -> None:
    two.spec.write_text(two.spec.read_text().replace("households.csv", name))
    (finding,) = confide.check(two.spec, processes=1).errors
    assert (finding.code, finding.where.path) == (code, "data.dwellings")


def test_a_block_table_is_none_of_the_files_of_records(two: Project) -> None:
    two.spec.write_text(two.spec.read_text().replace('blocks = "blocks.csv"', 'blocks = "households.csv"'))
    assert "records-as-frame" in {finding.code for finding in confide.check(two.spec, processes=1).errors}


# A sealed release, or what an office has published, as public input of another.


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    """A sealed release of tables."""
    project = lay_out("tables", tmp_path / "earlier")
    return confide.run(project.spec, processes=1).release


def read(path: Path, mechanism: str = "tables") -> PublicInput:
    return read_public_input(path, Place(path="data.published"), MECHANISMS.__getitem__, [mechanism])


def test_a_sealed_release_is_known_by_its_manifest(earlier: Path) -> None:
    given = read(earlier)
    assert given.as_dict() == read(earlier.parent).as_dict()
    assert given.sha256 == sha256_of(earlier / "manifest.json")
    assert given.as_dict() == {"release": "two-states", "mechanism": "tables", "manifest_sha256": given.sha256}
    assert not given.stamped


def test_a_release_that_was_changed_is_refused(earlier: Path) -> None:
    table = next((earlier / "tables").glob("*.csv"))
    table.write_bytes(table.read_bytes().replace(b"1", b"2", 1))
    with pytest.raises(SpecError) as error:
        read(earlier)
    assert (error.value.findings[0].code, error.value.findings[0].where.path) == ("public-input", "data.published")


def test_a_release_of_another_mechanism_is_refused(earlier: Path) -> None:
    with pytest.raises(SpecError, match="this mechanism"):
        read(earlier, "safetab")


def test_a_file_is_known_by_its_bytes_and_a_folder_by_its_names_too(tmp_path: Path) -> None:
    folder = tmp_path / "t1"
    folder.mkdir()
    file = folder / "part-00000.csv"
    file.write_text("REGION_ID|COUNT\n1|5\n")
    assert read(file).as_dict() == {"file_sha256": sha256_of(file)}
    before = read(folder).sha256
    file.rename(folder / "part-00001.csv")
    assert read(folder).sha256 != before
    with pytest.raises(SpecError):
        read(tmp_path / "nothing")


def test_what_is_made_with_a_release_is_bound_to_it_and_says_so(two: Project, earlier: Path) -> None:
    alone = confide.check(two.spec, processes=1).plan
    two.spec.write_text(two.spec.read_text().replace("[data]", f'[data]\npublished = "{earlier}"'))
    checked = confide.check(two.spec, processes=1)
    assert alone is not None
    assert checked.plan is not None
    assert checked.plan.loss == alone.loss
    assert checked.plan.hash != alone.hash
    result = confide.run(two.spec, processes=1)
    manifest = json.loads((result.release / "manifest.json").read_text())
    digest = sha256_of(earlier / "manifest.json")
    assert manifest["plan"]["question"][PUBLIC_INPUTS]["published"]["manifest_sha256"] == digest
    assert digest in (result.release / "certificate.html").read_text()


def test_a_trial_is_no_input_of_a_release(two: Project, tmp_path: Path) -> None:
    """What was made with a chosen key tells the truth to whoever knows the key."""
    trial = lay_out("tables", tmp_path / "trial")
    release = confide.run(trial.spec, processes=1, insecure_key=KEY).release
    two.spec.write_text(two.spec.read_text().replace("[data]", f'[data]\npublished = "{release}"'))
    with pytest.raises(ConfideError) as error:
        confide.run(two.spec, processes=1)
    assert "public-input" in {finding.code for finding in error.value.findings if finding.severity == "error"}
    assert Ledger(two.folder / LEDGER).account().spent == 0
    result: Any = confide.run(two.spec, processes=1, insecure_key=KEY)
    assert "stamp" in json.loads((result.release / "manifest.json").read_text())
