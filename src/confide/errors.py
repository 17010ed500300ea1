"""What goes wrong, said so that a person can mend it.

A :class:`Finding` says what is wrong, where, what was found, what was expected and what to do. Checks collect
findings; an operation that cannot go on raises a :class:`ConfideError` that carries them. A finding about
confidential records names the row and the rule, never the value.

The place that finds something names a code and the facts; the texts are data (:mod:`confide.messages`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

from confide.messages import code_of, say, word

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
            parts.append(f"{word('line')} {self.line}")
        if self.row is not None:
            parts.append(f"{word('row')} {self.row:,}")
        if self.column is not None:
            parts.append(f"{word('column')} {self.column!r}")
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

    @classmethod
    def of(
        cls,
        key: str,
        /,
        *,
        where: Place = NOWHERE,
        found: str | None = None,
        code: str | None = None,
        severity: Severity = "error",
        **facts: object,
    ) -> Self:
        """A finding with the texts of a key.

        Args:
            key: The code, or ``code/variant`` where a code has several texts.
            where: Where it is.
            found: What was found, where the text does not say it.
            code: The code, where it is not that of the key: a file of settings has the codes of its kind.
            severity: Whether it is an error.
            facts: What the texts have places for, by name.

        >>> print(Finding.of("no-such-file/correct-path", where=Place(path="data.records"), found="people.csv"))
        data.records: there is no such file
          found: people.csv
          expected: a file
          remedy: correct the path
        """
        said = say(key, facts)
        return cls(
            code or code_of(key),
            said["what"],
            where,
            said.get("found", found),
            said.get("expected"),
            said.get("remedy"),
            severity,
        )

    def __str__(self) -> str:
        place = str(self.where)
        lines = [f"{place}: {self.what}" if place else self.what]
        lines += [
            f"  {word(name)}: {text}"
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

    Raised with the code and the facts of one finding, or with findings that were collected.

    Args:
        key: A finding, or several; or the key of the texts of the one finding: its code, or ``code/variant``.
        where: Where it is.
        found: What was found, where the text does not say it.
        facts: What the texts have places for, by name, and ``code`` as :meth:`Finding.of` has it.

    >>> error = ParameterError("selection-probability", found="1")
    >>> error.findings[0].code
    'selection-probability'
    >>> print(error)
    a probability of zero or one hides nothing
      found: 1
      expected: a probability above zero and below one, such as "0.1"
      remedy: correct the probability
    """

    findings: Sequence[Finding]

    def __init__(self, key: str | Finding | Iterable[Finding], /, **facts: Any) -> None:
        if isinstance(key, str):
            self.findings = (Finding.of(key, **facts),)
        else:
            self.findings = (key,) if isinstance(key, Finding) else tuple(key)
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
