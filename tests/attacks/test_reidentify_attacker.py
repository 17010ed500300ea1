"""The attacker's file: as good or as bad as it is said to be."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from confide.errors import ParameterError
from confide.lab.attacks.reidentification import (
    AttackerSettings,
    attacker_settings,
    make_attacker,
    parse_attacker,
    reidentification_rates,
    with_person_ids,
)

NUMBER = 20_000


@pytest.fixture(scope="module")
def truth():
    """20,000 people in 400 blocks, ten to a tract; one more block is a tract of its own."""
    rng = np.random.default_rng(5)
    block = rng.integers(0, 400, NUMBER)
    return pa.table(
        {
            "person_id": np.arange(NUMBER) + 1,
            "geocode": [*(f"44001{b // 10:06d}1{b % 10:03d}" for b in block[1:]), "440019999991000"],
            "sex": rng.integers(1, 3, NUMBER),
            "age": rng.integers(0, 90, NUMBER),
            "cenrace": rng.choice([0, 0, 1], NUMBER),
            "hispanic": rng.integers(0, 2, NUMBER),
        }
    )


def joined(known, truth):
    """Both files by person; the attacker's first."""
    return known.join(truth, "person_id", join_type="inner", right_suffix="_true").to_pydict()


def test_a_perfect_file(truth):
    known = make_attacker(truth, AttackerSettings())
    assert known.equals(truth.select(known.column_names))
    row = reidentification_rates(truth, known, truth).universe("all")
    assert row.putative_rate == 1.0


def test_each_error_by_itself(truth):
    """Shares within five standard errors, and nothing else wrong. False alarms: about one in a million for each."""
    for name, share, wrong in (
        ("age_error", "0.2", "age"),
        ("sex_error", "0.1", "sex"),
        ("block_error", "0.3", "geocode"),
    ):
        rows = joined(make_attacker(truth, attacker_settings(**{name: share, "seed": 4})), truth)
        for column in ("age", "sex", "geocode"):
            found = np.mean(np.array(rows[column]) != np.array(rows[f"{column}_true"]))
            p = float(Fraction(share))
            if column == wrong:
                assert abs(found - p) < 5 * (p * (1 - p) / NUMBER) ** 0.5 + 1 / NUMBER, (name, column)
            else:
                assert found == 0, (name, column)


def test_ages_are_off_by_the_years_given(truth):
    rows = joined(make_attacker(truth, attacker_settings(age_error=1, age_years=3)), truth)
    off = np.array(rows["age"]) - np.array(rows["age_true"])
    assert set(off.tolist()) == {-3, 3}
    assert min(rows["age"]) == 0
    assert (off[np.array(rows["age_true"]) < 3] == 3).all()


def test_blocks_are_others_of_the_tract(truth):
    """Everyone moves to one of the nine other blocks of the tract, each as often; who lives in a tract of one block
    stays."""
    rows = joined(make_attacker(truth, attacker_settings(block_error=1)), truth)
    pairs = list(zip(rows["geocode"], rows["geocode_true"], strict=True))
    assert all(new[:11] == old[:11] for new, old in pairs)
    stayed = [new for new, old in pairs if new == old]
    assert stayed == ["440019999991000"]
    steps = [(int(new[-3:]) - int(old[-3:])) % 10 for new, old in pairs if new != old]
    counts = np.bincount(steps, minlength=10)
    assert counts[0] == 0
    expected = (NUMBER - 1) / 9
    # Chi-square with eight degrees of freedom: above 45 once in three million.
    assert ((counts[1:] - expected) ** 2 / expected).sum() < 45


def test_coverage_and_duplicates(truth):
    known = make_attacker(truth, attacker_settings(coverage="0.8", duplicates="0.1", seed=2))
    people, times = np.unique(known["person_id"].to_numpy(), return_counts=True)
    assert abs(len(people) / NUMBER - 0.8) < 5 * (0.16 / NUMBER) ** 0.5
    assert set(times.tolist()) == {1, 2}
    assert abs((times == 2).mean() - 0.1) < 5 * (0.09 / len(people)) ** 0.5
    rates = reidentification_rates(truth, known, truth)
    # All but those in the tract of one block have their second record in another block, where they are not.
    assert rates.attacker_left_out <= 1
    gone = rates.universe("not-there")
    assert gone.attacker_records == (times == 2).sum() - rates.attacker_left_out
    assert gone.confirmed == 0


def test_seeds(truth):
    settings = attacker_settings(coverage="0.5", age_error="0.5", seed=1)
    assert make_attacker(truth, settings).equals(make_attacker(truth, settings))
    other = attacker_settings(coverage="0.5", age_error="0.5", seed=2)
    assert not make_attacker(truth, settings).equals(make_attacker(truth, other))
    # Errors have streams of their own: another age error leaves the same people in the file.
    fewer = make_attacker(truth, attacker_settings(coverage="0.5", seed=1))
    assert fewer["person_id"].equals(make_attacker(truth, settings)["person_id"])


def test_a_worse_file_finds_fewer(truth):
    found = [
        reidentification_rates(truth, make_attacker(truth, attacker_settings(block_error=share)), truth).universe("all")
        for share in ("0", "0.2", "0.6")
    ]
    assert found[0].confirmed_rate > found[1].confirmed_rate > found[2].confirmed_rate
    assert found[0].precision > found[1].precision > found[2].precision


def test_who_has_no_id_is_not_known(truth):
    some = truth.set_column(0, "person_id", pa.array([None, *range(1, NUMBER)]))
    assert len(make_attacker(some, AttackerSettings())) == NUMBER - 1
    numbered = with_person_ids(truth.drop_columns(["person_id"]))
    assert numbered["person_id"].to_pylist()[:3] == [1, 2, 3]


def test_tracts_from_a_column(truth):
    one = truth.append_column("tract", pa.array(["all"] * NUMBER))
    rows = joined(make_attacker(one, attacker_settings(block_error=1)), truth)
    assert any(new[:11] != old[:11] for new, old in zip(rows["geocode"], rows["geocode_true"], strict=True))


def test_typed_settings():
    typed = parse_attacker("coverage=0.9, age_error=1/20,seed=7")
    assert typed == AttackerSettings(coverage=Fraction(9, 10), age_error=Fraction(1, 20), seed=7)
    assert parse_attacker("perfect") == AttackerSettings()
    assert typed.as_dict()["coverage"] == 0.9


@pytest.mark.parametrize(
    "text",
    [
        "",
        "coverage",
        "coverage=2",
        "coverage=-1",
        "coverge=1",
        "coverage=1,coverage=1",
        "age_years=0",
        "age_years=1.5",
        "seed=-1",
        "sex_error=x",
    ],
)
def test_wrong_settings_are_refused(text):
    with pytest.raises(ParameterError):
        parse_attacker(text)


def test_floats_are_refused():
    with pytest.raises(ParameterError, match="floating-point"):
        attacker_settings(coverage=0.9)
