"""Tables in memory without differential privacy: the same protection as the mechanisms, over a declared domain."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from confide.errors import ConfideError, InputError, ParameterError
from confide.in_memory import ProtectedTable, protect
from confide.mechanisms.cellkey.keys import draw_keys
from confide.mechanisms.cellkey.programme import shuffled as in_derived_order
from confide.mechanisms.cellkey.spec import CellKeyPart
from confide.mechanisms.swapping import swap_records, swap_settings
from confide.noise import ReleaseKey
from confide.noise.ptables import count_settings, generate

BY = {"area": ["N", "S"], "job": ["yes", "no", "other"]}
AREAS, JOBS = ["N"] * 9 + ["S"] * 20, ["yes"] * 2 + ["no"] * 7 + ["yes"] * 12 + ["other"] * 8


def people(**columns: Any) -> pa.Table:
    return pa.table({"area": AREAS, "job": JOBS, **columns})


def as_counts(table: ProtectedTable) -> dict[tuple[str, str], int | None]:
    return {(row["area"], row["job"]): row["count"] for row in table.counts.to_pylist()}


def true_counts() -> Counter[tuple[str, str]]:
    counts: Counter[tuple[str, str]] = Counter()
    for area, job in zip(AREAS, JOBS, strict=True):
        for cell in ((area, job), (area, "total"), ("total", job), ("total", "total")):
            counts[cell] += 1
    return counts


def test_cell_keys_perturb_as_the_table_says_and_always_alike() -> None:
    keys = draw_keys(len(AREAS), 10**8, ReleaseKey.choose("0f" * 32))
    table = people(record_key=keys)
    published = as_counts(protect(table, BY, method="cellkey"))
    ptable = in_derived_order(generate(count_settings(5, 2)).table(), CellKeyPart())
    truth = true_counts()
    north = sum(int(key) for key, area in zip(keys, AREAS, strict=True) if area == "N") % ptable.modulus
    assert published["N", "total"] == truth["N", "total"] + int(ptable.lookup([truth["N", "total"]], [north])[0])
    assert published["N", "other"] == 0
    assert all(abs((published[cell] or 0) - truth[cell]) <= 5 for cell in published)
    shuffled = table.take(list(range(table.num_rows))[::-1])
    assert as_counts(protect(shuffled, BY, method="cellkey")) == published
    without = as_counts(protect(table, {"job": BY["job"], "area": BY["area"]}, method="cellkey"))
    assert without == published


def test_suppressed_cells_are_null_and_what_is_published_is_true() -> None:
    answer = protect(pd.DataFrame({"area": AREAS, "job": JOBS}), BY, method="suppression", maximum=3)
    published, truth = as_counts(answer), true_counts()
    assert published["N", "yes"] is None
    assert sum(count is None for count in published.values()) >= 4
    assert all(count is None or count == truth[cell] for cell, count in published.items())
    assert "suppressed" in str(answer)
    assert answer.as_dict()["method"] == "suppression"


def test_swapping_exchanges_places_and_keeps_everybody() -> None:
    """Two households of two, one of them in the north, all alike but for their job: they exchange their blocks."""
    table = pa.table(
        {
            "household_id": ["h", "h", "i", "i"],
            "geocode": ["b1", "b1", "b2", "b2"],
            "job": ["yes", "no", "no", "no"],
            "age": [30, 40, 30, 40],
            "hhgq": [0] * 4,
        }
    )
    blocks = pa.table({"geocode": ["b1", "b2"], "state": ["s"] * 2, "county": ["c"] * 2, "tract": ["t"] * 2})
    by = {"geocode": ["b1", "b2"], "job": ["yes", "no"]}
    settings = swap_settings(variant="targeted", rate=1, risk=["job"])
    answer = protect(table, by, method="swapping", blocks=blocks, settings=settings, insecure_key="0f" * 32)
    counts = {(row["geocode"], row["job"]): row["count"] for row in answer.counts.to_pylist()}
    assert (counts["b1", "yes"], counts["b2", "yes"]) == (0, 1)
    assert counts["total", "yes"] == 1
    assert counts["total", "total"] == 4
    with pytest.raises(ParameterError, match="blocks"):
        protect(table, by, method="swapping")


WRONG: dict[str, tuple[dict[str, Any], type[ConfideError], str]] = {
    "no keys": ({"method": "cellkey"}, InputError, "missing-column"),
    "keys that are none": (
        {"method": "cellkey", "people": people(record_key=["a"] * 29)},
        InputError,
        "bad-record-keys",
    ),
    "keys out of range": ({"method": "cellkey", "people": people(record_key=[-1] * 29)}, InputError, "bad-record-keys"),
    "no domain": ({"method": "suppression", "by": ["area"]}, ParameterError, "no-domain"),
    "another method": ({"method": "magic"}, ParameterError, "no-method"),
    "a value left out": ({"method": "suppression", "by": {"area": ["N"]}}, InputError, "value-not-in-domain"),
}


@pytest.mark.parametrize("slip", WRONG)
def test_what_is_wrong_is_said_without_a_value(slip: str) -> None:
    options, kind, code = WRONG[slip]
    given = {"people": people(), "by": BY} | options
    with pytest.raises(kind) as caught:
        protect(**given)
    assert caught.value.findings[0].code == code
    assert caught.value.findings[0].remedy


def test_who_is_swapped_is_drawn_anew_unless_somebody_gives_a_key() -> None:
    """Sixty households in thirty blocks: twice the same exchange by chance is out of the question."""
    number = 60
    table = pa.table(
        {
            "household_id": [f"h{at}" for at in range(number)],
            "geocode": [f"b{at % 30:02d}" for at in range(number)],
            "job": ["yes" if at % 2 else "no" for at in range(number)],
            "age": [30] * number,
            "hhgq": [0] * number,
        }
    )
    codes = [f"b{at:02d}" for at in range(30)]
    blocks = pa.table({"geocode": codes, "state": ["s"] * 30, "county": ["c"] * 30, "tract": ["t"] * 30})
    settings = swap_settings(variant="targeted", rate="1/2", risk=["job"])

    def counts(key: str | None) -> list[int]:
        by = {"geocode": codes, "job": ["yes", "no"]}
        answer = protect(table, by, method="swapping", blocks=blocks, settings=settings, insecure_key=key)
        return answer.counts.column("count").to_pylist()

    drawn = {tuple(counts(None)) for _ in range(4)}
    assert len(drawn) == 4
    assert tuple(counts("00" * 32)) not in drawn
    assert counts("0f" * 32) == counts("0f" * 32)


def test_swapped_records_with_two_columns_of_one_name_are_a_finding() -> None:
    twice = pa.Table.from_arrays([pa.array(["h"]), pa.array(["h"])], names=["household_id", "household_id"])
    blocks = pa.table({"geocode": ["b"], "state": ["s"], "county": ["c"], "tract": ["t"]})
    settings = swap_settings(variant="targeted", rate=1, risk=["job"])
    with pytest.raises(InputError) as error:
        swap_records(twice, blocks, settings, ReleaseKey.choose("0f" * 32))
    assert error.value.findings[0].code == "repeated-column"
