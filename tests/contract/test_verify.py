"""``verify`` finds every changed byte of a release; and, with the ledger, every changed value of its manifest.

Without a ledger or a signature a manifest vouches for itself: what does not follow from its plan can be changed by
whoever changes it, as ``docs/concepts/release.md`` states.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import confide
from confide.releases.folder import SealedRelease
from tests.contract.kit import (
    HASH_OF_VERIFY,
    MANIFEST,
    NAMES,
    PAGES_OF_VERIFY,
    Project,
    findings_of,
    mechanism_of,
    tree,
)

Keys = tuple[str | int, ...]
VALUES = 40
"""So many values of a manifest are changed, one after the other; evenly spread where there are more."""


def agrees(release: Path, ledger: Path | None = None) -> bool:
    """Whether ``verify`` finds nothing. What it finds has a remedy, and it never fails otherwise."""
    answers: list[Any] = []
    if findings_of(lambda: answers.append(confide.verify(release, ledger=ledger))):
        return False
    (verification,) = answers
    assert verification.ok == (not verification.findings)
    assert all(finding.remedy for finding in verification.findings)
    return bool(verification.ok)


@pytest.fixture
def release(sealed: Project, tmp_path: Path) -> Path:
    """A copy of the release, to be changed."""
    return sealed.copy(tmp_path / "copy").release


def changes_of_a_file(content: bytes) -> Iterator[tuple[str, bytes | None]]:
    """What is done to it, and what it has then, where it is still there."""
    for where, position in (("first", 0), ("middle", len(content) // 2), ("last", len(content) - 1)):
        yield f"its {where} byte", content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :]
    yield "its last byte is gone", content[:-1]
    yield "half of it is gone", content[: len(content) // 2]
    yield "nothing is left of it", b""
    yield "a byte is added", content + b"\n"
    yield "removed", None


def changes(files: list[Path]) -> Iterator[str]:
    """Every change, made to all of the files at once, and taken back."""
    contents = [file.read_bytes() for file in files]
    for changed in zip(*map(changes_of_a_file, contents), strict=True):
        for file, (_, other) in zip(files, changed, strict=True):
            file.unlink() if other is None else file.write_bytes(other)
        yield changed[0][0]
        for file, content in zip(files, contents, strict=True):
            file.write_bytes(content)


def listed_files(release: Path) -> list[Path]:
    return [path for path in sorted(release.rglob("*")) if path.is_file() and path.name != MANIFEST]


def test_a_release_as_it_was_sealed_agrees(sealed: Project) -> None:
    assert agrees(sealed.release)
    assert agrees(sealed.release, sealed.ledger)


def test_every_changed_byte_of_every_file_is_found(sealed: Project, release: Path) -> None:
    """However many of them are changed: each is named."""
    files = {str(file.relative_to(release)) for file in listed_files(release)}
    for change in changes(listed_files(release)):
        wrong = {check.name for check in confide.verify(release).checks if not check.ok}
        assert files - wrong == set(), change
    assert tree(release) == tree(sealed.release)
    assert agrees(release)


def test_files_that_are_exchanged_or_added_are_found(release: Path) -> None:
    first, second = listed_files(release)[:2]
    contents = first.read_bytes(), second.read_bytes()
    first.write_bytes(contents[1])
    second.write_bytes(contents[0])
    assert not agrees(release)
    first.write_bytes(contents[0])
    second.write_bytes(contents[1])
    assert agrees(release)
    for extra in (release / "extra.txt", first.parent / ".hidden", release / "folder" / "deep.csv"):
        extra.parent.mkdir(exist_ok=True)
        extra.write_bytes(b"")
        assert not agrees(release), extra.name
        extra.unlink()
    assert not agrees(release), "an empty folder"
    (release / "folder").rmdir()
    (release / "folder").symlink_to(first.parent)
    assert not agrees(release), "a folder that is a link"
    (release / "folder").unlink()
    assert agrees(release)


def test_a_manifest_that_cannot_be_read_is_refused(release: Path) -> None:
    manifest = release / MANIFEST
    content = manifest.read_bytes()
    for other in (b"", content[: len(content) // 2], b"[]", b"{}", b"\xff" + content):
        manifest.write_bytes(other)
        assert not agrees(release), other[:10]
    manifest.unlink()
    assert not agrees(release)


def test_a_verify_that_skips_hashes_would_be_noticed(
    seal: Callable[[str], Project], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tests above can fail: they count on hashes, sizes and pages made anew, and see what goes unnoticed without
    them."""
    release = seal(NAMES[0]).copy(tmp_path / "copy").release
    manifest = json.loads((release / MANIFEST).read_text(encoding="utf-8"))
    hashes = {str(release / file["path"]): file["sha256"] for file in manifest["files"]}
    document = release / "certificate.html"
    monkeypatch.setattr(HASH_OF_VERIFY, lambda path: hashes[str(path)])
    assert [change for change in changes([document]) if agrees(release)] == []
    monkeypatch.setattr(PAGES_OF_VERIFY, lambda *_: iter(()))
    assert len([change for change in changes([document]) if agrees(release)]) == 3
    assert agrees(release)


