"""One look for every document: templates, and how numbers are written."""

from __future__ import annotations

import json
import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup


@cache
def environment() -> Environment:
    """The templates, with escaping always on and unknown names an error."""
    templates = Environment(
        loader=PackageLoader("confide", "data/templates"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    templates.filters |= {
        "grouped": grouped, "fixed": fixed, "signed": signed, "up": up, "exact": exact_text, "quoted": quoted,
        "one_line": one_line,
    }  # fmt: skip
    return templates


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
    scaled = math.ceil(value * 10**digits)
    integer, decimals = divmod(scaled, 10**digits)
    return f"{integer:,}.{decimals:0{digits}d}".rstrip("0").rstrip(".")


def exact_text(value: Fraction) -> str:
    """An exact number as it would be typed: a decimal where it has an end, otherwise a fraction."""
    digits = 0
    while value * 10**digits % 1 and digits < 30:
        digits += 1
    if value * 10**digits % 1:
        return str(value)
    return str(Decimal(int(value * 10**digits)).scaleb(-digits, Context(prec=200))) if digits else str(value)


def one_line(value: str) -> Markup:
    """Text for a comment in a TOML file: on one line, whatever is in it."""
    return Markup(" ".join("".join(sign if sign.isprintable() else " " for sign in value).split()))  # noqa: S704 - TOML


def quoted(value: str | int) -> Markup:
    """Text as a TOML string, whatever is in it; a whole number as it is."""
    return Markup(json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f"))  # noqa: S704 - TOML, no page


def render(template: str, **values: Any) -> str:
    """A document from its template."""
    return environment().get_template(template).render(**values)
