"""An attack on three files: reconstructed records, what the attacker knows, and the truth."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv

from confide.attacks.reidentification.attacker_file import (
    AttackerSettings,
    make_attacker,
    with_person_ids,
)
from confide.attacks.reidentification.grouped_codes import as_in_schema, linked_variables
from confide.attacks.reidentification.people_files import LinkedAttributes, Role, parse_columns, read_people
from confide.attacks.reidentification.rates import DivideBy, GuessFrom, Reidentification, reidentify
from confide.confidential import Confidential
from confide.engines.groups import whole_file, write_parquet
from confide.errors import Finding, InputError, ParameterError, Place


def reidentify_files(
    reconstructed: str | Path,
    truth: str | Path,
    attacker: str | Path | AttackerSettings,
    *,
    columns: Iterable[str] = (),
    age_bins: str | Sequence[int] = "sf1-block",
    block_group_digits: int = 12,
    tract_digits: int = 11,
    divide_by: DivideBy | str = DivideBy.ATTACKER,
    guess_from: GuessFrom | str = GuessFrom.TRUTH,
    seed: int = 0,
    matches: str | Path | None = None,
    known: Sequence[str] = ("sex", "age"),
    learn: Sequence[str] = ("cenrace", "hispanic"),
    schema: str | Path | None = None,
) -> Reidentification:
    """Match reconstructed records with a file of known people, and count how many would be recognised rightly.

    Args:
        reconstructed: Reconstructed records (CSV or Parquet): geocode, sex, age (or age_low and age_high, or age_bin),
            cenrace, hispanic, and solution_variability if known.
        truth: The confidential records: person_id, geocode, sex, age, cenrace, hispanic.
        attacker: What the attacker knows: a file with person_id, geocode, sex and age; or settings by which such a
            file is made from the truth.
        columns: Other names of columns: ``OURS=THEIRS`` in all files, ``truth:OURS=THEIRS`` in one.
        age_bins: ``sf1-block``, ``sf1-p12``, or the first years of the age groups.
        block_group_digits: How many digits of a geocode name its block group.
        tract_digits: How many digits of a geocode name its tract.
        divide_by: Rates over the attacker's records, or over persons of the truth.
        guess_from: Whose blocks the guessers know.
        seed: Orders records that are alike.
        matches: A new file for every match, confirmed or not. It is confidential: only its owner can read it.
        known: What the attacker knows of people: columns of codes, ``age`` in years, or recodes such as ``age:broad``.
        learn: What is to be learnt about them: columns, or recodes.
        schema: The schema that has the recodes; a shipped name or a file.

    Returns:
        The rates, with those of the guessers beside, and the matches for the curator. They use the truth.
    """
    linked, variables = linked_variables(known, learn, schema)
    names = parse_columns(columns, linked)
    file = None if matches is None else Path(matches)
    if file is not None:
        _refuse_existing(file)

    def people(path: str | Path, role: Role) -> pa.Table:
        return as_in_schema(read_people(Path(path), role, names[role], linked), role, variables)

    records = people(truth, Role.TRUTH)
    settings = attacker if isinstance(attacker, AttackerSettings) else None
    if isinstance(attacker, AttackerSettings):
        records = with_person_ids(records)
        known_people = make_attacker(records, attacker, tract_digits=tract_digits, linked=linked)
    else:
        if "person_id" not in records.column_names:
            raise _no_person_ids(Path(truth))
        known_people = people(attacker, Role.ATTACKER)
    rebuilt = people(reconstructed, Role.RECONSTRUCTED)
    _refuse_empty(rebuilt, linked)
    reidentification = reidentify(
        rebuilt,
        known_people,
        records,
        age_bins=age_bins,
        block_group_digits=block_group_digits,
        seed=seed,
        divide_by=divide_by,
        guess_from=guess_from,
        linked=linked,
    )
    if file is not None:
        _write_matches(reidentification.matches(), file)
    return replace(reidentification, attacker_settings=settings, matches_file=file)


def _refuse_empty(rebuilt: pa.Table, linked: LinkedAttributes) -> None:
    """A column without a value matches nobody, and nobody recognised looks like safety."""
    empty = [name for name in linked.codes if len(rebuilt) and rebuilt.column(name).null_count == len(rebuilt)]
    if empty:
        raise InputError(_nothing_given(Role.RECONSTRUCTED, name) for name in empty)


def _nothing_given(role: Role, name: str) -> Finding:
    return Finding(
        code="no-values",
        what=f"no record of the file {role.value} has a value in this column: nobody could be matched by it",
        where=Place(file=role.value, column=name),
        found="only empty values",
        expected="the code of the attribute; tables that publish it in groups leave it open",
        remedy="compare the groups: --schema FILE, and --known or --learn ATTRIBUTE:RECODE",
    )


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
        raise _unwritable("another ending than .parquet or .csv")
    if path.exists():
        raise _unwritable("a file or folder that exists")
    if not path.parent.is_dir():
        raise _unwritable("a folder that does not exist")


def _unwritable(found: str) -> ParameterError:
    return ParameterError(
        "matches-file",
        "the matches cannot be written there",
        where=Place(path="--matches"),
        found=found,
        expected="a new file in a folder that exists and can be written to",
        remedy="choose another name",
    )


def _no_person_ids(truth: Path) -> ParameterError:
    return ParameterError(
        "no-person-ids",
        "the true records do not identify persons, so no match can be confirmed",
        where=Place(file=truth.name, column="person_id"),
        found="no such column",
        expected="the same person ids as in the attacker's file",
        remedy="name the column with --columns truth:person_id=THEIRS, or use --attacker-from-truth",
    )
