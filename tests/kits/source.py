"""The source of Confide as Python reads it: parsed once in a process of the tests, whoever asks."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

HOUSE = Path(__file__).parents[2] / "src" / "confide"


@cache
def trees() -> dict[str, ast.Module]:
    """Every module by its place in the house."""
    return {
        path.relative_to(HOUSE).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(HOUSE.rglob("*.py"))
    }


@cache
def nodes(place: str) -> list[ast.AST]:
    """Everything in a module."""
    return list(ast.walk(trees()[place]))


def calls(place: str) -> list[ast.Call]:
    """Every call in a module."""
    return [node for node in nodes(place) if isinstance(node, ast.Call)]
