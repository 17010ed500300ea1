"""``confide cellkey``: keys for records, any table that is asked for, and tables of noise for the lookup ``abs``; and
``confide suppress``: tables of cells, protected together.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
from rich.markup import escape

import confide
from confide import api
from confide.cli import show
from confide.cli.requests import Given, command
from confide.cli.show import err, out, show_findings
from confide.errors import ParameterError, Place
from confide.mechanisms.cellkey import cellkey_answers
from confide.mechanisms.cellkey.given import PerturbedTable
from confide.mechanisms.cellkey.keys import MOST_COLUMNS, ROWS
from confide.suppressing import SuppressedTables


def _show_keys(answer: cellkey_answers.RecordKeys, out: Path, column: str) -> None:
    text = f"Wrote {out}: {answer.rows:,} records, each with a key in the column {column!r}. Keep it secret."
    show.out.print(escape(text))


def _show_table(answer: cellkey_answers.RequestedTable) -> None:
    rows = answer.rows
    if answer.file is not None:
        out.print(escape(f"Wrote {answer.file}: {rows.num_rows:,} cells that are not zero."))
        return
    numbers = {field.name for field in rows.schema if not pa.types.is_string(field.type)}
    heads = [f"{name} " if name in numbers else name for name in rows.column_names]
    show.table(heads, ([_figure(value) for value in row.values()] for row in rows.to_pylist()))


def _show_perturbed(answer: PerturbedTable) -> None:
    out.print(escape(f"Sealed {answer.release}. Its spec is {answer.spec}."))


def _show_abs_table(answer: cellkey_answers.AbsTableAnswer) -> None:
    show_findings(answer.findings)
    out.print(escape(f"Wrote {answer.file}: {ROWS} rows, {answer.table.size} columns."))


def names_of(text: str) -> list[str]:
    """Names with commas between."""
    return [name.strip() for name in text.split(",") if name.strip()]


def _chosen(texts: Sequence[str]) -> dict[str, list[str]]:
    """Filters by variable; a variable that is named again has several labels."""
    chosen: dict[str, list[str]] = {}
    for text in texts:
        name, equals, label = text.partition("=")
        if not (name.strip() and equals and label.strip()):
            raise ParameterError("bad-option/filter", where=Place(path="--where"), found=text[:80])
        chosen.setdefault(name.strip(), []).append(label.strip())
    return chosen


def _figure(value: object) -> str:
    return f"{value:,}" if isinstance(value, int | float) else str(value)


keys = command(
    """Give every record a key, once. Keep the new file as the records: other keys would be other noise.

    Keys are secret. Whoever has them and the published tables has the true counts.
    """,
    cellkey_answers.give_record_keys,
    _show_keys,
    options={
        "records": "RECORDS",
        "out": "--out",
        "keys": Given(least=2, most=1 << 32),
        "first": Given("--from", least=0, most=1),
    },
)
table = command(
    """Answer any table over the schema of a spec, with the figures that a release has for the same people.

    It need not be listed in the spec. Only perturbed figures leave; cells that are not shown are zero.
    """,
    cellkey_answers.table_on_request,
    _show_table,
    options={
        "loaded": Given("SPEC", api.load, Path),
        "variables": Given("--variables V[,V...]", names_of, str),
        "where": Given("--where V=LABEL", _chosen),
        "levels": "--level LEVEL",
    },
)
perturb = command(
    """Perturb a table that was counted elsewhere, by the cell keys that it brings, and seal it as a release.

    The table is confidential: it has true counts and cell keys. What is released has neither.
    """,
    api.perturb_cells,
    _show_perturbed,
    settings="js pstay mono keys shuffle threshold count cell_key weight weight_gap variables name title delimiter",
    options={
        "table": "TABLE",
        "out": "--out DIR",
        "ptable": "--ptable FILE",
        "D": "-D",
        "V": "-V",
        "shuffle": "--shuffle ORDER",
        "variables": Given("--variables V[,V...]", names_of, str),
    },
)
abs_noise = command(
    "Make a table of noise for the lookup abs: 256 values for each column, from the law of a perturbation table.",
    cellkey_answers.make_abs_table,
    _show_abs_table,
    settings="js size small_n draw seed",
    options={
        "D": Given("-D --max-noise", least=1),
        "V": "-V --variance",
        "out": "--out",
        "js": Given(least=0),
        "size": Given(least=2, most=MOST_COLUMNS),
        "small_n": Given(least=1),
        "seed": "--seed HEX",
    },
)


def _show(answer: SuppressedTables) -> None:
    if answer.run.was_sealed_before:
        out.print("This run was already sealed; nothing was done.")
    verified = "[bold green]verified[/]" if answer.ok else "[bold red]NOT AS IT SHOULD BE[/]"
    out.print(f"[bold green]Sealed[/] {escape(str(answer.release))} ({verified})")
    contents = confide.MECHANISMS[answer.run.plan.mechanism].explain.contents(answer.run.plan)
    out.print(f"  {contents}")
    if answer.hidden:
        out.print(f"  {answer.hidden:,} cells suppressed")
    else:
        err.print("[bold red]0 cells suppressed[/]: every figure is published as it is, since no rule hides one")
    out.print(f"  which cells are primary, and why: {escape(str(answer.run.workspace.confidential / 'cells.parquet'))}")
    err.print("[bold red]CONFIDENTIAL[/]: everything but release/ must stay in the office")


suppress = command(
    """Protect a table: hide cells that reveal too much about few people, and enough others that nobody can work
    them out.
    """,
    confide.suppress,
    _show,
    settings="ignore missing zeros singletons method keep title formats",
    options={
        "tables": "TABLE...",
        "out": "--out",
        "total": "--total VARIABLE=CODE",
        "hierarchy": "--hierarchy VARIABLE=FILE",
        "ignore": "--ignore COLUMN",
        "formats": "--format",
    },
)
