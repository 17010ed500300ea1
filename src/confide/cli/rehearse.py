"""``confide rehearse`` and ``confide infer replicate``: releases that are made for what they show, and never published.

The first is made of made-up records before anything is spent, the second of the records of a release.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

import confide
from confide.cli.commands import setting
from confide.cli.show import DONE, REFUSED, Display, Json, Memory, Processes, err, out, print_json, show_answer, table
from confide.cli.verbs import SpecFile, show_headline
from confide.inference import Replicates
from confide.inference.replicates import CALIBRATION, REPLICATES
from confide.rehearsal import EVALUATING, Rehearsal


def rehearse(
    spec: SpecFile,
    persons: Annotated[
        int | None,
        typer.Option(help="How many records to make up; default: 100,000, or fewer if the block table says so."),
    ] = None,
    margins: Annotated[
        list[Path] | None,
        setting(metavar="FILE", help="Public counts (CSV) by attributes or areas, to draw from; repeatable."),
    ] = None,
    sizes: Annotated[
        str | None,
        setting(metavar="COLUMN", help="A column of the block table that says how large each block is."),
    ] = None,
    expected: Annotated[
        int | None, setting(metavar="N", help="How many records you really have, for an estimate of the time.")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option("--out", help="The folder of the rehearsal; default: NAME-rehearsal next to the run.")
    ] = None,
    seed: Annotated[int, setting(help="The same seed gives the same people and the same noise.")] = 7,
    processes: Processes = None,
    memory: Memory = "4GiB",
    as_json: Json = False,
) -> None:
    """Try a spec on made-up records: tables, certificate, dossier and timing. Spends nothing and reads no record.

    Everything is stamped NOT FOR RELEASE. The real records may be absent, and the real ledger is not touched.
    """
    answer = confide.rehearse(
        spec,
        persons=persons,
        margins=margins or (),
        sizes=sizes,
        expected=expected,
        out=folder,
        seed=seed,
        processes=processes,
        memory=memory,
        progress=Display(quiet=as_json),
    )
    if as_json:
        print_json(answer.as_dict())
    else:
        _show(answer)
    raise typer.Exit(DONE if answer.verification.ok else REFUSED)


def _show(answer: Rehearsal) -> None:
    plan = answer.run.plan
    by_size = f", in proportion to the column {answer.sizes!r}" if answer.sizes else ""
    out.print(
        f"\nRehearsed with {answer.records:,} made-up records{by_size}. Nothing was spent, and no record was read."
    )
    accuracy = answer.evaluated.accuracy.reveal("the people of a rehearsal are made up")
    show_headline(accuracy, "Made-up records: released compared with true")
    said = confide.MECHANISMS[plan.mechanism].explain
    if plan.has_loss:
        out.print(f"A real run would have {said.contents(plan)} and cost {plan.loss} ({plan.neighbours.value}).")
    else:
        out.print(f"A real run would have {said.contents(plan)}. {said.unaccounted(plan)}")
    table(["stage", "seconds "], [(stage, f"{taken:,.1f}") for stage, taken in answer.seconds.items()])
    out.print(_estimate(answer))
    verified = "verified" if answer.verification.ok else "NOT AS SEALED"
    out.print(f"release      {escape(str(answer.run.release))}  ({verified})")
    out.print(f"{answer.document.stem:11}  {escape(str(answer.document))}")
    out.print(f"dossier      {escape(str(answer.evaluated.dossier))}")
    err.print("[bold red]NOT FOR RELEASE[/]: a rehearsal on made-up records")


def _estimate(answer: Rehearsal) -> str:
    said = f"The run took {answer.run_seconds:,.1f} s, the dossier {answer.seconds[EVALUATING]:,.1f} s."
    bounds = answer.estimate()
    if bounds is None:
        return f"{said} For an estimate with all your records: --expected N."
    least, most = (_duration(seconds) for seconds in bounds)
    return f"{said} With {answer.expected:,} records a run should take from {least} to {most} on this machine."


def _duration(seconds: float) -> str:
    """Seconds, minutes or hours, whichever is read most easily."""
    if seconds < 100:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


# ``confide infer replicate``: a TopDown release made again from its own records, to learn what its figures are off by.

SHOWN = "total"
"""The query that the terminal shows; all of them are in the file."""


def replicate(
    release: Annotated[Path, typer.Argument(metavar="RELEASE", help="A sealed release, or the folder of its run.")],
    folder: Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder of the replicates.")],
    replicates: Annotated[int, typer.Option("--replicates", metavar="N", help="How many.")] = REPLICATES,
    calibration: Annotated[
        int,
        setting(metavar="N", help="How many releases of made-up people, for the factors."),
    ] = CALIBRATION,
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
        processes=processes,
        memory=memory,
        progress=Display(quiet=as_json),
    )
    show_answer(answer, lambda: show_replicates(answer), as_json=as_json)


def show_replicates(answer: Replicates) -> None:
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
