"""The tables of a release by cell suppression, and everything else that decides it but the records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import prod
from typing import Any

import numpy as np

from confide.arrays import Integers
from confide.engines import Engine, Source
from confide.errors import ConfideError, Finding, SpecError
from confide.geography import Geolevel
from confide.inputs.frame import Frame, reading_facts
from confide.mechanisms.suppression.joint import joint_facts, linked_people
from confide.mechanisms.suppression.spec import SuppressionSpec
from confide.mechanisms.suppression.structure import NOT_HERE, ROOT, Dimension, Flags, LinkedTables, TableDimensions
from confide.mechanisms.suppression.variables import PublishedCodes, Variable, VariableGrouping, read_variable
from confide.releases import LoadedSpec, tabular
from confide.releases.tabular import area_names, noting
from confide.schema import Attribute, Recode, Schema

# The variables of records: recodes of an attribute that nest or cross, and levels of the spine.
#
# Groups of the same members are one code, in whatever grouping they are. Recodes that nest make one tree. Recodes that
# cross (municipalities by county and by size) make several hierarchies of the same codes: every chain of recodes from
# coarse to fine is one, down to the groups that all recodes of a table have in common (their *meet*). The meet need not
# be listed; what two crossing recodes share is seen in it, so that whatever follows from both together follows in the
# structure. Where recodes of different tables cross, these tables go down to their common meet, for the same reason
# (``docs/proofs/suppression.md`` 1).


MEET = "*"
"""Between the names of the recodes that a meet is of: no name has it."""


def of_attribute(recodes: Sequence[Recode], tables: Sequence[Sequence[str]] = ()) -> Variable:
    """The variable of an attribute from the recodes that tables use.

    Args:
        recodes: The recodes, each once.
        tables: For each table the names of the recodes that it has; recodes of one table that cross need their meet.

    Returns:
        One tree where all recodes nest, several hierarchies where some cross.

    Raises:
        SpecError: A recode leaves codes out, or two call different groups the same.
    """
    ordered = sorted(recodes, key=lambda recode: recode.size)
    name = ordered[0].attribute.name
    for recode in ordered:
        if (recode.assignment < 0).any():
            raise SpecError("incomplete-recode/labels", recode=recode.name)
    groupings: list[Grouping] = [(r.name, r.labels, r.assignment) for r in ordered]
    bottoms = _bottoms(groupings, tables)
    known = [each[0] for each in groupings]
    groupings += [each for each in bottoms if each[0] not in known]
    groupings.sort(key=lambda each: len(each[1]))
    variable = _variable(name, groupings, prefixed=False)
    return replace(variable, bottoms=tuple(each[0] for each in bottoms)) if variable.tree.others else variable


def published_codes(variable: Variable, recodes: Sequence[Recode]) -> PublishedCodes:
    """The codes and labels of the groups of an attribute in the second layout.

    A group that several recodes have takes those of the finest. Where groups of two recodes would have one code, which
    numbered groups have, the name of the recode goes before it, such as ``size-1``.

    Args:
        variable: The variable that :func:`of_attribute` made of the recodes.
        recodes: The recodes.
    """
    by_name = {recode.name: recode for recode in recodes}
    texts: dict[int, tuple[str, str, str]] = {}
    for grouping in variable.groupings:  # from coarse to fine
        if grouping.name in by_name:
            recode = by_name[grouping.name]
            short = grouping.name.partition(":")[2] or grouping.name
            for code, text, label in zip(grouping.codes.tolist(), recode.codes, recode.labels, strict=True):
                texts[code] = short, text, label
    texts.pop(ROOT, None)
    times = Counter(text for _, text, _ in texts.values())
    codes = {at: text if times[text] == 1 else f"{short}-{text}" for at, (short, text, _) in texts.items()}
    if len(set(codes.values())) < len(codes):
        codes = {at: f"{text}-{at}" for at, text in codes.items()}
    numbers = range(1, variable.tree.size)
    return PublishedCodes(
        recodes[0].attribute.title,
        (tabular.TOTAL_CODE, *(codes.get(at, "") for at in numbers)),
        (tabular.TOTAL_CODE, *(texts[at][2] if at in texts else "" for at in numbers)),
    )


def of_levels(levels: Sequence[Geolevel]) -> Variable:
    """The variable of geographic areas from levels of the spine, the root first."""
    return _variable(
        tabular.AREA, [(level.name, level.codes, level.unit_of_block) for level in levels], prefixed=True, areas=True
    )


def leaf_codes(variable: Variable, names: Sequence[str], schema: Schema) -> Integers:
    """For each level of an attribute the code, in the dimension of a table that lists some recodes, that it counts in.

    Args:
        variable: The variable of the attribute.
        names: The recodes that the table lists.
        schema: The schema of the records.

    Returns:
        One number for each level of the attribute.
    """
    finest = variable.finest(names)
    number = {old: new for new, old in enumerate(variable.kept(names).tolist())}
    groups = _stacked([schema.variable(name).assignment for name in finest.name.split(MEET)])
    return np.array([number[int(finest.codes[group])] for group in groups.tolist()], np.int64)


Grouping = tuple[str, Sequence[str], Integers]
"""A name, labels, and for every smallest code its group."""


def _variable(name: str, groupings: Sequence[Grouping], *, prefixed: bool, areas: bool = False) -> Variable:
    """The codes of groupings, coarse first, with a hierarchy for every chain of them that nests."""
    members: dict[tuple[int, ...], int] = {tuple(range(len(groupings[0][2]))): ROOT}
    codes, trees = [tabular.TOTAL_CODE], []
    for grouping, labels, group in groupings:
        order = np.argsort(group, kind="stable")
        starts = np.searchsorted(group[order], np.arange(len(labels) + 1))
        of_group = np.empty(len(labels), np.int64)
        for at, label in enumerate(labels):
            who = tuple(order[starts[at] : starts[at + 1]].tolist())
            if who not in members:  # other members: another code
                members[who] = len(codes)
                codes.append(f"{grouping} {label}" if prefixed else label)
            of_group[at] = members[who]
        trees.append(VariableGrouping(grouping, tuple(labels), of_group))
    if len(set(codes)) < len(codes):
        twice = next(code for code, times in Counter(codes).items() if times > 1)
        raise SpecError("repeated-label/two", name=name, twice=twice)
    chains = _chains([group for _, _, group in groupings])
    if len(chains) > 1:  # a group of one recode can lie in a group of another: what has more members comes first
        order_of_codes = sorted(members, key=lambda who: -len(who))
        number = np.empty(len(codes), np.int64)
        number[[members[who] for who in order_of_codes]] = np.arange(len(codes))
        codes = [codes[members[who]] for who in order_of_codes]
        trees = [VariableGrouping(each.name, each.labels, number[each.codes]) for each in trees]
    ways = [_parents([(trees[at], groupings[at][2]) for at in chain], len(codes)) for chain in chains]
    order_of_ways = sorted(range(len(ways)), key=lambda way: (-sum(above >= 0 for above in ways[way]), way))
    called = tuple(" > ".join(groupings[at][0] for at in chains[way]) for way in order_of_ways)
    first, *others = (ways[way] for way in order_of_ways)
    tree = Dimension(name, tuple(codes), first, tuple(others), called if others else ())
    return Variable(tree, tuple(trees), areas)


def _chains(groups: Sequence[Integers]) -> list[tuple[int, ...]]:
    """The chains of groupings, coarse to fine, that cannot be made longer."""
    size = len(groups)
    nests = [[_nests(coarse, fine) for fine in groups] for coarse in groups]
    finer = [
        [at != other and nests[at][other] and (at < other or not nests[other][at]) for other in range(size)]
        for at in range(size)
    ]
    next_finer = [
        [b for b in range(size) if finer[a][b] and not any(finer[a][c] and finer[c][b] for c in range(size))]
        for a in range(size)
    ]
    coarsest = [at for at in range(size) if not any(finer[other][at] for other in range(size))]
    chains: list[tuple[int, ...]] = []
    waiting: list[tuple[int, ...]] = [(at,) for at in reversed(coarsest)]
    while waiting:
        chain = waiting.pop()
        longer: list[tuple[int, ...]] = [(*chain, finer_one) for finer_one in reversed(next_finer[chain[-1]])]
        waiting += longer
        if not longer:
            chains.append(chain)
    return chains


def _parents(chain: Sequence[tuple[VariableGrouping, Integers]], size: int) -> tuple[int, ...]:
    """The parents of codes in one chain of groupings."""
    parent = [-1] + [NOT_HERE] * (size - 1)
    above = np.zeros(len(chain[0][1]), np.int64)
    for grouping, group in chain:
        of_member = grouping.codes[group]
        for code, over in zip(of_member.tolist(), above.tolist(), strict=True):
            if code != over and parent[code] == NOT_HERE:
                parent[code] = over
        above = of_member
    return tuple(parent)


def _bottoms(groupings: Sequence[Grouping], tables: Sequence[Sequence[str]]) -> list[Grouping]:
    """The groupings that tables go down to: for each the meet of its recodes. Where two of these cross, their meet is
    taken for both, until all nest. What tables have in common is then what the coarser of them has."""
    every = tables or [[name for name, _, _ in groupings]]
    bottoms = [_meet([each for each in groupings if each[0] in names], groupings) for names in every]
    while True:
        crossing = next(
            (
                (one, other)
                for at, one in enumerate(bottoms)
                for other in bottoms[:at]
                if not _nests(one[2], other[2]) and not _nests(other[2], one[2])
            ),
            None,
        )
        if crossing is None:
            return list({each[0]: each for each in bottoms}.values())
        meet = _meet(crossing, groupings)
        bottoms = [meet, *(each for each in bottoms if each[0] not in [other[0] for other in crossing])]


def _meet(crossed: Sequence[Grouping], groupings: Sequence[Grouping]) -> Grouping:
    """The coarsest grouping that is finer than some: one of those there are, or one of its own."""
    names = {name for each in crossed for name in each[0].split(MEET)}
    recodes = [each for each in groupings if each[0] in names]
    stacked = np.stack([group for _, _, group in recodes])
    known = next((each for each in groupings if _same(each[2], _stacked(list(stacked)))), None)
    if known is not None:
        return known
    _, first = np.unique(stacked, axis=1, return_index=True)
    labels = [" and ".join(labels[group[at]] for _, labels, group in recodes) for at in first.tolist()]
    return MEET.join(name for name, _, _ in recodes), labels, _stacked(list(stacked))


def _stacked(assignments: Sequence[Integers]) -> Integers:
    """For each smallest code the number of its combination of groups."""
    _, inverse = np.unique(np.stack(assignments), axis=1, return_inverse=True)
    combination: Integers = np.asarray(inverse, np.int64).reshape(-1)
    return combination if len(assignments) > 1 else np.asarray(assignments[0], np.int64)


def _same(one: Integers, other: Integers) -> bool:
    return _nests(one, other) and _nests(other, one)


def _nests(coarse: Integers, fine: Integers) -> bool:
    """Whether every group of the finer lies in one of the coarser."""
    of_fine = np.empty(int(fine.max()) + 1, np.int64)
    of_fine[fine] = coarse
    return bool((of_fine[fine] == coarse).all())


MOST_CELLS = 500_000
"""More cells in all tables together would take the solver days: somebody crossed what should not be crossed."""

PUBLISHED_FIGURES = (tabular.COUNT, "value", tabular.STATUS)
"""Columns of figures."""


@dataclass(frozen=True, eq=False)
class HierarchicalTable:
    """A table: its variables, areas first, and the groupings of each that it lists."""

    name: str
    title: str
    variables: tuple[Variable, ...]
    listed: tuple[tuple[str, ...], ...]
    named: bool = False
    """Whether areas have names."""

    @cached_property
    def coded(self) -> tabular.CodedColumns:
        """The columns of its files."""
        pairs = zip(self.variables, self.listed, strict=True)
        variables = tuple(variable.coded(names) for variable, names in pairs if not variable.areas)
        areas = any(variable.areas for variable in self.variables)
        return tabular.CodedColumns(variables, areas, areas and self.named)

    @property
    def levels(self) -> list[str]:
        """The levels that its rows have, that of all areas together with them where it is one of its own."""
        along = [v.entries(names) for v, names in zip(self.variables, self.listed, strict=True) if v.areas]
        return list(dict.fromkeys(level for entries in along for level, _, _ in entries))

    @cached_property
    def layout(self) -> TableDimensions:
        pairs = list(zip(self.variables, self.listed, strict=True))
        dimensions = tuple(variable.cut(names) for variable, names in pairs)
        return TableDimensions(self.name, dimensions, tuple(variable.listed(names) for variable, names in pairs))

    @cached_property
    def places(self) -> Integers:
        """For each cell of the layout the codes of its variables, by their numbers in the release."""
        kept = [variable.kept(names) for variable, names in zip(self.variables, self.listed, strict=True)]
        places = self.layout.places
        columns = [codes[places[:, axis]] for axis, codes in enumerate(kept)]
        return np.column_stack(columns) if columns else places

    def codes_of(self, variable: Variable, grouping: str) -> Integers:
        """The codes of a grouping, by their numbers in the layout."""
        names = self.listed[self.variables.index(variable)]
        number = {old: new for new, old in enumerate(variable.kept(names).tolist())}
        return np.array([number[code] for code in variable.grouping(grouping).codes.tolist()], np.int64)

    @property
    def columns(self) -> list[str]:
        """The columns that say which cell a row is."""
        return [
            c
            for variable in self.variables
            for c in ([tabular.LEVEL, tabular.AREA] if variable.areas else [variable.name])
        ]

    @cached_property
    def lines(self) -> tuple[list[tuple[str, ...]], Integers]:
        """The rows of the table: the labels in its columns, and the cell of the layout. Totals first."""
        along = [variable.entries(names) for variable, names in zip(self.variables, self.listed, strict=True)]
        labels, cells = [], []
        for each in product(*along):
            labels.append(
                tuple(
                    text
                    for variable, (grouping, label, _) in zip(self.variables, each, strict=True)
                    for text in ((grouping, label) if variable.areas else (label,))
                )
            )
            cells.append(tuple(code for _, _, code in each))
        places = np.array(cells, np.int64).reshape(len(cells), len(along))
        if not along:
            return labels, np.zeros(1, np.int64)
        at: Integers = np.asarray(np.ravel_multi_index(tuple(places.T), self.layout.shape), np.int64)
        return labels, at

    def as_dict(self) -> dict[str, Any]:
        listed = {v.name: list(names) for v, names in zip(self.variables, self.listed, strict=True)}
        return {"name": self.name, "title": self.title, "variables": listed}


@dataclass(frozen=True, eq=False)
class SuppressionProgramme:
    """Tables with their variables, as a spec or the plan of a release has them."""

    variables: Mapping[str, Variable]
    tables: tuple[HierarchicalTable, ...]

    @property
    def areas(self) -> list[tuple[str, tuple[str, ...]]]:
        """The levels of all tables, each with the codes of its areas; all areas together are a level of their own where
        no level of a table has them."""
        levels = set().union(*(table.levels for table in self.tables))
        together = [(tabular.TOTAL_CODE, (tabular.TOTAL_CODE,))] if tabular.TOTAL_CODE in levels else []
        places = [variable for variable in self.variables.values() if variable.areas]
        return together + [(each.name, each.labels) for v in places for each in v.groupings if each.name in levels]

    @cached_property
    def linked(self) -> LinkedTables:
        return linked_people([table.layout for table in self.tables])

    def kept(self, margins: Sequence[str]) -> Flags:
        """The cells of margins that are never suppressed, each named by its variables, such as total or area*sex."""
        wanted = {frozenset() if text == "total" else frozenset(text.split("*")) for text in margins}
        keep = np.zeros(self.linked.structure.cells, np.bool_)
        for table, numbers in zip(self.tables, self.linked.numbers, strict=True):
            inner = table.layout.places > 0
            names = np.array([variable.name for variable in table.variables], object)
            for pattern in np.unique(inner, axis=0):
                if frozenset(names[pattern].tolist()) in wanted:
                    keep[numbers[(inner == pattern).all(axis=1)]] = True
        return keep


def unit_of(question: Mapping[str, Any]) -> Fraction:
    """What every figure of a plan is a multiple of."""
    return Fraction(question.get("unit", 1))


def described(question: Mapping[str, Any]) -> SuppressionProgramme:
    """The programme of a plan's ``question``."""
    variables = {name: read_variable(name, plain) for name, plain in question["variables"].items()}
    tables = tuple(
        HierarchicalTable(
            plain["name"],
            plain["title"],
            tuple(variables[name] for name in plain["variables"]),
            tuple(tuple(names) for names in plain["variables"].values()),
            question["area_names"] is not None,
        )
        for plain in question["tables"]
    )
    return SuppressionProgramme(variables, tables)


