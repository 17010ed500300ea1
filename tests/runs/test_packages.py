"""Mechanisms of other packages: taken as they are declared, or refused with a finding; never instead of one of ours."""

from __future__ import annotations

import inspect
import json
import os
import shutil
import subprocess
import sys
import tomllib
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import confide
from confide.errors import Finding, ReleaseError, SpecError
from confide.mechanisms import GROUP, MECHANISMS, ORDER, Declared, Registry
from confide.mechanisms.tables.mechanism import Tables
from confide.releases.abilities import ABILITIES, Ability
from confide.releases.check import of_origin
from confide.releases.folder import MANIFEST, manifest_text, read_manifest
from confide.releases.mechanism import Mechanism, Package

ROOT = Path(__file__).parents[2]
OURS, THEIRS, OTHERS = Package("confide", "1"), Package("office-counts", "2.5"), Package("second", "3")
PLACE = "office_counts.mechanism"
OWN = [Declared(name, f"{type(MECHANISMS[name]).__module__}:{type(MECHANISMS[name]).__name__}", OURS) for name in ORDER]


class Counts(Tables):
    name = "counts"


class Begun(Mechanism[Any]):
    name = "begun"


class Fitted(Tables):
    name = "fitted"

    def __init__(self, size: int):
        self.size = size


@pytest.fixture(autouse=True)
def module(monkeypatch: pytest.MonkeyPatch) -> Iterator[types.ModuleType]:
    """What the other package has in it."""
    made = types.ModuleType(PLACE)
    made.__dict__.update(Counts=Counts, Begun=Begun, Fitted=Fitted, Plain=int, number=3, Ours=Tables)
    monkeypatch.setitem(sys.modules, "office_counts", types.ModuleType("office_counts"))
    monkeypatch.setitem(sys.modules, PLACE, made)
    return made


def registry(*declared: Declared) -> Registry:
    return Registry(lambda: [*declared, *reversed(OWN)])


def theirs(name: str, class_name: str, package: Package = THEIRS) -> Declared:
    return Declared(name, f"{PLACE}:{class_name}", package)


def refusal(name: str, *declared: Declared) -> Finding:
    with pytest.raises(SpecError) as refused:
        registry(*declared)[name]
    (finding,) = refused.value.findings
    assert None not in (finding.found, finding.expected, finding.remedy)
    assert GROUP in str(finding.where)
    return finding


def test_our_mechanisms_are_declared_in_our_order() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = project["entry-points"][GROUP]
    assert tuple(declared) == ORDER == MECHANISMS.own
    assert declared == {each.name: each.place for each in OWN}


def test_ours_come_first_and_others_by_name() -> None:
    known = registry(theirs("zeta", "Counts"), theirs("alpha", "Counts"))
    assert [*known] == [*ORDER, "alpha", "zeta"]
    assert known.own == ORDER


def test_a_mechanism_of_another_package_is_taken_and_says_where_it_comes_from() -> None:
    mechanism = registry(theirs("counts", "Counts"))["counts"]
    assert type(mechanism) is Counts
    assert mechanism.package == THEIRS
    (finding,) = of_origin(mechanism)
    assert (finding.severity, finding.found) == ("warning", "office-counts 2.5")


def test_our_mechanisms_say_nothing_of_where_they_come_from() -> None:
    assert [of_origin(MECHANISMS[name]) for name in ORDER if MECHANISMS[name].package is None] == [[]] * len(ORDER)


def test_another_package_never_replaces_a_mechanism_of_ours(module: types.ModuleType) -> None:
    module.__dict__["Tables"] = type("Tables", (Tables,), {})
    early = Package("a-package-before-confide", "1")
    known = registry(theirs("tables", "Tables"), theirs("tables", "Tables", early))
    assert [*known] == [*ORDER]
    assert type(known["tables"]) is Tables
    assert known["tables"].package is None
    warnings = of_origin(known["tables"])
    assert [each.severity for each in warnings] == ["warning", "warning"]
    assert {str(early), str(THEIRS)} <= {each.found.partition(",")[0] for each in warnings if each.found}


def test_ours_are_missed_where_another_package_alone_declares_one_of_them() -> None:
    known = Registry(lambda: [theirs("tables", "Ours"), *OWN[1:]])
    with pytest.raises(SpecError) as refused:
        list(known)
    assert refused.value.findings[0].code == "not-installed"


def test_two_packages_with_one_name_are_both_refused() -> None:
    finding = refusal("counts", theirs("counts", "Counts"), theirs("counts", "Counts", OTHERS))
    assert finding.found == "office-counts 2.5, second 3"


@pytest.mark.parametrize("name", ["head count", "2nd", "a-b", "../x", ""])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    assert refusal(name, theirs(name, "Counts")).found == repr(name)


@pytest.mark.parametrize("place", [f"{PLACE}:Gone", "office_counts.gone:Counts", "office_counts gone", ":", PLACE])
def test_what_cannot_be_imported_is_refused(place: str) -> None:
    assert "cannot be imported" in refusal("counts", Declared("counts", place, THEIRS)).what


