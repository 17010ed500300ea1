"""The answer of an audit by many runs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

from confide.answers import OK, WRONG, AuditPower, TypedAnswer
from confide.privacy import Definition
from confide.risk.noise_audit import NoiseAudit

CONFIDENCE = Fraction(19, 20)
"""Of all bounds of an audit together. Where each measurement is judged by itself, half of the rest is for these."""


@dataclass(frozen=True)
class MeasurementBound:
    """What the test of one measurement came to."""

    level: str
    query: str
    twins: int
    narrower_by: float
    """The noise is at least so many times narrower than the plan states; above 1 something is wrong."""


class OutsideAudit(TypedAnswer):
    """What both audits have: the draws of a made-up run held against their laws, the power, and the verdict."""

    draws: NoiseAudit
    power_of: Callable[[], AuditPower]

    @property
    @abstractmethod
    def exceeded(self) -> bool:
        """Whether the release gives away more than it states, or its draws are not as planned."""

    @cached_property
    def power(self) -> AuditPower:
        """What this audit would have found, by made-up audits of noise that is too narrow."""
        return self.power_of()

    @property
    def verdict(self) -> str:
        """``ok``, ``wrong``, or ``no power`` where missing noise would not have been noticed."""
        return WRONG if self.exceeded else self.power.verdict(wrong=False)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong, and missing noise would have been."""
        return self.verdict == OK

    def _verdict_in_words(self, bound: str) -> str:
        if not self.draws.as_planned:
            wrong = "; ".join(f"{check.name}: {check.detail}" for check in self.draws.checks if not check.ok)
            return f"The draws are not as planned ({wrong}): do not release anything with this code."
        return bound if self.exceeded or self.ok else f"No verdict. {self.power.words}"

    def _added(self) -> dict[str, Any]:
        """What stands in the plain values of both."""
        return {
            "verdict": self.verdict,
            "power": self.power.as_dict(),
            "draws": {
                "seen": self.draws.draws,
                "checks": [{"name": c.name, "ok": c.ok, "detail": c.detail} for c in self.draws.checks],
            },
        }


@dataclass(frozen=True)
class PrivacyAudit(OutsideAudit):
    """A lower bound of what a release gives away, seen from outside, beside what its plan states."""

    mechanism: str
    definition: Definition
    neighbours: str
    delta: Fraction
    runs: int
    twins: int
    batches: int
    touched: int
    """How many noisy counts the change of one record touches, as far as they can be seen."""
    stated: Mapping[str, float]
    """``rho`` (zCDP) and ``epsilon`` (at ``delta``, except for pure differential privacy)."""
    at_least: Mapping[str, float]
    """The same of the noise that was seen, at 95 %, in the form of the stated noise."""
    whatever_the_noise: Mapping[str, float]
    """The same without a word about the form of the noise."""
    narrower_by: float
    """The noise of a batch is at least so many times narrower than the plan states; above 1 something is wrong."""
    measurements: tuple[MeasurementBound, ...]
    draws: NoiseAudit = field(repr=False, compare=False)
    """The draws of two of the runs, held against their laws and against each other."""
    power_of: Callable[[], AuditPower] = field(repr=False, compare=False)

    @property
    def too_narrow(self) -> tuple[MeasurementBound, ...]:
        """The measurements whose noise is narrower than the plan states."""
        return tuple(part for part in self.measurements if part.narrower_by > 1)

    @property
    def exceeded(self) -> bool:
        """Whether the release gives away more than it states, or one of its measurements does."""
        above = any(bound[name] > self.stated[name] for bound in self._bounds for name in self.stated)
        return above or self.narrower_by > 1 or bool(self.too_narrow) or not self.draws.as_planned

    @property
    def _bounds(self) -> tuple[Mapping[str, float], ...]:
        return self.at_least, self.whatever_the_noise

    @property
    def in_words(self) -> tuple[str, ...]:
        """What was done, what came of it, and what it shows."""
        name = next(iter(self.stated))
        bound = (
            "The empirical bound exceeds the stated loss, or the noise is narrower than planned: do not release "
            "anything with this code."
            if self.exceeded
            else "The empirical bound does not exceed the stated loss."
        )
        return (
            f"Made-up records were measured {2 * self.runs:,} times with fresh keys, {self.twins:,} of them alike in "
            f"one half of the runs, and a test had to tell the halves apart.",
            f"The noise that was seen allows {name} of at least {self.at_least[name]:.4g} (95 % confidence); "
            f"the plan states {self.stated[name]:.4g}.",
            self._verdict_in_words(bound),
            self.power.words,
            "Such an audit finds noise that is too small, or a record that counts too often. It proves nothing if it "
            "finds none: errors that show in rare events, in other records or in other settings stay hidden, and the "
            "guarantee rests on its proof.",
        )

    def as_dict(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "mechanism": self.mechanism,
            "definition": self.definition.value,
            "neighbours": self.neighbours,
            "delta": str(self.delta),
            "confidence": str(CONFIDENCE),
            "runs": self.runs,
            "twins": self.twins,
            "batches": self.batches,
            "touched_counts": self.touched,
            "loss": [
                {
                    "of": name,
                    "stated": stated,
                    "at_least": self.at_least[name],
                    "whatever_the_noise": self.whatever_the_noise[name],
                }
                for name, stated in self.stated.items()
            ],
            "narrower_by": self.narrower_by,
            "measurements": [
                {"level": part.level, "query": part.query, "twins": part.twins, "narrower_by": part.narrower_by}
                for part in self.measurements
            ],
            "in_words": list(self.in_words),
        } | self._added()


