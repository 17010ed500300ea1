"""The room exports its nouns and verbs, and loads a solver only when it is used."""

from __future__ import annotations

from types import GenericAlias

import pytest

import confide.estimation
from confide.estimation import least_squares, node_problem, rounding


def test_every_name_that_is_listed_is_there() -> None:
    names = dir(confide.estimation)
    assert {"NodeProblem", "MeasuredQuery", "solve", "RoundingProblem", "round_counts", "TreeEstimates"} <= set(names)
    values = {name: getattr(confide.estimation, name) for name in names}
    assert all(value.__name__ == name for name, value in values.items() if not isinstance(value, GenericAlias))


def test_the_names_are_those_of_the_modules() -> None:
    assert confide.estimation.solve is least_squares.solve
    assert confide.estimation.NodeProblem is node_problem.NodeProblem
    assert confide.estimation.round_counts is rounding.round_counts


def test_other_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'guess'"):
        confide.estimation.guess  # noqa: B018
