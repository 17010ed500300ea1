"""Data files: those that ship with Confide, by name, and the user's own, by path."""

from __future__ import annotations

import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

from confide.errors import Finding, Place, SpecError
from confide.schema import Schema, parse_schema

FOLDER = resources.files("confide") / "data"


def shipped(kind: str) -> list[str]:
    """The names of the shipped files of one kind (``schemas``)."""
    return sorted(file.name.removesuffix(".toml") for file in (FOLDER / kind).iterdir() if file.name.endswith(".toml"))


def load_schema(name: str, base: Path) -> Schema:
    """The schema shipped under ``name``, or read from the path ``name`` relative to ``base``."""
    if name in shipped("schemas"):
        return parse_schema(tomllib.loads((FOLDER / "schemas" / f"{name}.toml").read_text(encoding="utf-8")))
    path = base / name
    return parse_schema(read_toml(path, kind="schema", known=shipped("schemas")))


def read_toml(path: Path, *, kind: str, known: list[str]) -> dict[str, Any]:
    """The values of a TOML file of the user's own."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SpecError(
            Finding(
                code=f"no-{kind}",
                what=f"there is no {kind} of this name and no such file",
                found=str(path.name),
                expected=f"the path of a TOML file, or one of {', '.join(known)}",
                remedy=f"correct the name of the {kind}",
            )
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise SpecError(
            Finding(
                code=f"bad-{kind}",
                what=f"the {kind} file cannot be read",
                where=Place(file=path.name),
                found=str(error) if isinstance(error, tomllib.TOMLDecodeError) else type(error).__name__,
                expected="a TOML file in UTF-8",
                remedy="correct the file",
            )
        ) from None
