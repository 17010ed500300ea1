"""Files of tau-ARGUS and of sdcTable: tables (.tab with .rda), records (.asc with .rda), hierarchies (.hrc), labels
(.cdl), a-priori statuses (.hst), problems (.jj).

They are read as they are written by these programs and by their R interfaces (``createArgusInput``, ``writeJJFormat``,
``rtauargus``); a line that cannot be read is a finding with its number. For users: ``docs/concepts/suppression.md``.

The description of a file of tau-ARGUS (.rda), and what it describes: the cells of a table (.tab), one line for each,
or records (.asc), whose values stand at fixed places of a line; neither has a header.

====================  =================================================================================
``NAME 1 2 99``       a variable; of records where its values begin and how wide they are; codes that say nothing
``<SEPARATOR>``       between the values of a line; of a table by default ``;``
``<SAFE>`` …          the letters of statuses: ``<SAFE>``, ``<UNSAFE>``, ``<PROTECT>``
``<RECODEABLE>``      a variable; ``<TOTCODE>``, ``<HIERCODELIST>`` and ``<HIERLEADSTRING>`` or ``<HIERLEVELS>``,
                      and the file of its labels, ``<CODELIST>``
``<NUMERIC>``         the figures; with ``<SHADOW>``, ``<COST>``, ``<LOWERPL>`` or ``<UPPERPL>`` something else
``<FREQUENCY>``       the number of contributors
``<MAXSCORE>``        a largest contribution; the first such variable is the largest one
``<STATUS>``          the status of the cell
====================  =================================================================================
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Literal

from confide.errors import CONFIDENTIAL, InputError, Place
from confide.file_system import write_text

LEAD = "@"

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
TEXTS = {"<TOTCODE>": "total", "<HIERCODELIST>": "hierarchy", "<CODELIST>": "labels", "<HIERLEADSTRING>": "lead"}
PASSED_OVER = {"<HIERARCHICAL>", "<DISTANCE>", "<TRUNCABLE>", "<REQUEST>", "<HOLDING>", "<MISSING>"}
WORD = re.compile(r"<[^>]*>|\"[^\"]*\"|“[^”]*”|[^\s<]+")
"""A keyword, a text in quotation marks, or a word."""
STATUS_KEYWORDS: Mapping[str, Decided] = {"<SAFE>": "s", "<UNSAFE>": "u", "<PROTECT>": "z"}


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
    labels: str | None = None
    """The file of the labels of its codes."""
    start: int | None = None
    """Of records: the place of its first character in a line, from 1."""
    width: int = 0
    missing: tuple[str, ...] = ()
    """Codes that say that nothing is known."""
    decimals: int = 0
    line: int = 0


@dataclass(frozen=True)
class ArgusMetadata:
    """The columns of a table in their order."""

    columns: tuple[ArgusVariable, ...]
    separator: str = ";"
    """None is said of records at fixed places."""
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
    separator, parted = ";", False
    letters: dict[Decided, str] = {"s": "S", "u": "U", "z": "P"}
    for number, text in enumerate(read_lines(path), start=1):
        words: list[str] = WORD.findall(text)
        if not words:
            continue
        keyword = words[0].upper()
        if not keyword.startswith("<"):
            columns.append(_named(words, number, fixed=not parted))
        elif keyword == "<SEPARATOR>":
            separator, parted = _one(path, number, words), True
            if len(separator) != 1:
                raise refused("argus-file/separator", path, number, found=repr(separator))
        elif keyword in STATUS_KEYWORDS:
            letters[STATUS_KEYWORDS[keyword]] = _one(path, number, words)
        elif not columns:
            raise refused("argus-file/property", path, number, found=keyword)
        else:
            _property(path, number, [keyword, *words[1:]], columns[-1])
    if not columns:
        raise refused("argus-file/metadata-describe-variable", path)
    names = [str(column["name"]) for column in columns]
    twice = next((at for at, name in enumerate(names) if name in names[:at]), None)
    if twice is not None:
        line = int(str(columns[twice]["line"]))
        raise refused("argus-file/name", path, line, found=repr(names[twice]))
    if len({letter.upper() for letter in letters.values()}) < len(letters):
        raise refused("argus-file/statuses", path, found=str(sorted(letters.values())))
    read = tuple(ArgusVariable(**column) for column in columns)  # type: ignore[arg-type]
    return ArgusMetadata(read, separator, {letter: meaning for meaning, letter in letters.items()})


def _named(words: Sequence[str], line: int, *, fixed: bool) -> dict[str, object]:
    """What the line with the name of a variable says of it."""
    rest = [unquoted(word) for word in words[1:]]
    column: dict[str, object] = {"name": unquoted(words[0]), "line": line}
    if fixed and len(rest) >= 2 and rest[0].isdigit() and rest[1].isdigit():
        column |= {"start": int(rest[0]), "width": int(rest[1])}
        rest = rest[2:]
    return column | ({"missing": tuple(rest)} if rest else {})


def _one(path: Path, number: int, words: Sequence[str]) -> str:
    if len(words) < 2:
        raise refused("argus-file/nothing", path, number, found=words[0], word=words[0])
    return unquoted(words[1]) or words[1].strip("\"'")


def _property(path: Path, number: int, words: list[str], column: dict[str, object]) -> None:
    keyword = words[0]
    if keyword == "<NUMERIC>":
        column["kind"] = NUMERIC.get(words[1].upper(), "value") if len(words) > 1 else "value"
    elif keyword in NUMERIC:
        column["kind"] = NUMERIC[keyword]
    elif keyword in KINDS:
        column["kind"] = KINDS[keyword]
    elif keyword in TEXTS:
        column[TEXTS[keyword]] = _one(path, number, words)
    elif keyword == "<DECIMALS>":
        digits = _one(path, number, words)
        column["decimals"] = int(digits) if digits.isdigit() else 0
    elif keyword == "<HIERLEVELS>":
        if len(words) < 2 or not all(word.isdigit() for word in words[1:]):
            raise refused("argus-file/levels", path, number, found=" ".join(words[1:]))
        column["digits"] = tuple(int(word) for word in words[1:] if int(word))
    elif keyword not in PASSED_OVER:
        raise refused("argus-file/keyword", path, number, found=keyword)


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
            raise refused("argus-file/fewer", path, number, values=len(values), columns=len(metadata.columns))
        rows.append(values)
    if not rows:
        raise refused("argus-file/table-cells", path)
    return {
        column.name: [text.strip() for text in texts]
        for column, texts in zip(metadata.columns, zip(*rows, strict=True), strict=True)
    }


def record_rows(path: str | Path, encoding: str = "utf-8") -> Iterator[list[str]]:
    """Records of tau-ARGUS (.asc) as its metadata beside them (.rda) describe them: the names first, then row by row.

    Args:
        path: The .asc file.
        encoding: Its encoding; a character is one place of a line.

    Raises:
        InputError: The metadata give a variable no place, or a line ends before its last variable begins.
        UnicodeError: The file is in another encoding.
    """
    path = Path(path)
    metadata_file = path.with_suffix(".rda")
    metadata = read_metadata(metadata_file)
    columns = metadata.columns
    yield [column.name for column in columns]
    placed = [column for column in columns if column.start is not None]
    if placed and len(placed) < len(columns):
        name = next(column for column in columns if column.start is None)
        raise refused("argus-file/place", metadata_file, name.line, found=repr(name.name))
    begins = max((column.start or 0 for column in columns), default=0)
    with path.open(encoding=encoding, newline=None) as file:
        lines = (line.rstrip("\r\n") for line in file)
        if not placed:
            yield from _parted(path, csv.reader(lines, delimiter=metadata.separator), len(columns))
            return
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            if len(line) < begins:
                raise refused("argus-file/last", path, number, line=len(line), begins=begins)
            yield [line[(column.start or 1) - 1 :][: column.width].strip() for column in columns]


def _parted(path: Path, lines: Iterable[list[str]], columns: int) -> Iterator[list[str]]:
    """The values of lines with something between them."""
    for number, values in enumerate(lines, start=1):
        if not any(text.strip() for text in values):
            continue
        if len(values) != columns:
            raise refused("argus-file/fewer", path, number, values=len(values), columns=columns)
        yield [text.strip() for text in values]


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


# The same, written.


KEYWORDS: Mapping[Kind, tuple[str, ...]] = {
    "variable": ("<RECODEABLE>",),
    "value": ("<NUMERIC>",),
    "shadow": ("<NUMERIC> <SHADOW>",),
    "contributors": ("<FREQUENCY>",),
    "status": ("<STATUS>",),
    "other": (),
}


def metadata_text(metadata: ArgusMetadata) -> str:
    """The description of a file as :func:`read_metadata` reads it: of a table, or, where its variables have places, of
    records."""
    lines = []
    if not any(column.start for column in metadata.columns):
        lines.append(f'<SEPARATOR> "{metadata.separator}"')
    if metadata.of_kind("status"):
        letters = {meaning: letter for letter, meaning in metadata.statuses.items()}
        lines += [f'{keyword} "{letters[meaning]}"' for keyword, meaning in STATUS_KEYWORDS.items()]
    for column in metadata.columns:
        place = [] if column.start is None else [str(column.start), str(column.width)]
        lines.append(" ".join([column.name, *place, *(f'"{code}"' for code in column.missing)]))
        lines += [f"  {keyword}" for keyword in KEYWORDS[column.kind]]
        lines += [f'  <TOTCODE> "{column.total}"'] if column.total else []
        lines += [f'  <CODELIST> "{column.labels}"'] if column.labels else []
        if column.hierarchy is not None:
            lines += [
                "  <HIERARCHICAL>",
                f'  <HIERCODELIST> "{column.hierarchy}"',
                f'  <HIERLEADSTRING> "{column.lead}"',
            ]
        lines += [f"  <DECIMALS> {column.decimals}"] if column.kind in ("value", "shadow") else []
    return "\n".join(lines) + "\n"


def tab_text(rows: Iterable[Sequence[str]], separator: str) -> str:
    """The cells of a table as :func:`read_tab` reads them."""
    content = io.StringIO()
    csv.writer(content, delimiter=separator, lineterminator="\n").writerows(rows)
    return content.getvalue()


def free_separator(texts: Iterable[str]) -> str:
    """What can stand between values without being part of one: a semicolon where it can be."""
    used = set().union(*map(set, texts))
    return next((each for each in (";", ",", "|", "\t", "#") if each not in used), ";")


def column_names(wanted: Iterable[str]) -> list[str]:
    """Names that tau-ARGUS takes: letters, digits and low lines, each once whatever the case.

    >>> column_names(["age:broad", "age broad", "count"])
    ['age_broad', 'age_broad_2', 'count']
    """
    names: list[str] = []
    for number, text in enumerate(wanted, start=1):
        name = re.sub(r"\W", "_", text)
        taken = {other.lower() for other in names}
        names.append(name if name.lower() not in taken else f"{name}_{number}")
    return names


# The small files of tau-ARGUS that lie beside a table, and the one way in which such a file is refused.
#
# Hierarchies (.hrc) have a code on each line, as many leading strings before it as it is deep; code lists (.cdl) have a
# code, a comma, and its label. A-priori information (.hst, .hist) is what is known of single cells before any rule: the
# codes of a cell and then a letter, with numbers after it:
#
# ========================  ===================================================================
# ``u``                     the cell is unsafe: hidden for its own sake
# ``u, lower, upper``       the same, with its protection levels
# ``s``                     the cell is safe: no rule makes it unsafe (a waiver)
# ``z`` or ``p``            the cell is protected: never hidden
# ``c, cost``               what it costs to hide the cell
# ``pl, lower, upper``      its protection levels
# ========================  ===================================================================


def read_lines(path: Path) -> list[str]:
    """The lines of a text file in UTF-8 or, as Windows writes it, in Latin 1; without their ends."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise refused("argus-file/beside", path) from None
    except OSError as error:
        found = error.strerror or type(error).__name__
        raise refused("argus-file/read", path, found=found) from None
    if b"\0" in content:
        raise refused("argus-file/text", path)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    return text.splitlines()


