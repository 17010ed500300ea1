"""The audit itself: what runs drew, held against their plans."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from confide.releases.mechanism import Check
from confide.releases.plan import Plan
from confide.releases.residuals import ChoiceLaw, OutcomeLaw, Residuals, SurvivorLaw
from confide.risk.noise_audit.draws_compared import DrawComparison
from confide.risk.noise_audit.law_checks import LawChecks
from confide.risk.noise_audit.noise_audit_answer import NoiseAudit
from confide.risk.noise_audit.seen import LawNumbers, SeenMeasurement, listed, look_at

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
    numbers, seen, findings = LawNumbers(), [], []
    for name, (plan, declared) in runs.items():
        run = name if len(runs) > 1 else ""
        distinct, wrong = _distinct(list(declared), plan, run)
        findings += wrong
        seen += [look_at(residuals, numbers, run) for residuals in distinct]
    laws = LawChecks(seen, numbers.laws)
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
        *laws.checks(),
        *compared.checks(),
    ]
    return NoiseAudit(
        next(iter(runs.values()))[0].mechanism,
        tuple(runs),
        sum(one.draws for one in seen),
        laws.estimated_scale(),
        laws.smallest_error,
        tuple(checks),
        tuple(laws.row(one) for one in seen),
        (*laws.notes(), *_partly_seen(seen), *compared.notes),
        laws.smallest_by_stage,
    )


def _partly_seen(seen: Sequence[SeenMeasurement]) -> Iterator[str]:
    """Which measurements are not seen as a whole, in a sentence."""
    names = [one.name for one in seen if not one.residuals.complete]
    if names:
        yield f"Not every draw is seen of {listed(names)}."


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
        laws = {law for residuals in arrays for law in residuals.laws if not isinstance(law, OUTCOMES)}
        if not laws <= {measure.law for measure in planned[key]}:
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
