"""The settings of a swap: which households, how many, with whom. Shipped ones are data files, by name.

Two variants. ``targeted`` takes households by their risk and exchanges each with one that is alike in a profile
(:mod:`confide.mechanisms.swapping.targeted`). ``enhanced`` takes all households alike and pairs them by a key that
may have noise (:mod:`confide.mechanisms.swapping.core`).
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

Variant = Literal["targeted", "enhanced"]
SETTINGS = FileKind("swapping", code="swapping-settings", unreadable="bad-swapping", shipped="swapping")
OF_VARIANT: dict[str, tuple[str, ...]] = {
    "targeted": ("risk", "k_anonymity", "profiles", "near", "within"),
    "enhanced": ("key_noise", "groups"),
}
"""What only one of the variants has."""
NOISE = (-1, 0, 1)
"""What may be added to the size of a household in the key of the enhanced variant."""
NO_NOISE = (Fraction(0), Fraction(1), Fraction(0))


@dataclass(frozen=True, kw_only=True)
class SwapSettings:
    """Everything that decides a swap but the people and the key. Rates and probabilities are exact."""

    variant: Variant
    rate: Fraction
    """The share of households that are to be moved, both partners counted."""
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

    @property
    def kept(self) -> tuple[str, ...]:
        """What two partners always have in common, so that no block's count of it changes.

        What a variable says of a household is how many members are in each of its groups; their sum is the size.
        """
        if self.variant == "enhanced":
            return (SIZE,) if self.key_noise == NO_NOISE else ()
        common = [set(profile) | ({SIZE} if set(profile) - {ADULTS} else set()) for profile in self.profiles]
        shared = set.intersection(*common)
        return tuple(sorted(shared, key=lambda name: ({SIZE: 0, ADULTS: 1}.get(name, 2), name)))

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables of persons that it looks at, each once."""
        if self.variant == "enhanced":
            return ()
        named = [*self.risk, *(name for profile in self.profiles for name in profile)]
        return tuple(dict.fromkeys(name for name in named if name not in (SIZE, ADULTS)))

    @property
    def needs_age(self) -> bool:
        return self.variant == "targeted" and any(ADULTS in profile for profile in self.profiles)

    def as_dict(self) -> dict[str, Any]:
        """The settings of the variant, as plain values; exact numbers as text."""
        other = {name for variant, names in OF_VARIANT.items() if variant != self.variant for name in names}
        return {field.name: _plain(getattr(self, field.name)) for field in fields(self) if field.name not in other}

    @property
    def fingerprint(self) -> bytes:
        """SHA-256 of them."""
        text = json.dumps(self.as_dict(), sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(b"confide/swapping/settings/v1" + text.encode()).digest()


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
        variant: ``targeted`` or ``enhanced``.
        rate: The share of households to be moved, both partners counted; exact, never a float.
        key_noise: Enhanced: the probabilities that -1, 0 and 1 are added to the size of a household.
        groups: Enhanced: the probabilities to keep the finest unit, or to mix it one, two ... levels up.
        rest: The other fields of :class:`SwapSettings`.

    Raises:
        ParameterError: With every problem at once.

    >>> swap_settings(variant="targeted", rate="0.05", risk=["age", "sex"]).rate
    Fraction(1, 20)
    """
    if variant not in get_args(Variant):
        raise ParameterError(_wrong("variant", "there is no such variant", repr(variant), "targeted or enhanced"))
    lists: dict[str, Any] = {name: tuple(rest[name]) for name in ("levels", "carry", "risk") if name in rest}
    if "profiles" in rest:
        lists["profiles"] = tuple(tuple(profile) for profile in rest["profiles"])
    settings = SwapSettings(
        variant=variant,  # type: ignore[arg-type]
        rate=exact(rate, "rate"),
        key_noise=tuple(exact(p, "key_noise") for p in key_noise),
        groups=tuple(exact(p, "groups") for p in groups),
        **rest | lists,
    )
    findings = list(_problems(settings))
    if findings:
        raise ParameterError(findings)
    return settings


class SwapSettingsPart(SwappingPart):
    """``[swapping]`` in a settings file: what decides a swap, and nothing about its release."""

    settings: ClassVar[None] = None  # type: ignore[misc]
    publish_rate: ClassVar[bool] = False  # type: ignore[misc]


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
        Problem(
            ("swapping", key), "missing-key", f"{key!r} is missing", f"a value for swapping.{key}", "nothing", "add it"
        )
        for key in ("variant", "rate")
        if key not in values
    )
    return swap_settings(**values)


def settings_values(name: str, base: Path | None = None, where: Place = NOWHERE) -> dict[str, Any]:
    """The values that stand in the file; ``where`` is the place that names it."""
    return load_named(name, base or Path(), SwapSettingsFile, kind=SETTINGS, where=where).value.swapping.given()


def _problems(settings: SwapSettings) -> Iterable[Finding]:
    if not 0 <= settings.rate <= 1:
        yield _wrong("rate", "the swap rate is no share", str(settings.rate), 'a share such as "0.05"')
    elif not settings.rate and settings.k_anonymity < 2:
        yield _wrong("rate", "nobody would be swapped", "a rate of zero", "a rate, or k_anonymity of 2 or more")
    for name, number in (("key_noise", len(NOISE)), ("groups", None)):
        shares: Sequence[Fraction] = getattr(settings, name)
        if min(shares, default=Fraction(-1)) < 0 or sum(shares) != 1 or number not in (None, len(shares)):
            found = ", ".join(map(str, shares)) or "none"
            expected = "probabilities of -1, 0 and 1 with the sum one" if number else "probabilities with the sum one"
            yield _wrong(name, f"{name} is no list of probabilities", found, expected)
    if settings.k_anonymity < 0:
        yield _wrong("k_anonymity", "k_anonymity is negative", str(settings.k_anonymity), "0 for none, or a threshold")
    if settings.variant == "targeted":
        if not settings.profiles or not all(settings.profiles):
            yield _wrong("profiles", "a profile is empty, or there is none", "nothing", '[["size", "adults"]]')
        if not settings.risk:
            yield _wrong("risk", "no variable says who is at risk", "none", "at least one variable")
    carried = {name.split(":")[0] for name in settings.variables} & set(settings.carry)
    if carried:
        what = f"{min(carried)!r} belongs to the place and cannot say which households are alike"
        yield _wrong("carry", what, min(carried), "columns that neither risk nor profiles name")


def _wrong(name: str, what: str, found: str, expected: str) -> Finding:
    return Finding(f"swapping-{name}", what, Place(path=f"swapping.{name}"), found, expected, f"correct {name}")


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return str(value) if isinstance(value, Fraction) else value
