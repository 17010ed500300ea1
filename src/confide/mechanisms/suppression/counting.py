"""True figures of every cell, out of the records, and the problem that they pose. Confidential.

The records are grouped once by block and by the levels of all attributes in use; for magnitudes, they are read one by
one, since a rule must know the largest contributions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from itertools import product
from math import ceil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from confide.arrays import Integers
from confide.engines import Engine, Source, identifier
from confide.errors import CONFIDENTIAL, Finding, Place, RunError
from confide.inputs import records as inputs_records
from confide.inputs.made_up import MadeUpPeople, RecordForm
from confide.mechanisms.suppression import problem as rules
from confide.mechanisms.suppression import problem as suppression_problem
from confide.mechanisms.suppression.given.tables import GivenTablesProblem
from confide.mechanisms.suppression.programme import HierarchicalTable, SuppressionProblem, leaf_codes
from confide.mechanisms.suppression.spec import MOST_DIGITS, SuppressionData, digits_of, published_figures
from confide.mechanisms.suppression.structure import Dimension, Flags, LinkedTables
from confide.mechanisms.suppression.suppress import add_up, joined, pose
from confide.mechanisms.suppression.variables import Variable
from confide.releases.abilities import MadeUpRecords
from confide.releases.tabular import AREA

# Values, weights and contributors of the records of a magnitude table: read exactly, and every problem of them.
#
# A value is a whole multiple of ``unit``, a weight of ``weight_unit``; both are whole numbers of these inside. A record
# counts weight times value: what follows is in numbers of ``unit`` times ``weight_unit``. Records of one contributor,
# where a column says whose they are, are one contribution to each cell.
#
# Made-up records, for rehearsals and audits, have values, weights and contributors where the spec names them.


VALUE, WEIGHT, CONTRIBUTOR = "record value", "record weight", "record contributor"

LARGEST_TOTAL = 1 << 61
"""All values of the records together, in units, or as they are published: beyond, sums would leave 64 bits."""


def expressions(engine: Engine, source: Source, data: SuppressionData) -> dict[str, str]:
    """SQL for what a record adds: whole numbers of the last digit that the unit has, and whose record it is."""
    columns = {VALUE: _digits_expression(engine, source, str(data.value), data.unit)}
    if data.weight is not None:
        columns[WEIGHT] = _digits_expression(engine, source, data.weight, data.weight_unit)
    if data.contributor is not None:
        columns[CONTRIBUTOR] = _text(source, data.contributor)
    return columns


@dataclass(frozen=True, eq=False)
class RecordMagnitudes:
    """What every record adds to its cells, in numbers of the figures' unit; confidential."""

    added: Integers = field(repr=False)
    person: Integers = field(repr=False)
    """Whose it is, as a number."""
    lowest: Integers = field(repr=False)
    """What everybody knows that it does not add less than: zero, or below zero as far as the spec says."""


def read_magnitudes(rows: pa.Table, data: SuppressionData) -> RecordMagnitudes:
    """The columns of :func:`expressions` as numbers."""
    value = _whole_units(rows.column(VALUE), data.unit)
    weight = np.ones(len(value), np.int64)
    if data.weight is not None:
        weight = _whole_units(rows.column(WEIGHT), data.weight_unit)
    person = np.arange(len(value), dtype=np.int64)
    if data.contributor is not None:
        codes = rows.column(CONTRIBUTOR).combine_chunks().dictionary_encode()
        person = np.asarray(codes.indices.to_numpy(zero_copy_only=False), np.int64)
    below = int((data.below_zero or 0) / data.unit)
    return RecordMagnitudes(value * weight, person, -below * weight)


def _whole_units(column: pa.ChunkedArray, unit: Fraction) -> Integers:
    step = int(unit * 10 ** (digits_of(unit) or 0))
    numbers: Integers = np.asarray(column.to_numpy(), np.int64) // step
    return numbers


# Every problem of the records.


