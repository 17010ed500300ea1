"""What the adversary decides for every release, and how often that is right: sums over all releases, not samples.

Decisions are under 0-1 loss (Kazan and Reiter, equations 3.5 and 3.6): X1 = known+1 if its posterior probability is
above one half. The log odds rise with x1*, so that for every (x2*, y*) there is one x1* from which on the decision is
"present"; for a truth (x1, x2) the probability of a correct decision is then

  Σ P(x2* | x2)·P(y* | x2 − x1)·P(x1* on the right side of the threshold | x1),

summed over all released counts but a mass of 1e-17. This gives the paper's Figures 4, 5 and 6 without sampling error.

**Ties.** Log odds within :data:`TIE` of 0 are a tie; the rule for ties is always stated. They matter: if the parent is
known exactly and d is odd, x2* − y* = (d+1)/2 ties with x1* = 0, which alone carries half a percent of probability.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from math import floor, log, sqrt
from typing import Any

import numpy as np
from scipy.special import bdtrc

from confide.answers import AnswerPart, ShownTable, TypedAnswer
from confide.errors import Finding, ParameterError, Place
from confide.exact import Exact, exact, positive, up
from confide.lab.risk.bayesian.counts import FloatArray, IntArray, checked_count, gaussian_window, sibling_window
from confide.lab.risk.bayesian.two_level import PostProcessing, TwoLevel, Variant
from confide.privacy import epsilons

TIE = 1e-11
"""Log odds this small are taken for 0: rounding reaches a hundredth of it."""

MOST_TERMS = 4e9


class Ties(StrEnum):
    """What is decided if both answers are equally probable."""

    ZERO = "zero"
    """Absent: the paper's (3.6), which asks for more than one half."""
    ONE = "one"
    """Present."""
    SPLIT = "split"
    """A fair coin."""

    @property
    def share(self) -> float:
        """The probability of deciding for "present"."""
        return {Ties.ZERO: 0.0, Ties.ONE: 1.0, Ties.SPLIT: 0.5}[self]


@dataclass(frozen=True)
class ReleaseRegion:
    """Released counts that are looked at, such as those of the paper's Figure 4."""

    x2: tuple[int, int] = (-3, 5)
    y: tuple[int, int] = (-30, 30)


@dataclass(frozen=True)
class DecisionChanges:
    """What hierarchical information changes for one truth: probabilities over releases."""

    gain: float
    """Wrong without the hierarchy, right with it."""
    loss: float
    """Right without, wrong with."""
    mass: float
    """The probability of the region looked at."""

    def as_dict(self) -> dict[str, float]:
        return {"gain": self.gain, "loss": self.loss, "mass": self.mass}


@dataclass(frozen=True)
class DecisionAccuracy:
    """How often a decision is right, with the rest of the parent as it is, the target present or absent."""

    present: float
    absent: float
    average: float
    """Weighted with the adversary's prior."""

    def as_dict(self) -> dict[str, float]:
        """The numbers under the names that they have for one level."""
        return {
            "correct_given_1": self.present,
            "correct_given_0": self.absent,
            "average_accuracy": self.average,
        }


