"""What a value of a TOML file should have been, in plain words.

The models that check such files speak to programmers, of inputs, fields and instances. A person who has to mend the
file is told what to write instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_KINDS = {
    "string_type": "text in quotes",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a number that is finite",
    "bool_type": "true or false",
    "list_type": "a list, in square brackets",
    "tuple_type": "a list, in square brackets",
    "dict_type": "a table of keys with values",
    "model_type": "a table of keys with values",
    "model_attributes_type": "a table of keys with values",
}
_LIMITS = {
    "greater_than": ("gt", "greater than {}"),
    "greater_than_equal": ("ge", "at least {}"),
    "less_than": ("lt", "less than {}"),
    "less_than_equal": ("le", "at most {}"),
    "string_too_short": ("min_length", "text of at least {} characters"),
    "string_too_long": ("max_length", "text of at most {} characters"),
    "too_short": ("min_length", "at least {} of them"),
    "too_long": ("max_length", "at most {} of them"),
    "literal_error": ("expected", "{}"),
    "enum": ("expected", "{}"),
    "union_tag_invalid": ("expected_tags", "{}"),
}


def expected_in_words(problem: Mapping[str, Any]) -> str:
    """What a validation error of pydantic (one of ``ValidationError.errors()``) asks for.

    >>> expected_in_words({"type": "list_type", "msg": "Input should be a valid list"})
    'a list, in square brackets'
    >>> expected_in_words({"type": "too_short", "ctx": {"min_length": 1}, "msg": "List should have ..."})
    'at least one'
    """
    kind, context = str(problem["type"]), problem.get("ctx", {})
    if kind in _KINDS:
        return _KINDS[kind]
    if context.get("min_length") == 1:
        return "at least one character" if kind == "string_too_short" else "at least one"
    if kind in _LIMITS:
        name, words = _LIMITS[kind]
        if name in context:
            return words.format(context[name])
    message = str(problem["msg"]).removeprefix("Value error, ")
    return message[:1].lower() + message[1:]
