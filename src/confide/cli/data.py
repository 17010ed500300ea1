"""``confide import`` and ``confide synthesize``: records to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from confide import api
from confide.cli.show import Display, Json, out, print_json
from confide.inputs.pl94 import import_pl94

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
    shown = Display(quiet=as_json)
    paths: tuple[Path, ...] = api.synthesize(folder, persons=persons, seed=seed, progress=shown)
    if detailed:
        paths += api.synthesize_detailed(folder, persons=persons, seed=seed, progress=shown)
    if as_json:
        print_json({"persons": persons, "seed": seed, "files": [str(path) for path in paths]})
    else:
        out.print(f"{persons:,} made-up persons (seed {seed}) in {escape(str(folder))}")
