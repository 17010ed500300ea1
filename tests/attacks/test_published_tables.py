"""Tables that are in memory as published tables: what they are read as, and what is wrong with others."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.kits.reconstruction import SMALL

from confide.errors import ConfideError
from confide.lab.attacks import NoiseBound, Published, reconstruct

SEXES = {"sex": ["male", "female"], "count": [2, 1]}


class Frame:
    """A data frame of some other library, which gives itself away by the Arrow PyCapsule interface alone."""

    def __init__(self, columns: dict[str, Any]) -> None:
        self._table = pa.table(columns)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("make", [dict, pa.table, Frame, lambda columns: pa.table(columns).to_batches()[0]])
def test_any_kind_of_table_will_do(make: Any) -> None:
    published = Published.from_tables({"sex": make(SEXES)}, "persons")
    assert published.marginals[0].counts(0).tolist() == [2.0, 1.0]
    assert published.exact
    assert published.geography.blocks == ("all",)


def test_three_lines_from_tables_to_records() -> None:
    tables = {"a*c": {"a": [0, 1], "c": ["cx", "y"], "count": [2, 1]}, "b": {"b": [3], "count": [3]}}
    found = reconstruct(Published.from_tables(tables, SMALL), processes=1)
    assert sorted(zip(*(found.records().column(name).to_pylist() for name in "abc"), strict=True)) == [
        (0, 3, "x"),
        (0, 3, "x"),
        (1, 3, "y"),
    ]
    assert found.mean == 0.0


def test_categories_codes_and_missing_counts_are_understood() -> None:
    rows = pa.table({"sex": pa.array(["male", "female"]).dictionary_encode(), "count": pa.array([None, 4.0])})
    counts = Published.from_tables({"sex": rows}, "persons").marginals[0].counts(0)
    assert np.isnan(counts[0])
    assert counts[1] == 4.0
    coded = Published.from_tables({"sex": {"sex": [2, 1], "count": [4, 3]}}, "persons")
    assert coded.marginals[0].counts(0).tolist() == [3.0, 4.0]


def test_areas_noise_and_absent_cells() -> None:
    rows = {"tract": ["b", "a"], "sex": ["male", "male"], "count": [-1, 3]}
    published = Published.from_tables(
        {"sex": rows}, "persons", area="tract", variance="1/2", bound=NoiseBound(3), absent="unknown"
    )
    assert published.geography.blocks == ("a", "b")
    (marginal,) = published.marginals
    assert marginal.variance == Fraction(1, 2)
    assert marginal.bound == NoiseBound(3)
    assert [marginal.counts(unit)[0] for unit in (0, 1)] == [3.0, -1.0]
    assert np.isnan(marginal.counts(0)[1])


@pytest.mark.parametrize(
    ("tables", "settings", "code"),
    [
        ({}, {}, "no-tables"),
        ({"sex": 7}, {}, "not-a-table"),
        ({"sex": {"sex": ["male"], "count": [1, 2]}}, {}, "not-a-table"),
        ({"sex": {"sex": ["male"]}}, {}, "no-column"),
        ({"sex": SEXES}, {"area": "tract"}, "no-column"),
        ({"sex": SEXES | {"tract": ["a", None]}}, {"area": "tract"}, "no-unit"),
        ({"sex": {"sex": [[1], [2]], "count": [1, 2]}}, {}, "column-type"),
        ({"sex": {"sex": ["male", "other"], "count": [1, 2]}}, {}, "no-cell"),
        ({"sex": {"sex": ["male", "male"], "count": [1, 2]}}, {}, "cell-twice"),
        ({"sex": {"sex": ["male", "female"], "count": [-1, 2]}}, {}, "not-a-count"),
        ({"sex": {"sex": ["male", "female"], "count": ["many", "2"]}}, {}, "not-a-number"),
        ({"sex": SEXES, "total": {"count": [4]}}, {}, "totals-differ"),
        ({"sexes": SEXES}, {}, None),
        ({"sex": SEXES}, {"variance": 0.5}, None),
    ],
)
def test_what_is_wrong_is_found(tables: dict[str, Any], settings: dict[str, Any], code: str | None) -> None:
    with pytest.raises(ConfideError) as caught:
        Published.from_tables(tables, "persons", **settings)
    finding = caught.value.findings[0]
    assert code is None or finding.code == code
    assert finding.what


def test_all_wrong_tables_are_named_at_once() -> None:
    with pytest.raises(ConfideError) as caught:
        Published.from_tables({"sex": {"count": [1]}, "hispanic": {"count": [1]}}, "persons")
    assert [finding.where.column for finding in caught.value.findings] == ["sex", "hispanic"]
