"""The risk laboratory: what somebody can learn, live, for researchers and teachers.

Experiments of the library, each with sliders: the belief of somebody who knows everybody else, the same with the counts
of the surrounding area, the power of the best test, and the noise of the cell key method. Answers are those of
:mod:`confide.risk`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response
from pydantic import BaseModel

from confide import risk
from confide.errors import ParameterError, Place
from confide.exact import exact
from confide.report import charts
from confide.report.charts import Chart, chart
from confide.report.render import exact_text as _text
from confide.report.render import up
from confide.risk.bayesian import sequential
from confide.risk.bayesian.hierarchy_answer import HierarchyAnswer
from confide.risk.bayesian.two_level import Variant
from confide.risk.bounded_noise.withstanding import ProtectedRegion
from confide.risk.testing.curve import power_curve
from confide.studio.pages import address, figure_answer, page

Experiment = Literal["belief", "hierarchy", "test", "cellkey"]
router = APIRouter(tags=["risk laboratory"])


@dataclass(frozen=True)
class Slider:
    """A number that is moved: by a slider, or typed."""

    name: str
    title: str
    start: str
    low: float
    high: float
    step: float
    by_powers: bool = False
    """Whether the slider goes by powers of ten."""

    def place(self, number: Fraction) -> float:
        """Where the slider stands for a number."""
        at = math.log10(number) if self.by_powers else float(number)
        return round(min(self.high, max(self.low, round(at / self.step) * self.step)), 6)

    def number(self, place: float) -> Fraction:
        """The number at a place of the slider: a short decimal."""
        return Fraction(f"{10**place:.3g}") if self.by_powers else Fraction(f"{place:g}")


RHO = Slider("rho", "Budget of the count (rho)", "0.1", -4, 1, 0.05, by_powers=True)
PRIOR = Slider("prior", "Belief beforehand (prior)", "0.5", 0.01, 0.99, 0.01)
RELEASED = Slider("released", "Released count", "1", -20, 40, 1)
SLIDERS: Mapping[Experiment, tuple[Slider, ...]] = {
    "belief": (RHO, PRIOR, RELEASED),
    "hierarchy": (
        Slider("rho", "Budget of the block's count (rho 1)", "0.1", -4, 1, 0.05, by_powers=True),
        Slider("above", "Budget of the count of the area around it (rho 2)", "0.25", -4, 1, 0.05, by_powers=True),
        Slider("siblings", "Other blocks of that area", "27", 1, 200, 1),
        PRIOR,
        RELEASED,
        Slider("parent", "Released count of the area", "1", -20, 200, 1),
        Slider("others", "Sum of the released counts of the other blocks", "0", -100, 200, 1),
    ),
    "test": (
        Slider("rho", "Budget of the release (rho)", "1", -4, 1, 0.05, by_powers=True),
        Slider("level", "Level of the test: false alarms", "0.05", 0.01, 0.5, 0.01),
    ),
    "cellkey": (
        Slider("bound", "Largest noise (D)", "9", 1, 15, 1),
        Slider("variance", "Variance of the noise (V)", "5.8", 0.1, 20, 0.1),
    ),
}
TITLES: Mapping[Experiment, str] = {
    "belief": "What a noisy count tells about one person",
    "hierarchy": "What the area around it adds",
    "test": "How well the best test does",
    "cellkey": "Which noise for the cell key method",
}
WORDS: Mapping[Experiment, str] = {
    "belief": "Somebody knows everybody in a block but one person, and believes with the prior that this person is in "
    "a cell of it. The count of the cell is released with noise. What do they believe then?",
    "hierarchy": "The same, with two more things to see: the noisy count of the area around the block, and the noisy "
    "counts of the other blocks in it.",
    "test": "Somebody wants to find out from a whole release whether one record says one thing or another. Their test "
    "raises a false alarm as often as the level says. How often does it notice what is there?",
    "cellkey": "The tables of the European census programme, with noise that never exceeds a bound. An attacker "
    "averages what several tables say of one figure, or looks for sums that give the bound away. Which bound and "
    "variance withstand both, and stay useful?",
}
SOURCES: Mapping[Experiment, tuple[str, str]] = {
    "belief": (
        "posterior = p P₁ / (p P₁ + (1 − p) P₀); Kazan and Reiter (2024), equations 3.1 to 3.6",
        "docs/proofs/bayesian-risk.md",
    ),
    "hierarchy": ("Kazan and Reiter (2024), with the counts of two levels", "docs/proofs/bayesian-hierarchy.md"),
    "test": (
        "the power w at level α with D(w ‖ α) at most ρ times the order, for every order of Rényi divergence",
        "docs/proofs/privacy-curves.md",
    ),
    "cellkey": ("Bach (2021), Figure 6, left", "docs/proofs/bounded-noise.md"),
}


class LaboratoryAnswer(BaseModel):
    """What an experiment says."""

    experiment: str
    command: str
    figures: dict[str, str]
    """What is shown, in words."""
    answer: dict[str, Any]
    """What the library says, in full."""


@dataclass(frozen=True)
class Shown:
    """An experiment that was done."""

    figures: dict[str, tuple[str, str]]
    """By title the figure, and what it means."""
    command: str
    answer: dict[str, Any]
    picture: Callable[[], Chart]


def moved(experiment: Experiment, query: Mapping[str, str]) -> dict[str, Fraction]:
    """The numbers of an address: what was typed, unless the slider was moved."""
    numbers = {}
    for slider in SLIDERS[experiment]:
        number = exact(query.get(slider.name) or slider.start, slider.name)
        before, now = query.get(f"{slider.name}_was"), query.get(f"{slider.name}_at")
        if now is not None and before is not None and now != before:
            number = slider.number(float(exact(now, slider.name)))
        whole_only = slider.step == 1 and number.denominator != 1
        if whole_only or abs(number) > 10**6 or (slider.by_powers and number <= 0):
            raise ParameterError(
                "slider-range",
                f"{slider.title.lower()}: the number is out of range",
                where=Place(path=slider.name),
                found=str(query.get(slider.name))[:40],
                expected="a whole number" if slider.step == 1 else "a number such as 0.1 or 1/10",
                remedy="type another number",
            )
        numbers[slider.name] = number
    return numbers


def done(experiment: Experiment, numbers: Mapping[str, Fraction]) -> Shown:
    """Does an experiment."""
    return {"belief": _belief, "hierarchy": _hierarchy, "test": _test, "cellkey": _cellkey}[experiment](numbers)


def _belief(numbers: Mapping[str, Fraction]) -> Shown:
    rho, prior, released = numbers["rho"], numbers["prior"], int(numbers["released"])
    answer = risk.bayes(rho, [prior], [released])
    (adversary,) = answer.adversaries
    assert adversary.belief is not None
    figures = {
        "Belief after this count": (f"{adversary.belief.posterior[0]:.4f}", f"it was {float(prior):g}"),
        "Belief expected, if it is right": (f"{_known(adversary.marginal_posterior):.4f}", "on average over the noise"),
        "Right decisions": (f"{_known(adversary.average_accuracy):.4f}", "on average, by the prior"),
    }
    command = f"confide risk bayes --rho {_text(rho)} --prior {_text(prior)} --released {released}"
    rows = sequential.by_released(answer.evidence[0], [_text(prior)])
    return Shown(figures, command, answer.as_dict(), lambda: chart("bayes-posterior-by-released", rows))


def _hierarchy(numbers: Mapping[str, Fraction]) -> Shown:
    rho1, rho2, siblings, prior = (numbers[name] for name in ("rho", "above", "siblings", "prior"))
    counts = (int(numbers["released"]), int(numbers["parent"]), int(numbers["others"]))
    answer = risk.hierarchy(rho1, rho2, int(siblings), prior=prior, released=counts)
    assert isinstance(answer, HierarchyAnswer)
    assert answer.belief is not None
    alone = risk.bayes(rho1, [prior], [counts[0]]).adversaries[0].belief
    assert alone is not None
    figures = {
        "Belief after all counts": (f"{answer.belief.posterior[Variant.STATED]:.4f}", f"it was {float(prior):g}"),
        "Belief after the block's count alone": (f"{alone.posterior[0]:.4f}", "without the area around it"),
        "Effective rho": (
            f"{float(answer.model.effective_rho):.4g}",
            f"of one count that says as much; alone {float(rho1):g}",
        ),
    }
    released = ",".join(map(str, counts))
    command = (
        f"confide risk hierarchy --rho1 {_text(rho1)} --rho2 {_text(rho2)} --siblings {int(siblings)} "
        f"--prior {_text(prior)} --released={released}"
    )
    rows = sequential.by_released(risk.bayes(answer.model.effective_rho, [prior]).evidence[0], [_text(prior)])
    return Shown(figures, command, answer.as_dict(), lambda: chart("bayes-posterior-by-released", rows))


def _test(numbers: Mapping[str, Fraction]) -> Shown:
    rho, level = numbers["rho"], numbers["level"]
    (point,) = power_curve(rho, [level])
    figures = {
        "Any release with this budget": (up(point.zcdp, 4), "of cases noticed at most, whatever the mechanism"),
        "Gaussian noise": (up(point.gaussian, 4), "of cases noticed, if all noise is Gaussian"),
        "Blind guessing": (f"{float(level):.4f}", "notices as often as it raises false alarms"),
    }
    command = f"confide risk curve --rho {_text(rho)} --level {_text(level)}"

    def picture() -> Chart:
        rows = []
        for each in power_curve(rho):
            rows.append({"level": float(each.level), "power": each.zcdp, "way": "any release with this ρ"})
            rows.append({"level": float(each.level), "power": each.gaussian, "way": "Gaussian noise with this ρ"})
        return chart("curve-power", rows)

    answer = {"rho": str(rho), "level": str(level), "zcdp": point.zcdp, "gaussian": point.gaussian}
    return Shown(figures, command, answer, picture)


def _cellkey(numbers: Mapping[str, Fraction]) -> Shown:
    largest, variance, region = int(numbers["bound"]), numbers["variance"], _region()
    row = next((each for each in region.rows if each.bound == largest), None)
    verdict, spans_left = "no", "beyond what is looked at"
    if row is not None:
        strict = row.strict and row.low <= variance <= row.high
        relaxed = row.relaxed and row.relaxed_low <= variance <= row.relaxed_high
        verdict = "yes" if strict else "under relaxed limits" if relaxed else "no"
        spans = ((row.low, row.high, row.strict), (row.relaxed_low, row.relaxed_high, row.relaxed))
        words = [f"V from {float(low):.3g} to {float(high):.3g}" if holds else "no V" for low, high, holds in spans]
        spans_left = f"with D = {largest}: {words[0]}; relaxed: {words[1]}"
    revealed = risk.bound(largest, variance)
    best = region.recommended
    figures = {
        "Withstands both attacks, and is useful": (verdict, spans_left),
        "The bound is given away": (
            f"{float(revealed.as_dict()['revealed']):.2g}",
            f"the probability, by {region.triples:,} sums that are published",
        ),
    }
    if best is not None:
        pair = f"D = {best.risk.row.bound}, V = {float(best.variance):g}"
        figures["Recommended"] = (pair, "against weighted means too" if best.strict else "under relaxed limits")
    answer = region.as_dict() | {"asked": revealed.as_dict()}
    return Shown(figures, "confide tune cellkey", answer, region.chart)


@lru_cache(maxsize=1)
def _region() -> ProtectedRegion:
    """That of the programme that ships, for its own country; it takes some seconds once."""
    return risk.tune_cellkey().region


@router.get("/laboratory", include_in_schema=False)
def laboratory(request: Request, experiment: Experiment = "belief") -> HTMLResponse:
    """An experiment with its sliders."""
    numbers = moved(experiment, request.query_params)
    values = {slider.name: _text(numbers[slider.name]) for slider in SLIDERS[experiment]}
    return page(
        "studio_laboratory.html.j2",
        "Risk laboratory",
        experiment=experiment,
        titles=TITLES,
        words=WORDS[experiment],
        source=SOURCES[experiment],
        sliders=[(each, values[each.name], each.place(numbers[each.name])) for each in SLIDERS[experiment]],
        shown=done(experiment, numbers),
        drawable=charts.available(),
        here=address("/laboratory", experiment=experiment, **values),
        picture=address("/laboratory/figure.svg", experiment=experiment, **values),
    )


@router.get("/laboratory/figure.svg", include_in_schema=False)
def drawn(request: Request, experiment: Experiment = "belief") -> Response:
    """The picture of an experiment."""
    return figure_answer(done(experiment, moved(experiment, request.query_params)).picture().svg())


@router.get("/api/laboratory/{experiment}")
def answered(request: Request, experiment: Experiment) -> LaboratoryAnswer:
    """What an experiment says; its numbers are those of its sliders, such as ``rho`` and ``prior``."""
    shown = done(experiment, moved(experiment, request.query_params))
    figures = {title: figure for title, (figure, _) in shown.figures.items()}
    return LaboratoryAnswer(experiment=experiment, command=shown.command, figures=figures, answer=shown.answer)


def _known(value: float | None) -> float:
    assert value is not None
    return value
