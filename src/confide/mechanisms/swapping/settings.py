"""The settings of a swap: which households, how many, with whom. Shipped ones are data files, by name.

Three variants. ``targeted`` takes households by their risk and exchanges each with one that is alike in a profile
(:mod:`confide.mechanisms.swapping.swap`). ``enhanced`` takes all households alike and pairs them by a key that
may have noise (:mod:`confide.mechanisms.swapping.core`). ``permutation`` selects households of public strata by chance
and permutes their places, with a stated loss (:mod:`confide.mechanisms.swapping.permutation`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

from confide.documents import FileKind, Part, Problem, load_named
from confide.errors import NOWHERE, Finding, ParameterError, Place
from confide.exact import Exact, exact
from confide.mechanisms.swapping.people import ADULTS, SIZE
from confide.mechanisms.swapping.spec import SwappingPart

Variant = Literal["targeted", "enhanced", "permutation"]
SETTINGS = FileKind("swapping", code="swapping-settings", unreadable="bad-swapping", shipped="swapping")
OF_VARIANT: dict[str, tuple[str, ...]] = {
    "targeted": ("levels", "risk", "k_anonymity", "profiles", "near", "within"),
    "enhanced": ("levels", "key_noise", "groups"),
    "permutation": ("match", "within", "largest_stratum"),
}
"""What not all of the variants have."""
MOST_IN_STRATUM = 10**12
"""More households are in no stratum of this world."""
NOISE = (-1, 0, 1)
"""What may be added to the size of a household in the key of the enhanced variant."""
NO_NOISE = (Fraction(0), Fraction(1), Fraction(0))


@dataclass(frozen=True, kw_only=True)
class SwapSettings:
    """Everything that decides a swap but the people and the key. Rates and probabilities are exact."""

    variant: Variant
    rate: Fraction
    """The share of households that are to be moved, both partners counted. Permutation: the probability with which each
    is selected."""
    levels: tuple[str, ...] = ()
    """Targeted: the levels that risk is looked at on, coarsest first. Enhanced: those that are paired within. None: all
    that there are."""
    adult_age: int = 18
    carry: tuple[str, ...] = ()
    """Columns that belong to the place, not to the people: they are exchanged together with it."""
    risk: tuple[str, ...] = ()
    k_anonymity: int = 0
    profiles: tuple[tuple[str, ...], ...] = ((SIZE, ADULTS),)
    near: bool = True
    within: str | None = None
    key_noise: tuple[Fraction, ...] = NO_NOISE
    groups: tuple[Fraction, ...] = (Fraction(1), Fraction(0), Fraction(0))
    match: tuple[str, ...] = (SIZE, ADULTS)
    """Permutation: what all households of a stratum have in common."""
    largest_stratum: int = 0
    """Permutation: no stratum may have more households than this; the loss depends on it."""

    @property
    def profiles_used(self) -> tuple[tuple[str, ...], ...]:
        """What households that exchange their places have in common: one of these lists."""
        return {"targeted": self.profiles, "enhanced": (), "permutation": (self.match,)}[self.variant]

    @property
    def kept(self) -> tuple[str, ...]:
        """What two partners always have in common, so that no block's count of it changes.

        What a variable says of a household is how many members are in each of its groups; their sum is the size.
        """
        if self.variant == "enhanced":
            return (SIZE,) if self.key_noise == NO_NOISE else ()
        common = [set(profile) | ({SIZE} if set(profile) - {ADULTS} else set()) for profile in self.profiles_used]
        shared = set.intersection(*common)
        return tuple(sorted(shared, key=lambda name: ({SIZE: 0, ADULTS: 1}.get(name, 2), name)))

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables of persons that it looks at, each once."""
        risk = self.risk if self.variant == "targeted" else ()
        named = [*risk, *(name for profile in self.profiles_used for name in profile)]
        return tuple(dict.fromkeys(name for name in named if name not in (SIZE, ADULTS)))

    @property
    def needs_age(self) -> bool:
        return any(ADULTS in profile for profile in self.profiles_used)

    def as_dict(self) -> dict[str, Any]:
        """The settings of the variant, as plain values; exact numbers as text."""
        other = foreign_to(self.variant)
        return {field.name: _plain(getattr(self, field.name)) for field in fields(self) if field.name not in other}

    @property
    def fingerprint(self) -> bytes:
        """SHA-256 of them."""
        text = json.dumps(self.as_dict(), sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(b"confide/swapping/settings/v1" + text.encode()).digest()


def foreign_to(variant: str) -> list[str]:
    """The settings that a variant does not have, and others do."""
    named = dict.fromkeys(name for names in OF_VARIANT.values() for name in names)
    return [name for name in named if name not in OF_VARIANT[variant]]


def swap_settings(
    *,
    variant: str,
    rate: Exact,
    key_noise: Iterable[Exact] = (0, 1, 0),
    groups: Iterable[Exact] = (1, 0, 0),
    **rest: Any,
) -> SwapSettings:
    """Settings from values as people write them.

    Args:
        variant: ``targeted``, ``enhanced`` or ``permutation``.
        rate: The share of households to be moved, both partners counted, or the probability that one is selected;
            exact, never a float.
        key_noise: Enhanced: the probabilities that -1, 0 and 1 are added to the size of a household.
        groups: Enhanced: the probabilities to keep the finest unit, or to mix it one, two ... levels up.
        rest: The other fields of :class:`SwapSettings`.

    Raises:
        ParameterError: With every problem at once.

    >>> swap_settings(variant="targeted", rate="0.05", risk=["age", "sex"]).rate
    Fraction(1, 20)
    """
    if variant not in get_args(Variant):
        raise ParameterError(
            "swapping-variant/correct",
            where=Place(path="swapping.variant"),
            found=repr(variant),
            expected=", ".join(get_args(Variant)),
        )
    lists: dict[str, Any] = {name: tuple(rest[name]) for name in ("levels", "carry", "risk", "match") if name in rest}
    if "profiles" in rest:
        lists["profiles"] = tuple(tuple(profile) for profile in rest["profiles"])
    settings = SwapSettings(
        variant=variant,  # type: ignore[arg-type]
        rate=exact(rate, "rate"),
        key_noise=tuple(exact(p, "key_noise") for p in key_noise),
        groups=tuple(exact(p, "groups") for p in groups),
        **rest | lists,
    )
    findings = list(settings_problems(settings))
    if findings:
        raise ParameterError(findings)
    return settings


class SwapSettingsPart(SwappingPart):
    """``[swapping]`` in a settings file: what decides a swap, and nothing about its release."""

    settings: ClassVar[None] = None  # type: ignore[misc]
    publish_rate: ClassVar[None] = None  # type: ignore[misc]


class SwapSettingsFile(Part):
    """A settings file."""

    id: str = ""
    title: str = ""
    provenance: str = ""
    swapping: SwapSettingsPart


def load_settings(name: str, base: Path | None = None, **changes: Any) -> SwapSettings:
    """The settings shipped under a name, or those of a TOML file.

    Args:
        name: ``light``, ``heavy``, or the path of a file with a table ``[swapping]``.
        base: The folder that a path is relative to.
        changes: Fields of :class:`SwapSettings` that win over the file's.

    >>> load_settings("light", rate="0.01").rate
    Fraction(1, 100)
    """
    loaded = load_named(name, base or Path(), SwapSettingsFile, kind=SETTINGS)
    values = loaded.value.swapping.given() | changes
    loaded.refuse(
        Problem.of(("swapping", key), "missing-key/value", key=key) for key in ("variant", "rate") if key not in values
    )
    return swap_settings(**values)


def settings_values(name: str, base: Path | None = None, where: Place = NOWHERE) -> dict[str, Any]:
    """The values that stand in the file; ``where`` is the place that names it."""
    return load_named(name, base or Path(), SwapSettingsFile, kind=SETTINGS, where=where).value.swapping.given()


def settings_problems(settings: SwapSettings) -> Iterable[Finding]:
    """What is wrong with settings, each value by itself being right."""
    if not 0 <= settings.rate <= 1:
        yield Finding.of("swapping-rate/swap", where=Place(path="swapping.rate"), found=str(settings.rate))
    elif settings.variant == "permutation" and settings.rate in (0, 1):
        expected = 'a probability above zero and below one, such as "0.1"'
        yield Finding.of("swapping-rate/probability", where=Place(path="swapping.rate"), found=str(settings.rate))
    elif not settings.rate and settings.k_anonymity < 2:
        yield Finding.of("swapping-rate/swapped", where=Place(path="swapping.rate"))
    for name, number in (("key_noise", len(NOISE)), ("groups", None)):
        shares: Sequence[Fraction] = getattr(settings, name)
        if min(shares, default=Fraction(-1)) < 0 or sum(shares) != 1 or number not in (None, len(shares)):
            found = ", ".join(map(str, shares)) or "none"
            expected = "probabilities of -1, 0 and 1 with the sum one" if number else "probabilities with the sum one"
            yield _wrong(name, f"{name} is no list of probabilities", found, expected)
    if settings.k_anonymity < 0:
        yield Finding.of(
            "swapping-k_anonymity", where=Place(path="swapping.k_anonymity"), found=str(settings.k_anonymity)
        )
    if settings.variant == "targeted":
        if not settings.profiles or not all(settings.profiles):
            yield Finding.of("swapping-profiles", where=Place(path="swapping.profiles"))
        if not settings.risk:
            yield Finding.of("swapping-risk/variable", where=Place(path="swapping.risk"))
        for name in (name for name in settings.risk if name in (SIZE, ADULTS)):
            yield Finding.of("swapping-risk/something", where=Place(path="swapping.risk"), found=name, name=name)
    if settings.variant == "permutation" and not 2 <= settings.largest_stratum <= MOST_IN_STRATUM:
        found = str(settings.largest_stratum) if settings.largest_stratum else "nothing"
        expected = "the most households that a stratum may have, from 2 on: the loss is stated for that"
        yield Finding.of(
            "swapping-largest_stratum",
            where=Place(path="swapping.largest_stratum"),
            largest_stratum=settings.largest_stratum,
        )
    carried = {name.split(":")[0] for name in settings.variables} & set(settings.carry)
    if carried:
        yield Finding.of("swapping-carry", where=Place(path="swapping.carry"), found=min(carried), carried=min(carried))


def _wrong(name: str, what: str, found: str, expected: str) -> Finding:
    return Finding(f"swapping-{name}", what, Place(path=f"swapping.{name}"), found, expected, f"correct {name}")


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return str(value) if isinstance(value, Fraction) else value
