"""Published figures that another release is made with: a sealed release, or the file of an office, taken as public.

What decides a release without being a measurement has to be public, or it would tell of the records what no plan
prices. A sealed release was priced when it was made; to use it costs nothing more. It is verified before it is used,
and bound into the plan by the hash of its manifest, so that another release is another question. Nobody vouches for a
file that an office has published: the plan, and with it manifest and certificate, say that it is taken as public.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confide.errors import Finding, Place, SpecError
from confide.releases.folder import MANIFEST, SealedRelease, release_of, sha256_of
from confide.releases.mechanism import Mechanism
from confide.releases.verify import verify


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
    folder = release_of(path) if path.is_dir() else path
    if not (folder / MANIFEST).is_file():
        return PublicInput(path, _hash_of_files(path))
    release = SealedRelease.of(folder)
    if (mechanism := release.manifest.get("mechanism")) not in mechanisms:
        raise SpecError("public-input/mechanism", where=where, mechanism=mechanism, wanted=" or ".join(mechanisms))
    verified = verify(folder, find_mechanism)
    if not verified.ok:
        first = next(check for check in verified.checks if not check.ok)
        raise SpecError("public-input/changed", where=where, found=first.detail, check=first.name)
    return PublicInput(path, sha256_of(folder / MANIFEST), release)


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
