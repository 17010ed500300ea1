"""How far the truth may be from a released figure: margins that hold for what is shown, and for what is true.

Figures are pooled by kind of area, query and class of size. Two people ask two questions of the same margins:

    whoever looks at a figure because of what it shows:   of the figures that *show* a size, how many are covered?
    whoever had a group in mind before looking:           of the figures that *have* a size, how many are covered?

A margin that is learnt from the first question alone says of a block that shows nobody of a group that there is nobody,
which is right for nearly all such blocks and wrong for most of the small groups that there are. So margins answer both.
They are learnt where the truth is known: from replicates, whose truth is the release, and from releases of made-up
people (:mod:`confide.mechanisms.topdown.made_up`), which are as uneven as the true ones. For a class c of figures that
are shown, an interval is from r - below(c) to r + above(c):

1. *By what is shown.* The shortest interval that covers a share q of the figures of the class in each of the two sets:
   q = p + z sqrt(p (1 - p) / n) for a class of n figures in a release. It is a *tolerance limit*: few figures say
   little of all that could be, so that more of them must be covered. With z = 1.645 a fixed interval that covers a
   share q of n figures covers a share p of all with a confidence of 95 per cent; that the shortest is taken costs some.
2. *By what is true.* As long as fewer than 0.9 p + 0.1 of the figures of some true size are covered in one of the sets,
   the end of some class is moved outward: whichever covers most of what is missing for the width that it costs. The
   interval of zeros is widened for the sake of the next class alone, and no other class so far that nearly all of its
   figures are covered; what is then still missing stays so.

Both are fixed by class before any figure is looked at, and neither uses the truth of the release. What they cover was
measured against it: ``docs/concepts/inference.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from confide.arrays import Floats, Integers
from confide.estimation.unified_intervals import checked_level, normal_quantile

CONFIDENCE = normal_quantile(0.9)
"""z: so many standard errors of a share are added to it; a confidence of 95 per cent on one side."""
MOST_OF_THE_REST = 0.7
"""No class that is shown, but for zeros, is covered beyond this share of the way from the level to 1 in both sets
because of what is true: 0.97 for 0.9, which is the most that we aim at."""
SPARSER = 0.1
"""The share of figures of a true size is asked to be higher by so much of the rest, 0.91 for 0.9: small groups that a
release has are those that noise was kind to, and it loses true ones a little more often. Tried with others on releases
that serve for nothing else: ``docs/concepts/replicates.md``."""
LEAST_FIGURES = 100
"""True sizes that fewer figures of a release have are not looked at by themselves."""


@dataclass(eq=False)
class ErrorTable:
    """How far the truth is from what is shown, for every pair of a true class and one that is shown."""

    classes: int
    releases: int = 0
    both_zero: int = 0
    """Figures that are zero and show zero; they are in no pair."""
    _pairs: dict[tuple[int, int], Integers] = field(default_factory=dict)

    def add(self, true: Integers, shown: Integers, distance: Integers, both_zero: int) -> None:
        """The figures of one more release: the class that each has, the class that it shows, truth minus shown."""
        for pair in np.unique(true * self.classes + shown).tolist():
            key = divmod(pair, self.classes)
            own = distance[(true == key[0]) & (shown == key[1])]
            reach = int(np.abs(own).max())
            self._pairs[key] = _sum(self._pairs.get(key), np.bincount(own + reach, minlength=2 * reach + 1))
        self.both_zero += both_zero
        self.releases += 1

    @property
    def reach(self) -> int:
        """The largest distance."""
        return max((len(counts) // 2 for counts in self._pairs.values()), default=0)

    def counts(self, reach: int) -> Integers:
        """How many figures: classes that are true x classes that are shown x distances from -reach to reach."""
        result = np.zeros((self.classes, self.classes, 2 * reach + 1), np.int64)
        for key, counts in self._pairs.items():
            far = len(counts) // 2
            result[key][reach - far : reach + far + 1] = counts
        result[0, 0, reach] += self.both_zero
        return result


def _sum(one: Integers | None, other: Integers) -> Integers:
    """The sum of two lists of counts whose middle is zero."""
    if one is None:
        return other
    short, long = sorted((one, other), key=len)
    result, gap = long.copy(), (len(long) - len(short)) // 2
    result[gap : gap + len(short)] += short
    return result


@dataclass(frozen=True, eq=False)
class ClassMargins:
    """How far below and above a figure the truth may be, by class that is shown."""

    below: Integers
    above: Integers


def class_margins(
    tables: Sequence[ErrorTable], level: float, *, zero_floor: float = 0.0, zero_most: int = 4
) -> ClassMargins:
    """Margins of the stated coverage, by what is shown and by what is true.

    Args:
        tables: The errors of replicates, and those of releases of made-up people if there are any.
        level: The coverage.
        zero_floor: What the margin of a figure that shows zero is at least.
        zero_most: How far step 2 may widen it: the largest figure of the next class.

    Returns:
        Both margins of each class; zero for classes that nothing shows.
    """
    checked_level(level)
    reach = max((table.reach for table in tables), default=0)
    known = [_Known(table.counts(reach), reach, table.releases) for table in tables if table.releases]
    ends = [_shortest(known, size, level) for size in range(tables[0].classes)]
    below, above = (np.array(side, np.int64) for side in zip(*ends, strict=True))
    if any(one.shown[0] for one in known):
        above[0] = max(above[0], int(np.ceil(zero_floor)))
    margins = ClassMargins(below, above)
    while (better := _extended(known, margins, level, zero_most)) is not None:
        margins = better
    return margins


class _Known:
    """Errors of one set of releases, summed up so that what an interval covers is a difference."""

    def __init__(self, counts: Integers, reach: int, releases: int):
        self.middle = reach
        self.up_to = np.cumsum(counts, axis=2)
        self.shown = counts.sum(axis=(0, 2))
        self.true = counts.sum(axis=(1, 2))
        self.releases = releases

    def needed_above(self, size: int, level: float) -> Integers:
        """Step 1: for each margin below, from 0 on, the smallest one above; beyond the largest where there is none."""
        of_class = self.up_to[:, size].sum(axis=0)
        left_out = np.concatenate([of_class[: self.middle][::-1], [0]])
        asked = float(_asked(level, np.array(self.shown[size] / self.releases))) * self.shown[size]
        place = np.searchsorted(of_class, left_out + asked)
        return np.where(place < len(of_class), np.maximum(place - self.middle, 0), 2 * self.middle + 1)

    def covered(self, margins: ClassMargins) -> Integers:
        """How many figures intervals cover: classes that are true x classes that are shown."""
        classes = np.arange(len(self.shown))
        top = self.up_to[:, classes, np.minimum(self.middle + margins.above, 2 * self.middle)]
        bottom = self.middle - margins.below - 1
        return np.asarray(top - np.where(bottom >= 0, self.up_to[:, classes, np.maximum(bottom, 0)], 0))

    def missing(self, covered: Integers, level: float) -> Floats:
        """Step 2: how many figures of each true class more must be covered; none of classes with few figures."""
        asked = (level + SPARSER * (1 - level)) * self.true
        enough = self.true >= LEAST_FIGURES * self.releases
        return np.where(enough, np.maximum(asked - covered.sum(axis=1), 0.0), 0.0)


def _shortest(known: Sequence[_Known], size: int, level: float) -> tuple[int, int]:
    """The shortest interval of errors that is long enough in each set; of equally short ones the most even."""
    if not any(one.shown[size] for one in known):
        return 0, 0
    above = np.max([one.needed_above(size, level) for one in known], axis=0)
    below = np.arange(len(above))
    best = np.lexsort((np.abs(above - below), below + above))[0]
    return int(below[best]), int(above[best])


def _asked(level: float, figures: Floats) -> Floats:
    """The share of figures that must be covered, for so many figures in a release."""
    standard_error = np.sqrt(level * (1 - level) / np.maximum(figures, 1e-9))
    return np.asarray(np.minimum(level + CONFIDENCE * standard_error, 1.0))


def _extended(known: Sequence[_Known], margins: ClassMargins, level: float, zero_most: int) -> ClassMargins | None:
    """One end of one class moved outward; None if nothing is missing, or nothing helps."""
    covered = [one.covered(margins) for one in known]
    missing = [one.missing(number, level) for one, number in zip(known, covered, strict=True)]
    if not any(number.any() for number in missing):
        return None
    shown = np.sum([one.shown / one.releases for one in known], axis=0)
    most = level + MOST_OF_THE_REST * (1 - level)
    best: tuple[float, ClassMargins] | None = None
    for size in np.flatnonzero(shown).tolist():
        for side in ("below", "above"):
            room = zero_most - int(margins.above[0]) if size == 0 else known[0].middle
            step = 1
            while step <= room:
                ends = {"below": margins.below.copy(), "above": margins.above.copy()}
                ends[side][size] += step
                tried = ClassMargins(**ends)
                after = [one.covered(tried) for one in known]
                if size and all(c[:, size].sum() > most * one.shown[size] for c, one in zip(after, known, strict=True)):
                    break
                gain = 0.0
                for one, now, before, lacks in zip(known, after, covered, missing, strict=True):
                    more = now.sum(axis=1) - before.sum(axis=1)
                    gain += float((np.minimum(more, lacks) / np.maximum(one.true, 1)).sum())
                worth = gain / (step * float(shown[size]))
                if gain > 0 and (best is None or worth > best[0]):
                    best = worth, tried
                step += max(1, step // 2)
    return None if best is None else best[1]
