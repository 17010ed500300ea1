"""``verify``: a release read again from its files, as anyone who received it can."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from confide.errors import ConfideError, Finding, Place
from confide.releases.folder import MANIFEST, read_manifest, sha256_of
from confide.releases.ledger import Account
from confide.releases.mechanism import Check, Mechanism
from confide.releases.plan import hash_of_plan, read_plan
from confide.releases.workspace import STAMP


@dataclass(frozen=True)
class Verification:
    """What was looked at, and whether all of it is as it should be."""

    release: str
    stamp: str | None
    checks: tuple[Check, ...]
    folder: str = ""

    @property
    def ok(self) -> bool:
        return all(check.ok for check in self.checks)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is not as it should be."""
        return tuple(
            Finding(
                code="not-as-sealed",
                what=f"{check.name}: not as it was sealed",
                where=Place(file=self.folder, path=check.name),
                found=check.detail,
                expected="the release as its manifest describes it",
                remedy="do not use this copy; get the release again from its office",
            )
            for check in self.checks
            if not check.ok
        )

    def as_dict(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "release": self.release,
            "stamp": self.stamp,
            "checks": [asdict(check) for check in self.checks],
            "findings": [finding.as_dict() for finding in self.findings],
        }


def verify(
    folder: Path, find_mechanism: Callable[[str], Mechanism[Any]], account: Account | None = None
) -> Verification:
    """Checks hashes first; content is looked at only in files that are what the manifest says.

    Without the ledger this shows that a folder agrees with its manifest; with its ``account``, that the manifest is the
    one that was sealed.
    """
    manifest = read_manifest(folder)
    checks = list(_files(folder, manifest))
    if account is not None:
        checks.append(_sealed(folder, account))
    if all(check.ok for check in checks):
        try:
            checks += _plan(manifest)
            checks += find_mechanism(manifest["mechanism"]).verify(folder, manifest)
        except (ConfideError, pa.ArrowException, ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            # The files are as the manifest says; so it is the manifest that somebody changed.
            checks.append(Check(MANIFEST, False, "the manifest does not describe the tables of the release"))
    return Verification(manifest["release"], manifest.get("stamp"), tuple(checks), str(folder))


def _files(folder: Path, manifest: dict[str, Any]) -> Iterator[Check]:
    listed = {file["path"]: file for file in manifest["files"]}
    for path, file in listed.items():
        actual = folder / path
        inside = actual.resolve().is_relative_to(folder.resolve())
        try:
            digest = sha256_of(actual) if inside and actual.is_file() else None
        except OSError as error:
            yield Check(path, False, f"the file cannot be read: {error.strerror}")
            continue
        if digest is None:
            yield Check(path, False, "the file is missing")
        elif digest != file["sha256"]:
            yield Check(path, False, "the content is not what was sealed")
        else:
            yield Check(path, True, f"{file['bytes']:,} bytes, SHA-256 as sealed")
    present = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
    extra = sorted(present - set(listed) - {MANIFEST})
    yield Check("nothing else in the folder", not extra, ", ".join(extra) or "every file is in the manifest")


def _sealed(folder: Path, account: Account) -> Check:
    digest = sha256_of(folder / MANIFEST)
    sealed = [run.release for run in account.runs.values() if run.manifest_sha256 == digest]
    detail = f"sealed as {sealed[0]!r}" if sealed else "the ledger has sealed no release with this manifest"
    return Check(f"in the ledger of {account.data_set!r}", bool(sealed), detail)


def _plan(manifest: dict[str, Any]) -> Iterator[Check]:
    """The manifest agrees with itself: the plan has its hash, and its measurements cost what is stated."""
    plan = read_plan(manifest["plan"])
    # The hash of the plan as it is written, and of what was read from it: a loss is composed anew when a plan is read.
    hashes = {plan.hash, hash_of_plan(manifest["plan"])}
    yield Check("plan hash", hashes == {manifest["plan_hash"]}, manifest["plan_hash"])
    stated = manifest["privacy"]["loss"]
    if plan.has_loss:
        composed = f"{plan.loss}, composed anew from its measurements"
        yield Check("cost of the plan", plan.loss.as_dict() == stated, composed)
    else:
        nothing = stated is None and not plan.measures
        yield Check("no promise of differential privacy", nothing, "none is made, and none is stated")
    chosen = manifest["noise"]["key"] == "chosen"
    system = plan.has_loss or manifest["noise"]["key"] == "system"
    origin = "made with a system key" if system else "made with the keys of the records"
    if manifest["noise"]["key"] is None:
        origin = "made without a key: no noise is drawn"
    yield Check("stamp", chosen == (manifest.get("stamp") == STAMP), manifest.get("stamp") or origin)
