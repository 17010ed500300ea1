"""A board whose rows share a budget: what each part buys, what accuracy costs, and what follows when one moves.

A row has a part b of the budget, and its margin follows from the parts. The budget of the release is the sum of the
parts, exactly; where some rows are of other people than the rest (a *pool*), it is the largest sum of a pool. Some
parts are set, some are locked, and the others of the pool follow: they keep their proportions and take what is left.

Parts that follow are short decimals: rounded down to a step, and the last row takes the rest, so that the sum is the
budget to the last digit.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import ClassVar, Self

from confide.errors import ParameterError, Place
from confide.exact import exact_text, grouped
from confide.privacy import ZCDP, PureDP, cks_rho
from confide.releases import boards
from confide.releases.loss_account import StatedPrice

RowName = tuple[str, ...]
"""What a row is of, such as a table and a level."""
LARGEST_MARGIN = 10**9
LARGEST_BUDGET = 10**6
MOST_PERSONS = 10**11
_ROUNDS = 40
MARGIN, PART, PERSONS, BUDGET, EPSILON = "margin", "part", "persons", "budget", "epsilon"


@dataclass(frozen=True, slots=True)
class RowFacts:
    """What a board shows of a row beside its part."""

    group: str
    title: str
    areas: int
    margin: str
    """As it would be typed."""
    size: float
    """The same as a number."""
    more: tuple[tuple[str, boards.BoardEntry | str], ...] = ()
    """Further columns."""


@dataclass(frozen=True, eq=False, kw_only=True)
class BudgetBoard(boards.Board):
    """A release with a part of the budget for each of its rows."""

    budgets: Mapping[RowName, Fraction]
    persons: int | None = None

    follows: ClassVar[bool] = True
    whole_margins: ClassVar[bool] = True
    """Whether a margin is a whole number of persons."""
    places: ClassVar[int] = 6
    """Parts that follow have so many decimals more than the budget has zeros after its point."""
    more_columns: ClassVar[tuple[boards.BoardColumn, ...]] = ()

    # What a mechanism says of its rows

    @property
    @abstractmethod
    def claim(self) -> boards.LossClaim:
        """The budget as a loss."""

    @abstractmethod
    def facts(self, row: RowName) -> RowFacts:
        """What the parts buy in a row."""

    @abstractmethod
    def smallest(self, row: RowName, margin: Fraction) -> Fraction:
        """The smallest part, in steps, that gives a row a margin if no other part changes."""

    def reached(self, row: RowName, margin: Fraction) -> bool:
        """Whether a row has a margin, or a smaller one."""
        return Fraction(self.facts(row).margin) <= margin

    def pool(self, row: RowName) -> str:  # noqa: ARG002 - for mechanisms whose rows are not all of the same people
        """Whom a row is about: rows of different people cost the larger of the two."""
        return ""

    def other_choices(self) -> dict[str, str]:
        """What can be chosen besides parts."""
        return {}

    def with_other(self, name: str, text: str) -> Self:
        """The board with another choice that is no part."""
        raise self.no_entry(name or text)

    # What parts add up to, and what follows

    @property
    def total(self) -> Fraction:
        """The budget of the release."""
        return max(self._sums.values())

    @cached_property
    def _sums(self) -> dict[str, Fraction]:
        sums: dict[str, Fraction] = {}
        for row, part in self.budgets.items():
            pool = self.pool(row)
            sums[pool] = sums.get(pool, Fraction(0)) + part
        return sums

    def with_persons(self, persons: int | None) -> Self:
        """The same, for so many persons."""
        return replace(self, persons=persons)

    def with_budgets(self, budgets: Mapping[RowName, Fraction]) -> Self:
        """The same rows with other parts."""
        for row, budget in budgets.items():
            self._require(row)
            if budget <= 0:
                raise too_little(row)
        return replace(self, budgets={row: budgets.get(row, own) for row, own in self.budgets.items()})

    def with_total(self, total: Fraction, locked: Collection[RowName] = ()) -> Self:
        """Another budget: locked rows keep their parts, and the others follow."""
        parts: dict[RowName, Fraction] = {}
        for pool, before in self._sums.items():
            rows = [row for row in self.budgets if self.pool(row) == pool]
            kept = {row: self.budgets[row] for row in rows if row in locked}
            own = total if before == self.total else total * before / self.total
            parts |= self._followed(rows, kept, own)
        return replace(self, budgets={row: parts[row] for row in self.budgets})

    def with_row(
        self,
        row: RowName,
        *,
        budget: Fraction | None = None,
        margin: Fraction | int | None = None,
        locked: Collection[RowName] = (),
        keep_total: bool = True,
    ) -> Self:
        """Another part of the budget for a row, or the smallest that gives it a margin.

        Args:
            row: The row.
            budget: Its part.
            margin: Or the margin that its figures should have, in persons.
            locked: Rows that keep their parts.
            keep_total: Whether the budget of the release stays and the other rows follow; else they stay, and the
                budget follows.

        Returns:
            The new parts.
        """
        self._require(row)
        if margin is not None and not 0 < margin <= LARGEST_MARGIN:
            raise ParameterError(
                "margin-range", where=Place(path=":".join(row)), found=str(margin), largest_margin=LARGEST_MARGIN
            )
        wanted = None if margin is None else Fraction(margin)
        changed = self
        rows = [each for each in self.budgets if self.pool(each) == self.pool(row)]
        for _ in range(_ROUNDS):
            part = budget if wanted is None else changed.smallest(row, wanted)
            assert part is not None
            if part <= 0:
                raise too_little(row)
            if not keep_total:
                changed = replace(self, budgets={**self.budgets, row: part})
            else:
                kept = {each: self.budgets[each] for each in rows if each in locked and each != row}
                parts = self._followed(rows, {**kept, row: part}, self._sums[self.pool(row)])
                changed = replace(self, budgets={**self.budgets, **parts})
            # What follows may have taken from this row's margin as well: then it needs a little more.
            if wanted is None or changed.reached(row, wanted):
                return changed
        raise too_little(row)

    def step(self) -> Fraction:
        """What parts that follow are multiples of: a millionth of the budget or less."""
        return self._step(self.total)

    def _step(self, total: Fraction) -> Fraction:
        return Fraction(1, 10 ** (self.places + max(0, math.ceil(-math.log10(total)))))

    def _followed(
        self, rows: Collection[RowName], kept: Mapping[RowName, Fraction], total: Fraction
    ) -> dict[RowName, Fraction]:
        """Parts of ``total``: some as they are given, the others in their proportions."""
        others = [row for row in rows if row not in kept]
        remaining = total - sum(kept.values(), Fraction(0))
        if remaining != 0 and not others:
            raise ParameterError("nothing-follows", total=float(total - remaining), total_found=float(total))
        step = self._step(total)
        before = sum((self.budgets[row] for row in others), Fraction(0))
        factor, parts, taken = remaining / before / step if others else 0, dict(kept), 0
        for place, row in enumerate(others):
            steps = math.floor(self.budgets[row] * factor)
            part = remaining - taken * step if place == len(others) - 1 else steps * step
            taken += steps
            if part <= 0:
                raise too_little(row)
            parts[row] = part
        return parts

    def _require(self, row: RowName) -> None:
        if row not in self.budgets:
            names = [":".join(each) for each in self.budgets]
            raise ParameterError("no-row/board", found=":".join(row)[:80], names=", ".join(names[:40]), name=names[0])

    # The board

    @property
    def columns(self) -> tuple[boards.BoardColumn, ...]:  # type: ignore[override]
        typical = (boards.BoardColumn("share", "of a typical area"),) if self.persons else ()
        return (
            boards.BoardColumn("areas", "Areas"),
            boards.BoardColumn(MARGIN, "Margin, ± persons", compared=True),
            *typical,
            *self.more_columns,
            boards.BoardColumn(PART, "Part of the budget", numeric=False),
        )

    @cached_property
    def rows(self) -> tuple[boards.BoardRow, ...]:
        """What each part buys, in the order of the spec."""
        measured = (self._row(row, part) for row, part in self.budgets.items())
        return (*measured, *self.rows_without_part())

    def rows_without_part(self) -> tuple[boards.BoardRow, ...]:
        """Rows whose margins follow from the parts of others."""
        return ()

    @cached_property
    def _largest(self) -> float:
        return float(max(self.budgets.values()))

    def _row(self, row: RowName, part: Fraction) -> boards.BoardRow:
        name, facts = ":".join(row), self.facts(row)
        what = f"{facts.group}, {facts.title}"
        kind = "whole" if self.whole_margins else "number"
        entries: dict[str, boards.BoardEntry | str] = {
            "areas": grouped(facts.areas),
            MARGIN: boards.BoardEntry(f"{MARGIN}:{name}", f"Margin in persons: {what}", facts.margin, kind),  # type: ignore[arg-type]
        }
        if self.persons:
            entries["share"] = share_text(facts.size, self.persons, facts.areas)
        entries |= dict(facts.more)
        entries[PART] = boards.BoardEntry(
            f"{PART}:{name}", f"Part of the budget: {what}", short_text(self._exact_parts[row], part)
        )
        return boards.BoardRow(name, facts.group, facts.title, entries, float(part) / self._largest)

    @property
    def settings(self) -> tuple[boards.BoardEntry, ...]:
        persons = "" if self.persons is None else str(self.persons)
        return (boards.BoardEntry(PERSONS, "Persons in all, for shares of a typical area", persons, "whole"),)

    @cached_property
    def dials(self) -> tuple[boards.BoardEntry, ...]:
        claim = self.claim
        if isinstance(claim.loss, PureDP):
            return (boards.BoardEntry(BUDGET, "Budget (epsilon)", part_text(self.total)),)
        title = f"Epsilon at delta {float(claim.delta):g}"
        return (
            boards.BoardEntry(BUDGET, "Budget (rho)", part_text(self.total)),
            boards.BoardEntry(EPSILON, title, epsilon_text(claim)),
        )

    def choices(self) -> dict[str, str]:
        return self._choices

    @cached_property
    def _exact_parts(self) -> dict[RowName, str]:
        return {row: exact_text(part) for row, part in self.budgets.items()}

    @cached_property
    def _choices(self) -> dict[str, str]:
        parts = {f"{PART}:{':'.join(row)}": text for row, text in self._exact_parts.items()}
        return parts | {PERSONS: "" if self.persons is None else str(self.persons)} | self.other_choices()

    def chosen(self, choices: boards.Choices) -> Self:
        board, parts = self, {}
        rows = {":".join(row): row for row in self.budgets}
        for name, text in choices.items():
            kind, _, row = name.partition(":")
            if kind == PART and row in rows:
                parts[rows[row]] = boards.typed_number(text, name, 0, LARGEST_BUDGET)
            elif name == PERSONS:
                board = board.with_persons(_persons(text))
            else:
                board = board.with_other(name, text)
        return board.with_budgets(parts) if parts else board

    def moved(self, name: str, text: str, moving: boards.Moving) -> Self:
        kind, _, row_text = name.partition(":")
        row = next((each for each in self.budgets if ":".join(each) == row_text), None)
        locked = [each for each in self.budgets if ":".join(each) in moving.locked]
        if kind == MARGIN and row is not None:
            margin = self._typed_margin(text, name)
            return self.with_row(row, margin=margin, locked=locked, keep_total=moving.keep_total)
        if kind == PART and row is not None:
            part = boards.typed_number(text, name, 0, LARGEST_BUDGET)
            return self.with_row(row, budget=part, locked=locked, keep_total=moving.keep_total)
        if name == BUDGET:
            return self.with_total(boards.typed_number(text, name, 0, LARGEST_BUDGET), locked)
        if name == EPSILON and isinstance(self.claim.loss, ZCDP):
            epsilon = boards.typed_number(text, name, 0, LARGEST_BUDGET)
            return self.with_total(rho_of(epsilon, self.claim.delta), locked)
        return self.chosen({name: text})

    def _typed_margin(self, text: str, name: str) -> Fraction:
        if self.whole_margins:
            return Fraction(boards.typed_whole(text, name, 1, LARGEST_MARGIN))
        return boards.typed_number(text, name, 0, LARGEST_MARGIN)


def _persons(text: str) -> int | None:
    return None if not text.strip() else boards.typed_whole(text, PERSONS, 1, MOST_PERSONS)


def first_that_fits(fits: Callable[[int], bool], guess: int) -> int:
    """The smallest number from 1 on that fits, if all larger ones do; searched for from a guess on."""
    low, high, jump = 0, guess, max(1, guess // 64)
    if fits(high):
        while high - jump > 0 and fits(high - jump):
            high, jump = high - jump, 2 * jump
        low = max(0, high - jump)
    else:
        while not fits(high):
            low, high, jump = high, high + jump, 2 * jump
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def part_text(part: Fraction) -> str:
    """A part as it is shown: exactly where it has few digits, otherwise to eight of them."""
    return short_text(exact_text(part), part)


def short_text(text: str, part: Fraction) -> str:
    """The same, where its exact text is known."""
    return text if "/" not in text and len(text) <= 12 else f"{float(part):.8g}"


def share_text(margin: float, persons: int, areas: int) -> str:
    """A margin as a share of an area of the mean size."""
    typical = persons / max(1, areas)
    return f"{100 * margin / typical:.3g} % of {typical:,.0f}"


@lru_cache(maxsize=4096)
def epsilon_text(claim: boards.LossClaim) -> str:
    """Epsilon of a loss, rounded up to two digits."""
    epsilon = StatedPrice(claim.loss, claim.neighbours, claim.delta, claim.unit).epsilon
    return f"{math.ceil(round(100 * epsilon, 6)) / 100:.2f}"


def rho_of(epsilon: Fraction, delta: Fraction) -> Fraction:
    """A rho of few digits that holds an epsilon."""
    rho = cks_rho(epsilon, delta)
    short = rho.limit_denominator(10**9) if rho.denominator > 10**9 else rho
    return Fraction(int(short * 10**6), 10**6) or rho


def too_little(row: RowName) -> ParameterError:
    """The error where a row would have no part."""
    return ParameterError("budget-too-small", where=Place(path=":".join(row)))
