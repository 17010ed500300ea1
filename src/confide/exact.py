"""Exact numbers at the door.

A budget, a share or a scale is a :class:`fractions.Fraction`. A float is refused, because ``0.1`` is not one tenth
and nobody can say afterwards which of the two was promised; the message says how to write it instead.
"""

from __future__ import annotations

import re
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from math import ceil, isfinite
from typing import TypeAlias

from confide.errors import ParameterError, Place

Exact: TypeAlias = int | Fraction | Decimal | str
"""What is accepted as an exact number: 1, Fraction(1, 3), Decimal("0.1"), "1/3", "2.56", "1e-10"."""

LARGEST, SMALLEST = Fraction(10**15), Fraction(1, 10**300)
"""A budget beyond the one promises nothing; a number below the other has no decimal that could be printed."""

# Digits of other scripts, and underscores, are taken for numbers by Python and for something else by a reader.
_FORM = re.compile(r"[+-]?(\d+/\d+|(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?)", re.ASCII)
_LONGEST = 4096


def exact(value: Exact, name: str = "number") -> Fraction:
    """``value`` as a :class:`Fraction`, without any rounding.

    >>> exact("2.56")
    Fraction(64, 25)
    >>> exact("1/3")
    Fraction(1, 3)
    """
    if isinstance(value, bool):
        raise ParameterError("not-a-number/boolean", found=repr(value), name=name)
    if isinstance(value, int | Fraction):
        return Fraction(value)
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise ParameterError("not-a-number/finite", found=str(value), name=name)
        return Fraction(value)
    if isinstance(value, str):
        text = value.strip()
        if len(text) > _LONGEST or not _FORM.fullmatch(text):
            raise ParameterError("not-a-number/text", found=repr(value[:60]), name=name)
        try:
            return Fraction(text)
        except ZeroDivisionError:
            raise ParameterError("not-a-number/denominator", found=repr(value), name=name) from None
    if isinstance(value, float):
        if not isfinite(value):
            raise ParameterError("not-a-number/finite", found=repr(value), name=name)
        raise ParameterError("float-refused", name=name, value=value)
    raise ParameterError("not-a-number/value", found=type(value).__name__, name=name)


def rounded_up(number: Fraction, digits: int = 12) -> Fraction:
    """The smallest decimal with so many significant digits that is not below ``number``, which is zero or more.

    >>> rounded_up(Fraction(2, 3), 3)
    Fraction(667, 1000)
    """
    context = Context(prec=digits, rounding=ROUND_CEILING, Emin=MIN_EMIN, Emax=MAX_EMAX)
    return Fraction(context.divide(Decimal(number.numerator), Decimal(number.denominator)))


def positive(value: Exact, name: str = "number") -> Fraction:
    """``value`` as an exact number greater than zero.

    Args:
        value: Text, an integer, a fraction or a decimal.
        name: What it is called in the message.

    >>> positive("2.5")
    Fraction(5, 2)
    """
    number = exact(value, name)
    if number <= 0:
        raise ParameterError("not-positive", found=str(number), name=name)
    return number


def positive_within(value: Exact, name: str, smallest: Fraction = SMALLEST, largest: Fraction = LARGEST) -> Fraction:
    """``value`` as an exact number from ``smallest`` to ``largest``, both greater than zero.

    Args:
        value: The number as it was given.
        name: What it is called: the argument, and the option of the command, are named in the error.
        smallest: The smallest number that is accepted.
        largest: The largest.

    Returns:
        The number, exactly.

    >>> positive_within("2.56", "rho", Fraction(1, 10**6), Fraction(100))
    Fraction(64, 25)
    """
    number = positive(value, name)
    if smallest <= number <= largest:
        return number
    raise ParameterError(
        "out-of-range/large-small",
        where=Place(path=f"--{name}"),
        found=str(value)[:40],
        name=name,
        smallest=float(smallest),
        largest=float(largest),
    )


