"""SQL text for what a schema says, in the common part of the dialects of DuckDB and Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from confide.schema import NO_GROUP, Code, Query, Recode

ROW_NUMBER = "confide row number"
"""The name of the column with the number of a row in its file: no column of the records may be taken for it."""


def identifier(name: str) -> str:
    """A quoted column name."""
    return '"' + name.replace('"', '""') + '"'


def literal(code: Code) -> str:
    """A code as an SQL constant."""
    return str(code) if isinstance(code, int) else "'" + code.replace("'", "''") + "'"


def counting(rows: str, keys: Mapping[str, str]) -> str:
    """Counts of rows by keys, each an expression under its name.

    By position: with GROUP BY ALL, DuckDB would take a constant key for none, and count zero rows as one group.
    """
    selected = ", ".join(f"{expression} AS {identifier(name)}" for name, expression in keys.items())
    positions = ", ".join(str(position) for position in range(1, len(keys) + 1))
    return f"SELECT {selected}, count(*) AS n FROM {rows} GROUP BY {positions}"


def group_index(recode: Recode, column: str) -> str:
    """The group of a record under ``recode``: 0.., ``NO_GROUP`` where the recode leaves its level out, or NULL where
    the code is none of the attribute's.

    Runs of consecutive whole numbers become ranges, so that age in single years stays a short text.
    """
    branches: list[tuple[int, list[Code]]] = []
    by_code = sorted(
        (level.code, int(group)) for level, group in zip(recode.attribute.levels, recode.assignment, strict=True)
    )
    if recode.attribute.is_integer and _shifts(by_code):
        first, last = int(by_code[0][0]), int(by_code[-1][0])
        return f"CASE WHEN {column} BETWEEN {first} AND {last} THEN {column} - {first} END"
    for group, members in groupby(by_code, key=lambda pair: pair[1]):
        branches.append((group, [code for code, _ in members]))
    whens = [f"WHEN {_test(column, codes)} THEN {group}" for group, codes in branches]
    return f"CASE {' '.join(whens)} END"


def cell_index(query: Query, columns: Mapping[str, str]) -> str:
    """The cell of a record in ``query``, in C order; NULL where a code is unknown, ``NO_GROUP`` where a recode leaves
    it out.

    Every factor is cast to BIGINT first: narrow integers would wrap without a word in some engines.
    """
    if not query.variables:
        return "CAST(0 AS BIGINT)"
    parts = [
        f"CAST({group_index(variable, columns[variable.attribute.name])} AS BIGINT)" for variable in query.variables
    ]
    index = parts[0]
    for size, part in zip(query.shape[1:], parts[1:], strict=True):
        index = f"({index}) * {size} + {part}"
    if query.is_complete:
        return index
    left_out = " OR ".join(f"{part} = {NO_GROUP}" for part in parts)
    return f"CASE WHEN {left_out} THEN {NO_GROUP} ELSE {index} END"


def _shifts(by_code: Sequence[tuple[Code, int]]) -> bool:
    """Whether the group is the code less the first code: consecutive codes, each its own group in order."""
    first = int(by_code[0][0])
    return all(int(code) - first == group == position for position, (code, group) in enumerate(by_code))


def _test(column: str, codes: Sequence[Code]) -> str:
    if isinstance(codes[0], int):
        whole = [int(code) for code in codes]
        if whole == list(range(whole[0], whole[-1] + 1)):
            return f"{column} = {whole[0]}" if len(whole) == 1 else f"{column} BETWEEN {whole[0]} AND {whole[-1]}"
    return f"{column} IN ({', '.join(literal(code) for code in codes)})"
