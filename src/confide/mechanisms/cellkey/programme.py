"""A static programme: tables with all margins, each distinct cross-classification counted once (Bach, Eq. 6, 7).

A table with geolevels is counted for every unit of each: the unit is one more thing that tells cells apart. A
cross-classification is known by its level and its query, whatever order a table has its variables in.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import Any

from confide.arrays import Integers
from confide.engines import Engine, Source
from confide.errors import Finding, Place, SpecError
from confide.geography import Geolevel, Spine
from confide.inputs.frame import Frame, reading_facts
from confide.mechanisms.cellkey import spec as cellkey_spec
from confide.mechanisms.cellkey.given import GivenTable, find_given
from confide.mechanisms.cellkey.keys import AbsTable, Lookup, allocate, bias_findings, facts, read_abs
from confide.mechanisms.cellkey.magnitudes import MagnitudeNoise, magnitude_noise
from confide.mechanisms.cellkey.spec import weighted_step
from confide.noise import ReleaseKey
from confide.noise.ptables import PTable, count_settings, generate, modify, read_table
from confide.releases import LoadedSpec, tabular
from confide.releases.tabular import noting
from confide.schema import NO_GROUP, Query, Schema

MOST_CELLS = 50_000_000
"""More cells in one table than this, on a level in one area, are a mistake: somebody crossed what should not be."""
MOST_NUMBERS = 1 << 62
"""The numbers of all cells of a level stay below this."""

COLUMNS = (tabular.COUNT, "weighted", "value")
"""Columns of figures."""


@dataclass(frozen=True)
class Counted:
    """A cross-classification that is counted, for all records or for each unit of a level."""

    level: Geolevel | None
    query: Query
    """Variables in the order of the schema."""
    larger: Query | None
    """What it is summed from, on the same level; None: it is counted from the records."""

    @property
    def name(self) -> str:
        """What it is known by: the names of its level and of its query."""
        return counted_name(None if self.level is None else self.level.name, self.query.name)

    @property
    def cells(self) -> int:
        """The number of its cells, over all units."""
        return self.query.cells * (1 if self.level is None else self.level.units)


def counted_name(level: str | None, query: str) -> str:
    """The name of a cross-classification on a level. No name has the sign between the two."""
    return query if level is None else f"{level}/{query}"


@dataclass(frozen=True, eq=False)
class CellKeyProblem(tabular.TabularProblem):
    """Everything that decides the release but the records and their keys."""

    spec: cellkey_spec.CellKeySpec
    schema: Schema | None
    """None where cells are given."""
    records: Source | None
    ptable: PTable | None
    """None for magnitudes."""
    tables: tuple[tabular.QueryTable, ...]
    warnings: tuple[Finding, ...]
    matrix: AbsTable | None = None
    """With ``lookup = "abs"``; ``ptable`` is then the same table by the byte of a key."""
    frame: Frame | None = None
    given: tuple[GivenTable, ...] = ()
    magnitude: MagnitudeNoise | None = None
    order: str = ""
    """How the intervals of the perturbation table stand: secret, derived, none or file."""

    @property
    def lookup(self) -> Lookup:
        """Where the noise of a count and a cell key is found."""
        assert self.ptable is not None
        return self.ptable if self.matrix is None else self.matrix

    @property
    def modulus(self) -> int:
        """Cell keys are sums of record keys modulo this."""
        return self.lookup.modulus if self.magnitude is None else self.magnitude.modulus

    @property
    def source(self) -> Source:
        """The records, where there are some."""
        assert self.records is not None
        return self.records

    @cached_property
    def unit_of_block(self) -> dict[str, Integers]:
        """For each level of some table the unit of every block, in the order of the blocks."""
        if self.frame is None:
            return {}
        order = self.spine.blocks.unit_of_block.argsort()
        return {level.name: level.unit_of_block[order] for level in self.published_levels}

    @property
    def record_keys(self) -> range:
        """What the key of a record can be."""
        if self.matrix is None:
            return range(self.modulus)
        part = self.spec.cellkey
        return range(1, 1 + (part.keys if "keys" in part.model_fields_set else self.matrix.big_n))

    def canonical(self, query: Query) -> Query:
        """The query with its variables in the order of the schema: the same members, counted once."""
        assert self.schema is not None
        return self.schema.ordered_query([variable.name for variable in query.variables])

    def level(self, name: str | None) -> Geolevel | None:
        """The geolevel of a name; none for all records."""
        return None if name is None else self.spine.level(name)

    def counted(self) -> Iterator[Counted]:
        """Every distinct cross-classification once, each after a larger one that it can be summed from."""
        levels: dict[str | None, dict[str, Query]] = {}
        for table in self.tables:
            for level in table.levels or (None,):
                wanted = levels.setdefault(level, {})
                wanted |= {query.name: query for query in map(self.canonical, table.margins)}
        for level, wanted in levels.items():
            done: dict[frozenset[str], Query] = {}
            for query in sorted(wanted.values(), key=lambda each: -len(each.variables)):
                names = frozenset(variable.name for variable in query.variables)
                larger = [other for key, other in done.items() if names < key]
                smallest = min(larger, key=lambda other: other.cells, default=None)
                yield Counted(self.level(level), query, smallest)
                done[names] = query

    def facts(self) -> Mapping[str, Any]:
        """What is in the plan: all of it public."""
        part, data = self.spec.cellkey, self.spec.data
        question: dict[str, Any] = {"record": "person"}
        if self.schema is not None:
            question["schema"] = {"id": self.schema.id, "sha256": self.schema.fingerprint}
        question |= reading_facts(self.schema, self.records, None if self.frame is None else self.spec.geography.block)
        question |= {
            "attributes": {attribute.name: attribute.title for attribute in self.attributes},
            "ptable": self._noise_facts(),
            "threshold": part.threshold,
            "weighted": data.weight is not None,
            **self._weight_facts(),
            "partial": sorted(
                {v.name for table in self.tables for v in table.query.variables if (v.assignment == NO_GROUP).any()}
            ),
            "tables": [table.layout.as_dict() for table in self.tables] + [table.as_dict() for table in self.given],
        }
        return (
            question
            | {
                "layout": tabular.LAYOUT,
                "order": self.order,
                "frame": None if self.frame is None else self.frame.fingerprint,
                "spine": [] if self.frame is None else [level.name for level in self.spine.levels],
                "levels": {level.name: level.units for level in self.published_levels},
                "given": bool(self.given),
                **({} if self.ptable is None else {"candidates": least_candidates(self.ptable, part.threshold or 1)}),
                "magnitude": None if self.magnitude is None else self.magnitude.facts(),
            }
            | self.explained
        )

    @property
    def weighted_step(self) -> int:
        """Weighted figures are multiples of so many millionths."""
        largest = Fraction(0) if self.ptable is None else self.ptable.largest_noise
        return int(weighted_step(largest, self.spec.data.weight_gap) * cellkey_spec.WEIGHT_UNIT)

    def _weight_facts(self) -> dict[str, str]:
        """How coarse weighted figures are, where there are any."""
        if self.spec.data.weight is None or self.ptable is None:
            return {}
        step = Fraction(self.weighted_step, cellkey_spec.WEIGHT_UNIT)
        return {"weight_gap": str(self.spec.data.weight_gap), "weighted_step": str(step)}

    def _noise_facts(self) -> Mapping[str, Any] | None:
        part = self.spec.cellkey
        if self.ptable is None:
            return None
        return {
            "sha256": self.lookup.fingerprint,
            "D": str(self.ptable.largest_noise),
            "V": str(part.V) if part.V is not None else None,
            "js": never_published(self.ptable),
            "pstay": str(part.pstay) if part.pstay is not None else None,
            "keys": len(self.record_keys),
            **facts(self.lookup),
        }


def build_table(
    part: cellkey_spec.CellKeyTable, schema: Schema, *, spec: cellkey_spec.CellKeySpec, spine: Spine | None
) -> tabular.QueryTable:
    """A table of a spec. Raises where it cannot be."""
    table = build(part, schema, named=spec.geography.has_names)
    tabular.check_published(table.layout, COLUMNS, spec.output.formats, spine)
    for level in part.levels if spine is not None else ():
        if spine is not None and spine.level(level).units * table.query.cells > MOST_NUMBERS:
            raise tabular.too_large(spine.level(level).units * table.query.cells, MOST_NUMBERS)
    return table


def build(part: cellkey_spec.CellKeyTable, schema: Schema, *, named: bool = False) -> tabular.QueryTable:
    """The table that a part of a spec, or a request, describes."""
    schema.ordered_query(part.variables)  # refuses what cannot be crossed; columns are in the order of the spec
    query = Query(tuple(schema.variable(name) for name in part.variables))
    if query.cells > MOST_CELLS:
        raise tabular.too_large(query.cells, MOST_CELLS, area=bool(part.levels))
    columns = (*COLUMNS, tabular.LEVEL, tabular.AREA) if part.levels else COLUMNS
    tabular.check_column_names((variable.attribute for variable in query.variables), columns)
    margins = tuple(query.margins())[::-1] if part.margins == "all" else (query,)
    return tabular.QueryTable(part.name, part.title or part.name, query, margins, tuple(part.levels), named)


def counts_behind(ptable: PTable, most: int) -> Counter[int]:
    """For each figure how many true counts, from 1 to ``most``, the table can turn into it."""
    counts = range(1, most + 1)
    rows = [ptable.rows[place].key_counts() for place in ptable.row_of(counts)]
    return Counter(int(count + noise) for count, row in zip(counts, rows, strict=True) for noise in row)


def never_published(ptable: PTable) -> int:
    """The largest js such that no count becomes one from 1 to js: the generator's js, or what a file comes to."""
    results = counts_behind(ptable, ptable.top + int(ptable.largest_noise) + 1)
    return min(result for result in results if result > 0) - 1


