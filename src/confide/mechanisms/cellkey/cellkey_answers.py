"""Keys for records, any table on request, and tables of noise for the lookup ``abs``: the answers of
``confide cellkey``."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from confide.answers import TypedAnswer
from confide.engines import LocalEngine, Source, format_of
from confide.engines.groups import whole_file, write_text
from confide.errors import Finding, ParameterError, Place, SpecError
from confide.exact import Exact
from confide.mechanisms.cellkey import lookups
from confide.mechanisms.cellkey.builder import build_table
from confide.mechanisms.cellkey.keys import write_keyed
from confide.mechanisms.cellkey.lookups import AbsTable
from confide.mechanisms.cellkey.programme import prepare
from confide.mechanisms.cellkey.spec import CellKeySpec
from confide.noise.ptables import DECIMAL, count_settings, generate
from confide.noise.ptables.ptable import key_of
from confide.releases.spec import LoadedSpec

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
    """
    path, target = Path(records), Path(out)
    source = Source(path, format_of(path) or "csv", {}, delimiter)
    with tempfile.TemporaryDirectory(prefix="confide-keys-") as scratch, LocalEngine(Path(scratch)) as engine:
        rows = write_keyed(engine, source, target, column=column, keys=keys, first=first)
    return RecordKeys(target, rows, column, keys)


def table_on_request(
    loaded: LoadedSpec,
    variables: Sequence[str],
    *,
    where: Mapping[str, Sequence[str]] | None = None,
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
        margins: Whether the table has all margins, or inner cells alone.
        out: Where to write the table, in a file that ends in .csv or .parquet.
        processes: How many processes count; without it, as many as the machine has cores.
        memory: The memory that the tabulation may use before it spills to the disk.

    Returns:
        The perturbed figures.
    """
    target = None if out is None else Path(out)
    if target is not None and target.suffix not in (".csv", ".parquet"):
        raise bad_option("--out", "the form of the file is not known", target.name, "a name in .csv or .parquet")
    if not isinstance(loaded.spec, CellKeySpec):
        raise SpecError(
            "not-cellkey",
            "only the cell key method answers tables on request",
            where=loaded.place("release", "mechanism"),
            found=f"the mechanism {loaded.spec.release.mechanism}",
            expected="the mechanism cellkey",
            remedy="give a spec of the mechanism cellkey",
        )
    question, labels = prepare(loaded), dict(where or {})
    with (
        tempfile.TemporaryDirectory(prefix="confide-table-") as scratch,
        LocalEngine(Path(scratch), processes=processes, memory=memory) as engine,
    ):
        rows = build_table(
            question, engine, variables, labels, margins="all" if margins else "none", scratch=Path(scratch)
        )
    if target is not None:
        _write(rows, target)
    return RequestedTable(tuple(variables), labels, rows, target)


def make_abs_table(
    max_noise: int,
    variance: Exact,
    out: str | Path,
    *,
    js: int = 0,
    size: int = lookups.SIZE,
    small_n: int = lookups.SMALL_N,
    draw: bool = False,
    seed: str | None = None,
) -> AbsTableAnswer:
    """Makes a table of noise for the lookup ``abs``: 256 values for each column, from the law of a perturbation table.

    Args:
        max_noise: The largest noise D, a count.
        variance: The variance V.
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
        raise bad_option("--seed", "a seed is given, and nothing is drawn", seed, "--draw with it")
    if target.exists():
        expected = "a new file: figures made with the table that is there need it"
        raise bad_option("--out", "there is such a file already", target.name, expected)
    design = generate(count_settings(max_noise, variance, js))
    law = design.table()
    table = lookups.draw_columns(law, key_of(seed), size, small_n) if draw else lookups.allocate(law, size, small_n)
    write_text(target, lookups.abs_text(table))
    return AbsTableAnswer(table, target, draw, (*design.findings(), *lookups.bias_findings(table)))


def _write(rows: pa.Table, target: Path) -> None:
    with whole_file(target, mode=READABLE) as temporary:
        if target.suffix == ".parquet":
            pq.write_table(rows, temporary, compression="zstd")
        else:
            options = pyarrow.csv.WriteOptions(quoting_style="needed")
            pyarrow.csv.write_csv(rows, temporary, write_options=options)


def bad_option(option: str, what: str, found: str, expected: str) -> ParameterError:
    """The error of an option that is not what it can be."""
    return ParameterError("bad-option", what, Place(path=option), found[:80], expected, f"correct {option}")
