"""A forger's tool: the manifest of a release written again as Confide writes it, after its files were changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from confide.releases.folder import MANIFEST, manifest_text, sha256_of


def rehash(release: Path, manifest: dict[str, Any] | None = None) -> None:
    """Writes a manifest, by default the one that is there, with hashes and sizes of the files as they are now."""
    content = manifest or json.loads((release / MANIFEST).read_text(encoding="utf-8"))
    for file in content["files"]:
        path = release / file["path"]
        file |= {"sha256": sha256_of(path), "bytes": path.stat().st_size}
        if "rows" in file and path.with_suffix(".parquet").exists():
            file["rows"] = pq.read_metadata(path.with_suffix(".parquet")).num_rows
    content["files"].sort(key=lambda file: str(file["path"]))
    (release / MANIFEST).write_text(manifest_text(content), encoding="utf-8")
