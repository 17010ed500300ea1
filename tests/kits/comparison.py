"""A handful of people in three blocks of two tracts of one county, for tests whose answers are worked out by hand."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from confide.lab.comparison.common_tables import common_tables
from confide.lab.comparison.compared_people import level_rules
from confide.lab.comparison.comparison_spec import ComparedGeographyPart
from confide.lab.comparison.figures import AreaFigures, ComparedAreas, tabulate
from confide.lab.comparison.programme_file import ProgrammeGeographyPart

BLOCKS = ("900010001001000", "900010001001001", "900010002001000")
DIGITS = {"state": 2, "county": 5, "tract": 11, "block_group": 12}
PEOPLE = [
    # block, sex, age, hispanic, race
    (0, 1, 5, 0, 0),
    (0, 2, 33, 0, 0),
    (0, 2, 34, 1, 6),
    (1, 1, 70, 0, 1),
    (2, 1, 17, 1, 5),
    (2, 2, 18, 0, 62),
]


def geography(**digits: int) -> ProgrammeGeographyPart:
    """The levels of a state, some with other digits."""
    given = common_tables().part.geography
    assert given is not None
    return ComparedGeographyPart.model_validate(DIGITS | digits).over(given)


def areas() -> ComparedAreas:
    return ComparedAreas.of(pa.table({"geocode": list(BLOCKS)[::-1]}), level_rules(geography()), common_tables().levels)


def people(rows: list[tuple[int, int, int, int, int]] = PEOPLE) -> pa.Table:
    ages = common_tables().ages
    assert ages is not None
    block, sex, age, hispanic, race = zip(*rows, strict=True)
    return pa.table(
        {
            "person_id": list(range(1, len(rows) + 1)),
            "geocode": [BLOCKS[each] for each in block],
            "sex": sex,
            "age": age,
            "agebin": ages.of(np.array(age, np.int64)),
            "hispanic": hispanic,
            "cenrace": race,
        }
    )


def truth() -> AreaFigures:
    return tabulate(people(), areas(), common_tables())
