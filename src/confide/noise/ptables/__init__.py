"""Perturbation tables: made, checked, written, read, looked up in.

* :mod:`~confide.noise.ptables.ptable_settings`: D, V, js and further conditions; the problem of each row;
* :mod:`~confide.noise.ptables.generate`: which variances are possible, exactly;
* :mod:`~confide.noise.ptables.max_entropy`, :mod:`~confide.noise.ptables.max_entropy`: the law of a row, and its proof;
* :mod:`~confide.noise.ptables.generate`: all rows;
* :mod:`~confide.noise.ptables.ptable`: the table in whole numbers, and the lookup;
* :mod:`~confide.noise.ptables.ptable`: what can be wrong with one;
* :mod:`~confide.noise.ptables.ptable`: the same law in another layout;
* :mod:`~confide.noise.ptables.formats`, :mod:`~confide.noise.ptables.formats`: text forms of other programs;
* :mod:`~confide.noise.ptables.epsilon_delta`: two neighbouring counts, told apart.

Derivation: ``docs/proofs/ptables.md``. For users: ``docs/concepts/ptables.md``.
"""

from confide.noise.ptables.epsilon_delta import NOT_A_PROMISE, Reading, read
from confide.noise.ptables.formats import PTableFile, export_ons, export_text, read_table
from confide.noise.ptables.generate import Design, DesignedRow, feasible, generate, symmetric_law
from confide.noise.ptables.max_entropy import Certificate
from confide.noise.ptables.ptable import DECIMAL, LookupRow, PTable, modify, same_law
from confide.noise.ptables.ptable_settings import RowProblem, Settings, count_settings, magnitude_settings

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
