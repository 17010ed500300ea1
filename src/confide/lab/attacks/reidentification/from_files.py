"""An attack on three files: reconstructed records, what the attacker knows, and the truth, in the codes of a schema.

Where tables show an attribute in groups alone, a reconstructed record has no code of it but the label of its group, in
a column ``ATTRIBUTE_bin``. The truth has codes. Comparing the two as they are would match nobody, and nobody recognised
looks like safety; so both are brought to the groups of one recode of the schema first. An office whose records write a
code in several ways gives its schema as well: ``M`` and ``Male`` would be two people otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from confide.confidential import Confidential
from confide.documents import load_schema
from confide.engines.protocol import write_parquet
from confide.errors import CONFIDENTIAL, Finding, InputError, ParameterError, Place
from confide.file_system import whole_file
from confide.inputs.frame import codes_meant
from confide.lab.attacks.reidentification import people_files
from confide.lab.attacks.reidentification import people_files as attacker_file
from confide.lab.attacks.reidentification.rates import DivideBy, GuessFrom, Reidentification, reidentify
from confide.schema import NO_GROUP, Recode, Schema


def linked_variables(
    known: Sequence[str], learnt: Sequence[str], schema: str | Path | None
) -> tuple[people_files.LinkedAttributes, tuple[Recode, ...]]:
    """What is known and learnt, by names of attributes or of recodes such as ``age:broad``.

    Args:
        known: What the attacker knows; ``age`` is an age in years.
        learnt: What is to be learnt.
        schema: The schema that has the recodes; a shipped name or a file.

    Returns:
        The attributes, and the variables of the schema that their codes are brought to.
    """
    recoded = [name for name in (*known, *learnt) if ":" in name]
    if recoded and schema is None:
        raise ParameterError("no-schema/codes", where=Place(path="--schema"), found=", ".join(recoded))
    variables: tuple[Recode, ...] = ()
    if schema is not None:
        held: Schema = load_schema(str(schema), Path())
        wanted = [
            name for name in (*known, *learnt) if ":" in name or (name != people_files.AGE and name in held.variables)
        ]
        variables = tuple(held.variable(name) for name in wanted)
    years = people_files.AGE in known
    names = [
        [name.partition(":")[0] for name in part if name != people_files.AGE or part is not known]
        for part in (known, learnt)
    ]
    in_groups = tuple(recode.attribute.name for recode in variables if recode.name in recoded)
    return people_files.LinkedAttributes(tuple(names[0]), tuple(names[1]), years, in_groups), variables


def as_in_schema(table: pa.Table, role: people_files.Role, variables: Sequence[Recode]) -> pa.Table:
    """A table whose codes of some attributes are the labels of the schema: of codes, or of groups of them."""
    for recode in variables:
        name = recode.attribute.name
        if name in table.column_names:
            place = table.column_names.index(name)
            table = table.set_column(place, name, _labels(table, role, recode))
    return table


def _labels(table: pa.Table, role: people_files.Role, recode: Recode) -> pa.Array:
    attribute = recode.attribute
    given = people_files.plain(table.column(attribute.name)).cast(pa.large_string())
    # Nothing is not known of a reconstructed record; of a true one it means what the schema says.
    codes = codes_meant(given.to_pylist(), attribute, blanks_mean=role is not people_files.Role.RECONSTRUCTED)
    label_of = {level.code: _group(recode, [place]) for place, level in enumerate(attribute.levels)}
    labels = pa.array([None if code is None else label_of[code] for code in codes], pa.large_string())
    _refuse_unknown(role, attribute.name, given, labels, "codes of the schema that the recode has a group for")
    shown = f"{attribute.name}_bin"
    if role is not people_files.Role.RECONSTRUCTED or shown not in table.column_names:
        return labels
    published = people_files.plain(table.column(shown)).cast(pa.large_string())
    by_label = _looked_up(published, _published_groups(recode))
    _refuse_unknown(role, shown, published, by_label, f"labels of groups that lie in one group of {recode.name!r}")
    return pc.coalesce(labels, by_label)


def _published_groups(recode: Recode) -> dict[str, str | None]:
    """The label of every set of codes that a table may show, and its group: of codes, and of the recode itself."""
    single = {level.label: _group(recode, [place]) for place, level in enumerate(recode.attribute.levels)}
    return single | {group.label: group.label for group in recode.groups}


def _group(recode: Recode, levels: Sequence[int]) -> str | None:
    places = {int(recode.assignment[level]) for level in levels}
    if len(places) != 1 or NO_GROUP in places:
        return None
    return recode.labels[places.pop()]


def _looked_up(values: pa.Array, named: dict[str, str | None]) -> pa.Array:
    keys, labels = pa.array(list(named), pa.large_string()), pa.array(list(named.values()), pa.large_string())
    return labels.take(pc.index_in(values, value_set=keys))


def _refuse_unknown(role: people_files.Role, name: str, given: pa.Array, labels: pa.Array, expected: str) -> None:
    blank = pc.fill_null(pc.equal(pc.utf8_trim_whitespace(given), ""), fill_value=True)
    lost = pc.and_(pc.invert(blank), pc.is_null(labels))
    number = pc.sum(lost).as_py() or 0
    if number:
        raise InputError(
            "no-group/values",
            where=Place(file=role.value, column=name, row=int(pc.index(lost, value=True).as_py()) + 1),
            found=CONFIDENTIAL,
            number=number,
            role=role.value,
            expected=expected,
        )


# The attack itself.


def reidentify_files(
    reconstructed: str | Path,
    truth: str | Path,
    attacker: str | Path | attacker_file.AttackerSettings,
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

    >>> import confide
    >>> people = {"geocode": ["1", "1"], "sex": [1, 2], "age": [30, 40], "cenrace": [0, 1], "hispanic": [0, 0]}
    >>> persons = tmp_path / "persons.parquet"
    >>> write_parquet(pa.table({"person_id": [1, 2]} | people), persons)
    >>> confide.reidentify_files(persons, persons, persons).rates.universe("all").confirmed
    2
    """
    linked, variables = linked_variables(known, learn, schema)
    names = people_files.parse_columns(columns, linked)
    file = None if matches is None else Path(matches)
    if file is not None:
        _refuse_existing(file)

    def people(path: str | Path, role: people_files.Role) -> pa.Table:
        return as_in_schema(people_files.read_people(Path(path), role, names[role], linked), role, variables)

    records = people(truth, people_files.Role.TRUTH)
    settings = attacker if isinstance(attacker, attacker_file.AttackerSettings) else None
    if isinstance(attacker, attacker_file.AttackerSettings):
        records = attacker_file.with_person_ids(records)
        known_people = attacker_file.make_attacker(records, attacker, tract_digits=tract_digits, linked=linked)
    else:
        if "person_id" not in records.column_names:
            raise ParameterError("no-person-ids", where=Place(file=Path(truth).name, column="person_id"))
        known_people = people(attacker, people_files.Role.ATTACKER)
    rebuilt = people(reconstructed, people_files.Role.RECONSTRUCTED)
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


def _refuse_empty(rebuilt: pa.Table, linked: people_files.LinkedAttributes) -> None:
    """A column without a value matches nobody, and nobody recognised looks like safety."""
    empty = [name for name in linked.codes if len(rebuilt) and rebuilt.column(name).null_count == len(rebuilt)]
    if empty:
        raise InputError(
            Finding.of(
                "no-values",
                where=Place(file=people_files.Role.RECONSTRUCTED.value, column=name),
                role=people_files.Role.RECONSTRUCTED.value,
            )
            for name in empty
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
        raise ParameterError(
            "matches-file/written", where=Place(path="--matches"), found=error.strerror or type(error).__name__
        ) from None


def _refuse_existing(path: Path) -> None:
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise ParameterError("matches-file/another", where=Place(path="--matches"))
    if path.exists():
        raise ParameterError("matches-file/exists", where=Place(path="--matches"))
    if not path.parent.is_dir():
        raise ParameterError("matches-file/exist", where=Place(path="--matches"))
