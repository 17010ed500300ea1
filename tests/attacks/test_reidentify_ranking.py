"""Match rates of the surest records: against a slow count, and the guessers by hand."""

from __future__ import annotations

from math import exp

import numpy as np
import pyarrow as pa
import pytest

from confide.errors import ConfideError
from confide.lab.attacks import match_rates, reidentification_rates

ALIKE = {"age": 30, "cenrace": 0, "hispanic": 0}


def people(rows: list[tuple[str, int]], **more: list) -> pa.Table:
    block, sex = zip(*rows, strict=True)
    columns = {"person_id": list(range(len(rows))), "geocode": block, "sex": sex}
    columns |= {name: [value] * len(rows) for name, value in ALIKE.items()}
    return pa.table(columns | more)


def test_the_first_k_are_the_surest_and_each_person_is_found_once() -> None:
    truth = people([("1", 1)] * 12 + [("2", 2)] * 3)
    # Twelve true records of least confidence; four of block 2, of which one is too many; two of nobody.
    mine = people(
        [("1", 1)] * 12 + [("2", 2)] * 4 + [("2", 1)] * 2, confidence=[0.2] * 12 + [0.9, 0.8, 0.7, 0.6] + [0.5, 0.4]
    )
    rates = {row.k: row.match_rate for row in match_rates(mine, truth)}
    assert rates == {10: pytest.approx((3 + 4) / 10), 18: pytest.approx(15 / 18)}


def test_random_ranks_against_a_slow_count() -> None:
    rng = np.random.default_rng(1)
    truth = people([(str(b), int(s)) for b, s in zip(rng.integers(0, 5, 60), rng.integers(1, 4, 60), strict=True)])
    rows = [(str(b), int(s)) for b, s in zip(rng.integers(0, 5, 55), rng.integers(1, 4, 55), strict=True)]
    sure = (rng.permutation(55) / 60).tolist()
    left = list(zip(truth.column("geocode").to_pylist(), truth.column("sex").to_pylist(), strict=True))
    hits = []
    for place in sorted(range(55), key=lambda i: -sure[i]):
        hits.append(rows[place] in left)
        if hits[-1]:
            left.remove(rows[place])
    for row in match_rates(people(rows, confidence=sure), truth):
        assert row.match_rate == pytest.approx(sum(hits[: row.k]) / row.k)


def test_the_hold_out_knows_other_blocks_alone() -> None:
    """Block 1 has ten people of sex 1, block 2 ten of sex 2: whoever knows the other is wrong about everybody, and
    whoever knew the block itself would not be."""
    truth = people([("1", 1)] * 10 + [("2", 2)] * 10)
    rates = match_rates(people([("1", 1)] * 10 + [("2", 2)] * 10, confidence=[0.5] * 20), truth)[-1]
    assert (rates.match_rate, rates.hold_out_match_rate, rates.modal_match_rate) == (1, 0, 0)
    assert rates.better_than_guessing


def test_the_hold_out_takes_the_likeliest_first() -> None:
    """Elsewhere three of four are of sex 1. With four records in block 1, the chances are P(Poisson(3) ≥ j) and
    P(Poisson(1) ≥ j): the first of sex 1, its second, the first of sex 2 (0.63) before the third of sex 1 (0.58)."""
    assert 1 - exp(-1) > 1 - exp(-3) * (1 + 3 + 4.5)
    truth = people([("1", 1), ("1", 1), ("1", 2), ("1", 2)] + [("2", 1)] * 3 + [("2", 2)])
    mine = people([("1", 1)] * 4, confidence=[0.9] * 4)
    row = match_rates(mine, truth)[-1]
    assert row.k == 4
    assert row.match_rate == 0.5
    assert row.hold_out_match_rate == pytest.approx(3 / 4)
    assert row.modal_match_rate == pytest.approx(2 / 4)
    assert not row.better_than_guessing


def test_rates_have_them_where_records_have_a_confidence() -> None:
    truth = people([("1", 1)] * 12)
    assert reidentification_rates(truth, truth, truth).ranking == ()
    rates = reidentification_rates(people([("1", 1)] * 12, confidence=[0.5] * 12), truth, truth)
    assert [row.k for row in rates.ranking] == [10, 12]
    assert rates.as_dict()["ranking"][0]["match_rate"] == 1
    with pytest.raises(ConfideError) as caught:
        match_rates(people([("1", 1)] * 12, confidence=[5.0] * 12), truth)
    assert caught.value.findings[0].code == "bad-confidence"


def test_a_guess_that_is_right_as_often_is_said_to_be() -> None:
    """Nine of ten are of one group, and the records have everybody of the other: the guess is right nine times."""
    group = [0] * 9 + [1]
    truth = people([("1", 1)] * 10).drop_columns(["age", "cenrace"])
    truth = truth.append_column("age", pa.array(range(20, 70, 5))).append_column("cenrace", pa.array(group))
    wrong = truth.drop_columns(["cenrace"]).append_column("cenrace", pa.array([1] * 10))
    row = reidentification_rates(wrong, truth, truth).universe("all")
    assert row.precision == 0.1
    assert row.better_of_attack_and_guessers == row.modal_guesser_precision == 0.9
    assert row.no_better_than_a_guess is True
    right = reidentification_rates(truth, truth, truth).universe("all")
    assert right.better_of_attack_and_guessers == 1
    assert right.no_better_than_a_guess is False
    assert {"better_of_attack_and_guessers", "no_better_than_a_guess"} <= set(right.as_dict())
