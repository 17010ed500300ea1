"""The audit itself: what runs drew, held against their plans.

Draws are held against their laws here: what is impossible, scales, shapes and single values, and how small an error
would show. How they are held against each other: :mod:`confide.releases.noise_audit.draws_compared`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from math import log, sqrt
from pathlib import Path
from typing import Any

import numpy as np

from confide.answers import OK, AnswerPart, AuditPower, Said, Tone, TypedAnswer, note
from confide.arrays import Floats
from confide.releases.dossier import BANNER
from confide.releases.mechanism import Check, checks_table
from confide.releases.noise_audit import laws
from confide.releases.noise_audit.draws_compared import DrawComparison
from confide.releases.plan import Plan
from confide.releases.replay import ChoiceLaw, OutcomeLaw, ResidualLaw, Residuals, SurvivorLaw
from confide.report import charts, render

# The answer of a noise audit, and its page for the curator.


SMALL_ERROR = Fraction(3, 100)
"""The error of a scale that an audit is measured by."""


@dataclass(frozen=True)
class MeasurementAudit:
    """One measurement of an audit."""

    run: str
    level: str
    query: str
    source: str
    draws: int
    law: str
    standardised_variance: float | None
    """Mean squared noise by the variance of the law; none where draws are not seen whatever they are."""
    low: float | None
    high: float | None
    """Where it lies in 999,999 of a million cases, about."""
    ok: bool

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class NoiseAudit(TypedAnswer):
    """Whether the noise of a run, or of several, is as planned. Confidential: it is made from the truth."""

    mechanism: str
    runs: tuple[str, ...]
    draws: int
    scale: float | None
    """The root of the pooled standardised variance: 1 if the scale is right."""
    smallest_error: float | None
    """The smallest error of all scales together, in either direction, that is seen with probability 0.99; none where
    laws have no scale, or not even an error of a half is seen."""
    checks: tuple[Check, ...]
    measurements: tuple[MeasurementAudit, ...]
    notes: tuple[str, ...]
    smallest_by_stage: Mapping[str, float | None] = field(default_factory=dict)
    """The same as ``smallest_error``, of each stage whose scale is judged by itself."""
    page: Path | None = None
    """The page that shows it."""
    finds_missing: bool = True
    """Whether these checks fail for the same draws if each were the likeliest that its law has: no noise at all."""

    @property
    def as_planned(self) -> bool:
        """Whether no check fails."""
        return all(check.ok for check in self.checks)

    @property
    def ok(self) -> bool:
        """Whether all of it is as planned, and draws enough were looked at to say so."""
        return self.verdict == OK

    @property
    def verdict(self) -> str:
        """``ok``, ``wrong``, or ``no power`` where missing noise would not have been noticed."""
        return self.power.verdict(wrong=not self.as_planned)

    @property
    def power(self) -> AuditPower:
        """What these draws would have shown."""
        if not self.finds_missing:
            words = f"{self.draws:,} draws are too few: even missing noise would not have been noticed."
            return AuditPower(missing=False, least=None, chance=0.99, words=words)
        if self.smallest_error is None:
            words = "Would have noticed missing noise, but not every scale that is off by half."
            return AuditPower(missing=True, least=1.0, chance=0.99, words=words)
        words = f"Would have noticed missing noise, and a scale that is off by {100 * self.smallest_error:g} % or more."
        return AuditPower(missing=True, least=self.smallest_error, chance=0.99, words=words)

    @property
    def sees_three_per_cent(self) -> bool:
        """Whether there were draws enough to see a scale that is 3 % off."""
        return self.smallest_error is not None and self.smallest_error <= SMALL_ERROR

    def as_dict(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "verdict": self.verdict,
            "power": self.power.as_dict(),
            "confidential": True,
            "mechanism": self.mechanism,
            "runs": list(self.runs),
            "draws": self.draws,
            "false_alarm_rate": laws.ALARM,
            "scale": self.scale,
            "smallest_error_of_scale_seen": self.smallest_error,
            "smallest_error_by_stage": dict(self.smallest_by_stage),
            "sees_three_per_cent": self.sees_three_per_cent,
            "checks": [{"name": check.name, "ok": check.ok, "detail": check.detail} for check in self.checks],
            "measurements": [measurement.as_dict() for measurement in self.measurements],
            "notes": list(self.notes),
        } | ({} if self.page is None else {"page": str(self.page)})

    def described(self) -> Iterator[AnswerPart]:
        """Every check, and what these draws would have shown."""
        yield checks_table(self.checks)
        yield from map(note, self.notes)
        wrong = "not as planned" if not self.as_planned else "not judged"
        verdict = f"\n{self.draws:,} draws: the noise is {'as planned' if self.ok else wrong}."
        yield Said(verdict, f" {self.power.words}", Tone.GOOD if self.ok else Tone.BAD)
        yield f"Page (confidential): {self.page}"
        yield Said("CONFIDENTIAL", ": this audit used true figures", Tone.BAD, aside=True)


# The page of a noise audit, for the curator.


MOST_DRAWN = 60
CAPTION = (
    "Mean squared noise by the variance of its law (dots), and where it lies in 999,999 of a million cases if the "
    "noise is as planned (bars)."
)


def noise_audit_page(answer: NoiseAudit, title: str) -> str:
    """The audit as a page for the curator, marked as confidential.

    Args:
        answer: The audit.
        title: What the release is called.

    Returns:
        HTML.
    """
    rows = [
        row.as_dict() | {"name": f"{row.run}: {row.level} {row.query}".removeprefix(": ")}
        for row in answer.measurements
    ]
    drawn = [row for row in rows if row["standardised_variance"] is not None][:MOST_DRAWN]
    figures = []
    if drawn and charts.available():
        most = max(min(3.0, max(row["high"] for row in drawn)), *(row["standardised_variance"] for row in drawn))
        picture = charts.chart("noise-audit-variance", drawn, most=most, height=max(80, 22 * len(drawn)))
        figures.append({"svg": picture.svg(), "caption": CAPTION})
    return render(
        "noise_audit.html.j2",
        title=title,
        banner=BANNER,
        answer=answer,
        rows=rows,
        figures=figures,
        shown=len(drawn),
    )


MOST_VALUES = 64
"""A law is small, and looked at value by value, if so many values have all but a ten-thousandth of it."""
POWER = 2.33
"""Standard errors for a probability of 0.99."""


class LawChecks:
    """Every draw against its law."""

    def __init__(self, seen: Sequence[laws.SeenMeasurement], expected: Sequence[ResidualLaw]):
        self._seen, self._laws = seen, expected
        self._families: dict[str, list[laws.SeenMeasurement]] = {}
        self._stages: dict[str, list[laws.SeenMeasurement]] = {}
        for one in seen:
            self._families.setdefault(one.residuals.family, []).append(one)
            if one.residuals.stage:
                self._stages.setdefault(one.residuals.stage, []).append(one)

    def checks(self) -> Iterator[Check]:
        impossible = [one.name for one in self._seen if one.impossible]
        detail = f"not in {laws.listed(impossible)}" if impossible else "no draw is one that its law does not have"
        yield Check("draws are possible", not impossible, detail)
        for name, attribute, words in (
            ("the scale of the noise", "scale", "no scale is wrong"),
            ("the shape of the noise", "shape", "no law has another shape"),
        ):
            wrong = self._wrong(attribute)
            scale = self.estimated_scale()
            size = "" if attribute == "shape" or scale is None else f"; all together have a scale of {scale:.4f}"
            yield Check(name, not wrong, (f"wrong in {laws.listed(wrong)}" if wrong else words) + size)
        wrong, small = self._by_value()
        detail = f"{len(wrong):,} of {small:,} small laws are not those of their draws: {laws.listed(wrong)}"
        yield Check("small laws, value by value", not wrong, detail if wrong else f"{small:,} laws")

    def _wrong(self, attribute: str) -> list[str]:
        limit = log(laws.KINDS / laws.ALARM)
        pools = {
            f"all draws together{f' of {name}' if name else ''}": laws.mixed(
                np.sum([getattr(one, attribute) for one in members], axis=0)
            )
            for name, members in (self._families | self._stages).items()
        }
        wrong = [one.name for one in self._seen if laws.mixed(getattr(one, attribute)) >= limit + log(len(self._seen))]
        if not wrong:
            wrong = [name for name, evidence in pools.items() if evidence >= limit + log(len(pools))]
        return wrong

    def ok(self, one: laws.SeenMeasurement) -> bool:
        """Whether nothing speaks against the laws of a measurement."""
        limit = log(laws.KINDS * len(self._seen) / laws.ALARM)
        return not one.impossible and max(laws.mixed(one.scale), laws.mixed(one.shape)) < limit

    def _by_value(self) -> tuple[list[str], int]:
        """Small laws whose values do not come out as often as they should, and how many small laws there are."""
        small: list[tuple[int, str]] = []
        for family, members in self._families.items():
            used = np.unique(np.concatenate([one.law for one in members] or [np.zeros(0, np.int64)]))
            small += [(number, family) for number in used.tolist() if number >= 0 and self._is_small(number)]
        wrong = []
        for number, family in small:
            evidence = self._value_evidence(number, self._families[family])
            if evidence >= log(laws.KINDS * len(small) / laws.ALARM):
                wrong.append(laws.law_words(self._laws[number]))
        return wrong, len(small)

    def _is_small(self, number: int) -> bool:
        law = self._laws[number]
        return isinstance(law, SurvivorLaw) or (
            not laws.is_wide(law) and int((laws.law_mass(law).at > 1e-4).sum()) <= MOST_VALUES
        )

    def _value_evidence(self, number: int, members: Sequence[laws.SeenMeasurement]) -> float:
        law = self._laws[number]
        if isinstance(law, SurvivorLaw):
            # A binomial number is what came out of so many trials with two outcomes.
            drawn = np.concatenate([one.value[one.law == number] for one in members])
            chance, survivors = laws.survival(law), int(drawn.sum())
            if not 0 < chance < 1:
                return 0.0
            counts = np.array([survivors, len(drawn) * law.trials - survivors], np.float64)
            return laws.value_evidence(counts, np.array([chance, 1 - chance]))
        mass = laws.law_mass(self._laws[number])
        bins = np.flatnonzero(mass.at > 1e-4)
        counts, drawn_in_all = np.zeros(len(bins)), 0
        for one in members:
            if one.residuals.conditional:
                continue
            place = one.value[one.law == number] - mass.first
            inside = place[(place >= bins[0]) & (place <= bins[-1])]
            drawn_in_all += len(place)
            counts += np.bincount(inside - bins[0], minlength=int(bins[-1] - bins[0]) + 1)[bins - bins[0]]
        beyond = float(mass.at.sum() - mass.at[bins].sum())
        probabilities = mass.at[bins]
        if beyond > 0:
            counts, probabilities = np.append(counts, drawn_in_all - counts.sum()), np.append(probabilities, beyond)
        return laws.value_evidence(counts, probabilities / probabilities.sum()) if counts.sum() else 0.0

    def estimated_scale(self) -> float | None:
        """The root of the pooled standardised variance, of draws from laws that have a scale."""
        with_scale = [one for one in self._seen if self._has_scale(one)]
        squared = sum(one.squared for one in with_scale)
        return sqrt(sum(one.squares for one in with_scale) / squared) if squared else None

    def _has_scale(self, one: laws.SeenMeasurement) -> bool:
        return any(laws.scaled(law, Fraction(1)) is not None for law in one.residuals.laws)

    @cached_property
    def smallest_error(self) -> float | None:
        """The smallest error of the scale that the pooled evidence shows with probability 0.99, both ways; in the
        family with most draws."""
        tallies = [self._tally(members) for members in self._families.values()]
        return self._smallest(max(tallies, key=lambda tally: sum(tally.values()), default={}))

    @cached_property
    def smallest_by_stage(self) -> dict[str, float | None]:
        """The same of the scale of each stage that is judged by itself."""
        return {stage: self._smallest(self._stage_tally(members)) for stage, members in self._stages.items()}

    def _smallest(self, tally: Mapping[ResidualLaw, int]) -> float | None:
        if not tally:
            return None
        candidates = [Fraction(k, 1000) for k in (5, 7, 10, 15, 20, 25, 30, 40, 60, 100, 150, 200, 300, 500)]
        for error in candidates:
            if all(self._sees(tally, 1 + sign * error) for sign in (-1, 1)):
                return float(error)
        return None

    def _tally(self, members: Sequence[laws.SeenMeasurement], *, given: bool = False) -> Counter[ResidualLaw]:
        """How many draws there are of each law that has a scale, without those of choices; with those that have their
        law given something else, if they are asked for."""
        counts: Counter[ResidualLaw] = Counter()
        for one in members:
            if one.residuals.conditional and not given:
                continue
            numbers, times = np.unique(one.law, return_counts=True)
            for number, often in zip(numbers.tolist(), times.tolist(), strict=True):
                law = self._laws[number]
                if (
                    number >= 0
                    and laws.scaled(law, Fraction(1)) is not None
                    and not isinstance(law, ChoiceLaw | SurvivorLaw)
                ):
                    counts[law] += often
        return counts

    def _stage_tally(self, members: Sequence[laws.SeenMeasurement]) -> Counter[ResidualLaw]:
        """What a choice led to and the draw given that are together the draw; survivors and what they are published as
        are together the choices of all empty groups. So each is counted once, by the whole."""
        drawn = {
            (one.run, one.residuals.level, one.residuals.planned) for one in members if self._tally([one], given=True)
        }
        counts = self._tally(members, given=True)
        for one in members:
            if one.residuals.conditional:
                continue
            known = _measurement(one) in drawn
            for number, often in Counter(one.law[one.law >= 0].tolist()).items():
                law = self._laws[number]
                if isinstance(law, SurvivorLaw):
                    counts[law.choice] += often * law.trials
                elif isinstance(law, ChoiceLaw) and not known:
                    counts[law] += often
        return counts

    def _sees(self, tally: Mapping[ResidualLaw, int], by: Fraction) -> bool:
        needed = log(laws.KINDS * max(1, len(self._families) + len(self._stages)) / laws.ALARM) + log(
            2 * len(laws.SCALES)
        )
        gains = [(often, _gain(law, by)) for law, often in tally.items()]
        means, variances = (np.sum([often * gain[k] for often, gain in gains], axis=0) for k in (0, 1))
        return bool((means - POWER * np.sqrt(variances) >= needed).any())

    def row(self, one: laws.SeenMeasurement) -> MeasurementAudit:
        low, high = usual_range(one.squared, one.scatter)
        words = dict.fromkeys(laws.law_words(law) for law in one.residuals.laws)
        return MeasurementAudit(
            one.run,
            one.residuals.level,
            one.residuals.query,
            one.residuals.source,
            one.draws,
            ", ".join(list(words)[:2]) + (f" and {len(words) - 2:,} more" if len(words) > 2 else ""),
            one.ratio,
            low,
            high,
            self.ok(one),
        )

    def notes(self) -> Iterator[str]:
        smallest = self.smallest_error
        if self.estimated_scale() is None:
            return
        if smallest is None:
            yield "Too few draws to see a scale that is off by half."
        elif smallest > SMALL_ERROR:
            yield f"Too few draws to see 3 %: a scale must be off by {100 * smallest:g} % to be seen for certain."
        for stage, least in self.smallest_by_stage.items():
            if least is None:
                yield f"Of {stage} alone, too few draws to see a scale that is off by half."
            elif least > SMALL_ERROR:
                yield f"Of {stage} alone, a scale must be off by {100 * least:g} % to be seen for certain."


def _measurement(one: laws.SeenMeasurement) -> tuple[str, str, str]:
    return one.run, one.residuals.level, one.residuals.planned


@lru_cache(maxsize=4096)
def _gain(law: ResidualLaw, by: Fraction) -> tuple[Floats, Floats]:
    """For each alternative the mean and the variance of the evidence of a draw, if the scale is ``by`` times too
    large."""
    narrow = laws.narrowed(law)
    wrong = laws.scaled(narrow, by)
    assert wrong is not None
    mass = laws.law_mass(wrong)
    at = mass.at
    values = mass.values.astype(np.int64)
    planned = laws.law_mass(narrow).tails(values)
    usable = (planned[1] > 0) & (at > 1e-13)
    parts = planned[0][usable], planned[1][usable], planned[2][usable]
    evidence = laws.scale_evidence_of(narrow, values[usable], [None, None], parts)
    evidence = np.where(np.isfinite(evidence), evidence, -50.0)
    mean = evidence @ at[usable]
    return mean, np.maximum(0.0, evidence**2 @ at[usable] - mean**2)


def usual_range(draws: int, scatter: float) -> tuple[float | None, float | None]:
    """Where the mean of standardised squares lies in 999,999 of a million cases, about: where a chi-squared variable by
    its degrees of freedom lies, of the same variance (Wilson and Hilferty 1931)."""
    if not draws or not scatter:
        return None, None
    step = 2 / (9 * 2 * draws**2 / scatter)
    return max(0.0, 1 - step - 4.9 * sqrt(step)) ** 3, (1 - step + 4.9 * sqrt(step)) ** 3


# The audit itself.


OUTCOMES = OutcomeLaw | ChoiceLaw | SurvivorLaw


def audit(runs: Mapping[str, tuple[Plan, Iterable[Residuals]]]) -> NoiseAudit:
    """Whether noise is as planned: laws, independence, and exactly the planned measurements, each drawn once.

    Args:
        runs: By name, each with its plan and with what it added to the truth. Several runs are held against each other
            too: their draws must have nothing in common.

    Returns:
        The checks, each with what was looked at, and the measurements.

    >>> from confide.noise import DiscreteGaussian, NoiseStream, draw
    >>> noise = draw(DiscreteGaussian(9), NoiseStream.fresh("study"), 0, 60_000).reshape(6_000, 10)
    >>> drawn = Residuals("block", "age", noise, (DiscreteGaussian(9),), "measured")
    >>> answer = audit({"study": (Plan.without_loss("tables", {}), [drawn])})
    >>> answer.ok, answer.sees_three_per_cent
    (True, True)
    >>> twice = Residuals("block", "sex", noise[:, :2].copy(), (DiscreteGaussian(9),), "measured")
    >>> audit({"study": (Plan.without_loss("tables", {}), [drawn, twice])}).ok
    False
    """
    numbers, seen, findings = laws.LawNumbers(), [], []
    for name, (plan, declared) in runs.items():
        run = name if len(runs) > 1 else ""
        distinct, wrong = _distinct(list(declared), plan, run)
        findings += wrong
        seen += [laws.look_at(residuals, numbers, run) for residuals in distinct]
    against_laws = LawChecks(seen, numbers.laws)
    compared = DrawComparison(seen, numbers.laws)
    accounted = any(plan.measures for plan, _ in runs.values())
    checks = [
        Check(
            "exactly the planned measurements",
            not findings,
            "; ".join(findings)
            or (
                f"{len(seen):,} arrays of noise, and the plan has no others"
                if accounted
                else f"{len(seen):,} arrays of noise; the plan prices none"
            ),
        ),
        *against_laws.checks(),
        *compared.checks(),
    ]
    return NoiseAudit(
        next(iter(runs.values()))[0].mechanism,
        tuple(runs),
        sum(one.draws for one in seen),
        against_laws.estimated_scale(),
        against_laws.smallest_error,
        tuple(checks),
        tuple(against_laws.row(one) for one in seen),
        (*against_laws.notes(), *_partly_seen(seen), *compared.notes),
        against_laws.smallest_by_stage,
        finds_missing=_finds_missing(seen),
    )


def _finds_missing(seen: Sequence[laws.SeenMeasurement]) -> bool:
    """Whether the same draws would fail if there were no noise: each the likeliest value that its law has."""
    numbers = laws.LawNumbers()
    silent = [laws.look_at(silenced(one.residuals), numbers, one.run) for one in seen]
    return any(not check.ok for check in LawChecks(silent, numbers.laws).checks())


def silenced(residuals: Residuals) -> Residuals:
    """The same draws without noise: the likeliest value, or the nearest to it that a draw could be."""
    given = np.zeros((1, 1), np.int64) if residuals.law_of is None else residuals.law_of
    which = np.broadcast_to(given, residuals.noise.shape)
    modes = np.array([laws.mode(law) for law in residuals.laws], np.int64)
    likeliest_value = modes[np.maximum(which, 0)]
    if residuals.above is not None:
        likeliest_value = np.maximum(likeliest_value, residuals.above + 1)
    if residuals.up_to is not None:
        likeliest_value = np.minimum(likeliest_value, residuals.up_to)
    return replace(residuals, noise=np.where(which >= 0, likeliest_value, residuals.noise))


def _partly_seen(seen: Sequence[laws.SeenMeasurement]) -> Iterator[str]:
    """Which measurements are not seen as a whole, in a sentence."""
    names = [one.name for one in seen if not one.residuals.complete]
    if names:
        yield f"Not every draw is seen of {laws.listed(names)}."


def _distinct(declared: list[Residuals], plan: Plan, run: str) -> tuple[list[Residuals], list[str]]:
    """Every measurement once, and in what the measurements are not those of the plan."""
    prefix = f"{run}: " if run else ""
    wrong: list[str] = []
    distinct: dict[tuple[str, str], Residuals] = {}
    for residuals in declared:
        key = residuals.level, residuals.query
        if key not in distinct:
            distinct[key] = residuals
        elif not np.array_equal(distinct[key].noise, residuals.noise):
            wrong.append(f"{prefix}{' '.join(key)} is published twice, with different noise")
    if not plan.measures:
        return list(distinct.values()), wrong
    planned: dict[tuple[str, str], list[Any]] = {}
    for measure in plan.measures:
        planned.setdefault((measure.level, measure.query), []).append(measure)
    declared_as: dict[tuple[str, str], list[Residuals]] = {}
    for residuals in distinct.values():
        declared_as.setdefault((residuals.level, residuals.planned or residuals.query), []).append(residuals)
    wrong += [f"{prefix}{' '.join(key)} is planned, and not there" for key in planned if key not in declared_as]
    for key, arrays in declared_as.items():
        if key not in planned:
            wrong.append(f"{prefix}{' '.join(key)} is there, and not planned")
            continue
        against_laws = {law for residuals in arrays for law in residuals.laws if not isinstance(law, OUTCOMES)}
        if not against_laws <= {measure.law for measure in planned[key]}:
            wrong.append(f"{prefix}{' '.join(key)} has another law than the plan")
        draws = sum(measure.units * measure.cells for measure in planned[key])
        present = sum(_present(residuals) for residuals in arrays if not _leads_to(residuals))
        if present > draws or (present < draws and all(residuals.complete for residuals in arrays)):
            wrong.append(f"{prefix}{' '.join(key)} has {present:,} draws, planned are {draws:,}")
    return list(distinct.values()), wrong


def _leads_to(residuals: Residuals) -> bool:
    """Whether an array has what draws led to, and none of them."""
    return all(isinstance(law, OUTCOMES) for law in residuals.laws)


def _present(residuals: Residuals) -> int:
    if residuals.law_of is None:
        return int(residuals.noise.size)
    return int((np.broadcast_to(residuals.law_of, residuals.noise.shape) >= 0).sum())
