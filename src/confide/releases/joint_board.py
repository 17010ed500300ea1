"""One board for several releases of the same people, such as SafeTab-P, SafeTab-H and PHSafe: what they cost together.

Parts are in what a release costs one person, so that they add up: a release whose unit is the household costs a person
twice what it states, because one person may change a household (``docs/proofs/accounting.md``). Rows are those of the
releases' own boards, each under the name of its release, and what moves one row is asked of its own board.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

from confide.errors import ParameterError, Place
from confide.exact import exact_text
from confide.privacy import ZCDP, Neighbours, PureDP
from confide.releases import boards
from confide.releases.boards import BudgetBoard, LossClaim, Moving, RowFacts, RowName
from confide.releases.spec import LoadedSpec

OF_HOUSEHOLD = 2
"""What a person costs of what a household costs: the household before, and the household after."""
NAME = "/"
"""Between the name of a release and that of one of its choices."""


@dataclass(frozen=True, eq=False, kw_only=True)
class JointBoard(BudgetBoard):
    """The boards of several releases, with one budget for each person."""

    own: Mapping[str, BudgetBoard]
    """The boards by the names of their releases, with parts that are replaced by ``budgets``."""

    row_head: ClassVar[str] = "Release and row"
    measured_in: ClassVar[str] = "persons or households"
    caption: str = (
        "Each margin is that of its own release. Parts are what the row costs one person: twice its part where a "
        "release protects households."
    )
    more_columns: ClassVar[tuple[boards.BoardColumn, ...]] = (
        boards.BoardColumn("total", "Of a total, at most ±", compared=True),
    )

    @classmethod
    def joined(cls, own: Mapping[str, BudgetBoard]) -> JointBoard:
        """The board of boards. Raises where one of them has another definition, or another unit than these."""
        kinds = {type(board.claim.loss) for board in own.values()}
        deltas = {board.claim.delta for board in own.values()}
        if len(kinds) > 1 or len(deltas) > 1 or any(each.claim.unit not in _WEIGHTS for each in own.values()):
            raise ParameterError("joint-board/alike", where=Place(path="SPEC"))
        return cls(
            own=own,
            budgets={
                (name, *row): _WEIGHTS[board.claim.unit] * part
                for name, board in own.items()
                for row, part in board.budgets.items()
            },
        )

    @classmethod
    def of(cls, problem: Any) -> Self:
        raise NotImplementedError("a joint board is made of boards")

    @cached_property
    def current(self) -> Mapping[str, BudgetBoard]:
        """The boards of the releases as they are now."""
        parts: dict[str, dict[RowName, Fraction]] = {name: {} for name in self.own}
        for (name, *row), part in self.budgets.items():
            parts[name][tuple(row)] = part / self.weight(name)
        return {name: board.with_budgets(parts[name]) for name, board in self.own.items()}

    def weight(self, name: str) -> int:
        """How many times a person pays what a release states."""
        return _WEIGHTS[self.own[name].claim.unit]

    @property
    def statistics(self) -> Mapping[str, str]:  # type: ignore[override]
        return {word: column for board in self.own.values() for word, column in board.statistics.items()}

    @cached_property
    def claim(self) -> LossClaim:
        first = next(iter(self.own.values())).claim
        loss = ZCDP(self.total) if isinstance(first.loss, ZCDP) else PureDP(self.total)
        return LossClaim(loss, Neighbours.ADD_REMOVE, first.delta)

    def pool(self, row: RowName) -> str:
        return self.own[row[0]].pool(row[1:])

    def facts(self, row: RowName) -> RowFacts:
        facts = self.current[row[0]].facts(row[1:])
        more = [entry for name, entry in facts.more if name == "total"]
        text = next((each if isinstance(each, str) else each.text for each in more), "–")
        return replace(facts, group=f"{row[0]}: {facts.group}", more=(("total", text),))

    def smallest(self, row: RowName, margin: Fraction) -> Fraction:
        return self.weight(row[0]) * self.current[row[0]].smallest(row[1:], margin)

    def needed_part(self, row: RowName, statistic: str, margin: Fraction) -> Fraction:
        return self.weight(row[0]) * self.current[row[0]].needed_part(row[1:], statistic, margin)

    def has(self, row: RowName, statistic: str) -> bool:
        board = self.own[row[0]]
        return statistic in board.statistics.values() and board.has(row[1:], statistic)

    def reached(self, row: RowName, margin: Fraction) -> bool:
        return self.current[row[0]].reached(row[1:], margin)

    def moved(self, name: str, text: str, moving: Moving) -> Self:
        kind, _, row_text = name.partition(":")
        row = next((each for each in self.budgets if ":".join(each) == row_text), None)
        if row is None or kind in (boards.MARGIN, boards.PART) or not self.has(row, kind):
            return super().moved(name, text, moving)
        margin = Fraction(boards.typed_whole(text, name, 1, boards.LARGEST_MARGIN))
        locked = [each for each in self.budgets if ":".join(each) in moving.locked]
        part = self.needed_part(row, kind, margin)
        return self.with_row(row, budget=part, locked=locked, keep_total=moving.keep_total)

    def other_choices(self) -> dict[str, str]:
        return {
            f"{name}{NAME}{choice}": text
            for name, board in self.own.items()
            for choice, text in board.other_choices().items()
        }

    def with_other(self, name: str, text: str) -> Self:
        release, _, choice = name.partition(NAME)
        if release not in self.own or not choice:
            raise self.no_entry(name)
        return replace(self, own={**self.own, release: self.own[release].with_other(choice, text)})

    def board_dict(self) -> dict[str, Any]:
        releases = {
            name: {
                "budget": exact_text(board.total),
                "unit": board.claim.unit,
                "costs_a_person": exact_text(self.weight(name) * board.total),
                **{key: value for key, value in board.board_dict().items() if key in ("levels", "entries")},
            }
            for name, board in self.current.items()
        }
        return super().board_dict() | {"releases": releases}

    def tuned(self, loaded: LoadedSpec, stem: str) -> boards.TunedValues:
        return self.current[loaded.spec.release.name].tuned(loaded, stem)


_WEIGHTS = {"person": 1, "household": OF_HOUSEHOLD}


def names_of_releases(loaded: Sequence[LoadedSpec]) -> list[str]:
    """The names of the releases of specs, which must differ: rows are known by them."""
    names = [each.spec.release.name for each in loaded]
    for place, name in enumerate(names):
        if name in names[:place]:
            raise ParameterError("joint-board/twice", where=Place(file=str(loaded[place].path)), found=name)
    return names
