"""``confide risk invariants``, and what the certificate of a TopDown release says of its invariants."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.kits import commands

from confide.mechanisms.topdown.statement import effective_privacy
from confide.mechanisms.topdown.strategy import plan_of
from confide.mechanisms.topdown.strategy_file import load_strategy
from confide.noise import DiscreteGaussian
from confide.privacy import ZCDP, Definition, Neighbours, PureDP
from confide.privacy.invariants import Status, single_record, translate
from confide.releases.plan import Plan, PlannedMeasurement

run = partial(commands.run, "risk", "invariants")
run_json = partial(commands.run_json, "risk", "invariants")


def test_json_of_a_case() -> None:
    found = run_json("C1", "C2")
    assert found["invariants"] == ["C1", "C2"]
    assert {name: (a["status"], a["multiplier"]) for name, a in found["single_record"].items()} == {
        "block": ("fixed", None), "relationship": ("free", 2), "housing": ("free", 2), "sex": ("free", 2),
        "age": ("coarse", 2), "voting_age": ("fixed", None), "ethnicity": ("free", 2), "race": ("free", 2),
    }  # fmt: skip
    assert {mode: (g["size"], g["multiplier"]) for mode, g in found["group"].items()} == {
        "as-printed": (4, 8), "permutation-product": (4, 8), "refill": (4, 8), "pairwise": (2, 4),
    }  # fmt: skip


def test_json_with_a_loss() -> None:
    zcdp = run_json("C1", "--rho", "2.56")
    loss = zcdp["group"]["refill"]["loss"]
    assert (loss["worst"]["rho"], loss["distinct_cells"]["rho"]) == ("256/25", "128/25")
    assert loss["worst"]["epsilon"] == pytest.approx(39.8226, abs=1e-4)
    assert zcdp["single_record"]["race"]["loss"]["worst"]["records"] == 1
    assert "loss" not in zcdp["single_record"]["block"]
    pure = run_json("C1", "C2", "--epsilon", "0.1")
    loss = pure["group"]["as-printed"]["loss"]
    assert loss == {"exponent": "4/5", "log_factor": pytest.approx(0.8)}
    assert Fraction(loss["log_factor"]) >= Fraction(4, 5)


def test_words_for_people(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    shown = run("2020", "--rho", "2.56", "--explain")
    assert "State" in shown
    assert "not quantified" in shown
    assert "39.83" in shown
    assert "State: somebody who knows all other records can calculate it" in shown
    assert "C5-vacant" in run()
    assert "option" not in run("C3", "C5")


def test_two_losses_are_one_too_many() -> None:
    assert commands.codes("risk", "invariants", "C1", "--rho", "1", "--epsilon", "1") == ["two-losses"]


# --- The certificate ---


def topdown(root: str) -> Plan:
    """The plan of the redistricting persons with everything that the plan of a release says of its bounds."""
    strategy = load_strategy("pl94-persons", Path(), root=root)
    titles = {attribute.name: attribute.title for attribute in strategy.schema.attributes}
    plan = plan_of(strategy, record=strategy.record, attributes=titles)
    bounds = [
        {
            "name": bound.name,
            "side": bound.side.value,
            "per_unit": bound.per_unit,
            "attribute": bound.variable.attribute.name,
            "groups": [{"codes": [code], "column": column} for code, column in sorted(bound.frame.items())],
        }
        for bound in strategy.constraints.bounds
    ]
    return replace(plan, question={**plan.question, "bounds": bounds})


def test_the_plan_of_2020_is_the_set_that_ships() -> None:
    found = single_record(translate(topdown("us")).invariants)
    assert {name: a.status for name, a in found.items()} == {
        "state": Status.FIXED, "block": Status.DATA, "hhgq": Status.DATA, "votingage": Status.DATA,
        "hispanic": Status.FREE, "cenrace": Status.FREE,
    }  # fmt: skip


def test_sentences_of_the_nation() -> None:
    text = " ".join(effective_privacy(topdown("us")))
    assert "This holds for Hispanic or Latino origin and Race, whatever the data." in text
    assert "can work out the following about a person's record: State." in text
    assert "if 2 records are replaced together, it is open again" in text
    assert "rho = 10.2250, epsilon = 39.79" in text  # four times 2.5562...
    assert "If two records only exchange their places, the release reveals this with at most rho = 4.9828" in text
    limited = "For Block (within the same state), Household or group quarters and Voting age, it holds except where the"
    assert limited in text
    assert "could not be taken into account" not in text


@pytest.mark.parametrize("root", ["us", "state"])
def test_no_sentence_says_of_an_attribute_that_it_always_holds_and_another_that_it_does_not(root: str) -> None:
    plan = topdown(root)
    sentences = effective_privacy(plan)
    (always,) = (text for text in sentences if text.startswith("This holds for"))
    for answer in single_record(translate(plan).invariants).values():
        assert (answer.title in always) == (answer.status is not Status.FIXED and not answer.exceptions)


def test_in_one_state_nothing_is_fixed() -> None:
    text = " ".join(effective_privacy(topdown("state")))
    assert "can work out the following" not in text
    assert "For Block" in text
    assert "it holds except where" in text


def test_what_the_plan_does_not_tell_is_said() -> None:
    plan = topdown("us")
    question = {key: value for key, value in plan.question.items() if key != "bounds"}
    text = " ".join(effective_privacy(replace(plan, question=question)))
    assert "because the plan does not say enough about them: hhgq-lower, hhgq-upper" in text


def small(invariants: list[dict[str, Any]], definition: Definition = Definition.ZCDP, **more: Any) -> Plan:
    law, loss = DiscreteGaussian(Fraction(1)), ZCDP(1)
    measures = (
        PlannedMeasurement("town", "sex", 1, 2, law, loss, ("sex",)),
        PlannedMeasurement("block", "age", 4, 3, law, loss, ("age",)),
        PlannedMeasurement("block", "sex*race", 4, 8, law, loss, ("sex", "race")),
    )
    question = {
        "strategy": {"id": "small", "constraints": {"invariants": invariants, "bounds": [], "zeros": []}},
        "attributes": {"sex": "Sex", "age": "Age", "race": "Race"},
        "record": "person",
    } | more
    return Plan("topdown", Neighbours.CHANGE_ONE, definition, measures, ("town", "block"), question)


def invariant(level: str, query: str | None) -> dict[str, Any]:
    return {"name": f"{query} by {level}", "level": level, "query": query, "frame": []}


def test_a_cross_table_of_the_blocks_is_taken_apart() -> None:
    found = single_record(translate(small([invariant("block", "sex*age")])).invariants)
    assert {name: a.status.value for name, a in found.items()} == {
        "block": "fixed", "sex": "fixed", "age": "fixed", "race": "free",
    }  # fmt: skip
    coarse = single_record(translate(small([invariant("town", "age")])).invariants)
    assert {name: a.status.value for name, a in coarse.items()} == {
        "block": "free", "sex": "free", "age": "fixed", "race": "free",
    }  # fmt: skip


@pytest.mark.parametrize("query", ["age:two", "race", "sex*race"])
def test_recodes_and_unknown_sizes_are_not_guessed(query: str) -> None:
    """The plan tells neither the groups of a recode nor how many levels race has."""
    plan = small([invariant("block", "total"), invariant("block", query)])
    assert translate(plan).left_out == (f"{query} by block",)
    assert "could not be taken into account" in " ".join(effective_privacy(plan))


def test_what_the_frame_tells_counts_too() -> None:
    told = {"name": "total by block", "cells": [{"where": {}, "column": "units"}]}
    stated = invariant("block", "total") | {"frame": ["units"]}
    found = single_record(translate(small([stated], told=[told])).invariants)
    assert found["block"].status is Status.FIXED


def test_where_nothing_is_exact_nothing_is_said() -> None:
    assert effective_privacy(small([])) == []
    assert effective_privacy(replace(small([]), question={})) == []


def test_pure_losses_have_a_factor() -> None:
    plan = small([invariant("block", "total")])
    pure = replace(plan, definition=Definition.PURE)
    object.__setattr__(pure, "loss", PureDP(Fraction(1, 2)))  # a cached property: measured with other noise
    text = " ".join(effective_privacy(pure))
    assert "a factor of at most 2.72" in text  # exp(2 epsilon)
    assert "a factor of at most 7.39" in text  # exp(4 epsilon)
