"""Every constant that cuts work into parts, set to a few: units per group, rows per batch, bytes per chunk."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pkgutil import walk_packages
from types import ModuleType

import pytest

from tests.contract.kit import NAMES, OWN, modules_of

ROOMS = ("engines", "estimation", "inputs", "mechanisms", "noise", "releases")
"""What a release is made with, beside the packages of mechanisms that are not ours."""
CUTS = re.compile(
    r"_?([A-Z_]+_)?(AT_ONCE|PER_GROUP|PER_PART|CELLS_PER_PART|BATCH|BATCH_ROWS|BATCH_BYTES|CHUNK)|PART_CELLS"
)
"""The names that such constants have."""
ROW_GROUPS = {"ROWS_PER_GROUP", "VALUES_PER_GROUP"}
"""How a released Parquet file is divided: a part of its bytes."""
FORECASTS = {"BYTES_PER_GROUP"}
"""What a group takes on a disk: nothing is cut by it."""
FEW = 3
OF_BYTES, LINE = "BATCH_BYTES", 1 << 12
"""A batch of a text file has at least a line."""


def modules() -> Iterator[ModuleType]:
    for room in ROOMS:
        package = import_module(f"confide.{room}")
        yield package
        for each in walk_packages(package.__path__, f"{package.__name__}."):
            if "spark" not in each.name:
                yield import_module(each.name)
    for name in set(NAMES) - set(OWN):
        yield from modules_of(name)


def constants() -> list[tuple[ModuleType, str]]:
    """Modules and names; a constant that a module has from another is in both."""
    kept = ROW_GROUPS | FORECASTS
    return [
        (module, name)
        for module in modules()
        for name, value in vars(module).items()
        if CUTS.fullmatch(name) and name not in kept and isinstance(value, int)
    ]


@contextmanager
def small_parts(few: int = FEW) -> Iterator[None]:
    """Everything is done in parts of a few."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name in constants():
            patch.setattr(module, name, LINE if name.endswith(OF_BYTES) else few)
        yield