class DecisionMap:
    """Decisions and their probabilities for one truth (x1, x2) and one way to compute posteriors.

    >>> adversary = TwoLevel("0.099226354", "0.24648451", siblings=27)
    >>> decisions = DecisionMap(adversary, x1=1, x2=1, variant=Variant.UNRESTRICTED)
    >>> round(decisions.correct(Ties.ZERO), 6)
    0.594586
    """

    def __init__(
        self,
        model: TwoLevel,
        x1: int,
        x2: int,
        variant: Variant = Variant.STATED,
        region: ReleaseRegion | None = None,
    ):
        checked_count(x1, "the true count", lowest=model.known, highest=model.known + 1)
        checked_count(x2, "the true count of the parent", lowest=x1)
        self.model, self.variant, self.present = model, variant, x1 > model.known
        own, self._own = gaussian_window(float(model.rho1))
        above, above_law = gaussian_window(float(model.rho2))
        rest, rest_law = sibling_window(float(model.rho1), model.siblings, model.noise)
        self.x1: IntArray = own + x1
        self.x2, self._above = _within(above + x2, above_law, region.x2 if region else None)
        self.y, self._rest = _within(rest + (x2 - x1), rest_law, region.y if region else None)
        self._thresholds: tuple[IntArray, FloatArray] | None = None
        if len(self.x2) * len(self.y) * model.terms > MOST_TERMS:
            raise ParameterError(
                "too-many-releases", x2=len(self.x2), y=len(self.y), most_terms=MOST_TERMS, terms=model.terms
            )

    @property
    def mass(self) -> float:
        """The probability of the released (x2*, y*) that are looked at."""
        return float(self._above.sum() * self._rest.sum())

    def thresholds(self) -> tuple[IntArray, FloatArray]:
        """For every (x2*, y*) the first x1* that is decided as present, and 1.0 where the one before is a tie."""
        if self._thresholds is None:
            self._thresholds = self._solve_thresholds()
        return self._thresholds

    def decisions(self, ties: Ties) -> FloatArray:
        """The probability of deciding "present" for every (x2*, y*, x1*): 0, 1, or the share of a tie."""
        first, tied = self.thresholds()
        decided = (self.x1 >= first[..., None]).astype(np.float64)
        tie: FloatArray = ties.share * tied[..., None] * (self.x1 == first[..., None] - 1)
        return decided + tie

    def correct(self, ties: Ties = Ties.ZERO) -> float:
        """P(decision = truth) over the releases looked at."""
        chosen = self._present_mass(self._own, ties)
        return chosen if self.present else self.mass - chosen

    def ties(self) -> float:
        """The probability of a tie."""
        return self._present_mass(self._own, Ties.ONE) - self._present_mass(self._own, Ties.ZERO)

    def changes(self, ties: Ties = Ties.ZERO) -> DecisionChanges:
        """How often this way is right where X1* alone is wrong, and the other way round."""
        without = self.model.log_odds(self.x1, 0, 0, Variant.WITHOUT)
        base = self._own * ((without > TIE) + ties.share * (np.abs(without) <= TIE))
        to_present = self._present_mass(self._own - base, ties)
        to_absent = float(base.sum()) * self.mass - self._present_mass(base, ties)
        gain, loss = (to_present, to_absent) if self.present else (to_absent, to_present)
        return DecisionChanges(max(0.0, gain), max(0.0, loss), self.mass)

    def _present_mass(self, own: FloatArray, ties: Ties) -> float:
        """The weight of all releases that are decided as present, if those of x1* are ``own``."""
        first, tied = self.thresholds()
        tail = np.concatenate([np.cumsum(own[::-1])[::-1], [0.0]])
        before = np.concatenate([[0.0], own])
        place = np.clip(first - self.x1[0], 0, len(own))
        return float(self._above @ (tail[place] + ties.share * tied * before[place]) @ self._rest)

    def sampled(self, draws: int, ties: Ties = Ties.ONE) -> float:
        """P(decision = truth) for an adversary who estimates each posterior from so many independent draws."""
        checked_count(draws, "the number of draws", lowest=1)
        half, right = draws // 2, 0.0
        for x2, chance in zip(self.x2.tolist(), self._above.tolist(), strict=True):
            posterior = self.model.posterior(self.x1, x2, self.y[:, None], self.variant)
            # More than half of the draws say "in"; or, where there can be an even half, that and the rule for ties.
            decided = bdtrc(half, draws, posterior)
            if draws % 2 == 0:
                decided = (1 - ties.share) * decided + ties.share * bdtrc(half - 1, draws, posterior)
            right += chance * float(self._rest @ (decided if self.present else 1 - decided) @ self._own)
        return right

    def _solve_thresholds(self) -> tuple[IntArray, FloatArray]:
        """Thresholds: where log odds are linear in x1*, solved; otherwise sought from there, step by step."""
        model, slope = self.model, 2 * float(self.model.rho1)
        x2, y = (part.reshape(-1) for part in np.meshgrid(self.x2, self.y, indexing="ij"))
        stepwise = self.variant is Variant.UNRESTRICTED
        # Far from the boundary both variants agree: the guess is exact there, and close elsewhere.
        at_known = model.log_odds(model.known, x2, y, Variant.WITHOUT if stepwise else self.variant)
        if stepwise:
            at_known = at_known + float(model.weight) * (2.0 * (x2 - y - model.known) - 1)
        edge = np.clip((TIE - at_known) / slope, self.x1[0] - model.known - 1, self.x1[-1] - model.known)
        first = np.floor(edge).astype(np.int64) + model.known + 1
        if stepwise:
            first, before = self._search_thresholds(first, x2, y)
        else:
            before = at_known + slope * (first - 1 - model.known)
        shape = (len(self.x2), len(self.y))
        return first.reshape(shape), (np.abs(before) <= TIE).astype(np.float64).reshape(shape)

    def _search_thresholds(self, guess: IntArray, x2: IntArray, y: IntArray) -> tuple[IntArray, FloatArray]:
        """The first x1* that is decided as present, and the log odds of the one before, from a guess.

        Up while the guess is not present, then down while the one before is; never beyond what can be released.
        """
        first, odds = guess.copy(), np.zeros(len(guess))
        for way in (1, -1):
            moving = np.arange(len(first))
            while len(moving):
                at = first[moving] - (way < 0)
                odds[moving] = self.model.log_odds(at, x2[moving], y[moving], self.variant)
                inside = (at <= self.x1[-1]) if way > 0 else (at >= self.x1[0])
                moving = moving[((odds[moving] > TIE) != (way > 0)) & inside]
                first[moving] += way
        return first, odds


