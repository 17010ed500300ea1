"""A strategy for an office's own schema: every attribute, and all of them crossed, with one share on every level."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confide.inputs.proposals import OfficeFiles
from confide.inputs.proposals.column_proposal import free_name
from confide.releases.office_draft import SCHEMA, office_files, schema_text
from confide.report.render import render
from confide.schema import DETAILED, TOTAL

STRATEGY, FEWER = "strategy.toml", "estimated.toml"


def strategy_files(office: OfficeFiles, named: Mapping[str, Any]) -> dict[str, str]:
    """The files beside a spec of TopDown: schema, strategy and, where a histogram of all attributes would be too large
    for every place, a second schema with those that are estimated.

    Args:
        office: The files, with what is proposed of them.
        named: What the spec is filled with.
    """
    files = office_files(office)
    kept = office.few_attributes
    others = [each for each in office.attributes if each not in kept]
    if others:
        files[FEWER] = schema_text(office.records, kept)
    variables = [free_name(each.name) for each in kept]
    queries = [TOTAL, *(variables if len(variables) > 1 else ()), DETAILED]
    facts = {
        "schema_file": FEWER if others else SCHEMA,
        "not_estimated": [each.name for each in others],
        "queries": queries,
        "chain": variables[0] if len(variables) > 1 else None,
    }
    return files | {STRATEGY: render("own_strategy.toml.j2", **{**named, **facts})}
