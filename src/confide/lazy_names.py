"""Names that are loaded when they are first used: a command imports the solvers that it needs and no more.

By such names the faces show the laboratory too, without importing it.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any


def lazy_names(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of a package (PEP 562), from the file ``__init__.pyi`` beside it.

    Each import of that file gives a name, and the module that is loaded when the name is first used. The same file
    tells a type checker and an editor what there is: the names of a package are written down once.

    Args:
        package: The package's ``__name__``.

    Returns:
        What the package binds to the three names.

    >>> load, names, exported = lazy_names("confide.utility")
    >>> load("ErrorSums").__module__, names() == exported
    ('confide.utility.metrics', True)
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


def named(place: str) -> Any:
    """The object at a place, ``module:object``.

    >>> named("confide.exact:positive").__name__
    'positive'
    """
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


class NoPandas:
    """A finder of modules for which pandas is not installed."""

    def find_spec(self, name: str, *_: object) -> None:
        """See :class:`importlib.abc.MetaPathFinder`."""
        if name == "pandas":
            raise ImportError("nobody has asked for pandas")


def keep_pandas_out() -> None:
    """Lets Arrow make arrays without pandas, until somebody asks for pandas.

    The first time that Arrow is given Python objects it loads pandas, wherever that is installed, to see whether they
    are its series: 300 modules, a third of a second in every process. Commands and workers have none. What needs
    pandas later, such as ``to_pandas``, loads it then.
    """
    if "pandas" not in sys.modules:
        finder: Any = NoPandas()
        sys.meta_path.insert(0, finder)
        try:
            import_module("pyarrow").array([0])
        finally:
            sys.meta_path.remove(finder)


STUDIO_PAGES = ("confide.lab.studio.laboratory:router", "confide.lab.studio.comparisons:router")
"""The pages of the laboratory in the studio."""
STUDIO_JOBS = {
    "demonstrate": "confide.lab.demonstration:demonstrate_job",
    "compare": "confide.lab.studio.comparisons:compare_job",
}
"""What the studio does in the background for the laboratory: each takes a file, progress and what was given."""
COMPARISON_FILES = ("comparison.json", "asked.json")
"""What a folder of ``confide compare`` has in it, by which the studio knows it."""

DEMONSTRATION = "confide.lab.demonstration:demo_studio"
"""What ``confide studio demo`` shows."""
DRAFTS = {"comparison": "confide.lab.comparison.comparison_spec:comparison_draft"}
"""What ``confide new`` writes beside the specs of mechanisms."""
SHIELDS = {
    "LossClaim": "confide.lab.studio.shields_of_claims:shield_of_loss",
    "BoundedNoiseClaim": "confide.lab.studio.shields_of_claims:shield_of_bounded_noise",
}
"""What looks at a claim of a board, by its type: each takes the claim and a prior."""
REGION = "confide.lab.lab_commands:region"
"""``confide risk region``, which ``confide tune cellkey`` asks before there is a spec."""
