"""The board of a TopDown release: expected errors by level, places and groups, as functions of the shares.

A row is a query on a level, with a part of the budget: rho times the share of the level times the share of the query.
Its margin is 1.96 times the root of the mean variance of its cells in the areas of the level
(:class:`~.figure_noise.TopDownNoise`), which every release states in ``accuracy.parquet``. Places and other areas
beside the spine have rows without a part, whose margins follow from all parts.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import exp, log, sqrt
from statistics import NormalDist
from typing import Any, ClassVar, Self

from confide.errors import ParameterError
from confide.estimation.sectors import Grouping
from confide.exact import exact_text, grouped
from confide.geography import AreaSet
from confide.mechanisms.topdown.figure_noise import TopDownNoise, areas_there, variance_of
from confide.mechanisms.topdown.problem import TopDownProblem
from confide.mechanisms.topdown.strategy import law_of, plan_of
from confide.mechanisms.topdown.targets import text_beside
from confide.privacy import ZCDP
from confide.releases import LoadedSpec, boards
from confide.releases.boards import RowName
from confide.schema import TOTAL

Z = NormalDist().inv_cdf(0.975)
MOST_CELLS = 3000
"""Of a query with more cells the noise of its own measurement stands for the error."""
MOST_OFF_SPINE_CELLS = 300
_STEPS = 24
LARGEST_FACTOR = 1e6
_CLOSE = 1e-6
SLACK = 2e-5
"""Margins that are looked for are smaller by this part than asked, so that rounded parts reach them too."""


@dataclass(frozen=True, eq=False, kw_only=True)
class TopDownBoard(boards.BudgetBoard):
    """A strategy with a part of the budget for each query on each level."""

    noise: TopDownNoise
    """As the spec has it."""
    kinds: Mapping[str, AreaSet]
    delta: Fraction

    row_head: ClassVar[str] = "Query, by level"
    whole_margins: ClassVar[bool] = False
    places: ClassVar[int] = 9

    @classmethod
    def of(cls, problem: TopDownProblem) -> TopDownBoard:
        """As the spec has it."""
        strategy = problem.strategy
        if not all(strategy.parts.values()):
            raise ParameterError("not-tunable/level")
        noise, kinds = TopDownNoise(problem), areas_there(problem.spine)
        return cls(budgets=strategy.parts, noise=noise, kinds=kinds, delta=problem.spec.privacy.delta)

    @property
    def problem(self) -> TopDownProblem:
        return self.noise.problem

    def variances(self, rows: Sequence[RowName], parts: Mapping[RowName, Fraction]) -> dict[RowName, float]:
        """The mean variance of the cells of queries in the areas of kinds, with these parts; that of a query's own
        measurement where its cells are too many, or its areas are none of the frame's."""
        noise, result = self.noise.with_parts(parts), dict[RowName, float]()
        strategy = noise.problem.strategy
        for kind, query in rows:
            groups = self._groups.get(query)
            if kind in self.kinds and groups is not None:
                result[kind, query] = noise.mean_variance(groups, self.kinds[kind])
            else:
                level = strategy.level(kind)
                result[kind, query] = variance_of(law_of(strategy, level, level.query(query)))
        return result

    @cached_property
    def _groups(self) -> dict[str, Grouping]:
        strategy = self.problem.strategy
        names = dict.fromkeys((TOTAL, *strategy.measured))
        return {name: strategy.grouping(name) for name in names if strategy.query(name).cells <= MOST_CELLS}

    @property
    def caption(self) -> str:  # type: ignore[override]
        return (
            "In 95 of 100 cases the error of a figure is below its margin, by least squares: non-negativity and whole "
            "numbers change it where people are few. A level stands for its areas, a query for all its cells."
        )

    @cached_property
    def claim(self) -> boards.LossClaim:
        strategy = self.problem.strategy
        away = plan_of(strategy).not_protected
        return boards.LossClaim(ZCDP(self.total), strategy.neighbours, self.delta, strategy.record, away)

    @cached_property
    def _off_spine(self) -> tuple[RowName, ...]:
        areas = [area.name for area in self.problem.frame.spine.areas if area.name in self.kinds]
        queries = [name for name in self._groups if self.problem.strategy.query(name).cells <= MOST_OFF_SPINE_CELLS]
        return tuple((area, query) for area in areas for query in queries)

    @cached_property
    def _margins(self) -> dict[RowName, float]:
        variances = self.variances([*self.budgets, *self._off_spine], self.budgets)
        return {row: Z * sqrt(variance) for row, variance in variances.items()}

    def facts(self, row: RowName) -> boards.RowFacts:
        level, query = row
        kind = self.kinds.get(level)
        areas = kind.areas if kind is not None else self.problem.spine.level(level).units
        margin = self._margins[row]
        return boards.RowFacts(level, query, areas, margin_text(margin), margin)

    def rows_without_part(self) -> tuple[boards.BoardRow, ...]:
        rows = []
        for kind, query in self._off_spine:
            margin, areas, name = self._margins[kind, query], self.kinds[kind].areas, f"{kind}:{query}"
            entries: dict[str, boards.BoardEntry | str] = {
                "areas": grouped(areas),
                boards.MARGIN: boards.BoardEntry(
                    f"{boards.MARGIN}:{name}", f"Margin in persons: {kind}, {query}", margin_text(margin)
                ),
                boards.PART: "follows from all parts",
            }
            if self.persons:
                entries["share"] = boards.share_text(margin, self.persons, areas)
            rows.append(boards.BoardRow(name, f"{kind} (beside the spine)", query, entries, lockable=False))
        return tuple(rows)

    def reached(self, row: RowName, margin: Fraction) -> bool:
        return self._margins[row] <= float(margin) * (1 + _CLOSE)

    def smallest(self, row: RowName, margin: Fraction) -> Fraction:
        return self._smallest(row, float(margin), frozenset(self.budgets) - {row})

    def _smallest(self, row: RowName, margin: float, kept: frozenset[RowName] | set[RowName]) -> Fraction:
        """The least part that gives a margin if some rows keep their parts and the others share the rest: the zero of a
        falling function, by secants of the precision."""
        parts, step = self.budgets, self.step()
        others = [each for each in parts if each not in kept and each != row]
        rest = float(sum(parts[each] for each in others))
        available = rest + float(parts[row])
        wanted = (Z / margin * (1 + SLACK)) ** 2

        def precision(part: float) -> float:
            factor = (available - part) / rest if others else 1.0
            if factor <= 0:
                raise boards.too_little(row)
            changed = {**parts, **{each: parts[each] * Fraction(factor) for each in others}, row: Fraction(part)}
            return 1 / self.variances([row], changed)[row]

        points = [(float(parts[row]), precision(float(parts[row])))]
        if points[0][1] >= wanted and precision(float(step)) >= wanted:
            return step  # what else is measured is enough
        guess = points[0][0] * min(max(wanted / points[0][1], 0.05), 20.0)
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
                raise boards.too_little(row)
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
        kept = float(sum(self.budgets[each] for each in locked))
        free = float(self.total) - kept

        def excess(factor: float) -> float:
            parts = {each: part if each in locked else part * Fraction(factor) for each, part in self.budgets.items()}
            return min(4.0, max(-4.0, log(self.variances([row], parts)[row] + 1e-300) - 2 * log(margin / Z)))

        # Where no part is locked and noise is not so small that it is often zero, the inverse square is it.
        low = high = (self._margins[row] / margin) ** 2 * (1 + SLACK)
        grow = 1.3
        if -1e-3 < excess(high) <= 0:
            return self.with_total(Fraction(f"{kept + free * high:.9g}") + self.step(), locked)
        low = high = 0.9 * high
        while excess(high) > 0:
            low, high, grow = high, high * grow, grow * grow
            if high > LARGEST_FACTOR:
                raise boards.too_little(row)
        while excess(low) <= 0:
            high, low, grow = low, low / grow, grow * grow
            if low < 1 / LARGEST_FACTOR:
                raise boards.too_little(row)
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

    def moved(self, name: str, text: str, moving: boards.Moving) -> Self:
        kind, _, row_text = name.partition(":")
        row = next((each for each in self._off_spine if ":".join(each) == row_text), None)
        if kind == boards.MARGIN and row is not None and row not in self.budgets:
            locked = [each for each in self.budgets if ":".join(each) in moving.locked]
            return self.with_row(row, margin=self._typed_margin(text, name), locked=locked)
        return super().moved(name, text, moving)

    def tuned(self, loaded: LoadedSpec, stem: str) -> boards.TunedValues:
        """A strategy file with these shares, and the spec that names it."""
        file = f"{stem}-strategy.toml"
        changed = copy.deepcopy(dict(loaded.values))
        changed["privacy"]["budget"] = exact_text(self.total)
        changed["topdown"] |= {"strategy": file, "root": self.problem.strategy.root}

        def text() -> str:
            return text_beside(self.problem.strategy.with_parts(self.budgets), loaded, loaded.path.parent / file)

        return boards.TunedValues(changed, {file: text})


def margin_text(margin: float) -> str:
    """A margin as it would be typed: to three digits, and whole numbers from a hundred on."""
    if margin != margin:
        return "–"
    return f"{margin:.0f}" if margin >= 99.5 else f"{margin:.3g}"
