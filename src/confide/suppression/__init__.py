"""Cell suppression: cells that would disclose are left out, and others with them, so that none can be worked out.

Primary rules say which cells (:mod:`~confide.suppression.rules`), the linear structure what follows from what
(:mod:`~confide.suppression.structure`), and the attacker's intervals what is left open
(:mod:`~confide.suppression.attacker`). The mechanism: :mod:`confide.suppression.pipeline`.
"""

from confide.suppression.attacker import Attacker, Intervals
from confide.suppression.heuristic import heuristic
from confide.suppression.modular import modular
from confide.suppression.optimal import optimal
from confide.suppression.problem import Pattern, Problem, weights
from confide.suppression.rules import Contributions, Levels, dominance, p_percent, pq, threshold
from confide.suppression.structure import Dimension, Layout, Linked, Structure, flat, link, tree
from confide.suppression.suppress import Suppressed, suppress_tables, with_totals

__all__ = [
    "Attacker",
    "Contributions",
    "Dimension",
    "Intervals",
    "Layout",
    "Levels",
    "Linked",
    "Pattern",
    "Problem",
    "Structure",
    "Suppressed",
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
