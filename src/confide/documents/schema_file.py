"""Schema files: the form in which people write a schema, and what it is for the rest of the system.

An attribute lists ``levels`` as code-label pairs, or a ``range`` of whole numbers, or a range and levels; or it
is the attribute of its name ``as_in`` a schema that ships. What records write instead of these codes is in
``missing``, ``aliases``, ``trim`` and ``ignore_case``. A recode lists ``groups``, each a label with codes, a code, or
an inclusive range written ``"5..9"``; or it cuts the range by the first code of each group in ``starts``.

A schema can be written as a file again, for folders that carry the schema of their tables with them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import Field

from confide.documents.settings_file import FileKind, Loaded, Part, Problem, Stands, load_named, load_values, shipped
from confide.errors import NOWHERE, SpecError
from confide.schema import Attribute, Code, Group, Level, Recode, Schema, Spelling, as_read

SCHEMA = FileKind(
    "schema", code="schema", unreadable="bad-schema", shipped="schemas", remedy="correct this line of the schema file"
)
LONGEST_RANGE = 100_000
"""How many levels a range may stand for."""

T = TypeVar("T")
Label = str | int
LevelPair = Annotated[tuple[Code, Label], Field(strict=False)]
Bounds = Annotated[tuple[int, int], Field(strict=False)]


class RecodePart(Part):
    """Groups of the levels of an attribute, or where they start."""

    groups: dict[str, Code | list[Code]] | None = Field(None, description="Label = code, range of codes, or a list.")
    starts: list[int] | None = Field(None, description="Or: the first code of each group of a range.")


class MissingPart(Part):
    """The level of records in which the value is missing."""

    label: str = Field(description="The label of the level; one of the levels, or a new one after them.")
    code: Code | None = Field(None, description="Its code; default: _U, or the first of 9, 99, 999, ... that is free.")
    codes: list[Code] = Field(
        default_factory=list, description="Values that mean the same as an empty one, such as n/a."
    )


class AttributePart(Part):
    """An attribute: its levels, or a range of whole numbers."""

    title: str | None = Field(None, description="What people read; default: the name.")
    levels: list[LevelPair] | None = Field(
        None, description="Pairs of a code and its label; with a range: labels for some of it, and further codes."
    )
    range: Bounds | None = Field(None, description="The first and the last of whole numbers.")
    as_in: str | None = Field(
        None,
        description="Instead: a schema that ships and has an attribute of this name; its title, levels and recodes.",
    )
    missing: str | MissingPart | None = Field(
        None, description="The label of the level of records with an empty value, or a table that lists other values."
    )
    aliases: dict[str, Code | list[Code]] = Field(
        default_factory=dict, description="Code = other texts for it in the records, such as M = ['m', 'Male']."
    )
    trim: bool | None = Field(None, description="Whether blanks at either end of a value are no part of it.")
    ignore_case: bool | None = Field(None, description="Whether upper and lower case are alike in the records.")
    recodes: dict[str, RecodePart] = Field(default_factory=dict)


class SchemaFile(Part):
    """The whole file."""

    id: str
    provenance: str = Field(description="One sentence: where the codes come from.")
    trim: bool = Field(False, description="trim of every attribute that says nothing.")
    ignore_case: bool = Field(False, description="ignore_case of every attribute that says nothing.")
    attributes: dict[str, AttributePart] = Field(min_length=1)

    def with_recodes(self, recodes: Mapping[str, Mapping[str, RecodePart]]) -> SchemaFile:
        """The same with further recodes of its attributes."""
        attributes = dict(self.attributes)
        for name, further in recodes.items():
            part = attributes[name]
            attributes[name] = part.model_copy(update={"recodes": {**part.recodes, **further}})
        return self.model_copy(update={"attributes": attributes})


def load_schema(name: str, base: Path, where: Stands = NOWHERE) -> Schema:
    """The schema that ships under a name, or that of a file.

    Args:
        name: A shipped name (``persons``), or the path of a TOML file.
        base: The folder that the path is relative to.
        where: Where the name is, such as a line of a spec.

    Returns:
        The schema.

    Raises:
        SpecError: with every finding, each at its line.

    >>> load_schema("persons", Path()).attributes[0].name
    'sex'
    """
    return _built(load_schema_file(name, base, where))


def load_schema_file(name: str, base: Path, where: Stands = NOWHERE) -> Loaded[SchemaFile]:
    """The same as it is written."""
    return load_named(name, base, SchemaFile, kind=SCHEMA, where=where)


def parse_schema(values: Mapping[str, Any], file: str = "") -> Schema:
    """The schema in the plain values of a schema file; ``file`` is what findings call it.

    >>> sex = {"levels": [[1, "male"], [2, "female"]]}
    >>> parse_schema({"id": "s", "provenance": "an example", "attributes": {"sex": sex}}).query("sex").cells
    2
    """
    return _built(load_values(values, file, SchemaFile, kind=SCHEMA))


def _built(loaded: Loaded[SchemaFile]) -> Schema:
    schema, problems = build_schema(loaded.value)
    loaded.refuse(problems)
    return schema


def build_schema(file: SchemaFile) -> tuple[Schema, list[Problem]]:
    """The schema of a file, and every problem. With a problem, the schema is not to be used."""
    problems: list[Problem] = []
    attributes: list[Attribute] = []
    recodes: list[Recode] = []
    for name, given in file.attributes.items():
        path = ("attributes", name)
        part = _gathered(problems, path, "an attribute of a schema that ships", _as_in, name, given)
        if part is None:
            continue
        attribute = _gathered(problems, path, "levels as [code, label] pairs, or a range", _attribute, name, part, file)
        if attribute is None:
            continue
        attributes.append(attribute)
        for recode_name, recode_part in part.recodes.items():
            place, expected = (*path, "recodes", recode_name), "groups, each a label with codes, or starts"
            recode = _gathered(problems, place, expected, _recode, attribute, recode_name, recode_part, part.range)
            recodes += [] if recode is None else [recode]
    parts = (tuple(attributes), tuple(recodes))
    folded = [attribute.name.lower() for attribute in attributes]
    again = next((at for at, name in enumerate(folded) if name in folded[:at]), -1)
    repeated = ("attributes", *(attribute.name for attribute in attributes[again:][:1]))
    schema = _gathered(problems, repeated, "names that differ", Schema, file.id, file.provenance, *parts)
    return schema or Schema(file.id, file.provenance, (), ()), problems


def _gathered(
    problems: list[Problem], path: tuple[str, ...], expected: str, make: Callable[..., T], *values: Any
) -> T | None:
    """What ``make`` makes of a part of the file; or nothing, and a problem at ``path``."""
    try:
        return make(*values)
    except SpecError as error:
        problems += [
            Problem(path, each.code, each.what, each.expected or expected, each.found, each.remedy or SCHEMA.remedy)
            for each in error.findings
        ]
    except ValueError:
        problems.append(Problem.of(path, "schema/part", expected=expected, remedy=SCHEMA.remedy))
    return None


def _as_in(name: str, part: AttributePart) -> AttributePart:
    """An attribute with what it takes from a schema that ships; what else the file says of it is added."""
    if part.as_in is None:
        return part
    own = [key for key in ("title", "levels", "range", "missing") if key in part.model_fields_set]
    if own:
        raise SpecError("schema-attribute/as-in-own", found=", ".join(own), name=name, schema=part.as_in)
    named = shipped(SCHEMA.shipped)
    source = load_schema_file(part.as_in, Path()).value.attributes if part.as_in in named else {}
    if name not in source:
        raise SpecError(
            "schema-attribute/as-in", found=repr(part.as_in), name=name, schema=part.as_in, names=", ".join(named)
        )
    added = {key: getattr(part, key) for key in part.model_fields_set - {"as_in", "recodes"}}
    return source[name].model_copy(update={**added, "recodes": {**source[name].recodes, **part.recodes}})


def _attribute(name: str, part: AttributePart, file: SchemaFile) -> Attribute:
    levels = _levels(part)
    missing = MissingPart(label=part.missing) if isinstance(part.missing, str) else part.missing
    code_of_missing: Code | None = None
    if missing is not None:
        _not_a_code(name, missing.label, levels)
        code_of_missing = next((level.code for level in levels if level.label == missing.label), missing.code)
        if missing.code not in (None, code_of_missing):
            raise SpecError(
                "schema-attribute/another",
                found=repr(missing.code),
                name=name,
                missing_label=missing.label,
                code_of_missing=code_of_missing,
            )
        code_of_missing = _code_of_missing(levels) if code_of_missing is None else code_of_missing
        if all(level.label != missing.label for level in levels):
            levels = (*levels, Level(code_of_missing, missing.label))
    by_text = {str(level.code): level.code for level in levels}
    aliases = [
        (str(text), by_text.get(code, code))
        for code, texts in part.aliases.items()
        for text in (texts if isinstance(texts, list) else [texts])
    ]
    if missing is not None and code_of_missing is not None:
        aliases += [(str(text), code_of_missing) for text in missing.codes if str(text).strip()]
    spelling = Spelling(
        file.trim if part.trim is None else part.trim,
        file.ignore_case if part.ignore_case is None else part.ignore_case,
        tuple(aliases),
        code_of_missing,
    )
    return Attribute(name, name if part.title is None else part.title, levels, spelling)


def _not_a_code(name: str, label: str, levels: tuple[Level, ...]) -> None:
    """Refuses a label of missing values that is the code of a level: these people would stand in two rows."""
    read = as_read(label).casefold()
    meant = next((level for level in levels if as_read(str(level.code)).casefold() == read), None)
    if meant is None or any(level.label == label for level in levels):
        return
    raise SpecError(
        "missing-is-a-code",
        found=repr(label),
        name=name,
        meant_label=meant.label,
        meant_label_remedy=json.dumps(meant.label, ensure_ascii=False),
    )


def _levels(part: AttributePart) -> tuple[Level, ...]:
    """The levels of a range, with the labels that are given, and after them the others that are listed."""
    if part.range is None and part.levels is None:
        raise ValueError
    listed = [Level(code, str(label)) for code, label in part.levels or ()]
    if part.range is None:
        return tuple(listed)
    labels = {level.code: level.label for level in listed}
    if len(labels) < len(listed):
        return tuple(listed)  # a code that is there twice is refused where every list of levels is
    numbers = _counted(*part.range)
    levels = [Level(number, labels.get(number, str(number))) for number in numbers]
    return (*levels, *(level for level in listed if level.code not in numbers))


def _code_of_missing(levels: tuple[Level, ...]) -> Code:
    """What records get for a code in which the value is missing: all nines, as is usual, or SDMX's word for unknown."""
    numbers = [level.code for level in levels if isinstance(level.code, int)]
    if len(numbers) < len(levels):
        return "_U"
    code = 9
    while code <= max(numbers, default=0):
        code = 10 * code + 9
    return code


