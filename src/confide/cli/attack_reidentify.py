"""``confide attack reidentify``: whom someone would recognise in reconstructed records, and how often rightly."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.csv as pacsv
import typer
from rich.markup import escape

from confide.attacks.reidentification import (
    DivideBy,
    GuessFrom,
    Role,
    make_attacker,
    parse_attacker,
    parse_columns,
    read_people,
    with_person_ids,
)
from confide.attacks.reidentification import reidentify as attack
from confide.cli import attack_reidentify_show as show
from confide.cli.show import Json, out, print_json
from confide.confidential import Confidential
from confide.engines.files import whole_file
from confide.engines.groups import write_parquet
from confide.errors import Finding, ParameterError, Place

_FILE = {"dir_okay": False}


def reidentify(
    reconstructed: Annotated[
        Path,
        typer.Argument(
            **_FILE,
            help="Reconstructed records: geocode, sex, age, age_low and age_high or age_bin, "
            "cenrace, hispanic, and solution_variability if known (CSV or Parquet).",
        ),
    ],
    truth: Annotated[
        Path,
        typer.Option(
            "--truth",
            **_FILE,
            help="The confidential records: person_id, geocode, sex, age, cenrace, "
            "hispanic; block_group and tract if they are not digits of the geocode.",
        ),
    ],
    attacker: Annotated[
        Path | None,
        typer.Argument(
            **_FILE,
            help="What the attacker knows: person_id, geocode, sex, age. The truth itself is a "
            "perfect attacker's file.",
        ),
    ] = None,
    attacker_from_truth: Annotated[
        str | None,
        typer.Option(
            "--attacker-from-truth",
            metavar="SETTINGS",
            help="Make the attacker's file: perfect, or "
            "coverage=0.9,age_error=0.05,age_years=1,sex_error=0.01,block_error=0.1,duplicates=0.02,seed=1.",
        ),
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--columns",
            metavar="OURS=THEIRS",
            help="Another name of a column, in all files or in one (truth:person_id=pik); repeatable.",
        ),
    ] = None,
    age_bins: Annotated[
        str, typer.Option("--age-bins", metavar="NAME", help="sf1-block, sf1-p12, or first years such as 0,5,18,65.")
    ] = "sf1-block",
    block_group_digits: Annotated[
        int, typer.Option("--block-group-digits", min=1, max=40, help="Digits of a geocode that name its block group.")
    ] = 12,
    tract_digits: Annotated[
        int, typer.Option("--tract-digits", min=1, max=40, help="Digits of a geocode that name its tract.")
    ] = 11,
    divide_by: Annotated[
        DivideBy, typer.Option("--divide-by", help="Rates over the attacker's records, or over persons of the truth.")
    ] = DivideBy.ATTACKER,
    guess_from: Annotated[
        GuessFrom, typer.Option("--guess-from", help="Whose blocks the guessers know.")
    ] = GuessFrom.TRUTH,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Orders records that are alike.")] = 0,
    matches: Annotated[
        Path | None,
        typer.Option(
            "--matches",
            metavar="FILE",
            help="Write every match, confirmed or not, for the curator alone "
            "(CSV or Parquet by the name; only its owner can read it).",
        ),
    ] = None,
    plots: Annotated[
        Path | None, typer.Option("--plots", metavar="DIR", help="Draw pictures into this folder (SVG).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Match reconstructed records with a file of known people, and count how many would be recognised rightly.

    The modal and the proportional guesser, who know the blocks and nobody in them, always stand beside.
    """
    if (attacker is None) == (attacker_from_truth is None):
        raise typer.BadParameter("give ATTACKER, or --attacker-from-truth, and not both", param_hint="ATTACKER")
    names = parse_columns(columns or ())
    settings = None if attacker_from_truth is None else parse_attacker(attacker_from_truth)
    if matches is not None:
        _refuse_existing(matches)
    records = read_people(truth, Role.TRUTH, names[Role.TRUTH])
    if settings is not None:
        records = with_person_ids(records)
        known = make_attacker(records, settings, tract_digits=tract_digits)
    else:
        assert attacker is not None
        if "person_id" not in records.column_names:
            raise _no_person_ids(truth)
        known = read_people(attacker, Role.ATTACKER, names[Role.ATTACKER])
    found = attack(
        read_people(reconstructed, Role.RECONSTRUCTED, names[Role.RECONSTRUCTED]),
        known,
        records,
        age_bins=age_bins,
        block_group_digits=block_group_digits,
        seed=seed,
        divide_by=divide_by,
        guess_from=guess_from,
    )
    if matches is not None:
        _write_matches(found.matches(), matches)
    drawn = [] if plots is None else show.draw(plots, found.rates)
    if as_json:
        result: dict[str, Any] = {"ok": True} | found.rates.as_dict()
        result["attacker"] = "file" if settings is None else settings.as_dict()
        result |= {"plots": [str(path) for path in drawn]} if drawn else {}
        print_json(result | ({"matches": str(matches)} if matches is not None else {}))
        return
    show.show(found.rates, settings)
    for path in drawn:
        out.print(f"Drawn: {escape(str(path))}")
    if matches is not None:
        number = found.rates.universe("all").putative
        out.print(f"[bold]Written: {escape(str(matches))}[/], all {number:,} putative matches with person ids.")
        out.print("It is confidential; only its owner can read it.")


def _write_matches(table: Confidential[pa.Table], path: Path) -> None:
    rows = table.reveal("the curator asked for the matches in a file of their own")
    try:
        if path.suffix.lower() != ".csv":
            write_parquet(rows, path)
            return
        with whole_file(path) as temporary:
            pacsv.write_csv(rows, temporary)
    except OSError as error:
        raise _unwritable(error.strerror or type(error).__name__) from None


def _refuse_existing(path: Path) -> None:
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise typer.BadParameter("--matches takes a name that ends in .parquet or .csv")
    if path.exists():
        raise _unwritable("a file or folder that exists")
    if not path.parent.is_dir():
        raise _unwritable("a folder that does not exist")


def _unwritable(found: str) -> ParameterError:
    return ParameterError(
        Finding(
            code="matches-file",
            what="the matches cannot be written there",
            where=Place(path="--matches"),
            found=found,
            expected="a new file in a folder that exists and can be written to",
            remedy="choose another name",
        )
    )


def _no_person_ids(truth: Path) -> ParameterError:
    return ParameterError(
        Finding(
            code="no-person-ids",
            what="the truth does not say who is who, so that no match can be confirmed",
            where=Place(file=truth.name, column="person_id"),
            found="no such column",
            expected="the same person ids as in the attacker's file",
            remedy="name the column with --columns truth:person_id=THEIRS, or use --attacker-from-truth",
        )
    )
