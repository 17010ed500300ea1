"""A small list of race and ethnicity codes of our own, and the four official code files made from it.

The list is a data file with a row for each group. A race group becomes two characteristic iterations with the same
codes, *alone* and *alone or in any combination*; a Hispanic group becomes one. Iteration level 0 has the major races,
1 the regional and 2 the detailed groups. Iterations are numbered in the order of the file: races from 0001, 1001 and
2001 by level, ethnicities from 3001, 3101 and 3201.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from itertools import combinations
from math import prod
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from confide.arrays import Floats
from confide.documents import FileKind, load_named
from confide.lab.population.settings import Chances, PopulationGroup, Positive, Race, SettingsPart, Share, Weight

# Races as sets, and their 63 codes.
#
# A race is a non-empty subset of (White, Black, AIAN, Asian, NHOPI, Some Other). As a six-bit mask, bit i is the i-th
# of them; as ``cenrace`` (0 to 62) the subsets are numbered by size and then lexicographically. A person's race is
# drawn from a table with one row for each group: the group's own race, with k further ones of chance
# ``more_races[k]``, the further ones in proportion to the product of their weights.


RACES: tuple[Race, ...] = ("white", "black", "aian", "asian", "nhopi", "other")
SUBSETS: tuple[tuple[int, ...], ...] = tuple(
    subset for size in range(1, len(RACES) + 1) for subset in combinations(range(len(RACES)), size)
)
"""The 63 races in the order of their codes, each as positions in :data:`RACES`."""


def _mask(subset: tuple[int, ...]) -> int:
    return sum(1 << race for race in subset)


CODE_OF_MASK: NDArray[np.uint8] = np.zeros(64, dtype=np.uint8)
MASK_OF_CODE: NDArray[np.uint8] = np.zeros(63, dtype=np.uint8)
for _code, _subset in enumerate(SUBSETS):
    CODE_OF_MASK[_mask(_subset)] = _code
    MASK_OF_CODE[_code] = _mask(_subset)
CODE_OF_MASK.flags.writeable = False
MASK_OF_CODE.flags.writeable = False


def weights_of(group: PopulationGroup) -> Floats:
    """The probability of each of the 63 races in a group."""
    own = {group.race: 1.0} if not group.races else dict(group.races)
    total = sum(own.values())
    table = np.zeros(len(SUBSETS))
    for race, weight in own.items():
        others = [other for other in RACES if other != race]
        for more, chance in enumerate(group.more_races):
            sets = list(combinations(others, more))
            # A race that the group does not list is rare, not impossible: all 63 races can occur everywhere.
            likely = [prod(max(group.with_races.get(other, 0.0), 0.005) for other in chosen) for chosen in sets]
            for chosen, each in zip(sets, likely, strict=True):
                mask = _mask(tuple(RACES.index(name) for name in (race, *chosen)))
                table[CODE_OF_MASK[mask]] += weight / total * chance * each / sum(likely)
    result: Floats = table / table.sum()
    return result


def race_chances(groups: tuple[PopulationGroup, ...]) -> Chances:
    """The races of a person, by group."""
    return Chances(np.array([weights_of(group) for group in groups]))


Only = Literal["total", "coarse"]
Pair = tuple[Decimal, Decimal]
Cuts = tuple[int, int, int]

FIRST_RACE = (1, 1001, 2001)
FIRST_ETHNICITY = (3001, 3101, 3201)
LEVELS = range(3)

_CODE = re.compile(r"([1-9][0-9]{3})(?: (\S.*))?")


class OriginCode(NamedTuple):
    """A code and its name, which is empty where the code is only referred to."""

    code: str
    name: str


def parse(text: str) -> OriginCode:
    """``"1110 German"`` as a code."""
    match = _CODE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a code of four digits, the first not 0, and a name")
    return OriginCode(match[1], match[2] or "")


class DetailedGroup(SettingsPart):
    """A detailed group (level 2). ``only``: "total", no table by age and sex and none below the states; "coarse": none
    but below the states. The codes of a coarse group are those of others, and are not drawn again."""

    name: str
    codes: tuple[str, ...] = Field(min_length=1)
    only: Only | None = None


class OriginRegion(SettingsPart):
    """A regional group (level 1) of detailed groups; without a name, groups that have no region."""

    name: str | None = None
    share: Positive
    code: str | None = None
    only: Only | None = None
    groups: tuple[DetailedGroup, ...] = Field(min_length=1)

    def codes(self) -> list[OriginCode]:
        """Every code of the region, once."""
        own = [parse(self.code)] if self.code else []
        named = [parse(text) for group in self.groups for text in group.codes]
        return own + [code for code in named if code.name]


class Origin(SettingsPart):
    """Everybody of a major race, or everybody Hispanic."""

    name: str
    code: str
    unspecified: Annotated[float, Field(gt=0, lt=1)]
    regions: tuple[OriginRegion, ...] = Field(min_length=1)

    def codes(self) -> list[OriginCode]:
        """Every code of the race, or of the ethnicity; the first is that of who gives no more."""
        return [parse(self.code), *(code for region in self.regions for code in region.codes())]


class MajorRace(Origin):
    """One of the six major races; ``more`` are the chances of one, two and three codes of it."""

    race: Race
    more: tuple[Weight, Weight, Weight]


class OriginHabits(SettingsPart):
    """How codes are spread over persons, households and neighbourhoods."""

    zipf: Weight
    rare: Positive
    county_spread: Weight
    tract_spread: Weight
    like_household: Share
    origin_as_race: Share


class Config(SettingsPart):
    """What ``config.json`` says; pairs are of the regional and the detailed level of a region type."""

    states: tuple[str, ...]
    values: dict[str, bool | int | Decimal | str]
    budgets: dict[str, Pair]
    thresholds: dict[str, tuple[Cuts, Cuts]]

    def entries(self, states: Iterable[str]) -> dict[str, object]:
        """The keys and values of ``config.json`` for these states."""
        budgets = {
            f"privacy_budget_p_level_{level}_{kind.lower().replace('-', '_')}": pair[level - 1]
            for level in (1, 2)
            for kind, pair in self.budgets.items()
        }
        thresholds = {
            f"({kind}, {level})": list(pair[level - 1]) for level in (1, 2) for kind, pair in self.thresholds.items()
        }
        return {**self.values, **budgets, "thresholds_p": thresholds, "state_filter_us": list(states)}


@dataclass(frozen=True, slots=True)
class CodeIteration:
    """A characteristic iteration; ``alone`` is none for an ethnicity."""

    code: str
    name: str
    level: int
    alone: bool | None
    only: Only | None
    codes: tuple[str, ...]

    def flags(self) -> list[str]:
        """DETAILED_ONLY and COARSE_ONLY as the files have them."""
        if self.level == 0:
            return ["Null", "Null"]
        return [str(self.only == "total"), str(self.only == "coarse")]


class OriginCodes(SettingsPart):
    """The whole list: codes and their groups, how they are drawn, and the settings of a release."""

    id: str
    not_hispanic: str
    people: OriginHabits
    races: tuple[MajorRace, ...]
    hispanic: Origin
    config: Config

    @model_validator(mode="after")
    def _codes_agree(self) -> OriginCodes:
        if tuple(major.race for major in self.races) != RACES:
            raise ValueError(f"races must be {', '.join(RACES)}, in this order")
        known = [code.code for code in self.codes]
        if len(known) != len(set(known)):
            raise ValueError("a code is named twice")
        if not all(code.name for code in self.codes):
            raise ValueError("a code of a race, a region or the ethnicity has no name")
        for region in (region for origin in (*self.races, self.hispanic) for region in origin.regions):
            totals = [code for group in region.groups if group.only == "total" for code in group.codes]
            coarse = [code for group in region.groups if group.only == "coarse" for code in group.codes]
            # So that a code is in one detailed group at most wherever groups are shown.
            if len(coarse) != len(set(coarse)) or not set(coarse) <= {parse(code).code for code in totals}:
                raise ValueError(
                    "the codes of coarse groups must be those of total-only groups of the region, once each"
                )
            if not all(parse(code).name for group in region.groups if group.only != "coarse" for code in group.codes):
                raise ValueError("a code of a group has no name")
        return self

    @cached_property
    def codes(self) -> tuple[OriginCode, ...]:
        """Every code, rising as long as the file does."""
        origins = [code for origin in (*self.races, self.hispanic) for code in origin.codes()]
        return (*origins, parse(self.not_hispanic))

    @cached_property
    def race_iterations(self) -> tuple[CodeIteration, ...]:
        """The iterations of races. Codes of Hispanic origins count as Some Other Race."""
        hispanic = tuple(code.code for code in self.hispanic.codes())
        further = {"other": hispanic}
        rows: list[CodeIteration] = []
        for level in LEVELS:
            groups = (group for major in self.races for group in _groups(major, level, further.get(major.race, ())))
            number = FIRST_RACE[level]
            for name, only, codes in groups:
                for alone, words in ((True, "alone"), (False, "alone or in any combination")):
                    rows.append(CodeIteration(f"{number:04d}", f"{name} {words}", level, alone, only, codes))
                    number += 1
        return tuple(rows)

    @cached_property
    def ethnicity_iterations(self) -> tuple[CodeIteration, ...]:
        """The iterations of ethnicities."""
        none = parse(self.not_hispanic)
        rows: list[CodeIteration] = []
        for level in LEVELS:
            groups = list(_groups(self.hispanic, level))
            if level == 0:
                groups.append((none.name, None, (none.code,)))
            rows += [
                CodeIteration(f"{number:04d}", name, level, None, only, codes)
                for number, (name, only, codes) in enumerate(groups, start=FIRST_ETHNICITY[level])
            ]
        return tuple(rows)


def _groups(
    origin: Origin, level: int, further: tuple[str, ...] = ()
) -> Iterator[tuple[str, Only | None, tuple[str, ...]]]:
    """Name, flag and codes of the groups of a level."""
    if level == 0:
        yield origin.name, None, (*(code.code for code in origin.codes()), *further)
    for region in origin.regions:
        if level == 1 and region.name is not None:
            yield region.name, region.only, tuple(code.code for code in region.codes())
        if level == 2:
            for group in region.groups:
                yield group.name, group.only, tuple(parse(text).code for text in group.codes)


def load_origins() -> OriginCodes:
    """The list that ships with the package.

    Returns:
        The codes of origins with their groups.

    >>> len(load_origins().races)
    6
    """
    # Decimals, so that a budget is written to config.json digit for digit as it stands here.
    kind = FileKind("list of origins", shipped="safetab", decimals=True)
    return load_named("made-up", Path(), OriginCodes, kind=kind).value


def code_files(lists: OriginCodes) -> dict[str, str]:
    """The text of the four code files by name."""
    both = (*lists.race_iterations, *lists.ethnicity_iterations)
    return {
        "race-and-ethnicity-codes.txt": _text(["RACE_ETH_CODE", "RACE_ETH_NAME"], lists.codes),
        "race-characteristic-iterations.txt": _text(
            ["ITERATION_CODE", "ITERATION_NAME", "LEVEL", "ALONE", "DETAILED_ONLY", "COARSE_ONLY"],
            ([row.code, row.name, str(row.level), str(row.alone), *row.flags()] for row in lists.race_iterations),
        ),
        "ethnicity-characteristic-iterations.txt": _text(
            ["ITERATION_CODE", "ITERATION_NAME", "LEVEL", "DETAILED_ONLY", "COARSE_ONLY"],
            ([row.code, row.name, str(row.level), *row.flags()] for row in lists.ethnicity_iterations),
        ),
        "race-and-ethnicity-code-to-iteration.txt": _text(
            ["ITERATION_CODE", "RACE_ETH_CODE"], ([row.code, code] for row in both for code in row.codes)
        ),
    }


def write_code_files(folder: str | Path, lists: OriginCodes | None = None) -> tuple[Path, ...]:
    """Write the four code files into ``folder``, which must be there; files of these names are replaced.

    Args:
        folder: Where they go; it must be there.
        lists: The codes; by default those that ship.

    Returns:
        The paths of the files.

    >>> write_code_files(tmp_path)[0].name
    'race-and-ethnicity-codes.txt'
    """
    written = []
    for name, text in code_files(lists or load_origins()).items():
        path = Path(folder) / name
        path.write_text(text, encoding="utf-8", newline="\n")
        written.append(path)
    return tuple(written)


def _text(columns: list[str], rows: Iterable[Iterable[str]]) -> str:
    return "".join("|".join(row) + "\n" for row in (columns, *rows))
