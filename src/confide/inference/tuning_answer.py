"""The answer to targets of TopDown: budgets that targets need, the best shares, and what else changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from confide.answers import AnswerPart, ShownTable, TypedAnswer
from confide.errors import Finding
from confide.exact import up
from confide.mechanisms.topdown.strategy import Strategy
from confide.mechanisms.topdown.targets import Target
from confide.privacy import epsilons

ESTIMATOR = "least squares on the whole tree, before non-negativity"


@dataclass(frozen=True)
class BindingArea:
    """The area that needs the largest budget."""

    code: str
    people: float | None
    sd: float
    """Of its figure, with the budget that the target needs."""

    def as_dict(self) -> dict[str, Any]:
        return {"code": self.code, "people": self.people, "sd": self.sd}


@dataclass(frozen=True)
class NeededBudget:
    """The budget that a target needs in one kind of area with some shares."""

    rho: float
    """For every area."""
    rho_on_average: float
    """For the target's probability on average over the areas."""
    binding: BindingArea

    def as_dict(self) -> dict[str, Any]:
        return {"rho": self.rho, "rho_on_average": self.rho_on_average, "binding": self.binding.as_dict()}


@dataclass(frozen=True)
class TunedTarget:
    """A target in one kind of area."""

    target: Target
    kind: str
    areas: int
    present: NeededBudget
    best: NeededBudget | None = None
    elasticity: float | None = None
    """By how many per cent the least budget falls if the limit's square rises by one per cent."""
    price: float | None = None
    """d(rho)/d(limit): what one more record, or one more point, of margin saves."""

    def as_dict(self) -> dict[str, Any]:
        target = self.target
        return {
            "target": target.text,
            "kind": self.kind,
            "areas": self.areas,
            "query": target.query,
            "limit": float(target.limit * (100 if target.of_share or target.relative else 1)),
            "unit": target.unit,
            "probability": float(target.chance),
            "least_people": target.least,
            "present": self.present.as_dict(),
            "best": None if self.best is None else self.best.as_dict(),
            "elasticity": self.elasticity,
            "price": self.price,
        }


@dataclass(frozen=True)
class ExpectedChange:
    """Expected absolute errors of one query in one kind of area: before non-negativity, and those of runs after it."""

    kind: str
    areas: int
    query: str
    now: float
    """With the strategy and the budget of the spec."""
    present: float | None
    """With the present shares and the budget that these need for the targets."""
    best: float | None
    """With the best shares and their budget."""
    present_after: float | None = None
    """Of records, after non-negativity: the mean over the runs that confirm the answer."""
    best_after: float | None = None

    def with_records(self, shares: str, error: float) -> ExpectedChange:
        """With the errors of records of runs with the ``present`` or the ``best`` shares."""
        return replace(self, present_after=error) if shares == "present" else replace(self, best_after=error)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class ConfirmedTarget:
    """What runs on people who are not confidential made of a target: records, after non-negativity and rounding."""

    target: Target
    kind: str
    strategy: str
    """``present`` or ``best``."""
    rho: Fraction
    runs: int
    met: float
    """The share of areas whose figures were within the limit."""
    error: float
    """The mean absolute error of the target's figures."""
    total_error: float
    """The mean absolute error of totals there."""

    def as_dict(self) -> dict[str, Any]:
        return {
            "target": self.target.text,
            "kind": self.kind,
            "strategy": self.strategy,
            "rho": str(self.rho),
            "runs": self.runs,
            "met": self.met,
            "mean_absolute_error": self.error,
            "mean_absolute_error_of_totals": self.total_error,
        }


