"""The promise in words, for a certificate: plain English that claims no more than the definitions do.

Every number is rounded in the direction that makes the promise weaker. The reading as odds is a theorem only under the
conditions that the sentences state; for zCDP it uses the ε of Bun & Steinke, which bounds the probability of a large
privacy loss; the smaller ones are derived for (ε, δ), which does not imply that. Derivation:
``docs/proofs/accounting.md``, section 6.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction

from confide.exact import Exact, as_delta
from confide.privacy.accountant import Loss
from confide.privacy.conversion import bun_steinke_epsilon, cks_epsilon, gaussian_limit_epsilon
from confide.privacy.definitions import ZCDP, ApproxDP, Neighbours, PureDP
from confide.privacy.directed import Enclosure, tighten
from confide.privacy.pld import Bracket


@dataclass(frozen=True, slots=True)
class Statement:
    """One paragraph of a certificate. ``topic`` is a stable name; ``text`` is for people."""

    topic: str
    text: str


def statements(
    loss: Loss,
    neighbours: Neighbours,
    *,
    delta: Exact = "1e-10",
    unit: str = "person",
    bracket: Bracket | None = None,
) -> tuple[Statement, ...]:
    """The paragraphs for a loss: what is protected, the loss, ε at δ, the odds, recognition, and the limits.

    Args:
        loss: In any definition.
        neighbours: What the guarantee compares.
        delta: For zCDP: δ, exact.
        unit: What one record describes.
        bracket: A result of :func:`confide.privacy.pld.epsilon_bracket` at the same ``delta``, if there is one.

    Returns:
        Titles and texts, in the order in which a certificate has them.

    >>> [part.topic for part in statements(ZCDP("1/2"), Neighbours.CHANGE_ONE)][:3]
    ['protected', 'loss', 'epsilon']
    """
    parts = [Statement("protected", _protected(neighbours, unit)), Statement("loss", _loss(loss))]
    if isinstance(loss, ZCDP):
        parts.append(Statement("epsilon", _epsilon(loss, as_delta(delta), bracket)))
    return (
        *parts,
        Statement("odds", _odds(loss, neighbours, unit, delta)),
        Statement("recognition", _recognition(loss, delta)),
        Statement("several records", _several(loss, unit)),
        Statement("limits", _limits(unit)),
        Statement("invariants", _INVARIANTS),
    )


_HUGE = 2_000_000
_LOG10_E_UP = Fraction(4342944820, 10**10)
"""A little more than log10(e) = 0.43429448190..., for factors that nobody needs to three digits."""


def rounded_up(value: Fraction | float | Decimal, places: int = 4) -> str:
    """``value`` as a decimal with ``places`` places, never below it, digits grouped."""
    return _decimal(math.ceil(Fraction(value) * 10**places), places)


def rounded_down(value: Fraction | float | Decimal, places: int = 4) -> str:
    """``value`` as a decimal with ``places`` places, never above it, digits grouped."""
    return _decimal(math.floor(Fraction(value) * 10**places), places)


def factor(epsilon: Fraction | float) -> str:
    """exp(ε) to three significant digits, never below it: "60,400,000" or "1.29 × 10^26"."""
    if epsilon == 0:
        return "1.00"
    if epsilon > _HUGE:
        return f"10^{math.ceil(Fraction(epsilon) * _LOG10_E_UP)}"
    high = tighten(lambda digits: Enclosure.of(Fraction(epsilon), digits).exp()).hi
    short = Context(prec=3, rounding=ROUND_CEILING).plus(high)
    if short >= Decimal("1e15"):
        return f"{short.scaleb(-short.adjusted()):.2f} × 10^{short.adjusted()}"
    return f"{short:,.0f}" if short >= 100 else f"{short:.2f}"


def _protected(neighbours: Neighbours, unit: str) -> str:
    if neighbours is Neighbours.ADD_REMOVE:
        return (
            f"Protected is whether any one {unit}'s record is among the data, and everything the record says. The "
            f"promise compares the release with the one that would have been made had one {unit}'s record been left "
            "out, or one more been there, all other records being the same."
        )
    return (
        f"Protected is everything that any one {unit}'s record says, including where it is counted. The promise "
        "compares the release with the one that would have been made had one record said something else in any or all "
        "of its attributes, all other records being the same. How many records there are in total is not protected."
    )


def _loss(loss: Loss) -> str:
    if isinstance(loss, PureDP):
        return f"The privacy loss is epsilon = {_number(loss.epsilon)} (pure differential privacy)."
    if isinstance(loss, ZCDP):
        return f"The privacy loss is rho = {_number(loss.rho)} (zero-concentrated differential privacy)."
    return (
        f"The privacy loss is epsilon = {_number(loss.epsilon)} at delta = {_small(loss.delta)} "
        "(approximate differential privacy)."
    )


def _epsilon(loss: ZCDP, delta: Fraction, bracket: Bracket | None) -> str:
    text = (
        f"At delta = {_small(delta)} this implies epsilon = {rounded_up(cks_epsilon(loss.rho, delta))} "
        f"(Canonne, Kamath and Steinke); by the older and simpler formula, epsilon = "
        f"{rounded_up(bun_steinke_epsilon(loss.rho, delta))} (Bun and Steinke). Both are rounded up, and hold. "
        f"For comparison only: a single Gaussian mechanism with the same rho has epsilon = "
        f"{rounded_up(gaussian_limit_epsilon(loss.rho, delta))}."
    )
    if bracket is not None:
        text += (
            " Calculated from the measurements themselves, the smallest epsilon lies between "
            f"{rounded_down(bracket.optimistic)} and {rounded_up(bracket.pessimistic)}, and the second holds."
        )
    return text


def _odds(loss: Loss, neighbours: Neighbours, unit: str, delta: Exact) -> str:
    pair = (
        f"that a given {unit}'s record, with given contents, is among the data, or that it is not"
        if neighbours is Neighbours.ADD_REMOVE
        else f"that a given {unit}'s record says one thing, or that it says another"
    )
    opening = (
        f"Think of someone who weighs two possibilities against each other: {pair}; and who believes the same about "
        "all other records in either case. Whatever odds they gave to the two before, "
    )
    if isinstance(loss, ApproxDP) and loss.delta == 0:
        loss = PureDP(loss.epsilon)
    if isinstance(loss, PureDP):
        return f"{opening}seeing the release cannot multiply or divide these odds by more than {factor(loss.epsilon)}."
    if isinstance(loss, ZCDP):
        if loss.rho == 0:
            return f"{opening}seeing the release does not change them."
        bound, chance = factor(bun_steinke_epsilon(loss.rho, delta)), _small(as_delta(delta))
    else:
        if loss.epsilon == 0:
            return (
                "With epsilon = 0 there is no factor that bounds how far the odds can move; the next paragraph holds."
            )
        bound = factor(2 * loss.epsilon)
        chance = _small(_tail(loss))
    return (
        f"{opening}the release multiplies the odds in favour of the possibility that is true by more than {bound} with "
        f"a probability of at most {chance}, and the odds in favour of the one that is false with a smaller one still. "
        "The probability is that of the noise."
    )


def _recognition(loss: Loss, delta: Exact) -> str:
    if isinstance(loss, ZCDP):
        guarantee = ApproxDP(Fraction(cks_epsilon(loss.rho, delta)), delta)
    else:
        guarantee = loss.to_approximate() if isinstance(loss, PureDP) else loss
    more = "" if guarantee.delta == 0 else f", plus {_small(guarantee.delta)}"
    text = (
        "Any rule that is meant to recognise one of the two possibilities in the release says so, when that possibility"
        f" is true, with a probability of at most {factor(guarantee.epsilon)} times that with which it says so "
        f"wrongly{more}."
    )
    if guarantee.epsilon >= 3:  # exp(3) × 5 % > 1
        text += (
            " A factor of this size does not by itself rule out a rule that never misses and is wrong once in twenty "
            "times. It is the worst case over every record and everything that is published together; what an attacker "
            "can do in fact is assessed elsewhere."
        )
    return text


def _several(loss: Loss, unit: str) -> str:
    text = f"The promise is about one {unit}'s record at a time. For several together it is weaker: "
    if isinstance(loss, PureDP):
        return f"{text}for 4 records, epsilon is at most {rounded_up(4 * loss.epsilon)} (4 times as large)."
    if isinstance(loss, ZCDP):
        return f"{text}for 4 records, rho is at most {rounded_up(16 * loss.rho)} (16 times as large)."
    return f"{text}for k records, epsilon is k times as large and delta grows faster still."


def _limits(unit: str) -> str:
    return (
        f"The promise does not say that nothing can be learned about a {unit}. What the statistics show about a group "
        "can be applied to its members, and to people who are not in the data at all; the promise limits what one "
        "record adds to that. It covers this release and what it was composed with, not other publications from the "
        "same records. Nothing that is done later with the release, without going back to the records, weakens it."
    )


_INVARIANTS = (
    "Figures that are published as they are, without noise (invariants), are not covered by this promise, which holds "
    "for what the noise was added to. The certificate of a release says whether it has any."
)


def _number(value: Fraction) -> str:
    if value.denominator == 1:
        return str(value)
    short = rounded_up(value)
    return f"{value} = {short}" if Fraction(short.replace(",", "")) == value else f"{value}, which is less than {short}"


def _decimal(units: int, places: int) -> str:
    sign, digits = "-" if units < 0 else "", str(abs(units)).rjust(places + 1, "0")
    integral, rest = (digits[:-places], digits[-places:]) if places else (digits, "")
    return f"{sign}{int(integral):,}{'.' if rest else ''}{rest}"


def _small(value: Fraction) -> str:
    """A probability to three significant digits, never below it."""
    with_three = Context(prec=3, rounding=ROUND_CEILING)
    return f"{with_three.divide(Decimal(value.numerator), Decimal(value.denominator)).normalize():g}"


def _tail(loss: ApproxDP) -> Fraction:
    """P[loss > 2ε] ≤ δ/(1 − exp(−ε)), from above."""
    power = tighten(lambda digits: (-Enclosure.of(loss.epsilon, digits)).exp()).hi
    return min(Fraction(1), loss.delta / (1 - Fraction(power))) if power < 1 else Fraction(1)