def decision_accuracy(
    model: TwoLevel,
    rest: int,
    variant: Variant = Variant.STATED,
    ties: Ties = Ties.ZERO,
    region: ReleaseRegion | None = None,
) -> DecisionAccuracy:
    """How often the target is found present or absent, if ``rest`` people of the parent are elsewhere.

    Args:
        model: The adversary.
        rest: How many people of the parent are in other blocks.
        variant: How the posterior is computed.
        ties: What is decided if both answers are equally probable.
        region: Look at these released counts alone.

    Returns:
        The probabilities of a right decision, target present or absent, and their mean by the prior.

    >>> round(decision_accuracy(TwoLevel("0.0992", "0.2465", siblings=27), 0).average, 4)
    0.6037
    """
    checked_count(rest, "the true count of the siblings")
    absent, present = (
        DecisionMap(model, count, count + rest, variant, region).correct(ties)
        for count in (model.known, model.known + 1)
    )
    p = float(model.prior)
    return DecisionAccuracy(present, absent, p * present + (1 - p) * absent)


def switches(
    model: TwoLevel, x1: int, x2: IntArray, y: tuple[int, int], variant: Variant = Variant.STATED
) -> list[dict[str, int | None]]:
    """For one x1* and every x2*, the largest y* of a range that is still decided as present (Figure 4's edge).

    ``last_present`` is None if not even the smallest y* is, and ``tie`` is the y* that ties, if one does.

    Args:
        model: The adversary.
        x1: The released count of the block.
        x2: Released counts of the parent, an array.
        y: The first and the last released sum of the siblings.
        variant: How the posterior is computed.

    Returns:
        A row for each ``x2``.

    >>> switches(TwoLevel("0.0992", "0.2465", siblings=27), 1, np.array([2]), (-30, 30))
    [{'x2': 2, 'last_present': -1, 'tie': None}]
    """
    if y[0] > y[1]:
        raise ParameterError("empty-range", y=y[0], y_found=y[1])
    values = np.arange(y[0], y[1] + 1)
    odds = model.log_odds(x1, np.asarray(x2)[:, None], values, variant)
    result: list[dict[str, int | None]] = []
    for parent, row in zip(np.asarray(x2).tolist(), odds, strict=True):
        present, tied = values[row > TIE], values[np.abs(row) <= TIE]
        result.append(
            {
                "x2": parent,
                "last_present": int(present[-1]) if len(present) else None,
                "tie": int(tied[0]) if len(tied) else None,
            }
        )
    return result


