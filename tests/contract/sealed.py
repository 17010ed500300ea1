"""One sealed release of each example, for all tests that only look at it."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

from tests.contract.kit import Project, lay_out
from tests.contract.moments import Watched
from tests.kits.made_once import MadeOnce

MOMENTS = "moments.json"
"""The moments of the release of an example, beside its folder."""


def sealed_example(name: str, made_once: MadeOnce) -> Project:
    """The example of a mechanism after its run, which is made when it is first asked for."""
    return Project(name, made_once.folder(f"sealed-{name}", partial(_seal, name)) / name)


def _seal(name: str, folder: Path) -> None:
    moments: list[str] = []
    lay_out(name, folder / name).run(progress=Watched(moments.append))
    (folder / MOMENTS).write_text(json.dumps(moments), encoding="utf-8")


def moments_of(project: Project) -> list[str]:
    """Every beginning, step and end of a stage of the release of an example that nobody disturbed, in order."""
    moments: list[str] = json.loads((project.folder.parent / MOMENTS).read_text(encoding="utf-8"))
    return moments
