"""``open_release``: a release folder for its users: tables with labels, and sums, differences and ratios with margins.

>>> from confide.opened import Estimate
>>> print(Estimate(1234, 56, Fraction(19, 20), 816.0))
1,234 ± 56 (95 %)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from statistics import NormalDist
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from confide.answers import AnswerPart, TypedAnswer
from confide.errors import ParameterError, Place, ReleaseError
from confide.estimation.linear_statements import ratio_sets
from confide.exact import Exact, probability
from confide.file_system import write_text
from confide.mechanisms import MECHANISMS
from confide.releases import MANIFEST, FigureNoise, SealedRelease
from confide.releases.companions.explanations import ExplorePage, explore_page
from confide.releases.figure_noise import NoiseOfSum, bounds_of_sum
from confide.releases.folder import PUBLIC_FILE, require_package
from confide.releases.tabular import Codebook, DescribedTable, read_file

SELECTED = "figures were published because they were large enough, so the noise is not alike on both sides"
BELOW_ZERO = "the sum below may be zero as far as its noise tells"
COMMON_TEXTS = ("level", "area", "area_name", "margin", "status")


@dataclass(frozen=True)
class Estimate:
    """A number from published figures, and how far the noise may have taken it."""

    value: float | None
    """None where a figure that it needs is not published."""
    margin: float | None
    """The noise is at most this far from zero with the probability; None where that is not known."""
    probability: Fraction
    variance: float | None = None
    note: str = ""
    """Why something is not known, or what else there is to know."""
    bounds: tuple[float, float] | None = None
    """Where the truth is with the probability, in place of a margin: the noise does not go as far up as down."""
    outside: tuple[float, float] | None = None
    """Of a ratio whose denominator may be zero: the truth is at most the first or at least the second."""

    @property
    def interval(self) -> tuple[float, float] | None:
        """From the value less the margin to the value with it, or the bounds."""
        if self.bounds is not None:
            return self.bounds
        if self.value is None or self.margin is None:
            return None
        return self.value - self.margin, self.value + self.margin

    def __str__(self) -> str:
        if self.value is None:
            return f"unknown: {self.note}"
        share = f"{float(self.probability) * 100:.4g} %"
        if self.bounds is not None:
            low, high = (_text(end) for end in self.bounds)
            return f"{_text(self.value)} ({low} to {high}, {share})" + (f"; {self.note}" if self.note else "")
        if self.margin is None:
            return f"{_text(self.value)} (margin unknown: {self.note})"
        return f"{_text(self.value)} ± {_text(self.margin)} ({share})" + (f"; {self.note}" if self.note else "")

    def as_dict(self) -> dict[str, Any]:
        """The estimate as plain values."""
        return {
            "value": self.value,
            "margin": self.margin,
            "probability": str(self.probability),
            "variance": self.variance,
            "note": self.note,
            **({} if self.bounds is None else {"bounds": list(self.bounds)}),
            **({} if self.outside is None else {"outside": list(self.outside)}),
        }


def _text(value: float) -> str:
    if float(value).is_integer():
        return f"{int(value):,}"
    return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.1f}"


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a table that were chosen, for a sum or a ratio. Two choices are put together by ``+``."""

    parts: tuple[tuple[str, pa.Table], ...]
    """The table, and the rows of it."""

    def __add__(self, other: Rows) -> Rows:
        return Rows((*self.parts, *other.parts))

    def __len__(self) -> int:
        return sum(rows.num_rows for _, rows in self.parts)

    def __repr__(self) -> str:
        names = ", ".join(dict.fromkeys(name for name, _ in self.parts))
        return f"<{len(self):,} rows of {names}>"

    def arrow(self) -> pa.Table:
        """The rows, of one table."""
        return pa.concat_tables([rows for _, rows in self.parts])


