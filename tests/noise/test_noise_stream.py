"""The keyed stream: layout, derivation, random access, and keys that do not show."""

from __future__ import annotations

import hashlib
import hmac
import pickle

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st
from tests.kits.noise import STREAM

from confide.errors import ParameterError
from confide.noise import COORDINATES, NoiseStream, ReleaseKey, derive_stream

KEY = ReleaseKey.choose("00" * 31 + "2a")
BINDING = {
    "records_fingerprint": b"records",
    "plan_hash": b"plan",
    "mechanism": "topdown",
    "level": "county",
    "query": "hispanic*cenrace",
}


def stream(**changes: object) -> NoiseStream:
    return derive_stream(KEY, **{**BINDING, **changes})  # type: ignore[arg-type]


def test_words_are_the_aes_ctr_key_stream() -> None:
    key_stream = Cipher(algorithms.AES(STREAM.word_key), modes.CTR(bytes(16))).encryptor().update(bytes(4096))
    assert STREAM.words(0, 2048).tobytes() == key_stream
    assert STREAM.words(13, 7).tobytes() == key_stream[26:40]


def test_extension_words_are_aes_of_coordinate_and_number() -> None:
    block = (77).to_bytes(8, "little") + (3).to_bytes(8, "little")
    encrypted = Cipher(algorithms.AES(STREAM.extension_key), modes.ECB()).encryptor().update(block)
    assert int(STREAM.extension(np.array([77], np.uint64), 3)[0]) == int.from_bytes(encrypted[:8], "little")


def test_known_answers_of_the_layout() -> None:
    assert STREAM.words(0, 4).tolist() == [37106, 46592, 18730, 53407]
    assert STREAM.words(2**40 + 3, 4).tolist() == [35560, 20840, 21566, 16534]
    assert STREAM.words(COORDINATES - 2, 2).tolist() == [56368, 19203]
    assert [int(v) for v in STREAM.extension(np.array([0, 1, 2**62], np.uint64), 0)] == [
        2341647290764380147,
        12543881709931558158,
        16152779542557766801,
    ]


@given(st.integers(0, COORDINATES - 5000), st.integers(0, 4000), st.data())
def test_any_word_is_found_at_its_coordinate(start: int, count: int, data: st.DataObject) -> None:
    words = STREAM.words(start, count)
    assert len(words) == count
    places = data.draw(st.lists(st.integers(0, count - 1), max_size=20)) if count else []
    coordinates = np.array([start + place for place in places], np.uint64)
    assert STREAM.words_at(coordinates).tolist() == [int(words[place]) for place in places]


def test_long_spans_have_no_seams() -> None:
    count = 400_001
    words = STREAM.words(3, count)
    assert np.array_equal(words, np.concatenate([STREAM.words(3, 131_077), STREAM.words(131_080, count - 131_077)]))


@pytest.mark.parametrize(("start", "count"), [(-1, 1), (0, -1), (COORDINATES, 1), (COORDINATES - 1, 2)])
def test_coordinates_outside_the_range_are_refused(start: int, count: int) -> None:
    with pytest.raises(ParameterError, match="coordinates that do not exist"):
        STREAM.words(start, count)


def test_derivation_is_hkdf_with_length_prefixed_fields() -> None:
    fields = [b"confide/v1", b"records", b"plan", b"topdown", b"county", b"hispanic*cenrace"]
    info = b"".join(len(value).to_bytes(8, "big") + value for value in fields)
    # RFC 5869 by hand: extract with a salt of zeros, expand twice.
    pseudo_random = hmac.digest(bytes(32), KEY.secret, hashlib.sha256)
    first = hmac.digest(pseudo_random, info + b"\x01", hashlib.sha256)
    second = hmac.digest(pseudo_random, first + info + b"\x02", hashlib.sha256)
    assert stream() == NoiseStream(first, second)


