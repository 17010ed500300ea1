"""Codes of all three files as a schema has them: as it spells them, or as the groups of a recode that tables publish.

Where tables show an attribute in groups alone, a reconstructed record has no code of it but the label of its group, in
a column ``ATTRIBUTE_bin``. The truth has codes. Comparing the two as they are would match nobody, and nobody recognised
looks like safety; so both are brought to the groups of one recode of the schema first. An office whose records write a
code in several ways gives its schema as well: ``M`` and ``Male`` would be two people otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from confide.attacks.reidentification.columns import plain
from confide.attacks.reidentification.people_files import AGE, LinkedAttributes, Role
from confide.documents import load_schema
from confide.errors import CONFIDENTIAL, InputError, ParameterError, Place
from confide.inputs.spelled import codes_meant
from confide.schema import NO_GROUP, Recode, Schema


def linked_variables(
    known: Sequence[str], learnt: Sequence[str], schema: str | Path | None
) -> tuple[LinkedAttributes, tuple[Recode, ...]]:
    """What is known and learnt, by names of attributes or of recodes such as ``age:broad``.

    Args:
        known: What the attacker knows; ``age`` is an age in years.
        learnt: What is to be learnt.
        schema: The schema that has the recodes; a shipped name or a file.

    Returns:
        The attributes, and the variables of the schema that their codes are brought to.
    """
    recoded = [name for name in (*known, *learnt) if ":" in name]
    if recoded and schema is None:
        raise ParameterError(
            "no-schema",
            "only a schema says which codes form a group",
            where=Place(path="--schema"),
            found=", ".join(recoded),
            expected="the schema that has these recodes",
            remedy="give it with --schema FILE",
        )
    variables: tuple[Recode, ...] = ()
    if schema is not None:
        held: Schema = load_schema(str(schema), Path())
        wanted = [name for name in (*known, *learnt) if ":" in name or (name != AGE and name in held.variables)]
        variables = tuple(held.variable(name) for name in wanted)
    years = AGE in known
    names = [[name.partition(":")[0] for name in part if name != AGE or part is not known] for part in (known, learnt)]
    in_groups = tuple(recode.attribute.name for recode in variables if recode.name in recoded)
    return LinkedAttributes(tuple(names[0]), tuple(names[1]), years, in_groups), variables


def as_in_schema(table: pa.Table, role: Role, variables: Sequence[Recode]) -> pa.Table:
    """A table whose codes of some attributes are the labels of the schema: of codes, or of groups of them."""
    for recode in variables:
        name = recode.attribute.name
        if name in table.column_names:
            place = table.column_names.index(name)
            table = table.set_column(place, name, _labels(table, role, recode))
    return table


def _labels(table: pa.Table, role: Role, recode: Recode) -> pa.Array:
    attribute = recode.attribute
    given = plain(table.column(attribute.name)).cast(pa.large_string())
    # Nothing is not known of a reconstructed record; of a true one it means what the schema says.
    codes = codes_meant(given.to_pylist(), attribute, blanks_mean=role is not Role.RECONSTRUCTED)
    label_of = {level.code: _group(recode, [place]) for place, level in enumerate(attribute.levels)}
    labels = pa.array([None if code is None else label_of[code] for code in codes], pa.large_string())
    _refuse_unknown(role, attribute.name, given, labels, "codes of the schema that the recode has a group for")
    shown = f"{attribute.name}_bin"
    if role is not Role.RECONSTRUCTED or shown not in table.column_names:
        return labels
    published = plain(table.column(shown)).cast(pa.large_string())
    by_label = _looked_up(published, _published_groups(recode))
    _refuse_unknown(role, shown, published, by_label, f"labels of groups that lie in one group of {recode.name!r}")
    return pc.coalesce(labels, by_label)


def _published_groups(recode: Recode) -> dict[str, str | None]:
    """The label of every set of codes that a table may show, and its group: of codes, and of the recode itself."""
    single = {level.label: _group(recode, [place]) for place, level in enumerate(recode.attribute.levels)}
    return single | {group.label: group.label for group in recode.groups}


def _group(recode: Recode, levels: Sequence[int]) -> str | None:
    places = {int(recode.assignment[level]) for level in levels}
    if len(places) != 1 or NO_GROUP in places:
        return None
    return recode.labels[places.pop()]


def _looked_up(values: pa.Array, named: dict[str, str | None]) -> pa.Array:
    keys, labels = pa.array(list(named), pa.large_string()), pa.array(list(named.values()), pa.large_string())
    return labels.take(pc.index_in(values, value_set=keys))


def _refuse_unknown(role: Role, name: str, given: pa.Array, labels: pa.Array, expected: str) -> None:
    blank = pc.fill_null(pc.equal(pc.utf8_trim_whitespace(given), ""), fill_value=True)
    lost = pc.and_(pc.invert(blank), pc.is_null(labels))
    number = pc.sum(lost).as_py() or 0
    if number:
        raise InputError(
            "no-group",
            f"{number:,} values of the file {role.value} belong to no group",
            where=Place(file=role.value, column=name, row=int(pc.index(lost, value=True).as_py()) + 1),
            found=CONFIDENTIAL,
            expected=expected,
            remedy="give the schema that the tables were made with, and the recode that they publish",
        )
