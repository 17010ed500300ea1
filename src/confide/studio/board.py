"""The trade-off board: accuracy on one side, protection on the other, and whatever is moved moves the rest.

What is computed stands in :mod:`confide.mechanisms.tables.tuning` and :mod:`confide.risk.testing.protection`. Here is
what a person does with it: parts of the budget that are typed, rows that are locked, alternatives that are pinned.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from confide import api
from confide.answers import TypedAnswer
from confide.engines.groups import write_text
from confide.errors import ConfideError, Finding, ParameterError, Place
from confide.exact import exact
from confide.mechanisms.tables.spec import TablesSpec
from confide.mechanisms.tables.tuning import RowName, TablesTuning, TunedRow, tables_tuning
from confide.privacy import ZCDP, cks_rho
from confide.releases.draft import toml_text
from confide.releases.spec import LoadedSpec
from confide.report.render import exact_text
from confide.risk.testing.protection import StatedProtection, protection

PRIOR = Fraction(1, 100)
PINS = ("A", "B", "C")
MOST_PERSONS = 10**11
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,80}\.toml")


@dataclass(frozen=True, eq=False)
class Board:
    """A programme with its parts, and what a person has chosen besides."""

    loaded: LoadedSpec
    start: TablesTuning
    """As the spec has it."""
    tuning: TablesTuning
    locked: frozenset[RowName] = frozenset()
    keep_total: bool = True
    """Whether the budget stays and the other rows follow; else the budget follows."""
    prior: Fraction = PRIOR
    pins: Mapping[str, TablesTuning] | None = None

    @property
    def protection(self) -> StatedProtection:
        """The other side."""
        return protected(self.tuning, self.prior)

    def changes(self) -> list[tuple[TunedRow, TunedRow]]:
        """The rows whose parts are not those of the spec: before and now."""
        pairs = zip(self.start.rows, self.tuning.rows, strict=True)
        return [(before, now) for before, now in pairs if before.budget != now.budget]

    def command(self) -> str:
        """What does the same at a terminal."""
        rows = [f"--row {now.table}:{now.level}={exact_text(now.budget)}" for _, now in self.changes()]
        persons = [] if self.tuning.persons is None else [f"--persons {self.tuning.persons}"]
        stays = ["--budget-follows"] if rows else []
        return " ".join([f"confide tune tables {self.loaded.path.name}", *rows, *stays, *persons])


def opened_board(spec: Path) -> Board:
    """The board of a spec. Reads the spec, the schema and the frame, and no record.

    Args:
        spec: The spec file of a release by the mechanism ``tables``.
    """
    loaded = api.load(spec)
    if not isinstance(loaded.spec, TablesSpec):
        raise ParameterError(
            "no-board",
            "the board tunes programmes of tables",
            where=Place(file=str(spec), path="release.mechanism"),
            found=loaded.spec.release.mechanism,
            expected="tables",
            remedy="use `confide tune` for SafeTab-P and the cell key method",
        )
    start = tables_tuning(loaded, api.MECHANISMS[loaded.spec.release.mechanism])
    return Board(loaded, start, start)


def protected(tuning: TablesTuning, prior: Fraction = PRIOR) -> StatedProtection:
    """What the budget of a programme protects from."""
    privacy = tuning.programme.spec.privacy
    return protection(tuning.loss, tuning.neighbours, delta=privacy.delta, prior=prior)


# What somebody typed.


@dataclass(frozen=True)
class Typed:
    """What the form of the board says, where it differs from what it showed."""

    margins: Mapping[RowName, str]
    budgets: Mapping[RowName, str]
    total: str = ""
    epsilon: str = ""


def differing(board: Board, values: Mapping[str, str]) -> Typed:
    """What was typed: what a form sends is compared with what it showed."""
    margins, budgets = {}, {}
    for place, row in enumerate(board.tuning.rows):
        margin, budget = values.get(f"margin-{place}", ""), values.get(f"budget-{place}", "")
        if margin and margin != str(row.margin):
            margins[row.name] = margin
        elif budget and budget != exact_text(row.budget):
            budgets[row.name] = budget
    total, epsilon = values.get("total", ""), values.get("epsilon", "")
    shown = {exact_text(board.tuning.total), ""}
    moved = "" if total in shown else total
    return Typed(margins, budgets, moved, "" if moved or epsilon in ("", epsilon_text(board)) else epsilon)


def epsilon_text(board: Board) -> str:
    """Epsilon as the form shows it: rounded up to two digits."""
    return f"{_up(board.protection.price.epsilon):.2f}"


def moved(board: Board, typed: Typed) -> tuple[Board, list[Finding]]:
    """The board after what was typed; as it was, and why, where that cannot be."""
    tuning, locked = board.tuning, board.locked
    try:
        for row, text in typed.margins.items():
            margin = _whole(text, row)
            tuning = tuning.with_row(row, margin=margin, locked=locked, keep_total=board.keep_total)
        for row, text in typed.budgets.items():
            part = _positive(text, ":".join(row))
            tuning = tuning.with_row(row, budget=part, locked=locked, keep_total=board.keep_total)
        if typed.total:
            tuning = tuning.with_total(_positive(typed.total, "budget"), locked)
        if typed.epsilon:
            tuning = tuning.with_total(_budget_of(tuning, _positive(typed.epsilon, "epsilon")), locked)
    except ConfideError as error:
        return board, list(error.findings)
    return replace(board, tuning=tuning), []


def _budget_of(tuning: TablesTuning, epsilon: Fraction) -> Fraction:
    if not isinstance(tuning.loss, ZCDP):
        return epsilon
    rho = cks_rho(epsilon, tuning.programme.spec.privacy.delta)
    short = rho.limit_denominator(10**9) if rho.denominator > 10**9 else rho
    return Fraction(int(short * 10**6), 10**6) or rho


def _whole(text: str, row: RowName) -> int:
    number = exact(text, ":".join(row))
    if number.denominator != 1:
        raise ParameterError(
            "margin-range",
            "a margin is a whole number of persons",
            where=Place(path=":".join(row)),
            found=text[:40],
            expected="a whole number from 1 on",
            remedy="type a whole number",
        )
    return int(number)


def _positive(text: str, name: str) -> Fraction:
    number = exact(text, name)
    if not 0 < number <= 10**6:
        raise ParameterError(
            "budget-range",
            "a part of the budget is out of range",
            where=Place(path=name),
            found=text[:40],
            expected="a number above 0, such as 0.25 or 1/4",
            remedy="type another number",
        )
    return number


# The board in an address: parts in the order of the rows.


def as_text(tuning: TablesTuning) -> str:
    """The parts of a tuning, for an address."""
    return ",".join(exact_text(budget) for budget in tuning.budgets.values())


def from_text(start: TablesTuning, text: str) -> TablesTuning:
    """The tuning with these parts."""
    parts = text.split(",")
    if len(parts) != len(start.budgets):
        raise ParameterError(
            "board-address",
            "the address is of another programme",
            found=f"{len(parts)} parts",
            expected=f"{len(start.budgets)}, one for each row",
            remedy="open the board of the spec again",
        )
    return start.with_budgets(
        {row: _positive(part, ":".join(row)) for row, part in zip(start.budgets, parts, strict=True)}
    )


# The spec and the memo.


@dataclass(frozen=True)
class TunedSpec(TypedAnswer):
    """A spec that was written with other parts of its budget."""

    file: Path
    tuning: TablesTuning

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return self.tuning.as_dict() | {"written": str(self.file)}


def spec_text(loaded: LoadedSpec, tuning: TablesTuning) -> str:
    """The spec with the parts of a tuning: budget and weights, and nothing else, are other than before."""
    head = f"# {loaded.path.name} with other parts of its budget, written by Confide. Comments are in that file.\n\n"
    return head + toml_text(tuning.spec_values(loaded.values))


def write_tuned(loaded: LoadedSpec, tuning: TablesTuning, name: str) -> TunedSpec:
    """Writes a new spec beside the first one.

    Args:
        loaded: The first spec.
        tuning: The parts.
        name: The name of the new file, which must not be there yet: paths in it are seen from the same folder.

    Returns:
        What was written.
    """
    into = loaded.path.parent / name
    if not _NAME.fullmatch(name) or into.exists():
        raise ParameterError(
            "spec-name",
            "the spec cannot have this name",
            where=Place(file=name[:80]),
            found="a file that is there already" if _NAME.fullmatch(name) else "another form",
            expected="a new name of letters, digits, dots and hyphens that ends in .toml",
            remedy="choose another name",
        )
    text = spec_text(loaded, tuning)
    tomllib.loads(text)
    write_text(into, text)
    return TunedSpec(into, tuning)


def spec_changes(board: Board) -> list[tuple[str, str, str]]:
    """What the new spec has that the first one has not: key, before, now."""
    before, now = board.loaded.values, board.tuning.spec_values(board.loaded.values)
    changes = [("privacy.budget", str(before["privacy"]["budget"]), now["privacy"]["budget"])]
    for old, new in zip(before["tables"], now["tables"], strict=True):
        changes.append((f"tables.{new['name']}.weight", str(old.get("weight", 1)), new["weight"]))
        words = ", ".join(f"{level} = {weight}" for level, weight in new["level_weights"].items())
        changes.append((f"tables.{new['name']}.level_weights", _weights(old.get("level_weights")), words))
    return [change for change in changes if change[1] != change[2]]


def _weights(value: Mapping[str, Any] | None) -> str:
    return ", ".join(f"{level} = {weight}" for level, weight in (value or {}).items()) or "as in [programme]"


def parsed_rows(texts: Iterable[str]) -> dict[RowName, str]:
    """TABLE:LEVEL=NUMBER, as typed at a terminal."""
    rows: dict[RowName, str] = {}
    for text in texts:
        name, equals, number = text.partition("=")
        table, colon, level = name.strip().rpartition(":")
        if not (equals and colon and table and level) or (table, level) in rows:
            raise ParameterError(
                "not-a-row",
                "this is not a row with a number, or it stands there twice",
                found=text[:80],
                expected="TABLE:LEVEL=NUMBER, such as age-and-sex:county=12, once for each row",
                remedy="correct it",
            )
        rows[table, level] = number.strip()
    return rows


def pinned(start: TablesTuning, texts: Sequence[str]) -> dict[str, TablesTuning]:
    """Alternatives by their letters; an empty text is a letter that is free."""
    return {letter: from_text(start, text) for letter, text in zip(PINS, texts, strict=False) if text}


def _up(number: float) -> float:
    return -(-round(100 * number, 6) // 1) / 100
