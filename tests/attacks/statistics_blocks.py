"""Small blocks published as counts with medians and means of age: all people who fit, found by enumeration.

The example of Garfinkel, Abowd and Martindale (2019) is a block of seven people, of whom the number, the median and the
mean age are published in all and for women, men, two races, married adults and Black women. Medians and means are not
linear in a histogram; but there are few people, and one statistic after the other cuts the ages down:

1. women and men are enumerated as sorted lists of ages with the given sum and median;
2. two lists go together where the whole has its median and mean;
3. races, then marriages, are given out in every way, and every statistic is checked.

Lists of ages are the library's, which are held against all lists there are; what is made of them is written apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations

from confide.lab.attacks.reconstruction.age_statistics import AgeStatistic, age_lists

OLDEST = 125
ADULT = 18

Person = tuple[int, str, str, bool]
"""Age, sex (F or M), race (B or W), whether married."""


def solutions(published: Mapping[str, AgeStatistic], oldest: int = OLDEST) -> list[tuple[Person, ...]]:
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
    published: Mapping[str, AgeStatistic], women: tuple[int, ...], men: tuple[int, ...]
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


def _with_marriages(married: AgeStatistic, people: list[tuple[int, str, str]]) -> Iterator[tuple[Person, ...]]:
    adults = [at for at, person in enumerate(people) if person[0] >= ADULT]
    for chosen in combinations(adults, married.count):
        if married.holds([people[at][0] for at in chosen]):
            yield tuple(sorted((*person, at in chosen) for at, person in enumerate(people)))
