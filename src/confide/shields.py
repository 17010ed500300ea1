"""What the choices on a board protect from, by the kind of claim that they make.

A claim about a loss or about bounded noise is looked at by the laboratory, which is found by name
(:mod:`confide.lab.studio.shields_of_claims`); for any other, the mechanism itself says what it protects from.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import Field

from confide.documents import Part, load_named
from confide.lazy_names import SHIELDS, named
from confide.releases.boards import BoardClaim, ClaimFigure, StatedClaim
from confide.releases.loss_account import YARDSTICKS


@dataclass(frozen=True, slots=True)
class ShieldYardstick:
    """What somebody else chose, with where that was published."""

    name: str
    office: str
    text: str
    source: str


@dataclass(frozen=True, slots=True)
class RegionColumn:
    """The variances that are left for one bound, as a part of a picture: from the top down."""

    bound: int
    x: float
    strict: tuple[float, float] | None
    relaxed: tuple[float, float] | None
    words: str


@dataclass(frozen=True, slots=True)
class RegionPicture:
    """Bach's Figure 6: bounds across, variances up, and where the choice stands."""

    columns: tuple[RegionColumn, ...]
    column_width: float
    x: float
    y: float
    largest_bound: int
    largest_variance: float
    ticks: tuple[tuple[float, str], ...]
    averaging: float
    useful: float
    """Where the largest useful bound ends."""


@dataclass(frozen=True, slots=True)
class Shield:
    """The side of protection."""

    words: tuple[str, ...]
    figures: tuple[ClaimFigure, ...]
    compared: tuple[tuple[str, str], ...] = ()
    """What alternatives are compared by: a title and a figure."""
    own: str = ""
    """What is beside the yardsticks."""
    measure: str = ""
    yardsticks: tuple[ShieldYardstick, ...] = ()
    note: str = ""
    asks_prior: bool = False
    region: RegionPicture | None = None
    plain: Any = None

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        figures = [{"title": each.title, "value": each.text, "note": each.note} for each in self.figures]
        return {"in_words": list(self.words), "figures": figures} | (self.plain or {})


def shield_of(claim: BoardClaim, prior: Fraction) -> Shield:
    """What a claim means for people.

    Args:
        claim: What a board promises.
        prior: What somebody who knows everybody else believes beforehand.
    """
    if not isinstance(claim, StatedClaim):
        shield: Shield = named(SHIELDS[type(claim).__name__])(claim, prior)
        return shield
    compared = tuple((each.title, each.text) for each in claim.figures)
    others = chosen_by_others(claim.yardsticks) if claim.yardsticks else ()
    return Shield(claim.words, claim.figures, compared, claim.own, "Choice", others)


class _Choice(Part):
    """What an office chose, as it published it."""

    kind: str
    name: str
    office: str
    text: str
    source: str


class _ChoicesFile(Part):
    """The whole file."""

    choices: list[_Choice] = Field(min_length=1)


@cache
def chosen_by_others(kind: str) -> tuple[ShieldYardstick, ...]:
    """What others chose where no epsilon is stated.

    >>> chosen_by_others("swapping")[0].text
    '7 to 10 % of households'
    """
    listed = load_named("choices", Path(), _ChoicesFile, kind=YARDSTICKS).value.choices
    return tuple(
        ShieldYardstick(each.name, each.office, each.text, each.source) for each in listed if each.kind == kind
    )
