"""A trade-off board: what a mechanism lets people choose, what each choice does, and what it protects from.

A mechanism declares its board by the ability ``board`` (:mod:`confide.releases.abilities`). A board is a
value: whatever somebody types gives another board, and nothing is read from records or spent. It has

- **rows**, such as a table on a level, with entries in columns; most rows can be locked;
- **settings** and **dials**, entries of the whole release: dials stand beside the protection, such as the budget;
- a **claim**: what the choices promise, from which the faces work out what an adversary could learn;
- **choices**: everything that was chosen, by name and exactly. They are the board's address, and ``--set`` of
  ``confide tune``.

What is typed into an entry is a **move** (``--move``): other rows may follow, as :class:`Moving` says.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, Literal, Self, TypeVar

from confide.answers import TypedAnswer
from confide.engines import Engine, LocalEngine
from confide.errors import ParameterError, Place
from confide.exact import exact
from confide.inputs.made_up import nobody, of_nobody
from confide.privacy import ZCDP, Neighbours, PureDP
from confide.releases.abilities import BOARD
from confide.releases.check import throwaway_workspace
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


@dataclass(frozen=True, slots=True)
class BoardRow:
    """What stands in one line: entries by the names of columns."""

    name: str
    group: str
    title: str
    entries: Mapping[str, BoardEntry | str]
    amount: float | None = None
    """From zero to one, for a bar beside it."""
    lockable: bool = True


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
    """Whose choices stand beside it: a kind of ``data/yardsticks/choices.toml``."""
    own: str = ""
    """What stands beside theirs."""


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
        """Whether the release keeps its settings secret: then they stand in no address."""
        return False

    @property
    @abstractmethod
    def rows(self) -> tuple[BoardRow, ...]:
        """What stands on the side of accuracy."""

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
            return ParameterError("no-entry/choice", found=name, value=", ".join([*self.choices()][:12]), name=name)
        return ParameterError("no-entry/board", found=name[:80], names=", ".join(names[:12]), more=len(names) > 12)

    def require_rows(self, names: Iterable[str]) -> None:
        """Raises where a row that should keep its part is not on the board, or cannot be locked."""
        known = [row.name for row in self.rows if row.lockable]
        for name in sorted(set(names) - set(known)):
            raise ParameterError(
                "no-row/locked", found=name[:80], known=", ".join(known[:12]) if known else None, more=len(known) > 12
            )


def prepared_without_records(prepare: Callable[[LoadedSpec, Engine], P], loaded: LoadedSpec) -> P:
    """What a mechanism prepares from spec, schema and frame; in place of the records stands a file without any."""
    with of_nobody(), throwaway_workspace() as scratch, LocalEngine(scratch.scratch, processes=1) as engine:
        return prepare(loaded.with_data(records=str(nobody(scratch.root))), engine)


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