def check_magnitudes(engine: Engine, source: Source, data: SuppressionData) -> list[Finding]:
    """Every problem of values, weights and contributors; none of them is shown."""
    findings = _check_number(engine, source, str(data.value), data.unit, "value")
    if not findings:
        findings += _signs(engine, source, data)
    if data.weight is not None:
        of_weight = _check_number(engine, source, data.weight, data.weight_unit, "weight")
        if not of_weight:
            weight = _digits_expression(engine, source, data.weight, data.weight_unit)
            rows = engine.first_rows(source, f"({weight}) <= 0", inputs_records.ROWS_NAMED)
            of_weight = [inputs_records.bad_record("bad-record/weight", source, data.weight, rows)] if rows else []
        findings += of_weight
    if data.contributor is not None:
        findings += _check_contributor(engine, source, data.contributor)
    return findings or _check_total(engine, source, data)


def _check_number(engine: Engine, source: Source, name: str, unit: Fraction, key: str) -> list[Finding]:
    theirs, kinds = source.theirs(name), engine.kinds(source)
    if kinds.get(theirs) not in ("integer", "text") and not _is_decimal(source, theirs):
        lacking = "no-value" if key == "value" else "no-weight"
        return [Finding.of(lacking, where=Place(file=source.file, column=theirs), there=theirs in kinds)]
    rows = _not_numbers(engine, source, name, unit)
    if not rows:
        return []
    word = "unit" if key == "value" else "weight_unit"
    # Which unit would do, if one of fewer digits than we read does.
    finer = (Fraction(1, 10**digits) for digits in range(1, MOST_DIGITS + 1))
    enough = next((each for each in finer if not _not_numbers(engine, source, name, each)), None)
    return [
        inputs_records.bad_record(
            "bad-record/multiple", source, name, rows, key=key, unit=unit, word=word, enough=enough
        )
    ]


def _not_numbers(engine: Engine, source: Source, name: str, unit: Fraction) -> list[int]:
    number = _digits_expression(engine, source, name, unit)
    step = int(unit * 10 ** (digits_of(unit) or 0))
    return engine.first_rows(source, f"({number}) IS NULL OR ({number}) % {step} <> 0", inputs_records.ROWS_NAMED)


def _signs(engine: Engine, source: Source, data: SuppressionData) -> list[Finding]:
    name, value = str(data.value), _digits_expression(engine, source, str(data.value), data.unit)
    below = data.below_zero or Fraction(0)
    least = -int(below * 10 ** (digits_of(data.unit) or 0))
    rows = engine.first_rows(source, f"({value}) < {least}", inputs_records.ROWS_NAMED)
    return (
        [inputs_records.bad_record("bad-record/negative", source, name, rows, below=below, least=-below)]
        if rows
        else []
    )


def _check_contributor(engine: Engine, source: Source, name: str) -> list[Finding]:
    theirs, kinds = source.theirs(name), engine.kinds(source)
    if kinds.get(theirs) not in ("integer", "text"):
        place = Place(file=source.file, column=theirs)
        return [Finding.of("no-contributor", where=place, theirs_known=theirs in kinds)]
    rows = engine.first_rows(
        source, f"{identifier(theirs)} IS NULL OR trim({_text(source, name)}) = ''", inputs_records.ROWS_NAMED
    )
    return [inputs_records.bad_record("bad-record/no-contributor", source, name, rows)] if rows else []


def _check_total(engine: Engine, source: Source, data: SuppressionData) -> list[Finding]:
    """All values together must stay within 64 bits. An estimate is enough to tell: the bound is half of what fits."""
    of = expressions(engine, source, data)
    terms = [f"CAST(abs({of[VALUE]}) AS DOUBLE)", *([f"CAST({of[WEIGHT]} AS DOUBLE)"] if WEIGHT in of else [])]
    below = [f"{float((data.below_zero or 0) * 10 ** (digits_of(data.unit) or 0))}e0", *terms[1:]]
    sums = [f"coalesce(sum({' * '.join(factors)}), 0)" for factors in (terms, below)]
    _, _, totals = inputs_records.count_rows(engine, source, [], sums)
    in_digits = 10 ** (digits_of(data.figure_unit) or 0)
    if max(totals) < LARGEST_TOTAL // max(1, int(data.figure_unit * in_digits)):
        return []
    larger = data.unit * 1_000
    return [
        Finding.of(
            "values-too-large",
            where=Place(file=source.file, column=source.theirs(str(data.value))),
            found=CONFIDENTIAL,
            largest_total=LARGEST_TOTAL,
            figure_unit=data.figure_unit,
            larger=larger,
        )
    ]


