"""Releases made of the noisy measurements of another, and their tables as bytes."""

from __future__ import annotations

from pathlib import Path

from confide.releases.run import RunResult

LEVELS = """levels = [
  { name = "state", digits = 2 }, { name = "county", digits = 5 },
  { name = "tract", digits = 11 }, { name = "block_group", digits = 12 },
]
"""
AREAS = """areas = [
  { name = "place", column = "place", none = "99999" },
  { name = "cousub", column = "cousub" },
  { name = "aiannh", column = "aiannh", none = "9999" },
]
"""
AGAIN = """
[release]
name = "{name}"
mechanism = "postprocess"
[data]
measurements = "{measurements}"
{blocks}
[geography]
{levels}{areas}
[topdown]
strategy = "{strategy}"
root = "{root}"
"""


def again(folder: Path, source: RunResult, *, blocks: Path | None = None, **changes: str) -> Path:
    """The spec of a release from the measurements of another."""
    values = {"name": "again", "levels": LEVELS, "strategy": "pl94-persons", "root": "state"} | changes
    values["measurements"] = values.get("measurements", str(source.release / "measurements"))
    values |= {"blocks": "" if blocks is None else f'blocks = "{blocks}"', "areas": AREAS if blocks else ""}
    (folder / "again.toml").write_text(AGAIN.format(**values))
    return folder / "again.toml"


def table(release: Path, name: str, format_: str = "csv") -> bytes:
    (file,) = (release / "tables").glob(f"{name}.*{format_}")
    return file.read_bytes()
