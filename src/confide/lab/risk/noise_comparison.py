"""Any noise for the same static programme: what it promises, from a risk or from a utility that is asked for.

A static programme measures some cross-classifications, each record being in one cell of each. Where a record is added
or removed, as many counts change by one; where it is changed, twice as many (:func:`changed_counts`; Bach's Delta). For
``k`` such counts with independent noise these bounds are known, and :func:`guarantee` gives the smallest:

* for one count, the exact curve (:func:`confide.noise.delta_bounds`);
* ``k`` times the largest loss, with the outside mass as delta (:func:`confide.noise.epsilon_delta`);
* the epsilon of rho-zCDP at delta for noise without a bound: ``rho = k / (2 sigma2)`` or ``k epsilon**2 / 2``;
* for truncated noise, ``delta <= outside + delta' / G**k``, where ``delta'`` is that of the same noise without the
  bound and ``G`` the probability that it stays within; for another symmetric row ``delta <= outside + delta'``, where
  ``delta'`` is that of ``rho = k (largest loss)**2 / 2``.

Risk-driven: from (epsilon, delta) to the noise. Utility-driven: from a variance, or a noise margin, and a bound to
(epsilon, delta). Bounded noise is compared here and can be drawn (:func:`confide.noise.perturb`).

Derivation: ``docs/proofs/noise.md``, section 9. Reference: Bach (2020), sections 2.3 and 2.4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf, nextafter
from typing import Any, Literal

from confide import noise as noise_laws
from confide.answers import AnswerPart, ShownTable, TypedAnswer
from confide.errors import ParameterError
from confide.exact import Exact, as_delta, positive, shortened_up
from confide.noise import TwoSidedGeometric
from confide.noise.fitting import NoiseKind, of_margin, of_variance, smallest_bound, smallest_decimal
from confide.noise.max_entropy import symmetric_row
from confide.privacy import ZCDP, Neighbours, bounded_degree, cks_delta, cks_epsilon, cks_rho, gaussian_sigma2
from confide.releases.plan import Plan

LARGEST_ROW = 50
"""Perturbation tables have bounds of this order; a wider row would be no cell key noise."""

DELTA = Fraction(1, 10**10)
"""The delta that promises are compared at where none is given."""

_ADDED = Neighbours.ADD_REMOVE


def changed_counts(measurements: int, neighbours: Neighbours = Neighbours.ADD_REMOVE) -> int:
    """How many counts one record changes, where each measurement counts it in one cell.

    Args:
        measurements: How many cross-classifications count every record once.
        neighbours: What is compared.

    Returns:
        The number of counts.

    >>> changed_counts(3, Neighbours.CHANGE_ONE)
    6
    """
    return bounded_degree(measurements, neighbours).l1


def changed_counts_of(plan: Plan) -> int:
    """The same for the plan of a static programme, in which every record is in one cell of every measurement.

    Such a plan has measurements, no groups that overlap, and no kinds of places whose records take part in some of
    the measurements alone.
    """
    if not plan.measures or plan.families or plan.paths:
        raise ParameterError("not-a-static-programme", mechanism=plan.mechanism)
    return changed_counts(len(plan.measures), plan.neighbours)


@dataclass(frozen=True)
class NoiseSetting:
    """Noise for a programme in which a record changes ``changed`` counts, and what it promises at ``delta``."""

    noise: noise_laws.CountNoise
    changed: int
    delta: Fraction

    @property
    def of_count(self) -> noise_laws.EpsilonDelta | None:
        """The promise for one count: at ``delta``, or at the largest loss where the noise has none at ``delta``."""
        return guarantee(self.noise, 1, self.delta) or noise_laws.epsilon_delta(self.noise)

    @property
    def of_programme(self) -> noise_laws.EpsilonDelta | None:
        """The promise for the programme with a delta of at most ``delta``; none where the noise has no such promise."""
        return guarantee(self.noise, self.changed, self.delta)

    @property
    def remaining(self) -> Fraction:
        """The delta of the programme that no epsilon takes away: the outside mass of all changed counts."""
        return noise_laws.outside_mass(self.noise, self.changed)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for programs; what is rounded is rounded up."""
        return {
            "name": self.noise.name,
            "law": self.noise.as_dict(),
            "variance": self.noise.variance(),
            "largest": self.noise.bound,
            "noise_margin": self.noise.noise_margin("0.95"),
            "count": _pair(self.of_count),
            "programme": _pair(self.of_programme),
            "programme_at_largest_loss": _pair(noise_laws.epsilon_delta(self.noise, self.changed)),
            "remaining_delta": float_above(self.remaining),
        }


