"""Records in two files, such as persons and households, made into the one table that engines read.

The rows are those of the first file, in its order, so that the number of a row is that of the file which the office
knows. Each has the columns of the one row of the second file with the same key, and no value in them where there is no
such row. A column that both files have is the first file's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from confide.engines.protocol import ROW_NUMBER, Join, Source, identifier, literal
from confide.errors import Finding, InputError, Place

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
    """A finding with the first rows of a file of which something is true; none if there are no such rows."""
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
    """SQL for the key of a row: as text, whatever type the column has, and none where nothing stands."""
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
