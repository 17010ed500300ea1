"""``confide cellkey``: keys for records, any table that is asked for, and tables of noise for the lookup ``abs``."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import typer
from rich.markup import escape

from confide import api
from confide.cli import show
from confide.cli.show import Json, Memory, Processes, out, print_json, show_findings
from confide.engines import LocalEngine, Source, format_of
from confide.engines.groups import whole_file, write_text
from confide.errors import Finding, ParameterError, Place, SpecError
from confide.mechanisms.cellkey import lookups as abs_table
from confide.mechanisms.cellkey.builder import build_table
from confide.mechanisms.cellkey.keys import write_keyed
from confide.mechanisms.cellkey.programme import prepare
from confide.mechanisms.cellkey.spec import CellKeySpec
from confide.noise.ptables import DECIMAL, count_settings, generate
from confide.noise.ptables.ptable import key_of

READABLE = 0o644
app = typer.Typer(help="The cell key method: keys for records, and tables on request.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """The cell key method: keys for records, and tables on request."""


@app.command()
def keys(
    records: Annotated[Path, typer.Argument(metavar="RECORDS", help="The records, Parquet or CSV.")],
    into: Annotated[Path, typer.Option("--out", help="A new Parquet file: the records with a key each.")],
    number: Annotated[int, typer.Option("--keys", min=2, max=1 << 32, help="So many different keys.")] = DECIMAL,
    first: Annotated[int, typer.Option("--from", min=0, max=1, help="The smallest key; 1 for the lookup abs.")] = 0,
    column: Annotated[str, typer.Option(help="The name of the column of keys.")] = "record_key",
    delimiter: Annotated[str, typer.Option(help="The delimiter of a CSV.")] = ",",
    as_json: Json = False,
) -> None:
    """Give every record a key, once. Keep the new file as the records: other keys would be other noise.

    Keys are secret. Whoever has them and the published tables has the true counts.
    """
    source = Source(records, format_of(records) or "csv", {}, delimiter)
    with tempfile.TemporaryDirectory(prefix="confide-keys-") as scratch, LocalEngine(Path(scratch)) as engine:
        written = write_keyed(engine, source, into, column=column, keys=number, first=first)
    if as_json:
        print_json({"ok": True, "records": str(into), "rows": written, "column": column, "keys": number})
        return
    out.print(escape(f"Wrote {into}: {written:,} records, each with a key in the column {column!r}. Keep it secret."))


@app.command()
def table(
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="A spec of the mechanism cellkey, or its run folder.")],
    variables: Annotated[
        str, typer.Option(metavar="V[,V...]", help="What is crossed, such as sex,age:five-year; empty: the total.")
    ],
    where: Annotated[
        list[str] | None,
        typer.Option(metavar="V=LABEL", help="Count these records alone; repeatable, one variable: any of its labels."),
    ] = None,
    margins: Annotated[
        bool, typer.Option("--margins/--no-margins", help="With all margins, or inner cells alone.")
    ] = True,
    into: Annotated[
        Path | None, typer.Option("--out", help="Write it, .csv or .parquet, instead of showing it.")
    ] = None,
    as_json: Json = False,
    processes: Processes = None,
    memory: Memory = "4GiB",
) -> None:
    """Answer any table over the schema of a spec, with the figures that a release has for the same people.

    It need not be listed in the spec. Only perturbed figures leave; cells that are not shown are zero.
    """
    names = [name.strip() for name in variables.split(",") if name.strip()]
    chosen = _chosen(where or ())
    if into is not None and into.suffix not in (".csv", ".parquet"):
        raise ParameterError(
            _bad("--out", "the form of the file is not known", into.name, "a name in .csv or .parquet")
        )
    loaded = api.load(spec)
    if not isinstance(loaded.spec, CellKeySpec):
        found = f"the mechanism {loaded.spec.release.mechanism}"
        what, remedy = "only the cell key method answers tables on request", "give a spec of the mechanism cellkey"
        place = loaded.place("release", "mechanism")
        raise SpecError("not-cellkey", what, place, found, "the mechanism cellkey", remedy)
    question = prepare(loaded)
    with (
        tempfile.TemporaryDirectory(prefix="confide-table-") as scratch,
        LocalEngine(Path(scratch), processes=processes, memory=memory) as engine,
    ):
        rows = build_table(question, engine, names, chosen, margins="all" if margins else "none", scratch=Path(scratch))
    if into is not None:
        _write(rows, into)
    if as_json:
        told = {"ok": True, "variables": names, "where": chosen, "columns": rows.column_names, "rows": rows.to_pylist()}
        print_json(told | ({} if into is None else {"file": str(into)}))
    elif into is not None:
        out.print(escape(f"Wrote {into}: {rows.num_rows:,} cells that are not zero."))
    else:
        numbers = {field.name for field in rows.schema if not pa.types.is_string(field.type)}
        heads = [f"{name} " if name in numbers else name for name in rows.column_names]
        show.table(heads, ([_shown(value) for value in row.values()] for row in rows.to_pylist()))


@app.command("abs-table")
def abs_noise(
    largest: Annotated[int, typer.Option("-D", "--max-noise", min=1, help="The largest noise D, a count.")],
    variance: Annotated[str, typer.Option("-V", "--variance", help="The variance V: 2, 1.05, 9/10.")],
    into: Annotated[Path, typer.Option("--out", help="A new file: 256 lines, a column for each count.")],
    js: Annotated[int, typer.Option("--js", min=0, help="Results from 1 to js do not occur.")] = 0,
    size: Annotated[int, typer.Option(min=2, max=abs_table.MOST_COLUMNS, help="Columns.")] = abs_table.SIZE,
    small_n: Annotated[int, typer.Option(min=1, help="Columns that larger counts share.")] = abs_table.SMALL_N,
    draw: Annotated[bool, typer.Option("--draw", help="Draw every entry, instead of exact shares of 256.")] = False,
    seed: Annotated[str | None, typer.Option(metavar="HEX", help="With --draw: a key of your own, for trials.")] = None,
    as_json: Json = False,
) -> None:
    """Make a table of noise for the lookup abs: 256 values for each column, from the law of a perturbation table."""
    if seed is not None and not draw:
        raise ParameterError(_bad("--seed", "a seed is given, and nothing is drawn", seed, "--draw with it"))
    if into.exists():
        expected = "a new file: figures made with the table that is there need it"
        raise ParameterError(_bad("--out", "there is such a file already", into.name, expected))
    design = generate(count_settings(largest, variance, js))
    law = design.table()
    made = abs_table.draw_columns(law, key_of(seed), size, small_n) if draw else abs_table.allocate(law, size, small_n)
    write_text(into, abs_table.abs_text(made))
    findings = [*design.findings(), *abs_table.bias_findings(made)]
    if as_json:
        told = {"ok": True, "file": str(into), "columns": made.size, "small_n": made.small_n, "drawn": draw}
        print_json(told | {"findings": [finding.as_dict() for finding in findings]})
        return
    show_findings(findings)
    out.print(escape(f"Wrote {into}: {abs_table.ROWS} rows, {made.size} columns."))


def _chosen(texts: Sequence[str]) -> dict[str, list[str]]:
    """Filters by variable; a variable that is named again has several labels."""
    chosen: dict[str, list[str]] = {}
    for text in texts:
        name, equals, label = text.partition("=")
        if not (name.strip() and equals and label.strip()):
            expected = "a variable and a label, such as sex=female"
            raise ParameterError(_bad("--where", "this is not a filter", text, expected))
        chosen.setdefault(name.strip(), []).append(label.strip())
    return chosen


def _write(rows: pa.Table, into: Path) -> None:
    with whole_file(into, mode=READABLE) as temporary:
        if into.suffix == ".parquet":
            pq.write_table(rows, temporary, compression="zstd")
        else:
            options = pyarrow.csv.WriteOptions(quoting_style="needed")
            pyarrow.csv.write_csv(rows, temporary, write_options=options)


def _shown(value: object) -> str:
    return f"{value:,}" if isinstance(value, int | float) else str(value)


def _bad(option: str, what: str, found: str, expected: str) -> Finding:
    return Finding("bad-option", what, Place(path=option), found[:80], expected, f"correct {option}")
