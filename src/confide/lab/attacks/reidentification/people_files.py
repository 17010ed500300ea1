"""The columns of the three files as values that can be compared, and what is refused of them.

Codes are compared as text, whole numbers without leading zeros and without a fraction of zero (``1``, ``01``, ``1.0``
and 1 are one sex); geocodes and person ids are compared as they are written. A blank is no value. A finding names the
file, the row and the rule: nothing of a value is shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from confide.arrays import Integers
from confide.documents import load_shipped
from confide.errors import CONFIDENTIAL, Finding, InputError, ParameterError, Place
from confide.exact import Exact, exact
from confide.inputs.table_files import why_unreadable

# The three files of an attack, as people keep them: CSV or Parquet, with column names of their own.
#
# A CSV file is read as text throughout, so that a geocode keeps its leading zeros. Nothing of a value is ever shown:
# two of the files are confidential, and the third may be as good as that.


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
    """Known apart from the block and, if ``with_age``, the age in years."""
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
                "linked-attributes", where=Place(path="--known, --learn"), twice=", ".join(twice) if twice else None
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
            Finding.of(
                "missing-column/theirs",
                where=Place(file=path.name, column=wanted[name]),
                found=_listed(path, names),
                role=_expected(role, name, linked),
                role_value=role.value,
                name=name,
            )
            for name in missing
        )
    chosen = {name: column for name, column in wanted.items() if column in there}
    twice = [column for column in dict.fromkeys(chosen.values()) if names.count(column) > 1]
    if twice:
        raise InputError(
            Finding.of("column-twice/columns", where=Place(file=path.name, column=column), names=names.count(column))
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
            raise ParameterError("bad-columns", where=Place(path="--columns"), found=text[:60], role=", ".join(Role))
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
    return InputError("unreadable-file", where=Place(file=path.name), found=why_unreadable(path, error))


def _expected(role: Role, name: str, linked: LinkedAttributes) -> str:
    if role is Role.RECONSTRUCTED and name in ("age", "age_high"):
        return "age, or age_low and age_high, or age_bin"
    return f"{', '.join(linked.needed(role))} in the file {role.value}"


# Ages: single years, the groups that tables are published in, and what is known of an age that is not exact.
#
# Groups are given by their first years a₀ = 0 < a₁ < … < aₖ; group j is [aⱼ, aⱼ₊₁), the last one is open. Every
# single year lies in exactly one group, so that matching on groups is coarser than matching on years, and nothing
# else.


UNKNOWN = -1
OLDEST = 200
"""No age is larger. The upper end of an open group."""

_LABEL = re.compile(r"\s*(\d{1,3})\s*(?:(\+|and over|and older)|(?:-|–|to)\s*(\d{1,3}))?\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class AgeBins:
    """Groups of ages, by their first years."""

    name: str
    starts: tuple[int, ...]

    def __post_init__(self) -> None:
        rising = all(a < b for a, b in zip(self.starts, self.starts[1:], strict=False))
        if not self.starts or self.starts[0] != 0 or not rising or self.starts[-1] > OLDEST:
            raise ParameterError(
                "bad-age-bins",
                where=Place(path="age_bins"),
                starts=", ".join(map(str, self.starts))[:120],
                oldest=OLDEST,
            )

    def __len__(self) -> int:
        return len(self.starts)

    def of(self, ages: Integers) -> Integers:
        """The group of each age; :data:`UNKNOWN` where the age is."""
        groups = np.searchsorted(np.asarray(self.starts), ages, side="right") - 1
        return np.where(ages < 0, UNKNOWN, groups).astype(np.int64)

    def of_ranges(self, low: Integers, high: Integers) -> Integers:
        """The group that holds all years from ``low`` to ``high``; :data:`UNKNOWN` where they lie in several."""
        first, last = self.of(low), self.of(high)
        return np.where(first == last, first, UNKNOWN).astype(np.int64)

    @property
    def labels(self) -> tuple[str, ...]:
        """Each group in words, such as ``4``, ``22-24``, ``85+``."""
        ends = [start - 1 for start in self.starts[1:]]
        closed = [str(a) if a == b else f"{a}-{b}" for a, b in zip(self.starts, ends, strict=False)]
        return (*closed, f"{self.starts[-1]}+")


def load_age_bins(name: str | Sequence[int] = "sf1-block") -> AgeBins:
    """The groups that ship under a name, or those with the first years given.

    >>> load_age_bins("0,18,65").starts
    (0, 18, 65)
    """
    if not isinstance(name, str):
        return AgeBins("own", tuple(int(start) for start in name))
    shipped_bins = {key: value for key, value in load_shipped("attacks", "age-bins").items() if isinstance(value, dict)}
    if name in shipped_bins:
        return AgeBins(name, tuple(shipped_bins[name]["starts"]))
    parts = [part.strip() for part in name.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) <= 3 for part in parts):
        raise ParameterError(
            "no-age-bins", where=Place(path="age_bins"), found=name[:60], shipped_bins=", ".join(sorted(shipped_bins))
        )
    return AgeBins("own", tuple(map(int, parts)))


def range_of_label(label: str) -> tuple[int, int] | None:
    """The first and last year of a label such as ``4``, ``22-24``, ``22 - 24``, ``85+``; None if it is no such label.

    >>> range_of_label("22 - 24"), range_of_label("85+"), range_of_label("old")
    ((22, 24), (85, 200), None)
    """
    parsed = _LABEL.fullmatch(label)
    if not parsed:
        return None
    low = int(parsed.group(1))
    high = OLDEST if parsed.group(2) else int(parsed.group(3) or low)
    return (low, high) if low <= high else None


AS_WRITTEN = ("geocode", "person_id", "block_group", "tract")
AGES = ("age", "age_low", "age_high")


def check_columns(role: Role, table: pa.Table, linked: LinkedAttributes = UNITED_STATES) -> None:
    """Refuses a table that lacks a column, has one of another type, or, if it is the truth, lacks a value."""
    missing = [name for name in linked.needed(role) if name not in table.column_names]
    if missing:
        raise InputError(
            Finding.of(
                "missing-column/lacks",
                where=Place(file=role.value, column=name),
                found=", ".join(table.column_names)[:300],
                role=role.value,
                role_expected=", ".join(linked.needed(role)),
            )
            for name in missing
        )
    there = [name for name in linked.columns(role) if name in table.column_names]
    findings = [finding for name in there for finding in _wrong_type(role, name, table.column(name))]
    if role is Role.TRUTH and not findings:
        # Who has no person id is in the truth and not data-defined; a block may be in no block group.
        required = [*linked.needed(role), *(["tract"] if "tract" in there else [])]
        findings = [finding for name in required for finding in _lacking(role, name, table.column(name))]
    if findings:
        raise InputError(findings)


def text_of(role: Role, name: str, column: pa.ChunkedArray) -> pa.Array:
    """A column as text; null where there is nothing."""
    values = plain(column)
    if pa.types.is_floating(values.type):
        values = _whole(role, name, values)
    text = values.cast(pa.large_string())
    if name not in AS_WRITTEN:
        text = code_text(text)
    return pc.if_else(pc.equal(pc.utf8_trim_whitespace(text), ""), pa.scalar(None, pa.large_string()), text)


def ages_of(role: Role, table: pa.Table, name: str) -> Integers:
    """Ages of a column; :data:`UNKNOWN` where there is none."""
    if name not in table.column_names:
        return np.full(len(table), UNKNOWN, dtype=np.int64)
    values = plain(table.column(name))
    if is_text(values.type):
        text = code_text(values.cast(pa.large_string()))
        values = pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.large_string()), text)
    years = _whole(role, name, values)
    numbers = np.asarray(pc.fill_null(years, 0).to_numpy(zero_copy_only=False), dtype=np.int64)
    wrong = np.flatnonzero((numbers < 0) | (numbers > OLDEST))
    if len(wrong):
        raise InputError(
            "bad-age",
            where=Place(file=role.value, column=name, row=int(wrong[0]) + 1),
            found=CONFIDENTIAL,
            oldest=OLDEST,
        )
    return np.where(pc.is_valid(years).to_numpy(zero_copy_only=False), numbers, UNKNOWN)


def plain(column: pa.ChunkedArray) -> pa.Array:
    """A column in one piece, without a dictionary."""
    values = pa.chunked_array(column).combine_chunks()
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values


def is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def code_text(text: pa.Array) -> pa.Array:
    """Codes as they are compared: whole numbers without leading zeros and without a fraction of zero."""
    return pc.replace_substring_regex(
        pc.utf8_trim_whitespace(text), pattern=r"^0*([0-9]+)(?:\.0*)?$", replacement=r"\1"
    )


def _whole(role: Role, name: str, values: pa.Array) -> pa.Array:
    """Whole numbers, from numbers or from text."""
    try:
        return values.cast(pa.int64())
    except pa.ArrowException:
        if is_text(values.type):
            right = pc.match_substring_regex(values, r"^[+-]?[0-9]{1,18}$")
        else:
            numbers = values.cast(pa.float64())
            right = pc.and_(pc.equal(numbers, pc.floor(numbers)), pc.less(pc.abs(numbers), 2.0**63))
        wrong = pc.index(pc.fill_null(right, fill_value=True), value=False).as_py()
        raise InputError(
            "not-whole/value",
            where=Place(file=role.value, row=wrong + 1 if wrong >= 0 else None, column=name),
            found=CONFIDENTIAL,
        ) from None


def _wrong_type(role: Role, name: str, column: pa.ChunkedArray) -> Iterator[Finding]:
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    right = is_text(kind) or pa.types.is_null(kind)
    expected = "text, with leading zeros"
    if name != "geocode":
        right = right or number or (name not in AGES and pa.types.is_boolean(kind))
        expected = "whole numbers" if name in AGES else "text or numbers"
    if not right:
        yield Finding.of(
            "column-type/other",
            where=Place(file=role.value, column=name),
            is_geocode=name == "geocode",
            kind=kind,
            expected=expected,
        )


def _lacking(role: Role, name: str, column: pa.ChunkedArray) -> Iterator[Finding]:
    values = plain(column)
    lacking = pc.is_null(values)
    if is_text(values.type):
        lacking = pc.or_kleene(lacking, pc.equal(pc.utf8_trim_whitespace(values), ""))
    number = pc.sum(lacking).as_py() or 0
    if number:
        yield Finding.of(
            "missing-value/truth",
            where=Place(file=role.value, row=int(pc.index(lacking, value=True).as_py()) + 1, column=name),
            number=number,
            one=number == 1,
        )


# The file of an attacker, made from the truth: who is in it, and what is wrong in it.
#
# A commercial file does not have everybody, has some people at an address they left, and gets ages and sexes wrong.
# Each record of the truth with a person id is in the file with probability ``coverage``; independently of each other,
# a record that is in it has
#
# - an age that is off by ``age_years``, up or down alike, with probability ``age_error`` (never below 0: then up);
# - the other sex with probability ``sex_error``;
# - another block of its tract, all alike, with probability ``block_error`` (if the tract has another);
# - a second record of the same person, in another block of the tract, with probability ``duplicates``.
#
# This is a simulation of somebody else's file: its randomness protects nothing, and comes from a seeded generator.


_SHARES = ("coverage", "age_error", "sex_error", "block_error", "duplicates")
_WHOLE = ("age_years", "seed")
SEX = "sex"


@dataclass(frozen=True, slots=True)
class AttackerSettings:
    """How good the attacker's file is. By default it is perfect: everybody, and nothing wrong."""

    coverage: Fraction = Fraction(1)
    age_error: Fraction = Fraction(0)
    age_years: int = 1
    sex_error: Fraction = Fraction(0)
    block_error: Fraction = Fraction(0)
    duplicates: Fraction = Fraction(0)
    seed: int = 0

    def __post_init__(self) -> None:
        for name in _SHARES:
            if not 0 <= getattr(self, name) <= 1:
                raise _bad("bad-attacker/describe-file", name, seen=str(getattr(self, name)))
        if not 0 < self.age_years <= 50:
            raise _bad("bad-attacker/years", "age_years", seen=str(self.age_years))
        if self.seed < 0:
            raise _bad("bad-attacker/negative", "seed", seen=str(self.seed))

    def as_dict(self) -> dict[str, Any]:
        return {name: float(value) if name in _SHARES else value for name, value in asdict(self).items()}


