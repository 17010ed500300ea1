"""``verify``: a release read again from its files, as anyone who received it can.

Everything in a manifest that follows from its plan is computed anew and demanded: what the plan costs, in which words,
and every page of the release, byte by byte. So a release that passes is *consistent with itself*. Whoever changes the
figures and writes a new manifest for them passes as well; that it is the release *as sealed* is shown by the ledger of
its data set, or by a signature of its office.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from confide.answers import AnswerPart, Said, Tone, TypedAnswer
from confide.errors import ConfideError, Finding, Place, SpecError
from confide.file_system import sha256_of
from confide.releases.companions.explanations import EXPLORE, VERSION, companions
from confide.releases.companions.geoparquet import outline_checks
from confide.releases.folder import (
    MANIFEST,
    SealedRelease,
    manifest_of,
    manifest_text,
    require_package,
    stamp_document,
)
from confide.releases.ledger import Account
from confide.releases.mechanism import Check, Mechanism, checks_table
from confide.releases.plan import hash_of_plan
from confide.releases.signature import signature_check
from confide.releases.spec import PUBLICATION
from confide.releases.workspace import STAMP
from confide.version import __version__

CONSISTENT, AS_SEALED, NOT_AS_SEALED = "consistent with itself", "as sealed", "not as sealed"

WORDS = tuple(f"privacy.{part}" for part in ("in_words", "rules", "protection", "subject_to_invariants.invariants"))
"""What a manifest says in sentences, which follow from its plan: a later version may word them anew."""


@dataclass(frozen=True)
class Verification(TypedAnswer):
    """What was looked at, and whether all of it is as it should be."""

    release: str
    stamp: str | None
    checks: tuple[Check, ...]
    folder: str = ""
    vouched_by: tuple[str, ...] = ()
    """What was asked whether this is the release that was sealed: ``ledger``, ``signature``."""

    @property
    def ok(self) -> bool:
        return all(check.ok for check in self.checks)

    @property
    def verdict(self) -> str:
        """What may be said of the release: without a ledger or a signature, no more than that it agrees with itself."""
        if not self.ok:
            return NOT_AS_SEALED
        return AS_SEALED if self.vouched_by else CONSISTENT

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is not as it should be."""
        return tuple(
            Finding.of(
                "not-as-sealed/release",
                where=Place(file=self.folder, path=check.name),
                found=check.detail,
                check=check.name,
            )
            for check in self.checks
            if not check.ok
        )

    def as_dict(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "release": self.release,
            "stamp": self.stamp,
            "verdict": self.verdict,
            "vouched_by": list(self.vouched_by),
            "checks": [asdict(check) for check in self.checks],
            "findings": [finding.as_dict() for finding in self.findings],
        }

    def described(self) -> Iterator[AnswerPart]:
        """Every check, and the verdict."""
        yield checks_table(self.checks)
        yield from self.findings
        if self.stamp:
            yield Said(self.stamp, tone=Tone.BAD, aside=True)
        tone = Tone.GOOD if self.ok else Tone.BAD
        yield Said(f"\nThe release {self.release} is {self.verdict}.", tone=tone)
        if self.ok and not self.vouched_by:
            yield (
                "To check that it is also the release that was sealed, add --ledger LEDGER, or --public-key of the "
                "office."
            )