@dataclass(frozen=True, eq=False)
class SuppressionProblem(tabular.TabularProblem):
    """Everything that decides the release but the records."""

    spec: SuppressionSpec
    schema: Schema
    records: Source
    frame: Frame | None
    programme: SuppressionProgramme

    @property
    def value(self) -> str | None:
        """The column of magnitudes; None where tables count."""
        return self.spec.data.value

    @property
    def attributes(self) -> list[Attribute]:
        """The attributes that some table uses, in the order of the schema."""
        return [attribute for attribute in self.schema.attributes if attribute.name in self.programme.variables]

    def facts(self) -> Mapping[str, Any]:
        """What is in the plan: all of it public."""
        part = self.spec.suppression
        joint = joint_facts(self.programme.linked)
        rules = part.model_dump(mode="json", exclude={"range"} if self.value is None else set())
        return (
            self._of_values()
            | {
                "record": "person" if self.value is None else "contributor",
                "schema": {"id": self.schema.id, "sha256": self.schema.fingerprint},
                "frame": None if self.frame is None else self.frame.fingerprint,
                "attributes": {attribute.name: attribute.title for attribute in self.attributes},
                "value": self.value,
                "suppression": rules,
                "variables": {name: variable.as_dict() for name, variable in self.programme.variables.items()},
                "tables": [table.as_dict() for table in self.programme.tables],
            }
            | ({} if joint is None else {"joint": joint})
            | reading_facts(self.schema, self.records, None if self.frame is None else self.spec.geography.block)
            | {"layout": tabular.LAYOUT}
            | self.explained
        )

    @cached_property
    def area_names(self) -> tabular.AreaNames | None:
        """The names of the areas of all tables, where the frame has any."""
        if self.frame is None:
            return None
        levels = dict(self.programme.areas)
        together = {tabular.TOTAL_CODE: (levels.pop(tabular.TOTAL_CODE), ("",))} if tabular.TOTAL_CODE in levels else {}
        spine = [self.frame.spine.level(name) for name in levels]
        names = area_names(self.frame, spine, named=self.spec.geography.has_names)
        return None if names is None else tabular.AreaNames({**together, **names.levels})

    def _of_values(self) -> dict[str, Any]:
        """What the plan of magnitudes also has: what is declared of values, and against whom it protects."""
        data = self.spec.data
        if self.value is None:
            return {}
        declared = {"contributor": data.contributor, "weight": data.weight}
        declared["below_zero"] = None if data.below_zero is None else str(data.below_zero)
        declared["unit"] = None if data.figure_unit == 1 else str(data.figure_unit)
        against = {"insiders": self.spec.suppression.singletons, "unions": True}
        return {key: value for key, value in declared.items() if value is not None} | against


