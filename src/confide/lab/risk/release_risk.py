"""The risk of a whole release: effective rho by level and query, what it does to beliefs, and where it is largest.

Everything follows from the plan, the spine and the published records. Between the two ends, someone who knows the
others in one cell and nothing else, and someone who knows everybody else, lies every adversary who knows some counts of
others exactly and nothing of the rest (``docs/proofs/release-risk.md``).

The effective rho of a count, given every noisy measurement of a release. Someone who knows how many *others* are in a
cell, and nothing about any other cell, learns whether the target is in it as well as from one Gaussian count of
variance Var, that of least squares on the whole tree (``tree_covariances``):

    effective rho = 1 / (2 Var).

Someone who knows the others in two cells, one of them the target's, has dᵀV⁻¹d/2 with d = (1, −1) and V the
covariance of the two. Someone who knows all others has the whole loss of the plan for that change, which is never less.
Other knowledge lies between: ``docs/proofs/release-risk.md``, section 2. Units, cells and pairs of cells are as many as
they are; rho follows from plan, spine and public zeros alone, and never from the records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confide.answers import AnswerPart, Said, ShownTable, TypedAnswer
from confide.arrays import Floats, Integers
from confide.estimation.tree_covariances import LevelAnswers
from confide.exact import Exact, probability
from confide.mechanisms.topdown.from_below import planned_tree
from confide.mechanisms.topdown.released_problem import ReleasedPlan, released_plan
from confide.mechanisms.topdown.spine import TopDownLevel, TopDownSpine
from confide.mechanisms.topdown.strategy import Strategy, sectors_of
from confide.noise import DiscreteGaussian
from confide.privacy import ZCDP
from confide.releases.plan import Plan, loss_by_attribute, loss_by_move
from confide.report.charts import Chart, Pictures, chart
from confide.schema import DETAILED

# What an adversary believes afterwards: the expected posterior of the truth, for an effective rho.
#
# The log-odds of "the target is in the cell" go up by ρ(2X − 1), where X is the estimate less the others. With the
# target in the cell X is 1 plus noise of variance 1/(2ρ); an estimate from many counts is as good as Gaussian, so
# that
#
#     m(p, ρ) = E σ(logit p + ρ + √(2ρ) Z),   Z standard normal,   σ(x) = 1/(1 + e⁻ˣ),
#
# and m/p rises from 1 at ρ = 0, never above e^(2ρ) and 1/p. The expectation is a trapezoidal sum, which converges
# faster than any power of its step. Reference: Kazan & Reiter (2024), equation 3.3, for one count with discrete noise
# (``lab.risk.bayesian.one_level``): the two agree to five digits for rho up to a half, to eight up to a third.


# The effective rho of a count, given every noisy measurement of a release.


Bools = NDArray[np.bool_]

NOTHING = 1e-9
"""A variance below this part of the smallest noise is none: the count is published as it is."""

TELLS_NOTHING = 1e6
"""A variance above this multiple of the largest noise comes from the vague prior: nothing tells the count."""


@dataclass(frozen=True, eq=False)
class LevelRho:
    """Effective rho on one level, by kinds of units that are alike.

    Infinite where a count is published as it is; NaN where it is zero by public knowledge; zero where nothing tells it.
    """

    level: TopDownLevel
    kind: Integers
    """For each unit its kind."""
    rho: Mapping[str, Floats]
    """For each query: kinds x groups of cells that are alike."""
    between: Mapping[str, Floats]
    """For each attribute: kinds x pairs of histogram cells that differ in it alone."""

    @property
    def units(self) -> Integers:
        """The number of units of each kind."""
        return np.bincount(self.kind, minlength=len(next(iter(self.rho.values()))))


class EffectiveRho:
    """The effective rho of every query on every level of a plan.

    ``public_zeros``: whether the adversary uses cells that the frame makes impossible in a block, such as group
    quarters of a type that it does not have. Structural zeros and known totals are always used.
    """

    def __init__(
        self,
        strategy: Strategy,
        spine: TopDownSpine,
        plan: Plan,
        columns: Mapping[str, Integers],
        *,
        public_zeros: bool = True,
    ):
        self._strategy, self._spine, self._plan, self._columns = strategy, spine, plan, columns
        self._public_zeros = public_zeros
        self._axes = [attribute.name for attribute in strategy.schema.attributes]
        self.reduction, self._asked = sectors_of(strategy, public_zeros=public_zeros)
        self.queries = tuple(self._asked)

    @cached_property
    def levels(self) -> tuple[LevelRho, ...]:
        """Level by level, root first."""
        tree = planned_tree(
            self._strategy,
            self._spine,
            self._plan,
            self._columns,
            public_zeros=self._public_zeros,
            variance=lambda law: float(_parameter(law)),
        )
        return tuple(
            self._effective(level, tree.covariances.evaluate(position, self._evaluate))
            for level, position in zip(self._spine.levels, tree.position, strict=True)
        )

    @cached_property
    def presence(self) -> tuple[float, float]:
        """½ Σ 1/σ² over the measurements of a path, least and most: rho of someone who knows everybody else, and asks
        whether one more record is there."""
        paths = self._plan.paths or (tuple(range(len(self._plan.measures))),)
        sums = [sum((1 / (2 * _sigma2(self._plan, number)) for number in path), Fraction()) for path in paths]
        return float(min(sums)), float(max(sums))

    def core_of(self, cell: Integers) -> Integers:
        """For cells of the histogram, the column of ``rho[DETAILED]`` that has them."""
        index = np.unravel_index(cell, self.reduction.shape)
        if not self.reduction.core:
            return np.zeros(len(cell), np.int64)
        core = [index[axis] for axis in self.reduction.core]
        return np.asarray(np.ravel_multi_index(core, self.reduction.core_shape), np.int64)

    def core_label(self, core: int) -> str:
        """The levels that the cells of a column of ``rho[DETAILED]`` have in common, in words."""
        attributes = [self._strategy.schema.attributes[axis] for axis in self.reduction.core]
        index = np.unravel_index(core, self.reduction.core_shape) if attributes else ()
        labels = (attribute.levels[int(i)].label for attribute, i in zip(attributes, index, strict=True))
        return ", ".join(labels) or "every cell"

    def _evaluate(self, covariance: Floats) -> Floats:
        """Variances of all queries, then for each attribute the rho between two of its levels, side by side."""
        parts = []
        for name in self.queries:
            members, weights = self._members[name], self.reduction.cell_weights(self._asked[name])
            mixed = np.einsum("s,ksmn->kmn", weights, covariance)
            parts.append(np.einsum("gm,kmn,gn->kg", members, mixed, members))
        weights = self.reduction.cell_weights(self._asked[DETAILED])
        own = np.einsum("s,ksmn->kmn", weights, covariance)
        diagonal = np.einsum("kmm->km", own)
        for axis, pairs in self._pairs.items():
            one, other = pairs
            if axis in self.reduction.free:
                across = np.einsum("s,ksmm->km", self.reduction.weights_across(axis), covariance)
                parts.append(_between(diagonal, diagonal, across))
            else:
                parts.append(_between(diagonal[:, one], diagonal[:, other], own[:, one, other]))
        return np.concatenate(parts, axis=1)

    @cached_property
    def _members(self) -> dict[str, Floats]:
        return {name: _counted(query.members) for name, query in self._asked.items()}

    @cached_property
    def _pairs(self) -> dict[int, tuple[Integers, Integers]]:
        """For each attribute, pairs of core cells that differ in it alone; a core cell and itself if it is free."""
        cells = np.arange(self.reduction.size)
        index = np.indices(self.reduction.core_shape).reshape(-1, len(cells))
        result = {}
        for axis, size in enumerate(self.reduction.shape):
            if size < 2:
                continue
            if axis in self.reduction.free:
                result[axis] = (cells, cells)
                continue
            place = self.reduction.core.index(axis)
            others = np.delete(index, place, axis=0)
            one, other = np.nonzero(np.triu((others[:, :, None] == others[:, None, :]).all(axis=0), 1))
            result[axis] = (one, other)
        return result

    def _effective(self, level: TopDownLevel, variances: LevelAnswers) -> LevelRho:
        rho, between = {}, {}
        start = 0
        for name in self.queries:
            members = self._members[name]
            values = variances.values[:, start : start + len(members)]
            start += len(members)
            possible = (variances.possible.astype(float) @ members.T) > 0
            rho[name] = np.where(possible, self._rho(values), np.nan)
        for axis, (one, other) in self._pairs.items():
            values = variances.values[:, start : start + len(one)]
            start += len(one)
            possible = variances.possible[:, one] & variances.possible[:, other]
            between[self._axes[axis]] = np.where(possible, np.nan_to_num(values, posinf=np.inf), np.nan)
        return LevelRho(level, variances.kind, rho, between)

    def _rho(self, variance: Floats) -> Floats:
        smallest, largest = self._noise
        known, open_ = variance < NOTHING * smallest, ~(variance < TELLS_NOTHING * largest)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(known, np.inf, np.where(open_, 0.0, 1 / (2 * variance)))

    @cached_property
    def _noise(self) -> tuple[float, float]:
        parameters = [_parameter(measure.law) * measure.cells for measure in self._plan.measures]
        plain = [_parameter(measure.law) for measure in self._plan.measures]
        return float(min(plain)), float(max(parameters))


def _between(one: Floats, other: Floats, across: Floats) -> Floats:
    """dᵀV⁺d/2 for d = (1, −1); where the sum of the two is known, one tells the other."""
    determinant = one * other - across**2
    tied = determinant <= NOTHING * one * other
    with np.errstate(divide="ignore", invalid="ignore"):
        free: Floats = (one + other + 2 * across) / (2 * determinant)
        return np.where(tied, 1 / (2 * np.maximum(one, other)), free)


def rho_from_covariance(covariance: Sequence[Sequence[float]] | Floats, change: Sequence[float] | Floats) -> float:
    """δᵀV⁺δ/2: effective rho of someone who knows the others in some counts that change by δ, and nothing else.

    Args:
        covariance: Of the estimates of the counts, of shape (counts, counts).
        change: By how much each count changes with the target.

    Returns:
        The effective rho; infinite where a sum that is known would change.

    >>> rho_from_covariance([[2.0]], [1.0])
    0.25
    """
    matrix, delta = np.asarray(covariance, float), np.asarray(change, float)
    inverse = np.linalg.pinv(matrix, rcond=NOTHING, hermitian=True)
    if not np.allclose(matrix @ inverse @ delta, delta, atol=1e-6):
        return float("inf")  # a sum that is known would change
    return float(delta @ inverse @ delta) / 2


def _sigma2(plan: Plan, number: int) -> Fraction:
    return _parameter(plan.measures[number].law)


def _parameter(law: object) -> Fraction:
    assert isinstance(law, DiscreteGaussian)
    return law.sigma2


def _counted(members: Floats) -> Floats:
    """Groups that have a cell."""
    return members[members.any(axis=1)]


# The report.

_STEP = 1 / 64
_GRID = np.arange(-12, 12 + _STEP, _STEP)
_WEIGHTS = np.exp(-(_GRID**2) / 2) * _STEP / np.sqrt(2 * np.pi)


def expected_posterior(prior: Exact, rho: float | NDArray[np.float64]) -> NDArray[np.float64]:
    """m(p, ρ), for one rho or an array of them; 1 where rho is infinite.

    Args:
        prior: The belief beforehand.
        rho: Effective rhos: one, or an array.

    Returns:
        An array of the shape of ``rho``, at least of one dimension.

    >>> expected_posterior("1/2", 0.1).round(4).tolist()
    [0.5238]
    """
    p = probability(prior, "prior")
    values = np.atleast_1d(np.asarray(rho, float))
    finite = np.where(np.isfinite(values), values, 0.0)[..., None]
    shifted = np.log(float(p / (1 - p))) + finite + np.sqrt(2 * finite) * _GRID
    with np.errstate(over="ignore"):
        mean = (_WEIGHTS / (1 + np.exp(-shifted))).sum(axis=-1) / _WEIGHTS.sum()
    return np.where(np.isposinf(values), 1.0, mean)


# What a release publishes, counted: small cells and the units with the least protection. From its public files alone.
#
# The counts are those of the protected records. That a published cell is one does not say that somebody is alone in
# it: noise makes ones, and unmakes them. How many there are is still the first thing that readers ask.


SIZES = ((0, 0), (1, 1), (2, 2), (3, 9), (10, None))
"""Classes of published counts, from and to."""


def size_name(low: int, high: int | None) -> str:
    """A class of counts in words: 0, 3-9, 10+."""
    return f"{low}+" if high is None else str(low) if low == high else f"{low}-{high}"


@dataclass(frozen=True, eq=False)
class PublishedRecords:
    """The published records on the spine and on the official levels."""

    release: ReleasedPlan
    row: Integers
    """For each record the row of its block in the frame."""
    cell: Integers

    @classmethod
    def of(cls, release: ReleasedPlan) -> PublishedRecords:
        return cls(release, *release.records())

    def by_size(self) -> list[dict[str, Any]]:
        """For each official level, how many histogram cells of its units have a published count of each size, and how
        many records are in those. Cells that are structurally zero are left out, and units without a block."""
        strategy, spine = self.release.strategy, self.release.spine
        possible = int((~strategy.constraints.zero_cells(strategy.schema)).sum())
        cells = len(strategy.constraints.zero_cells(strategy.schema))
        result = []
        for level in spine.frame.levels:
            units = len(np.unique(level.unit_of_block[spine.rows]))
            _, counts = np.unique(level.unit_of_block[self.row] * cells + self.cell, return_counts=True)
            classes = {}
            for low, high in SIZES:
                inside = counts[(counts >= low) & ((counts <= high) if high is not None else True)]
                number = len(inside) if low else units * possible - len(counts)
                classes[size_name(low, high)] = {"cells": number, "records": int(inside.sum())}
            result.append({"level": level.name, "units": units, "counts": classes})
        return result

    def by_record(self, effective: EffectiveRho) -> Floats:
        """The effective rho of the histogram cell of its block, for each record."""
        blocks = effective.levels[-1]
        place = np.full(len(self.release.spine.frame.blocks.unit_of_block), -1, np.int64)
        place[self.release.spine.rows] = np.arange(len(self.release.spine.rows))
        rho: Floats = blocks.rho[DETAILED][blocks.kind[place[self.row]], effective.core_of(self.cell)]
        return rho

    def in_units(self, level: LevelRho) -> Integers:
        """The number of records in each unit of a level of the spine."""
        spine = self.release.spine
        place = np.full(len(spine.frame.blocks.unit_of_block), 0, np.int64)
        place[spine.rows] = spine.unit_of_block(level.level.name)
        return np.bincount(place[self.row], minlength=level.level.units)


def least_protected(
    effective: EffectiveRho, level: LevelRho, published: PublishedRecords, most: int
) -> list[dict[str, Any]]:
    """The units of a level with the largest effective rho of a histogram cell: few siblings, a share taken over from an
    only child, or cells that no other unit has.

    Args:
        effective: The effective rho of every count.
        level: The level of the spine.
        published: The published records.
        most: How many units are listed.

    Returns:
        A row for each unit, the least protected first.
    """
    spine = published.release.spine
    rho = np.where(np.isnan(level.rho[DETAILED]), 0.0, level.rho[DETAILED])
    worst = rho.max(axis=1)[level.kind]
    order = np.argsort(-worst, kind="stable")[:most].tolist()
    ids, records = spine.ids(level.level.name), published.in_units(level)
    codes = None if spine.split is not None else spine.official_codes(level.level.name)
    parent = level.level.parent
    siblings = np.bincount(parent)[parent] - 1 if len(parent) else np.zeros(level.level.units, np.int64)
    return [
        {
            "level": level.level.name,
            "unit": str(ids[unit]),
            "code": None if codes is None else str(codes[unit]),
            "cell": effective.core_label(int(rho[level.kind[unit]].argmax())),
            "rho": float(worst[unit]) if np.isfinite(worst[unit]) else None,
            "siblings": int(siblings[unit]),
            "blocks": int(level.level.first_block[unit + 1] - level.level.first_block[unit]),
            "share": str(level.level.shares[unit]),
            "records": int(records[unit]),
        }
        for unit in order
    ]


PRIORS = (Fraction(1, 2), Fraction(1, 5), Fraction(1, 10), Fraction(1, 50))
QUANTILES = (0.0, 0.1, 0.5, 0.9, 1.0)


@dataclass(frozen=True, eq=False)
class ReleaseRisk(TypedAnswer):
    """The risk report of one release; :meth:`as_dict` has all of it."""

    release: ReleasedPlan
    priors: tuple[Fraction, ...]
    worst: int = 3
    public_zeros: bool = True

    @cached_property
    def effective(self) -> EffectiveRho:
        """Effective rho, level by level."""
        plan = self.release
        return EffectiveRho(plan.strategy, plan.spine, plan.plan, plan.columns, public_zeros=self.public_zeros)

    @cached_property
    def published(self) -> PublishedRecords:
        """The published records."""
        return PublishedRecords.of(self.release)

    def everybody_else(self) -> dict[str, Any]:
        """The upper end: rho of someone who knows every other record, for each kind of question.

        ``presence`` compares with no record at all. Where the number of records is known, a record that is not in a
        cell is in another, and ``cell`` is the loss of a change; otherwise it is the presence.
        """
        plan = self.release.plan
        least, most = self.effective.presence
        change = _rho(plan.loss)
        return {
            "cell": change if self.release.strategy.total_is_invariant else most,
            "presence": most,
            "presence_least": least,
            "change_one": change,
            "by_attribute": {name: _rho(loss) for name, loss in loss_by_attribute(plan).items()},
            "by_move_within": {name: _rho(loss) for name, loss in loss_by_move(plan).items()},
        }

    def by_level(self) -> list[dict[str, Any]]:
        """The lower end: for each level and query the effective rho over units and cells, with the posteriors of the
        largest; and for each attribute that of telling two of its levels apart."""
        result = []
        for level in self.effective.levels:
            measured = {query.name for query in self.release.strategy.level(level.level.name).queries}
            queries = [
                {"query": name, "measured": name in measured} | self._summary(level, values)
                for name, values in level.rho.items()
            ]
            between = {name: self._summary(level, values) for name, values in level.between.items()}
            result.append(
                {"level": level.level.name, "units": level.level.units, "queries": queries, "between": between}
            )
        return result

    def by_record(self) -> dict[str, Any]:
        """The effective rho of the block cell that each published record is in: quantiles over records."""
        rho = self.published.by_record(self.effective)
        defined = rho[~np.isnan(rho)]
        quantiles = (
            np.quantile(defined, QUANTILES, method="inverted_cdf") if len(defined) else np.full(len(QUANTILES), np.nan)
        )
        return {
            "records": len(rho),
            "rho": {f"{quantile:g}": _plain(value) for quantile, value in zip(QUANTILES, quantiles, strict=True)},
        }

    def as_dict(self) -> dict[str, Any]:
        """The report as plain values."""
        return self._values

    @cached_property
    def _values(self) -> dict[str, Any]:
        release = self.release
        everybody = self.everybody_else()
        return {
            "release": release.manifest["release"],
            "title": release.manifest["title"],
            "plan_hash": release.manifest["plan_hash"],
            "record": release.facts["record"],
            "measurements_published": bool(release.facts["measurements"]),
            "neighbours": release.plan.neighbours.value,
            "public_zeros": self.public_zeros,
            "cells": int(np.prod(self.effective.reduction.shape)),
            "priors": [str(prior) for prior in self.priors],
            "knows_everybody_else": everybody | {"posterior_cell": self._posteriors(everybody["cell"])},
            "by_level": self.by_level(),
            "by_record": self.by_record(),
            "published_counts": self.published.by_size(),
            "least_protected": [
                row | {"posterior": self._posteriors(row["rho"])}
                for level in self.effective.levels[1:]
                for row in least_protected(self.effective, level, self.published, self.worst)
            ],
        }

    def _summary(self, level: LevelRho, values: Floats) -> dict[str, Any]:
        """Least, median and largest over units and cells; counts that are published as they are aside."""
        weights = np.repeat(level.units, values.shape[1])
        flat = values.ravel()
        finite = np.isfinite(flat)
        least, median, most = (
            (flat[finite].min(), weighted_median(flat[finite], weights[finite]), flat[finite].max())
            if finite.any()
            else (np.nan, np.nan, np.nan)
        )
        return {
            "rho_least": _plain(least),
            "rho_median": _plain(median),
            "rho_most": _plain(most),
            "as_it_is": bool(np.isposinf(flat).any()),
            "posterior_median": self._posteriors(_plain(median)),
            "posterior_most": self._posteriors(_plain(most)),
        }

    def _posteriors(self, rho: float | None) -> dict[str, float | None]:
        return {str(prior): None if rho is None else float(expected_posterior(prior, rho)[0]) for prior in self.priors}

    def described(self) -> Iterator[AnswerPart]:
        """The report as tables, from its plain values."""
        values = self.as_dict()
        parts = (_head_described, _questions_described, _levels_described, _queries_described)
        for part in (*parts, _published_described, _worst_described):
            yield from part(values)

    def pictures(self) -> Pictures:
        """Effective rho by level, and what it does to beliefs, by name."""
        return {
            "effective-rho": lambda: _effective_chart(self.as_dict()),
            "beliefs": lambda: _beliefs_chart(self.as_dict()),
        }


def release_risk(
    path: str | Path,
    *,
    priors: Sequence[Exact] = (),
    worst: int = 3,
    public_zeros: bool = True,
) -> ReleaseRisk:
    """What every noisy measurement of a TopDown release, taken together, says about one person.

    Args:
        path: A sealed release, or the folder of a run.
        priors: What adversaries believe beforehand; without them 1/2, 1/5, 1/10, 1/50 and one over the number of cells.
        worst: How many of the least protected units of each level are listed.
        public_zeros: Whether it is known which kinds of group quarters a block does not have.

    Returns:
        The effective rho of every count by level and query, what it does to beliefs, and where protection is least.

    >>> from confide.lab import risk
    >>> sorted(risk.release(topdown, priors=["1/2"]).as_dict())[:3]
    ['by_level', 'by_record', 'cells']
    """
    release = released_plan(Path(path))
    cells = int(np.prod([attribute.size for attribute in release.strategy.schema.attributes]))
    chosen = tuple(probability(prior, "prior") for prior in priors) or (
        *PRIORS,
        *((Fraction(1, cells),) if cells > 2 else ()),
    )
    return ReleaseRisk(release, tuple(dict.fromkeys(chosen)), worst, public_zeros)


def weighted_median(values: Floats, weights: NDArray[np.int64]) -> float:
    """The smallest value that at least half of the weight is not above."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(reached, reached[-1] / 2)])


