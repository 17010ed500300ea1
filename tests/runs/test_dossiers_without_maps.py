"""Maps are for TopDown alone: the dossiers of the other mechanisms refuse them, before anything is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from confide.errors import Finding, ParameterError
from confide.mechanisms.cellkey.evaluate import evaluate_cellkey
from confide.mechanisms.safetab.dossier import evaluate_safetab
from confide.mechanisms.suppression.evaluate import evaluate_suppression
from confide.mechanisms.swapping.evaluate import evaluate_swapping
from confide.mechanisms.tables.evaluate import evaluate_tables
from confide.report.dossier import Evaluated, EvaluatedRun, Evaluating, no_maps, only_run

NOTHING: Any = None


def asked(**geometry: Path) -> Evaluating:
    return Evaluating(NOTHING, NOTHING, (), NOTHING, NOTHING, geometry)


@pytest.mark.parametrize(
    ("evaluate", "code"),
    [
        (evaluate_cellkey, "geometry-cellkey"),
        (evaluate_safetab, "geometry-safetab"),
        (evaluate_suppression, "geometry-suppression"),
        (evaluate_swapping, "geometry-swapping"),
        (evaluate_tables, "geometry-tables"),
    ],
)
def test_a_map_is_refused(evaluate: Callable[[Evaluating], Evaluated], code: str) -> None:
    with pytest.raises(ParameterError, match="has no maps") as caught:
        evaluate(asked(county=Path("county.geojson"), tract=Path("tract.geojson")))
    (finding,) = caught.value.findings
    assert (finding.code, finding.found, finding.remedy) == (code, "county, tract", "leave --geometry out")


def test_nobody_who_asks_for_none_is_refused() -> None:
    assert no_maps(asked(), "tables", "tables") == []


REFUSAL = Finding("one-run", "one run at a time", remedy="give one run")


def test_maps_and_several_runs_are_refused_together() -> None:
    runs = tuple(EvaluatedRun(name, name, NOTHING) for name in ("one", "two"))
    several = replace(asked(county=Path("county.geojson")), runs=runs)
    with pytest.raises(ParameterError) as caught:
        only_run(several, "swapping", "swapped data", REFUSAL)
    maps, run = caught.value.findings
    assert maps.code == "geometry-swapping"
    assert (run.code, run.where.path, run.found, run.expected) == ("one-run", "RUN", "2 runs", "one run")


def test_one_run_without_maps_is_evaluated() -> None:
    run = EvaluatedRun("one", "One", NOTHING)
    assert only_run(replace(asked(), runs=(run,)), "swapping", "swapped data", REFUSAL) is run
