"""``confide safetab``: the Census Bureau's program, as its operators know it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from confide import official_safetab
from confide.cli.show import Display, Json, Memory, Processes, err, out, print_json, show_findings
from confide.cli.verbs import AcceptLedger
from confide.exact import fraction_up

Parameters = Annotated[
    Path, typer.Argument(metavar="PARAMETERS", help="The folder with config.json and the four code files.")
]
Data = Annotated[Path, typer.Argument(metavar="DATA", help="The folder with person-records and GRF-C.")]
LedgerFile = Annotated[
    Path | None,
    typer.Option("--ledger", help="The ledger of the data set. Without it, one is opened with this run's budget."),
]


def validate(
    parameters: Parameters, data: Data, as_json: Json = False, processes: Processes = None, memory: Memory = "4GiB"
) -> None:
    """Find every problem of an official input at once. Nothing is written and nothing spent; exits 1 on findings."""
    display = Display(quiet=as_json)
    validation = official_safetab.validate(parameters, data, processes=processes, memory=memory, progress=display)
    show_findings(validation.findings, as_json=as_json)
    if validation.ok and not as_json:
        out.print("[bold green]No problems found.[/] Nothing was spent.")
    raise typer.Exit(0 if validation.ok else 1)


def execute(
    parameters: Parameters,
    data: Data,
    folder: Annotated[Path, typer.Argument(metavar="OUT", help="A new folder for the tables: t1/, t2/, tables/.")],
    ledger: LedgerFile = None,
    accept_ledger: AcceptLedger = False,
    as_json: Json = False,
    processes: Processes = None,
    memory: Memory = "4GiB",
) -> None:
    """Make the tables of an official input. On invalid input nothing is written, and the exit code is 1.

    OUT holds what may be published and nothing else. Key, counts and ledger are kept beside it, in OUT-confidential.
    After a crash, run the same command again: it continues and costs nothing more.
    """
    execution = official_safetab.execute(
        parameters,
        data,
        folder,
        ledger=ledger,
        accept_ledger=accept_ledger,
        processes=processes,
        memory=memory,
        progress=Display(quiet=as_json),
    )
    loss = execution.run.plan.loss
    if as_json:
        print_json(
            {
                "ok": True,
                "folder": str(execution.folder),
                "kept": str(execution.private),
                "not_for_release": execution.infinite,
                "cost": loss.as_dict(),
                "was_sealed_before": execution.run.was_sealed_before,
                "findings": [warning.as_dict() for warning in execution.warnings],
            }
        )
        return
    show_findings(execution.warnings)
    if execution.run.was_sealed_before:
        out.print("This run was sealed before. Nothing was done and nothing was charged.")
    if execution.infinite:
        err.print(
            "[bold yellow]NOT FOR RELEASE[/]: a budget is infinite, so counts are published as they are. "
            "Every file says so."
        )
    (number,) = loss.parameters().values()
    name = next(iter(loss.parameters()))
    if not execution.infinite:
        out.print(f"cost      {name} = {fraction_up(number)} ({execution.run.plan.neighbours.value})")
    if ledger is None:
        out.print("ledger    a new one; to charge the ledger of the data set, name it with --ledger")
    out.print(f"tables    {escape(str(execution.folder))}")
    out.print(f"kept      {escape(str(execution.private))}  (confidential: key, counts and spec)")


def convert(
    parameters: Parameters,
    data: Data,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where to write spec.toml.")],
    ledger: LedgerFile = None,
    as_json: Json = False,
) -> None:
    """Write a spec of ours for an official input, from its config.json; with a ledger of its budget."""
    spec = official_safetab.convert(parameters, data, folder, ledger=ledger)
    if as_json:
        print_json({"ok": True, "spec": str(spec)})
        return
    out.print(escape(f"Wrote {spec}. Then: confide check {spec}"))
