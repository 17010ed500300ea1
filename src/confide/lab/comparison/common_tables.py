"""The common tables: what every protection of a comparison publishes, their schema, and a strategy to measure them.

The schema has the published attributes alone, each at the finest detail that any table has: ``age:five-year`` becomes
an attribute with five-year groups for levels, an age in years one called ``agebin``. Nothing finer is published, so
that every mechanism works on the same histogram. What they are is data: :mod:`confide.lab.comparison.programme_file`.

A strategy of TopDown can be made for the tables of any programme: what a comparison judges is measured on every level.
Levels share the budget alike, and so do the queries of a level: the total, every table, and the histogram. The
population of the whole territory is published as it is. Nothing is tuned; an office that has a strategy names it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from confide.documents import Problem, attribute_document, load_schema, parse_schema
from confide.errors import NOWHERE
from confide.lab.attacks.reidentification import AgeBins, LinkedAttributes, load_age_bins
from confide.lab.comparison import programme_file
from confide.schema import DETAILED, NO_GROUP, TOTAL, Attribute, Query, Recode, Schema

OLDEST = 115


@dataclass(frozen=True, eq=False)
class CommonTable:
    """One table; on a judged one accuracy is measured."""

    name: str
    title: str
    query: Query
    judged: bool

    @property
    def variables(self) -> list[str]:
        """The names of the variables."""
        return [variable.name for variable in self.query.variables]


@dataclass(frozen=True, eq=False)
class CommonTables:
    """All tables, over one schema, and what an outsider knows of the people in them."""

    part: programme_file.ComparedProgrammePart = field(repr=False)
    records: Schema = field(repr=False)
    """The schema of the records, as the office has it."""
    schema: Schema
    """What is published of it."""
    document: dict[str, Any] = field(repr=False)
    """The plain values of the published schema."""
    ages: AgeBins | None
    tables: tuple[CommonTable, ...]

    @property
    def title(self) -> str:
        """A title for people."""
        return self.part.title or "Tables by " + listed_words([self.word(name) for name in self.attributes])

    def table(self, name: str) -> CommonTable:
        """The table of that name."""
        return next(table for table in self.tables if table.name == name)

    @property
    def cells(self) -> int:
        """How many cells all tables have for one unit."""
        return sum(table.query.cells for table in self.tables)

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels that tables are published for, and that accuracy is looked at on, the largest areas first."""
        return (*self.part.levels, programme_file.BLOCK)

    @property
    def attributes(self) -> tuple[str, ...]:
        """The published attributes of the records, what is known first."""
        return (*self.part.known, *self.part.learnt)

    @property
    def detail(self) -> dict[str, Recode]:
        """For each published attribute of the records what is published of it at most; not of an age in years."""
        named = {name.partition(":")[0]: self.records.variable(name) for name in self.part.attributes}
        return {name: recode for name, recode in named.items() if not self.is_age(name)}

    def is_age(self, name: str) -> bool:
        """Whether an attribute of the records is the age in years."""
        return self.part.age is not None and name == self.part.age.attribute

    @property
    def known(self) -> list[str]:
        """What the outsider knows, as attributes of the published schema."""
        return [programme_file.AGE if self.is_age(name) else name for name in self.part.known]

    @property
    def linked(self) -> LinkedAttributes:
        """What the outsider knows and learns, as columns of records."""
        codes = tuple(name for name in self.part.known if not self.is_age(name))
        return LinkedAttributes(codes, tuple(self.part.learnt), any(map(self.is_age, self.part.known)))

    @property
    def year_groups(self) -> tuple[int, ...]:
        """The first years of the age groups that records are matched in; one group of all, where no age is in years."""
        return (0,) if self.ages is None else self.ages.starts

    @property
    def more(self) -> dict[str, tuple[Attribute, list[Recode]]]:
        """Attributes of the records that swapping looks at apart from the published ones, each with its recodes."""
        age = [] if self.part.age is None else [self.part.age.attribute]
        attributes = [self.records.variable(name).attribute for name in (*self.part.in_households, *age)]
        recodes = self.records.recodes
        return {each.name: (each, [r for r in recodes if r.attribute.name == each.name]) for each in attributes}

    def word(self, name: str) -> str:
        """What people call an attribute of the records."""
        title = self.part.words.get(name) or self.records.variable(name).attribute.title
        return title if title[1:2].isupper() else title[:1].lower() + title[1:]


