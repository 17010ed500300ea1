"""Measuring many parents at once: exactly what measuring everything, everywhere, would have given."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from confide.confidential import Confidential
from confide.engines.protocol import write_parquet
from confide.file_system import private_folder
from confide.mechanisms.topdown import mechanism
from confide.mechanisms.topdown.descent import NodeRows, RowKind
from confide.mechanisms.topdown.measure import Children, LevelQuery, TrueCounts, measure
from confide.noise import DiscreteGaussian, NoiseStream, ReleaseKey, derive_stream, draw
from confide.releases.workspace import Workspace

CELLS, UNITS = 12, 40
LAWS = (DiscreteGaussian(9), None, DiscreteGaussian("1/4"))
QUERIES = {"total": np.zeros(CELLS, np.int64), "pairs": np.arange(CELLS) // 2, "detailed": np.arange(CELLS)}


@dataclass(frozen=True)
class Watched:
    """A stream that notes which coordinates it was asked for."""

    stream: NoiseStream
    asked: list[int] = field(default_factory=list)
    calls: list[int] = field(default_factory=list)

    def words_at(self, coordinates: Any) -> Any:
        self.asked.extend(coordinates.tolist())
        self.calls.append(len(coordinates))
        return self.stream.words_at(coordinates)

    def extension(self, coordinates: Any, number: int) -> Any:
        return self.stream.extension(coordinates, number)


def stream(query: str) -> NoiseStream:
    key = ReleaseKey.choose("5a" * 32)
    return derive_stream(key, records_fingerprint=b"r", plan_hash=b"p", mechanism="topdown", level="block", query=query)


def asked(streams: dict[str, Any] | None = None) -> list[LevelQuery]:
    return [
        LevelQuery(name, groups, int(groups.max()) + 1, (streams or {}).get(name) or stream(name), LAWS)
        for name, groups in QUERIES.items()
    ]


def children(histogram: np.ndarray, classes: np.ndarray, units: list[int], kept: list[int]) -> Children:
    position, cell = np.nonzero(histogram[units])
    truth = TrueCounts(position, cell, histogram[units][position, cell])
    return Children(Confidential(truth), np.array(units), classes[units], np.array(kept, np.int64))


@st.composite
def splits(draw: st.DrawFn) -> list[tuple[list[int], list[int]]]:
    """Some parents: consecutive units each, and the cells that each keeps."""
    ends = sorted(draw(st.sets(st.integers(1, UNITS), min_size=1, max_size=6)))
    return [
        (list(range(begin, end)), sorted(draw(st.sets(st.integers(0, CELLS - 1), min_size=1))))
        for begin, end in zip([0, *ends], ends, strict=False)
    ]


@settings(max_examples=40, deadline=None)
@given(nodes=splits(), seed=st.integers(0, 2**16))
def test_lazy_measurements_are_cells_of_the_full_ones(nodes: list[tuple[list[int], list[int]]], seed: int) -> None:
    rng = np.random.default_rng(seed)
    histogram, classes = rng.poisson(0.7, (UNITS, CELLS)), rng.integers(0, len(LAWS), UNITS)
    result = measure(asked(), [children(histogram, classes, *node) for node in nodes])
    assert len(result) == len(nodes)
    for (units, kept), measured in zip(nodes, result, strict=True):
        assert [query.name for query in measured] == list(QUERIES)
        for query in measured:
            groups = QUERIES[query.name]
            height = int(groups.max()) + 1
            truth = np.zeros((UNITS, height), np.int64)
            np.add.at(truth.T, groups, histogram.T)
            full = [
                np.zeros_like(truth)
                if law is None
                else truth + draw(law, stream(query.name), 0, truth.size).reshape(truth.shape)
                for law in LAWS
            ]
            present = sorted(set(groups[kept].tolist()))
            assert query.groups.tolist() == [present.index(group) for group in groups[kept].tolist()]
            for place, unit in enumerate(units):
                assert query.measured[:, place].tolist() == full[classes[unit]][unit, present].tolist()
                assert query.weights[place] == [1 / LAWS[0].variance(), 0.0, 4.0][classes[unit]]


def test_nothing_is_drawn_that_no_parent_keeps_and_all_parents_share_a_call() -> None:
    histogram, classes = np.ones((UNITS, CELLS), np.int64), np.zeros(UNITS, np.int64)
    watched = {name: Watched(stream(name)) for name in QUERIES}
    nodes = [([0, 1], [0, 1, 5]), ([2, 3, 4], [3])]
    measure(asked(cast("dict[str, Any]", watched)), [children(histogram, classes, *node) for node in nodes])
    assert sorted(watched["detailed"].asked) == [0, 1, 5, 12, 13, 17, 27, 39, 51]
    assert sorted(watched["pairs"].asked) == [0, 2, 6, 8, 13, 19, 25]
    assert sorted(watched["total"].asked) == [0, 1, 2, 3, 4]
    assert all(len(one.calls) == 1 for one in watched.values())


def test_a_true_count_that_has_no_noise_does_not_get_out() -> None:
    """Units of a class without a law, also of one that no law is known for, are measured as nothing at all."""
    histogram = np.full((UNITS, CELLS), 1_000_000, np.int64)
    for share_class in (1, 7):
        ((*measured,),) = measure(asked(), [children(histogram, np.full(UNITS, share_class), [0, 1], [2, 4])])
        assert all((query.measured == 0).all() and (query.weights == 0).all() for query in measured)


def test_a_group_is_measured_whole_although_the_parent_keeps_a_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "confide.mechanisms.topdown.measure.draw_at", lambda _law, _stream, places: np.zeros(len(places), np.int64)
    )
    histogram = np.arange(UNITS * CELLS).reshape(UNITS, CELLS)
    ((total, pairs, detailed),) = measure(asked(), [children(histogram, np.zeros(UNITS, np.int64), [0, 1], [3])])
    assert total.measured.tolist() == [[sum(range(12)), sum(range(12, 24))]]
    assert pairs.measured.tolist() == [[2 + 3, 14 + 15]]
    assert detailed.measured.tolist() == [[3, 15]]


def test_an_only_child_has_its_parents_estimate_and_nothing_of_its_own() -> None:
    kinds = [RowKind.CHILD, RowKind.TRUTH, RowKind.TRUTH, RowKind.PARENT]
    columns = {"kind": [int(kind) for kind in kinds], "unit": [7, 7, 7, 3], "cell": [0, 2, 5, 1], "n": [0, 90, 91, 4]}
    node = NodeRows({name: np.array(values) for name, values in columns.items()})
    assert node.copied
    assert node.copy()[0].tolist() == [[7, 1, 4]]


def test_no_parents_no_measurements() -> None:
    assert measure(asked(), []) == []


def test_the_total_of_the_root_is_told_only_where_it_is_invariant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the number of records is protected it must be estimated, like every other count."""
    workspace = Workspace(tmp_path)
    write_parquet(pa.table({"cell": [0, 1], "n": [5, 7]}), private_folder(workspace.counts) / "us.parquet")
    monkeypatch.setattr(mechanism, "measure", lambda *_: [("measured",)])
    monkeypatch.setattr(mechanism.DrawnEvidence, "level_queries", lambda *_: ())
    root = SimpleNamespace(name="us", shares=SimpleNamespace(index=np.zeros(1)))
    for invariant, told in ((True, 12), (False, None)):
        problem = SimpleNamespace(strategy=SimpleNamespace(total_is_invariant=invariant), cells=2)
        evidence = mechanism.DrawnEvidence(cast("Any", problem), cast("Any", None), cast("Any", None), workspace)
        assert evidence.root(cast("Any", None), cast("Any", root)) == (("measured",), told)
