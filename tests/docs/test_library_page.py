"""The page on the library: its examples run, and each of the four tasks takes four lines."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "library.md"


def test_the_examples_of_the_page_are_true() -> None:
    failed, tried = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert failed == 0
    assert tried >= 13


def test_four_tasks_take_four_lines_each() -> None:
    tasks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(tasks) == 4
    assert all(task.count(">>> ") <= 4 for task in tasks)
