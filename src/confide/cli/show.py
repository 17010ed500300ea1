"""How the command line speaks: findings, tables, one calm progress display, JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from confide.errors import Finding

if TYPE_CHECKING:
    from confide.engines import Advance

DONE, REFUSED, USAGE, INTERNAL = 0, 1, 2, 3
"""The exit codes: done; findings or refused; usage; internal error."""

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON, for programs.")]
Processes = Annotated[int | None, typer.Option(min=1, max=1024, help="How many processes; default: all cores.")]
Memory = Annotated[str, typer.Option(help="The memory the tabulation may use before it spills to the disk.")]

EngineChoice = Annotated[
    Literal["local", "spark"],
    typer.Option("--engine", help="What counts the records: this machine, or Spark. The release is the same."),
]
SparkMaster = Annotated[
    str | None,
    typer.Option("--spark-master", metavar="URL", help="The master of a Spark cluster; default: this machine."),
]

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)


def print_json(value: Any) -> None:
    """One JSON document on the standard output."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def show_findings(findings: Iterable[Finding], *, as_json: bool = False) -> None:
    """Every finding: to the error stream for people, or as JSON."""
    listed = list(findings)
    if as_json:
        errors = [finding for finding in listed if finding.severity == "error"]
        print_json({"ok": not errors, "findings": [finding.as_dict() for finding in listed]})
        return
    for finding in listed:
        first, *rest = str(finding).split("\n")
        colour = "red" if finding.severity == "error" else "yellow"
        err.print(f"[bold {colour}]{finding.severity}[/] {escape(first)}")
        for line in rest:
            err.print(f"[dim]{escape(line)}[/]")


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, title: str | None = None) -> None:
    """A table; columns whose name ends in a space are numbers, aligned to the right."""
    made = Table(title=title, title_justify="left", title_style="bold", header_style="bold", box=None, pad_edge=False)
    for column in columns:
        made.add_column(column.strip(), justify="right" if column.endswith(" ") else "left", overflow="fold")
    for row in rows:
        made.add_row(*(escape(str(cell)) for cell in row))
    out.print(made)


class Display:
    """One calm progress display on a terminal; a line for each stage where the output goes to a file."""

    def __init__(self, *, quiet: bool = False):
        self._quiet = quiet

    @contextmanager
    def stage(self, title: str, steps: int) -> Iterator[Advance]:
        if self._quiet:
            yield lambda _: None
            return
        if not err.is_terminal:
            err.print(f"{title} …")
            yield lambda _: None
            return
        columns = (
            SpinnerColumn(finished_text="✓"),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(elapsed_when_finished=True),
        )
        with Progress(*columns, console=err) as progress:
            task = progress.add_task(f"{title:<26}", total=steps)
            yield lambda done: progress.advance(task, done)

    def note(self, text: str) -> None:
        if not self._quiet:
            err.print(escape(text))
