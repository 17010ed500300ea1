"""Cell suppression: cells that would disclose are left out, and others with them, so that none can be worked out.

Primary rules say which cells (:mod:`~confide.mechanisms.suppression.problem`), the linear structure what follows
from what (:mod:`~confide.mechanisms.suppression.structure`), and the attacker's intervals what is left open
(:mod:`~confide.mechanisms.suppression.attacker`). The mechanism: :mod:`confide.mechanisms.suppression.mechanism`.
"""

from confide.mechanisms.suppression.attacker import Attacker, Intervals
from confide.mechanisms.suppression.heuristic import heuristic
from confide.mechanisms.suppression.optimal import modular, optimal
from confide.mechanisms.suppression.problem import (
    Contributions,
    Levels,
    Pattern,
    PatternProblem,
    dominance,
    p_percent,
    pq,
    threshold,
    weights,
)
from confide.mechanisms.suppression.structure import (
    Dimension,
    LinkedTables,
    Structure,
    TableDimensions,
    flat,
    link,
    tree,
)
from confide.mechanisms.suppression.suppress import SuppressionResult, suppress_tables, with_totals

__all__ = [
    "Attacker",
    "Contributions",
    "Dimension",
    "Intervals",
    "Levels",
    "LinkedTables",
    "Pattern",
    "PatternProblem",
    "Structure",
    "SuppressionResult",
    "TableDimensions",
    "dominance",
    "flat",
    "heuristic",
    "link",
    "modular",
    "optimal",
    "p_percent",
    "pq",
    "suppress_tables",
    "threshold",
    "tree",
    "weights",
    "with_totals",
]
