"""The description beside a suppressed table that is to be audited: its variables, files, and what an attacker knows.

It is a TOML file; ``docs/concepts/suppression.md`` has all of its keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from confide.documents import FileKind, Part, load
from confide.errors import Finding, InputError, ParameterError, Place

MARKS = ["", "x", "X", ":", "c", "C", "..", "suppressed"]
"""What commonly stands for a suppressed cell."""

NAMES = ("table.toml", "tables.toml", "suppression.toml")


AUDIT = FileKind(
    "description", code="table-description", own_codes=False, remedy="correct the description", error=InputError
)


class VariableText(Part):
    """A variable: what its total is called, and which codes have parts."""

    total: str = "_T"
    parts: dict[str, list[str]] = Field(default_factory=dict)


class TableText(Part):
    """A table in a file."""

    file: str | None = None
    name: str | None = None
    value: str = "count"
    status: str | None = None
    suppressed: list[str] = Field(default_factory=lambda: list(MARKS))
    columns: dict[str, str] = Field(default_factory=dict)
    variables: list[str] | None = None
    delimiter: str = Field(",", min_length=1, max_length=1)
    missing: Literal["refuse", "zero", "hidden"] = "refuse"


class AttackerText(Part):
    """What an attacker knows beforehand of a hidden cell."""

    low: float = Field(0.0, allow_inf_nan=False)
    high: float | None = Field(None, allow_inf_nan=False)
    integer: bool = True
    rounding: float = Field(0.0, ge=0, allow_inf_nan=False)

    @model_validator(mode="after")
    def in_order(self) -> AttackerText:
        if self.high is not None and self.high < self.low:
            raise ValueError("high is less than low")
        return self


class ProtectionText(Part):
    """What is required of intervals: of all, or, with true figures, of small counts or in percent."""

    width: float = Field(0.0, ge=0, allow_inf_nan=False)
    threshold: int | None = Field(None, ge=1)
    percent: float | None = Field(None, gt=0, le=100)


class SuppressionDescription(Part):
    """The whole description."""

    variables: dict[str, VariableText]
    tables: list[TableText] = Field(min_length=1)
    attacker: AttackerText = AttackerText()
    protection: ProtectionText = ProtectionText()


@dataclass(frozen=True, eq=False)
class AuditInput:
    """A description and the folder that its files are in."""

    description: SuppressionDescription
    folder: Path
    file: Path
    data: Path | None
    assumed: bool = False
    """Whether nobody wrote it: the table was taken for what such tables commonly are."""


def describe(path: Path) -> AuditInput:
    """The description of a table: the file itself, one beside the data, or one in the folder."""
    data = None
    if path.is_dir():
        named = [path / name for name in NAMES if (path / name).is_file()] or sorted(path.glob("*.toml"))
        file = named[0] if len(named) == 1 or (named and named[0].name in NAMES) else None
    elif path.suffix == ".toml":
        file = path if path.is_file() else None
    else:
        data, file = path, path.with_suffix(".toml")
        file = file if path.is_file() and file.is_file() else None
    if file is None:
        raise ParameterError(
            "no-description",
            "there is no description of the table",
            where=Place(file=str(path)),
            found="no TOML file" if path.exists() else "no such file or folder",
            expected=f"{NAMES[0]} in the folder, or a TOML file beside the data that bears its name",
            remedy="write one: [variables.NAME] for each variable and [[tables]] with file and value",
        )
    return AuditInput(load(file, SuppressionDescription, kind=AUDIT).value, file.parent, file, data)


def wrong(path: Path, what: str, found: str | None, expected: str) -> Finding:
    return Finding("table-description", what, Place(file=path.name), found, expected, "correct the description")
