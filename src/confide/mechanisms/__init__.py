"""Every mechanism by name. To add one takes its folder and a line in :data:`MECHANISMS` (``docs/architecture.md``).

A mechanism brings solvers and readers with it that take a second to import, and a run needs one mechanism. So each is
imported when it is first looked up; to go through the names imports nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

from confide.releases.mechanism import Mechanism
from confide.releases.spec import Spec


class Registry(Mapping[str, Mechanism[Any]]):
    """Mechanisms by name, each given by the place of its class, ``module:Class``.

    >>> MECHANISMS["tables"].accounted
    True
    """

    def __init__(self, places: Mapping[str, str]):
        self._places = dict(places)
        self._imported: dict[str, Mechanism[Any]] = {}

    def __getitem__(self, name: str) -> Mechanism[Any]:
        if name not in self._imported:
            module, _, class_name = self._places[name].partition(":")
            self._imported[name] = getattr(import_module(module), class_name)()
        return self._imported[name]

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


MECHANISMS: Mapping[str, Mechanism[Any]] = Registry(
    {
        "tables": "confide.mechanisms.tables.mechanism:Tables",
        "topdown": "confide.mechanisms.topdown.mechanism:TopDown",
        "safetab": "confide.mechanisms.safetab.mechanism:SafeTab",
        "cellkey": "confide.mechanisms.cellkey.mechanism:CellKey",
        "swapping": "confide.mechanisms.swapping.mechanism:Swapping",
        "suppression": "confide.mechanisms.suppression.mechanism:Suppression",
        "postprocess": "confide.mechanisms.postprocess.mechanism:Postprocess",
    }
)
"""Every mechanism by name."""


class SpecModels(Mapping[str, type[Spec]]):
    """For each mechanism the model of its spec, imported when it is looked up."""

    def __getitem__(self, name: str) -> type[Spec]:
        return MECHANISMS[name].spec

    def __contains__(self, name: object) -> bool:
        return name in MECHANISMS

    def __iter__(self) -> Iterator[str]:
        return iter(MECHANISMS)

    def __len__(self) -> int:
        return len(MECHANISMS)


SPECS: Mapping[str, type[Spec]] = SpecModels()
"""For each mechanism, the model of its spec."""
