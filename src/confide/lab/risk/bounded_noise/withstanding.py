"""The part of the plane of bound and variance that withstands both attacks and keeps counts useful (Bach, Figure 6).

Four limits, for a programme and the areas of a country, at a confidence level α (0.68 unless said otherwise):

* averaging: V ≥ V_α(k/t²) for the riskiest target, with the same noise for the same members;
* bound: V ≤ V_max(E), so that more triples are needed to reveal E than the programme has;
* entropy: V ≤ E(E+1)/3, more than which no row of maximum entropy has;
* utility: E ≤ the largest noise that is accepted (10).

Relaxed limits make a second, wider region: averaging succeeds with a probability of at most 0.8, and instead of
keeping E secret it is enough that less than one triple of the release is expected to give its counts away once E is
known.

For noise without a bound one number, ε per count, has to satisfy both sides: at least what keeps small areas within ±20
(equation 16), at most what averaging allows, without the same noise for the same members. This is a band, often empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import ceil
from typing import Any

from confide.answers import AnswerPart, Said, ShownTable, Tone
from confide.errors import ParameterError, Place
from confide.lab.risk.bounded_noise import averaging, noise_rows
from confide.lab.risk.bounded_noise import averaging as bounded_noise_averaging
from confide.lab.risk.bounded_noise.static_programme import BreakdownRule, StaticProgramme
from confide.noise.max_entropy import uniform_variance
from confide.report.charts import Chart, Pictures, chart

_THOUSANDTH = Fraction(1, 1000)
_TENTH = Fraction(1, 10)


@dataclass(frozen=True)
class RegionQuestion:
    """What is asked: a programme, the areas, how representations are counted, and which limits are accepted."""

    programme: StaticProgramme
    areas: Mapping[str, int] = field(default_factory=dict)
    rule: BreakdownRule = BreakdownRule.INNER_LEVELS
    optimum: averaging.Optimum = averaging.Optimum.GREEDY
    unit: str | None = None
    level: float = noise_rows.LEVEL
    relaxed_level: float = 0.8
    largest_noise: int = 10
    bounds: tuple[int, ...] = tuple(range(1, 16))
    small_areas: int | None = None
    small_area_bound: int = 20

    def __post_init__(self) -> None:
        noise_rows.checked_level(self.level)
        if not self.level <= noise_rows.checked_level(self.relaxed_level):
            raise ParameterError(
                "bad-level/relaxed", where=Place(path="--relaxed"), relaxed_level=self.relaxed_level, level=self.level
            )


@dataclass(frozen=True, slots=True)
class RegionRow:
    """What is left for one bound: variances from ``low`` to ``high``, or none; strict and relaxed."""

    bound: int
    low: Fraction
    high: Fraction
    relaxed_low: Fraction
    relaxed_high: Fraction
    useful: bool

    @property
    def strict(self) -> bool:
        return self.useful and self.low <= self.high

    @property
    def relaxed(self) -> bool:
        return self.useful and self.relaxed_low <= self.relaxed_high

    def as_dict(self) -> dict[str, Any]:
        return {
            "D": self.bound,
            "V_low": float(self.low),
            "V_high": float(self.high),
            "strict": self.strict,
            "relaxed_V_low": float(self.relaxed_low),
            "relaxed_V_high": float(self.relaxed_high),
            "relaxed": self.relaxed,
            "V_uniform": float(uniform_variance(self.bound)),
        }


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The smallest bound with a variance that satisfies all limits, and the smallest such variance."""

    risk: bounded_noise_averaging.BoundRisk
    variance: Fraction
    strict: bool


