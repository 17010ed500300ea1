"""The page of a noise audit, for the curator."""

from __future__ import annotations

from confide.report import charts
from confide.report.dossier import BANNER
from confide.report.render import render
from confide.risk.noise_audit.noise_audit_answer import NoiseAudit

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