def refused(key: str, path: Path, line: int | None = None, /, found: str = CONFIDENTIAL, **facts: object) -> InputError:
    """A file of tau-ARGUS that cannot be read. What is in a table is confidential."""
    return InputError(key, where=Place(file=path.name, line=line), found=found, **facts)


def unquoted(text: str) -> str:
    """A text without the quotation marks around it."""
    text = text.strip()
    for mark in ('"', "'", "“", "”"):
        if text.startswith(mark):
            return text.strip("\"'“”")
    return text


# Hierarchies and labels.


def read_hierarchy(path: str | Path, total: str, lead: str = LEAD) -> dict[str, list[str]]:
    """For the total and every other code with parts, these parts.

    Args:
        path: The file.
        total: The code of the total, which the file does not have.
        lead: What is before a code once for each level that it is below the parts of the total.

    Returns:
        The parts of each code that has some, in the order of the file.

    Raises:
        InputError: With the line: a code deeper by more than one, or twice, or an empty file.
    """
    path = Path(path)
    parts: dict[str, list[str]] = {total: []}
    chain = [total]
    seen = {total}
    if not lead:
        raise refused("argus-file/leading", path)
    for number, text in enumerate(read_lines(path), start=1):
        rest, depth = text.strip(), 0
        if not rest:
            continue
        while rest.startswith(lead):
            rest, depth = rest[len(lead) :], depth + 1
        code = rest.strip()
        if not code:
            raise refused("argus-file/line-code", path, number, found=repr(text.strip()), lead=lead)
        if depth >= len(chain):
            raise refused("argus-file/deeper", path, number, its_code=code, depth=depth)
        if code in seen:
            raise refused("argus-file/code-hierarchy", path, number, found=repr(code))
        seen.add(code)
        chain = [*chain[: depth + 1], code]
        parts.setdefault(chain[depth], []).append(code)
    if not parts[total]:
        raise refused("argus-file/hierarchy-codes", path)
    return parts


