"""Which tables contradict one another: those that even the closest counts do not meet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from confide.attacks.reconstruction.fitting import closest
from confide.attacks.reconstruction.programme import NoSolution, programme
from confide.attacks.reconstruction.propagation import Reduced
from confide.attacks.reconstruction.unit import Attack


def explain(attack: Attack, blocks: Sequence[int]) -> list[str]:
    """The tables whose figures a fit of all exact figures misses. Some are wrong; which, the fit cannot know.

    If it misses none, it is tables with noise that are further off than their bound allows: all that have one.
    """
    try:
        made = programme(attack.plan, blocks)
    except NoSolution as error:
        return list(error.tables)
    rows = replace(made.exact, at_most=np.zeros(len(made.exact.count), bool))
    equal = np.flatnonzero(~made.exact.at_most)
    rows = replace(rows, matrix=rows.matrix[equal], count=rows.count[equal], layer=rows.layer[equal])
    empty = made.exact.matrix[:0]
    left = Reduced(np.zeros(made.size), made.upper, np.arange(made.size), empty, np.zeros(0), np.zeros(0))
    anywhere = np.full(len(equal), np.inf)
    nothing = np.zeros(made.size)
    answer = closest(
        rows, np.ones(len(equal)), (anywhere, anywhere), left, nothing, attack.settings.seconds, whole=False
    )
    if answer.values is None:
        return []
    missed = np.flatnonzero(np.abs(rows.matrix @ answer.values[: made.size] - rows.count) > 1e-6)
    bounded = [item.marginal.name for item in made.structure.layers if item.marginal.bound is not None]
    return list(dict.fromkeys(made.row_name(rows, int(row)) for row in missed)) or bounded
