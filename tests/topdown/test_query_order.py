"""The order of words, attributes, levels, rows and columns changes no figure of a TopDown release."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.contract.kit import tree
from tests.kits.crossed_topdown import CrossedProject, Order, released_records, turned

import confide
from confide.errors import ConfideError, Place
from confide.inference.tuning import tune_topdown
from confide.mechanisms.topdown.measurements.folder import find_measurements
from confide.mechanisms.topdown.measurements.layout import words_of
from confide.mechanisms.topdown.measurements.measured_tree import read_tree
from confide.mechanisms.topdown.strategy_file import load_strategy

KEY = "5a" * 32


def run(spec: Path) -> Any:
    drawn = "postprocess" not in spec.read_text()
    return confide.run(spec, processes=1, insecure_key=KEY if drawn else None)


@pytest.mark.parametrize("evidence", ["tree", "own", "turns"])
@pytest.mark.parametrize("seed", range(4))
def test_a_query_written_in_any_order_gives_the_same_plan_and_the_same_bytes(
    evidence: str, seed: int, tmp_path: Path
) -> None:
    project = CrossedProject(seed, evidence, told=seed == 2)
    one, other = (run(project.write(tmp_path / name, shuffled=shuffled)) for name, shuffled in (("a", None), ("b", 7)))
    assert one.plan.hash == other.plan.hash
    assert tree(one.release) == tree(other.release)
    again = []
    for name, order in (("c", Order()), ("d", Order(words=turned(8)))):
        again.append(run(project.write_again(tmp_path / name, one.release / "measurements", order)).release)
    assert tree(again[0]) == tree(again[1])
    names = list(project.attributes)
    assert released_records(again[0], names) == released_records(one.release, names)


def test_users_may_ask_in_any_order(tmp_path: Path) -> None:
    project = CrossedProject(0)
    first, second, _ = project.attributes
    spec, other = project.write(tmp_path / "a"), project.write(tmp_path / "b", shuffled=3)
    source = confide.open_source(run(spec).release)
    answers = [
        confide.infer(source, [query]).table("region") for query in (f"{first}*{second}", f" {second} * {first}")
    ]
    assert answers[0].equals(answers[1])
    assert answers[0].num_rows > 0
    targets = [f"{first}*{second}<=9 in region", f"{second}*{first}<=9 in region"]
    priced = [tune_topdown(each, [target], optimise=False).as_dict() for each in (spec, other) for target in targets]
    assert [_without_texts(answer) for answer in priced[1:]] == [_without_texts(priced[0])] * 3
    boards = [confide.tune(each).board.now.as_dict() for each in (spec, other)]
    assert boards[0] == boards[1]


def _without_texts(answer: Any) -> Any:
    """An answer without what a person wrote."""
    if isinstance(answer, dict):
        kept = {key: value for key, value in answer.items() if key not in ("text", "target", "spec")}
        return {key: _without_texts(value) for key, value in kept.items()}
    return [_without_texts(each) for each in answer] if isinstance(answer, list) else answer


def test_a_query_asked_for_twice_is_refused(tmp_path: Path) -> None:
    project = CrossedProject(0)
    first, second, _ = project.attributes
    spec = project.write(tmp_path / "a")
    source = confide.open_source(run(spec).release)
    with pytest.raises(ConfideError, match="2 times"):
        confide.infer(source, [f"{first}*{second}", f"{second}*{first}"])
    strategy = tmp_path / "a" / "own.toml"
    text = strategy.read_text(encoding="utf-8")
    line = next(row for row in text.splitlines() if row.startswith(f'"{_escaped(first)}*{_escaped(second)}"'))
    name = line.partition(" = ")[0].strip('"')
    doubled = f'"{"*".join(reversed(name.split("*")))}" = {line.partition(" = ")[2]}'
    strategy.write_text(text.replace(line, f"{line}\n{doubled}"), encoding="utf-8")
    with pytest.raises(ConfideError) as refused:
        load_strategy(str(strategy))
    assert "repeated-query" in {finding.code for finding in refused.value.findings}


def _escaped(name: str) -> str:
    return name.encode("ascii", "backslashreplace").decode()


ORDERS: dict[str, Callable[[], Order]] = {
    "attributes": lambda: Order(attributes=turned(1)),
    "levels": lambda: Order(levels=turned(2)),
    "rows and columns": lambda: Order(rows=turned(3), columns=turned(4)),
    "everything": lambda: Order(turned(1), turned(2), turned(3), turned(4), turned(5)),
}


# Not passes in turns: with few queries in a pass estimates are halves and thirds, and ties go by the order of cells.
@pytest.mark.parametrize("evidence", ["tree", "own"])
@pytest.mark.parametrize("order", ORDERS)
def test_figures_do_not_depend_on_the_order_of_a_schema_once_noise_moves_along(
    evidence: str, order: str, tmp_path: Path
) -> None:
    project = CrossedProject(5, evidence, people=90)
    plain, permuted = project.write(tmp_path / "a"), project.write(tmp_path / "b", ORDERS[order]())
    released = []
    for spec in (plain, permuted):
        with project.noise_by_name(spec, 13):
            released.append(released_records(run(spec).release, project.attributes))
    assert released[0] == released[1]


@pytest.mark.parametrize("evidence", ["tree", "own", "turns"])
def test_with_an_endless_budget_any_order_gives_the_records_back(evidence: str, tmp_path: Path) -> None:
    project = CrossedProject(3, evidence, budget="1000000", told=True)
    truth = released_truth(project)
    for name, order in {"as it is": Order, **ORDERS}.items():
        assert released_records(run(project.write(tmp_path / name, order())).release, project.attributes) == truth


def released_truth(project: CrossedProject) -> Any:
    names = ["geocode", *project.attributes]
    counted: dict[tuple[Any, ...], int] = {}
    for row in project.records:
        key = tuple(row[name] for name in names)
        counted[key] = counted.get(key, 0) + 1
    return counted


# Files of measurements whose attributes have another order.


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[CrossedProject, Path]:
    project = CrossedProject(1)
    return project, run(project.write(tmp_path_factory.mktemp("measured") / "a")).release / "measurements"


def rewritten(folder: Path, names: list[str], *, values: bool) -> None:
    """The same measurements with the columns of attributes turned round, and the values with them or not."""
    for file in sorted(folder.rglob("*.parquet")):
        if file.is_dir() or "Unit" in file.parts:
            continue
        table = pq.read_table(file, partitioning=None)
        rows = table.to_pylist()
        for row in rows if values else ():
            if len(row["query_shape"]) == len(names):
                array = np.array(row["value"], object).reshape(row["query_shape"])
                row["value"], row["query_shape"] = array.transpose().ravel().tolist(), row["query_shape"][::-1]
        order = [name for name in table.column_names if name not in names]
        order[2:2] = names[::-1]
        schema = pa.schema([table.schema.field(name) for name in order], table.schema.metadata)
        pq.write_table(pa.Table.from_pylist(rows, schema), file)


@pytest.mark.parametrize("values", [True, False])
def test_values_written_in_another_order_of_attributes_are_transposed(
    measured: tuple[CrossedProject, Path], values: bool, tmp_path: Path
) -> None:
    project, folder = measured
    other = Path(shutil.copytree(folder, tmp_path / "measurements"))
    rewritten(other, list(project.attributes), values=values)
    strategy = load_strategy(str(folder.parents[2] / "own.toml"))
    words = words_of(strategy)
    trees = [read_tree(each, words=words, levels=strategy.level_names) for each in (folder, other)]
    histograms = [each.estimates.vectors[0].histogram(np.arange(1)) for each in trees]
    np.testing.assert_allclose(histograms[0], histograms[1])
    again = [run(project.write_again(tmp_path / name, each)).release for name, each in (("c", folder), ("d", other))]
    names = list(project.attributes)
    assert released_records(again[0], names) == released_records(again[1], names)


def test_an_order_that_shapes_do_not_tell_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "Block.parquet" / "DPQuery" / "part.parquet"
    file.parent.mkdir(parents=True)
    row = {"geocode": "1", "query_name": "detailed_dpq", "b": "detailed", "a": "detailed", "query_shape": [2, 2]}
    pq.write_table(pa.Table.from_pylist([row | {"value": [1, 2, 3, 4], "variance": 1.0}]), file)
    columns = ["geocode", "value"]
    for sizes, values in (({"b": 2, "a": 2}, [1, 2, 3, 4]), ({"a": 2}, [1, 2, 3, 4])):
        folder = find_measurements(tmp_path, ("block",), Place(), sizes)
        ((_, batch),) = folder.batches("block", "DPQuery", columns, 9)
        assert batch.column("value").to_pylist() == [values]
        assert batch.schema.names == columns
    folder = find_measurements(tmp_path, ("block",), Place(), {"a": 2, "b": 2})
    with pytest.raises(ConfideError) as refused:
        list(folder.batches("block", "DPQuery", columns, 9))
    assert "another order than the schema" in refused.value.findings[0].what
