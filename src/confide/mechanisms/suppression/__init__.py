"""Cell suppression: cells that would disclose are left out, and others with them, so that none can be worked out.

Read it from :mod:`~confide.mechanisms.suppression.mechanism`. Its parts:

===================  ================================================================================================
the tables           ``spec`` ``variables`` ``programme``: from a spec to tables, with recodes that cross
their structure      ``structure``: cells and sums; ``joint``: that tables count the same people
from records         ``counting``: figures and who is behind them; values, weights, decimals
tables as input      ``given/``: tables of cells in place of records
the problem          ``problem``: primary rules, levels, weights, and what each contributor knows
the pattern          ``suppress``: from a problem to a proved pattern; ``heuristic`` over ``flows``, with hidden cells
                     of one sum together; ``optimal``
the attacker         ``attacker``: the interval of every hidden cell
the release          ``mechanism``; ``output``: its files, what explains them, and what anybody can verify;
                     ``evaluate``: beside the truth
===================  ================================================================================================
"""

from __future__ import annotations

from confide.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
