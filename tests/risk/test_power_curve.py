"""Curves and parts: published epsilons, directions of rounding, plans, and the command."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import mpmath
import pytest
from tests.kits import commands

from confide.errors import ParameterError
from confide.lab.risk import curve
from confide.lab.risk.testing import DifferenceKind, LossTest, epsilon_curve, parts_of, posterior_factor, power_curve
from confide.mechanisms.topdown.constraints import Constraints
from confide.mechanisms.topdown.strategy import plan_of
from confide.mechanisms.topdown.strategy_file import load_strategy
from confide.privacy import ZCDP, Definition, Neighbours, epsilon_bracket, noisy_cells
from confide.releases.loss_account import ReleaseAccount
from confide.releases.plan import Plan
from confide.report import charts

run = partial(commands.run, "risk", "curve")
run_json = partial(commands.run_json, "risk", "curve")
codes = partial(commands.codes, "risk", "curve")

WAYS = ("bun_steinke", "canonne_kamath_steinke", "gaussian_limit")
EXPECTED = [
    ("2.56", "1e-10", (17.9153, 17.1583, 16.4794)),
    ("293764/114921", "1e-10", (17.9002, 17.1436, 16.4652)),
    ("2.56", "1e-6", (14.4542, 13.5678, 12.7795)),
    ("0.07", "1e-10", (2.6091, 2.3873, 2.2796)),
    ("1.28", "1e-10", (12.1378, 11.5284, 11.0555)),
]
# The certificates of the 2020 redistricting data: epsilon at 1e-10 to two digits.
PERSONS = {
    (DifferenceKind.EVERYTHING, ""): 17.14,
    (DifferenceKind.ATTRIBUTE, "hhgq"): 7.24,
    (DifferenceKind.ATTRIBUTE, "votingage"): 7.57,
    (DifferenceKind.ATTRIBUTE, "hispanic"): 10.04,
    (DifferenceKind.ATTRIBUTE, "cenrace"): 10.08,
    (DifferenceKind.BLOCK_WITHIN, "block_group"): 2.93,
    (DifferenceKind.BLOCK_WITHIN, "tract"): 9.38,
    (DifferenceKind.BLOCK_WITHIN, "county"): 11.70,
    (DifferenceKind.BLOCK_WITHIN, "state"): 13.05,
    (DifferenceKind.BLOCK_WITHIN, "us"): 16.89,
}
UNITS = {"block_group": 0.82, "tract": 1.81, "county": 2.35, "state": 2.46, "us": 2.47}


@pytest.mark.parametrize(("rho", "delta", "expected"), EXPECTED)
def test_epsilons(rho: str, delta: str, expected: tuple[float, ...]) -> None:
    (point,) = epsilon_curve(rho, [delta])
    for way, value in zip(WAYS, expected, strict=True):
        assert point.ways[way] == pytest.approx(value, abs=6e-5)
        assert point.as_dict()[way] == point.ways[way]


@pytest.mark.parametrize(("rho", "delta", "expected"), EXPECTED)
def test_every_way_is_rounded_up(rho: str, delta: str, expected: tuple[float, ...]) -> None:
    """Against forty digits: never below, and above by less than one part in 10^12."""
    del expected
    (point,) = epsilon_curve(rho, [delta])
    with mpmath.workdps(40):
        exact = Fraction(rho)
        r, d = mpmath.mpf(exact.numerator) / exact.denominator, mpmath.mpf(delta)
        found = point.ways
        simple = r + 2 * mpmath.sqrt(r * mpmath.log(1 / d))
        best = mpmath.findroot(lambda a: r * (a - 1) ** 2 + mpmath.log(d * a), 1 + mpmath.sqrt(-mpmath.log(d) / r))
        moments = best * r + mpmath.log(1 / (best * d)) / (best - 1) + mpmath.log(1 - 1 / best)
        mu = mpmath.sqrt(2 * r)

        def excess(e: Any) -> Any:
            chance = mpmath.ncdf(mu / 2 - e / mu) - mpmath.exp(e) * mpmath.ncdf(-mu / 2 - e / mu)
            return mpmath.log(chance / d)

        limit = mpmath.findroot(excess, mpmath.mpf(found["gaussian_limit"]))
        for way, true in zip(WAYS, (simple, moments, limit), strict=True):
            assert true <= mpmath.mpf(found[way]) + mpmath.mpf("1e-30")
            assert mpmath.mpf(found[way]) <= true * (1 + mpmath.mpf("1e-12"))


def test_curves_fall_and_rise() -> None:
    points = epsilon_curve("2.56", ["1e-4", "1e-8", "1e-12"])
    for way in WAYS:
        assert points[0].ways[way] < points[1].ways[way] < points[2].ways[way]
    powers = power_curve("2.56", ["0.001", "0.05", "0.5"])
    assert powers[0].zcdp < powers[1].zcdp < powers[2].zcdp
    assert epsilon_curve(0, ["1e-4"])[0].ways["canonne_kamath_steinke"] == 0


@pytest.fixture(scope="module")
def persons() -> Plan:
    # As the certificates of 2020 state the parts: whatever invariants give away.
    return plan_of(replace(load_strategy("pl94-persons"), constraints=Constraints()))


def test_the_parts_of_the_persons_of_2020(persons: Plan) -> None:
    parts = {(part.kind, part.name): part for part in parts_of(persons)}
    assert set(parts) == set(PERSONS) | {(DifferenceKind.MEMBERSHIP, "")}
    for key, published in PERSONS.items():
        (point,) = parts[key].epsilons(["1e-10"])
        assert round(point.ways["canonne_kamath_steinke"], 2) == published
    whole, membership = parts[DifferenceKind.EVERYTHING, ""], parts[DifferenceKind.MEMBERSHIP, ""]
    assert whole.rho == Fraction(293764, 114921) == 2 * membership.rho
    for (kind, _), part in parts.items():
        (power,) = part.powers(["0.05"], exact=False)
        assert power.gaussian < power.zcdp
        if kind is not DifferenceKind.EVERYTHING:
            assert part.rho < whole.rho
    assert parts[DifferenceKind.ATTRIBUTE, "hhgq"].powers(["0.05"], exact=False)[0].zcdp < 0.37


def test_the_parts_of_the_units_of_2020() -> None:
    for part in parts_of(plan_of(replace(load_strategy("pl94-units"), constraints=Constraints()))):
        if part.kind is DifferenceKind.BLOCK_WITHIN:
            (point,) = part.epsilons(["1e-10"])
            assert round(point.ways["canonne_kamath_steinke"], 2) == UNITS[part.name]


def test_the_exact_curve_of_the_persons_of_2020(persons: Plan) -> None:
    """65 measurements with 33 variances: close to the Gaussian limit, and certainly below the general bounds."""
    whole = parts_of(persons)[0]
    (power,), (point,) = whole.powers(["0.05"]), whole.epsilons(["1e-10"], exact=True)
    assert power.exact is not None
    assert point.exact is not None
    assert power.exact.optimistic == pytest.approx(0.731109, abs=1e-5)
    assert power.exact.pessimistic == pytest.approx(0.731125, abs=1e-6)
    assert 16.46 < point.exact.optimistic < point.exact.pessimistic < 16.4653
    assert point.exact.pessimistic < point.ways["canonne_kamath_steinke"]
    assert power.as_dict()["exact_high"] == power.exact.pessimistic


def test_plans_without_a_loss_in_zcdp_are_refused(persons: Plan) -> None:
    pure = Plan("tables", Neighbours.ADD_REMOVE, Definition.PURE, (), ("all",), {})
    unpriced = Plan("cellkey", Neighbours.ADD_REMOVE, Definition.ZCDP, (), ("all",), {}, has_loss=False)
    for plan in (pure, unpriced):
        with pytest.raises(ParameterError, match="zCDP"):
            parts_of(plan)


def test_command_with_one_level() -> None:
    found = run_json("--rho", "2.56", "--level", "0.05")
    assert found["zcdp_power"] == pytest.approx(0.9343, abs=5e-5)
    assert found["gaussian_power"] == pytest.approx(0.731675, abs=1e-6)
    assert found["level"] == 0.05
    assert [row["delta"] for row in found["epsilons"]] == [1e-6, 1e-8, 1e-10, 1e-12]
    assert found["epsilons"][2]["canonne_kamath_steinke"] == pytest.approx(17.1583, abs=1e-4)
    assert set(found["epsilons"][0]) == {"delta", *WAYS}
    assert found["advantage"]["gaussian"] < found["advantage"]["zcdp"] < 1


def test_command_with_several_levels() -> None:
    found = run_json("--rho", "0.07", "--level", "0.01", "--level", "0.1", "--delta", "1e-10")
    assert "zcdp_power" not in found
    assert [row["level"] for row in found["levels"]] == [0.01, 0.1]
    assert len(found["epsilons"]) == 1


def test_command_with_an_epsilon() -> None:
    found = run_json("--epsilon", "0.5")
    assert found["pure_power"] == pytest.approx(0.05 * math.exp(0.5), abs=1e-12)
    assert found["posterior"]["factor"] == "2.72"
    pair = run_json("--epsilon", "17.16", "--delta", "1e-10")
    assert pair["approximate_power"] == pytest.approx(1, abs=1e-7)


@pytest.mark.slow
def test_command_with_a_strategy() -> None:
    found = run_json("--strategy", "pl94-units", "--delta", "1e-10")
    assert found["root"] == "us"
    assert found["power_exact_low"] <= found["power_exact_high"] < found["zcdp_power"]
    assert round(found["epsilons"][0]["canonne_kamath_steinke"], 2) == 2.47
    assert found["epsilons"][0]["exact_low"] <= found["epsilons"][0]["exact_high"]
    parts = {(part["kind"], part["name"]): part for part in found["parts"]}
    assert round(parts["attribute", "h1"]["epsilons"][0]["canonne_kamath_steinke"], 2) == 2.47
    assert "block-within" not in {kind for kind, _ in parts}, "the block table tells the block of every unit"
    assert parts["membership", ""]["rho"] == str(Fraction(found["rho"]) / 2)


def test_command_for_people() -> None:
    shown = run("--rho", "2.56", "--delta", "1e-10")
    assert "0.934345" in shown
    assert "17.1584" in shown
    assert "for comparison" in shown
    assert "0.082437" in run("--epsilon", "0.5")


@pytest.mark.slow
@pytest.mark.skipif(not charts.available(), reason="the extra plots is not installed")
def test_pictures(tmp_path: Path) -> None:
    assert "in h1 alone" in run("--strategy", "pl94-units", "--plots", tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["epsilon.svg", "parts.svg", "power.svg"]
    assert "any release" in (tmp_path / "parts.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ([], "curve-of-what"),
        (["--rho", "1", "--epsilon", "1"], "curve-of-what"),
        (["--rho", "1", "--root", "us"], "curve-of-what"),
        (["--rho", "-1"], "not-positive"),
        (["--rho", "1", "--level", "2"], "out-of-range"),
        (["--rho", "1", "--delta", "0.7"], "out-of-range"),
    ],
)
def test_what_cannot_be_asked(options: list[str], code: str) -> None:
    assert codes(*options) == [code]


def test_against_opendp() -> None:
    """The same conversion by a peer, where it is installed."""
    opendp = pytest.importorskip("opendp.prelude", reason="opendp is not installed")
    opendp.enable_features("contrib", "honest-but-curious")
    space = opendp.vector_domain(opendp.atom_domain(T=int)), opendp.l2_distance(T=float)
    measure = opendp.c.make_zCDP_to_approxDP(opendp.m.make_gaussian(*space, scale=1 / math.sqrt(2 * 2.56)))
    assert measure.map(1.0).epsilon(1e-10) == pytest.approx(
        epsilon_curve("2.56", ["1e-10"])[0].ways["canonne_kamath_steinke"], abs=1e-3
    )


def test_against_dp_accounting() -> None:
    """The distribution of the loss by a peer, where it is installed."""
    peers = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution", reason="dp_accounting is not installed")
    from confide.privacy import NoisyCells

    theirs = peers.from_discrete_gaussian_mechanism(sigma=2.0).self_compose(10)
    ours = LossTest([NoisyCells("4", 1, 10)]).advantage
    assert theirs.get_delta_for_epsilon(0.0) == pytest.approx(ours.pessimistic, abs=1e-3)


def test_the_command_states_how_often_a_posterior_is_multiplied_by_more() -> None:
    """(1 + exp(−ε))δ, rounded up: what the API gives, and not twice that."""
    printed = run("--rho", "2.56")
    stated = re.search(r"but for a probability of at most ([0-9.e-]+[0-9])\.", " ".join(printed.split()))
    assert stated is not None
    exceeded = Fraction(posterior_factor(ZCDP("2.56"), "1e-10").exceeded)
    assert exceeded <= Fraction(stated[1]) <= exceeded * Fraction("1.011")


def test_an_account_and_a_curve_state_one_epsilon_for_the_same_measurements() -> None:
    """And it is the tighter of the two upper ends that are known, still above the lower one."""
    plan = plan_of(load_strategy("pl94-persons", root="us"))
    account = ReleaseAccount(plan, Fraction(1, 10**10)).loss_distribution
    (point,) = curve(strategy="pl94-persons", root="us", deltas=["1e-10"]).epsilons
    assert account is not None
    assert account == point.exact
    plain = epsilon_bracket(noisy_cells(plan.event, plan.neighbours), "1e-10")
    assert account.optimistic < account.pessimistic < plain.pessimistic
    assert account.optimistic == plain.optimistic