def attacker_settings(**values: Exact) -> AttackerSettings:
    """Settings from exact numbers; those that are not named are of a perfect file.

    Args:
        values: Exact numbers by the names of :class:`AttackerSettings`, such as ``coverage``.

    Returns:
        The settings.

    >>> attacker_settings(coverage="0.9", age_error="1/20", seed=1).coverage
    Fraction(9, 10)
    """
    numbers: dict[str, Any] = {}
    for name, value in values.items():
        if name not in (*_SHARES, *_WHOLE):
            raise _bad("bad-attacker/unknown", name[:40], value=", ".join((*_SHARES, *_WHOLE)))
        try:
            number = exact(value, name)
        except ParameterError as error:
            raise ParameterError(replace(finding, where=_place(name)) for finding in error.findings) from None
        if name in _WHOLE:
            if number.denominator != 1:
                raise _bad("bad-attacker/whole-number", name, seen=str(value)[:40])
            numbers[name] = int(number)
        else:
            numbers[name] = number
    return AttackerSettings(**numbers)


def parse_attacker(text: str) -> AttackerSettings:
    """Settings as typed: ``perfect``, or ``coverage=0.9,age_error=0.05,seed=1``.

    >>> parse_attacker("perfect") == AttackerSettings()
    True
    """
    if text.strip() == "perfect":
        return AttackerSettings()
    parts = {}
    for part in text.split(","):
        name, equals, value = part.strip().partition("=")
        if not equals or name in parts:
            raise _bad("bad-attacker/perfect", name[:40] or "settings", seen=part[:60])
        parts[name] = value
    return attacker_settings(**parts)


