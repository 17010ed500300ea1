"""What the documentation of the least squares shows is what the code does."""

from __future__ import annotations

import doctest
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "concepts" / "estimation.md"


def test_the_examples_of_the_page_are_true() -> None:
    failed, tried = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert (failed, tried > 10) == (0, True)
