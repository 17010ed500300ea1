"""Made-up records of a swap: people who live together."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from confide.inputs.made_up import MadeUpPeople
from confide.mechanisms.swapping.problem import SwappingProblem

IN_HOUSEHOLDS = 0.95
"""The share of people in households, where no margin speaks of it."""
ALONE = 0.4
"""With this probability the next person of a block begins a household: it has 2.5 members in the mean."""


def in_households(problem: SwappingProblem, people: MadeUpPeople) -> pa.Table:
    """The records with ids of households: their members lie in one block, and share what belongs to the place.

    Args:
        problem: The prepared problem.
        people: The drawn people; who is in a household is changed.

    Returns:
        The table of records.
    """
    attributes = {attribute.name: attribute for attribute in people.form.attributes}
    inside = np.ones(people.number, np.bool_)
    housed = people.random.random(people.number) < IN_HOUSEHOLDS
    for name, code in problem.spec.data.in_households.items():
        level = attributes[name].index[code]
        if name not in people.from_margins:
            people.levels[name] = np.where(housed, level, people.levels[name])
        inside &= people.levels[name] == level
    assert people.block is not None
    members = np.flatnonzero(inside)
    members = members[np.argsort(people.block[members], kind="stable")]
    begins = people.random.random(len(members)) < ALONE
    begins |= np.diff(people.block[members], prepend=-1) != 0
    household = np.cumsum(begins) - 1
    first = members[begins]
    for name in problem.settings.carry:
        people.levels[name][members] = people.levels[name][first[household]]
    ids = np.full(people.number, -1, np.int64)
    ids[members] = household
    column = pa.array([None if number < 0 else f"H{number + 1}" for number in ids.tolist()], pa.string())
    theirs = problem.records.theirs
    return people.table(theirs).append_column(theirs(problem.spec.data.household), column)
