"""A column of records, and the attribute that would fit it: levels, a range, aliases, what means a missing value."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from confide.engines import LocalEngine, Source, format_of
from confide.engines.protocol import UTF_8, identifier
from confide.engines.texts import DELIMITERS, column_names, guess_encoding, sheet_names
from confide.errors import InputError, ParameterError, Place
from confide.inputs.frame import trimmed
from confide.schema import ALL, DETAILED, TOTAL, TOTAL_CODE

MOST_LEVELS = 100
"""Columns with more values are no categories, unless they are whole numbers in a row."""
FEW_NUMBERS = 12
"""Up to so many different whole numbers are codes; more of them are a range."""
NOT_STATED = "not stated"
MISSING = frozenset(files("confide").joinpath("data/proposals/missing.txt").read_text("utf-8").splitlines())
"""What people write for nothing, in small letters."""
_AGE = re.compile(r"(^|[^a-z])(age|alder|ålder|alter|âge|edad|eta|età|idade|leeftijd|ika|ikä|wiek|years?)([^a-z]|$)")
_WHOLE = re.compile(r"[+-]?\d{1,9}")
_OPEN = re.compile(r"(\d{1,9}) ?(\+|and over|and more|or more|plus|ans et plus|und älter)", re.IGNORECASE)
_DATE = re.compile(r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4})( \d\d:\d\d.*)?")
_DECIMAL = re.compile(r"[+-]?\d*[.,]\d+")
_WITH_ZEROS = re.compile(r"[+-]?\d+[.,]0*")
_OLDEST = 100


@dataclass(frozen=True)
class ColumnProposal:
    """What a schema could say of a column; ``left_out`` says why it says nothing."""

    name: str
    left_out: str = ""
    levels: tuple[tuple[int | str, str], ...] = ()
    bounds: tuple[int, int] | None = None
    missing: bool = False
    missing_codes: tuple[str, ...] = ()
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    ignore_case: bool = False
    recodes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    title: str = ""
    """What people read; by default the name."""

    @property
    def size(self) -> int:
        """How many levels it would have."""
        numbers = 0 if self.bounds is None else self.bounds[1] - self.bounds[0] + 1
        inside = range(0) if self.bounds is None else range(self.bounds[0], self.bounds[1] + 1)
        return numbers + sum(code not in inside for code, _ in self.levels) + self.missing

    @property
    def variable(self) -> str:
        """What a table would cross: the attribute, or its coarsest recode."""
        return f"{self.name}:{list(self.recodes)[-1]}" if self.recodes else self.name

    @property
    def schema_values(self) -> dict[str, Any]:
        """The attribute as a schema file has it."""
        values: dict[str, Any] = {"title": self.title or self.name, "trim": True, "ignore_case": self.ignore_case}
        if self.bounds is not None:
            values["range"] = list(self.bounds)
        if self.levels:
            values["levels"] = [list(pair) for pair in self.levels]
        if self.missing:
            values["missing"] = {"label": NOT_STATED, "codes": list(self.missing_codes)}
        if self.aliases:
            values["aliases"] = {str(code): list(texts) for code, texts in self.aliases.items()}
        return values | {"recodes": {name: {"starts": list(starts)} for name, starts in self.recodes.items()}}


def propose_column(name: str, values: Mapping[str, int]) -> ColumnProposal:
    """The attribute that would fit a column.

    Args:
        name: What the file calls it.
        values: How often each text occurs in it, without blanks at the ends; the empty text with them.

    Returns:
        A proposal. It has what occurs and lacks what does not; it is confidential until somebody keeps it.
    """
    texts = {text: count for text, count in values.items() if text}
    rows = sum(values.values())
    if not texts:
        return ColumnProposal(name, left_out="it has no values")
    absent = {text for text in texts if text.lower() in MISSING}
    said = {text: count for text, count in texts.items() if text not in absent}
    if not said:
        return ColumnProposal(name, left_out="all its values mean that nothing is known")
    shares = {kind: _share(said, pattern) for kind, pattern in (("date", _DATE), ("decimal", _DECIMAL))}
    if shares["date"] > 0.5:
        return ColumnProposal(name, left_out="it holds dates; turn them into years or groups")
    if shares["decimal"] > 0.5 and all(_WHOLE.fullmatch(text) or _WITH_ZEROS.fullmatch(text) for text in said):
        return ColumnProposal(
            name, left_out="its whole numbers are stored with decimals; store them as whole numbers (pandas: Int64)"
        )
    if shares["decimal"] > 0.5:
        return ColumnProposal(name, left_out="it holds numbers with decimals; turn them into groups")
    numbers = {text for text in said if _WHOLE.fullmatch(text)}
    open_ended = {text for text in said if _OPEN.fullmatch(text)}
    zeros = any(len(text) > 1 and text.startswith("0") for text in numbers)
    mostly = sum(said[text] for text in numbers | open_ended) > 0.9 * sum(said.values())
    missing = bool(absent) or "" in values
    if rows > MOST_LEVELS and len(said) > 0.9 * rows:
        return ColumnProposal(name, left_out="it has a different value in almost every row, like a person number")
    if len(said) > max(MOST_LEVELS, rows // 2) and not (mostly and _spread([int(text) for text in numbers]) < 1_000):
        return ColumnProposal(name, left_out="it looks like an identifier or free text")
    if mostly and not zeros and (len(numbers) > FEW_NUMBERS or _AGE.search(name.lower())):
        return _range(name, said, absent, missing=missing)
    if len(said) > MOST_LEVELS:
        return ColumnProposal(name, left_out=f"it has more than {MOST_LEVELS} different values")
    if mostly and not zeros and len(numbers) == len(said):
        listed = tuple((int(text), text) for text in sorted(numbers, key=int))
        notes = ("replace the second value of each pair with a label",)
        return ColumnProposal(name, "", listed, None, missing, tuple(sorted(absent)), notes=notes)
    return _categories(name, said, absent, missing=missing)


def _share(texts: Mapping[str, int], pattern: re.Pattern[str]) -> float:
    return sum(count for text, count in texts.items() if pattern.fullmatch(text)) / sum(texts.values())


def _spread(numbers: list[int]) -> int:
    return max(numbers, default=0) - min(numbers, default=0)


def _range(name: str, said: Mapping[str, int], absent: set[str], *, missing: bool) -> ColumnProposal:
    """A range of whole numbers, the last of it open where the file says so; everything else means nothing."""
    is_age = bool(_AGE.search(name.lower()))
    numbers = sorted({int(text) for text in said if _WHOLE.fullmatch(text)})
    ends = {int(match[1]): text for text in said if (match := _OPEN.fullmatch(text))}
    beyond = {number for number in numbers if _all_nines(number) and number > 3 * _OLDEST} if is_age else set()
    beyond |= {number for number in numbers if number < 0} if is_age else set()
    kept = [number for number in numbers if number not in beyond]
    last = max([*kept, *ends])
    first = 0 if is_age else min(kept)
    if is_age and not ends:
        last = max(last, _OLDEST)
    odd = [text for text in said if not _WHOLE.fullmatch(text) and not _OPEN.fullmatch(text)]
    codes = sorted(absent) + sorted(odd) + [str(number) for number in sorted(beyond)]
    notes = ["texts that are not numbers are read as missing values: check them"] if odd else []
    notes += ["this range is what occurs in the records: widen it to what is possible"] if not is_age else []
    labels, aliases = [], {}
    for number, text in sorted(ends.items()):
        aliases[str(number)] = (text,)
        if number == last:
            labels.append((number, f"{number} and over"))
    starts = _starts(first, last, is_age=is_age)
    return ColumnProposal(
        name,
        "",
        tuple(labels),
        (first, last),
        missing or bool(codes),
        tuple(dict.fromkeys(codes)),
        aliases,
        recodes=starts,
        notes=tuple(notes),
    )


def _all_nines(number: int) -> bool:
    return set(str(number)[:-1]) <= {"9"} and str(number)[-1] in "789"


def _starts(first: int, last: int, *, is_age: bool) -> dict[str, tuple[int, ...]]:
    if is_age:
        fives = tuple(range(0, min(last, 85) + 1, 5))
        return {"five-year": fives, "broad": tuple(start for start in (0, 15, 25, 45, 65) if start <= last)}
    step = max(1, -(-(last - first + 1) // 10))
    return {"groups": tuple(range(first, last + 1, step))} if last - first >= FEW_NUMBERS else {}


def _categories(name: str, said: Mapping[str, int], absent: set[str], *, missing: bool) -> ColumnProposal:
    """One level for each text, those that differ in case taken together, and a letter with the word that it begins."""
    by_folded: dict[str, Counter[str]] = {}
    for text, count in said.items():
        by_folded.setdefault(text.lower(), Counter())[text] += count
    words = Counter(folded[0] for folded in by_folded if len(folded) > 1)
    groups: dict[str, Counter[str]] = {}
    label: dict[str, str] = {}
    for folded in sorted(by_folded, key=len):
        initial = folded[0]
        joins = len(folded) > 1 and len(by_folded.get(initial, ())) > 0 and initial.isalpha() and words[initial] == 1
        key = initial if joins else folded
        groups.setdefault(key, Counter()).update(by_folded[folded])
        label[key] = folded
    levels, aliases = [], {}
    for key in sorted(groups):
        own = Counter(by_folded[key])
        code = max(own, key=lambda text: (own[text], text.isupper(), text))
        levels.append((code, _free(label[key] if len(groups[key]) > len(own) else code)))
        others = sorted(text for text in groups[key] if text != code)
        if others:
            aliases[code] = tuple(others)
    notes = (
        ("these aliases were guessed from first letters and from upper and lower case: check them",) if aliases else ()
    )
    return ColumnProposal(
        name, "", tuple(levels), None, missing, tuple(sorted(absent)), aliases, notes=notes, ignore_case=False
    )


def _free(label: str) -> str:
    """A label that marks no total."""
    return f"{label} (code)" if label in (ALL, TOTAL_CODE) else label


def free_name(name: str) -> str:
    """A name for an attribute that is none of our own: separators become underscores."""
    plain = re.sub(r"[*:/\x00-\x1f]", "_", name).strip() or "unnamed"
    return f"{plain}_code" if plain.lower() in (TOTAL, DETAILED) else plain


# The layout of a file, guessed and said: format, delimiter, encoding, sheet, names of the columns.


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
        if source.joined is not None:
            said += f" with those of {source.joined.other.file}, joined by {source.joined.key!r}"
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
        raise ParameterError("no-such-file/correct-path", found=str(path))
    format_ = format_of(path)
    if format_ is None:
        raise InputError("unknown-format/name-ends-parquet", where=Place(file=path.name), suffix=path.suffix)
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
        raise InputError("csv-header/columns-numbers", where=Place(file=source.file, line=1), kinds=len(kinds))
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
