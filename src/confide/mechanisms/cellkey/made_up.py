"""Made-up records of a cell key release: with keys, and with weights and values where the spec names any."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from confide.inputs.made_up import MadeUpPeople
from confide.mechanisms.cellkey.counting import value_scale
from confide.mechanisms.cellkey.keyed_records import LARGEST_SUM
from confide.mechanisms.cellkey.programme import CellKeyProblem


def with_keys(problem: CellKeyProblem, people: MadeUpPeople) -> pa.Table:
    """The records with keys of their own. These protect nobody: nobody is there.

    Args:
        problem: The prepared problem.
        people: The drawn people.

    Returns:
        The table of records.
    """
    data, keys, theirs = problem.spec.data, problem.record_keys, problem.source.theirs
    drawn = people.random.integers(keys[0], keys[-1] + 1, size=people.number)
    table = people.table(theirs).append_column(theirs(data.record_key), pa.array(drawn))
    if data.weight is not None:
        hundredths = people.random.integers(50, 300, size=people.number).tolist()
        weights = [f"{number // 100}.{number % 100:02d}" for number in hundredths]
        table = table.append_column(theirs(data.weight), pa.array(weights))
    if data.value is not None and problem.magnitude is not None:
        largest = LARGEST_SUM // value_scale(problem, problem.magnitude) // (10 * people.number)
        size = np.minimum(np.exp(people.random.normal(8, 1.2, people.number)), max(largest, 1))
        values = [f"{number:.{data.decimals}f}" for number in size.tolist()]
        table = table.append_column(theirs(data.value), pa.array(values))
    return table