def build(loaded: LoadedSpec, spec: SuppressionSpec, schema: Schema, frame: Frame | None) -> SuppressionProgramme:
    """The tables of a spec. Raises with a finding for each that cannot be."""
    findings: list[Finding] = []
    used: dict[str, dict[str, Any]] = {}
    for position, part in enumerate(spec.tables):
        try:
            for name in part.variables:
                recode = schema.variable(name)
                used.setdefault(recode.attribute.name, {})[name] = recode
        except ConfideError as error:
            findings += tabular.placed(error, loaded.place("tables", position, "variables"))
    variables: dict[str, Variable] = {}
    wanted = {level for part in spec.tables for level in part.levels}
    if frame is not None and wanted:
        variables[tabular.AREA] = of_levels([level for level in frame.spine.levels if level.name in wanted])
        if tabular.SDMX in spec.output.formats:
            tabular.check_area_codes(code for grouping in variables[tabular.AREA].groupings for code in grouping.labels)
    for attribute in schema.attributes:
        if attribute.name in used:
            try:
                tabular.check_column_names([attribute], (tabular.LEVEL, tabular.AREA, *PUBLISHED_FIGURES))
                recodes = used[attribute.name]
                by_table = [[name for name in part.variables if name in recodes] for part in spec.tables]
                variable = of_attribute(list(recodes.values()), [names for names in by_table if names])
                variables[attribute.name] = replace(variable, published=published_codes(variable, [*recodes.values()]))
            except ConfideError as error:
                findings += error.findings
    if findings:
        raise SpecError(findings)
    named = spec.geography.has_names
    tables = tuple(
        replace(_table(part.name, part.title, part.variables, part.levels, variables), named=named)
        for part in spec.tables
    )
    for position, table in enumerate(tables):
        try:
            table.coded.check(PUBLISHED_FIGURES)
        except ConfideError as error:
            findings += tabular.placed(error, loaded.place("tables", position, "variables"))
    if findings:
        raise SpecError(findings)
    cells = sum(prod(table.layout.shape) for table in tables)
    if cells > MOST_CELLS:
        raise SpecError("table-too-large/tables", where=loaded.place("tables"), cells=cells, most_cells=MOST_CELLS)
    return SuppressionProgramme(variables, tables)