def test_what_fails_while_it_is_imported_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "office_fails.py").write_text("raise RuntimeError('no licence')", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    finding = refusal("counts", Declared("counts", "office_fails:Counts", THEIRS))
    assert finding.found == "RuntimeError: no licence"


@pytest.mark.parametrize("class_name", ["Plain", "number"])
def test_what_is_no_mechanism_is_refused(class_name: str) -> None:
    assert "subclass" in str(refusal("counts", theirs("counts", class_name)).expected)


def test_a_mechanism_without_its_verbs_or_that_cannot_be_made_is_refused() -> None:
    assert "prepare" in str(refusal("begun", theirs("begun", "Begun")).found)
    assert "size" in str(refusal("fitted", theirs("fitted", "Fitted")).found)


def test_a_mechanism_that_can_do_what_nobody_asks_for_is_refused(module: types.ModuleType) -> None:
    module.__dict__["Able"] = type("Able", (Tables,), {"name": "able", "can": {"evaluation": f"{PLACE}:evaluate"}})
    finding = refusal("able", theirs("able", "Able"))
    assert finding.found == "can: evaluation"
    assert "evaluate" in str(finding.expected)


ARGUMENTS = {"draft": 2, "draft_from": 3, "targets": 2, "evaluate": 1, "published": 1}
ARGUMENTS |= {"residuals": 3, "rehearsal": 1, "audit": 1}
"""How many arguments each function or class of an ability is given; a board has a maker of its own."""


@pytest.mark.parametrize("name", ORDER)
@pytest.mark.parametrize("ability", ABILITIES, ids=lambda ability: ability.name)
def test_what_a_mechanism_can_do_is_where_it_says(name: str, ability: Ability[Any]) -> None:
    able = ability.of(MECHANISMS[name])
    assert (able is None) == (ability.name not in MECHANISMS[name].can)
    if able is not None:
        assert not inspect.isabstract(able)
        if ability.name in ARGUMENTS:
            inspect.signature(able).bind(*range(ARGUMENTS[ability.name]))


def test_a_mechanism_under_another_name_than_its_own_is_refused() -> None:
    assert "'counts'" in str(refusal("heads", theirs("heads", "Counts")).found)
    assert "'tables'" in str(refusal("heads", theirs("heads", "Ours")).found)


# As it is installed, in processes of their own


def environment_with(folder: Path, entries: str) -> dict[str, str]:
    """An environment in which a package with these entry points is installed."""
    metadata = folder / "office_counts-2.5.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: office-counts\nVersion: 2.5\n", encoding="utf-8")
    (metadata / "entry_points.txt").write_text(f"[{GROUP}]\n{entries}\n", encoding="utf-8")
    source = "from confide.mechanisms.tables.mechanism import Tables\nclass Counts(Tables):\n    name = 'counts'\n"
    (folder / "office_counts.py").write_text(source + "class Tables(Tables): pass\n", encoding="utf-8")
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths)}


def checked(environment: dict[str, str], spec: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "confide", "check", str(spec), "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    return dict(json.loads(done.stdout))


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    shutil.copytree(ROOT / "tests" / "contract" / "examples" / "tables", folder)
    return folder / "spec.toml"


@pytest.mark.process
def test_check_says_that_a_package_has_taken_one_of_our_names(tmp_path: Path, spec: Path) -> None:
    environment = environment_with(tmp_path / "site", "tables = office_counts:Tables")
    answer = checked(environment, spec)
    (finding,) = [each for each in answer["findings"] if each["code"] == "mechanism-package"]
    assert finding["severity"] == "warning"
    assert finding["found"] == "office-counts 2.5, office_counts:Tables"


@pytest.mark.process
def test_a_spec_with_a_broken_package_is_refused_with_a_finding(tmp_path: Path, spec: Path) -> None:
    environment = environment_with(tmp_path / "site", "heads = office_counts:Counts")
    spec.write_text(spec.read_text(encoding="utf-8").replace('"tables"', '"heads"'), encoding="utf-8")
    (finding,) = checked(environment, spec)["findings"]
    assert finding["code"] == "mechanism-package"


# A release of a package that is not here


@pytest.fixture
def of_another_package(sealed_copy: Path) -> Path:
    """A release whose manifest says that a package made it which is not installed."""
    (release,) = sealed_copy.glob("*/release")
    manifest = read_manifest(release)
    manifest |= {"mechanism": "counts", "package": {"name": THEIRS.name, "version": THEIRS.version}}
    (release / MANIFEST).write_text(manifest_text(manifest), encoding="utf-8")
    return release


@pytest.mark.parametrize("ask", [confide.verify, confide.open_release])
def test_a_release_of_a_package_that_is_not_installed_says_which_to_install(
    ask: Callable[[Path], object], of_another_package: Path
) -> None:
    with pytest.raises(ReleaseError) as refused:
        ask(of_another_package)
    (finding,) = refused.value.findings
    assert finding.code == "no-package"
    assert str(finding.where) == f"{of_another_package / MANIFEST}, package"
    assert (finding.found, finding.expected) == ("no mechanism counts", "the package office-counts 2.5")
    assert "install that package, if you trust it" in str(finding.remedy)
