"""Signatures of releases: whoever has the public key of an office needs no ledger to know its releases.

A signature is Ed25519 (RFC 8032) over the text

    confide/signature/v1
    SHA-256 of manifest.json, in hexadecimal

with a line break after each line. The manifest has the hash of every file, so the signature is one of the whole
release. It lies beside the manifest, in ``signature.json``, and changes no other byte. Keys are PEM files as other
programs make and read them: the private key PKCS #8, readable by its owner alone, and the public key beside it.

For curators: ``docs/concepts/release.md``, section Signatures.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from confide.answers import AnswerPart, TypedAnswer
from confide.errors import CONFIDENTIAL, Place, RunError
from confide.file_system import PRIVATE_FILE, open_to_others, write_text
from confide.releases.folder import PUBLIC_FILE, SIGNATURE, SealedRelease
from confide.releases.mechanism import Check

FORMAT = "confide/signature/v1"
_RAW = serialization.Encoding.Raw, serialization.PublicFormat.Raw
_PEM = serialization.Encoding.PEM


@dataclass(frozen=True)
class SignatureKey(TypedAnswer):
    """Where the two halves of a signature key are, and by which name people know it."""

    private: Path
    public: Path
    fingerprint: str
    """SHA-256 of the public key: what an office prints where nobody can change it."""

    def as_dict(self) -> dict[str, Any]:
        """The paths and the fingerprint as plain values for ``--json``."""
        return {
            "ok": True,
            "private": str(self.private),
            "public": str(self.public),
            "fingerprint": self.fingerprint,
        }

    def described(self) -> Iterator[AnswerPart]:
        """Where the keys are."""
        yield f"Private key (keep it here):    {self.private}"
        yield f"Public key, for receivers:     {self.public}"
        yield f"Its fingerprint:               {self.fingerprint}"


def new_signature_key(path: str | Path) -> SignatureKey:
    """Makes a key with which an office signs its releases. Nothing that is there is ever overwritten.

    Args:
        path: Where the private key is written, 0600. The public key, which receivers get, is written beside it with
            ``.pub`` at the end of its name.

    Returns:
        Both paths, and the fingerprint of the public key.

    >>> import confide
    >>> key = confide.new_signature_key(tmp_path / "office.key")
    >>> key.public.name
    'office.key.pub'
    """
    private, public = Path(path), Path(f"{path}.pub")
    for file in (private, public):
        if os.path.lexists(file):
            raise RunError("signature-key/never", where=Place(file=str(file)))
    key = Ed25519PrivateKey.generate()
    unencrypted = serialization.NoEncryption()
    secret = key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, unencrypted).decode("ascii")
    shown = key.public_key().public_bytes(_PEM, serialization.PublicFormat.SubjectPublicKeyInfo).decode("ascii")
    try:
        write_text(private, secret, mode=PRIVATE_FILE)
        write_text(public, shown, mode=PUBLIC_FILE)
    except OSError as error:
        where = error.strerror or type(error).__name__
        raise RunError("signature-key/written", where=Place(file=str(private)), found=where) from None
    return SignatureKey(private, public, fingerprint_of(key.public_key()))


def fingerprint_of(key: Ed25519PublicKey) -> str:
    """SHA-256 of the 32 bytes of a public key, in hexadecimal."""
    return hashlib.sha256(key.public_bytes(*_RAW)).hexdigest()


@dataclass(frozen=True, slots=True)
class Signer:
    """The private key of an office, read before anything is spent."""

    key: Ed25519PrivateKey = field(repr=False)

    @classmethod
    def read(cls, path: str | Path) -> Signer:
        """The key in a file; raises if others can read it, or if it is no Ed25519 key in PEM without a password."""
        file = Path(path)
        content = _content(file)
        mode = stat.S_IMODE(file.stat().st_mode)
        if open_to_others(mode):
            raise RunError("signature-key/others", where=Place(file=str(file)), mode=mode, file=file)
        try:
            key = serialization.load_pem_private_key(content, None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            key = None
        if not isinstance(key, Ed25519PrivateKey):
            raise RunError("signature-key/file", where=Place(file=str(file)), found=CONFIDENTIAL)
        return cls(key)

    def text(self, manifest_sha256: str) -> str:
        """What ``signature.json`` says of a release with this manifest. The same every time it is made."""
        signature = self.key.sign(_message(manifest_sha256))
        return _written(manifest_sha256, self.key.public_key().public_bytes(*_RAW).hex(), signature.hex())


def read_public_key(path: str | Path) -> Ed25519PublicKey:
    """The public key in a PEM file, as its office published it."""
    file = Path(path)
    try:
        key = serialization.load_pem_public_key(_content(file))
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise RunError("signature-key/public", where=Place(file=str(file)))
    return key


def signature_check(release: SealedRelease, public_key: Ed25519PublicKey | None) -> Check | None:
    """What the signature of a release shows; nothing of a release that has none, if none was asked for.

    Without a public key it shows that the signature fits to the manifest and to the key that it names; whose key that
    is, nobody has said.
    """
    name, file = "signature", release.folder / SIGNATURE
    if not os.path.lexists(file):
        return None if public_key is None else Check(name, False, "the release is not signed")
    manifest_sha256 = release.manifest_sha256
    try:
        stated = json.loads(file.read_text(encoding="ascii"))
        signed, key = bytes.fromhex(stated["signature"]), bytes.fromhex(stated["public_key"])
        by = Ed25519PublicKey.from_public_bytes(key)
        as_written = file.read_text(encoding="ascii") == _written(manifest_sha256, key.hex(), signed.hex())
        if not as_written or file.is_symlink():
            return Check(name, False, "the signature is of another manifest, or not as Confide writes it")
        (public_key or by).verify(signed, _message(manifest_sha256))
    except InvalidSignature:
        return Check(name, False, "the signature is not one of this key" if public_key else "the signature is wrong")
    except (OSError, ValueError, TypeError, LookupError, RecursionError):
        return Check(name, False, "the signature cannot be read")
    if public_key is not None and fingerprint_of(public_key) != fingerprint_of(by):
        return Check(name, False, "the signature names another key")
    whose = "" if public_key else "; whose key this is: --public-key"
    return Check(name, True, f"by the key {fingerprint_of(by)}{whose}")


def _message(manifest_sha256: str) -> bytes:
    return f"{FORMAT}\n{manifest_sha256}\n".encode("ascii")


def _written(manifest_sha256: str, public_key: str, signature: str) -> str:
    content = {
        "format": FORMAT,
        "algorithm": "Ed25519",
        "manifest_sha256": manifest_sha256,
        "public_key": public_key,
        "signature": signature,
    }
    return json.dumps(content, indent=1) + "\n"


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        where = error.strerror or type(error).__name__
        raise RunError("signature-key/read", where=Place(file=str(file)), found=where) from None
