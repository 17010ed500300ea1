"""The file of an attacker, made from the truth: who is in it, and what is wrong in it.

A commercial file does not have everybody, has some people at an address they left, and gets ages and sexes wrong. Each
record of the truth with a person id is in the file with probability ``coverage``; independently of each other, a record
that is in it has

- an age that is off by ``age_years``, up or down alike, with probability ``age_error`` (never below 0: then up);
- the other sex with probability ``sex_error``;
- another block of its tract, all alike, with probability ``block_error`` (if the tract has another);
- a second record of the same person, in another block of the tract, with probability ``duplicates``.

This is a simulation of somebody else's file: its randomness protects nothing, and comes from a seeded generator.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from confide.arrays import Integers
from confide.errors import ParameterError, Place
from confide.exact import Exact, exact
from confide.lab.attacks.reidentification import people_files
from confide.lab.attacks.reidentification.people_files import plain as _plain

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
    linked: people_files.LinkedAttributes = people_files.UNITED_STATES,
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
    people_files.check_columns(people_files.Role.TRUTH, identified, linked)
    _refuse_errors_of_nothing(settings, linked)
    columns = linked.needed(people_files.Role.ATTACKER)
    rows = np.flatnonzero(pc.is_valid(identified.column("person_id")).to_numpy(zero_copy_only=False))
    # A stream for each kind of error, so that changing one share leaves the others' draws as they are.
    draws = [np.random.default_rng(stream) for stream in np.random.SeedSequence(settings.seed).spawn(8)]
    rows = rows[draws[0].random(len(rows)) < float(settings.coverage)]
    number = len(rows)

    tract, blocks = _tracts(identified, tract_digits)
    codes = pc.dictionary_encode(_plain(identified.column("geocode")))
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
            people_files.ages_of(people_files.Role.TRUTH, identified, people_files.AGE)[rows],
            settings,
            draws[5],
            draws[6],
        )
        file[people_files.AGE] = pa.array(age[everyone])
    for name in linked.known:
        values = _plain(identified.column(name))
        if name == SEX:
            known = _swap_sexes(values, rows, draws[7].random(number) < float(settings.sex_error))
        else:
            known = values.take(pa.array(rows))
        file[name] = known.take(pa.array(everyone))
    file["person_id"] = _plain(identified.column("person_id")).take(pa.array(rows[everyone]))
    file["geocode"] = codes.dictionary.take(pa.array(places))
    return pa.table({name: file[name] for name in columns})


def _with_errors(
    age: Integers, settings: AttackerSettings, which: np.random.Generator, way: np.random.Generator
) -> Integers:
    """Ages of which some are off by so many years, up or down."""
    wrong = which.random(len(age)) < float(settings.age_error)
    step = np.where(way.random(len(age)) < 0.5, -settings.age_years, settings.age_years)
    shifted = np.where(age + step < 0, age + settings.age_years, age + step)
    return np.where(wrong, shifted, age)


def _refuse_errors_of_nothing(settings: AttackerSettings, linked: people_files.LinkedAttributes) -> None:
    """An error of what the attacker does not know would change nothing, and pass for a weak list."""
    if settings.sex_error and SEX not in linked.known:
        raise _bad("bad-attacker/column", "sex_error", seen=str(settings.sex_error))
    if settings.age_error and not linked.with_age:
        raise _bad("bad-attacker/age", "age_error", seen=str(settings.age_error))


def _tracts(truth: pa.Table, digits: int) -> tuple[Integers, Integers]:
    """The tract of each block, and the blocks sorted by tract. Blocks are those where somebody lives."""
    codes = pc.dictionary_encode(_plain(truth.column("geocode")))
    if "tract" in truth.column_names:
        of_record = pc.dictionary_encode(_plain(truth.column("tract"))).indices.to_numpy(zero_copy_only=False)
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