def test_known_answer_of_the_derivation() -> None:
    assert stream().word_key.hex() == "ce5c81f830fd84f8d1a73ad46aae82f2c7b698c1f952daf292e2e668ccf030a2"
    assert stream().words(0, 4).tolist() == [51431, 54870, 26061, 27388]


@pytest.mark.parametrize(
    "change",
    [
        {"records_fingerprint": b"recordt"},
        {"plan_hash": b"plam"},
        {"mechanism": "safetab"},
        {"level": "tract"},
        {"query": "hispanic"},
        {"level": "countyh", "query": "ispanic*cenrace"},
        {"records_fingerprint": b"recordsp", "plan_hash": b"lan"},
    ],
    ids=str,
)
def test_whatever_changes_the_noise_is_unrelated(change: dict[str, object]) -> None:
    """Unrelated: equal words are as rare as among random ones (4 are expected, and 40 would be absurd)."""
    count = 1 << 18
    assert int((stream().words(0, count) == stream(**change).words(0, count)).sum()) < 40
    other = derive_stream(ReleaseKey.choose("00" * 31 + "2b"), **BINDING)  # type: ignore[arg-type]
    assert int((stream().words(0, count) == other.words(0, count)).sum()) < 40


@pytest.mark.parametrize("change", [{"records_fingerprint": b""}, {"plan_hash": b""}], ids=str)
def test_a_stream_is_bound_to_records_and_plan(change: dict[str, object]) -> None:
    with pytest.raises(ParameterError, match="a noise stream needs the"):
        stream(**change)


def test_system_keys_are_new_and_not_chosen() -> None:
    one, other = ReleaseKey.from_system(), ReleaseKey.from_system()
    assert one.secret != other.secret
    assert len(one.secret) == 32
    assert not one.chosen
    assert KEY.chosen


def test_every_byte_of_a_key_comes_from_the_operating_system(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def given(count: int) -> bytes:
        asked.append(count)
        return bytes(range(len(asked), len(asked) + count))

    monkeypatch.setattr("secrets.token_bytes", given)
    assert ReleaseKey.from_system().secret == bytes(range(1, 33))
    assert (NoiseStream.fresh().word_key, asked) == (bytes(range(2, 34)), [32, 32, 32])


@pytest.mark.parametrize("text", ["", "00", "zz" * 32, "00" * 33])
def test_a_chosen_key_has_64_digits(text: str) -> None:
    with pytest.raises(ParameterError) as refusal:
        ReleaseKey.choose(text)
    assert "zz" not in str(refusal.value)


def test_keys_do_not_show() -> None:
    assert repr(KEY) == str(KEY) == "ReleaseKey(chosen=True)"
    assert repr(stream()) == "NoiseStream()"
    with pytest.raises(ParameterError) as refusal:
        ReleaseKey(b"secret")
    assert "secret'" not in str(refusal.value)


def test_keys_and_streams_travel_to_workers() -> None:
    assert pickle.loads(pickle.dumps(stream())) == stream()
    assert pickle.loads(pickle.dumps(KEY)) == KEY


def test_a_fresh_stream_belongs_to_nobody_and_is_never_the_same() -> None:
    one, other = NoiseStream.fresh(), NoiseStream.fresh()
    assert one.words(0, 64).tolist() != other.words(0, 64).tolist()
    assert one.word_key != one.extension_key
    assert "key" not in repr(one)


def test_a_study_can_be_repeated_with_its_seed_and_no_release_has_its_noise() -> None:
    seed = "0f" * 32
    study = NoiseStream.fresh(bytes.fromhex(seed))
    assert study == NoiseStream.fresh(bytes.fromhex(seed)) != NoiseStream.fresh("another")
    labels = dict.fromkeys(("mechanism", "level", "query"), "")
    released = derive_stream(ReleaseKey.choose(seed), records_fingerprint=b"r", plan_hash=b"p", **labels)
    assert study != released
