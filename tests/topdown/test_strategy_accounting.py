"""What the shipped strategies cost and how noisy they are, against the production certificates of 25 June 2021."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from typer.testing import CliRunner

from confide.cli.main import app
from confide.errors import ParameterError
from confide.mechanisms.topdown.constraints import Constraints
from confide.mechanisms.topdown.strategy import account_of, law_of, plan_of
from confide.mechanisms.topdown.strategy_file import load_strategy, parse_strategies
from confide.noise import DiscreteGaussian
from confide.privacy import ZCDP, Neighbours
from confide.releases.plan import read_plan

CERTIFICATES: dict[tuple[str, str], dict[str, Any]] = {
    ("pl94-persons", "us"): {
        "rho": "293764/114921",
        "epsilon": 17.14,
        "by_attribute": {"hhgq": 7.24, "votingage": 7.57, "hispanic": 10.04, "cenrace": 10.08},
        "by_move_within": {"us": 16.89, "state": 13.05, "county": 11.70, "tract": 9.38, "block_group": 2.93},
    },
    ("pl94-persons", "pr"): {
        "rho": "293764/114921",
        "epsilon": 17.14,
        "by_attribute": {"hhgq": 8.69, "votingage": 9.49, "hispanic": 11.65, "cenrace": 11.69},
        "by_move_within": {"state": 15.41, "county": 13.51, "tract": 11.18, "block_group": 2.93},
    },
    ("pl94-units", "us"): {
        "rho": "11417641/152349649",
        "epsilon": 2.47,
        "by_attribute": {"h1": 2.47},
        "by_move_within": {"us": 2.47, "state": 2.46, "county": 2.35, "tract": 1.81, "block_group": 0.82},
    },
    ("pl94-units", "pr"): {
        "rho": "11417641/152349649",
        "epsilon": 2.47,
        "by_attribute": {"h1": 2.47},
        "by_move_within": {"state": 2.47, "county": 2.35, "tract": 1.81, "block_group": 0.82},
    },
}

GIVEN_AWAY = {
    ("pl94-persons", "us"): {"us"},  # which state somebody is in: the population of states is exact
    ("pl94-persons", "pr"): set(),
    ("pl94-units", "us"): {"us", "state", "county", "tract", "block_group"},  # the block table has all housing units
    ("pl94-units", "pr"): {"state", "county", "tract", "block_group"},
}

US_VARIANCES = """
total                          -      1.209  4.702  6.11   3.069  7963
cenrace                        1215   760.4  1470   1197   1744   4424
hispanic                       2430   760.4  1470   1915   1744   7963
votingage                      2430   760.4  1470   1915   1744   7963
hhgq:residence                 2430   760.4  1470   1915   1744   7963
hhgq                           2430   760.4  1470   1915   1744   7963
hispanic*cenrace               485.9  380.2  524.9  4.953  4.96   1896
votingage*cenrace              485.9  380.2  524.9  478.7  581.5  1896
votingage*hispanic             2430   760.4  1470   1915   1744   7963
votingage*hispanic*cenrace     142.9  134.2  145.5  142.9  218    560.8
detailed                       19.66  19.84  19.49  19.86  4.063  10.09
"""
UNIT_VARIANCES = "detailed 2735 2735 156.3 37.57 31.1 110.5"


def command(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["account", "strategy", *arguments])
    if result.exception is not None:
        raise result.exception
    return result.stdout


@pytest.mark.parametrize(("name", "root"), CERTIFICATES)
def test_the_account_is_that_of_the_certificate(name: str, root: str) -> None:
    expected = CERTIFICATES[name, root]
    account = account_of(load_strategy(name, root=root))
    assert account.total.rho == Fraction(expected["rho"])
    assert round(account.total.epsilon["canonne_kamath_steinke"], 2) == expected["epsilon"]
    # The certificates of 2020 state the loss of a move whatever invariants give away.
    priced = account_of(replace(load_strategy(name, root=root), constraints=Constraints()))
    for part in ("by_attribute", "by_move_within"):
        stated = getattr(priced, part)
        epsilons = {key: round(value.epsilon["canonne_kamath_steinke"], 2) for key, value in stated.items()}
        assert epsilons == expected[part]
        assert getattr(account, part).items() <= stated.items()
    assert {*stated} - {*account.by_move_within} == GIVEN_AWAY[name, root]


@pytest.mark.parametrize(("name", "text"), [("pl94-persons", US_VARIANCES), ("pl94-units", UNIT_VARIANCES)])
def test_the_variances_are_those_of_production(name: str, text: str) -> None:
    account = account_of(load_strategy(name))
    variance = account.as_dict()["variance"]
    expected = {row.split()[0]: row.split()[1:] for row in text.strip().splitlines()}
    for position, level in enumerate(account.strategy.level_names):
        column = {query: row[position] for query, row in expected.items() if row[position] != "-"}
        assert {query: f"{value:.4g}" for query, value in variance[level].items()} == column


@pytest.mark.parametrize("root", ["us", "pr", "state"])
@pytest.mark.parametrize("name", ["pl94-persons", "pl94-units"])
def test_noise_is_one_over_the_loss_exactly(name: str, root: str) -> None:
    strategy = load_strategy(name, root=root)
    plan = plan_of(strategy)
    for measure in plan.measures:
        level = strategy.level(measure.level)
        share = strategy.budget * level.share * level.query(measure.query).share
        assert measure.law == DiscreteGaussian(1 / share)
        assert measure.loss == ZCDP(share)
        assert measure.law.variance_bounds()[0] <= 1 / share
    assert plan.loss == ZCDP(strategy.budget)


def test_add_remove_takes_half_the_noise_variance() -> None:
    text = """
