"""A schema as a file again: for folders that carry the schema of their tables with them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from confide.schema import Attribute, Recode, Schema


def schema_text(document: dict[str, Any]) -> str:
    """The plain values of a schema as the text of a TOML file."""
    lines = [f"id = {json.dumps(document['id'])}", f"provenance = {json.dumps(document['provenance'])}"]
    for name, body in document["attributes"].items():
        lines += ["", f"[attributes.{_key(name)}]", f"title = {json.dumps(body['title'])}"]
        lines += [_levels_text(body)]
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
