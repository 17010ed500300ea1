"""``verify``: a release read again from its files, as anyone who received it can."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from confide.runs.keys import STAMP
from confide.runs.mechanism import Check, Mechanism
from confide.runs.plan import read_plan
from confide.runs.release import MANIFEST, read_manifest, sha256_of


@dataclass(frozen=True)
class Verification:
    """What was looked at, and whether all of it is as it should be."""

    release: str
    stamp: str | None
    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        return all(check.ok for check in self.checks)

    def as_dict(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "release": self.release,
            "stamp": self.stamp,
            "checks": [asdict(check) for check in self.checks],
        }


def verify(folder: Path, find_mechanism: Callable[[str], Mechanism]) -> Verification:
    """Checks hashes first; content is looked at only in files that are what the manifest says."""
    manifest = read_manifest(folder)
    checks = list(_files(folder, manifest))
    if all(check.ok for check in checks):
        checks += _plan(manifest)
        checks += find_mechanism(manifest["mechanism"]).verify(folder, manifest)
    return Verification(manifest["release"], manifest.get("stamp"), tuple(checks))


def _files(folder: Path, manifest: dict[str, Any]) -> Iterator[Check]:
    listed = {file["path"]: file for file in manifest["files"]}
    for path, file in listed.items():
        actual = folder / path
        inside = actual.resolve().is_relative_to(folder.resolve())
        if not inside or not actual.is_file():
            yield Check(path, False, "the file is missing")
        elif sha256_of(actual) != file["sha256"]:
            yield Check(path, False, "the content is not what was sealed")
        else:
            yield Check(path, True, f"{file['bytes']:,} bytes, SHA-256 as sealed")
    present = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
    extra = sorted(present - set(listed) - {MANIFEST})
    yield Check("nothing else in the folder", not extra, ", ".join(extra) or "every file is in the manifest")


def _plan(manifest: dict[str, Any]) -> Iterator[Check]:
    """The manifest agrees with itself: the plan has its hash, and its measurements cost what is stated."""
    plan = read_plan(manifest["plan"])
    yield Check("plan hash", plan.hash == manifest["plan_hash"], manifest["plan_hash"])
    stated = manifest["privacy"]["loss"]
    yield Check("cost of the plan", plan.loss.as_dict() == stated, f"{plan.loss}, composed anew from its measurements")
    chosen = manifest["noise"]["key"] == "chosen"
    yield Check("stamp", chosen == (manifest.get("stamp") == STAMP), manifest.get("stamp") or "made with a system key")
