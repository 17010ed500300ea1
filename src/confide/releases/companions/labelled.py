"""Records for Stata (``.dta``) and SPSS (``.sav``), with labels of variables and of values; written by pyreadstat.

Codes that are whole numbers stay as they are, with value labels. Codes that are texts stay texts in SPSS, which has
value labels for texts. Stata has none: there such a variable holds the numbers 1, 2, ... with the labels, and a second
one, named ``_code``, the codes. Both programs take few characters in names of variables; the label of a variable that
had to be renamed begins with its own name. Files have no date, so that the same records are the same bytes.

References: Stata, dta 118; IBM, SPSS system files as ReadStat writes them.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from confide.errors import Finding, Place
from confide.releases.mechanism import Check
from confide.releases.tabular import CodedVariable

LABELLED = {"dta": "stata", "sav": "spss"}
"""The formats, and the folder of each."""
PROGRAMS = {"dta": "Stata", "sav": "SPSS"}
STATA_VERSION = 14
"""The oldest that has Unicode; every later version of Stata reads its files."""
LONGEST_NAME, LONGEST_LABEL, LONGEST_VALUE_LABEL = 28, 80, 120
LARGEST_CODE = 2_147_483_620
"""The largest whole number that Stata takes a value label for."""
RESERVED = frozenset(
    (
        "all",
        "and",
        "by",
        "byte",
        "double",
        "eq",
        "float",
        "ge",
        "gt",
        "if",
        "in",
        "int",
        "le",
        "long",
        "lt",
        "ne",
        "not",
    )
) | {"or", "str", "strl", "to", "using", "with"}
"""Words that no variable can be called in one of the programs."""
_NO_NAME = re.compile(r"[^A-Za-z0-9_]")
_STATA_DATE, _NO_STATA_DATE = re.compile(rb"<timestamp>\x11(.{17})</timestamp>"), b"01 Jan 1970 00:00"
_SPSS_DATE, _NO_SPSS_DATE = slice(92, 109), b"01 Jan 7000:00:00"


@dataclass(frozen=True)
class LabelledColumn:
    """A variable of a file: the column of the records that it is made of, its name and its labels."""

    source: str
    name: str
    label: str
    values: Mapping[int | str, str]
    """The labels of its values, if they have any."""
    places: tuple[str, ...] = ()
    """Codes, where the variable holds the number of each, from 1, in place of the code."""


def absent(formats: Sequence[str], where: Place) -> list[Finding]:
    """A finding where files for Stata or SPSS are asked for, and what writes them is not installed."""
    wanted = [PROGRAMS[format_] for format_ in LABELLED if format_ in formats]
    if not wanted or all(importlib.util.find_spec(name) is not None for name in ("pyreadstat", "pandas")):
        return []
    return [Finding.of("no-pyreadstat", where=where, wanted=" and ".join(wanted))]


def labelled_columns(
    schema: pa.Schema, variables: Mapping[str, CodedVariable], format_: str
) -> tuple[LabelledColumn, ...]:
    """The variables of a file for records with these columns."""
    columns: list[LabelledColumn] = []
    for field in schema:
        label = (field.metadata or {}).get(b"description", b"").decode() or field.name
        for ending, values, places in _forms(variables.get(field.name), field, format_):
            name = _free_name(field.name, ending, {column.name.lower() for column in columns})
            plain = label if name in (field.name, field.name + ending) else f"{field.name}: {label}"
            columns.append(LabelledColumn(field.name, name, plain[:LONGEST_LABEL], values, places))
    return tuple(columns)


def _forms(
    variable: CodedVariable | None, field: pa.Field, format_: str
) -> Iterator[tuple[str, dict[int | str, str], tuple[str, ...]]]:
    """How a column stands in a file, once or twice: the ending of its name, value labels, and codes by number."""
    if variable is None:
        yield "", {}, ()
        return
    labels = [_cut(label) for label in variable.labels]
    numbered = pa.types.is_integer(field.type) and all(abs(int(code)) <= LARGEST_CODE for code in variable.codes)
    if numbered:
        yield "", {int(code): label for code, label in zip(variable.codes, labels, strict=True)}, ()
    elif format_ == "sav" and pa.types.is_string(field.type):
        yield "", dict(zip(variable.codes, labels, strict=True)), ()
    else:
        yield "", dict(enumerate(labels, start=1)), variable.codes
        yield "_code", {}, ()


def _cut(text: str) -> str:
    """A label of a value as long as both programs take it."""
    return text.encode()[:LONGEST_VALUE_LABEL].decode(errors="ignore")


def _free_name(name: str, ending: str, taken: set[str]) -> str:
    """A name that both programs take, and that no other variable has."""
    plain = _NO_NAME.sub("_", name)[:LONGEST_NAME]
    if not plain[:1].isalpha() or plain.lower() in RESERVED:
        plain = f"v_{plain}"[:LONGEST_NAME]
    names = (plain + ending, *(f"{plain[:24]}{ending}_{number}" for number in range(2, len(taken) + 3)))
    return next(each for each in names if each.lower() not in taken)


def write_labelled(
    path: Path, records: pa.Table, variables: Mapping[str, CodedVariable], title: str, format_: str
) -> None:
    """Writes records, whose columns are described, for Stata or SPSS."""
    import pyreadstat

    columns = labelled_columns(records.schema, variables, format_)
    labels = {column.name: column.label for column in columns}
    values = {column.name: dict(column.values) for column in columns if column.values}
    frame, head = _frame(records, columns), title[:LONGEST_LABEL]
    if format_ == "dta":
        pyreadstat.write_dta(
            frame, str(path), head, column_labels=labels, version=STATA_VERSION, variable_value_labels=values
        )
    else:
        pyreadstat.write_sav(
            frame, str(path), _cut(head)[:64], column_labels=labels, variable_value_labels=values, row_compress=True
        )
    _without_date(path, format_)


def _frame(records: pa.Table, columns: Sequence[LabelledColumn]) -> Any:
    """Records as a data frame: numbers of codes, codes, or texts."""
    import pandas as pd

    values: dict[str, Any] = {}
    for column in columns:
        array = records.column(column.source)
        if column.places:
            place = pc.index_in(array.cast(pa.string()), pa.array(column.places, pa.string()))
            values[column.name] = place.to_numpy().astype(np.int32) + 1
        elif column.values and pa.types.is_integer(array.type):
            values[column.name] = array.to_numpy().astype(np.int32)
        elif pa.types.is_integer(array.type):
            values[column.name] = array.to_pandas()
        else:
            values[column.name] = pc.fill_null(array, "").to_pandas()
    return pd.DataFrame(values)


def _without_date(path: Path, format_: str) -> None:
    """Takes the date out of the head of a file."""
    with path.open("r+b") as file:
        head = file.read(4096)
        if format_ == "dta":
            date = _STATA_DATE.search(head)
            assert date is not None
            file.seek(date.start(1))
            file.write(_NO_STATA_DATE)
        else:
            file.seek(_SPSS_DATE.start)
            file.write(_NO_SPSS_DATE)


def _same(one: Any, other: Any) -> Any:
    """Value by value whether two columns agree; a value that is missing agrees with none but another missing one."""
    return (one == other) | (one.isna() & other.isna())


def labelled_check(
    path: Path, records: pa.Table, variables: Mapping[str, CodedVariable], format_: str, name: str
) -> Check:
    """Whether a file for Stata or SPSS says what the records say, value by value and label by label.

    It is read again, and not made again: another version of pyreadstat may write the same with other bytes.
    """
    title = f"{name}: {PROGRAMS[format_]} says what the records say"
    if absent([format_], Place()):
        return Check(title, True, "not read again, because pyreadstat is not installed here; the SHA-256 is right")
    import pyreadstat

    columns = labelled_columns(records.schema, variables, format_)
    try:
        read = pyreadstat.read_dta if format_ == "dta" else pyreadstat.read_sav
        frame, said = read(str(path))
    except (pyreadstat.ReadstatError, ValueError):
        return Check(title, False, f"{PROGRAMS[format_]} cannot read it")
    if [*frame.columns] != [column.name for column in columns] or len(frame) != records.num_rows:
        return Check(title, False, "other variables or another number of records")
    expected = _frame(records, columns)
    wrong = [name for name in expected if not (_same(frame[name], expected[name])).all()]
    wrong += [column.name for column in columns if said.column_names_to_labels[column.name] != column.label]
    labels = said.variable_value_labels
    wrong += [column.name for column in columns if dict(labels.get(column.name, {})) != dict(column.values)]
    return Check(title, not wrong, ", ".join(dict.fromkeys(wrong)) or f"{len(frame):,} records, with their labels")