def hierarchy_text(parts: Mapping[str, Sequence[str]], total: str, lead: str = LEAD) -> str:
    """A hierarchy as :func:`read_hierarchy` reads it.

    Args:
        parts: The parts of the total and of every other code that has some.
        total: The code of the total.
        lead: What is before a code once for each level that it is below the parts of the total.

    >>> hierarchy_text({"_T": ["N", "S"], "N": ["N1", "N2"]}, "_T").splitlines()
    ['N', '@N1', '@N2', 'S']
    """
    lines: list[str] = []
    waiting = [(0, code) for code in reversed(parts[total])]
    while waiting:
        depth, code = waiting.pop()
        lines.append(lead * depth + code)
        waiting += [(depth + 1, part) for part in reversed(parts.get(code, ()))]
    return "\n".join(lines) + "\n"


def free_lead(codes: Iterable[str]) -> str:
    """A leading string that no code begins with: ``@`` where it can be."""
    every = list(codes)
    return next(lead for lead in _leads() if not any(code.startswith(lead[0]) for code in every))


def _leads() -> Iterator[str]:
    yield from (LEAD, "$", "%", "~", "^", "!")
    yield from map(chr, range(0x2190, 0x2200))


def read_labels(path: str | Path) -> dict[str, str]:
    """For each code of a code list its label; where a label has a comma, all that follows the first.

    Raises:
        InputError: With the line: a code twice, or no comma.
    """
    path = Path(path)
    labels: dict[str, str] = {}
    for number, text in enumerate(read_lines(path), start=1):
        if not text.strip():
            continue
        code, comma, label = text.partition(",")
        code, label = unquoted(code), unquoted(label)
        if not comma or not code:
            raise refused("argus-file/label", path, number, found=repr(text.strip()[:40]))
        if code in labels:
            raise refused("argus-file/labels", path, number, found=repr(code))
        labels[code] = label or code
    return labels


