"""What the guarantee is for a part of a record: smaller changes are better hidden.

The loss of a plan compares two data sets in which one record differs in everything. If it differs in one attribute
only, a query that does not look at that attribute gives the same answer, and costs nothing. If it differs only in its
block, and both blocks lie in the same unit of a level, the queries of that level and of those above give the same
answer. The certificates of the 2020 Census state both. Proof: ``docs/proofs/accounting.md``.
"""

from __future__ import annotations

from collections.abc import Callable

from confide.privacy import Neighbours, PrivacyLoss, price
from confide.runs.plan import Plan


def loss_by_attribute(plan: Plan) -> dict[str, PrivacyLoss]:
    """For each attribute, the loss when one record differs in this attribute alone."""
    names = dict.fromkeys(name for measure in plan.measures for name in measure.attributes)
    return {name: _changed(plan, lambda measure, name=name: name in measure.attributes) for name in names}


def loss_by_move(plan: Plan) -> dict[str, PrivacyLoss]:
    """For each level above the blocks, the loss when one record lies in another block of the same unit.

    Queries of off-spine areas always count: the blocks of a unit may lie in different ones.
    """
    result = {}
    for position, name in enumerate(plan.spine[:-1]):
        same = plan.spine[: position + 1]
        result[name] = _changed(plan, lambda measure, same=same: measure.level not in same)
    return result


def _changed(plan: Plan, chosen: Callable[..., bool]) -> PrivacyLoss:
    return price(plan.event_of(chosen), Neighbours.CHANGE_ONE, plan.definition)
