"""``confide attack``: what someone who wants the records back can do with what is published."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from confide.cli.commands import setting
from confide.cli.show import Display, Json, Processes, err, out, print_json, table

# The answers of ``confide attack reconstruct`` on a terminal.


if TYPE_CHECKING:
    from confide.lab.attacks.reconstruction import Reconstruction


def show_reconstruction(answer: Reconstruction, repeats: int) -> None:
    """What was found, and how sure it is."""
    result = answer.as_dict()
    tables = len(result["tables"])
    word = "table" if tables == 1 else "tables"
    out.print(
        f"[bold]{answer.persons:,} records in {result['blocks']:,} blocks[/] from {tables} {word} "
        f"({escape(answer.published.source)}), solved by {escape(answer.level)} in {answer.seconds:.1f} s."
    )
    for note in answer.published.notes:
        out.print(f"  {escape(note)}")
    if answer.unsolved:
        err.print(
            f"[bold yellow]{answer.unsolved:,} units have no solution yet[/]: the time was up. --time-limit gives more."
        )
    guessed = result["guessed_persons"]
    if guessed:
        out.print(
            f"{guessed:,} records have an attribute that no published figure tells; another value would do as well "
            "(column guessed)."
        )
    if not answer.exact:
        out.print(
            f"\nThe likeliest people, given the law of the noise and what is published above: "
            f"{answer.deviation:,.1f} standard deviations over all figures. Others are nearly as likely, so that no "
            f"solution variability is claimed; of these records about {answer.expected_matches or 0:,.0f} are expected "
            f"to be true, and {result['confident_persons']:,} have a probability of at least 90 % (column confidence)."
        )
        return
    out.print("Every published figure was checked again: the records have these tables exactly.\n")
    if answer.mean is None:
        out.print("The number of people of a block is not published, so that no solution variability is claimed.")
        return
    _by_size(answer)
    bounds = len(result["bounds"])
    if bounds:
        out.print(
            f"For {bounds:,} blocks the time was up: their variability is an upper bound. --time-limit gives more."
        )
    at_most = "at most " if bounds else ""
    out.print(
        f"Mean solution variability {at_most}{answer.mean:.1f} %: another set of records with the same tables differs "
        "in at most that share of people."
    )
    sure = result["certain_persons"]
    out.print(f"At least {sure:,} of {answer.persons:,} records are in every solution that the tables allow.")
    if repeats:
        always = int((answer.confidence == 1.0).sum()) - sure
        out.print(f"{always:,} more were in all of {repeats:,} repeats with random objectives, which proves nothing.")


def _by_size(answer: Reconstruction) -> None:
    rows = [
        (
            row["size"],
            f"{row['blocks']:,}",
            f"{row['persons']:,}",
            f"{row['blocks_at_0']:,}",
            f"{row['share_of_blocks_at_0']:.1%}",
            f"{row['share_of_persons_at_0']:.1%}",
        )
        for row in answer.by_size()
        if row["blocks"]
    ]
    headings = ["people in block", "blocks ", "people ", "one solution ", "of blocks ", "of people "]
    table(headings, rows, title="Blocks with one solution alone (solution variability 0)")


Geography = Annotated[
    Path | None,
    typer.Option(
        "--geography",
        metavar="FILE",
        help="The list of areas (CSV or Parquet): a row for each smallest one, with its code on every level. Needed "
        "where codes do not begin with those of the areas that they lie in.",
    ),
]
Block = Annotated[str, setting("--block", metavar="COLUMN", help="The column with the smallest area's code.")]
Levels = Annotated[
    list[str] | None,
    setting(
        "--geography-level",
        metavar="NAME=COLUMN",
        help="A level above the smallest areas: NAME, NAME=COLUMN of the list, or NAME=DIGITS; repeatable.",
    ),
]


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
        int, setting(min=0, max=10_000, help="Solve again so often with random objectives, to rank records.")
    ] = 0,
    seed: Annotated[int, setting(min=0, help="The seed of these.")] = 0,
    time_limit: Annotated[
        float | None, setting(min=0.001, metavar="SECONDS", help="The time for one programme; default: 10 or 600.")
    ] = None,
    schema: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The schema of a release whose schema does not ship.")
    ] = None,
    groups: Annotated[
        list[str] | None,
        setting(
            "--group", metavar="CODE", help="An iteration code of a safetab release; repeatable. Default: all groups."
        ),
    ] = None,
    geography: Geography = None,
    block: Block = "geocode",
    levels: Levels = None,
    processes: Processes = None,
    as_json: Json = False,
) -> None:
    """Find records that have the published tables, and how much other records with the same tables could differ.

    The records in FILE may be true: the file can be read by its owner alone.
    """
    from confide.lab.attacks.reconstruction import read_areas, reconstruct

    if file is not None and file.suffix not in (".csv", ".parquet"):
        raise typer.BadParameter("--out takes a name that ends in .parquet or .csv")
    answer = reconstruct(
        tables,
        schema=schema,
        groups=groups or (),
        areas=None if geography is None else read_areas(geography, block, levels or ()),
        level=level,
        repeats=repeats,
        seed=seed,
        processes=processes,
        time_limit=time_limit,
        out=file,
        progress=Display(quiet=as_json),
    )
    if as_json:
        print_json(answer.as_dict())
        return
    show_reconstruction(answer, repeats)
    if file is not None:
        out.print(f"Records: {escape(str(file))}")


def arithmetic(
    release: Annotated[
        Path, typer.Argument(metavar="RELEASE", help="A release of the cell key method, or the folder of its run.")
    ],
    as_json: Json = False,
) -> None:
    """Compute with the published columns of each cell, and say how many true counts are left for it.

    Exit code 1: a cell has one true count alone that fits, or fewer than the settings prove.
    """
    import confide

    answer = confide.attack_arithmetic(release)
    if as_json:
        print_json(answer.as_dict())
        raise typer.Exit(0 if answer.ok else 1)
    rows = [
        (name, f"{cells:,}", f"{least:,}", f"{mean:,.2f}", f"{known:,}")
        for name, cells, least, mean, known in answer.tables
    ]
    table(["table", "cells ", "true counts left, least ", "mean ", "one alone "], rows)
    out.print(f"[{'bold green' if answer.ok else 'bold red'}]{escape(answer.in_words)}[/]")
    raise typer.Exit(0 if answer.ok else 1)


def statistics(
    source: Annotated[
        str, typer.Argument(metavar="[FILE]", help="Counts, median and mean ages: a TOML file; default: seven-people.")
    ] = "seven-people",
    leave_out: Annotated[
        list[str] | None,
        typer.Option("--leave-out", metavar="GROUP", help="A group that is not published; repeatable."),
    ] = None,
    digits: Annotated[int, typer.Option(min=0, max=3, help="The digits after the point that means have.")] = 1,
    as_json: Json = False,
) -> None:
    """Find everybody who fits published counts, median and mean ages of a few people, step by step."""
    from confide.lab.attacks.reconstruction import reconstruct_statistics

    answer = reconstruct_statistics(source, leave_out=leave_out or (), digits=digits)
    if as_json:
        print_json(answer.as_dict())
        return
    rows = [
        (
            step.title,
            ", ".join(step.groups),
            f"{step.looked_at:,}",
            "too many" if step.remaining is None else f"{step.remaining:,}",
        )
        for step in answer.steps
    ]
    table(["step", "figures used", "looked at ", "left "], rows, title=answer.title)
    if answer.solutions is None:
        out.print("There are too many possibilities to look at: these figures do not give the people away so simply.")
        return
    people = "Exactly one set of people has" if answer.solutions == 1 else f"{answer.solutions:,} sets of people have"
    out.print(f"{people} all these figures{', the first of them' if answer.solutions > 1 else ''}:")
    for person in answer.people(answer.steps[-1].examples[0]) if answer.solutions else ():
        out.print("  " + ", ".join(f"{name} {value}" for name, value in person.items()), markup=False)


def tabulate(
    records: Annotated[
        Path,
        typer.Argument(
            metavar="RECORDS",
            help="Person records: geocode, sex, age, cenrace, hispanic; or, with --schema, those of any schema.",
        ),
    ],
    folder: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Write the tables here.")],
    schema: Annotated[
        str | None, typer.Option("--schema", metavar="FILE", help="The schema of your own records.")
    ] = None,
    geography: Geography = None,
    block: Block = "geocode",
    levels: Levels = None,
    describe: Annotated[
        Path | None,
        typer.Option(
            "--describe",
            metavar="FILE",
            help="Which tables: a file in the form of tables.toml. Default: all pairs of attributes on every level.",
        ),
    ] = None,
    tables: Annotated[
        list[str] | None,
        setting("--table", metavar="NAME", help="A table, such as P12; repeatable. Default: all."),
    ] = None,
    tract_digits: Annotated[
        int,
        setting(min=0, help="Without --schema: how many digits of a geocode are the tract; 0: no tables of tracts."),
    ] = 11,
    as_json: Json = False,
) -> None:
    """Make tables from records, to try the attack on them: of any country, or those of Summary File 1. CONFIDENTIAL."""
    from confide.lab.attacks.reconstruction import tabulate_records, tabulate_sf1

    if schema is None and describe is None:
        if geography is not None or levels:
            raise typer.BadParameter("--geography and --geography-level go with --schema or --describe")
        answer = tabulate_sf1(records, folder, tables=tables, tract_digits=tract_digits)
    else:
        answer = tabulate_records(
            records,
            folder,
            schema=schema,
            geography=geography,
            block=block,
            levels=levels or (),
            describe=describe,
            tables=tables,
        )
    if as_json:
        print_json(answer.as_dict())
        return
    named = len([name for name in answer.files if name.endswith((".parquet", ".csv"))])
    listed = "areas.csv" in answer.files
    out.print(f"{named - listed} tables and tables.toml: {escape(str(answer.folder))}")