@dataclass(frozen=True)
class ProtectedRegion:
    """The answer, each limit computed when it is first asked for."""

    question: RegionQuestion

    def _counted(self, *, same_noise: bool) -> list[averaging.Representations]:
        question = self.question
        # With SPSN a region that is the whole country is the same cell as the country; without, it has its own noise.
        single = averaging.Single.MERGE if same_noise else averaging.Single.KEEP
        count = averaging.CountingScheme(question.rule, same_noise, single, question.unit)
        return averaging.riskiest(
            averaging.representations(question.programme, question.areas, count), question.optimum
        )

    @cached_property
    def with_same_noise(self) -> list[averaging.Representations]:
        """Targets by averaging risk, where the same members have the same noise."""
        return self._counted(same_noise=True)

    @cached_property
    def without(self) -> list[averaging.Representations]:
        """Targets by averaging risk, where every cell has noise of its own."""
        return self._counted(same_noise=False)

    @property
    def ratio(self) -> float:
        return self.with_same_noise[0].mean(self.question.optimum).ratio

    @cached_property
    def triples(self) -> int:
        question = self.question
        count = averaging.CountingScheme(
            question.rule, same_noise=True, single=averaging.Single.MERGE, unit=question.unit
        )
        return averaging.triples(question.programme, question.areas, count)

    def least_variance(
        self,
        optimum: averaging.Optimum,
        level: float | None = None,
        model: noise_rows.Model = noise_rows.Model.GAUSSIAN,
    ) -> Fraction:
        """The least variance that withstands averaging, rounded up to thousandths."""
        if optimum is self.question.optimum:
            ratio = self.ratio
        else:
            ratio = min(item.mean(optimum).ratio for item in self.with_same_noise)
        return _up(noise_rows.variance_needed(ratio, level or self.question.level, model), _THOUSANDTH)

    @cached_property
    def rows(self) -> tuple[RegionRow, ...]:
        """The variances that are left, for each bound."""
        question = self.question
        low = self.least_variance(question.optimum)
        relaxed_low = self.least_variance(question.optimum, question.relaxed_level)
        rows = []
        for bound in question.bounds:
            high = bounded_noise_averaging.largest_protected_variance(bound, self.triples, question.level)
            relaxed_high = max(high, _least_given_away(bound, self.triples))
            rows.append(RegionRow(bound, low, high, relaxed_low, relaxed_high, bound <= question.largest_noise))
        return tuple(rows)

    @cached_property
    def recommended(self) -> Recommendation | None:
        """The least noise that satisfies every limit and withstands the strongest mean; a relaxed one if there is no
        other; none if nothing is left."""
        return self.least_noise(averaging.Optimum.INVERSE_VARIANCE) or self.least_noise(self.question.optimum)

    def least_noise(self, optimum: averaging.Optimum) -> Recommendation | None:
        """The least noise in the region that also withstands the mean of ``optimum``."""
        level, relaxed = self.question.level, self.question.relaxed_level
        least = {strict: self.least_variance(optimum, None if strict else relaxed) for strict in (True, False)}
        for strict in (True, False):
            for row in self.rows:
                low, high = (row.low, row.high) if strict else (row.relaxed_low, row.relaxed_high)
                low = max(low, least[strict])
                if (row.strict if strict else row.relaxed) and low <= high:
                    tenth = _up(low, _TENTH)
                    variance = tenth if tenth <= high else low
                    return Recommendation(
                        bounded_noise_averaging.bound_risk(row.bound, variance, level), variance, strict
                    )
        return None

    @cached_property
    def epsilon(self) -> dict[str, float | None]:
        """Limits on the ε of a count with Laplace noise: from utility at least, from averaging at most."""
        question = self.question
        allowed = [
            noise_rows.laplace_epsilon(noise_rows.variance_needed(item.mean(question.optimum).ratio, question.level))
            for item in self.without[:2]
        ]
        areas = question.small_areas
        if areas is None and question.programme.geography:
            areas = question.areas.get(question.programme.geography[-1])
        least = (
            None if areas is None else noise_rows.epsilon_for_bound(question.small_area_bound, areas, question.level)
        )
        return {
            "utility_at_least": least,
            "averaging_at_most": allowed[0],
            "relaxed_averaging_at_most": allowed[-1],
        }

    def as_dict(self) -> dict[str, Any]:
        """The region as plain values."""
        question, riskiest_target = self.question, self.with_same_noise[0]
        mean = riskiest_target.mean(question.optimum)
        return {
            "programme": question.programme.id,
            "areas": dict(question.areas),
            "rule": question.rule.value,
            "optimum": question.optimum.value,
            "alpha": question.level,
            "limits": {
                "averaging": {
                    "target": averaging.target_name(riskiest_target.target),
                    "t": mean.t,
                    "k": mean.k,
                    "k_over_t2": mean.ratio,
                    "V_at_least": float(self.least_variance(question.optimum)),
                    "V_at_least_chebyshev": float(
                        self.least_variance(question.optimum, model=noise_rows.Model.CHEBYSHEV)
                    ),
                    "V_at_least_by_optimum": {
                        kind.value: float(self.least_variance(kind))
                        for kind in averaging.Optimum
                        if kind is not averaging.Optimum.ALL
                    },
                },
                "bound": {
                    "triples": self.triples,
                    "V_at_most": {str(row.bound): float(row.high) for row in self.rows},
                },
                "utility": {"D_at_most": question.largest_noise},
            },
            "region": [row.as_dict() for row in self.rows],
            "recommended": self._plain(self.recommended),
            "least_noise_by_optimum": {
                kind.value: self._plain(self.least_noise(kind))
                for kind in averaging.Optimum
                if kind is not averaging.Optimum.ALL
            },
            "epsilon": self.epsilon | {"band": _band(self.epsilon)},
        }

    def chart(self) -> Chart:
        """The region as a picture: the variances that are left for each bound, and the limits (Figure 6, left)."""
        rows = [row.as_dict() for row in self.rows]
        spans = [
            {"D": row["D"], "low": row[f"{prefix}V_low"], "high": row[f"{prefix}V_high"], "kind": f"{kind} limits"}
            for row in rows
            for kind, prefix, holds in (("relaxed", "relaxed_", row["relaxed"]), ("all", "", row["strict"]))
            if holds
        ]
        limits = [
            {"D": row["D"], "V": row[key], "limit": limit}
            for row in rows
            for limit, key in (("revealing the bound", "V_high"), ("averaging", "V_low"), ("entropy", "V_uniform"))
        ]
        recommended = self._plain(self.recommended)
        highest = [row["V_low"] for row in rows] + [row["V_high"] for row in rows if row["strict"]]
        return chart(
            "bounded-region",
            spans,
            limits=limits,
            recommended=[] if recommended is None else [recommended],
            bounds=[0.5, max(row["D"] for row in rows) + 0.5],
            top=1.15 * max(highest),
            useful=self.question.largest_noise + 0.5,
        )

    def pictures(self) -> Pictures:
        """Both parts of Figure 6 of Bach, by name: the region, and where areas are known the band of ε."""
        question = self.question
        areas = question.small_areas
        if areas is None and question.programme.geography:
            areas = question.areas.get(question.programme.geography[-1])
        pictures: Pictures = {"region": self.chart}
        if areas is not None:
            number = areas
            pictures["epsilon-band"] = lambda: self._band_chart(number)
        return pictures

    def _band_chart(self, areas: int) -> Chart:
        words = {
            "utility_at_least": "utility: at least",
            "averaging_at_most": "averaging: at most",
            "relaxed_averaging_at_most": "averaging, second statistic",
        }
        limits = [
            {"epsilon": self.epsilon[key], "name": name} for key, name in words.items() if self.epsilon[key] is not None
        ]
        rows, bound = bound_curve(areas, self.question.level), self.question.small_area_bound
        return chart("bounded-epsilon-band", rows, limits=limits, bound=bound)

    def _plain(self, recommendation: Recommendation | None) -> dict[str, Any] | None:
        if recommendation is None:
            return None
        return {
            "D": recommendation.risk.row.bound,
            "V": float(recommendation.variance),
            "strict": recommendation.strict,
            "p1": recommendation.risk.p1,
            "m": bounded_noise_averaging.json_integer(recommendation.risk.m),
            "bound_revealed": recommendation.risk.revealed(self.triples),
            "triples_given_away": recommendation.risk.expected_exact(self.triples),
        }

    def described(self) -> Iterator[AnswerPart]:
        question, worst = self.question, self.with_same_noise[0]
        where = ", ".join(f"{number:,} {name}" for name, number in question.areas.items())
        yield f"{question.programme.title or question.programme.id}{', ' + where if where else ''}.\n"
        mean = worst.mean(question.optimum)
        low = self.least_variance(question.optimum)
        yield (
            f"Averaging: the riskiest statistic is {averaging.target_name(worst.target)}, k/t² = {mean.ratio:.4g} "
            f"({mean.t:,} representations, {mean.k:,} cells): V at least {float(low):g}."
        )
        best = self.least_variance(averaging.Optimum.INVERSE_VARIANCE)
        if best > low:
            yield f"  An attacker who weights representations by their size is withstood from V {float(best):g} on."
        yield f"Revealing the bound: {self.triples:,} triples F + M = T; V at most, by D, below."
        yield f"Utility: D at most {question.largest_noise}.\n"
        rows = [
            (
                row.bound,
                _span(row.low, row.high, ok=row.strict),
                _span(row.relaxed_low, row.relaxed_high, ok=row.relaxed),
            )
            for row in self.rows
            if row.useful
        ]
        yield ShownTable(["D ", "V, all limits", "V, relaxed limits"], rows)
        recommended = self.recommended
        if recommended is None:
            yield Said("\nNothing is left.", " Publish less, or accept more noise.", Tone.BAD)
        else:
            limits = "all limits" if recommended.strict else "relaxed limits alone"
            yield Said(
                f"\nD = {recommended.risk.row.bound}, V = {float(recommended.variance):g}",
                f" satisfies {limits}: the bound is revealed with probability "
                f"{recommended.risk.revealed(self.triples):.2g}.",
                Tone.GOOD,
            )
            plain = self.least_noise(question.optimum)
            if plain is not None and plain.variance != recommended.variance:
                yield (
                    f"It withstands weighted means too. Against the {question.optimum.value} mean alone, "
                    f"D = {plain.risk.row.bound}, V = {float(plain.variance):g} would be enough."
                )
        yield from _epsilon_described(self)


