"""Confide: a disclosure avoidance system for official statistics.

The verbs are functions here, and every command has its twin among them; the nouns are classes. ``__init__.pyi`` has
their names, each with the module that it is loaded from when it is first used; ``docs/library.md`` shows what they are
for.

>>> import confide
>>> "tabulate" in dir(confide), confide.epsilon_of_rho("1/2", "1e-10").as_dict()["canonne_kamath_steinke"] > 6
(True, True)
"""

from __future__ import annotations

from confide.lazy_names import lazy_names
from confide.version import __version__ as __version__

__getattr__, __dir__, __all__ = lazy_names(__name__)
