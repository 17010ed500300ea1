"""Tables of the second layout as tests speak of them: by labels; and back, whatever a forger has put into them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from confide.releases.tabular import DescribedTable, sdmx_codes, sdmx_name

DESCRIBING = ("area_name", "margin")


def labelled(table: pa.Table) -> pa.Table:
    """The labels of each variable under its name, without codes, margins and names."""
    names = [name for name in table.column_names if not name.endswith("_label") and name not in DESCRIBING]
    labels = {name: f"{name}_label" for name in names if f"{name}_label" in table.column_names}
    return pa.table({name: table.column(labels.get(name, name)) for name in names})


def read_labelled(file: Path) -> pa.Table:
    """The same for a Parquet file."""
    return labelled(pq.read_table(file))


def _codes(described: DescribedTable, name: str, *, sdmx: bool = False) -> dict[str, str]:
    variable = next(each for each in described.columns.variables if each.name == name)
    codes = sdmx_codes(variable.codes) if sdmx else variable.codes
    return {"_T": "_T"} | dict(zip(variable.labels, codes, strict=True))


def coded(table: pa.Table, described: DescribedTable) -> pa.Table:
    """A table of labels in the second layout; a label that the plan lacks stands for its own code."""
    variables = [each.name for each in described.columns.variables if each.name in table.column_names]
    columns: dict[str, Any] = {name: table.column(name) for name in ("level", "area") if name in table.column_names}
    if described.columns.named:
        columns["area_name"] = pa.array([""] * table.num_rows, pa.string())
    margins = []
    for row in table.select(variables).to_pylist() or [{}] * table.num_rows:
        kept = [name for name in variables if row[name] != "_T"]
        margins.append("cell" if len(kept) == len(variables) else f"by {'*'.join(kept)}" if kept else "total")
    columns["margin"] = pa.array(margins, pa.string())
    for name in table.column_names:
        if name in variables:
            codes = _codes(described, name)
            columns[name] = pa.array([codes.get(label, label) for label in table.column(name).to_pylist()], pa.string())
            columns[f"{name}_label"] = table.column(name)
        elif name not in columns:
            columns[name] = table.column(name)
    return pa.table(columns)


def observations(table: pa.Table, described: DescribedTable) -> pa.Table:
    """A table of labels as SDMX-CSV 2.0 has it."""
    variables = {each.name: each.title or each.name for each in described.columns.variables}
    flow = described.name.upper().replace("-", "_")
    texts = ["datastructure", f"CONFIDE:{flow}(1.0)", "I"]
    columns: dict[str, Any] = {
        name: pa.array([text] * table.num_rows, pa.string())
        for name, text in zip(("STRUCTURE", "STRUCTURE_ID", "ACTION"), texts, strict=True)
    }
    figures = [name for name in table.column_names if name not in variables and name not in ("level", "area")]
    for name in table.column_names:
        values = table.column(name).to_pylist()
        if name in variables:
            codes = _codes(described, name, sdmx=True)
            both = [f"{codes.get(label, label)}: {'total' if label == '_T' else label}" for label in values]
            columns[f"{sdmx_name(name)}: {variables[name]}"] = pa.array(both, pa.string())
        elif name in ("level", "area"):
            columns[f"{name.upper()}: {name}"] = pa.array([f"{text}: {text}" for text in values], pa.string())
        else:
            columns["OBS_VALUE" if name == figures[0] else name.upper()] = table.column(name)
    return pa.table(columns)