def verify(
    given: str | Path | SealedRelease,
    find_mechanism: Callable[[str], Mechanism[Any]],
    account: Account | None = None,
    public_key: Ed25519PublicKey | None = None,
) -> Verification:
    """Checks hashes first; content is looked at only in files that are what the manifest says.

    ``given`` is a release, by its folder or that of its run, or one that was opened.
    Without the ledger this shows that a folder agrees with its manifest, and the manifest with its plan; with its
    ``account``, or the public key of its office, that the manifest is the one that was sealed.
    """
    release = given if isinstance(given, SealedRelease) else SealedRelease.of(given)
    folder, manifest = release.folder, release.manifest
    checks = list(_files(release))
    if account is not None:
        checks.append(_sealed(release, account))
    if (signed := signature_check(release, public_key)) is not None:
        checks.append(signed)
    if all(check.ok for check in checks):
        require_package(folder, manifest, find_mechanism)
        try:
            mechanism = find_mechanism(manifest["mechanism"])
            checks.append(_form(release))
            checks += _plan(release)
            checks += _restated(release, mechanism)
            checks.append(_own_tables(release))
            if (codebook := mechanism.explain.codebook(manifest)) is not None:
                checks += outline_checks(release, codebook)
            checks += mechanism.verify(release)
        except (ConfideError, pa.ArrowException, ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            # The files are as the manifest says; so it is the manifest that somebody changed.
            checks.append(Check(MANIFEST, False, "the manifest does not describe the tables of the release"))
    asked = {"ledger": account, "signature": public_key}
    vouched_by = tuple(name for name, witness in asked.items() if witness is not None)
    return Verification(manifest["release"], manifest.get("stamp"), tuple(checks), str(folder), vouched_by)


def verify_staged(folder: Path, mechanism: Mechanism[Any], copies: Collection[str]) -> tuple[Check, ...]:
    """What a run looks at in its own release before it gets a name: every table against plan, frame and the others.

    It is :func:`verify` without what cannot have gone wrong since the files were written a moment ago: their hashes,
    the pages that were made of this very manifest, and further copies of a table.

    Args:
        folder: Where the release is complete and has no name yet.
        mechanism: The one that made it.
        copies: The files that were written from the same rows as another one, in another format: that one is read.

    Returns:
        Everything that was looked at.
    """
    release = SealedRelease.of(folder).without(copies)
    return (*_plan(release), *mechanism.verify(release))


def _files(release: SealedRelease) -> Iterator[Check]:
    sizes = {file["path"]: file["bytes"] for file in release.manifest["files"]}
    for path, problem in release.file_states():
        yield Check(path, not problem, problem or f"{sizes[path]:,} bytes, SHA-256 as in the manifest")
    extra = release.unlisted()
    yield Check("nothing else in the folder", not extra, ", ".join(extra) or "every file is in the manifest")


def _form(release: SealedRelease) -> Check:
    """A manifest has one form, in which two readers read the same; and lists every file once, with its size."""
    sizes = {file["path"]: file["bytes"] for file in release.manifest["files"]}
    written = (release.folder / MANIFEST).read_bytes() == manifest_text(release.manifest).encode()
    listed = [*sizes] == sorted(release.files)
    right = listed and all((release.folder / path).stat().st_size == size for path, size in sizes.items())
    return Check(MANIFEST, written and right, "in canonical form" if written and right else "not as Confide writes it")


def _sealed(release: SealedRelease, account: Account) -> Check:
    sealed = [run.release for run in account.runs.values() if run.manifest_sha256 == release.manifest_sha256]
    detail = f"sealed as {sealed[0]!r}" if sealed else "the ledger has sealed no release with this manifest"
    return Check(f"in the ledger of {account.data_set!r}", bool(sealed), detail)


def _plan(release: SealedRelease) -> Iterator[Check]:
    """The manifest agrees with itself: the plan has its hash, and its measurements cost what is stated."""
    manifest, plan = release.manifest, release.plan
    # The hash of the plan as it is written, and of what was read from it: a loss is composed anew when a plan is read.
    hashes = {plan.hash, hash_of_plan(manifest["plan"])}
    yield Check("plan hash", hashes == {manifest["plan_hash"]}, manifest["plan_hash"])
    stated = manifest["privacy"]["loss"]
    if plan.has_loss:
        composed = f"{plan.loss}, recomputed from its measurements"
        yield Check("cost of the plan", plan.loss.as_dict() == stated, composed)
    else:
        nothing = stated is None and not plan.measures
        if "subject_to_invariants" in manifest["privacy"]:
            yield Check("no loss is charged", nothing, "the one that is stated holds subject to invariants")
        else:
            yield Check("no promise of differential privacy", nothing, "none is made, and none is stated")
    chosen = manifest["noise"]["key"] == "chosen"
    system = plan.has_loss or manifest["noise"]["key"] == "system"
    origin = "made with a system key" if system else "made with the keys of the records"
    if manifest["noise"]["key"] is None:
        origin = "made without a key: no noise is drawn"
    stamped = chosen or manifest.get("rehearsal") is True
    yield Check("stamp", stamped == (manifest.get("stamp") == STAMP), manifest.get("stamp") or origin)


def _restated(release: SealedRelease, mechanism: Mechanism[Any]) -> Iterator[Check]:
    """What the manifest says beside its plan, and the pages that are made of it, computed anew and compared.

    An older version may have used other words for the same numbers: only its numbers are compared.
    """
    manifest, plan = release.manifest, release.plan
    stated = {part: value for part, value in manifest.items() if part != "files"}
    version, stamped = str(manifest["confide"]), mechanism.keyed and manifest.get("stamp") == STAMP
    anew = manifest_of(
        manifest["release"],
        manifest["title"],
        plan,
        mechanism.restated(plan, manifest),
        manifest["statistics"],
        stamped=stamped,
        rehearsal=manifest.get("rehearsal") is True,
        version=version,
        publication=_publication(manifest),
        explore=VERSION if manifest.get(EXPLORE) == VERSION else None,
        package=_package(manifest, mechanism),
    )
    older = _is_older(version)
    wrong = [path for path in _differences(json.loads(json.dumps(anew)), stated) if not (older and path in WORDS)]
    if not wrong and [*anew] != [*stated]:
        wrong = ["the order of its entries"]
    recomputed = _said(wrong, version, "recomputed from the plan, all of it")
    yield Check("what is promised follows from the plan", not wrong, recomputed)
    stamp = dict([stamp_document(stated)]) if manifest.get("stamp") == STAMP else {}
    texts = dict(mechanism.documents(stated)) | stamp
    pages = {page: text.encode() for page, text in texts.items()}
    if (codebook := mechanism.explain.codebook(stated)) is not None:
        pages |= companions(release, codebook)
    listed = {file["path"] for file in manifest["files"] if "rows" not in file}
    wrong = sorted(pages.keys() ^ listed)
    changed = [page for page in pages.keys() & listed if (release.folder / page).read_bytes() != pages[page]]
    if older and not wrong and changed:
        detail = f"made by Confide {version}, whose pages this version ({__version__}) does not make: not compared"
    else:
        wrong += sorted(changed)
        detail = _said(
            wrong, version, f"{', '.join(sorted(pages))}: written again from the manifest, identical byte for byte"
        )
    yield Check("pages as the manifest has them", not wrong, detail)


def _publication(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Who publishes the release, as the manifest states it: the entries that a spec can have, and no others."""
    stated = manifest.get("publication", {})
    return {name: stated[name] for name in PUBLICATION if isinstance(stated.get(name), str)}


def _package(manifest: Mapping[str, Any], mechanism: Mechanism[Any]) -> dict[str, str] | None:
    """The package that the mechanism comes from, where that is not Confide, in the version that the manifest states."""
    if mechanism.package is None:
        return None
    stated = manifest.get("package")
    version = stated.get("version") if isinstance(stated, dict) else None
    return {"name": mechanism.package.name, "version": str(version or mechanism.package.version)}


def _said(wrong: list[str], version: str, otherwise: str) -> str:
    if not wrong:
        return otherwise
    by = "" if version == __version__ else f" (made by Confide {version}: verify it with that version)"
    return f"another content than the plan implies: {', '.join(wrong[:5])}{by}"


def _differences(expected: Any, stated: Any, path: str = "") -> Iterator[str]:
    """Where two values of JSON differ."""
    if isinstance(expected, dict) and isinstance(stated, dict):
        for key in [*expected, *(key for key in stated if key not in expected)]:
            inner = f"{path}.{key}" if path else str(key)
            if key in expected and key in stated:
                yield from _differences(expected[key], stated[key], inner)
            else:
                yield inner
    elif json.dumps(expected) != json.dumps(stated):
        yield path


def _is_older(version: str) -> bool:
    """Whether a version came before this one."""
    texts = version, __version__
    if not all(re.fullmatch(r"\d+(\.\d+)*", text) for text in texts):
        return False
    first, own = (tuple(int(part) for part in text.split(".")) for text in texts)
    return first < own


def _own_tables(release: SealedRelease) -> Check:
    """Parquet files name the release, the plan and the stamp that they were made with, their rows and their columns."""
    manifest = release.manifest
    expected = {"release": manifest["release"], "plan_hash": manifest["plan_hash"], "stamp": manifest.get("stamp")}
    wrong: list[str] = []
    described: dict[str, list[tuple[int, Mapping[str, str]]]] = {}
    for file in release.data:
        described.setdefault(file["path"].rpartition(".")[0], []).append((file["rows"], file["columns"]))
        if not file["path"].endswith(".parquet"):
            continue
        with pq.ParquetFile(release.folder / file["path"]) as table:
            schema, rows = table.schema_arrow, table.metadata.num_rows
        metadata = {name.decode(): value.decode() for name, value in (schema.metadata or {}).items()}
        columns = {column.name: (column.metadata or {}).get(b"description", b"").decode() for column in schema}
        same = {name: metadata.get(name) for name in expected} == expected
        if not same or rows != file["rows"] or columns != file["columns"]:
            wrong.append(file["path"])
    wrong += [stem for stem, formats in described.items() if any(one != formats[0] for one in formats)]
    detail = ", ".join(wrong) or "release, plan, stamp, rows and columns as in the manifest"
    return Check("tables of this release", not wrong, detail)


# Published figures that another release is made with: a sealed release, or the file of an office, taken as public.
#
# What decides a release without being a measurement has to be public, or it would tell of the records what no plan
# prices. A sealed release was priced when it was made; to use it costs nothing more. It is verified before it is used,
# and bound into the plan by the hash of its manifest, so that another release is another question. Nobody vouches for a
# file that an office has published: the plan, and with it manifest and certificate, say that it is taken as public.


@dataclass(frozen=True)
class PublicInput:
    """One of them, by its hash: that of the manifest of a release, or that of a file or folder of files."""

    path: Path
    sha256: str
    release: SealedRelease | None = None

    @property
    def stamped(self) -> bool:
        """Whether it was made with a chosen key: then it protects nobody, and neither does what is made with it."""
        return self.release is not None and "stamp" in self.release.manifest

    def as_dict(self) -> dict[str, str]:
        """What a plan says of it, under :data:`confide.releases.plan.PUBLIC_INPUTS`."""
        if self.release is None:
            return {"file_sha256": self.sha256}
        manifest = self.release.manifest
        named = {"release": manifest["release"], "mechanism": manifest["mechanism"]}
        return {**named, "manifest_sha256": self.sha256}


def read_public_input(
    path: Path, where: Place, find_mechanism: Callable[[str], Mechanism[Any]], mechanisms: Collection[str]
) -> PublicInput:
    """The release in a folder, verified; or the file, or folder of files, as it is.

    Args:
        path: A sealed release or the folder of its run, or what an office has published.
        where: Where the spec names it.
        find_mechanism: Finds the mechanism that verifies a release.
        mechanisms: Those whose releases will do.

    Returns:
        The input by its hash. Raises with what is wrong: nothing of it is used then.
    """
    if not path.exists():
        raise SpecError("no-such-file/correct", where=where, found=path.name)
    if (release := SealedRelease.at(path)) is None:
        return PublicInput(path, _hash_of_files(path))
    if (mechanism := release.manifest.get("mechanism")) not in mechanisms:
        raise SpecError("public-input/mechanism", where=where, mechanism=mechanism, wanted=" or ".join(mechanisms))
    verified = verify(release, find_mechanism)
    if not verified.ok:
        first = next(check for check in verified.checks if not check.ok)
        raise SpecError("public-input/changed", where=where, found=first.detail, check=first.name)
    return PublicInput(path, release.manifest_sha256, release)


def stamped_input(where: Place, given: PublicInput, *, trial: bool) -> Iterator[Finding]:
    """A finding where the noise of an input protects nobody; in a trial it is a warning."""
    if given.stamped:
        yield Finding.of("public-input/stamped", where=where, severity="warning" if trial else "error")


def _hash_of_files(path: Path) -> str:
    """SHA-256 of a file, or of the names and contents of all files in a folder."""
    if path.is_file():
        return sha256_of(path)
    digest = hashlib.sha256(b"confide/public-input/v1")
    for file in sorted(file for file in path.rglob("*") if file.is_file()):
        name = file.relative_to(path).as_posix().encode()
        digest.update(len(name).to_bytes(4, "big") + name + bytes.fromhex(sha256_of(file)))
    return digest.hexdigest()
