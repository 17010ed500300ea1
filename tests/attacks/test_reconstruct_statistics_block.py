"""The block of seven people of Garfinkel, Abowd and Martindale (2019): one solution, in under a second."""

from __future__ import annotations

import time
from itertools import combinations_with_replacement

import pytest
from tests.attacks.statistics_blocks import Statistic, age_lists, solutions, twice_median

from confide.errors import ParameterError

PUBLISHED = {
    "total": Statistic.of(7, 30, 38),
    "female": Statistic.of(4, 30, "33.5"),
    "male": Statistic.of(3, 30, 44),
    "black": Statistic.of(4, 51, "48.5"),
    "white": Statistic.of(3, 24, 24),
    "married_adult": Statistic.of(4, 51, 54),
    "black_female": Statistic.of(3, 36, "36.7"),
}


def test_exactly_one_block_has_the_published_statistics() -> None:
    began = time.process_time()
    found = solutions(PUBLISHED)
    assert time.process_time() - began < 1.0
    assert len(found) == 1
    assert found[0] == (
        (8, "F", "B", False),
        (18, "M", "W", False),
        (24, "F", "W", False),
        (30, "M", "W", True),
        (36, "F", "B", True),
        (66, "F", "B", True),
        (84, "M", "B", True),
    )


def test_rounding_to_whole_means_would_leave_more() -> None:
    coarse = PUBLISHED | {"white": Statistic.of(3, 24, 24, digits=0), "total": Statistic.of(7, 30, 38, digits=0)}
    coarse |= {"male": Statistic.of(3, 30, 44, digits=0)}
    assert len(solutions(coarse)) > 1


@pytest.mark.parametrize(("count", "median", "mean"), [(3, 30, 44), (4, 6, "7.5"), (2, "2.5", "2.5"), (1, 7, 7)])
def test_age_lists_are_all_there_are(count: int, median: object, mean: object) -> None:
    statistic = Statistic.of(count, median, mean)  # type: ignore[arg-type]
    oldest = 125 if count < 4 else 20
    every = [ages for ages in combinations_with_replacement(range(oldest + 1), count) if statistic.holds(ages)]
    assert sorted(age_lists(statistic, oldest)) == every
    assert every


def test_medians() -> None:
    assert twice_median([3, 1, 2]) == 4
    assert twice_median([4, 1, 2, 3]) == 5
    with pytest.raises(ParameterError):
        Statistic.of(4, "1/3", 2)
