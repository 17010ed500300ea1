"""``evaluate``: measured counts against the truth, with what truncation takes from it apart from what noise adds; and
what a run drew, for the noise audit. Confidential.

    released − true  =  (kept − true)  +  noise,      kept: with at most τ persons of a household

The first part is a bias that no variance says anything of: it is never above zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from confide.arrays import Integers
from confide.confidential import Confidential
from confide.mechanisms.phsafe.measure import counts_file, read_measured, true_counts
from confide.mechanisms.phsafe.problem import PHSafeProblem
from confide.mechanisms.phsafe.settings import CountQuery
from confide.mechanisms.phsafe.tabulate import dense
from confide.releases import Job, NoiseSource, Plan, Workspace, dossier
from confide.releases.replay import Residuals, no_truth, require_sealed
from confide.report.charts import require_levels
from confide.report.rendering import render
from confide.utility import by_size_class, combine, error_sums

MEASURED = "measured"
DEFAULT_MARGIN = Fraction(19, 20)
SAME_FOR_EVERY_KEY = frozenset(
    {"cells", "noise_margin", "promised_share_within_margin", "promised_root_mean_squared_error", "persons_left_out"}
)


@dataclass(frozen=True, repr=False)
class QueryErrors:
    """A query: its true counts, those of them that truncation keeps, and what was measured."""

    query: CountQuery
    true: Integers
    kept: Integers
    measured: Integers

    @classmethod
    def of(cls, problem: PHSafeProblem, workspace: Workspace, query: CountQuery) -> QueryErrors:
        """That of a sealed run."""
        file = counts_file(workspace, query.table, everybody=query.counted.of_persons)
        try:
            counts = pq.read_table(file)
        except FileNotFoundError:
            raise no_truth(file) from None
        cells = [cell.code for cell in query.counted.interior]
        true = dense(counts, query.level, query.iteration_level, problem.states, cells)
        kept = true_counts(problem, workspace, query)
        return cls(query, true, kept, read_measured(problem, workspace, query))

    def as_dict(self, plan: Plan, probability: Fraction, tau: int | None) -> dict[str, Any]:
        """The errors of the counts of the query, in all."""
        law = plan.measure(self.query.level, self.query.name).law
        margin = law.noise_margin(probability)
        sums = error_sums(self.true, self.measured, margin)
        out = int((self.true - self.kept).sum())
        return {
            "table": self.query.table,
            "level": self.query.level,
            "iterations": self.query.iteration_level,
            "persons_of_a_household": tau,
            "mean_truth": sums.mean_truth,
            "truncation_bias": -out / self.true.size,
            "persons_left_out": out,
            "share_left_out": out / max(1, int(self.true.sum())),
            "mean_absolute_noise": float(np.abs(self.measured - self.kept).mean()),
            "noise_margin": margin,
            "promised_share_within_margin": float(sum(law.folded_cdf_bounds(margin)) / 2),
            "promised_root_mean_squared_error": law.variance() ** 0.5,
        } | sums.as_dict()

    def sizes(self, margin: int) -> Iterator[dict[str, Any]]:
        """The same by the true size of a count."""
        for size, sums in by_size_class(self.true, self.measured, margin).items():
            said = {"table": self.query.table, "level": self.query.level, "iterations": self.query.iteration_level}
            yield {**said, "true_size": size, "mean_truth": sums.mean_truth, **sums.as_dict()}


def evaluate_phsafe(asked: dossier.Evaluating) -> dossier.Evaluated:
    """Each release against the truth, with a dossier of its own; and of several, means over their keys."""
    problem, plan = asked.question, asked.plan
    assert isinstance(problem, PHSafeProblem)
    require_levels(asked.geometry, dict.fromkeys(query.level for query in problem.queries))
    probability = problem.spec.output.noise_margin or DEFAULT_MARGIN
    results = []
    with asked.progress.stage("Comparing with the truth", len(asked.runs)) as advance:
        for run in asked.runs:
            require_sealed(run.workspace)
            numbers = dossier.reveal(_numbers(problem, plan, run.workspace, probability, asked))
            results.append(numbers)
            risks = dossier.risk_pictures(numbers["risk_by_area"], None, asked.geometry, dossier.ALIKE)
            page = render(
                "phsafe_dossier.html.j2", title=run.title, banner=dossier.BANNER, rows=numbers["cells"],
                sizes=numbers["sizes"], maps=[], risks=risks,
            )  # fmt: skip
            dossier.write(run.workspace.dossier, numbers, page)
            advance(1)
    if len(results) == 1:
        return dossier.Evaluated(Confidential(results[0]), asked.runs[0].workspace.dossier / dossier.PAGE)
    return dossier.write_over_keys(
        asked, {"cells": combine([result["cells"] for result in results], SAME_FOR_EVERY_KEY)}
    )


def _numbers(
    problem: PHSafeProblem, plan: Plan, workspace: Workspace, probability: Fraction, asked: dossier.Evaluating
) -> Confidential[dict[str, Any]]:
    rows, sizes, lone = list[dict[str, Any]](), list[dict[str, Any]](), dossier.LoneFigures()
    for query in problem.queries:
        errors = QueryErrors.of(problem, workspace, query)
        row = errors.as_dict(plan, probability, problem.settings.tau.get(query.table))
        rows.append(row)
        sizes += errors.sizes(row["noise_margin"])
        areas = problem.areas(query.level)
        if lone.takes(query.level, query.name, query.table):
            area = np.repeat(np.arange(len(areas)), errors.true[0].size)
            lone.add(query.level, areas, area, errors.true.reshape(-1), errors.measured.reshape(-1))
    accuracy = [
        {
            "query": "total",
            "cell": "total",
            "geography": f"{row['table']} {row['level']} {row['iterations']}",
            "areas": row["cells"],
            "mean_truth": row["mean_truth"],
            "mean_absolute_error": row["mean_absolute_error"],
            "noise_alone": {"mean_absolute_error": row["mean_absolute_noise"]},
        }
        for row in rows
    ]
    risk = lone.as_dict(asked.geometry)
    return Confidential({"units": "counts", "accuracy": accuracy, "cells": rows, "sizes": sizes, "risk_by_area": risk})


def residuals(problem: PHSafeProblem, job: Job, noise: NoiseSource | None) -> Iterator[Residuals]:  # noqa: ARG001
    """The noise of every query, a row for each area."""
    require_sealed(job.workspace)
    for query in problem.queries:
        drawn = read_measured(problem, job.workspace, query) - true_counts(problem, job.workspace, query)
        law = job.plan.measure(query.level, query.name).law
        yield Residuals(query.level, query.name, drawn.reshape(len(drawn), -1), (law,), MEASURED)
