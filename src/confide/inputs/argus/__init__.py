"""Files of tau-ARGUS and of sdcTable: tables (.tab with .rda), hierarchies (.hrc), a-priori statuses (.hst), problems
(.jj).

They are read as they are written by these programs and by their R interfaces (``createArgusInput``, ``writeJJFormat``,
``rtauargus``); a line that cannot be read is a finding with its number. For users: ``docs/concepts/suppression.md``.
"""

from confide.inputs.argus.apriori import AprioriLine, read_apriori
from confide.inputs.argus.argus_lines import read_hierarchy
from confide.inputs.argus.jj_file import JJCell, JJProblem, JJSum, read_jj, write_jj
from confide.inputs.argus.metadata import ArgusMetadata, ArgusVariable, levels_of_digits, read_metadata, read_tab

__all__ = [
    "AprioriLine",
    "ArgusMetadata",
    "ArgusVariable",
    "JJCell",
    "JJProblem",
    "JJSum",
    "levels_of_digits",
    "read_apriori",
    "read_hierarchy",
    "read_jj",
    "read_metadata",
    "read_tab",
    "write_jj",
]
