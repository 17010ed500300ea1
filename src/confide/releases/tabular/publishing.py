"""A table of the second layout written to a release: all rows, the cells alone, and SDMX-CSV."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from confide.geography import Geolevel
from confide.inputs.frame import Frame
from confide.releases.folder import ReleaseWriter
from confide.releases.tabular.coded import AREA_NAME, MARGIN, AreaNames, CodedColumns, cells_alone
from confide.releases.tabular.rows import SDMX
from confide.releases.tabular.sdmx import sdmx_batches, sdmx_columns
from confide.releases.tabular.table import AREA, LEVEL, text_column

CELLS, AREAS = "cells", "areas"
"""The folder of the tables without their margins, and the file of areas."""


@dataclass(frozen=True, eq=False)
class CodedTable:
    """A table that is published in the second layout."""

    name: str
    title: str
    columns: CodedColumns
    figures: tuple[pa.Field, ...]
    rows: Callable[[], Iterator[pa.RecordBatch]]
    """The rows with labels, made anew at each call."""

    def publish(self, release: ReleaseWriter, formats: Sequence[str], names: AreaNames | None, agency: str) -> None:
        """Writes ``tables/NAME`` with all rows, ``cells/NAME`` with the cells of the table itself, which can be added
        up, and ``sdmx/NAME.csv`` where it is asked for."""
        schema = self.columns.schema(self.figures)
        readers = [format_ for format_ in formats if format_ in ("parquet", "csv")]

        def coded() -> Iterator[pa.RecordBatch]:
            return (self.columns.coded(batch, names, schema) for batch in self.rows())

        if readers:
            release.table(self.name, schema, coded(), readers, self.title)
            alone = schema.remove(schema.get_field_index(MARGIN))
            cells = (cells_alone(batch) for batch in coded())
            release.table(self.name, alone, cells, readers, f"{self.title}, cells alone", folder=CELLS)
        if SDMX in formats:
            observations = sdmx_columns(self.columns, self.figures)
            batches = sdmx_batches(self.rows(), self.columns, observations, agency, self.name, names)
            release.text(f"sdmx/{self.name}", observations, batches, self.title, ",", quoted=True)


def area_names(frame: Frame | None, levels: Iterable[Geolevel], *, named: bool) -> AreaNames | None:
    """The names of the areas of some levels, as the frame has them; none where a spec names no column of names."""
    if frame is None or not named:
        return None
    return AreaNames({level.name: (level.codes, frame.names.get(level.name, ("",) * level.units)) for level in levels})


def publish_areas(release: ReleaseWriter, levels: Sequence[tuple[str, Sequence[str]]], names: AreaNames | None) -> None:
    """Writes ``areas.csv``: the codes of all areas, level by level, with their names where the frame has them."""
    fields = [text_column(LEVEL, "geolevel"), text_column(AREA, "code of the geounit or area")]
    if names is not None:
        fields.append(text_column(AREA_NAME, "name of the geounit or area"))
    schema = pa.schema(fields)

    def batches() -> Iterator[pa.RecordBatch]:
        for level, codes in levels:
            columns = [pa.array([level] * len(codes), pa.string()), pa.array(codes, pa.string())]
            if names is not None:
                columns.append(names.column(*columns))
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    release.text(AREAS, schema, batches(), "Areas", ",", quoted=True)
