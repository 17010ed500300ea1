"""``confide audit``: tables that somebody else has protected, judged by what an attacker can work out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from confide.attacks.suppression.audit_description import AuditInput
from confide.attacks.suppression.audit_files import describe_or_assume, read_required, read_suspect, suspect_of_release
from confide.attacks.suppression.suppression_audit import Audit, Suspect, audit
from confide.cli.show import Json, err, out, print_json, table
from confide.errors import Finding, ParameterError, Place
from confide.releases.folder import MANIFEST, read_manifest

DONE, REFUSED = 0, 1
MOST_ROWS = 25

app = typer.Typer(help="Judge tables by what an attacker can work out from them.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """Judge tables by what an attacker can work out from them."""


@app.command()
def suppression(
    tables: Annotated[
        Path,
        typer.Argument(
            metavar="TABLE",
            help="A folder with a description (table.toml), a CSV or Parquet with or without one, or a release.",
        ),
    ],
    truth: Annotated[
        Path | None,
        typer.Option(help="CONFIDENTIAL: the true figures, in the same form, to judge each interval by them."),
    ] = None,
    sharpen: Annotated[
        bool, typer.Option("--sharpen", help="Use in every sum that figures are whole numbers; slow, small parts only.")
    ] = False,
    as_json: Json = False,
) -> None:
    """What follows from a table about its suppressed cells: the smallest interval for each, by linear programming.

    Exit code 1: a cell is disclosed, or its interval is narrower than required, or the table does not add up.
    """
    taken_for: dict[str, str] = {}
    if (tables / MANIFEST).is_file():
        if truth is not None:
            raise ParameterError(_no_truth())
        suspect, required = suspect_of_release(tables, read_manifest(tables)), None
    else:
        described = describe_or_assume(tables)
        taken_for = _taken_for(described)
        suspect = read_suspect(described)
        if truth is None and (described.description.protection.threshold or described.description.protection.percent):
            err.print("[yellow]note[/] threshold and percent are judged by true figures: give --truth")
        required = None if truth is None else read_required(described, suspect, truth)
    _notes(suspect)
    found = audit(suspect, required, sharpen=sharpen)
    if as_json:
        print_json(found.as_dict() | {"taken_for": taken_for, "findings": []})
    else:
        _show(found)
    raise typer.Exit(DONE if found.ok else REFUSED)


def _taken_for(described: AuditInput) -> dict[str, str]:
    """For a table without a description what its columns were taken for; it is also said beside."""
    if not described.assumed:
        return {}
    description = described.description
    columns = {name: f"a variable with the total {text.total}" for name, text in description.variables.items()}
    columns[description.tables[0].value] = "the figures"
    if description.tables[0].status is not None:
        columns[description.tables[0].status] = "what is suppressed"
    listed = "; ".join(f"{name}: {what}" for name, what in columns.items())
    err.print(f"[yellow]note[/] no description, so taken for a table without hierarchies: {escape(listed)}.")
    return columns


def _notes(suspect: Suspect) -> None:
    """What was read as the description says, and may not be what was meant."""
    if suspect.without_totals:
        names = escape(", ".join(suspect.without_totals))
        remedy = "If it is called otherwise, write so as `total` in the description."
        err.print(f"[yellow]note[/] no table has the total of {names}: nothing was added up to it. {remedy}")
    if suspect.beside:
        number = _number(suspect.beside, "cell is", "cells are", "marked as suppressed")
        err.print(f"[yellow]note[/] {number} with a figure beside the mark: it was not looked at. Do not publish it.")


def _show(found: Audit) -> None:
    told = found.as_dict()
    rows = sorted(told["intervals"], key=lambda row: (not row["exact"], not row["too_narrow"]))
    shown = [
        (
            row["table"],
            ", ".join(f"{name} = {code}" for name, code in row["cell"].items()),
            f"{row['lower']:,}",
            "no end" if row["upper"] is None else f"{row['upper']:,}",
            "KNOWN" if row["exact"] else "too narrow" if row["too_narrow"] else "",
        )
        for row in rows[:MOST_ROWS]
    ]
    if shown:
        table(["table", "suppressed cell", "from ", "to ", ""], shown)
        if len(rows) > MOST_ROWS:
            out.print(f"… and {len(rows) - MOST_ROWS:,} more: --json has all.")
    out.print(
        f"\n{told['cells']:,} cells, {told['suppressed']:,} of them suppressed; {told['sums']:,} sums; "
        f"{told['programmes']:,} linear programmes solved."
    )
    if not told["suppressed"]:
        out.print("Nothing is suppressed, so nothing can be worked out.")
    elif found.ok:
        out.print("[bold green]No suppressed cell is known[/], and no interval is narrower than required.")
    else:
        parts = [
            _number(told["disclosed"], "suppressed cell is", "suppressed cells are", "known exactly"),
            _number(told["too_narrow"], "interval is", "intervals are", "too narrow"),
            _number(told["outside"], "true figure lies", "true figures lie", "outside of the interval"),
        ]
        out.print(f"[bold red]{escape('; '.join(part for part in parts if part))}.[/]")
    out.print("This is what follows from these tables alone; other tables of the same people can tell more.")
    if found.judged:
        err.print("[bold red]CONFIDENTIAL[/]: this judgement used true figures")


def _number(number: int, one: str, more: str, what: str) -> str:
    return f"{number:,} {one if number == 1 else more} {what}" if number else ""


def _no_truth() -> Finding:
    what, remedy = "a release of ours is held against the truth by `confide evaluate`", "leave --truth out"
    return Finding("no-truth", what, Place(path="--truth"), "a release folder", "a described table", remedy)
