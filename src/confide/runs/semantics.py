"""What the guarantee is for a part of a record: smaller changes are better hidden.

The loss of a plan compares two data sets in which one record differs in everything. If it differs in one attribute
only, a query that does not look at that attribute gives the same answer, and costs nothing. If it differs only in its
block, and both blocks lie in the same unit of a level, the queries of that level and of those above give the same
answer. The certificates of the 2020 Census state both. Proof: ``docs/proofs/accounting.md``.
"""

from __future__ import annotations

from collections.abc import Callable

from confide.privacy import Event, Neighbours, PrivacyLoss, price
from confide.runs.plan import Plan


def loss_by_attribute(plan: Plan) -> dict[str, PrivacyLoss]:
    """For each attribute, the loss when one record differs in this attribute alone."""
    return {name: _changed(plan, event) for name, event in events_by_attribute(plan).items()}


def loss_by_move(plan: Plan) -> dict[str, PrivacyLoss]:
    """For each level above the blocks, the loss when one record lies in another block of the same unit."""
    return {name: _changed(plan, event) for name, event in events_by_move(plan).items()}


def events_by_attribute(plan: Plan) -> dict[str, Event]:
    """For each attribute, the measurements that look at it."""
    names = dict.fromkeys(name for measure in plan.measures for name in measure.attributes)
    return {name: _chosen(plan, lambda measure, name=name: name in measure.attributes) for name in names}


def events_by_move(plan: Plan) -> dict[str, Event]:
    """For each level above the blocks, the measurements that can tell blocks of the same unit apart.

    Queries of off-spine areas always count: the blocks of a unit may lie in different ones.
    """
    result = {}
    for position, name in enumerate(plan.spine[:-1]):
        same = plan.spine[: position + 1]
        result[name] = _chosen(plan, lambda measure, same=same: measure.level not in same)
    return result


def _chosen(plan: Plan, chosen: Callable[..., bool]) -> Event:
    return plan.event_of(chosen)


def _changed(plan: Plan, event: Event) -> PrivacyLoss:
    return price(event, Neighbours.CHANGE_ONE, plan.definition, plan.delta)
