"""Maps are for TopDown alone: the dossiers of the other mechanisms refuse them, before anything is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from confide.errors import ParameterError
from confide.mechanisms.cellkey.evaluate import evaluate_cellkey
from confide.mechanisms.safetab.evaluation.dossier import evaluate_safetab
from confide.mechanisms.suppression.evaluate import evaluate_suppression
from confide.mechanisms.swapping.evaluate import evaluate_swapping
from confide.mechanisms.tables.evaluate import evaluate_tables
from confide.report.dossier import Evaluating, Evaluator, no_maps

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
def test_a_map_is_refused(evaluate: Evaluator, code: str) -> None:
    with pytest.raises(ParameterError, match="has no maps") as caught:
        evaluate(asked(county=Path("county.geojson"), tract=Path("tract.geojson")))
    (finding,) = caught.value.findings
    assert (finding.code, finding.found, finding.remedy) == (code, "county, tract", "leave --geometry out")


def test_nobody_who_asks_for_none_is_refused() -> None:
    assert no_maps(asked(), "tables", "tables") == []
