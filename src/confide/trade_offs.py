"""The trade-off board: accuracy on one side, protection on the other, and whatever is moved moves the rest.

What there is to choose and what it does, a mechanism declares (:mod:`confide.releases.boards`). Here is first what the
choices protect from, then what a person does with them: entries that are typed, rows that are locked, alternatives that
are pinned, a spec that is written.
"""

from __future__ import annotations

import math
import re
import shlex
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache, cached_property, lru_cache
from inspect import signature
from pathlib import Path
from typing import Any

from pydantic import Field

from confide import api
from confide.answers import AnswerPart, ShownTable, TypedAnswer
from confide.documents import Part, load_named
from confide.errors import ConfideError, Finding, ParameterError, Place
from confide.exact import Exact, exact_text, probability
from confide.file_system import write_text
from confide.lazy_names import SHIELDS, named
from confide.releases import LoadedSpec, boards
from confide.releases.abilities import BOARD, TARGETS
from confide.releases.draft import toml_text
from confide.releases.loss_account import YARDSTICKS
from confide.utility.target_words import CHANCE, bad_target, meant, nearest, split_target

# What the choices on a board protect from, by the kind of claim that they make.
#
# A claim about a loss or about bounded noise is looked at by the laboratory, which is found by name
# (:mod:`confide.lab.studio.shields_of_claims`); for any other, the mechanism itself says what it protects from.


@dataclass(frozen=True, slots=True)
class ShieldYardstick:
    """What somebody else chose, with where that was published."""

    name: str
    office: str
    text: str
    source: str


@dataclass(frozen=True, slots=True)
class RegionColumn:
    """The variances that are left for one bound, as a part of a picture: from the top down."""

    bound: int
    x: float
    strict: tuple[float, float] | None
    relaxed: tuple[float, float] | None
    words: str


@dataclass(frozen=True, slots=True)
class RegionPicture:
    """Bach's Figure 6: bounds across, variances up, and where the choice stands."""

    columns: tuple[RegionColumn, ...]
    column_width: float
    x: float
    y: float
    largest_bound: int
    largest_variance: float
    ticks: tuple[tuple[float, str], ...]
    averaging: float
    useful: float
    """Where the largest useful bound ends."""


@dataclass(frozen=True, slots=True)
class Shield:
    """The side of protection."""

    words: tuple[str, ...]
    figures: tuple[boards.ClaimFigure, ...]
    compared: tuple[tuple[str, str], ...] = ()
    """What alternatives are compared by: a title and a figure."""
    own: str = ""
    """What is beside the yardsticks."""
    measure: str = ""
    yardsticks: tuple[ShieldYardstick, ...] = ()
    note: str = ""
    asks_prior: bool = False
    region: RegionPicture | None = None
    plain: Any = None

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        figures = [{"title": each.title, "value": each.text, "note": each.note} for each in self.figures]
        return {"in_words": list(self.words), "figures": figures} | (self.plain or {})


def shield_of(claim: boards.BoardClaim, prior: Fraction) -> Shield:
    """What a claim means for people.

    Args:
        claim: What a board promises.
        prior: What somebody who knows everybody else believes beforehand.
    """
    if not isinstance(claim, boards.StatedClaim):
        shield: Shield = named(SHIELDS[type(claim).__name__])(claim, prior)
        return shield
    compared = tuple((each.title, each.text) for each in claim.figures)
    others = chosen_by_others(claim.yardsticks) if claim.yardsticks else ()
    return Shield(claim.words, claim.figures, compared, claim.own, "Choice", others)


class _Choice(Part):
    """What an office chose, as it published it."""

    kind: str
    name: str
    office: str
    text: str
    source: str


class _ChoicesFile(Part):
    """The whole file."""

    choices: list[_Choice] = Field(min_length=1)


@cache
def chosen_by_others(kind: str) -> tuple[ShieldYardstick, ...]:
    """What others chose where no epsilon is stated.

    >>> chosen_by_others("swapping")[0].text
    '7 to 10 % of households'
    """
    listed = load_named("choices", Path(), _ChoicesFile, kind=YARDSTICKS).value.choices
    return tuple(
        ShieldYardstick(each.name, each.office, each.text, each.source) for each in listed if each.kind == kind
    )


