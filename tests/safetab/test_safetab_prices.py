"""What a SafeTab release costs, worked out by hand from its spec: two stages share the budget of a level, and a person
who is in several groups of it shares it among them."""

from __future__ import annotations

import tomllib
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from tests.contract.kit import lay_out

import confide
from confide.mechanisms.safetab.settings import ITERATION_LEVELS
from confide.noise import DiscreteGaussian
from confide.privacy import ZCDP
from confide.releases.plan import Plan


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Plan]:
    example = lay_out("safetab", tmp_path_factory.mktemp("safetab") / "example")
    plan = confide.check(example.spec).plan
    assert plan is not None
    return tomllib.loads(Path(example.spec).read_text()), plan


def test_every_law_is_that_of_its_stage_and_of_the_stability_of_its_level(planned: tuple[dict[str, Any], Plan]) -> None:
    """One record more or less changes a count by one: ρ = 1/(2σ²), of which each of s groups may cost its part."""
    spec, plan = planned
    first = Fraction(spec["safetab"]["stage_1_fraction"])
    parts = {"choice of table": first, "table": 1 - first, "total-only groups": Fraction(1)}
    levels = {
        (level["region_type"], ITERATION_LEVELS[level["iteration_level"]]): level
        for level in plan.question["levels"].values()
    }
    for measure in plan.measures:
        iterations, _, stage = measure.query.partition(": ")
        level = levels[measure.level, iterations]
        share = Fraction(level["budget"]) * parts[stage] / level["stability"]
        assert measure.law == DiscreteGaussian(1 / (2 * share)), measure.query
    assert {measure.query.partition(": ")[2] for measure in plan.measures} >= {"choice of table", "table"}


def test_a_person_of_several_groups_is_charged_for_all_of_them(planned: tuple[dict[str, Any], Plan]) -> None:
    """With as many groups as a person can be in, a level costs its budget; the larger of the two passes counts."""
    spec, plan = planned
    stabilities = sorted(level["stability"] for level in plan.question["levels"].values())
    assert sorted(family.degree for family in plan.families) == stabilities
    assert stabilities[-1] > 1
    assert plan.loss == ZCDP(spec["privacy"]["budget"])
