"""A trade-off board: what a mechanism lets people choose, what each choice does, and what it protects from.

A mechanism declares its board by the ability ``board`` (:mod:`confide.releases.abilities`). A board is a
value: whatever somebody types gives another board, and nothing is read from records or spent. It has

- **rows**, such as a table on a level, with entries in columns; most rows can be locked;
- **settings** and **dials**, entries of the whole release: dials are beside the protection, such as the budget;
- a **claim**: what the choices promise, from which the faces work out what an adversary could learn;
- **choices**: everything that was chosen, by name and exactly. They are the board's address, and ``--set`` of
  ``confide tune``.

What is typed into an entry is a **move** (``--move``): other rows may follow, as :class:`Moving` says.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, TypeVar

from confide.answers import TypedAnswer
from confide.engines import Engine, LocalEngine
from confide.errors import ParameterError, Place
from confide.exact import exact, exact_text, grouped
from confide.file_system import private_folder
from confide.inputs.made_up import nobody, of_nobody
from confide.privacy import ZCDP, Neighbours, PureDP, cks_rho
from confide.releases.abilities import BOARD
from confide.releases.check import throwaway_workspace
from confide.releases.loss_account import StatedPrice
from confide.releases.mechanism import Mechanism
from confide.releases.spec import LoadedSpec, Spec

P = TypeVar("P")
Choices = Mapping[str, str]
"""What was chosen, by the name of an entry, in exact numbers."""
LARGEST = 10**12
_DEEPEST = 2
"""What lies deeper in a spec, such as the weights of a table's levels, is one change."""


@dataclass(frozen=True, slots=True)
class BoardEntry:
    """Something on a board: a number or a word that can be typed, unless it is ``fixed``."""

    name: str
    """As ``--move`` and ``--set`` have it."""
    title: str
    text: str
    """As it is shown, and as it would be typed."""
    kind: Literal["whole", "number", "text"] = "number"
    options: tuple[tuple[str, str], ...] = ()
    """The values that there are, with a word for each; none: anything of its kind."""
    note: str = ""
    fixed: bool = False
    slider: tuple[str, str, str] | None = None
    """The least value, the largest and the step, where a slider makes sense."""


@dataclass(frozen=True, slots=True)
class BoardColumn:
    """A column of the rows."""

    name: str
    title: str
    compared: bool = False
    """Whether alternatives are compared by it."""
    numeric: bool = True
    part: str = ""
    """The title of the table that it stands in at a terminal, where it is not in the first."""


@dataclass(frozen=True, slots=True)
class BoardRow:
    """What is in one line: entries by the names of columns."""

    name: str
    group: str
    title: str
    entries: Mapping[str, BoardEntry | str]
    amount: float | None = None
    """From zero to one, for a bar beside it."""
    lockable: bool = True


@dataclass(frozen=True, slots=True)
class LevelTable:
    """A table on a level, as a row of a board has it."""

    table: str
    title: str
    level: str
    areas: int
    cells: int
    """Inner cells of one area."""


@dataclass(frozen=True, slots=True)
class Moving:
    """What gives way when an entry moves."""

    locked: frozenset[str] = frozenset()
    keep_total: bool = True
    """Whether the budget stays and other rows follow; else they stay, and the budget follows."""


# What choices promise. Faces work out the rest by the type of the claim, and never by a mechanism's name.


@dataclass(frozen=True, slots=True)
class LossClaim:
    """A formal loss, against somebody who knows everybody else."""

    loss: ZCDP | PureDP
    neighbours: Neighbours
    delta: Fraction
    unit: str = "person"
    not_protected: tuple[str, ...] = ()
    """The parts of a record that invariants give away, or leave less of, in words."""


@dataclass(frozen=True, slots=True)
class BoundedNoiseClaim:
    """Noise that never exceeds D and has the variance V: an attacker averages it, or finds the bound (Bach 2021)."""

    bound: int
    variance: Fraction
    tables: tuple[tuple[tuple[str, tuple[int, ...]], ...], ...]
    """For each table its breakdowns: a name, and the numbers of categories of its levels, coarse to fine."""
    names: tuple[str, ...] = ()
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClaimFigure:
    """A figure that stands for a protection, with what it means."""

    title: str
    text: str
    note: str


@dataclass(frozen=True, slots=True)
class StatedClaim:
    """What is protected without a loss that adds up: said in words, with the figures that follow from the settings."""

    words: tuple[str, ...]
    figures: tuple[ClaimFigure, ...] = ()
    yardsticks: str = ""
    """Whose choices are beside it: a kind of ``data/yardsticks/choices.toml``."""
    own: str = ""
    """What is beside theirs."""


BoardClaim = LossClaim | BoundedNoiseClaim | StatedClaim


