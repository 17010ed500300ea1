"""A release of ours as a suppressed table to be audited, from its files alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from confide.errors import Finding, Place, ReleaseError
from confide.suppression.audit import Suspect
from confide.suppression.checks import bounds, gathered, paths
from confide.suppression.output import Unlike, read_table
from confide.suppression.programme import described


def suspect_of_release(folder: Path, manifest: dict[str, Any]) -> Suspect:
    """The tables of a release and what its plan says that everybody knows."""
    if manifest["mechanism"] != "suppression":
        raise ReleaseError(_not_one(folder, f"a release by the mechanism {manifest['mechanism']}"))
    question = manifest["plan"]["question"]
    programme = described(question)
    files = {file["path"] for file in manifest["files"]}
    read = []
    for table in programme.tables:
        format_, path = next(iter(paths(table, files).items()), ("", ""))
        try:
            magnitude = question["value"] is not None
            read.append(read_table(folder / path, table, magnitude=magnitude, sdmx=format_ == "sdmx-csv"))
        except (Unlike, OSError) as error:
            raise ReleaseError(_not_one(folder, str(error) if isinstance(error, Unlike) else "no file")) from None
    value, hidden, agree = gathered(programme, read)
    if not agree:
        raise ReleaseError(_not_one(folder, "tables that disagree about a cell"))
    high = np.full(len(value), np.inf)
    return Suspect(programme.linked, value, hidden, bounds(programme, question), high, integer=True)


def _not_one(folder: Path, found: str) -> Finding:
    what, remedy = "this is no release with suppressed cells", "verify it with `confide verify`"
    return Finding("not-suppressed", what, Place(file=str(folder)), found, "its tables, as they were sealed", remedy)
