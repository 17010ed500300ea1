"""What a swap drew, for the noise audit: drawn again with the key, and held against what the run kept. Confidential."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from scipy.stats import binom

from confide.errors import Place, RunError
from confide.mechanisms.swapping.core import looked_at, swap_people
from confide.mechanisms.swapping.mechanism import moved_file, swap_of
from confide.mechanisms.swapping.people import People
from confide.mechanisms.swapping.permutation import selections, strata_of
from confide.mechanisms.swapping.problem import SwappingProblem
from confide.mechanisms.swapping.records import read_people, variables_of
from confide.mechanisms.swapping.settings import SwapSettings
from confide.mechanisms.swapping.swap import Streams, Swap, choices, exponentials
from confide.mechanisms.swapping.targeted import risk_levels
from confide.releases.evaluate import require_records
from confide.releases.mechanism import Job, NoiseSource, OutcomeLaw, Residuals

Integers = npt.NDArray[np.int64]
SCORE_CLASSES = 64
"""Scores are looked at in so many classes, all as likely."""
LARGEST_LOOKED_AT = 2_000
"""Strata with more households are looked at household by household alone: their laws have too many values."""


def residuals(problem: SwappingProblem, job: Job, noise: NoiseSource | None) -> Iterator[Residuals]:
    """What a swap drew, beside the laws that it promises, and whether the exchanges that were kept follow from it.

    Targeted: an exponential variable for each household and level, by which households of one risk are chosen evenly.
    Enhanced: how many households are taken, the noise of their keys, and their groups. Permutation: who was selected at
    first, how many moved in each stratum, whose place the first of them took, and the words that they were ordered by.
    Nothing is added to a count, so there is nothing else to be seen without the key.
    """
    fingerprint = problem.fingerprint()
    require_records(job.workspace, fingerprint, "records or settings are not those of the release")
    if noise is None or not moved_file(job.workspace).exists():
        raise RunError(
            "no-measurements",
            "what this swap drew is no longer stored",
            where=Place(file=str(job.workspace.root)),
            found="no key",
            expected="a key that is not destroyed yet",
            remedy="audit the noise of a run before its key is destroyed",
        )
    people, settings = read_people(problem, job.engine), problem.settings
    streams = Streams(noise.key, people.fingerprint, settings.fingerprint + bytes.fromhex(noise.plan_hash))
    values, age = variables_of(problem, people)
    if settings.variant == "targeted":
        yield from _targeted_draws(people, settings, streams)
    elif settings.variant == "enhanced":
        yield from _enhanced_draws(people, settings, streams)
    else:
        strata = strata_of(people, settings, looked_at(settings, values, age))
        yield from _permutation_draws(strata, settings, streams, swap_of(job.workspace))
    again = swap_people(people, settings, values, age, noise.key, bytes.fromhex(noise.plan_hash))
    stored = swap_of(job.workspace)
    if settings.variant == "enhanced":
        yield _taken(people, settings, stored)
    # A household whose partner is not the one that was drawn is one that the law does not have.
    other = (again.partner != stored.partner).astype(np.int64)
    yield Residuals("households", "partners as drawn", other[:, None], (OutcomeLaw((0,), (1.0,)),), "measured")


DRAWN_AGAIN = "drawn again"


def _targeted_draws(people: People, settings: SwapSettings, streams: Streams) -> Iterator[Residuals]:
    """The scores of households, by the level that they are for."""
    law = OutcomeLaw(tuple(range(SCORE_CLASSES)), (1 / SCORE_CLASSES,) * SCORE_CLASSES)
    for level in risk_levels(people, settings):
        share = -np.expm1(-exponentials(streams.of("score", level), people.households))
        classes = np.minimum(SCORE_CLASSES - 1, (SCORE_CLASSES * share).astype(np.int64))
        yield Residuals("households", f"score: {level}", classes[:, None], (law,), DRAWN_AGAIN)


def _enhanced_draws(people: People, settings: SwapSettings, streams: Streams) -> Iterator[Residuals]:
    """The noise of keys, and the groups."""
    for purpose, probabilities in (("key", settings.key_noise), ("group", settings.groups)):
        law = OutcomeLaw(tuple(range(len(probabilities))), tuple(float(p) for p in probabilities))
        drawn = choices(streams.of(purpose), people.households, probabilities)
        yield Residuals("households", purpose, drawn[:, None], (law,), DRAWN_AGAIN)


def _permutation_draws(strata: Integers, settings: SwapSettings, streams: Streams, swap: Swap) -> Iterator[Residuals]:
    """Selections and words as they are drawn, household by household; and, stratum by stratum, what came of them."""
    p = float(settings.rate)
    everybody = np.arange(len(strata))
    first = selections(streams, 0, everybody, settings).astype(np.int64)
    law = OutcomeLaw((0, 1), (1 - p, p))
    yield Residuals("households", "selected", first[:, None], (law,), DRAWN_AGAIN, family="selected")
    words = streams.of("order", "attempt 0").extension(everybody.astype(np.uint64), 0)
    classes = (words >> np.uint64(64 - SCORE_CLASSES.bit_length() + 1)).astype(np.int64)
    law = OutcomeLaw(tuple(range(SCORE_CLASSES)), (1 / SCORE_CLASSES,) * SCORE_CLASSES)
    yield Residuals("households", "order", classes[:, None], (law,), DRAWN_AGAIN, family="order")
    sizes = np.bincount(strata)
    moved = np.bincount(strata[swap.moved], minlength=len(sizes))
    looked = np.flatnonzero((sizes > 1) & (sizes <= LARGEST_LOOKED_AT))
    if len(looked):
        kinds, law_of = np.unique(sizes[looked], return_inverse=True)
        laws = tuple(_moved_law(int(b), p) for b in kinds)
        number = law_of[:, None].astype(np.int64)
        yield Residuals("strata", "moved", moved[looked][:, None], laws, "measured", law_of=number, family="moved")
    yield from _first_places(strata, swap, moved)


def _moved_law(b: int, p: float) -> OutcomeLaw:
    """How many households of a stratum move: binomial, but never one."""
    mass = binom.pmf(np.arange(b + 1), b, p)
    mass[1] = 0.0
    values = [m for m in range(b + 1) if m != 1 and mass[m] > 0]
    return OutcomeLaw(tuple(values), tuple((mass[values] / mass.sum()).tolist()))


def _first_places(strata: Integers, swap: Swap, moved: Integers) -> Iterator[Residuals]:
    """Of the first household that moved in a stratum, how many places farther on among the m that moved the one is
    whose place it took: every number from 1 to m − 1 is as likely. One for each stratum, so that they are independent.
    """
    of = np.flatnonzero(swap.moved)
    ordered = of[np.argsort(strata[of], kind="stable")]
    begins = np.flatnonzero(np.diff(strata[ordered], prepend=-1))
    number = moved[strata[ordered[begins]]]
    place = np.zeros(len(strata), np.int64)
    place[ordered] = np.arange(len(ordered)) - np.repeat(begins, number)
    steps = place[swap.partner[ordered[begins]]]
    looked = (number > 2) & (number <= LARGEST_LOOKED_AT)
    if looked.any():
        kinds, law_of = np.unique(number[looked], return_inverse=True)
        laws = tuple(OutcomeLaw(tuple(range(1, m)), (1 / (m - 1),) * (m - 1)) for m in kinds.tolist())
        which = law_of[:, None].astype(np.int64)
        yield Residuals("strata", "places", steps[looked][:, None], laws, "measured", law_of=which, family="places")


def _taken(people: People, settings: SwapSettings, swap: Swap) -> Residuals:
    """How many households were taken: one of the two numbers next to the share."""
    floor, fraction = divmod(people.households * settings.rate, 1)
    law = OutcomeLaw((0, 1), (float(1 - fraction), float(fraction)))
    number = np.array([[sum(swap.wanted.values()) - int(floor)]])
    return Residuals("households", "taken", number, (law,), "measured")
