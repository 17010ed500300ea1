"""The board of a TopDown release: expected errors by level, places and groups, as functions of the shares.

A row is a query on a level, with a part of the budget: rho times the share of the level times the share of the query.
Its margin is 1.96 times the root of the mean variance of its cells in the areas of the level, by the theory of
:mod:`.expected_errors`, which every release states as ``accuracy.parquet``: least squares before non-negativity,

    mean variance = Σ_ℓ k_ℓ v_ℓ,

k_ℓ being how much of the noise of a level an area has on average, and v_ℓ the variance of a cell within a unit of it.
With tree evidence the variance is that of least squares on the whole tree, as the release states it. Places and other
areas beside the spine have rows without a part, whose margins follow from all parts.

What does not depend on parts is worked out once (:class:`BoardNoise`); v of a level whose parts keep their proportions
is the same but for a factor.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import exp, log, sqrt
from pathlib import Path
from statistics import NormalDist
from typing import Any, ClassVar, Self

import numpy as np

from confide.arrays import Floats, Integers
from confide.documents import load_named
from confide.errors import ParameterError
from confide.exact import exact_text, grouped
from confide.geography.spine import OUTSIDE
from confide.mechanisms.topdown.evaluate import ROUNDING, SMALLEST, NoiseTheory
from confide.mechanisms.topdown.expected_errors import Grouping, InSectors, MeansOfQueries, ReleasedNoise
from confide.mechanisms.topdown.problem import TopDownProblem
from confide.mechanisms.topdown.spec import TopDownSpec
from confide.mechanisms.topdown.strategy import TREE, Strategy, plan_of
from confide.mechanisms.topdown.strategy_file import STRATEGY, StrategyFile
from confide.mechanisms.topdown.tuned_strategy import share_runs, strategy_text, with_shares_of
from confide.mechanisms.topdown.whole_tree import grouping_of
from confide.noise import DiscreteGaussian
from confide.privacy import ZCDP
from confide.releases.boards import BoardEntry, BoardRow, LossClaim, Moving, TunedValues
from confide.releases.budget_board import MARGIN, PART, BudgetBoard, RowFacts, RowName, share_text, too_little
from confide.releases.spec import LoadedSpec
from confide.schema import TOTAL

Z = NormalDist().inv_cdf(0.975)
MOST_CELLS = 3000
"""Of a query with more cells the noise of its own measurement stands for the error."""
MOST_OFF_SPINE_CELLS = 300
EXACT_BELOW = 1.5
"""From this variance parameter on, the variance of a discrete Gaussian is the parameter itself, to ten digits."""
_STEPS = 24
MOST_KEPT = 2048
MOST_TREES = 4
"""Trees of so many choices are kept."""
LARGEST_FACTOR = 1e6
_CLOSE = 1e-6
SLACK = 2e-5
"""Margins that are looked for are smaller by this part than asked, so that rounded parts reach them too."""
Parts = Mapping[RowName, float]


@dataclass(frozen=True, eq=False)
class _Kind:
    """A kind of area: how many there are, and the area of each block of the spine."""

    areas: int
    area: Integers


@dataclass(frozen=True, eq=False)
class _Step:
    """From the parts of areas in units of a level to those in the units above: what does not depend on noise.

    Parts that are alike are one: areas are alike by the thousand, as what counts are the classes of their units, and
    of the units beside these.
    """

    position: int
    below: Integers
    """Of each kind of part what it was on the level below, and"""
    unit_class: Integers
    """the class of its unit, and"""
    number: Integers
    """how many there are."""
    above: Integers
    """Line by line a kind of part of a unit above,"""
    inside: Integers
    """a kind of part that it is made of, and"""
    times: Integers
    """how many of these it has."""
    beside: Integers
    """For each kind of part above how many units of each class the unit above has in all, and"""
    number_above: Integers
    """how many there are."""


@dataclass(frozen=True, eq=False)
class _WaysUp:
    """The steps from the blocks to the root, for the areas of a kind."""

    levels: int
    steps: tuple[_Step, ...]
    at_root: bool
    """Whether the last step is the root, where nothing above has a known sum."""

    def means(self, scales: Sequence[Floats]) -> Floats:
        """The sum of k over areas, level by level."""
        result = np.zeros(self.levels)
        part: Floats = np.ones(1)
        for step in self.steps:
            before, scale = part[step.below], scales[step.position]
            own = before * scale[step.unit_class]
            result[step.position] = own * before @ step.number
            if step.position or not self.at_root:
                first = np.bincount(step.above, step.times * own[step.inside])
                part = first / (step.beside @ scale)
                result[step.position] = max(0.0, float(result[step.position] - first * part @ step.number_above))
        return np.where(result < ROUNDING, 0.0, result)


def _ways_up(problem: TopDownProblem, kind: _Kind, together: tuple[int, Integers] | None) -> _WaysUp:
    inside = kind.area != OUTSIDE
    unit, area = np.flatnonzero(inside), kind.area[inside]
    alike = np.zeros(len(unit), np.int64)
    steps: list[_Step] = []
    levels = problem.spine.levels
    for position in range(len(levels) - 1, -1, -1):
        stops = together is not None and together[0] == position
        index, classes = levels[position].shares.index, len(levels[position].shares.table)
        kinds, own, number = np.unique(alike * classes + index[unit], return_inverse=True, return_counts=True)
        below, unit_class = np.divmod(kinds, classes)
        if position == 0 and not stops:
            nothing = np.zeros(0, np.int64)
            steps.append(_Step(0, below, unit_class, number, *[nothing] * 5))
            return _WaysUp(len(levels), tuple(steps), at_root=True)
        group = together[1] if together is not None and stops else levels[position].parent
        key, pair = np.unique(group[unit] * kind.areas + area, return_inverse=True)
        parents, next_area = np.divmod(key, kind.areas)
        beside = np.bincount(group * classes + index, minlength=(int(group.max()) + 1) * classes).reshape(-1, classes)
        lines, times = np.unique(pair.reshape(-1) * len(kinds) + own.reshape(-1), return_counts=True)
        line, part = np.divmod(lines, len(kinds))
        of_parts = _alike(line, np.stack([part, times], axis=1), len(key))
        unit_kinds = np.unique(beside, axis=0, return_inverse=True)[1].reshape(-1)
        _, first, alike, number_above = np.unique(
            of_parts * len(beside) + unit_kinds[parents], return_index=True, return_inverse=True, return_counts=True
        )
        place = np.full(len(key), -1, np.int64)
        place[first] = np.arange(len(first))
        kept = place[line] >= 0
        steps.append(
            _Step(
                position,
                below,
                unit_class,
                number,
                place[line[kept]],
                part[kept],
                times[kept],
                beside[parents[first]],
                number_above,
            )
        )
        if stops:
            break
        unit, area, alike = parents, next_area, alike.reshape(-1)
    return _WaysUp(len(levels), tuple(steps), at_root=False)


def _alike(row: Integers, lines: Integers, rows: int) -> Integers:
    """For each row a number that rows with the same lines share; rows are in order, and so are the lines of each.

    >>> _alike(np.array([0, 0, 1, 2, 2]), np.array([[1, 1], [2, 1], [1, 1], [1, 1], [2, 1]]), 3).tolist()
    [1, 0, 1]
    """
    entry = np.unique(lines, axis=0, return_inverse=True)[1].reshape(-1)
    sizes = np.bincount(row, minlength=rows)
    start = np.cumsum(sizes) - sizes
    result: Integers = sizes.astype(np.int64)
    for place in range(int(sizes.max(initial=0))):
        longer = np.flatnonzero(sizes > place)
        result[longer] = _numbered(result[longer] * len(lines) + entry[start[longer] + place])
    return _numbered(result * (int(sizes.max(initial=0)) + 1) + sizes)


def _numbered(keys: Integers) -> Integers:
    return np.asarray(np.unique(keys, return_inverse=True)[1], np.int64).reshape(-1)


class BoardNoise:
    """The noise of figures as a function of the parts."""

    def __init__(self, problem: TopDownProblem):
        self.problem, self.theory = problem, NoiseTheory(problem)
        self._levels = [level for level, _ in problem.levels()]
        names = [attribute.name for attribute in problem.strategy.schema.attributes]
        measured = dict.fromkeys((TOTAL, *(query.name for level in self._levels for query in level.queries)))
        queries = {name: problem.strategy.query(name) for name in measured}
        self.cells = {name: query.cells for name, query in queries.items()}
        self.groups: dict[str, Grouping] = {
            name: grouping_of(names, query) for name, query in queries.items() if query.cells <= MOST_CELLS
        }
        self.kinds = dict(_kinds(problem))
        self._alone = [_total_alone(level) for level in self._levels]
        self._runs = [
            share_runs(problem.strategy, place, level.shares.table) for place, (_, level) in enumerate(problem.levels())
        ]
        self._model: InSectors | None
        try:
            self._model = InSectors(problem, self.theory)
        except ParameterError:
            self._model = None
        self._covariances: dict[tuple[int, tuple[float, ...]], tuple[Floats, Floats]] = {}
        self._means: dict[tuple[str, bool, tuple[tuple[float, ...], ...]], Floats] = {}
        self._known_ways: dict[tuple[str, bool], _WaysUp] = {}
        self._on_trees: dict[tuple[float, ...], ReleasedNoise] = {}

    def variance(self, row: RowName, parts: Parts) -> float:
        """The mean variance of the cells of a query in the areas of a kind; of its own measurement where they are too
        many."""
        kind, query = row
        if kind not in self.kinds or query not in self.groups:
            return _variance(parts[row])
        return self.variances([row], parts)[row]

    def variances(self, rows: Sequence[RowName], parts: Parts) -> dict[RowName, float]:
        """The same for several rows."""
        if self.problem.strategy.evidence == TREE:
            return self._on_the_tree(rows, parts)
        scales = self.scales(parts)
        model, means = self._noise(parts), dict[tuple[str, bool], Floats]()
        wanted = dict.fromkeys(query for kind, query in rows if kind in self.kinds and query in self.groups)
        within = model.mean_within({query: self.groups[query] for query in wanted})
        result: dict[RowName, float] = {}
        for row in rows:
            kind, query = row
            if kind not in self.kinds or query not in self.groups:
                result[row] = _variance(parts[row])
                continue
            way = (kind, query == TOTAL and self.theory.together)
            if way not in means:
                means[way] = self.contributions(*way, scales)
            own, mean = within[query], means[way]
            value = float(mean @ own)
            if value != value:  # what a level leaves open matters where areas have a part of its noise
                value = float(mean[mean > 0] @ own[mean > 0])
            result[row] = value
        return result

    def _on_the_tree(self, rows: Sequence[RowName], parts: Parts) -> dict[RowName, float]:
        """The same where estimates learn from below: as a release with these parts states it."""
        noise = self._released(parts)
        result: dict[RowName, float] = {}
        for row in rows:
            kind, query = row
            if kind not in self.kinds or query not in self.groups:
                result[row] = _variance(parts[row])
                continue
            own = self.kinds[kind]
            areas = np.full(len(self.problem.frame.spine.blocks.unit_of_block), OUTSIDE, np.int64)
            areas[self.problem.spine.rows] = own.area
            result[row] = noise.mean_variance(self.groups[query], areas, own.areas)
        return result

    def _released(self, parts: Parts) -> ReleasedNoise:
        """The noise of a release with these parts."""
        rows: list[RowName] = [(level.name, query.name) for level in self._levels for query in level.queries]
        key = tuple(parts[row] for row in rows)
        known = self._on_trees.get(key)
        if known is None:
            if len(self._on_trees) >= MOST_TREES:
                self._on_trees.clear()
            exact = {row: Fraction(part) for row, part in zip(rows, key, strict=True)}
            changed = with_shares_of(self.problem, with_parts(self.problem.strategy, exact))
            self._on_trees[key] = known = ReleasedNoise(changed)
        return known

    def scales(self, parts: Parts) -> tuple[tuple[float, ...], ...]:
        """For each level and class of its units the share of the level by the unit's."""
        sums = [sum(parts[level.name, query.name] for query in level.queries) for level in self._levels]
        return tuple(
            tuple(1.0 if run is None else round(sums[place] / sum(sums[run[0] : run[1]]), 10) for run in runs)
            for place, runs in enumerate(self._runs)
        )

    def contributions(self, kind: str, total: bool, scales: tuple[tuple[float, ...], ...]) -> Floats:
        """k of each level, the mean over the areas of a kind (:func:`.evaluate.contributions`)."""
        key = (kind, total, scales)
        known = self._means.get(key)
        if known is None:
            if len(self._means) > MOST_KEPT:
                self._means.clear()
            summed = self._ways(kind, total).means([np.array(scale) for scale in scales])
            self._means[key] = known = summed / self.kinds[kind].areas
        return known

    def _ways(self, kind: str, total: bool) -> _WaysUp:
        if (kind, total) not in self._known_ways:
            together = self.theory.known_with(total=total)
            self._known_ways[kind, total] = _ways_up(self.problem, self.kinds[kind], together)
        return self._known_ways[kind, total]

    def _noise(self, parts: Parts) -> InSectors | MeansOfQueries:
        if self._model is None:
            strategy = with_parts(self.problem.strategy, {row: Fraction(part) for row, part in parts.items()})
            return MeansOfQueries(replace(self.problem, strategy=strategy), self.theory)
        measured = [
            {query.name: _variance(parts[level.name, query.name]) for query in level.queries} for level in self._levels
        ]
        of_totals = [own.pop(TOTAL) if alone else None for own, alone in zip(measured, self._alone, strict=True)]
        covariances = self._covariances_of(measured)
        return self._model.with_levels([(*own, total) for own, total in zip(covariances, of_totals, strict=True)])

    def _covariances_of(self, levels: Sequence[Mapping[str, float]]) -> list[tuple[Floats, Floats]]:
        """C of each level, and what it leaves open: the same but for a factor where proportions are the same."""
        assert self._model is not None
        scales = [next(iter(variances.values())) for variances in levels]
        relative = [{name: v / scale for name, v in own.items()} for own, scale in zip(levels, scales, strict=True)]
        keys = [(place, tuple(round(v, 10) for v in own.values())) for place, own in enumerate(relative)]
        found_before = ((key, self._covariances.get(key)) for key in keys)  # others may be clearing it
        known = {key: own for key, own in found_before if own is not None}
        new = [place for place, key in enumerate(keys) if key not in known]
        if len(self._covariances) + len(new) > MOST_KEPT:
            self._covariances.clear()
        if new:
            covariances = self._model.covariances([relative[place] for place in new])
            known |= {keys[place]: own for place, own in zip(new, covariances, strict=True)}
            self._covariances |= known
        return [(known[key][0] * scale, known[key][1]) for key, scale in zip(keys, scales, strict=True)]


