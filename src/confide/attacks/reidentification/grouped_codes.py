"""Attributes that tables publish in groups: the codes of all three files as the groups of a recode.

Where tables show an attribute in groups alone, a reconstructed record has no code of it but the label of its group, in
a column ``ATTRIBUTE_bin``. The truth has codes. Comparing the two as they are would match nobody, and nobody recognised
looks like safety; so both are brought to the groups of one recode of the schema first.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from confide.attacks.reidentification.columns import code_text, plain
from confide.attacks.reidentification.people_files import AGE, LinkedAttributes, Role
from confide.documents import load_schema
from confide.errors import CONFIDENTIAL, InputError, ParameterError, Place
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
        The attributes, and the recodes that their codes are brought to.
    """
    recoded = [name for name in (*known, *learnt) if ":" in name]
    if recoded and schema is None:
        raise ParameterError(
            "no-schema",
            "groups of codes are known to a schema alone",
            where=Place(path="--schema"),
            found=", ".join(recoded),
            expected="the schema that has these recodes",
            remedy="give it with --schema FILE",
        )
    groups: tuple[Recode, ...] = ()
    if recoded:
        held: Schema = load_schema(str(schema), Path())
        groups = tuple(held.variable(name) for name in recoded)
    years = AGE in known
    names = [[name.partition(":")[0] for name in part if name != AGE or part is not known] for part in (known, learnt)]
    return LinkedAttributes(tuple(names[0]), tuple(names[1]), years, tuple(r.attribute.name for r in groups)), groups


def grouped(table: pa.Table, role: Role, groups: Sequence[Recode]) -> pa.Table:
    """A table whose codes of some attributes are the labels of their groups."""
    for recode in groups:
        name = recode.attribute.name
        if name in table.column_names:
            place = table.column_names.index(name)
            table = table.set_column(place, name, _labels(table, role, recode))
    return table


def _labels(table: pa.Table, role: Role, recode: Recode) -> pa.Array:
    name = recode.attribute.name
    codes = code_text(plain(table.column(name)).cast(pa.large_string()))
    texts = [str(level.code) for level in recode.attribute.levels]
    own = {text: _group(recode, [position]) for position, text in enumerate(texts)}
    labels = _looked_up(codes, {code_text(pa.array([text]))[0].as_py(): label for text, label in own.items()})
    _refuse_unknown(role, name, codes, labels, "codes of the schema that the recode has a group for")
    shown = f"{name}_bin"
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
