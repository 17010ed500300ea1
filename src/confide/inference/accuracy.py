"""``confide infer RELEASE --accuracy``: how far off figures may be, from the plan of a release alone.

Releases have it themselves (:mod:`confide.mechanisms.topdown.output.accuracy`); here it is worked out for those that
were made before they had, and shown.
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
from confide.engines.protocol import write_parquet, write_text
from confide.errors import ParameterError, Place
from confide.mechanisms.topdown.figure_noise import TopDownNoise
from confide.mechanisms.topdown.output.accuracy import PAGE, accuracy_table, page_of
from confide.mechanisms.topdown.released_problem import released_plan

FILES = ("accuracy.parquet", "accuracy.csv", PAGE)


@dataclass(frozen=True, eq=False)
class Accuracy(TypedAnswer):
    """Expected errors of the figures of a release, by kind of area, query or line, and size."""

    manifest: Mapping[str, Any]
    table: pa.Table
    """The columns of :data:`confide.mechanisms.topdown.output.accuracy.ACCURACY_COLUMNS`."""
    method: str
    """How they were worked out."""

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "ok": True,
            "release": self.manifest["release"],
            "title": self.manifest["title"],
            "method": self.method,
            "accuracy": self.table.to_pylist(),
        }

    def page(self) -> str:
        """The page "How far off may a figure be?"."""
        return page_of(self.table, self.manifest, self.method, in_release=False)

    def write(self, folder: Path) -> list[Path]:
        """Writes the table, as Parquet and CSV, and the page into a folder."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write_parquet(self.table, folder / FILES[0])
            pyarrow.csv.write_csv(pq.read_table(folder / FILES[0]), folder / FILES[1])
            write_text(folder / FILES[2], self.page())
        except OSError as error:
            found = error.strerror or type(error).__name__
            raise ParameterError("bad-inference/files-written", where=Place(path="--out"), found=found) from None
        return [folder / name for name in FILES]


def expected_accuracy(release: str | Path) -> Accuracy:
    """How far off the figures of a TopDown release may be expected to be, from its plan alone.

    Args:
        release: A sealed release, or the folder of its run.

    Returns:
        Expected errors by kind of area, query or line, and size of the figure.
    """
    released = released_plan(Path(release))
    problem = released.problem
    return Accuracy(released.manifest, accuracy_table(problem, problem.output), TopDownNoise(problem).method)