@dataclass(frozen=True, eq=False)
class OpenedTable:
    """A table of a release."""

    release: Release
    name: str
    title: str
    file: Path
    described: DescribedTable | None

    @cached_property
    def _rows(self) -> pa.Table:
        self.release.require_unchanged(self.file.relative_to(self.release.folder).as_posix())
        undescribed = dict.fromkeys(("count", "noise_margin"), pa.int64())
        return read_file(self.file, undescribed if self.described is None else self.described.types)

    @property
    def listed_rows(self) -> int:
        """How many rows it has, as the manifest says."""
        return self.release.rows_of(self.file)

    def arrow(self) -> pa.Table:
        """All rows, totals included, as a table of Arrow."""
        return self._rows

    def pandas(self) -> Any:
        """The same as a data frame of pandas: codes and labels are text, and counts are whole."""
        import pandas as pd

        rows = self._rows
        gaps = any(pa.types.is_integer(column.type) and column.null_count for column in rows.columns)
        return rows.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get if gaps else None)

    def polars(self) -> Any:
        """The same as a data frame of polars."""
        import polars as pl

        return pl.from_arrow(self._rows)

    def cells(self) -> Rows:
        """The cells of the table itself, without totals and sub-totals: on each level they can be added up."""
        if "margin" not in self._rows.column_names:
            return self.rows()
        return self.rows(margin="cell")

    def rows(self, **wanted: object) -> Rows:
        """The rows that have these values: a code or a label for each column, or a list of them.

        Args:
            wanted: By column; ``age_five_year`` also stands for ``age:five-year``, and a label for its code.
        """
        chosen = self._rows
        for name, value in wanted.items():
            texts = [str(each) for each in (value if isinstance(value, list | tuple | set) else [value])]
            column = self._column(name)
            fits = pc.is_in(chosen.column(column).cast(pa.string()), pa.array(texts, pa.string()))
            if (label := f"{column}_label") in chosen.column_names:
                fits = pc.or_(fits, pc.is_in(chosen.column(label), pa.array(texts, pa.string())))
            chosen = chosen.filter(fits)
        if not chosen.num_rows:
            asked = ", ".join(f"{name} = {value!r}" for name, value in wanted.items())
            raise ParameterError("no-rows/table", found=asked, name=self.name)
        return Rows(((self.name, chosen),))

    def _column(self, name: str) -> str:
        names = self._rows.column_names
        plain = {"".join(c if c.isalnum() else "_" for c in each): each for each in names}
        if name in names or name in plain:
            return name if name in names else plain[name]
        raise ParameterError("no-column/correct", name=self.name, other_name=name, names=", ".join(names))

    def __repr__(self) -> str:
        return f"<table {self.name}: {self.title}; {self._rows.num_rows:,} rows>"


class OpenedTables(Mapping[str, OpenedTable]):
    """The tables of a release by their names."""

    def __init__(self, tables: Sequence[OpenedTable], codebook: Codebook | None):
        self._tables = {table.name: table for table in tables}
        self._codebook = codebook

    def __getitem__(self, name: str) -> OpenedTable:
        if name not in self._tables:
            raise ParameterError("no-table/release", name=name, tables=", ".join(self._tables))
        return self._tables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)

    def __contains__(self, name: object) -> bool:
        return name in self._tables

    def __repr__(self) -> str:
        lines = []
        for table in self._tables.values():
            lines.append(f"{table.name}: {table.title}")
            if table.described is not None:
                names = [each.name for each in table.described.columns.variables]
                words = [f"by {', '.join(names)}" if names else "totals alone"]
                words += [f"for {', '.join(table.described.levels)}"] if table.described.levels else []
                lines.append("    " + "; ".join(words))
            lines.append(f'    release.tables["{table.name}"].pandas()   {table.listed_rows:,} rows')
        return "\n".join(lines) or "no tables"


