"""Nothing that leaves Confide has a confidential number in its memory or its bytes: not below a null, not beyond a
slice, not in a dictionary or in the statistics of a file."""

from __future__ import annotations

import ast
import pickle
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import confide
from confide.in_memory import ProtectedTable, protect, tabulate
from confide.mechanisms.cellkey.keys import draw_keys
from confide.mechanisms.suppression import flat, suppress_tables, with_totals
from confide.mechanisms.swapping import swap_records, swap_settings
from confide.mechanisms.swapping.core import Columns
from confide.noise import ReleaseKey
from confide.releases.folder import ReleaseWriter
from confide.releases.tabular import masked, with_own_memory
from tests.contract.kit import Project
from tests.kits.canary import BLOCK, NUMBER, TEXT, carried_away, leaks, public_content, residues
from tests.kits.source import calls, trees

KEY = "0f" * 32
BY = {"area": [1, 2, 3], "job": [1, 2, 3]}
COUNTS = np.array([[731_937, 1_931_719, 973_137], [919_373, 137_719, 391_931], [791_393, 317_917, 1_193_173]])
"""People of each area and job: numbers that are known again, in letters and in bytes. Nine of them are enough."""


def people(**columns: Any) -> pa.Table:
    cells = np.repeat(np.arange(COUNTS.size), COUNTS.ravel())
    return pa.table({"area": cells // 3 + 1, "job": cells % 3 + 1, **columns})


def shown(table: pa.Table) -> set[int]:
    return {value for value in table.column("count").to_pylist() if value is not None}


def truth() -> set[int]:
    dimensions = [flat(name, [str(code) for code in codes]) for name, codes in BY.items()]
    return {int(count) for count in with_totals(dimensions, COUNTS).ravel()}


@pytest.fixture(scope="module")
def everybody() -> pa.Table:
    return people(record_key=draw_keys(int(COUNTS.sum()), 10**8, ReleaseKey.choose(KEY)))


VERBS: dict[str, Callable[[pa.Table], Any]] = {
    "suppression": lambda table: protect(table, BY, method="suppression", maximum=900_000),
    "cellkey": lambda table: protect(table, BY, method="cellkey"),
    "tabulate": lambda table: tabulate(table, BY, rho="1/2", insecure_key=KEY),
    "tabulate with margins": lambda table: tabulate(table, BY, epsilon="1/9", margins="all", insecure_key=KEY),
}


@pytest.mark.parametrize("verb", VERBS)
def test_no_form_of_an_answer_in_memory_carries_a_true_count_that_it_does_not_show(
    verb: str, everybody: pa.Table
) -> None:
    answer = VERBS[verb](everybody)
    hidden = truth() - shown(answer.counts)
    assert len(hidden) >= 4
    forms = dict(carried_away(answer))
    assert {"pickle", "feather", "parquet", "csv", "JSON", "HTML", "memory of count"} <= forms.keys()
    assert {name: leaks(content, hidden) for name, content in carried_away(answer) if leaks(content, hidden)} == {}
    assert residues(answer.counts) == []


def test_the_forms_of_an_answer_would_show_a_count_below_a_null() -> None:
    """The leak that the scan is for, planted."""
    table = pa.table({"count": pa.array(np.array([731_937, 5]), mask=np.array([True, False]))})
    leaking = {name for name, content in carried_away(ProtectedTable(table, "none", "")) if leaks(content, [731_937])}
    assert {"pickle", "memory of count", "feather"} <= leaking
    assert residues(table) == ["count: a number below a null"]
    categories = pa.table({"block": pa.array([BLOCK, "b1", "b1"]).dictionary_encode()}).slice(1)
    leaking = {
        name for name, content in carried_away(ProtectedTable(categories, "none", "")) if leaks(content, [BLOCK])
    }
    assert {"pickle", "memory of block", "feather", "parquet block"} <= leaking


def test_what_suppress_tables_gives_back_cannot_be_pickled() -> None:
    dimensions = [flat("area", ["1", "2", "3"]), flat("job", ["1", "2", "3"])]
    done = suppress_tables({"t": (dimensions, with_totals(dimensions, COUNTS))}, maximum=900_000)
    with pytest.raises(TypeError, match="neither pickled nor copied"):
        pickle.dumps(done)
    assert not leaks(f"{done!r} {vars(done)!r}", truth())


def households(extra: int = 0) -> pa.Table:
    """Eight people, and so many more whom somebody has cut away."""
    rows = 8 + extra
    blocks = ["a1", "a2", "a3", "a4"] * 2 + [BLOCK] * extra
    income = pa.array(np.array([NUMBER if row % 2 else row for row in range(rows)]), mask=np.arange(rows) % 2 == 1)
    return pa.table(
        {
            "household_id": [f"h{row}" for row in range(8)] + [TEXT] * extra,
            "geocode": pa.array(blocks).dictionary_encode(),
            "kind": pa.array(["x", "y"] * 4 + [TEXT] * extra).dictionary_encode(),
            "sex": [1, 2] * 4 + [NUMBER] * extra,
            "hhgq": [0] * rows,
            "age": [30] * rows,
            "income": income,
        }
    ).slice(0, 8)


@pytest.mark.parametrize("extra", [0, 3])
def test_swapped_records_carry_nothing_of_people_who_were_cut_away(extra: int) -> None:
    blocks = pa.table({"geocode": ["a1", "a2", "a3", "a4"], "county": ["a"] * 4})
    settings = swap_settings(variant="targeted", rate=1, risk=["sex"])
    layout = Columns(levels=("county",))
    records = households(extra)
    assert any(leaks(content) for _, content in carried_away(ProtectedTable(records, "none", "")))
    swapped = swap_records(records, blocks, settings, ReleaseKey.choose(KEY), columns=layout)
    assert swapped.schema.equals(records.schema)
    assert swapped.drop_columns(["geocode"]).equals(with_own_memory(records).drop_columns(["geocode"]))
    assert swapped.column("income").to_pylist() == records.column("income").to_pylist()
    answer = ProtectedTable(swapped, "swapping", "")
    assert [name for name, content in carried_away(answer) if leaks(content)] == []
    assert residues(swapped) == []


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.float64, np.uint8, np.bool_])
def test_a_masked_column_has_zero_below_its_nulls(kind: type) -> None:
    generator = np.random.default_rng(7)
    for size in (0, 1, 9, 1000):
        values, gone = generator.integers(1, 200, size).astype(kind), generator.random(size) < 0.5
        column = masked(values, gone)
        assert column.to_pylist() == [
            None if away else value for value, away in zip(values.tolist(), gone, strict=True)
        ]
        assert residues(pa.table({"count": column})) == []
        assert masked(values, None).equals(pa.array(values))