def least_candidates(ptable: PTable, smallest: int) -> int:
    """How many true counts at least are behind a published one, for somebody who knows the table and no key.

    A published count p may come from every n of at least 1 whose row has noise p - n with a probability above zero.
    A weighted figure beside it excludes none of them (``spec.weighted_step``).

    Args:
        ptable: The perturbation table.
        smallest: No count below this is published.

    Returns:
        The least number over all published counts above zero.

    >>> from confide.noise.ptables import count_settings, generate
    >>> least_candidates(generate(count_settings(4, 2, 1)).table(), 1)
    6
    """
    reach = int(ptable.largest_noise)
    # Above the last row of their own counts take rows in turn: what holds of one cycle holds of all further up.
    smallest = min(smallest, ptable.top + reach + 1)
    most = ptable.top + ptable.cycle + 2 * reach + smallest
    behind = counts_behind(ptable, most)
    return min(number for result, number in behind.items() if max(1, smallest) <= result <= most - reach)


# A programme as the plan of a release describes it: what can be known of the tables from the manifest alone.


@dataclass(frozen=True)
class PerturbedTables:
    """The tables of a release, and what the plan says of their figures."""

    tables: tuple[tabular.Table, ...]
    largest_noise: Fraction
    smallest: int
    """No published count is between zero and this."""
    threshold: int
    """Smaller counts are published as zero; zero if there is no threshold."""
    weighted: bool
    partial: frozenset[str]
    """Variables that leave somebody out."""
    units: Mapping[str, int]
    """The number of units of each level."""
    given: tuple[GivenTable, ...] = ()
    magnitude: Mapping[str, Any] | None = None
    weighted_step: Fraction = Fraction(1, cellkey_spec.WEIGHT_UNIT)
    """Weighted figures are multiples of this."""
    weight_gap: Fraction = Fraction(1)
    """Neighbouring weights that are thought possible are at most so far apart."""

    def cells(self, table: tabular.Table) -> int:
        """The number of cells of a table, over all its areas."""
        return table.cells * sum(self.units[level] for level in table.levels) if table.levels else table.cells

    @property
    def distinct(self) -> dict[str, int]:
        """Every distinct cross-classification with its number of cells."""
        return {
            counted_name(level, "*".join(sorted(variable.name for variable in margin.variables))): margin.cells
            * (1 if level is None else self.units[level])
            for table in self.tables
            for level in table.levels or (None,)
            for margin in table.margins
        }


