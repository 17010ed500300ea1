"""The flexible table builder: any table over the schema, when somebody asks for it.

An answer is made as a static release is: from the same keyed records, the same lookup and the same rules. The noise of
a cell follows from who is in it, and from nothing else. So the same members have the same figure in a release, in an
answer, and in an answer with a filter that removes none of them. Asking again gives nothing that could be averaged.

Only perturbed figures leave. But an answer is a release of its own: with filters, anybody can ask for cells that differ
by one person. Their noise is independent, which is all the protection there is (``docs/concepts/cellkey-tables.md``).
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa

from confide.engines import Engine
from confide.engines.protocol import identifier
from confide.errors import ConfideError, Finding, InputError, ParameterError, Place
from confide.mechanisms.cellkey.counting import check_keyed_records, coded_expressions, count_cells, perturb
from confide.mechanisms.cellkey.output import plain_rows, plain_schema
from confide.mechanisms.cellkey.programme import CellKeyProblem, build
from confide.mechanisms.cellkey.spec import CellKeyTable
from confide.releases.tabular import QueryTable
from confide.schema import Query, Recode, Schema

NAME = "table"
CODED = "coded.parquet"
MOST_VALUES = 12


@dataclass(frozen=True)
class TableRequest:
    """A table that was asked for, and whose records it counts."""

    table: QueryTable
    where: tuple[tuple[Recode, tuple[int, ...]], ...]
    """Variables with the groups that are counted; a record is counted if it is in one of them, for every variable."""


def understand(
    schema: Schema,
    variables: Sequence[str],
    where: Mapping[str, str | Sequence[str]] | None = None,
    margins: Literal["all", "none"] = "all",
) -> TableRequest:
    """The table that a request means. Raises a :class:`ParameterError` with every problem of it."""
    findings: list[Finding] = []
    table = None
    try:
        table = build(CellKeyTable(name=NAME, variables=list(variables), margins=margins), schema)
    except ConfideError as error:
        findings += [replace(finding, where=Place(path="variables")) for finding in error.findings]
    chosen = []
    for name, values in (where or {}).items():
        try:
            variable = schema.variable(name)
            wanted = [values] if isinstance(values, str) else values
            chosen.append((variable, tuple(_group(variable, value) for value in wanted)))
        except ConfideError as error:
            findings += [replace(finding, where=Place(path=f"where {name}")) for finding in error.findings]
    if findings or table is None:
        raise ParameterError(findings)
    return TableRequest(table, tuple(chosen))


def build_table(
    problem: CellKeyProblem,
    engine: Engine,
    variables: Sequence[str],
    where: Mapping[str, str | Sequence[str]] | None = None,
    *,
    margins: Literal["all", "none"] = "all",
    scratch: Path | None = None,
) -> pa.Table:
    """The published figures of a table: columns and rows as a release has them.

    Args:
        problem: The prepared problem of a spec, which names the keyed records and the perturbation table.
        engine: What the records are counted with.
        variables: Attributes or recodes of the schema; none: the total alone.
        where: For some variables the label (or code) of one group or of several; others are not counted.
        margins: Whether all margins are wanted, or the inner cells alone.
        scratch: Coded records lie in a private folder below this one while they are counted.

    Returns:
        A column for each variable, the perturbed ``count`` and, with weights, ``weighted``; without cells of zero.

    Raises:
        ParameterError: There is no such variable or group.
        InputError: The records do not fit, or have no keys.
    """
    request = understand(problem.schema, variables, where, margins)
    # A table without margins is coded, and never counted: the variables of the filter.
    only = QueryTable("where", "where", Query(tuple(variable for variable, _ in request.where)), ())
    coded = replace(problem, tables=(request.table, only))
    wrong = [finding for finding in check_keyed_records(engine, coded) if finding.severity == "error"]
    if wrong:
        raise InputError(wrong)
    with tempfile.TemporaryDirectory(prefix="confide-table-", dir=scratch) as folder:
        file = Path(folder) / CODED
        engine.write(_coded(engine, coded, request), file, records=problem.records)
        threshold = problem.spec.cellkey.threshold
        figures = {
            query.name: perturb(sums, problem.lookup, threshold)
            for query, sums in count_cells(replace(problem, tables=(request.table,)), file)
        }
    schema = plain_schema(request.table, weighted=problem.spec.data.weight is not None)
    return pa.Table.from_batches(plain_rows(request.table, figures), schema)


def _coded(engine: Engine, problem: CellKeyProblem, request: TableRequest) -> str:
    """SQL for the coded records that the filter leaves."""
    expressions = coded_expressions(engine, problem)
    columns = ", ".join(f"{expression} AS {identifier(name)}" for name, expression in expressions.items())
    text = f"SELECT {columns} FROM records"
    conditions = []
    for variable, groups in request.where:
        levels = np.flatnonzero(np.isin(variable.assignment, groups)).tolist()
        conditions.append(f"{identifier(variable.attribute.name)} IN ({', '.join(map(str, levels))})")
    return f"SELECT * FROM ({text}) AS coded WHERE {' AND '.join(conditions)}" if conditions else text


def _group(variable: Recode, value: str) -> int:
    """The group with a label; or, of an attribute as it is, the level with a code."""
    if value in variable.labels:
        return variable.labels.index(value)
    if variable.name == variable.attribute.name:
        for place, level in enumerate(variable.attribute.levels):
            if str(level.code) == value:
                return place
    labels = [repr(label) for label in variable.labels[:MOST_VALUES]]
    others = len(variable.labels) - len(labels)
    raise ParameterError(
        "unknown-value",
        f"{variable.name!r} has no group {value!r}",
        found=value,
        expected="one of " + ", ".join(labels) + (f" and {others} more" if others else ""),
        remedy="write the label as it stands in the schema, or the code of an attribute",
    )
