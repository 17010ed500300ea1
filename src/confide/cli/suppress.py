"""``confide suppress``: tables of cells, protected together."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.markup import escape

import confide
from confide.cli.commands import setting
from confide.cli.show import DONE, REFUSED, Display, Json, err, out, print_json


def suppress(
    tables: Annotated[
        list[Path],
        typer.Argument(
            metavar="TABLE...",
            help="CSV or Parquet files of cells, which are linked; or one description (TOML), or tau-ARGUS metadata.",
        ),
    ],
    folder: Annotated[Path, typer.Option("--out", help="A new folder: its release/ may be published.")],
    rule: Annotated[
        list[str] | None,
        typer.Option("--rule", help="threshold=3, p=10, pq=10,50 or dominance=1,75; several times for several."),
    ] = None,
    value: Annotated[str | None, typer.Option(help="The column of figures.")] = None,
    unit: Annotated[
        str | None, typer.Option(help="Magnitudes with decimals: every figure is a multiple of this, such as 1/100.")
    ] = None,
    total: Annotated[
        list[str] | None, typer.Option("--total", metavar="VARIABLE=CODE", help="What the total is called.")
    ] = None,
    hierarchy: Annotated[
        list[str] | None, typer.Option("--hierarchy", metavar="VARIABLE=FILE", help="A hierarchy of tau-ARGUS (.hrc).")
    ] = None,
    ignore: Annotated[
        list[str] | None, setting("--ignore", metavar="COLUMN", help="A column that is used for nothing.")
    ] = None,
    missing: Annotated[Literal["zero"] | None, setting(help="zero: cells that are not in a file are zero.")] = None,
    zeros: Annotated[
        Literal["published", "secondary", "primary"],
        setting(help="Zeros are never hidden, may be hidden to protect others, or are always hidden."),
    ] = "secondary",
    singletons: Annotated[
        bool, setting("--singletons/--no-singletons", help="Whether to protect people who are alone in a cell.")
    ] = True,
    method: Annotated[
        Literal["auto", "optimal", "modular", "heuristic"], setting(help="How the other hidden cells are found.")
    ] = "auto",
    keep: Annotated[
        list[str] | None, setting("--keep", help="A margin that is never hidden unless primary, such as total.")
    ] = None,
    title: Annotated[str, setting(help="A title for people.")] = "",
    formats: Annotated[
        list[str] | None,
        setting("--format", help="parquet, csv, sdmx-csv, xlsx, csvw, registry or argus; several times for several."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Protect a table: hide cells that reveal too much about few people, and enough others that nobody can work
    them out.
    """
    answer = confide.suppress(
        list(tables),
        out=folder,
        rule=rule or [],
        value=value,
        unit=unit,
        total=_pairs(total, "--total"),
        hierarchy=_pairs(hierarchy, "--hierarchy"),
        missing=missing,
        zeros=zeros,
        singletons=singletons,
        method=method,
        keep=keep or [],
        title=title,
        formats=formats or [],
        ignore=ignore or [],
        progress=Display(quiet=as_json),
    )
    if as_json:
        print_json(answer.as_dict())
        raise typer.Exit(DONE if answer.ok else REFUSED)
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
    raise typer.Exit(DONE if answer.ok else REFUSED)


def _pairs(texts: list[str] | None, option: str) -> dict[str, str]:
    pairs = {}
    for text in texts or []:
        name, equals, after = text.partition("=")
        if not equals or not name or not after:
            raise typer.BadParameter(f"{option} {text!r}: write VARIABLE=...")
        pairs[name] = after
    return pairs
