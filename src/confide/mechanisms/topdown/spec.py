"""The spec of a TopDown release."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from confide.documents import load_named
from confide.inputs import OfficeFiles
from confide.inputs.column_proposal import free_name
from confide.mechanisms.topdown.build_spine import ENTITY_THRESHOLD, FANOUT, PRIM
from confide.mechanisms.topdown.strategy import Strategy
from confide.mechanisms.topdown.strategy_file import BLOCK, STRATEGY, StrategyFile, load_strategy
from confide.releases.draft import BUDGET, LEDGER, SCHEMA, SPEC, Draft, office_files, office_values, one_of, schema_text
from confide.releases.spec import AreaPart, DataPart, ExplainedOutput, FilePath, GeographyPart, Part, Problem, Spec
from confide.report.rendering import render
from confide.schema import DETAILED, TOTAL


class CountedPart(Part):
    """One column of records that come counted by block: how many records of the block are of this kind."""

    where: dict[str, int | str] = Field(description="The kind: a code for every attribute of the schema.")
    column: str = Field(description="The column with the counts.")
    less: str | None = Field(None, description="A column to take off first: the counts are what is left.")


class TopDownData(DataPart):
    """Where the records and the frame are."""

    counted: list[CountedPart] = Field(
        default_factory=list,
        description="For records that come counted, one row for each block: the columns and what they count. Without "
        "it, the file has one row for each record.",
    )
    presence: list[str] = Field(
        default_factory=list,
        description="Counts of the block table of which only zero or not is used and published, such as persons in "
        "group quarters where facilities are not counted.",
    )

    @property
    def one_row_for_each_block(self) -> bool:
        """Whether the records come counted."""
        return bool(self.counted)


class TopDownArea(AreaPart):
    """Off-spine areas, such as places or districts."""

    optional: bool = Field(False, description="Whether the area may be missing from the block table.")


class TopDownGeography(GeographyPart):
    """The spine and the areas beside it."""

    areas: list[TopDownArea] = Field(default_factory=list, description="Partitions that do not nest in the spine.")  # type: ignore[assignment]


class TopDownPart(Part):
    """What is measured, and along which spine."""

    strategy: FilePath = Field(
        description="The strategy: a shipped name (pl94-persons, pl94-persons-2026, pl94-units, dhc-persons), or a TOML"
        " file."
    )
    root: str | None = Field(None, description="The root of the strategy: us, pr or state; default: the file's own.")
    spine: Literal["optimised", "plain"] = Field(
        "optimised",
        description="optimised: block groups are made around off-spine entities (the areas place, cousub and aiannh, "
        "where they are declared) and group quarters; plain: the levels of the frame as they are.",
    )
    split_aian: bool = Field(
        True, description="Whether units below the root are split by American Indian and Alaska Native areas (aiannh)."
    )
    around: list[str] | None = Field(
        None,
        description="The areas and levels that no made block group is cut by, such as place and the official "
        "block_group; default, as in 2020: county subdivisions in States where these are governments and places "
        "elsewhere (the areas cousub and place, where they are declared).",
    )
    fanout: int = Field(FANOUT, ge=0, le=10_000, description="A made group of n units has about √n + fanout children.")
    entity_threshold: int = Field(
        ENTITY_THRESHOLD, ge=0, le=10_000, description="Tract groups look at entities farther from the spine than this."
    )


MOST_ROWS = 10_000_000
"""The most rows, empty ones with them, that a one- or two-way table has on a level unless the spec says otherwise."""


class TopDownOutput(ExplainedOutput):
    """What is made of the estimates, and where it is written."""

    formats: list[Literal["parquet", "csv", "sdmx-csv", "xlsx", "csvw", "registry", "dta", "sav"]] = Field(  # type: ignore[assignment]
        ["parquet", "csv"],
        min_length=1,
        description="The file formats of records and tables: parquet, csv; and what is made of them for readers: dta "
        "and sav (records for Stata and SPSS, with labels; the extra `formats`), and of the one- and two-way tables "
        "sdmx-csv, xlsx (a workbook), csvw (metadata of the W3C), registry (a record for a registry of deployments).",
    )

    TABLES: ClassVar[tuple[str, ...]] = ("parquet", "csv")

    release_layout: Literal[2] = Field(
        2, description="Records, one- and two-way tables with codes and labels, and files that explain the release."
    )
    crossed_tables: Literal[0, 1, 2] | None = Field(
        None,
        description="2: a table of each variable and one of each pair; 1: of each variable alone; 0: neither. "
        "Variables are the attributes of the schema, and the recodes that the strategy measures. Default: 2, and 0 "
        "where `tables` is an empty list.",
    )
    crossed_rows: int = Field(
        MOST_ROWS,
        ge=1,
        le=10**10,
        description="The most rows, empty ones with them, that such a table may have on a level: where it would have "
        "more, it leaves the level out, and README.txt says so.",
    )
    microdata: list[Literal["records", "mdf"]] | None = Field(
        None,
        description="records: one line for each record, in the codes of the schema; always there. mdf: the same lines "
        "in the layout of the microdata detail file. Default: both where the strategy has a layout.",
    )
    layout: FilePath | None = Field(
        None, description="The layout of mdf: a shipped name, or a TOML file; default: the strategy's own."
    )
    tabulation: FilePath | None = Field(
        None, description="The definitions of the tables: a shipped name, or a TOML file; default: the strategy's own."
    )
    tables: list[str] | None = Field(None, description="The tables that are made; default: all of the tabulation.")
    table_levels: list[str] | None = Field(
        None, description="The levels and areas they are made for; default: all of the frame."
    )
    measurements: bool = Field(
        False, description="Whether the noisy measurements themselves are published too, all that the plan has."
    )
    measurement_layout: Literal[2] = Field(
        2, description="Measurements in the words of the public files of the 2020 Census."
    )

    @property
    def ways(self) -> int:
        """How many variables a table crosses at most: none where the spec asks for no tables at all."""
        if self.crossed_tables is None:
            return 0 if self.tables == [] else 2
        return self.crossed_tables


class TopDownSpec(Spec):
    """Consistent, whole, non-negative records from noisy measurements along a spine (Abowd et al. 2022)."""

    data: TopDownData
    geography: TopDownGeography = TopDownGeography()
    topdown: TopDownPart
    output: TopDownOutput = TopDownOutput()

    def problems(self) -> list[Problem]:
        problems = super().problems()
        for key, value, required in (
            ("definition", self.privacy.definition, "zcdp"),
            ("neighbours", self.privacy.neighbours, "change-one"),
        ):
            if value != required:
                problems.append(
                    Problem.of(("privacy", key), "topdown-definition", found=repr(value), key=key, required=required)
                )
        if self.output.microdata is not None and "records" not in self.output.microdata:
            problems.append(Problem.of(("output", "microdata"), "no-records/asked"))
        return problems + self._table_levels()

    def _table_levels(self) -> list[Problem]:
        geography = self.geography
        names = [
            geography.smallest,
            *(level.name for level in geography.levels),
            *(area.name for area in geography.areas),
        ]
        return [
            Problem.of(
                ("output", "table_levels", position),
                "unknown-level/level",
                found=repr(name),
                name=name,
                names=", ".join(names),
            )
            for position, name in enumerate(self.output.table_levels or [])
            if name not in names
        ]


# The draft of a spec for a strategy that ships.


PRODUCTS = {"pl94-persons": "persons", "pl94-units": "units", "dhc-persons": "persons"}
"""The products of the 2020 Census: strategies that ship, and what they are about."""
OWN_PRODUCTS = {"pl94-persons-2026": "persons"}
"""The same with shares of our own."""
QUARTERS = tuple(f"gq{kind}" for kind in range(1, 8))


def topdown_spec(strategy: Strategy, file: str, *, facilities: str = "", **values: str) -> str:
    """The text of a spec of a product.

    Args:
        strategy: The strategy of the product.
        file: The name that the spec will have.
        facilities: Whether the block table counts facilities (group quarters) by kind.
        values: What differs from the draft: ``name``, ``title``, ``ledger``, ``records``.

    Returns:
        A commented TOML file.
    """
    about = (PRODUCTS | OWN_PRODUCTS)[strategy.id]
    return render(
        "topdown.toml.j2",
        **{"name": about, "title": strategy.title, "ledger": LEDGER, "records": "persons.parquet"} | values,
        strategy=strategy,
        attributes=["geocode", *(attribute.name for attribute in strategy.schema.attributes)],
        counted=about == "units",
        facilities=facilities,
        quarters=QUARTERS,
        budget=str(strategy.budget),
        of_2020=strategy.id in PRODUCTS,
        prims=PRIM in strategy.level_names,
        file=file,
    )


def with_tree_evidence(name: str) -> str:
    """The file of a strategy that ships, with tree evidence.

    >>> 'evidence = "tree"' in with_tree_evidence("pl94-persons")
    True
    """
    text = load_named(name, Path(), StrategyFile, kind=STRATEGY).text
    line = 'definition = "zcdp"\n'
    return text.replace(line, f'{line}evidence = "tree"\n', 1)


# A strategy for an office's own schema: every attribute, and all of them crossed, with one share on every level.


OWN_STRATEGY, FEWER = "strategy.toml", "estimated.toml"


def strategy_files(office: OfficeFiles, named: Mapping[str, Any]) -> dict[str, str]:
    """The files beside a spec of TopDown: schema, strategy and, where a histogram of all attributes would be too large
    for every place, a second schema with those that are estimated.

    Args:
        office: The files, with what is proposed of them.
        named: What the spec is filled with.
    """
    files = office_files(office)
    kept = office.few_attributes
    others = [each for each in office.attributes if each not in kept]
    if others:
        files[FEWER] = schema_text(office.records, kept)
    variables = [free_name(each.name) for each in kept]
    queries = [TOTAL, *(variables if len(variables) > 1 else ()), DETAILED]
    facts = {
        "schema_file": FEWER if others else SCHEMA,
        "not_estimated": [each.name for each in others],
        "queries": queries,
        "chain": variables[0] if len(variables) > 1 else None,
    }
    return files | {OWN_STRATEGY: render("own_strategy.toml.j2", **{**named, **facts})}


def draft_topdown(product: str | None, values: Mapping[str, str]) -> Draft:
    """The spec that ``confide new topdown`` writes."""
    strategy = load_strategy(one_of("product", product or "pl94-persons", PRODUCTS | OWN_PRODUCTS), root="state")
    return Draft(topdown_spec(strategy, **{"file": SPEC} | dict(values)), strategy.budget)


def draft_topdown_from(office: OfficeFiles, folder: Path, values: Mapping[str, str]) -> Draft:
    """The same for an office's own files."""
    named = office_values(office, folder, "topdown", values) | {"schema": False}
    return Draft(
        render("own_topdown.toml.j2", **named),
        Fraction(BUDGET),
        files=strategy_files(office, named | {"level_names": [*named["level_names"][:-1], BLOCK]}),
        secret=True,
    )
