"""Targets in words: what may be how far off, in which areas, and how often. Names are looked up by those who know them.

    total <= 5 in tract @95%
    margin<=10 in county
    share of the largest hispanic*cenrace group <= 5pp in block_group, place >= 500 @95%

Blanks are optional. ``≤`` and ``within`` stand for ``<=``; the probability may stand before ``in`` or at the end.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from confide.errors import ParameterError, Place
from confide.exact import exact

FORM = 'such as "total <= 5 in tract @95%", or "share of the largest sex group <= 5pp in place >= 500"'
CHANCE = Fraction(19, 20)
"""How often, where a target does not say."""
_CHANCE = re.compile(r"@\s*([0-9.]+)\s*%?")
_AMOUNT = re.compile(r"([0-9][0-9./_]*)\s*(pp|points?|%|persons?|people|records?)?$", re.IGNORECASE)


@dataclass(frozen=True)
class TargetWords:
    """The parts of a target."""

    text: str
    statistic: str
    """What is counted, in words."""
    limit: Fraction
    unit: str
    """``points``, ``%`` or nothing."""
    kinds: tuple[str, ...]
    """Kinds of area."""
    least: int
    """The fewest people that an area has."""
    chance: Fraction

    @property
    def amount(self) -> str:
        """The limit with its unit, for messages."""
        return f"{self.limit}{self.unit}"


def bad_target(text: str, what: str, found: str, expected: str, remedy: str = "correct the target") -> ParameterError:
    return ParameterError("bad-target", what, Place(path=f"--target {text[:80]!r}"), found[:100], expected, remedy)


def nearest(name: str, names: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(names), 1, 0.6)
    return f"did you mean {close[0]!r}?" if close else "name one of these"


def split_target(text: str) -> TargetWords:
    """The parts of a target in words.

    Args:
        text: See the head of the module.

    Returns:
        The parts; raises with what is wrong and what is expected.

    >>> parts = split_target("total<=5 in tract,place>=500@90%")
    >>> parts.statistic, parts.limit, parts.kinds, parts.least, parts.chance
    ('total', Fraction(5, 1), ('tract', 'place'), 500, Fraction(9, 10))
    """
    chances = _CHANCE.findall(text)
    if len(chances) > 1:
        given = ", ".join(f"@{each}%" for each in chances)
        raise bad_target(text, "a target has one probability", given, "one @, or none")
    chance = CHANCE if not chances else exact(chances[0], "probability") / 100
    if not 0 < chance < 1:
        raise bad_target(text, "this is not a probability", f"@{chances[0]}%", "more than 0 and less than 100 per cent")
    rest = re.sub(r"≤|\bwithin\b", "<=", _CHANCE.sub(" ", text))
    statistic, sign, tail = (part.strip() for part in rest.partition("<="))
    if not sign or not statistic:
        raise bad_target(text, "the target says no limit", text.strip() or "nothing", FORM)
    amount, word, areas = (part.strip() for part in re.sub(r"(?<![a-z_])in(?=\s)", "\0", tail, count=1).partition("\0"))
    if not word or not areas:
        raise bad_target(text, "the target names no areas", tail or "nothing", f"a limit, then `in` and areas: {FORM}")
    number = _AMOUNT.fullmatch(amount)
    limit = None if number is None else exact(number.group(1), "limit")
    if number is None or limit is None or limit <= 0:
        expected = "a number above zero, of records or of points: 5, or 5pp"
        raise bad_target(text, "this is not a limit", amount or "nothing", expected)
    named, sign, least = (part.strip() for part in areas.replace("≥", ">=").partition(">="))
    if sign and not least.replace(",", "").isdigit():
        expected = "a whole number after >=, such as 500"
        raise bad_target(text, "this is not a number of people", least or "nothing", expected)
    kinds = tuple(" ".join(name.split()) for name in named.split(","))
    if not all(kinds):
        raise bad_target(text, "the target names no areas", named or "nothing", "names of levels or areas, with commas")
    unit = (number.group(2) or "").lower()
    unit = "points" if unit in ("pp", "point", "points") else "%" if unit == "%" else ""
    return TargetWords(" ".join(text.split()), statistic, limit, unit, kinds, int(least.replace(",", "") or 0), chance)
