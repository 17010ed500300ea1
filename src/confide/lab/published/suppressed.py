"""Releases of ``suppression`` read back for attacks: exact counts, some of them left out and unknown.

Figures are taken cell by cell from the structure of the plan, not by labels: a group that two recodes have in common
has one row in the files and is known in both. Tables with areas, without, and both together are read; what a table
says of all areas together counts for everybody.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from confide.arrays import Floats, Integers
from confide.errors import ReleaseError
from confide.lab.published import rows
from confide.lab.published.marginals import (
    EVERYWHERE,
    Published,
    PublishedGeography,
    PublishedMarginal,
    one_unit,
    sparse,
)
from confide.lab.published.rows import nested, query_of, unit_of_code
from confide.mechanisms.suppression.output import read_table
from confide.mechanisms.suppression.programme import HierarchicalTable, SuppressionProgramme, described
from confide.mechanisms.suppression.structure import ROOT
from confide.mechanisms.suppression.variables import Variable, strata
from confide.releases import tabular
from confide.releases.folder import SealedRelease
from confide.schema import TOTAL, Attribute, Group, Level, Recode, Schema

ABSENT = -1
"""In place of a code that a table does not have."""
LEFT_OUT = "Figures that were left out are unknown: any record that the others allow will do in their place."


def read_suppression(asked: rows.ReadBack) -> Published:
    """Every crossing of one grouping of each variable, or of none, with every suppressed figure unknown. What lies in
    what the release itself says. Magnitudes count no persons and are refused."""
    asked.no_groups()
    release, question = asked.release, asked.release.facts
    if question["value"] is not None:
        raise rows.not_attacked(f"{release.manifest['mechanism']} of magnitudes")
    programme = described(question)
    schema = schema_of_tables(programme) if question["schema"] is None else asked.schema(question["schema"])
    by_area = next((variable for variable in programme.variables.values() if variable.areas), None)
    geography = one_unit() if by_area is None else _geography(by_area)
    marginals: list[PublishedMarginal] = []
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


def _geography(areas: Variable) -> PublishedGeography:
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
        columns[EVERYWHERE] = [EVERYWHERE] * len(chains)
    return nested(columns, finest.name)


def _marginals(
    table: HierarchicalTable, figures: Floats, schema: Schema, geography: PublishedGeography
) -> list[PublishedMarginal]:
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
        query = query_of(schema, "*".join(named) or TOTAL)
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
        arrays = sparse(unit, cell, values.reshape(-1), len(geography.units[depth]))
        marginals.append(PublishedMarginal(table.name, depth, query, *arrays, absent_unknown=True))
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


def _units(geography: PublishedGeography, areas: Variable | None, level: str) -> tuple[int, Integers]:
    """The depth of a level, and the unit of each of its areas in the order of the plan; of everybody, where a table has
    no level here."""
    if areas is None or not level:
        return len(geography.levels) - 1, np.zeros(1, np.int64)
    depth = geography.depth(level)
    return depth, unit_of_code(areas.grouping(level).labels, geography.units[depth])
