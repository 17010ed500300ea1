"""Plain values as the text of a TOML file, for specs that a program writes from another spec."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def toml_text(values: Mapping[str, Any]) -> str:
    """The text of a TOML file with these values: a table for each part, and all that is deeper in one line each.

    Args:
        values: Texts, whole numbers, decimals, truth values, lists and dictionaries of them.

    Returns:
        The text.

    >>> print(toml_text({"release": {"name": "a"}, "tables": [{"variables": ["sex", "age:five-year"]}]}), end="")
    [release]
    name = "a"
    <BLANKLINE>
    [[tables]]
    variables = ["sex", "age:five-year"]
    """
    plain = {key: value for key, value in values.items() if not _is_table(value)}
    parts = ["".join(f"{_key(key)} = {_value(value)}\n" for key, value in plain.items())] if plain else []
    for key, value in values.items():
        if _is_table(value):
            opened = f"[{_key(key)}]" if isinstance(value, Mapping) else f"[[{_key(key)}]]"
            for table in [value] if isinstance(value, Mapping) else value:
                lines = "".join(f"{_key(name)} = {_value(inner)}\n" for name, inner in table.items())
                parts.append(f"{opened}\n{lines}")
    return "\n".join(parts)


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping) or (
        isinstance(value, list) and bool(value) and all(isinstance(item, Mapping) for item in value)
    )


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float | Decimal):
        return str(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(key)} = {_value(inner)}" for key, inner in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    raise TypeError(f"no value of a settings file: {type(value).__name__}")


def _text(value: str) -> str:
    # The escapes of JSON are those of TOML, but for one character that JSON leaves as it is.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
