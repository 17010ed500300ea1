"""The engine for one machine: DuckDB for scans and counts, a pool of processes for groups.

The lines of a text without quoting are looked at byte by byte before DuckDB reads them. A reader of CSV alone will not
do: strict, DuckDB's refuses a file whose line ends differ and lets an empty value too many pass; lenient, it drops
every value too many without a word. Here all the bad lines are found in one pass of about a second for a gigabyte, and
it says nothing of what they hold.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Protocol, Self, TypeVar

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from confide.confidential import Confidential
from confide.engines.protocol import (
    ROW_NUMBER,
    Advance,
    GroupFunction,
    Join,
    Source,
    Workers,
    bad_memory,
    counting,
    identifier,
    literal,
    map_groups,
    no_room,
    unreadable,
)
from confide.engines.texts import as_csv, csv_header, encoding_findings, uneven_row
from confide.errors import ConfideError, Finding, InputError, Place, RunError
from confide.file_system import private_folder, whole_file

LINES_NAMED = 5
LONGEST_LINE = 2_000_000
"""In bytes: what DuckDB holds a line to."""

_CHUNK = 1 << 20  # small enough for the intermediate arrays to stay in the processor's cache
_FEED, _RETURN = 10, 13
_NOT_ASCII = 0x80

SHORT, LONG, RETURN, ENCODING, ENDLESS = "short-line", "long-line", "lone-return", "encoding", "endless-line"


@dataclass
class BadLines:
    """How many lines break a rule, and the first of them."""

    number: int = 0
    first: list[int] = field(default_factory=list)

    def add(self, lines: npt.NDArray[np.int64]) -> None:
        self.number += len(lines)
        self.first += lines[: LINES_NAMED - len(self.first)].tolist()


@dataclass
class Lines:
    """What a pass over the lines of a file has seen: how many there are, how many end in CRLF, and the bad ones."""

    number: int = 0
    crlf: int = 0
    broken: dict[str, BadLines] = field(
        default_factory=lambda: {code: BadLines() for code in (SHORT, LONG, RETURN, ENCODING, ENDLESS)}
    )

    @property
    def mixed(self) -> bool:
        """Whether some lines end in LF and others in CRLF."""
        return 0 < self.crlf < self.number

    def findings(self, source: Source, values: int) -> list[Finding]:
        """A finding for each way in which lines are bad. It gives their numbers and nothing of what they hold."""
        return [_finding(source, code, bad, values) for code, bad in self.broken.items() if bad.number]


def look_at_lines(source: Source, values: int) -> Lines:
    """Looks for lines of an unquoted text that are not lines of ``values`` values.

    Lines end in LF or CRLF, also both in one file; the last one may lack its end; empty lines are no lines. A carriage
    return elsewhere is refused, because readers differ in what they make of it.
    """
    delimiter = source.delimiter.encode()
    assert len(delimiter) == 1, "an unquoted text has a delimiter of one byte"
    seen = Lines()
    with source.path.open("rb") as file:
        for piece in _pieces(file):
            if len(piece) > LONGEST_LINE + _CHUNK:
                seen.broken[ENDLESS].add(np.array([seen.number + 1]))
                break
            _look(piece, delimiter[0], values, seen)
    return seen


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    """The bytes in runs of whole lines; a last line without an end gets that of the line before."""
    rest, end = b"", b"\n"
    while chunk := file.read(_CHUNK):
        cut = chunk.rfind(b"\n") + 1
        if cut:
            piece = rest + chunk[:cut]
            end = b"\r\n" if piece.endswith(b"\r\n") else b"\n"
            yield piece
            rest = chunk[cut:]
        else:
            rest += chunk
            if len(rest) > LONGEST_LINE + _CHUNK:
                break
    if rest:
        yield rest + (b"\n" if rest.endswith(b"\r") else end)


def _look(piece: bytes, delimiter: int, values: int, seen: Lines) -> None:
    """Looks at a run of whole lines, and adds to what was seen before."""
    line, broken = seen.number + 1, seen.broken
    text = np.frombuffer(piece, np.uint8)
    separators = np.flatnonzero((text == delimiter) | (text == _FEED))
    which = np.flatnonzero(text[separators] == _FEED)
    counts = np.diff(which, prepend=-1)
    wrong = np.flatnonzero(counts != values)
    if len(wrong):
        ends = separators[which]
        starts = np.concatenate([[0], ends[:-1] + 1])[wrong]
        length = ends[wrong] - starts
        wrong = wrong[~((length == 0) | ((length == 1) & (text[starts] == _RETURN)))]
        broken[SHORT].add(wrong[counts[wrong] < values] + line)
        broken[LONG].add(wrong[counts[wrong] > values] + line)
    returns = np.flatnonzero(text == _RETURN)
    if len(returns):
        alone = returns[text[returns + 1] != _FEED]
        seen.crlf += len(returns) - len(alone)
        broken[RETURN].add(np.unique(np.searchsorted(separators[which], alone)) + line)
    if text.max() >= _NOT_ASCII:
        broken[ENCODING].add(np.array(list(_undecodable(piece)), np.int64) + line)
    seen.number += len(which)


def _undecodable(piece: bytes) -> Iterator[int]:
    """The numbers, from zero, of the lines that are not UTF-8."""
    try:
        piece.decode()
    except UnicodeDecodeError:
        for number, line in enumerate(piece.split(b"\n")):
            try:
                line.decode()
            except UnicodeDecodeError:
                yield number


def _finding(source: Source, code: str, bad: BadLines, values: int) -> Finding:
    """One of the ways in which lines are bad; each text takes of the facts what it needs."""
    text_of_line = "encoding/line" if code == ENCODING else "endless-line"
    text_of_values = "short-line" if code == SHORT else "long-line"
    return Finding.of(
        "lone-return" if code == RETURN else text_of_values if code in (SHORT, LONG) else text_of_line,
        where=Place(file=source.file, line=bad.first[0]),
        first=", ".join(f"{number:,}" for number in bad.first),
        number=bad.number,
        one=bad.number == 1,
        values=values,
        delimiter=source.delimiter,
        longest=LONGEST_LINE,
    )


# The engine itself.


INTEGER_TYPES = {
    "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT",
}  # fmt: skip

T = TypeVar("T")


class LocalEngine:
    """DuckDB within a memory limit, spilling into ``scratch`` (which holds confidential rows and is 0700)."""

    name = "local"

    def __init__(self, scratch: Path, *, processes: int | None = None, memory: str = "4GiB"):
        self.processes = processes or os.cpu_count() or 1
        self._workers = Workers(self.processes)
        self._scratch = private_folder(scratch)
        self._lines: dict[tuple[Path, str], tuple[tuple[int, int] | None, Lines]] = {}
        self._texts: dict[tuple[object, ...], Path] = {}
        self._kinds: dict[str, tuple[tuple[int, int] | None, dict[str, str]]] = {}
        config: dict[str, str | bool | int | float | list[str]] = {
            "threads": self.processes,
            "memory_limit": memory,
            "temp_directory": str(self._scratch),
            "preserve_insertion_order": True,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
        try:
            self._connection = duckdb.connect(config=config)
        except duckdb.Error:
            raise bad_memory(memory) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._workers.close()
        self._connection.close()

    def kinds(self, source: Source) -> dict[str, str]:
        text, state = f"DESCRIBE SELECT * FROM {_from(self._text(source))}", _state(source.path)
        before, kinds = self._kinds.get(text, (None, {}))
        if state is None or before != state:  # asked many times of the same file, and again when it has changed
            rows = _in_our_words(lambda: self._connection.execute(text).fetchall(), [source])
            kinds = {name: _kind(str(type_)) for name, type_, *_ in rows}
            self._kinds[text] = state, kinds
        return dict(kinds)

    def sql(self, text: str, **sources: Source | Path) -> Confidential[pa.Table]:
        query = self._with(text, sources)
        return Confidential(_in_our_words(lambda: self._connection.sql(query).to_arrow_table(), sources.values()))

    def count_by(self, source: Source | Path, keys: Mapping[str, str], into: Path, *, where: str | None = None) -> None:
        self.write(counting("source" + (f" WHERE {where}" if where else ""), keys), into, source=source)

    def explode_count(self, source: Source | Path, listed: str, keys: Mapping[str, str], into: Path) -> None:
        exploded = f"SELECT * REPLACE (unnest({identifier(listed)}) AS {identifier(listed)}) FROM source"
        self.write(counting(f"({exploded}) AS exploded", keys), into, source=source)

    def write(self, text: str, into: Path, *, rows_per_group: int | None = None, **sources: Source | Path) -> None:
        private_folder(into.parent)
        query = self._with(text, sources)
        with whole_file(into) as temporary:
            size = "" if rows_per_group is None else f", ROW_GROUP_SIZE {rows_per_group}"
            copy = f"COPY ({query}) TO {_quoted(temporary)} (FORMAT parquet, COMPRESSION zstd{size})"
            _in_our_words(lambda: self._connection.execute(copy).fetchall(), sources.values())

    def map_groups(
        self,
        function: GroupFunction,
        rows: Path,
        key: str,
        groups: Sequence[int],
        into: Path,
        *,
        advance: Advance | None = None,
    ) -> list[Path]:
        return map_groups(function, rows, key, groups, into, workers=self._workers, advance=advance)

    def first_rows(self, source: Source, where: str, limit: int, **others: Source | Path) -> list[int]:
        source = self._text(source)
        of_the_file = source.format == "parquet" and "file_row_number" not in {
            name.lower() for name in self.kinds(source)
        }
        number = "file_row_number + 1" if of_the_file else "row_number() OVER ()"
        options = ", file_row_number = true" if of_the_file else ""
        numbered = f"SELECT {number} AS {identifier(ROW_NUMBER)}, * FROM {self._from(source, options)}"
        text = f"SELECT {identifier(ROW_NUMBER)} FROM ({numbered}) WHERE {where} ORDER BY 1 LIMIT {limit}"
        query = self._with(text, others)
        rows = _in_our_words(lambda: self._connection.execute(query).fetchall(), [source])
        return [int(row) for (row,) in rows]

    def integer_text(self, column: str) -> str:
        return (
            rf"TRY_CAST(CASE WHEN regexp_full_match({column}, '\s*[+-]?[0-9]{{1,18}}\s*') THEN {column} END AS BIGINT)"
        )

    def _with(self, text: str, sources: Mapping[str, Source | Path]) -> str:
        views = ", ".join(
            f"{identifier(name)} AS (SELECT * FROM {self._from(source)})" for name, source in sources.items()
        )
        return f"WITH {views} {text}" if views else text

    def _from(self, source: Source | Path, options: str = "") -> str:
        if isinstance(source, Path):
            return _from(source, options)
        source = self._text(source)
        return _from(source, options, mixed_ends=self._has_mixed_ends(source))

    def _text(self, source: Source) -> Source:
        return as_csv(source, self._scratch / "texts", self._texts) if source.joined is None else self._as_one(source)

    def _as_one(self, source: Source) -> Source:
        """Two files as one, written once to a file of ours, and again when one of them has changed."""
        assert source.joined is not None
        one, other = replace(source, joined=None), source.joined.other
        known = str(source.joined), *((path, _state(path)) for path in source.files)
        if known not in self._texts:
            into = self._scratch / "joined" / f"{len(self._texts)}.parquet"
            self.write(joined_text(self, one, source.joined), into, one=one, other=other)
            self._texts[known] = into
        return replace(one, path=self._texts[known], format="parquet", name=source.file)

    def _has_mixed_ends(self, source: Source) -> bool:
        """Looks at the lines of an unquoted text, once and again when it has changed; all the bad ones are one error.

        Such a text is read strictly and by several threads, but for one whose line ends differ: DuckDB reads that
        leniently and by one thread, or not at all.
        """
        if source.format == "parquet" or source.quoted:
            return False
        values, state = len(csv_header(source)), _state(source.path)
        before, lines = self._lines.get((source.path, source.delimiter), (None, Lines()))
        if state is None or before != state:
            lines = look_at_lines(source, values)
            self._lines[source.path, source.delimiter] = state, lines
        findings = lines.findings(source, values)
        if findings:
            raise InputError(findings)
        return lines.mixed


def _state(path: Path) -> tuple[int, int] | None:
    """What tells that a file has changed: its size and time; none of a folder, or of what is not there."""
    if not path.is_file():
        return None
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def _in_our_words(answer: Callable[[], T], sources: Iterable[Source | Path]) -> T:
    """What ``answer`` gives, or an error in our own words.

    DuckDB's may quote a value of the records, so they are not passed on, not even as the context of ours: the error is
    raised after its own has been let go.
    """
    problem: ConfideError | OSError
    try:
        return answer()
    except duckdb.OutOfMemoryException:
        problem = RunError("out-of-memory/limit")
    except duckdb.Error as error:
        full = no_room(str(error)) if isinstance(error, duckdb.IOException) else None
        listed = list(sources)
        findings = [] if full else list(encoding_findings(each for each in listed if isinstance(each, Source)))
        line, texts = _line(error), [each for each in listed if isinstance(each, Source) and each.format == "csv"]
        if not full and not findings and line is not None and len(texts) == 1:
            findings = [uneven] if (uneven := uneven_row(texts[0], line)) else []
        problem = full or InputError(findings or [unreadable(listed, type(error).__name__, line)])
    raise problem


def _line(error: duckdb.Error) -> int | None:
    # Of DuckDB's words only the number of the line is taken, which is before anything quoted. The match, which
    # holds all of them, must not outlive this.
    match = re.match(r"Invalid Input Error: CSV Error on Line: (\d+)\n", str(error))
    return int(match.group(1)) if match else None


def _kind(type_: str) -> str:
    if type_ in INTEGER_TYPES:
        return "integer"
    return "text" if type_.startswith(("VARCHAR", "ENUM")) else "other"


def _from(source: Source | Path, options: str = "", *, mixed_ends: bool = False) -> str:
    if isinstance(source, Path):
        files = sorted(source.glob("*.parquet")) if source.is_dir() else [source]
        return f"read_parquet([{', '.join(_one_file(file) for file in files)}]{options})"
    if source.format == "parquet":
        return f"read_parquet({_one_file(source.path)}{options})"
    delimiter = source.delimiter.replace("'", "''")
    mark = "'\"'" if source.quoted else "''"
    ends = "strict_mode = false, parallel = false" if mixed_ends else "strict_mode = true"
    return (
        f"read_csv({_one_file(source.path)}, header = true, all_varchar = true, delim = '{delimiter}', "
        f"quote = {mark}, escape = {mark}, {ends}, null_padding = false, auto_detect = false, "
        f"columns = {{{_csv_columns(source)}}})"
    )


def _csv_columns(source: Source) -> str:
    return ", ".join(f"'{name.replace(chr(39), chr(39) * 2)}': 'VARCHAR'" for name in csv_header(source))


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"


def _one_file(path: Path) -> str:
    """A path that is read as it stands: DuckDB takes ``*``, ``?`` and ``[`` for a pattern of several files."""
    return "'" + re.sub(r"([*?[])", r"[\1]", str(path)).replace("'", "''") + "'"


# Records in two files, such as persons and households, made into the one table that engines read.
#
# The rows are those of the first file, in its order, so that the number of a row is that of the file which the office
# knows. Each has the columns of the one row of the second file with the same key, and no value in them where there is
# no such row. A column that both files have is the first file's.


ROWS_NAMED = 5
"""So many rows are named that break a rule."""


class QueryEngine(Protocol):
    """The two verbs that this asks of an engine."""

    def kinds(self, source: Source) -> dict[str, str]: ...

    def sql(self, text: str, **sources: Source | Path) -> Any: ...


def added_columns(own: Iterable[str], others: Iterable[str], join: Join) -> dict[str, str]:
    """The columns of the second file that a joined table has, by their names in it: those with a name of ours, and
    those that the first file has not; not the key."""
    ours = {theirs.lower(): name for name, theirs in join.named}
    taken = {name.lower() for name in own} | {join.other.theirs(join.key).lower()}
    kept = {name: name for name in others if name.lower() not in taken | set(ours)}
    return {ours[name.lower()]: name for name in others if name.lower() in ours} | kept


def join_findings(engine: QueryEngine, source: Source, join: Join) -> list[Finding]:
    """Every reason why two files cannot be one table: numbers of rows and names of columns, never a value."""
    other = join.other
    needed = [(source, source.theirs(join.key)), (other, other.theirs(join.key))]
    needed += [(other, theirs) for _, theirs in join.named]
    needed += [] if join.only is None else [(other, other.theirs(join.only[0]))]
    findings = [
        Finding.of("join-column", where=Place(file=file.file, column=name), name=name)
        for file, name in needed
        if name not in engine.kinds(file)
    ]
    own = {name.lower() for name in engine.kinds(source)}
    findings += [
        Finding.of("join-name", where=Place(file=source.file, column=name), name=name, other=other.file)
        for name, _ in join.named
        if name.lower() in own
    ]
    if findings:
        return findings
    mine, theirs = key_of("one", source, join), key_of("other", other, join)
    if join.only is None:
        return [
            *_broken("household-twice/number", engine, source, join, other, twice("other", theirs, join)),
            *_broken("household-without-number", engine, source, join, other, f"{theirs} IS NULL"),
            *_broken("no-such-household", engine, source, join, source, absent(mine, "other", theirs, join)),
        ]
    return [
        *_broken("household-twice/number", engine, source, join, source, twice("one", mine, join)),
        *_broken("household-without-number", engine, source, join, source, f"{mine} IS NULL"),
        *_broken("household-twice/householder", engine, source, join, other, twice("other", theirs, join)),
        *_broken("no-such-household", engine, source, join, other, absent(theirs, "one", mine, join)),
    ]


def join_warnings(engine: QueryEngine, source: Source, join: Join) -> list[Finding]:
    """What is assumed of two files that fit: whose columns count, which rows have no other, and who is protected."""
    one, other = replace(source, joined=None), join.other
    mine, theirs = key_of("one", one, join), key_of("other", other, join)
    own = {name.lower() for name in engine.kinds(one)} - {one.theirs(join.key).lower()}
    renamed = {name.lower() for _, name in join.named}
    both = [name for name in engine.kinds(other) if name.lower() in own - renamed]
    where = Place(file=one.file)
    if join.only is None:
        alone = _broken("household-without-persons", engine, one, join, other, absent(theirs, "one", mine, join))
        unit = Finding.of("protects-persons", severity="warning", where=where, other=other.file)
    else:
        alone = _broken("household-without-householder", engine, one, join, one, absent(mine, "other", theirs, join))
        unit = Finding.of("protects-households", severity="warning", where=where)
    listed = ", ".join(both)
    taken = Finding.of("columns-of-both", severity="warning", where=where, listed=listed, other=other.file)
    return [*([taken] if both else []), *(replace(finding, severity="warning") for finding in alone), unit]


def twice(rows: str, key: str, join: Join) -> str:
    """SQL that is true of the rows of a file whose key others of them have as well."""
    return f"{key} IN (SELECT {key} FROM {_rows(rows, join)} WHERE {key} IS NOT NULL GROUP BY 1 HAVING count(*) > 1)"


def absent(key: str, rows: str, other_key: str, join: Join) -> str:
    """SQL that is true of the rows of a file whose key is that of no row of the other."""
    return f"coalesce({key} NOT IN (SELECT {other_key} FROM {_rows(rows, join)} WHERE {other_key} IS NOT NULL), FALSE)"


def _rows(name: str, join: Join) -> str:
    """SQL for the rows of a file that count."""
    return name if name == "one" else f"(SELECT * FROM other WHERE {only_of(join)}) AS other"


def _broken(
    key: str, engine: QueryEngine, source: Source, join: Join, file: Source, broken: str, **facts: Any
) -> list[Finding]:
    """A finding with the first rows of a file that meet a condition; none if there are no such rows."""
    name, condition = ("other", only_of(join)) if file is join.other else ("one", "TRUE")
    numbered = f"(SELECT row_number() OVER () AS {identifier(ROW_NUMBER)}, * FROM {name}) AS {name}"
    text = (
        f"SELECT {identifier(ROW_NUMBER)} AS n, count(*) OVER () AS number FROM {numbered} "
        f"WHERE {condition} AND {broken} ORDER BY 1 LIMIT {ROWS_NAMED}"
    )
    rows = engine.sql(text, one=source, other=join.other).reveal("rows of two files that do not fit, for a message")
    if not rows.num_rows:
        return []
    numbers, number = rows.column("n").to_pylist(), rows.column("number")[0].as_py()
    return [
        Finding.of(
            key,
            where=Place(file=file.file, row=numbers[0], column=file.theirs(join.key)),
            one=number == 1,
            number=number,
            row_list=", ".join(f"{row:,}" for row in numbers),
            other=(join.other if file is source else source).file,
            **facts,
        )
    ]


def key_of(rows: str, source: Source, join: Join) -> str:
    """SQL for the key of a row: as text, whatever type the column has, and none where the cell is empty."""
    return f"nullif(trim(CAST({rows}.{identifier(source.theirs(join.key))} AS VARCHAR)), '')"


def only_of(join: Join) -> str:
    """SQL that is true of the rows of the second file that count."""
    if join.only is None:
        return "TRUE"
    name, value = join.only
    return f"coalesce(trim(CAST(other.{identifier(join.other.theirs(name))} AS VARCHAR)) = {literal(value)}, FALSE)"


def joined_text(engine: QueryEngine, source: Source, join: Join) -> str:
    """SQL for the rows of two files, ``one`` and ``other``, as one table.

    Raises:
        InputError: with every finding, if they do not fit.
    """
    if findings := join_findings(engine, source, join):
        raise InputError(findings)
    own = engine.kinds(source)
    named = [f"one.{identifier(name)}" for name in own]
    added = added_columns(own, engine.kinds(join.other), join)
    named += [f"other.{identifier(theirs)} AS {identifier(name)}" for name, theirs in added.items()]
    return (
        f"SELECT {', '.join(named)} FROM (SELECT row_number() OVER () AS {identifier(ROW_NUMBER)}, * FROM one) AS one "
        f"LEFT JOIN (SELECT * FROM other WHERE {only_of(join)}) AS other "
        f"ON {key_of('one', source, join)} = {key_of('other', join.other, join)} ORDER BY one.{identifier(ROW_NUMBER)}"
    )
