"""What goes wrong, said so that a person can mend it.

A :class:`Finding` says what is wrong, where, what was found, what was expected and what to do. Checks collect
findings; an operation that cannot go on raises a :class:`ConfideError` that carries them. A finding about
confidential records names the row and the rule, never the value.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, overload

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a finding is: a file with a line or a row and a column, or a path inside a spec."""

    file: str | None = None
    line: int | None = None
    row: int | None = None
    column: str | None = None
    path: str | None = None

    def __str__(self) -> str:
        parts = [] if self.file is None else [self.file]
        if self.line is not None:
            parts.append(f"line {self.line}")
        if self.row is not None:
            parts.append(f"row {self.row:,}")
        if self.column is not None:
            parts.append(f"column {self.column!r}")
        if self.path is not None:
            parts.append(self.path)
        return ", ".join(parts)


NOWHERE = Place()
CONFIDENTIAL = "not shown: the value is confidential"


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem of an input, a spec, a ledger or a release.

    ``code`` is a short stable name for programs; the other fields are sentences for people.
    """

    code: str
    what: str
    where: Place = NOWHERE
    found: str | None = None
    expected: str | None = None
    remedy: str | None = None
    severity: Severity = "error"

    def __str__(self) -> str:
        place = str(self.where)
        lines = [f"{place}: {self.what}" if place else self.what]
        lines += [
            f"  {name}: {text}"
            for name, text in (("found", self.found), ("expected", self.expected), ("remedy", self.remedy))
            if text is not None
        ]
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """The finding as plain values for ``--json``."""
        result = asdict(self)
        result["where"] = {name: value for name, value in result["where"].items() if value is not None}
        return {name: value for name, value in result.items() if value is not None}


class ConfideError(Exception):
    """Base of every error that a person can act on. Carries at least one finding.

    Raised with the fields of a finding in one call, or with findings that were collected.

    Args:
        code: The code of the one finding; or a finding, or several.
        what: What is wrong, in a sentence. Given with a code, and only then.
        where: Where it is.
        found: What was found.
        expected: What was expected.
        remedy: What to do.

    >>> error = ParameterError("not-positive", "a budget is positive", found="-1", remedy="give a positive number")
    >>> error.findings[0].code
    'not-positive'
    >>> print(error)
    a budget is positive
      found: -1
      remedy: give a positive number
    """

    findings: Sequence[Finding]

    @overload
    def __init__(
        self,
        code: str,
        what: str,
        where: Place = NOWHERE,
        found: str | None = None,
        expected: str | None = None,
        remedy: str | None = None,
    ): ...
    @overload
    def __init__(self, code: Finding | Iterable[Finding]): ...

    def __init__(
        self,
        code: str | Finding | Iterable[Finding],
        what: str = "",
        where: Place = NOWHERE,
        found: str | None = None,
        expected: str | None = None,
        remedy: str | None = None,
    ):
        if isinstance(code, str):
            self.findings = (Finding(code, what, where, found, expected, remedy),)
        else:
            self.findings = (code,) if isinstance(code, Finding) else tuple(code)
        super().__init__("\n".join(str(finding) for finding in self.findings))

    def __reduce__(self) -> tuple[type[ConfideError], tuple[tuple[Finding, ...]]]:
        """An error that a worker process raises arrives with its findings."""
        return type(self), (tuple(self.findings),)


class ParameterError(ConfideError, ValueError):
    """A number or a name given to a function is not what the definition allows."""


class SpecError(ConfideError):
    """The spec file, or a data file it names (schema, strategy), is wrong."""


class InputError(ConfideError):
    """Records or frame are not as declared."""


class LedgerError(ConfideError):
    """The ledger refuses, is damaged or is not there."""


class BudgetExceededError(LedgerError):
    """The cost of a plan does not fit into what is left of the data set's budget."""


class RunError(ConfideError):
    """A run cannot start, go on or be sealed."""


class ReleaseError(ConfideError):
    """A release folder is not what its manifest says."""