@dataclass(frozen=True, eq=False)
class Release(SealedRelease):
    """A release for its users."""

    noise: FigureNoise | str
    """What is known of the noise of its figures, or why nothing is."""

    @cached_property
    def tables(self) -> OpenedTables:
        """The tables, by their names; printed, what they are."""
        codebook = self._codebook
        described = {} if codebook is None else {table.name: table for table in codebook.tables}
        files: dict[str, str] = {}
        for file in self.manifest["files"]:
            folder, _, rest = str(file["path"]).partition("/")
            if folder == "tables" and "rows" in file and (rest.endswith(".parquet") or rest.split(".")[0] not in files):
                files[rest.split(".")[0]] = str(file["path"])
        tables = [
            OpenedTable(
                self,
                name,
                described[name].title if name in described else _title(self.folder / path, name),
                self.folder / path,
                described.get(name),
            )
            for name, path in sorted(files.items(), key=lambda item: [*described, item[0]].index(item[0]))
        ]
        return OpenedTables(tables, codebook)

    def sum(self, rows: Any, *, table: str | None = None, level: Exact = "0.95") -> Estimate:
        """The sum of figures, with its margin.

        Rows are added as they are given: cells and totals that were measured one by one have independent noise, and a
        measurement that two tables show has one noise, however often it is added.

        Args:
            rows: What :meth:`OpenedTable.rows` chose, or rows of a table in pandas, polars or Arrow.
            table: The table that rows of a data frame are of; where the release has one table alone, it is that.
            level: The probability of the margin.

        Returns:
            The sum. Its margin is None where a release does not say how far its figures are off.
        """
        return self._combined([(Fraction(1), self._chosen(rows, table))], level)

    def difference(self, a: Any, b: Any, *, table: str | None = None, level: Exact = "0.95") -> Estimate:
        """The sum of the rows ``a`` less that of the rows ``b``, with its margin: noise that both have cancels."""
        chosen = [(Fraction(1), self._chosen(a, table)), (Fraction(-1), self._chosen(b, table))]
        return self._combined(chosen, level)

    def ratio(self, a: Any, b: Any, *, table: str | None = None, level: Exact = "0.95") -> Estimate:
        """The sum of the rows ``a`` over that of the rows ``b``, with Fieller's interval.

        With sums ``A`` and ``B``, those ratios ``R`` are kept for which ``A - R B`` is no further from zero than noise
        may take it. Where ``B`` is not far from zero beside its noise these are no interval: all but those between two
        numbers (``outside``), or all there are; the note says so. Derivation: ``docs/proofs/sums.md``.

        Returns:
            The ratio with ``bounds``, and as ``margin`` the further of both; without either where there are none.
        """
        above, below = self._chosen(a, table), self._chosen(b, table)
        numerator, denominator = self.sum(above, level=level), self.sum(below, level=level)
        share = probability(level, "level")
        if numerator.value is None or denominator.value is None:
            return Estimate(None, None, share, note=numerator.note or denominator.note)
        value = numerator.value / denominator.value if denominator.value else None
        if numerator.margin is None or denominator.margin is None or denominator.variance is None:
            note = numerator.note or denominator.note
            return Estimate(value, None, share, note=note if value is not None else "the sum below is zero")
        return self._fieller(numerator, denominator, share, above, below)

    def _fieller(self, a: Estimate, b: Estimate, share: Fraction, above: Rows, below: Rows) -> Estimate:
        assert a.value is not None
        assert b.value is not None

        def noise(times: Fraction, less: Fraction) -> NoiseOfSum:
            return NoiseOfSum.of([*self._terms(times, above), *self._terms(-less, below)])

        parts = noise(Fraction(1), Fraction(0)), noise(Fraction(0), Fraction(1)), noise(Fraction(1), Fraction(1))
        v_a, v_b, v_gap = (part.variance for part in parts)
        # How far noise goes beside its standard deviation: of the sums alone and of their difference, by their laws.
        quantiles = [NormalDist().inv_cdf((1 + float(share)) / 2)]
        quantiles += [part.margin(share) / math.sqrt(part.variance) for part in parts if part.variance > 0]
        if b.value:
            slope = Fraction(a.value / b.value).limit_denominator(60)
            if (at_ratio := noise(Fraction(1), slope)).variance > 0:
                quantiles.append(at_ratio.margin(share) / math.sqrt(at_ratio.variance))
        covariance = (v_a + v_b - v_gap) / 2
        sets = ratio_sets(a.value, b.value, v_a, v_b, covariance, max(quantiles))
        low, high, value = float(sets.low), float(sets.high), a.value / b.value if b.value else None
        percent = f"{float(share) * 100:.4g} %"
        if bool(sets.outside):
            note = f"{BELOW_ZERO}: the ratio is at most {_text(low)} or at least {_text(high)} ({percent})"
            return Estimate(value, None, share, note=note, outside=(low, high))
        if value is None or not bool(sets.bounded):
            return Estimate(value, None, share, note=f"{BELOW_ZERO}: the ratio may be anything ({percent})")
        low, high = min(low, value), max(high, value)
        variance = max(0.0, v_a - 2 * value * covariance + value**2 * v_b) / b.value**2
        return Estimate(value, max(high - value, value - low), share, variance, a.note, bounds=(low, high))

    @cached_property
    def _codebook(self) -> Codebook | None:
        mechanism = MECHANISMS[self.manifest["mechanism"]]
        return mechanism.explain.codebook({key: value for key, value in self.manifest.items() if key != "files"})

    def page(self) -> ExplorePage:
        """The release as one page, with as many tables as fit: :mod:`confide.releases.companions.explanations`."""
        codebook = self._codebook or Codebook(())
        for table in codebook.tables:
            if table.name in self.tables:
                self.require_unchanged(self.tables[table.name].file.relative_to(self.folder).as_posix())
        return explore_page(self, codebook, in_release=False)

    def __repr__(self) -> str:
        manifest = self.manifest
        lines = [f"{manifest['title']} ({manifest['mechanism']}, release {manifest['release']!r})"]
        if "stamp" in manifest:
            lines.append(str(manifest["stamp"]))
        return "\n".join([*lines, *(f"  {line}" for line in repr(self.tables).splitlines())])

    def _combined(self, parts: Iterable[tuple[Fraction, Rows]], level: Exact) -> Estimate:
        share, chosen = probability(level, "level"), list(parts)
        figure = self.noise.figure if not isinstance(self.noise, str) else None
        value: float = 0
        for coefficient, rows in chosen:
            for name, part in rows.parts:
                figures = part.column(figure or _figure(name, part)).to_pylist()
                if any(each is None for each in figures):
                    missing = sum(each is None for each in figures)
                    return Estimate(None, None, share, note=_suppressed(missing, len(figures)))
                total = sum(figures)
                value += int(coefficient) * (total if isinstance(total, int) else float(total))
        if isinstance(self.noise, str):
            return Estimate(value, None, share, note=self.noise)
        terms = [term for coefficient, rows in chosen for term in self._terms(coefficient, rows)]
        if (bounds := bounds_of_sum(value, terms, share)) is not None:
            return Estimate(value, None, share, None, SELECTED, bounds)
        noise = NoiseOfSum.of(terms)
        notes = [getattr(self.noise, "note", ""), _counted_twice(chosen)]
        return Estimate(value, noise.margin(share), share, noise.variance, "; ".join(note for note in notes if note))

    def _terms(self, coefficient: Fraction, rows: Rows) -> Iterator[Any]:
        assert not isinstance(self.noise, str)
        for name, part in rows.parts:
            for row in part.to_pylist():
                try:
                    for draw in self.noise.draws(name, row):
                        yield coefficient, draw
                except LookupError:
                    raise ParameterError("no-such-row", name=name) from None

    def _chosen(self, rows: Any, table: str | None) -> Rows:
        if isinstance(rows, Rows):
            return rows
        if isinstance(rows, OpenedTable):
            return rows.cells()
        if isinstance(rows, list | tuple) and rows and all(isinstance(each, Rows) for each in rows):
            return Rows(tuple(part for each in rows for part in each.parts))
        name = table or (next(iter(self.tables)) if len(self.tables) == 1 else None)
        if name is None:
            raise ParameterError("which-table", tables=", ".join(self.tables))
        return Rows(((name, _as_arrow(rows)),))