def _recode(attribute: Attribute, name: str, part: RecodePart, bounds: tuple[int, int] | None) -> Recode:
    full_name = f"{attribute.name}:{name}"
    if part.starts is not None:
        return Recode(full_name, attribute, _cut(attribute, part.starts, bounds))
    if part.groups is None:
        raise ValueError
    groups = tuple(Group(label, tuple(codes_in(attribute, member))) for label, member in part.groups.items())
    return Recode(full_name, attribute, groups)


def _cut(attribute: Attribute, starts: list[int], bounds: tuple[int, int] | None) -> tuple[Group, ...]:
    """Groups of numbers, cut by the first of each; a level that is no number of the range is a group of its own."""
    numbers = None if bounds is None else _counted(*bounds)
    added = [
        level
        for level in attribute.levels
        if level.code == attribute.spelling.missing or (numbers is not None and level.code not in numbers)
    ]
    codes = [int(level.code) for level in attribute.levels if level not in added]
    groups = []
    for first, end in pairwise([*starts, codes[-1] + 1]):
        if end == first + 1:
            label = f"{first}"
        elif end > codes[-1]:
            label = f"{first} and over"
        else:
            label = f"{first} to {end - 1}"
        groups.append(Group(label, tuple(code for code in codes if first <= code < end)))
    return (*groups, *(Group(level.label, (level.code,)) for level in added))


