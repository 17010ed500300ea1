"""What ``verify`` looks at in a published measurement file: that it is what the plan says, and near the records.

Every measured unit has every query once, with whole numbers in the planned shape and with the planned noise, in as many
units as were planned. At the root the sum of a query's counts is the number of records plus noise of known variance,
and that number itself where it is an invariant. And released figures are no further from their measurements than noise,
estimation, non-negativity and rounding explain (:mod:`~confide.mechanisms.topdown.measurements.watchdog`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from math import prod, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from confide.arrays import Integers
from confide.mechanisms.topdown.measurements import layout
from confide.mechanisms.topdown.measurements.watchdog import Watchdog, WatchedLevel
from confide.mechanisms.topdown.output.settings import RECORDS
from confide.mechanisms.topdown.problem import TopDownProblem
from confide.privacy import ZCDP
from confide.releases.mechanism import Check
from confide.releases.plan import PlannedMeasurement, read_plan
from confide.schema import DETAILED

ROWS_AT_ONCE = 1 << 12
LAW = ("sigma2", "plb")
"""The columns with parameter of the law and loss: the same few texts in all rows."""
FURTHEST = 6
"""How many standard deviations a sum may be away: one in a thousand million true ones is further."""


def verify_measurements(
    folder: Path, manifest: dict[str, Any], problem: TopDownProblem, counts: Any
) -> Iterator[Check]:
    """The measurements of every level against the plan and the records.

    Args:
        folder: That of the release.
        manifest: Its manifest.
        problem: What it describes.
        counts: The histograms of the records: blocks in the order of their codes x cells.
    """
    plan = read_plan(manifest["plan"])
    watchdog = Watchdog(problem, counts[problem.spine.rows])
    codes, file_layout = plan.question["output"]["codes"], layout.FileLayout.read(plan.question["measurements"])
    records = next(f["rows"] for f in manifest["files"] if f["path"].startswith(f"tables/{RECORDS}."))
    for level in plan.spine:
        files = {
            kind: _files(folder, manifest, level, kind) for kind in (layout.DP_QUERY, layout.CONSTRAINT, layout.UNIT)
        }
        sizes = {attribute: len(listed) for attribute, listed in codes.items()}
        looked = _Level([m for m in plan.measures if m.level == level], sizes, file_layout, watchdog)
        units = np.concatenate(
            [pq.read_table(f, partitioning=None).column("geocode").to_numpy() for f in files[layout.UNIT]]
        )
        for file in files[layout.DP_QUERY]:
            looked.read(file)
        yield from looked.checks(level, set(units.tolist()))
        if level == plan.spine[0]:
            if _total_is_known(plan.question["strategy"]["constraints"]):
                yield _near(looked, records)
            yield from _known(files[layout.CONSTRAINT], records)
    yield from watchdog.checks()


def _files(folder: Path, manifest: dict[str, Any], level: str, kind: str) -> list[Path]:
    place = f"{layout.FOLDER}/{layout.level_folder(level)}/{kind}/"
    return [folder / path for path in sorted(f["path"] for f in manifest["files"]) if path.startswith(place)]


class _Level:
    """The measurements of one level, read once."""

    def __init__(
        self,
        measures: list[PlannedMeasurement],
        sizes: dict[str, int],
        file_layout: layout.FileLayout,
        watchdog: Watchdog,
    ):
        self._sizes, self._layout = sizes, file_layout
        self._watched = None if not measures else watchdog.reader(measures[0].level)
        self._planned: Counter[tuple[int, str, str, float]] = Counter()
        self.names = list(dict.fromkeys(measure.query for measure in measures))
        self._cells = np.array([next(m.cells for m in measures if m.query == name) for name in self.names], np.int64)
        for m in measures:
            assert isinstance(m.loss, ZCDP)
            variance = float(np.float32(m.law.variance()))
            self._planned[self.names.index(m.query), str(m.law.parameter), str(m.loss.rho), variance] += m.units
        self._found: Counter[tuple[int, str, str, float]] = Counter()
        self.rows = 0
        self.integers = self.shaped = self.once = True
        self.sums: dict[str, int] = {}
        self._met = np.zeros(len(self.names), bool)
        self._shapes = np.zeros((len(self.names), len(sizes)), np.int64)
        self._last = ""
        self._ids: list[str] = []

    def read(self, file: Path) -> None:
        """All rows of a file."""
        expected = pa.array([self._layout.spelled(name) + layout.MEASURED_SUFFIX for name in self.names])
        with pq.ParquetFile(file, read_dictionary=["query_name", *LAW, *self._sizes]) as opened:
            for batch in opened.iter_batches(ROWS_AT_ONCE, use_threads=False):
                place = pc.fill_null(pc.index_in(batch.column("query_name"), value_set=expected), -1)
                query = place.to_numpy(zero_copy_only=False).astype(np.int64)
                if (query < 0).any() or batch.column("geocode").null_count:
                    self.once = False
                    return
                self._read_order(query, batch.column("geocode"))
                self._read_values(query, batch)
                self._read_noise(query, batch)
                self.rows += batch.num_rows

    def _read_order(self, query: Integers, ids: pa.Array) -> None:
        """Units rise, and each has all queries in the order of the plan."""
        self.once &= bool((query == (self.rows + np.arange(len(query))) % len(self.names)).all())
        before = pa.concat_arrays([pa.array([self._last], ids.type), ids.slice(0, len(ids) - 1)])
        first = pa.array(query == 0)
        self.once &= bool(pc.all(pc.if_else(first, pc.greater(ids, before), pc.equal(ids, before))).as_py())
        self._last = ids[-1].as_py()
        self._ids += ids.filter(first).to_pylist()

    def _read_noise(self, query: Integers, batch: pa.RecordBatch) -> None:
        """How often each query has each law and loss."""
        counted = pa.table(batch.select([*LAW, "variance"])).append_column("query", pa.array(query))
        for row in counted.group_by(["query", *LAW, "variance"]).aggregate([([], "count_all")]).to_pylist():
            self._found[row["query"], row["sigma2"], row["plb"], row["variance"]] += row["count_all"]

    def _read_values(self, query: Integers, batch: pa.RecordBatch) -> None:
        """Whole numbers, as many as the shape of the query says, which is the same in all units."""
        values, shapes = batch.column("value"), batch.column("query_shape")
        flat = values.flatten()
        self.integers &= pa.types.is_int64(flat.type) and not flat.null_count and not values.null_count
        lengths = pc.fill_null(pc.list_value_length(values), -1).to_numpy()
        self.shaped &= bool((lengths == self._cells[query]).all())
        widths = pc.fill_null(pc.list_value_length(shapes), -1).to_numpy()
        self.shaped &= bool((widths == len(self._sizes)).all())
        if not self.shaped or not self.integers:
            return
        of_attributes = shapes.flatten().to_numpy().reshape(len(query), -1)
        starts = np.cumsum(lengths) - lengths
        for number in np.flatnonzero(~self._met & np.isin(np.arange(len(self.names)), query)).tolist():
            row = int(np.argmax(query == number))
            self._met[number], self._shapes[number] = True, of_attributes[row]
            self.sums[self.names[number]] = int(flat.to_numpy()[starts[row] : starts[row] + lengths[row]].sum())
            self.shaped &= self._fits(number, batch.slice(row, 1).to_pylist()[0])
        self.shaped &= bool((of_attributes == self._shapes[query]).all())
        if self.shaped and self._watched is not None:
            self._watch(self._watched, query, batch, flat.to_numpy(), starts)

    def _watch(
        self, watched: WatchedLevel, query: Integers, batch: pa.RecordBatch, flat: Integers, starts: Integers
    ) -> None:
        """What the watchdog compares."""
        units = watched.units(batch.column("geocode"))
        noise = np.sqrt(batch.column("variance").to_numpy(zero_copy_only=False), dtype=np.float64)
        for number, name in enumerate(self.names):
            if name in watched.queries:
                rows = np.flatnonzero(query == number)
                values = flat[starts[rows][:, None] + np.arange(self._cells[number])]
                watched.look(name, units[rows], values, noise[rows])

    def _fits(self, number: int, row: dict[str, Any]) -> bool:
        """Whether the shape of a query is what its columns say."""
        shape = self._shapes[number].tolist()
        said = {layout.SUMMED_OUT: dict.fromkeys(self._sizes, 1), DETAILED: self._sizes}
        said |= {name: {name: size} for name, size in self._sizes.items()}
        fits = all(
            said.get(row[name], {}).get(name, size) == size for name, size in zip(self._sizes, shape, strict=True)
        )
        return fits and prod(shape) == int(self._cells[number])

    def checks(self, level: str, units: set[str]) -> Iterator[Check]:
        """What was found of the level."""
        measured = self.rows // max(1, len(self.names))
        detail = f"{measured:,} of {len(units):,} units, {len(self.names)} queries"
        on_spine = set(self._ids) <= units
        yield Check(f"measurements of {level}: every query once", self.once and on_spine, detail)
        yield Check(f"measurements of {level}: whole numbers, shapes", self.integers and self.shaped, detail)
        same = self._found == self._planned
        yield Check(f"measurements of {level}: noise as planned", same, f"{len(self._found):,} laws and queries")

    def cells_and_variance(self, name: str) -> tuple[int, float]:
        """The cells of a query and the variance of its noise, where all units have the same."""
        number = self.names.index(name)
        return int(self._cells[number]), max(of[3] for of in self._planned if of[0] == number)


def _total_is_known(constraints: Mapping[str, Any]) -> bool:
    """Whether the number of records is the true one. An estimate of it may be any number of standard deviations away
    from a measured sum: counts are not negative, limits and zeros hold, and a pass may use other queries."""
    return any(invariant["query"] == "total" for invariant in constraints["invariants"])


def _near(root: _Level, records: int) -> Check:
    """The sum of a query's counts at the root, in standard deviations from the number of records."""
    furthest = 0.0
    for name, total in root.sums.items():
        cells, variance = root.cells_and_variance(name)
        # Without noise, or nearly so, the sum is the number itself.
        furthest = max(furthest, abs(total - records) / sqrt(max(cells * variance, 1 / FURTHEST**2)))
    detail = f"the furthest sum of a query is {furthest:.1f} standard deviations from the number of records"
    return Check("measurements of the root: near the records", furthest <= FURTHEST, detail)


def _known(files: list[Path], records: int) -> Iterator[Check]:
    for file in files:
        rows = pq.read_table(file, columns=["query_name", "value"], partitioning=None)
        of_total = pc.equal(rows.column("query_name"), layout.KNOWN_TOTAL)
        for (value,) in rows.filter(of_total).column("value").to_pylist():
            yield Check("known total of the root", value == records, f"{value:,}, and {records:,} records")
