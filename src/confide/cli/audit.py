"""``confide audit noise``: the noise of a run judged by its plan."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

import confide
from confide.cli.show import Display, Json, Memory, Processes, err, out, print_json, table
from confide.releases.noise_audit import NoiseAudit

DONE, REFUSED = 0, 1


def noise(
    run_folders: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="The spec file or the folder of a sealed run, or several."),
    ],
    as_json: Json = False,
    processes: Processes = None,
    memory: Memory = "4GiB",
) -> None:
    """Hold released minus true against the plan: laws, independence, exactly the planned draws. CONFIDENTIAL.

    It uses the truth in the confidential zone of the run and leaves a page there. Several runs show smaller errors, and
    noise that two of them have in common. Exit code 1: the noise is not as planned, or there are so few draws that
    missing noise would not have been noticed.
    """
    answer = confide.audit_noise(*run_folders, processes=processes, memory=memory, progress=Display(quiet=as_json))
    if as_json:
        print_json(answer.as_dict())
    else:
        _show_noise(answer)
    raise typer.Exit(DONE if answer.ok else REFUSED)


def _show_noise(answer: NoiseAudit) -> None:
    table(["", "what", "detail"], [("ok" if c.ok else "WRONG", c.name, c.detail) for c in answer.checks])
    for note in answer.notes:
        out.print(f"[yellow]note[/] {escape(note)}")
    wrong = "not as planned" if not answer.as_planned else "not judged"
    verdict = "[bold green]as planned[/]" if answer.ok else f"[bold red]{wrong}[/]"
    out.print(f"\n{answer.draws:,} draws: the noise is {verdict}. {answer.power.words}")
    out.print(f"Page (confidential): {escape(str(answer.page))}")
    err.print("[bold red]CONFIDENTIAL[/]: this audit used true figures")
