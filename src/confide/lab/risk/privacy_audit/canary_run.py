"""An audit in one run: many canaries, a fair coin for each, and guesses of the coins from what is measured once.

Counts that only one canary touches are its own. They are found without a coin: files with those canaries whose number
has a certain binary digit are counted without noise, and a count whose every answer is that of all canaries or that of
none is of the canary with these digits. A canary without such a count gets no coin. The guess of a coin is the sign of
the log-likelihood ratio of its own counts under the noise that the plan states. Twice guesses are counted: of the third
of the canaries with the largest ratios, which shows noise that is somewhat too narrow, and of all, which shows missing
noise; each has half of the error. Whatever guesses are made of, the bound below holds.

How often canaries can be guessed right in one run, if a mechanism is as private as it states: m *canaries*, made-up
records, each get a fair coin that says whether it is in the file (or which of two records it is). Somebody who sees the
release, and no coin, guesses c of the coins. Let the mechanism be f-DP for each canary: no test between the two states
of its coin has more power at the level x than R(x), a concave function. W is the number of right guesses, and p_i = P(W
= i).

*Theorem* (after Steinke, Nasr & Jagielski 2023, in the form of Mahloujifar, Melis & Chaudhuri 2024). For every j,

    Σ_{i ≥ j} (i / m) p_i  ≤  R( Σ_{i ≥ j - 1} ((c - i) / m) p_i ).

The left side is the probability that a canary J, chosen evenly, is guessed right while W ≥ j. Give J's coin the other
side and leave the release as it is: then J is guessed wrong, and W is one less. By f-DP the release itself may be
replaced by one that was made with the turned coin, at the price of R; and a file with a turned coin is a file with fair
coins. Nothing is said about other canaries, which may do what they like.

From these inequalities :func:`excluded` finds the largest P(W ≥ v) that they leave. Proof:
``docs/proofs/one-run-audit.md``.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from confide.answers import AuditPower
from confide.arrays import Booleans, Floats, Integers
from confide.errors import RunError
from confide.lab.risk.privacy_audit import twin_loss
from confide.lab.risk.privacy_audit.bench import CONFIDENCE, Bench, CanaryAudit, CountedFile
from confide.lab.risk.privacy_audit.of_mechanisms import Canaries
from confide.noise import ReleaseNoise
from confide.privacy import Definition
from confide.releases.noise_audit import NoiseAudit

Level = Callable[[float], float]
"""For a power h the smallest level x with R(x) ≥ h, or anything below it."""


def excluded(level: Level, canaries: int, guesses: int, correct: int, error: float) -> bool:
    """Whether so many right guesses have a probability below ``error`` if the mechanism is f-DP.

    With all of P(W ≥ v) at v, which the inequalities for j ≤ v like best, the least p_{j-1} that each of them allows
    is taken, from j = v down to 1. If the sum of all exceeds one, no law of W is left.

    Args:
        level: The inverse of the largest power R.
        canaries: m, how many coins there were.
        guesses: c, how many of them were guessed.
        correct: v, how many of these rightly.
        error: The probability with which one may be wrong.

    Returns:
        True: such a mechanism guesses so well with a probability below ``error``.

    >>> at_random = lambda power: power
    >>> excluded(at_random, 100, 100, 58, 0.05), excluded(at_random, 100, 100, 70, 0.05)
    (False, True)
    """
    right, wrong, total = correct * error / canaries, (guesses - correct) * error / canaries, error
    for j in range(correct, 0, -1):
        missing = level(right) - wrong
        if missing > 0:
            share = (guesses - j + 1) / canaries
            added = missing / share
            right += (j - 1) / canaries * added
            wrong += missing
            total += added
            if total > 1:
                return True
    return False


def least(excludes: Callable[[float], bool], start: float, most: float = 1e6) -> float:
    """The smallest parameter that is not excluded, rounded down; larger ones are excluded less."""
    if not excludes(0.0):
        return 0.0
    low, high = 0.0, start
    while excludes(high):
        low, high = high, 2 * high
        if high > most:
            return low
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if excludes(middle) else (low, middle)
    return low


def level_of_epsilon(epsilon: float, delta: float = 0.0) -> Level:
    """Of (epsilon, delta)-DP: R(x) = min(δ + e^ε x, 1 - e^-ε (1 - δ - x))."""
    shrink, grow = math.exp(-epsilon), math.exp(min(epsilon, 700.0))
    return lambda power: max(0.0, shrink * (power - delta), 1 - delta - grow * (1 - power))


def level_of_loss(loss: twin_loss.TwinLoss) -> Level:
    """Of the loss of two states of a canary, as its distribution allows."""
    false, right = loss.curve
    return lambda power: float(np.interp(power, right, false)) if power > right[0] else 0.0


_ORDERS = 1 + np.geomspace(1e-3, 1e3, 60)


def level_of_rho(rho: float) -> Level:
    """Of rho-zCDP: the Rényi divergence of two answers, D_a(h ‖ x), is at most a ρ for all a > 1.

    The pairs (x, h) that this leaves are a convex set, so the level is a convex function of the power, and lies above
    the straight lines through two of its points, outside of these. It is worked out at some powers, and between them
    the larger of the lines from both sides is taken: nothing is excluded that should not be.
    """
    powers = np.concatenate([np.geomspace(1e-7, 0.3, 120), 1 - np.geomspace(0.69, 1e-7, 120)])
    low, high = np.zeros(len(powers)), powers.copy()
    for _ in range(50):
        middle = (low + high) / 2
        allowed = _divergence_fits(powers, middle, rho)
        low, high = np.where(allowed, low, middle), np.where(allowed, middle, high)
    slopes = np.diff(low) / np.diff(powers)

    def level(power: float) -> float:
        place = int(np.searchsorted(powers, power, side="right")) - 1
        bounds = [0.0]
        if place >= 1:
            bounds.append(low[place] + slopes[place - 1] * (power - powers[place]))
        if 0 <= place < len(powers) - 2:
            bounds.append(low[place + 1] - slopes[place + 1] * (powers[place + 1] - power))
        return float(max(bounds))

    return level


def _divergence_fits(power: Floats, level: Floats, rho: float) -> Floats:
    """Whether D_a(power ‖ level) ≤ a rho for all orders that are tried."""
    with np.errstate(divide="ignore", over="ignore"):
        a = _ORDERS[:, None]
        one = a * np.log(power) + (1 - a) * np.log(level)
        other = a * np.log1p(-power) + (1 - a) * np.log1p(-level)
        return np.asarray((np.logaddexp(one, other) <= a * (a - 1) * rho).all(axis=0))


# The run, and the guesses.


GUESSED = (3, 1)
"""One canary of so many is guessed. Of the first, with more, those that nobody knows hold the bound down; with fewer,
chance does. All are guessed as well: nothing else shows as much if there is no noise. Both are fixed beforehand."""
SIDES = ("with", "without")
Components = Counter[tuple[ReleaseNoise, int]]


@dataclass(frozen=True, eq=False)
class OwnCounts:
    """The counts of one part of a measurement that only one canary touches, and whose they are."""

    key: twin_loss.Key
    part: int
    counts: twin_loss.TouchedCounts
    owner: Integers


@dataclass(frozen=True, eq=False)
class CanaryRun:
    """A bench with canaries."""

    bench: Bench
    canaries: Canaries

    def audit(self) -> CanaryAudit:
        """See :func:`confide.lab.risk.privacy_audit.audit_canaries`."""
        bench, number = self.bench, self.canaries.number
        nobody = self._counted(np.zeros(number, np.bool_), "none")
        laws = bench.laws(nobody)
        # What a record changes at most is what one of the neighbours changes that the mechanism makes up as the worst.
        pair = bench.audit.made_up_records(bench.problem, 1)
        one, other = (bench.counted(table, f"1-{side}", side) for side, table in zip(SIDES, pair, strict=True))
        touched = twin_loss.touched_counts(one.truth, other.truth, bench.laws(one))
        if not touched:
            raise twin_loss.nothing_touched()
        per_canary = {key: twin_loss.components_of(parts) for key, parts in touched.items()}
        own = self._own_counts(nobody, laws)
        owned = np.zeros(number, np.int64)
        for counts in own:
            np.add.at(owned, counts.owner, 1)
        # Who owns what follows from the plan alone: nobody has seen a coin.
        owners = np.flatnonzero(owned)
        coins = np.array([self._coin(canary) for canary in range(number)]) & (owned > 0)
        measured = self._counted(coins, "coins")
        seen = bench.trial(measured.problem, measured.job, bench.key("canaries"))
        correct = _right(self._ratios(own, seen)[owners], coins[owners])
        draws = bench.noise_audit(canaries=(measured, seen))
        return self._answer(per_canary, own, correct, len(owners), float(owned[owners].mean()), draws)

    def _answer(
        self,
        per_canary: dict[twin_loss.Key, Components],
        own_counts: list[OwnCounts],
        correct: dict[int, int],
        number: int,
        own: float,
        draws: NoiseAudit,
    ) -> CanaryAudit:
        bench, error = self.bench, float(1 - CONFIDENCE) / len(GUESSED)
        definition, together = bench.plan.definition, sum(per_canary.values(), Counter())
        delta = float(bench.delta) if definition is Definition.APPROXIMATE else 0.0

        def level_of_noise(factor: float) -> Level:
            if factor == 0:
                return lambda power: power
            return level_of_loss(twin_loss.TwinLoss.of({(law, gap, factor): n for (law, gap), n in together.items()}))

        def level_of_definition(parameter: float) -> Level:
            return level_of_rho(parameter) if definition is Definition.ZCDP else level_of_epsilon(parameter, delta)

        def shown(levels: Callable[[float], Level], most: float) -> float:
            return least(lambda x: _excluded(levels(x), number, correct, error), 1.0, most)

        stated = bench.stated()
        factor, parameter = shown(level_of_noise, 64.0), shown(level_of_definition, 1e3)
        whatever = {"epsilon": parameter}
        if definition is Definition.ZCDP:
            whatever = {"rho": parameter, "epsilon": twin_loss.epsilon_of(parameter, bench.delta)}
        # Of the two numbers of guesses the one that the bound comes from.
        just_below = level_of_definition(parameter * (1 - 1e-6))
        best = next((item for item in correct.items() if _excluded(just_below, number, dict([item]), error)), None)
        guesses, right_guesses = best or next(iter(correct.items()))

        def power() -> AuditPower:
            levels = level_of_noise(1.0), level_of_definition(next(iter(stated.values())))

            def notices(narrower: float, random: np.random.Generator) -> bool:
                right = _right(*_made_up_ratios(own_counts, narrower, random))
                return any(_excluded(level, number, right, error) for level in levels)

            return twin_loss.power_of(twin_loss.least_noticed(notices), draws, "The guesses")

        return CanaryAudit(
            mechanism=bench.mechanism.name,
            definition=definition,
            neighbours=bench.plan.neighbours.value,
            delta=bench.delta,
            canaries=number,
            guesses=guesses,
            correct=right_guesses,
            touched=sum(together.values()),
            own=own,
            stated=stated,
            at_least=twin_loss.loss_of(definition, per_canary, dict.fromkeys(per_canary, factor), bench.delta),
            whatever_the_noise=whatever,
            narrower_by=factor,
            draws=draws,
            power_of=power,
        )

    def _counted(self, heads: Booleans, name: str) -> CountedFile:
        """The file in which these canaries have heads."""
        return self.bench.counted(self.canaries.file(heads), f"canaries-{name}", name)

    def _coin(self, canary: int) -> bool:
        """The coin of a canary. It protects nobody: canaries are made up."""
        text = f"{self.bench.seed}/coin/{canary}"
        return bool(hashlib.sha256(text.encode()).digest()[0] & 1)

    def _own_counts(self, nobody: CountedFile, laws: dict[twin_loss.Key, list[ReleaseNoise]]) -> list[OwnCounts]:
        number = self.canaries.number
        everybody = self._counted(np.ones(number, np.bool_), "all").truth
        digits = range(max(1, (number - 1).bit_length()))
        by_digit = [
            self._counted((np.arange(number) >> digit & 1).astype(np.bool_), f"digit-{digit}").truth for digit in digits
        ]
        own = []
        for key, parts in nobody.truth.items():
            for place, (coordinates, without, _) in enumerate(parts):
                of_all, of_digit = (
                    [_at(outcome, key, place, coordinates) for outcome in outcomes]
                    for outcomes in ([everybody], by_digit)
                )
                owner, single = np.zeros(len(coordinates), np.int64), of_all[0] != without
                for digit, of_one_digit in enumerate(of_digit):
                    owner |= (of_one_digit == of_all[0]).astype(np.int64) << digit
                    single &= (of_one_digit == of_all[0]) | (of_one_digit == without)
                chosen = np.flatnonzero(single & (owner < number))
                counts = twin_loss.TouchedCounts(
                    laws[key][place], coordinates[chosen], of_all[0][chosen], without[chosen]
                )
                own.append(OwnCounts(key, place, counts, owner[chosen]))
        if not any(len(counts.owner) for counts in own):
            raise RunError("no-own-counts")
        return own

    def _ratios(self, own: list[OwnCounts], seen: twin_loss.Outcome) -> Floats:
        """For each canary the log-likelihood ratio of heads, by its own counts."""
        ratios = np.zeros(self.canaries.number)
        for part in own:
            coordinates, counts, _ = seen[part.key][part.part]
            np.add.at(ratios, part.owner, part.counts.losses(coordinates, counts))
        return ratios


def _right(ratios: Floats, coins: Booleans) -> dict[int, int]:
    """For each number of guesses how many are right, those with the largest ratios first."""
    order = np.argsort(-np.abs(ratios), kind="stable")
    right = np.cumsum((ratios[order] > 0) == coins[order])
    return {guesses: int(right[guesses - 1]) for guesses in (max(1, len(ratios) // part) for part in GUESSED)}


def _excluded(level: Level, canaries: int, right: Mapping[int, int], error: float) -> bool:
    """Whether one of the numbers of right guesses is improbable; each has its own part of the error."""
    return any(excluded(level, canaries, guesses, correct, error) for guesses, correct in right.items())


def _made_up_ratios(own: Sequence[OwnCounts], narrower: float, random: np.random.Generator) -> tuple[Floats, Booleans]:
    """Ratios and coins of a made-up run in which the noise is narrower by a factor."""
    owners = np.unique(np.concatenate([part.owner for part in own]))
    coins = random.integers(0, 2, len(owners)).astype(np.bool_)
    ratios = np.zeros(len(owners))
    for part in own:
        place, counts = np.searchsorted(owners, part.owner), part.counts
        true = np.where(coins[place], counts.with_twins, counts.without)
        seen = true + twin_loss.narrow_draws(counts.law, narrower, true.shape, random)
        np.add.at(ratios, place, counts.losses(counts.places, seen))
    return ratios, coins


def _at(outcome: twin_loss.Outcome, key: twin_loss.Key, part: int, coordinates: Integers) -> Floats:
    """The counts at some coordinates; not a number where there is none."""
    places, counts, _ = outcome[key][part]
    place = np.minimum(np.searchsorted(places, coordinates), max(0, len(places) - 1))
    if not len(places):
        return np.full(len(coordinates), np.nan)
    return np.where(places[place] == coordinates, counts[place], np.nan)
