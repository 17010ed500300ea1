"""The description of a file of tau-ARGUS (.rda), and what it describes: the cells of a table (.tab), one line for each,
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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from confide.documents.argus.beside_table import LEAD, read_lines, refused, unquoted

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
    *("<HIERARCHICAL>", "<DISTANCE>", "<TRUNCABLE>", "<REQUEST>", "<HOLDING>", "<MISSING>"),
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
        elif keyword in LETTERS:
            letters[LETTERS[keyword]] = _one(path, number, words)
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
    elif keyword == "<TOTCODE>":
        column["total"] = _one(path, number, words)
    elif keyword == "<HIERCODELIST>":
        column["hierarchy"] = _one(path, number, words)
    elif keyword == "<DECIMALS>":
        digits = _one(path, number, words)
        column["decimals"] = int(digits) if digits.isdigit() else 0
    elif keyword == "<CODELIST>":
        column["labels"] = _one(path, number, words)
    elif keyword == "<HIERLEADSTRING>":
        column["lead"] = _one(path, number, words)
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
        lines += [f'{keyword} "{letters[meaning]}"' for keyword, meaning in LETTERS.items()]
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
