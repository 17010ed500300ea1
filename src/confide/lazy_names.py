"""Packages whose names are loaded when they are first used: a command imports the solvers it needs and no more."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = ["lazy_names"]


def lazy_names(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of a package (PEP 562), from the file ``__init__.pyi`` beside it.

    Each import of that file gives a name, and the module that is loaded when the name is first used. The same file
    tells a type checker and an editor what there is: the names of a package are written down once.

    Args:
        package: The package's ``__name__``.

    Returns:
        What the package binds to the three names.

    >>> load, names, exported = lazy_names("confide.schema")
    >>> load("Schema").__module__, names() == exported
    ('confide.schema.schema', True)
    """

    @cache
    def homes() -> dict[str, tuple[str, str]]:
        stub = Path(str(sys.modules[package].__file__)).with_suffix(".pyi")
        imports = [
            node for node in ast.parse(stub.read_text(encoding="utf-8")).body if isinstance(node, ast.ImportFrom)
        ]
        return {alias.asname or alias.name: (str(node.module), alias.name) for node in imports for alias in node.names}

    def load(name: str) -> Any:
        if name.startswith("__") or name not in homes():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, attribute = homes()[name]
        if module == package:  # a room of the package itself
            return import_module(f"{package}.{attribute}")
        home = import_module(module)
        return getattr(home, attribute) if hasattr(home, attribute) else import_module(f"{module}.{attribute}")

    def names() -> list[str]:
        return sorted(homes())

    return load, names, names()