@dataclass(frozen=True, eq=False)
class TopDownTuning(TypedAnswer):
    """The answer of :func:`tune_topdown`."""

    spec: Path
    now: Strategy
    """The strategy of the spec, with its budget."""
    people: str
    """Where sizes of areas come from, in words."""
    delta: Fraction
    targets: tuple[TunedTarget, ...] = ()
    present: Fraction | None = None
    """The budget that the present shares need."""
    best: Strategy | None = None
    """The strategy with the best shares."""
    needed: Fraction | None = None
    """The budget that these need."""
    bound: float | None = None
    """No shares at all need less."""
    errors: tuple[ExpectedChange, ...] = ()
    confirmed: tuple[ConfirmedTarget, ...] = ()
    prices: tuple[Mapping[str, Any], ...] = ()
    written: Path | None = None
    warnings: tuple[Finding, ...] = field(default=())

    def epsilon(self, rho: Fraction) -> Mapping[str, float]:
        """Epsilon at delta, in three ways."""
        return epsilons(rho, self.delta)

    def _budget(self, rho: Fraction | None) -> dict[str, Any] | None:
        if rho is None:
            return None
        return {"rho": str(rho), "rho_decimal": float(rho), "epsilon": dict(self.epsilon(rho))}

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``; the keys are listed in ``docs/concepts/tuning.md``."""
        best = self._budget(self.needed)
        if best is not None and self.best is not None:
            levels = {
                level.name: {
                    "share": str(level.share),
                    "queries": {query.name: str(query.share) for query in level.queries},
                }
                for level in self.best.levels
            }
            best |= {"bound": self.bound, "budget": str(self.best.budget), "shares": levels}
        return {
            "ok": True,
            "spec": str(self.spec),
            "strategy": self.now.id,
            "root": self.now.root,
            "estimator": ESTIMATOR,
            "evidence": {"now": self.now.evidence, "best": None if self.best is None else self.best.evidence},
            "people": self.people,
            "delta": str(self.delta),
            "now": self._budget(self.now.budget),
            "present": self._budget(self.present),
            "best": best,
            "targets": [target.as_dict() for target in self.targets],
            "errors": [row.as_dict() for row in self.errors],
            "confirmed": [row.as_dict() for row in self.confirmed],
            "prices": [dict(row) for row in self.prices],
            "written": None if self.written is None else str(self.written),
            "charged": None,
            "warnings": [finding.as_dict() for finding in self.warnings],
        }

    def described(self) -> Iterator[AnswerPart]:
        yield from self.warnings
        if self.targets:
            yield f"Sizes of areas: {self.people}. The confidential records were not looked at.\n"
            numbers = {text: number for number, text in enumerate(dict.fromkeys(_target_texts(self)), start=1)}
            for text, number in numbers.items():
                yield f"  {number}  {text}"
            rows = []
            for row in self.targets:
                price = "" if row.price is None else f"{row.price if row.price > NOTHING else 0:.3g}"
                best = "" if row.best is None else f"{row.best.rho:.4g}"
                number = numbers[row.target.text]
                rows.append((number, row.kind, f"{row.areas:,}", *_needed_budget(row.present), best, price))
            columns = [
                "",
                "in",
                "areas ",
                "rho, present shares ",
                "on average ",
                "binding area",
                "best shares ",
                "price ",
            ]
            yield ShownTable(columns, rows, title="\nThe rho that each target needs, in every area of a kind")
            yield "price: what rho falls by for one more record, or point, of margin.\n"
            yield from _budgets_described(self)
            yield from _errors_described(self.errors, with_best=self.best is not None)
        if self.targets and self.confirmed:
            columns = ["", "in", "shares", "rho ", "within the limit ", "mean error ", "of totals "]
            runs = self.confirmed[0].runs
            confirmed = [
                (
                    numbers[row.target.text],
                    row.kind,
                    row.strategy,
                    f"{float(row.rho):.4g}",
                    f"{100 * row.met:.1f} %",
                    f"{100 * row.error:.2f} pp" if row.target.of_share else f"{row.error:.2f}",
                    f"{row.total_error:.2f}",
                )
                for row in self.confirmed
            ]
            yield ShownTable(
                columns, confirmed, title=f"{runs} runs on {self.people}: records, after non-negativity and rounding"
            )
        if self.prices:
            first = self.prices[0]
            priced = [(f"±{row['margin']:,}", f"{row['rho']:.4g}", f"{row['rho_present']:.4g}") for row in self.prices]
            title = f"What margins of {first['query']} in {first['kind']} cost (95 of 100 cases, every area)"
            yield ShownTable(["margin ", "rho, measured alone ", "rho, present shares "], priced, title=title)
        if self.written is not None:
            yield f"\nWrote {self.written}. Name it under [topdown] strategy of the spec."


NOTHING = 1e-9
"""A price below this is none: the target does not bind."""


def _target_texts(answer: TopDownTuning) -> list[str]:
    return [row.target.text for row in answer.targets]


def _needed_budget(budget: NeededBudget) -> tuple[str, str, str]:
    binding = budget.binding
    people = "" if binding.people is None else f" ({binding.people:,.0f} people)"
    return f"{budget.rho:.4g}", f"{budget.rho_on_average:.4g}", f"{binding.code}{people}"


def _budgets_described(answer: TopDownTuning) -> Iterator[AnswerPart]:
    listed = [("the spec as it is", answer.now.budget), ("all targets, present shares", answer.present)]
    listed += [("all targets, best shares", answer.needed)]
    rows = [
        (name, f"{float(rho):.6g}", up(answer.epsilon(rho)["canonne_kamath_steinke"], 2))
        for name, rho in listed
        if rho is not None
    ]
    yield ShownTable(["", "rho ", f"epsilon at delta {float(answer.delta):g} "], rows, title="Budgets")
    if answer.best is None or answer.bound is None:
        yield ""
        return
    yield f"No shares at all need less than rho {answer.bound:.4g} (least squares on the whole tree).\n"
    rows = []
    for level in answer.best.levels:
        leading = sorted(level.queries, key=lambda query: -query.share)[:4]
        listed_queries = ", ".join(f"{query.name} {100 * float(query.share):.3g}" for query in leading)
        rows.append((level.name, f"{100 * float(level.share):.3g}", listed_queries))
    yield ShownTable(["level", "per cent ", "its largest queries, in per cent of the level"], rows, title="Best shares")
    yield ""


def _errors_described(errors: tuple[ExpectedChange, ...], *, with_best: bool) -> Iterator[AnswerPart]:
    confirmed = any(row.present_after is not None for row in errors)
    rows = [
        (
            row.kind,
            row.query,
            f"{row.now:,.2f}",
            _number(row.present),
            *([_number(row.present_after)] if confirmed else []),
            *([_number(row.best)] if with_best else []),
            *([_number(row.best_after)] if with_best and confirmed else []),
        )
        for row in errors
    ]
    records = ["records "] if confirmed else []
    columns = ["in", "query", "now ", "present shares ", *records, *(["best shares ", *records] if with_best else [])]
    title = "Expected absolute errors of a figure, by least squares before non-negativity"
    yield ShownTable(columns, rows, title=title + ("; of records, in the runs below" if confirmed else ""))
    yield ""


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.2f}"