@dataclass(frozen=True)
class TunedValues:
    """The values of a spec with other choices, and the files that it names and that have to be written with it."""

    values: Mapping[str, Any]
    files: Mapping[str, Callable[[], str]] = field(default_factory=dict)
    """By name what makes their texts, which is asked for when they are written."""


class Board(TypedAnswer):
    """A state of a board. Every change gives another one."""

    follows: ClassVar[bool] = False
    """Whether rows share something, so that others follow when one moves."""
    row_head: ClassVar[str] = "Row"
    caption: str
    columns: tuple[BoardColumn, ...]

    @classmethod
    @abstractmethod
    def of(cls, problem: Any) -> Self:
        """The board of what a mechanism prepared without a record."""

    @classmethod
    def offered(cls, spec: Spec) -> bool:  # noqa: ARG003 - for mechanisms with specs that leave nothing to choose
        """Whether a spec leaves something to choose."""
        return True

    @property
    def secret(self) -> bool:
        """Whether the release keeps its settings secret: then they are in no address."""
        return False

    @property
    @abstractmethod
    def rows(self) -> tuple[BoardRow, ...]:
        """What is on the side of accuracy."""

    @property
    def settings(self) -> tuple[BoardEntry, ...]:
        """Entries of the whole release, beside the rows."""
        return ()

    @property
    @abstractmethod
    def dials(self) -> tuple[BoardEntry, ...]:
        """Entries of the whole release, beside the protection."""

    @property
    @abstractmethod
    def claim(self) -> BoardClaim:
        """What the choices promise."""

    @abstractmethod
    def choices(self) -> dict[str, str]:
        """Everything that was chosen, exactly."""

    @abstractmethod
    def chosen(self, choices: Choices) -> Self:
        """The same board with these choices; nothing else moves. Raises where they cannot be."""

    @abstractmethod
    def moved(self, name: str, text: str, moving: Moving) -> Self:
        """The board after something was typed into an entry. Raises where that cannot be."""

    @abstractmethod
    def tuned(self, loaded: LoadedSpec, stem: str) -> TunedValues:
        """What a spec with these choices has. Nothing else in it changes.

        Args:
            loaded: The spec that the board is of.
            stem: What a new file that goes with it is called, but for its ending.
        """

    def official(self) -> str | None:
        """These choices as the configuration file of the Census Bureau's program, where there is one."""
        return None

    def entries(self) -> Iterator[BoardEntry]:
        """Everything that can be typed."""
        for row in self.rows:
            yield from (each for each in row.entries.values() if isinstance(each, BoardEntry) and not each.fixed)
        yield from (each for each in (*self.settings, *self.dials) if not each.fixed)

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return self.board_dict()

    def board_dict(self) -> dict[str, Any]:
        """What every board has, as plain values."""
        return {
            "choices": self.choices(),
            "rows": [
                {"row": row.name, "title": f"{row.group}, {row.title}" if row.group else row.title}
                | {name: each if isinstance(each, str) else each.text for name, each in row.entries.items()}
                for row in self.rows
            ],
            "entries": {each.name: each.text for each in (*self.settings, *self.dials)},
        }

    def no_entry(self, name: str) -> ParameterError:
        """The error for a name that the board does not have."""
        beside = [each.name for each in (*self.settings, *self.dials)]
        names = [*beside, *(each.name for each in self.entries() if each.name not in beside)]
        if name in names:  # it was to be set exactly, and moves others
            return ParameterError("no-entry/choice", value=", ".join([*self.choices()][:12]), name=name)
        return ParameterError("no-entry/board", found=name[:80], names=", ".join(names[:12]), more=len(names) > 12)

    def require_rows(self, names: Iterable[str]) -> None:
        """Raises where a row that should keep its part is not on the board, or cannot be locked."""
        known = [row.name for row in self.rows if row.lockable]
        for name in sorted(set(names) - set(known)):
            raise ParameterError(
                "no-row/locked", found=name[:80], known=", ".join(known[:12]) if known else None, more=len(known) > 12
            )


def without_records(loaded: LoadedSpec, folder: Path) -> LoadedSpec:
    """The same spec with files without records in place of all that are confidential."""
    files = {key: private_folder(folder / key) for key in ("records", *loaded.spec.data.more_records)}
    return loaded.with_data(**{key: str(nobody(place)) for key, place in files.items()})


def prepared_without_records(prepare: Callable[[LoadedSpec, Engine], P], loaded: LoadedSpec) -> P:
    """What a mechanism prepares from spec, schema and frame; a file without records takes the place of the records."""
    with of_nobody(), throwaway_workspace() as scratch, LocalEngine(scratch.scratch, processes=1) as engine:
        return prepare(without_records(loaded, scratch.root), engine)