def watched(batches: Iterable[pa.RecordBatch], problems: list[str], rows: list[int]) -> Iterable[pa.RecordBatch]:
    for batch in batches:
        problems += residues(batch)
        rows.append(batch.num_rows)
        yield batch


def plant(project: Project) -> None:
    """Columns that no release uses, with a text, a number and a category that can be known again."""
    (records,) = project.inputs
    extra = {"note": TEXT, "salary": NUMBER, "lives_at": BLOCK}
    if records.suffix == ".parquet":
        table = pq.read_table(records)
        for name, value in extra.items():
            table = table.append_column(name, pa.array([value] * table.num_rows))
        pq.write_table(table, records)
    else:
        lines = records.read_text(encoding="utf-8").splitlines()
        mark = "|" if "|" in lines[0] else ","
        named = [mark.join([lines[0], *extra])]
        named += [mark.join([line, *map(str, extra.values())]) for line in lines[1:]]
        records.write_text("\n".join(named) + "\n", encoding="utf-8")
    if project.name == "cellkey":
        keys = table.column("record_key").to_numpy().copy()
        keys[7] = 73_193_719
        place = table.column_names.index("record_key")
        pq.write_table(table.set_column(place, "record_key", pa.array(keys)), records)
    if project.name == "swapping":
        text = records.read_text(encoding="utf-8")
        place = text.split("\n", 1)[0].split(",").index("household_id")
        rows = [line.split(",") for line in text.splitlines()]
        for row in rows[1:]:
            row[place] = row[place] and f"{TEXT}-{row[place]}"
        records.write_text("\n".join(map(",".join, rows)) + "\n", encoding="utf-8")


