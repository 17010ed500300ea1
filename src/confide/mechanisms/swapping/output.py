"""The files of a release of swapped data: tables for people and, if asked for, the swapped records.

A table has a row for each level, area, margin and cell with somebody in it; what is not listed is zero.

Records are in an order that says nothing of where a household came from: by block, then by what the members of a
household are, then household by household; people outside of households last. Households are numbered in that order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from confide.arrays import Integers
from confide.mechanisms.swapping.core import BLOCK, PublishedHouseholds
from confide.mechanisms.swapping.problem import INVARIANTS, SwappingProblem, no_budget, sizes, stated_guarantee
from confide.mechanisms.swapping.spec import HOUSEHOLD, swap_settings
from confide.mechanisms.swapping.swap import People, combined
from confide.releases import Check, Explanation, Plan, ReleaseWriter, SealedRelease, in_plural, tabular
from confide.releases.companions.programs import LABELLED, labelled_check, write_labelled
from confide.releases.tabular import asked

# Counts of people by area and cell, without zeros: exact, of the records as they are or as they were swapped.


@dataclass(frozen=True, eq=False, repr=False)
class AreaCounts:
    """The rows of a table on one level: units ascending, in a unit margin by margin, in a margin cell by cell."""

    unit: Integers
    margin: Integers
    cell: Integers
    count: Integers


def count_table(
    people: People, block: Integers, codes: Mapping[str, Integers], table: tabular.QueryTable
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


def _with_margins(table: tabular.QueryTable, key: Integers, count: Integers) -> AreaCounts:
    units, margins, cells, counts = [], [], [], []
    unit, cell = np.divmod(key, table.query.cells)
    for number, margin in enumerate(table.margins):
        distinct, sums = _summed(unit * margin.cells + tabular.projected(table.query, margin, cell), count)
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


FIGURES = (tabular.figure_column(tabular.COUNT, "swapped records; what is not listed is 0"),)


def table_rows(
    problem: SwappingProblem, table: tabular.QueryTable, level: str, rows: AreaCounts
) -> Iterator[pa.RecordBatch]:
    """The rows of a table on one level."""
    schema, codes = (
        tabular.plain_schema(table.layout, *FIGURES),
        pa.array(problem.spine.level(level).codes, pa.string()),
    )
    layout = table.layout
    for begin in range(0, len(rows.count), _BATCH):
        part = slice(begin, begin + _BATCH)
        labels = layout.labels(layout.mixed_places(rows.margin[part], rows.cell[part]))
        geography = [tabular.repeated(level, len(rows.unit[part])), codes.take(pa.array(rows.unit[part]))]
        yield tabular.plain_rows(schema, [*geography, *labels], [pa.array(rows.count[part])])


def microdata_schema(problem: SwappingProblem) -> pa.Schema:
    """The columns of the swapped records."""
    household = pa.field(
        HOUSEHOLD, pa.int64(), metadata={"description": "a number of this file alone; none outside of households"}
    )
    places = [tabular.text_column(level.name, "code of the geounit") for level in problem.spine.levels[:-1]]
    areas = [
        pa.field(level.name, pa.string(), metadata={"description": "code of the area, if any"})
        for level in problem.spine.areas
    ]
    people = [
        tabular.figure_column(attribute.name, attribute.title, pa.int64() if attribute.is_integer else pa.string())
        for attribute in problem.attributes
    ]
    return pa.schema([household, *places, *areas, tabular.text_column(problem.spec.geography.block, "block"), *people])


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
        columns = [tabular.masked(number[part] + 1, outside[part])]
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


def labels_of(question: Mapping[str, Any]) -> dict[str, tabular.CodedVariable]:
    """The attributes of the records, with codes and labels, where files for Stata or SPSS were asked for."""
    return {
        name: tabular.CodedVariable(
            name, tuple(str(code) for code in said["codes"]), tuple(said["labels"]), said["title"]
        )
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


def labelled_checks(release: SealedRelease) -> Iterator[Check]:
    """The files for Stata and SPSS, read again and compared with the records."""
    folder, question = release.folder, release.facts
    described = {str(file["path"]): file.get("columns", {}) for file in release.manifest["files"]}
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


def codebook(question: Mapping[str, Any]) -> tabular.Codebook | None:
    """What the tables of a release hold; none where there is nothing to explain: records alone, unless they are asked
    for in the form of tau-ARGUS too."""
    formats, agency = asked(question)
    records = None if question["microdata"] is None else MICRODATA
    if not (question["tables"] or (records and "argus" in formats)):
        return None
    tables = tuple(tabular.DescribedTable.of(tabular.Table.read(values), FIGURES) for values in question["tables"])
    levels = {level: question["levels"][level] for table in tables for level in table.levels}
    notes = NOTES if tables else ()
    return tabular.Codebook(tables, levels, formats, agency, PROTECTION, notes, records, consistent=True)


def read_records(path: Path, types: Mapping[str, pa.DataType]) -> pa.Table:
    """A file of swapped records with just these columns, in this order, cast to these types."""
    records = tabular.read_file(path, types)
    if records.column_names != list(types):
        raise tabular.UnlikePlanError("other columns")
    plain = pa.schema([pa.field(name, kind) for name, kind in types.items()])
    try:
        return records.cast(plain).combine_chunks()
    except pa.ArrowException:
        raise tabular.UnlikePlanError("a column of another kind") from None


class SwappingExplained(Explanation):
    """What releases of swapped records say to their readers."""

    def codebook(self, manifest: Mapping[str, Any]) -> tabular.Codebook | None:
        return codebook(manifest["plan"]["question"])

    def figure_noise(self, manifest: Mapping[str, Any]) -> str:  # noqa: ARG002
        return UNKNOWN

    def contents(self, plan: Plan) -> str:
        size = sizes(plan.question)
        return f"{in_plural(size['tables'], 'table')} of swapped records, with {size['cells']:,} cells in all areas"

    def unaccounted(self, plan: Plan) -> str:
        facts = plan.question["swapping"]
        return no_budget(facts) if "guarantee" in facts else super().unaccounted(plan)


# ``verify`` for swapped data: what follows from the files of a release alone.
#
# Figures are exact counts of one set of records, so everything has to add up: margins are the sums of their cells, the
# levels of the spine come to the same, a cross-classification has the same figures in every table, and tables are the
# counts of the records, where these are published. That something stayed as it was before the swap cannot be seen from
# the release: only the curator can, with ``evaluate``. What can be seen is whether it follows from the settings, where
# these are stated; and, where the records of a permutation are published, whether its invariants have the hashes that
# were taken before the swap, and no stratum is larger than its loss is stated for.


def verify(release: SealedRelease) -> Iterator[Check]:
    """Every table by itself, then what tables and records have in common."""
    folder, files, manifest, question = release.folder, release.files, release.manifest, release.facts
    yield tabular.no_other_files(
        [values["name"] for values in question["tables"]],
        files,
        [*_microdata(files), *labelled_files(files).values()],
    )
    yield _settings(question)
    people = None
    if question["microdata"] is not None:
        people, check = _records(folder, files, question, manifest["plan"]["spine"][-1])
        yield check
        if people is not None and "guarantee" in question["swapping"]:
            yield from _invariants(people, question, manifest["statistics"])
        yield from labelled_checks(release)
    shared = tabular.SharedFigures.of([tabular.Table.read(values) for values in question["tables"]])
    for values in question["tables"]:
        yield from _table(folder, files, values, manifest["plan"]["spine"], shared, people)
    if question["tables"]:
        levels = {level: question["levels"][level] for values in question["tables"] for level in values["levels"]}
        names = [values["name"] for values in question["tables"]]
        yield from tabular.cells_and_areas(folder, names, files, levels, question["area_names"])


def _microdata(files: list[str]) -> list[str]:
    return [path for path in files if path.split(".")[0] == MICRODATA]


def _settings(question: dict[str, Any]) -> Check:
    """What is stated to stay follows from the settings, where these are stated."""
    facts, name = question["swapping"], "what is stated to stay"
    if facts["settings"] is None:
        return Check(name, True, "the settings are secret; the curator verifies it with evaluate")
    settings = swap_settings(**facts["settings"])
    same = [*settings.kept] == facts["kept_in_blocks"] and [*settings.carry] == facts["carried"]
    if settings.variant == "permutation":
        same &= facts.get("guarantee") == stated_guarantee(settings)
        same &= settings.within is None or settings.within in facts["exact_levels"]
    return Check(name, same, "as the stated settings imply" if same else "the stated settings do not imply it")


def _invariants(people: pa.Table, question: Mapping[str, Any], statistics: Mapping[str, Any]) -> Iterator[Check]:
    """What the loss is subject to, counted again from the published records: no stratum is larger than the loss is
    stated for, and the invariants are those that the office counted before the swap."""
    facts = question["swapping"]
    households = PublishedHouseholds.of(people, HOUSEHOLD, facts)
    largest, most = households.largest_stratum(), facts["settings"]["largest_stratum"]
    detail = f"{largest:,} households in the largest; the loss is stated for {most:,}"
    yield Check("strata as the loss is stated for", largest <= most, detail)
    same = households.digests(question["microdata"]["attributes"]) == statistics[INVARIANTS]
    words = "as counted before the swap, by their hashes" if same else "not as they were counted before the swap"
    yield Check("invariants", same, words)


def _table(
    folder: Path,
    files: list[str],
    values: Mapping[str, Any],
    spine: list[str],
    shared: tabular.SharedFigures,
    people: pa.Table | None,
) -> Iterator[Check]:
    table = tabular.Table.read(values)
    rows = yield from tabular.checked_rows(
        folder, table, files, tabular.DescribedTable.of(table, FIGURES).placed, table.cells
    )
    if rows is None:
        return
    positive = int(rows.count.min(initial=1)) > 0
    yield Check(f"{table.name}: whole counts of somebody", positive, "cells that are not listed are zero")
    by_level = {level: rows.on_level(place) for place, level in enumerate(table.levels)}
    yield _adds_up(table, by_level)
    yield _levels_agree(table, by_level, spine)
    yield from shared.check(table, dict(tabular.margin_rows(table, rows)), "the same as in other tables")
    if people is not None:
        yield _from_records(table, values["codes"], by_level, people, spine[-1])


def _inner(table: tabular.Table, rows: tabular.TableRows) -> tabular.TableRows:
    """The rows of the table itself, the last of the margins."""
    return rows.where(rows.margin == len(table.margins) - 1)


def _adds_up(table: tabular.Table, by_level: Mapping[str, tabular.TableRows]) -> Check:
    """Every margin is the sum of the cells of the table itself."""
    wrong = 0
    for rows in by_level.values():
        codes = pc.unique(rows.area)
        inner = _inner(table, rows)
        for number, margin in enumerate(table.margins[:-1]):
            of_margin = rows.where(rows.margin == number)
            cell = table.projected(margin, inner.cell)
            sums = _sums(_index(inner.area, codes) * margin.cells + cell, inner.count)
            wrong += sums != _sums(_index(of_margin.area, codes) * margin.cells + of_margin.cell, of_margin.count)
    return Check(f"{table.name}: margins add up", not wrong, f"{len(table.margins)} cross-classifications")


def _levels_agree(table: tabular.Table, by_level: Mapping[str, tabular.TableRows], spine: list[str]) -> Check:
    """Over all areas, the levels of the spine have the same counts: they have the same people."""
    inner = [_inner(table, rows) for level, rows in by_level.items() if level in spine]
    sums = [_sums(rows.cell, rows.count) for rows in inner]
    same = all(of_level == sums[0] for of_level in sums)
    return Check(f"{table.name}: levels come to the same", same, f"{len(sums)} levels of the spine")


def _records(folder: Path, files: list[str], question: dict[str, Any], smallest: str) -> tuple[pa.Table | None, Check]:
    """The published records, and whether each household is in one of the ``smallest`` places."""
    facts, name = question["microdata"], "records"
    columns = [HOUSEHOLD, *facts["levels"], *facts["areas"], facts["block"], *facts["attributes"]]
    # Numbers in an attribute are codes: as text they are the same in every format.
    types = {column: pa.string() for column in columns} | {HOUSEHOLD: pa.int64()}
    contents = []
    for path in _microdata(files):
        try:
            contents.append(read_records(folder / path, types))
        except (tabular.UnlikePlanError, pa.ArrowException) as error:
            words = str(error) if isinstance(error, tabular.UnlikePlanError) else "a file that cannot be read"
            return None, Check(name, False, words)
    if not contents:
        return None, Check(name, False, "no file of the records is in the release")
    # A level is looked up by its name, also that of the blocks.
    filled = [plain_records(table, facts) for table in contents]
    if not all(table.equals(filled[0]) for table in filled):
        return None, Check(name, False, "formats differ")
    first = filled[0]
    lived = first.filter(pc.is_valid(first.column(HOUSEHOLD)))
    pairs = lived.group_by([HOUSEHOLD, BLOCK]).aggregate([]).num_rows
    numbers = pc.unique(lived.column(HOUSEHOLD))
    together = pairs == len(numbers) and (not len(numbers) or pc.max(numbers).as_py() == len(numbers))
    detail = f"{first.num_rows:,} records; each household in one {smallest}"
    return (first if together else None), Check(name, together, detail)


def _from_records(
    table: tabular.Table,
    codes: Sequence[Sequence[Sequence[int | str]]],
    by_level: Mapping[str, tabular.TableRows],
    people: pa.Table,
    smallest: str,
) -> Check:
    """The table counted again from the published records. ``codes`` has for each variable those of every group;
    ``smallest`` is the office's word for a block."""
    cell = np.zeros(people.num_rows, np.int64)
    for groups, variable in zip(codes, table.variables, strict=True):
        texts = pa.array([str(code) for group in groups for code in group], pa.string())
        group_of = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
        place = pc.index_in(people.column(variable.name.split(":")[0]).combine_chunks(), texts)
        if place.null_count:
            detail = f"a code of {variable.name} that the plan has not"
            return Check(f"{table.name}: as the records have it", False, detail)
        cell = cell * len(groups) + group_of[place.to_numpy(zero_copy_only=False).astype(np.int64)]
    wrong = 0
    for level, rows in by_level.items():
        area = people.column(BLOCK if level == smallest else level).combine_chunks()
        inside = pc.not_equal(area, "").to_numpy(zero_copy_only=False)
        areas = pc.unique(pa.concat_arrays([area, rows.area]))
        inner, size = _inner(table, rows), table.inner.cells
        published = _sums(_index(inner.area, areas) * size + inner.cell, inner.count)
        counted = (_index(area, areas) * size + cell)[inside]
        wrong += published != _sums(counted, np.ones(len(counted), np.int64))
    return Check(f"{table.name}: as the records have it", not wrong, f"{people.num_rows:,} records counted again")


def _index(column: pa.Array | None, codes: pa.Array) -> Integers:
    places: Integers = pc.index_in(column, codes).to_numpy(zero_copy_only=False).astype(np.int64)
    return places


def _sums(key: Integers, count: Integers) -> dict[int, int]:
    distinct, place = np.unique(key, return_inverse=True)
    sums = np.zeros(len(distinct), np.int64)
    np.add.at(sums, place, count)
    return dict(zip(distinct.tolist(), sums.tolist(), strict=True))