# Values of the manifest


def leaves(value: Any, path: Keys = ()) -> Iterator[Keys]:
    """Where every value of a manifest is that has no values of its own."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in inside:
        yield from leaves(inner, (*path, key))
    if not isinstance(value, (dict, list)):
        yield path


def another(value: Any) -> Any:
    """A value of the same kind that is not the same."""
    if isinstance(value, bool) or value is None:
        return value is not True
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value * 2 + 1
    return ("1" if value[:1] != "1" else "2") + value[1:]


def agreeing_values(release: Path, paths: list[Keys], verify: Callable[[Path], bool]) -> list[Keys]:
    """The values that can be changed, one at a time, without that ``verify`` finds it. Each is taken back."""
    file = release / MANIFEST
    content = file.read_bytes()
    manifest = json.loads(content)
    result = []
    for path in paths:
        place = manifest
        for key in path[:-1]:
            place = place[key]
        value, place[path[-1]] = place[path[-1]], another(place[path[-1]])
        file.write_text(json.dumps(manifest, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        if verify(release):
            result.append(path)
        place[path[-1]] = value
    file.write_bytes(content)
    return result


def some(paths: list[Keys], at_most: int) -> list[Keys]:
    return paths[:: -(-len(paths) // at_most)] if paths else []


def test_the_ledger_finds_every_changed_value_of_the_manifest(sealed: Project, release: Path) -> None:
    if sealed.ledger is None:
        pytest.skip("a release without a ledger: its office keeps or publishes the hash of its manifest")
    paths = some(list(leaves(json.loads((release / MANIFEST).read_text(encoding="utf-8")))), VALUES)
    assert agreeing_values(release, paths, lambda folder: agrees(folder, sealed.ledger)) == []
    assert agrees(release, sealed.ledger)


def test_a_manifest_that_does_not_agree_with_itself_is_found_without_a_ledger(release: Path) -> None:
    """What ``verify`` promises to whoever has nothing but the release: hashes, plan, loss, stamp, and all that follows
    from the plan. Free are the names of things, and what only a secret perturbation table implies."""
    manifest = json.loads((release / MANIFEST).read_text(encoding="utf-8"))
    paths = list(leaves(manifest))
    hashes = [path for path in paths if path[0] == "files" and path[-1] in ("path", "sha256")]
    assert agreeing_values(release, some(hashes, 30), agrees) == []
    own = [path for path in paths if path[0] in ("plan_hash", "stamp") or path[:2] == ("privacy", "loss")]
    assert own
    assert agreeing_values(release, own, agrees) == []
    promised = [path for path in paths if path[0] in ("format", "confide", "mechanism", "privacy", "noise", "source")]
    secret = {("privacy", "single_count"), ("noise", "bias"), ("noise", "variance")}
    agreeing = agreeing_values(release, some(promised, 6), agrees)
    assert [path for path in agreeing if path[:2] not in secret] == []
    plan = [path for path in paths if path[0] == "plan"]
    assert agreeing_values(release, [("plan", "format"), *some(plan, 5)], agrees) == []


def make_labels_alike(question: dict[str, Any]) -> None:
    """Gives a variable of the first table two labels, or codes, that are the same, as no schema may have them."""
    variables = question.get("variables") or question["tables"][0]["variables"]
    if isinstance(variables, list):
        variables = {part["name"]: part["labels"] for part in variables}
    name, values = next((name, values) for name, values in variables.items() if name != "area")
    labels = values if isinstance(values, list) else values["published"]["codes"][1:]
    assert len(labels) > 1, name
    labels[1] = labels[0]
    if not isinstance(values, list):  # rows are known by codes there, the total's first
        values["published"]["codes"][1:] = labels


@pytest.mark.parametrize("name", ["tables", "cellkey", "swapping", "suppression"])
def test_every_row_of_a_table_has_a_key_of_its_own(seal: Callable[[str], Project], name: str) -> None:
    release = seal(name).release
    manifest = json.loads((release / MANIFEST).read_text(encoding="utf-8"))

    def keys(changed: dict[str, Any]) -> list[bool]:
        return [
            check.ok
            for check in mechanism_of(name).verify(SealedRelease(release, changed))
            if check.name.endswith("a key for each row")
        ]

    assert keys(manifest) == [True] * len(manifest["plan"]["question"]["tables"])
    make_labels_alike(manifest["plan"]["question"])
    assert False in keys(manifest)
