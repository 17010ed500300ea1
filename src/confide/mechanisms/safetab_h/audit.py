"""Made-up households of SafeTab-H, for rehearsals."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from confide.inputs.made_up import MadeUpPeople, RecordForm
from confide.mechanisms.safetab.made_up import coded_columns, form_of_groups
from confide.mechanisms.safetab.records import LAST_CENRACE
from confide.mechanisms.safetab_h.problem import SafeTabHProblem
from confide.mechanisms.safetab_h.records import HOUSEHOLD_COLUMNS, TENURE, TYPE
from confide.mechanisms.safetab_h.settings import TENURES, TYPES
from confide.releases.abilities import MadeUpRecords


class SafeTabHRehearsal(MadeUpRecords[SafeTabHProblem]):
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
