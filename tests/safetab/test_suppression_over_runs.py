"""Over repeated runs: how often groups are suppressed, and by how much what is left is biased, against exact theory.

A group with n persons whose table is a total alone is published if n + Y > T, where Y has the law of the second stage:

* it is suppressed with probability P(Y <= T - n);
* if it is published, its figure is off by E[Y | Y > T - n] on average (paper, section 6; Figures 1 and 2).

Keys are fixed, so the figures are the same every time. Each is held against theory within 4.5 standard errors, which
chance would break once in 150,000 comparisons, and against the theory of noise with a scale wrong by a tenth, which has
to fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from tests.kits.safetab import level_of, measured

from confide.mechanisms.safetab.problem import GroupLevel, is_sparse
from confide.noise import DiscreteGaussian, NoiseDistribution
from confide.privacy import Definition

pytestmark = pytest.mark.statistical

ERRORS = 4.5
PRODUCTION = Fraction("0.9999")


@dataclass
class Seen:
    """For a size of groups: how many there were, how many were published, and the errors of those."""

    groups: int
    errors: np.ndarray

    @property
    def published(self) -> int:
        return len(self.errors)


def repeated(level: GroupLevel, sizes: Sequence[int], keys: range) -> dict[int, Seen]:
    """Many runs of a level whose groups have the given sizes in turn."""
    group = np.arange(level.groups)
    size = np.array(sizes)[group % len(sizes)]
    there = group[size > 0]
    rows = pa.table(
        {
            "part": np.zeros(len(there), np.int64),
            "group": there,
            "cell": there % 46,
            "n": size[there],
        }
    )
    found: dict[int, list[np.ndarray]] = {each: [] for each in sizes}
    for key in keys:
        table = measured(level, rows, key)
        assert not table.column("level").to_numpy().any()  # thresholds are far away: totals alone
        places, counts = table.column("group").to_numpy(), table.column("count").to_numpy()
        for each in sizes:
            mine = size[places] == each
            found[each].append(counts[mine] - each)
    number = len(keys) * level.groups // len(sizes)
    return {each: Seen(number, np.concatenate(errors)) for each, errors in found.items()}


def off(published: int, groups: int, chance: float) -> float:
    """How many standard errors a share is away from a probability."""
    return (published - groups * chance) / max(groups * chance * (1 - chance), 1e-9) ** 0.5


def moments_above(law: NoiseDistribution, cut: int) -> tuple[float, float]:
    """Mean and standard deviation of the noise, given that it is above ``cut``."""
    reach = law.noise_margin(1 - Fraction(1, 10**12))
    values = np.arange(max(cut + 1, -reach), max(reach, cut + 40) + 1)
    weights = np.array([law.pmf(int(x)) for x in values])
    weights /= weights.sum()
    mean = float((weights * values).sum())
    return mean, float((weights * (values - mean) ** 2).sum()) ** 0.5


@pytest.mark.parametrize(
    ("suppression", "budget", "definition"),
    [
        (PRODUCTION, "0.159", Definition.ZCDP),
        (PRODUCTION, "0.008", Definition.ZCDP),
        (PRODUCTION, "2.43", Definition.PURE),
        (Fraction("0.99"), "0.159", Definition.ZCDP),
        (Fraction("0.8"), "0.159", Definition.ZCDP),
        (Fraction("0.5"), "2.134", Definition.ZCDP),
    ],
)
def test_true_zeros_are_suppressed_as_often_as_promised(
    suppression: Fraction, budget: str, definition: Definition
) -> None:
    """At least with probability p, and as often as the law says: 2,000,000 empty groups in 20 runs."""
    level = level_of(
        areas=10_000, budget=budget, suppression=suppression, definition=definition, steps=(10**6, 10**7, 10**8)
    )
    assert is_sparse(level) == (suppression > Fraction("0.95"))
    cut = level.suppressed_up_to
    assert cut is not None
    assert level.second.cdf(cut) >= suppression > level.second.cdf(cut - 1)
    keys = range(20) if is_sparse(level) else range(4)
    seen = repeated(level, [0], keys)[0]
    assert abs(off(seen.published, seen.groups, level.second.tail(cut))) < ERRORS
    share = 1 - seen.published / seen.groups
    assert share > float(suppression) - ERRORS * (float(1 - suppression) / seen.groups) ** 0.5
    if suppression == PRODUCTION and definition is Definition.ZCDP:
        assert isinstance(level.second, DiscreteGaussian)
        for factor in (Fraction(9, 10), Fraction(11, 10)):
            other = DiscreteGaussian(level.second.sigma2 * factor**2)
            assert abs(off(seen.published, seen.groups, other.tail(cut))) > ERRORS


@pytest.mark.parametrize(("budget", "definition"), [("0.159", Definition.ZCDP), ("2.43", Definition.PURE)])
def test_suppression_and_bias_curves(budget: str, definition: Definition) -> None:
    """Sizes from nobody to twice the suppression number, about 40,000 groups of each."""
    level = level_of(areas=30_000, budget=budget, definition=definition, steps=(10**6, 10**7, 10**8))
    cut = level.suppressed_up_to
    assert cut is not None
    sizes = [0, *range(cut // 4, 2 * cut + 1, max(1, cut // 12))]
    seen = repeated(level, sizes, range(30, 33))
    biases, shares, wrong = [], [], []
    for size, found in seen.items():
        chance = level.second.tail(cut - size)
        assert abs(off(found.published, found.groups, chance)) < ERRORS, size
        shares.append(found.published / found.groups)
        if found.published > 100:
            mean, deviation = moments_above(level.second, cut - size)
            error = deviation / found.published**0.5
            assert abs(found.errors.mean() - mean) < ERRORS * error, size
            biases.append((size, mean))
            other = _wrong(level.second)
            wrong.append(abs(found.errors.mean() - moments_above(other, cut - size)[0]) / error)
            wrong.append(abs(off(found.published, found.groups, other.tail(cut - size))))
    assert max(one - two for one, two in pairwise(shares)) < 0.02  # the larger a group, the more often it is published
    assert biases[0][1] > 5 * biases[-1][1] >= 0  # what is published of small groups is far too high
    assert max(wrong) > 2 * ERRORS


def _wrong(law: NoiseDistribution) -> NoiseDistribution:
    """The same kind of law with a scale larger by a tenth."""
    if isinstance(law, DiscreteGaussian):
        return DiscreteGaussian(law.sigma2 * Fraction(121, 100))
    return type(law)(law.parameter / Fraction(11, 10))


def test_a_table_is_chosen_as_often_as_the_first_law_says() -> None:
    """P(level >= k | n) = P(X >= threshold - n), near each threshold; groups with a table are never suppressed."""
    level = level_of(areas=40_000, steps=(60, 90, 120))
    sizes = [30, 50, 60, 70, 90, 110, 120, 150]
    group = np.arange(level.groups)
    size = np.array(sizes)[group % len(sizes)]
    rows = pa.table({"part": group * 0, "group": group, "cell": group * 0 + 9, "n": size})
    table = measured(level, rows, 5)
    first = table.filter(pa.array(table.column("cell").to_numpy() == 0))
    chosen = np.zeros(level.groups, np.int64)
    chosen[first.column("group").to_numpy()] = first.column("level").to_numpy()
    furthest = 0.0
    for each in sizes:
        for number, step in enumerate(level.settings.thresholds, start=1):
            reached = int(np.count_nonzero(chosen[size == each] >= number))
            chance = level.first.tail(step - each - 1)
            assert abs(off(reached, int(np.count_nonzero(size == each)), chance)) < ERRORS, (each, step)
            furthest = max(furthest, abs(off(reached, level.groups // len(sizes), level.first.tail(step - each))))
    assert furthest > 2 * ERRORS  # to pass a threshold is less likely than to reach it
