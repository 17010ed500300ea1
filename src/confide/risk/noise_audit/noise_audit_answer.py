"""The answer of a noise audit, and its page for the curator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from confide.answers import OK, AuditPower, TypedAnswer
from confide.releases.mechanism import Check
from confide.report import charts
from confide.report.dossier import BANNER
from confide.report.render import render
from confide.risk.noise_audit.laws import ALARM

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
        return {
            "run": self.run,
            "level": self.level,
            "query": self.query,
            "source": self.source,
            "draws": self.draws,
            "law": self.law,
            "standardised_variance": self.standardised_variance,
            "low": self.low,
            "high": self.high,
            "ok": self.ok,
        }


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
            "false_alarm_rate": ALARM,
            "scale": self.scale,
            "smallest_error_of_scale_seen": self.smallest_error,
            "smallest_error_by_stage": dict(self.smallest_by_stage),
            "sees_three_per_cent": self.sees_three_per_cent,
            "checks": [{"name": check.name, "ok": check.ok, "detail": check.detail} for check in self.checks],
            "measurements": [measurement.as_dict() for measurement in self.measurements],
            "notes": list(self.notes),
        } | ({} if self.page is None else {"page": str(self.page)})


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
