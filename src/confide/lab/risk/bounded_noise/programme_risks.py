"""What the noise of a static programme gives away, and which would not: the answers of ``confide risk bound``,
``averaging`` and ``areas``, and of ``confide risk region``.

The mathematics is that of :mod:`.bound`, :mod:`.averaging`, :mod:`.small_areas` and :mod:`.withstanding`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any

from confide.answers import AnswerPart, Said, ShownTable, Tone, TypedAnswer
from confide.exact import Exact, exact
from confide.lab.risk.bounded_noise import averaging as bounded_noise_averaging
from confide.lab.risk.bounded_noise import noise_rows, withstanding
from confide.lab.risk.bounded_noise.averaging import representations, triples
from confide.lab.risk.bounded_noise.static_programme import BreakdownRule, StaticProgramme, load_programme
from confide.report.charts import Chart, Pictures, chart

PROGRAMME = "eu-2021"
ALPHA = str(noise_rows.LEVEL)
"""The confidence level of Bach (2020)."""
_BOUNDS = 15
SAME_NOISE, OWN_NOISE = "Same members, same noise", "Noise of its own in every table"


@dataclass(frozen=True)
class BoundAnswer(TypedAnswer):
    """Whether triples F + M = T reveal the largest noise, and what knowing it would give away."""

    risk: bounded_noise_averaging.BoundRisk
    triples: int
    """How many triples there are."""

    @property
    def revealed(self) -> float:
        """The probability that the triples reveal the bound."""
        return self.risk.revealed(self.triples)

    @property
    def triples_given_away(self) -> float:
        """How many triples are expected to give their counts away, once the bound is known."""
        return self.risk.expected_exact(self.triples)

    @property
    def protected(self) -> bool:
        """Whether more triples are needed than there are."""
        return self.risk.m > self.triples

    def pictures(self) -> Pictures:
        """The heat map of triples that are needed (Figure 1 of Bach), by name."""
        level, available = self.risk.level, self.triples
        return {"triples-needed": lambda: chart("bounded-triples-needed", _grid(level), available=available)}

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return self.risk.as_dict() | {
            "triples": self.triples,
            "revealed": self.revealed,
            "triples_given_away": self.triples_given_away,
        }

    def described(self) -> Iterator[AnswerPart]:
        """The chance of one triple, the triples that are needed, and what there is."""
        risk, row = self.risk, self.risk.row
        yield Said(f"Noise within ±{row.bound}, variance {row.variance:.4g}.")
        if not row.attained:
            yield (
                f"  A variance of {float(row.variance_limit):g} is more than this bound allows: the noise is uniform."
            )
        rows = [
            ("a triple F + M = T reveals the bound with probability", f"{risk.p1:.3g}"),
            (f"triples that reveal it with probability {risk.level:g}", _large(risk.log10_m, risk.m)),
            ("triples that the programme has", f"{self.triples:,}"),
            ("probability that they reveal it", _chance(self.revealed)),
            ("triples expected to give their counts away, if it is known", f"{self.triples_given_away:.2g}"),
        ]
        yield ShownTable(["", " "], rows)
        verdict, tone = ("is", Tone.GOOD) if self.protected else ("is not", Tone.BAD)
        yield Said(f"The bound {verdict} protected", f" at the level {risk.level:g}.", tone)


@dataclass(frozen=True)
class AveragingRisk:
    """What an attacker who averages the representations of one statistic finds out."""

    representations: bounded_noise_averaging.Representations
    optimum: bounded_noise_averaging.Optimum
    level: float

    @cached_property
    def means(self) -> dict[bounded_noise_averaging.Optimum, bounded_noise_averaging.Mean]:
        """Every mean that an attacker may take."""
        return {optimum: self.representations.mean(optimum) for optimum in bounded_noise_averaging.Optimum}

    @property
    def variance_needed(self) -> float:
        """The least variance that withstands the mean of ``optimum``."""
        return noise_rows.variance_needed(self.means[self.optimum].ratio, self.level)

    @property
    def epsilon_allowed(self) -> float:
        """The largest epsilon of a count with Laplace noise that withstands it."""
        return noise_rows.laplace_epsilon(self.variance_needed)

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        ratio = self.means[bounded_noise_averaging.Optimum.ALL].ratio
        values: dict[str, Any] = {"t": self.representations.t, "k": self.representations.k, "k_over_t2": ratio}
        for optimum, mean in self.means.items():
            if optimum is not bounded_noise_averaging.Optimum.ALL:
                values[optimum.value] = {"t": mean.t, "k": mean.k, "k_over_t2": mean.ratio}
        values["V_needed"] = self.variance_needed
        chosen = self.means[self.optimum].ratio
        values["V_needed_chebyshev"] = noise_rows.variance_needed(chosen, self.level, noise_rows.Model.CHEBYSHEV)
        values["epsilon_allowed"] = self.epsilon_allowed
        return values


@dataclass(frozen=True)
class TargetAveraging:
    """One statistic of a programme: with the same noise for the same members (SPSN), and without."""

    target: bounded_noise_averaging.Target
    with_spsn: AveragingRisk | None
    without_spsn: AveragingRisk | None

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "target": bounded_noise_averaging.target_name(self.target),
            "levels": sorted(self.target),
            "with_spsn": None if self.with_spsn is None else self.with_spsn.as_dict(),
            "without_spsn": None if self.without_spsn is None else self.without_spsn.as_dict(),
        }


@dataclass(frozen=True)
class AveragingAnswer(TypedAnswer):
    """The ways to have each statistic of a programme, and what averaging them would find; riskiest first."""

    programme: StaticProgramme
    rule: BreakdownRule
    country: str | None
    areas: Mapping[str, int]
    single: bounded_noise_averaging.Single
    unit: str | None
    level: float
    targets: tuple[TargetAveraging, ...]
    top: int = 10
    """How many of the riskiest are described."""

    def by_noise(self) -> dict[str, list[tuple[TargetAveraging, AveragingRisk]]]:
        """The statistics that there are ways to have, where the same members have the same noise and where not."""
        return {
            SAME_NOISE: [(each, each.with_spsn) for each in self.targets if each.with_spsn is not None],
            OWN_NOISE: [(each, each.without_spsn) for each in self.targets if each.without_spsn is not None],
        }

    def pictures(self) -> Pictures:
        """The heat maps of success, over the variance and over ε (Figure 2 of Bach), and how the k/t² of all
        statistics lie, with the same noise for the same members and without (Figure 7), by name."""
        return {
            "averaging-variance": partial(_success_chart, self, "variance", VARIANCES_DRAWN, "variance V"),
            "averaging-epsilon": partial(
                _success_chart, self, "epsilon", EPSILONS_DRAWN, "ε of a count with Laplace noise"
            ),
            "averaging-ratios": lambda: _ratios_chart(self),
        }

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "programme": self.programme.id,
            "rule": self.rule.value,
            "country": self.country,
            "areas": dict(self.areas),
            "single": self.single.value,
            "tables": len(self.programme.of_unit(self.unit)),
            "alpha": self.level,
            "targets": [target.as_dict() for target in self.targets],
        }

    def described(self) -> Iterator[AnswerPart]:
        """The riskiest statistics, and the variance that averaging asks for."""
        programme, where = self.programme, ", ".join(f"{number:,} {name}" for name, number in self.areas.items())
        yield f"{programme.title or programme.id}, rule {self.rule.value}{', ' + where if where else ''}.\n"
        for title, risks in self.by_noise().items():
            listed = sorted(risks, key=lambda pair: pair[1].variance_needed, reverse=True)[: self.top]
            rows = [
                (
                    bounded_noise_averaging.target_name(target.target),
                    f"{risk.representations.t:,}",
                    _short(risk.representations.k),
                    *(
                        f"{risk.means[optimum].ratio:.4g}"
                        for optimum in bounded_noise_averaging.Optimum
                        if optimum is not bounded_noise_averaging.Optimum.ALL
                    ),
                    f"{risk.variance_needed:.3f}",
                    f"{risk.epsilon_allowed:.3f}",
                )
                for target, risk in listed
            ]
            columns = ["statistic", "t ", "k ", "k/t²: greedy ", "prefix ", "weighted ", "V from ", "ε to "]
            yield ShownTable(columns, rows, title=title)
            yield ""
        worst = min(
            (risk.means[bounded_noise_averaging.Optimum.GREEDY].ratio for _, risk in self.by_noise()[SAME_NOISE]),
            default=1.0,
        )
        chances = ", ".join(f"{noise_rows.success_probability(v, worst):.0%} at V {v}" for v in (1, 2, 3, 5))
        text = f"V and ε: for a probability of {self.level:g} to find the count."
        yield f"{text} The riskiest is found with {chances}."


@dataclass(frozen=True)
class AreasAnswer(TypedAnswer):
    """What noise without a bound does to small areas."""

    programme: StaticProgramme
    areas: int
    bound: int
    level: float
    epsilon_at_least: float
    """The epsilon from which on no area exceeds the bound, with the probability ``level``."""
    exceeded: Mapping[str, float]
    """By epsilon: the probability that the noise of one area exceeds the bound."""
    size_classes: tuple[noise_rows.SizeClass, ...]

    def pictures(self) -> Pictures:
        """The ε that a bound needs (Figure 5 of Bach), and by ε the distortions by size (Figure 4), by name."""
        pictures: Pictures = {"epsilon-by-bound": lambda: _epsilon_chart(self)}
        rows = [row.as_dict() for row in self.size_classes]
        for epsilon in dict.fromkeys(row["epsilon"] for row in rows):
            of_epsilon = [row for row in rows if row["epsilon"] == epsilon]
            pictures[f"distortions-epsilon-{epsilon:g}"] = partial(chart, "bounded-distortions", of_epsilon)
        return pictures

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "areas": self.areas,
            "bound": self.bound,
            "alpha": self.level,
            "epsilon_at_least": self.epsilon_at_least,
            "exceeded": dict(self.exceeded),
            "size_classes": [row.as_dict() for row in self.size_classes],
        }

    def described(self) -> Iterator[AnswerPart]:
        """What ε keeps small areas close, and how many would be far off."""
        number, bound = self.areas, self.bound
        text = f"{number:,} areas stay within ±{bound} with probability {self.level:g}"
        yield f"{text} from ε = {self.epsilon_at_least:.3f} on."
        rows = [(f"ε {text}", f"{chance:.3g}", f"{number * chance:,.3g}") for text, chance in self.exceeded.items()]
        yield ShownTable(["", f"noise above {bound} ", "areas expected "], rows)
        by_epsilon: dict[float, list[noise_rows.SizeClass]] = {}
        for size_class in self.size_classes:
            by_epsilon.setdefault(size_class.epsilon, []).append(size_class)
        for epsilon, classes in by_epsilon.items():
            errors = list(dict.fromkeys(item.relative_error for item in classes))
            lines = []
            for above, to, areas in dict.fromkeys((item.above, item.to, item.areas) for item in classes):
                name = f"above {above:,}" if to is None else f"{above:,} to {to:,}"
                counts = [item.expected for item in classes if (item.above, item.to) == (above, to)]
                lines.append((name, f"{areas:,}", *(f"{count:,.1f}" for count in counts)))
            columns = ["people", "areas ", *(f"off by {error:.0%} " for error in errors)]
            yield ""
            yield ShownTable(columns, lines, title=f"Areas expected to be off by at least so much, ε = {epsilon:g}")


@dataclass(frozen=True)
class CellKeyTuning(TypedAnswer):
    """Bounds and variances of cell key noise that withstand the attacks, and a recommended pair."""

    region: withstanding.ProtectedRegion
    country: str | None

    def pictures(self) -> Pictures:
        """The bounds and variances that are left, and the band for the ε of noise without a bound (Figure 6 of Bach),
        by name."""
        return self.region.pictures()

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return self.region.as_dict() | {"country": self.country}

    def described(self) -> Iterator[AnswerPart]:
        """What every limit leaves, and the pair that is recommended."""
        return self.region.described()


def bound(
    bound: int,
    variance: Exact,
    *,
    alpha: Exact = ALPHA,
    programme: str | StaticProgramme = PROGRAMME,
    country: str | None = None,
    areas: Mapping[str, int] | None = None,
    unit: str | None = None,
    rule: BreakdownRule | str = BreakdownRule.INNER_LEVELS,
    available: int | None = None,
) -> BoundAnswer:
    """How many triples F + M = T reveal the largest noise, and what knowing it would give away.

    Args:
        bound: The largest noise, D.
        variance: The variance of the noise, V; the noise is that of maximum entropy.
        alpha: The confidence level.
        programme: A programme that ships, the path of a TOML file, or a programme.
        country: Whose numbers of areas; without it, those of the programme's own country.
        areas: Numbers of areas of your own, by name.
        unit: What is counted, such as ``persons``.
        rule: Whether inner levels of breakdowns count too.
        available: The number of triples, instead of those of the programme.

    Returns:
        The probability of one triple, the triples that are needed, and what those that there are give away.

    >>> answer = bound(5, 2, available=1000)
    >>> answer.protected, f"{answer.revealed:.2g}"
    (True, '0.00015')
    """
    risk = bounded_noise_averaging.bound_risk(bound, exact(variance, "-V"), _level(alpha))
    if available is None:
        chosen = _programme(programme)
        scheme = bounded_noise_averaging.CountingScheme(
            BreakdownRule(rule), same_noise=True, single=bounded_noise_averaging.Single.MERGE, unit=unit
        )
        available = triples(chosen, chosen.areas(country, areas), scheme)
    return BoundAnswer(risk, available)


def averaging(
    programme: str | StaticProgramme = PROGRAMME,
    *,
    rule: BreakdownRule | str = BreakdownRule.PLAIN,
    country: str | None = None,
    areas: Mapping[str, int] | None = None,
    targets: Sequence[str] = (),
    single: bounded_noise_averaging.Single | str = bounded_noise_averaging.Single.KEEP,
    optimum: bounded_noise_averaging.Optimum | str = bounded_noise_averaging.Optimum.GREEDY,
    unit: str | None = None,
    leave_out: Sequence[str] = (),
    alpha: Exact = ALPHA,
    top: int = 10,
) -> AveragingAnswer:
    """The ways to have each statistic of a programme, and what averaging them would find.

    Args:
        programme: A programme that ships, the path of a TOML file, or a programme.
        rule: Count the finest levels alone (``plain``), or inner levels of breakdowns too (``inner-levels``).
        country: Whose numbers of areas; without it, those of the programme's own country.
        areas: Numbers of areas of your own, by name.
        targets: Statistics, such as ``"SEX AGE.M"`` or ``"total"``; without them, all of the programme.
        single: What is done with levels of one category, where the same members have the same noise.
        optimum: Which mean the attacker takes, for the order of statistics and the variance that they need.
        unit: What is counted, such as ``persons``.
        leave_out: Breakdowns that the programme is to do without.
        alpha: The confidence level.
        top: How many statistics are shown as text.

    Returns:
        Every statistic with its representations, with the same noise for the same members (SPSN) and without.

    >>> answer = averaging(country="MT", targets=["SEX"])
    >>> answer.targets[0].with_spsn.representations.t
    615
    """
    chosen = _programme(programme).leave_out(leave_out)
    numbers, level = chosen.areas(country, areas), _level(alpha)
    rule, single, optimum = (
        BreakdownRule(rule),
        bounded_noise_averaging.Single(single),
        bounded_noise_averaging.Optimum(optimum),
    )
    wanted = [bounded_noise_averaging.parse_target(text) for text in targets]

    def count(scheme: bounded_noise_averaging.CountingScheme) -> dict[bounded_noise_averaging.Target, AveragingRisk]:
        if wanted:
            by_target = {target: representations(chosen, numbers, scheme, target)[target] for target in wanted}
        else:
            by_target = representations(chosen, numbers, scheme)
        return {target: AveragingRisk(item, optimum, level) for target, item in by_target.items()}

    same = count(bounded_noise_averaging.CountingScheme(rule, same_noise=True, single=single, unit=unit))
    own = count(bounded_noise_averaging.CountingScheme(rule, same_noise=False, unit=unit))
    ratios = {target: (same.get(target) or own[target]).means[optimum].ratio for target in same.keys() | own.keys()}
    ordered = sorted(ratios, key=lambda target: (ratios[target], bounded_noise_averaging.target_name(target)))
    rows = tuple(TargetAveraging(target, same.get(target), own.get(target)) for target in ordered)
    return AveragingAnswer(chosen, rule, country or chosen.country, numbers, single, unit, level, rows, top)


def areas(
    epsilons: Sequence[Exact],
    *,
    bound: int = 20,
    programme: str | StaticProgramme = PROGRAMME,
    country: str | None = None,
    number: int | None = None,
    populations: Sequence[int] = (),
    alpha: Exact = ALPHA,
) -> AreasAnswer:
    """What unbounded noise does to small areas: bounds that hold with some probability, and counts that are far off.

    Args:
        epsilons: The epsilon of a count with Laplace noise; several are compared.
        bound: The noise that no area should exceed.
        programme: A programme that ships, the path of a TOML file, or a programme.
        country: Whose number of areas of the finest geography; without it, that of the programme's own country.
        number: The number of areas, instead.
        populations: Published sizes of areas; how many of them would be far off is worked out by size.
        alpha: The confidence level.

    Returns:
        The epsilon that keeps all areas within the bound, and how often each epsilon does not.

    >>> round(areas(["1/2"], number=68).epsilon_at_least, 3)
    0.268
    """
    rates, level, chosen = [exact(epsilon, "--epsilon") for epsilon in epsilons], _level(alpha), _programme(programme)
    if number is None:
        finest = chosen.geography[-1] if chosen.geography else ""
        number = len(populations) or chosen.areas(country).get(finest, 1)
    return AreasAnswer(
        chosen,
        number,
        bound,
        level,
        noise_rows.epsilon_for_bound(bound, number, level),
        {str(text): noise_rows.exceedance(rate, bound) for text, rate in zip(epsilons, rates, strict=True)},
        tuple(noise_rows.distortions(populations, rates)) if populations else (),
    )


def tune_cellkey(
    programme: str | StaticProgramme = PROGRAMME,
    *,
    country: str | None = None,
    areas: Mapping[str, int] | None = None,
    unit: str | None = None,
    leave_out: Sequence[str] = (),
    rule: BreakdownRule | str = BreakdownRule.INNER_LEVELS,
    optimum: bounded_noise_averaging.Optimum | str = bounded_noise_averaging.Optimum.GREEDY,
    largest_noise: int = 10,
    small_areas: int | None = None,
    area_bound: int = 20,
    alpha: Exact = ALPHA,
    relaxed: Exact = "0.8",
) -> CellKeyTuning:
    """Bounds D and variances V of cell key noise that withstand averaging and protect the bound.

    Args:
        programme: A programme that ships, the path of a TOML file, or a programme.
        country: Whose numbers of areas; without it, those of the programme's own country.
        areas: Numbers of areas of your own, by name.
        unit: What is counted, such as ``persons``.
        leave_out: Breakdowns that the programme is to do without.
        rule: Whether inner levels of breakdowns count too.
        optimum: Which mean an attacker takes.
        largest_noise: The largest noise that users accept.
        small_areas: How many small areas there are; without it, those of the finest geography.
        area_bound: The noise that no small area should exceed, for the epsilon of noise without a bound.
        alpha: The confidence level.
        relaxed: The averaging success that relaxed limits accept.

    Returns:
        The region of bounds and variances, a recommended pair, and the band for the epsilon of noise without a bound.

    >>> best = tune_cellkey(country="MT").region.recommended
    >>> best.risk.row.bound, float(best.variance)
    (8, 6.9)
    """
    chosen = _programme(programme).leave_out(leave_out)
    question = withstanding.RegionQuestion(
        chosen,
        chosen.areas(country, areas),
        rule=BreakdownRule(rule),
        optimum=bounded_noise_averaging.Optimum(optimum),
        unit=unit,
        level=_level(alpha),
        relaxed_level=float(exact(relaxed, "--relaxed")),
        largest_noise=largest_noise,
        bounds=tuple(range(1, max(_BOUNDS, largest_noise) + 1)),
        small_areas=small_areas,
        small_area_bound=area_bound,
    )
    return CellKeyTuning(withstanding.ProtectedRegion(question), country or chosen.country)


def _programme(programme: str | StaticProgramme) -> StaticProgramme:
    return programme if isinstance(programme, StaticProgramme) else load_programme(programme)


def _level(alpha: Exact) -> float:
    return float(exact(alpha, "--alpha"))


# The pictures.

VARIANCES_DRAWN, EPSILONS_DRAWN = (0.5, 50.0), (0.1, 3.0)
_SHARING = {"with SPSN": "with_spsn", "without SPSN": "without_spsn"}


@lru_cache(maxsize=8)
def _grid(level: float) -> tuple[dict[str, Any], ...]:
    """The triples that are needed over V and D, which no programme changes."""
    return tuple(withstanding.bound_grid(level))


def _ratios(answer: AveragingAnswer, sharing: str) -> dict[str, float]:
    """By statistic the k/t² of the attacker's mean, with the same noise for the same members or without."""
    risks = {bounded_noise_averaging.target_name(each.target): getattr(each, sharing) for each in answer.targets}
    return {
        name: risk.means[bounded_noise_averaging.Optimum.GREEDY].ratio
        for name, risk in risks.items()
        if risk is not None
    }


