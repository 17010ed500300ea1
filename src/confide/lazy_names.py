"""Packages whose names are loaded when they are first used: a command imports the solvers it needs and no more."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["lazy_names"]


def lazy_names(
    package: str, homes: Mapping[str, tuple[str, ...]], *, renamed: Mapping[str, tuple[str, str]] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The ``__getattr__`` and ``__dir__`` of a package (PEP 562) that imports a module when one of its names is used.

    Args:
        package: The package's ``__name__``.
        homes: For each module of the package, relative to it, the names that it gives.
        renamed: For each name that is another one in its module: the module and the name there.

    >>> load, names = lazy_names("confide", {"exact": ("positive",)}, renamed={"Stop": ("errors", "Place")})
    >>> load("Stop").__name__, names()
    ('Place', ['Stop', 'positive'])
    """
    address = {name: (module, name) for module, names in homes.items() for name in names} | dict(renamed or {})

    def load(name: str) -> Any:
        if name not in address:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, attribute = address[name]
        return getattr(import_module(f"{package}.{module}"), attribute)

    def names() -> list[str]:
        return sorted(address)

    return load, names
