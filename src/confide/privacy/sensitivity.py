"""Sensitivity: how far one record can move the answers of a query.

A query counts records in cells. Write q(D) for the vector of counts. Its L1 sensitivity is the largest sum of absolute
changes, its squared L2 sensitivity the largest sum of squared changes, over all neighbours D and D'.

One record adds a vector v of zeros and ones with at most *degree* ones: 1 for a marginal, whose cells are a partition,
more where a record belongs to several groups. Adding or removing it changes q by v. Changing it into another changes q
by v' − v, whose entries are −1, 0 or 1, at most 2·degree of them different from zero. As every change is at most one,
the L1 and the squared L2 sensitivity are the same number. Derivation: ``docs/proofs/accounting.md``, section 1.
"""

from __future__ import annotations

from dataclasses import dataclass

from confide.errors import Finding, ParameterError
from confide.privacy.definitions import Neighbours


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The L1 sensitivity Δ₁ and the squared L2 sensitivity Δ₂² of a counting query: integers."""

    l1: int
    l2_squared: int


def bounded_degree(degree: int, neighbours: Neighbours) -> Sensitivity:
    """Sensitivity of a query in which each record counts, once, in at most ``degree`` cells."""
    changed = whole(degree, "degree") * (2 if neighbours is Neighbours.CHANGE_ONE else 1)
    return Sensitivity(l1=changed, l2_squared=changed)


def partition_marginal(neighbours: Neighbours) -> Sensitivity:
    """Sensitivity of a marginal: each record counts in at most one cell.

    >>> partition_marginal(Neighbours.ADD_REMOVE)
    Sensitivity(l1=1, l2_squared=1)
    >>> partition_marginal(Neighbours.CHANGE_ONE)
    Sensitivity(l1=2, l2_squared=2)
    """
    return bounded_degree(1, neighbours)


def whole(value: object, name: str, least: int = 1) -> int:
    """``value`` if it is an integer of at least ``least``: a number of cells, copies or repetitions."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ParameterError(
            Finding(
                code="not-a-whole-number",
                what=f"{name} must be a whole number of at least {least}",
                found=repr(value),
                expected=f"an integer, {least} or more",
                remedy=f"correct {name}",
            )
        )
    return value
