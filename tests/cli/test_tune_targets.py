"""Targets in words for mechanisms whose board has rows with noise margins."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import confide
from confide.errors import ConfideError

EXAMPLES = Path(__file__).parents[1] / "contract" / "examples"
SAFETAB = EXAMPLES / "safetab" / "spec.toml"


def rows(tuned: Any) -> dict[str, tuple[float, Fraction]]:
    """The margin and the part of each row of the board."""
    board = tuned.board.now
    return {":".join(row): (float(board.facts(row).margin), part) for row, part in board.budgets.items()}


def test_each_row_of_the_areas_gets_the_margin_by_the_least_part() -> None:
    before, after = rows(confide.tune(SAFETAB)), rows(confide.tune(SAFETAB, ["margin<=9 in county, usa"]))
    for name, (margin, part) in after.items():
        if name.startswith(("COUNTY", "USA")):
            assert margin == 9
            board = confide.tune(SAFETAB).board.now
            row = tuple(name.split(":"))
            assert not board.with_budgets({row: part * Fraction(9, 10)}).reached(row, Fraction(9))
        else:
            assert (margin, part) == before[name]


def test_of_two_limits_the_smaller_counts_in_any_order() -> None:
    targets = ["margin <= 20 in county", "noise margin < 7 in Counties"]
    assert rows(confide.tune(SAFETAB, targets)) == rows(confide.tune(SAFETAB, targets[::-1]))
    assert rows(confide.tune(SAFETAB, targets))["COUNTY:detailed"][0] == 7


def test_of_a_total_the_other_rows_get_what_is_left() -> None:
    tuned = confide.tune(SAFETAB, ["margin<=9 in county"], total="5")
    assert tuned.board.now.total == 5
    assert rows(tuned)["COUNTY:detailed"][0] == 9
    present, left = rows(confide.tune(SAFETAB)), rows(tuned)
    factors = {left[name][1] / present[name][1] for name in present if not name.startswith("COUNTY")}
    assert max(factors) - min(factors) < Fraction(1, 100)


@pytest.mark.parametrize(
    ("spec", "target", "options", "code"),
    [
        (SAFETAB, "margin<=9 in planet", {}, "bad-target"),
        (SAFETAB, "median<=9 in county", {}, "bad-target"),
        (SAFETAB, "margin<=9pp in county", {}, "bad-target"),
        (SAFETAB, "margin<=9 in county @90%", {}, "bad-target"),
        (SAFETAB, "margin<=9 in county", {"total": "1/100"}, "budget-too-small"),
        (SAFETAB, "margin<=9 in county", {"locked": ["USA:regional"]}, "targets-and-rows"),
        (EXAMPLES / "swapping" / "spec.toml", "margin<=9 in county", {}, "no-targets-here"),
    ],
)
def test_what_cannot_be_asked_is_a_finding(spec: Path, target: str, options: dict[str, Any], code: str) -> None:
    with pytest.raises(ConfideError) as raised:
        confide.tune(spec, [target], **options)
    assert [finding.code for finding in raised.value.findings] == [code]