def _success_chart(answer: AveragingAnswer, parameter: str, span: tuple[float, float], title: str) -> Chart:
    worst = {words: min(_ratios(answer, sharing).values(), default=0.0) for words, sharing in _SHARING.items()}
    marks = [
        {"x": ratio, "name": words}
        for words, ratio in worst.items()
        if withstanding.RATIOS[0] < ratio < withstanding.RATIOS[1]
    ]
    return chart(
        "bounded-averaging",
        withstanding.success_cells(parameter, *span),
        contours=withstanding.success_contours(parameter, answer.level),
        marks=marks,
        quantity=title,
    )


def _ratios_chart(answer: AveragingAnswer) -> Chart:
    ratios = {words: _ratios(answer, sharing) for words, sharing in _SHARING.items()}
    own, same = ratios["without SPSN"], ratios["with SPSN"]
    rows = [{"ratio": ratio, "kind": words} for words, by_name in ratios.items() for ratio in by_name.values()]
    factors = [{"factor": same[name] / own[name]} for name in same if own.get(name)]
    return chart("bounded-ratios", rows, factors=factors)


def _epsilon_chart(answer: AreasAnswer) -> Chart:
    programme, number = answer.programme, answer.areas
    smallest = programme.geography[-1] if programme.geography else None
    known = {code: areas[smallest] for code, areas in (programme.countries or {}).items()} if smallest else {}
    named = {"all countries": sum(known.values())} if known else {}
    if known:
        extremes = (max(known, key=lambda code: known[code]), min(known, key=lambda code: known[code]))
        named |= {code: known[code] for code in extremes}
    if number not in named.values():
        named["asked for"] = number
    return chart("bounded-epsilon-by-bound", withstanding.epsilon_curves(named, answer.level), chosen=answer.bound)


# The answer in sentences and tables.


def _large(exponent: float, value: int) -> str:
    return f"{value:,}" if exponent < 9 else f"about 10^{exponent:.1f}"


def _chance(probability: float) -> str:
    return "over 99.9 %" if probability > 0.999 else f"{100 * probability:.3g} %"


# The answer in sentences and tables.


def _short(value: int) -> str:
    return f"{value:,}" if value < 100_000 else f"{value:.2e}".replace("e+0", "e")


# The answer in sentences and tables.