def with_person_ids(truth: pa.Table) -> pa.Table:
    """The truth with a column ``person_id``: its own, or the number of the row."""
    if "person_id" in truth.column_names:
        return truth
    return truth.append_column("person_id", pa.array(np.arange(1, len(truth) + 1)))


def make_attacker(
    truth: pa.Table,
    settings: AttackerSettings,
    *,
    tract_digits: int = 11,
    linked: LinkedAttributes = UNITED_STATES,
) -> pa.Table:
    """An attacker's file about the people of the truth, with the errors of the settings drawn from their seed.

    Args:
        truth: The confidential records: geocode, sex, age; person_id and tract if they are there.
        settings: How good the file is.
        tract_digits: How many digits of a geocode are the tract, if there is no column ``tract``.
        linked: What the attacker knows of people, and what is to be learnt.

    Returns:
        person_id, geocode and what is known (sex, age); a row for each record of the attacker.

    >>> truth = pa.table({"geocode": ["1", "1"], "sex": [1, 2], "age": [30, 40], "cenrace": [0, 0], "hispanic": [0, 0]})
    >>> make_attacker(truth, AttackerSettings()).column("person_id").to_pylist()
    [1, 2]
    """
    identified = with_person_ids(truth)
    check_columns(Role.TRUTH, identified, linked)
    _refuse_errors_of_nothing(settings, linked)
    columns = linked.needed(Role.ATTACKER)
    rows = np.flatnonzero(pc.is_valid(identified.column("person_id")).to_numpy(zero_copy_only=False))
    # A stream for each kind of error, so that changing one share leaves the others' draws as they are.
    draws = [np.random.default_rng(stream) for stream in np.random.SeedSequence(settings.seed).spawn(8)]
    rows = rows[draws[0].random(len(rows)) < float(settings.coverage)]
    number = len(rows)

    tract, blocks = _tracts(identified, tract_digits)
    codes = pc.dictionary_encode(plain(identified.column("geocode")))
    block = codes.indices.to_numpy(zero_copy_only=False).astype(np.int64)[rows]
    moved = draws[1].random(number) < float(settings.block_error)
    own = np.where(moved, _elsewhere(block, tract, blocks, draws[2]), block)
    twice = np.flatnonzero(draws[3].random(number) < float(settings.duplicates))
    second = _elsewhere(block[twice], tract, blocks, draws[4])

    file: dict[str, pa.Array] = {}
    everyone = np.concatenate([np.arange(number), twice])
    places = np.concatenate([own, second])
    if linked.with_age:
        age = _with_errors(
            ages_of(Role.TRUTH, identified, AGE)[rows],
            settings,
            draws[5],
            draws[6],
        )
        file[AGE] = pa.array(age[everyone])
    for name in linked.known:
        values = plain(identified.column(name))
        if name == SEX:
            known = _swap_sexes(values, rows, draws[7].random(number) < float(settings.sex_error))
        else:
            known = values.take(pa.array(rows))
        file[name] = known.take(pa.array(everyone))
    file["person_id"] = plain(identified.column("person_id")).take(pa.array(rows[everyone]))
    file["geocode"] = codes.dictionary.take(pa.array(places))
    return pa.table({name: file[name] for name in columns})


