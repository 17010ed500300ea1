"""The files of a release of swapped data: tables for people and, if asked for, the swapped records.

A table has a row for each level, area, margin and cell with somebody in it; what is not listed is zero.

Records are in an order that says nothing of where a household came from: by block, then by what the members of a
household are, then household by household; people outside of households last. Households are numbered in that order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from confide.arrays import Integers
from confide.mechanisms.swapping.people import People, combined
from confide.mechanisms.swapping.problem import SwappingProblem
from confide.mechanisms.swapping.spec import HOUSEHOLD
from confide.mechanisms.swapping.statement import no_budget, sizes
from confide.releases.companions import Codebook, DescribedTable, asked
from confide.releases.companions.labelled import LABELLED, labelled_check, write_labelled
from confide.releases.folder import ReleaseWriter
from confide.releases.mechanism import Check
from confide.releases.plan import Explanation, Plan, in_plural
from confide.releases.tabular import (
    COUNT,
    CodedVariable,
    QueryTable,
    Table,
    UnlikePlanError,
    figure_column,
    masked,
    plain_rows,
    plain_schema,
    projected,
    repeated,
    text_column,
)

# Counts of people by area and cell, without zeros: exact, of the records as they are or as they were swapped.


@dataclass(frozen=True, eq=False, repr=False)
class AreaCounts:
    """The rows of a table on one level: units ascending, in a unit margin by margin, in a margin cell by cell."""

    unit: Integers
    margin: Integers
    cell: Integers
    count: Integers


def count_table(
    people: People, block: Integers, codes: Mapping[str, Integers], table: QueryTable
) -> Iterator[tuple[str, AreaCounts]]:
    """The rows of a table on each of its levels, for people in these blocks with these codes."""
    cells = np.zeros(len(block), np.int64)
    for variable in table.query.variables:
        cells = cells * variable.size + variable.assignment[codes[variable.attribute.name]]
    for level in table.levels:
        unit = people.unit_of(level)[block]
        inside = unit >= 0
        key, count = np.unique(unit[inside] * table.query.cells + cells[inside], return_counts=True)
        yield level, _with_margins(table, key, count.astype(np.int64))


def _with_margins(table: QueryTable, key: Integers, count: Integers) -> AreaCounts:
    units, margins, cells, counts = [], [], [], []
    unit, cell = np.divmod(key, table.query.cells)
    for number, margin in enumerate(table.margins):
        distinct, sums = _summed(unit * margin.cells + projected(table.query, margin, cell), count)
        units.append(distinct // margin.cells)
        margins.append(np.full(len(distinct), number, np.int64))
        cells.append(distinct % margin.cells)
        counts.append(sums)
    of_unit, of_margin, of_cell = (np.concatenate(parts) for parts in (units, margins, cells))
    order = np.lexsort((of_cell, of_margin, of_unit))
    return AreaCounts(of_unit[order], of_margin[order], of_cell[order], np.concatenate(counts)[order])


def _summed(key: Integers, count: Integers) -> tuple[Integers, Integers]:
    distinct, place = np.unique(key, return_inverse=True)
    sums = np.zeros(len(distinct), np.int64)
    np.add.at(sums, place, count)
    return distinct, sums


PERSONS = "persons"
MICRODATA = f"microdata/{PERSONS}"
_BATCH = 1 << 18


FIGURES = (figure_column(COUNT, "swapped records; what is not listed is 0"),)


def table_rows(problem: SwappingProblem, table: QueryTable, level: str, rows: AreaCounts) -> Iterator[pa.RecordBatch]:
    """The rows of a table on one level."""
    schema, codes = plain_schema(table.layout, *FIGURES), pa.array(problem.spine.level(level).codes, pa.string())
    layout = table.layout
    for begin in range(0, len(rows.count), _BATCH):
        part = slice(begin, begin + _BATCH)
        labels = layout.labels(layout.mixed_places(rows.margin[part], rows.cell[part]))
        geography = [repeated(level, len(rows.unit[part])), codes.take(pa.array(rows.unit[part]))]
        yield plain_rows(schema, [*geography, *labels], [pa.array(rows.count[part])])


def microdata_schema(problem: SwappingProblem) -> pa.Schema:
    """The columns of the swapped records."""
    household = pa.field(
        HOUSEHOLD, pa.int64(), metadata={"description": "a number of this file alone; none outside of households"}
    )
    places = [text_column(level.name, "code of the geounit") for level in problem.spine.levels[:-1]]
    areas = [
        pa.field(level.name, pa.string(), metadata={"description": "code of the area, if any"})
        for level in problem.spine.areas
    ]
    people = [
        figure_column(attribute.name, attribute.title, pa.int64() if attribute.is_integer else pa.string())
        for attribute in problem.attributes
    ]
    return pa.schema([household, *places, *areas, text_column(problem.spec.geography.block, "block"), *people])


def microdata_rows(
    problem: SwappingProblem, people: People, block: Integers, codes: Mapping[str, Integers]
) -> Iterator[pa.RecordBatch]:
    """The swapped records."""
    schema = microdata_schema(problem)
    person = combined([codes[attribute.name] for attribute in problem.attributes])
    number = _numbers(people, block, person)
    outside = number < 0
    order = np.lexsort((person, number, outside, block))
    units = [people.unit_of(level.name) for level in (*problem.spine.levels[:-1], *problem.spine.areas)]
    names = [
        pa.array([*level.codes, None], pa.string()) for level in (*problem.spine.levels[:-1], *problem.spine.areas)
    ]
    levels = [
        pa.array([level.code for level in attribute.levels], pa.int64() if attribute.is_integer else pa.string())
        for attribute in problem.attributes
    ]
    blocks = pa.array(problem.spine.blocks.codes, pa.string())
    for begin in range(0, len(order), _BATCH):
        part = order[begin : begin + _BATCH]
        columns = [masked(number[part] + 1, outside[part])]
        for unit, codes_of in zip(units, names, strict=True):
            at = unit[block[part]]
            columns.append(codes_of.take(pa.array(np.where(at < 0, len(codes_of) - 1, at))))
        columns.append(blocks.take(pa.array(block[part])))
        for attribute, known in zip(problem.attributes, levels, strict=True):
            columns.append(known.take(pa.array(codes[attribute.name][part])))
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def plain_records(table: pa.Table, facts: Mapping[str, Any]) -> pa.Table:
    """Records with levels under their names, and without the difference of no area and an empty text, which CSV does
    not know. ``facts`` is what the plan says of them."""
    names = [HOUSEHOLD, *facts["levels"], *facts["areas"], "block", *facts["attributes"]]
    columns = [column if pa.types.is_integer(column.type) else pc.fill_null(column, "") for column in table.columns]
    return pa.table(columns, names=names)


def _numbers(people: People, block: Integers, person: Integers) -> Integers:
    """For each person the new number of the household, from zero, or -1."""
    result = np.full(len(block), -1, np.int64)
    if people.households:
        order = np.lexsort((people.listed(person), block[people.first]))
        number = np.empty(people.households, np.int64)
        number[order] = np.arange(people.households)
        result[people.members] = number[people.household[people.members]]
    return result


# Released tables and records, read again from their files in whole numbers, whatever wrote them.


def labels_of(question: Mapping[str, Any]) -> dict[str, CodedVariable]:
    """The attributes of the records, with codes and labels, where files for Stata or SPSS were asked for."""
    return {
        name: CodedVariable(name, tuple(str(code) for code in said["codes"]), tuple(said["labels"]), said["title"])
        for name, said in question.get("labels", {}).items()
    }


def publish_labelled(
    problem: SwappingProblem, release: ReleaseWriter, batches: Callable[[], Iterator[pa.RecordBatch]]
) -> None:
    """The swapped records for Stata and SPSS, where they are asked for. They are held as a whole."""
    formats = [format_ for format_ in LABELLED if format_ in problem.spec.output.formats]
    if not formats:
        return
    records = pa.Table.from_batches(batches(), schema=microdata_schema(problem))
    columns = {field.name: (field.metadata or {}).get(b"description", b"").decode() for field in records.schema}
    variables = labels_of(problem.facts())
    for format_ in formats:
        write = partial(write_labelled, records=records, variables=variables, title="Swapped records", format_=format_)
        release.foreign(f"{LABELLED[format_]}/{PERSONS}", format_, records.num_rows, columns, write)


def labelled_files(files: Iterable[str]) -> dict[str, str]:
    """The files for Stata and SPSS by their format."""
    stems = {f"{place}/{PERSONS}": format_ for format_, place in LABELLED.items()}
    return {stems[path.split(".")[0]]: path for path in files if path.split(".")[0] in stems}


def labelled_checks(folder: Path, manifest: Mapping[str, Any]) -> Iterator[Check]:
    """The files for Stata and SPSS, read again and compared with the records."""
    question = manifest["plan"]["question"]
    described = {str(file["path"]): file.get("columns", {}) for file in manifest["files"]}
    paths, variables = labelled_files(described), labels_of(question)
    wanted = [format_ for format_ in LABELLED if format_ in question["companions"]["formats"]]
    if not wanted:
        return
    facts = question["microdata"]
    kinds = dict.fromkeys([*facts["levels"], *facts["areas"], facts["block"]], pa.string())
    kinds = {HOUSEHOLD: pa.int64()} | kinds
    for name, said in question["labels"].items():
        kinds[name] = pa.int64() if isinstance(said["codes"][0], int) else pa.string()
    own = next(path for path in described if path.split(".")[0] == MICRODATA)
    records = read_records(folder / own, kinds)
    for format_ in wanted:
        if format_ not in paths:
            yield Check(f"{PERSONS}: there for {format_}", False, "the file is missing")
            continue
        words = described[paths[format_]]
        fields = [pa.field(name, kind, True, {"description": words.get(name, "")}) for name, kind in kinds.items()]
        yield labelled_check(folder / paths[format_], records.cast(pa.schema(fields)), variables, format_, PERSONS)


# What is said to the readers of a release.


PROTECTION = (
    "Some households exchanged their places before the tables were counted. The statement says what this promises, and "
    "what it does not."
)
NOTES = (
    "Cells that are not listed are zero.",
    "The counts are exact for the swapped records; how far they are from the true ones is not published.",
)
UNKNOWN = "how far swapping moved a figure is not published"


def codebook(question: Mapping[str, Any]) -> Codebook | None:
    """What the tables of a release hold; none where there is nothing to explain: records alone, unless they are asked
    for in the form of tau-ARGUS too."""
    formats, agency = asked(question)
    records = None if question["microdata"] is None else MICRODATA
    if not (question["tables"] or (records and "argus" in formats)):
        return None
    tables = tuple(DescribedTable.of(Table.read(values), FIGURES) for values in question["tables"])
    levels = {level: question["levels"][level] for table in tables for level in table.levels}
    notes = NOTES if tables else ()
    return Codebook(tables, levels, formats, agency, PROTECTION, notes, records, consistent=True)


def read_records(path: Path, types: Mapping[str, pa.DataType]) -> pa.Table:
    """A file of swapped records with just these columns, in this order, cast to these types."""
    if path.suffix == ".parquet":
        records = pq.read_table(path)
    else:
        options = pyarrow.csv.ConvertOptions(column_types=dict(types), strings_can_be_null=False)
        records = pyarrow.csv.read_csv(path, convert_options=options)
    if records.column_names != list(types):
        raise UnlikePlanError("other columns")
    plain = pa.schema([pa.field(name, kind) for name, kind in types.items()])
    try:
        return records.replace_schema_metadata(None).cast(plain).combine_chunks()
    except pa.ArrowException:
        raise UnlikePlanError("a column of another kind") from None


class SwappingExplained(Explanation):
    """What releases of swapped records say to their readers."""

    def codebook(self, manifest: Mapping[str, Any]) -> Codebook | None:
        return codebook(manifest["plan"]["question"])

    def figure_noise(self, manifest: Mapping[str, Any]) -> str:  # noqa: ARG002
        return UNKNOWN

    def contents(self, plan: Plan) -> str:
        size = sizes(plan.question)
        return f"{in_plural(size['tables'], 'table')} of swapped records, with {size['cells']:,} cells in all areas"

    def unaccounted(self, plan: Plan) -> str:
        facts = plan.question["swapping"]
        return no_budget(facts) if "guarantee" in facts else super().unaccounted(plan)