def _kinds(problem: TopDownProblem) -> list[tuple[str, _Kind]]:
    frame, kinds = problem.frame.spine, []
    for level in (*frame.levels, *frame.areas):
        own = level.unit_of_block[problem.spine.rows]
        there = np.unique(own)
        there = there[there >= 0]
        if len(there):
            place = np.full(level.units + 1, -1, np.int64)
            place[there] = np.arange(len(there))
            kinds.append((level.name, _Kind(len(there), place[own])))
    return kinds


def _total_alone(level: Any) -> bool:
    own = level.estimation.least_squares[0]
    return own.queries == own.constrain == (TOTAL,) and any(query.name == TOTAL for query in level.queries)


def _variance(part: float) -> float:
    """Of noise that costs this much where one record changes."""
    if part * EXACT_BELOW < 1:
        return 1 / part
    return max(DiscreteGaussian(1 / Fraction(part).limit_denominator(10**9)).variance(), SMALLEST)


def with_parts(strategy: Strategy, parts: Mapping[RowName, Fraction]) -> Strategy:
    """The strategy with these parts as its budget and shares."""
    total = sum(parts.values(), Fraction(0))
    levels = []
    for level in strategy.levels:
        own = sum((parts[level.name, query.name] for query in level.queries), Fraction(0))
        queries = tuple(replace(query, share=parts[level.name, query.name] / own) for query in level.queries)
        levels.append(replace(level, share=own / total, queries=queries))
    return replace(strategy, levels=tuple(levels), budget=total)


