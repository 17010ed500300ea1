"""Margins from replicates of a real state, held against its true records."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tests.kits.descent import PRODUCTION
from tests.kits.rhode_island import NEEDED, lay_out_with_presence

from confide import api
from confide.inference.pooled_errors import area_kinds, query_matrix, record_intervals
from confide.inference.replicates import counts_matrix, replicate
from confide.mechanisms.topdown.figure_noise import size_class, size_names

pytestmark = NEEDED


def test_figures_are_covered_whatever_they_show(tmp_path: Path) -> None:
    """One release, 4 replicates: of classes with more than 500 figures each is covered to at least 0.86 at 0.90."""
    spec = lay_out_with_presence(tmp_path, PRODUCTION)
    release = api.run(spec, insecure_key="3c" * 32, processes=1).release
    answer = replicate(release, tmp_path / "replicates", replicates=4, calibration=2, processes=1)
    problem = answer.source.problem
    people = pq.read_table(tmp_path / "persons.parquet")
    block = {code: number for number, code in enumerate(problem.spine.block_codes.tolist())}
    unit = np.array([block[code] for code in people.column("geocode").to_pylist()])
    cell = np.zeros(people.num_rows, np.int64)
    for attribute in problem.strategy.schema.attributes:
        codes = people.column(attribute.name).to_numpy()
        cell = cell * attribute.size + np.array([attribute.index[code] for code in codes.tolist()])
    ones = np.ones(len(unit), np.int64)
    truth = counts_matrix(problem, pa.table({"unit": unit, "cell": cell, "n": ones}))
    own = counts_matrix(problem, answer.source.histogram)
    rows = {(row["kind"], row["query"], row["size"]): row for row in answer.rows}
    looked_at = 0
    for kind in area_kinds(problem):
        for query in ("total", "votingage", "hispanic*cenrace"):
            matrix = query_matrix(problem, query)
            true, shown = ((kind.members @ counts @ matrix).toarray() for counts in (truth, own))
            for number, size in enumerate(size_names()):
                chosen = size_class(shown) == number
                row = rows.get((kind.name, query, size))
                if chosen.sum() > 500 and row is not None and row["mse_shown"]:
                    rmse = np.full(int(chosen.sum()), row["mse_shown"] ** 0.5)
                    ends = record_intervals(shown[chosen], rmse, 0.9, factor=row["factor"])
                    assert ends.covers(true[chosen]).mean() > 0.86, (kind.name, query, size)
                    looked_at += 1
    assert looked_at > 20