def guarantee(noise: noise_laws.CountNoise, changed: int, delta: Exact) -> noise_laws.EpsilonDelta | None:
    """The smallest epsilon that is known to hold with a delta of at most ``delta``, and that delta.

    Args:
        noise: The noise of every count.
        changed: How many counts one record changes.
        delta: The largest delta that is accepted.

    Returns:
        Epsilon and delta, or none where no such promise is known.

    >>> float(guarantee(TwoSidedGeometric(1), 2, "1e-10").epsilon)
    2.0
    """
    limit = as_delta(delta)
    pairs = []
    pair = noise_laws.epsilon_delta(noise, changed)
    if pair is not None and pair.delta <= limit:
        pairs.append(pair)
    spare = limit - noise_laws.outside_mass(noise, changed)
    rho, within = _rho(noise, changed), spare * _within_probability(noise, changed)
    if changed > 1 and rho is not None and within > 0:
        pairs.append(noise_laws.EpsilonDelta(Fraction(cks_epsilon(rho, within)), limit))
    # Geometric noise has nearly its largest loss at every delta of use; the plain pair says it better.
    if changed == 1 and spare > 0 and not isinstance(noise, TwoSidedGeometric | noise_laws.TruncatedGeometric):
        pairs.append(noise_laws.EpsilonDelta(_exact_epsilon(noise, limit), limit))
    return min(pairs, default=None)


def risk_driven(epsilon: Exact, delta: Exact, changed: int) -> list[NoiseSetting]:
    """From an epsilon and a delta of the programme to noise of each kind.

    Two-sided geometric noise needs no delta; truncated, its bound is the smallest that delta allows. The discrete
    Gaussian takes the whole delta; truncated, one half, and the bound is the smallest that the rest allows.

    Args:
        epsilon: The epsilon of the programme.
        delta: Its delta.
        changed: How many counts one record changes.

    Returns:
        A setting for each kind of noise.

    >>> [setting.noise.bound for setting in risk_driven(1, "1e-6", 1)]
    [None, 14, None, 22]
    """
    total, allowed = positive(epsilon, "epsilon"), as_delta(delta)
    geometric = TwoSidedGeometric(total / changed)
    full, half = _gaussian(total, allowed, changed), _gaussian(total, allowed / 2, changed)
    spent = Fraction(cks_delta(Fraction(changed) / (2 * half.sigma2), total))
    if changed == 1:
        spent = noise_laws.delta_bounds(half, total)[1]
    noises: list[noise_laws.CountNoise] = [
        geometric,
        noise_laws.TruncatedGeometric(geometric.epsilon, _smallest_bound(geometric, changed, allowed, Fraction(0))),
        full,
        noise_laws.TruncatedGaussian(half.sigma2, _smallest_bound(half, changed, allowed, spent)),
    ]
    return [NoiseSetting(noise, changed, allowed) for noise in noises]


def utility_driven(
    variance: Exact,
    bound: int,
    changed: int = 1,
    delta: Exact = DELTA,
    rows: Sequence[noise_laws.FiniteDistribution] = (),
) -> list[NoiseSetting]:
    """From a variance and a bound to what each kind promises, and the same for ``rows`` as they are.

    Args:
        variance: The variance of the noise.
        bound: The largest noise of truncated kinds.
        changed: How many counts one record changes.
        delta: The delta of the programme.
        rows: Further laws, such as rows of a perturbation table.

    Returns:
        A setting for each kind of noise, then for each row.

    >>> len(utility_driven(2, 5))
    4
    """
    noises = [of_variance(kind, variance, bound if kind.bounded else None) for kind in NoiseKind]
    return [NoiseSetting(noise, changed, as_delta(delta)) for noise in (*noises, *rows)]


def margin_driven(
    margin: int,
    level: Exact,
    bound: int,
    changed: int = 1,
    delta: Exact = DELTA,
    rows: Sequence[noise_laws.FiniteDistribution] = (),
) -> list[NoiseSetting]:
    """From a noise margin at a level and a bound to what each kind promises.

    Args:
        margin: The noise margin.
        level: How often the noise keeps within it.
        bound: The largest noise of truncated kinds.
        changed: How many counts one record changes.
        delta: The delta of the programme.
        rows: Further laws, such as rows of a perturbation table.

    Returns:
        A setting for each kind of noise, then for each row.

    >>> len(margin_driven(3, "0.95", 9))
    4
    """
    noises = [of_margin(kind, margin, level, bound if kind.bounded else None) for kind in NoiseKind]
    return [NoiseSetting(noise, changed, as_delta(delta)) for noise in (*noises, *rows)]


