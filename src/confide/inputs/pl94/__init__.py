"""The Census Bureau's legacy PL 94-171 files, 2010 layout: reading, checking, and making person and block files.

See docs/concepts/pl94.md. Such a file is published: its values may be shown in findings.
"""

from confide.inputs.pl94.importer import ImportSummary, import_pl94
from confide.inputs.pl94.layout import SparseRows
from confide.inputs.pl94.reader import Pl94File, published_table, read_pl94
from confide.inputs.pl94.retabulate import (
    LevelComparison,
    check_consistency,
    compare,
    count_persons,
    people,
    persons_from_pl94,
    tabulate,
)

__all__ = [
    "ImportSummary",
    "LevelComparison",
    "Pl94File",
    "SparseRows",
    "check_consistency",
    "compare",
    "count_persons",
    "import_pl94",
    "people",
    "persons_from_pl94",
    "published_table",
    "read_pl94",
    "tabulate",
]
