"""From the SQL that mechanisms write to Spark's: the few places where the dialects of DuckDB and Spark differ.

Mechanisms write the common part of both dialects, quoted as DuckDB quotes. What is left to change is listed here, once:

- ``"name"``: in backticks, since a quotation mark in Spark may be that of a text;
- ``'text'``: a backslash is a character in DuckDB, and begins an escape in Spark;
- ``VARCHAR``: ``STRING``, since Spark wants a length for the other; ``BIGINT[]``: ``ARRAY<BIGINT>``;
- ``ORDER BY a``: ``ORDER BY a NULLS LAST``, which is what DuckDB does and Spark does not;
- ``TRY_CAST(x AS DECIMAL(p, s))``: the rounding and the spellings of DuckDB, see :func:`_decimal`.

One difference is left to whoever writes a query: a missing value ``IN (SELECT ...)`` is missing in DuckDB and false in
Spark, outside of ``WHERE``. So it is asked for first, or ``coalesce``d.

What is in neither (slices of lists, ``EXCLUDE``, ``unnest``) is refused, so that nobody finds out on a cluster.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from confide.errors import Finding, ParameterError

_PIECE = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|[A-Za-z_]\w*|\s+|.""", re.DOTALL)
_REFUSED = {"EXCLUDE", "UNNEST", "REGEXP_FULL_MATCH", "QUALIFY", "ILIKE"}
_ENDS_OF_ORDER = {"LIMIT", "UNION", "ROWS", "RANGE", ";"}
_OPEN, _CLOSE = "(", ")"

_SPACE = r"[\t\n\x0b\f\r ]*"
_NUMBER = rf"\A{_SPACE}[+-]?[0-9_.]+([eE][+-]?[0-9_]+)?{_SPACE}\z"


def to_spark(text: str) -> str:
    """The same query in Spark's dialect. Raises a :class:`ParameterError` for what is known not to be there."""
    pieces = _PIECE.findall(text)
    return "".join(_translated(list(_nulls_last(pieces))))


def spark_identifier(name: str) -> str:
    """A quoted column name."""
    return "`" + name.replace("`", "``") + "`"


def spark_text(value: str) -> str:
    """A constant."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _translated(pieces: Sequence[str]) -> Iterator[str]:
    at = 0
    while at < len(pieces):
        piece = pieces[at]
        word = piece.upper()
        if piece[0] == "'":
            yield spark_text(piece[1:-1].replace("''", "'"))
        elif piece[0] == '"':
            yield spark_identifier(piece[1:-1].replace('""', '"'))
        elif word == "TRY_CAST":
            end = _closing(pieces, at)
            yield _try_cast(pieces[pieces.index(_OPEN, at) + 1 : end])
            at = end
        elif [*pieces[at + 1 : at + 3]] == ["[", "]"]:
            yield f"ARRAY<{_type(word)}>"
            at += 2
        elif word in _REFUSED or piece == "[" or [*pieces[at : at + 2]] == ["/", "/"]:
            raise _not_common(piece)
        else:
            yield _type(piece)
        at += 1


def _type(word: str) -> str:
    return "STRING" if word.upper() == "VARCHAR" else word


def _closing(pieces: Sequence[str], at: int) -> int:
    """The place of the bracket that closes the first one after ``at``."""
    depth = 0
    for place in range(at, len(pieces)):
        depth += (pieces[place] == _OPEN) - (pieces[place] == _CLOSE)
        if pieces[place] == _CLOSE and depth == 0:
            return place
    raise _not_common("a bracket that is not closed")


def _try_cast(pieces: Sequence[str]) -> str:
    """``x AS type`` as a cast that gives NULL where there is no such value."""
    depth, split = 0, -1
    for place, piece in enumerate(pieces):
        depth += (piece == _OPEN) - (piece == _CLOSE)
        if depth == 0 and piece.upper() == "AS":
            split = place
    value = "".join(_translated(pieces[:split])).strip()
    kind = "".join(_translated(pieces[split + 1 :])).strip()
    decimal = re.fullmatch(r"DECIMAL\((\d+), *(\d+)\)", kind, re.IGNORECASE)
    return _decimal(value, int(decimal[1]), int(decimal[2])) if decimal else f"TRY_CAST({value} AS {kind})"


def _decimal(value: str, digits: int, scale: int) -> str:
    """A decimal number as DuckDB reads it, NULL where it reads none.

    A floating-point number is multiplied by the power of ten and the product rounded; Spark would round the shortest
    decimal that stands for the number, which may be a tie where the product is none. In a text, an underscore may part
    digits, and digits are those of ASCII.
    """
    target = f"DECIMAL({digits}, {scale})"
    scaled = f"TRY_CAST(round(TRY_CAST({value} AS DOUBLE) * {10**scale}D) AS BIGINT)"
    unit = "1" if scale == 0 else f"0.{'0' * (scale - 1)}1"
    floating = f"TRY_CAST(CAST({scaled} AS DECIMAL(20, 0)) * {unit}BD AS {target})"
    text = f"CAST({value} AS STRING)"
    plain = f"regexp_replace({text}, {spark_text('(?<=[0-9])_(?=[0-9])')}, '')"
    spelled = f"TRY_CAST(CASE WHEN {text} RLIKE {spark_text(_NUMBER)} THEN {plain} END AS {target})"
    return (
        f"CASE WHEN typeof({value}) IN ('double', 'float') THEN {floating} "
        f"WHEN typeof({value}) = 'string' THEN {spelled} ELSE TRY_CAST({value} AS {target}) END"
    )


def _nulls_last(pieces: Sequence[str]) -> Iterator[str]:
    """The pieces, with where missing values go said for every item of an ``ORDER BY``."""
    depth = 0
    ordering: list[int] = []  # the depths of the orders that are open
    said = False
    for at, piece in enumerate(pieces):
        word = piece.upper()
        ends = depth == (ordering[-1] if ordering else -1) and (piece in {",", _CLOSE} or word in _ENDS_OF_ORDER)
        if ends:
            if not said:
                yield " NULLS LAST "
            said = False
            if piece != ",":
                ordering.pop()
        depth += (piece == _OPEN) - (piece == _CLOSE)
        if word == "BY" and _word_before(pieces, at) == "ORDER":
            ordering.append(depth)
            said = False
        said = said or (word == "NULLS" and bool(ordering))
        yield piece
    if ordering and not said:
        yield " NULLS LAST"


def _word_before(pieces: Sequence[str], at: int) -> str:
    return next((piece.upper() for piece in reversed(pieces[:at]) if not piece.isspace()), "")


def _not_common(piece: str) -> ParameterError:
    return ParameterError(
        Finding(
            code="spark-dialect",
            what="a query of this mechanism is not in the part of SQL that both engines understand",
            found=repr(piece[:20]),
            expected="SQL as docs/concepts/engines.md has it",
            remedy="run with --engine local; this is a gap in Confide and worth reporting",
        )
    )