def _epsilon_described(region: ProtectedRegion) -> Iterator[AnswerPart]:
    limits, bound = region.epsilon, region.question.small_area_bound
    least, most = limits["utility_at_least"], limits["averaging_at_most"]
    second = limits["relaxed_averaging_at_most"]
    assert most is not None
    assert second is not None
    text = f"Noise without a bound (Laplace, noise of its own in every table): averaging allows ε up to {most:.3f}"
    if second != most:
        text += f" ({second:.3f} for the second statistic)"
    if least is not None:
        text += f"; small areas stay within ±{bound} from ε {least:.3f} on"
        text += ": a band is left." if least <= most else ": no ε satisfies both."
    yield text


def _span(low: Fraction, high: Fraction, *, ok: bool) -> str:
    return f"{float(low):.3f} to {float(high):.3f}" if ok else "none"


def _band(limits: Mapping[str, float | None]) -> dict[str, list[float] | None]:
    low = limits["utility_at_least"] or 0.0
    bands: dict[str, list[float] | None] = {}
    for name, key in (("strict", "averaging_at_most"), ("relaxed", "relaxed_averaging_at_most")):
        high = limits[key]
        bands[name] = [low, high] if high is not None and low <= high else None
    return bands


def _least_given_away(bound: int, count: int) -> Fraction:
    """The largest variance at which fewer than one of ``count`` triples is expected to give its counts away."""

    def safe(thousandths: int) -> bool:
        return (
            bounded_noise_averaging.BoundRisk(
                noise_rows.symmetric_row(bound, thousandths * _THOUSANDTH)
            ).expected_exact(count)
            < 1
        )

    low, high = 0, ceil(uniform_variance(bound) / _THOUSANDTH)
    if safe(high):
        return uniform_variance(bound)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if safe(middle) else (low, middle)
    return low * _THOUSANDTH