id = "own"
title = "Own"
provenance = "Made up."
definition = "zcdp"
neighbours = "NEIGHBOURS"
root = "land"
[schema]
id = "own"
provenance = "Made up."
[schema.attributes.sex]
levels = [[1, "one"], [2, "two"]]
[roots.land]
budget = "1/2"
levels = ["land", "block"]
shares = ["1/4", "3/4"]
estimation = ["plain", "plain"]
[roots.land.queries]
total = ["1/3", "1/3"]
detailed = ["2/3", "2/3"]
[estimation.plain]
least_squares = [{ queries = ["total", "detailed"] }]
rounding = [["total", "detailed"]]
"""
    laws = {}
    for neighbours in Neighbours:
        strategy = parse_strategies(text.replace("NEIGHBOURS", neighbours.value), "own.toml")[0]["land"]
        assert plan_of(strategy).loss == ZCDP("1/2")
        laws[neighbours] = plan_of(strategy).measure("block", "total").law.parameter
    assert laws == {Neighbours.ADD_REMOVE: 4, Neighbours.CHANGE_ONE: 8}


def test_a_unit_that_took_over_the_share_of_its_only_child_has_less_noise() -> None:
    strategy = load_strategy("pl94-persons")
    tract, total = strategy.level("tract"), strategy.level("tract").query("total")
    both = tract.share + strategy.level("block_group").share
    assert law_of(strategy, tract, total, both).sigma2 == law_of(strategy, tract, total).sigma2 * tract.share / both


def test_a_plan_has_the_units_of_its_spine_and_can_be_read_back() -> None:
    strategy = load_strategy("pl94-units", root="state")
    units = {"state": 1, "county": 5, "tract": 244, "block_group": 2000, "block": 25_181}
    plan = plan_of(strategy, units, frame="0" * 64)
    assert plan.counts == 2 * sum(units.values())
    assert plan.question["strategy"]["budget"] == str(strategy.budget)
    assert read_plan(plan.as_dict()).hash == plan.hash
    assert plan_of(load_strategy("pl94-units", root="pr"), units, frame="0" * 64).hash != plan.hash


def test_the_command_prints_the_account_as_json() -> None:
    shown = json.loads(command("pl94-persons", "--json"))
    assert Fraction(shown["rho"]) == Fraction(293764, 114921)
    assert set(shown["epsilon"]) == {"bun_steinke", "canonne_kamath_steinke", "gaussian_limit"}
    assert round(shown["epsilon"]["bun_steinke"], 2) == 17.90
    assert round(shown["by_attribute"]["cenrace"]["epsilon"]["canonne_kamath_steinke"], 2) == 10.08
    assert round(shown["by_move_within"]["tract"]["epsilon"]["canonne_kamath_steinke"], 2) == 9.38
    assert shown["variance"]["state"]["total"] == pytest.approx(1.2091923933874669, rel=1e-12)
    assert float(Fraction(shown["sigma2"]["state"]["total"])) == pytest.approx(1.2091923983582196, rel=1e-12)
    assert "total" not in shown["variance"]["us"]


def test_the_command_takes_a_root_and_a_budget() -> None:
    state = json.loads(command("pl94-persons", "--root", "state", "--json"))
    assert state["rho"] == "3212131612780/1929937650363"
    assert state["levels"][0] == "state"
    whole = json.loads(command("pl94-persons", "--root", "state", "--renormalise", "--json"))
    assert whole["rho"] == "293764/114921"
    assert json.loads(command("pl94-units", "--budget", "1/10", "--root", "pr", "--json"))["rho"] == "1/10"
    with pytest.raises(ParameterError, match="has no root 'moon'"):
        command("pl94-units", "--root", "moon")
    with pytest.raises(ParameterError, match="--budget"):
        command("pl94-units", "--budget", "1e9")


def test_the_command_prints_tables_for_people() -> None:
    text = command("pl94-persons")
    assert "17.1436" in text
    assert "in hhgq alone" in text
    assert "in its block, same tract" in text
    assert "rho = 293764/114921 (change-one)" in text
