"""``confide attack``: what someone who wants the records back can do with what is published."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from confide.cli import attack_show
from confide.cli.lazy import Later, LazyGroup
from confide.cli.show import Display, Json, Processes, out, print_json


class Attacks(LazyGroup):
    """The commands that are loaded when they are called."""

    later = (
        Later(
            "reidentify",
            "confide.cli.attack_reidentify:reidentify",
            "Match reconstructed records with a file of known people, and count how many would be recognised rightly.",
        ),
    )


app = typer.Typer(
    cls=Attacks, help="What someone can do with published tables who wants the records back.", no_args_is_help=True
)


@app.command()
def reconstruct(
    tables: Annotated[
        Path,
        typer.Argument(
            metavar="TABLES", help="A folder with a tables.toml and a file for each table, or a release of Confide."
        ),
    ],
    file: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write the records here (.parquet or .csv).")
    ] = None,
    level: Annotated[
        str | None,
        typer.Option(
            help="Solve the units of this level as a whole, such as block or tract; default: as tables allow."
        ),
    ] = None,
    repeats: Annotated[
        int, typer.Option(min=0, max=10_000, help="Solve again so often with random objectives, to rank records.")
    ] = 0,
    seed: Annotated[int, typer.Option(min=0, help="The seed of these.")] = 0,
    time_limit: Annotated[
        float | None, typer.Option(min=0.001, metavar="SECONDS", help="The time for one programme; default: 10 or 600.")
    ] = None,
    schema: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The schema of a release whose schema does not ship.")
    ] = None,
    groups: Annotated[
        list[str] | None,
        typer.Option(
            "--group", metavar="CODE", help="An iteration code of a safetab release; repeatable. Default: all groups."
        ),
    ] = None,
    processes: Processes = None,
    as_json: Json = False,
) -> None:
    """Find records that have the published tables, and how much other records with the same tables could differ.

    The records in FILE may be true: the file can be read by its owner alone.
    """
    from confide.attacks.reconstruction import read_source, reconstruct, refuse_unwritable, write_records

    if file is not None and file.suffix not in (".csv", ".parquet"):
        raise typer.BadParameter("--out takes a name that ends in .parquet or .csv")
    if file is not None:
        refuse_unwritable(file)
    display = Display(quiet=as_json)
    published = read_source(tables, schema, groups or ())
    found = reconstruct(
        published,
        level=level,
        repeats=repeats,
        seed=seed,
        processes=processes,
        time_limit=time_limit,
        progress=display,
    )
    if file is not None:
        write_records(found, file)
    if as_json:
        print_json({"ok": True, "out": None if file is None else str(file)} | found.as_dict())
        return
    attack_show.show_reconstruction(found, repeats)
    if file is not None:
        out.print(f"Records: {escape(str(file))}")


@app.command()
def tabulate(
    records: Annotated[
        Path,
        typer.Argument(metavar="RECORDS", help="Person records with geocode, sex, age, cenrace, hispanic."),
    ],
    folder: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Write the tables here.")],
    tables: Annotated[
        list[str] | None,
        typer.Option("--table", metavar="NAME", help="A table, such as P12; repeatable. Default: all."),
    ] = None,
    tract_digits: Annotated[
        int, typer.Option(min=0, help="How many digits of a geocode are the tract; 0: no tables of tracts.")
    ] = 11,
    as_json: Json = False,
) -> None:
    """Make the person tables of Summary File 1 from records, to try the attack on them. CONFIDENTIAL."""
    from confide.attacks.reconstruction import read_records, write_sf1_tables

    levels = [("tract", tract_digits)] if tract_digits else []
    made = write_sf1_tables(read_records(records), folder, levels=levels, tables=tables)
    files = sorted(path.name for path in made.iterdir())
    if as_json:
        print_json({"ok": True, "folder": str(made), "files": files})
        return
    out.print(f"{len(files) - 1} tables and tables.toml: {escape(str(made))}")
