"""The spec of a release by cell suppression."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
from pydantic import Field

from confide.arrays import Integers
from confide.inputs import OfficeFiles
from confide.mechanisms.suppression.problem import MOST, Weights
from confide.mechanisms.suppression.structure import Flags
from confide.mechanisms.suppression.suppress import Method, Zeros
from confide.releases.draft import SPEC, Draft, no_product, office_files, office_values
from confide.releases.spec import DataPart, ExactNumber, FilePath, Part, PrivacyPart, Problem, Spec, TabularOutput
from confide.releases.tabular import AskedTable, level_problems, masked
from confide.report.rendering import render

NOTHING = "-"


class SuppressionData(DataPart):
    """Where the records are, what they mean, and what is added up."""

    records: FilePath = Field(
        NOTHING, description="The confidential records: a Parquet or CSV file, relative to the spec."
    )
    schema_: FilePath = Field(
        NOTHING, alias="schema", description="The schema of the records: a shipped name, or a TOML file."
    )
    tables: FilePath | None = Field(
        None,
        description="In place of records: tables of cells that are to be protected, by their description (TOML), a CSV "
        "or Parquet file, or the metadata of tau-ARGUS (.rda).",
    )
    blocks: FilePath = Field(NOTHING, description="The block table of the frame; needed where a table has levels.")
    value: str | None = Field(
        None, description="A column of exact numbers: its sums are published in place of counts (magnitude tables)."
    )
    unit: ExactNumber = Field(Fraction(1), description="Every value is a multiple of this: 1/100 for cents.")
    below_zero: ExactNumber | None = Field(
        None, description="Values may be negative, down to minus this, as everybody knows; without it, none may be."
    )
    contributor: str | None = Field(
        None, description="Magnitudes: a column that says whose a record is; without it, each is somebody else's."
    )
    weight: str | None = Field(
        None, description="Magnitudes: a column of sampling weights; a record counts weight times value."
    )
    weight_unit: ExactNumber = Field(Fraction(1), description="Every weight is a multiple of this.")

    @property
    def figure_unit(self) -> Fraction:
        """What every published figure is a multiple of."""
        return self.unit * (self.weight_unit if self.weight is not None else 1)


class DominancePart(Part):
    """The (n, k) rule."""

    n: int = Field(ge=1, le=10, description="So many of the largest contributions ...")
    k: ExactNumber = Field(description="... must not be more than this percentage of a cell.")


class SuppressionPart(Part):
    """Which cells are primary, how they are protected, and at whose expense."""

    threshold: int | None = Field(
        None, ge=1, le=1_000, description="Cells with at most so many records, and at least one, are primary."
    )
    zeros: Zeros = Field(
        "secondary",
        description="published: zeros are never hidden; secondary: they may be, to protect others; primary: they must.",
    )
    lower: int = Field(0, ge=0, description="How far below a small count an attacker's interval must reach.")
    singletons: bool = Field(
        True, description="Whether someone who knows a cell, being its one record, is kept from knowing others by it."
    )
    weights: Weights = Field("log", description="What hiding a cell costs: 1, its value, or log(1 + value).")
    method: Method = Field("auto", description="How the other hidden cells are chosen; auto: by the number of cells.")
    keep: list[str] = Field(
        default_factory=list, description="Margins that are never hidden unless primary, such as total or sex."
    )
    dominance: DominancePart | None = Field(None, description="Magnitudes: the (n, k) rule.")
    p: ExactNumber | None = Field(None, description="Magnitudes: the p % rule; with q, the pq rule.")
    q: ExactNumber | None = Field(None, description="What is known beforehand of each contribution, in percent.")
    range: ExactNumber = Field(
        Fraction(10), description="Magnitudes: how far, in percent, cells below the threshold are protected."
    )


class SuppressionTable(AskedTable):
    """One table."""

    margins: ClassVar[None] = None  # type: ignore[misc]
    variables: list[str] = Field(
        description="The variables crossed; recodes of one attribute that nest make a hierarchy."
    )
    levels: list[str] = Field(default_factory=list, description="The geolevels the table is published for.")


class SuppressionOutput(TabularOutput):
    """What is written."""

    noise_margin: ClassVar[None] = None  # type: ignore[misc]


class SuppressionSpec(Spec):
    """Tables from which cells are left out so that small ones cannot be worked out from the rest."""

    data: SuppressionData
    suppression: SuppressionPart
    tables: list[SuppressionTable] = Field(default_factory=list)
    output: SuppressionOutput = SuppressionOutput()
    privacy: ClassVar[PrivacyPart] = PrivacyPart(ledger=NOTHING, budget=Fraction(1))  # type: ignore[misc]

    def problems(self) -> list[Problem]:
        problems = super().problems() + self._rules() + self._source()
        problems += level_problems(self.tables, self.geography, nested=True)
        problems += [
            Problem.of(("tables", position, "variables"), "repeated-variable", name=twice)
            for position, table in enumerate(self.tables)
            for twice in dict.fromkeys(name for name in table.variables if table.variables.count(name) > 1)
        ]
        if any(table.levels for table in self.tables) and self.data.blocks == NOTHING:
            problems.append(Problem.of(("data", "blocks"), "no-blocks/tables"))
        return problems

    def _source(self) -> list[Problem]:
        """Either records with a schema and tables of them, or tables as they are."""
        given, data = self.data.tables is not None, self.data.model_fields_set
        if not given:
            lacking = [key for key in ("records", "schema") if (key if key == "records" else "schema_") not in data]
            problems = [Problem.of(("data", key), "missing-key/nothing", key=key) for key in lacking]
            if not self.tables:
                problems.append(Problem.of(("tables",), "missing-key/tables"))
            return problems
        beside = sorted(data & {"records", "schema_", "blocks", "value"})
        problems = [Problem.of(("data", key.rstrip("_")), "tables-given/cells", found=key) for key in beside]
        if self.tables:
            problems.append(Problem.of(("tables",), "tables-given/data", tables=len(self.tables)))
        return problems

    def _rules(self) -> list[Problem]:
        part = self.suppression
        problems = []
        magnitude = sorted(part.model_fields_set & {"dominance", "p", "q", "range"})
        given = self.data.tables is not None  # whether these are magnitudes is seen when they are read
        if self.data.value is None and magnitude and not given:
            problems.append(
                Problem.of(("suppression", magnitude[0]), "magnitude-rule/belongs-tables", magnitude=magnitude[0])
            )
        if self.data.value is not None and "lower" in part.model_fields_set:
            problems.append(Problem.of(("suppression", "lower"), "count-rule"))
        problems += self._units()
        if part.threshold is None and part.dominance is None and part.p is None and not given:
            problems.append(Problem.of(("suppression",), "no-rule/none"))
        for name, number in (("p", part.p), ("q", part.q), ("range", part.range)):
            if number is not None and number > MOST:
                problems.append(Problem.of(("suppression", name), "percentage/most", found=str(number), name=name))
        if part.dominance is not None and part.dominance.k >= MOST:
            problems.append(
                Problem.of(("suppression", "dominance", "k"), "percentage/contributions", found=str(part.dominance.k))
            )
        if part.p == MOST and part.q is None:
            problems.append(Problem.of(("suppression", "p"), "percentage/beforehand", found=str(part.p)))
        if part.q is not None and (part.p is None or part.p >= part.q):
            problems.append(Problem.of(("suppression", "q"), "pq-rule", found=str(part.q)))
        if part.zeros == "primary" and part.threshold is None:
            problems.append(Problem.of(("suppression", "zeros"), "zeros/primary", found=part.zeros))
        return problems

    def _units(self) -> list[Problem]:
        """What is said of values, and fits neither each other nor decimals."""
        data, problems = self.data, []
        of_records = {"below_zero", "contributor", "weight", "weight_unit"}
        # Of tables as input a unit may be declared: whether they are magnitudes is seen when they are read.
        of_records |= set() if data.tables is not None else {"unit"}
        given = sorted(data.model_fields_set & of_records)
        if data.value is None and given:
            problems.append(Problem.of(("data", given[0]), "magnitude-rule/data-value-beside", given=given[0]))
        for name, unit in (("unit", data.unit), ("weight_unit", data.weight_unit)):
            digits = digits_of(unit)
            if digits is None or digits > MOST_DIGITS:
                problems.append(Problem.of(("data", name), "unit/multiples", found=str(unit), most_digits=MOST_DIGITS))
        if "weight_unit" in data.model_fields_set and data.weight is None and data.value is not None:
            problems.append(Problem.of(("data", "weight_unit"), "unit/weight"))
        if data.below_zero is not None and (data.below_zero / data.unit).denominator != 1:
            problems.append(
                Problem.of(("data", "below_zero"), "unit/below", found=str(data.below_zero), unit=data.unit)
            )
        if data.below_zero is not None and self.suppression.zeros == "published":
            problems.append(Problem.of(("suppression", "zeros"), "zeros/values", found=self.suppression.zeros))
        return problems


def suppression_spec(file: str, tables: Iterable[Mapping[str, object]], **values: str) -> str:
    """The text of a spec of tables with suppressed cells.

    Args:
        file: The name that the spec will have.
        tables: For each table its ``name``, ``variables`` and ``levels``.
        values: What differs from the draft: ``name``, ``title``, ``records``, ``blocks``, ``schema``.

    Returns:
        A commented TOML file.
    """
    named = {"name": "my-tables", "title": "My tables", "records": "persons.parquet", "blocks": "blocks.parquet"}
    return render("suppression.toml.j2", **named | {"schema": "persons"} | values, tables=tables, file=file)


def draft_suppression(product: str | None, values: Mapping[str, str]) -> Draft:
    """The spec that ``confide new suppression`` writes."""
    no_product("suppression", product)
    ages = ["sex", "age:ten-year", "age:five-year"]
    tables = [
        {"name": "age-by-sex", "variables": ages, "levels": ["state", "county"]},
        {"name": "origin", "variables": ["hispanic", "cenrace:major"], "levels": ["state", "county", "tract"]},
    ]
    return Draft(suppression_spec(SPEC, tables, **values))


def draft_suppression_from(office: OfficeFiles, folder: Path, values: Mapping[str, str]) -> Draft:
    """The same for an office's own files."""
    text = render("own_suppression.toml.j2", **office_values(office, folder, "suppression", values))
    return Draft(text, files=office_files(office), secret=True)