# What is known of single cells before any rule.


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
        separator: What is between the values of a line.

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
            raise refused("argus-file/line-status-after", path, number, texts=len(texts), variables=variables)
        letter = LETTERS.get(texts[variables].lower())
        if letter is None:
            raise refused("argus-file/tau", path, number, found=repr(texts[variables]))
        numbers = tuple(texts[variables + 1 :])
        if len(numbers) not in NUMBERS[letter] or not all(_is_number(text) for text in numbers):
            raise refused(
                "argus-file/numbers-after-read",
                path,
                number,
                letter=letter,
                number=" or ".join(str(times) for times in NUMBERS[letter]),
            )
        read.append(AprioriLine(tuple(texts[:variables]), letter, numbers, number))
    return read


def _is_number(text: str) -> bool:
    try:
        return float(text) >= 0
    except ValueError:
        return False


# The exchange format of solvers for cell suppression (.jj): cells one by one, and the sums between them.
#
# ::
#
#     0
#     4                                                   the number of cells
#     0 20 20 s 0 40 0 0 0                                number, figure, cost, status, bounds, levels
#     1 3 3 u 0 40 1 1 0
#     …
#     1                                                   the number of sums
#     0 3 : 0 (-1) 1 (1) 2 (1)                            right side, number of terms, terms
#
# The status is ``u`` (unsafe), ``s`` (safe), ``z`` (never hidden), or ``m`` (hidden for others). The bounds are what
# anybody knows of the figure beforehand, the levels how far its interval must reach: below, above, and in all. As
# sdcTable writes it (``writeJJFormat``) there is no column of statuses: cells with a level are unsafe then.


