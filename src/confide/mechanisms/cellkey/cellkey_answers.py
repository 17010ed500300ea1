"""Keys for records, any table on request, and tables of noise for the lookup ``abs``: the answers of
``confide cellkey``."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from confide.answers import AnswerPart, ShownTable, TypedAnswer
from confide.engines import Engine, LocalEngine, Source, format_of
from confide.errors import ConfideError, Finding, InputError, ParameterError, Place, SpecError
from confide.exact import Exact
from confide.file_system import private_folder, whole_file, write_text
from confide.mechanisms.cellkey import keys
from confide.mechanisms.cellkey.keyed_records import check_keyed_records, count_cells, perturb_cells, write_coded
from confide.mechanisms.cellkey.keys import ROWS, AbsTable, write_keyed
from confide.mechanisms.cellkey.output import figure_columns, plain_rows, plain_schema
from confide.mechanisms.cellkey.programme import CellKeyProblem, build, prepare
from confide.mechanisms.cellkey.spec import CellKeySpec, CellKeyTable
from confide.noise.ptables import DECIMAL, count_settings, generate
from confide.noise.ptables.ptable import key_of
from confide.releases.spec import LoadedSpec
from confide.releases.tabular import QueryTable
from confide.schema import Query, Recode, Schema

READABLE = 0o644


@dataclass(frozen=True)
class RecordKeys(TypedAnswer):
    """A file of records with a key each. Keys are secret, and no answer shows any."""

    records: Path
    rows: int
    column: str
    keys: int

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "ok": True,
            "records": str(self.records),
            "rows": self.rows,
            "column": self.column,
            "keys": self.keys,
        }

    def described(self) -> Iterator[AnswerPart]:
        text = f"Wrote {self.records}: {self.rows:,} records, each with a key in the column {self.column!r}."
        yield f"{text} Keep it secret."


@dataclass(frozen=True)
class RequestedTable(TypedAnswer):
    """A table with perturbed figures; cells that are not among the rows are zero."""

    variables: tuple[str, ...]
    where: Mapping[str, Sequence[str]]
    rows: pa.Table
    file: Path | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        values = {
            "ok": True,
            "variables": list(self.variables),
            "where": {name: list(labels) for name, labels in self.where.items()},
            "columns": self.rows.column_names,
            "rows": self.rows.to_pylist(),
        }
        return values | ({} if self.file is None else {"file": str(self.file)})

    def described(self) -> Iterator[AnswerPart]:
        rows = self.rows
        if self.file is not None:
            yield f"Wrote {self.file}: {rows.num_rows:,} cells that are not zero."
            return
        numbers = {field.name for field in rows.schema if not pa.types.is_string(field.type)}
        heads = [f"{name} " if name in numbers else name for name in rows.column_names]
        yield ShownTable(heads, [[_figure(value) for value in row.values()] for row in rows.to_pylist()])


def _figure(value: object) -> str:
    return f"{value:,}" if isinstance(value, int | float) else str(value)


@dataclass(frozen=True)
class AbsTableAnswer(TypedAnswer):
    """A table of noise for the lookup ``abs``, and where it was written."""

    table: AbsTable = field(repr=False)
    file: Path
    drawn: bool
    """Whether every entry was drawn, instead of exact shares of 256."""
    findings: tuple[Finding, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "ok": True,
            "file": str(self.file),
            "columns": self.table.size,
            "small_n": self.table.small_n,
            "drawn": self.drawn,
            "findings": [finding.as_dict() for finding in self.findings],
        }

    def described(self) -> Iterator[AnswerPart]:
        yield from self.findings
        yield f"Wrote {self.file}: {ROWS} rows, {self.table.size} columns."


def give_record_keys(
    records: str | Path,
    out: str | Path,
    *,
    keys: int = DECIMAL,
    first: int = 0,
    column: str = "record_key",
    delimiter: str = ",",
) -> RecordKeys:
    """Gives every record a key, once. Keep the new file as the records: other keys would be other noise.

    Args:
        records: The records, Parquet or CSV.
        out: A new Parquet file: the records with a key each. Whoever has it and the published tables has the true
            counts.
        keys: How many different keys there are.
        first: The smallest key; 1 for the lookup ``abs``.
        column: The name of the column of keys.
        delimiter: The delimiter of a CSV.

    Returns:
        The file and the number of records, without any key.

    >>> import confide
    >>> keyed = confide.give_record_keys(project / "persons.parquet", tmp_path / "keyed.parquet")
    >>> keyed.rows
    500
    """
    path = Path(records)
    if Path(out).suffix.lower() != ".parquet":
        raise ParameterError("bad-option/keys", where=Place(path="--out"), found=Path(out).name[:80])
    return give_keys(Source(path, format_of(path) or "csv", {}, delimiter), Path(out), keys, first, column)


def give_keys(
    source: Source, target: Path, keys: int = DECIMAL, first: int = 0, column: str = "record_key"
) -> RecordKeys:
    """The same for a file whose layout is known."""
    with tempfile.TemporaryDirectory(prefix="confide-keys-") as scratch, LocalEngine(Path(scratch)) as engine:
        rows = write_keyed(engine, source, target, column=column, keys=keys, first=first)
    return RecordKeys(target, rows, column, keys)


def table_on_request(
    loaded: LoadedSpec,
    variables: Sequence[str],
    *,
    where: Mapping[str, Sequence[str]] | None = None,
    levels: Sequence[str] = (),
    margins: bool = True,
    out: str | Path | None = None,
    processes: int | None = None,
    memory: str = "4GiB",
) -> RequestedTable:
    """Any table over the schema of a spec, with the figures that a release has for the same people.

    Args:
        loaded: A spec of the mechanism cellkey.
        variables: What is crossed: attributes and recodes such as ``age:five-year``; none for the total.
        where: Count the records with these labels alone, by variable; several labels of one: any of them.
        levels: Geolevels and areas of the spec: the table for every unit of each; none: for all records.
        margins: Whether the table has all margins, or inner cells alone.
        out: Where to write the table, in a file that ends in .csv or .parquet.
        processes: How many processes count; without it, as many as the machine has cores.
        memory: The memory that the tabulation may use before it spills to the disk.

    Returns:
        The perturbed figures.
    """
    target = None if out is None else Path(out)
    if target is not None and target.suffix not in (".csv", ".parquet"):
        raise ParameterError("bad-option/form-file", where=Place(path="--out"), found=target.name[:80])
    if not isinstance(loaded.spec, CellKeySpec) or loaded.spec.given:
        raise SpecError(
            "not-cellkey", where=loaded.place("release", "mechanism"), mechanism=loaded.spec.release.mechanism
        )
    labels = dict(where or {})
    with (
        tempfile.TemporaryDirectory(prefix="confide-table-") as scratch,
        LocalEngine(Path(scratch), processes=processes, memory=memory) as engine,
    ):
        rows = build_table(
            prepare(loaded, engine),
            engine,
            variables,
            labels,
            margins="all" if margins else "none",
            levels=levels,
            scratch=Path(scratch),
        )
    if target is not None:
        _write(rows, target)
    return RequestedTable(tuple(variables), labels, rows, target)


def make_abs_table(
    D: int,
    V: Exact,
    out: str | Path,
    *,
    js: int = 0,
    size: int = keys.SIZE,
    small_n: int = keys.SMALL_N,
    draw: bool = False,
    seed: str | None = None,
) -> AbsTableAnswer:
    """Makes a table of noise for the lookup ``abs``: 256 values for each column, from the law of a perturbation table.

    Args:
        D: The largest noise, a count.
        V: The variance.
        out: A new file: 256 lines, a column for each count or class of counts.
        js: Results from 1 to js do not occur.
        size: How many columns there are.
        small_n: How many columns larger counts share.
        draw: Whether every entry is drawn, instead of exact shares of 256.
        seed: With ``draw``: a key of your own, for trials.

    Returns:
        The table, and what is to be known about it.
    """
    target = Path(out)
    if seed is not None and not draw:
        raise ParameterError("bad-option/nothing", where=Place(path="--seed"), found=seed[:80])
    if target.exists():
        raise ParameterError("bad-option/file", where=Place(path="--out"), found=target.name[:80])
    design = generate(count_settings(D, V, js))
    law = design.table()
    table = keys.draw_columns(law, key_of(seed), size, small_n) if draw else keys.allocate(law, size, small_n)
    write_text(target, keys.abs_text(table))
    return AbsTableAnswer(table, target, draw, (*design.findings(), *keys.bias_findings(table)))


def _write(rows: pa.Table, target: Path) -> None:
    with whole_file(target, mode=READABLE) as temporary:
        if target.suffix == ".parquet":
            pq.write_table(rows, temporary, compression="zstd")
        else:
            options = pyarrow.csv.WriteOptions(quoting_style="needed")
            pyarrow.csv.write_csv(rows, temporary, write_options=options)


# The flexible table builder: any table over the schema, when somebody asks for it.
#
# An answer is made as a static release is: from the same keyed records, the same lookup and the same rules. The noise
# of
# a cell follows from who is in it, and from nothing else. So the same members have the same figure in a release, in
# an
# answer, and in an answer with a filter that removes none of them. Asking again gives nothing that could be averaged.
#
# Only perturbed figures leave. But an answer is a release of its own: with filters, anybody can ask for cells that
# differ
# by one person. Their noise is independent, which is all the protection there is (``docs/concepts/cellkey-
# tables.md``).


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
    levels: Sequence[str] = (),
    known: Sequence[str] = (),
) -> TableRequest:
    """The table that a request means. Raises a :class:`ParameterError` with every problem of it."""
    findings: list[Finding] = [
        Finding.of(
            "unknown-level/spec",
            where=Place(path="levels"),
            level=level,
            known=", ".join(known) if known else None,
        )
        for level in levels
        if level not in known
    ]
    table = None
    try:
        part = CellKeyTable(name=NAME, variables=list(variables), margins=margins, levels=list(levels))
        table = build(part, schema)
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
    levels: Sequence[str] = (),
    scratch: Path | None = None,
) -> pa.Table:
    """The published figures of a table: labels and figures of the rows that a release has.

    Args:
        problem: The prepared problem of a spec, which names the keyed records and the perturbation table.
        engine: What the records are counted with.
        variables: Attributes or recodes of the schema; none: the total alone.
        where: For some variables the label (or code) of one group or of several; others are not counted.
        margins: Whether all margins are wanted, or the inner cells alone.
        levels: Geolevels and areas that the table is wanted for; none: all records.
        scratch: Coded records lie in a private folder below this one while they are counted.

    Returns:
        A column for each variable, the perturbed ``count`` and, with weights, ``weighted``; without cells of zero.

    Raises:
        ParameterError: There is no such variable or group.
        InputError: The records do not fit, or have no keys.
    """
    assert problem.schema is not None
    known = [] if problem.frame is None else problem.spine.names
    request = understand(problem.schema, variables, where, margins, levels, known)
    # A table without margins is coded, and never counted: the variables of the filter.
    only = QueryTable("where", "where", Query(tuple(variable for variable, _ in request.where)), ())
    coded = replace(problem, tables=(request.table, only), frame=problem.frame if levels else None)
    chosen = [
        (variable.attribute.name, np.flatnonzero(np.isin(variable.assignment, groups)).tolist())
        for variable, groups in request.where
    ]
    with tempfile.TemporaryDirectory(prefix="confide-table-", dir=scratch) as folder:
        private = private_folder(Path(folder))
        wrong = [f for f in check_keyed_records(engine, coded, private) if f.severity == "error"]
        if wrong:
            raise InputError(wrong)
        write_coded(engine, coded, private / CODED, private, chosen)
        counted = count_cells(replace(coded, tables=(request.table,)), private / CODED)
        figures = {each.name: perturb_cells(problem, sums) for each, sums in counted}
    schema = plain_schema(request.table, figure_columns(problem))
    return pa.Table.from_batches(plain_rows(coded, request.table, figures), schema)


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
    raise ParameterError("unknown-value", variable=variable.name, value=value, labels=", ".join(labels), others=others)
