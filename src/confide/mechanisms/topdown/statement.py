"""What the invariants of a TopDown release do to its promise, worked out from its plan alone.

What is left is worked out by :mod:`confide.privacy.invariants`; here it becomes the sentences of a certificate.
Derivation: ``docs/proofs/invariants.md``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from confide.exact import Exact, exact
from confide.mechanisms.topdown.descent import problems, solver_words
from confide.messages import Messages, messages
from confide.privacy import ZCDP, PureDP, factor, rounded_up
from confide.privacy.invariants import (
    Answer,
    Holding,
    Mode,
    RecordGroup,
    Status,
    exchange_rho,
    group_concentration,
    record_groups,
    stated_constraints,
    what_is_left,
)
from confide.privacy.invariants.group_statements import DELTA, GroupConcentration
from confide.releases.certificate import CERTIFICATE, CertificateWords, certificate
from confide.releases.plan import Plan, read_plan
from confide.report.rendering import messages_of


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
    constraints = stated_constraints(plan.question)
    if not any(constraints.get(kind) for kind in ("invariants", "bounds")):
        return []
    if not isinstance(plan.loss, PureDP | ZCDP):
        return [m.text("topdown.not_worked_out_kind")]
    remaining = what_is_left(plan, m)
    if remaining.answers is None or remaining.invariants is None:
        return [m.text("topdown.not_worked_out_many")]
    parts = {**remaining.places, **remaining.attributes}
    unknown = {name for name, part in parts.items() if part.holding is Holding.UNKNOWN}
    answers = {name: answer for name, answer in remaining.answers.items() if name not in unknown}
    groups = record_groups(remaining.invariants)
    record = m.unit(str(plan.question.get("record", "record")))
    words = _BoundWords(plan, exact(delta, "delta"), m)
    return [
        *_one_record(words, answers, record),
        *_exceptions(words, answers, groups),
        *_groups(words, answers, groups, record),
        *_left_out(remaining.left_out, m),
        m.text("topdown.by_themselves"),
    ]


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
        if len("; ".join(answer.cells)) > LONGEST_CELLS:
            return self.m.text("topdown.inside_cells", title=answer.title)
        # "the same state" is the core's own phrase; other cells are labels of the office.
        cells = [
            self.m.text("topdown.the_same", level=cell.removeprefix(SAME)) if cell.startswith(SAME) else cell
            for cell in answer.cells
        ]
        return self.m.text("topdown.inside", title=answer.title, cells="; ".join(cells))


SAME = "the same "
LONGEST_CELLS = 80
"""Letters of the cells of an attribute that a sentence has room for."""


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


def _left_out(names: Sequence[str], m: Messages) -> Iterator[str]:
    if names:
        yield m.text("topdown.left_out", names=", ".join(names))


# What a release publishes without noise, in words, from its plan alone.
#
# An invariant is of one of three kinds: figures of the frame; an answer about the records that the frame tells too; an
# answer about the records that only they tell. The first is not about the records. The other two equal counts of the
# records and are outside the promise (``docs/proofs/accounting.md``, section 6): anybody tells data sets that differ in
# them apart with certainty.


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
    names = [_words(invariant["name"]) for invariant in stated if invariant["frame"] and invariant["query"] is not None]
    if names:
        sentences.append(m.text("topdown.note_told", names=", ".join(names)))
    elif any(invariant["frame"] for invariant in stated):
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
    stated: list[Mapping[str, Any]] = stated_constraints(plan.question).get("invariants", [])
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
