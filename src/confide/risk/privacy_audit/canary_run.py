"""An audit in one run: many canaries, a fair coin for each, and guesses of the coins from what is measured once.

Counts that only one canary touches are its own. They are found without a coin: files with those canaries whose number
has a certain binary digit are counted without noise, and a count whose every answer is that of all canaries or that of
none is of the canary with these digits. The guess of a coin is the sign of the log-likelihood ratio of its own counts
under the noise that the plan states; the third of the canaries with the largest ratios is guessed. Whatever guesses are
made of, the bound holds: :mod:`confide.risk.privacy_audit.one_run`.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass

import numpy as np

from confide.arrays import Booleans, Floats, Integers
from confide.errors import RunError
from confide.inputs.canaries import Canaries
from confide.noise import ReleaseNoise
from confide.privacy import Definition
from confide.risk.privacy_audit.bench import Bench, CountedFile
from confide.risk.privacy_audit.bounds import epsilon_of, loss_of
from confide.risk.privacy_audit.one_run import (
    excluded,
    least,
    level_of_epsilon,
    level_of_loss,
    level_of_rho,
)
from confide.risk.privacy_audit.privacy_audit_answer import CONFIDENCE, CanaryAudit
from confide.risk.privacy_audit.touched import (
    Key,
    Outcome,
    TouchedCounts,
    components_of,
    nothing_touched,
    touched_counts,
)
from confide.risk.privacy_audit.twin_loss import TwinLoss

GUESSED = 3
"""One canary of so many is guessed: with more, those that nobody knows hold the bound down; with fewer, chance does."""
SIDES = ("with", "without")
Components = Counter[tuple[ReleaseNoise, int]]


@dataclass(frozen=True, eq=False)
class OwnCounts:
    """The counts of one part of a measurement that only one canary touches, and whose they are."""

    key: Key
    part: int
    counts: TouchedCounts
    owner: Integers


@dataclass(frozen=True, eq=False)
class CanaryRun:
    """A bench with canaries."""

    bench: Bench
    canaries: Canaries

    def audit(self) -> CanaryAudit:
        """See :func:`confide.risk.privacy_audit.audit_canaries`."""
        bench, number = self.bench, self.canaries.number
        nobody = self._counted(np.zeros(number, np.bool_), "none")
        laws = bench.laws(nobody)
        # What a record changes at most is what one of the neighbours changes that the mechanism makes up as the worst.
        pair = bench.mechanism.made_up_records(bench.problem, 1)
        one, other = (bench.counted(table, f"1-{side}", side) for side, table in zip(SIDES, pair, strict=True))
        touched = touched_counts(one.truth, other.truth, bench.laws(one))
        if not touched:
            raise nothing_touched()
        per_canary = {key: components_of(parts) for key, parts in touched.items()}
        own = self._own_counts(nobody, laws)
        owned = np.zeros(number, np.int64)
        for counts in own:
            np.add.at(owned, counts.owner, 1)
        coins = np.array([self._coin(canary) for canary in range(number)])
        measured = self._counted(coins, "coins")
        seen = bench.trial(measured.problem, measured.job, bench.key("canaries"))
        ratios = self._ratios(own, seen)
        guessed = np.argsort(-np.abs(ratios), kind="stable")[: max(1, number // GUESSED)]
        correct = int(((ratios[guessed] > 0) == coins[guessed]).sum())
        return self._answer(per_canary, len(guessed), correct, float(owned.mean()))

    def _answer(self, per_canary: dict[Key, Components], guesses: int, correct: int, own: float) -> CanaryAudit:
        bench, number, error = self.bench, self.canaries.number, float(1 - CONFIDENCE)
        definition, together = bench.plan.definition, sum(per_canary.values(), Counter())

        def narrower(factor: float) -> bool:
            if factor == 0:
                return excluded(lambda power: power, number, guesses, correct, error)
            loss = TwinLoss.of({(law, gap, factor): times for (law, gap), times in together.items()})
            return excluded(level_of_loss(loss), number, guesses, correct, error)

        def of_the_definition(parameter: float) -> bool:
            delta = float(bench.delta) if definition is Definition.APPROXIMATE else 0.0
            zcdp = definition is Definition.ZCDP
            level = level_of_rho(parameter) if zcdp else level_of_epsilon(parameter, delta)
            return excluded(level, number, guesses, correct, error)

        stated = bench.stated()
        factor = least(narrower, 1.0, 64.0)
        parameter = least(of_the_definition, 1.0, 1e3)
        whatever = {"epsilon": parameter}
        if definition is Definition.ZCDP:
            whatever = {"rho": parameter, "epsilon": epsilon_of(parameter, bench.delta)}
        return CanaryAudit(
            mechanism=bench.mechanism.name,
            definition=definition,
            neighbours=bench.plan.neighbours.value,
            delta=bench.delta,
            canaries=number,
            guesses=guesses,
            correct=correct,
            touched=sum(together.values()),
            own=own,
            stated=stated,
            at_least=loss_of(definition, per_canary, dict.fromkeys(per_canary, factor), bench.delta),
            whatever_the_noise=whatever,
            narrower_by=factor,
        )

    def _counted(self, heads: Booleans, name: str) -> CountedFile:
        """The file in which these canaries have heads."""
        return self.bench.counted(self.canaries.file(heads), f"canaries-{name}", name)

    def _coin(self, canary: int) -> bool:
        """The coin of a canary. It protects nobody: canaries are made up."""
        text = f"{self.bench.seed}/coin/{canary}"
        return bool(hashlib.sha256(text.encode()).digest()[0] & 1)

    def _own_counts(self, nobody: CountedFile, laws: dict[Key, list[ReleaseNoise]]) -> list[OwnCounts]:
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
                counts = TouchedCounts(laws[key][place], coordinates[chosen], of_all[0][chosen], without[chosen])
                own.append(OwnCounts(key, place, counts, owner[chosen]))
        if not any(len(counts.owner) for counts in own):
            raise _nothing_own()
        return own

    def _ratios(self, own: list[OwnCounts], seen: Outcome) -> Floats:
        """For each canary the log-likelihood ratio of heads, by its own counts."""
        ratios = np.zeros(self.canaries.number)
        for part in own:
            coordinates, counts, _ = seen[part.key][part.part]
            np.add.at(ratios, part.owner, part.counts.losses(coordinates, counts))
        return ratios


def _at(outcome: Outcome, key: Key, part: int, coordinates: Integers) -> Floats:
    """The counts at some coordinates; not a number where there is none."""
    places, counts, _ = outcome[key][part]
    place = np.minimum(np.searchsorted(places, coordinates), max(0, len(places) - 1))
    if not len(places):
        return np.full(len(coordinates), np.nan)
    return np.where(places[place] == coordinates, counts[place], np.nan)


def _nothing_own() -> RunError:
    return RunError(
        "no-own-counts",
        "no canary has its own count, so there is nothing to guess from",
        found="counts that several canaries share",
        expected="enough areas and cells to keep the canaries apart",
        remedy="ask for fewer canaries, or audit with many runs: leave out --canaries",
    )
