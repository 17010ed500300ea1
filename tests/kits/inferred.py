"""What tests of inference share: a small release with its measurements, and its true counts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from scipy.sparse import csr_matrix

from confide import api
from confide.inference import InferenceSource
from tests.kits.topdown import write_small_state, write_spec

OUTPUT = 'formats = ["parquet"]\ntables = []\nmicrodata = ["records"]\nmeasurements = true'


def measured_release(folder: Path, persons: int = 1_500, seed: int = 3, key: str = "3c" * 32) -> Path:
    """The folder of a run whose release has its measurements."""
    write_small_state(folder, persons, seed)
    spec = write_spec(folder, output=OUTPUT)
    return api.run(spec, insecure_key=key, processes=1).release.parent


def true_counts(source: InferenceSource, run: Path) -> csr_matrix:
    """The confidential counts, blocks of the source x cells."""
    rows = pq.read_table(run / "confidential" / "counts" / "histogram.parquet")
    order = np.argsort(source.block_codes)
    codes = np.array(rows.column("code").to_pylist())
    block = order[np.searchsorted(source.block_codes[order], codes)]
    shape = (len(source.block_codes), int(np.prod(source.vocabulary.shape)))
    return csr_matrix((rows.column("n").to_numpy(), (block, rows.column("cell").to_numpy())), shape=shape)
