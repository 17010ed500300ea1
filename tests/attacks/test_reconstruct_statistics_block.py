"""The block of seven people of Garfinkel, Abowd and Martindale (2019): one solution, in under a second."""

from __future__ import annotations

import time
from itertools import combinations_with_replacement

import pytest
from tests.attacks.statistics_blocks import solutions

from confide.errors import ConfideError, ParameterError
from confide.exact import Exact, exact
from confide.lab.attacks import reconstruct_statistics
from confide.lab.attacks.reconstruction.age_statistics import MOST, AgeStatistic, age_lists, twice_median


def published(count: int, median: Exact, mean: Exact, digits: int = 1) -> AgeStatistic:
    return AgeStatistic.of(count, exact(median, "median"), exact(mean, "mean"), digits)


PUBLISHED = {
    "total": published(7, 30, 38),
    "female": published(4, 30, "33.5"),
    "male": published(3, 30, 44),
    "black": published(4, 51, "48.5"),
    "white": published(3, 24, 24),
    "married_adult": published(4, 51, 54),
    "black_female": published(3, 36, "36.7"),
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
    coarse = PUBLISHED | {"white": published(3, 24, 24, digits=0), "total": published(7, 30, 38, digits=0)}
    coarse |= {"male": published(3, 30, 44, digits=0)}
    assert len(solutions(coarse)) > 1


@pytest.mark.parametrize(("count", "median", "mean"), [(3, 30, 44), (4, 6, "7.5"), (2, "2.5", "2.5"), (1, 7, 7)])
def test_age_lists_are_all_there_are(count: int, median: Exact, mean: Exact) -> None:
    statistic = published(count, median, mean)
    oldest = 125 if count < 4 else 20
    every = [ages for ages in combinations_with_replacement(range(oldest + 1), count) if statistic.holds(ages)]
    assert sorted(age_lists(statistic, oldest)) == every
    assert every


def test_medians() -> None:
    assert twice_median([3, 1, 2]) == 4
    assert twice_median([4, 1, 2, 3]) == 5
    with pytest.raises(ParameterError):
        published(4, "1/3", 2)


def of(found, step=-1):
    return [
        tuple((each["age"], each["sex"][0].upper(), each["race"][0], each["married"] == "yes") for each in people)
        for people in (found.people(example) for example in found.steps[step].examples)
    ]


@pytest.mark.parametrize("left_out", [(), ("Black women",), ("White people", "everybody"), ("Black people",)])
def test_the_library_finds_the_blocks_that_an_enumeration_finds(left_out: tuple[str, ...]) -> None:
    # The enumeration above knows all seven groups, so what is left out of the library's attack is filtered afterwards.
    found = reconstruct_statistics(leave_out=left_out, examples=1000)
    assert found.solutions is not None
    assert set(solutions(PUBLISHED)) <= {tuple(sorted(people)) for people in of(found)}
    groups = {
        "everybody": (lambda p: True, "total"),
        "Black people": (lambda p: p[2] == "B", "black"),
        "White people": (lambda p: p[2] == "W", "white"),
        "Black women": (lambda p: p[1:3] == ("F", "B"), "black_female"),
        "married people": (lambda p: p[3], "married_adult"),
    }
    for people in of(found):
        for name, (belongs, key) in groups.items():
            if name not in left_out:
                assert PUBLISHED[key].holds([each[0] for each in people if belongs(each)])
        assert not any(married and age < 18 for age, _, _, married in people)
    assert len(set(of(found))) == found.solutions


def test_every_step_cuts_and_the_last_leaves_one() -> None:
    found = reconstruct_statistics()
    assert [step.remaining for step in found.steps] == [496, 31, 25, 246, 1, 1]
    assert of(found) == solutions(PUBLISHED)
    assert reconstruct_statistics(digits=0).solutions == 10
    assert reconstruct_statistics(leave_out=["married people"]).solutions == 64


def test_too_many_possibilities_are_not_looked_at() -> None:
    found = reconstruct_statistics(leave_out=["Black people", "White people", "Black women"])
    assert found.steps[-2].looked_at > MOST
    assert found.solutions is None


def test_wrong_files_and_groups_are_findings(tmp_path) -> None:
    for wrong in (["women"], ["nobody"]):
        with pytest.raises(ConfideError) as caught:
            reconstruct_statistics(leave_out=wrong)
        assert caught.value.findings[0].expected
    file = tmp_path / "own.toml"
    file.write_text('[attributes]\nsex = ["f", "m"]\n[[groups]]\nname = "a"\nwhere = { sex = "x" }\ncount = 2\n')
    with pytest.raises(ConfideError) as caught:
        reconstruct_statistics(str(file))
    assert {finding.code for finding in caught.value.findings} == {"bad-statistics"}
    assert len(caught.value.findings) >= 2
    file.write_text(
        '[attributes]\nsex = ["f"]\n[[groups]]\nname = "a"\nwhere = { sex = "f" }\n'
        'count = 2\nmedian = "40"\nmean = "40"\n'
    )
    assert reconstruct_statistics(str(file)).solutions == 41