def _table(
    name: str, title: str, asked: list[str], levels: list[str], variables: Mapping[str, Variable]
) -> HierarchicalTable:
    chosen, listed = [], []
    for variable in variables.values():
        names = levels if variable.areas else asked
        of_variable = tuple(each.name for each in variable.groupings if each.name in names)
        if of_variable:
            chosen.append(variable)
            listed.append(of_variable)
    return HierarchicalTable(name, title or name, tuple(chosen), tuple(listed))


# From a spec to its prepared problem: schema, frame and tables, with every problem of them at once.


def prepare(loaded: LoadedSpec, engine: Engine) -> SuppressionProblem:
    """What the spec and its public files say. Raises a :class:`SpecError` with all findings."""
    spec = loaded.spec
    assert isinstance(spec, SuppressionSpec)
    public = tabular.PublicFiles.of(loaded, engine, blocks=any(table.levels for table in spec.tables), areas=False)
    findings, schema, programme = public.findings, public.schema, None
    if schema is not None:
        known = schema
        programme = noting(findings, lambda: build(loaded, spec, known, public.frame))
    if findings or schema is None or programme is None:
        raise SpecError(findings)
    findings = margins_unknown(loaded, spec, [set(_names(table.variables)) for table in programme.tables])
    if findings:
        raise SpecError(findings)
    return SuppressionProblem(spec, schema, public.sources["records"], public.frame, programme)


def _names(variables: tuple[object, ...]) -> list[str]:
    return [str(getattr(variable, "name", "")) for variable in variables]


def margins_unknown(loaded: LoadedSpec, spec: SuppressionSpec, tables: list[set[str]]) -> list[Finding]:
    """Margins that are to be kept must be of some table."""
    known = set().union(*tables)
    return [
        Finding.of(
            "unknown-margin", where=loaded.place("suppression", "keep"), found=text, known=", ".join(sorted(known))
        )
        for text in spec.suppression.keep
        if text != "total" and not any(set(text.split("*")) <= names for names in tables)
    ]
