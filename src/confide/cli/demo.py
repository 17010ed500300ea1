"""``confide demo`` and ``confide new``: the first five minutes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from confide import demonstration
from confide.cli.show import Display, Json, out, print_json, table
from confide.report.render import grouped


def new(
    mechanism: Annotated[str, typer.Argument(metavar="MECHANISM", help="How to protect the records: tables.")],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where to write spec.toml.")],
) -> None:
    """Write a commented spec to start from."""
    path = demonstration.new(mechanism, folder)
    out.print(escape(f"Wrote {path}. Edit it, then: confide check {path}"))


def demo(
    folder: Annotated[Path, typer.Option("--out", help="A new folder for everything the demonstration makes.")] = Path(
        "demo"
    ),
    persons: Annotated[int, typer.Option(help="How many made-up persons.")] = 200_000,
    seed: Annotated[int, typer.Option(help="The same seed gives the same people; the noise is new every time.")] = 7,
    as_json: Json = False,
) -> None:
    """A whole release on made-up people: records, ledger, release, certificate, verification, dossier with pictures."""
    made = demonstration.demo(folder, persons=persons, seed=seed, progress=Display(quiet=as_json))
    run, cells = made.run, made.evaluated.cells.reveal("the demonstration's people are made up")
    if as_json:
        print_json(
            {
                "ok": made.verification.ok,
                "release": str(run.release),
                "dossier": str(made.evaluated.dossier),
                "persons": made.persons,
                "cost": run.plan.loss.as_dict(),
            }
        )
        raise typer.Exit(0 if made.verification.ok else 1)
    out.print()
    rows = []
    for level in dict.fromkeys(row.level for row in cells):
        chosen = [row for row in cells if row.level == level]
        counts = sum(row.sums.cells for row in chosen)
        absolute = sum(row.sums.absolute for row in chosen) / counts
        within = sum(row.sums.within for row in chosen) / counts
        rows.append((level, grouped(counts), f"{absolute:.1f}", f"{100 * within:.1f} %"))
    table(["level", "counts ", "mean absolute error ", "within the noise margin "], rows, title="Released against true")
    out.print(f"\n{made.persons:,} made-up persons; {run.plan.counts:,} counts released at a cost of {run.plan.loss}.")
    out.print(f"ledger       {run.account.spent} spent, {run.account.left} left of {run.account.budget}")
    out.print(f"release      {escape(str(run.release))}  ({'verified' if made.verification.ok else 'NOT AS SEALED'})")
    out.print(f"certificate  {escape(str(run.release / 'certificate.html'))}")
    out.print(f"dossier      {escape(str(made.evaluated.dossier))}  (confidential: for the curator alone)")
    raise typer.Exit(0 if made.verification.ok else 1)