def declared_board(mechanism: Mechanism[Any], loaded: LoadedSpec) -> Board | None:
    """The board of a spec, from spec, schema and frame alone; none where there is nothing to choose. Raises with what
    is wrong with the spec."""
    board = BOARD.of(mechanism)
    if board is None or not board.offered(loaded.spec):
        return None
    return board.of(prepared_without_records(mechanism.prepare, loaded))


def spec_changes(before: Any, now: Any, path: str = "") -> list[tuple[str, str, str]]:
    """What of a spec's values is another: key, before, now.

    >>> spec_changes({"a": {"b": 1, "c": 2}}, {"a": {"b": "3", "c": 2}})
    [('a.b', '1', '3')]
    """
    if before == now:
        return []
    if isinstance(before, Mapping) and isinstance(now, Mapping) and path.count(".") < _DEEPEST:
        keys = dict.fromkeys((*before, *now))
        parts = [spec_changes(before.get(key), now.get(key), f"{path}.{key}".strip(".")) for key in keys]
        return [each for part in parts for each in part]
    if _listed(before) and _listed(now) and len(before) == len(now):
        pairs = zip(before, now, strict=True)
        parts = [spec_changes(old, new, f"{path}.{_item(new, place)}") for place, (old, new) in enumerate(pairs)]
        return [each for part in parts for each in part]
    return [(path, _words(before), _words(now))] if _words(before) != _words(now) else []


def _listed(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, Mapping) for each in value)


def _item(value: Mapping[str, Any], place: int) -> str:
    if "name" in value:
        return str(value["name"])
    words = [each for each in value.values() if (isinstance(each, str) and each.isidentifier()) or each == "-"]
    return " ".join(words[:2]) or str(place + 1)


def _words(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} = {each}" for key, each in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


# What somebody typed, as numbers.


def typed_number(text: str, name: str, least: Fraction | int, largest: Fraction | int = LARGEST) -> Fraction:
    """An exact number within its range; ``least`` itself is out of it only where it is zero."""
    number = exact(text.strip(), name)
    if not least <= number <= largest or (least == 0 and number == 0):
        raise ParameterError("entry-range/up", where=Place(path=name), found=text[:40], least=least, largest=largest)
    return number


def typed_whole(text: str, name: str, least: int, largest: int = LARGEST) -> int:
    """A whole number within its range."""
    number = exact(text.strip(), name)
    if number.denominator != 1 or not least <= number <= largest:
        raise ParameterError(
            "entry-range/whole-number", where=Place(path=name), found=text[:40], least=least, largest=largest
        )
    return int(number)


def typed_option(text: str, name: str, options: Sequence[str]) -> str:
    """One of some words."""
    if text not in options:
        raise ParameterError(
            "entry-range/stand-here-2",
            where=Place(path=name),
            found=text[:40],
            options=", ".join(each or "nothing" for each in options),
        )
    return text


# A board whose rows share a budget: what each part buys, what accuracy costs, and what follows when one moves.
#
# A row has a part b of the budget, and its margin follows from the parts. The budget of the release is the sum of the
# parts, exactly; where some rows are of other people than the rest (a *pool*), it is the largest sum of a pool. Some
# parts are set, some are locked, and the others of the pool follow: they keep their proportions and take what is left.
#
# Parts that follow are short decimals: rounded down to a step, and the last row takes the rest, so that the sum is the
# budget to the last digit.

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
    more: tuple[tuple[str, BoardEntry | str], ...] = ()
    """Further columns."""