def _with_errors(
    age: Integers, settings: AttackerSettings, which: np.random.Generator, way: np.random.Generator
) -> Integers:
    """Ages, some of them off by so many years, up or down."""
    wrong = which.random(len(age)) < float(settings.age_error)
    step = np.where(way.random(len(age)) < 0.5, -settings.age_years, settings.age_years)
    shifted = np.where(age + step < 0, age + settings.age_years, age + step)
    return np.where(wrong, shifted, age)


def _refuse_errors_of_nothing(settings: AttackerSettings, linked: LinkedAttributes) -> None:
    """An error of what the attacker does not know would change nothing, and pass for a weak list."""
    if settings.sex_error and SEX not in linked.known:
        raise _bad("bad-attacker/column", "sex_error", seen=str(settings.sex_error))
    if settings.age_error and not linked.with_age:
        raise _bad("bad-attacker/age", "age_error", seen=str(settings.age_error))


def _tracts(truth: pa.Table, digits: int) -> tuple[Integers, Integers]:
    """The tract of each block, and the blocks sorted by tract. Blocks are those where somebody lives."""
    codes = pc.dictionary_encode(plain(truth.column("geocode")))
    if "tract" in truth.column_names:
        of_record = pc.dictionary_encode(plain(truth.column("tract"))).indices.to_numpy(zero_copy_only=False)
        tract = np.zeros(len(codes.dictionary), dtype=np.int64)
        tract[codes.indices.to_numpy(zero_copy_only=False)] = of_record
    else:
        prefixes = pc.dictionary_encode(pc.utf8_slice_codeunits(codes.dictionary, 0, digits))
        tract = prefixes.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return tract, np.argsort(tract, kind="stable")


