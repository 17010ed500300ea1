"""The household records of the official layout: what must hold of each, and what is read of it."""

from __future__ import annotations

from collections.abc import Mapping

from confide.engines import Engine, Source
from confide.mechanisms.safetab.records import CODE_COLUMNS, RecordLayout, WholeColumn, columns_of, whole_expression
from confide.mechanisms.safetab.regions import BLOCK_COLUMNS
from confide.mechanisms.safetab_h.settings import TENURES, TYPES

TYPE, TENURE = "HOUSEHOLD_TYPE", "TEN"
HOUSEHOLD_COLUMNS = (*BLOCK_COLUMNS, "HHRACE", *CODE_COLUMNS, TYPE, TENURE)
"""The columns of the official layout, in order. The codes are those of the householder."""

HOUSEHOLDS = RecordLayout(
    HOUSEHOLD_COLUMNS,
    "HHRACE",
    (WholeColumn(TYPE, "a household type", 1, TYPES), WholeColumn(TENURE, "a tenure", 1, TENURES)),
)


def household_expressions(engine: Engine, source: Source) -> Mapping[str, str]:
    """SQL over records that passed the checks: ``code`` of the block (15 digits), ``cell`` (0 to 19, household type by
    tenure, see :mod:`confide.mechanisms.safetab_h.settings`), and the columns of race and ethnicity codes."""
    column, kinds = columns_of(source, HOUSEHOLDS), engine.kinds(source)
    kind, tenure = (
        whole_expression(column[name], integer=kinds[source.theirs(name)] == "integer") for name in (TYPE, TENURE)
    )
    return {
        "code": " || ".join(column[name] for name in BLOCK_COLUMNS),
        "cell": f"CAST({TENURES} * ({kind} - 1) + {tenure} - 1 AS BIGINT)",
        **{name: column[name] for name in CODE_COLUMNS},
    }
