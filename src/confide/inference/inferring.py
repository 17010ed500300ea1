"""``confide infer``: estimates with margins for queries in areas of any kind, and what each margin means.

For each kind of area and query the rule of :mod:`~confide.inference.area_statements` is fixed first. Then areas are
answered some at a time: both estimates, both standard deviations, and the interval of the one that the rule takes. What
goes with every answer: how the measurements fit the estimates (a wrong strategy, spine or word is seen at once), how
many small positive counts there are, for which margins of least squares are too narrow, and what no margin covers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, get_args

import numpy as np
import pyarrow as pa
from scipy.sparse import csr_matrix

from confide.answers import TypedAnswer
from confide.arrays import Booleans, Floats, Integers
from confide.errors import ParameterError, Place
from confide.estimation.linear_statements import bonferroni_level
from confide.estimation.tree_gls import PlacedAreas, QueryFit, cells_at_once
from confide.estimation.unified_intervals import checked_level, count_intervals, normal_quantile
from confide.geography import AreaSet
from confide.inference import area_statements
from confide.inference.area_statements import AreaStatements
from confide.inference.asked import Area, AskedQuery, chosen, share_of
from confide.inference.opened_source import KNOWN_SD, NOT_TOLD, InferenceSource, no_measurements
from confide.inference.pooled_errors import area_kind
from confide.mechanisms.topdown.figure_noise import TopDownNoise, size_class
from confide.mechanisms.topdown.measurements.watchdog import FALSE_ALARMS, MOST_FIGURES, explained, rounding_of_sum
from confide.mechanisms.topdown.output.accuracy import described
from confide.releases.tabular import masked

LEVELS = (0.9,)
MOST_TYPICAL = 2_000
"""From so many areas the standard deviation of a kind of area is taken."""
MOST_EYES = 5
"""So many kinds of area and queries with small positive counts are named, those with most of them."""
NOT_COVERED = (
    "Margins are about the noise that protects people. They do not cover errors of the census itself: people who were "
    "missed, counted twice or in the wrong place, and answers that were wrong or imputed."
)


@dataclass(frozen=True, eq=False)
class Figures:
    """A query in some areas: areas x cells of everything that is known of each figure."""

    gls: Floats | None
    gls_sd: Floats
    released: Integers | None
    release_sd: Floats | None
    bias: Floats | None
    by_least_squares: Booleans
    exact: Booleans


@dataclass(frozen=True, eq=False)
class FigureIntervals:
    """The estimates that the rule takes, with their intervals: areas x cells."""

    estimate: Floats
    sd: Floats
    low: Integers
    high: Integers
    method: Integers
    """Which of the methods, by its place in ``CODES``."""
    by_least_squares: Booleans


@dataclass(eq=False)
class Inference(TypedAnswer):
    """The answer of :func:`infer`. Its rows are made when they are asked for, kind of area by kind of area."""

    source: InferenceSource
    kinds: tuple[AreaSet, ...]
    queries: tuple[AskedQuery, ...]
    levels: tuple[float, ...]
    method: area_statements.Method
    at_once: bool
    shares: tuple[tuple[str, str], ...] = ()
    quantiles: tuple[tuple[str, float], ...] = ()
    eyes: dict[tuple[str, str], int] = field(default_factory=dict)
    """How many small positive counts have margins of least squares, by kind of area and query, where all rows of
    the kind were made."""
    far: dict[tuple[str, str], int] = field(default_factory=dict)
    """How many released figures are further from least squares than noise and estimation explain, likewise."""
    # What was worked out before, by kind of area and by query.
    _counts: dict[str, csr_matrix] = field(default_factory=dict, repr=False)
    _places: dict[str, PlacedAreas] = field(default_factory=dict, repr=False)
    _pooled: dict[tuple[str, str], area_statements.ClassErrors | None] = field(default_factory=dict, repr=False)
    _noise: dict[tuple[str, str], Floats] = field(default_factory=dict, repr=False)

    @cached_property
    def rules(self) -> Mapping[tuple[str, str], area_statements.Rule]:
        """The rule of each kind of area and query, fixed before any figure is looked at."""
        return {(kind.kind, query.name): self._rule(kind, query) for kind in self.kinds for query in self.queries}

    @cached_property
    def fits(self) -> tuple[QueryFit, ...]:
        """How the measurements fit the estimates, by level and query; none without measurements."""
        return () if self.source.tree is None else self.source.tree.fit().fits

    @property
    def choices(self) -> list[area_statements.Choice]:
        """Which margin every class of figures gets."""
        return [choice for rule in self.rules.values() for choice in rule.choices]

    # Rows.

    def table(self, kind: str) -> pa.Table:
        """All rows of one kind of area."""
        (areas,) = (one for one in self.kinds if one.kind == kind)
        return pa.Table.from_batches(self.batches(areas), self.schema)

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        labels = [described(name, "label of the attribute; all: summed out", pa.string()) for name in self._attributes]
        lines = [LABEL] if any(query.label for query in self.queries) else []
        return pa.schema([*HEAD, *lines, *labels, *COLUMNS])

    @property
    def _attributes(self) -> list[str]:
        used = {variable.attribute for query in self.queries for variable in query.variables}
        return [name for name in self.source.vocabulary.attributes if name in used]

    def batches(self, kind: AreaSet) -> Iterator[pa.RecordBatch]:
        """The rows of one kind of area, some at a time: area by area, query by query."""
        placed = self._placed(kind)
        most = max(query.cells for query in self.queries)
        step = cells_at_once(most)
        eyes = dict.fromkeys(((kind.kind, query.name) for query in self.queries), 0)
        far = dict(eyes)
        for first in range(0, kind.areas, step):
            areas = np.arange(first, min(first + step, kind.areas))
            for query in self.queries:
                figures = self.figures(kind, areas, query)
                far[kind.kind, query.name] += self._far(kind, areas, query, figures)
                for level in self.levels:
                    rows = self._rows(kind, placed, areas, query, figures, level)
                    if level == self.levels[0]:
                        eyes[kind.kind, query.name] += rows.column("catches_the_eye").true_count
                    yield rows
        self.eyes.update(eyes)
        self.far.update(far)

    def _rows(
        self,
        kind: AreaSet,
        placed: PlacedAreas,
        areas: Integers,
        query: AskedQuery,
        figures: Figures,
        level: float,
    ) -> pa.RecordBatch:
        number, cells = len(areas), query.cells
        taken = self.intervals(kind, query, figures, level)
        bounded = ~np.isnan(taken.sd)
        eye = self._eye(figures, taken.by_least_squares)
        codes = pa.array([kind.codes[area] for area in areas.tolist()], pa.string())
        columns: dict[str, Any] = {
            "geography": pa.repeat(kind.kind, number * cells),
            "code": codes.take(pa.array(np.repeat(np.arange(number), cells))),
            "query": pa.repeat(query.name, number * cells),
            "label": pa.repeat(query.label, number * cells),
        }
        for name in self._attributes:
            columns[name] = pa.concat_arrays([pa.array(query.labels(name), pa.string())] * number)
        columns |= {
            "estimate": _number(taken.estimate),
            "sd": _number(taken.sd),
            "variance": _number(taken.sd * taken.sd),
            "low": _number(taken.low, bounded),
            "high": _number(taken.high, bounded),
            "level": pa.repeat(level, number * cells),
            "method": pa.array(CODES).take(pa.array(taken.method.ravel())),
            "gls": _missing(number * cells) if figures.gls is None else _number(figures.gls),
            "gls_sd": _number(figures.gls_sd),
            "released": _missing(number * cells, pa.int64())
            if figures.released is None
            else pa.array(figures.released.ravel(), pa.int64()),
            "amc_rmse": _missing(number * cells) if figures.release_sd is None else _number(figures.release_sd),
            "amc_bias": _missing(number * cells) if figures.bias is None else _number(figures.bias),
            "units": pa.array(np.repeat(placed.pieces[areas], cells), pa.int64()),
            "bounded": pa.array(bounded.ravel()),
            "catches_the_eye": pa.array(eye.ravel()),
        }
        return pa.RecordBatch.from_arrays([columns[name] for name in self.schema.names], schema=self.schema)

    def intervals(self, kind: AreaSet, query: AskedQuery, figures: Figures, level: float) -> FigureIntervals:
        """The intervals of figures, of the method that each of them says."""
        single = bonferroni_level(level, query.cells) if self.at_once else level
        shape = figures.gls_sd.shape
        estimate, sd = np.full(shape, np.nan), np.full(shape, np.nan)
        low, high = np.full(shape, -1, np.int64), np.full(shape, -1, np.int64)
        taken = figures.by_least_squares & ~figures.exact
        if figures.gls is not None:
            taken &= np.isfinite(figures.gls_sd)
            estimate[taken], sd[taken] = figures.gls[taken], figures.gls_sd[taken]
            ends = count_intervals(figures.gls[taken], figures.gls_sd[taken], single)
            low[taken], high[taken] = ends.low, ends.high
        records = ~taken & ~figures.exact
        method = np.full(shape, CODES.index(area_statements.LEAST_SQUARES))
        if figures.released is not None:
            estimate[records] = figures.released[records]
            method[records] = CODES.index(self._otherwise)
            if figures.release_sd is not None:
                sd[records] = figures.release_sd[records]
                self._record_ends(kind, query, figures, records, single, low, high)
        else:
            method[records] = CODES.index(area_statements.RECORDS_ALONE)
        exact = figures.exact
        known = figures.released if figures.gls is None else np.rint(figures.gls)
        assert known is not None
        estimate[exact], sd[exact] = known[exact], 0.0
        low[exact] = high[exact] = known[exact].astype(np.int64)
        method[exact] = CODES.index(area_statements.EXACT)
        return FigureIntervals(estimate, sd, low, high, method, taken)

    def _record_ends(
        self,
        kind: AreaSet,
        query: AskedQuery,
        figures: Figures,
        rows: Booleans,
        level: float,
        low: Integers,
        high: Integers,
    ) -> None:
        """Intervals of the records, in place: by replicates, or by the noise alone."""
        assert figures.released is not None
        assert figures.release_sd is not None
        released, sd = figures.released[rows], figures.release_sd[rows]
        errors = self._errors(kind, query)
        if errors is not None:
            ends = errors.intervals(released, level)
            low[rows], high[rows] = ends.low, ends.high
            return
        half = normal_quantile(level) * sd
        low[rows] = np.maximum(0, np.floor(released - half)).astype(np.int64)
        high[rows] = np.ceil(released + half).astype(np.int64)

    def _eye(self, figures: Figures, taken: Booleans) -> Booleans:
        """Which small positive counts have a margin of least squares: it is too narrow for them, on average."""
        if figures.released is None:
            return np.zeros(taken.shape, bool)
        small = figures.released < area_statements.EYE * np.nan_to_num(figures.gls_sd)
        return np.asarray(taken & (figures.released > 0) & small)

    def _far(self, kind: AreaSet, areas: Integers, query: AskedQuery, figures: Figures) -> int:
        """How many released figures differ from least squares by more than their noise and estimation explain: those
        of areas that the spine follows, where nothing else moves them far."""
        if figures.gls is None or figures.released is None or not self._placed(kind).on_spine:
            return 0
        if kind.areas * query.cells > MOST_FIGURES:
            return 0
        cells = self.source.counts.shape[1]
        filled = np.diff((kind.members(len(self.source.block_codes))[areas] @ self.source.counts).indptr)
        rounding = rounding_of_sum(cells / query.cells)
        allowed = explained(
            figures.gls_sd,
            np.sqrt(self._noise_alone(kind, query)[areas]),
            (cells - filled)[:, None],
            kind.areas * sum(each.cells for each in self.queries) * len(self.kinds),
            rounding * len(self.source.covariances.levels),
        )
        with np.errstate(invalid="ignore"):
            return int((np.abs(figures.released - figures.gls) > allowed).sum())

    # What is known of figures.

    def figures(self, kind: AreaSet, areas: Integers, query: AskedQuery) -> Figures:
        """What is known of a query in some areas of a kind, with what the rule says of each figure."""
        source, placed = self.source, self._placed(kind)
        variance = source.answers.variances(placed, areas, query.groups)
        variance[variance > NOT_TOLD] = np.nan
        gls_sd = np.sqrt(variance)
        exact = gls_sd < KNOWN_SD
        gls_sd[exact] = 0.0
        gls = None if source.tree is None else source.answers.figures(placed, areas, query.groups)
        if gls is None:
            # Without the measurements, what is known is known from the records, which keep it.
            exact &= source.released is not None
        released, sd, bias = None, None, None
        by_least_squares = np.ones(variance.shape, bool)
        if source.released is not None:
            released = self._released(kind, areas, query)
            by_least_squares = self.rules[kind.kind, query.name].by_least_squares(released)
            errors = self._errors(kind, query)
            if errors is not None:
                sd = errors.rmse[size_class(released)]
                bias = errors.bias[size_class(released)]
            elif self._otherwise == area_statements.RECORDS_PLAN:
                sd = np.sqrt(self._noise_alone(kind, query)[areas])
        return Figures(gls, gls_sd, released, sd, bias, by_least_squares, exact)

    def _released(self, kind: AreaSet, areas: Integers, query: AskedQuery) -> Integers:
        members = kind.members(len(self.source.block_codes))[areas]
        counted = members @ self._counted(query)
        return np.asarray(counted.toarray(), np.int64)

    def _counted(self, query: AskedQuery) -> csr_matrix:
        """Released counts: blocks x cells of a query."""
        if query.name not in self._counts:
            self._counts[query.name] = self.source.counts @ query.matrix(self.source.vocabulary.shape)
        return self._counts[query.name]

    def _placed(self, kind: AreaSet) -> PlacedAreas:
        if kind.kind not in self._places:
            self._places[kind.kind] = self.source.placed(kind)
        return self._places[kind.kind]

    # The rule, and what it needs.

    @property
    def _otherwise(self) -> str:
        """The method where least squares is not taken."""
        if self.source.replicates is not None:
            return area_statements.RECORDS
        return area_statements.RECORDS_PLAN if self.source.released is not None else area_statements.RECORDS_ALONE

    def _rule(self, kind: AreaSet, query: AskedQuery) -> area_statements.Rule:
        placed = self._placed(kind)
        return area_statements.choose(
            kind.kind,
            query.name,
            method=self.method,
            followed=placed.followed(self.source.most_pieces, len(self.source.covariances.levels) - 1),
            gls_sd=self._typical_sd(placed, query),
            estimated=self.source.tree is not None,
            errors=self._errors(kind, query),
            otherwise=self._otherwise,
        )

    def _typical_sd(self, placed: PlacedAreas, query: AskedQuery) -> float | None:
        """The root of the mean variance of least squares over areas and cells that are not known."""
        there = np.flatnonzero(placed.pieces > 0)
        if not len(there):
            return None
        some = there[:: max(1, len(there) // MOST_TYPICAL)]
        variance = self.source.answers.variances(placed, some, query.groups)
        used = variance[(variance > KNOWN_SD**2) & (variance < NOT_TOLD)]
        return float(np.sqrt(used.mean())) if len(used) else 0.0

    def _errors(self, kind: AreaSet, query: AskedQuery) -> area_statements.ClassErrors | None:
        if self.source.replicates is None:
            return None
        key = (kind.kind, query.name)
        if key not in self._pooled:
            self._pooled[key] = area_statements.ClassErrors.of(self._pooled_rows(kind, query))
        return self._pooled[key]

    def _pooled_rows(self, kind: AreaSet, query: AskedQuery) -> list[dict[str, Any]]:
        """Pooled errors of replicates: as they were written, or made for areas and queries that were not."""
        replicates = self.source.replicates
        assert replicates is not None
        official = {one.kind for one in self.source.geographies}
        rows = [dict(row) for row in replicates.rows if row["kind"] == kind.kind and row["query"] == query.name]
        if rows and kind.kind in official:
            return rows
        areas = area_kind(replicates.source.problem, kind)
        return replicates.errors_of(areas, query.name, query.matrix(self.source.vocabulary.shape))

    def _noise_alone(self, kind: AreaSet, query: AskedQuery) -> Floats:
        """The variance of released figures if noise alone moved them: areas x cells, from the plan."""
        key = (kind.kind, query.name)
        if key not in self._noise:
            self._noise[key] = self._theory.variances(query.groups, kind)
        return self._noise[key]

    @cached_property
    def _theory(self) -> TopDownNoise:
        assert self.source.released is not None
        return TopDownNoise(self.source.released.problem)

    # What else is asked of areas, by least squares.

    def statements(self, kind: AreaSet) -> AreaStatements:
        """Shares, differences, quantiles, ranks and covariances of a kind of area."""
        return AreaStatements(self.source, kind)

    def share_rows(self, kind: AreaSet) -> Iterator[dict[str, Any]]:
        """The shares that were asked for, in every area of a kind."""
        for part, base in self.shares:
            yield from self.statements(kind).shares(part, base, self.levels)

    def quantile_rows(self, kind: AreaSet) -> Iterator[dict[str, Any]]:
        """The quantiles that were asked for, in every area of a kind."""
        for attribute, share in self.quantiles:
            yield from self.statements(kind).quantiles(attribute, share, self.levels)

    def difference_rows(self, kind: AreaSet, one: str, other: str) -> list[dict[str, Any]]:
        """Two areas of a kind, query by query."""
        return self.statements(kind).difference(self.queries, one, other, self.levels)

    def rank_rows(self, kind: AreaSet) -> Iterator[dict[str, Any]]:
        """The ranks of the areas of a kind, query by query."""
        for query in self.queries:
            yield from self.statements(kind).ranks(query, self.levels)

    # What goes with the rows.

    @property
    def warnings(self) -> list[str]:
        """What a reader must know of these margins, beside what no margin covers."""
        result = []
        source = self.source
        if source.released is not None and source.tree is None:
            result.append(
                "The release has no measurements: least squares is not possible, and figures are those of the records."
            )
        if self._otherwise == area_statements.RECORDS_PLAN and (source.tree is None or self.method == "release"):
            result.append(
                "Margins of records are those of the noise alone, from the plan. For small counts and for areas off "
                "the spine they are mostly too wide. `confide infer replicate` learns better ones."
            )
        if source.replicates is None and source.tree is not None and self.method == "auto":
            result.append("There are no replicates, so that every margin is that of least squares.")
        result += self._eye_warnings()
        result += self._total_warnings()
        result += [
            f"{number:,} released figures of {query!r} in {kind!r} are further from least squares than noise, "
            f"estimation and rounding explain (a right release has one with a probability of {FALSE_ALARMS:g}): take "
            "the estimates of least squares, and tell the office that published the release."
            for (kind, query), number in self.far.items()
            if number
        ]
        for fit in self.fits:
            if fit.suspicious:
                assert source.tree is not None
                result.append(
                    f"The measurements of {fit.query!r} on the level {self._level_name(fit.level)!r} do not fit: their "
                    f"residuals have {fit.ratio:.3g} times the expected variance. A strategy, a spine, a word or a "
                    "file is not the one that the noise was made with; no margin here can be relied on."
                )
        return result

    def _eye_warnings(self) -> list[str]:
        counted = sorted(((number, key) for key, number in self.eyes.items() if number), reverse=True)
        if not counted:
            return []
        listed = [f"{number:,} of {query!r} in {kind!r}" for number, (kind, query) in counted[:MOST_EYES]]
        if rest := counted[MOST_EYES:]:
            listed.append(f"{sum(number for number, _ in rest):,} elsewhere")
        return [
            f"Small positive counts are often noise ({'; '.join(listed)}). The margin of least squares is right for "
            "all figures together and too narrow for these, which noise has moved up more often than down. The column "
            "catches_the_eye marks them."
        ]

    def _total_warnings(self) -> list[str]:
        """Public files do not have the totals of the States, which are published as they are."""
        source = self.source
        states = next((areas for areas in source.geographies if areas.kind == "state"), None)
        if source.released is not None or states is None:
            return []
        total = source.vocabulary.query("total")
        variance = source.answers.variances(self._placed(states), np.arange(states.areas), total.groups)[:, 0]
        codes = [states.codes[area] for area in np.flatnonzero(variance > KNOWN_SD**2).tolist()]
        if not codes:
            return []
        listed = f"{', '.join(codes[:5])}{' and others' if len(codes) > 5 else ''}"
        return [
            f"The number of people is not known in {len(codes):,} of {states.areas:,} States ({listed}). It is "
            "published as it was counted, and measurement files do not have it: give it with --totals FILE."
        ]

    def _level_name(self, position: int) -> str:
        tree = self.source.tree
        assert tree is not None
        return tree.names[tree.position.index(position)]

    def fit_rows(self) -> list[dict[str, Any]]:
        """The goodness of fit, by level and query."""
        return [
            {
                "level": self._level_name(fit.level),
                "query": fit.query,
                "measurements": fit.measurements,
                "squares": fit.squares,
                "degrees_of_freedom": fit.expected,
                "ratio": fit.ratio,
                "deviation": fit.deviation,
                "suspicious": fit.suspicious,
            }
            for fit in self.fits
        ]

    def facts(self) -> dict[str, Any]:
        """Everything but the rows: source, rule, fit, warnings."""
        source = self.source
        constraints = None if source.tree is None else source.tree.constraints
        return {
            "ok": True,
            "source": str(source.folder),
            "title": source.title,
            "plan_hash": None if source.released is None else source.released.manifest["plan_hash"],
            "manifest_sha256": None if source.replicates is None else source.replicates.source.released.manifest_sha256,
            "measurements": None if source.tree is None else source.tree.folder.fingerprint(),
            "measurements_left_out": [] if source.tree is None else list(source.tree.left_out),
            "replicates": None if source.replicates is None else source.replicates.number,
            "totals": dict(source.totals),
            "constraints_used": [] if constraints is None else list(constraints.used),
            "constraints_not_used": {} if constraints is None else dict(constraints.not_used),
            "method": self.method,
            "methods": area_statements.METHODS,
            "levels": list(self.levels),
            "at_once": self.at_once,
            "geographies": [{"name": kind.kind, "areas": kind.areas} for kind in self.kinds],
            "queries": [{"name": query.name, "cells": query.cells} for query in self.queries],
            "rule": [choice.as_dict() for choice in self.choices],
            "fit": self.fit_rows(),
            "warnings": self.warnings,
            "not_covered": NOT_COVERED,
        }

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``: the facts, with all rows."""
        rows = [row for kind in self.kinds for row in self.table(kind.kind).to_pylist()]
        values = self.facts() | {"estimates": rows}
        if self.shares:
            values["shares"] = [row for kind in self.kinds for row in self.share_rows(kind)]
        if self.quantiles:
            values["quantiles"] = [row for kind in self.kinds for row in self.quantile_rows(kind)]
        return values


