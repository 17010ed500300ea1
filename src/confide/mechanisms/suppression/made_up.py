"""Made-up records of a release by suppression: with values, weights and contributors where the spec names them."""

from __future__ import annotations

from math import ceil

import numpy as np
import pyarrow as pa

from confide.inputs.made_up import MadeUpPeople
from confide.mechanisms.suppression.magnitudes import LARGEST_TOTAL
from confide.mechanisms.suppression.programme import SuppressionProblem
from confide.mechanisms.suppression.units import digits_of, published_figures

RECORDS_OF_EACH = 1.5
"""How many records a contributor has in the mean, where a column says whose they are."""


def with_magnitudes(problem: SuppressionProblem, people: MadeUpPeople) -> pa.Table:
    """The records with a value each, most of them small and a few large, as turnover is.

    Args:
        problem: The prepared problem.
        people: The drawn people, or firms.

    Returns:
        The table of records.
    """
    data, theirs, number = problem.spec.data, problem.records.theirs, people.number
    table = people.table(theirs)
    if data.value is None:
        return table
    weight = np.ones(number, np.int64)
    if data.weight is not None:
        weight = people.random.integers(1, 4, size=number) * ceil(1 / data.weight_unit)
        table = table.append_column(theirs(data.weight), published_figures(weight, data.weight_unit))
    steps = int(data.unit * 10 ** (digits_of(data.unit) or 0)) * int(weight.max(initial=1))
    most = max(1, LARGEST_TOTAL // (100 * number * steps))
    size = np.minimum(np.exp(people.random.normal(6, 1.3, number)) / float(data.unit), most)
    table = table.append_column(theirs(data.value), published_figures(size.astype(np.int64), data.unit))
    if data.contributor is not None:
        whose = people.random.integers(max(1, int(number / RECORDS_OF_EACH)), size=number)
        table = table.append_column(theirs(data.contributor), pa.array([f"C{one}" for one in whose.tolist()]))
    return table
