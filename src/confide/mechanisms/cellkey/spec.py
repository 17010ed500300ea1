"""The spec of a release by the cell key method."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from confide.mechanisms.cellkey.lookups import BIG_N, MOST_COLUMNS, ROWS, SIZE, SMALL_N
from confide.releases.spec import DataPart, ExactNumber, Name, OutputPart, Part, PrivacyPart, Problem, Spec
from confide.report.render import render

NOTHING = "-"
_SHUFFLE = r"^[0-9a-f]{64}$"
LARGEST_KEYS = 1 << 32
"""Key sums of a million records at a time stay exact in the arithmetic that is used."""


class CellKeyData(DataPart):
    """Where the records are, what they mean, and which column holds their keys."""

    records: str = Field(description="The confidential records: a Parquet or CSV file, relative to the spec.")
    schema_: str = Field(alias="schema", description="The schema of the records: a shipped name, or a TOML file.")
    record_key: str = Field("record_key", description="The column with the key of each record, drawn once for ever.")
    weight: str | None = Field(None, description="A column of weights: counts are then also published weighted.")
    blocks: ClassVar[str] = NOTHING  # type: ignore[misc]
    block_columns: ClassVar[dict[str, str]] = {}  # type: ignore[misc]


class CellKeyPart(Part):
    """The perturbation table, by its parameters or as a file, and how it is looked up."""

    D: int | None = Field(None, ge=1, le=100, description="The largest noise, up or down.")
    V: ExactNumber | None = Field(None, description="The variance of the noise.")
    js: int = Field(0, ge=0, le=99, description="Small counts, from 1 to js, are never published.")
    pstay: ExactNumber | None = Field(None, description="The least probability with which a count is left as it is.")
    ptable: str | None = Field(None, description="Or: a table as a file, in the form of tau-ARGUS, SAS, ONS or CSV.")
    keys: int = Field(10**8, ge=2, le=LARGEST_KEYS, description="Record keys are whole numbers from 0 to below this.")
    pieces: ExactNumber | None = Field(
        None, description="The table is cut into pieces of this probability, in an order that shuffle decides."
    )
    shuffle: Annotated[str, Field(pattern=_SHUFFLE)] | None = Field(
        None, description="The secret order of the pieces: 64 hexadecimal digits, drawn once like the keys."
    )
    threshold: int | None = Field(None, ge=1, description="Published counts below it are left out, as ONS does.")
    lookup: Literal["ess", "abs"] = Field(
        "ess", description="ess: by intervals of the cell key; abs: by its bytes, in 256 values drawn beforehand."
    )
    big_n: int = Field(BIG_N, ge=ROWS, le=LARGEST_KEYS, description="abs: cell keys are sums modulo this prime.")
    small_n: int = Field(SMALL_N, ge=1, le=1000, description="abs: so many columns are shared by all larger counts.")
    table_size: int = Field(SIZE, ge=2, le=MOST_COLUMNS, description="abs: columns of the table made from D and V.")


class CellKeyTable(Part):
    """One table of the programme."""

    name: Name = Field(description="The name of the table, and of its file.")
    title: str = Field("", max_length=200, description="A title for people.")
    variables: list[str] = Field(
        description="The variables crossed: attributes of the schema, or recodes such as age:five-year."
    )
    margins: Literal["all", "none"] = Field("all", description="all: every margin too; none: the inner cells alone.")


class CellKeyOutput(OutputPart):
    """What is written."""

    formats: list[Literal["parquet", "csv", "sdmx-csv"]] = Field(  # type: ignore[assignment]
        ["parquet", "csv"], min_length=1, description="The file formats of the tables."
    )
    agency: str = Field("CONFIDE", pattern=r"^[A-Za-z][A-Za-z0-9_-]*$", description="The agency in SDMX-CSV.")
    noise_margin: ClassVar[None] = None  # type: ignore[misc]


class CellKeySpec(Spec):
    """Tables whose counts are perturbed by a key of their members, always by the same for the same members."""

    data: CellKeyData
    cellkey: CellKeyPart
    tables: list[CellKeyTable] = Field(min_length=1)
    output: CellKeyOutput = CellKeyOutput()
    privacy: ClassVar[PrivacyPart] = PrivacyPart(ledger=NOTHING, budget=Fraction(1))  # type: ignore[misc]

    def problems(self) -> list[Problem]:
        problems = super().problems()
        if self.geography.model_fields_set:
            what = "the cell key method has no [geography]: areas are variables of the schema like others"
            problems.append(Problem(("geography",), "geography", what, "no such part", remedy="remove it"))
        part = self.cellkey
        parameters = part.D is not None or part.V is not None or part.js > 0 or part.pstay is not None
        if parameters if part.ptable is not None else part.D is None or part.V is None:
            what = "the perturbation table is not given, or given twice"
            problems.append(Problem(("cellkey",), "ptable", what, "D and V, with js and pstay if need be; or ptable"))
        if part.pstay is not None and part.pstay >= 1:
            what = "pstay is a probability and must be less than one"
            problems.append(Problem(("cellkey", "pstay"), "probability", what, '"0.5"', str(part.pstay)))
        if (part.pieces is None) != (part.shuffle is None) or (part.pieces is not None and part.lookup == "abs"):
            what = "a table is cut and shuffled with both pieces and shuffle, for the lookup ess"
            problems.append(Problem(("cellkey",), "shuffle", what, 'pieces = "0.01" and shuffle = "...", or neither'))
        given = sorted(part.model_fields_set & {"big_n", "small_n", "table_size"})
        if part.lookup == "ess" and given:
            what = f"{given[0]} belongs to the lookup abs"
            problems.append(Problem(("cellkey", given[0]), "lookup", what, 'lookup = "abs"', remedy="remove it"))
        return problems


def cellkey_spec(file: str, tables: Iterable[Mapping[str, object]], **values: str) -> str:
    """The text of a spec of the cell key method, with a secret order of its perturbation table.

    Args:
        file: The name that the spec will have.
        tables: For each table its ``name`` and its ``variables``.
        values: What differs from the draft: ``name``, ``title``, ``records``, ``schema``, ``D``, ``V``, ``js``.

    Returns:
        A commented TOML file.
    """
    named = {"name": "my-tables", "title": "My tables", "records": "keyed.parquet", "schema": "persons"}
    return render(
        "cellkey.toml.j2",
        **named | {"D": "5", "V": "2", "js": "0", "shuffle": secrets.token_hex(32)} | values,
        tables=tables,
        file=file,
    )
