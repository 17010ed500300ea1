"""What ``verify`` looks at in a release of tables, from the written files alone, in one pass over their rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from confide.mechanisms.tables.output import ALL, Rows
from confide.noise import DiscreteGaussian, ReleaseNoise, TruncatedDistribution, distribution_from_dict
from confide.releases.mechanism import Check

FALSE_ALARM = 1e-6
"""The probability, at most, with which a margin that has its noise is taken for one that has too little."""

TOO_LOUD = 7
"""How many standard errors the squared disagreement of a margin with its cells may be above what is promised."""

ENOUGH = 50
"""With fewer differences than this nothing is said of too much noise."""

ROWS_AT_ONCE = 1 << 18


@dataclass(frozen=True)
class Described:
    """A table as the plan in the manifest describes it."""

    name: str
    levels: tuple[str, ...]
    variables: dict[str, list[str]]
    margins: dict[tuple[str, ...], str]
    """For each margin the attributes it keeps, and the name of its measurement."""

    @classmethod
    def read(cls, values: dict[str, Any]) -> Described:
        margins = {
            tuple(name.split(":")[0] for name in query.split("*") if query != "total"): key
            for query, key in values["margins"].items()
        }
        return cls(values["name"], tuple(values["levels"]), values["variables"], margins)

    @property
    def sizes(self) -> list[int]:
        """The number of cells of each margin."""
        return [int(np.prod([len(self.variables[name]) for name in kept], dtype=np.int64)) for kept in self.margins]

    @property
    def rows_per_unit(self) -> int:
        return sum(self.sizes)

    def labels(self, variable: str) -> pa.Array:
        """The column of a variable for one unit."""
        parts = []
        for kept, cells in zip(self.margins, self.sizes, strict=True):
            if variable in kept:
                index = np.indices([len(self.variables[name]) for name in kept])[kept.index(variable)].ravel()
                parts.append(np.asarray(self.variables[variable])[index])
            else:
                parts.append(np.full(cells, ALL))
        return pa.array(np.concatenate(parts).tolist(), pa.string())


Laws = dict[tuple[str, str], ReleaseNoise]
"""The noise by level and query."""


@dataclass(frozen=True)
class Disagreement:
    """The squared differences of a margin from its cells, each over its variance, added up.

    The n terms are independent, each with mean 1 and a second moment of at most the kurtosis k of the laws; a sum of
    laws has less. Non-negative terms make the lower tail light: P(sum <= n - t) <= exp(-t^2 / 2nk).
    """

    squares: float = 0.0
    number: int = 0
    kurtosis: float = 3.0

    @property
    def ratio(self) -> float:
        return self.squares / self.number

    @property
    def too_quiet(self) -> bool:
        short = max(0.0, self.number - self.squares)
        return math.exp(-(short**2) / (2 * self.number * self.kurtosis)) < FALSE_ALARM

    @property
    def too_loud(self) -> bool:
        above = self.squares - self.number
        return self.number >= ENOUGH and above > TOO_LOUD * ((self.kurtosis - 1) * self.number) ** 0.5


@dataclass
class Seen:
    """What one pass over the rows of a table has found so far."""

    rows: int = 0
    same: bool = True
    whole: bool = True
    problem: str | None = None
    disagreement: dict[str, Disagreement] = field(default_factory=dict)
    last_area: dict[str, str] = field(default_factory=dict)


def verify(folder: Path, manifest: dict[str, Any]) -> Iterator[Check]:
    """Every table: whole, in order, whole numbers, the same in every format, and as noisy as promised."""
    plan = manifest["plan"]
    laws = {(m["level"], m["query"]): distribution_from_dict(m["law"]) for m in plan["measures"]}
    units = plan["question"]["levels"]
    for values in plan["question"]["tables"]:
        table = Described.read(values)
        paths = [folder / f["path"] for f in manifest["files"] if f["path"].startswith(f"tables/{table.name}.")]
        if not paths:
            yield Check(f"{table.name}: there", False, "no file of this table is in the release")
            continue
        seen = _pass(table, laws, units, [Rows(path) for path in paths])
        formats = ", ".join(path.suffix[1:] for path in paths)
        yield Check(f"{table.name}: the same in every format", seen.same, formats)
        yield Check(f"{table.name}: whole numbers", seen.whole, f"{seen.rows:,} counts")
        yield Check(f"{table.name}: complete", seen.problem is None, seen.problem or f"{seen.rows:,} rows")
        if seen.disagreement and seen.problem is None:
            yield _noise_check(table.name, seen)


def _pass(table: Described, laws: Laws, units: dict[str, int], files: Sequence[Rows]) -> Seen:
    seen = Seen()
    first, *others = files
    seen.same = all(other.names == first.names for other in others)
    for level in table.levels:
        left = units[level]
        while left and seen.problem is None:
            chunk = min(left, max(1, ROWS_AT_ONCE // table.rows_per_unit))
            left -= chunk
            rows = first.take(chunk * table.rows_per_unit)
            seen.rows += rows.num_rows
            copies = [other.take(chunk * table.rows_per_unit) for other in others]
            seen.same = seen.same and all(rows.equals(copy) for copy in copies)
            seen.whole = seen.whole and all(_are_whole_numbers(part.column("count")) for part in (rows, *copies))
            seen.problem = _out_of_order(table, level, chunk, rows, seen)
            if seen.problem is None and seen.whole:
                counts = rows.column("count").to_numpy().reshape(chunk, table.rows_per_unit)
                _add_noise_check(table, level, laws, counts, seen)
    if seen.problem is None and any(file.take(1).num_rows for file in files):
        seen.problem = "there are more rows than the plan has"
    return seen


def _are_whole_numbers(counts: pa.ChunkedArray) -> bool:
    return bool(counts.type == pa.int64() and not counts.null_count)


def _out_of_order(table: Described, level: str, units: int, rows: pa.Table, seen: Seen) -> str | None:
    """Every unit has the rows of every margin, each once, in the order of the layout; units in the order of codes."""
    per_unit = table.rows_per_unit
    if rows.num_rows != units * per_unit:
        return f"level {level}: rows are missing"
    areas = rows.column("area").combine_chunks()
    heads = areas.take(pa.array(np.arange(units) * per_unit))
    if not areas.equals(heads.take(pa.array(np.repeat(np.arange(units), per_unit)))):
        return f"level {level}: the rows of an area are not together"
    codes = heads.to_pylist()
    before = seen.last_area.get(level)
    if codes != sorted(set(codes)) or (before is not None and codes[0] <= before):
        return f"level {level}: areas are repeated or out of order"
    seen.last_area[level] = codes[-1]
    if rows.column("level").unique().to_pylist() != [level]:
        return f"level {level}: rows of another level are among its rows"
    repeated = pa.array(np.tile(np.arange(per_unit), units))
    for variable in table.variables:
        if not rows.column(variable).combine_chunks().equals(table.labels(variable).take(repeated)):
            return f"level {level}: cells of {variable} are missing or out of order"
    return None


def _add_noise_check(table: Described, level: str, laws: Laws, counts: np.ndarray[Any, Any], seen: Seen) -> None:
    """A margin and the sum of its cells measure the same truth with independent noise, so their difference is noise
    alone: its variance is the margin's plus the cells', which the plan states. Nothing of the truth is needed."""
    ends = np.cumsum(table.sizes)
    shape = [len(labels) for labels in table.variables.values()]
    *margins, (_, inner_key) = table.margins.items()
    if not margins:
        return
    inner = counts[:, ends[-2] :].reshape(len(counts), *shape)
    of_inner = laws[level, inner_key].variance()
    for (kept, key), end, size in zip(margins, ends[:-1], table.sizes[:-1], strict=True):
        axes = tuple(axis for axis, name in enumerate(table.variables, start=1) if name not in kept)
        difference = counts[:, end - size : end] - inner.sum(axis=axes).reshape(len(counts), -1)
        variance = laws[level, key].variance() + of_inner * (np.prod(shape) // size)
        before = seen.disagreement.get(key, Disagreement())
        seen.disagreement[key] = Disagreement(
            before.squares + float((difference.astype(float) ** 2).sum() / variance),
            before.number + difference.size,
            max(before.kurtosis, _kurtosis(laws[level, key]), _kurtosis(laws[level, inner_key])),
        )


def _kurtosis(law: ReleaseNoise) -> float:
    """An upper bound: 3 for the discrete Gaussian and 6 + 1/variance for the two-sided geometric law, where the
    variance is at least 1; noise that is mostly zero can have any, and then nothing is said. That of noise with a
    bound is added up."""
    variance = law.variance()
    if variance < 1:
        return math.inf
    if isinstance(law, TruncatedDistribution):
        places, weights = range(-law.bound, law.bound + 1), [float(low) for low, _ in law.weights(64)]
        return 1.001 * sum(x**4 * w for x, w in zip(places, weights, strict=True)) / sum(weights) / variance**2
    return 3.001 if isinstance(law, DiscreteGaussian) else 6 + 1 / variance


def _noise_check(name: str, seen: Seen) -> Check:
    margins = seen.disagreement.values()
    wrong = any(margin.too_quiet or margin.too_loud for margin in margins)
    low, high = min(margin.ratio for margin in margins), max(margin.ratio for margin in margins)
    number = sum(margin.number for margin in margins)
    detail = f"{number:,} margins differ from their cells by {low:.2f} to {high:.2f} of the promised variance"
    return Check(f"{name}: noise as promised", not wrong, detail)