def describe(question: Mapping[str, Any]) -> PerturbedTables:
    """The tables of a plan's ``question``, which :meth:`CellKeyProblem.facts` made."""
    ptable, threshold = question["ptable"] or {"D": "0", "js": 0}, question["threshold"] or 0
    given = bool(question["given"])
    return PerturbedTables(
        () if given else tuple(tabular.Table.read(values) for values in question["tables"]),
        Fraction(ptable["D"]),
        max(ptable["js"] + 1, threshold),
        threshold,
        question["weighted"],
        frozenset(question["partial"]),
        question["levels"],
        tuple(GivenTable.read(values) for values in question["tables"]) if given else (),
        question["magnitude"],
        Fraction(question.get("weighted_step", Fraction(1, cellkey_spec.WEIGHT_UNIT))),
        Fraction(question.get("weight_gap", 1)),
    )


# From a spec to its prepared problem: schema, frame, perturbation table and tables, with every problem at once.


PIECES = 100
"""A table that is shuffled is cut into about so many pieces, unless somebody says otherwise."""
DERIVED_ORDER = hashlib.sha256(b"confide/cellkey/derived-order/v1").hexdigest()
"""Everybody knows it: an order that follows from it and from the table itself is the same for ever, and no secret."""


def prepare(loaded: LoadedSpec, engine: Engine) -> CellKeyProblem:
    """What the spec and its public files say. Raises a :class:`SpecError` with all findings."""
    asked = loaded.spec
    assert isinstance(asked, cellkey_spec.CellKeySpec)
    # Areas are those of the frame, never those of the records.
    blocks = any(table.levels for table in asked.tables)
    public = tabular.PublicFiles.of(loaded, engine, records=not asked.given, blocks=blocks)
    ordered = noting(
        public.findings, lambda: asked.model_copy(update={"cellkey": cellkey_spec.with_order(loaded, asked.cellkey)})
    )
    spec = ordered or asked
    given = noting(public.findings, lambda: find_given(loaded, spec)) if spec.given else ()
    warnings: list[Finding] = []
    noise = noting(public.findings, lambda: _noise(loaded, spec, warnings))
    spine = None if public.frame is None else public.frame.spine
    tables = public.tables(loaded, partial(build_table, spec=spec, spine=spine))
    if public.findings or noise is None or given is None:
        raise SpecError(public.findings)
    matrix = noise if isinstance(noise, AbsTable) else None
    law = matrix.by_byte if matrix is not None else noise if isinstance(noise, PTable) else None
    if law is not None and least_candidates(law, spec.cellkey.threshold or 1) == 1:
        raise SpecError("one-candidate", where=loaded.place("cellkey"))
    return CellKeyProblem(
        spec,
        public.schema,
        public.sources.get("records"),
        law,
        tables,
        tuple(warnings),
        matrix,
        public.frame,
        given,
        noise if isinstance(noise, MagnitudeNoise) else None,
        _order(spec.cellkey),
    )