PRIOR = Fraction(1, 100)
PINS = ("A", "B", "C")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,80}\.toml")
BETWEEN = ";"
"""What is between two choices in an address."""


@dataclass(frozen=True, eq=False)
class OpenedBoard(TypedAnswer):
    """A board, and what else a person has chosen."""

    loaded: LoadedSpec
    start: boards.Board
    """As the spec has it."""
    now: boards.Board
    moving: boards.Moving = field(default_factory=boards.Moving)
    prior: Fraction = PRIOR
    pins: Mapping[str, boards.Board] = field(default_factory=dict)
    written: Path | None = None
    """The spec with these choices, where it was written."""
    in_address: Callable[[str], str] = str
    """What is in an address for choices: themselves, or a name that tells nothing where they are secret."""

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
        words = ["confide", "tune", self.loaded.path.name]
        for name, text in self.differing.items():
            words += ["--set", f"{name}={text}"]
        if self.prior != PRIOR:
            words += ["--prior", exact_text(self.prior)]
        return shlex.join(words)

    def tuned(self, stem: str) -> boards.TunedValues:
        """The values of the spec with these choices."""
        return self.now.tuned(self.loaded, stem)

    def changes(self) -> list[tuple[str, str, str]]:
        """What the new spec has that the first one has not: key, before, now."""
        if not self.differing:
            return []
        stem = new_name(self.loaded).removesuffix(".toml")
        return boards.spec_changes(dict(self.loaded.values), dict(self.tuned(stem).values))

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        plain = self.now.board_dict() | {"protection": self.shield.as_dict()}
        return plain if self.written is None else plain | {"written": str(self.written)}

    def described(self) -> Iterator[AnswerPart]:
        now, shield = self.now, self.shield

        def text(entry: boards.BoardEntry | str) -> str:
            return entry if isinstance(entry, str) else entry.text

        columns = [f"{column.title} " if column.numeric else column.title for column in now.columns]
        rows = [(row.name, *(text(row.entries.get(column.name, "")) for column in now.columns)) for row in now.rows]
        if rows:
            yield ShownTable([now.row_head, *columns], rows, title=now.caption)
        for entry in (*now.settings, *now.dials):
            yield f"{entry.title} ({entry.name}): {entry.text or '–'}"
        yield ""
        yield from shield.words
        for figure in shield.figures:
            note = f" ({figure.note})" if figure.note else ""
            yield f"{figure.title}: {figure.text}{note}"
        if self.written is not None:
            yield f"\nWrote {self.written}. Then: confide check {self.written}"


def opened_board(spec: str | Path) -> OpenedBoard:
    """The board of a spec. Reads the spec, the schema and the frame, and no record.

    Args:
        spec: The spec file of a release by a mechanism that declares a board.
    """
    loaded = api.load(spec)
    start = boards.declared_board(api.MECHANISMS[loaded.spec.release.mechanism], loaded)
    if start is None:
        raise ParameterError(
            "no-board",
            where=Place(file=str(spec), path="release.mechanism"),
            found=loaded.spec.release.mechanism,
            tunable=", ".join(tunable()),
        )
    return OpenedBoard(loaded, start, start)


@dataclass(frozen=True, eq=False)
class Tuning(TypedAnswer):
    """The answer of :func:`tune`."""

    loaded: LoadedSpec
    moved: OpenedBoard | None = None
    """The board after the moves; none where targets were given."""
    for_targets: TypedAnswer | None = None
    """Where targets were given: what they need, and what else changes."""

    @cached_property
    def board(self) -> OpenedBoard:
        """The board after the moves; where targets were given, as the spec has it."""
        return self.moved or opened_board(self.loaded.path)

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return self.board.as_dict() if self.for_targets is None else self.for_targets.as_dict()

    def described(self) -> Iterator[AnswerPart]:
        """What the targets need; without any, the board."""
        return self.board.described() if self.for_targets is None else self.for_targets.described()