@dataclass(frozen=True)
class CanaryAudit(OutsideAudit):
    """A lower bound of what a release gives away, from one run with canaries, beside what its plan states."""

    mechanism: str
    definition: Definition
    neighbours: str
    delta: Fraction
    canaries: int
    """How many had a coin: those that have a count to themselves."""
    guesses: int
    """How many coins were guessed, of the two numbers that are tried: the one that shows more."""
    correct: int
    touched: int
    """How many noisy counts the change of one record touches."""
    own: float
    """How many of them no other canary touches, on average: from these coins are guessed."""
    stated: Mapping[str, float]
    at_least: Mapping[str, float]
    """Of the noise that was seen, at 95 %, in the form of the stated noise."""
    whatever_the_noise: Mapping[str, float]
    """The same without a word about the form of the noise."""
    narrower_by: float
    """The noise is at least so many times narrower than the plan states; above 1 something is wrong."""
    draws: NoiseAudit = field(repr=False, compare=False)
    """The draws of the run, held against their laws and against each other."""
    power_of: Callable[[], AuditPower] = field(repr=False, compare=False)

    @property
    def exceeded(self) -> bool:
        """Whether the release gives away more than it states, or its draws are not as planned."""
        bounds = self.at_least, self.whatever_the_noise
        above = any(bound[name] > self.stated[name] for bound in bounds for name in self.stated)
        return above or self.narrower_by > 1 or not self.draws.as_planned

    @property
    def in_words(self) -> tuple[str, ...]:
        """What was done, what came of it, and what it shows."""
        name = next(iter(self.stated))
        bound = (
            "The empirical bound exceeds the stated loss: do not release anything with this code."
            if self.exceeded
            else "The empirical bound does not exceed the stated loss."
        )
        return (
            f"A fair coin put each of {self.canaries:,} made-up canaries into one file or left it out, or chose which "
            f"of two records it is. The file was measured once; {self.correct:,} of {self.guesses:,} guesses of coins "
            f"were right.",
            f"So many right guesses take {name} of at least {self.at_least[name]:.4g} (95 % confidence); the plan "
            f"states {self.stated[name]:.4g}.",
            self._verdict_in_words(bound),
            self.power.words,
            "One run says much less than many: the bound holds even if all canaries stood or fell together, and lies "
            "far below the true loss. It shows gross mistakes only; audit with many runs where they can be afforded.",
        )

    def as_dict(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "mechanism": self.mechanism,
            "definition": self.definition.value,
            "neighbours": self.neighbours,
            "delta": str(self.delta),
            "confidence": str(CONFIDENCE),
            "canaries": self.canaries,
            "guesses": self.guesses,
            "correct": self.correct,
            "touched_counts": self.touched,
            "own_counts": self.own,
            "loss": [
                {
                    "of": name,
                    "stated": stated,
                    "at_least": self.at_least[name],
                    "whatever_the_noise": self.whatever_the_noise[name],
                }
                for name, stated in self.stated.items()
            ],
            "narrower_by": self.narrower_by,
            "in_words": list(self.in_words),
        } | self._added()
