"""Data files: those that ship with Confide, by name, and the user's own, by path."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

from confide.errors import Finding, Place, SpecError
from confide.schema import Schema, parse_schema

FOLDER = resources.files("confide") / "data"


def shipped(kind: str) -> list[str]:
    """The names of the shipped files of one kind (``schemas``)."""
    return sorted(file.name.removesuffix(".toml") for file in (FOLDER / kind).iterdir() if file.name.endswith(".toml"))


def load_shipped(kind: str, name: str) -> dict[str, Any]:
    """The values of a shipped file."""
    return tomllib.loads((FOLDER / kind / f"{name}.toml").read_text(encoding="utf-8"))


def load_schema(name: str, base: Path) -> Schema:
    """The schema shipped under ``name``, or read from the path ``name`` relative to ``base``."""
    if name in shipped("schemas"):
        return parse_schema(load_shipped("schemas", name))
    path = base / name
    values = read_toml(path, kind="schema", known=shipped("schemas"))
    try:
        return parse_schema(values)
    except SpecError as error:
        raise SpecError(
            replace(finding, where=replace(finding.where, file=path.name)) for finding in error.findings
        ) from None


def read_toml(path: Path, *, kind: str, known: list[str]) -> dict[str, Any]:
    """The values of a TOML file of the user's own."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (FileNotFoundError, NotADirectoryError):
        raise SpecError(
            Finding(
                code=f"no-{kind}",
                what=f"there is no {kind} of this name and no such file",
                found=str(path.name),
                expected=f"the path of a TOML file, or one of {', '.join(known)}",
                remedy=f"correct the name of the {kind}",
            )
        ) from None
    except (ValueError, RecursionError, OSError) as error:
        line = re.search(r"at line (\d+)", str(error))
        raise SpecError(
            Finding(
                code=f"bad-{kind}",
                what=f"the {kind} file cannot be read",
                where=Place(file=path.name, line=int(line.group(1)) if line else None),
                found=str(error) if isinstance(error, tomllib.TOMLDecodeError) else _in_short(error),
                expected="a TOML file in UTF-8",
                remedy="correct the file",
            )
        ) from None


def _in_short(error: Exception) -> str:
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return "bytes that are not UTF-8" if isinstance(error, UnicodeDecodeError) else "values that no parser takes"
