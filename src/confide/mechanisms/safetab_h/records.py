"""The household records of the official layout: what must hold of each, what is read of it, and made-up ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from confide.engines import Engine, Source
from confide.inputs.made_up import MadeUpPeople, RecordForm
from confide.mechanisms.safetab.made_up import coded_columns, form_of_groups
from confide.mechanisms.safetab.records import (
    CODE_COLUMNS,
    LAST_CENRACE,
    RecordLayout,
    WholeColumn,
    columns_of,
    whole_expression,
)
from confide.mechanisms.safetab.regions import BLOCK_COLUMNS
from confide.mechanisms.safetab_h.settings import TENURES, TYPES
from confide.releases.abilities import MadeUpRecords

if TYPE_CHECKING:
    from confide.mechanisms.safetab_h.problem import SafeTabHProblem

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


class SafeTabHRehearsal(MadeUpRecords["SafeTabHProblem"]):
    """Households of every type, tenure and code, each alike."""

    def record_form(self, problem: SafeTabHProblem) -> RecordForm:
        """Types, tenures and codes of the lists, each alike; areas by the names of the region types."""
        columns: dict[str, Iterable[str]] = {
            "HHRACE": (f"{number:02d}" for number in range(1, LAST_CENRACE + 1)),
            TYPE: map(str, range(1, TYPES + 1)),
            TENURE: map(str, range(1, TENURES + 1)),
        }
        return form_of_groups(problem, columns)

    def made_up_people(self, problem: SafeTabHProblem, people: MadeUpPeople) -> pa.Table:
        """Every column of the layout, all of it text; some householders have a second race code."""
        columns, theirs = coded_columns(problem.lists.codes, people), problem.records.theirs
        return pa.table({theirs(name): columns[name] for name in HOUSEHOLD_COLUMNS})
