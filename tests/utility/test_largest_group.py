"""The share of the largest group: which group is meant, and where five points end."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from confide.utility import LargestGroup, largest_group


def of(*areas: tuple[list[int], list[int]], least: int = 0) -> LargestGroup:
    """Areas as (true counts, released counts) by group."""
    groups = zip(*((zip(truth, released, strict=True)) for truth, released in areas), strict=True)
    listed = [(np.array([t for t, _ in group]), np.array([r for _, r in group])) for group in groups]
    return largest_group(listed, len(areas), least)


def test_the_group_is_the_largest_of_the_release() -> None:
    # Truly the first group is larger; in the release the second one is, with 60 of 100 rather than 45 of 100.
    assert of(([55, 45], [40, 60])) == LargestGroup(1, 0)
    assert of(([55, 45], [50, 50])) == LargestGroup(1, 1), "of equals, the first: 50 rather than 55"


def test_five_points_are_within_and_a_little_more_is_not() -> None:
    assert of(([600, 400], [650, 350])).within == 1
    assert of(([600, 400], [651, 349])).within == 0


def test_a_share_of_nobody_is_zero_and_empty_areas_are_left_out() -> None:
    assert of(([0, 0], [0, 0]), ([0, 0], [3, 0]), ([4, 0], [0, 0])) == LargestGroup(2, 0)
    assert of(([0, 0], [0, 0])).share_within is None


def test_only_areas_with_enough_people_are_taken() -> None:
    areas = [([499, 0], [0, 499]), ([500, 0], [500, 1])]
    assert of(*areas) == LargestGroup(2, 1)
    assert of(*areas, least=500) == LargestGroup(1, 1)


COUNTS = st.lists(st.integers(0, 300), min_size=3, max_size=3)


@given(st.lists(st.tuples(COUNTS, COUNTS), min_size=1, max_size=20))
def test_the_measure_is_that_of_the_definition(areas: list[tuple[list[int], list[int]]]) -> None:
    within = counted = 0
    for truth, released in areas:
        if not sum(truth) and not sum(released):
            continue
        counted += 1
        group = released.index(max(released))
        # 20 |r/R - t/T| <= 1 in whole numbers, with the share of nobody as zero.
        all_released, everybody = max(1, sum(released)), max(1, sum(truth))
        within += 20 * abs(released[group] * everybody - truth[group] * all_released) <= all_released * everybody
    assert of(*areas) == LargestGroup(counted, within)