def _within(values: IntArray, law: FloatArray, span: tuple[int, int] | None) -> tuple[IntArray, FloatArray]:
    if span is None:
        return values, law
    inside = (values >= span[0]) & (values <= span[1])
    return values[inside], law[inside]


# The numbers of the pictures of adversaries with hierarchical information, as plain rows.
#
# Figures 4, 5, 6 and 12 of Kazan and Reiter, from exact sums in place of samples.


Rows = list[dict[str, Any]]
HIERARCHICAL = (Variant.STATED, Variant.UNRESTRICTED)
RHO2_GRID = tuple(Fraction(value) for value in ("1/100", "1/50", "1/20", "1/10", "1/4", "1/2", "1", "3", "10", "100"))
RHO1_GRID = tuple(Fraction(step, 50) for step in (*range(1, 10), *range(10, 50, 2), *range(50, 151, 5)))


def decision_tiles(model: TwoLevel, region: ReleaseRegion | None = None) -> Rows:
    """The decision for each x1* next to the target's edge, x2* and y*, beside that from x1* alone (Figure 4)."""
    tiles = region or ReleaseRegion((model.known - 3, model.known + 5))
    x1, x2, y = np.meshgrid(
        [model.known, model.known + 1],
        np.arange(tiles.x2[0], tiles.x2[1] + 1),
        np.arange(tiles.y[0], tiles.y[1] + 1),
        indexing="ij",
    )
    without = model.log_odds(x1, x2, y, Variant.WITHOUT) > TIE
    rows: Rows = []
    for variant in HIERARCHICAL:
        odds = model.log_odds(x1, x2, y, variant)
        decided = np.where(np.abs(odds) <= TIE, "tie", np.where(odds > 0, "in", "not in"))
        rows += [
            {"variant": variant.value, "x1": one, "x2": two, "y": rest, "decision": word, "without": before}
            for one, two, rest, word, before in zip(
                x1.ravel().tolist(),
                x2.ravel().tolist(),
                y.ravel().tolist(),
                decided.ravel().tolist(),
                np.where(without, "in", "not in").ravel().tolist(),
                strict=True,
            )
        ]
    return rows


def accuracy_by_parent(
    model: TwoLevel, parents: Iterable[int], ties: Ties = Ties.ZERO, variants: Sequence[Variant] = tuple(Variant)
) -> Rows:
    """How often decisions are right, by the true count of the parent with the target in it (Figure 5)."""
    listed = list(parents)
    return [
        {"x2": x2, "variant": variant.value, "ties": ties.value}
        | decision_accuracy(model, x2 - model.known - 1, variant, ties).as_dict()
        for variant in variants
        for x2 in listed
    ]


def accuracy_by_rho2(
    model: TwoLevel, parents: Iterable[int], grid: Iterable[Fraction] = RHO2_GRID, ties: Ties = Ties.ZERO
) -> Rows:
    """The probability of finding a target who is present, over the noise of the parent (Figure 6)."""
    listed = list(parents)
    rows: Rows = []
    for rho2 in grid:
        other = TwoLevel(
            model.rho1,
            rho2,
            model.siblings,
            model.prior,
            known=model.known,
            parent=model.parent,
            noise=model.noise,
        )
        for variant in HIERARCHICAL:
            for x2 in listed:
                seen = DecisionMap(other, model.known + 1, x2, variant)
                rows.append(
                    {
                        "rho2": float(rho2),
                        "variant": variant.value,
                        "x2": x2,
                        "correct_given_1": seen.correct(ties),
                        "ties_to_absent": seen.correct(Ties.ZERO),
                        "ties_to_present": seen.correct(Ties.ONE),
                    }
                )
    return rows


def post_processed_by_parent(model: PostProcessing, published: Iterable[int]) -> Rows:
    """R of the post-processed count by the parent's published count (Figure 12, left)."""
    return [{"published": x2, "risk": model.risk(x2).risk} for x2 in published]


