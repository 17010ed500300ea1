"""The dossier: the curator's report on accuracy. It uses the truth, says so on every page, and must not leave.

Each mechanism has a dossier of its own; what they are given, what they give, and how it is written is the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from confide.confidential import Confidential
from confide.engines import Engine
from confide.engines.atomic_files import private_folder, write_text
from confide.errors import Finding, Place
from confide.releases.plan import Plan
from confide.releases.progress import Progress
from confide.releases.workspace import Workspace

BANNER = "CONFIDENTIAL: uses the truth; must not leave the office"
PAGE, NUMBERS, OVER_KEYS = "dossier-confidential.html", "accuracy-confidential.json", "over-keys-confidential.json"
PAGE_OVER_KEYS = "over-keys-confidential.html"


@dataclass(frozen=True)
class EvaluatedRun:
    """One of the runs that are evaluated."""

    name: str
    title: str
    workspace: Workspace


@dataclass(frozen=True)
class Evaluating:
    """What an evaluation is given: one or several runs of the same question on the same records."""

    question: Any
    plan: Plan
    runs: tuple[EvaluatedRun, ...]
    engine: Engine
    progress: Progress
    geometry: Mapping[str, Path] = field(default_factory=dict)
    """For each geography that is to be mapped, a GeoJSON file."""


@dataclass(frozen=True)
class Evaluated:
    """The accuracy of a run, or of several, as plain values; and the dossier that shows it. Confidential."""

    accuracy: Confidential[dict[str, Any]]
    dossier: Path


class Evaluator(Protocol):
    """The evaluation of a mechanism, and its dossier."""

    def __call__(self, asked: Evaluating) -> Evaluated:
        """Evaluates, and writes the dossier."""


def no_maps(asked: Evaluating, mechanism: str, of_what: str) -> list[Finding]:
    """What is wrong with asking for maps where the dossier has none; nothing if nobody does."""
    if not asked.geometry:
        return []
    finding = Finding(
        code=f"geometry-{mechanism}",
        what=f"the dossier of {of_what} has no maps",
        where=Place(path="--geometry"),
        found=", ".join(asked.geometry),
        expected="geometry for runs of the mechanism topdown alone",
        remedy="leave --geometry out",
    )
    return [finding]


def write(folder: Path, numbers: Mapping[str, Any], page: str) -> Path:
    """Writes the dossier of a run and its numbers into a folder that only the curator can open."""
    private_folder(folder)
    write_numbers(folder / NUMBERS, numbers)
    write_text(folder / PAGE, page)
    return folder / PAGE


def write_numbers(file: Path, numbers: Mapping[str, Any], *, compact: bool = False) -> None:
    """Numbers of an evaluation, under a warning; ``compact`` for the many of several runs."""
    indent, separators = (None, (",", ":")) if compact else (1, None)
    values = {"warning": BANNER} | dict(numbers)
    write_text(file, json.dumps(values, indent=indent, separators=separators, ensure_ascii=False) + "\n")