def tune(
    spec: str | Path,
    targets: Sequence[str] = (),
    moves: boards.Choices | None = None,
    *,
    choices: boards.Choices | None = None,
    locked: Iterable[str] = (),
    keep_total: bool | None = None,
    total: Exact | None = None,
    prior: Exact | None = None,
    out: str | Path | None = None,
    **asked: Any,
) -> Tuning:
    """What the choices of a spec do and what they protect from; or what targets need. Reads no record, spends nothing.

    Args:
        spec: The spec file of a release by a mechanism that declares a board.
        targets: In words, such as ``total <= 5 in tract @95%``; budgets and shares follow from them alone.
        moves: What would be typed on the board, by name, in order, such as ``margin:age-by-sex:county``: others follow.
        choices: Choices by name, exactly: nothing else moves.
        locked: Rows that keep their parts.
        keep_total: Whether the budget stays and other rows follow, the default; else the budget follows.
        total: What the release spends; with targets, by default what they need.
        prior: What somebody who knows everybody else believes beforehand; 0.01 by default.
        out: A new file for what was found: the spec with these choices, beside the first; for targets of TopDown, the
            strategy.
        asked: What else can be asked of targets, as the mechanism has it
            (:func:`confide.inference.tuning.tune_topdown`, :func:`confide.mechanisms.tables.tuning.tune_tables`).

    Returns:
        The board: its ``now`` has rows and entries, its ``shield`` the protection; and what the targets need.

    >>> tune("tests/contract/examples/tables/spec.toml", moves={"budget": "2"}).board.now.choices()["persons"]
    ''
    """
    locks = frozenset(locked)
    of_rows = {
        "--move": bool(moves),
        "--set": bool(choices),
        "--lock": bool(locks),
        "--others-follow": keep_total is not None,
        "--prior": prior is not None,
    }
    beside = [option for option, given in of_rows.items() if given]
    by_moves = bool(targets) and not asked and TARGETS.of(api.MECHANISMS[api.load(spec).spec.release.mechanism]) is None
    if (targets or asked) and not by_moves:
        loaded = api.load(spec)
        return Tuning(loaded, for_targets=_from_targets(loaded, targets, beside, {"total": total, "out": out} | asked))
    opened = opened_board(spec)
    if by_moves:
        _targets_alone(beside)
        moves, keep_total = moves_for_targets(opened, targets), False
    elif keep_total is not None and not opened.start.follows:
        raise without_effect(opened.loaded, "--others-follow")
    now = opened.start.chosen(choices or {})
    moving = boards.Moving(locks, keep_total is not False)
    now.require_rows(moving.locked)
    opened = replace(opened, now=now, moving=moving, prior=probability(PRIOR if prior is None else prior, "prior"))
    typed = [*(moves or {}).items(), *([] if total is None else [(boards.BUDGET, str(total))])]
    board, findings = moved(opened, typed)
    if findings:
        raise ConfideError(findings)
    return Tuning(board.loaded, board if out is None else replace(board, written=write_tuned(board, Path(out)).file))


def _from_targets(loaded: LoadedSpec, targets: Sequence[str], beside: list[str], asked: dict[str, Any]) -> TypedAnswer:
    """What targets need, found by the function that the mechanism names; what it has no use for is refused."""
    mechanism = api.MECHANISMS[loaded.spec.release.mechanism]
    find = TARGETS.of(mechanism)
    if find is None:
        raise _no_targets(mechanism.name)
    _targets_alone(beside)
    wanted = {name: value for name, value in asked.items() if value is not None}
    unused = sorted(set(wanted) - set(signature(find).parameters))
    if unused:
        raise without_effect(loaded, ", ".join(f"--{name}" for name in unused))
    return find(loaded.path, targets, **wanted)


def _targets_alone(beside: list[str]) -> None:
    """Raises where rows are moved or locked beside targets."""
    if beside:
        raise ParameterError("targets-and-rows", where=Place(path="--target"), found=", ".join(beside))


def _no_targets(mechanism: str) -> ParameterError:
    return ParameterError(
        "no-targets-here",
        where=Place(path="--target"),
        found=mechanism,
        mechanisms=", ".join(TARGETS.among(api.MECHANISMS)),
    )


