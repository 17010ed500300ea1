"""``confide rehearse``: a whole release on made-up records, before anything is spent."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

import confide
from confide.cli.show import DONE, REFUSED, Display, Json, Memory, Processes, err, out, print_json, table
from confide.cli.verbs import SpecFile, show_headline
from confide.rehearsal import EVALUATING, Rehearsal


def rehearse(
    spec: SpecFile,
    persons: Annotated[
        int | None,
        typer.Option(help="How many records to make up; default: 100,000, or fewer if the block table says so."),
    ] = None,
    margins: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Public counts (CSV) by attributes or areas, to draw from; repeatable."),
    ] = None,
    sizes: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="A column of the block table that says how large each block is."),
    ] = None,
    expected: Annotated[
        int | None, typer.Option(metavar="N", help="How many records you really have, for an estimate of the time.")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option("--out", help="The folder of the rehearsal; default: NAME-rehearsal next to the run.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same people and the same noise.")] = 7,
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
    mechanism = confide.MECHANISMS[plan.mechanism]
    if plan.has_loss:
        out.print(f"A real run would have {mechanism.contents(plan)} and cost {plan.loss} ({plan.neighbours.value}).")
    else:
        out.print(f"A real run would have {mechanism.contents(plan)}. {mechanism.unaccounted(plan)}")
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