def post_processed_by_rho1(
    model: PostProcessing, published: Iterable[int], grid: Iterable[Fraction] = RHO1_GRID
) -> Rows:
    """R by ρ1, for published counts of the parent, beside that of x1* alone and the bound (Figure 12, right)."""
    listed = list(published)
    rows: Rows = []
    for rho1 in grid:
        other = PostProcessing(
            rho1,
            model.siblings,
            model.prior,
            x2=model.x2,
            known=model.known,
            rounding=model.rounding,
            noise=model.noise,
        )
        kinds = {f"published as {x2}": other.risk(x2).risk for x2 in listed}
        kinds |= {"x1* alone": other.without(), "x1* and y*": other.bound()}
        rows += [{"rho1": float(rho1), "kind": kind, "risk": risk} for kind, risk in kinds.items()]
    return rows


# ``confide risk profile``: the largest rho whose posterior-to-prior ratios stay within a profile, for all priors.
#
# An office says how far a release may move beliefs about one person, such as ``posterior <= 3*prior``; Kazan and Reiter
# (*Prior-itizing Privacy*, 2024) find the budget from such a profile, for pure differential privacy. Here it is found
# for zCDP, from the two expectations of :mod:`.one_level`: with prior p and log-ratio L ~ N(ρ, 2ρ) if the target is
# there, N(−ρ, 2ρ) if it is not (Gaussian noise, composed or not, is never worse),
#
#     presence, upper side:  E₁[posterior] = p R(p),       the ratio R falls in p, to 1, from exp(2ρ) at p → 0
#     absence, lower side:   E₀[posterior]/p = (1 − p R(p))/(1 − p).
#
# A profile limits the first from above: K·p, or a number. Whoever is not there must not be cleared either, so that the
# mirror image limits the second from below: p/K. The largest rho is the smaller of both, and the side that has it
# binds. A ratio that holds for all priors holds for every ρ-zCDP release: R ≤ exp(2ρ), Theorem 4 of
# ``docs/proofs/bayesian-risk.md``.


FORM = 'such as "posterior <= 3*prior", "posterior <= 1/2 where prior <= 1/10", or "posterior >= prior/3"'
LARGEST = 20.0
"""A larger rho is not looked for: the profile then says nothing."""
SMALLEST_PRIOR = 1e-9
"""Stands for priors that go to zero."""
STEPS, GRID = 50, 200
DELTA = Fraction(1, 10**10)
_RATIO = re.compile(r"posterior(<=|>=)(?:([0-9./]+)\*prior|prior\*([0-9./]+)|prior/([0-9.]+)|([0-9./]+))")
_WHERE = re.compile(r"prior(<=|>=)([0-9./]+)")


@dataclass(frozen=True)
class RiskLimit:
    """One statement of a profile: the expected posterior against a multiple of the prior, or a number."""

    text: str
    upper: bool
    """Whether it limits the posterior of those who are there from above; otherwise that of those who are not from
    below."""
    times: Fraction | None
    number: Fraction | None
    least: Fraction
    """The priors that it is for: from this"""
    largest: Fraction
    """to this."""

    def limit(self, prior: float) -> float:
        """What the expected posterior may be at a prior."""
        return float(self.times) * prior if self.times is not None else float(self.number or 0)

    @property
    def for_all_priors(self) -> bool:
        """Whether it is for every prior."""
        return self.least == 0 and self.largest == 1


@dataclass(frozen=True)
class RiskSide:
    """The largest rho that keeps one side of a profile."""

    limit: RiskLimit
    rho: float
    prior: float
    """The prior at which it binds; 0 stands for priors that go to zero."""

    @property
    def name(self) -> str:
        """Whose beliefs are limited, and on which side."""
        return "presence, upper" if self.limit.upper else "absence, lower"

    def as_dict(self) -> dict[str, Any]:
        return {
            "profile": self.limit.text,
            "target": "presence" if self.limit.upper else "absence",
            "side": "upper" if self.limit.upper else "lower",
            "rho": self.rho,
            "prior": self.prior,
        }