Status = Literal["u", "s", "z", "m"]
STATUSES: dict[str, Status] = {"u": "u", "s": "s", "z": "z", "m": "m", "x": "m"}
TERM = re.compile(r"(\d+)\s*\(\s*([+-]?\d+(?:\.0*)?)\s*\)")
FIELDS = 9


@dataclass(frozen=True)
class JJCell:
    """One cell, its fields in the order of a line."""

    number: int
    value: Decimal
    cost: Decimal
    status: Status
    low: Decimal
    high: Decimal
    lower: Decimal
    upper: Decimal
    sliding: Decimal


@dataclass(frozen=True)
class JJSum:
    """Cells that add up: coefficient times figure, together the right side."""

    right: Decimal
    terms: tuple[tuple[int, int], ...]
    """The number of a cell, and its coefficient."""


@dataclass(frozen=True)
class JJProblem:
    """All cells and all sums of a problem. Confidential."""

    cells: tuple[JJCell, ...] = field(repr=False)
    sums: tuple[JJSum, ...] = field(repr=False)


def read_jj(path: str | Path) -> JJProblem:
    """A problem in the exchange format.

    Args:
        path: The .jj file.

    Returns:
        Its cells and sums. Every sum was checked to hold.

    Raises:
        InputError: With the line that cannot be read, or whose cells do not add up.
    """
    path = Path(path)
    lines = iter([(number, text) for number, text in enumerate(read_lines(path), start=1) if text.strip()])
    number, text = _next(path, lines, "the line 0")
    if text.split() != ["0"]:
        raise refused("argus-file/begin", path, number, found=repr(text.strip()[:20]))
    cells: dict[int, JJCell] = {}
    for _ in range(_count(path, lines, "cells")):
        number, text = _next(path, lines, "a cell")
        cell = _cell(path, number, text)
        if cell.number in cells:
            raise refused("argus-file/cell", path, number, found=str(cell.number))
        cells[cell.number] = cell
    sums = [_sum(path, *_next(path, lines, "a sum"), cells) for _ in range(_count(path, lines, "sums"))]
    more = next(lines, None)
    if more is not None:
        raise refused("argus-file/lines", path, more[0])
    return JJProblem(tuple(cells.values()), tuple(sums))


