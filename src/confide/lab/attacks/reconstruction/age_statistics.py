"""A few people, published as counts with median and mean ages: everybody who fits, found step by step.

The example of Garfinkel, Abowd and Martindale (2019), which Abowd and Hawes (2023, section 3) begin with, is a block of
seven people. Their number, median and mean age are published in all and for women, men, two races, married people and
Black women; exactly one block has these figures. Medians and means are not linear in a histogram, so that no integer
programme finds it; but there are few people, and one statistic after the other cuts the possibilities down:

1. for each level of the first attribute, all sorted lists of ages with its count, median and mean;
2. among the people of each list, the levels of the second attribute are given out in every way;
3. one possibility of each level goes with another where everybody together has the published figures;
4. the levels of further attributes are given out in every way, and every group that is decided by then is checked.

A published mean is rounded: it stands for every mean that prints so. Derivation: ``docs/proofs/reconstruction.md``,
section 7.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, product
from math import ceil, floor
from pathlib import Path
from typing import Any

from pydantic import Field

from confide.answers import AnswerPart, ShownTable, TypedAnswer
from confide.documents import FileKind, Loaded, Part, Problem, load_named
from confide.errors import ParameterError, Place
from confide.releases.spec import ExactNumber

SHIPPED = "seven-people"
MOST = 300_000
"""Possibilities that one step looks at; where there are more, the attack stops there."""
FILE = FileKind(
    "statistics", code="bad-statistics", own_codes=False, shipped="attacks", remedy="correct the file of statistics"
)
Person = tuple[int, ...]
"""The age, and the numbers of the levels that are known so far, in the order of the attributes."""
People = tuple[Person, ...]


class GroupPart(Part):
    """One of ``[[groups]]``: who, and what is published of them."""

    name: str = Field(min_length=1, max_length=60)
    where: dict[str, str] = Field(default_factory=dict)
    count: int = Field(ge=0, le=30)
    median: ExactNumber | None = None
    mean: ExactNumber | None = None


class NeverBelow(Part):
    """One of ``[[never]]``: what nobody below an age is."""

    where: dict[str, str]
    below: int = Field(ge=0, le=200)


class StatisticsFile(Part):
    """The whole file."""

    id: str | None = None
    title: str = "Counts, median and mean ages"
    provenance: str = ""
    oldest: int = Field(125, ge=1, le=200)
    attributes: dict[str, list[str]] = Field(min_length=1)
    never: list[NeverBelow] = Field(default_factory=list)
    groups: list[GroupPart] = Field(min_length=1, max_length=60)


@dataclass(frozen=True)
class AgeStatistic:
    """The number, the median age and the mean age of a group, as published; a median or a mean may be missing."""

    count: int
    twice_median: int | None = None
    sums: range | None = None
    """The sums of ages whose mean prints as published."""

    @classmethod
    def of(cls, count: int, median: Fraction | None, mean: Fraction | None, digits: int = 1) -> AgeStatistic:
        """From printed numbers; means are rounded to so many ``digits`` after the point.

        >>> AgeStatistic.of(3, Fraction(36), Fraction("36.7")).sums
        range(110, 111)
        """
        twice = None if median is None else 2 * median
        if twice is not None and twice.denominator > 1:
            raise ParameterError("bad-statistics/median", where=Place(path="groups.median"), found=str(median))
        sums = None
        if mean is not None:
            half, shown = Fraction(1, 2 * 10**digits), Fraction(round(mean * 10**digits), 10**digits)
            sums = range(ceil(count * (shown - half)), floor(count * (shown + half)) + 1)
        return cls(count, None if twice is None else int(twice), sums)

    def holds(self, ages: Sequence[int]) -> bool:
        """Whether a group of these ages has this statistic."""
        if len(ages) != self.count or (self.sums is not None and sum(ages) not in self.sums):
            return False
        return self.twice_median is None or not ages or twice_median(ages) == self.twice_median


def twice_median(ages: Sequence[int]) -> int:
    """Two times the middle age; with an even number, the sum of the two in the middle."""
    ordered = sorted(ages)
    middle = len(ordered) // 2
    return ordered[middle] + ordered[middle if len(ordered) % 2 else middle - 1]


def age_lists(statistic: AgeStatistic, oldest: int) -> Iterator[tuple[int, ...]]:
    """Every sorted list of ages with a statistic that has a median and a mean.

    The one or two in the middle come first, because the median says what they are; then those below and above.
    """
    assert statistic.sums is not None
    count, below = statistic.count, (statistic.count - 1) // 2
    if count == 0:
        yield ()
        return
    for middle in _middles(statistic, oldest):
        for lower in combinations_with_replacement(range(middle[0] + 1), below):
            for total in statistic.sums:
                rest = total - sum(lower) - sum(middle)
                for upper in _sorted_lists(count - below - len(middle), rest, middle[-1], oldest):
                    yield (*lower, *middle, *upper)


def _middles(statistic: AgeStatistic, oldest: int) -> Iterator[tuple[int, ...]]:
    assert statistic.twice_median is not None
    twice = statistic.twice_median
    if statistic.count % 2:
        if twice % 2 == 0:
            yield (twice // 2,)
        return
    for first in range(max(0, twice - oldest), twice // 2 + 1):
        yield (first, twice - first)


def _sorted_lists(count: int, total: int, least: int, most: int) -> Iterator[tuple[int, ...]]:
    """Sorted lists of whole numbers between two bounds with a sum."""
    if count == 0:
        if total == 0:
            yield ()
        return
    for first in range(max(least, total - (count - 1) * most), min(most, total // count) + 1):
        for rest in _sorted_lists(count - 1, total - first, first, most):
            yield (first, *rest)


@dataclass(frozen=True)
class StatisticsStep:
    """One step of the attack: what was looked at, which groups decided, and what is left."""

    title: str
    groups: tuple[str, ...]
    """The names of the groups whose figures were used."""
    looked_at: int
    remaining: int | None
    """How many possibilities are left; none where there are too many to look at."""
    examples: tuple[People, ...]
    """The first of them."""


@dataclass(frozen=True)
class StatisticsReconstruction(TypedAnswer):
    """What counts, medians and means of age say about a few people."""

    title: str
    attributes: Mapping[str, Sequence[str]]
    groups: tuple[GroupPart, ...]
    left_out: tuple[str, ...]
    digits: int
    steps: tuple[StatisticsStep, ...]

    @property
    def solutions(self) -> int | None:
        """How many sets of people have all figures; none where there were too many possibilities."""
        return self.steps[-1].remaining

    def people(self, example: People) -> list[dict[str, Any]]:
        """People in words: the age, and the level of each attribute that is known by then."""
        names = list(self.attributes.items())
        return [
            {"age": person[0]} | {name: levels[at] for (name, levels), at in zip(names, person[1:], strict=False)}
            for person in example
        ]

    def as_dict(self) -> dict[str, Any]:
        """Plain values; of the possibilities of each step the first."""
        return {
            "title": self.title,
            "groups": [group.model_dump(mode="json") for group in self.groups],
            "left_out": list(self.left_out),
            "digits": self.digits,
            "solutions": self.solutions,
            "steps": [
                {
                    "title": step.title,
                    "groups": list(step.groups),
                    "looked_at": step.looked_at,
                    "remaining": step.remaining,
                }
                | {"examples": [self.people(example) for example in step.examples]}
                for step in self.steps
            ],
        }

    def described(self) -> Iterator[AnswerPart]:
        """Step by step how many sets of people are left, and the first of them."""
        rows = [
            (
                step.title,
                ", ".join(step.groups),
                f"{step.looked_at:,}",
                "too many" if step.remaining is None else f"{step.remaining:,}",
            )
            for step in self.steps
        ]
        yield ShownTable(["step", "figures used", "looked at ", "left "], rows, self.title)
        if self.solutions is None:
            yield "There are too many possibilities to look at: these figures do not give the people away so simply."
            return
        people = "Exactly one set of people has" if self.solutions == 1 else f"{self.solutions:,} sets of people have"
        yield f"{people} all these figures{', the first of them' if self.solutions > 1 else ''}:"
        for person in self.people(self.steps[-1].examples[0]) if self.solutions else ():
            yield "  " + ", ".join(f"{name} {value}" for name, value in person.items())


def reconstruct_statistics(
    source: str = SHIPPED,
    *,
    leave_out: Sequence[str] = (),
    digits: int = 1,
    base: str | Path | None = None,
    examples: int = 12,
) -> StatisticsReconstruction:
    """Everybody who fits published counts, median ages and mean ages of a few people, step by step.

    Args:
        source: The statistics: a file that ships, or the path of a TOML file.
        leave_out: Names of groups that are not published; those of the first attribute are needed.
        digits: How many digits after the point means are printed with.
        base: The folder that a path is relative to; without it, the working folder.
        examples: How many possibilities of each step are kept to be looked at.

    Returns:
        A step for each cut, and how many sets of people are left.

    >>> answer = reconstruct_statistics()
    >>> [step.remaining for step in answer.steps], answer.solutions
    ([496, 31, 25, 246, 1, 1], 1)
    >>> answer.people(answer.steps[-1].examples[0])[0]
    {'age': 8, 'sex': 'female', 'race': 'Black', 'married': 'no'}
    """
    loaded = load_named(source, Path() if base is None else Path(base), StatisticsFile, kind=FILE)
    loaded.refuse(_problems(loaded.value))
    _refuse_unknown(loaded, leave_out)
    if not 0 <= digits <= 3:
        raise ParameterError("bad-statistics/means", where=Place(path="--digits"), found=str(digits))
    return _Attack(loaded.value, tuple(leave_out), digits, examples).carried_out()


class _Attack:
    """The attack on one file."""

    def __init__(self, file: StatisticsFile, left_out: tuple[str, ...], digits: int, examples: int):
        self.file, self.left_out, self.examples, self.digits = file, left_out, examples, digits
        self.names = list(file.attributes)
        published = [group for group in file.groups if group.name not in left_out]
        self.groups = [_Group.of(group, file.attributes, digits) for group in published]
        self.steps: list[StatisticsStep] = []

    def carried_out(self) -> StatisticsReconstruction:
        parts = [self._ages(level) for level in range(len(self.file.attributes[self.names[0]]))]
        if len(self.names) > 1:
            parts = [self._within(level, lists) for level, lists in enumerate(parts)]
        remaining = self._together(parts)
        for place in range(2, len(self.names)):
            remaining = self._given_out(place, remaining)
        file = self.file
        return StatisticsReconstruction(
            file.title, file.attributes, tuple(file.groups), self.left_out, self.digits, tuple(self.steps)
        )

    def _ages(self, level: int) -> list[People]:
        """The lists of ages of one level of the first attribute."""
        group = next(group for group in self.groups if group.wanted == ((1, level),))
        possible: list[People] = [
            tuple((age, level) for age in ages) for ages in age_lists(group.statistic, self.file.oldest)
        ]
        self._step(f"Ages of {group.name}", [group], len(possible), possible)
        return possible

    def _within(self, level: int, lists: Sequence[People]) -> list[People]:
        """The levels of the second attribute among the people of one level of the first."""
        word = next(group.name for group in self.groups if group.wanted == ((1, level),))
        deciding = [group for group in self.groups if len(group.wanted) == 2 and group.wanted[0] == (1, level)]
        deciding = [group for group in deciding if group.wanted[1][0] == 2]
        tried = [people for earlier in lists for people in self._ways(earlier, 2, deciding, bound=False)]
        possible = _distinct(people for people in tried if _hold(deciding, people))
        self._step(f"{self.names[1].capitalize()} among {word}", deciding, len(tried), possible)
        return possible

    def _together(self, parts: Sequence[Sequence[People]]) -> list[People] | None:
        """One possibility of each level, where everybody together has the figures that are decided by now.

        The last level is looked up by the counts and sums of ages that are missing to the published ones.
        """
        deciding = [group for group in self.groups if all(place <= 2 for place, _ in group.wanted)]
        across = [group for group in deciding if group.statistic.sums is not None and (1 not in dict(group.wanted))]
        by_rest: dict[tuple[tuple[int, int], ...], list[People]] = {}
        for people in parts[-1]:
            by_rest.setdefault(tuple(_count_and_sum(group, people) for group in across), []).append(people)
        pairs: list[tuple[People, list[People]]] = []
        for chosen in product(*parts[:-1]):
            first = tuple(person for part in chosen for person in part)
            pairs += [(first, by_rest[rest]) for rest in _missing(across, first) if rest in by_rest]
        number, possible = sum(len(rest) for _, rest in pairs), None
        if number <= MOST:
            every = ((*first, *last) for first, rest in pairs for last in rest)
            possible = _distinct(people for people in every if _hold(deciding, people))
        self._step("Put together", deciding, number, possible)
        return possible

    def _given_out(self, place: int, before: Sequence[People] | None) -> list[People] | None:
        """The levels of one more attribute, given out in every way."""
        new = place + 1
        deciding = [g for g in self.groups if new in dict(g.wanted) and all(at <= new for at, _ in g.wanted)]
        name, number, possible = self.names[place], 0, None
        if before is not None:
            number = len(before) * len(self.file.attributes[name]) ** max(map(len, before), default=0)
        if before is not None and number <= MOST:
            tried = [people for earlier in before for people in self._ways(earlier, new, deciding, bound=True)]
            number, possible = len(tried), _distinct(people for people in tried if _hold(deciding, people))
        self._step(f"Give out: {name}", deciding, number, possible)
        return possible

    def _ways(self, people: People, place: int, deciding: Sequence[_Group], *, bound: bool) -> Iterator[People]:
        """All ways to give out the levels of an attribute; where a published count says how many have one of two
        levels, so many have it."""
        name = self.names[place - 1]
        levels = range(len(self.file.attributes[name]))
        rules = [rule for rule in self.file.never if list(rule.where) == [name]]
        never = [(rule.below, self.file.attributes[name].index(rule.where[name])) for rule in rules]
        counted = [group for group in deciding if group.wanted[-1][0] == place and (len(group.wanted) == 1) == bound]
        if len(levels) == 2 and counted:
            level, count = counted[0].wanted[-1][1], counted[0].statistic.count
            allowed = [at for at, person in enumerate(people) if (person[0], level) not in _below(never, person[0])]
            for chosen in combinations(allowed, count):
                yield tuple((*person, level if at in chosen else 1 - level) for at, person in enumerate(people))
            return
        choices = [[at for at in levels if (person[0], at) not in _below(never, person[0])] for person in people]
        for given in product(*choices):
            yield tuple((*person, at) for person, at in zip(people, given, strict=True))

    def _step(self, title: str, groups: Sequence[_Group], looked_at: int, possible: Sequence[People] | None) -> None:
        remaining, shown = (None, ()) if possible is None else (len(possible), tuple(possible[: self.examples]))
        self.steps.append(StatisticsStep(title, tuple(group.name for group in groups), looked_at, remaining, shown))


@dataclass(frozen=True)
class _Group:
    """A published group: places and numbers of the levels that are wanted, and its figures."""

    name: str
    wanted: tuple[tuple[int, int], ...]
    statistic: AgeStatistic

    @classmethod
    def of(cls, group: GroupPart, attributes: Mapping[str, Sequence[str]], digits: int) -> _Group:
        names = list(attributes)
        wanted = sorted((names.index(name) + 1, attributes[name].index(level)) for name, level in group.where.items())
        return cls(group.name, tuple(wanted), AgeStatistic.of(group.count, group.median, group.mean, digits))

    def ages(self, people: People) -> list[int]:
        return [person[0] for person in people if all(person[at] == level for at, level in self.wanted)]


def _hold(groups: Iterable[_Group], people: People) -> bool:
    return all(group.statistic.holds(group.ages(people)) for group in groups)


def _count_and_sum(group: _Group, people: People) -> tuple[int, int]:
    ages = group.ages(people)
    return len(ages), sum(ages)


def _missing(groups: Sequence[_Group], people: People) -> Iterator[tuple[tuple[int, int], ...]]:
    """What the others must have: for each group a count and a sum, for every sum that prints as published."""
    choices = []
    for group in groups:
        count, total = _count_and_sum(group, people)
        assert group.statistic.sums is not None
        choices.append([(group.statistic.count - count, each - total) for each in group.statistic.sums])
    return product(*choices)


def _below(never: Sequence[tuple[int, int]], age: int) -> list[tuple[int, int]]:
    return [(age, level) for below, level in never if age < below]


def _distinct(every: Iterable[People]) -> list[People]:
    return sorted({tuple(sorted(people)) for people in every})


def _problems(file: StatisticsFile) -> Iterator[Problem]:
    """What is wrong although each value by itself is right."""

    def wrong(path: tuple[str | int, ...], what: str, text: str, expected: str) -> Problem:
        return Problem.of(
            path, "bad-statistics/other", what=what, text=text[:60], expected=expected, remedy=FILE.remedy
        )

    parts = [("groups", at, each.where) for at, each in enumerate(file.groups)]
    parts += [("never", at, each.where) for at, each in enumerate(file.never)]
    for kind, at, where in parts:
        for name, level in where.items():
            if level not in file.attributes.get(name, ()):
                expected = "; ".join(f"{each}: {', '.join(levels)}" for each, levels in file.attributes.items())
                yield wrong((kind, at, "where"), "an attribute has no such level", f"{name} = {level}", expected)
    names = [group.name for group in file.groups]
    if len(set(names)) < len(names):
        yield wrong(("groups",), "two groups have the same name", ", ".join(names), "names that differ")
    first = next(iter(file.attributes))
    for level in file.attributes[first]:
        own = [group for group in file.groups if group.where == {first: level}]
        if not own or (own[0].count and (own[0].median is None or own[0].mean is None)):
            what = f"the attack begins with {first}, and figures of one of its levels are missing"
            yield wrong(("groups",), what, level, "a group for each level, with count, median and mean")


def _refuse_unknown(loaded: Loaded[StatisticsFile], leave_out: Sequence[str]) -> None:
    file = loaded.value
    first = next(iter(file.attributes))
    needed = [group.name for group in file.groups if list(group.where) == [first]]
    free = [group.name for group in file.groups if group.name not in needed]
    for name in leave_out:
        if name not in free:
            raise ParameterError(
                "bad-statistics/group", where=Place(path="--leave-out"), found=name[:60], free=", ".join(free)
            )
