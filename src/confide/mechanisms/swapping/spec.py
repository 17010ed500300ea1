"""The spec of a release of swapped data."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import BeforeValidator, Field, PlainSerializer, ValidationInfo, WithJsonSchema

from confide.documents import FileKind, Part, Problem, load_named, shipped
from confide.errors import NOWHERE, Finding, InputError, ParameterError, Place
from confide.exact import Exact, exact
from confide.inputs import OfficeFiles
from confide.releases import spec
from confide.releases.draft import SPEC, Draft, office_files, office_values, one_of
from confide.releases.tabular import AskedTable, level_problems
from confide.report.rendering import render

NOTHING = "-"
HOUSEHOLD = "household"
"""The column of published records with the numbers of households."""


def _share(value: Any, info: ValidationInfo) -> Fraction:
    return exact(value, info.field_name or "share")


Share = Annotated[
    Fraction,
    BeforeValidator(_share),
    PlainSerializer(str, return_type=str),
    WithJsonSchema(
        {
            "type": ["string", "integer"],
            "pattern": r"^\+?(\d+/\d+|(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?)$",
            "description": 'An exact share or probability: 0, 1, "0.05" or "1/3".',
        }
    ),
]


class SwappingData(spec.DataPart):
    """Where the records are, what they mean, and who lives together."""

    schema_: spec.FilePath = Field(
        alias="schema", description="The schema of the records: a shipped name, or a TOML file."
    )
    household: str = Field(
        "household_id", description="The column with the id of the household; of records in two files `join` says it."
    )
    in_households: dict[str, int | str] = Field(
        default_factory=dict,
        description="Attribute = code of records that live in households; others never move. Default: all do.",
    )
    age: str = Field("age", description="The attribute with the age in years, for profiles with adults.")

    @property
    def household_number(self) -> str:
        """The column that says who lives together."""
        return self.join if self.join is not None and "household" not in self.model_fields_set else self.household


class SwappingPart(spec.Part):
    """Which households are swapped, how many, and with whom. All of it may be a secret."""

    settings: spec.FilePath | None = Field(
        None, description="Shipped settings (light, heavy) or a TOML file; keys that stand here win."
    )
    variant: Literal["targeted", "enhanced", "permutation"] | None = Field(
        None,
        description="targeted: by risk, with a household alike; enhanced: all alike, with a key that has noise; "
        "permutation: by chance, within public strata, with a stated loss.",
    )
    method: Literal["targeted", "enhanced", "permutation"] | None = Field(
        None, description="The same as variant, for those who call it so; give one of the two."
    )
    rate: Share | None = Field(
        None,
        description="The share of households to be moved, both partners counted; permutation: the probability with "
        "which each is selected.",
    )
    levels: list[str] | None = Field(
        None, description="Levels, coarsest first: those of the risk (targeted), or those paired within (enhanced)."
    )
    adult_age: int | None = Field(None, ge=0, le=200, description="From which age on somebody is an adult; 18.")
    carry: list[str] | None = Field(
        None, description="Attributes that belong to the place: they are exchanged together with it."
    )
    risk: list[str] | None = Field(None, description="targeted: the variables that tell people apart.")
    k_anonymity: int | None = Field(
        None,
        ge=0,
        le=1000,
        description="targeted: who shares these with fewer than k people must be swapped; 0: nobody.",
    )
    profiles: list[list[str]] | None = Field(
        None, description="targeted: what partners have in common: size, adults, variables; tried in this order."
    )
    near: bool | None = Field(None, description="targeted: whether partners near by are looked for first; true.")
    within: str | None = Field(None, description="targeted, permutation: a level whose units nobody leaves.")
    key_noise: list[Share] | None = Field(
        None, description="enhanced: the probabilities that -1, 0 and 1 are added to the size of a household."
    )
    groups: list[Share] | None = Field(
        None, description="enhanced: the probabilities to keep the finest unit, or to mix it one, two ... levels up."
    )
    match: list[str] | None = Field(
        None, description="permutation: what the households of a stratum have in common: size, adults, variables."
    )
    largest_stratum: int | None = Field(
        None, ge=0, description="permutation: the most households that a stratum may have; the loss is stated for it."
    )
    publish_rate: bool | None = Field(
        None,
        description="Whether the release states the rate and the other settings; false, and always true for "
        "permutation, whose loss follows from them.",
    )

    def given(self) -> dict[str, Any]:
        """What is in the spec of the settings themselves."""
        values = {
            name: getattr(self, name) for name in self.model_fields_set - {"settings", "publish_rate", "method"}
            if getattr(self, name) is not None
        }  # fmt: skip
        return values if self.method is None else {"variant": self.method} | values


class SwappingTable(AskedTable):
    """One table of the swapped records."""


class SwappingOutput(spec.TabularOutput):
    """What is written."""

    formats: list[Literal["parquet", "csv", "sdmx-csv", "xlsx", "csvw", "registry", "argus", "dta", "sav"]] = Field(  # type: ignore[assignment]
        ["parquet", "csv"],
        min_length=1,
        description="The file formats of the tables: parquet, csv, sdmx-csv; what is made of them for readers: xlsx (a "
        "workbook), csvw (metadata of the W3C), registry (a record for a registry of deployments), argus (files of "
        "tau-ARGUS); and the swapped records for Stata and SPSS, with labels: dta, sav (the extra `formats`).",
    )
    microdata: bool = Field(False, description="Whether the swapped records themselves are published.")
    noise_margin: ClassVar[None] = None  # type: ignore[misc]

    def problems(self, geography: spec.GeographyPart) -> list[spec.Problem]:
        problems = super().problems(geography)
        if {"dta", "sav"} & {*self.formats} and not self.microdata:
            problems.append(spec.Problem.of(("output", "formats"), "no-records/dta"))
        return problems


class SwappingSpec(spec.Spec):
    """Tables of records after some households have exchanged their places."""

    data: SwappingData
    swapping: SwappingPart
    tables: list[SwappingTable] = Field(default_factory=list, description="The tables of the programme.")
    output: SwappingOutput = SwappingOutput()
    privacy: ClassVar[spec.PrivacyPart] = spec.PrivacyPart(ledger=NOTHING, budget=Fraction(1))  # type: ignore[misc]

    def problems(self) -> list[spec.Problem]:
        problems = super().problems()
        if not self.tables and not self.output.microdata:
            problems.append(spec.Problem.of(("tables",), "no-tables/release"))
        if self.swapping.method is not None and self.swapping.variant is not None:
            problems.append(
                spec.Problem.of(
                    ("swapping", "method"),
                    "swapping-variant/method",
                    variant=self.swapping.variant,
                    method=self.swapping.method,
                )
            )
        problems += self._column_names() if self.output.microdata else []
        return [*problems, *level_problems(self.tables, self.geography)]

    def _column_names(self) -> list[spec.Problem]:
        """Levels and areas that would have the name of another column of the published records."""
        geography = self.geography
        named: list[tuple[spec.KeyPath, str]] = [(("geography", "block"), geography.block)]
        named += [(("geography", "levels", i, "name"), level.name) for i, level in enumerate(geography.levels)]
        named += [(("geography", "areas", i, "name"), area.name) for i, area in enumerate(geography.areas)]
        ours = [HOUSEHOLD]
        problems = []
        for path, name in named:
            if name in ours:
                problems.append(spec.Problem.of(path, "reserved-name/published", name=name))
            ours.append(name)
        return problems


def swapping_spec(file: str, tables: Iterable[Mapping[str, object]], **values: str) -> str:
    """The text of a spec of swapped data.

    Args:
        file: The name that the spec will have.
        tables: For each table its ``name``, ``variables`` and ``levels``.
        values: What differs from the draft; ``settings`` names shipped ones, ``method`` a variant; by default
            households are chosen by their risk.

    Returns:
        A commented TOML file.
    """
    named = {"name": "my-swap", "title": "My swapped tables", "records": "persons.parquet", "blocks": "blocks.parquet"}
    return render(
        "swapping.toml.j2",
        **named | {"schema": "persons", "settings": "", "method": "targeted"} | values,
        tables=tables,
        file=file,
    )


def draft_swapping(product: str | None, values: Mapping[str, str]) -> Draft:
    """The spec that ``confide new swapping`` writes."""
    tables = [
        {"name": "population", "variables": ["votingage"], "levels": ["county", "tract", "block"]},
        {"name": "age-by-sex", "variables": ["sex", "age:five-year"], "levels": ["county", "tract"]},
        {"name": "origin", "variables": ["hispanic", "cenrace:major"], "levels": ["county", "tract", "block"]},
    ]
    settings = "" if product is None else one_of("product", product, shipped("swapping"))
    method = values.get("method", "targeted")
    if settings and "method" in values:
        raise ParameterError("product/shipped", product=product, method=method)
    text = swapping_spec(SPEC, tables, **{"settings": settings, "method": method} | dict(values))
    return Draft(text, secret=method != "permutation")


def draft_swapping_from(office: OfficeFiles, folder: Path, values: Mapping[str, str]) -> Draft:
    """The same for an office's own files."""
    if office.household is None:
        raise InputError(
            "no-household/column", where=Place(file=office.records.source.file), columns=len(office.records.columns)
        )
    named = office_values(office, folder, "swapping", values)
    named |= {"household": office.household, "age": None, "risk": [each.variable for each in office.attributes]}
    return Draft(render("own_swapping.toml.j2", **named), files=office_files(office), secret=True)


