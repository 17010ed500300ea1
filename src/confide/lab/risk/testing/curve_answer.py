"""The guarantee as curves, what a test can find out and how ε depends on δ: the answers of ``confide risk curve``.

The mathematics is that of :mod:`.curve`, :mod:`.level_power` and :mod:`.trade_off`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

from confide import exact as confide_exact
from confide.answers import AnswerPart, ShownTable, TypedAnswer
from confide.errors import ParameterError, Place
from confide.lab.risk.testing import loss_test
from confide.mechanisms.topdown.strategy import Strategy, plan_of
from confide.mechanisms.topdown.strategy_file import load_strategy
from confide.privacy import ZCDP, Bracket, Definition, Event, Neighbours, PureDP, epsilons, event_epsilon_bracket, price
from confide.releases.loss_account import StatedPrice, Yardstick
from confide.releases.plan import Plan, events_by_attribute, events_by_move
from confide.report.charts import Chart, Pictures, chart

# The guarantee as curves: ε over δ, and power over level, by every way that is known.
#
# One pair (ε, δ) says little about a test: with ε = 17.16 and δ = 10⁻¹⁰ every power up to 1 is allowed. The curves say
# what the pair leaves out. Ways that hold for every ρ-zCDP release: ``bun_steinke``, ``canonne_kamath_steinke``,
# ``zcdp``. For Gaussian noise alone: ``gaussian_limit``, ``gaussian``. For the measurements given and no others:
# ``exact``, between two numbers.


FINE_DELTAS = tuple(Fraction(1, 10**power) for power in range(2, 16))
"""The δ of a picture."""
FINE_LEVELS = tuple(Fraction(step, 10**power) for power in (4, 3, 2) for step in range(1, 10)) + tuple(
    Fraction(step, 20) for step in (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 18, 19, 20)
)
"""The levels of a picture."""


@dataclass(frozen=True, slots=True)
class EpsilonPoint:
    """ε at one δ, in several ways, each rounded up."""

    delta: Fraction
    ways: dict[str, float]
    exact: Bracket | None = None

    def as_dict(self) -> dict[str, Any]:
        return {"delta": float(self.delta)} | self.ways | _ends(self.exact)


@dataclass(frozen=True, slots=True)
class PowerPoint:
    """The largest power at one level, in several ways, each rounded up."""

    level: Fraction
    zcdp: float
    gaussian: float
    exact: Bracket | None = None

    def as_dict(self) -> dict[str, Any]:
        numbers = {"level": float(self.level), "zcdp_power": self.zcdp, "gaussian_power": self.gaussian}
        return numbers | _ends(self.exact)


def epsilon_curve(
    rho: confide_exact.Exact,
    deltas: Iterable[confide_exact.Exact] = FINE_DELTAS,
    *,
    event: Event | None = None,
    neighbours: Neighbours = Neighbours.CHANGE_ONE,
) -> list[EpsilonPoint]:
    """ε over δ by Bun & Steinke, by Canonne, Kamath & Steinke and for Gaussian noise; with an event, its own too.

    Args:
        rho: The loss in zCDP.
        deltas: The deltas.
        event: Measurements whose own epsilon is wanted too.
        neighbours: What they are compared for.

    Returns:
        A point for each delta, every bound rounded up.

    >>> round(epsilon_curve("2.56", ["1e-10"])[0].ways["canonne_kamath_steinke"], 2)
    17.16
    """
    r = confide_exact.nonnegative(rho, "rho")
    points = []
    for delta in deltas:
        chance = confide_exact.as_delta(delta)
        own = None
        if event is not None and r:
            own = event_epsilon_bracket(event, neighbours, chance)
        points.append(EpsilonPoint(chance, epsilons(r, chance), own))
    return points


def power_curve(
    rho: confide_exact.Exact,
    levels: Sequence[confide_exact.Exact] = FINE_LEVELS,
    *,
    best: loss_test.LossTest | None = None,
) -> list[PowerPoint]:
    """The largest power over the level: for every ρ-zCDP release, for Gaussian noise, and for one list of cells.

    Args:
        rho: The loss in zCDP.
        levels: The levels of the test.
        best: The best test against one list of cells, if its power is wanted too.

    Returns:
        A point for each level, every bound rounded up.

    >>> round(power_curve("2.56", ["0.05"])[0].gaussian, 4)
    0.7317
    """
    r = confide_exact.nonnegative(rho, "rho")
    return [
        PowerPoint(
            loss_test.level_of(level),
            loss_test.zcdp_power(r, level),
            loss_test.gaussian_power(r, level),
            None if best is None else best.power(level),
        )
        for level in levels
    ]


def _ends(bracket: Bracket | None) -> dict[str, float]:
    return {} if bracket is None else {"exact_low": bracket.optimistic, "exact_high": bracket.pessimistic}


# The curves for parts of a promise: one attribute, another block of the same unit, being in the data or not.
#
# A test need not be about a whole record. If H₁ differs from H₀ in one attribute, or in the block within a county,
# only the measurements that can tell the difference count (:mod:`confide.releases.plan`), and the power is smaller.
# Under change-one neighbours, being in the data or not costs half: one count differs in each measurement, not two.
# Invariants are not part of any of this.


class DifferenceKind(StrEnum):
    """What the two hypotheses differ in."""

    EVERYTHING = "everything"
    MEMBERSHIP = "membership"
    ATTRIBUTE = "attribute"
    BLOCK_WITHIN = "block-within"


@dataclass(frozen=True)
class GuaranteePart:
    """One kind of difference between two data sets, and the measurements that can tell it."""

    kind: DifferenceKind
    name: str
    event: Event
    neighbours: Neighbours

    @cached_property
    def rho(self) -> Fraction:
        loss = price(self.event, self.neighbours, Definition.ZCDP)
        assert isinstance(loss, ZCDP)
        return loss.rho

    @cached_property
    def best(self) -> loss_test.LossTest | None:
        """The best test against these measurements; None where no single neighbour is the worst for every level."""
        try:
            return loss_test.LossTest.of_event(self.event, self.neighbours)
        except ParameterError:
            return None

    def epsilons(
        self, deltas: Iterable[confide_exact.Exact] = FINE_DELTAS, *, exact: bool = False
    ) -> list[EpsilonPoint]:
        """ε over δ; ``exact`` adds what the distribution of the loss itself gives, which takes seconds."""
        event = self.event if exact and self.best is not None else None
        return epsilon_curve(self.rho, deltas, event=event, neighbours=self.neighbours)

    def powers(self, levels: Sequence[confide_exact.Exact] = FINE_LEVELS, *, exact: bool = True) -> list[PowerPoint]:
        """The largest power over the level."""
        return power_curve(self.rho, levels, best=self.best if exact else None)

    @property
    def words(self) -> str:
        """What one record differs in, for people."""
        return {
            DifferenceKind.EVERYTHING: "in everything",
            DifferenceKind.MEMBERSHIP: "in being there or not",
            DifferenceKind.ATTRIBUTE: f"in {self.name} alone",
            DifferenceKind.BLOCK_WITHIN: f"in its block, same {self.name}",
        }[self.kind]

    def as_dict(self) -> dict[str, Any]:
        return {"kind": self.kind.value, "name": self.name, "rho": str(self.rho), "rho_decimal": float(self.rho)}


def parts_of(plan: Plan) -> tuple[GuaranteePart, ...]:
    """A plan as one guarantee and its parts: everything, being in the data or not, by attribute, by block.

    Args:
        plan: A plan with a loss in zCDP.

    Returns:
        The parts, everything first.
    """
    if not plan.has_loss or plan.definition is not Definition.ZCDP:
        raise ParameterError(
            "no-zcdp-loss", definition=plan.definition.value if plan.has_loss else None, has_loss=plan.has_loss
        )
    change = Neighbours.CHANGE_ONE
    everything = GuaranteePart(DifferenceKind.EVERYTHING, "", plan.event, plan.neighbours)
    parts = [everything] if plan.neighbours is not change else [everything, _membership(plan)]
    parts += [
        GuaranteePart(DifferenceKind.ATTRIBUTE, name, event, change)
        for name, event in events_by_attribute(plan).items()
    ]
    parts += [
        GuaranteePart(DifferenceKind.BLOCK_WITHIN, name, event, change) for name, event in events_by_move(plan).items()
    ]
    return tuple(parts)


def _membership(plan: Plan) -> GuaranteePart:
    return GuaranteePart(DifferenceKind.MEMBERSHIP, "", plan.event, Neighbours.ADD_REMOVE)


LEVELS = ("0.05",)
DELTAS = ("1e-6", "1e-8", "1e-10", "1e-12")
LEAST, MOST = Fraction(1, 10**50), Fraction(10**6)
DELTA = Fraction(1, 10**10)
"""Where one delta must do: that of the certificates of the 2020 Census."""


@dataclass(frozen=True)
class AdvantageBounds:
    """The largest power less level, as bounds for all releases of a rho, for Gaussian noise, and for one release."""

    zcdp: float
    gaussian: float
    exact: Bracket | None = None
    """Of the measurements of the strategy, between two numbers."""

    def as_dict(self) -> dict[str, float]:
        """Plain values."""
        values = {"zcdp": self.zcdp, "gaussian": self.gaussian}
        if self.exact is not None:
            values |= {"exact_low": self.exact.optimistic, "exact_high": self.exact.pessimistic}
        return values


@dataclass(frozen=True)
class CurveAnswer(TypedAnswer):
    """A loss in zCDP as curves: power over level, epsilon over delta, for all of a record and for its parts."""

    rho: Fraction
    levels: tuple[Fraction, ...]
    deltas: tuple[Fraction, ...]
    powers: tuple[PowerPoint, ...]
    epsilons: tuple[EpsilonPoint, ...]
    advantage: AdvantageBounds
    posterior: loss_test.PosteriorFactor
    """What one record does to posterior probabilities, at :data:`DELTA`."""
    strategy: Strategy | None = None
    parts: tuple[GuaranteePart, ...] = ()
    """With a strategy: all of a record first, then its parts."""

    def pictures(self) -> Pictures:
        """Power over level, epsilon over delta, and with a strategy the power by what differs, by name."""
        rho, parts, level = self.rho, self.parts, self.levels[0]
        best = parts[0].best if parts else None
        pictures: Pictures = {
            "power": lambda: power_chart(power_curve(rho, best=best)),
            "epsilon": lambda: epsilon_chart(epsilon_curve(rho)),
        }
        if parts:
            pictures["parts"] = lambda: _parts_chart(parts, level)
        return pictures

    def as_dict(self) -> dict[str, Any]:
        """Plain values; with one level its numbers stand on their own as well."""
        values: dict[str, Any] = {}
        if self.strategy is not None:
            chosen = self.strategy
            values = {"strategy": chosen.id, "root": chosen.root, "neighbours": chosen.neighbours.value}
        values |= {"rho": str(self.rho), "rho_decimal": float(self.rho)}
        values |= _powers(self.powers)
        values |= {
            "epsilons": [point.as_dict() for point in self.epsilons],
            "advantage": self.advantage.as_dict(),
            "posterior": {"delta": float(DELTA)} | self.posterior.as_dict(),
        }
        if self.parts:
            values["parts"] = [self._part(part) for part in self.parts[1:]]
        return values

    def _part(self, part: GuaranteePart) -> dict[str, Any]:
        points = [point.as_dict() for point in part.epsilons(self.deltas)]
        return part.as_dict() | _powers(part.powers(self.levels)) | {"epsilons": points}

    def described(self) -> Iterator[AnswerPart]:
        """Power over level, epsilon over delta, and with a strategy the parts of its promise."""
        own = self.powers[0].exact is not None
        columns = ["level ", "any release with this rho ", "Gaussian noise "] + (["these measurements "] if own else [])
        rows = [
            [
                f"{float(point.level):g}",
                confide_exact.up(point.zcdp, 6),
                confide_exact.up(point.gaussian, 6),
                *_bracket(point.exact, 6),
            ]
            for point in self.powers
        ]
        yield ShownTable(
            columns,
            rows,
            title=f"The largest power of a test about one record, rho = {confide_exact.fraction_up(self.rho)}",
        )
        yield ""
        columns = ["delta ", "Bun-Steinke ", "Canonne-Kamath-Steinke ", "Gaussian limit "]
        rows = [
            [f"{float(p.delta):g}", *(confide_exact.up(value, 4) for value in p.ways.values()), *_bracket(p.exact, 4)]
            for p in self.epsilons
        ]
        yield ShownTable(columns + (["these measurements "] if own else []), rows, title="Epsilon over delta")
        yield "\nThe columns for Gaussian noise are for comparison; they do not bound other noise of the same rho."
        text = f"The largest advantage, power less level: {confide_exact.up(self.advantage.zcdp, 4)} for any release"
        yield f"{text}, {confide_exact.up(self.advantage.gaussian, 4)} for Gaussian noise."
        yield (
            f"One record multiplies no posterior probability by more than {self.posterior.words}, "
            f"but for a probability of at most {confide_exact.shortened_up(Fraction(self.posterior.exceeded), 3)}."
        )
        if self.parts:
            yield from _parts_described(self)


@dataclass(frozen=True)
class EpsilonPower:
    """The largest power at one level under pure epsilon, or under one pair of epsilon and delta."""

    level: Fraction
    power: float
    delta: Fraction | None = None

    def as_dict(self) -> dict[str, float]:
        """Plain values."""
        if self.delta is None:
            return {"level": float(self.level), "pure_power": self.power}
        return {"level": float(self.level), "delta": float(self.delta), "approximate_power": self.power}


@dataclass(frozen=True)
class EpsilonCurveAnswer(TypedAnswer):
    """What a test can find out where an epsilon is all that is known: pure, or with a delta."""

    epsilon: Fraction
    powers: tuple[EpsilonPower, ...]
    advantage: float | None
    """The largest power less level under pure epsilon; none with a delta."""
    posterior: loss_test.PosteriorFactor | None

    def pictures(self) -> Pictures:
        """Power over level under pure differential privacy, by name."""
        return {"power": lambda: _pure_power_chart(self.epsilon)}

    def as_dict(self) -> dict[str, Any]:
        """Plain values; a single power stands on its own as well."""
        rows = [point.as_dict() for point in self.powers]
        values: dict[str, Any] = {"epsilon": str(self.epsilon), "epsilon_decimal": float(self.epsilon)}
        values |= (rows[0] if len(rows) == 1 else {}) | {"levels": rows}
        if self.posterior is not None:
            values |= {"advantage": self.advantage, "posterior": self.posterior.as_dict()}
        return values

    def described(self) -> Iterator[AnswerPart]:
        """Pure differential privacy, or approximate at each δ that was given."""
        epsilon = confide_exact.exact_text(self.epsilon)
        if self.posterior is None:
            title = f"The largest power of a test, if ({epsilon}, delta) is all that is known"
            rows = [
                (f"{float(p.level):g}", f"{float(p.delta or 0):g}", confide_exact.up(p.power, 6)) for p in self.powers
            ]
            yield ShownTable(["level ", "delta ", "power "], rows, title=title)
            yield "\nOne pair of epsilon and delta says less than the release it was stated for. With rho, use --rho."
            return
        title = f"The largest power of a test about one record, under pure epsilon = {epsilon}"
        yield ShownTable(
            ["level ", "power "],
            [(f"{float(p.level):g}", confide_exact.up(p.power, 6)) for p in self.powers],
            title=title,
        )
        yield f"\nThe largest advantage, power less level: {confide_exact.up(self.advantage or 0.0, 6)}."
        words = self.posterior.words
        yield f"One record multiplies no posterior probability by more than {words} = exp(2 epsilon)."


def curve(
    rho: confide_exact.Exact | None = None,
    *,
    strategy: str | None = None,
    root: str | None = None,
    levels: Sequence[confide_exact.Exact] = LEVELS,
    deltas: Sequence[confide_exact.Exact] = DELTAS,
) -> CurveAnswer:
    """The largest power of a test about one record at a level, and epsilon over delta, in every way that is known.

    Args:
        rho: A loss in zCDP.
        strategy: Or a TopDown strategy: a name that ships, or the path of a file. Then also what its own measurements
            allow, and the same by attribute and by block within each geolevel.
        root: The root of the strategy, where it has several.
        levels: The levels of the test, from 1e-50 to 1.
        deltas: The deltas at which epsilon is stated, from 1e-50 to 1/2.

    Returns:
        A power for each level and an epsilon for each delta, every bound rounded up.

    >>> answer = curve("2.56", levels=["0.05"])
    >>> f"{answer.powers[0].zcdp:.6f} {answer.powers[0].gaussian:.6f}"
    '0.934344 0.731675'
    """
    if (rho is None) == (strategy is None):
        raise ParameterError("curve-of-what/clear", where=Place(path="confide risk curve"))
    if root is not None and strategy is None:
        raise ParameterError("curve-of-what/none-several", where=Place(path="confide risk curve"))
    sizes, chances = _levels(levels), _deltas(deltas)
    chosen: Strategy | None = None
    parts: tuple[GuaranteePart, ...] = ()
    exact: Bracket | None = None
    if rho is not None:
        cost = confide_exact.positive_within(rho, "rho", LEAST, MOST)
        powers, points = power_curve(cost, sizes), epsilon_curve(cost, chances)
    else:
        assert strategy is not None
        chosen = load_strategy(strategy, root=root)
        parts = parts_of(plan_of(chosen))
        everything = parts[0]
        cost, powers, points = everything.rho, everything.powers(sizes), everything.epsilons(chances, exact=True)
        exact = None if everything.best is None else everything.best.advantage
    return CurveAnswer(
        cost,
        sizes,
        chances,
        tuple(powers),
        tuple(points),
        AdvantageBounds(loss_test.zcdp_advantage(cost), loss_test.gaussian_advantage(cost), exact),
        loss_test.posterior_factor(ZCDP(cost), DELTA),
        chosen,
        parts,
    )


def curve_of_epsilon(
    epsilon: confide_exact.Exact,
    *,
    levels: Sequence[confide_exact.Exact] = LEVELS,
    deltas: Sequence[confide_exact.Exact] = (),
) -> EpsilonCurveAnswer:
    """The largest power of a test about one record under pure epsilon, or under epsilon with each of some deltas.

    Args:
        epsilon: The loss.
        levels: The levels of the test.
        deltas: Deltas that the epsilon holds with; none for pure differential privacy.

    Returns:
        A power for each level, or for each level and delta, rounded up.

    >>> round(curve_of_epsilon("0.5").powers[0].power, 4)
    0.0824
    """
    loss = confide_exact.positive_within(epsilon, "epsilon", LEAST, MOST)
    sizes, chances = _levels(levels), _deltas(deltas)
    if chances:
        pairs = [EpsilonPower(size, loss_test.approximate_power(loss, d, size), d) for size in sizes for d in chances]
        return EpsilonCurveAnswer(loss, tuple(pairs), None, None)
    points = tuple(EpsilonPower(size, loss_test.pure_power(loss, size)) for size in sizes)
    return EpsilonCurveAnswer(loss, points, loss_test.pure_advantage(loss), loss_test.posterior_factor(PureDP(loss)))


def _levels(levels: Sequence[confide_exact.Exact]) -> tuple[Fraction, ...]:
    return tuple(confide_exact.positive_within(level, "level", LEAST, Fraction(1)) for level in levels)


def _deltas(deltas: Sequence[confide_exact.Exact]) -> tuple[Fraction, ...]:
    return tuple(confide_exact.positive_within(delta, "delta", LEAST, Fraction(1, 2)) for delta in deltas)


def _powers(powers: Sequence[PowerPoint]) -> dict[str, Any]:
    """A list of levels; with one level its numbers stand on their own as well."""
    rows = [point.as_dict() for point in powers]
    alone: dict[str, Any] = {}
    if len(rows) == 1:
        alone = {"power_" + key if key.startswith("exact") else key: value for key, value in rows[0].items()}
    return alone | {"levels": rows}


# The pictures.

_ANY = "any release with this ρ"
_EPSILONS = {
    "bun_steinke": "Bun and Steinke",
    "canonne_kamath_steinke": "Canonne, Kamath and Steinke",
    "gaussian_limit": "Gaussian noise (for comparison)",
}


def _own(point: PowerPoint) -> tuple[float, str]:
    """The power of a test of these measurements, or else of Gaussian noise; and of which of the two it is."""
    if point.exact is None:
        return point.gaussian, "Gaussian noise with this ρ"
    return point.exact.pessimistic, "these measurements"


def power_chart(points: Sequence[PowerPoint]) -> Chart:
    """The largest power over the level."""
    rows = []
    for point in points:
        power, way = _own(point)
        rows.append({"level": float(point.level), "power": point.zcdp, "way": _ANY})
        rows.append({"level": float(point.level), "power": power, "way": way})
    return chart("curve-power", rows)


def _pure_power_chart(epsilon: Fraction) -> Chart:
    """The same under pure differential privacy."""
    way = f"any release with ε = {float(epsilon):g}"
    rows = [{"level": float(level), "power": loss_test.pure_power(epsilon, level), "way": way} for level in FINE_LEVELS]
    return chart("curve-power", rows)


def epsilon_chart(points: Sequence[EpsilonPoint]) -> Chart:
    """ε over δ, in three ways."""
    rows = [
        {"delta": float(point.delta), "epsilon": point.ways[way], "way": words}
        for point in points
        for way, words in _EPSILONS.items()
    ]
    return chart("curve-epsilon", rows)


def _parts_chart(parts: Sequence[GuaranteePart], level: Fraction) -> Chart:
    """The largest power at one level, by what differs between the two hypotheses."""
    rows = []
    for part in parts:
        (point,) = part.powers([level])
        power, way = _own(point)
        rows.append({"name": part.words, "power": point.zcdp, "way": _ANY})
        rows.append({"name": part.words, "power": power, "way": way})
    return chart("curve-parts", rows, level=float(level))


# What a loss protects from, in five figures for somebody who has to decide.
#
# - epsilon at a delta, and the sentence that says what it means (:class:`confide.releases.loss_account.StatedPrice`);
# - the power of the best test at a level of 5 %: how often it notices what is there, if it cries wolf in one of twenty
#   cases where nothing is;
# - the belief of somebody who knows everybody else: from a prior p, how far it rises on average where it is right. With
#   Q₁, Q₀ the laws of what is released with and without what they ask for, the posterior expected under Q₁ is
#
#       E p x / (p x + 1 − p),  x = Q₁/Q₀,   at most   p F / (p F + 1 − p),  F = E x = exp D₂(Q₁ ‖ Q₀),
#
#   as the left side is concave in x; and D₂ is at most 2ρ, or min(ε, ε²). Derivation: ``docs/proofs/bayesian-risk.md``;
# - the reconstruction bound: how often somebody who knows everybody else guesses a whole record right, at most, if a
#   guess without the release is right with probability p. It is the power of the best test at the level p: whether the
#   guess is right is a test of this record against any other. Derivation: ``docs/proofs/privacy-curves.md``, section 7;
# - what others spent.

LEVEL = Fraction(1, 20)


@dataclass(frozen=True)
class StatedProtection(TypedAnswer):
    """What a loss protects from."""

    price: StatedPrice
    prior: Fraction
    power: float
    """The largest power of a test at :data:`LEVEL`."""
    posterior: float
    """The belief expected where it is right, at most."""
    reconstruction: float
    """How often a record is guessed right, at most, if a blind guess is right with the prior as its probability."""

    @property
    def yardsticks(self) -> tuple[Yardstick, ...]:
        """What others spent, at the same delta."""
        return _yardsticks(self.price.delta)

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        price = self.price
        return {
            "loss": price.loss.as_dict(),
            "neighbours": price.neighbours.value,
            "epsilon": price.epsilon,
            "delta": str(price.delta) if price.has_delta else None,
            "in_words": price.in_words,
            "level": str(LEVEL),
            "power": self.power,
            "prior": str(self.prior),
            "expected_posterior": self.posterior,
            "reconstruction": self.reconstruction,
            "yardsticks": [yardstick.as_dict() for yardstick in self.yardsticks],
        }


def protection(
    loss: ZCDP | PureDP,
    neighbours: Neighbours,
    *,
    delta: Fraction = Fraction(1, 10**10),
    prior: confide_exact.Exact = "0.01",
    unit: str = "person",
    not_protected: tuple[str, ...] = (),
) -> StatedProtection:
    """What a loss protects from.

    Args:
        loss: What a release spends.
        neighbours: What is hidden.
        delta: At which epsilon is stated, for zCDP.
        prior: What somebody who knows everybody else believes beforehand.
        unit: What one record describes.
        not_protected: The parts of a record that invariants give away, or leave less of, in words.

    Returns:
        The figures; all of them are bounds.

    >>> figures = protection(ZCDP("1/2"), Neighbours.CHANGE_ONE)
    >>> f"{figures.price.epsilon:.2f}, {figures.power:.3f}, {figures.posterior:.4f}"
    '6.84, 0.336, 0.0267'
    >>> f"{figures.reconstruction:.3f}"
    '0.125'
    """
    return _protection(loss, neighbours, delta, confide_exact.probability(prior, "prior"), unit, not_protected)


def expected_posterior(loss: ZCDP | PureDP, prior: confide_exact.Exact) -> float:
    """How far a belief rises on average where it is right, at most.

    Args:
        loss: What a release spends.
        prior: The belief beforehand.

    Returns:
        The largest expected posterior.

    >>> expected_posterior(ZCDP("0.5"), "1/2") == math.e / (math.e + 1)
    True
    """
    belief = float(confide_exact.probability(prior, "prior"))
    divergence = 2 * loss.rho if isinstance(loss, ZCDP) else min(loss.epsilon, loss.epsilon**2)
    # p F / (p F + 1 − p) with F = exp(D), written so that a large D does no harm.
    return belief / (belief + (1 - belief) * math.exp(-float(divergence)))


@lru_cache(maxsize=4096)
def _protection(
    loss: ZCDP | PureDP,
    neighbours: Neighbours,
    delta: Fraction,
    prior: Fraction,
    unit: str,
    not_protected: tuple[str, ...],
) -> StatedProtection:
    price = StatedPrice(loss, neighbours, delta, unit, not_protected=not_protected)
    return StatedProtection(price, prior, _power(loss, LEVEL), expected_posterior(loss, prior), _power(loss, prior))


@lru_cache(maxsize=4096)
def _power(loss: ZCDP | PureDP, level: Fraction) -> float:
    return (
        loss_test.zcdp_power(loss.rho, level) if isinstance(loss, ZCDP) else loss_test.pure_power(loss.epsilon, level)
    )


@lru_cache(maxsize=64)
def _yardsticks(delta: Fraction) -> tuple[Yardstick, ...]:
    return tuple(StatedPrice(ZCDP(1), Neighbours.CHANGE_ONE, delta, "person").yardsticks())


# The answer in sentences and tables.


def _parts_described(answer: CurveAnswer) -> Iterator[AnswerPart]:
    rows, level = [], answer.levels[0]
    for part in answer.parts:
        (power,), (point,) = part.powers([level]), part.epsilons([DELTA])
        epsilon = confide_exact.up(point.ways["canonne_kamath_steinke"], 4)
        rows.append(
            [
                part.words,
                confide_exact.fraction_up(part.rho),
                epsilon,
                confide_exact.up(power.zcdp, 4),
                *_bracket(power.exact, 4),
            ]
        )
    yield ""
    columns = ["one record differs", "rho ", "epsilon ", "any release ", "these measurements "]
    yield ShownTable(
        columns, rows, title=f"In part: epsilon at delta = {float(DELTA):g}, and the power at level {float(level):g}"
    )
    yield "\nEpsilon is that of Canonne, Kamath and Steinke. Figures published without noise are not covered."


def _bracket(ends: Bracket | None, digits: int) -> list[str]:
    """The upper end, which is the one to quote."""
    return [] if ends is None else [confide_exact.up(ends.pessimistic, digits)]
