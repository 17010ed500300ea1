"""The spec of a release of swapped data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, ValidationInfo, WithJsonSchema

from confide.documents import shipped
from confide.errors import InputError, ParameterError, Place
from confide.exact import exact
from confide.inputs.proposals import OfficeFiles
from confide.releases import spec
from confide.releases.draft import SPEC, Draft, office_files, office_values, one_of
from confide.report.render import render

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
    household: str = Field("household_id", description="The column with the id of the household.")
    in_households: dict[str, int | str] = Field(
        default_factory=dict,
        description="Attribute = code of records that live in households; others never move. Default: all do.",
    )
    age: str = Field("age", description="The attribute with the age in years, for profiles with adults.")


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
        """What stands in the spec of the settings themselves."""
        values = {
            name: getattr(self, name) for name in self.model_fields_set - {"settings", "publish_rate", "method"}
            if getattr(self, name) is not None
        }  # fmt: skip
        return values if self.method is None else {"variant": self.method} | values


class SwappingTable(spec.Part):
    """One table of the swapped records."""

    name: spec.Name = Field(description="The name of the table, and of its file.")
    title: str = Field("", max_length=200, description="A title for people.")
    variables: list[str] = Field(
        description="The variables crossed: attributes of the schema, or recodes such as age:five-year."
    )
    levels: list[str] = Field(min_length=1, description="The geolevels and areas the table is published for.")
    margins: Literal["all", "none"] = Field("all", description="all: every margin too; none: the inner cells alone.")


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
    """Tables of records of which some households have exchanged their places."""

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
        known = [
            self.geography.smallest,
            *(level.name for level in self.geography.levels),
            *(a.name for a in self.geography.areas),
        ]
        for position, table in enumerate(self.tables):
            for place, level in enumerate(table.levels):
                path: spec.KeyPath = ("tables", position, "levels", place)
                if level not in known:
                    problems.append(
                        spec.Problem.of(
                            path, "unknown-level/correct-spec", found=repr(level), level=level, known=", ".join(known)
                        )
                    )
                elif level in table.levels[:place]:
                    problems.append(spec.Problem.of(path, "repeated-level/stands-twice", found=level, level=level))
        return problems

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
                problems.append(spec.Problem.of(path, "reserved-name/published", found=repr(name), name=name))
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