@dataclass(frozen=True, eq=False, kw_only=True)
class BudgetBoard(Board):
    """A release with a part of the budget for each of its rows."""

    budgets: Mapping[RowName, Fraction]
    persons: int | None = None

    follows: ClassVar[bool] = True
    whole_margins: ClassVar[bool] = True
    """Whether a margin is a whole number of persons."""
    measured_in: ClassVar[str] = "persons"
    """What margins are in."""
    statistics: ClassVar[Mapping[str, str]] = {"margin": MARGIN, "noise margin": MARGIN}
    """What targets can be about: the column of each."""
    places: ClassVar[int] = 6
    """Parts that follow have so many decimals more than the budget has zeros after its point."""
    more_columns: ClassVar[tuple[BoardColumn, ...]] = ()

    # What a mechanism says of its rows

    @property
    @abstractmethod
    def claim(self) -> LossClaim:
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

    def needed_part(self, row: RowName, statistic: str, margin: Fraction) -> Fraction:  # noqa: ARG002
        """The smallest part that gives a column of a row a margin, if no other part changes."""
        return self.smallest(row, margin)

    def has(self, row: RowName, statistic: str) -> bool:  # noqa: ARG002
        """Whether a row has a column that targets can be about."""
        return True

    def pool(self, row: RowName) -> str:  # noqa: ARG002 - for mechanisms whose rows are not all of the same people
        """Whom a row is about: rows of different people cost the larger of the two."""
        return ""

    def other_choices(self) -> dict[str, str]:
        """What can be chosen apart from parts."""
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
            step = self._step(total)
            own = total if before == self.total else total * before / self.total // step * step
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
    def columns(self) -> tuple[BoardColumn, ...]:  # type: ignore[override]
        typical = (BoardColumn("share", "of a typical area"),) if self.persons else ()
        return (
            BoardColumn("areas", "Areas"),
            BoardColumn(MARGIN, f"Margin, ± {self.measured_in}", compared=True),
            *typical,
            *self.more_columns,
            BoardColumn(PART, "Part of the budget", numeric=False),
        )

    @cached_property
    def rows(self) -> tuple[BoardRow, ...]:
        """What each part buys, in the order of the spec."""
        measured = (self._row(row, part) for row, part in self.budgets.items())
        return (*measured, *self.rows_without_part())

    def rows_without_part(self) -> tuple[BoardRow, ...]:
        """Rows whose margins follow from the parts of others."""
        return ()

    @cached_property
    def _largest(self) -> float:
        return float(max(self.budgets.values()))

    def _row(self, row: RowName, part: Fraction) -> BoardRow:
        name, facts = ":".join(row), self.facts(row)
        what = f"{facts.group}, {facts.title}"
        kind = "whole" if self.whole_margins else "number"
        entries: dict[str, BoardEntry | str] = {
            "areas": grouped(facts.areas),
            MARGIN: BoardEntry(f"{MARGIN}:{name}", f"Margin in persons: {what}", facts.margin, kind),  # type: ignore[arg-type]
        }
        if self.persons:
            entries["share"] = share_text(facts.size, self.persons, facts.areas)
        entries |= dict(facts.more)
        entries[PART] = BoardEntry(
            f"{PART}:{name}", f"Part of the budget: {what}", short_text(self._exact_parts[row], part)
        )
        return BoardRow(name, facts.group, facts.title, entries, float(part) / self._largest)

    @property
    def settings(self) -> tuple[BoardEntry, ...]:
        persons = "" if self.persons is None else str(self.persons)
        return (BoardEntry(PERSONS, "Persons in all, for shares of a typical area", persons, "whole"),)

    @cached_property
    def dials(self) -> tuple[BoardEntry, ...]:
        claim = self.claim
        if isinstance(claim.loss, PureDP):
            return (BoardEntry(BUDGET, "Budget (epsilon)", part_text(self.total)),)
        title = f"Epsilon at delta {float(claim.delta):g}"
        return (
            BoardEntry(BUDGET, "Budget (rho)", part_text(self.total)),
            BoardEntry(EPSILON, title, epsilon_text(claim)),
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

    def chosen(self, choices: Choices) -> Self:
        board, parts = self, {}
        rows = {":".join(row): row for row in self.budgets}
        for name, text in choices.items():
            kind, _, row = name.partition(":")
            if kind == PART and row in rows:
                parts[rows[row]] = typed_number(text, name, 0, LARGEST_BUDGET)
            elif name == PERSONS:
                board = board.with_persons(_persons(text))
            else:
                board = board.with_other(name, text)
        return board.with_budgets(parts) if parts else board

    def moved(self, name: str, text: str, moving: Moving) -> Self:
        kind, _, row_text = name.partition(":")
        row = next((each for each in self.budgets if ":".join(each) == row_text), None)
        locked = [each for each in self.budgets if ":".join(each) in moving.locked]
        if kind == MARGIN and row is not None:
            margin = self._typed_margin(text, name)
            return self.with_row(row, margin=margin, locked=locked, keep_total=moving.keep_total)
        if kind == PART and row is not None:
            part = typed_number(text, name, 0, LARGEST_BUDGET)
            return self.with_row(row, budget=part, locked=locked, keep_total=moving.keep_total)
        if name == BUDGET:
            return self.with_total(typed_number(text, name, 0, LARGEST_BUDGET), locked)
        if name == EPSILON and isinstance(self.claim.loss, ZCDP):
            epsilon = typed_number(text, name, 0, LARGEST_BUDGET)
            return self.with_total(rho_of(epsilon, self.claim.delta), locked)
        return self.chosen({name: text})

    def _typed_margin(self, text: str, name: str) -> Fraction:
        if self.whole_margins:
            return Fraction(typed_whole(text, name, 1, LARGEST_MARGIN))
        return typed_number(text, name, 0, LARGEST_MARGIN)


def _persons(text: str) -> int | None:
    return None if not text.strip() else typed_whole(text, PERSONS, 1, MOST_PERSONS)


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
def epsilon_text(claim: LossClaim) -> str:
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