@dataclass(frozen=True)
class NoiseComparison(TypedAnswer):
    """All kinds of noise for the same static programme, with what each promises."""

    driven_by: Literal["variance", "margin", "epsilon"]
    changed: int
    """How many counts one record changes."""
    delta: Fraction
    settings: tuple[NoiseSetting, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "driven_by": self.driven_by,
            "changed": self.changed,
            "delta": str(self.delta),
            "distributions": [setting.as_dict() | {"name": _name(setting.noise)} for setting in self.settings],
        }

    def described(self) -> Iterator[AnswerPart]:
        """A row for each kind of noise."""
        heads = ["distribution", "parameter", "V ", "D ", "one count: ε, δ ", "programme: ε, δ "]
        yield ShownTable(heads, [_setting_row(setting) for setting in self.settings])
        delta = f"{float(self.delta):g}"
        counts = "one count" if self.changed == 1 else f"{self.changed:,} counts"
        yield (
            f"A record changes {counts} by one. V is the variance, D the largest noise. ε and δ are for independent "
            f"noise in every count, rounded up; δ above {delta} is what no ε takes away. Truncated noise has no pure "
            "loss and no ρ: a release with it is charged to a ledger of approximate differential privacy, with its ε "
            "and δ. Noise of a perturbation table is charged to no ledger."
        )
        if any(isinstance(setting.noise, noise_laws.FiniteDistribution) for setting in self.settings):
            yield (
                "The p-table row is the truncated Gaussian: of all noise with this variance and bound that of largest "
                "entropy. Its digits are those of a perturbation table, in floating point."
            )


def compare_noise(
    *,
    variance: Exact | None = None,
    margin: int | None = None,
    epsilon: Exact | None = None,
    bound: int | None = None,
    level: Exact = "0.95",
    delta: Exact = DELTA,
    measurements: int = 1,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
) -> NoiseComparison:
    """All kinds of noise for the same static programme: from a variance or a noise margin and a bound, or from epsilon.

    Args:
        variance: The variance of the noise, with a ``bound`` for truncated noise. The last row of the perturbation
            table of this variance and bound is compared as well, if the bound is at most :data:`LARGEST_ROW`.
        margin: Or its noise margin at ``level``, with a ``bound``.
        epsilon: Or the epsilon of the programme at ``delta``.
        bound: The largest noise.
        level: How often the noise keeps within the margin.
        delta: The delta of the programme.
        measurements: How many cross-classifications count every record once.
        neighbours: What the promise compares.

    Returns:
        The noise of each kind, with the epsilon and delta of one count and of the programme.

    >>> answer = compare_noise(variance=2, bound=5)
    >>> [setting.noise.name for setting in answer.settings][:2]
    ['two-sided-geometric', 'discrete-gaussian']
    """
    given = {"variance": variance, "margin": margin, "epsilon": epsilon, "bound": bound}
    if sum(value is not None for name, value in given.items() if name != "bound") != 1 or (bound is None) != (
        epsilon is not None
    ):
        raise ParameterError(
            "noise-of-what", given=", ".join((name for name, value in given.items() if value is not None))
        )
    changed, allowed = changed_counts(measurements, neighbours), as_delta(delta)
    if epsilon is not None:
        return NoiseComparison("epsilon", changed, allowed, tuple(risk_driven(epsilon, allowed, changed)))
    assert bound is not None
    if variance is not None:
        rows = [_table_row(bound, variance)] if bound <= LARGEST_ROW else []
        settings = utility_driven(variance, bound, changed, allowed, rows)
        return NoiseComparison("variance", changed, allowed, tuple(settings))
    assert margin is not None
    return NoiseComparison("margin", changed, allowed, tuple(margin_driven(margin, level, bound, changed, allowed)))


def _table_row(bound: int, variance: Exact) -> noise_laws.FiniteDistribution:
    """The last row of the perturbation table with D and V, its floating-point probabilities taken as they are."""
    return noise_laws.FiniteDistribution.symmetric(Fraction(p) for p in symmetric_row(bound, variance).probabilities)


def _name(noise: noise_laws.CountNoise) -> str:
    return "perturbation-table" if isinstance(noise, noise_laws.FiniteDistribution) else noise.name


def float_above(number: Fraction) -> float:
    """The number as a float that is not below it."""
    rounded = float(number)
    return rounded if rounded >= number else nextafter(rounded, inf)


