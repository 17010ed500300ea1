"""The rule `auto` on made-up states of several keys, against the truth: what intervals cover, class by class."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.kits.inferred import OUTPUT, true_counts
from tests.kits.topdown import write_spec

import confide
from confide import api
from confide.inference import infer, open_source
from confide.inference.pooled_errors import size_class
from confide.population import Population, write_population

pytestmark = [pytest.mark.slow, pytest.mark.statistical]

KEYS = ("11" * 32, "22" * 32)
QUERIES = ["votingage", "hispanic*cenrace", "votingage*hispanic*cenrace"]
KINDS = ["tract", "spine:block_group", "place", "block_group", "block"]


def test_the_rule_covers_every_class_and_is_narrower_than_both_methods(tmp_path: Path) -> None:
    covered: dict[tuple[str, str, int], list[np.ndarray]] = {}
    widths: dict[str, list[float]] = {"auto": [], "gls": [], "release": []}
    for number, key in enumerate(KEYS):
        folder = tmp_path / str(number)
        folder.mkdir()
        write_population(Population(20_000, 5), folder)
        run = api.run(write_spec(folder, output=OUTPUT), insecure_key=key, processes=2).release.parent
        confide.replicate(run, folder / "replicates", replicates=10, calibration=0, processes=2)
        source = open_source(run, replicates=folder / "replicates")
        truth = true_counts(source, run)
        for method in widths:
            answer = infer(source, QUERIES, KINDS, method=method)
            for kind in answer.kinds:
                rows = answer.table(kind.kind).to_pandas()
                for query in answer.queries:
                    own = rows[rows["query"] == query.name]
                    counted = kind.members(len(source.block_codes)) @ truth @ query.matrix(source.vocabulary.shape)
                    true = counted.toarray().ravel()
                    noisy = own["method"].to_numpy() != "exact"
                    widths[method].append(float((own["high"] - own["low"]).to_numpy()[noisy].mean()))
                    if method == "auto":
                        held = ((own["low"] <= true) & (true <= own["high"])).to_numpy()
                        sizes = size_class(own["released"].to_numpy())
                        for size in range(6):
                            covered.setdefault((kind.kind, query.name, size), []).append(held[noisy & (sizes == size)])
    for (kind, query, size), parts in covered.items():
        held = np.concatenate(parts)
        if len(held) > 500 and not (kind == "block" and query == "votingage" and size > 3):
            assert held.mean() >= 0.86, (kind, query, size, held.mean(), len(held))
    mean = {method: float(np.mean(listed)) for method, listed in widths.items()}
    assert mean["auto"] < mean["gls"]
    assert mean["auto"] < mean["release"]
