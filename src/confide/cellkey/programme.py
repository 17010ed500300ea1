"""A static programme: tables with all margins, each distinct cross-classification counted once (Bach, Eq. 6, 7)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from confide.cellkey.abs_table import AbsTable
from confide.cellkey.lookups import Lookup, facts
from confide.cellkey.ptables import PTable
from confide.cellkey.spec import CellKeySpec, CellKeyTable
from confide.engines import Source
from confide.errors import ConfideError, Finding
from confide.runs.load_spec import LoadedSpec
from confide.schema import NO_GROUP, Attribute, Query, Recode, Schema

MOST_CELLS = 50_000_000
"""More cells in one table than this are a mistake: somebody crossed what should not be crossed."""

TOTAL_LABEL = "_T"
"""What stands in the column of a variable that a margin sums over, as in SDMX."""

RESERVED = {"count", "weighted", "total", "dataflow", "obs_value", "obs_value_weighted"}
"""Columns of our own, in lower case, and the name of the query without variables."""


@dataclass(frozen=True, eq=False)
class Table:
    """One table of the programme; ``margins`` has its own cross-classification first."""

    name: str
    title: str
    query: Query
    margins: tuple[Query, ...]


@dataclass(frozen=True, eq=False)
class CellKeyQuestion:
    """Everything that decides the release but the records and their keys."""

    spec: CellKeySpec
    schema: Schema
    records: Source
    ptable: PTable
    tables: tuple[Table, ...]
    warnings: tuple[Finding, ...]
    matrix: AbsTable | None = None
    """With ``lookup = "abs"``; ``ptable`` is then the same table by the byte of a key."""

    @property
    def lookup(self) -> Lookup:
        """Where the noise of a count and a cell key is found."""
        return self.ptable if self.matrix is None else self.matrix

    @property
    def record_keys(self) -> range:
        """What the key of a record can be."""
        if self.matrix is None:
            return range(self.ptable.whole)
        part = self.spec.cellkey
        return range(1, 1 + (part.keys if "keys" in part.model_fields_set else self.matrix.big_n))

    @property
    def attributes(self) -> list[Attribute]:
        """The attributes that some table uses, in the order of the schema."""
        used = {variable.attribute.name for table in self.tables for variable in table.query.variables}
        return [attribute for attribute in self.schema.attributes if attribute.name in used]

    def counted(self) -> Iterator[tuple[Query, Query | None]]:
        """Every distinct cross-classification once, each after a larger one that it can be summed from; None: from the
        records."""
        wanted = {query.name: query for table in self.tables for query in table.margins}
        done: dict[frozenset[str], Query] = {}
        for query in sorted(wanted.values(), key=lambda each: -len(each.variables)):
            names = frozenset(variable.name for variable in query.variables)
            larger = [other for key, other in done.items() if names < key]
            yield query, min(larger, key=lambda other: other.cells, default=None)
            done[names] = query

    def facts(self) -> Mapping[str, Any]:
        """What stands in the plan: all of it public."""
        part = self.spec.cellkey
        return {
            "record": "person",
            "schema": {"id": self.schema.id, "sha256": self.schema.fingerprint},
            "attributes": {attribute.name: attribute.title for attribute in self.attributes},
            "ptable": {
                "sha256": self.lookup.fingerprint,
                "D": str(self.ptable.largest_noise),
                "V": str(part.V) if part.V is not None else None,
                "js": never_published(self.ptable),
                "pstay": str(part.pstay) if part.pstay is not None else None,
                "keys": len(self.record_keys),
                **facts(self.lookup),
            },
            "threshold": part.threshold,
            "weighted": self.spec.data.weight is not None,
            "partial": sorted(
                {v.name for table in self.tables for v in table.query.variables if (v.assignment == NO_GROUP).any()}
            ),
            "tables": [
                {
                    "name": table.name,
                    "title": table.title,
                    "variables": {variable.name: variable.labels for variable in table.query.variables},
                    "columns": [variable.attribute.name for variable in table.query.variables],
                    "margins": [margin.name for margin in table.margins],
                }
                for table in self.tables
            ],
        }


def build_tables(loaded: LoadedSpec, spec: CellKeySpec, schema: Schema) -> tuple[list[Table], list[Finding]]:
    """The tables of a spec, and a finding for each that cannot be."""
    tables, findings = [], []
    for position, part in enumerate(spec.tables):
        try:
            tables.append(build(part, schema))
        except ConfideError as error:
            findings += [
                replace(found, where=loaded.place("tables", position, "variables")) for found in error.findings
            ]
    return tables, findings


def build(part: CellKeyTable, schema: Schema) -> Table:
    """The table that a part of a spec, or a request, describes."""
    query = schema.ordered_query(part.variables)
    if query.cells > MOST_CELLS:
        raise ConfideError(
            Finding(
                code="table-too-large",
                what="the table has too many cells",
                found=f"{query.cells:,} cells",
                expected=f"at most {MOST_CELLS:,}",
                remedy="use coarser recodes, or split the table",
            )
        )
    for variable in query.variables:
        _check_variable(variable)
    margins = tuple(query.margins()) if part.margins == "all" else (query,)
    return Table(part.name, part.title or part.name, query, margins)


def _check_variable(variable: Recode) -> None:
    """Columns and labels must be told apart in every format of a table; SDMX-CSV has column names in upper case."""
    name, labels = variable.attribute.name, Counter(variable.labels)
    if name.lower() in RESERVED:
        raise ConfideError(
            Finding(
                code="reserved-name",
                what=f"an attribute cannot be called {name!r}: tables have a column of that name",
                found=name,
                expected="a name other than " + ", ".join(sorted(RESERVED)),
                remedy="rename the attribute in the schema, and map it in [data] columns",
            )
        )
    repeated = [label for label, times in labels.items() if times > 1 or label == TOTAL_LABEL]
    if repeated:
        raise ConfideError(
            Finding(
                code="repeated-label",
                what=f"the cells of {variable.name!r} could not be told apart in a table",
                found=f"the label {repeated[0]!r} of two cells",
                expected=f"a label for each group that no other has; {TOTAL_LABEL} is the label of the total",
                remedy="change the labels in the schema file",
            )
        )


def never_published(ptable: PTable) -> int:
    """The largest js such that no count becomes one from 1 to js: the generator's js, or what a file comes to."""
    counts = range(1, ptable.top + int(ptable.largest_noise) + 2)
    laws = [ptable.rows[place].law() for place in ptable.row_of(counts)]
    results = {int(count + value) for count, law in zip(counts, laws, strict=True) for value in law}
    return min(result for result in results if result > 0) - 1
