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
from confide.errors import ConfideError, Finding, ParameterError, Place, RunError
from confide.exact import Exact, exact_text, probability
from confide.file_system import write_text
from confide.lazy_names import SHIELDS, named
from confide.releases import LoadedSpec, boards
from confide.releases.abilities import BOARD, TARGETS
from confide.releases.draft import toml_text
from confide.releases.joint_board import JointBoard, names_of_releases
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
    written: tuple[Path, ...] = ()
    """The specs with these choices, or a configuration, where they were written."""
    others: tuple[LoadedSpec, ...] = ()
    """The specs of further releases on the same board."""
    spare: Spare | None = None
    """What is left of a total that was asked for."""
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
        words = ["confide", "tune", *(each.path.name for each in (self.loaded, *self.others))]
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
        if self.differing:
            plain["before"] = {key: self.start.board_dict()[key] for key in ("rows", "entries")}
        if self.spare is not None:
            plain["total"] = self.spare.as_dict()
        return plain | ({"written": ", ".join(map(str, self.written))} if self.written else {})

    def described(self) -> Iterator[AnswerPart]:
        now, shield = self.now, self.shield
        before = {row.name: row.entries for row in self.start.rows} if self.differing else {}

        def text(row: boards.BoardRow, column: boards.BoardColumn) -> str:
            shown = _shown(row.entries.get(column.name, ""))
            was = _shown(before.get(row.name, {}).get(column.name, shown))
            return f"{shown} (was {was})" if column.compared and was != shown else shown

        for part in dict.fromkeys(column.part for column in now.columns):
            shown = [column for column in now.columns if column.part == part]
            columns = [f"{column.title} " if column.numeric else column.title for column in shown]
            rows = [(row.name, *(text(row, column) for column in shown)) for row in now.rows]
            if rows:
                yield ShownTable([now.row_head, *columns], rows, title=part or now.caption)
        for entry in (*now.settings, *now.dials):
            yield f"{entry.title} ({entry.name}): {entry.text or '–'}"
        if self.spare is not None:
            yield from self.spare.described()
        yield ""
        yield from shield.words
        for figure in shield.figures:
            note = f" ({figure.note})" if figure.note else ""
            yield f"{figure.title}: {figure.text}{note}"
        for file in self.written:
            yield f"\nWrote {file}." + ("" if file.suffix == ".json" else f" Then: confide check {file}")


def _shown(entry: boards.BoardEntry | str) -> str:
    if isinstance(entry, str):
        return entry
    return entry.note if entry.fixed and entry.note else entry.text


MOST_HELPED = 5


@dataclass(frozen=True)
class Spare:
    """A total that was asked for, beside what the parts need, and what the rest would do for a row that had all of
    it."""

    budget: Fraction
    needed: Fraction
    helped: tuple[tuple[str, float, float], ...]
    """Rows with their margins before and then, those first that it would help most."""

    @classmethod
    def of(cls, board: boards.BudgetBoard, budget: Fraction) -> Spare:
        """What is left of a budget after the parts of a board."""
        rest, helped = budget - board.total, []
        for row in board.budgets if rest > 0 else ():
            before = board.facts(row).size
            then = board.with_budgets({row: board.budgets[row] + rest}).facts(row).size
            helped.append((":".join(row), before, then))
        helped.sort(key=lambda each: each[2] / each[1] if each[1] else 1.0)
        return cls(budget, board.total, tuple(helped[:MOST_HELPED]))

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "budget": exact_text(self.budget),
            "needed": exact_text(self.needed),
            "left": exact_text(self.budget - self.needed),
            "would_help_most": [
                {"row": name, "margin": before, "margin_with_all_that_is_left": then}
                for name, before, then in self.helped
            ],
        }

    def described(self) -> Iterator[AnswerPart]:
        """Sentences."""
        rest = self.budget - self.needed
        if rest < 0:
            more = f"{float(-rest):.6g} more than the total"
            yield f"The parts need {float(self.needed):.6g}, {more}: other rows gave way."
            return
        budget = f"{float(self.needed):.6g} of {float(self.budget):.6g}"
        yield f"Needed: {budget}; left: {float(rest):.6g}, shared by the others."
        listed = "; ".join(f"{name} (±{before:g} to ±{then:g})" for name, before, then in self.helped)
        if listed:
            yield f"All that is left would help one row most here: {listed}."


