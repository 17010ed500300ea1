"""The numbers of the pictures of adversaries with hierarchical information, as plain rows.

Figures 4, 5, 6 and 12 of Kazan and Reiter, from exact sums in place of samples.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from confide.risk.bayesian.decision_map import TIE, DecisionMap, Region, Ties, accuracy
from confide.risk.bayesian.post_processing import PostProcessing
from confide.risk.bayesian.two_level import TwoLevel, Variant

Rows = list[dict[str, Any]]
HIERARCHICAL = (Variant.STATED, Variant.UNRESTRICTED)
RHO2_GRID = tuple(Fraction(value) for value in ("1/100", "1/50", "1/20", "1/10", "1/4", "1/2", "1", "3", "10", "100"))
RHO1_GRID = tuple(Fraction(step, 50) for step in (*range(1, 10), *range(10, 50, 2), *range(50, 151, 5)))


def decision_tiles(model: TwoLevel, region: Region | None = None) -> Rows:
    """The decision for each x1* next to the target's edge, x2* and y*, beside that from x1* alone (Figure 4)."""
    shown = region or Region((model.known - 3, model.known + 5))
    x1, x2, y = np.meshgrid(
        [model.known, model.known + 1],
        np.arange(shown.x2[0], shown.x2[1] + 1),
        np.arange(shown.y[0], shown.y[1] + 1),
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
        | accuracy(model, x2 - model.known - 1, variant, ties).as_dict()
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