def moves_for_targets(board: OpenedBoard, targets: Sequence[str]) -> dict[str, str]:
    """The moves of a board whose rows are kinds of area, so that each kind that a target names has the noise margin
    that it asks for, such as ``margin<=50 in county``: every row of that kind, by the smallest of its limits."""
    now = board.now
    if not isinstance(now, boards.BudgetBoard):
        raise _no_targets(board.loaded.spec.release.mechanism)
    kinds = {part.lower() for row in now.budgets for part in row}
    limits: dict[boards.RowName, Fraction] = {}
    for text in targets:
        words = split_target(text)
        if meant(words.statistic, ("margin", "noise margin")) not in ("margin", "noise margin"):
            raise bad_target("bad-target/margin", text, found=words.statistic)
        if words.unit or words.least or words.chance != CHANCE:
            raise bad_target("bad-target/of-counts", text, found=words.text)
        for kind in words.kinds:
            rows = [row for row in now.budgets if meant(kind, kinds) in {part.lower() for part in row}]
            if not rows:
                listed = ", ".join(sorted(kinds))
                raise bad_target("bad-target/kind-area", text, name=kind, kinds=listed, remedy=nearest(kind, kinds))
            limits |= {row: min(words.limit, limits.get(row, words.limit)) for row in rows}
    texts = {row: str(math.floor(limit) if now.whole_margins else limit) for row, limit in limits.items()}
    return {f"{boards.MARGIN}:{':'.join(row)}": text for row, text in texts.items()}


def without_effect(loaded: LoadedSpec, options: str) -> ParameterError:
    """An option was given that this spec has no use for."""
    return ParameterError("option-without-effect", where=Place(path=options), mechanism=loaded.spec.release.mechanism)


def tunable() -> tuple[str, ...]:
    """The mechanisms whose specs have a board."""
    return tuple(BOARD.among(api.MECHANISMS))


# What somebody typed.


def typed_entries(board: boards.Board, pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
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


def differing_choices(start: boards.Board, now: boards.Board) -> dict[str, str]:
    """The choices of a board that are not those of another."""
    if now is start:
        return {}
    before = start.choices()
    return {name: text for name, text in now.choices().items() if before.get(name) != text}


def as_text(start: boards.Board, now: boards.Board) -> str:
    """The choices of a board, for an address."""
    return choices_text(differing_choices(start, now))


def choices_text(choices: boards.Choices) -> str:
    """Choices as an address has them."""
    return BETWEEN.join(f"{name}={text}" for name, text in choices.items())


@lru_cache(maxsize=512)
def from_text(start: boards.Board, text: str) -> boards.Board:
    """The board with the choices of an address."""
    return start.chosen(parsed_choices(text.split(BETWEEN))) if text else start


def parsed_choices(texts: Iterable[str]) -> boards.Choices:
    """NAME=VALUE, as typed at a terminal."""
    choices: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.rpartition("=")
        if not (equals and name.strip()) or name.strip() in choices:
            raise ParameterError("not-a-choice", found=text[:80])
        choices[name.strip()] = value.strip()
    return choices


def pinned(start: boards.Board, texts: Sequence[str]) -> dict[str, boards.Board]:
    """Alternatives by their letters; an empty text is a letter that is free, and a hyphen the spec as it is."""
    chosen = zip(PINS, texts, strict=False)
    return {letter: from_text(start, "" if text == "-" else text) for letter, text in chosen if text}


# The spec.


@dataclass(frozen=True)
class TunedSpec(TypedAnswer):
    """A spec that was written with other choices."""

    file: Path
    board: boards.Board
    others: tuple[Path, ...] = ()
    """Files that it names and that were written with it."""

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        written = {"written": str(self.file)} | ({"files": [str(each) for each in self.others]} if self.others else {})
        return self.board.board_dict() | written


def new_name(loaded: LoadedSpec) -> str:
    """What a new spec beside the first one is called unless somebody says otherwise."""
    return f"{loaded.path.stem}-tuned.toml"


def write_tuned(board: OpenedBoard, into: Path) -> TunedSpec:
    """Writes a new spec beside the first one.

    Args:
        board: The choices.
        into: The new file, which must not be there yet, in the folder of the first: paths in it are seen from there.

    Returns:
        What was written.
    """
    loaded = board.loaded
    name = into.name
    fits = _NAME.fullmatch(name) is not None and into.parent.resolve() == loaded.path.parent.resolve()
    tuned = board.tuned(name.removesuffix(".toml")) if fits else boards.TunedValues({})
    others = [into.parent / each for each in tuned.files]
    if not fits or into.exists() or any(file.exists() for file in others):
        raise ParameterError("spec-name", where=Place(file=name[:80]), fits=fits, parent=loaded.path.parent)
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
