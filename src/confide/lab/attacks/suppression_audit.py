"""The audit of a suppressed table, whoever made it: what an attacker can work out, and whether that is too much.

Nothing but the table and what is publicly known goes into the intervals. The true figures, if the curator gives them,
are used afterwards, to see whether each interval reaches as far from the truth as it should.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from confide.answers import OK, AnswerPart, AuditPower, Said, ShownTable, Tone, TypedAnswer
from confide.arrays import Floats
from confide.errors import Finding, InputError, Place
from confide.mechanisms.suppression.attacker import NOISE, TOLERANCE, WHOLE, Attacker, Intervals
from confide.mechanisms.suppression.joint import joint_facts
from confide.mechanisms.suppression.structure import ROOT, DoesNotAddUpError, Flags, LinkedTables

MOST_NAMED = 5
"""So many sums that do not add up are named."""


@dataclass(frozen=True, eq=False)
class Suspect:
    """A suppressed table as anybody sees it."""

    linked: LinkedTables
    value: Floats
    unknown: Flags
    """Cells whose figure is not published: suppressed ones, and those that no table has."""
    low: Floats
    high: Floats
    integer: bool
    rounding: float = 0.0
    """Published figures are rounded to multiples of this."""
    width: float = 0.0
    """The least width that the interval of a suppressed cell must have."""
    beside: int = 0
    """How many cells of the files are marked as suppressed and have a figure all the same. It is not looked at."""

    @property
    def suppressed(self) -> Flags:
        """Cells that are in the tables, without a figure."""
        return self.unknown & self.linked.listed

    @property
    def without_totals(self) -> list[str]:
        """The variables whose total no table lists: either nobody has published it, or it is called otherwise."""
        listed: dict[str, bool] = {}
        for table in self.linked.tables:
            for at, dimension in enumerate(table.dimensions):
                there = table.listed is None or bool(table.listed[at][ROOT])
                listed[dimension.name] = listed.get(dimension.name, False) or there
        return [name for name, there in listed.items() if not there]


@dataclass(frozen=True, eq=False)
class Required:
    """How far the interval of a suppressed cell must reach, given its true figure. Confidential."""

    truth: Floats = field(repr=False)
    lower: Floats = field(repr=False)
    upper: Floats = field(repr=False)
    sliding: Floats = field(repr=False)


MOST_DESCRIBED = 25
"""So many intervals are described; all of them are plain values."""


@dataclass(frozen=True, eq=False)
class Audit(TypedAnswer):
    """What was found. Flags are of all cells; False where a cell is not suppressed."""

    suspect: Suspect
    intervals: Intervals
    exact: Flags
    narrow: Flags
    outside: Flags
    """The true figure lies outside of the interval: table and truth do not belong together."""
    judged: bool
    """Whether true figures were given."""
    taken_for: Mapping[str, str] = field(default_factory=dict)
    """For a table without a description what its columns were taken for."""

    @property
    def ok(self) -> bool:
        """Whether no cell is known or too narrow, and there was something to judge."""
        return self.verdict == OK

    @property
    def verdict(self) -> str:
        """``ok``, ``wrong``, or ``no power`` where nothing is suppressed."""
        return self.power.verdict(wrong=bool(self.exact.any() or self.narrow.any() or self.outside.any()))

    @property
    def power(self) -> AuditPower:
        """What this audit would have found. Intervals are exact optima: nothing is left to chance."""
        if not self.suspect.suppressed.any():
            words = "Nothing is suppressed: a cell that should be hidden and is published is not seen by this audit."
            return AuditPower(missing=False, least=None, chance=1.0, words=words)
        known = "Would have found every suppressed cell whose figure follows from these tables"
        if self.judged:
            words = f"{known}, and every interval that does not reach as far from the true figure as it must."
            return AuditPower(missing=True, least=0.0, chance=1.0, words=words)
        if self.suspect.width > 0:
            words = f"{known}, and every interval narrower than {_plain(self.suspect.width):,}."
            return AuditPower(missing=True, least=0.0, chance=1.0, words=words)
        words = f"{known}, but no interval that is merely too narrow: no width is required here, and no truth is given."
        return AuditPower(missing=True, least=1.0, chance=1.0, words=words)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Every suppressed cell with its interval, in the order of tables and cells."""
        seen: set[int] = set()
        linked = self.suspect.linked
        for table, numbers in zip(linked.tables, linked.numbers, strict=True):
            places = table.places
            for at in np.flatnonzero(self.suspect.suppressed[numbers] & table.listed_cells).tolist():
                cell = int(numbers[at])
                if cell in seen:
                    continue
                seen.add(cell)
                codes = zip(table.dimensions, places[at].tolist(), strict=True)
                high = self.intervals.high[cell]
                yield {
                    "table": table.name,
                    "cell": {dimension.name: dimension.codes[code] for dimension, code in codes},
                    "lower": _plain(self.intervals.low[cell]),
                    "upper": None if np.isinf(high) else _plain(high),
                    "exact": bool(self.exact[cell]),
                    "too_narrow": bool(self.narrow[cell]),
                }

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        suspect = self.suspect
        listed = suspect.linked.listed
        return {
            "ok": self.ok,
            "verdict": self.verdict,
            "power": self.power.as_dict(),
            "confidential": self.judged,
            "cells": int(listed.sum()),
            "published": int((listed & ~suspect.unknown).sum()),
            "suppressed": int(suspect.suppressed.sum()),
            "unlisted": int((~listed[: suspect.linked.own_cells]).sum()),
            "joint": joint_facts(suspect.linked),
            "sums": suspect.linked.structure.rows,
            "without_totals": list(suspect.without_totals),
            "figures_beside_marks": suspect.beside,
            "programmes": self.intervals.programmes,
            "disclosed": int(self.exact.sum()),
            "too_narrow": int(self.narrow.sum()),
            "outside": int(self.outside.sum()),
            "intervals": list(self.rows()),
            "taken_for": dict(self.taken_for),
            "findings": [],
        }

    def described(self) -> Iterator[AnswerPart]:
        plain = self.as_dict()
        rows = sorted(plain["intervals"], key=lambda row: (not row["exact"], not row["too_narrow"]))
        lines = [
            (
                row["table"],
                ", ".join(f"{name} = {code}" for name, code in row["cell"].items()),
                f"{row['lower']:,}",
                "no end" if row["upper"] is None else f"{row['upper']:,}",
                "KNOWN" if row["exact"] else "too narrow" if row["too_narrow"] else "",
            )
            for row in rows[:MOST_DESCRIBED]
        ]
        if lines:
            yield ShownTable(["table", "suppressed cell", "from ", "to ", ""], lines)
            if len(rows) > MOST_DESCRIBED:
                yield f"… and {len(rows) - MOST_DESCRIBED:,} more: --json has all."
        yield (
            f"\n{plain['cells']:,} cells, {plain['suppressed']:,} of them suppressed; {plain['sums']:,} sums; "
            f"{plain['programmes']:,} linear programmes solved."
        )
        if not plain["suppressed"]:
            yield Said("No verdict.", " Nothing is suppressed, so nothing can be worked out.", Tone.BAD)
        elif self.ok:
            yield Said("No suppressed cell is known", ", and no interval is narrower than required.", Tone.GOOD)
        else:
            parts = [
                _so_many(plain["disclosed"], "suppressed cell is", "suppressed cells are", "known exactly"),
                _so_many(plain["too_narrow"], "interval is", "intervals are", "too narrow"),
                _so_many(plain["outside"], "true figure lies", "true figures lie", "outside of the interval"),
            ]
            yield Said(f"{'; '.join(part for part in parts if part)}.", tone=Tone.BAD)
        yield self.power.words
        yield "This follows from these tables only; other tables of the same people may reveal more."
        if self.judged:
            yield Said("CONFIDENTIAL", ": this judgement used true figures", Tone.BAD, aside=True)