def _gaussian(epsilon: Fraction, delta: Fraction, changed: int) -> noise_laws.DiscreteGaussian:
    """Discrete Gaussian noise with (epsilon, delta): for one count by the exact curve, for more by their rho."""
    if changed > 1:
        return noise_laws.DiscreteGaussian(
            gaussian_sigma2(ZCDP(cks_rho(epsilon, delta)), bounded_degree(changed, _ADDED))
        )
    return noise_laws.DiscreteGaussian(
        smallest_decimal(lambda s: noise_laws.delta_bounds(noise_laws.DiscreteGaussian(s), epsilon)[1] <= delta)
    )


def _exact_epsilon(noise: noise_laws.CountNoise, delta: Fraction) -> Fraction:
    """The smallest epsilon of nine digits at which the exact delta of one count is at most ``delta``."""
    if noise_laws.delta_bounds(noise, 0)[1] <= delta:
        return Fraction(0)
    return smallest_decimal(lambda epsilon: noise_laws.delta_bounds(noise, epsilon)[1] <= delta)


def _rho(noise: noise_laws.CountNoise, changed: int) -> Fraction | None:
    """The zCDP loss of the noise without its bound or, for a symmetric row, of results that both counts can have."""
    law = noise.untruncated if isinstance(noise, noise_laws.TruncatedDistribution) else noise
    if isinstance(law, noise_laws.DiscreteGaussian):
        return Fraction(changed) / (2 * law.sigma2)
    if isinstance(law, TwoSidedGeometric):
        return changed * law.epsilon**2 / 2
    if isinstance(law, noise_laws.FiniteDistribution) and law.is_symmetric:
        return changed * law.largest_loss**2 / 2
    return None


def _within_probability(noise: noise_laws.CountNoise, changed: int) -> Fraction:
    """``G**changed``, rounded down, for truncated noise; one for other noise."""
    return (
        1 - noise_laws.beyond_mass(noise.untruncated, noise.bound, changed)
        if isinstance(noise, noise_laws.TruncatedDistribution)
        else Fraction(1)
    )


def _smallest_bound(law: noise_laws.NoiseDistribution, changed: int, delta: Fraction, spent: Fraction) -> int:
    """The smallest ``E`` with ``1 - (1 - p(E) / G_E)**k + spent / G_E**k <= delta``; the left side falls with ``E``."""

    def edge(bound: int) -> Callable[[int], noise_laws.Bounds]:
        def enclose(bits: int) -> noise_laws.Bounds:
            (p_lower, p_upper), (g_lower, g_upper) = law.pmf_bounds(bound, bits), law.folded_cdf_bounds(bound, bits)
            return p_lower / g_upper, min(Fraction(1), p_upper / g_lower) if g_lower else Fraction(1)

        return enclose

    def fits(bound: int) -> bool:
        within = 1 - noise_laws.beyond_mass(law, bound, changed) if spent else Fraction(1)
        return within > 0 and noise_laws.any_of(edge(bound), changed) + spent / within <= delta

    return smallest_bound(fits, f"delta {float(delta):.3g} for {changed} changed counts")


def _pair(pair: noise_laws.EpsilonDelta | None) -> dict[str, float] | None:
    return None if pair is None else {"epsilon": float_above(pair.epsilon), "delta": float_above(pair.delta)}


# The answer in sentences and tables.


TITLES = {
    NoiseKind.GEOMETRIC: "geometric",
    NoiseKind.GAUSSIAN: "Gaussian",
    NoiseKind.TRUNCATED_GEOMETRIC: "truncated geometric",
    NoiseKind.TRUNCATED_GAUSSIAN: "truncated Gaussian",
}


def _setting_row(setting: NoiseSetting) -> tuple[str, ...]:
    noise, law = setting.noise, setting.noise.as_dict()
    letters = {"epsilon": "ε", "sigma2": "σ²"}
    parameter = [f"{letter} {float(Fraction(law[key])):.5g}" for key, letter in letters.items() if key in law]
    return (
        "p-table row" if isinstance(noise, noise_laws.FiniteDistribution) else TITLES[NoiseKind(noise.name)],
        "".join(parameter),
        f"{noise.variance():.5g}",
        "–" if noise.bound is None else f"{noise.bound:,}",
        _shown(setting.of_count),
        _shown(setting.of_programme or noise_laws.epsilon_delta(noise, setting.changed)),
    )


def _shown(pair: noise_laws.EpsilonDelta | None) -> str:
    return "none" if pair is None else f"{shortened_up(pair.epsilon, 4)}, {shortened_up(pair.delta, 3)}"
