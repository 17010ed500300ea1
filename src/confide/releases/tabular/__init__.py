"""One tabular release: tables with their margins, how their rows are written and read, and what ``verify`` asks of all.

A *table* crosses variables; a *margin* is the cross-classification of some of them, from the total, which has none, to
the table itself. In the column of a variable that a margin sums over stands the *total label*. A row is known by the
number of its margin and the number of its cell in it, and on tables of a geography by its level and area besides:

    (level, area,) labels of the variables, figures                                the first layout
    (level, area, name,) margin, codes and labels of the variables, figures        the second layout: ``coded``
    DATAFLOW, LABELS OF THE VARIABLES, OBS_VALUE, ...                              SDMX-CSV 1.0, of the first layout
    STRUCTURE, STRUCTURE_ID, ACTION, CODES, OBS_VALUE, ATTRIBUTES                  SDMX-CSV 2.0, of the second: ``sdmx``

A mechanism adds its own figures (a noise margin, a status, a weighted count), and the checks that these allow. It
speaks of cells by labels in either layout.
"""

from confide.releases.tabular.checks import (
    every_format,
    labels_tell_apart,
    no_other_files,
    read_formats,
    released_file,
    same_formats,
    second_layout,
    table_files,
    unique_keys,
    unlike_plan,
)
from confide.releases.tabular.coded import (
    AREA_NAME,
    CELL,
    MARGIN,
    AreaNames,
    CodedColumns,
    CodedVariable,
    cells_alone,
)
from confide.releases.tabular.publishing import (
    AREAS,
    CELLS,
    CodedTable,
    area_names,
    publish_areas,
)
from confide.releases.tabular.rows import (
    DATAFLOW,
    OBSERVATION,
    SDMX,
    Batches,
    RowsInOrder,
    TableRows,
    check_flow,
    flow_name,
    placed_rows,
    plain_rows,
    plain_schema,
    publish,
    read_columns,
    read_plain,
    read_sdmx,
    repeated,
    sdmx_rows,
    sdmx_schema,
)
from confide.releases.tabular.sdmx import (
    check_area_codes,
    read_observations,
    sdmx_codes,
    sdmx_name,
)
from confide.releases.tabular.table import (
    AREA,
    COUNT,
    FIRST,
    LABEL_ENDING,
    LEVEL,
    SECOND,
    Margin,
    QueryTable,
    Table,
    TableVariable,
    UnlikePlanError,
    check_column_names,
    check_sdmx_columns,
    figure_column,
    incomplete_recode,
    placed,
    projected,
    text_column,
    too_large,
)
from confide.schema import ALL, TOTAL_CODE

__all__ = [
    "ALL",
    "AREA",
    "AREAS",
    "AREA_NAME",
    "CELL",
    "CELLS",
    "COUNT",
    "DATAFLOW",
    "FIRST",
    "LABEL_ENDING",
    "LEVEL",
    "MARGIN",
    "OBSERVATION",
    "SDMX",
    "SECOND",
    "TOTAL_CODE",
    "AreaNames",
    "Batches",
    "CodedColumns",
    "CodedTable",
    "CodedVariable",
    "Margin",
    "QueryTable",
    "RowsInOrder",
    "Table",
    "TableRows",
    "TableVariable",
    "UnlikePlanError",
    "area_names",
    "cells_alone",
    "check_area_codes",
    "check_column_names",
    "check_flow",
    "check_sdmx_columns",
    "every_format",
    "figure_column",
    "flow_name",
    "incomplete_recode",
    "labels_tell_apart",
    "no_other_files",
    "placed",
    "placed_rows",
    "plain_rows",
    "plain_schema",
    "projected",
    "publish",
    "publish_areas",
    "read_columns",
    "read_formats",
    "read_observations",
    "read_plain",
    "read_sdmx",
    "released_file",
    "repeated",
    "same_formats",
    "sdmx_codes",
    "sdmx_name",
    "sdmx_rows",
    "sdmx_schema",
    "second_layout",
    "table_files",
    "text_column",
    "too_large",
    "unique_keys",
    "unlike_plan",
]
