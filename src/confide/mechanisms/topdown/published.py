"""A release of ``topdown`` read back: its protected records, if it has them.

There is nothing to reconstruct, and the result says so: a solution variability of zero says nothing about the true
records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from confide.releases.published import Published
from confide.releases.published_release import (
    RECORDS,
    no_groups,
    not_attacked,
    release_file,
    release_schema,
    released_records,
)


def read_published(
    folder: Path, manifest: Mapping[str, Any], schema: str | Path | None = None, groups: Sequence[str] = ()
) -> Published:
    """The records of a release; ``postprocess`` writes the same files."""
    no_groups(groups, manifest["mechanism"])
    records = release_file(folder, manifest, *RECORDS)
    if records is None:
        raise not_attacked(manifest["mechanism"])
    facts = manifest["plan"]["question"]
    named = facts.get("schema") or facts.get("strategy", {}).get("schema")
    return released_records(folder, manifest, records, release_schema(named, schema))
