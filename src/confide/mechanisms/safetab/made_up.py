"""Made-up person records in the official layout of SafeTab-P."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from confide.inputs.made_up import MadeUpPeople, RecordForm
from confide.mechanisms.safetab.problem import SafeTabProblem
from confide.mechanisms.safetab.records import CODE_COLUMNS, LAST_CENRACE, NULL, PERSON_COLUMNS
from confide.mechanisms.safetab.regions import BLOCK_COLUMNS, DIGITS
from confide.mechanisms.safetab.settings import OLDEST, SEXES
from confide.schema import Attribute, Level

SECOND_RACE = 0.1
"""The share of people with a second race code."""
BLOCK = "block"


def record_form(problem: SafeTabProblem) -> RecordForm:
    """Ages, sexes and codes of the lists, each alike; areas by the names of the region types."""
    regions, codes = problem.regions, problem.lists.codes
    columns: dict[str, Iterable[str]] = {
        "QAGE": map(str, range(OLDEST + 1)),
        "QSEX": SEXES,
        "HOUSEHOLDER": ("True", "False"),
        "CENRACE": (f"{number:02d}" for number in range(1, LAST_CENRACE + 1)),
        "QRACE1": codes,
        "QSPAN": codes,
    }
    attributes = tuple(
        Attribute(name, name, tuple(Level(str(code), str(code)) for code in values)) for name, values in columns.items()
    )
    areas = {name: (identifiers, regions.numbers(name)) for name, identifiers in regions.areas.items()}
    return RecordForm(attributes, {}, BLOCK, regions.blocks.column("code").to_pylist(), areas)


def official_layout(problem: SafeTabProblem, people: MadeUpPeople) -> pa.Table:
    """The records with every column of the layout, some with a second race code.

    Args:
        problem: The prepared problem.
        people: The drawn people.

    Returns:
        The table of records, all of it text.
    """
    drawn = people.table(str)
    columns = {name: drawn.column(name) for name in drawn.column_names if name != BLOCK}
    start = 0
    for name in BLOCK_COLUMNS:
        columns[name] = pc.utf8_slice_codeunits(drawn.column(BLOCK), start, start + DIGITS[name])
        start += DIGITS[name]
    nothing = pa.array(np.full(people.number, NULL))
    codes = pa.array([*problem.lists.codes, NULL], pa.string())
    second = people.random.integers(len(problem.lists.codes), size=people.number)
    second[people.random.random(people.number) >= SECOND_RACE] = len(problem.lists.codes)
    columns["QRACE2"] = codes.take(pa.array(second))
    for name in CODE_COLUMNS:
        columns.setdefault(name, nothing)
    theirs = problem.records.theirs
    return pa.table({theirs(name): columns[name] for name in PERSON_COLUMNS})
