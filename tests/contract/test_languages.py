"""Pages in other languages, for every mechanism: the same figures, and no sentence of another language."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from confide.messages import LANGUAGES, messages
from tests.contract.kit import MANIFEST, Project, mechanism_of

ENGLISH = re.compile(r"\b(the|of|and|is|are|which|with|that|from|every|each|has|have|not|its)\b")
"""Words that no German or French sentence has."""


def text_of(page: str) -> str:
    page = re.sub(r"<style>.*?</style>|<code>.*?</code>|<[^>]+>", " ", page, flags=re.DOTALL)
    return re.sub(r"[ \t\n]+", " ", html.unescape(page))


def texts(value: Any) -> Iterator[str]:
    """Every text of a manifest: what comes from the office and is not translated."""
    if isinstance(value, dict):
        yield from value
        for inner in value.values():
            yield from texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner)
    elif isinstance(value, str):
        yield value


@pytest.mark.parametrize("language", [language for language in LANGUAGES if language != "en"])
def test_pages_have_no_sentence_of_another_language(sealed: Project, language: str) -> None:
    manifest = json.loads((sealed.release / MANIFEST).read_text(encoding="utf-8"))
    mechanism = mechanism_of(sealed.name)
    (english,) = mechanism.documents(manifest).values()
    (page,) = mechanism.documents(manifest | {"publication": {"language": language}}).values()
    assert f'<html lang="{language}">' in page
    text = text_of(page)
    pieces = {
        piece.strip()
        for key, message in messages("en").texts.items()
        for piece in re.split(r"\{\w+\}|`[^`]+`|\*\*", message)
        if len(piece) > 15 and piece not in messages(language).texts[key]
    }
    assert [piece for piece in pieces if piece in text] == []
    office = {each for key, part in manifest.items() if key != "privacy" for each in texts(part)}
    for own in sorted(office, key=len, reverse=True):
        if set(" _-") & set(own):
            for form in (own, own.replace("_", " ").replace("-", " ")):
                text = re.sub(re.escape(form), "", text, flags=re.IGNORECASE)
    assert ENGLISH.findall(text) == []
    # The same numbers, whatever their marks: thousands and decimals are the language's own.
    numbers = [sorted(_digits(number) for number in NUMBER.findall(text_of(one))) for one in (english, page)]
    assert numbers[0] == numbers[1]


NUMBER = re.compile(r"\d[\d.,\u202f]*")


def _digits(number: str) -> str:
    return re.sub(r"\D", "", number)
