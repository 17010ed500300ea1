"""What a sealed run drew: released minus true, query by query. Confidential."""

from __future__ import annotations

from collections.abc import Iterator

from confide.mechanisms.phsafe.measure import read_measured, true_counts
from confide.mechanisms.phsafe.problem import PHSafeProblem
from confide.releases.mechanism import Job, NoiseSource
from confide.releases.replay import Residuals, require_sealed

MEASURED = "measured"


def residuals(problem: PHSafeProblem, job: Job, noise: NoiseSource | None) -> Iterator[Residuals]:  # noqa: ARG001
    """The noise of every query, a row for each area."""
    require_sealed(job.workspace)
    for query in problem.queries:
        drawn = read_measured(problem, job.workspace, query) - true_counts(problem, job.workspace, query)
        law = job.plan.measure(query.level, query.name).law
        yield Residuals(query.level, query.name, drawn.reshape(len(drawn), -1), (law,), MEASURED)
