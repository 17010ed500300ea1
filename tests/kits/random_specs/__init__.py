"""Random projects of every mechanism: tiny populations, and specs that may be odd in everything a person writes.

Each is a folder with records, block table, schema and spec, and an open ledger with just what the spec spends.
"""

from collections.abc import Callable
from pathlib import Path

from tests.kits.random_specs.measured import postprocess
from tests.kits.random_specs.plain import cellkey, suppression, swapping, tables
from tests.kits.random_specs.project import LEDGER, Draw
from tests.kits.random_specs.safetab import safetab
from tests.kits.random_specs.topdown import topdown

__all__ = ["LEDGER", "MAKERS", "Draw"]

MAKERS: dict[str, Callable[[Draw, Path], Path]] = {
    "tables": tables, "cellkey": cellkey, "suppression": suppression, "swapping": swapping, "topdown": topdown,
    "safetab": safetab, "postprocess": postprocess,
}  # fmt: skip
"""For each mechanism, what draws a project into a folder, and gives the path of its spec."""
