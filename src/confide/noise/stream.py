"""Noise bits as a pure function of a secret key and a coordinate, and exact draws by inversion from these bits.

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

*Inversion* draws from any distribution on the integers whose cumulated probabilities can be enclosed.
For ``U`` uniform on [0, 1) the outcome is ``min {k : U < F(k)}``. A function that encloses ``F`` to any number of bits
is all that must be known of the distribution. A draw takes the first 64 bits of ``U`` and a binary search; where these
bits leave a doubt, 64 more bits of the same ``U`` are read and ``F`` is enclosed more narrowly, in Python integers, for
as long as it takes. Outcomes whose probability is negligible need not be listed: a ``U`` that may belong to one of them
is a doubt like any other, and narrower enclosures list more outcomes.

The bits of ``U`` are the extension words 0, 1, 2, ... of a coordinate; the 16-bit words are not used.

Derivation: ``docs/proofs/noise.md``, sections 3 and 8.
"""

from __future__ import annotations

import secrets
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import accumulate
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from confide.arrays import Integers
from confide.errors import CONFIDENTIAL, ParameterError
from confide.noise.distributions import ceil_div

COORDINATES = 1 << 63
"""Coordinates are ``0 <= c < 2**63``."""

SAMPLER = "confide/v1"
"""The version of everything that decides which noise a key gives; it is in the manifest of a release."""

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
            raise ParameterError("bad-key/chosen", found=CONFIDENTIAL) from None

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

    >>> key = ReleaseKey.choose("0f" * 32)
    >>> about = {"mechanism": "tables", "level": "county", "query": "sex"}
    >>> stream = derive_stream(key, records_fingerprint=b"records", plan_hash=b"plan", **about)
    >>> type(stream).__name__
    'NoiseStream'
    """
    fields = (_LABEL, records_fingerprint, plan_hash, mechanism.encode(), level.encode(), query.encode())
    for name, value in (("records fingerprint", records_fingerprint), ("plan hash", plan_hash)):
        if not value:
            raise ParameterError("stream-not-bound", name=name)
    info = b"".join(len(value).to_bytes(8, "big") + value for value in fields)
    keys = HKDF(algorithm=SHA256(), length=2 * _KEY_BYTES, salt=None, info=info).derive(release_key.secret)
    return NoiseStream(keys[:_KEY_BYTES], keys[_KEY_BYTES:])


def check_span(start: int, count: int) -> None:
    """Refuse coordinates outside ``0 .. 2**63 - 1``."""
    if start < 0 or count < 0 or start + count > COORDINATES:
        raise ParameterError("coordinate-out-of-range", count=count, start=start)


def _encrypt_blocks(key: bytes, blocks: bytes) -> bytes:
    """AES-256 of each 16-byte block: the bare permutation, on blocks that never repeat for different coordinates."""
    encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305 - used as a function, hides no message
    return encryptor.update(blocks)


def _check_key(key: bytes, name: str) -> None:
    if len(key) != _KEY_BYTES:
        raise ParameterError("bad-key/made", found=CONFIDENTIAL, name=name, key_bytes=_KEY_BYTES)


# Exact draws from any distribution on the integers whose cumulated probabilities can be enclosed.


_WORD = 64
_LARGEST_WORD = (1 << _WORD) - 1
_SPARE = 128
"""Bits by which an enclosure is finer than the bits of ``U`` that are compared with it."""

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Steps:
    """``lower[i] <= 2**bits * F(first + i) <= upper[i]``, both in ascending order.

    Outcomes may be missing at either end. If some are missing below ``first``, then ``lower[0]`` is zero, so that no
    ``U`` is ever found to lie below ``F(first)``.
    """

    bits: int
    lower: list[int]
    upper: list[int]
    first: int = 0

    @classmethod
    def ascending(cls, bits: int, lower: Iterable[int], upper: Iterable[int], first: int = 0) -> Steps:
        """The same enclosures between zero and one and put in order, which is allowed because ``F`` never falls."""
        one = 1 << bits
        rising = accumulate((max(0, bound) for bound in lower), max)
        falling = accumulate((min(one, bound) for bound in reversed(list(upper))), min)
        return cls(bits, list(rising), list(falling)[::-1], first)

    def outcome(self, prefix: int, length: int) -> int | None:
        """The ``k`` for which ``[prefix, prefix + 1) / 2**length`` provably lies in ``[F(k - 1), F(k))``, or None."""
        shift = self.bits - length
        i = bisect_right(self.upper, prefix << shift)
        return self.first + i if i < len(self.lower) and (prefix + 1) << shift <= self.lower[i] else None


Enclose: TypeAlias = Callable[[int], Steps]
"""The steps of a distribution worked out with at least so many bits; their width goes to zero as the bits grow."""


def draw_one(enclose: Enclose, source: WordSource, coordinate: int) -> int:
    """The outcome for the ``U`` of one coordinate. It ends for every ``U`` that is not itself a value of ``F``."""
    place = np.array([coordinate], np.uint64)
    prefix = number = 0
    while True:
        prefix = prefix << _WORD | int(source.extension(place, number)[0])
        number += 1
        length = number * _WORD
        outcome = enclose(length + _SPARE).outcome(prefix, length)
        if outcome is not None:
            return outcome


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Inverse:
    """A distribution prepared for many draws: the first 64 bits of every listed value of ``F``, from both sides."""

    enclose: Enclose
    first: int
    lower: Extensions
    upper: Extensions

    @classmethod
    def prepare(cls, enclose: Enclose) -> Inverse:
        """Look up the steps once, with 192 bits."""
        steps = enclose(_WORD + _SPARE)
        shift = steps.bits - _WORD
        # One as a bound becomes the largest word, which no word exceeds: that word alone is left to more bits.
        lower, upper = (
            np.array([min(bound >> shift, _LARGEST_WORD) for bound in bounds], np.uint64)
            for bounds in (steps.lower, steps.upper)
        )
        return cls(enclose, steps.first, lower, upper)

    def draw(self, source: WordSource, coordinates: Coordinates) -> Integers:
        """One outcome for each coordinate: the same that :func:`draw_one` gives it."""
        outcomes = np.empty(len(coordinates), np.int64)
        for begin in range(0, len(coordinates), _CHUNK):
            chunk = coordinates[begin : begin + _CHUNK]
            outcomes[begin : begin + _CHUNK] = self._decide(source, chunk)
        return outcomes

    def _decide(self, source: WordSource, coordinates: Coordinates) -> Integers:
        words = source.extension(coordinates, 0)
        steps = np.searchsorted(self.upper, words, side="left")
        clipped = np.minimum(steps, len(self.lower) - 1)
        open_ = np.flatnonzero((steps != clipped) | (words >= self.lower[clipped]))
        outcomes: Integers = steps.astype(np.int64) + self.first
        for i in open_:
            outcomes[i] = draw_one(self.enclose, source, int(coordinates[i]))
        return outcomes


def scaled_down(number: Fraction, bits: int) -> int:
    """``2**bits * number`` rounded down: a lower bound."""
    return (number.numerator << bits) // number.denominator


def scaled_up(number: Fraction, bits: int) -> int:
    """``2**bits * number`` rounded up: an upper bound."""
    return ceil_div(number.numerator << bits, number.denominator)
