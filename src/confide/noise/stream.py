"""Noise bits as a pure function of a secret key and a coordinate.

A release has one :class:`ReleaseKey`. From it and from all that the noise belongs to (records, plan, mechanism, level,
query) a :class:`NoiseStream` is derived. A stream has no position and no buffer: the bits of a coordinate are the same
in any order, process, thread or machine, and no two coordinates share a bit.

The layout is part of what is published and is versioned by the label ``confide/v1``:

* the 16-bit word of coordinate ``c`` is the little-endian word ``c % 8`` of the AES-256-CTR key stream block ``c // 8``
  (counter = block number, 128 bits, big-endian) under the word key;
* extension word ``j`` of coordinate ``c`` is the first 8 bytes, little-endian, of AES-256 of the block ``(c, j)``, two
  little-endian 64-bit numbers, under the extension key;
* both keys are HKDF-SHA256 of the release key, 64 bytes, no salt, with the length-prefixed fields as info.

References: NIST SP 800-38A (CTR), RFC 5869 (HKDF). What is assumed of AES: ``docs/proofs/noise.md``, section 5.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from confide.errors import CONFIDENTIAL, ParameterError

COORDINATES = 1 << 63
"""Coordinates are ``0 <= c < 2**63``."""

SAMPLER = "confide/v1"
"""The version of everything that decides which noise a key gives; it stands in the manifest of a release."""

_LABEL = SAMPLER.encode()
_STUDY = b"confide/study/v1"
_COMMITMENT = b"confide/key-commitment/v1"
_KEY_BYTES = 32
_BLOCK_BYTES = 16
_WORDS_PER_BLOCK = 8
_ZEROS = bytes(1 << 18)

Words = npt.NDArray[np.uint16]
Extensions = npt.NDArray[np.uint64]
Coordinates = npt.NDArray[np.uint64]


class WordSource(Protocol):
    """Where the sampler gets its bits: a :class:`NoiseStream`, or in tests whatever they want to plant."""

    def words(self, start: int, count: int) -> Words:
        """The 16-bit words of the coordinates ``start .. start + count - 1``."""
        ...

    def words_at(self, coordinates: Coordinates) -> Words:
        """The 16-bit words of any coordinates, in any order."""
        ...

    def extension(self, coordinates: Coordinates, number: int) -> Extensions:
        """Extension word ``number`` of each coordinate: 64 more bits."""
        ...


@dataclass(frozen=True, slots=True)
class ReleaseKey:
    """The secret of one release: 32 bytes. A ``chosen`` key is for tests and demonstrations, never for a release."""

    secret: bytes = field(repr=False)
    chosen: bool = False

    def __post_init__(self) -> None:
        _check_key(self.secret, "release key")

    @classmethod
    def from_system(cls) -> ReleaseKey:
        """A new key from the random number generator of the operating system."""
        return cls(secrets.token_bytes(_KEY_BYTES))

    @classmethod
    def choose(cls, hexadecimal: str) -> ReleaseKey:
        """A key that somebody chose: 64 hexadecimal digits. What is made with it is not for release."""
        try:
            return cls(bytes.fromhex(hexadecimal), chosen=True)
        except ValueError as problem:
            if isinstance(problem, ParameterError):
                raise
            raise _bad_key("the chosen key is not written in hexadecimal digits") from None

    @property
    def commitment(self) -> str:
        """What stands for the key where the key itself must not be: 64 hexadecimal digits.

        It is HKDF-SHA256 of the key under a label that no stream has, so it tells nothing of the noise; and no second
        key with the same commitment can be made. A ledger has it before the first draw.

        >>> ReleaseKey.choose("00" * 32).commitment[:16]
        '97386cdca4d69a5a'
        """
        return HKDF(algorithm=SHA256(), length=_KEY_BYTES, salt=None, info=_COMMITMENT).derive(self.secret).hex()


@dataclass(frozen=True, slots=True)
class NoiseStream:
    """The bits of every coordinate of one (release, mechanism, level, query). Holds two keys and nothing else."""

    word_key: bytes = field(repr=False)
    extension_key: bytes = field(repr=False)

    def __post_init__(self) -> None:
        _check_key(self.word_key, "word key")
        _check_key(self.extension_key, "extension key")

    @classmethod
    def fresh(cls, seed: str | bytes | None = None) -> NoiseStream:
        """A stream that belongs to nobody, for studies of noise: bound to no records, plan, release or ledger.

        It must not protect a release: nothing keeps the same noise from being laid over other data, and nothing is
        charged for it. A release takes its streams from :func:`derive_stream`.

        Args:
            seed: Without one the keys come from the operating system and are never the same. With one, any text or
                bytes, a study can be repeated: whoever knows the seed knows the noise.

        Returns:
            A stream like any other, with coordinates from 0 on.

        >>> NoiseStream.fresh("study 1").words(0, 3)
        array([48187,  7438, 43079], dtype=uint16)
        """
        if seed is None:
            return cls(secrets.token_bytes(_KEY_BYTES), secrets.token_bytes(_KEY_BYTES))
        content = seed.encode() if isinstance(seed, str) else bytes(seed)
        # The label is that of no release, so no seed leads to the stream of one.
        keys = HKDF(algorithm=SHA256(), length=2 * _KEY_BYTES, salt=None, info=_STUDY).derive(content)
        return cls(keys[:_KEY_BYTES], keys[_KEY_BYTES:])

    def words(self, start: int, count: int) -> Words:
        """The 16-bit words of the coordinates ``start .. start + count - 1``."""
        check_span(start, count)
        block, skipped = divmod(start, _WORDS_PER_BLOCK)
        length = 2 * (skipped + count)
        encryptor = Cipher(algorithms.AES(self.word_key), modes.CTR(block.to_bytes(_BLOCK_BYTES, "big"))).encryptor()
        # update_into asks for room for one block more, less a byte.
        key_stream = np.empty(length + _BLOCK_BYTES - 1, np.uint8)
        for begin in range(0, length, len(_ZEROS)):
            piece = min(len(_ZEROS), length - begin)
            encryptor.update_into(memoryview(_ZEROS)[:piece], key_stream.data[begin:])
        return key_stream[2 * skipped : length].view("<u2")

    def words_at(self, coordinates: Coordinates) -> Words:
        """The 16-bit words of any coordinates, in any order."""
        counters = np.zeros((len(coordinates), 2), ">u8")
        counters[:, 1] = coordinates // np.uint64(_WORDS_PER_BLOCK)
        blocks = np.frombuffer(_encrypt_blocks(self.word_key, counters.tobytes()), "<u2").reshape(-1, _WORDS_PER_BLOCK)
        inside = (coordinates % np.uint64(_WORDS_PER_BLOCK)).astype(np.intp)
        return blocks[np.arange(len(coordinates)), inside]

    def extension(self, coordinates: Coordinates, number: int) -> Extensions:
        """Extension word ``number`` of each coordinate: 64 more bits."""
        blocks = np.empty((len(coordinates), 2), "<u8")
        blocks[:, 0] = coordinates
        blocks[:, 1] = number
        return np.frombuffer(_encrypt_blocks(self.extension_key, blocks.tobytes()), "<u8")[::2]


def derive_stream(
    release_key: ReleaseKey,
    *,
    records_fingerprint: bytes,
    plan_hash: bytes,
    mechanism: str,
    level: str,
    query: str,
) -> NoiseStream:
    """The stream of one query at one level, bound to the records and to the plan.

    Changed records or a changed plan get unrelated noise, so the difference of two releases never shows the change.

    Args:
        release_key: The secret of the release.
        records_fingerprint: The bytes of the hash of the records; not empty.
        plan_hash: The bytes of the hash of the plan; not empty.
        mechanism: What measures.
        level: The geolevel that is measured.
        query: The query that is measured.

    Returns:
        A stream whose coordinates are ``unit * cells + cell``. For a study without a release see
        :meth:`NoiseStream.fresh`.
    """
    fields = (_LABEL, records_fingerprint, plan_hash, mechanism.encode(), level.encode(), query.encode())
    for name, value in (("records fingerprint", records_fingerprint), ("plan hash", plan_hash)):
        if not value:
            raise ParameterError(
                "stream-not-bound",
                f"a noise stream needs the {name}",
                found="no bytes",
                expected="the bytes of a hash",
                remedy=f"compute the {name} before any noise is drawn",
            )
    info = b"".join(len(value).to_bytes(8, "big") + value for value in fields)
    keys = HKDF(algorithm=SHA256(), length=2 * _KEY_BYTES, salt=None, info=info).derive(release_key.secret)
    return NoiseStream(keys[:_KEY_BYTES], keys[_KEY_BYTES:])


def check_span(start: int, count: int) -> None:
    """Refuse coordinates outside ``0 .. 2**63 - 1``."""
    if start < 0 or count < 0 or start + count > COORDINATES:
        raise ParameterError(
            "coordinate-out-of-range",
            "noise is asked for at coordinates that do not exist",
            found=f"{count} coordinates from {start}",
            expected="coordinates from 0 to 2**63 - 1",
            remedy="number units and cells from zero",
        )


def _encrypt_blocks(key: bytes, blocks: bytes) -> bytes:
    """AES-256 of each 16-byte block: the bare permutation, on blocks that never repeat for different coordinates."""
    encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305 - used as a function, hides no message
    return encryptor.update(blocks)


def _check_key(key: bytes, name: str) -> None:
    if len(key) != _KEY_BYTES:
        raise _bad_key(f"the {name} is not made of {_KEY_BYTES} bytes")


def _bad_key(what: str) -> ParameterError:
    return ParameterError(
        "bad-key",
        what,
        found=CONFIDENTIAL,
        expected="32 secret bytes, or 64 hexadecimal digits for a chosen key",
        remedy="take a new key from the operating system with ReleaseKey.from_system()",
    )
