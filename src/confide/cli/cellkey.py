"""``confide cellkey``: keys for records, any table that is asked for, and tables of noise for the lookup ``abs``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer
from rich.markup import escape

from confide import api
from confide.cli import show
from confide.cli.commands import setting
from confide.cli.show import Json, Memory, Processes, out, show_answer, show_findings
from confide.mechanisms.cellkey import lookups
from confide.mechanisms.cellkey.cellkey_answers import (
    AbsTableAnswer,
    RequestedTable,
    bad_option,
    give_record_keys,
    make_abs_table,
    table_on_request,
)
from confide.noise.ptables import DECIMAL


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
    answer = give_record_keys(records, into, keys=number, first=first, column=column, delimiter=delimiter)
    text = f"Wrote {into}: {answer.rows:,} records, each with a key in the column {column!r}. Keep it secret."
    show_answer(answer, lambda: out.print(escape(text)), as_json=as_json)


def table(
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="A spec of the mechanism cellkey, or its run folder.")],
    variables: Annotated[
        str, typer.Option(metavar="V[,V...]", help="What is crossed, such as sex,age:five-year; empty: the total.")
    ],
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="V=LABEL",
            help="Count only these records. Repeatable; for one variable, several labels mean any of them.",
        ),
    ] = None,
    level: Annotated[
        list[str] | None,
        typer.Option(metavar="LEVEL", help="The table for every unit of this level or area; repeatable."),
    ] = None,
    margins: Annotated[
        bool, typer.Option("--margins/--no-margins", help="With all totals and sub-totals, or only inner cells.")
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
    answer = table_on_request(
        api.load(spec),
        names,
        where=chosen,
        levels=level or (),
        margins=margins,
        out=into,
        processes=processes,
        memory=memory,
    )
    show_answer(answer, lambda: _show_table(answer), as_json=as_json)


def _show_table(answer: RequestedTable) -> None:
    rows = answer.rows
    if answer.file is not None:
        out.print(escape(f"Wrote {answer.file}: {rows.num_rows:,} cells that are not zero."))
        return
    numbers = {field.name for field in rows.schema if not pa.types.is_string(field.type)}
    heads = [f"{name} " if name in numbers else name for name in rows.column_names]
    show.table(heads, ([_figure(value) for value in row.values()] for row in rows.to_pylist()))


def perturb(
    cells: Annotated[
        Path, typer.Argument(metavar="TABLE", help="Cells with true counts and cell keys, CSV or Parquet.")
    ],
    into: Annotated[Path, typer.Option("--out", metavar="DIR", help="A new folder for the spec and the release.")],
    ptable: Annotated[Path | None, typer.Option(metavar="FILE", help="The perturbation table, as a file.")] = None,
    largest: Annotated[int | None, typer.Option("-D", help="Or: the largest noise D, a count.")] = None,
    variance: Annotated[str | None, typer.Option("-V", help="The variance V: 2, 1.05, 9/10.")] = None,
    js: Annotated[int, setting("--js", help="Results from 1 to js do not occur.")] = 0,
    pstay: Annotated[str | None, setting(help="The least probability of no noise.")] = None,
    mono: Annotated[bool, setting("--mono/--no-mono", help="Whether probabilities increase up to no noise.")] = True,
    keys: Annotated[
        int | None, setting(show_default=f"{DECIMAL}, or as the file", help="How many cell keys there are.")
    ] = None,
    shuffle: Annotated[
        str | None, setting(metavar="ORDER", help="derived, secret, none, or 64 hexadecimal digits.")
    ] = None,
    threshold: Annotated[int | None, setting(help="Published counts below it are left out.")] = None,
    count: Annotated[str, setting(help="The column with the true counts.")] = "count",
    cell_key: Annotated[str, setting(help="The column with the cell keys.")] = "cell_key",
    weight: Annotated[str | None, setting(help="A column of weighted counts.")] = None,
    weight_gap: Annotated[
        str | None,
        setting(help="How far neighbouring weights are apart at most: 1, 0.1; weighted counts are as coarse."),
    ] = None,
    variables: Annotated[
        str | None, setting(metavar="V[,V...]", help="The columns of labels; by default all others.")
    ] = None,
    name: Annotated[str | None, setting(help="What the table is called; by default as its file.")] = None,
    title: Annotated[str, setting(help="A title for people.")] = "",
    delimiter: Annotated[str, setting(help="The delimiter of a CSV.")] = ",",
    as_json: Json = False,
) -> None:
    """Perturb a table that was counted elsewhere, by the cell keys that it brings, and seal it as a release.

    The table is confidential: it has true counts and cell keys. What is released has neither.
    """
    answer = api.perturb_cells(
        cells,
        into,
        ptable=ptable,
        D=largest,
        V=variance,
        js=js,
        pstay=pstay,
        mono=mono,
        keys=keys,
        shuffle=shuffle,
        threshold=threshold,
        count=count,
        cell_key=cell_key,
        weight=weight,
        weight_gap=weight_gap,
        variables=None if variables is None else [each.strip() for each in variables.split(",")],
        name=name,
        title=title,
        delimiter=delimiter,
    )
    show_answer(
        answer, lambda: out.print(escape(f"Sealed {answer.release}. Its spec is {answer.spec}.")), as_json=as_json
    )


def abs_noise(
    largest: Annotated[int, typer.Option("-D", "--max-noise", min=1, help="The largest noise D, a count.")],
    variance: Annotated[str, typer.Option("-V", "--variance", help="The variance V: 2, 1.05, 9/10.")],
    into: Annotated[Path, typer.Option("--out", help="A new file: 256 lines, a column for each count.")],
    js: Annotated[int, setting("--js", min=0, help="Results from 1 to js do not occur.")] = 0,
    size: Annotated[int, setting(min=2, max=lookups.MOST_COLUMNS, help="Columns.")] = lookups.SIZE,
    small_n: Annotated[int, setting(min=1, help="Columns that larger counts share.")] = lookups.SMALL_N,
    draw: Annotated[bool, setting("--draw", help="Draw every entry, instead of exact shares of 256.")] = False,
    seed: Annotated[str | None, setting(metavar="HEX", help="With --draw: a key of your own, for trials.")] = None,
    as_json: Json = False,
) -> None:
    """Make a table of noise for the lookup abs: 256 values for each column, from the law of a perturbation table."""
    answer = make_abs_table(largest, variance, into, js=js, size=size, small_n=small_n, draw=draw, seed=seed)
    show_answer(answer, lambda: _show_abs_table(answer), as_json=as_json)


def _show_abs_table(answer: AbsTableAnswer) -> None:
    show_findings(answer.findings)
    out.print(escape(f"Wrote {answer.file}: {lookups.ROWS} rows, {answer.table.size} columns."))


def _chosen(texts: Sequence[str]) -> dict[str, list[str]]:
    """Filters by variable; a variable that is named again has several labels."""
    chosen: dict[str, list[str]] = {}
    for text in texts:
        name, equals, label = text.partition("=")
        if not (name.strip() and equals and label.strip()):
            expected = "a variable and a label, such as sex=female"
            raise bad_option("--where", "this is not a filter", text, expected)
        chosen.setdefault(name.strip(), []).append(label.strip())
    return chosen


def _figure(value: object) -> str:
    return f"{value:,}" if isinstance(value, int | float) else str(value)
