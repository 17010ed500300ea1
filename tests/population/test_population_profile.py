"""Made-up people are as unlike, as segregated and as unique as real ones: figures within bands."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from confide.lab.population import Population, dissimilarity, profile

BANDS = {
    "share of blocks without housing units": (0.24, 0.38),
    "persons in the median populated block": (20, 32),
    "vacant housing units": (0.07, 0.13),
    "households of 1": (0.25, 0.32),
    "households of 2": (0.31, 0.36),
    "households of 3": (0.13, 0.17),
    "households of 4": (0.11, 0.15),
    "households of 5 and more": (0.075, 0.125),
    "persons per household": (2.3, 2.65),
    "under 18": (0.19, 0.25),
    "65 and over": (0.14, 0.20),
    "male": (0.475, 0.505),
    "in group quarters": (0.022, 0.028),
    "Hispanic": (0.10, 0.26),
    "White alone": (0.55, 0.78),
    "Black alone": (0.06, 0.23),
    "AIAN alone": (0.004, 0.03),
    "Asian alone": (0.02, 0.11),
    "two or more races": (0.04, 0.08),
    "races that occur": (40, 63),
    "in incorporated places": (0.55, 0.85),
    "in AIANNH areas": (0.0005, 0.03),
    "in urban blocks": (0.5, 0.9),
    "unique on block, sex, age": (0.40, 0.60),
    "unique on block, sex, age, race, ethnicity": (0.55, 0.80),
    "dissimilarity, Black and White, by tract": (0.45, 0.70),
    "dissimilarity, Hispanic and White, by tract": (0.33, 0.60),
}


@pytest.mark.parametrize("seed", [1, 2, 7])
def test_a_small_state_looks_like_one(seed: int) -> None:
    figures = profile(Population(100_000, seed))
    assert figures["persons"] == 100_000
    outside = {name: figures[name] for name, (low, high) in BANDS.items() if not low <= figures[name] <= high}
    assert not outside


def test_a_larger_state_is_segregated_and_unique_in_narrower_bands() -> None:
    figures = profile(Population(1_000_000, 7))
    assert 0.50 <= figures["dissimilarity, Black and White, by tract"] <= 0.65
    assert 0.40 <= figures["dissimilarity, Hispanic and White, by tract"] <= 0.55
    assert 0.12 <= figures["Hispanic"] <= 0.22
    assert 0.28 <= figures["share of blocks without housing units"] <= 0.34
    assert 0.60 <= figures["in incorporated places"] <= 0.78
    assert figures["races that occur"] >= 57


def test_dissimilarity_is_its_definition() -> None:
    assert dissimilarity(np.array([1.0, 0.0]), np.array([0.0, 5.0])) == 1
    assert dissimilarity(np.array([2.0, 4.0]), np.array([1.0, 2.0])) == 0
    assert dissimilarity(np.array([3.0, 1.0]), np.array([1.0, 1.0])) == pytest.approx(0.25)
    assert np.isnan(dissimilarity(np.zeros(2), np.ones(2)))


WHOLE = ("persons", "households", "tracts", "blocks", "persons in the largest block", "races that occur")
PLAIN = ("persons in the median populated block", "persons in the mean populated block", "persons per household")


def shown(name: str, value: float) -> str:
    """A figure as the documentation prints it."""
    if name in WHOLE:
        return f"{value:,.0f}"
    if name in PLAIN or name.startswith("dissimilarity"):
        return f"{value:.2f}"
    return f"{100 * value:.1f}%"


def test_the_documentation_prints_the_figures_of_this_code() -> None:
    page = Path(__file__).parents[2] / "docs" / "concepts" / "made-up-people.md"
    table = page.read_text(encoding="utf-8").split("<!-- figures -->")[1]
    rows = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("| ")]
    printed = {name.strip(): value.strip() for name, value in rows if name.strip() != "figure"}
    figures = profile(Population(100_000, 7))
    assert printed == {name: shown(name, value) for name, value in figures.items()}
