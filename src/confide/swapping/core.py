"""The swap itself, from people and settings to who exchanged places with whom: a pure function of these and a key."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from confide.errors import CONFIDENTIAL, Finding, InputError, ParameterError, Place, RunError
from confide.geography import Spine
from confide.noise import ReleaseKey
from confide.swapping.draws import Streams
from confide.swapping.enhanced import enhanced_swap
from confide.swapping.people import ADULTS, People
from confide.swapping.settings import SwapSettings
from confide.swapping.swap import Swap, kept_in_blocks
from confide.swapping.targeted import targeted_swap

Integers = npt.NDArray[np.int64]


def swap_people(
    people: People,
    settings: SwapSettings,
    values: Mapping[str, Integers],
    age: Integers | None,
    key: ReleaseKey,
    question: bytes,
) -> Swap:
    """Who exchanges places with whom. ``values`` has the groups of every variable that the settings name, ``question``
    the hash of what the draws are bound to besides people and settings. What is said to stay is counted again."""
    _check_carried(people, settings)
    if not people.households:
        return Swap(np.empty(0, np.int64), {}, {}, {})
    named = looked_at(settings, values, age)
    streams = Streams(key, people.fingerprint, settings.fingerprint + question)
    if settings.variant == "targeted":
        swap = targeted_swap(people, settings, named, streams)
    else:
        swap = enhanced_swap(people, settings, streams)
    twice = bool((swap.partner[swap.partner] != np.arange(people.households)).any())
    if twice or any(kept.changed for kept in kept_in_blocks(people, settings, swap, named)):
        raise RunError(
            Finding(
                code="swap-broken",
                what="a household moved twice, or a count that is said to stay has changed",
                found=CONFIDENTIAL,
                expected="exchanges of two households each, alike in what stays",
                remedy="nothing was released; please report it",
            )
        )
    return swap


def looked_at(settings: SwapSettings, values: Mapping[str, Integers], age: Integers | None) -> dict[str, Integers]:
    """The groups of every variable that the settings name, and ``adults`` where a profile has it."""
    found = {name: values[name] for name in settings.variables}
    if settings.needs_age:
        assert age is not None
        found[ADULTS] = (age >= settings.adult_age).astype(np.int64)
    return found


def check_levels(spine: Spine, settings: SwapSettings) -> list[Finding]:
    """What the settings ask of the geography, and it has not."""
    names = [level.name for level in spine.levels]
    expected = "one of " + ", ".join(names)
    findings = [
        _wrong("levels", f"there is no level {name!r}", name, expected) for name in settings.levels if name not in names
    ]
    positions = [names.index(name) for name in settings.levels if name in names]
    if positions != sorted(set(positions)):
        listed = ", ".join(settings.levels)
        findings.append(_wrong("levels", "the levels are not in their order", listed, "each once, coarsest first"))
    if settings.variant == "enhanced":
        levels = settings.levels or names[:-1][-len(settings.groups) :]
        if len(levels) != len(settings.groups) or "block" in levels:
            found, expected = f"{len(levels)} levels", f"{len(settings.groups)} levels above the blocks"
            findings.append(_wrong("levels", "the groups need a level each", found, expected))
    elif settings.within is not None:
        if settings.within not in names[:-1]:
            expected = "one of " + ", ".join(names[:-1])
            findings.append(_wrong("within", f"there is no level {settings.within!r}", settings.within, expected))
        elif positions and positions[0] <= names.index(settings.within):
            what = f"nobody can leave {settings.levels[0]!r} and stay within {settings.within!r}"
            findings.append(_wrong("within", what, settings.within, "a level above those of the risk"))
    return findings


def check_settings(spine: Spine, settings: SwapSettings) -> None:
    """Raises if the geography has not what the settings ask of it."""
    findings = check_levels(spine, settings)
    if findings:
        raise ParameterError(findings)


def exact_levels(spine: Spine, settings: SwapSettings) -> tuple[str, ...]:
    """The levels whose units nobody leaves, so that whatever is counted there is as it was."""
    names = [level.name for level in spine.levels]
    if settings.variant == "enhanced":
        limit = (settings.levels or tuple(names[:-1][-len(settings.groups) :]))[0]
        return tuple(names[: names.index(limit) + 1])
    below = 0 if settings.within is None else names.index(settings.within) + 1
    return tuple(level.name for position, level in enumerate(spine.levels) if position < below or level.units == 1)


def _check_carried(people: People, settings: SwapSettings) -> None:
    for name in settings.carry:
        values = people.codes[name][people.members]
        if len(values) and bool((values != values[people.first][people.household[people.members]]).any()):
            raise InputError(
                Finding(
                    code="carried-differs",
                    what=f"members of one household differ in {name!r}, which is to be exchanged with the place",
                    found=CONFIDENTIAL,
                    expected="one value for all members of a household",
                    remedy="correct the records, or take the column out of carry",
                )
            )


def _wrong(name: str, what: str, found: str, expected: str) -> Finding:
    return Finding(f"swapping-{name}", what, Place(path=f"swapping.{name}"), found, expected, f"correct {name}")
