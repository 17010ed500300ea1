"""The words: present, rounded in the safe direction, and true."""

import math
import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from confide.privacy import (
    ZCDP,
    ApproxDP,
    Bracket,
    Neighbours,
    PureDP,
    bun_steinke_epsilon,
    cks_epsilon,
    factor,
    gaussian_limit_epsilon,
)
from confide.privacy.statements import rounded_down, rounded_up, statements

TOPICS = ["protected", "loss", "odds", "recognition", "several records", "limits", "invariants"]


def words(*args: object, **options: object) -> dict[str, str]:
    return {s.topic: s.text for s in statements(*args, **options)}  # type: ignore[arg-type]


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize("loss", [PureDP("1/2"), ZCDP("64/25"), ApproxDP("0.7", "1e-9"), PureDP(0), ZCDP(0)], ids=str)
def test_every_topic_is_there(loss: PureDP, neighbours: Neighbours) -> None:
    text = words(loss, neighbours, unit="household")
    expected = [*TOPICS[:2], "epsilon", *TOPICS[2:]] if isinstance(loss, ZCDP) else TOPICS
    assert list(text) == expected
    for paragraph in text.values():
        assert paragraph.endswith(".")
        assert "  " not in paragraph
        assert re.search(r"[{}]|nan|inf\b|\.\.", paragraph) is None
    assert "household" in text["protected"]
    assert "person" not in text["protected"]


def test_production_in_words() -> None:
    text = words(ZCDP("293764/114921"), Neighbours.CHANGE_ONE, bracket=Bracket(16.46501, 16.46509))
    assert "293764/114921" in text["loss"]
    assert "2.5563" in text["loss"]  # 2.556226..., up
    for value in ("17.1436", "17.9002", "16.4652", "1e-10", "between 16.4650 and 16.4651"):
        assert value in text["epsilon"]
    assert "For comparison only" in text["epsilon"]
    assert "not protected" in text["protected"]
    assert "59,500,000" in text["odds"]
    assert "1e-10" in text["odds"]
    assert "does not by itself rule out" in text["recognition"]
    assert "40.8997" in text["several records"]


def test_the_odds_use_the_epsilon_that_bounds_them() -> None:
    """For zCDP that is Bun & Steinke's: P[loss > ε] ≤ δ. The smaller ε of the (ε, δ) curve does not bound it."""
    bound = factor(bun_steinke_epsilon("0.01", "1e-10"))
    assert f"by more than {bound} with" in words(ZCDP("0.01"), Neighbours.ADD_REMOVE)["odds"]
    # the loss of a Gaussian mechanism is N(ρ, 2ρ): its own exact (ε, δ) does not bound the probability of a larger loss
    tail = [
        math.erfc((way("2.56", "1e-10") - 2.56) / math.sqrt(4 * 2.56)) / 2
        for way in (bun_steinke_epsilon, gaussian_limit_epsilon)
    ]
    assert tail[0] <= 1e-10 < tail[1]


def test_pure_odds() -> None:
    text = words(PureDP("0.5"), Neighbours.ADD_REMOVE)
    assert "cannot multiply or divide these odds by more than 1.65." in text["odds"]
    assert "at most 1.65 times" in text["recognition"]
    assert "plus" not in text["recognition"]
    assert "is among the data" in text["protected"]
    assert words(ApproxDP("0.5", 0), Neighbours.ADD_REMOVE)["odds"] == text["odds"]


def test_approximate_odds() -> None:
    """P[loss > 2ε] ≤ δ/(1 − exp(−ε)) = 1.582 δ at ε = 1."""
    text = words(ApproxDP(1, "1e-9"), Neighbours.CHANGE_ONE)["odds"]
    assert "by more than 7.39 with a probability of at most 1.59e-9" in text
    assert "no factor" in words(ApproxDP(0, "1e-9"), Neighbours.CHANGE_ONE)["odds"]
    assert "at most 1," in words(ApproxDP("1e-12", "0.1"), Neighbours.CHANGE_ONE)["odds"]


def test_recognition_has_the_delta_of_its_guarantee() -> None:
    """(ε, δ): P(says so | true) ≤ e^ε P(says so | false) + δ. For zCDP with the ε of Canonne, Kamath and Steinke."""
    assert "at most 2.72 times" in (text := words(ApproxDP(1, "1e-9"), Neighbours.CHANGE_ONE)["recognition"])
    assert text.endswith("(plus 1e-9).")
    text = words(ZCDP("1/100"), Neighbours.CHANGE_ONE, delta="1e-9")["recognition"]
    assert f"at most {factor(cks_epsilon('1/100', '1e-9'))} times" in text
    assert text.endswith("(plus 1e-9).")


def test_nothing_is_claimed_about_groups_or_invariants() -> None:
    text = words(ZCDP(1), Neighbours.CHANGE_ONE)
    assert "does not say that nothing can be learned" in text["limits"]
    assert "not covered by this promise" in text["invariants"]
    assert "one" in text["several records"]


@given(st.fractions(-1000, 10**9), st.integers(0, 8))
def test_decimals_keep_their_direction(value: Fraction, places: int) -> None:
    up, down = (Fraction(text.replace(",", "")) for text in (rounded_up(value, places), rounded_down(value, places)))
    assert down <= value <= up
    assert up - down <= Fraction(1, 10**places)


@given(st.fractions(0, 200, max_denominator=1000))
def test_factors_are_never_too_small(epsilon: Fraction) -> None:
    text = factor(epsilon)
    value = float(text.replace(",", "").replace(" × 10^", "e"))
    assert math.exp(epsilon) * (1 - 1e-12) <= value <= math.exp(epsilon) * 1.011


def test_factor_forms() -> None:
    assert factor(0) == "1.00"
    assert factor(Fraction(60)) == "1.15 × 10^26"
    assert factor(10**6).endswith("× 10^434294")


def test_a_factor_beyond_all_numbers_is_a_power_of_ten_that_is_not_too_small() -> None:
    assert factor(Fraction(10**12)) == "10^434294482000"
    assert factor(Fraction(2_000_003)) == "10^868591", "it is 10^868590.27, and not less"
    assert 10**12 * Fraction(4342944819, 10**10) < 434294482000