@dataclass(frozen=True, eq=False, kw_only=True)
class TopDownBoard(BudgetBoard):
    """A strategy with a part of the budget for each query on each level."""

    noise: BoardNoise
    delta: Fraction

    row_head: ClassVar[str] = "Query, by level"
    whole_margins: ClassVar[bool] = False
    places: ClassVar[int] = 9

    @classmethod
    def of(cls, problem: TopDownProblem) -> TopDownBoard:
        """As the spec has it."""
        strategy = problem.strategy
        budgets: dict[RowName, Fraction] = {
            (level.name, query.name): strategy.budget * level.share * query.share
            for level in strategy.levels
            for query in level.queries
        }
        if not all(budgets.values()):
            raise ParameterError(
                "not-tunable",
                "a level of this strategy has no share, so its queries have none to choose",
                found="a share of zero",
                expected="a share above zero for every level",
                remedy="take the level out of the strategy, or edit the shares by hand",
            )
        return cls(budgets=budgets, noise=BoardNoise(problem), delta=problem.spec.privacy.delta)

    @property
    def problem(self) -> TopDownProblem:
        return self.noise.problem

    @property
    def caption(self) -> str:  # type: ignore[override]
        return (
            "In 95 of 100 cases the error of a figure is below its margin, by least squares: non-negativity and whole "
            "numbers change it where people are few. A level stands for its areas, a query for all its cells."
        )

    @cached_property
    def claim(self) -> LossClaim:
        strategy = self.problem.strategy
        away = plan_of(strategy).not_protected
        return LossClaim(ZCDP(self.total), strategy.neighbours, self.delta, strategy.record, away)

    @cached_property
    def _parts(self) -> dict[RowName, float]:
        return {row: float(part) for row, part in self.budgets.items()}

    @cached_property
    def _off_spine(self) -> tuple[RowName, ...]:
        areas = [area.name for area in self.problem.frame.spine.areas if area.name in self.noise.kinds]
        queries = [name for name, cells in self.noise.cells.items() if cells <= MOST_OFF_SPINE_CELLS]
        return tuple((area, query) for area in areas for query in queries if query in self.noise.groups)

    @cached_property
    def _margins(self) -> dict[RowName, float]:
        variances = self.noise.variances([*self.budgets, *self._off_spine], self._parts)
        return {row: Z * sqrt(variance) for row, variance in variances.items()}

    def facts(self, row: RowName) -> RowFacts:
        level, query = row
        kind = self.noise.kinds.get(level)
        areas = kind.areas if kind is not None else self.problem.spine.level(level).units
        margin = self._margins[row]
        return RowFacts(level, query, areas, margin_text(margin), margin)

    def rows_without_part(self) -> tuple[BoardRow, ...]:
        rows = []
        for kind, query in self._off_spine:
            margin, areas, name = self._margins[kind, query], self.noise.kinds[kind].areas, f"{kind}:{query}"
            entries: dict[str, BoardEntry | str] = {
                "areas": grouped(areas),
                MARGIN: BoardEntry(f"{MARGIN}:{name}", f"Margin in persons: {kind}, {query}", margin_text(margin)),
                PART: "follows from all parts",
            }
            if self.persons:
                entries["share"] = share_text(margin, self.persons, areas)
            rows.append(BoardRow(name, f"{kind} (beside the spine)", query, entries, lockable=False))
        return tuple(rows)

    def reached(self, row: RowName, margin: Fraction) -> bool:
        return self._margins[row] <= float(margin) * (1 + _CLOSE)

    def smallest(self, row: RowName, margin: Fraction) -> Fraction:
        return self._smallest(row, float(margin), frozenset(self.budgets) - {row})

    def _smallest(self, row: RowName, margin: float, kept: frozenset[RowName] | set[RowName]) -> Fraction:
        """The least part that gives a margin if some rows keep their parts and the others share the rest: the zero of a
        falling function, by secants of the precision."""
        parts, step = self._parts, self.step()
        others = [each for each in parts if each not in kept and each != row]
        available = sum(parts[each] for each in others) + parts[row]
        rest = available - parts[row]
        wanted = (Z / margin * (1 + SLACK)) ** 2

        def precision(part: float) -> float:
            factor = (available - part) / rest if others else 1.0
            if factor <= 0:
                raise too_little(row)
            changed = {**parts, **{each: parts[each] * factor for each in others}, row: part}
            return 1 / self.noise.variance(row, changed)

        points = [(parts[row], precision(parts[row]))]
        if points[0][1] >= wanted and precision(float(step)) >= wanted:
            return step  # what else is measured is enough
        guess = parts[row] * min(max(wanted / points[0][1], 0.05), 20.0)
        for _ in range(_STEPS):
            guess = min(guess, available * (1 - 1e-9)) if others else guess
            points.append((guess, precision(guess)))
            (a, at_a), (b, at_b) = points[-2:]
            if abs(at_b - wanted) <= _CLOSE * wanted / 4:
                break
            slope = (at_b - at_a) / (b - a) if b != a else 0.0
            following = b + (wanted * (1 + _CLOSE / 8) - at_b) / slope if slope > 0 else 2 * b
            guess = min(max(following, b / 20), 20 * b)
            if others and b >= available * (1 - 1e-8) and at_b < wanted:
                raise too_little(row)
        steps = -(-Fraction(points[-1][0]) // step)
        return max(step, steps * step)

    def with_row(self, row: RowName, **asked: Any) -> Self:
        margin = asked.get("margin")
        if row not in self.budgets and margin is not None and row in self._off_spine:
            return self._with_budget_for(row, float(margin), asked.get("locked", ()))
        if margin is None or not asked.get("keep_total", True) or row not in self.budgets:
            return super().with_row(row, **asked)
        kept = {each for each in asked.get("locked", ()) if each != row}
        part, step = self._smallest(row, float(margin), kept), self.step()
        for _ in range(4):
            changed = super().with_row(row, **(asked | {"margin": None, "budget": part}))
            if changed.reached(row, Fraction(margin)):
                return changed
            part += max(step, part / 10**4 // step * step)
        return changed

    def _with_budget_for(self, row: RowName, margin: float, locked: Sequence[RowName]) -> Self:
        """The budget that gives a row without a part its margin, if parts that are not locked keep their proportions:
        next to the inverse square, and less where noise is so small that it is often zero."""
        kept = sum(self._parts[each] for each in locked)
        free = float(self.total) - kept

        def excess(factor: float) -> float:
            parts = {each: part if each in locked else part * factor for each, part in self._parts.items()}
            return min(4.0, max(-4.0, log(self.noise.variance(row, parts) + 1e-300) - 2 * log(margin / Z)))

        # Where no part is locked and noise is not so small that it is often zero, the inverse square is it.
        low = high = (self._margins[row] / margin) ** 2 * (1 + SLACK)
        grow = 1.3
        if -1e-3 < excess(high) <= 0:
            return self.with_total(Fraction(f"{kept + free * high:.9g}") + self.step(), locked)
        low = high = 0.9 * high
        while excess(high) > 0:
            low, high, grow = high, high * grow, grow * grow
            if high > LARGEST_FACTOR:
                raise too_little(row)
        while excess(low) <= 0:
            high, low, grow = low, low / grow, grow * grow
            if low < 1 / LARGEST_FACTOR:
                raise too_little(row)
        at_low, at_high = excess(low), excess(high)
        for _ in range(_STEPS):
            guess = exp(log(low) + (log(high) - log(low)) * at_low / (at_low - at_high))
            value = excess(guess)
            # The Illinois method: an end that stays counts half.
            if value > 0:
                low, at_low, at_high = guess, value, at_high / 2
            else:
                high, at_high, at_low = guess, value, at_low / 2
            if -1e-3 < value <= 0:
                break
        total = Fraction(f"{kept + free * high:.9g}")
        return self.with_total(total + self.step(), locked)

    def moved(self, name: str, text: str, moving: Moving) -> Self:
        kind, _, row_text = name.partition(":")
        row = next((each for each in self._off_spine if ":".join(each) == row_text), None)
        if kind == MARGIN and row is not None and row not in self.budgets:
            locked = [each for each in self.budgets if ":".join(each) in moving.locked]
            return self.with_row(row, margin=self._typed_margin(text, name), locked=locked)
        return super().moved(name, text, moving)

    def tuned(self, loaded: LoadedSpec, stem: str) -> TunedValues:
        """A strategy file with these shares, and the spec that names it."""
        file = f"{stem}-strategy.toml"
        changed = copy.deepcopy(dict(loaded.values))
        changed["privacy"]["budget"] = exact_text(self.total)
        changed["topdown"] |= {"strategy": file, "root": self.problem.strategy.root}

        def text() -> str:
            return _strategy_text(loaded, with_parts(self.problem.strategy, self.budgets))

        return TunedValues(changed, {file: text})


def _strategy_text(loaded: LoadedSpec, strategy: Strategy) -> str:
    """The strategy as a file beside the spec, with estimation and constraints of the one that it comes from."""
    base, spec = loaded.path.parent, loaded.spec
    assert isinstance(spec, TopDownSpec)
    source = load_named(spec.topdown.strategy, base, StrategyFile, kind=STRATEGY)
    schema = source.values["schema"]
    if isinstance(schema, str):
        for folder in (base, source.path.parent):
            if (folder / schema).is_file():
                schema = Path(os.path.relpath((folder / schema).resolve(), base.resolve())).as_posix()
                break
    return strategy_text(strategy, source.values, schema)


def margin_text(margin: float) -> str:
    """A margin as it would be typed: to three digits, and whole numbers from a hundred on."""
    if margin != margin:
        return "–"
    return f"{margin:.0f}" if margin >= 99.5 else f"{margin:.3g}"
