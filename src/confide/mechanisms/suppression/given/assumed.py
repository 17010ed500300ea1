"""What the columns of a table are that nobody has named: found by common names, listed, and never passed over.

One column has the figures, under a name that says so, and perhaps others have statuses, contributors, costs or levels.
All others are variables, none with a hierarchy, whose total has a usual name (:func:`assumed`). Where a
table is described, what the description leaves out is found in the same way (:func:`completed`), and a column that is
used for nothing is refused until it is described or ignored: contributors that are overlooked are firms that are
published. A code that is the sum of others is a total under a name that nobody could guess: protected as if it were
none, the table would publish the difference, so it is refused (:func:`sums_of_others`). So are labels beside codes, and
years that would be added up.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from confide.arrays import Floats
from confide.errors import Finding, InputError, ParameterError, Place
from confide.inputs.records import vocabulary
from confide.mechanisms.suppression.given import description
from confide.mechanisms.suppression.given.description import read_columns
from confide.releases.tabular import AREA_NAME, LABEL_ENDING, MARGIN

DELIMITERS = (",", ";", "\t", "|")
"""What commonly separates columns, in the order of preference."""

FIGURES = ("count", "value", "n", "obs_value", "figure", "freq")
STATUSES = ("status", "obs_status", "conf_status")
DECIDED = ("status", "sdcstatus", "sdc_status", "apriori", "a_priori", "decided")
CONTRIBUTORS = ("contributors", "contribs", "number_of_contributors", "units", "n_units", "freq")
TOPS = ("top", "max", "largest", "maxscore", "x")
COSTS, LOWERS, UPPERS, SLIDINGS = ("cost", "costs", "weight"), ("lower", "lpl"), ("upper", "upl"), ("sliding", "spl")
"""Common names, in any case, in the order of preference."""
PASSED_OVER = ("strid",)
"""Columns that a problem of sdcTable has beside its variables."""
OF_SDCTABLE = ("sdcstatus", "sdc_status")
"""Columns in which sdcTable says of every cell what it is so far: that one may be published is no decision there."""
NO_DECISION: Mapping[str, Literal[""]] = {"s": "", "w": "", "x": ""}


def read_plain(path: Path, delimiter: str = ",") -> tuple[dict[str, list[str]], str]:
    """The columns of a plain file, and what separates them: as said, or, if that leaves one column, another one."""
    rows = read_columns(path, delimiter)
    if len(rows) > 1 or path.suffix == ".parquet":
        return rows, delimiter
    (header,) = rows
    other = next((each for each in DELIMITERS if each in header), delimiter)
    return (rows, delimiter) if other == delimiter else (read_columns(path, other), other)


def assumed(
    path: Path,
    rows: Mapping[str, Sequence[str]],
    delimiter: str = ",",
    *,
    protect: bool,
    value: str | None = None,
    totals: Mapping[str, str] | None = None,
    hierarchies: Collection[str] = (),
    ignore: Sequence[str] = (),
) -> description.TableInput:
    """What a plain file is taken for.

    Args:
        path: The file.
        rows: Its columns.
        delimiter: What separates them.
        protect: Whether the table is yet to be protected.
        value: The column of figures, where it has no common name.
        totals: For a variable the code of its total, where somebody says it.
        hierarchies: Variables whose hierarchy somebody says.
        ignore: Columns that are used for nothing.

    Returns:
        The description that somebody could have written.

    Raises:
        ConfideError: The columns do not say what they are, or a code is a total that is not called so.
    """
    _require_there(path, rows, ignore)
    rows = {name: texts for name, texts in rows.items() if name not in ignore}
    there, totals = list(rows), totals or {}
    value = description.first_of(FIGURES, there) if value is None else value
    if protect:
        table = _to_protect(path, rows, value)
        used = {table.value, table.contributors, table.decided, table.cost, table.lower, table.upper, table.sliding}
        used |= {*table.largest}
    else:
        status = description.first_of(STATUSES, there)
        table, used = description.TableText(name=path.stem, value=value or "count", status=status), {value, status}
    beside = _describing(there)
    variables = [name for name in there if name not in used | beside and name.lower() not in PASSED_OVER]
    if value is None or not variables:
        raise ParameterError(
            "no-description/columns",
            where=Place(file=path.name),
            rows=len(rows),
            with_value=value is not None,
            figures=" or ".join(FIGURES),
            name=path.with_suffix(".toml").name,
        )
    described = description.SuppressionDescription(
        variables={
            name: description.VariableText(
                total=totals.get(name) or description.total_of(rows[name]) or description.TOTALS[0]
            )
            for name in variables
        },
        tables=[table.model_copy(update={"delimiter": delimiter, "ignore": list(ignore)})],
    )
    if protect:
        asked = [name for name in variables if name not in totals and name not in hierarchies]
        wrong = [*_labels_beside(path, rows, variables), *(_times(path, rows, asked))]
        if wrong:
            raise InputError(wrong)
        findings = [
            Finding.of(
                "unnamed-total",
                where=Place(file=path.name, column=name),
                name=name,
                its_code=code,
                parts=", ".join(map(repr, parts[:3])),
                parts_found=len(parts) - 3 if len(parts) > 3 else None,
                more=len(parts) > 3,
                totals=" or ".join(description.TOTALS),
                total=description.TOTALS[0],
            )
            for name in asked
            if described.variables[name].total not in rows[name]
            for code, parts in sums_of_others(rows[name], _others(rows, variables, name), rows[value])[:1]
        ]
        if findings:
            raise InputError(findings)
    given = description.with_hierarchies(description.TableInput(described, path.parent, path, path, assumed=True))
    return replace(
        given, taken_for={path.name: {**_variables_taken(described.variables), **_taken(table, protect=protect)}}
    )


def completed(
    given: description.TableInput,
    value: str | None = None,
    totals: Collection[str] = (),
    hierarchies: Collection[str] = (),
    ignore: Sequence[str] = (),
) -> description.TableInput:
    """A description of tables that are to be protected, with what it leaves out found by common names.

    Args:
        given: What the description says.
        value: The column of figures, where somebody says it.
        totals: Variables whose total somebody says.
        hierarchies: Variables whose hierarchy somebody says.
        ignore: Further columns that are used for nothing.

    Returns:
        The same with every column of every file accounted for; ``taken_for`` says what nobody had named.

    Raises:
        ConfideError: A column is used for nothing, or years would be added up.
    """
    variables, taken_for, tables = dict(given.description.variables), {}, []
    findings: list[Finding] = []
    codes: dict[str, list[str]] = {name: [] for name in variables}
    for text in given.description.tables:
        path = given.path_of(text)
        if text.metadata is not None:
            tables.append(text)
            continue
        rows, delimiter = _rows_of(path, text)
        table, wrong = _completed_table(path, rows, text, list(variables), value, ignore)
        findings += wrong
        tables.append(table.model_copy(update={"delimiter": delimiter}))
        named = {name for name in text.model_fields_set if getattr(text, name) == getattr(table, name)}
        taken_for[path.name] = _taken(table, named)
        for name in _variables_in(text, rows, variables):
            codes[name] += rows[text.columns.get(name, name)]
        said = {*totals, *hierarchies, *(name for name, each in variables.items() if each.model_fields_set & SAID)}
        of_file = {name: rows[text.columns.get(name, name)] for name in _variables_in(text, rows, variables)}
        findings += _times(path, of_file, [name for name in of_file if name not in said])
    if findings:
        raise InputError(findings)
    for name, each in variables.items():
        total = (
            None if "total" in each.model_fields_set or each.total in codes[name] else description.total_of(codes[name])
        )
        if total is not None:
            variables[name] = each.model_copy(update={"total": total})
            for path_name in taken_for:
                taken_for[path_name][name] = f"a variable with the total {total}"
    described = given.description.model_copy(update={"variables": variables, "tables": tables})
    told_files = {name: columns for name, columns in taken_for.items() if columns}
    return description.with_hierarchies(replace(given, description=described, taken_for=told_files))


SAID = {"total", "parts", "hierarchy", "also", "adds_up"}
"""Keys that say how a variable adds up."""
BESIDE = ("contributors", "largest", "decided", "cost", "lower", "upper", "sliding")
"""Keys for columns beside the figures."""


def _rows_of(path: Path, text: description.TableText) -> tuple[dict[str, list[str]], str]:
    if "delimiter" in text.model_fields_set:
        return read_columns(path, text.delimiter), text.delimiter
    return read_plain(path, text.delimiter)


def _variables_in(
    text: description.TableText, rows: Mapping[str, Sequence[str]], variables: Collection[str]
) -> list[str]:
    names = text.variables if text.variables is not None else list(variables)
    return [name for name in names if text.columns.get(name, name) in rows]


def _completed_table(
    path: Path,
    rows: Mapping[str, Sequence[str]],
    text: description.TableText,
    variables: Sequence[str],
    value: str | None,
    ignore: Sequence[str],
) -> tuple[description.TableText, list[Finding]]:
    """A table with the columns that its description leaves out, and a finding for each that is used for nothing."""
    ignored = list(dict.fromkeys([*text.ignore, *ignore]))
    _require_there(path, rows, ignored)
    of_variables = {name: text.columns.get(name, name) for name in _variables_in(text, rows, variables)}
    free = [name for name in rows if name not in (*of_variables.values(), *ignored)]
    if value is not None and "value" in text.model_fields_set and text.value != value:
        raise InputError("table-description/another", where=Place(file=path.name), found=repr(value))
    figures = value or text.value
    if value is None and "value" not in text.model_fields_set and text.value not in free:
        figures = description.first_of(FIGURES, free) or text.value
    update: dict[str, Any] = {"value": figures, "ignore": ignored}
    named = [text.contributors, *text.largest, text.decided, text.cost, text.lower, text.upper, text.sliding]
    free = [name for name in free if name not in (figures, *named)]
    common = _to_protect(path, {name: rows[name] for name in free}, figures)
    update |= {key: getattr(common, key) for key in BESIDE if key not in text.model_fields_set and getattr(common, key)}
    if "decided" in update and "statuses" not in text.model_fields_set:
        update["statuses"] = common.statuses
    table = text.model_copy(update=update)
    found_now = [table.contributors, *table.largest, table.decided, table.cost, table.lower, table.upper, table.sliding]
    beside = _describing(list(rows))
    unused = [name for name in free if name not in found_now and name not in beside]
    unused = [name for name in unused if name.lower() not in PASSED_OVER]
    return table, [
        Finding.of(
            "unused-column",
            where=Place(file=path.name, column=name),
            along=next((each for each, column in of_variables.items() if _one_to_one(rows[column], rows[name])), None),
            with_along=next(
                (each for each, column in of_variables.items() if _one_to_one(rows[column], rows[name])), None
            )
            is not None,
            name=name,
        )
        for name in unused
    ]


def _require_there(path: Path, rows: Mapping[str, Sequence[str]], ignore: Sequence[str]) -> None:
    lacking = [name for name in ignore if name not in rows]
    if lacking:
        expected = ", ".join(rows)
        raise InputError("no-column/ignored", where=Place(file=path.name), found=repr(lacking[0]), expected=expected)


def _one_to_one(codes: Sequence[str], others: Sequence[str]) -> bool:
    """Whether each code of one column goes with one of the other, both ways, and there are several."""
    pairs = set(zip(codes, others, strict=True))
    return len(pairs) > 1 and len(pairs) == len(set(codes)) == len(set(others))


def _labels_beside(path: Path, rows: Mapping[str, Sequence[str]], variables: Sequence[str]) -> list[Finding]:
    """Variables that run along with one before them: the labels of its codes."""
    findings = []
    for at, name in enumerate(variables):
        of = next((each for each in variables[:at] if _one_to_one(rows[each], rows[name])), None)
        if of is not None:
            findings.append(
                Finding.of(
                    "label-column", where=Place(file=path.name, column=name), name=name, of=of, row=len(set(rows[name]))
                )
            )
    return findings


def is_time(name: str) -> bool:
    """Whether a column is called as time is, in one of many languages.

    >>> [is_time(name) for name in ("TIME_PERIOD", "Année", "Jahr", "year_of_birth", "sex", "年")]
    [True, True, True, False, False, True]
    """
    return _bare(name) in _times_called()


@cache
def _times_called() -> frozenset[str]:
    return frozenset(map(_bare, vocabulary("time.txt")))


def _bare(name: str) -> str:
    """A name in lower case, without accents, blanks, digits and signs; of other scripts every letter."""
    marks = unicodedata.normalize("NFKD", name.casefold())
    return "".join(sign for sign in marks if unicodedata.category(sign)[0] == "L" or sign in DEVANAGARI)


DEVANAGARI = frozenset(map(chr, range(0x900, 0x980)))
"""Its vowels are marks, and no accents."""


def _times(path: Path, rows: Mapping[str, Sequence[str]], asked: Sequence[str]) -> list[Finding]:
    """Years and the like that would be added up, although nobody says that they should be."""
    return [
        Finding.of(
            "time-added-up",
            where=Place(file=path.name, column=name),
            name=name,
            row=len(set(rows[name])),
            total=description.TOTALS[0],
        )
        for name in asked
        if is_time(name) and description.total_of(rows[name]) is None
    ]


def _describing(there: Sequence[str]) -> set[str]:
    """Columns of a released table (:mod:`confide.releases.tabular.table`) that say of its codes what they mean."""
    labels = {name for name in there if name.endswith(LABEL_ENDING) and name.removesuffix(LABEL_ENDING) in there}
    return labels | {MARGIN, AREA_NAME} if labels else set()


def _others(rows: Mapping[str, Sequence[str]], variables: Sequence[str], name: str) -> list[tuple[str, ...]]:
    """For each row its codes of the other variables."""
    others = [rows[each] for each in variables if each != name]
    return list(zip(*others, strict=True)) if others else [()] * len(rows[name])


def sums_of_others(
    codes: Sequence[str], others: Sequence[tuple[str, ...]], figures: Sequence[str]
) -> list[tuple[str, list[str]]]:
    """Codes that are the sum of all other codes, or of several that stand next to them, whatever the other variables.

    Args:
        codes: The code of each row.
        others: Its codes of the other variables.
        figures: Its figure.

    Returns:
        Each such code with those that it is the sum of.

    >>> sums_of_others(["all of it", "N", "S"] * 2, [("f",)] * 3 + [("m",)] * 3, ["12", "2", "10", "18", "9", "9"])
    [('all of it', ['N', 'S'])]
    """
    names = list(dict.fromkeys(codes))
    number = {code: at for at, code in enumerate(names)}
    column = {key: at for at, key in enumerate(dict.fromkeys(others))}
    table = np.zeros((len(names), len(column)))
    for code, key, text in zip(codes, others, figures, strict=True):
        try:
            table[number[code], column[key]] += float(text)
        except ValueError:
            return []  # what is no number is refused, with its row, when the figures are read
    inhabited = [at for at in range(len(names)) if table[at].any()]
    sums = []
    for place, at in enumerate(inhabited):
        before, after = inhabited[:place][::-1], inhabited[place + 1 :]
        for run in (before + after, after, before):
            parts = run if len(run) == len(inhabited) - 1 and _adds_up(table, at, run) else _first_run(table, at, run)
            if len(parts) > 1:
                sums.append((names[at], [names[part] for part in sorted(parts)]))
                break
    return sums


def _adds_up(table: Floats, at: int, parts: Sequence[int]) -> bool:
    return bool(np.allclose(table[at], table[list(parts)].sum(axis=0), rtol=1e-12))


def _first_run(table: Floats, at: int, run: Sequence[int]) -> list[int]:
    """The first codes of a run that a code is the sum of, where more than one cell says so; none if it is not."""
    added = np.zeros(table.shape[1])
    for place, part in enumerate(run):
        added += table[part]
        if (added > table[at]).any():
            return []
        if (added == table[at]).all():
            return list(run[: place + 1]) if np.count_nonzero(added) > 1 else []
    return []


def _to_protect(path: Path, rows: Mapping[str, Sequence[str]], value: str | None) -> description.TableText:
    there = [name for name in rows if name != value]
    tops = [
        name
        for stem in TOPS
        for at in range(1, 11)
        if (name := description.first_of([f"{stem}{at}", f"{stem}_{at}"], there))
    ]
    decided = description.first_of(DECIDED, there)
    return description.TableText(
        name=path.stem,
        value=value or "count",
        contributors=description.first_of(CONTRIBUTORS, there),
        largest=tops,
        decided=decided,
        statuses=dict(NO_DECISION) if decided is not None and decided.lower() in OF_SDCTABLE else {},
        cost=description.first_of(COSTS, there),
        lower=description.first_of(LOWERS, there),
        upper=description.first_of(UPPERS, there),
        sliding=description.first_of(SLIDINGS, there),
    )


def assumptions(given: description.TableInput) -> list[Finding]:
    """A warning for each file with what its columns were taken for that nobody named."""
    return [
        Finding.of(
            "columns-assumed",
            where=Place(file=name),
            found="; ".join((f"{column}: {meaning}" for column, meaning in columns.items())),
            severity="warning",
            assumed=given.assumed,
        )
        for name, columns in given.taken_for.items()
    ]


def _variables_taken(variables: Mapping[str, description.VariableText]) -> dict[str, str]:
    return {name: f"a variable with the total {text.total}" for name, text in variables.items()}


def _taken(table: description.TableText, named: Collection[str] = (), *, protect: bool = True) -> dict[str, str]:
    """What the columns of a table were taken for, but for those of keys that somebody named."""
    counts = protect and table.contributors is None and not table.largest
    others = (
        ("value", table.value, "the figures, which are counts" if counts else "the figures"),
        ("status", table.status, "what is suppressed"),
        ("contributors", table.contributors, "the number of contributors"),
        ("decided", table.decided, "a status that was decided beforehand"),
        ("cost", table.cost, "what it costs to hide a cell"),
        ("lower", table.lower, "how far the interval must reach below"),
        ("upper", table.upper, "how far the interval must reach above"),
        ("sliding", table.sliding, "how wide the interval must be"),
        *(("largest", name, "a largest contribution") for name in table.largest),
    )
    return {name: what for key, name, what in others if name is not None and key not in named}