@cache
def common_tables(name: str = programme_file.US_STATE) -> CommonTables:
    """The tables that ship under a name."""
    loaded = programme_file.load_compared_programme(name, Path(), NOWHERE)
    return make_tables(loaded.value, loaded.path.parent, loaded.refuse)


def make_tables(
    part: programme_file.ComparedProgrammePart, base: Path, refuse: Callable[[Iterable[Problem]], None]
) -> CommonTables:
    """The tables of a programme.

    Args:
        part: The programme.
        base: The folder that the path of its schema is relative to.
        refuse: Raises problems, if there are any; each with its path in the programme.

    Returns:
        The tables over the published schema.
    """
    records = load_schema(part.schema_, base)
    refuse(programme_file.problems_of_attributes(part, records))
    age = part.age
    ages = None if age is None else load_age_bins(age.groups)
    document = _document(part, records, ages)
    schema = parse_schema(document)
    refuse(programme_file.problems_of_variables(part, schema))
    listed = [table for table in part.tables if table.variables] or list(part.tables)
    total = next((table for table in part.tables if not table.variables), None)
    judged = any(table.judged for table in listed)
    ordered = (
        list(part.tables)
        if total
        else [programme_file.ProgrammeTablePart(name=programme_file.POPULATION, variables=[]), *part.tables]
    )
    tables = tuple(
        CommonTable(
            each.name,
            each.title or each.name.replace("-", " ").capitalize(),
            schema.ordered_query(each.variables),
            each.judged or not each.variables or (not judged and len(each.variables) == 1),
        )
        for each in ordered
    )
    refuse(programme_file.problems_of_tables(part, schema, tables, [item.id for item in characteristics(tables)]))
    return CommonTables(part, records, schema, document, ages, tables)


def listed_words(words: Sequence[str]) -> str:
    """Words in a row: sex, age and race."""
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1]))) if words else "nothing"


def _document(part: programme_file.ComparedProgrammePart, records: Schema, ages: AgeBins | None) -> dict[str, Any]:
    """The published attributes: as they are, in the groups of a recode, or an age in years in groups."""
    published: dict[str, Any] = {}
    for name in part.attributes:
        variable = records.variable(name)
        attribute = variable.attribute
        own = [recode for recode in records.recodes if recode.attribute.name == attribute.name]
        if part.age is not None and name == part.age.attribute:
            assert ages is not None
            published[programme_file.AGE] = _age_document(ages, part.age.recodes)
        elif ":" in name:
            published[attribute.name] = _grouped_document(variable, own)
        else:
            published[attribute.name] = attribute_document(attribute, own)
    return {"id": part.id, "provenance": part.provenance.strip() or "A comparison.", "attributes": published}


def _grouped_document(variable: Recode, recodes: Sequence[Recode]) -> dict[str, Any]:
    """An attribute whose levels are the groups of a recode, with the recodes that are made of these groups."""
    coarser: dict[str, Any] = {}
    for recode in recodes:
        of_group = [{int(recode.assignment[variable.attribute.index[code]]) for code in group.codes}
                    for group in variable.groups]  # fmt: skip
        if recode.name == variable.name or any(len(places) > 1 or NO_GROUP in places for places in of_group):
            continue
        groups = {
            label: [number for number, places in enumerate(of_group) if places == {position}]
            for position, label in enumerate(recode.labels)
        }
        coarser[recode.name.partition(":")[2]] = {"groups": {label: codes for label, codes in groups.items() if codes}}
    levels = [[number, label] for number, label in enumerate(variable.labels)]
    return {"title": variable.attribute.title, "levels": levels, "recodes": coarser}


def _age_document(ages: AgeBins, recodes: Mapping[str, str | list[int]]) -> dict[str, Any]:
    """Ages in years as groups."""
    lasts = [*(start - 1 for start in ages.starts[1:]), OLDEST]
    labels = [str(a) if a == b else f"{a} to {b}" for a, b in zip(ages.starts, lasts, strict=True)]
    labels[-1] = f"{ages.starts[-1]} and over"
    grouped: dict[str, Any] = {}
    for name, given in recodes.items():
        coarse = load_age_bins(given)
        group = coarse.of(np.array(ages.starts, np.int64)).tolist()
        grouped[name] = {
            "groups": {
                label: [code for code, place in enumerate(group) if place == position]
                for position, label in enumerate(coarse.labels)
            }
        }
    return {"title": "Age", "levels": [[code, label] for code, label in enumerate(labels)], "recodes": grouped}


