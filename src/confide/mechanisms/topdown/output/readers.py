"""What is said to the readers of a TopDown release: what each file holds, what is left out, and what figures mean."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from confide.mechanisms.topdown.output.crossed import FIGURES, ROWS_WITH_ZEROS, CrossedTables
from confide.mechanisms.topdown.output.settings import MDF, RECORDS, UNITS, Output
from confide.mechanisms.topdown.output.tabulation import table_schema
from confide.releases.companions import Codebook, DescribedColumn, DescribedFile, DescribedTable

PROTECTION = (
    "Records and tables are estimates. They were made from counts with random noise, so that they agree with one "
    "another. The certificate states what this promises to everybody in the data."
)
NOTES = (
    "tables/records.* has a row for each protected record, with the codes of its attributes. codebook.html and "
    "datapackage.json have the labels of the codes.",
    "Everything adds up: totals are the sums of their cells, areas are the sums of their parts, and every table counts "
    "the rows of tables/records.*.",
    "How far a figure is from the true one is not published. Figures of large areas and totals are relatively closer "
    "to the truth than those of small areas and rare groups.",
)
LINES_NOTE = (
    "Tables of lines ({}) have a column for each line, such as {}. Its description in codebook.html and "
    "datapackage.json says whom the line counts."
)
ZEROS_NOTE = (
    f"On a level where a table would have more than {ROWS_WITH_ZEROS:,} rows, cells that are not listed are zero; "
    "totals of areas are always listed. That is so here: {}."
)
LEFT_OUT_NOTE = (
    "Left out, since a table would have too many rows there: {}. The figures can be counted from tables/records.*."
)
UNKNOWN = "how far TopDown moved a figure is not published with a release"


def codebook(manifest: Mapping[str, Any]) -> Codebook | None:
    """What the files of a release hold; none in the first layout."""
    facts = manifest["plan"]["question"]
    output = Output.from_dict(facts["output"])
    explained = output.explained
    if explained is None:
        return None
    tables = tuple(DescribedTable.of(table.layout, FIGURES) for table in explained.crossed.tables)
    notes = [*NOTES]
    if output.tables:
        names = ", ".join(f"tables/{table.name}.*" for table in output.tables)
        notes.append(LINES_NOTE.format(names, output.tables[0].columns[0]))
    return Codebook(
        tables,
        explained.units,
        explained.formats,
        explained.companions["agency"],
        PROTECTION,
        (*notes, *_bounded(explained.crossed)),
        files=tuple(_files(facts, output)),
        consistent=True,
        area_names=explained.area_names is not None,
    )


def _bounded(crossed: CrossedTables) -> Iterator[str]:
    """What is not listed, and what is left out."""
    sparse = [
        f"{table.layout.name} ({', '.join(levels)})"
        for table in crossed.tables
        if (levels := [level for level in table.layout.levels if level not in table.with_zeros])
    ]
    if sparse:
        yield ZEROS_NOTE.format("; ".join(sparse))
    if crossed.left_out:
        yield LEFT_OUT_NOTE.format("; ".join(f"{each.title} ({', '.join(each.levels)})" for each in crossed.left_out))


def _files(facts: Mapping[str, Any], output: Output) -> Iterator[DescribedFile]:
    """The files that have columns of their own."""
    assert output.explained is not None
    block = str(facts["layout"]["block"])
    members = [
        DescribedColumn(
            variable.column,
            "integer" if isinstance(output.axes[variable.column][0], int) else "string",
            "member",
            variable,
        )
        for variable in output.explained.attributes
    ]
    place = DescribedColumn(block, "string", "area")
    yield DescribedFile(f"tables/{RECORDS}", "Protected records, one row each", (place, *members))
    if output.microdata is not None:
        lines = tuple(_plain(column) for column in output.microdata.schema)
        yield DescribedFile(f"tables/{MDF}", f"The same records: {output.microdata.file.title}", lines)
    areas: Sequence[str] = facts["areas"]
    places = [
        place,
        *(DescribedColumn(name, "string", "area", gaps=name in areas) for name in (*facts["levels"][:-1], *areas)),
        *(DescribedColumn(name, "integer", "figure") for name in facts["frame_columns"]),
    ]
    title = f"What the frame says of every {facts['levels'][-1]}: codes of its units and areas, and public counts"
    yield DescribedFile(f"tables/{UNITS}", title, tuple(places), (block,))
    for table in output.tables:
        first, second, *lines_of = table_schema(table)
        columns = [
            DescribedColumn(first.name, "string", "level"),
            DescribedColumn(second.name, "string", "area"),
            *map(_plain, lines_of),
        ]
        yield DescribedFile(f"tables/{table.name}", table.title, tuple(columns), (first.name, second.name))


def _plain(column: pa.Field) -> DescribedColumn:
    return DescribedColumn(column.name, "integer" if pa.types.is_integer(column.type) else "string", "figure")