def audit(suspect: Suspect, required: Required | None = None, *, sharpen: bool = False) -> Audit:
    """The attacker's interval of every suppressed cell, and which are too narrow.

    Args:
        suspect: The tables as anybody sees them.
        required: CONFIDENTIAL: how far each interval must reach, given the true figures.
        sharpen: Use in every sum that figures are whole numbers; slow, small parts only.

    Returns:
        For each suppressed cell its interval, and whether it is known exactly or too narrow.

    Raises:
        ConfideError: Where published cells do not add up.

    >>> from confide.lab.attacks.audit_files import describe_or_assume, read_suspect
    >>> rows = "f,a, f,b,7 f,total,10 m,a, m,b,5 m,total,9 total,a,7 total,b,12 total,total,19".split()
    >>> with (tmp_path / "table.csv").open("w") as file:
    ...     print("sex,age,count", *rows, sep=chr(10), file=file)
    >>> audit(read_suspect(describe_or_assume(tmp_path / "table.csv"))).ok
    False
    """
    wrong = list(wrong_sums(suspect))
    if wrong:
        raise InputError(wrong)
    value, unknown, low, high = suspect.value, suspect.unknown, suspect.low, suspect.high
    if suspect.rounding:
        # A rounded figure is an interval like that of a suppressed cell, only narrow.
        low = np.where(unknown, low, np.maximum(value - suspect.rounding / 2, np.minimum(low, value)))
        high = np.where(unknown, high, value + suspect.rounding / 2)
        unknown = np.ones(len(value), np.bool_)
    attacker = Attacker(suspect.linked.structure, value, unknown, low, high, suspect.integer)
    try:
        intervals = attacker.intervals(wanted=suspect.suppressed)
    except DoesNotAddUpError as error:
        listed = error.cells[suspect.linked.listed[error.cells]]
        cell = int((listed if len(listed) else error.cells)[0])
        raise DoesNotAddUpError(error.cells, Place(path=name_of(suspect.linked, cell))) from None
    if sharpen and suspect.integer:
        intervals = attacker.sharpened(intervals)
    suppressed = suspect.suppressed
    scale = TOLERANCE * np.maximum(1.0, np.abs(np.where(np.isinf(intervals.high), 0.0, intervals.high)))
    scale = np.maximum(scale, NOISE * float(np.abs(value).max(initial=0)))
    if suspect.integer:
        scale = np.minimum(scale, WHOLE)
    exact = suppressed & (intervals.width <= scale)
    narrow = suppressed & (intervals.width < suspect.width - scale)
    outside = np.zeros(len(value), np.bool_)
    if required is not None:
        outside = suppressed & ((required.truth < intervals.low - scale) | (required.truth > intervals.high + scale))
        narrow = narrow | (
            suppressed
            & (
                (intervals.low > np.maximum(required.truth - required.lower, suspect.low) + scale)
                | (intervals.high < required.truth + required.upper - scale)
                | (intervals.width < required.sliding - scale)
            )
        )
    return Audit(suspect, intervals, exact, narrow & ~exact, outside, required is not None)