def _noise(
    loaded: LoadedSpec, spec: cellkey_spec.CellKeySpec, warnings: list[Finding]
) -> PTable | AbsTable | MagnitudeNoise:
    """The table of a file, or of parameters; a variance that is not attained is a warning, and so is bias."""
    part = spec.cellkey
    if spec.magnitude is not None:
        shuffle = None if _order(part) == cellkey_spec.UNSHUFFLED else _order_key(part)
        return magnitude_noise(loaded, spec.magnitude, spec.data.decimals, part.keys, shuffle, warnings)
    if part.lookup == "abs" and part.ptable is not None:
        matrix = read_abs(loaded.resolve(part.ptable), part.small_n, part.big_n)
        warnings += bias_findings(matrix)
        return matrix
    if part.ptable is not None:
        read = read_table(loaded.resolve(part.ptable))
        warnings += [finding for finding in read.findings if finding.severity == "warning"]
        _check_file(loaded, spec, read.table)
        if part.shuffle is None and part.pieces is None:
            warnings += _in_order(loaded, read.table)
        return shuffled(read.table, part)
    assert part.D is not None
    assert part.V is not None
    design = generate(count_settings(part.D, part.V, part.js, pstay=part.pstay, mono=part.mono))
    warnings += design.findings()
    if part.lookup == "abs":
        matrix = allocate(design.table(), part.table_size, part.small_n, part.big_n)
        warnings += bias_findings(matrix)
        return matrix
    return shuffled(design.table(part.keys), part)


def _order(part: cellkey_spec.CellKeyPart) -> str:
    """In which order the pieces of the table stand: ``secret``, ``derived``, ``none``, or as a ``file`` has them."""
    if part.lookup == "abs" or part.shuffle == cellkey_spec.UNSHUFFLED:
        return cellkey_spec.UNSHUFFLED
    if part.shuffle is None and part.pieces is None and part.ptable is not None:
        return "file"
    return cellkey_spec.DERIVED if part.shuffle in (None, cellkey_spec.DERIVED) else "secret"


def _order_key(part: cellkey_spec.CellKeyPart) -> ReleaseKey:
    return ReleaseKey.choose(DERIVED_ORDER if part.shuffle in (None, cellkey_spec.DERIVED) else str(part.shuffle))


def shuffled(table: PTable, part: cellkey_spec.CellKeyPart) -> PTable:
    """The same laws with their intervals cut and put into another order, unless the spec says otherwise."""
    if _order(part) in (cellkey_spec.UNSHUFFLED, "file"):
        return table
    pieces = part.pieces or Fraction(max(1, table.modulus // PIECES), table.modulus)
    return modify(table, pieces, _order_key(part))


def _in_order(loaded: LoadedSpec, table: PTable) -> list[Finding]:
    """A warning if noise rises with the key: then the noise of a sum depends on that of its parts."""
    if any(list(row.noise) != sorted(row.noise) for row in table.rows):
        return []
    return [Finding.of("not-shuffled", where=_at(loaded), severity="warning")]


def _at(loaded: LoadedSpec) -> Place:
    return loaded.place("cellkey", "ptable")


def _check_file(loaded: LoadedSpec, spec: cellkey_spec.CellKeySpec, table: PTable) -> None:
    """A table from a file is one for counts, with as many keys as the spec says, if it says so."""
    keys = spec.cellkey.keys if "keys" in spec.cellkey.model_fields_set else table.modulus
    if table.for_counts and table.modulus == keys <= cellkey_spec.LARGEST_KEYS:
        return
    raise SpecError(
        "unfit-ptable/counts",
        where=_at(loaded),
        modulus=table.modulus,
        for_counts=table.for_counts,
        largest_keys=cellkey_spec.LARGEST_KEYS,
        less=table.modulus <= cellkey_spec.LARGEST_KEYS,
    )
