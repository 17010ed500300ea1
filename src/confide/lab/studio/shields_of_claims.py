"""What a loss and what bounded noise protect from, as a side of the board.

- A loss: epsilon in words, the best test, a belief, and what others spent (:mod:`~.lab.risk.testing.curve_answer`).
- Bounded noise: which bounds and variances withstand averaging and keep the bound for tables like these, as Bach's
  Figure 6 has it (:mod:`confide.lab.risk.bounded_noise.withstanding`).
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from confide.exact import up
from confide.lab.risk.bounded_noise import ProtectedRegion, RegionQuestion, bound_risk, success_probability
from confide.lab.risk.bounded_noise.static_programme import Breakdown, StaticProgramme
from confide.lab.risk.testing.curve_answer import StatedProtection, protection
from confide.privacy.statements import short_probability
from confide.releases.boards import BoundedNoiseClaim, ClaimFigure, LossClaim
from confide.trade_offs import RegionColumn, RegionPicture, Shield, ShieldYardstick, chosen_by_others

WIDTH, HEIGHT = 600.0, 320.0
"""The size of the picture of a region, in its own units."""


def protection_of(claim: LossClaim, prior: Fraction) -> StatedProtection:
    """What a loss protects from, and which parts of a record it does not."""
    return protection(
        claim.loss,
        claim.neighbours,
        delta=claim.delta,
        prior=prior,
        unit=claim.unit,
        not_protected=claim.not_protected,
    )


@lru_cache(maxsize=4096)
def shield_of_loss(claim: LossClaim, prior: Fraction) -> Shield:
    """What a loss protects from, for somebody with a prior."""
    stated = protection_of(claim, prior)
    power, belief = f"{up(100 * stated.power, 1)} %", f"{up(100 * stated.posterior, 2)} %"
    rebuilt = f"{up(100 * stated.reconstruction, 1)} %"
    figures = (
        ClaimFigure("Best test at a level of 5 %", power, "of cases noticed at most; blind guessing notices 5 %"),
        ClaimFigure(
            f"A belief of {float(100 * prior):.4g} % that is right",
            belief,
            "on average afterwards, at most, for somebody who knows everybody else",
        ),
        ClaimFigure(
            "A whole record reconstructed",
            rebuilt,
            f"guessed right, at most, by the same; without the release {float(100 * prior):.4g} % of guesses are right",
        ),
    )
    epsilon = up(stated.price.epsilon, 2)
    title = "Epsilon" + (f" at delta {short_probability(claim.delta)}" if stated.price.has_delta else "")
    compared = (
        (title, epsilon),
        ("Best test at 5 %", power),
        ("Belief afterwards", belief),
        ("Record reconstructed", rebuilt),
    )
    return Shield(
        (stated.price.in_words,),
        figures,
        compared,
        epsilon,
        "Epsilon",
        _spent(stated),
        "Epsilon of releases that hide different things (a person, a household; its content, its presence) cannot be "
        "compared one to one.",
        True,
        plain=stated.as_dict(),
    )


def _spent(stated: StatedProtection) -> tuple[ShieldYardstick, ...]:
    return tuple(
        ShieldYardstick(
            f"{each.deployment.name}, {each.deployment.year}",
            each.deployment.office,
            up(each.epsilon, 2),
            each.deployment.source,
        )
        for each in stated.yardsticks
    )


@lru_cache(maxsize=16)
def region_of(tables: tuple[tuple[tuple[str, tuple[int, ...]], ...], ...]) -> ProtectedRegion:
    """The bounds and variances that withstand attacks on tables with these breakdowns."""
    sized = {name: sizes for table in tables for name, sizes in table}
    breakdowns = {
        name: Breakdown(name, name, str(sizes[-1]), tuple(map(str, sizes[:-1]))) for name, sizes in sized.items()
    }
    programme = StaticProgramme(
        "of-the-spec",
        "The tables of the spec",
        "worked out from schema and frame",
        breakdowns,
        {"records": {str(number): tuple(name for name, _ in table) for number, table in enumerate(tables, 1)}},
        "records",
        with_inner_levels=frozenset(name for name, sizes in sized.items() if len(sizes) > 1),
    )
    return ProtectedRegion(RegionQuestion(programme, {}))


def shield_of_bounded_noise(claim: BoundedNoiseClaim, _: Fraction) -> Shield:
    """What noise up to a bound protects from, whatever anybody believes beforehand."""
    return _shield(claim)


@lru_cache(maxsize=1024)
def _shield(claim: BoundedNoiseClaim) -> Shield:
    region, bound, variance = region_of(claim.tables), claim.bound, claim.variance
    row = next((each for each in region.rows if each.bound == bound), None)
    verdict, note = "no", "a bound beyond what is looked at"
    if row is not None:
        strict = row.strict and row.low <= variance <= row.high
        relaxed = row.relaxed and row.relaxed_low <= variance <= row.relaxed_high
        verdict = "yes" if strict else "under relaxed limits" if relaxed else "no"
        note = _left(row.strict, row.low, row.high, bound)
    risk = bound_risk(bound, variance)
    revealed, averaged = risk.revealed(region.triples), success_probability(float(variance), region.ratio)
    figures = [
        ClaimFigure("Withstands both attacks, and is useful", verdict, note),
        ClaimFigure(
            "The bound is given away",
            _chance(revealed),
            f"by {region.triples:,} sums that are published; then {risk.expected_exact(region.triples):.2g} of them "
            "are expected to give true counts away",
        ),
        ClaimFigure(
            "Averaging finds a count",
            _chance(averaged),
            f"accepted up to {100 * region.question.level:.0f} %; for the count that most sums of published cells tell "
            "of, where the same members have the same noise",
        ),
    ]
    best = region.recommended
    if best is not None:
        pair = f"D = {best.risk.row.bound}, V = {float(best.variance):g}"
        figures.append(ClaimFigure("The least noise that does", pair, "" if best.strict else "under relaxed limits"))
    compared = tuple((each.title, each.text) for each in figures[:3])
    return Shield(
        claim.words,
        tuple(figures),
        compared,
        f"D = {bound}, V = {float(variance):g}",
        "Bound and variance",
        chosen_by_others("bounded-noise"),
        region=_picture(region, bound, float(variance)),
        plain={"region": region.as_dict()},
    )


def _left(holds: bool, low: Fraction, high: Fraction, bound: int) -> str:
    return f"with D = {bound}: V from {float(low):.3g} to {float(high):.3g}" if holds else f"with D = {bound}: no V"


def _chance(probability: float) -> str:
    """A probability in per cent that never claims certainty."""
    if probability < 0.0001:
        return "under 0.01 %"
    return "over 99.9 %" if probability > 0.999 else f"{100 * probability:.3g} %"


def _picture(region: ProtectedRegion, bound: int, variance: float) -> RegionPicture:
    rows, useful = region.rows, region.question.largest_noise
    top = float(min(50, max(8, 4 * -(-1.5 * max(variance, float(rows[0].low)) // 4))))
    largest = rows[-1].bound
    step = WIDTH / largest

    def height(value: float) -> float:
        return HEIGHT * (1 - min(max(value, 0.0), top) / top)

    def span(holds: bool, low: Fraction, high: Fraction) -> tuple[float, float] | None:
        return (height(float(high)), height(float(low)) - height(float(high))) if holds else None

    columns = tuple(
        RegionColumn(
            row.bound,
            (row.bound - 1) * step,
            span(row.strict, row.low, row.high),
            span(row.relaxed, row.relaxed_low, row.relaxed_high),
            _left(row.strict, row.low, row.high, row.bound),
        )
        for row in rows
    )
    ticks = tuple((height(value), f"{value:g}") for value in (0, top / 4, top / 2, 3 * top / 4, top))
    return RegionPicture(
        columns,
        step,
        (min(bound, largest) - 0.5) * step,
        height(variance),
        largest,
        top,
        ticks,
        height(float(rows[0].low)),
        useful * step,
    )
