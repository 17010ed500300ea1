"""What the documentation shows is what the code does."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "concepts" / "noise.md"


def test_the_examples_of_the_page_are_true() -> None:
    failed, tried = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert (failed, tried > 15) == (0, True)


@pytest.mark.parametrize("word", ["confidence interval", "error margin", "margin of error"])
def test_the_page_keeps_to_our_words(word: str) -> None:
    assert word not in PAGE.read_text(encoding="utf-8").lower()
