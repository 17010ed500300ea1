"""Margins by class: what they cover by plain counting, by what is shown and by what is true; and how short they are."""

from __future__ import annotations

import numpy as np

from confide.arrays import Booleans, Integers
from confide.inference.pooled_errors import (
    CONFIDENCE,
    LEAST_FIGURES,
    MOST_OF_THE_REST,
    SPARSER,
    ClassMargins,
    ErrorTable,
    class_margins,
)
from confide.mechanisms.topdown.figure_noise import SIZES, size_class

Figures = tuple[Integers, Integers]


def table(*releases: Figures) -> ErrorTable:
    """What is true and what is shown in some releases, as errors by class."""
    result = ErrorTable(len(SIZES))
    for true, shown in releases:
        there = (true > 0) | (shown > 0)
        t, s = true[there], shown[there]
        result.add(size_class(t), size_class(s), t - s, int((~there).sum()))
    return result


def held(margins: ClassMargins, figures: Figures) -> Booleans:
    true, shown = figures
    size = size_class(shown)
    return np.asarray((shown - margins.below[size] <= true) & (true <= shown + margins.above[size]))


def lossy(seed: int, number: int = 40_000, spread: float = 2.0, zeros: float = 0.8) -> Figures:
    """Mostly zeros; small groups are lost more often than not; errors are whole numbers, and large figures lose."""
    rng = np.random.default_rng(seed)
    true = np.where(rng.random(number) < zeros, 0, rng.geometric(0.15, number))
    moved = np.rint(true * 0.97 + spread * rng.standard_normal(number)).astype(np.int64)
    shown = np.where(moved < 3, 0, moved)
    return true.astype(np.int64), np.maximum(shown, 0)


def test_both_questions_are_answered_in_every_set() -> None:
    one, other = lossy(1), lossy(2, spread=3.0)
    margins = class_margins([table(one), table(other)], 0.9, zero_most=4)
    for figures in (one, other):
        covered = held(margins, figures)
        for size in range(len(SIZES)):
            shown = size_class(figures[1]) == size
            if shown.any():
                assert covered[shown].mean() >= 0.9, size
        # Zeros may be widened up to 4, so that of groups of 1 to 4 all could be covered, and enough are.
        small = size_class(figures[0]) == 1
        assert covered[small].mean() >= 0.9 + SPARSER * 0.1
    alone = class_margins([table(one)], 0.9, zero_most=0)
    assert held(alone, one)[size_class(one[0]) == 1].mean() < 0.5, "by what is shown alone most small groups are missed"
    assert margins.above[0] > alone.above[0]


def test_the_first_step_is_the_shortest_interval() -> None:
    """Against all pairs of ends, with errors that are not even: figures from 20 to 99 that lost 0 to 9 people."""
    rng = np.random.default_rng(4)
    true = rng.integers(30, 60, 500)
    figures = true, true - np.minimum(rng.geometric(0.3, 500) - 1, 9)
    margins = class_margins([table(figures)], 0.9)
    asked = 0.9 + CONFIDENCE * (0.9 * 0.1 / 500) ** 0.5
    widths = [
        below + above
        for below in range(12)
        for above in range(12)
        if ((figures[1] - below <= true) & (true <= figures[1] + above)).mean() >= asked
    ]
    assert margins.below[3] + margins.above[3] == min(widths)
    assert margins.above[3] > margins.below[3]
    true_share = held(margins, figures).mean()
    assert true_share >= asked


def test_few_figures_are_given_more_room() -> None:
    """A tolerance limit: 30 figures say less of all others than 10,000 do."""
    level = 0.9
    rng = np.random.default_rng(7)

    def of(number: int) -> int:
        true = rng.integers(200, 900, number)
        figures = true, true + np.rint(10 * rng.standard_normal(number)).astype(np.int64)
        margins = class_margins([table(figures)], level)
        return int(margins.below[4] + margins.above[4])

    assert np.mean([of(30) for _ in range(20)]) > of(10_000)
    # Margins of most samples of 200 cover new figures to the level; without the allowance half of them would.
    fresh = np.rint(10 * rng.standard_normal(20_000))
    enough = 0
    for _ in range(60):
        true = rng.integers(200, 900, 200)
        figures = true, true + np.rint(10 * rng.standard_normal(200)).astype(np.int64)
        margins = class_margins([table(figures)], level)
        enough += ((-margins.below[4] <= fresh) & (fresh <= margins.above[4])).mean() >= level
    assert enough >= 60 * 0.75, enough


def test_no_class_is_widened_without_end_for_what_is_true() -> None:
    """True figures of 5 to 19 of which half are shown as 1 to 4 cannot be had without covering nearly all of those."""
    rng = np.random.default_rng(3)
    true = np.concatenate([np.full(30_000, 2), rng.integers(12, 19, 600)])
    shown = np.concatenate([rng.integers(1, 4, 30_000), np.full(600, 2)])
    margins = class_margins([table((true, shown))], 0.9)
    covered = held(margins, (true, shown))[size_class(shown) == 1].mean()
    assert covered <= 0.9 + MOST_OF_THE_REST * 0.1 or margins.above[1] < 10
    assert margins.above[0] <= 4


def test_classes_with_few_true_figures_widen_nothing() -> None:
    zeros = np.zeros(50_000, np.int64)
    true = zeros.copy()
    true[: LEAST_FIGURES - 1] = 3
    assert class_margins([table((true, zeros))], 0.9).above[0] == 0
    true[: LEAST_FIGURES + 1] = 3
    assert class_margins([table((true, zeros))], 0.9).above[0] == 3
    assert class_margins([table((true, zeros))], 0.9, zero_floor=3.2).above[0] == 4


def test_margins_have_no_order_of_releases_and_no_release_is_forgotten() -> None:
    parts = [lossy(seed, 5_000) for seed in (5, 6, 7)]
    forward, backward = (class_margins([table(*some)], 0.95) for some in (parts, parts[::-1]))
    assert (forward.below == backward.below).all()
    assert (forward.above == backward.above).all()
    whole = table(*parts)
    assert whole.counts(whole.reach).sum() == 15_000
    assert whole.releases == 3
    assert (class_margins([ErrorTable(len(SIZES))], 0.9).above == 0).all()
