"""The page on mechanisms and budgets: its figures are those of the code, and it leaves no mechanism out."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from pathlib import Path

import pytest

from confide.api import MECHANISMS
from confide.noise import DiscreteGaussian
from confide.privacy import cks_epsilon
from confide.privacy.statements import factor

PAGE = (Path(__file__).parents[2] / "docs" / "choosing.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (\d[\d/]*) \| ([\d.]+) \| ([\d,.]+) \| ±(\d+) \| ±(\d+) \| ±(\d+) \|$", PAGE, re.MULTILINE)
QUERIES = (4, 16, 40)


def test_there_are_budgets_to_look_at() -> None:
    assert len(ROWS) == 5


@pytest.mark.parametrize(("rho", "epsilon", "times", "four", "sixteen", "forty"), ROWS)
def test_every_figure_of_a_budget_is_that_of_the_code(
    rho: str, epsilon: str, times: str, four: str, sixteen: str, forty: str
) -> None:
    exact = cks_epsilon(Fraction(rho), Fraction("1e-10"))
    assert epsilon == f"{math.ceil(100 * exact) / 100:.2f}"
    assert times == factor(exact)
    margins = [DiscreteGaussian(Fraction(number) / Fraction(rho)).noise_margin(Fraction("0.95")) for number in QUERIES]
    assert [four, sixteen, forty] == [str(margin) for margin in margins]


def test_the_page_has_every_mechanism_that_reads_records() -> None:
    linked = set(re.findall(r"\[`([a-z-]+)`\]\(concepts/", PAGE))
    assert linked - {"confide compare"} >= set(MECHANISMS.own) - {"postprocess"}
