"""A static programme: tables with all margins, each distinct cross-classification counted once (Bach, Eq. 6, 7)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

from confide.documents import load_schema
from confide.engines import Source
from confide.errors import ConfideError, Finding, SpecError
from confide.mechanisms.cellkey.lookups import AbsTable, Lookup, allocate, bias_findings, facts, read_abs
from confide.mechanisms.cellkey.spec import LARGEST_KEYS, CellKeySpec, CellKeyTable
from confide.noise import ReleaseKey
from confide.noise.ptables import PTable, count_settings, generate, modify, read_table
from confide.releases.spec import LoadedSpec, find_source
from confide.releases.tabular import (
    COUNT,
    DATAFLOW,
    OBSERVATION,
    QueryTable,
    Table,
    check_column_names,
    placed,
    too_large,
)
from confide.schema import NO_GROUP, Attribute, Query, Schema

MOST_CELLS = 50_000_000
"""More cells in one table than this are a mistake: somebody crossed what should not be crossed."""

COLUMNS = (COUNT, "weighted", DATAFLOW, OBSERVATION, f"{OBSERVATION}_WEIGHTED")
"""Columns of our own, plain and in SDMX-CSV."""


@dataclass(frozen=True, eq=False)
class CellKeyProblem:
    """Everything that decides the release but the records and their keys."""

    spec: CellKeySpec
    schema: Schema
    records: Source
    ptable: PTable
    tables: tuple[QueryTable, ...]
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
            return range(self.ptable.modulus)
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
            "tables": [table.layout.as_dict() for table in self.tables],
        }


def build_tables(loaded: LoadedSpec, spec: CellKeySpec, schema: Schema) -> tuple[list[QueryTable], list[Finding]]:
    """The tables of a spec, and a finding for each that cannot be."""
    tables, findings = [], []
    for position, part in enumerate(spec.tables):
        try:
            tables.append(build(part, schema))
        except ConfideError as error:
            findings += placed(error, loaded.place("tables", position, "variables"))
    return tables, findings


def build(part: CellKeyTable, schema: Schema) -> QueryTable:
    """The table that a part of a spec, or a request, describes."""
    query = schema.ordered_query(part.variables)
    if query.cells > MOST_CELLS:
        raise too_large(query.cells, MOST_CELLS)
    check_column_names((variable.attribute for variable in query.variables), COLUMNS)
    margins = tuple(query.margins())[::-1] if part.margins == "all" else (query,)
    return QueryTable(part.name, part.title or part.name, query, margins)


def never_published(ptable: PTable) -> int:
    """The largest js such that no count becomes one from 1 to js: the generator's js, or what a file comes to."""
    counts = range(1, ptable.top + int(ptable.largest_noise) + 2)
    laws = [ptable.rows[place].key_counts() for place in ptable.row_of(counts)]
    results = {int(count + value) for count, law in zip(counts, laws, strict=True) for value in law}
    return min(result for result in results if result > 0) - 1


# From a spec to its prepared problem: schema, perturbation table and tables, with every problem of them at once.


def prepare(loaded: LoadedSpec) -> CellKeyProblem:
    """What the spec and its public files say. Raises a :class:`SpecError` with all findings."""
    spec = loaded.spec
    assert isinstance(spec, CellKeySpec)
    findings: list[Finding] = []
    warnings: list[Finding] = []
    records = find_source(loaded, "records")
    if isinstance(records, Finding):
        findings.append(records)
    schema = ptable = None
    try:
        schema = load_schema(spec.data.schema_, loaded.path.parent, partial(loaded.place, "data", "schema"))
    except ConfideError as error:
        findings += error.findings
    try:
        ptable = _ptable(loaded, spec, warnings)
    except ConfideError as error:
        findings += error.findings
    tables: list[QueryTable] = []
    if schema is not None:
        tables, wrong = build_tables(loaded, spec, schema)
        findings += wrong
    if findings or schema is None or ptable is None or isinstance(records, Finding):
        raise SpecError(findings)
    matrix = None if isinstance(ptable, PTable) else ptable
    law = ptable if isinstance(ptable, PTable) else ptable.by_byte
    return CellKeyProblem(spec, schema, records, law, tuple(tables), tuple(warnings), matrix)


def _ptable(loaded: LoadedSpec, spec: CellKeySpec, warnings: list[Finding]) -> PTable | AbsTable:
    """The table of a file, or of parameters; a variance that is not attained is a warning, and so is bias."""
    part = spec.cellkey
    if part.lookup == "abs" and part.ptable is not None:
        matrix = read_abs(loaded.resolve(part.ptable), part.small_n, part.big_n)
        warnings += bias_findings(matrix)
        return matrix
    if part.ptable is not None:
        read = read_table(loaded.resolve(part.ptable))
        warnings += [finding for finding in read.findings if finding.severity == "warning"]
        _check_file(loaded, spec, read.table)
        return _shuffled(read.table, spec)
    assert part.D is not None
    assert part.V is not None
    design = generate(count_settings(part.D, part.V, part.js, p_stay=part.pstay))
    warnings += design.findings()
    if part.lookup == "abs":
        matrix = allocate(design.table(), part.table_size, part.small_n, part.big_n)
        warnings += bias_findings(matrix)
        return matrix
    return _shuffled(design.table(part.keys), spec)


def _shuffled(table: PTable, spec: CellKeySpec) -> PTable:
    """The same laws with their intervals cut and put into a secret order, if the spec says so."""
    part = spec.cellkey
    if part.pieces is None or part.shuffle is None:
        return table
    return modify(table, part.pieces, ReleaseKey.choose(part.shuffle))


def _check_file(loaded: LoadedSpec, spec: CellKeySpec, table: PTable) -> None:
    """A table from a file is one for counts, with as many keys as the spec says, if it says so."""
    keys = spec.cellkey.keys if "keys" in spec.cellkey.model_fields_set else table.modulus
    if table.for_counts and table.modulus == keys <= LARGEST_KEYS:
        return
    expected = "as many keys as the spec says" if table.modulus <= LARGEST_KEYS else f"at most {LARGEST_KEYS:,} keys"
    raise SpecError(
        "unfit-ptable",
        "this perturbation table does not fit the records",
        where=loaded.place("cellkey", "ptable"),
        found=f"{table.modulus:,} keys" if table.for_counts else "a table for magnitudes",
        expected=expected if table.for_counts else "a table with a row for every count, and whole noise",
        remedy="give a table for counts over the keys of the records; [cellkey] keys may be left out",
    )


# A programme as the plan of a release describes it: what can be known of the tables from the manifest alone.


@dataclass(frozen=True)
class PerturbedTables:
    """The tables of a release, and what the plan says of their figures."""

    tables: tuple[Table, ...]
    largest_noise: Fraction
    smallest: int
    """No published count is between zero and this."""
    threshold: int
    """Smaller counts are published as zero; zero if there is no threshold."""
    weighted: bool
    partial: frozenset[str]
    """Variables that leave somebody out."""

    @property
    def distinct(self) -> dict[str, int]:
        """Every distinct cross-classification with its number of cells."""
        return {margin.name: margin.cells for table in self.tables for margin in table.margins}


def describe(question: Mapping[str, Any]) -> PerturbedTables:
    """The tables of a plan's ``question``, which :meth:`CellKeyProblem.facts` made."""
    ptable, threshold = question["ptable"], question["threshold"] or 0
    return PerturbedTables(
        tuple(Table.read(values) for values in question["tables"]),
        Fraction(ptable["D"]),
        max(ptable["js"] + 1, threshold),
        threshold,
        question["weighted"],
        frozenset(question["partial"]),
    )
