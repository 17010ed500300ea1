"""Files of tau-ARGUS and of sdcTable: tables (.tab with .rda), records (.asc with .rda), hierarchies (.hrc), labels
(.cdl), a-priori statuses (.hst), problems (.jj).

They are read as they are written by these programs and by their R interfaces (``createArgusInput``, ``writeJJFormat``,
``rtauargus``); a line that cannot be read is a finding with its number. For users: ``docs/concepts/suppression.md``.
"""

from confide.inputs.argus.beside_table import (
    AprioriLine,
    free_lead,
    hierarchy_text,
    read_apriori,
    read_hierarchy,
    read_labels,
)
from confide.inputs.argus.jj_file import JJCell, JJProblem, JJSum, read_jj, write_jj
from confide.inputs.argus.metadata import (
    ArgusMetadata,
    ArgusVariable,
    column_names,
    free_separator,
    levels_of_digits,
    metadata_text,
    read_metadata,
    read_tab,
    record_rows,
    tab_text,
)

__all__ = [
    "AprioriLine",
    "ArgusMetadata",
    "ArgusVariable",
    "JJCell",
    "JJProblem",
    "JJSum",
    "column_names",
    "free_lead",
    "free_separator",
    "hierarchy_text",
    "levels_of_digits",
    "metadata_text",
    "read_apriori",
    "read_hierarchy",
    "read_jj",
    "read_labels",
    "read_metadata",
    "read_tab",
    "record_rows",
    "tab_text",
    "write_jj",
]
