"""A sealed TopDown release read for its risk, and the effective rho of its counts. No truth is needed.

What is read: plan, strategy, spine and published counts. The manifest has the plan, and the table ``units`` what the
frame says of every block. The spine is made of both again, and has to have the published fingerprint. A strategy of
one's own is read from the manifest, or from the spec where an early release does not have it.

The effective rho of a count, given every noisy measurement of a release. Someone who knows how many *others* are in a
cell, and nothing about any other cell, learns whether the target is in it as well as from one Gaussian count of
variance Var, that of least squares on the whole tree (``tree_covariances``):

    effective rho = 1 / (2 Var).

Someone who knows the others in two cells, of which the target is in one, has dᵀV⁻¹d/2 with d = (1, −1) and V the
covariance of the two. Someone who knows all others has the whole loss of the plan for that change, which is never less.
Other knowledge lies between: ``docs/proofs/release-risk.md``, section 2. Units, cells and pairs of cells are as many as
they are; rho follows from plan, spine and public zeros alone, and never from the records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from confide.arrays import Floats, Integers
from confide.documents import shipped
from confide.errors import ConfideError, Place, ReleaseError
from confide.estimation.tree_covariances import LevelAnswers
from confide.mechanisms import SPECS
from confide.mechanisms.topdown.output.settings import RECORDS, UNITS
from confide.mechanisms.topdown.released_problem import (
    ACCURACY,
    released_frame,
    released_spine,
    released_strategy,
    released_table,
)
from confide.mechanisms.topdown.spec import TopDownPart, TopDownSpec
from confide.mechanisms.topdown.spine import TopDownLevel, TopDownSpine
from confide.mechanisms.topdown.strategy import Strategy
from confide.mechanisms.topdown.strategy_file import KIND, load_strategy
from confide.mechanisms.topdown.whole_tree import planned_tree, sectors_of
from confide.noise import DiscreteGaussian
from confide.releases.folder import read_manifest, release_of
from confide.releases.plan import Plan, read_plan
from confide.releases.spec import load_spec
from confide.releases.workspace import Workspace
from confide.schema import DETAILED

NEEDED = ("strategy", "record", "spine", "spine_settings", "levels", "areas", "frame_columns", "layout", "output")
"""What a plan has to say besides its measurements: how they hang together, and what was published of them."""


@dataclass(frozen=True, eq=False)
class ReleasedPlan:
    """What a release says of its own making."""

    folder: Path
    manifest: dict[str, Any]
    plan: Plan
    strategy: Strategy
    spine: TopDownSpine
    columns: dict[str, Integers]
    """Counts of the frame that constraints use, in the order of the spine's blocks."""

    @property
    def facts(self) -> dict[str, Any]:
        """What decided the release besides its measurements."""
        question: dict[str, Any] = self.manifest["plan"]["question"]
        return question

    def records(self) -> tuple[Integers, Integers]:
        """The published records: for each, the row of its block in the frame and its cell of the histogram."""
        block = self.facts["layout"]["block"]
        try:
            # A code of an attribute may look like a number: it is cast below, as it stands in the plan.
            table = released_table(self.folder, self.manifest, f"tables/{RECORDS}", [block])
        except (OSError, pa.ArrowException):
            raise _cannot(self.folder, f"the table {RECORDS!r} cannot be read", "no readable file") from None
        codes = self.spine.frame.blocks.codes
        row_of_unit = np.empty(len(codes), np.int64)
        row_of_unit[self.spine.frame.blocks.unit_of_block] = np.arange(len(codes))
        place = pc.index_in(table.column(block).cast(pa.string()), value_set=pa.array(codes))
        cell = np.zeros(table.num_rows, np.int64)
        valid = pc.is_valid(place).to_numpy()
        for name, listed in self.facts["output"]["codes"].items():
            values = table.column(name)
            index = pc.index_in(values, value_set=pa.array(listed).cast(values.type))
            valid &= pc.is_valid(index).to_numpy()
            cell = cell * len(listed) + pc.fill_null(index, 0).to_numpy().astype(np.int64)
        if not valid.all():
            raise _cannot(
                self.folder, "the records do not fit the plan", f"{int((~valid).sum()):,} records that do not"
            )
        return row_of_unit[place.to_numpy().astype(np.int64)], cell


def open_release(path: Path, spec: Path | None = None) -> ReleasedPlan:
    """The release in a folder, or that of the run in a folder. ``spec`` where the strategy does not ship.

    Args:
        path: A sealed release, or the folder of a run.
        spec: The spec, where the strategy does not ship.

    Returns:
        Plan, strategy and spine of the release, made again from public files.
    """
    run = Workspace(path)
    folder = release_of(path)
    manifest = read_manifest(folder)
    plan = read_plan(manifest["plan"])
    if not plan.measures or not set(NEEDED) <= plan.question.keys():
        raise _cannot(folder, "this is not a release of the TopDown algorithm", manifest["mechanism"])
    identity = run.identity() if spec is None and folder != path else None
    if identity is not None and (path / identity.spec).is_file():
        spec = path / identity.spec
    settings = None if spec is None else _read_spec(spec, folder)
    try:
        strategy = _strategy(folder, manifest, spec, settings)
        frame, columns = released_frame(folder, manifest)
        spine = released_spine(folder, manifest, strategy, frame, columns)
    except (OSError, pa.ArrowException):
        raise _cannot(folder, f"the table {UNITS!r} cannot be read", "no readable file") from None
    except (KeyError, TypeError, ValueError):
        raise _cannot(folder, "the release does not say how it was made", "another form of the plan") from None
    return ReleasedPlan(
        folder, manifest, plan, strategy, spine, {name: values[spine.rows] for name, values in columns.items()}
    )


def _read_spec(spec: Path, folder: Path) -> TopDownPart:
    loaded = load_spec(spec, SPECS).spec
    if not isinstance(loaded, TopDownSpec):
        raise _cannot(folder, "the spec is not one of the TopDown algorithm", str(spec))
    return loaded.topdown


def _strategy(folder: Path, manifest: dict[str, Any], spec: Path | None, settings: TopDownPart | None) -> Strategy:
    described = manifest["plan"]["question"]["strategy"]
    name = described["id"] if settings is None else settings.strategy
    if settings is None and name not in shipped(KIND):
        if ACCURACY in manifest:
            return released_strategy(manifest)
        raise _cannot(folder, "the strategy of the release does not ship with Confide", described["id"], need_spec=True)
    base = Path() if spec is None else spec.parent
    try:
        strategy = load_strategy(name, base, root=described["root"], budget=Fraction(described["budget"]))
        strategy = strategy.with_smallest(described["levels"][-1]["name"])
        same = strategy.as_dict() == described
    except ConfideError:
        same = False
    if not same and settings is None and ACCURACY in manifest:
        return released_strategy(manifest)  # a strategy of somebody's own, under the name of one that ships
    if not same:
        raise _cannot(folder, "the strategy is not the one of the release", described["id"], need_spec=True)
    return strategy


def _cannot(folder: Path, what: str, found: str, *, need_spec: bool = False) -> ReleaseError:
    return ReleaseError(
        "no-release-risk",
        what,
        where=Place(file=str(folder)),
        found=found,
        expected="a sealed release whose plan has a strategy and a spine, as those of the TopDown algorithm have",
        remedy="give the spec of the release with --spec" if need_spec else "check the folder with `confide verify`",
    )


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
