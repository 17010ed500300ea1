"""``confide infer RELEASE --accuracy``: how far off figures may be, from the plan of a release alone.

The numbers are :func:`confide.mechanisms.topdown.expected_errors.accuracy_table`; here they become files and a page.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from confide.answers import TypedAnswer
from confide.engines.groups import write_parquet, write_text
from confide.errors import ParameterError, Place
from confide.inference.replicates import ReplicatedRelease
from confide.mechanisms.topdown.expected_errors import accuracy_table
from confide.report.render import render
from confide.risk.release_risk.released_plan import open_release

FILES = ("accuracy.parquet", "accuracy.csv", "accuracy.html")


@dataclass(frozen=True, eq=False)
class Accuracy(TypedAnswer):
    """Expected errors of the figures of a release, by kind of area, query and size."""

    release: str
    title: str
    table: pa.Table
    """The columns of :data:`confide.mechanisms.topdown.expected_errors.ACCURACY`."""
    banner: str | None = None
    """The stamp of a release that is none."""

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return {"ok": True, "release": self.release, "title": self.title, "accuracy": self.table.to_pylist()}

    def page(self) -> str:
        """The page "How far off may a figure be?"."""
        rows: list[dict[str, Any]] = self.table.to_pylist()
        sizes = list(dict.fromkeys(row["size"] for row in rows))
        queries: dict[str, dict[str, Any]] = {}
        for row in rows:
            query = queries.setdefault(row["query"], {"name": row["query"], "cells": row["cells"], "rows": {}})
            blank = {"geography": row["geography"], "areas": f"{row['areas']:,}", "margin": f"{row['margin_90']:,.1f}"}
            line = query["rows"].setdefault(row["geography"], blank | {"errors": []})
            line["errors"].append(f"{row['expected_error']:,.1f}")
        listed = [query | {"rows": list(query["rows"].values())} for query in queries.values()]
        values: dict[str, Any] = {"title": self.title, "release": self.release, "banner": self.banner}
        return render("accuracy.html.j2", sizes=sizes, queries=listed, **values)

    def write(self, folder: Path) -> list[Path]:
        """Writes the table, as Parquet and CSV, and the page into a folder."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write_parquet(self.table, folder / FILES[0])
            pyarrow.csv.write_csv(pq.read_table(folder / FILES[0]), folder / FILES[1])
            write_text(folder / FILES[2], self.page())
        except OSError as error:
            found = error.strerror or type(error).__name__
            what, expected = "the files cannot be written there", "a folder with room"
            raise ParameterError(
                "bad-inference", what, Place(path="--out"), found, expected, "choose another folder"
            ) from None
        return [folder / name for name in FILES]


def expected_accuracy(release: str | Path, spec: str | Path | None = None) -> Accuracy:
    """How far off the figures of a TopDown release may be expected to be, from its plan alone.

    Args:
        release: A sealed release, or the folder of its run.
        spec: The spec, where the strategy does not ship.

    Returns:
        Expected errors by kind of area, query and size of the figure.
    """
    released = open_release(Path(release), None if spec is None else Path(spec))
    manifest: Mapping[str, Any] = released.manifest
    table = accuracy_table(ReplicatedRelease.of(released).problem)
    return Accuracy(str(manifest["release"]), str(manifest["title"]), table, manifest.get("stamp"))
