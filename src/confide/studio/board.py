"""The trade-off board: accuracy on one side, protection on the other, and whatever is moved moves the rest.

What there is to choose and what it does, a mechanism declares (:mod:`confide.releases.boards`); what it protects from
is worked out in :mod:`confide.studio.shields`. Here is what a person does with it: entries that are typed, rows that
are locked, alternatives that are pinned, a spec that is written.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from confide import api
from confide.answers import TypedAnswer
from confide.engines.protocol import write_text
from confide.errors import ConfideError, Finding, ParameterError, Place
from confide.exact import Exact, probability
from confide.registry import PROTECTION, named
from confide.releases.boards import Board, Choices, LossClaim, Moving, TunedValues, spec_changes
from confide.releases.draft import toml_text
from confide.releases.spec import LoadedSpec
from confide.report.render import exact_text
from confide.studio.shields import Shield, shield_of

PRIOR = Fraction(1, 100)
PINS = ("A", "B", "C")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,80}\.toml")
BETWEEN = ";"
"""What stands between two choices in an address."""


@dataclass(frozen=True, eq=False)
class OpenedBoard(TypedAnswer):
    """A board with what a person has chosen besides."""

    loaded: LoadedSpec
    start: Board
    """As the spec has it."""
    now: Board
    moving: Moving = field(default_factory=Moving)
    prior: Fraction = PRIOR
    pins: Mapping[str, Board] = field(default_factory=dict)
    written: Path | None = None
    """The spec with these choices, where it was written."""
    in_address: Callable[[str], str] = str
    """What stands in an address for choices: themselves, or a name that tells nothing where they are secret."""

    @property
    def shield(self) -> Shield:
        """The other side."""
        return shield_of(self.now.claim, self.prior)

    @cached_property
    def differing(self) -> dict[str, str]:
        """The choices that are not those of the spec."""
        return differing_choices(self.start, self.now)

    @property
    def command(self) -> str:
        """What does the same at a terminal."""
        words = ["confide", "tune", "board", self.loaded.path.name]
        for name, text in self.differing.items():
            words += ["--set", f"{name}={text}"]
        if self.prior != PRIOR:
            words += ["--prior", exact_text(self.prior)]
        return shlex.join(words)

    def tuned(self, stem: str) -> TunedValues:
        """The values of the spec with these choices."""
        return self.now.tuned(self.loaded, stem)

    def changes(self) -> list[tuple[str, str, str]]:
        """What the new spec has that the first one has not: key, before, now."""
        if not self.differing:
            return []
        stem = new_name(self.loaded).removesuffix(".toml")
        return spec_changes(dict(self.loaded.values), dict(self.tuned(stem).values))

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        plain = self.now.board_dict() | {"protection": self.shield.as_dict()}
        return plain if self.written is None else plain | {"written": str(self.written)}


def opened_board(spec: str | Path) -> OpenedBoard:
    """The board of a spec. Reads the spec, the schema and the frame, and no record.

    Args:
        spec: The spec file of a release by a mechanism that declares a board.
    """
    loaded = api.load(spec)
    start = api.MECHANISMS[loaded.spec.release.mechanism].board(loaded)
    if start is None:
        raise ParameterError(
            "no-board",
            "there is nothing to choose for this spec on a board",
            where=Place(file=str(spec), path="release.mechanism"),
            found=loaded.spec.release.mechanism,
            expected="one of " + ", ".join(tunable()),
            remedy="edit the spec by hand, or take that of the run that reads the records",
        )
    return OpenedBoard(loaded, start, start)


def tune_board(
    spec: str | Path,
    choices: Choices | None = None,
    moves: Choices | None = None,
    *,
    locked: Iterable[str] = (),
    keep_total: bool = True,
    prior: Exact = PRIOR,
    write: str | None = None,
) -> OpenedBoard:
    """What the choices of a spec do and what they protect from. Reads no record; nothing is spent.

    Args:
        spec: The spec file of a release by a mechanism that declares a board.
        choices: Choices by name, exactly: nothing else moves.
        moves: What would be typed on the board, by name, in order: others follow.
        locked: Rows that keep their parts.
        keep_total: Whether the budget stays and other rows follow; else the budget follows.
        prior: What somebody who knows everybody else believes beforehand.
        write: The name of a new spec with these choices, written beside the first.

    Returns:
        The board; its ``now`` has rows and entries, its ``shield`` the protection.
    """
    opened = opened_board(spec)
    now = opened.start.chosen(choices or {})
    moving = Moving(frozenset(locked), keep_total)
    now.require_rows(moving.locked)
    asked = replace(opened, now=now, moving=moving, prior=probability(prior, "prior"))
    board, findings = moved(asked, list((moves or {}).items()))
    if findings:
        raise ConfideError(findings)
    return board if write is None else replace(board, written=write_tuned(board, write).file)


def tunable() -> tuple[str, ...]:
    """The mechanisms whose specs have a board."""
    return tuple(name for name, mechanism in api.MECHANISMS.items() if mechanism.tunable)


def stated_protection(board: OpenedBoard) -> Any:
    """What the loss of a board protects from; for boards that have one."""
    claim = board.now.claim
    assert isinstance(claim, LossClaim)
    return named(PROTECTION)(claim, board.prior)


# What somebody typed.


def typed_entries(board: Board, pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """What was typed: what a form sends is compared with what it showed."""
    shown = {entry.name: entry.text for entry in board.entries()}
    return [(name, text) for name, text in pairs if name in shown and text.strip() != shown[name]]


def moved(board: OpenedBoard, typed: Sequence[tuple[str, str]]) -> tuple[OpenedBoard, list[Finding]]:
    """The board after what was typed; as it was, and why, where that cannot be.

    Args:
        board: The board as it stood.
        typed: Names of entries with what was typed into them. Rows that were typed are locked for those after them.
    """
    now, moving = board.now, board.moving
    try:
        for name, text in typed:
            now = now.moved(name, text, moving)
            row = name.partition(":")[2]
            moving = replace(moving, locked=moving.locked | {row}) if row else moving
    except ConfideError as error:
        return board, list(error.findings)
    return replace(board, now=now), []


# The board in an address: the choices that are not those of the spec.


def differing_choices(start: Board, now: Board) -> dict[str, str]:
    """The choices of a board that are not those of another."""
    if now is start:
        return {}
    before = start.choices()
    return {name: text for name, text in now.choices().items() if before.get(name) != text}


def as_text(start: Board, now: Board) -> str:
    """The choices of a board, for an address."""
    return choices_text(differing_choices(start, now))


def choices_text(choices: Choices) -> str:
    """Choices as an address has them."""
    return BETWEEN.join(f"{name}={text}" for name, text in choices.items())


@lru_cache(maxsize=512)
def from_text(start: Board, text: str) -> Board:
    """The board with the choices of an address."""
    return start.chosen(parsed_choices(text.split(BETWEEN))) if text else start


def parsed_choices(texts: Iterable[str]) -> Choices:
    """NAME=VALUE, as typed at a terminal."""
    choices: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.rpartition("=")
        if not (equals and name.strip()) or name.strip() in choices:
            raise ParameterError(
                "not-a-choice",
                "this is not a choice with its value, or it stands there twice",
                found=text[:80],
                expected="NAME=VALUE, such as margin:age-and-sex:county=12, each name once",
                remedy="correct it",
            )
        choices[name.strip()] = value.strip()
    return choices


def pinned(start: Board, texts: Sequence[str]) -> dict[str, Board]:
    """Alternatives by their letters; an empty text is a letter that is free, and a hyphen the spec as it is."""
    chosen = zip(PINS, texts, strict=False)
    return {letter: from_text(start, "" if text == "-" else text) for letter, text in chosen if text}


# The spec.


@dataclass(frozen=True)
class TunedSpec(TypedAnswer):
    """A spec that was written with other choices."""

    file: Path
    board: Board
    others: tuple[Path, ...] = ()
    """Files that it names and that were written with it."""

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        written = {"written": str(self.file)} | ({"files": [str(each) for each in self.others]} if self.others else {})
        return self.board.board_dict() | written


def new_name(loaded: LoadedSpec) -> str:
    """What a new spec beside the first one is called unless somebody says otherwise."""
    return f"{loaded.path.stem}-tuned.toml"


def write_tuned(board: OpenedBoard, name: str) -> TunedSpec:
    """Writes a new spec beside the first one.

    Args:
        board: The choices.
        name: The name of the new file, which must not be there yet: paths in it are seen from the same folder.

    Returns:
        What was written.
    """
    loaded = board.loaded
    into = loaded.path.parent / name
    fits = _NAME.fullmatch(name) is not None
    tuned = board.tuned(name.removesuffix(".toml")) if fits else TunedValues({})
    others = [into.parent / each for each in tuned.files]
    if not fits or into.exists() or any(file.exists() for file in others):
        raise ParameterError(
            "spec-name",
            "the spec cannot have this name",
            where=Place(file=name[:80]),
            found="a file that is there already" if fits else "another form",
            expected="a new name of letters, digits, dots and hyphens that ends in .toml",
            remedy="choose another name",
        )
    head = f"# {loaded.path.name} with other choices, written by Confide. Comments are in that file.\n\n"
    text = head + toml_text(tuned.values)
    texts = {into.parent / each: make() for each, make in tuned.files.items()}
    for each in (text, *texts.values()):
        tomllib.loads(each)
    for file, other in texts.items():
        write_text(file, other)
    write_text(into, text)
    into.chmod(loaded.path.stat().st_mode & 0o777)  # a spec may hold a secret, such as the rate of a swap
    return TunedSpec(into, board.now, tuple(texts))


def asked_prior(text: str) -> Fraction:
    """A prior that was typed."""
    return probability(text, "prior")