# The units of figures: whole numbers inside, exact decimals outside, never a float.
#
# Values are whole multiples of a declared unit, 1/100 for cents; weights likewise of theirs. Inside, everything is a
# number of units; what is published is that number times the unit, as a whole number or as a decimal with just enough
# digits.
#
# >>> published_figures(np.array([150, -5]), Fraction(1, 100)).to_pylist() [Decimal('1.50'), Decimal('-0.05')]


MOST_DIGITS = 9
"""More digits after the point than this are not read."""

WIDEST = 38
"""Digits of a decimal, before and after the point together."""


def digits_of(unit: Fraction) -> int | None:
    """The digits after the point that multiples of a unit need; None where no number of digits is enough.

    >>> digits_of(Fraction(1, 4)), digits_of(Fraction(1000)), digits_of(Fraction(1, 3))
    (2, 0, None)
    """
    return next((k for k in range(2 * MOST_DIGITS + 1) if (unit * 10**k).denominator == 1), None)


def figure_type(unit: Fraction) -> pa.DataType:
    """The type of a column of figures."""
    digits = _digits(unit)
    return pa.decimal128(WIDEST, digits) if digits else pa.int64()


def published_figures(units: Integers, unit: Fraction, missing: Flags | None = None) -> pa.Array:
    """Figures as they are published, from numbers of units; nothing where ``missing``."""
    digits, kind = _digits(unit), figure_type(unit)
    if not digits:
        return masked(units * int(unit), missing, kind)
    step = int(unit * 10**digits)
    gone = np.zeros(len(units), np.bool_) if missing is None else missing
    # A decimal is made of its digits: nothing is rounded on the way.
    values = [
        None if absent else Decimal((int(number < 0), tuple(map(int, str(abs(number * step)))), -digits))
        for number, absent in zip(units.tolist(), gone.tolist(), strict=True)
    ]
    return pa.array(values, kind)


def units_of(figures: pa.Array, unit: Fraction) -> Integers | None:
    """The numbers of units that published figures are; None where one is no whole number of them. Gaps are zero."""
    if unit == 1:
        return np.asarray(figures.fill_null(0).to_numpy(zero_copy_only=False), np.int64)
    # A Fraction holds any decimal exactly, whatever its digits.
    numbers = [Fraction(0 if figure is None else figure) / unit for figure in figures.to_pylist()]
    if any(number.denominator != 1 for number in numbers):
        return None
    return np.array([int(number) for number in numbers], np.int64)


def in_unit(units: int, unit: Fraction) -> int | float:
    """A number of units for a report: whole where it is."""
    figure = units * unit
    return int(figure) if figure.denominator == 1 else float(figure)


def _digits(unit: Fraction) -> int:
    digits = digits_of(unit)
    assert digits is not None, "the spec has units with digits"
    return digits