def _elsewhere(block: Integers, tract: Integers, blocks: Integers, draws: np.random.Generator) -> Integers:
    """Another block of the same tract for each block, all others alike; the same one where the tract has no other."""
    counts = np.bincount(tract)
    starts = np.cumsum(counts) - counts
    place = np.empty(len(blocks), dtype=np.int64)
    place[blocks] = np.arange(len(blocks))
    own = place[block] - starts[tract[block]]
    others = counts[tract[block]] - 1
    chosen = np.floor(draws.random(len(block)) * np.maximum(others, 1)).astype(np.int64)
    chosen = np.where(chosen >= own, chosen + 1, chosen)
    return np.where(others > 0, blocks[starts[tract[block]] + np.where(others > 0, chosen, own)], block)


def _swap_sexes(sex: pa.Array, rows: Integers, wrong: np.ndarray[Any, np.dtype[np.bool_]]) -> pa.Array:
    codes = pc.dictionary_encode(sex)
    values = codes.indices.to_numpy(zero_copy_only=False).astype(np.int64)[rows]
    levels = len(codes.dictionary)
    return codes.dictionary.take(pa.array(np.where(wrong, (values + 1) % levels, values)))


def _place(name: str) -> Place:
    return Place(path=f"--attacker-from-truth, {name}")


def _bad(key: str, name: str, seen: str | None = None, **facts: object) -> ParameterError:
    short = seen if seen is None or len(seen) <= 60 else seen[:57] + "..."
    return ParameterError(key, where=_place(name), found=short, **facts)