def codes_in(attribute: Attribute, member: Code | list[Code]) -> list[Code]:
    """The codes that a file lists for an attribute: one, a list of them, or of whole numbers a range ``"5..9"``."""
    if isinstance(member, list):
        return [code for part in member for code in codes_in(attribute, part)]
    if isinstance(member, str) and re.fullmatch(r"-?\d+\.\.-?\d+", member) and attribute.is_integer:
        first, last = (int(bound) for bound in member.split(".."))
        return list(_counted(first, last))
    return [member]


def _counted(first: int, last: int) -> range:
    if last - first >= LONGEST_RANGE:
        raise ValueError
    return range(first, last + 1)


# A schema as a file again: for folders that carry the schema of their tables with them.


def schema_text(document: dict[str, Any]) -> str:
    """The plain values of a schema as the text of a TOML file."""
    lines = [f"id = {json.dumps(document['id'])}", f"provenance = {json.dumps(document['provenance'])}"]
    for name, body in document["attributes"].items():
        lines += ["", f"[attributes.{_key(name)}]"]
        if "as_in" in body:
            lines += [f"as_in = {json.dumps(body['as_in'])}"]
        else:
            lines += [f"title = {json.dumps(body['title'])}", _levels_text(body)]
        for recode, given in body.get("recodes", {}).items():
            if "starts" in given:
                lines += [f"[attributes.{_key(name)}.recodes.{_key(recode)}]", f"starts = {given['starts']}"]
                continue
            lines += [f"[attributes.{_key(name)}.recodes.{_key(recode)}.groups]"]
            lines += [f"{json.dumps(label)} = {json.dumps(codes)}" for label, codes in given["groups"].items()]
    return "\n".join(lines) + "\n"


def _levels_text(body: Mapping[str, Any]) -> str:
    if "range" in body:
        return f"range = {body['range']}"
    rows = [f"  [{json.dumps(code)}, {json.dumps(label)}]," for code, label in body["levels"]]
    return "\n".join(["levels = [", *rows, "]"])


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)


def attribute_document(attribute: Attribute, recodes: Iterable[Recode] = ()) -> dict[str, Any]:
    """The plain values of an attribute as it is."""
    return {
        "title": attribute.title,
        "levels": [[level.code, level.label] for level in attribute.levels],
        "recodes": {
            recode.name.partition(":")[2]: {"groups": {group.label: [*group.codes] for group in recode.groups}}
            for recode in recodes
        },
    }


def schema_document(schema: Schema) -> dict[str, Any]:
    """The plain values of a schema: what its file says, every code and group written out."""
    attributes = {
        attribute.name: attribute_document(
            attribute, [recode for recode in schema.recodes if recode.attribute.name == attribute.name]
        )
        for attribute in schema.attributes
    }
    return {"id": schema.id, "provenance": schema.provenance, "attributes": attributes}