def open_release(folder: str | Path) -> Release:
    """Opens a release folder.

    Args:
        folder: The release, which is the folder with its ``manifest.json``, or the folder of its run.

    Returns:
        Its tables with labels, and sums, differences and ratios of figures with their margins.

    >>> import confide
    >>> release = confide.open_release(sealed)
    >>> list(release.tables)[:1]
    ['age-by-sex']
    """
    sealed = SealedRelease.of(folder)
    path, manifest = sealed.folder, sealed.manifest
    require_package(path, manifest, lambda name: MECHANISMS[name])
    try:
        release = Release(path, manifest, MECHANISMS[manifest["mechanism"]].explain.figure_noise(manifest))
        list(release.tables)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # Whatever somebody else wrote into a manifest is theirs to mend: say so, instead of stumbling over it.
        raise ReleaseError(
            "not-a-release/manifest", where=Place(file=str(path / MANIFEST)), name=type(error).__name__
        ) from None
    return release


@dataclass(frozen=True)
class ExploreFile(TypedAnswer):
    """The page that was written."""

    file: Path
    bytes: int
    rows: int
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Tables that are too large for one page, with their rows."""

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return {"file": str(self.file), "bytes": self.bytes, "rows": self.rows, "left_out": dict(self.left_out)}

    def described(self) -> Iterator[AnswerPart]:
        """Where the page is, and what it leaves out."""
        yield f"Wrote {self.file} ({self.bytes / 1e6:.1f} MB, {self.rows:,} rows). Open it in a browser."
        for name, rows in self.left_out.items():
            yield f"Left out because it is too large for one page: {name} ({rows:,} rows)."


def write_explore(release: str | Path, file: str | Path) -> ExploreFile:
    """Writes a release as one page, also where it is too large to have one in its folder.

    Args:
        release: The release folder, or the folder of its run. It stays as it was sealed: the page lies outside it.
        file: The page; a file that is there is replaced.

    Returns:
        What was written, and which tables were left out.
    """
    opened, into = open_release(release), Path(file)
    if into.resolve().is_relative_to(opened.folder.resolve()):
        raise ParameterError("into-release", where=Place(path="--out"), found=str(file))
    page = opened.page()
    try:
        write_text(into, page.text, mode=PUBLIC_FILE)
    except OSError as error:
        raise ParameterError(
            "explore-file", where=Place(path="--out"), found=error.strerror or type(error).__name__
        ) from None
    return ExploreFile(into, len(page.text.encode()), page.rows, page.left_out)


def _counted_twice(parts: Iterable[tuple[Fraction, Rows]]) -> str:
    """A warning where the rows that are added up have totals among them, and what these are totals of."""
    for _, rows in parts:
        for name, part in rows.parts:
            if "margin" in part.column_names and len(set(part.column("margin").to_pylist())) > 1:
                return (
                    f"the rows of {name!r} have totals and what they are totals of among them, so that people are "
                    "counted more than once; margin='cell' takes the cells alone"
                )
    return ""


def _suppressed(missing: int, figures: int) -> str:
    """Why a sum is not known."""
    which = "the figure is" if figures == 1 else f"{missing:,} of {figures:,} figures {'is' if missing == 1 else 'are'}"
    return f"{which} suppressed, which does not mean zero; a published total may have the sum"


def _title(file: Path, name: str) -> str:
    if file.suffix == ".parquet":
        metadata = pq.read_schema(file).metadata or {}
        return str(metadata.get(b"title", name.encode()).decode())
    return name


def _figure(name: str, rows: pa.Table) -> str:
    """The column of figures, where the mechanism does not say."""
    for each in ("count", "value", "COUNT"):
        if each in rows.column_names:
            return each
    raise ParameterError("no-figure", found=", ".join(rows.column_names[:12]), name=name)


def _as_arrow(rows: Any) -> pa.Table:
    if isinstance(rows, pa.Table):
        return rows
    if hasattr(rows, "reset_index"):  # pandas
        return pa.Table.from_pandas(rows, preserve_index=False).replace_schema_metadata(None)
    if hasattr(rows, "__arrow_c_stream__"):
        return pa.table(rows)
    if isinstance(rows, list) and all(isinstance(row, Mapping) for row in rows):
        return pa.Table.from_pylist(rows)
    raise ParameterError("not-a-table/set", found=type(rows).__name__)
