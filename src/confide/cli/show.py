"""How the command line speaks: findings, tables, one calm progress display, JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from confide import report
from confide.answers import AnswerPart, Said, ShownTable, TypedAnswer
from confide.errors import Finding, ParameterError, Place
from confide.messages import word

if TYPE_CHECKING:
    from confide.engines import Advance
    from confide.report import Chart

DONE, REFUSED, USAGE, INTERNAL, INTERRUPTED = 0, 1, 2, 3, 130
"""The exit codes: done; findings or refused; usage; internal error."""

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON, for programs.")]
Processes = Annotated[int | None, typer.Option(min=1, max=1024, help="How many processes to use; default: all cores.")]
Memory = Annotated[str, typer.Option(help="How much memory counting may use before it writes to disk.")]

EngineChoice = Annotated[
    Literal["local", "spark"],
    typer.Option(
        "--engine", help="Where to count the records: on this machine (local) or on Spark. The release is the same."
    ),
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
        err.print(f"[bold {colour}]{word(finding.severity)}[/] {escape(first)}")
        for line in rest:
            err.print(f"[dim]{escape(line)}[/]")


def show_answer(answer: TypedAnswer, *, as_json: bool, drawn: Sequence[Path] = ()) -> None:
    """An answer, and the pictures that were drawn of it: as JSON for programs, or as it describes itself."""
    if as_json:
        values = answer.as_dict() | ({"plots": [str(path) for path in drawn]} if drawn else {})
        print_json(values if answer.only is None else values[answer.only])
    else:
        show_parts([*answer.described(), *(f"Drawn: {path}" for path in drawn)])


def show_parts(parts: Iterable[AnswerPart]) -> None:
    """Sentences and tables; to the error stream what is said beside an answer, and findings."""
    for part in parts:
        if isinstance(part, Finding):
            show_findings([part])
        elif isinstance(part, ShownTable):
            _show_table(part)
        elif isinstance(part, Said):
            (err if part.aside else out).print(f"[{part.tone}]{escape(part.lead)}[/]{escape(part.rest)}")
        else:
            out.print(part, markup=False)


def _show_table(shown: ShownTable) -> None:
    grid = Table(title_justify="left", title_style="bold", header_style="bold", box=None, pad_edge=False)
    grid.title, grid.show_header = escape(shown.title) or None, bool(shown.columns)
    for column in shown.columns or [""] * len(next(iter(shown.rows), ())):
        justify: Literal["left", "right"] = "right" if column.endswith(" ") else "left"
        in_one_line = shown.folded is not None and column != shown.folded
        grid.add_column(escape(column.strip()), justify=justify, overflow="fold", no_wrap=in_one_line)
    for row in shown.rows:
        grid.add_row(*(escape(str(cell)) for cell in row))
    out.print(grid)


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


# ``--plots``: pictures of an answer, drawn into a folder.


Plots = Annotated[Path | None, typer.Option("--plots", metavar="DIR", help="Write pictures (SVG) to this folder.")]


def write(folder: Path, pictures: Mapping[str, Callable[[], Chart]]) -> list[Path]:
    """Draws pictures into a folder, each in a file of its name; none is drawn where the extra ``plots`` is missing."""
    if not report.charts.available():
        raise ParameterError("no-plots/package-draws-pictures", where=Place(path="--plots"))
    drawn = {folder / f"{name.removesuffix('.svg')}.svg": picture().svg() for name, picture in pictures.items()}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in drawn.items():
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ParameterError(
            "plots-folder",
            where=Place(path="--plots"),
            strerror=None if folder.is_file() else error.strerror or type(error).__name__,
            is_file=folder.is_file(),
        ) from None
    return sorted(drawn)
