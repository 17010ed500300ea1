"""The promise in words, for a certificate: plain sentences that claim no more than the definitions do.

Every number is rounded in the direction that makes the promise weaker. The reading as odds is a theorem only under the
conditions that the sentences state; for zCDP it uses the ε of Bun & Steinke, which bounds the probability of a large
privacy loss; the smaller ones are derived for (ε, δ), which does not imply that. Derivation:
``docs/proofs/accounting.md``, section 6.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction

from confide.exact import Exact, as_delta
from confide.messages import Messages, messages
from confide.privacy.accountant import Loss
from confide.privacy.conversion import bun_steinke_epsilon, cks_epsilon, gaussian_limit_epsilon
from confide.privacy.definitions import ZCDP, ApproxDP, Enclosure, Neighbours, PureDP, tighten
from confide.privacy.loss_distribution import Bracket


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
    invariants: bool | None = None,
    not_covered: Sequence[str] = (),
    text: Messages | None = None,
) -> tuple[Statement, ...]:
    """The paragraphs for a loss: what is protected, the loss, ε at δ, the odds, recognition, and the limits.

    Args:
        loss: In any definition.
        neighbours: What the guarantee compares.
        delta: For zCDP: δ, exact.
        unit: What one record describes.
        bracket: What :func:`~confide.privacy.loss_distribution.epsilon_bracket` gives at this ``delta``, where known.
        invariants: Whether the release has figures without noise; None where that is not known.
        not_covered: The parts of a record that invariants give away, or leave less of, in words.
        text: The messages of a language; English where none are given.

    Returns:
        Titles and texts, in the order in which a certificate has them.

    >>> [part.topic for part in statements(ZCDP("1/2"), Neighbours.CHANGE_ONE)][:3]
    ['protected', 'loss', 'epsilon']
    """
    m = text or messages()
    pair = neighbours.value.replace("-", "_")
    protected = f"statements.protected_{pair}{'_but' if not_covered else ''}"
    parts = [
        Statement("protected", m.text(protected, unit=m.unit(unit), parts="; ".join(not_covered))),
        Statement("loss", _loss(loss, m)),
    ]
    if isinstance(loss, ZCDP):
        parts.append(Statement("epsilon", _epsilon(loss, as_delta(delta), bracket, m)))
    kept = {None: "invariants", False: "invariants_none", True: "invariants_some"}[invariants]
    return (
        *parts,
        Statement("odds", _odds(loss, pair, delta, m)),
        Statement("recognition", _recognition(loss, delta, m)),
        Statement("several records", _several(loss, m)),
        Statement("limits", m.text("statements.limits")),
        Statement("invariants", m.text(f"statements.{kept}")),
    )


_HUGE = 2_000_000
_LOG10_E_UP = Fraction(4342944820, 10**10)
"""A little more than log10(e) = 0.43429448190..., for factors that nobody needs to three digits."""


def rounded_up(value: Fraction | float | Decimal, places: int = 4) -> str:
    """``value`` as a decimal with ``places`` places, never below it, digits grouped.

    Args:
        value: The number.
        places: How many decimals; zeros at the end are kept.

    Returns:
        The number as a text.

    >>> rounded_up(Fraction(1, 3)), rounded_up(1234.5, 1)
    ('0.3334', '1,234.5')
    """
    return _decimal(math.ceil(Fraction(value) * 10**places), places)


def rounded_down(value: Fraction | float | Decimal, places: int = 4) -> str:
    """``value`` as a decimal with ``places`` places, never above it, digits grouped."""
    return _decimal(math.floor(Fraction(value) * 10**places), places)


def factor(epsilon: Fraction | float) -> str:
    """exp(ε) to three significant digits, never below it: "60,400,000" or "1.29 × 10^26".

    Args:
        epsilon: ε, zero or more.

    Returns:
        The number as a text.

    >>> factor(Fraction(1, 2)), factor(18)
    ('1.65', '65,700,000')
    """
    if epsilon == 0:
        return "1.00"
    if epsilon > _HUGE:
        return f"10^{math.ceil(Fraction(epsilon) * _LOG10_E_UP)}"
    high = tighten(lambda digits: Enclosure.of(Fraction(epsilon), digits).exp()).hi
    short = Context(prec=3, rounding=ROUND_CEILING).plus(high)
    if short >= Decimal("1e15"):
        return f"{short.scaleb(-short.adjusted()):.2f} × 10^{short.adjusted()}"
    return f"{short:,.0f}" if short >= 100 else f"{short:.2f}"


def _loss(loss: Loss, m: Messages) -> str:
    if isinstance(loss, PureDP):
        return m.text("statements.loss_pure", loss=_number(loss.epsilon, m))
    if isinstance(loss, ZCDP):
        return m.text("statements.loss_zcdp", loss=_number(loss.rho, m))
    return m.text("statements.loss_approximate", loss=_number(loss.epsilon, m), delta=_small(loss.delta))


def _epsilon(loss: ZCDP, delta: Fraction, bracket: Bracket | None, m: Messages) -> str:
    text = m.text(
        "statements.epsilon",
        delta=_small(delta),
        epsilon=rounded_up(cks_epsilon(loss.rho, delta)),
        older=rounded_up(bun_steinke_epsilon(loss.rho, delta)),
        gaussian=rounded_up(gaussian_limit_epsilon(loss.rho, delta)),
    )
    if bracket is None:
        return text
    low, high = rounded_down(bracket.optimistic), rounded_up(bracket.pessimistic)
    return f"{text} {m.text('statements.bracket', low=low, high=high)}"


def _odds(loss: Loss, pair: str, delta: Exact, m: Messages) -> str:
    opening = m.text(f"statements.odds_{pair}")
    if isinstance(loss, ApproxDP) and loss.delta == 0:
        loss = PureDP(loss.epsilon)
    if isinstance(loss, PureDP):
        return f"{opening} {m.text('statements.odds_pure', factor=factor(loss.epsilon))}"
    if isinstance(loss, ZCDP):
        if loss.rho == 0:
            return f"{opening} {m.text('statements.odds_unchanged')}"
        bound, chance = factor(bun_steinke_epsilon(loss.rho, delta)), _small(as_delta(delta))
    else:
        if loss.epsilon == 0:
            return m.text("statements.odds_no_factor")
        bound, chance = factor(2 * loss.epsilon), _small(_tail(loss))
    return f"{opening} {m.text('statements.odds', factor=bound, chance=chance)}"


def _recognition(loss: Loss, delta: Exact, m: Messages) -> str:
    if isinstance(loss, ZCDP):
        guarantee = ApproxDP(Fraction(cks_epsilon(loss.rho, delta)), delta)
    else:
        guarantee = loss.to_approximate() if isinstance(loss, PureDP) else loss
    bound = factor(guarantee.epsilon)
    if guarantee.delta == 0:
        text = m.text("statements.recognition_pure", factor=bound)
    else:
        text = m.text("statements.recognition", factor=bound, delta=_small(guarantee.delta))
    if guarantee.epsilon >= 3:  # exp(3) × 5 % > 1
        text += f" {m.text('statements.recognition_large')}"
    return text


def _several(loss: Loss, m: Messages) -> str:
    if isinstance(loss, PureDP):
        return m.text("statements.several_pure", value=rounded_up(4 * loss.epsilon))
    if isinstance(loss, ZCDP):
        return m.text("statements.several_zcdp", value=rounded_up(16 * loss.rho))
    return m.text("statements.several_approximate")


def _number(value: Fraction, m: Messages) -> str:
    """An exact number with its decimal beside it, never below it."""
    if value.denominator == 1:
        return str(value)
    short = rounded_up(value)
    equal = Fraction(short.replace(",", "")) == value
    return m.text(f"statements.number_{'equal' if equal else 'less'}", exact=str(value), short=short)


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


def short_probability(value: Fraction) -> str:
    """1e-10 as 10⁻¹⁰ where it is a power of ten, otherwise as a decimal, rounded up."""
    if value.numerator == 1 and set(str(value.denominator)) <= {"0", "1"} and str(value.denominator).count("1") == 1:
        exponent = len(str(value.denominator)) - 1
        return "10⁻" + str(exponent).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{float(rounded_up(value, 4)):g}"
