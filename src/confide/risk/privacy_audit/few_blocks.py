"""The frame, cut to a few blocks."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from confide.releases.spec import LoadedSpec, find_sources

MOST_BLOCKS = 24
"""A longer block table is cut: noise is the same in all blocks, and a run has to be quick."""


def cut_blocks(loaded: LoadedSpec, folder: Path, most: int = MOST_BLOCKS) -> LoadedSpec | None:
    """The spec with the first and the last rows of a long block table; none where it is short, or cannot be cut."""
    source = find_sources(loaded)[0].get("blocks")
    if source is None:
        return None
    file, half = folder / source.path.name, most // 2
    if source.format == "parquet":
        blocks = pq.read_table(source.path)
        if blocks.num_rows <= most:
            return None
        ends = pa.concat_tables([blocks.slice(0, half), blocks.slice(blocks.num_rows - half)])
        pq.write_table(ends, file)
        return loaded.with_data(blocks=str(file))
    lines = source.path.read_bytes().splitlines(keepends=True)
    if len(lines) <= most + 1 or any(b'"' in line for line in lines):
        return None
    file.write_bytes(b"".join([lines[0], *lines[1 : half + 1], *lines[-half:]]))
    return loaded.with_data(blocks=str(file))
