"""The statement of a release from which cells are left out: it certifies no loss, and says what holds instead. Made
from the manifest alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confide.report.render import render
from confide.suppression.programme import Programme, Table, described


def suppression_statement(manifest: Mapping[str, Any]) -> str:
    """The statement as an HTML page."""
    question = manifest["plan"]["question"]
    programme = described(question)
    return render(
        "suppression.html.j2",
        title=f"Statement: {manifest['title']}",
        banner="",
        manifest=manifest,
        words=manifest["privacy"]["in_words"],
        rules=manifest["privacy"]["rules"],
        protection=manifest["privacy"]["protection"],
        part=question["suppression"],
        magnitude=question["value"],
        sizes=suppression_sizes(programme),
        tables=[_row(table) for table in programme.tables],
    )


def suppression_sizes(programme: Programme) -> dict[str, int]:
    """How large the tables are: how many, their rows, and the distinct cells behind these."""
    return {
        "tables": len(programme.tables),
        "rows": sum(len(table.lines[0]) for table in programme.tables),
        "cells": int(programme.linked.listed.sum()),
        "sums": programme.linked.structure.rows,
    }


def _row(table: Table) -> dict[str, Any]:
    return {
        "name": table.name,
        "title": table.title,
        "variables": [
            f"{' > '.join(names)} ({sum(variable.listed(names)):,})"
            for variable, names in zip(table.variables, table.listed, strict=True)
        ],
        "rows": len(table.lines[0]),
    }