def _up(value: float | Fraction, step: Fraction) -> Fraction:
    return ceil(Fraction(value) / step) * step


# Points for pictures of the risks: heat maps and curves as plain rows.


Rows = list[dict[str, Any]]
VARIANCES = tuple(Fraction(step, 2) for step in range(1, 21))
BOUNDS = tuple(range(1, 16))
RATIOS = (0.001, 1.0)
ACROSS = 36


def bound_grid(level: float = noise_rows.LEVEL) -> Rows:
    """m for V = 0.5 to 10 and D = 1 to 15 (Figure 1)."""
    return bounded_noise_averaging.grid(BOUNDS, VARIANCES, level)


def success_cells(parameter: str, low: float, high: float) -> Rows:
    """The probability α over k/t² and the variance, or the ε of Laplace noise, on logarithmic scales (Figure 2)."""
    cells = []
    for x, x2 in _steps(*RATIOS):
        for y, y2 in _steps(low, high):
            middle = (y * y2) ** 0.5
            variance = middle if parameter == "variance" else 2 / middle**2
            alpha = noise_rows.success_probability(variance, (x * x2) ** 0.5)
            cells.append({"x": x, "x2": x2, "y": y, "y2": y2, "alpha": alpha})
    return cells


def success_contours(parameter: str, level: float = noise_rows.LEVEL) -> Rows:
    """The contour of one probability, by the Gaussian model and by Chebyshev's inequality."""
    names = {
        noise_rows.Model.GAUSSIAN: f"{level:.0%}, Gaussian model",
        noise_rows.Model.CHEBYSHEV: f"{level:.0%}, Chebyshev",
    }
    points = []
    for model, name in names.items():
        for x in (*(step[0] for step in _steps(*RATIOS)), RATIOS[1]):
            variance = noise_rows.variance_needed(x, level, model)
            y = variance if parameter == "variance" else noise_rows.laplace_epsilon(variance)
            points.append({"x": x, "y": y, "model": name})
    return points


def epsilon_curves(areas: Mapping[str, int], level: float = noise_rows.LEVEL) -> Rows:
    """ε over the bound, one curve for each number of areas (Figure 5)."""
    return [
        {
            "name": f"{name} ({size:,} areas)",
            "bound": bound,
            "epsilon": noise_rows.epsilon_for_bound(bound, size, level),
        }
        for name, size in areas.items()
        for bound in (5, 7, 10, 14, 20, 28, 40, 56, 80, 100)
    ]


def bound_curve(areas: int, level: float = noise_rows.LEVEL) -> Rows:
    """The bound over ε for one number of areas (Figure 6, right)."""
    steps = [Fraction(step, 100) for step in (5, 7, 10, 14, 20, 28, 40, 56, 80, 100, 150)]
    return [{"epsilon": float(step), "bound": noise_rows.bound_for_epsilon(step, areas, level)} for step in steps]


def _steps(low: float, high: float) -> list[tuple[float, float]]:
    factor = (high / low) ** (1 / ACROSS)
    return [(low * factor**place, low * factor ** (place + 1)) for place in range(ACROSS)]
