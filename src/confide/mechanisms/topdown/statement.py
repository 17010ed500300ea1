"""What the invariants of a TopDown release do to its promise, worked out from its plan alone.

The plan's constraints become sentences of the language of :mod:`confide.privacy.invariants`: published answers are
counts,
bounds of the frame are bounds, structural zeros are combinations that no record has. What that language cannot say, or
the plan does not tell, is named and not guessed. Derivation: ``docs/proofs/invariants.md``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from confide.errors import ParameterError
from confide.exact import Exact, exact
from confide.mechanisms.topdown.descent import problems, solver_words
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
from confide.report.certificate import CERTIFICATE, CertificateWords, certificate

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
    said = CertificateWords(
        "noisy counts, at most, that the records were estimated from",
        invariants=invariants(plan),
        invariants_note=invariants_note(plan),
        effective=effective_privacy(plan, epsilon["delta"] if epsilon else DELTA),
        estimates=_estimates(manifest["statistics"]),
    )
    return {CERTIFICATE: certificate(manifest, said)}


def _estimates(statistics: Mapping[str, Any]) -> dict[str, Any] | None:
    """How the estimates were made: in all, and the least-squares problems by level; none where nothing was made."""
    if not statistics:
        return None
    in_all, by_level = statistics["whole"], statistics["levels"]
    return {
        "words": solver_words(in_all),
        "inexact": in_all["least_squares"]["inexact"],
        "problems": {name: problems(part) for name, part in by_level.items()},
        "not_proved": {name: part["least_squares"]["inexact"] for name, part in by_level.items()},
    }


def effective_privacy(plan: Plan, delta: Exact = DELTA) -> list[str]:
    """What the promise is worth together with the invariants, in sentences; empty where there are no constraints."""
    constraints = _constraints(plan)
    if not any(constraints.get(kind) for kind in ("invariants", "bounds")):
        return []
    if not isinstance(plan.loss, PureDP | ZCDP):
        return ["What the invariants do to a promise of this kind has not been worked out."]
    translated = translate(plan)
    try:
        answers, groups = single_record(translated.invariants), record_groups(translated.invariants)
    except ParameterError:
        return ["What these invariants do to the promise has not been worked out: they tell too many records apart."]
    record = str(plan.question.get("record", "record"))
    return [
        *_one_record(plan, answers, delta, record),
        *_exceptions(plan, answers, groups, delta),
        *_groups(plan, answers, groups, delta, record),
        *_left_out(translated),
        "What the invariants give away by themselves is not limited by these numbers (Ashmead et al. 2019).",
    ]


def translate(plan: Plan) -> InvariantTranslation:
    """The constraints of a plan in the language of invariants."""
    said = _Translator(plan)
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

    def __init__(self, plan: Plan):
        self._plan = plan
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
                yield _bound(item, group["column"], where, self._plan.spine[-1])

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


def _bound(item: Mapping[str, Any], column: str, where: Mapping[str, frozenset[str]], block: str) -> InvariantBound:
    names = [group["column"] for group in item["groups"]]
    columns = ", ".join(names) if len(names) < 4 else f"{names[0]}, …, {names[-1]}"
    per_unit = int(item["per_unit"])
    lower = item["side"] == "lower"
    side = "at least" if lower else "at most"
    says = f"{item['name']}: {side} {per_unit:,} for each of {columns}"
    return InvariantBound(
        item["name"],
        block,
        where,
        column,
        at_least=per_unit if lower else 0,
        at_most=None if lower else per_unit,
        when_least=f"its group in the {block} has no more records than the frame asks for ({says})",
        when_full=f"the group in the {block} has as many records as the frame allows ({says})",
    )


def _one_record(plan: Plan, answers: Mapping[str, Answer], delta: Exact, record: str) -> Iterator[str]:
    free = [a.title for a in answers.values() if a.status is Status.FREE]
    limited = [a for a in answers.values() if a.status in (Status.COARSE, Status.DATA)]
    changed = [*free, *(f"{a.title}{_inside(a)}" for a in limited)]
    if changed:
        yield (
            f"Had one {record}'s record said something else and all invariants been the same, what anybody believes"
            f" about it would differ by {_bound_words(plan, 1, delta)}. This holds for {_listed(changed)}."
        )


def _exceptions(
    plan: Plan, answers: Mapping[str, Answer], groups: Mapping[Mode, RecordGroup], delta: Exact
) -> Iterator[str]:
    """Where a bound leaves a record no other value by itself, and how many records together have one."""
    stuck: dict[tuple[str, ...], list[str]] = {}
    for answer in answers.values():
        for when in dict.fromkeys(item.when for item in answer.exceptions):
            stuck.setdefault(when, []).append(answer.title)
    sizes = dict(groups[Mode.REFILL].exceptions)
    for when, titles in stuck.items():
        size = sizes[when]
        yield (
            f"Not always for {_listed(titles)}. Where {' and '.join(when)}, a record may have no other value by itself;"
            f" {size} together have, at {_bound_words(plan, size, delta)}."
        )


def _groups(
    plan: Plan, answers: Mapping[str, Answer], groups: Mapping[Mode, RecordGroup], delta: Exact, record: str
) -> Iterator[str]:
    fixed = [answer.title for answer in answers.values() if answer.status is Status.FIXED]
    all_open, one_open = groups[Mode.REFILL], groups[Mode.PAIRWISE]
    if fixed:
        yield (
            f"{_listed(fixed)} of a {record}'s record follows from the invariants and all other records. It is hidden "
            f"only together with other records: {all_open.size} that are replaced together leave it open, which changes"
            f" beliefs by {_bound_words(plan, all_open.size, delta)}."
        )
        if one_open.size < all_open.size:
            words = _bound_words(plan, one_open.size, delta)
            yield f"For one alternative at a time {one_open.size} records are enough: {words}."
        yield from _exchange(plan, answers, delta)


def _exchange(plan: Plan, answers: Mapping[str, Answer], delta: Exact) -> Iterator[str]:
    """What two records cost that exchange places, where a geolevel is what is fixed."""
    level = next((name for name in plan.spine if name in answers and answers[name].status is Status.FIXED), None)
    if level is None or not isinstance(plan.loss, ZCDP):
        return
    anywhere = GroupConcentration(2, exchange_rho(plan, plan.spine[0]), exact(delta, "delta"))
    text = f"If two records only exchange their places, the release tells it at {_loss_words(anywhere)} at most"
    parent = plan.spine[plan.spine.index(level) - 1]
    if parent != plan.spine[0]:
        near = GroupConcentration(2, exchange_rho(plan, parent), exact(delta, "delta"))
        text += f", and inside of one {parent.replace('_', ' ')} at {_loss_words(near)}"
    yield f"{text}."


def _left_out(translated: InvariantTranslation) -> Iterator[str]:
    if translated.left_out:
        names = ", ".join(translated.left_out)
        yield f"Not taken into account, as the plan does not say enough: {names}. What that changes is not known."


def _bound_words(plan: Plan, records: int, delta: Exact) -> str:
    if isinstance(plan.loss, PureDP):
        return f"a factor of at most {factor(2 * records * plan.loss.epsilon)}"
    assert isinstance(plan.loss, ZCDP)
    worst, _ = group_concentration(records, plan.loss.rho, delta)
    return f"a factor of at most {factor(worst.log_factor)}, but for a probability of 2 delta ({_loss_words(worst)})"


def _loss_words(part: GroupConcentration) -> str:
    return f"rho = {rounded_up(part.rho)}, epsilon = {rounded_up(part.epsilon, 2)}"


def _inside(answer: Answer) -> str:
    return f" (inside: {'; '.join(answer.cells)})" if answer.cells and "#" not in "".join(answer.cells) else ""


def _listed(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


# What a release publishes without noise, in words, from its plan alone.
#
# An invariant is of one of three kinds: figures of the frame; an answer about the records that the frame already
# tells; an answer about the records that only they tell. The first two are known before a record is read. The third
# is outside the promise (``docs/proofs/accounting.md``, section 6): data sets that differ in it are told apart with
# certainty.


def invariants(plan: Plan) -> list[str]:
    """One line for each invariant of the plan; empty where nothing is published without noise."""
    lines = (_line(invariant) for invariant in _stated(plan))
    return [line[0].upper() + line[1:] for line in lines]


def invariants_note(plan: Plan) -> str:
    """What the invariants mean for the promise; empty where there are none."""
    stated = _stated(plan)
    if not stated:
        return ""
    sentences = ["The promise compares data sets that agree in what is published without noise."]
    if any(invariant["frame"] for invariant in stated):
        sentences.append(
            "Figures of the frame are public knowledge: they were known before a record was read, and are not the "
            "records' own."
        )
    for invariant in stated:
        if invariant["frame"]:
            continue
        level = _words(invariant["level"])
        if invariant["level"] == plan.spine[0] and invariant["query"] == "total":
            sentences.append(
                f"The number of records in the {level} stays the same when one record is changed, so it tells nothing "
                "that the promise covers."
            )
        else:
            sentences.append(
                f"The {_asked(invariant['query'])} in every {level} is the records' own: which {level} a record is "
                "in is not hidden from someone who knows all the others."
            )
    return " ".join(sentences)


def _stated(plan: Plan) -> list[Mapping[str, Any]]:
    stated: list[Mapping[str, Any]] = plan.question.get("strategy", {}).get("constraints", {}).get("invariants", [])
    return stated


def _line(invariant: Mapping[str, Any]) -> str:
    name, level = _words(invariant["name"]), _words(invariant["level"])
    columns = ", ".join(invariant["frame"])
    if invariant["query"] is None:
        return f"{name} by {level}: the frame's {columns}"
    sentence = f"{name}: the {_asked(invariant['query'])} in every {level}"
    return f"{sentence}, which the frame tells ({columns})" if columns else sentence


def _asked(query: str) -> str:
    return "number of records" if query == "total" else f"answer to the query {query}"


def _words(name: str) -> str:
    return name.replace("-", " ").replace("_", " ")