def opened_boards(specs: Sequence[str | Path]) -> OpenedBoard:
    """The board of a spec; of several, one board that they share. Reads no record.

    Args:
        specs: The spec files, of releases of the same people.
    """
    opened = [opened_board(spec) for spec in specs]
    if len(opened) == 1:
        return opened[0]
    loaded = [each.loaded for each in opened]
    own: dict[str, boards.BudgetBoard] = {}
    for name, each in zip(names_of_releases(loaded), opened, strict=True):
        if not isinstance(each.now, boards.BudgetBoard):
            raise ParameterError("joint-board/parts", where=Place(file=str(each.loaded.path)))
        own[name] = each.now
    board = JointBoard.joined(own)
    return OpenedBoard(loaded[0], board, board, others=tuple(loaded[1:]))


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
    spec: str | Path | Sequence[str | Path],
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
        spec: The spec file of a release by a mechanism that declares a board; several, of the same people, have one
            board, whose total is what they cost a person together.
        targets: In words, such as ``total <= 5 in tract @95%``; budgets and shares follow from them alone.
        moves: What would be typed on the board, by name, in order, such as ``margin:age-by-sex:county``: others follow.
        choices: Choices by name, exactly: nothing else moves.
        locked: Rows that keep their parts.
        keep_total: Whether the budget stays and other rows follow, the default; else the budget follows.
        total: What the release spends; with targets, by default what they need.
        prior: What somebody who knows everybody else believes beforehand; 0.01 by default.
        out: A new file for what was found: the spec with these choices, beside the first, or ``config.json`` of the
            Census Bureau's program; of several specs the ending of their new names; for targets of TopDown, the
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
    specs = [spec] if isinstance(spec, (str, Path)) else list(spec)
    jointly = len(specs) > 1
    without_finder = jointly or TARGETS.of(api.MECHANISMS[api.load(specs[0]).spec.release.mechanism]) is None
    by_moves = bool(targets) and not asked and without_finder
    if (targets or asked) and not by_moves:
        loaded = api.load(specs[0])
        if jointly:
            raise without_effect(loaded, ", ".join(f"--{name}" for name in asked))
        return Tuning(loaded, for_targets=_from_targets(loaded, targets, beside, {"total": total, "out": out} | asked))
    opened = opened_boards(specs)
    if by_moves:
        _targets_alone(beside)
        moves, keep_total = moves_for_targets(opened, targets), False
    elif keep_total is not None and not opened.start.follows:
        raise without_effect(opened.loaded, "--others-follow")
    now = opened.start.chosen(choices or {})
    moving = boards.Moving(locks, keep_total is not False)
    now.require_rows(moving.locked)
    opened = replace(opened, now=now, moving=moving, prior=probability(PRIOR if prior is None else prior, "prior"))
    typed = list((moves or {}).items())
    board, findings = moved(opened, typed)
    if total is not None and not findings:
        needed = board.now
        board, findings = moved(opened, [*typed, (boards.BUDGET, str(total))])
        if isinstance(needed, boards.BudgetBoard) and not findings:
            budget = boards.typed_number(str(total), boards.BUDGET, 0, boards.LARGEST_BUDGET)
            board = replace(board, spare=Spare.of(needed, budget))
    if findings:
        raise ConfideError(findings)
    return Tuning(board.loaded, board if out is None else replace(board, written=written_boards(board, Path(out))))


def written_boards(board: OpenedBoard, out: Path) -> tuple[Path, ...]:
    """Writes the spec with the choices of a board, or its configuration; of several specs each, its name before the
    new ending, as ``groups-agreed.toml``."""
    if not isinstance(board.now, JointBoard):
        return (write_official(board, out) if out.suffix == ".json" else write_tuned(board, out).file,)
    if out.suffix != ".toml" or out.name != str(out):
        raise ParameterError("joint-board/out", where=Place(path="--out"), found=str(out)[:80])
    files = []
    for loaded in (board.loaded, *board.others):
        own = replace(board, loaded=loaded, others=(), now=board.now.current[loaded.spec.release.name])
        files.append(write_tuned(own, loaded.path.with_name(f"{loaded.path.stem}-{out.name}")).file)
    return tuple(files)


def write_official(board: OpenedBoard, into: Path) -> Path:
    """Writes the configuration of the Census Bureau's program with these choices, into a new file."""
    text = board.now.official()
    if text is None:
        raise ParameterError("no-configuration", where=Place(path="--out"), found=board.loaded.spec.release.mechanism)
    if into.exists():
        raise RunError("there-already/ours", where=Place(file=str(into)))
    write_text(into, text, mode=0o644)
    return into


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
    that it asks for, such as ``margin<=50 in county`` or, where a board has sums of cells, ``total<=100 in county``:
    every row of that kind, by the smallest of its limits, or where they are of different figures by the largest part.
    """
    now = board.now
    if not isinstance(now, boards.BudgetBoard):
        raise _no_targets(board.loaded.spec.release.mechanism)
    kinds = {part.lower() for row in now.budgets for part in row}
    limits: dict[boards.RowName, dict[str, Fraction]] = {}
    for text in targets:
        words = split_target(text)
        statistic = meant(words.statistic, now.statistics)
        if statistic not in now.statistics:
            raise bad_target("bad-target/margin", text, found=words.statistic, known=", ".join(now.statistics))
        column = now.statistics[statistic]
        if words.unit or words.least or words.chance != CHANCE:
            raise bad_target("bad-target/of-counts", text, found=words.text)
        for kind in words.kinds:
            rows = [row for row in now.budgets if meant(kind, kinds) in {part.lower() for part in row}]
            rows = [row for row in rows if now.has(row, column)]
            if not rows:
                listed = ", ".join(sorted(kinds))
                raise bad_target("bad-target/kind-area", text, name=kind, kinds=listed, remedy=nearest(kind, kinds))
            for row in rows:
                own = limits.setdefault(row, {})
                own[column] = min(words.limit, own.get(column, words.limit))
    return dict(_move_for(now, row, own) for row, own in limits.items())


def _move_for(board: boards.BudgetBoard, row: boards.RowName, limits: Mapping[str, Fraction]) -> tuple[str, str]:
    """One move that gives a row all the margins that are asked of it."""
    name = ":".join(row)
    if len(limits) == 1:
        ((column, limit),) = limits.items()
        return f"{column}:{name}", str(math.floor(limit) if board.whole_margins else limit)
    part = max(board.needed_part(row, column, limit) for column, limit in limits.items())
    return f"{boards.PART}:{name}", exact_text(part)


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
