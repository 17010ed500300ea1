"""The folder that was opened: what is in it, and no way out."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.kits.studio import ORIGIN, entered

import confide
from confide.errors import ConfideError
from confide.studio.opened_folder import OpenedFolder

OUTSIDE = [
    "../secret",
    "a/../../secret",
    "/etc/passwd",
    "..",
    "a\\..\\..\\secret",
    "",
    "link/secret",
    "a\0b",
    "C:/secret",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inside = tmp_path / "inside"
    (inside / "a").mkdir(parents=True)
    (tmp_path / "secret").write_text("confidential")
    (inside / "link").symlink_to(tmp_path)
    return inside


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_name_that_leads_out_is_refused(folder: Path, name: str) -> None:
    opened = OpenedFolder(folder)
    if name == "C:/secret":  # a plain name where drives have no letters
        assert opened.inside(name).is_relative_to(folder)
        return
    with pytest.raises(ConfideError) as error:
        opened.inside(name)
    assert error.value.findings[0].code == "outside-folder"
    assert "confidential" not in str(error.value)


@pytest.mark.parametrize("name", [each for each in OUTSIDE if each not in ("", "C:/secret")])
def test_no_address_leads_out_of_the_folder(folder: Path, name: str) -> None:
    browser = entered(folder)
    release = {"release": name}
    for path, more in (
        ("/explore", {}),
        ("/explore/table", {"table": "t"}),
        ("/explore/document", {"file": "secret"}),
        ("/explore/explore.html", {}),
        ("/api/tables", {}),
        ("/api/verify", {}),
    ):
        answer = browser.get(path, params=release | more)
        assert answer.status_code == 400, path
        assert "outside-folder" in answer.text or "leads out of the folder" in answer.text
        assert "confidential" not in answer.text


@pytest.mark.parametrize("name", ["..%2Fup.geojson", "%2e%2e%2fup.geojson", "up.txt", ".geojson", "a%5Cb.geojson"])
def test_an_upload_stays_in_the_folder(folder: Path, name: str) -> None:
    browser = entered(folder)
    answer = browser.put(f"/api/maps/{name}", headers=ORIGIN, content=b"{}")
    assert answer.status_code in (400, 404)
    assert sorted(path.name for path in folder.iterdir()) == ["a", "link"]
    assert not (folder.parent / "up.geojson").exists()


def test_a_map_is_kept_once_and_only_if_it_is_one(folder: Path) -> None:
    browser = entered(folder)
    ring = [[0, 0], [1, 0], [1, 1], [0, 0]]
    text = '{"type": "FeatureCollection", "features": [{"properties": {"code": "1"}, "geometry": '
    text += f'{{"type": "Polygon", "coordinates": [{ring}]}}}}]}}'
    assert browser.put("/api/maps/own.geojson", headers=ORIGIN, content=b"<script>").status_code == 400
    kept = browser.put("/api/maps/own.geojson", headers=ORIGIN, content=text.encode())
    assert kept.json() == {"name": "maps/own.geojson", "areas": 1}
    again = browser.put("/api/maps/own.geojson", headers=ORIGIN, content=text.encode())
    assert again.json()["findings"][0]["code"] == "map-there"
    assert (folder / "maps" / "own.geojson").read_text() == text
    assert browser.get("/api/folder").json()["maps"] == ["maps/own.geojson"]


def test_what_is_found_in_a_folder(folder: Path) -> None:
    (folder / "spec.toml").write_text('[release]\nmechanism = "tables"\nname = "a"\n')
    (folder / "other.toml").write_text("a = 1\n")
    (folder / "broken.toml").write_text("[")
    (folder / "a" / "data.ledger").touch()
    (folder.parent / "secret.toml").write_text('[release]\nmechanism = "tables"\nname = "b"\n')
    (folder / "link.toml").symlink_to(folder.parent / "secret.toml")
    (folder / "confidential").mkdir()
    (folder / "confidential" / "spec.toml").write_text('[release]\nmechanism = "tables"\n')
    contents = OpenedFolder(folder).contents()
    assert [each.name for each in contents.specs] == ["spec.toml"]
    assert [each.name for each in contents.ledgers] == ["a/data.ledger"]
    assert contents.releases == ()


def _huge(release: Path) -> None:
    with (release / "manifest.json").open("ab") as file:
        file.truncate(65 << 20)


def _of_nobody(release: Path) -> None:
    manifest = json.loads((release / "manifest.json").read_text(encoding="utf-8"))
    (release / "manifest.json").write_text(json.dumps(manifest | {"mechanism": "nobody's", "plan": {}}))


def _deep(release: Path) -> None:
    (release / "manifest.json").write_text("[" * 200_000)


def _linked(release: Path) -> None:
    table = next((release / "tables").glob("*.parquet"))
    table.rename(release.parent.parent / "elsewhere.parquet")
    table.symlink_to(release.parent.parent / "elsewhere.parquet")


def _outside(release: Path) -> None:
    manifest = json.loads((release / "manifest.json").read_text(encoding="utf-8"))
    manifest["files"].append({"path": "geo/../../../secret.parquet", "sha256": "0", "bytes": 1, "rows": 1})
    (release / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize("spoil", [_huge, _of_nobody, _deep, _linked, _outside])
def test_a_release_that_is_none_spoils_no_page_but_its_own(seal: Any, tmp_path: Path, spoil: Any) -> None:
    for name in ("good", "bad"):
        shutil.copytree(seal("tables"), tmp_path / "opened" / name)
    spoil(tmp_path / "opened" / "bad")
    browser = entered(tmp_path / "opened")
    home = browser.get("/")
    assert home.status_code == 200
    assert "Two states: age, work and mother tongue" in home.text
    assert home.text.count("Cannot be opened: ") == 1
    for path in ("/explore", "/explore/explore.html", "/api/verify"):
        refused = browser.get(path, params={"release": "bad"})
        assert refused.status_code == 400, path


def test_a_folder_that_is_not_there_is_a_finding(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name in ("nothing", "file"):
        with pytest.raises(ConfideError) as error:
            OpenedFolder(tmp_path / name)
        assert error.value.findings[0].code == "no-folder"


def test_a_manifest_of_somebody_else_is_a_finding_in_python_too(seal: Any, tmp_path: Path) -> None:
    release = shutil.copytree(seal("tables"), tmp_path / "release")
    _of_nobody(release)
    with pytest.raises(ConfideError) as error:
        confide.open_release(release)
    assert error.value.findings[0].code == "not-a-release"
