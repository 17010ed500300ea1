"""Targets in words: what may be how far off, in which areas, and how often. Names are looked up by those who know them.

    total <= 5 in tract @95%
    margin<=10 in county
    share of the largest hispanic*cenrace group <= 5pp in block_group, place >= 500 @95%

Blanks are optional. ``≤``, ``<`` and ``within`` stand for ``<=``, and ``±5`` for ``5``; several kinds of area have
commas or ``and`` between them; the probability may be before ``in`` or at the end. Names are found in other cases
and in the plural, too (:func:`meant`).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from confide.errors import ConfideError, ParameterError, Place
from confide.exact import exact

FORM = 'such as "total <= 5 in tract @95%", or "share of the largest sex group <= 5pp in place >= 500"'
CHANCE = Fraction(19, 20)
"""How often, where a target does not say."""
_PER_CENT = r"(?:%|per\s?cent\b)"
_CHANCE = re.compile(rf"@\s*([0-9.]+)\s*({_PER_CENT})?|\bat\s+([0-9.]+)\s*({_PER_CENT})", re.IGNORECASE)
_LIMIT = re.compile(r"<=|=<|≤|⩽|<|\bwithin\b", re.IGNORECASE)
_IN = re.compile(r"(?<![a-z_])in(?=\s)", re.IGNORECASE)
_LEAST = re.compile(r"(>=|=>|≥|⩾)|>")
_AMOUNT = re.compile(
    rf"(?:±|\+/?-)?\s*([0-9][0-9./_,]*)\s*(pp|(?:percentage\s+)?points?|{_PER_CENT}|persons?|people|records?)?",
    re.IGNORECASE,
)
_PEOPLE = re.compile(r"([0-9][0-9_,]*)\s*(?:persons?|people|records?)?", re.IGNORECASE)
_AND = re.compile(r",\s*and\b|,|\band\b", re.IGNORECASE)


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


def bad_target(key: str, text: str, /, found: str | None = None, **facts: object) -> ParameterError:
    """A target that cannot be used as it is written."""
    found = None if found is None else found[:100]
    return ParameterError(key, where=Place(path=f"--target {text[:80]!r}"), found=found, **facts)


def nearest(name: str, names: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(names), 1, 0.6)
    return f"did you mean {close[0]!r}?" if close else "name one of these"


def meant(name: str, names: Iterable[str]) -> str:
    """The one of some names that somebody means who writes it in another case, in the plural, or with other blanks.

    >>> meant("Block Groups", ["block_group", "block"]), meant("all counties", ["county"]), meant("x", ["county"])
    ('block_group', 'county', 'x')
    """
    listed = list(names)
    alike = [each for each in listed if _plain(each) == _plain(name)]
    return alike[0] if name not in listed and len(alike) == 1 else name


def _plain(name: str) -> str:
    words = re.sub(r"[\s_-]+", " ", name.lower()).strip()
    words = re.sub(r"^(?:all|any|each|every|the)\s+", "", words).replace("×", "*").replace(" * ", "*")
    return re.sub(r"ies$", "y", words) if words.endswith("ies") else words.removesuffix("s")


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
    chances = list(_CHANCE.finditer(text))
    if len(chances) > 1:
        given = ", ".join(each.group().strip() for each in chances)
        raise bad_target("bad-target/probability", text, found=given)
    chance = _chance(text, chances[0]) if chances else CHANCE
    rest = _CHANCE.sub(" ", text)
    if "@" in rest:
        found = rest[rest.index("@") :].strip()
        raise bad_target("bad-target/per-cent-after", text, found=found)
    statistic, *after = (part.strip() for part in _LIMIT.split(rest, maxsplit=1))
    if not after or not statistic:
        raise bad_target("bad-target/limit", text, text=text.strip()[:100])
    amount, *areas = (part.strip() for part in _IN.split(after[0], maxsplit=1))
    if not areas or not areas[0]:
        raise bad_target("bad-target/areas", text, amount=amount[:100])
    limit, unit = _limit(text, amount)
    sign = _LEAST.search(areas[0])
    named, least = (areas[0], 0) if sign is None else (areas[0][: sign.start()].strip(), _least(text, areas[0], sign))
    kinds = tuple(dict.fromkeys(" ".join(name.split()) for name in _AND.split(named)))
    if not all(kinds):
        raise bad_target("bad-target/levels", text, named=named[:100])
    return TargetWords(" ".join(text.split()), statistic, limit, unit, kinds, least, chance)


def _number(text: str, name: str) -> Fraction | None:
    try:
        return exact(re.sub(r",(?=[0-9]{3}(?![0-9]))", "", text), name)
    except ConfideError:
        return None


def _chance(text: str, given: re.Match[str]) -> Fraction:
    number, unit = given.group(1) or given.group(3), given.group(2) or given.group(4)
    value = _number(number, "probability")
    if value is not None and 0 < value < 1 and not unit:
        # 0.95 is 95 per cent for most, and less than one per cent by the letter: nobody is taken at either.
        raise bad_target(
            "bad-target/probability-per-cent",
            text,
            found=given.group().strip(),
            value=float(100 * value),
            number=number,
        )
    if value is None or not 0 < value < 100:
        raise bad_target("bad-target/per-cent", text, found=given.group().strip())
    return value / 100


def _limit(text: str, amount: str) -> tuple[Fraction, str]:
    """The limit and its unit: ``points``, ``%`` or nothing."""
    number = _AMOUNT.fullmatch(amount)
    limit = None if number is None else _number(number.group(1), "limit")
    if number is None or limit is None or limit <= 0:
        raise bad_target("bad-target/above", text, amount=amount[:100])
    unit = (number.group(2) or "").lower()
    if unit == "pp" or "point" in unit:
        if limit >= 100:
            raise bad_target("bad-target/off", text, found=amount)
        return limit, "points"
    return limit, "%" if re.fullmatch(_PER_CENT, unit) else ""


def _least(text: str, areas: str, sign: re.Match[str]) -> int:
    """The fewest people that an area has; ``>`` means more than so many."""
    given = areas[sign.end() :].strip()
    number = _PEOPLE.fullmatch(given)
    if number is None:
        raise bad_target("bad-target/people", text, given=given[:100])
    return int(re.sub("[_,]", "", number.group(1))) + (sign.group(1) is None)
