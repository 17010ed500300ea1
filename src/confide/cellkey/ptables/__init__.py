"""Perturbation tables: made, checked, written, read, looked up in.

* :mod:`~confide.cellkey.ptables.settings`: D, V, js and further conditions; the problem of each row;
* :mod:`~confide.cellkey.ptables.feasibility`: which variances are possible, exactly;
* :mod:`~confide.cellkey.ptables.entropy`, :mod:`~confide.cellkey.ptables.certificate`: the law of a row, and its proof;
* :mod:`~confide.cellkey.ptables.generate`: all rows;
* :mod:`~confide.cellkey.ptables.table`: the table in whole numbers, and the lookup;
* :mod:`~confide.cellkey.ptables.checks`: what can be wrong with one;
* :mod:`~confide.cellkey.ptables.modify`: the same law in another layout;
* :mod:`~confide.cellkey.ptables.files`, :mod:`~confide.cellkey.ptables.ons`: text forms of other programs;
* :mod:`~confide.cellkey.ptables.reading`: two neighbouring counts, told apart.

Derivation: ``docs/proofs/ptables.md``. For users: ``docs/concepts/ptables.md``.
"""

from confide.cellkey.ptables.certificate import Certificate
from confide.cellkey.ptables.files import PTableFile, export_text, read_table
from confide.cellkey.ptables.generate import Design, DesignedRow, feasible, generate, symmetric_law
from confide.cellkey.ptables.modify import modify, same_law
from confide.cellkey.ptables.ons import export_ons
from confide.cellkey.ptables.reading import NOT_A_PROMISE, Reading, read
from confide.cellkey.ptables.settings import RowProblem, Settings, count_settings, magnitude_settings
from confide.cellkey.ptables.table import DECIMAL, LookupRow, PTable

__all__ = [
    "DECIMAL",
    "NOT_A_PROMISE",
    "Certificate",
    "Design",
    "DesignedRow",
    "LookupRow",
    "PTable",
    "PTableFile",
    "Reading",
    "RowProblem",
    "Settings",
    "count_settings",
    "export_ons",
    "export_text",
    "feasible",
    "generate",
    "magnitude_settings",
    "modify",
    "read",
    "read_table",
    "same_law",
    "symmetric_law",
]
