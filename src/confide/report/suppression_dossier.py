"""The dossier of a release by cell suppression: what was lost, and what an attacker is left with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confide.confidential import Confidential
from confide.errors import Finding, ParameterError, Place
from confide.report import plots
from confide.report.dossier import BANNER, Evaluated, Evaluating, no_maps, write
from confide.report.render import render
from confide.report.suppression_figures import figures
from confide.suppression.evaluation import evaluate
from confide.suppression.losses import MOST_GROUPS

Row = Mapping[str, Any]


def evaluate_suppression(asked: Evaluating) -> Evaluated:
    """The release against the truth, and its dossier. There is one run: nothing is drawn."""
    findings = no_maps(asked, "suppression", "cell suppression")
    if len(asked.runs) > 1:
        what, found = "runs of one question on the same records are the same release", f"{len(asked.runs)} runs"
        findings.append(Finding("same-pattern", what, Place(path="RUN"), found, "one run", "give one run"))
    if findings:
        raise ParameterError(findings)
    run = asked.runs[0]
    accuracy = evaluate(asked.question, run.workspace, asked.engine, asked.progress)
    numbers = accuracy.reveal("the dossier is the curator's own report on the truth")
    titles = {attribute.name: attribute.title for attribute in asked.question.attributes}
    page = _page(numbers, run.title, titles)
    return Evaluated(Confidential(numbers), write(run.workspace.dossier, numbers, page))


def _page(numbers: Row, title: str, titles: Mapping[str, str]) -> str:
    pictures = plots.available()
    return render(
        "suppression_dossier.html.j2",
        title=title,
        banner=BANNER,
        headlines=_headlines(numbers),
        numbers=numbers,
        pictures=pictures,
        figures=figures(numbers, titles) if pictures else {},
        most=MOST_GROUPS,
    )


def _headlines(numbers: Row) -> list[tuple[str, str]]:
    """What to know first: what is gone, and whether what is left protects."""
    programme, primary = numbers["programme"], numbers["intervals"]["primary"]
    return [
        (f"{100 * programme['hidden_share']:.1f} %", f"of {programme['cells']:,} distinct cells are hidden"),
        (f"{programme['primary']:,}", f"of them are primary; {programme['complementary']:,} protect these"),
        (f"{100 * programme['hidden_value_share']:.1f} %", "of all that the cells add up to is in hidden ones"),
        (
            f"{primary['protected']:,} of {primary['cells']:,}",
            "primary cells have the whole of their protection in the attacker's interval",
        ),
    ]