def probability(value: Exact, name: str = "probability") -> Fraction:
    """``value`` as an exact number strictly between zero and one.

    Args:
        value: Text, an integer, a fraction or a decimal.
        name: What it is called in the message.

    >>> probability("95/100")
    Fraction(19, 20)
    """
    number = exact(value, name)
    if not 0 < number < 1:
        raise ParameterError("not-a-probability", found=str(number), name=name)
    return number


def nonnegative(value: Exact, name: str) -> Fraction:
    """``value`` as an exact number that is zero or more.

    Args:
        value: Text, an integer, a fraction or a decimal.
        name: What it is called in the message.
    """
    number = exact(value, name)
    if number < 0:
        raise ParameterError("negative/positive", found=str(number), name=name)
    return number


def integer(value: object, name: str, least: int = 1) -> int:
    """``value`` if it is an integer of at least ``least``: a number of cells, copies or repetitions.

    Args:
        value: Anything; a float or a truth value is refused, whatever it is equal to.
        name: What it is called in the message.
        least: The smallest that is accepted.

    >>> integer(3, "degree")
    3
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ParameterError("not-a-whole-number", found=repr(value), name=name, least=least)
    return value


def as_delta(delta: Exact) -> Fraction:
    """δ as an exact number strictly between 0 and 1.

    Args:
        delta: Text such as ``"1e-10"``, a fraction or a decimal.

    >>> as_delta("1e-3")
    Fraction(1, 1000)
    """
    number = exact(delta, "delta")
    if not 0 < number < 1:
        raise ParameterError("delta-out-of-range/greater", found=str(number))
    return number


# Numbers as people read them: grouped, with so many digits, rounded to the side that promises less.


def grouped(value: int) -> str:
    """1234567 as 1,234,567."""
    return f"{value:,}"


def fixed(value: float, digits: int) -> str:
    """A number with a fixed number of decimals, grouped."""
    return f"{value:,.{digits}f}"


def signed(value: float, digits: int) -> str:
    """A number with its sign; a real minus."""
    text = f"{abs(value):,.{digits}f}"
    if float(text.replace(",", "")) == 0:
        return text
    return ("−" if value < 0 else "+") + text


def up(value: float, digits: int) -> str:
    """A number rounded up: for anything that is promised as an upper bound."""
    return str(Decimal(value).quantize(Decimal(1).scaleb(-digits), ROUND_CEILING, Context(prec=400)))


def down(value: float, digits: int) -> str:
    """A number rounded down: for the lower end of what lies between two numbers."""
    return str(Decimal(value).quantize(Decimal(1).scaleb(-digits), ROUND_FLOOR, Context(prec=400)))


def shortened_up(value: Fraction, digits: int) -> str:
    """A number to some significant digits, never below it.

    >>> shortened_up(Fraction("4.50606"), 4)
    '4.507'
    """
    up = Context(prec=digits, rounding=ROUND_CEILING).divide(Decimal(value.numerator), Decimal(value.denominator))
    return f"{float(up):.{digits}g}"


def fraction_up(value: Fraction, digits: int = 6) -> str:
    """An exact number as a short decimal, rounded up if it must be shortened."""
    scaled = ceil(value * 10**digits)
    integer, decimals = divmod(scaled, 10**digits)
    return f"{integer:,}.{decimals:0{digits}d}".rstrip("0").rstrip(".")


@lru_cache(maxsize=8192)
def exact_text(value: Fraction) -> str:
    """An exact number as it would be typed: a decimal where it has an end, otherwise a fraction."""
    rest, powers = value.denominator, {2: 0, 5: 0}
    for factor in powers:
        while rest % factor == 0:
            rest, powers[factor] = rest // factor, powers[factor] + 1
    digits = max(powers.values())
    if rest != 1 or digits > 30 or not digits:
        return str(value)
    return str(Decimal(int(value * 10**digits)).scaleb(-digits, Context(prec=200)))
