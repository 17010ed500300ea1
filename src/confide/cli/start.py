"""``confide demo`` and ``confide new``: the first five minutes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from confide import api, demonstration
from confide.cli.show import Display, Json, out, print_json
from confide.cli.verbs import show_headline
from confide.inputs.pl94 import import_pl94
from confide.population import simulate
from confide.report.render import fraction_up


def new(
    mechanism: Annotated[
        str,
        typer.Argument(
            metavar="MECHANISM",
            help="How to protect the records: tables, topdown, safetab, cellkey, swapping, suppression; or comparison.",
        ),
    ],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where to write spec.toml.")],
    product: Annotated[str | None, typer.Option(help="For topdown: pl94-persons (the default) or pl94-units.")] = None,
    method: Annotated[
        str | None, typer.Option(help="For swapping: targeted (the default), enhanced or permutation.")
    ] = None,
    ledger: Annotated[
        bool | None,
        typer.Option(
            "--ledger/--no-ledger", help="Open a ledger with the budget of the spec; default: where there is a budget."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a commented spec to start from."""
    drafted = api.new(mechanism, folder, product=product, method=method, open_ledger=ledger)
    if as_json:
        print_json(drafted.as_dict())
        return
    if drafted.ledger is not None:
        out.print(escape(f"Opened {drafted.ledger}: the account of the data set, with the budget of this release."))
    then = f"check {drafted.spec}" if mechanism in api.MECHANISMS else f"compare {drafted.spec} --out DIR"
    out.print(escape(f"Wrote {drafted.spec}. Edit it, then: confide {then}"))


DEMONSTRATIONS = {
    "topdown": demonstration.demo,
    "safetab": demonstration.demo_safetab,
    "cellkey": demonstration.demo_cellkey,
}


def demo(
    mechanism: Annotated[
        str, typer.Argument(metavar="[MECHANISM]", help="topdown (the default), safetab or cellkey.")
    ] = "topdown",
    folder: Annotated[
        Path, typer.Option("--out", help="A new folder for everything that is made; if it is taken, the next: demo-2.")
    ] = Path("demo"),
    persons: Annotated[int, typer.Option(help="How many made-up persons.")] = 200_000,
    seed: Annotated[int, typer.Option(help="The same seed gives the same people; the noise is new every time.")] = 7,
    as_json: Json = False,
) -> None:
    """Whole releases of a made-up state, with ledger, certificate, verification, and a dossier with pictures.

    topdown: persons and housing units, records in, protected records and tables out. safetab: detailed race and
    ethnicity groups, from the Census Bureau's input layout to its tables. cellkey: the tables of the EU programme.
    """
    if mechanism not in DEMONSTRATIONS:
        raise typer.BadParameter(f"there is no demonstration of {mechanism!r}: {' or '.join(DEMONSTRATIONS)}")
    make = DEMONSTRATIONS[mechanism]
    demonstrated = make(folder, persons=persons, seed=seed, progress=Display(quiet=as_json))
    if as_json:
        print_json(demonstrated.as_dict())
        raise typer.Exit(0 if demonstrated.ok else 1)
    for about, release in demonstrated.releases.items():
        _show(about, release)
    account = list(demonstrated.releases.values())[-1].run.account
    spent = "no budget was spent, because none is accounted for"
    if account is not None:
        spent = f"the ledger has {fraction_up(account.spent)} spent of {fraction_up(account.budget)}"
    out.print(f"\n{demonstrated.persons:,} made-up persons; {spent}.")
    raise typer.Exit(0 if demonstrated.ok else 1)


def _show(about: str, release: demonstration.DemoRelease) -> None:
    run = release.run
    out.print()
    accuracy = release.evaluated.accuracy.reveal("the demonstration's people are made up")
    show_headline(accuracy, f"{about.capitalize()}: released against true")
    if run.plan.has_loss:
        (rho,) = run.plan.loss.parameters().values()
        out.print(f"cost         rho = {fraction_up(rho)} ({run.plan.neighbours.value})")
    out.print(
        f"release      {escape(str(run.release))}  ({'verified' if release.verification.ok else 'NOT AS SEALED'})"
    )
    document = "certificate" if run.plan.has_loss else "statement"
    out.print(f"{document:11}  {escape(str(run.release / f'{document}.html'))}")
    out.print(f"dossier      {escape(str(release.evaluated.dossier))}  (confidential: for the curator alone)")


# ``confide import`` and ``confide synthesize``: records to start from.


imports = typer.Typer(help="Make person and block files out of published ones.", no_args_is_help=True)


@imports.command("pl94")
def pl94(
    file: Annotated[Path, typer.Argument(metavar="ZIP", help="A legacy PL 94-171 zip of the Census Bureau (2010).")],
    folder: Annotated[Path, typer.Option("--out", help="The folder to write to.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace other files of the same names.")] = False,
    as_json: Json = False,
) -> None:
    """Person and block files from a redistricting file; every published cell is tabulated again and compared."""
    summary = import_pl94(file, folder, overwrite=overwrite)
    if as_json:
        print_json(summary.as_dict())
    else:
        out.print(escape(str(summary)))


def synthesize(
    folder: Annotated[Path, typer.Option("--out", help="The folder to write to.")],
    persons: Annotated[int, typer.Option(help="How many persons.")] = 100_000,
    seed: Annotated[int, typer.Option(help="The same seed gives the same people.")] = 7,
    detailed: Annotated[
        bool,
        typer.Option(
            "--detailed",
            help="Also with detailed race and ethnicity codes, as the input folders of SafeTab-P: parameters/, data/.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Make up people: a state with blocks, households, group quarters. Nothing in it comes from a real person."""
    answer = simulate(folder, persons=persons, seed=seed, detailed=detailed, progress=Display(quiet=as_json))
    if as_json:
        print_json(answer.as_dict())
    else:
        out.print(f"{persons:,} made-up persons (seed {seed}) in {escape(str(folder))}")
