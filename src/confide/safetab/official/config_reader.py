"""Takes values out of a ``config.json`` and notes what is wrong with them, instead of stopping at the first."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from confide.errors import Finding, Place

MOST_DIGITS = 100


@dataclass
class ConfigReader:
    """The values of a file, and the findings so far."""

    file: str
    values: dict[str, Any]
    findings: list[Finding] = field(default_factory=list)

    def problem(self, key: str, code: str, what: str, found: object, expected: str, remedy: str = "") -> None:
        shown = found if isinstance(found, str) else shown_value(found)
        where = Place(file=self.file, path=key)
        self.findings.append(Finding(code, what, where, shown, expected, remedy or f"correct {key} in {self.file}"))

    def number(self, key: str, value: Any) -> Decimal | None:
        """A finite or infinite number of reasonable length, or None with a finding."""
        if isinstance(value, bool) or not isinstance(value, int | Decimal):
            self.problem(key, "config-number", f"{key} is not a number", value, "a number")
            return None
        number = Decimal(value)
        if number.is_nan():
            self.problem(key, "config-number", f"{key} is not a number", "NaN", "a number")
            return None
        if number.is_finite() and (abs(number.adjusted()) > MOST_DIGITS or len(number.as_tuple().digits) > MOST_DIGITS):
            self.problem(
                key, "config-number", f"{key} is out of all proportion", "a number of very many digits", "a number"
            )
            return None
        return number


def shown_value(value: object) -> str:
    """A value of the file, which is public, cut short."""
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "..."
