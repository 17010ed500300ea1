"""A-priori information of tau-ARGUS (.hst, .hist): what is known of single cells before any rule.

A line has the codes of a cell and then a letter, with numbers after it:

========================  ===================================================================
``u``                     the cell is unsafe: hidden for its own sake
``u, lower, upper``       the same, with its protection levels
``s``                     the cell is safe: no rule makes it unsafe (a waiver)
``z`` or ``p``            the cell is protected: never hidden
``c, cost``               what it costs to hide the cell
``pl, lower, upper``      its protection levels
========================  ===================================================================
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from confide.inputs.argus.argus_lines import read_lines, refused

What = Literal["u", "s", "z", "c", "pl"]
LETTERS: dict[str, What] = {"u": "u", "s": "s", "z": "z", "p": "z", "c": "c", "pl": "pl"}
NUMBERS: dict[What, tuple[int, ...]] = {"u": (0, 2), "s": (0,), "z": (0,), "c": (1,), "pl": (2,)}


@dataclass(frozen=True)
class AprioriLine:
    """What is said of one cell."""

    codes: tuple[str, ...]
    what: What
    numbers: tuple[str, ...]
    line: int


def read_apriori(path: str | Path, variables: int, separator: str = ",") -> list[AprioriLine]:
    """What is known of single cells.

    Args:
        path: The file.
        variables: How many variables the table has.
        separator: What stands between the values of a line.

    Returns:
        The lines in their order.

    Raises:
        InputError: With the line that cannot be read.
    """
    path = Path(path)
    read: list[AprioriLine] = []
    for number, values in enumerate(csv.reader(read_lines(path), delimiter=separator), start=1):
        texts = [text.strip() for text in values]
        if not any(texts):
            continue
        while texts and not texts[-1]:
            texts.pop()
        if len(texts) <= variables:
            what, expected = "a line has no status after its codes", f"{variables} codes and a letter"
            raise refused(path, number, what, f"{len(texts)} values", expected)
        letter = LETTERS.get(texts[variables].lower())
        if letter is None:
            what, expected = "a status is none of tau-ARGUS", "u, s, z, p, c or pl after the codes"
            raise refused(path, number, what, repr(texts[variables]), expected)
        numbers = tuple(texts[variables + 1 :])
        if len(numbers) not in NUMBERS[letter] or not all(_is_number(text) for text in numbers):
            expected = " or ".join(str(times) for times in NUMBERS[letter]) + " numbers after it"
            raise refused(path, number, f"the numbers after {letter!r} cannot be read", None, expected)
        read.append(AprioriLine(tuple(texts[:variables]), letter, numbers, number))
    return read


def _is_number(text: str) -> bool:
    try:
        return float(text) >= 0
    except ValueError:
        return False
