"""One tabular release: tables with their margins, how their rows are written and read, and what ``verify`` asks of all.

A *table* crosses variables; a *margin* is the cross-classification of some of them, from the total, which has none, to
the table itself. In the column of a variable that a margin sums over stands the *total label*. A row is known by the
number of its margin and the number of its cell in it, and on tables of a geography by its level and area besides:

    (level, area,) labels of the variables, figures          plain files, Parquet and CSV
    DATAFLOW, LABELS OF THE VARIABLES, OBS_VALUE, ...        SDMX-CSV 1.0

A mechanism adds its own figures (a noise margin, a status, a weighted count), and the checks that these allow.
"""

from confide.releases.tabular.checks import (
    every_format,
    labels_tell_apart,
    no_other_files,
    read_formats,
    released_file,
    same_formats,
    table_files,
    unique_keys,
    unlike_plan,
)
from confide.releases.tabular.table import (
    AREA,
    COUNT,
    DATAFLOW,
    LEVEL,
    OBSERVATION,
    SDMX,
    Margin,
    QueryTable,
    RowsInOrder,
    Table,
    TableRows,
    TableVariable,
    UnlikePlanError,
    check_column_names,
    check_flow,
    figure_column,
    incomplete_recode,
    placed,
    plain_rows,
    plain_schema,
    projected,
    publish,
    read_columns,
    read_plain,
    read_sdmx,
    repeated,
    sdmx_rows,
    sdmx_schema,
    text_column,
    too_large,
)
from confide.schema import ALL, TOTAL_CODE

__all__ = [
    "ALL",
    "AREA",
    "COUNT",
    "DATAFLOW",
    "LEVEL",
    "OBSERVATION",
    "SDMX",
    "TOTAL_CODE",
    "Margin",
    "QueryTable",
    "RowsInOrder",
    "Table",
    "TableRows",
    "TableVariable",
    "UnlikePlanError",
    "check_column_names",
    "check_flow",
    "every_format",
    "figure_column",
    "incomplete_recode",
    "labels_tell_apart",
    "no_other_files",
    "placed",
    "plain_rows",
    "plain_schema",
    "projected",
    "publish",
    "read_columns",
    "read_formats",
    "read_plain",
    "read_sdmx",
    "released_file",
    "repeated",
    "same_formats",
    "sdmx_rows",
    "sdmx_schema",
    "table_files",
    "text_column",
    "too_large",
    "unique_keys",
    "unlike_plan",
]