def _rho(loss: object) -> float:
    assert isinstance(loss, ZCDP)
    return float(loss.rho)


def _plain(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


# The answer in sentences, tables and pictures.


def _head_described(values: dict[str, Any]) -> Iterator[AnswerPart]:
    published = (
        "are published with it"
        if values["measurements_published"]
        else "are not published; the records follow from them"
    )
    yield Said(values["title"], f" ({values['release']})")
    yield f"All noisy measurements taken together. They {published}. No confidential record was read.\n"


def _questions_described(values: dict[str, Any]) -> Iterator[AnswerPart]:
    """Both ends, question by question, in a block."""
    everybody, block, record = values["knows_everybody_else"], values["by_level"][-1], values["record"]
    (detailed,) = (row for row in block["queries"] if row["query"] == "detailed")
    rows = [(f"is one {record} in this cell?", _number(everybody["cell"]), *_range(detailed))]
    rows += [
        (f"which {name} has one {record}?", _number(everybody["by_attribute"].get(name)), *_range(between))
        for name, between in block["between"].items()
    ]
    columns = ["question", "all others ", "there: least ", "median ", "largest "]
    what = f"Rho of questions about one {record} in a {block['level']}"
    yield ShownTable(columns, rows, title=f"{what}, for someone who knows all others, or those there alone")
    yield ""


def _levels_described(values: dict[str, Any]) -> Iterator[AnswerPart]:
    """Effective rho of a histogram cell, and beliefs, level by level."""
    priors = values["priors"]
    rows = []
    for level in values["by_level"]:
        (detailed,) = (row for row in level["queries"] if row["query"] == "detailed")
        chances = (_chance(detailed["posterior_most"][prior]) for prior in priors)
        rows.append((level["level"], f"{level['units']:,}", *_range(detailed), *chances))
    everybody = values["knows_everybody_else"]
    chances = (_chance(everybody["posterior_cell"][prior]) for prior in priors)
    rows.append(("all others known", "", "", "", _number(everybody["cell"]), *chances))
    columns = ["", "units ", "least ", "median ", "largest ", *(f"{prior} " for prior in priors)]
    yield ShownTable(
        columns, rows, title="Effective rho of a histogram cell, and the largest expected posterior by prior"
    )
    quantiles = values["by_record"]["rho"]
    yield (
        f"Half of the {values['by_record']['records']:,} published records are in block cells with rho "
        f"{_number(quantiles['0.5'])} or less, nine in ten with {_number(quantiles['0.9'])} or less.\n"
    )


def _queries_described(values: dict[str, Any]) -> Iterator[AnswerPart]:
    """The median of each query on each level."""
    levels = values["by_level"]
    rows = []
    for position, query in enumerate(row["query"] for row in levels[0]["queries"]):
        cells = (level["queries"][position] for level in levels)
        rows.append((query, *("as it is" if cell["as_it_is"] else _number(cell["rho_median"]) for cell in cells)))
    yield ShownTable(
        ["query", *(f"{level['level']} " for level in levels)], rows, title="Effective rho of a count, median"
    )
    yield ""


def _published_described(values: dict[str, Any]) -> Iterator[AnswerPart]:
    counts = values["published_counts"]
    sizes = list(counts[0]["counts"])
    rows = [
        (row["level"], f"{row['units']:,}", *(f"{row['counts'][size]['cells']:,}" for size in sizes)) for row in counts
    ]
    yield ShownTable(
        ["official level", "units ", *(f"{size} " for size in sizes)], rows, title="Published histogram cells by count"
    )
    yield "A published count of one does not mean one real person: the counts are those of protected records.\n"


def _worst_described(values: dict[str, Any]) -> Iterator[AnswerPart]:
    rows = [
        (
            row["level"],
            row["code"] or row["unit"],
            row["cell"],
            _number(row["rho"]),
            row["siblings"],
            f"{float(Fraction(row['share'])):.1%}" if Fraction(row["share"]) else "at its parent",
            f"{row['records']:,}",
        )
        for row in values["least_protected"]
    ]
    if rows:
        columns = ["level", "unit", "cells", "rho ", "siblings ", "share ", "published records "]
        yield ShownTable(columns, rows, title="Least protected units, and which cells")


def _effective_chart(answer: dict[str, Any]) -> Chart:
    """Effective rho of the finest queries and of the total on each level: least, median, largest."""
    levels = [level["level"] for level in answer["by_level"]]
    queries = [row["query"] for row in answer["by_level"][0]["queries"]]
    queries = ["detailed", *[name for name in reversed(queries) if name not in ("detailed", "total")][:2], "total"]
    rows = [
        {"level": level["level"], "query": row["query"]}
        | {key: row[f"rho_{key}"] for key in ("least", "median", "most")}
        for level in answer["by_level"]
        for row in level["queries"]
        if row["query"] in queries and row["rho_median"] is not None and row["rho_least"] > 0
    ]
    everybody = answer["knows_everybody_else"]["cell"]
    lowest = min((row["least"] for row in rows), default=everybody / 10)
    return chart(
        "release-effective-rho",
        rows,
        levels=levels,
        queries=queries,
        everybody=everybody,
        domain=[lowest / 1.5, everybody * 2.5],
    )


def _beliefs_chart(answer: dict[str, Any]) -> Chart:
    """The expected posterior by prior, for some adversaries about one cell of a block."""
    (block,) = (row for row in answer["by_level"][-1]["queries"] if row["query"] == "detailed")
    unit = answer["by_level"][-1]["level"]
    adversaries = {
        f"others in the cell, median {unit}": block["rho_median"],
        f"others in the cell, least protected {unit}": block["rho_most"],
        "everybody else": answer["knows_everybody_else"]["cell"],
    }
    priors = np.unique(np.concatenate([np.geomspace(1e-3, 0.5, 60), 1 - np.geomspace(1e-3, 0.5, 40)]))
    rows = [
        {"prior": float(prior), "posterior": float(expected_posterior(f"{prior:.9f}", rho)[0]), "knows": knows}
        for knows, rho in adversaries.items()
        if rho is not None
        for prior in priors
    ]
    return chart("release-beliefs", rows)


def _range(row: dict[str, Any]) -> tuple[str, str, str]:
    return _number(row["rho_least"]), _number(row["rho_median"]), _number(row["rho_most"])


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def _chance(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
