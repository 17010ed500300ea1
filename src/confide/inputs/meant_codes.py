"""Codes of a schema out of texts in memory: what a record means, where there is no engine to ask.

The same as :mod:`confide.inputs.spelled` says in SQL: blanks, case, aliases and missing values as the schema has them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from confide.schema import BLANKS, Attribute, Code

_WHOLE = re.compile(r"[+-]?0*(\d+)(?:\.0*)?")


def codes_meant(values: Iterable[str | None], attribute: Attribute, *, blanks_mean: bool = True) -> list[Code | None]:
    """For each text the code that it means; None where it is none of the schema's.

    Args:
        values: What stands in the column.
        attribute: The attribute, with its spelling.
        blanks_mean: Whether nothing means what the schema says of it; false for files in which nothing is unknown.

    >>> from confide.schema import Level
    >>> codes_meant(["1", "01", "x", None], Attribute("sex", "Sex", (Level(1, "male"), Level(2, "female"))))
    [1, 1, None, None]
    """
    spelling = attribute.spelling
    by_text = {spelling.compared(str(level.code)): level.code for level in attribute.levels} | attribute.alias_table

    def meant(text: str | None) -> Code | None:
        if text is None or not text.strip(BLANKS):
            return spelling.missing if blanks_mean else None
        compared = spelling.compared(text)
        if compared not in by_text and attribute.is_integer and (number := _WHOLE.fullmatch(text.strip(BLANKS))):
            compared = ("-" if text.strip(BLANKS).startswith("-") else "") + number.group(1)
        return by_text.get(compared)

    known: dict[str | None, Code | None] = {}
    return [known[text] if text in known else known.setdefault(text, meant(text)) for text in values]