def infer(
    source: InferenceSource,
    queries: Sequence[str] = (),
    geographies: Sequence[str] = (),
    *,
    areas: Sequence[AreaSet | Area] = (),
    levels: Sequence[float] = LEVELS,
    method: str = "auto",
    at_once: bool = False,
    shares: Sequence[str] = (),
    tables: Sequence[str] = (),
    quantiles: Sequence[str] = (),
) -> Inference:
    """Estimates with margins.

    Args:
        source: What :func:`open_source` opened.
        queries: Queries such as ``total`` or ``hispanic*cenrace``; without them, and without tables, the total and what
            is measured.
        geographies: Levels and kinds of area of the source; without them and without areas all but the blocks.
        areas: Other areas.
        levels: The coverage of the intervals; for each of several there are rows.
        method: ``auto``, ``gls`` (least squares for all) or ``release`` (the records for all).
        at_once: Whether the intervals of all cells of a query in an area hold at once, rather than each by itself.
        shares: Shares such as ``hispanic=1/total``.
        tables: Tables of the product by name, such as ``p1``: each line is a query of one cell.
        quantiles: Quantiles of ordered attributes such as ``age`` (its median) or ``age=0.9``.

    Returns:
        The answer; its rows are made when they are asked for.

    >>> import confide
    >>> answer = confide.infer(confide.open_source(topdown), ["total"], ["state"])
    >>> [query.name for query in answer.queries]
    ['total']
    """
    if method not in get_args(area_statements.Method):
        raise ParameterError(
            "bad-inference/method",
            where=Place(path="--method"),
            found=method,
            expected=", ".join(get_args(area_statements.Method)),
        )
    if method == "gls" and source.tree is None:
        raise no_measurements(source.folder)
    if method == "release" and source.released is None:
        raise ParameterError("bad-inference/folder", where=Place(path="--method"), found=method)
    for level in levels:
        try:
            checked_level(level)
        except ParameterError as error:
            raise ParameterError([replace(one, where=Place(path="--level")) for one in error.findings]) from None
    sets = [one if isinstance(one, AreaSet) else _area_set(source, one) for one in areas]
    named = list(dict.fromkeys(geographies)) or ([] if sets else source.default_geographies)
    taken = [kind for kind in sets if kind.kind in named]
    kinds = [*chosen([*sets, *source.geographies], named), *(kind for kind in sets if kind not in taken)]
    asked = [source.vocabulary.query(text) for text in queries]
    for name, times in Counter(query.name for query in asked).items():
        if times > 1:
            texts = [text for text, query in zip(queries, asked, strict=True) if query.name == name]
            raise ParameterError(
                "bad-inference/asked", where=Place(path="--query"), found=", ".join(texts), name=name, times=times
            )
    asked += [line for name in dict.fromkeys(tables) for line in _table(source, name)]
    asked = asked or [source.vocabulary.query(text) for text in source.default_queries]
    pairs = tuple(share_of(text) for text in shares)
    for pair in pairs:
        for count in pair:
            source.vocabulary.count(count)
    ordered = tuple(source.vocabulary.quantile(text) for text in quantiles)
    if (pairs or ordered) and source.tree is None:
        raise no_measurements(source.folder)
    return Inference(source, tuple(kinds), tuple(asked), tuple(levels), method, at_once, pairs, ordered)  # type: ignore[arg-type]


