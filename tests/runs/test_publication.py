"""Who publishes a release, on which terms and in which language: from the spec to the page, and into no plan."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.contract.kit import Project, lay_out
from tests.kits.forged import rehash

import confide
from confide.errors import SpecError
from confide.mechanisms import MECHANISMS

SAID = {
    "office": "Statistikamt Nordland <Abteilung 3>",
    "contact": "auskunft@example.org",
    "licence": "CC BY 4.0",
    "citation": "Statistikamt Nordland (2026): Zwei Länder.",
    "language": "de",
}


def published(project: Project, said: dict[str, str]) -> Path:
    lines = "".join(f"{name} = {json.dumps(text)}\n" for name, text in said.items())
    project.spec.write_text(
        project.spec.read_text().replace('mechanism = "suppression"', f'mechanism = "suppression"\n{lines}')
    )
    return confide.run(project.spec, processes=1).release


@pytest.fixture(scope="module")
def german(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return published(lay_out("suppression", tmp_path_factory.mktemp("german") / "suppression"), SAID)


def test_the_page_has_all_of_it_and_verify_makes_it_anew(german: Path) -> None:
    manifest = json.loads((german / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["publication"] == SAID
    page = (german / "statement.html").read_text(encoding="utf-8")
    for text in (
        "Statistikamt Nordland &lt;Abteilung 3&gt;",
        "auskunft@example.org",
        "CC BY 4.0",
        "Zitierweise",
        '<html lang="de">',
    ):
        assert text in page
    # The manifest is for programs: its sentences stay English, whatever the language of the page.
    assert manifest["privacy"]["in_words"][1].startswith("No differential privacy is promised")
    verification = confide.verify(german)
    assert verification.ok
    assert any(
        "written again from the manifest, identical byte for byte" in check.detail for check in verification.checks
    )


def test_it_changes_no_plan(german: Path, tmp_path: Path) -> None:
    plain = published(lay_out("suppression", tmp_path / "suppression"), {"language": "en"})
    manifests = [json.loads((each / "manifest.json").read_text(encoding="utf-8")) for each in (german, plain)]
    assert manifests[0]["plan_hash"] == manifests[1]["plan_hash"]
    assert "publication" not in manifests[1]


@pytest.mark.parametrize(
    "publication",
    [
        SAID | {"office": "Another office"},
        SAID | {"language": "xx"},
        SAID | {"language": "../../en"},
        SAID | {"note": "more"},
        SAID | {"office": ["a", "list"]},
        {},
        "an office",
    ],
    ids=["another office", "no language", "a path", "one entry more", "a list", "nothing", "a text"],
)
def test_a_manifest_with_another_publication_does_not_verify(german: Path, publication: object, tmp_path: Path) -> None:
    release = Path(shutil.copytree(german, tmp_path / "release"))
    manifest = json.loads((release / "manifest.json").read_text(encoding="utf-8"))
    manifest["publication"] = publication
    rehash(release, manifest)
    assert not confide.verify(release).ok


@pytest.mark.parametrize("line", ['language = "xx"', 'office = ""', "contact = 3"])
def test_what_cannot_be_said_is_a_finding(line: str, tmp_path: Path) -> None:
    project = lay_out("suppression", tmp_path / "suppression")
    project.spec.write_text(
        project.spec.read_text().replace('mechanism = "suppression"', f'mechanism = "suppression"\n{line}')
    )
    with pytest.raises(SpecError) as refused:
        confide.run(project.spec, processes=1)
    assert line.split()[0] in str(refused.value.findings[0].where)


def test_every_mechanism_has_the_entries() -> None:
    for mechanism in MECHANISMS.values():
        names = mechanism.spec.model_fields["release"].annotation.model_fields
        assert set(SAID) <= set(names), mechanism.name