def write_jj(problem: JJProblem, path: str | Path) -> None:
    """Writes a problem in the exchange format. CONFIDENTIAL: the file has every figure.

    Args:
        problem: Cells and sums.
        path: The file; it appears whole or not at all.
    """
    lines = ["0", str(len(problem.cells))]
    lines += [" ".join(_plain(value) for value in astuple(cell)) for cell in problem.cells]
    lines.append(str(len(problem.sums)))
    for each in problem.sums:
        terms = " ".join(f"{number} ({coefficient})" for number, coefficient in each.terms)
        lines.append(f"{_plain(each.right)} {len(each.terms)} : {terms}")
    write_text(Path(path), "\n".join(lines) + "\n")


def _plain(value: Decimal | int | str) -> str:
    text = format(value, "f") if isinstance(value, Decimal) else str(value)
    return text.rstrip("0").rstrip(".") if "." in text else text


Lines = Iterator[tuple[int, str]]


def _next(path: Path, lines: Lines, what: str) -> tuple[int, str]:
    line = next(lines, None)
    if line is None:
        raise refused("argus-file/early", path, expected=what)
    return line


def _count(path: Path, lines: Lines, what: str) -> int:
    number, text = _next(path, lines, f"the number of {what}")
    if not text.strip().isdigit():
        raise refused("argus-file/number-read", path, number, what=what)
    return int(text)


def _decimals(path: Path, line: int, texts: Sequence[str]) -> list[Decimal]:
    try:
        numbers = [Decimal(text) for text in texts]
    except InvalidOperation:
        numbers = []
    if len(numbers) != len(texts) or not all(number.is_finite() for number in numbers):
        raise refused("argus-file/figure-cost-bounds", path, line)
    return numbers


def _cell(path: Path, line: int, text: str) -> JJCell:
    words = text.split()
    if len(words) not in (FIELDS, FIELDS - 1) or not words[0].isdigit():
        raise refused("argus-file/cell-cells", path, line, words=len(words))
    written = words.pop(3) if len(words) == FIELDS else ""
    if written and written.lower() not in STATUSES:
        raise refused("argus-file/status-none-format", path, line, found=repr(written))
    value, cost, low, high, lower, upper, sliding = _decimals(path, line, words[1:])
    levels = any(level > 0 for level in (lower, upper, sliding))
    status: Status = STATUSES[written.lower()] if written else "u" if levels else "s"
    if min(lower, upper, sliding) < 0 or cost < 0:
        raise refused("argus-file/cost", path, line)
    if not low <= value <= high:
        raise refused("argus-file/figure", path, line)
    return JJCell(int(words[0]), value, cost, status, low, high, lower, upper, sliding)


def _sum(path: Path, line: int, text: str, cells: dict[int, JJCell]) -> JJSum:
    head, colon, tail = text.partition(":")
    words = head.split()
    terms = [(int(number), int(float(times))) for number, times in TERM.findall(tail)]
    if not colon or len(words) != 2 or TERM.sub("", tail).strip() or not words[1].isdigit():
        raise refused("argus-file/sum-read", path, line)
    (right,) = _decimals(path, line, words[:1])
    if len(terms) != int(words[1]):
        raise refused("argus-file/terms", path, line, terms=len(terms), expected=words[1])
    unknown = next((number for number, _ in terms if number not in cells), None)
    if unknown is not None:
        raise refused("argus-file/sum-cell", path, line, found=str(unknown))
    if len({number for number, _ in terms}) < len(terms):
        raise refused("argus-file/correct-line", path, line)
    if sum(times * cells[number].value for number, times in terms) != right:
        raise refused("argus-file/add", path, line)
    return JJSum(right, tuple(terms))