# What a user loses is measured on these.


@dataclass(frozen=True)
class ComparedCharacteristic:
    """One figure of every area: a cell of a judged table."""

    id: str
    title: str
    table: str
    cell: int


def characteristics(tables: Sequence[CommonTable]) -> tuple[ComparedCharacteristic, ...]:
    """The population, and every cell of the other judged tables; of two cells that make up everybody, the second."""
    listed = [ComparedCharacteristic(programme_file.POPULATION, "Population", programme_file.POPULATION, 0)]
    for table in tables:
        if not table.judged or not table.query.variables:
            continue
        labels = _labels(table.query)
        for cell, label in enumerate(labels):
            if len(labels) > 2 or cell:
                listed.append(ComparedCharacteristic(f"{table.name}: {label}", label, table.name, cell))
    return tuple(listed)


def _labels(query: Query) -> list[str]:
    labels = [""]
    for variable in query.variables:
        labels = [f"{label}, {other}" if label else other for label in labels for other in variable.labels]
    return labels


# A strategy of TopDown for the tables of any programme: what a comparison judges is measured on every level.


ROOT, BELOW = "root", "below"


def strategy_text(programme: CommonTables, levels: Sequence[str], schema: str) -> str:
    """The strategy as the text of a TOML file.

    Args:
        programme: The tables.
        levels: The levels of the spine, that of the whole territory first, ``block`` the last.
        schema: The name of the schema file.
    """
    attributes = [attribute.name for attribute in programme.schema.attributes]
    complete = {"*".join(attributes), DETAILED}
    tables = [table.query.name for table in programme.tables if table.query.variables]
    queries = [name for name in dict.fromkeys(tables) if name not in complete]
    share = Fraction(1, len(levels))
    at_root, below = Fraction(1, len(queries) + 1), Fraction(1, len(queries) + 2)
    lines = [
        'id = "made-for-a-comparison"',
        f'title = "{TOTAL.capitalize()}, tables and histogram of the comparison"',
        'provenance = "Made by confide compare: equal shares for every level and query, never tuned."',
        f'schema = "{schema}"',
        'definition = "zcdp"',
        'neighbours = "change-one"',
        f'root = "{levels[0]}"',
        "",
        f"[roots.{levels[0]}]",
        'budget = "1"',
        f"levels = {_texts(levels)}",
        f"shares = {_texts([str(share)] * len(levels))}",
        f"estimation = {_texts([ROOT] + [BELOW] * (len(levels) - 1))}",
        "",
        f"[roots.{levels[0]}.queries]",
        f'"{TOTAL}" = {_texts(["-"] + [str(below)] * (len(levels) - 1))}',
    ]
    measured = [*queries, DETAILED]
    lines += [f'"{name}" = {_texts([str(at_root)] + [str(below)] * (len(levels) - 1))}' for name in measured]
    lines += [
        "",
        f"[estimation.{ROOT}]",
        f"least_squares = [{{ queries = {_texts(measured)} }}]",
        f"rounding = [{_texts([TOTAL, DETAILED])}]",
        "",
        f"[estimation.{BELOW}]",
        'slack = "1/100"',
        f"least_squares = [{{ queries = {_texts([TOTAL])}, constrain = {_texts([TOTAL])} }}, "
        f"{{ queries = {_texts(measured)} }}]",
        f"rounding = [{_texts([TOTAL])}, {_texts([DETAILED])}]",
        "",
        "[[invariants]]",
        'name = "population"',
        f'level = "{levels[0]}"',
        f'query = "{TOTAL}"',
    ]
    if programme.part.blocks_with:
        place = lines.index(f'root = "{levels[0]}"') + 1
        lines.insert(place, f"blocks_with = {_texts(programme.part.blocks_with)}")
    return "\n".join(lines) + "\n"


def _texts(values: Sequence[str]) -> str:
    return "[" + ", ".join(f'"{value}"' for value in values) + "]"
