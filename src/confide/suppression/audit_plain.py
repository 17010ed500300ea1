"""A suppressed table without a description, read as such tables commonly are.

One column has the figures, under a name that says so, and perhaps one has statuses. All others are variables, none with
a hierarchy, whose total is called as totals commonly are. What was taken for what is told: whoever knows better writes
a description (:mod:`confide.suppression.audit_description`).
"""

from __future__ import annotations

from pathlib import Path

from confide.errors import Finding, ParameterError, Place
from confide.suppression.audit_description import Described, Description, TableText, VariableText, describe
from confide.suppression.audit_reading import read_columns

FIGURES = ("count", "value", "n", "obs_value", "figure")
STATUSES = ("status", "obs_status", "conf_status")
TOTALS = ("_T", "total", "all", "sum")
"""Common names, in any case, in the order of preference."""


def describe_or_assume(path: Path) -> Described:
    """The description of a table; for a single file without one, what it is taken for."""
    plain = path.is_file() and path.suffix != ".toml" and not path.with_suffix(".toml").is_file()
    return _assumed(path) if plain else describe(path)


def _assumed(path: Path) -> Described:
    rows = read_columns(path, ",")
    value, status = _first(FIGURES, list(rows)), _first(STATUSES, list(rows))
    variables = [name for name in rows if name not in (value, status)]
    if value is None or not variables:
        raise ParameterError(
            Finding(
                code="no-description",
                what="there is no description of the table, and its columns do not say what they are",
                where=Place(file=path.name),
                found=f"{len(rows)} columns, " + ("none of figures" if value is None else "no variables"),
                expected=f"a column of figures called {' or '.join(FIGURES)}, and one for each variable",
                remedy=f"rename the columns, or write a description beside it: {path.with_suffix('.toml').name}",
            )
        )
    return Described(
        Description(
            variables={name: VariableText(total=_first(TOTALS, rows[name]) or TOTALS[0]) for name in variables},
            tables=[TableText(name=path.stem, value=value, status=status)],
        ),
        path.parent,
        path,
        path,
        assumed=True,
    )


def _first(names: tuple[str, ...], there: list[str]) -> str | None:
    """The first of some names that is there, in any case, as it is written there."""
    written = {each.lower(): each for each in reversed(there)}
    return next((written[name.lower()] for name in names if name.lower() in written), None)
