"""Specs for mechanisms, written as TOML: a part for each name, values in one line each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from fractions import Fraction
from typing import Any


def toml_text(parts: Mapping[str, Any], note: str) -> str:
    """A TOML file of parts; lists of tables become ``[[name]]``."""
    lines = [f"# {note}"]
    for name, part in parts.items():
        for one in part if isinstance(part, list) else [part]:
            lines += ["", f"[[{name}]]" if isinstance(part, list) else f"[{name}]"]
            lines += [f"{key} = {_value(value)}" for key, value in one.items()]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_value(each)}" for key, each in value.items()) + " }" if value else "{}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(each) for each in value) + "]"
    if isinstance(value, Fraction):
        return json.dumps(str(value))
    return json.dumps(value, ensure_ascii=False)
