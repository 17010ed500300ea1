"""The three files of an attack, as people keep them: CSV or Parquet, with column names of their own.

A CSV file is read as text throughout, so that a geocode keeps its leading zeros. Nothing of a value is ever shown: two
of the files are confidential, and the third may be as good as that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from confide.errors import Finding, InputError, ParameterError, Place
from confide.inputs.table_files import why_unreadable


class Role(StrEnum):
    """Which of the three files."""

    RECONSTRUCTED = "reconstructed"
    ATTACKER = "attacker"
    TRUTH = "truth"


AGE, AGE_FORMS = "age", ("age", "age_low", "age_high", "age_bin")


@dataclass(frozen=True, slots=True)
class LinkedAttributes:
    """What an attack is about: the attributes that the attacker knows of people, and those to be learnt about them.

    By default those of the United States: sex and age are known, race and ethnicity are learnt. Codes are compared as
    they are; an ``age`` in years is compared by the year and by its group.
    """

    known: tuple[str, ...] = ("sex",)
    """Known besides the block and, if ``with_age``, the age in years."""
    learnt: tuple[str, ...] = ("cenrace", "hispanic")
    """Learnt about a match. All of them together are the *group* of a record."""
    with_age: bool = True
    grouped: tuple[str, ...] = ()
    """Those whose codes are compared in groups, which tables show as a label: ``NAME_bin``."""

    def __post_init__(self) -> None:
        reserved = {"geocode", "person_id", "block_group", "tract", "solution_variability", "confidence"}
        reserved |= set(AGE_FORMS) if self.with_age else set()
        named = (*self.known, *self.learnt)
        twice = sorted({name for name in named if named.count(name) > 1 or name in reserved})
        if twice or not self.learnt or not (self.known or self.with_age):
            raise ParameterError(
                "linked-attributes",
                "what the attacker knows and what is to be learnt is not clear",
                where=Place(path="--known, --learn"),
                found=f"{', '.join(twice)} in two parts" if twice else "nothing known, or nothing to learn",
                expected="at least one attribute that is known and one that is learnt, each once",
                remedy="name what the attacker knows with --known and what is sensitive with --learn",
            )

    @property
    def codes(self) -> tuple[str, ...]:
        """All of them but the age."""
        return (*self.known, *self.learnt)

    def needed(self, role: Role) -> tuple[str, ...]:
        """The columns that a file must have."""
        age = (AGE,) if self.with_age else ()
        return {
            Role.RECONSTRUCTED: ("geocode", *self.known, *self.learnt),
            Role.ATTACKER: ("person_id", "geocode", *self.known, *age),
            Role.TRUTH: ("geocode", *self.known, *age, *self.learnt),
        }[role]

    def optional(self, role: Role) -> tuple[str, ...]:
        """The columns that it may have."""
        ages = AGE_FORMS if self.with_age else ()
        return {
            Role.RECONSTRUCTED: (
                *ages,
                *(f"{name}_bin" for name in self.grouped),
                "solution_variability",
                "confidence",
            ),
            Role.ATTACKER: (),
            Role.TRUTH: ("person_id", "block_group", "tract"),
        }[role]

    def columns(self, role: Role) -> tuple[str, ...]:
        """All columns of a file that are read."""
        return (*self.needed(role), *self.optional(role))


UNITED_STATES = LinkedAttributes()
"""Sex and age are known, race and ethnicity are learnt: the attack of Abowd and Hawes (2023)."""


def linked_attributes(known: Iterable[str], learnt: Iterable[str]) -> LinkedAttributes:
    """What is known and what is learnt by their names; ``age`` among the known is an age in years.

    >>> linked_attributes(["sex", "age"], ["religion"]).needed(Role.ATTACKER)
    ('person_id', 'geocode', 'sex', 'age')
    """
    names = tuple(known)
    return LinkedAttributes(tuple(name for name in names if name != AGE), tuple(learnt), AGE in names)


def read_people(
    path: Path, role: Role, columns: Mapping[str, str] | None = None, linked: LinkedAttributes = UNITED_STATES
) -> pa.Table:
    """The columns of a file that matter for its role, under our names. ``columns`` gives theirs for some of ours."""
    theirs = dict(columns or {})
    wanted = {name: theirs.get(name, name) for name in linked.columns(role)}
    names = _names(path)
    there = set(names)
    missing = [name for name in linked.needed(role) if wanted[name] not in there]
    missing += [name for name in theirs if name in wanted and wanted[name] not in there and name not in missing]
    ages = {"age", "age_low", "age_bin"}
    dated = role is Role.RECONSTRUCTED and linked.with_age
    if dated and not any(wanted[name] in there for name in ages):
        missing.append("age")
    if dated and wanted["age_low"] in there and wanted["age_high"] not in there:
        missing.append("age_high")
    if missing:
        raise InputError(
            Finding(
                code="missing-column",
                what="a column is missing",
                where=Place(file=path.name, column=wanted[name]),
                found=_listed(path, names),
                expected=_expected(role, name, linked),
                remedy=f"name the column with --columns {role.value}:{name}=THEIRS, or add it",
            )
            for name in missing
        )
    chosen = {name: column for name, column in wanted.items() if column in there}
    twice = [column for column in dict.fromkeys(chosen.values()) if names.count(column) > 1]
    if twice:
        raise InputError(
            Finding(
                code="column-twice",
                what="two columns have the same name",
                where=Place(file=path.name, column=column),
                found=f"{names.count(column)} columns of this name",
                expected="one",
                remedy="rename the others",
            )
            for column in twice
        )
    read = _read(path, list(dict.fromkeys(chosen.values())))
    return pa.table({name: read.column(column) for name, column in chosen.items()})


def parse_columns(texts: Iterable[str], linked: LinkedAttributes = UNITED_STATES) -> dict[Role, dict[str, str]]:
    """``OURS=THEIRS`` for all three files, ``truth:OURS=THEIRS`` for one; several with commas between."""
    names: dict[Role, dict[str, str]] = {role: {} for role in Role}
    for text in (part for option in texts for part in option.split(",")):
        target, equals, theirs = text.strip().partition("=")
        role, colon, ours = target.rpartition(":")
        roles = [Role(role)] if role in set(Role) else [] if colon else list(Role)
        roles = [one for one in roles if ours in linked.columns(one)]
        if not equals or not theirs or not roles:
            raise ParameterError(
                "bad-columns",
                "this does not name a column",
                where=Place(path="--columns"),
                found=text[:60],
                expected="OURS=THEIRS or FILE:OURS=THEIRS, such as truth:person_id=pik; FILE is one of "
                + ", ".join(Role),
                remedy="correct --columns",
            )
        for one in roles:
            names[one][ours] = theirs
    return names


def _names(path: Path) -> list[str]:
    try:
        if _is_parquet(path):
            return list(pq.read_schema(path).names)
        with pacsv.open_csv(path, read_options=pacsv.ReadOptions(block_size=1 << 20)) as reader:
            return list(reader.schema.names)
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(path, error) from None


def _read(path: Path, names: list[str]) -> pa.Table:
    try:
        if _is_parquet(path):
            return pq.read_table(path, columns=names)
        convert = pacsv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            include_columns=names,
            strings_can_be_null=True,
            null_values=["", "NA"],
        )
        return pacsv.read_csv(path, convert_options=convert)
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(path, error) from None


def _listed(path: Path, names: list[str]) -> str:
    """The columns that a file has. Those of a CSV are only counted: without a line of names, they are a record."""
    if _is_parquet(path):
        return f"columns {', '.join(sorted(names))}"[:300]
    return f"{len(names):,} columns of other names in the first line"


def _is_parquet(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"PAR1"


def _unreadable(path: Path, error: Exception) -> InputError:
    return InputError(
        "unreadable-file",
        "the file cannot be read",
        where=Place(file=path.name),
        found=why_unreadable(path, error),
        expected="a CSV file with a header, in UTF-8, or a Parquet file",
        remedy="check the path and the file",
    )


def _expected(role: Role, name: str, linked: LinkedAttributes) -> str:
    if role is Role.RECONSTRUCTED and name in ("age", "age_high"):
        return "age, or age_low and age_high, or age_bin"
    return f"{', '.join(linked.needed(role))} in the file {role.value}"