# The settings of a swap: which households, how many, with whom. Shipped ones are data files, by name.
#
# Three variants. ``targeted`` takes households by their risk and exchanges each with one that is alike in a profile
# (:mod:`confide.mechanisms.swapping.swap`). ``enhanced`` takes all households alike and pairs them by a key that
# may have noise (:mod:`confide.mechanisms.swapping.core`). ``permutation`` selects households of public strata by
# chance and permutes their places, with a stated loss (:mod:`confide.mechanisms.swapping.swap`).


SIZE, ADULTS = "size", "adults"
"""What profiles may name beside variables: how many people, and how many adults a household has."""
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
    """The values in the file; ``where`` is the place that names it."""
    return load_named(name, base or Path(), SwapSettingsFile, kind=SETTINGS, where=where).value.swapping.given()


def settings_problems(settings: SwapSettings) -> Iterable[Finding]:
    """What is wrong with settings, each value by itself being right."""
    if not 0 <= settings.rate <= 1:
        yield Finding.of("swapping-rate/swap", where=Place(path="swapping.rate"), found=str(settings.rate))
    elif settings.variant == "permutation" and settings.rate in (0, 1):
        yield Finding.of("swapping-rate/probability", where=Place(path="swapping.rate"), found=str(settings.rate))
    elif not settings.rate and settings.k_anonymity < 2:
        yield Finding.of("swapping-rate/swapped", where=Place(path="swapping.rate"))
    for name, number in (("key_noise", len(NOISE)), ("groups", None)):
        shares: Sequence[Fraction] = getattr(settings, name)
        if min(shares, default=Fraction(-1)) < 0 or sum(shares) != 1 or number not in (None, len(shares)):
            key = "swapping-key_noise" if number else "swapping-groups"
            found = ", ".join(map(str, shares)) or "none"
            yield Finding.of(key, where=Place(path=f"swapping.{name}"), found=found)
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
            yield Finding.of("swapping-risk/something", where=Place(path="swapping.risk"), name=name)
    if settings.variant == "permutation" and not 2 <= settings.largest_stratum <= MOST_IN_STRATUM:
        yield Finding.of(
            "swapping-largest_stratum",
            where=Place(path="swapping.largest_stratum"),
            largest_stratum=settings.largest_stratum,
        )
    carried = {name.split(":")[0] for name in settings.variables} & set(settings.carry)
    if carried:
        yield Finding.of("swapping-carry", where=Place(path="swapping.carry"), carried=min(carried))


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return str(value) if isinstance(value, Fraction) else value
