"""Numbers on the command line: exact, and within all proportion."""

from __future__ import annotations

from fractions import Fraction

from confide.errors import Finding, ParameterError, Place
from confide.exact import positive

LARGEST, SMALLEST = Fraction(10**15), Fraction(1, 10**300)
"""A budget beyond the one promises nothing; a number below the other has no decimal that could be printed."""


def number(text: str, name: str, smallest: Fraction = SMALLEST, largest: Fraction = LARGEST) -> Fraction:
    """The positive exact number of the option ``--name``."""
    value = positive(text, name)
    if smallest <= value <= largest:
        return value
    raise ParameterError(
        Finding(
            code="out-of-range",
            what=f"{name} is out of all proportion",
            where=Place(path=f"--{name}"),
            found=text[:40],
            expected=f"a number from {float(smallest):g} to {float(largest):g}",
            remedy=f"correct --{name}",
        )
    )
