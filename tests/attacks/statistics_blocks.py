"""Small blocks published as counts with medians and means of age: all people who fit, found by enumeration.

The example of Garfinkel, Abowd and Martindale (2019) is a block of seven people, of whom the number, the median and the
mean age are published in all and for women, men, two races, married adults and Black women. Medians and means are not
linear in a histogram; but there are few people, and one statistic after the other cuts the ages down:

1. women and men are enumerated as sorted lists of ages with the given sum and median;
2. two lists go together where the whole has its median and mean;
3. races, then marriages, are given out in every way, and every statistic is checked.

A published mean is rounded: it stands for every mean that prints so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, combinations_with_replacement
from math import ceil, floor

from confide.errors import ParameterError
from confide.exact import Exact, exact

OLDEST = 125
ADULT = 18

Person = tuple[int, str, str, bool]
"""Age, sex (F or M), race (B or W), whether married."""


@dataclass(frozen=True)
class Statistic:
    """The number, the median age and the mean age of a group, as published."""

    count: int
    twice_median: int
    sums: range
    """The sums of ages whose mean prints as published."""

    @classmethod
    def of(cls, count: int, median: Exact, mean: Exact, digits: int = 1) -> Statistic:
        """From printed numbers; means are rounded to so many ``digits`` after the point.

        >>> Statistic.of(3, 36, "36.7").sums
        range(110, 111)
        """
        half = Fraction(1, 2 * 10**digits)
        low, high = count * (exact(mean, "mean") - half), count * (exact(mean, "mean") + half)
        twice = 2 * exact(median, "median")
        if twice.denominator > 1:
            raise ParameterError(
                "median", "a median of whole ages is whole or a half", found=str(median), remedy="correct it"
            )
        return cls(count, int(twice), range(ceil(low), floor(high) + 1))

    def holds(self, ages: Sequence[int]) -> bool:
        """Whether a group of these ages has this statistic."""
        return len(ages) == self.count and sum(ages) in self.sums and twice_median(ages) == self.twice_median


def twice_median(ages: Sequence[int]) -> int:
    """Two times the middle age; with an even number, the sum of the two in the middle."""
    ordered = sorted(ages)
    middle = len(ordered) // 2
    return ordered[middle] + ordered[middle if len(ordered) % 2 else middle - 1]


def age_lists(statistic: Statistic, oldest: int = OLDEST) -> Iterator[tuple[int, ...]]:
    """Every sorted list of ages with a statistic.

    The one or two in the middle come first, because the median says what they are; then those below and above.
    """
    count = statistic.count
    below = (count - 1) // 2
    for middle in _middles(statistic, oldest):
        for lower in combinations_with_replacement(range(middle[0] + 1), below):
            for total in statistic.sums:
                rest = total - sum(lower) - sum(middle)
                for upper in _sorted_lists(count - below - len(middle), rest, middle[-1], oldest):
                    yield (*lower, *middle, *upper)


def _middles(statistic: Statistic, oldest: int) -> Iterator[tuple[int, ...]]:
    if statistic.count % 2:
        if statistic.twice_median % 2 == 0:
            yield (statistic.twice_median // 2,)
        return
    for first in range(max(0, statistic.twice_median - oldest), statistic.twice_median // 2 + 1):
        yield (first, statistic.twice_median - first)


def _sorted_lists(count: int, total: int, least: int, most: int) -> Iterator[tuple[int, ...]]:
    """Sorted lists of whole numbers between two bounds with a sum."""
    if count == 0:
        if total == 0:
            yield ()
        return
    for first in range(max(least, total - (count - 1) * most), min(most, total // count) + 1):
        for rest in _sorted_lists(count - 1, total - first, first, most):
            yield (first, *rest)


def solutions(published: Mapping[str, Statistic], oldest: int = OLDEST) -> list[tuple[Person, ...]]:
    """All blocks, as sorted tuples of people, with the published statistics.

    The groups are ``total``, ``female``, ``male``, ``black``, ``white``, ``married_adult`` and ``black_female``. Sex
    and race have two values each; married are people aged 18 and over.
    """
    found: set[tuple[Person, ...]] = set()
    for women in age_lists(published["female"], oldest):
        for men in age_lists(published["male"], oldest):
            if published["total"].holds((*women, *men)):
                found |= set(_with_races(published, women, men))
    return sorted(found)


def _with_races(
    published: Mapping[str, Statistic], women: tuple[int, ...], men: tuple[int, ...]
) -> Iterator[tuple[Person, ...]]:
    black_women = published["black_female"].count
    black_men = published["black"].count - black_women
    if not 0 <= black_men <= len(men):
        return
    for of_women in combinations(range(len(women)), black_women):
        black_female = [women[at] for at in of_women]
        if not published["black_female"].holds(black_female):
            continue
        for of_men in combinations(range(len(men)), black_men):
            black = [*black_female, *(men[at] for at in of_men)]
            white = [age for at, age in enumerate(women) if at not in of_women]
            white += [age for at, age in enumerate(men) if at not in of_men]
            if published["black"].holds(black) and published["white"].holds(white):
                people = [(age, "F", "B" if at in of_women else "W") for at, age in enumerate(women)]
                people += [(age, "M", "B" if at in of_men else "W") for at, age in enumerate(men)]
                yield from _with_marriages(published["married_adult"], people)


def _with_marriages(married: Statistic, people: list[tuple[int, str, str]]) -> Iterator[tuple[Person, ...]]:
    adults = [at for at, person in enumerate(people) if person[0] >= ADULT]
    for chosen in combinations(adults, married.count):
        if married.holds([people[at][0] for at in chosen]):
            yield tuple(sorted((*person, at in chosen) for at, person in enumerate(people)))