@dataclass(frozen=True)
class RiskTuning(TypedAnswer):
    """The largest rho for a profile."""

    profile: tuple[str, ...]
    rho: Fraction
    """Rounded down."""
    delta: Fraction
    sides: tuple[RiskSide, ...]

    @property
    def binding(self) -> RiskSide:
        """The side with the smallest rho."""
        return min(self.sides, key=lambda side: side.rho)

    @property
    def any_release(self) -> bool:
        """Whether the answer holds for every release with this rho, and not for Gaussian noise alone."""
        limit = self.binding.limit
        return limit.upper and limit.for_all_priors and limit.times is not None

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``; the keys are listed in ``docs/concepts/tuning.md``."""
        return {
            "ok": True,
            "profile": list(self.profile),
            "measure": "expected posterior over prior",
            "rho": str(self.rho),
            "rho_decimal": float(self.rho),
            "delta": str(self.delta),
            "epsilon": dict(epsilons(self.rho, self.delta)),
            "binding": self.binding.as_dict(),
            "sides": [side.as_dict() for side in self.sides],
            "holds_for": "every rho-zCDP release" if self.any_release else "Gaussian noise, composed or not",
        }

    def described(self) -> Iterator[AnswerPart]:
        rows = [
            (side.limit.text, side.name, "→ 0" if not side.prior else f"{side.prior:.3g}", f"{side.rho:.4f}")
            for side in self.sides
        ]
        yield ShownTable(["profile", "side", "binding prior ", "largest rho "], rows)
        epsilon = up(self.as_dict()["epsilon"]["canonne_kamath_steinke"], 2)
        yield (
            f"\nrho = {float(self.rho):g} (epsilon {epsilon} at delta {float(self.delta):g}): "
            f"{self.binding.name} side binds. It holds for {self.as_dict()['holds_for']}."
        )


def tune_risk(profile: str | Sequence[str], *, delta: Exact = DELTA) -> RiskTuning:
    """The largest rho for which expected posteriors stay within a profile, for all priors that it is for.

    Args:
        profile: Statements such as ``posterior <= 3*prior``; all of them hold together. An upper limit by a multiple of
            the prior has its mirror image as a lower limit for those who are not there.
        delta: The delta at which epsilon is stated.

    Returns:
        The largest rho, the side that binds, and the prior at which it does.

    >>> answer = tune_risk("posterior<=3*prior")
    >>> float(answer.rho), answer.binding.name, answer.any_release
    (0.549306, 'presence, upper', True)
    """
    texts = (profile,) if isinstance(profile, str) else tuple(profile)
    limits: list[RiskLimit] = []
    findings: list[Finding] = []
    for text in texts:
        try:
            limits.append(parse_limit(text))
        except ParameterError as error:
            findings += error.findings
    if findings or not limits:
        raise ParameterError(findings) if findings else _wrong("bad-profile/nothing", "")
    mirrored = [_mirror(limit) for limit in limits if limit.upper and limit.times is not None]
    stated = {(limit.least, limit.largest) for limit in limits if not limit.upper}
    limits += [limit for limit in mirrored if (limit.least, limit.largest) not in stated]
    sides = tuple(_largest_rho(limit) for limit in limits)
    smallest = min(side.rho for side in sides)
    rho = Fraction(floor(smallest * 10**6), 10**6)
    if not rho:
        raise _wrong("bad-profile/budget", texts[0], found=f"rho {smallest:.3g}")
    return RiskTuning(texts, rho, positive(delta, "delta"), sides)


def parse_limit(text: str) -> RiskLimit:
    """One statement of a profile in words."""
    said, word, where = (part.strip() for part in text.lower().replace("≤", "<=").replace("≥", ">=").partition("where"))
    matched = _RATIO.fullmatch("".join(said.split()))
    if matched is None:
        raise _wrong("bad-profile/posterior-prior", text, found=text)
    sign, before, after, divisor, number = matched.groups()
    times = None
    if number is None:
        times = 1 / exact(divisor, "divisor") if divisor else exact(before or after, "ratio")
    least, largest = Fraction(0), Fraction(1)
    if word:
        limited = _WHERE.fullmatch("".join(where.split()))
        if limited is None:
            raise _wrong("bad-profile/say", text, place=where[:100])
        at = exact(limited.group(2), "prior")
        least, largest = (least, at) if limited.group(1) == "<=" else (at, largest)
        if not 0 < at < 1:
            raise _wrong("bad-profile/prior", text, found=limited.group(2))
    upper = sign == "<="
    value = exact(number, "posterior") if number else None
    if times is not None and ((upper and times <= 1) or (not upper and not 0 < times < 1)):
        raise _wrong("bad-profile/release", text, found=str(times), upper=upper)
    if value is not None and not (largest < value < 1 if upper else 0 < value < least):
        raise _wrong("bad-profile/correct", text, found=str(value), upper=upper)
    return RiskLimit(" ".join(text.split()), upper, times, value, least, largest)


def _mirror(limit: RiskLimit) -> RiskLimit:
    assert limit.times is not None
    text = f"posterior >= prior/{limit.times} (the other side of {limit.text})"
    return RiskLimit(text, upper=False, times=1 / limit.times, number=None, least=limit.least, largest=limit.largest)


def _largest_rho(limit: RiskLimit) -> RiskSide:
    """The largest rho that keeps a limit, by bisection: Gaussian noise with a smaller rho tells no more."""
    if limit.upper and limit.times is not None and limit.least == 0:
        return RiskSide(limit, log(float(limit.times)) / 2, 0.0)
    low, high = max(float(limit.least), SMALLEST_PRIOR), min(float(limit.largest), 1 - SMALLEST_PRIOR)
    priors = 1 / (1 + np.exp(-np.linspace(log(low / (1 - low)), log(high / (1 - high)), GRID)))
    if limit.upper:  # the ratio falls in the prior, and the posterior rises
        priors = priors[:1] if limit.times is not None else priors[-1:]
    if _worst(limit, priors, LARGEST)[0] <= 0:
        return RiskSide(limit, LARGEST, float(priors[-1]))
    rho, prior = _bisected(limit, priors)
    if len(priors) > 1:  # once more, where it binds
        rho, prior = _bisected(limit, np.clip(np.linspace(0.9 * prior, 1.1 * prior, GRID), low, high))
    return RiskSide(limit, rho, prior)


def _bisected(limit: RiskLimit, priors: np.ndarray[Any, np.dtype[np.float64]]) -> tuple[float, float]:
    small, large = 0.0, LARGEST
    for _ in range(STEPS):
        middle = (small + large) / 2
        small, large = (middle, large) if _worst(limit, priors, middle)[0] <= 0 else (small, middle)
    return small, _worst(limit, priors, large)[1]


def _worst(limit: RiskLimit, priors: np.ndarray[Any, np.dtype[np.float64]], rho: float) -> tuple[float, float]:
    """By how much the limit is passed, in parts of it, at the prior where it is passed by most; and that prior."""
    present = expected_posteriors(priors, rho)
    allowed = np.array([limit.limit(prior) for prior in priors.tolist()])
    if limit.upper:
        over = present / allowed - 1
    else:
        absent = priors * (1 - present) / (1 - priors)
        over = 1 - absent / allowed
    place = int(np.argmax(over))
    return float(over[place]), float(priors[place])


def expected_posteriors(
    priors: np.ndarray[Any, np.dtype[np.float64]], rho: float
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """E₁[posterior] of each prior for Gaussian noise: the mean of 1/(1 + exp(−(a + ρ + √(2ρ) Z))).

    >>> expected_posteriors(np.array([0.5]), 0.2).round(4).tolist()
    [0.5457]
    """
    nodes = np.linspace(-10.0, 10.0, 401)
    weights = np.exp(-(nodes**2) / 2)
    weights /= weights.sum()
    odds = np.log(priors / (1 - priors))[:, None] + rho + sqrt(2 * rho) * nodes[None, :]
    with np.errstate(over="ignore"):
        return np.asarray((1 / (1 + np.exp(-odds))) @ weights, np.float64)


def _wrong(key: str, text: str, found: str | None = None, **facts: object) -> ParameterError:
    place = Place(path=f"--profile {text[:80]!r}" if text else "--profile")
    return ParameterError(key, where=place, found=None if found is None else found[:100], **facts)
