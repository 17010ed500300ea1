"""What the invariants of a TopDown release do to its promise, worked out from its plan alone.

The plan's constraints become sentences of the language of :mod:`confide.privacy.invariants`: published answers are
counts, bounds of the frame are bounds, structural zeros are combinations that no record has. What that language cannot
say, or the plan does not tell, is named and not guessed. Derivation: ``docs/proofs/invariants.md``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

from confide.errors import ParameterError
from confide.exact import Exact, exact
from confide.mechanisms.topdown.descent import problems, solver_words
from confide.messages import Messages, messages
from confide.privacy import ZCDP, PureDP
from confide.privacy.invariants import (
    Answer,
    InvariantAttribute,
    InvariantBound,
    InvariantCount,
    Invariants,
    Mode,
    Never,
    RecordGroup,
    Records,
    Status,
    exchange_rho,
    group_concentration,
    record_groups,
    single_record,
)
from confide.privacy.invariants.group_statements import DELTA, GroupConcentration
from confide.privacy.statements import factor, rounded_up
from confide.releases.plan import Plan, read_plan
from confide.report.certificate import CERTIFICATE, CertificateWords, certificate, messages_of

_MOST_CELLS = 64
"""A published query with more cells than this is not taken apart."""


@dataclass(frozen=True)
class InvariantTranslation:
    """The invariants of a plan in the language, and the names of those that it cannot express."""

    invariants: Invariants
    left_out: tuple[str, ...] = ()


def documents(manifest: Mapping[str, Any]) -> dict[str, str]:
    """The certificate of a release, with its invariants and how its estimates were made."""
    plan, epsilon = read_plan(manifest["plan"]), manifest["privacy"].get("epsilon_at_delta")
    text = messages_of(manifest)
    said = CertificateWords(
        text.text("certificate.counts_topdown"),
        invariants=invariants(plan, text),
        invariants_note=invariants_note(plan, text),
        effective=effective_privacy(plan, epsilon["delta"] if epsilon else DELTA, text),
        estimates=_estimates(manifest["statistics"], text, plan.question.get("evidence", ())),
        accuracy="accuracy" in manifest,
    )
    return {CERTIFICATE: certificate(manifest, said)}


def evidence_words(levels: Sequence[str], text: Messages | None = None) -> str:
    """One sentence on what units were estimated from, where it is more than their own measurements; else nothing."""
    return (text or messages()).text("topdown.evidence_tree", levels=", ".join(levels)) if levels else ""


def _estimates(statistics: Mapping[str, Any], text: Messages, evidence: Sequence[str]) -> dict[str, Any] | None:
    """How the estimates were made: in all, and the least-squares problems by level; none where nothing was made."""
    if not statistics:
        return None
    in_all, by_level = statistics["whole"], statistics["levels"]
    return {
        "words": solver_words(in_all, text) + (f"; {evidence_words(evidence, text)}" if evidence else ""),
        "inexact": in_all["least_squares"]["inexact"],
        "problems": {name: problems(part) for name, part in by_level.items()},
        "not_proved": {name: part["least_squares"]["inexact"] for name, part in by_level.items()},
    }


def effective_privacy(plan: Plan, delta: Exact = DELTA, text: Messages | None = None) -> list[str]:
    """What the promise is worth together with the invariants, in sentences; empty where there are no constraints."""
    m = text or messages()
    constraints = _constraints(plan)
    if not any(constraints.get(kind) for kind in ("invariants", "bounds")):
        return []
    if not isinstance(plan.loss, PureDP | ZCDP):
        return [m.text("topdown.not_worked_out_kind")]
    translated = translate(plan, m)
    try:
        answers, groups = single_record(translated.invariants), record_groups(translated.invariants)
    except ParameterError:
        return [m.text("topdown.not_worked_out_many")]
    record = m.unit(str(plan.question.get("record", "record")))
    words = _BoundWords(plan, exact(delta, "delta"), m)
    return [
        *_one_record(words, answers, record),
        *_exceptions(words, answers, groups),
        *_groups(words, answers, groups, record),
        *_left_out(translated, m),
        m.text("topdown.by_themselves"),
    ]


def translate(plan: Plan, text: Messages | None = None) -> InvariantTranslation:
    """The constraints of a plan in the language of invariants."""
    said = _Translator(plan, text or messages())
    counts = tuple(said.counts())
    bounds = tuple(said.bounds())
    never = tuple(said.never())
    used = {count.by for count in counts} | {plan.spine[-1]}
    geography = tuple(level for level in plan.spine[1:] if level in used) or plan.spine[-1:]
    records = Records(str(plan.question["strategy"]["id"]), geography, said.attributes())
    names = tuple(str(item["name"]) for item in _constraints(plan).get("invariants", ()))
    return InvariantTranslation(Invariants(names, records, counts, bounds, never), tuple(dict.fromkeys(said.left_out)))


def _constraints(plan: Plan) -> Mapping[str, Any]:
    constraints: Mapping[str, Any] = plan.question.get("strategy", {}).get("constraints", {})
    return constraints


class _Translator:
    """Reads the constraints of a plan one after the other, and keeps the names of what it cannot express."""

    def __init__(self, plan: Plan, text: Messages):
        self._plan, self._text = plan, text
        self._constraints = _constraints(plan)
        self._titles: Mapping[str, str] = plan.question.get("attributes", {})
        self._sizes = {name: size for name in self._titles if (size := self._size(name)) is not None}
        self._codes = {name: list(dict.fromkeys(self._named(name))) for name in self._titles}
        self.left_out: list[str] = []

    def _named(self, name: str) -> Iterator[str]:
        """Every code of an attribute that a constraint names."""
        facts = self._plan.question
        for bound in facts.get("bounds", ()):
            if bound["attribute"] == name:
                yield from (str(code) for group in bound["groups"] for code in group["codes"])
        wheres = [zero["where"] for zero in self._constraints.get("zeros", ())]
        wheres += [cell["where"] for item in facts.get("told", ()) for cell in item["cells"]]
        yield from (str(code) for where in wheres for code in where.get(name, ()))

    def _size(self, name: str) -> int | None:
        """How many levels an attribute has: the cells of the query that has it alone, as it is."""
        for measure in self._plan.measures:
            if measure.attributes == (name,) and measure.query in (name, "detailed"):
                return measure.cells
        return None

    def _where(self, where: Mapping[str, Any]) -> dict[str, frozenset[str]] | None:
        """Codes by attribute as levels; None where the plan does not tell how many levels there are."""
        if not set(where) <= set(self._sizes):
            return None
        return {name: frozenset(map(str, codes)) for name, codes in where.items()}

    def counts(self) -> Iterator[InvariantCount]:
        cells_of = {item["name"]: item["cells"] for item in self._plan.question.get("told", ())}
        for invariant in self._constraints.get("invariants", ()):
            if invariant["query"] is None:
                continue  # counts of the frame: about the records they say what bounds say
            level = invariant["level"]
            wheres = self._cells(invariant["query"]) if invariant["name"] not in cells_of else None
            if wheres is None:
                wheres = [self._where(cell["where"]) for cell in cells_of.get(invariant["name"], ())]
            if level not in self._plan.spine or not wheres:
                self.left_out.append(invariant["name"])
                continue
            for where in wheres:
                if where is None:
                    self.left_out.append(invariant["name"])
                else:
                    yield InvariantCount(None if level == self._plan.spine[0] else level, where)

    def _cells(self, query: str) -> list[Mapping[str, frozenset[str]] | None] | None:
        """The cells of a query of whole attributes; None if it has recodes, or too many cells."""
        names = [] if query == "total" else query.split("*")
        if not set(names) <= set(self._sizes) or prod(self._sizes[name] for name in names) > _MOST_CELLS:
            return None
        levels = [list(self._levels(name)) for name in names]
        return [dict(zip(names, (frozenset({one}) for one in cell), strict=True)) for cell in product(*levels)]

    def bounds(self) -> Iterator[InvariantBound]:
        stated = {item["name"]: item for item in self._plan.question.get("bounds", ())}
        for bound in self._constraints.get("bounds", ()):
            item = stated.get(bound["name"])
            for group in item["groups"] if item else [None]:
                where = self._where({item["attribute"]: group["codes"]}) if item and group else None
                if item is None or group is None or where is None:
                    self.left_out.append(bound["name"])
                    continue
                yield _bound(item, group["column"], where, self._plan.spine[-1], self._text)

    def never(self) -> Iterator[Never]:
        for zero in self._constraints.get("zeros", ()):
            where = self._where(zero["where"])
            if where is None:
                self.left_out.append(zero["name"])
            else:
                yield Never(where)

    def attributes(self) -> tuple[InvariantAttribute, ...]:
        return tuple(
            InvariantAttribute(name, title.replace("_", " "), dict.fromkeys(self._levels(name), 1), {})
            for name, title in self._titles.items()
        )

    def _levels(self, name: str) -> Iterator[str]:
        """The codes that constraints name, and others, up to the number of levels."""
        yield from self._codes[name]
        yield from (f"#{number}" for number in range(len(self._codes[name]), self._sizes.get(name, 2)))


def _bound(
    item: Mapping[str, Any], column: str, where: Mapping[str, frozenset[str]], block: str, m: Messages
) -> InvariantBound:
    names = [group["column"] for group in item["groups"]]
    columns = ", ".join(names) if len(names) < 4 else f"{names[0]}, …, {names[-1]}"
    per_unit = int(item["per_unit"])
    lower = item["side"] == "lower"
    side = "topdown.says_least" if lower else "topdown.says_most"
    says = m.text(side, name=item["name"], number=per_unit, columns=columns)
    return InvariantBound(
        item["name"],
        block,
        where,
        column,
        at_least=per_unit if lower else 0,
        at_most=None if lower else per_unit,
        when_least=m.text("topdown.when_least", block=block, says=says),
        when_full=m.text("topdown.when_full", block=block, says=says),
    )


@dataclass(frozen=True)
class _BoundWords:
    """Says what changing some records of a plan amounts to."""

    plan: Plan
    delta: Fraction
    m: Messages

    def bound(self, records: int) -> str:
        """By how much beliefs about so many records differ, at most."""
        if isinstance(self.plan.loss, PureDP):
            return self.m.text("topdown.bound_pure", factor=factor(2 * records * self.plan.loss.epsilon))
        assert isinstance(self.plan.loss, ZCDP)
        worst, _ = group_concentration(records, self.plan.loss.rho, self.delta)
        return self.m.text("topdown.bound_zcdp", factor=factor(worst.log_factor), loss=self.loss(worst))

    def loss(self, part: GroupConcentration) -> str:
        return self.m.text("topdown.loss", rho=rounded_up(part.rho), epsilon=rounded_up(part.epsilon, 2))

    def exchange(self, within: str) -> str:
        """What it costs that two records exchange places inside of one unit."""
        return self.loss(GroupConcentration(2, exchange_rho(self.plan, within), self.delta))

    def title(self, answer: Answer) -> str:
        """An attribute or a level, with what a record cannot leave in it."""
        if not answer.cells or "#" in "".join(answer.cells):
            return answer.title
        # "the same state" is the core's own phrase; other cells are labels of the office.
        cells = [
            self.m.text("topdown.the_same", level=cell.removeprefix(SAME)) if cell.startswith(SAME) else cell
            for cell in answer.cells
        ]
        return self.m.text("topdown.inside", title=answer.title, cells="; ".join(cells))


SAME = "the same "


def _one_record(words: _BoundWords, answers: Mapping[str, Answer], record: str) -> Iterator[str]:
    """What holds for one record that differs, and for which of its attributes it holds whatever the data."""
    able = [answer for answer in answers.values() if answer.status is not Status.FIXED]
    always = [words.title(answer) for answer in able if not answer.exceptions]
    if able:
        yield words.m.text("topdown.one_record", record=record, bound=words.bound(1))
    if always:
        yield words.m.text("topdown.holds_for", titles=words.m.listed(always))


def _exceptions(words: _BoundWords, answers: Mapping[str, Answer], groups: Mapping[Mode, RecordGroup]) -> Iterator[str]:
    """Where a bound leaves a record no other value by itself, and how many records together have one."""
    stuck: dict[tuple[str, ...], list[str]] = {}
    for answer in answers.values():
        for when in dict.fromkeys(item.when for item in answer.exceptions):
            stuck.setdefault(when, []).append(words.title(answer))
    sizes = dict(groups[Mode.REFILL].exceptions)
    for when, titles in stuck.items():
        size = sizes[when]
        yield words.m.text(
            "topdown.holds_except",
            titles=words.m.listed(titles),
            when=words.m.listed(when),
            size=size,
            bound=words.bound(size),
        )


def _groups(
    words: _BoundWords, answers: Mapping[str, Answer], groups: Mapping[Mode, RecordGroup], record: str
) -> Iterator[str]:
    fixed = [answer.title for answer in answers.values() if answer.status is Status.FIXED]
    all_open, one_open = groups[Mode.REFILL], groups[Mode.PAIRWISE]
    if fixed:
        yield words.m.text(
            "topdown.fixed",
            titles=words.m.listed(fixed),
            record=record,
            size=all_open.size,
            bound=words.bound(all_open.size),
        )
        if one_open.size < all_open.size:
            yield words.m.text("topdown.pairwise", size=one_open.size, bound=words.bound(one_open.size))
        yield from _exchange(words, answers)


def _exchange(words: _BoundWords, answers: Mapping[str, Answer]) -> Iterator[str]:
    """What two records cost that exchange places, where a geolevel is what is fixed."""
    spine = words.plan.spine
    level = next((name for name in spine if name in answers and answers[name].status is Status.FIXED), None)
    if level is None or not isinstance(words.plan.loss, ZCDP):
        return
    anywhere, parent = words.exchange(spine[0]), spine[spine.index(level) - 1]
    if parent == spine[0]:
        yield words.m.text("topdown.exchange", loss=anywhere)
    else:
        near = words.exchange(parent)
        yield words.m.text("topdown.exchange_near", loss=anywhere, parent=parent.replace("_", " "), near=near)


def _left_out(translated: InvariantTranslation, m: Messages) -> Iterator[str]:
    if translated.left_out:
        yield m.text("topdown.left_out", names=", ".join(translated.left_out))


# What a release publishes without noise, in words, from its plan alone.
#
# An invariant is of one of three kinds: figures of the frame; an answer about the records that the frame already
# tells; an answer about the records that only they tell. The first two are known before a record is read. The third
# is outside the promise (``docs/proofs/accounting.md``, section 6): data sets that differ in it are told apart with
# certainty.


def invariants(plan: Plan, text: Messages | None = None) -> list[str]:
    """One line for each invariant of the plan; empty where nothing is published without noise."""
    m = text or messages()
    lines = (_line(invariant, m) for invariant in _stated(plan))
    return [line[0].upper() + line[1:] for line in lines]


def invariants_note(plan: Plan, text: Messages | None = None) -> str:
    """What the invariants mean for the promise; empty where there are none."""
    m, stated = text or messages(), _stated(plan)
    if not stated:
        return ""
    sentences = [m.text("topdown.note_agree")]
    if any(invariant["frame"] for invariant in stated):
        sentences.append(m.text("topdown.note_frame"))
    for invariant in stated:
        if invariant["frame"]:
            continue
        level = _words(invariant["level"])
        if invariant["level"] == plan.spine[0] and invariant["query"] == "total":
            sentences.append(m.text("topdown.note_root", level=level))
        else:
            sentences.append(m.text("topdown.note_records", what=_asked(invariant, m), level=level))
    return " ".join(sentences)


def _stated(plan: Plan) -> list[Mapping[str, Any]]:
    stated: list[Mapping[str, Any]] = plan.question.get("strategy", {}).get("constraints", {}).get("invariants", [])
    return stated


def _line(invariant: Mapping[str, Any], m: Messages) -> str:
    name, level = _words(invariant["name"]), _words(invariant["level"])
    columns = ", ".join(invariant["frame"])
    if invariant["query"] is None:
        return m.text("topdown.line_frame", name=name, level=level, columns=columns)
    if columns:
        return m.text("topdown.line_both", name=name, what=_asked(invariant, m), columns=columns)
    return m.text("topdown.line_records", name=name, what=_asked(invariant, m))


def _asked(invariant: Mapping[str, Any], m: Messages) -> str:
    level, query = _words(invariant["level"]), invariant["query"]
    if query == "total":
        return m.text("topdown.count_of_records", level=level)
    return m.text("topdown.answer_to_query", query=query, level=level)


def _words(name: str) -> str:
    return name.replace("-", " ").replace("_", " ")
