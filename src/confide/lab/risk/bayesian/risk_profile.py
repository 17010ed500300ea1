"""``confide risk profile``: the largest rho whose posterior-to-prior ratios stay within a profile, for all priors.

An office says how far a release may move beliefs about one person, such as ``posterior <= 3*prior``; Kazan and Reiter
(*Prior-itizing Privacy*, 2024) find the budget from such a profile, for pure differential privacy. Here it is found for
zCDP, from the two expectations of :mod:`.one_level`: with prior p and log-ratio L ~ N(ρ, 2ρ) if
the target is there, N(−ρ, 2ρ) if it is not (Gaussian noise, composed or not, is never worse),

    presence, upper side:  E₁[posterior] = p R(p),       the ratio R falls in p, to 1, from exp(2ρ) at p → 0
    absence, lower side:   E₀[posterior]/p = (1 − p R(p))/(1 − p).

A profile limits the first from above: K·p, or a number. Whoever is not there must not be cleared either, so that the
mirror image limits the second from below: p/K. The largest rho is the smaller of both, and the side that has it binds.
A ratio that holds for all priors holds for every ρ-zCDP release: R ≤ exp(2ρ), Theorem 4 of
``docs/proofs/bayesian-risk.md``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor, log, sqrt
from typing import Any

import numpy as np

from confide.answers import AnswerPart, ShownTable, TypedAnswer
from confide.errors import Finding, ParameterError, Place
from confide.exact import Exact, exact, positive, up
from confide.privacy import epsilons

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
