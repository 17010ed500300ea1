"""The layout of a file, guessed and said: format, delimiter, encoding, sheet, names of the columns."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from unicodedata import combining, normalize

from confide.engines import LocalEngine, Source, format_of
from confide.engines.protocol import UTF_8, identifier
from confide.engines.texts import DELIMITERS, column_names, guess_encoding
from confide.engines.workbooks import sheet_names
from confide.errors import InputError, ParameterError, Place
from confide.inputs.spelled import trimmed

_LOOKED_AT = 1 << 16
_LINES = 50
_VALUE, _YEAR = re.compile(r"[+-]?\d[\d.,]*"), re.compile(r"(19|20)\d\d")


@dataclass(frozen=True)
class FileLook:
    """A file as it would be read."""

    source: Source
    columns: tuple[str, ...]
    kinds: dict[str, str]

    def in_words(self) -> str:
        """What was guessed, for a terminal: nothing of what the rows hold."""
        source = self.source
        said = f"{source.file}: {len(self.columns)} columns"
        if source.format == "csv":
            names = DELIMITERS.get(source.delimiter, repr(source.delimiter))
            return f"{said}, separated by {names}, encoding {source.encoding}"
        if source.format == "asc":
            return f"{said}, tau-ARGUS, described by {source.path.with_suffix('.rda').name}"
        return f"{said}, sheet {source.sheet!r}" if source.format == "xlsx" else f"{said}, Parquet"

    def values(self, engine: LocalEngine, column: str) -> dict[str, int]:
        """How often each value of a column occurs, as text without blanks at the ends; empty where there is none."""
        text = f"coalesce({trimmed(f'CAST({identifier(column)} AS VARCHAR)')}, '')"
        query = f"SELECT {text} AS value, count(*) AS n FROM rows GROUP BY 1 ORDER BY 2 DESC, 1"
        rows = engine.sql(query, rows=self.source).reveal("a proposal, for the curator alone")
        return dict(zip(rows.column("value").to_pylist(), rows.column("n").to_pylist(), strict=True))

    def counted_pairs(self, engine: LocalEngine, first: str, second: str) -> list[tuple[str, str, int]]:
        """The distinct pairs of values of two columns, and how many rows have each."""
        texts = [f"coalesce({trimmed(f'CAST({identifier(name)} AS VARCHAR)')}, '')" for name in (first, second)]
        query = f"SELECT {texts[0]} AS a, {texts[1]} AS b, count(*) AS n FROM rows GROUP BY 1, 2 ORDER BY 1, 2"
        rows = engine.sql(query, rows=self.source).reveal("a proposal, for the curator alone")
        return list(zip(*(rows.column(name).to_pylist() for name in "abn"), strict=True))


def look_at_file(path: Path, engine: LocalEngine, sheet: str | None = None) -> FileLook:
    """Looks at a CSV, Parquet or Excel file, and guesses how it is to be read.

    Args:
        path: The file.
        engine: Reads it.
        sheet: The sheet of a workbook; by default the first that people see.

    Returns:
        The file with its layout.

    Raises:
        InputError: if it cannot be read so.
    """
    if not path.is_file():
        raise ParameterError(
            "no-such-file", "there is no such file", found=str(path), expected="a file", remedy="correct the path"
        )
    format_ = format_of(path)
    if format_ is None:
        raise InputError(
            "unknown-format",
            "the name of the file does not say whether it is Parquet, CSV or Excel",
            Place(file=path.name),
            path.suffix or "no ending",
            "a name that ends in .parquet, .csv or .xlsx",
            "give the file the ending of what it is, or convert it",
        )
    source = Source(path, format_)
    if format_ == "csv":
        encoding = guess_encoding(path)
        source = Source(path, format_, delimiter=_delimiter(path, encoding), encoding=encoding)
    elif format_ == "asc":
        source = Source(path, format_, encoding=guess_encoding(path))
    elif format_ == "xlsx":
        source = Source(path, format_, sheet=sheet or next(iter(sheet_names(source)), None))
    kinds = engine.kinds(source)
    if format_ == "csv" and any(_VALUE.fullmatch(name) and not _YEAR.fullmatch(name) for name in kinds):
        raise InputError(
            "csv-header",
            "the first line holds values instead of column names",
            Place(file=source.file, line=1),
            f"{len(kinds):,} columns, and some of the names are numbers",
            "a first line with the column names",
            "add a line with the column names above the first record",
        )
    return FileLook(source, tuple(kinds), kinds)


def _delimiter(path: Path, encoding: str) -> str:
    """What parts the first line into most values, and every other line into as many."""
    with path.open(encoding=encoding, errors="replace", newline=None) as file:
        lines = [line for line in file.read(_LOOKED_AT).lstrip("\ufeff").splitlines()[:_LINES] if line.strip()]
    if not lines:
        return ","

    def agreement(delimiter: str) -> tuple[int, int]:
        values = Counter(len(column_names(line, delimiter, quoted=False)) for line in lines[1:] or lines)
        first = len(column_names(lines[0], delimiter, quoted=False))
        return (values[first] if first > 1 else 0), first

    return max(DELIMITERS, key=agreement)


def without_accents(text: str) -> str:
    """A text in the letters that file names may have anywhere.

    >>> without_accents("län")
    'lan'
    """
    return "".join(sign for sign in normalize("NFKD", text) if not combining(sign))


def vocabulary(file: str) -> frozenset[str]:
    """The words of a file of ``data/proposals``, plain, without its comments."""
    lines = files("confide").joinpath(f"data/proposals/{file}").read_text("utf-8").splitlines()
    return frozenset(without_accents(word) for line in lines if not line.startswith("#") for word in line.split())


def layout_keys(look: FileLook, prefix: str = "") -> dict[str, str]:
    """The keys of ``[data]`` that say how a file is read, where they differ from the usual."""
    source = look.source
    keys = {}
    if source.format == "csv" and source.delimiter != ",":
        keys[f"{prefix}delimiter"] = source.delimiter
    if source.encoding != UTF_8:
        keys[f"{prefix}encoding"] = source.encoding
    if source.sheet is not None:
        keys[f"{prefix}sheet"] = source.sheet
    return keys