def _digits_expression(engine: Engine, source: Source, name: str, unit: Fraction) -> str:
    """SQL for a number, times ten for each digit that multiples of the unit have; NULL where it has other digits."""
    digits = digits_of(unit) or 0
    text = f"trim({_text(source, name)})"
    before, rest = f"split_part({text}, '.', 1)", f"regexp_replace(split_part({text}, '.', 2), '0+$', '')"
    fits = f"length({rest}) <= {digits} AND split_part({text}, '.', 3) = '' AND {before} NOT IN ('', '+', '-')"
    shifted = f"concat({before}, rpad({rest}, {digits}, '0'))" if digits else before
    return engine.integer_text(f"(CASE WHEN {fits} THEN {shifted} END)")


def _text(source: Source, name: str) -> str:
    return f"CAST({identifier(source.theirs(name))} AS VARCHAR)"


def _is_decimal(source: Source, column: str) -> bool:
    if source.format != "parquet":
        return False
    schema = pq.read_schema(source.path)
    return column in schema.names and bool(pa.types.is_decimal(schema.field(column).type))


# Made-up records of a release by suppression: with values, weights and contributors where the spec names them.


RECORDS_OF_EACH = 1.5
"""How many records a contributor has in the mean, where a column says whose they are."""


def with_magnitudes(problem: SuppressionProblem, people: MadeUpPeople) -> pa.Table:
    """The records with a value each, most of them small and a few large, as turnover is.

    Args:
        problem: The prepared problem.
        people: The drawn people, or firms.

    Returns:
        The table of records.
    """
    data, theirs, number = problem.spec.data, problem.records.theirs, people.number
    table = people.table(theirs)
    if data.value is None:
        return table
    weight = np.ones(number, np.int64)
    if data.weight is not None:
        weight = people.random.integers(1, 4, size=number) * ceil(1 / data.weight_unit)
        table = table.append_column(theirs(data.weight), published_figures(weight, data.weight_unit))
    steps = int(data.unit * 10 ** (digits_of(data.unit) or 0)) * int(weight.max(initial=1))
    most = max(1, LARGEST_TOTAL // (100 * number * steps))
    size = np.minimum(np.exp(people.random.normal(6, 1.3, number)) / float(data.unit), most)
    table = table.append_column(theirs(data.value), published_figures(size.astype(np.int64), data.unit))
    if data.contributor is not None:
        whose = people.random.integers(max(1, int(number / RECORDS_OF_EACH)), size=number)
        table = table.append_column(theirs(data.contributor), pa.array([f"C{one}" for one in whose.tolist()]))
    return table


class SuppressionRehearsal(MadeUpRecords[SuppressionProblem]):
    """Made-up records, with values where the spec names them."""

    def record_form(self, problem: SuppressionProblem) -> RecordForm:
        if isinstance(problem, GivenTablesProblem):
            raise RunError("no-rehearsal/tables", where=Place(path="release.mechanism"), mechanism=self.mechanism.name)
        variables, block = problem.schema.variables, problem.spec.geography.block
        if problem.frame is None:
            return RecordForm(tuple(problem.attributes), variables)
        return RecordForm.on_spine(problem.attributes, variables, block, problem.frame.spine)

    def made_up_people(self, problem: SuppressionProblem, people: MadeUpPeople) -> pa.Table:
        return with_magnitudes(problem, people)


BLOCK, NUMBER = "block code", "n"
EVERYBODY = "everybody"
OF_ATTRIBUTE = "attribute "


@dataclass(frozen=True, eq=False)
class Truth:
    """What the records say of every distinct cell: the figure that would be published, and who is behind it."""

    value: Integers = field(repr=False)
    number: Integers = field(repr=False)
    who: Integers = field(repr=False)
    """Of a cell with one contributor the number of that one; of others any number."""
    contributions: suppression_problem.Contributions | None = field(repr=False, default=None)
    contributors: suppression_problem.Contributors | None = field(repr=False, default=None)
    """Magnitudes: who gave what to every cell."""
    base: Integers | None = field(repr=False, default=None)
    """What everybody knows figures not to be below, where that is less than zero."""


def check_figures(engine: Engine, problem: SuppressionProblem, frame: Path | None) -> list[Finding]:
    """Every problem of the records."""
    source, attributes = problem.records, problem.attributes
    if frame is not None and problem.frame is not None:
        block, spine = problem.spec.geography.block, problem.frame.spine
        findings = inputs_records.check_records(engine, source, attributes, block, spine, frame)
    else:
        findings = inputs_records.check_codes(engine, source, attributes)
    if not findings and problem.spec.data.value is not None:
        findings = check_magnitudes(engine, source, problem.spec.data)
    return findings


def write_grouped(engine: Engine, problem: SuppressionProblem, into: Path) -> None:
    """The records as numbers of levels, with their block: how many there are of each kind, or each with its value."""
    keys = _expressions(engine, problem)
    if problem.spec.data.value is None:
        engine.count_by(problem.records, keys or {EVERYBODY: "CAST(0 AS BIGINT)"}, into)
        return
    keys |= expressions(engine, problem.records, problem.spec.data)
    columns = ", ".join(f"{expression} AS {identifier(name)}" for name, expression in keys.items())
    engine.write(f"SELECT {columns} FROM records", into, records=problem.records)


def read_truth(problem: SuppressionProblem, grouped: Path) -> Truth:
    """The figures of every cell of the linked structure."""
    rows = pq.read_table(grouped)
    columns = {name: rows.column(name) for name in rows.column_names}
    row = np.arange(rows.num_rows)
    programme = problem.programme
    if VALUE in columns:
        return _read_magnitudes(problem, read_magnitudes(rows, problem.spec.data), columns)
    number = columns[NUMBER].to_numpy().astype(np.int64)
    numbers, sums = [], []
    for table, leaf in zip(programme.tables, _all_leaves(problem, columns, len(row)), strict=True):
        numbers.append(_added(table, leaf, number))
        # The numbers of all who are in a cell, added up: of one that is alone in it, its own.
        sums.append(_added(table, leaf, number * row))
    people = partial(_people, programme.linked, _kinds_of(problem, columns))
    count = joined(programme.linked, numbers, people(number))
    return Truth(count, count, joined(programme.linked, sums, people(number * row)))


def _read_magnitudes(
    problem: SuppressionProblem, records: RecordMagnitudes, columns: Mapping[str, pa.ChunkedArray]
) -> Truth:
    """The figures of every cell, and everybody who is behind each."""
    programme, linked = problem.programme, problem.programme.linked
    kinds = _kinds_of(problem, columns)
    people = partial(_people, linked, kinds)
    values, bases = [], []
    # Everybody is in one cell of each joint table, ...
    entries = [(np.zeros(0, np.int64), np.zeros(0, np.int64)), *((kind, np.arange(len(kind))) for kind in kinds)]
    covered = np.zeros(linked.structure.cells, np.bool_)
    leaves = _all_leaves(problem, columns, len(records.added))
    for table, leaf, at in zip(programme.tables, leaves, linked.numbers, strict=True):
        values.append(_added(table, leaf, records.added))
        bases.append(_added(table, leaf, records.lowest))
        # ... and a cell that several tables have has its contributors once.
        entries += [(at[cell][new], of[new]) for cell, of in _meetings(table, leaf) for new in [~covered[at[cell]]]]
        covered[at] = True
    value, base = joined(linked, values, people(records.added)), joined(linked, bases, people(records.lowest))
    cell, of = (np.concatenate(each) for each in zip(*entries, strict=True))
    known = (records.added - records.lowest)[of]
    contributors = suppression_problem.contributors_of(cell, records.person[of], np.abs(records.added)[of], known, base)
    dominance = problem.spec.suppression.dominance
    number, largest = contributors.largest(max(2, dominance.n if dominance else 2))
    contributions = suppression_problem.Contributions(number, largest)
    return Truth(value, number, contributors.alone, contributions, contributors, base)


def pose_problem(problem: SuppressionProblem, truth: Truth) -> suppression_problem.PatternProblem:
    """Primary rules, bounds and weights, as the spec has them."""
    part = problem.spec.suppression
    linked = problem.programme.linked
    single: Flags = (truth.number == 1) if part.singletons else np.zeros(len(truth.value), np.bool_)
    levels = primary_levels(problem, truth)
    keep = problem.programme.kept(part.keep)
    contributors = truth.contributors
    union_rule = (
        None
        if contributors is None
        else suppression_problem.UnionRule(contributors, partial(magnitude_levels, problem))
    )
    return pose(
        linked,
        truth.value,
        levels,
        zeros=part.zeros,
        weight=part.weights,
        single=single,
        keep=keep,
        who=truth.who,
        inhabited=truth.number > 0,
        base=truth.base,
        contributors=contributors if part.singletons else None,
        union_rule=union_rule,
    )


def primary_levels(problem: SuppressionProblem, truth: Truth) -> suppression_problem.Levels:
    """The cells that are primary by any rule, with the largest protection levels."""
    if truth.contributors is not None:
        return magnitude_levels(problem, truth.contributors)
    return levels_by_rules(problem, truth.value, truth.number, truth.contributions)


def magnitude_levels(
    problem: SuppressionProblem, contributors: suppression_problem.Contributors
) -> suppression_problem.Levels:
    """The same for magnitudes, from those who contribute to cells, or to several cells together.

    Rules see amounts, which are at least zero: weights times values, without their sign.
    """
    dominance = problem.spec.suppression.dominance
    number, largest = contributors.largest(max(2, dominance.n if dominance else 2))
    return levels_by_rules(problem, contributors.size, number, suppression_problem.Contributions(number, largest))


def levels_by_rules(
    problem: SuppressionProblem,
    size: Integers,
    number: Integers,
    contributions: suppression_problem.Contributions | None,
) -> suppression_problem.Levels:
    """The primary cells by the rules of the spec.

    Args:
        problem: The spec with its rules.
        size: What is in every cell.
        number: How many contribute to it.
        contributions: The largest contributions; None for counts.
    """
    part = problem.spec.suppression
    levels = suppression_problem.Levels.none(len(size))
    if part.threshold is not None:
        few = rules.threshold(number, part.threshold, zeros=part.zeros == "primary", lower=part.lower)
        levels = levels.also(few if contributions is None else _ranged(few, size, part.range))
    if contributions is not None and part.dominance is not None:
        levels = levels.also(rules.dominance(size, contributions, part.dominance.n, part.dominance.k))
    if contributions is not None and part.p is not None:
        levels = levels.also(rules.pq(size, contributions, part.p, part.q or suppression_problem.MOST))
    return levels


def _ranged(few: suppression_problem.Levels, value: Integers, percent: Fraction) -> suppression_problem.Levels:
    """Cells of few contributors: their magnitude is kept that far away, up and down, and by one at least."""
    away = np.array([max(1, ceil(percent / suppression_problem.MOST * int(x))) for x in value], np.int64)
    level = np.where(few.primary, away, 0)
    return suppression_problem.Levels(few.primary, np.minimum(level, value), level, np.zeros_like(level))


def _all_leaves(
    problem: SuppressionProblem, columns: Mapping[str, pa.ChunkedArray], rows: int
) -> Iterator[list[Integers]]:
    """For each table the finest code of every row along each of its variables."""
    levels, units = _levels_and_units(problem, columns)
    return (_leaves(problem, table, levels, units, rows) for table in problem.programme.tables)


def _levels_and_units(
    problem: SuppressionProblem, columns: Mapping[str, pa.ChunkedArray]
) -> tuple[dict[str, Integers], Integers | None]:
    """The level of every row along each attribute, and its smallest area where tables have areas."""
    levels = {name: columns[OF_ATTRIBUTE + name].to_numpy() for name in problem.programme.variables if name != AREA}
    return levels, _blocks(problem, columns[BLOCK].to_pylist()) if BLOCK in columns else None


def _leaves(
    problem: SuppressionProblem,
    table: HierarchicalTable,
    levels: dict[str, Integers],
    units: Integers | None,
    rows: int,
) -> list[Integers]:
    """For each variable of a table the finest code of every row."""
    leaves = [
        _codes(problem, variable, names[-1], levels, units)
        if variable.areas
        else leaf_codes(variable, names, problem.schema)[levels[variable.name]]
        for variable, names in zip(table.variables, table.listed, strict=True)
    ]
    return leaves or [np.zeros(rows, np.int64)]


def _codes(
    problem: SuppressionProblem, variable: Variable, grouping: str, levels: dict[str, Integers], units: Integers | None
) -> Integers:
    """The code of every row in one grouping of a variable."""
    codes = variable.grouping(grouping).codes
    if not variable.areas:
        at: Integers = codes[problem.schema.variable(grouping).assignment[levels[variable.name]]]
        return at
    assert units is not None
    assert problem.frame is not None
    level = problem.frame.spine.level(grouping)
    unit = np.empty(problem.frame.spine.blocks.units, np.int64)
    unit[problem.frame.spine.blocks.unit_of_block] = level.unit_of_block
    areas: Integers = codes[unit[units]]
    return areas


def _kinds_of(problem: SuppressionProblem, columns: Mapping[str, pa.ChunkedArray]) -> list[Integers]:
    """For each joint table the cell of every row in it."""
    linked, variables = problem.programme.linked, problem.programme.variables
    levels, units = _levels_and_units(problem, columns)
    finest = {
        dimension.name: _codes(problem, variable, variable.groupings[-1].name, levels, units)
        for table in linked.joint
        for dimension in table.dimensions
        for variable in (variables[dimension.name],)
    }
    kinds = []
    for table in linked.joint:
        at = [table.places(variables[d.name].tree, finest[d.name]) for d in table.dimensions]
        kinds.append(table.first + np.ravel_multi_index(tuple(at), table.shape).astype(np.int64))
    return kinds


def _people(linked: LinkedTables, kinds: Sequence[Integers], amount: Integers) -> Integers:
    """What records add up to in the cells of joint tables."""
    added = np.zeros(linked.structure.cells - linked.own_cells, np.int64)
    for kind in kinds:
        np.add.at(added, kind - linked.own_cells, amount)
    return added


def _added(table: HierarchicalTable, leaf: list[Integers], amount: Integers) -> Integers:
    totals = np.zeros(table.layout.shape or (1,), np.int64)
    np.add.at(totals, tuple(leaf), amount)
    # Codes with parts are sums: a record was counted at the finest one alone.
    return add_up(table.layout.dimensions, totals).reshape(-1)


def _meetings(table: HierarchicalTable, leaf: list[Integers]) -> Iterator[tuple[Integers, Integers]]:
    """Cells of a table and the records in them: each record is in all cells that its own is a part of."""
    if not table.variables:
        yield leaf[0], np.arange(len(leaf[0]))
        return
    chains = [_chains(dimension) for dimension in table.layout.dimensions]
    for steps in product(*(range(chain.shape[1]) for chain in chains)):
        at = [chain[codes, step] for chain, codes, step in zip(chains, leaf, steps, strict=True)]
        there = np.flatnonzero(np.logical_and.reduce([codes_at >= 0 for codes_at in at]))
        if len(there):
            places = np.ravel_multi_index(tuple(codes_at[there] for codes_at in at), table.layout.shape)
            yield np.asarray(places, np.int64), there


def _chains(dimension: Dimension) -> Integers:
    """For each code itself and everything that it is a part of, in any hierarchy and each once; -1 beyond."""
    above: list[list[int]] = []
    for at in range(dimension.size):
        parents = [way[at] for way in dimension.hierarchies if way[at] >= 0]
        above.append(list(dict.fromkeys([at, *(code for parent in parents for code in above[parent])])))
    chains = np.full((dimension.size, max(map(len, above))), -1, np.int64)
    for at, codes in enumerate(above):
        chains[at, : len(codes)] = codes
    return chains


def _blocks(problem: SuppressionProblem, codes: list[str]) -> Integers:
    assert problem.frame is not None
    number = {code: at for at, code in enumerate(problem.frame.spine.blocks.codes)}
    return np.array([number[code] for code in codes], np.int64)


def _expressions(engine: Engine, problem: SuppressionProblem) -> dict[str, str]:
    source, block = problem.records, problem.spec.geography.block
    # An attribute may have any name, also that of a column of ours.
    keys = {
        OF_ATTRIBUTE + name: code
        for name, code in inputs_records.code_expressions(engine, source, problem.attributes).items()
    }
    return (
        keys
        if problem.frame is None
        else keys | {BLOCK: inputs_records.column_expressions(engine, source, (), block)[block]}
    )
