"""Privacy losses: exact, within one kind, and back from their plain form."""

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from confide.errors import ParameterError
from confide.exact import exact
from confide.privacy import ZCDP, ApproxDP, Definition, Neighbours, PureDP, loss_from_dict

fractions = st.fractions(min_value=0, max_value=1000, max_denominator=10**6)
small = st.fractions(min_value=0, max_value=Fraction(1, 4), max_denominator=10**6)
losses = st.one_of(
    st.builds(PureDP, fractions), st.builds(ZCDP, fractions), st.builds(ApproxDP, epsilon=fractions, delta=small)
)
same_kind = st.one_of(
    st.tuples(*[st.builds(PureDP, fractions)] * 3),
    st.tuples(*[st.builds(ZCDP, fractions)] * 3),
    st.tuples(*[st.builds(ApproxDP, epsilon=fractions, delta=small)] * 3),
)


def test_values_are_exact() -> None:
    assert PureDP("0.1").epsilon == Fraction(1, 10)
    assert ZCDP(Decimal("2.56")).rho == Fraction(64, 25)
    assert ApproxDP(1, "1e-10").delta == Fraction(1, 10**10)


@pytest.mark.parametrize("kind", [PureDP, ZCDP, lambda x: ApproxDP(x, 0), lambda x: ApproxDP(1, x)])
def test_floats_and_negatives_are_refused(kind: type) -> None:
    with pytest.raises(ParameterError) as error:
        kind(0.1)
    assert error.value.findings[0].code == "float-refused"
    with pytest.raises(ParameterError) as error:
        kind("-1/3")
    assert error.value.findings[0].code == "negative"


@given(losses)
def test_round_trip(loss: PureDP | ZCDP | ApproxDP) -> None:
    plain = loss.as_dict()
    assert all(isinstance(value, str) for value in plain.values())
    assert loss_from_dict(plain) == loss
    assert hash(loss_from_dict(plain)) == hash(loss)


@pytest.mark.parametrize(
    "plain",
    [
        {},
        {"definition": "renyi", "rho": "1"},
        {"definition": "zcdp", "epsilon": "1"},
        {"definition": "zcdp", "rho": "1", "delta": "0"},
        {"definition": "approximate", "epsilon": "1"},
    ],
)
def test_what_is_not_a_loss_is_refused(plain: dict[str, str]) -> None:
    with pytest.raises(ParameterError) as error:
        loss_from_dict(plain)
    assert error.value.findings[0].code == "unknown-loss"


@given(same_kind)
def test_algebra(three: tuple[PureDP, PureDP, PureDP]) -> None:
    a, b, c = three
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)
    assert a + type(a).zero() == a
    assert a <= a + b
    assert a + a == a * 2 == 2 * a
    if not isinstance(a, ApproxDP):  # the δ of a sum is capped at 1
        assert (a + b) - b == a
        assert (a < b) + (a == b) + (a > b) == 1
    assert a * Fraction(1, 3) + a * Fraction(2, 3) == a


def test_the_order_of_epsilon_and_delta_is_partial() -> None:
    one, other = ApproxDP(1, "1e-6"), ApproxDP(2, "1e-9")
    assert not one <= other
    assert not other <= one
    assert ApproxDP(1, "1e-9") < one
    assert one > ApproxDP(1, "1e-9")


def test_kinds_are_not_mixed() -> None:
    for act in (
        lambda: PureDP(1) + ZCDP(1),
        lambda: ZCDP(1) - PureDP(1),
        lambda: ApproxDP(1, 0) <= PureDP(1),
        lambda: ZCDP(1) + 1,
    ):
        with pytest.raises(ParameterError) as error:
            act()
        assert error.value.findings[0].code == "losses-of-two-kinds"
    assert PureDP(1) != ZCDP(1)


def test_a_budget_does_not_become_negative() -> None:
    with pytest.raises(ParameterError) as error:
        ZCDP(1) - ZCDP("1.0000001")
    assert error.value.findings[0].code == "loss-exceeds-budget"
    assert ZCDP(1) - ZCDP(1) == ZCDP.zero()


def test_exact_conversions() -> None:
    assert PureDP("3/2").to_zcdp() == ZCDP("9/8")
    assert PureDP("3/2").to_approximate() == ApproxDP("3/2", 0)


def test_names_are_stable() -> None:
    assert [d.value for d in Definition] == ["pure", "zcdp", "approximate"]
    assert [n.value for n in Neighbours] == ["add-remove", "change-one"]
    assert ZCDP("2.56").as_dict() == {"definition": "zcdp", "rho": "64/25"}
    assert str(ZCDP("2.56")) == "zcdp rho = 64/25"


@pytest.mark.parametrize("text", ["１", "1_0", "١", "0.５", "1/２", "1e１", "_1", "1_", "१/२", "1__0"])
def test_a_number_in_digits_that_a_reader_may_take_for_another_is_refused(text: str) -> None:
    with pytest.raises(ParameterError, match="not a number"):
        exact(text, "budget")
