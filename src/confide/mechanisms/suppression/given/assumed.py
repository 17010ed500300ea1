"""A table without a description, read as such tables commonly are.

One column has the figures, under a name that says so, and perhaps others have statuses, contributors, costs or levels.
All others are variables, none with a hierarchy, whose total is called as totals commonly are. What was taken for what
is told: whoever knows better writes a description. A code that is the sum of others is a total under a name that nobody
could guess: protected as if it were none, the table would publish the difference, so it is refused
(:func:`sums_of_others`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from confide.errors import Finding, InputError, ParameterError, Place
from confide.mechanisms.suppression.given.cell_rows import read_columns
from confide.mechanisms.suppression.given.description import (
    TOTALS,
    SuppressionDescription,
    TableInput,
    TableText,
    VariableText,
    first_of,
    total_of,
    with_hierarchies,
)
from confide.mechanisms.suppression.structure import Floats
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
) -> TableInput:
    """What a plain file is taken for.

    Args:
        path: The file.
        rows: Its columns.
        delimiter: What separates them.
        protect: Whether the table is yet to be protected.
        value: The column of figures, where it has no common name.
        totals: For a variable the code of its total, where somebody says it.
        hierarchies: Variables whose hierarchy somebody says.

    Returns:
        The description that somebody could have written.

    Raises:
        ConfideError: The columns do not say what they are, or a code is a total that is not called so.
    """
    there, totals = list(rows), totals or {}
    value = first_of(FIGURES, there) if value is None else value
    if protect:
        table = _to_protect(path, rows, value)
        used = {table.value, table.contributors, table.decided, table.cost, table.lower, table.upper, table.sliding}
        used |= {*table.largest}
    else:
        status = first_of(STATUSES, there)
        table, used = TableText(name=path.stem, value=value or "count", status=status), {value, status}
    beside = _describing(there)
    variables = [name for name in there if name not in used | beside and name.lower() not in PASSED_OVER]
    if value is None or not variables:
        raise ParameterError(
            "no-description",
            "there is no description of the table, and its columns do not say what they are",
            where=Place(file=path.name),
            found=f"{len(rows)} columns, " + ("none of figures" if value is None else "no variables"),
            expected=f"a column of figures called {' or '.join(FIGURES)}, and one for each variable",
            remedy=f"rename the columns, or write a description beside it: {path.with_suffix('.toml').name}",
        )
    described = SuppressionDescription(
        variables={
            name: VariableText(total=totals.get(name) or total_of(rows[name]) or TOTALS[0]) for name in variables
        },
        tables=[table.model_copy(update={"delimiter": delimiter})],
    )
    if protect:
        asked = [name for name in variables if name not in totals and name not in hierarchies]
        findings = [
            _unnamed_total(path, name, code, parts)
            for name in asked
            if described.variables[name].total not in rows[name]
            for code, parts in sums_of_others(rows[name], _others(rows, variables, name), rows[value])[:1]
        ]
        if findings:
            raise InputError(findings)
    return with_hierarchies(TableInput(described, path.parent, path, path, assumed=True))


def _describing(there: Sequence[str]) -> set[str]:
    """Columns of a released table (:mod:`confide.releases.tabular.coded`) that say of its codes what they mean."""
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


def _unnamed_total(path: Path, name: str, code: str, parts: Sequence[str]) -> Finding:
    listed = ", ".join(map(repr, parts[:3])) + (f" and {len(parts) - 3:,} more" if len(parts) > 3 else "")
    return Finding(
        "unnamed-total",
        f"a code of {name!r} is the sum of others, and nothing says that it is a total",
        Place(file=path.name, column=name),
        f"{code!r}, the sum of {listed}",
        f"a total called {' or '.join(TOTALS)}, or a description that says which codes have parts",
        f"say so: --total {name}={code} for the total, --hierarchy {name}=FILE or a description for a sub-total; if it "
        f"is neither, --total {name}={TOTALS[0]}",
    )


def _to_protect(path: Path, rows: Mapping[str, Sequence[str]], value: str | None) -> TableText:
    there = [name for name in rows if name != value]
    tops = [name for stem in TOPS for at in range(1, 11) if (name := first_of([f"{stem}{at}", f"{stem}_{at}"], there))]
    decided = first_of(DECIDED, there)
    return TableText(
        name=path.stem,
        value=value or "count",
        contributors=first_of(CONTRIBUTORS, there),
        largest=tops,
        decided=decided,
        statuses=dict(NO_DECISION) if decided is not None and decided.lower() in OF_SDCTABLE else {},
        cost=first_of(COSTS, there),
        lower=first_of(LOWERS, there),
        upper=first_of(UPPERS, there),
        sliding=first_of(SLIDINGS, there),
    )


def taken_for(given: TableInput) -> dict[str, str]:
    """For a table without a description what its columns were taken for."""
    if not given.assumed:
        return {}
    description = given.description
    table = description.tables[0]
    columns = {name: f"a variable with the total {text.total}" for name, text in description.variables.items()}
    columns[table.value] = "the figures"
    others = (
        (table.status, "what is suppressed"),
        (table.contributors, "the number of contributors"),
        (table.decided, "a status that was decided beforehand"),
        (table.cost, "what it costs to hide a cell"),
        (table.lower, "how far the interval must reach below"),
        (table.upper, "how far the interval must reach above"),
        (table.sliding, "how wide the interval must be"),
        *((name, "a largest contribution") for name in table.largest),
    )
    return columns | {name: what for name, what in others if name is not None}
