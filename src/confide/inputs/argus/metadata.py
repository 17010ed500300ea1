"""The description of a table of tau-ARGUS (.rda), and its cells (.tab): one line for each, no header.

====================  =================================================================================
``<SEPARATOR>``       between the values of a line; default ``;``
``<SAFE>`` …          the letters of statuses: ``<SAFE>``, ``<UNSAFE>``, ``<PROTECT>``
``<RECODEABLE>``      a variable; ``<TOTCODE>``, ``<HIERCODELIST>`` and ``<HIERLEADSTRING>`` or ``<HIERLEVELS>``
``<NUMERIC>``         the figures; with ``<SHADOW>``, ``<COST>``, ``<LOWERPL>`` or ``<UPPERPL>`` something else
``<FREQUENCY>``       the number of contributors
``<MAXSCORE>``        a largest contribution; the first such variable is the largest one
``<STATUS>``          the status of the cell
====================  =================================================================================
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from confide.inputs.argus.argus_lines import LEAD, read_lines, refused, unquoted

Kind = Literal["variable", "value", "shadow", "cost", "lower", "upper", "contributors", "largest", "status", "other"]

Decided = Literal["s", "u", "z"]
"""Safe, unsafe, or protected."""

NUMERIC: Mapping[str, Kind] = {
    "<SHADOW>": "shadow",
    "<COST>": "cost",
    "<COSTVAR>": "cost",
    "<LOWERPL>": "lower",
    "<UPPERPL>": "upper",
}
KINDS: Mapping[str, Kind] = {
    "<RECODEABLE>": "variable",
    "<RECODABLE>": "variable",
    "<FREQUENCY>": "contributors",
    "<MAXSCORE>": "largest",
    "<STATUS>": "status",
    "<WEIGHT>": "other",
}
PASSED_OVER = {
    *("<HIERARCHICAL>", "<DISTANCE>", "<CODELIST>", "<DECIMALS>", "<TRUNCABLE>", "<REQUEST>", "<HOLDING>", "<MISSING>"),
}
WORD = re.compile(r"<[^>]*>|\"[^\"]*\"|“[^”]*”|[^\s<]+")
"""A keyword, a text in quotation marks, or a word."""
LETTERS: Mapping[str, Decided] = {"<SAFE>": "s", "<UNSAFE>": "u", "<PROTECT>": "z"}


@dataclass(frozen=True)
class ArgusVariable:
    """A column of a table: what it is, and for a variable its total and its hierarchy."""

    name: str
    kind: Kind = "other"
    total: str = ""
    hierarchy: str | None = None
    """The file of its hierarchy."""
    lead: str = LEAD
    digits: tuple[int, ...] = ()
    """Or: so many characters of a code for each level."""
    line: int = 0


@dataclass(frozen=True)
class ArgusMetadata:
    """The columns of a table in their order."""

    columns: tuple[ArgusVariable, ...]
    separator: str = ";"
    statuses: Mapping[str, Decided] = field(default_factory=lambda: {"S": "s", "U": "u", "P": "z"})
    """What the letters of the file mean: ``s`` safe, ``u`` unsafe, ``z`` protected."""

    def of_kind(self, kind: Kind) -> list[ArgusVariable]:
        """The columns of one kind, in their order."""
        return [column for column in self.columns if column.kind == kind]


def read_metadata(path: str | Path) -> ArgusMetadata:
    """The description of a table.

    Args:
        path: The .rda file.

    Returns:
        Its columns, and what separates them.

    Raises:
        InputError: With the line that cannot be read.
    """
    path = Path(path)
    columns: list[dict[str, object]] = []
    separator = ";"
    letters: dict[Decided, str] = {"s": "S", "u": "U", "z": "P"}
    for number, text in enumerate(read_lines(path), start=1):
        words: list[str] = WORD.findall(text)
        if not words:
            continue
        keyword = words[0].upper()
        if not keyword.startswith("<"):
            columns.append({"name": unquoted(words[0]), "line": number})
        elif keyword == "<SEPARATOR>":
            separator = _one(path, number, words)
            if len(separator) != 1:
                raise refused(path, number, "the separator is no single character", repr(separator), "such as , or ;")
        elif keyword in LETTERS:
            letters[LETTERS[keyword]] = _one(path, number, words)
        elif not columns:
            raise refused(path, number, "a property stands before any variable", keyword, "the name of a variable")
        else:
            _property(path, number, [keyword, *words[1:]], columns[-1])
    if not columns:
        raise refused(path, None, "the metadata describe no variable", "no names", "a name on a line of its own")
    names = [str(column["name"]) for column in columns]
    twice = next((at for at, name in enumerate(names) if name in names[:at]), None)
    if twice is not None:
        line = int(str(columns[twice]["line"]))
        raise refused(path, line, "two variables have one name", repr(names[twice]), "names that differ")
    if len({letter.upper() for letter in letters.values()}) < len(letters):
        raise refused(path, None, "two statuses have one letter", str(sorted(letters.values())), "letters that differ")
    read = tuple(ArgusVariable(**column) for column in columns)  # type: ignore[arg-type]
    return ArgusMetadata(read, separator, {letter: meaning for meaning, letter in letters.items()})


def _one(path: Path, number: int, words: Sequence[str]) -> str:
    if len(words) < 2:
        raise refused(path, number, f"{words[0]} says nothing", words[0], "a text after it")
    return unquoted(words[1]) or words[1].strip("\"'")


def _property(path: Path, number: int, words: list[str], column: dict[str, object]) -> None:
    keyword = words[0]
    if keyword == "<NUMERIC>":
        column["kind"] = NUMERIC.get(words[1].upper(), "value") if len(words) > 1 else "value"
    elif keyword in NUMERIC:
        column["kind"] = NUMERIC[keyword]
    elif keyword in KINDS:
        column["kind"] = KINDS[keyword]
    elif keyword == "<TOTCODE>":
        column["total"] = _one(path, number, words)
    elif keyword == "<HIERCODELIST>":
        column["hierarchy"] = _one(path, number, words)
    elif keyword == "<HIERLEADSTRING>":
        column["lead"] = _one(path, number, words)
    elif keyword == "<HIERLEVELS>":
        if len(words) < 2 or not all(word.isdigit() for word in words[1:]):
            raise refused(path, number, "the levels are no numbers", " ".join(words[1:]), "such as 2 1 1")
        column["digits"] = tuple(int(word) for word in words[1:] if int(word))
    elif keyword not in PASSED_OVER:
        raise refused(path, number, "the keyword is unknown for a table", keyword, "one that tables of tau-ARGUS have")


def read_tab(path: str | Path, metadata: ArgusMetadata) -> dict[str, list[str]]:
    """The cells of a table, a list of texts for each column.

    Args:
        path: The .tab file.
        metadata: What its columns are.

    Returns:
        For each column of the metadata its values, without spaces around them.
    """
    path = Path(path)
    lines = read_lines(path)
    rows: list[list[str]] = []
    for number, values in enumerate(csv.reader(lines, delimiter=metadata.separator), start=1):
        if not values or (len(values) == 1 and not values[0].strip()):
            continue
        if len(values) != len(metadata.columns):
            found, expected = f"{len(values)} values", f"{len(metadata.columns)}, as the metadata say"
            raise refused(path, number, "a line has more or fewer values than there are variables", found, expected)
        rows.append(values)
    if not rows:
        raise refused(path, None, "the table has no cells", "no lines", "a line for each cell")
    return {
        column.name: [text.strip() for text in texts]
        for column, texts in zip(metadata.columns, zip(*rows, strict=True), strict=True)
    }


def levels_of_digits(codes: Sequence[str], digits: Sequence[int], total: str) -> dict[str, list[str]]:
    """The hierarchy of codes by their first characters: ``2 1`` says that 012 is a part of 01.

    Args:
        codes: All codes of the table.
        digits: For each level how many characters it adds.
        total: The code of the total.

    Returns:
        The parts of each code that has some.
    """
    parts: dict[str, list[str]] = {total: []}
    lengths = [sum(digits[: at + 1]) for at in range(len(digits))]
    known = {total}
    for code in dict.fromkeys(code for code in codes if code not in (total, "")):
        above = total
        for length in lengths:
            part = code[:length]
            if part not in known:
                known.add(part)
                parts.setdefault(above, []).append(part)
            above = part
            if length >= len(code):
                break
    return parts
