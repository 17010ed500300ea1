"""The three files of an attack, as people keep them: CSV or Parquet, with column names of their own.

A CSV file is read as text throughout, so that a geocode keeps its leading zeros. Nothing of a value is ever shown: two
of the files are confidential, and the third may be as good as that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from confide.errors import Finding, InputError, ParameterError, Place
from confide.inputs.table_files import why_unreadable


class Role(StrEnum):
    """Which of the three files."""

    RECONSTRUCTED = "reconstructed"
    ATTACKER = "attacker"
    TRUTH = "truth"


NEEDED: Mapping[Role, tuple[str, ...]] = {
    Role.RECONSTRUCTED: ("geocode", "sex", "cenrace", "hispanic"),
    Role.ATTACKER: ("person_id", "geocode", "sex", "age"),
    Role.TRUTH: ("geocode", "sex", "age", "cenrace", "hispanic"),
}
OPTIONAL: Mapping[Role, tuple[str, ...]] = {
    Role.RECONSTRUCTED: ("age", "age_low", "age_high", "age_bin", "solution_variability", "confidence"),
    Role.ATTACKER: (),
    Role.TRUTH: ("person_id", "block_group", "tract"),
}


def read_people(path: Path, role: Role, columns: Mapping[str, str] | None = None) -> pa.Table:
    """The columns of a file that matter for its role, under our names. ``columns`` gives theirs for some of ours."""
    theirs = dict(columns or {})
    wanted = {name: theirs.get(name, name) for name in (*NEEDED[role], *OPTIONAL[role])}
    names = _names(path)
    there = set(names)
    missing = [name for name in NEEDED[role] if wanted[name] not in there]
    missing += [name for name in theirs if name in wanted and wanted[name] not in there and name not in missing]
    ages = {"age", "age_low", "age_bin"}
    if role is Role.RECONSTRUCTED and not any(wanted[name] in there for name in ages):
        missing.append("age")
    if role is Role.RECONSTRUCTED and wanted["age_low"] in there and wanted["age_high"] not in there:
        missing.append("age_high")
    if missing:
        raise InputError(
            Finding(
                code="missing-column",
                what="a column is missing",
                where=Place(file=path.name, column=wanted[name]),
                found=_listed(path, names),
                expected=_expected(role, name),
                remedy=f"name the column with --columns {role.value}:{name}=THEIRS, or add it",
            )
            for name in missing
        )
    chosen = {name: column for name, column in wanted.items() if column in there}
    twice = [column for column in dict.fromkeys(chosen.values()) if names.count(column) > 1]
    if twice:
        raise InputError(
            Finding(
                code="column-twice",
                what="two columns have the same name",
                where=Place(file=path.name, column=column),
                found=f"{names.count(column)} columns of this name",
                expected="one",
                remedy="rename the others",
            )
            for column in twice
        )
    read = _read(path, list(dict.fromkeys(chosen.values())))
    return pa.table({name: read.column(column) for name, column in chosen.items()})


def parse_columns(texts: Iterable[str]) -> dict[Role, dict[str, str]]:
    """``OURS=THEIRS`` for all three files, ``truth:OURS=THEIRS`` for one; several with commas between."""
    names: dict[Role, dict[str, str]] = {role: {} for role in Role}
    for text in (part for option in texts for part in option.split(",")):
        target, equals, theirs = text.strip().partition("=")
        role, colon, ours = target.rpartition(":")
        roles = [Role(role)] if role in set(Role) else [] if colon else list(Role)
        roles = [one for one in roles if ours in (*NEEDED[one], *OPTIONAL[one])]
        if not equals or not theirs or not roles:
            raise ParameterError(
                "bad-columns",
                "this does not name a column",
                where=Place(path="--columns"),
                found=text[:60],
                expected="OURS=THEIRS or FILE:OURS=THEIRS, such as truth:person_id=pik; FILE is one of "
                + ", ".join(Role),
                remedy="correct --columns",
            )
        for one in roles:
            names[one][ours] = theirs
    return names


def _names(path: Path) -> list[str]:
    try:
        if _is_parquet(path):
            return list(pq.read_schema(path).names)
        with pacsv.open_csv(path, read_options=pacsv.ReadOptions(block_size=1 << 20)) as reader:
            return list(reader.schema.names)
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(path, error) from None


def _read(path: Path, names: list[str]) -> pa.Table:
    try:
        if _is_parquet(path):
            return pq.read_table(path, columns=names)
        convert = pacsv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            include_columns=names,
            strings_can_be_null=True,
            null_values=["", "NA"],
        )
        return pacsv.read_csv(path, convert_options=convert)
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(path, error) from None


def _listed(path: Path, names: list[str]) -> str:
    """The columns that a file has. Those of a CSV are only counted: without a line of names, they are a record."""
    if _is_parquet(path):
        return f"columns {', '.join(sorted(names))}"[:300]
    return f"{len(names):,} columns of other names in the first line"


def _is_parquet(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"PAR1"


def _unreadable(path: Path, error: Exception) -> InputError:
    return InputError(
        "unreadable-file",
        "the file cannot be read",
        where=Place(file=path.name),
        found=why_unreadable(path, error),
        expected="a CSV file with a header, in UTF-8, or a Parquet file",
        remedy="check the path and the file",
    )


def _expected(role: Role, name: str) -> str:
    if role is Role.RECONSTRUCTED and name in ("age", "age_high"):
        return "age, or age_low and age_high, or age_bin"
    return f"{', '.join(NEEDED[role])} in the file {role.value}"
