"""Confide: a disclosure avoidance system for official statistics.

The verbs are functions here: ``confide.check(spec)``, ``confide.run(spec)``, ``confide.verify(release)``,
``confide.evaluate(run_folder)``. They are loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confide.version import __version__

if TYPE_CHECKING:
    from confide.api import (
        MECHANISMS,
        check,
        destroy_key,
        evaluate,
        json_schema,
        new,
        reconcile,
        replay,
        run,
        synthesize,
        verify,
    )
    from confide.in_memory import open_ledger, tabulate

__all__ = [
    "MECHANISMS",
    "__version__",
    "check",
    "destroy_key",
    "evaluate",
    "json_schema",
    "new",
    "open_ledger",
    "reconcile",
    "replay",
    "run",
    "synthesize",
    "tabulate",
    "verify",
]


IN_MEMORY = ("open_ledger", "tabulate")


def __getattr__(name: str) -> Any:
    if name in __all__:
        from confide import api, in_memory

        return getattr(in_memory if name in IN_MEMORY else api, name)
    raise AttributeError(f"module 'confide' has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
