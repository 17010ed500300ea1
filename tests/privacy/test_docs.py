"""The figures in the pages are those that the code prints."""

import doctest
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_prints_what_it_says() -> None:
    result = doctest.testfile(str(DOCS / "concepts" / "privacy.md"), module_relative=False, encoding="utf-8")
    assert result.attempted > 10
    assert result.failed == 0


def test_every_section_that_the_code_refers_to_is_there() -> None:
    proofs = (DOCS / "proofs" / "accounting.md").read_text(encoding="utf-8")
    for heading in (
        "## 1.",
        "## 2.",
        "## 3.",
        "Lemma 3",
        "Lemma 5",
        "## 4.",
        "### 4.3",
        "## 5.",
        "### 5.1",
        "Lemma 8",
        "## 6.",
    ):
        assert heading in proofs
