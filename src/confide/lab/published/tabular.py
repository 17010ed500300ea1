"""Releases of ``tables``, ``cellkey``, ``swapping``, ``topdown`` and ``suppression`` read back for attacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from confide.arrays import Floats, Integers
from confide.errors import ConfideError, ReleaseError
from confide.lab.published import marginals as published_marginals
from confide.lab.published import published_rows
from confide.lab.published import published_rows as rows
from confide.mechanisms.cellkey.programme import describe
from confide.mechanisms.suppression.output import read_table
from confide.mechanisms.suppression.programme import HierarchicalTable, SuppressionProgramme, described
from confide.mechanisms.suppression.structure import ROOT
from confide.mechanisms.suppression.variables import Variable, strata
from confide.noise import ReleaseNoise
from confide.noise.ptables import count_settings, generate
from confide.releases import SealedRelease, tabular
from confide.releases.tabular import Table
from confide.schema import TOTAL, Attribute, Group, Level, Recode, Schema

# A release of ``tables`` read back: counts with independent noise, with the variance that the plan states.


def read_tables(asked: rows.ReadBack) -> published_marginals.Published:
    """The tables of a release."""
    facts, plan = asked.release.facts, asked.release.plan
    attributes = asked.schema(facts["schema"])
    laws = {(measure.level, measure.query): measure.law for measure in plan.measures}
    layouts = [Table.read(values) for values in facts["tables"]]
    # A count with noise can be below zero; the variance of each follows from its law.
    said = [
        (each, published_rows.PublishedRows(each.name, each.queries, Fraction(1), file=each.name)) for each in layouts
    ]
    tables = rows.AreaTables.read(asked, said, plan.spine)
    measured = {values["name"]: list(Table.measurements(values).values()) for values in facts["tables"]}
    marginals: dict[tuple[str, str], published_marginals.PublishedMarginal] = {}
    for table, level, of_queries in tables.marginals(attributes):
        for marginal, query in zip(of_queries, measured[table.name], strict=True):
            if (level, query) not in marginals:  # one measurement, shown in several tables
                marginals[level, query] = _with_noise(marginal, laws[level, query])
    largest = max((law.bound for law in laws.values() if law.bound is not None), default=None)
    bounded = () if largest is None else (rows.BOUNDED.format(largest),)
    notes = (rows.NOISE, *bounded, *tables.notes)
    return asked.published(attributes, tables.geography, marginals.values(), *notes)


def _with_noise(
    marginal: published_marginals.PublishedMarginal, law: ReleaseNoise
) -> published_marginals.PublishedMarginal:
    """A marginal with the law of its noise, its variance, and how far it can go."""
    bound = None if law.bound is None else published_marginals.NoiseBound(law.bound)
    variance = Fraction(law.variance()).limit_denominator(10**9)
    return replace(marginal, variance=variance, bound=bound, law=published_marginals.AdditiveLaw(law))


# A release of ``cellkey`` read back: counts with noise of their members, within a bound that the manifest states.


ZEROS = "Nobody stays nobody: where a count is above zero, the records have somebody."


def read_cellkey(asked: rows.ReadBack) -> published_marginals.Published:
    """Tables for all records or by area, each cell with its own noise; what is not listed is published as zero."""
    question = asked.release.facts
    described = describe(question)
    if described.magnitude is not None or described.given:
        raise rows.not_attacked("values" if described.magnitude is not None else "cells without a schema")
    attributes = asked.schema(question["schema"])
    bound = published_marginals.NoiseBound(int(Fraction(question["ptable"]["D"])), zeros_kept=True)
    variance, law = _law(question["ptable"], bound)
    unknown = bool(question["threshold"])
    marginals: dict[tuple[str | None, str], published_marginals.PublishedMarginal] = {}

    def add(
        level: str | None,
        rows_of: published_rows.PublishedRows,
        of_table: Sequence[published_marginals.PublishedMarginal],
    ) -> None:
        for marginal, name in zip(of_table, rows_of.queries, strict=True):
            # The same people have the same noise in every table.
            marginals.setdefault((level, _set_name(name)), replace(marginal, law=law))

    said = [
        (table, published_rows.PublishedRows(table.name, table.queries[::-1], variance, bound, unknown, table.name))
        for table in described.tables
    ]
    spatial = [each for each in said if each[0].levels]
    geography = published_marginals.one_unit()
    left_out: tuple[str, ...] = ()
    if spatial:
        by_area = rows.AreaTables.read(asked, spatial, question["spine"])
        geography, left_out = by_area.geography, by_area.notes
        for rows_of, level, of_level in by_area.marginals(attributes):
            add(level, rows_of, of_level)
    for table, rows_of in said:
        if spatial and not table.levels:
            left_out = (*left_out, f"The table {table.name} has no areas, and is left out.")
        elif not table.levels:
            add(None, rows_of, published_rows.marginals_of(rows_of, asked.rows(table), attributes, geography, 0, None))
    notes = (rows.NOISE, rows.BOUNDED.format(bound.largest), ZEROS, *left_out)
    return asked.published(attributes, geography, marginals.values(), *notes)


def _set_name(query: str) -> str:
    return "*".join(sorted(query.split("*")))


def _law(
    said: Mapping[str, Any], bound: published_marginals.NoiseBound
) -> tuple[Fraction, published_marginals.FigureLaw | None]:
    """The variance of the noise, and the table that the stated parameters give.

    A table that was read from a file is not in the manifest: without its variance, half of the bound stands for the
    standard deviation, and nothing else is taken to be known.
    """
    if said["V"] is None:
        return Fraction(bound.largest**2, 4), None
    variance = Fraction(str(said["V"]))
    try:
        design = generate(count_settings(bound.largest, variance, int(said["js"]), pstay=said.get("pstay")))
    except ConfideError:
        return variance, None
    return variance, published_marginals.PTableLaw(design.table())


# A release of ``swapping`` read back: tables of swapped records, exact as such, or the swapped records themselves.


def read_swapping(asked: rows.ReadBack) -> published_marginals.Published:
    """The records of a release that has them, otherwise its tables."""
    facts = asked.release.facts
    attributes = asked.schema(facts["schema"])
    records = asked.release.table(*rows.RECORDS)
    if records is not None:
        return asked.records(records, attributes)
    layouts = [Table.read(values) for values in facts["tables"]]
    said = [(each, published_rows.PublishedRows(each.name, each.queries, file=each.name)) for each in layouts]
    tables = rows.AreaTables.read(asked, said, asked.release.plan.spine)
    marginals = (marginal for _, _, of_queries in tables.marginals(attributes) for marginal in of_queries)
    return asked.published(attributes, tables.geography, marginals, rows.PROTECTED, *tables.notes)


# The same read back, for attacks and comparison: its protected records, if it has them. There is nothing to
# reconstruct, and the result says so: a solution variability of zero says nothing about the true records.


def read_records(asked: rows.ReadBack) -> published_marginals.Published:
    """The records of a release, which itself says what lies in what; ``postprocess`` writes the same files."""
    release = asked.release
    records = release.table(*rows.RECORDS)
    if records is None:
        raise rows.not_attacked(release.manifest["mechanism"])
    named = release.facts.get("schema") or release.facts.get("strategy", {}).get("schema")
    return asked.records(records, asked.schema(named))


# Releases of ``suppression`` read back for attacks: exact counts, some of them left out and unknown.
#
# Figures are taken cell by cell from the structure of the plan, not by labels: a group that two recodes have in common
# has one row in the files and is known in both. Tables with areas, without, and both together are read; what a table
# says of all areas together counts for everybody.


ABSENT = -1
"""In place of a code that a table does not have."""
LEFT_OUT = "Figures that were left out are unknown: any record that the others allow will do in their place."


def read_suppression(asked: rows.ReadBack) -> published_marginals.Published:
    """Every crossing of one grouping of each variable, or of none, with every suppressed figure unknown. What lies in
    what the release itself says. Magnitudes count no persons and are refused."""
    asked.no_groups()
    release, question = asked.release, asked.release.facts
    if question["value"] is not None:
        raise rows.not_attacked(f"{release.manifest['mechanism']} of magnitudes")
    programme = described(question)
    schema = schema_of_tables(programme) if question["schema"] is None else asked.schema(question["schema"])
    by_area = next((variable for variable in programme.variables.values() if variable.areas), None)
    geography = published_marginals.one_unit() if by_area is None else _geography(by_area)
    marginals: list[published_marginals.PublishedMarginal] = []
    for table in programme.tables:
        marginals += _marginals(table, _figures(release, table), schema, geography)
    return asked.published(schema, geography, marginals, LEFT_OUT)


def _figures(release: SealedRelease, table: HierarchicalTable) -> Floats:
    """The figures of all cells of a table in its shape; what is suppressed, or not listed, is no number."""
    for format_, path in tabular.table_files(table.name, release.files).items():
        try:
            figures, unknown = read_table(release.folder / path, format_, table, magnitude=False)
        except (tabular.UnlikePlanError, OSError) as error:
            raise _unlike(
                table, str(error) if isinstance(error, tabular.UnlikePlanError) else "a file that is gone"
            ) from None
        return np.where(unknown, np.nan, figures.astype(np.float64)).reshape(table.layout.shape)
    raise _unlike(table, "no file")


def _unlike(table: HierarchicalTable, found: str) -> ReleaseError:
    return rows.release_unlike("release-schema/unlike", found, name=table.name)


def _geography(areas: Variable) -> published_marginals.PublishedGeography:
    """The levels of the plan, by their tree: everything together is the coarsest."""
    parent = areas.tree.parent
    finest = areas.groupings[-1]
    chains: list[set[int]] = []
    for code in finest.codes.tolist():
        chain = {code}
        while code != ROOT:
            code = parent[code]
            chain.add(code)
        chains.append(chain)
    columns = {finest.name: list(finest.labels)}
    for level in reversed(areas.groupings[:-1]):
        of_code = dict(zip(level.codes.tolist(), level.labels, strict=True))
        columns[level.name] = [of_code[next(code for code in of_code if code in chain)] for chain in chains]
    if not any(ROOT in level.codes for level in areas.groupings):
        columns[published_marginals.EVERYWHERE] = [published_marginals.EVERYWHERE] * len(chains)
    return published_rows.nested(columns, finest.name)


def _marginals(
    table: HierarchicalTable, figures: Floats, schema: Schema, geography: published_marginals.PublishedGeography
) -> list[published_marginals.PublishedMarginal]:
    """For each level, and each choice of a grouping of every other variable, the marginal of a table."""
    choices = [_choices(table, variable, names) for variable, names in zip(table.variables, table.listed, strict=True)]
    marginals = []
    for chosen in product(*choices):
        by_name = {
            variable.name: (axis, name, codes)
            for axis, (variable, (name, codes)) in enumerate(zip(table.variables, chosen, strict=True))
        }
        area = next((variable for variable in table.variables if variable.areas), None)
        named = [name for variable, (name, _) in zip(table.variables, chosen, strict=True) if name and variable != area]
        query = published_rows.query_of(schema, "*".join(named) or TOTAL)
        # The axes in the order of the query, that of areas first.
        level = "" if area is None else by_name[area.name][1]
        axes = [] if area is None else [by_name[area.name][0]]
        axes += [by_name[variable.attribute.name][0] for variable in query.variables]
        depth, units = _units(geography, area, level)
        picked = figures[np.ix_(*(codes for _, codes in chosen))] if chosen else figures.reshape(())
        for axis, (_, codes) in enumerate(chosen):  # what this table does not go down to is unknown from it
            picked = np.where(
                np.expand_dims(codes == ABSENT, [a for a in range(len(chosen)) if a != axis]), np.nan, picked
            )
        rest = [axis for axis in range(picked.ndim) if axis not in axes]  # one code each: the total
        values = picked.transpose(axes + rest).reshape(len(units), query.cells)
        unit = np.repeat(units, query.cells)
        cell = np.tile(np.arange(query.cells, dtype=np.int64), len(units))
        arrays = published_marginals.sparse(unit, cell, values.reshape(-1), len(geography.units[depth]))
        marginals.append(published_marginals.PublishedMarginal(table.name, depth, query, *arrays, absent_unknown=True))
    return marginals


def _choices(table: HierarchicalTable, variable: Variable, names: Sequence[str]) -> list[tuple[str, Integers]]:
    """What a query can have of a variable: nothing of it, or a grouping by its name, with the codes of its groups."""
    everybody: tuple[str, Integers] = ("", np.array([ROOT], np.int64))
    if variable.given:
        number = {old: new for new, old in enumerate(variable.kept(names).tolist())}
        groupings = [
            (f"{variable.name}:{name}", np.array([number.get(code, ABSENT) for code in codes.tolist()], np.int64))
            for name, codes in strata(variable, names).items()
        ]
        return [everybody, *groupings] if variable.summed else groupings
    groupings = [(name, table.codes_of(variable, name)) for name in names]
    root_is_a_level = variable.areas and any(ROOT in codes for _, codes in groupings)
    return groupings if root_is_a_level else [everybody, *groupings]


def schema_of_tables(programme: SuppressionProgramme) -> Schema:
    """The schema of tables that were given as such: a level for every code without parts, a recode for every depth."""
    attributes, recodes = [], []
    for variable in programme.variables.values():
        codes = variable.tree.codes
        divided = {code for _, code, _ in variable.tree.divisions}
        leaves = [at for at in range(1, len(codes)) if at not in divided]
        attribute = Attribute(variable.name, variable.name, tuple(Level(codes[at], codes[at]) for at in leaves))
        attributes.append(attribute)
        for name, of_level in strata(variable, [grouping.name for grouping in variable.groupings]).items():
            groups = tuple(
                Group(codes[code], tuple(codes[at] for at in leaves if code in variable.above[at]))
                for code in of_level.tolist()
            )
            recodes.append(Recode(f"{variable.name}:{name}", attribute, groups))
    return Schema("given", "tables of cells", tuple(attributes), tuple(recodes))


def _units(
    geography: published_marginals.PublishedGeography, areas: Variable | None, level: str
) -> tuple[int, Integers]:
    """The depth of a level, and the unit of each of its areas in the order of the plan; of everybody, where a table has
    no level here."""
    if areas is None or not level:
        return len(geography.levels) - 1, np.zeros(1, np.int64)
    depth = geography.depth(level)
    return depth, published_rows.unit_of_code(areas.grouping(level).labels, geography.units[depth])
