"""The units of figures: whole numbers inside, exact decimals outside, never a float.

Values are whole multiples of a declared unit, 1/100 for cents; weights likewise of theirs. Inside, everything is a
number of units; what is published is that number times the unit, as a whole number or as a decimal with just enough
digits.

>>> published_figures(np.array([150, -5]), Fraction(1, 100)).to_pylist()
[Decimal('1.50'), Decimal('-0.05')]
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa

from confide.arrays import Integers
from confide.mechanisms.suppression.structure import Flags
from confide.releases.tabular import masked

MOST_DIGITS = 9
"""More digits after the point than this are not read."""

WIDEST = 38
"""Digits of a decimal, before and after the point together."""


def digits_of(unit: Fraction) -> int | None:
    """The digits after the point that multiples of a unit need; None where no number of digits is enough.

    >>> digits_of(Fraction(1, 4)), digits_of(Fraction(1000)), digits_of(Fraction(1, 3))
    (2, 0, None)
    """
    return next((k for k in range(2 * MOST_DIGITS + 1) if (unit * 10**k).denominator == 1), None)


def figure_type(unit: Fraction) -> pa.DataType:
    """The type of a column of figures."""
    digits = _digits(unit)
    return pa.decimal128(WIDEST, digits) if digits else pa.int64()


def published_figures(units: Integers, unit: Fraction, missing: Flags | None = None) -> pa.Array:
    """Figures as they are published, from numbers of units; nothing where ``missing``."""
    digits, kind = _digits(unit), figure_type(unit)
    if not digits:
        return masked(units * int(unit), missing, kind)
    step = int(unit * 10**digits)
    gone = np.zeros(len(units), np.bool_) if missing is None else missing
    # A decimal is made of its digits: nothing is rounded on the way.
    values = [
        None if absent else Decimal((int(number < 0), tuple(map(int, str(abs(number * step)))), -digits))
        for number, absent in zip(units.tolist(), gone.tolist(), strict=True)
    ]
    return pa.array(values, kind)


def units_of(figures: pa.Array, unit: Fraction) -> Integers | None:
    """The numbers of units that published figures are; None where one is no whole number of them. Gaps are zero."""
    if unit == 1:
        return np.asarray(figures.fill_null(0).to_numpy(zero_copy_only=False), np.int64)
    # A Fraction holds any decimal exactly, whatever its digits.
    numbers = [Fraction(0 if figure is None else figure) / unit for figure in figures.to_pylist()]
    if any(number.denominator != 1 for number in numbers):
        return None
    return np.array([int(number) for number in numbers], np.int64)


def in_unit(units: int, unit: Fraction) -> int | float:
    """A number of units for a report: whole where it is."""
    figure = units * unit
    return int(figure) if figure.denominator == 1 else float(figure)


def _digits(unit: Fraction) -> int:
    digits = digits_of(unit)
    assert digits is not None, "the spec has units with digits"
    return digits