def wrong_sums(suspect: Suspect) -> Iterator[Finding]:
    """Equations of published cells alone that do not hold."""
    structure = suspect.linked.structure
    matrix = abs(structure.matrix)
    complete = np.asarray(matrix @ suspect.unknown.astype(np.float64)) == 0
    published = np.where(suspect.unknown, 0.0, suspect.value)
    off = np.abs(structure.matrix @ published)
    scale = TOLERANCE * np.maximum(1.0, np.asarray(matrix @ np.abs(published)))
    if suspect.integer:
        scale = np.minimum(scale, WHOLE)
    slack = np.diff(structure.matrix.indptr) * suspect.rounding / 2
    wrong = np.flatnonzero(complete & (off > scale + slack))
    names = list(dict.fromkeys(dimension.name for table in suspect.linked.tables for dimension in table.dimensions))
    for row in wrong[:MOST_NAMED].tolist():
        yield Finding.of(
            "does-not-add-up/published-cells-over",
            where=Place(path=name_of(suspect.linked, int(structure.total[row]))),
            name=names[structure.axis[row]],
            wrong=len(wrong),
            several=len(wrong) > 1,
            off=_plain(float(off[row])),
        )


def name_of(linked: LinkedTables, cell: int) -> str:
    """A cell in words: its table and codes."""
    for table, numbers in zip(linked.tables, linked.numbers, strict=True):
        at = np.flatnonzero(numbers == cell)
        if len(at):
            codes = zip(table.dimensions, table.places[at[0]].tolist(), strict=True)
            named = ", ".join(f"{dimension.name} = {dimension.codes[code]}" for dimension, code in codes)
            return f"{table.name}: {named}" if named else table.name
    for joint in linked.joint:
        if joint.first <= cell < joint.first + joint.cells:
            return f"{', '.join(joint.tables)}: as tables of the same people"
    return ""


def _plain(value: float) -> int | float:
    """Whole numbers as such, others with six decimals."""
    nearest = round(value)
    return nearest if abs(value - nearest) <= TOLERANCE else round(float(value), 6)


# The answer in sentences and tables.


def _so_many(number: int, one: str, more: str, what: str) -> str:
    return f"{number:,} {one if number == 1 else more} {what}" if number else ""
