"""``confide replicate``: a TopDown release made again from its own records, to learn what its figures are off by."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

import confide
from confide.cli.show import Display, Json, Memory, Processes, err, out, show_answer, table
from confide.inference import Replicates
from confide.inference.replicates import CALIBRATION, REPLICATES

SHOWN = "total"
"""The query that the terminal shows; all of them are in the file."""


def replicate(
    release: Annotated[Path, typer.Argument(metavar="RELEASE", help="A sealed release, or the folder of its run.")],
    folder: Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder of the replicates.")],
    replicates: Annotated[int, typer.Option("--replicates", metavar="N", help="How many.")] = REPLICATES,
    calibration: Annotated[
        int,
        typer.Option(metavar="N", help="How many releases of made-up people, for the factors."),
    ] = CALIBRATION,
    spec: Annotated[
        Path | None, typer.Option("--spec", metavar="FILE", help="The spec, where the strategy is one of your own.")
    ] = None,
    processes: Processes = None,
    memory: Memory = "4GiB",
    as_json: Json = False,
) -> None:
    """Make a TopDown release again and again from its own records, and learn what its figures are off by.

    It is post-processing: no record is read but those that are published, and nothing is spent. Everything is stamped
    NOT FOR RELEASE. After an interruption, the same command goes on.
    """
    answer = confide.replicate(
        release,
        folder,
        replicates=replicates,
        calibration=calibration,
        spec=spec,
        processes=processes,
        memory=memory,
        progress=Display(quiet=as_json),
    )
    show_answer(answer, lambda: show(answer), as_json=as_json)


def show(answer: Replicates) -> None:
    """The answer as tables."""
    manifest = answer.source.released.manifest
    out.print(
        f"\n{answer.number} replicates of [bold]{escape(str(manifest['release']))}[/], from its own records. "
        "Nothing was spent, and no confidential record was read.\n"
    )
    queries = list(dict.fromkeys(row["query"] for row in answer.rows))
    query = SHOWN if SHOWN in queries else queries[0]
    rows = [
        (
            row["kind"],
            "on it" if row["on_spine"] else "off it",
            row["size"],
            f"{row['cells']:,}",
            "" if row["mse"] is None else f"{row['mse'] ** 0.5:,.1f}",
            *("" if row[f"below_{q}"] is None else f"−{row[f'below_{q}']:,} +{row[f'above_{q}']:,}" for q in (90, 95)),
            f"{row['factor']:.2f}",
        )
        for row in answer.rows
        if row["query"] == query
    ]
    columns = ["areas", "spine", "figure ", "figures ", "rmse ", "90 % ", "95 % ", "factor "]
    table(columns, rows, title=f"Errors of figures of {query!r}, by kind of area and by what the figure shows")
    if answer.factors:
        listed = [
            (
                row.areas_of,
                row.query,
                f"{row.areas:,}",
                f"{row.ratio:.2f} ± {row.standard_error:.2f}",
                f"{row.factor:.2f}",
            )
            for row in answer.factors
        ]
        table(
            ["areas", "query", "number ", "realised / replicated ", "factor "],
            listed,
            title="Made-up people, whose truth is known: how much larger errors are than replicates say",
        )
    out.print(
        "A margin covers the error of the noise and of the estimation, among figures of that size. It does not cover "
        "errors of the census itself."
    )
    out.print(f"all queries  {escape(str(answer.folder / str(answer.as_dict()['margins'])))}")
    err.print("[bold red]NOT FOR RELEASE[/]: replicates of a release")
