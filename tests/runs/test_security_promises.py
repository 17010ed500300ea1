"""Promises of SECURITY.md that no other test holds by itself."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

import confide
from confide.confidential import Confidential
from confide.releases.folder import read_manifest

SECRET = "CANARY42"


def test_a_confidential_value_shows_nothing_and_decides_nothing(caplog: pytest.LogCaptureFixture) -> None:
    value = Confidential({SECRET: 1234567})
    logging.getLogger("a log").warning("%s %r", value, value)
    shown = [repr(value), str(value), f"{value}", f"{value!r:>40}", f"{[value]}", "%s" % (value,), caplog.text]  # noqa: UP031
    assert not [text for text in shown if SECRET in text or "1234567" in text]
    for use in (bool, hash, list, len, int, json.dumps, lambda one: one == one, lambda one: one != 1):
        with pytest.raises(TypeError) as error:
            use(value)
        assert SECRET not in str(error.value)
    with pytest.raises(ValueError, match="say why"):
        value.reveal("")
    assert value.reveal("the test itself") == {SECRET: 1234567}


def test_a_destroyed_key_is_overwritten_in_its_own_file(sealed_copy: Path) -> None:
    """Whoever has the file open reads no key any more; copies that others made are theirs."""
    key = sealed_copy / "small/confidential/key"
    with key.open("rb") as file:
        before = file.read()
        assert len(before) >= 32
        confide.destroy_key(sealed_copy / "small")
        assert not key.exists()
        file.seek(0)
        after = file.read()
    assert len(after) == len(before)
    shared = sum(one == other for one, other in zip(before, after, strict=True))
    assert shared < len(before) / 4


def test_the_certificate_says_what_holds_for_four_records(sealed_project: Path) -> None:
    release = sealed_project / "small/release"
    (words,) = (words for words in read_manifest(release)["privacy"]["in_words"] if "4 records" in words)
    assert "16 times as large" in words
    page = (release / "certificate.html").read_text(encoding="utf-8")
    assert "for 4 records, rho is at most" in " ".join(page.split())
