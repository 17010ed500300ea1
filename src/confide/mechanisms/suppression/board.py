"""The board of cell suppression: which cells are hidden for their own sake, and what an attacker still learns of them.

A row is a table on a level. How many cells are hidden only the records tell, and none is read here. What is shown, once
somebody says how many persons there are, is the share of cells from 1 to the threshold **if everybody were placed at
random** (a Poisson law with the mean of the table's cells): a yardstick to compare thresholds and tables by, and no
forecast. Real groups are uneven, and other cells are hidden to protect the first.

What a rule promises follows from the rule alone (``problem.py``): the interval that is left open for a hidden cell.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from math import exp, prod
from typing import Any, ClassVar, Self

from confide.errors import ParameterError, Place
from confide.exact import exact, exact_text, grouped
from confide.mechanisms.suppression.programme import SuppressionProblem
from confide.mechanisms.suppression.spec import SuppressionSpec
from confide.releases import LoadedSpec, Spec, boards

THRESHOLD, ZEROS, LOWER, SINGLETONS, PERSONS, HIDDEN = "threshold", "zeros", "lower", "singletons", "persons", "hidden"
P, Q, RANGE, DOMINANCE_N, DOMINANCE_K = "p", "q", "range", "dominance.n", "dominance.k"
MOST_PERSONS, LARGEST_THRESHOLD = 10**11, 1000
ZERO_WORDS = (
    ("published", "zeros are published"),
    ("secondary", "zeros may be hidden for others"),
    ("primary", "zeros are hidden"),
)
EVERYBODY = "all records"
YES_NO = (("true", "yes"), ("false", "no"))


@dataclass(frozen=True, eq=False, kw_only=True)
class SuppressionBoard(boards.Board):
    """The rules that make a cell primary."""

    tables: tuple[boards.LevelTable, ...]
    magnitudes: bool
    values: Mapping[str, str]
    """The rules by name, in exact numbers; empty: no such rule."""
    persons: int | None = None
    start: Mapping[str, str] = field(default_factory=dict)

    row_head: ClassVar[str] = "Table and level"
    caption = (
        "Hidden for their own sake, if everybody were placed at random: to compare by, and no forecast. Real groups "
        "are uneven, and other cells are hidden to protect these: `confide rehearse` shows it on made-up people."
    )

    @classmethod
    def offered(cls, spec: Spec) -> bool:
        """None for tables that were counted elsewhere: they are confidential, and nothing else says how large they
        are."""
        assert isinstance(spec, SuppressionSpec)
        return spec.data.tables is None

    @classmethod
    def of(cls, problem: SuppressionProblem) -> SuppressionBoard:
        """As the spec has it."""
        spec, part = problem.spec, problem.spec.suppression
        tables = tuple(_tables(problem))
        numbers: dict[str, Any] = {THRESHOLD: part.threshold, ZEROS: part.zeros, SINGLETONS: part.singletons}
        magnitudes = spec.data.value is not None
        if magnitudes:
            dominance = part.dominance
            numbers |= {P: part.p, Q: part.q, RANGE: part.range}
            numbers |= {DOMINANCE_N: dominance and dominance.n, DOMINANCE_K: dominance and dominance.k}
        else:
            numbers[LOWER] = part.lower
        values = {name: _text(value) for name, value in numbers.items()}
        return cls(tables=tables, magnitudes=magnitudes, values=values, start=values)

    @property
    def threshold(self) -> int | None:
        """Cells with at most so many records are primary."""
        return int(self.values[THRESHOLD]) if self.values[THRESHOLD] else None

    @property
    def columns(self) -> tuple[boards.BoardColumn, ...]:  # type: ignore[override]
        if not self.persons:
            return (boards.BoardColumn("areas", "Areas"), boards.BoardColumn("cells", "Cells of an area"))
        return (
            boards.BoardColumn("areas", "Areas"),
            boards.BoardColumn("cells", "Cells of an area"),
            boards.BoardColumn("mean", "Persons of a mean cell"),
            boards.BoardColumn(HIDDEN, "Hidden, if at random, %", compared=True),
        )

    @cached_property
    def rows(self) -> tuple[boards.BoardRow, ...]:
        rows = []
        for each in self.tables:
            name = f"{each.table}:{each.level}"
            entries: dict[str, boards.BoardEntry | str] = {"areas": grouped(each.areas), "cells": grouped(each.cells)}
            if self.persons:
                entries["mean"] = f"{self._mean(each):,.4g}"
                share = f"{100 * self._hidden(each, self.threshold):.2f}"
                title = f"Cells hidden if at random, in per cent: {each.title}, {each.level}"
                entries[HIDDEN] = (
                    boards.BoardEntry(f"{HIDDEN}:{name}", title, share) if self.threshold is not None else "–"
                )
            rows.append(boards.BoardRow(name, each.title, each.level, entries, lockable=False))
        return tuple(rows)

    def _mean(self, table: boards.LevelTable) -> float:
        assert self.persons is not None
        return self.persons / (table.areas * table.cells)

    def _hidden(self, table: boards.LevelTable, threshold: int | None) -> float:
        """P(1 ≤ n ≤ threshold), with zeros from 0 on where they are primary, of a Poisson law."""
        if threshold is None:
            return 0.0
        mean = self._mean(table)
        term = exp(-mean) if mean < 700 else 0.0
        share = term if self.values[ZEROS] == "primary" else 0.0
        for number in range(1, threshold + 1):
            term *= mean / number
            share += term
        return min(1.0, share)

    @property
    def settings(self) -> tuple[boards.BoardEntry, ...]:
        persons = "" if self.persons is None else str(self.persons)
        return (boards.BoardEntry(PERSONS, "Persons in all, for shares of hidden cells", persons, "whole"),)

    @property
    def dials(self) -> tuple[boards.BoardEntry, ...]:
        dials = [
            boards.BoardEntry(THRESHOLD, "Cells of 1 to so many records are hidden", self.values[THRESHOLD], "whole"),
            boards.BoardEntry(ZEROS, "Zeros", self.values[ZEROS], "text", ZERO_WORDS),
            boards.BoardEntry(
                SINGLETONS, "Protect from whoever is alone in a cell", self.values[SINGLETONS], "text", YES_NO
            ),
        ]
        if not self.magnitudes:
            dials.append(
                boards.BoardEntry(LOWER, "Left open below a hidden count, at least", self.values[LOWER], "whole")
            )
            return tuple(dials)
        return (
            *dials,
            boards.BoardEntry(
                P, "p % rule", self.values[P], note="how closely nobody may estimate another's contribution"
            ),
            boards.BoardEntry(Q, "q, known beforehand, in per cent", self.values[Q]),
            boards.BoardEntry(DOMINANCE_N, "(n, k) rule: n", self.values[DOMINANCE_N], "whole"),
            boards.BoardEntry(DOMINANCE_K, "(n, k) rule: k, in per cent", self.values[DOMINANCE_K]),
            boards.BoardEntry(RANGE, "Left open around small cells, in per cent", self.values[RANGE]),
        )

    @cached_property
    def claim(self) -> boards.StatedClaim:
        words = (
            "Every hidden cell keeps an interval open for whoever knows all that is published, and that the tables add "
            "up: `confide audit suppression` works it out for a release.",
            "This is no differential privacy: what is published is exact, nothing bounds what two releases or outside "
            "knowledge tell together, and how many cells are hidden depends on the records.",
        )
        return boards.StatedClaim(words, tuple(self._figures()))

    def _figures(self) -> list[boards.ClaimFigure]:
        figures, threshold = [], self.threshold
        if threshold is not None and not self.magnitudes:
            lower = int(self.values[LOWER] or 0)
            note = f"and reaches {threshold + 1} or more, so that it could be a count that need not be hidden"
            figures.append(
                boards.ClaimFigure("Interval of a hidden small count", f"{max(threshold, lower)} wide at least", note)
            )
        elif threshold is not None:
            note = "of its value, upwards and downwards together"
            figures.append(
                boards.ClaimFigure("Interval of a hidden small cell", f"{self.values[RANGE]} % at least", note)
            )
        if self.values.get(P):
            beforehand = f"knowing each to within {self.values[Q]} %" if self.values[Q] else "knowing nothing of others"
            note = f"by the second largest contributor, {beforehand}"
            figures.append(
                boards.ClaimFigure("Nobody estimates a contribution closer than", f"{self.values[P]} %", note)
            )
        if self.values.get(DOMINANCE_N) and self.values.get(DOMINANCE_K):
            n, k = self.values[DOMINANCE_N], self.values[DOMINANCE_K]
            note = f"of a published cell come from its {n} largest contributors"
            figures.append(boards.ClaimFigure("No more than", f"{k} %", note))
            if n == "1":
                other = exact(k, DOMINANCE_K)
                same = f"{float(100 * (100 - other) / other):.4g} %"
                figures.append(boards.ClaimFigure("Known to nobody closer than", same, "by somebody outside the cell"))
        return figures

    def choices(self) -> dict[str, str]:
        return dict(self.values) | {PERSONS: "" if self.persons is None else str(self.persons)}

    def chosen(self, choices: boards.Choices) -> Self:
        values, persons = dict(self.values), self.persons
        for name, given in choices.items():
            text = given.strip()
            if name == PERSONS:
                persons = boards.typed_whole(text, name, 1, MOST_PERSONS) if text else None
            elif name not in values:
                raise self.no_entry(name)
            else:
                values[name] = _checked(name, text)
        self._check(values)
        return replace(self, values=values, persons=persons)

    def _check(self, values: Mapping[str, str]) -> None:
        """What the spec would refuse, said beforehand."""
        if not values[THRESHOLD] and not values.get(P) and not values.get(DOMINANCE_K):
            raise ParameterError("entry-range/rule", where=Place(path=THRESHOLD))
        if values[ZEROS] == "primary" and not values[THRESHOLD]:
            raise ParameterError("entry-range/primary", where=Place(path=ZEROS))
        if values.get(Q) and (not values[P] or exact(values[P], P) >= exact(values[Q], Q)):
            raise ParameterError("entry-range/above", where=Place(path=Q), found=values[Q][:40])
        if bool(values.get(DOMINANCE_N)) != bool(values.get(DOMINANCE_K)):
            raise ParameterError(
                "entry-range/type", where=Place(path=DOMINANCE_N), found=values.get(DOMINANCE_N, "")[:40]
            )

    def moved(self, name: str, text: str, moving: boards.Moving) -> Self:  # noqa: ARG002 - nothing is shared
        kind, _, row = name.partition(":")
        table = next((each for each in self.tables if f"{each.table}:{each.level}" == row), None)
        if kind != HIDDEN or table is None or not self.persons:
            return self.chosen({name: text})
        share = boards.typed_number(text, name, 0, 100) / 100
        fitting = [n for n in range(1, LARGEST_THRESHOLD + 1) if self._hidden(table, n) <= float(share)]
        if not fitting:
            raise ParameterError(
                "entry-range/hides", where=Place(path=name), found=text[:40], table=100 * self._hidden(table, 1)
            )
        return self.chosen({THRESHOLD: str(fitting[-1])})

    def tuned(self, loaded: LoadedSpec, stem: str) -> boards.TunedValues:  # noqa: ARG002 - it needs no other file
        changed = copy.deepcopy(dict(loaded.values))
        part = changed["suppression"]
        for name, text in self.values.items():
            if text == self.start[name]:
                continue
            key, _, inner = name.partition(".")
            into = part.setdefault(key, {}) if inner else part
            if not text:
                into.pop(inner or key, None)
            else:
                into[inner or key] = _value(name, text)
        if part.get("dominance") == {}:
            part.pop("dominance")
        return boards.TunedValues(changed)


def _tables(problem: SuppressionProblem) -> Iterator[boards.LevelTable]:
    """Every table on each of its levels. Recodes of one attribute nest: its finest says how many cells there are."""
    for table in problem.spec.tables:
        sizes: dict[str, int] = {}
        for name in table.variables:
            variable = problem.schema.variable(name)
            sizes[variable.attribute.name] = max(sizes.get(variable.attribute.name, 1), variable.size)
        units = {} if problem.frame is None else {name: problem.frame.spine.level(name).units for name in table.levels}
        for level, areas in (units or {EVERYBODY: 1}).items():
            yield boards.LevelTable(table.name, table.title or table.name, level, areas, prod(sizes.values()))


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return exact_text(value) if isinstance(value, Fraction) else str(value)


def _checked(name: str, text: str) -> str:
    if name == ZEROS:
        return boards.typed_option(text, name, [word for word, _ in ZERO_WORDS])
    if name == SINGLETONS:
        return boards.typed_option(text, name, [word for word, _ in YES_NO])
    if name == LOWER:
        return str(boards.typed_whole(text or "0", name, 0, LARGEST_THRESHOLD))
    if not text:
        return ""
    if name in (THRESHOLD, DOMINANCE_N):
        return str(boards.typed_whole(text, name, 1, LARGEST_THRESHOLD if name == THRESHOLD else 10))
    return exact_text(boards.typed_number(text, name, 0, 100))


def _value(name: str, text: str) -> Any:
    if name == SINGLETONS:
        return text == "true"
    return int(text) if name in (THRESHOLD, LOWER, DOMINANCE_N) else text