def test_no_batch_and_no_file_of_a_release_has_more_than_its_rows(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    if project.name not in (
        "postprocess",
        "safetab",
        "safetab-h",
    ):  # one has no records, one no column of which it does not know
        plant(project)
    problems: list[str] = []
    rows: list[int] = []
    table, text = ReleaseWriter.table, ReleaseWriter.text
    monkeypatch.setattr(
        ReleaseWriter,
        "table",
        lambda self, name, schema, batches, *rest, **more: table(
            self, name, schema, watched(batches, problems, rows), *rest, **more
        ),
    )
    monkeypatch.setattr(
        ReleaseWriter,
        "text",
        lambda self, place, schema, batches, *rest, **more: text(
            self, place, schema, watched(batches, problems, rows), *rest, **more
        ),
    )
    project.run()
    assert sum(rows) > 50
    assert problems == []
    canaries = (TEXT, NUMBER, BLOCK, *([73_193_719] if project.name == "cellkey" else []))
    assert [name for name, content in public_content(project.release) if leaks(content, canaries)] == []


def test_no_file_of_suppressed_tables_has_a_hidden_figure(tmp_path: Path) -> None:
    inner = {("N", "f"): (731_937_193_731, 1), ("N", "m"): (9_000_000_001, 9)}
    inner |= {("S", "f"): (8_000_000_003, 8), ("S", "m"): (19_393_719_371, 7)}
    inner |= {("W", "f"): (7_000_000_003, 8), ("W", "m"): (6_000_000_009, 7)}
    cells: dict[tuple[str, str], tuple[int, int]] = {}
    for (region, sex), (value, number) in inner.items():
        for cell in ((region, sex), (region, "Total"), ("Total", sex), ("Total", "Total")):
            before = cells.get(cell, (0, 0))
            cells[cell] = (before[0] + value, before[1] + number)
    lines = [f"{region},{sex},{value},{number}" for (region, sex), (value, number) in cells.items()]
    (tmp_path / "firms.csv").write_text("region,sex,value,contributors\n" + "\n".join(lines) + "\n")
    formats = ["parquet", "csv", "sdmx-csv", "xlsx", "csvw", "argus"]
    done = confide.suppress(tmp_path / "firms.csv", out=tmp_path / "o", rule="threshold=2", formats=formats)
    rows = pyarrow.csv.read_csv(done.release / "tables" / "firms.csv")
    hidden = {value for value, _ in cells.values()} - set(rows.column("value").drop_null().to_pylist())
    assert NUMBER in hidden
    contents = list(public_content(done.release))
    assert {Path(name.split()[0]).suffix for name, _ in contents} >= {".parquet", ".csv", ".xlsx", ".html", ".json"}
    assert [name for name, content in contents if leaks(content, hidden)] == []
    release = confide.open_release(done.release)
    assert [
        name
        for name, content in carried_away(ProtectedTable(release.tables["firms"].arrow(), "", ""))
        if leaks(content, hidden)
    ] == []


def test_columns_with_gaps_are_made_in_one_place() -> None:
    """Arrow keeps the number below a null that ``pa.array(..., mask=)`` makes, and one that ``if_else`` puts there."""
    masked = [
        f"{place}: {called}"
        for place in trees()
        for call in calls(place)
        if any(keyword.arg == "mask" for keyword in call.keywords)
        and (called := ast.unparse(call.func)).startswith("pa.")
    ]
    assert masked == ["releases/tabular/table.py: pa.array"]