def _table(source: InferenceSource, name: str) -> tuple[AskedQuery, ...]:
    lines = source.tables.get(name) or source.tables.get(name.lower())
    if lines is None:
        raise ParameterError(
            "bad-inference/table", where=Place(path="--table"), found=name, name=name, tables=", ".join(source.tables)
        )
    return lines


def _area_set(source: InferenceSource, area: Area) -> AreaSet:
    blocks = np.flatnonzero(np.isin(source.block_codes, np.array(area.blocks, np.str_)))
    return AreaSet(area.name, (area.name,), blocks, np.zeros(len(blocks), np.int64))


CODES = [
    area_statements.EXACT,
    area_statements.LEAST_SQUARES,
    area_statements.RECORDS,
    area_statements.RECORDS_PLAN,
    area_statements.RECORDS_ALONE,
]


def _number(values: Any, there: Booleans | None = None) -> pa.Array:
    flat = np.asarray(values).ravel()
    gone = np.isnan(flat) if there is None else ~there.ravel()
    return masked(flat, gone)


def _missing(number: int, kind: pa.DataType | None = None) -> pa.Array:
    return pa.nulls(number, kind or pa.float64())


HEAD = (
    described("geography", "kind of area", pa.string()),
    described("code", "code of the area", pa.string()),
    described("query", "what is counted", pa.string()),
)
LABEL = described("label", "whom the line of a table counts", pa.string())
COLUMNS = (
    described("estimate", "the estimate that the margin belongs to", pa.float64()),
    described("sd", "its standard deviation, or root mean squared error", pa.float64()),
    described("variance", "the square of it", pa.float64()),
    described("low", "lower end of the interval", pa.int64()),
    described("high", "upper end of the interval", pa.int64()),
    described("level", "coverage of the interval", pa.float64()),
    described("method", "exact, gls, release+amc, release+plan or release", pa.string()),
    described("gls", "estimate by least squares", pa.float64()),
    described("gls_sd", "its standard deviation", pa.float64()),
    described("released", "figure of the released records", pa.int64()),
    described("amc_rmse", "root mean squared error of such figures, from replicates or from the plan", pa.float64()),
    described("amc_bias", "mean error of such figures in replicates", pa.float64()),
    described("units", "how many units of the spine make up the area", pa.int64()),
    described("bounded", "whether there is a bounded interval", pa.bool_()),
    described("catches_the_eye", "whether the margin is too small because the figure was looked at for it", pa.bool_()),
)
