"""Integer programmes of other attackers: the part of the CPLEX LP format that reconstructions are written in.

An objective of single variables, equations and inequalities with coefficients one or whole, and sections of bounds and
of binary or general integer variables. Enough to read the programmes that the Census Bureau published for two tracts of
2010, and to solve them with the settings used here.
"""

from __future__ import annotations

import gzip
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from confide.errors import Finding, InputError, Place
from confide.lab.attacks.reconstruction.integer_program import ReducedProgram, check_integers, minimise
from confide.lab.published.marginals import Floats, Integers

_SECTION = re.compile(
    r"^(minimi[sz]e|subject to|such that|st|s\.t\.|bounds?|binar(?:y|ies)|bin|generals?|gen|integers?|end)$",
    re.IGNORECASE,
)
_TERM = re.compile(r"([+-]?)\s*(\d+(?:\.\d*)?(?=\s+[A-Za-z_]))?\s*([A-Za-z_][\w.]*)")
_ROW = re.compile(r"^([^<>=]*)(<=|>=|=<|=>|=|<|>)\s*([+-]?\d+(?:\.\d*)?)\s*$", re.DOTALL)


@dataclass(frozen=True, eq=False)
class LinearProgramme:
    """Named variables, all integers if ``whole``; rows between ``least`` and ``most``."""

    names: tuple[str, ...] = field(repr=False)
    cost: Floats = field(repr=False)
    matrix: Any = field(repr=False)
    least: Floats = field(repr=False)
    most: Floats = field(repr=False)
    lower: Floats = field(repr=False)
    upper: Floats = field(repr=False)
    whole: Integers = field(repr=False)

    def solve(self, seconds: float = 600.0) -> dict[str, int]:
        """A solution of least cost in whole numbers, every row checked exactly; variables at zero are left out."""
        found = minimise(
            self.cost, self.matrix, self.least, self.most, self.lower, self.upper, self.whole, seconds
        ).values
        if found is None:
            raise InputError(Finding("time-limit", "no solution was found in the time allowed"))
        every = np.arange(len(self.names))
        left = ReducedProgram(self.lower, self.upper, every, self.matrix, self.least, self.most)
        values = check_integers(found, left)
        return {self.names[at]: int(values[at]) for at in np.flatnonzero(values)}


def read_lp(path: str | Path) -> LinearProgramme:
    """A programme from an ``.lp`` or ``.lp.gz`` file."""
    path = Path(path)
    text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text(encoding="utf-8")
    sections = _sections(re.sub(r"\\.*", "", text))
    index: dict[str, int] = {}

    def place(name: str) -> int:
        return index.setdefault(name, len(index))

    if re.search(r"^\s*maximi[sz]e\s*$", text, re.IGNORECASE | re.MULTILINE):
        raise _unread(path, "Maximize")
    objective = [(place(name), value) for value, name in _terms(" ".join(sections.get("objective", [])))]
    data: list[float] = []
    rows: list[int] = []
    columns: list[int] = []
    least: list[float] = []
    most: list[float] = []
    for number, row in enumerate(_joined(sections.get("rows", []))):
        match = _ROW.match(row)
        if match is None:
            raise _unread(path, row)
        for value, name in _terms(match[1]):
            data.append(value)
            rows.append(number)
            columns.append(place(name))
        count = float(match[3])
        least.append(-np.inf if "<" in match[2] else count)
        most.append(np.inf if ">" in match[2] else count)
    binary = {name for line in sections.get("binary", []) for name in line.split()}
    general = {name for line in sections.get("general", []) for name in line.split()}
    for name in (*binary, *general):
        place(name)
    names = tuple(index)
    cost = np.zeros(len(names))
    for at, value in objective:
        cost[at] = value
    lower, upper = np.zeros(len(names)), np.array([1.0 if name in binary else np.inf for name in names])
    for line in sections.get("bounds", []):
        _bound(path, line, index, lower, upper)
    whole = np.array([name in binary or name in general for name in names], np.int64)
    matrix = sparse.csr_array((data, (rows, columns)), shape=(len(least), len(names)))
    return LinearProgramme(names, cost, matrix, np.array(least), np.array(most), lower, upper, whole)


def read_solution(path: str | Path) -> dict[str, int]:
    """The variables above zero of a ``.sol`` or ``.sol.gz`` file: a name and a value in each line."""
    path = Path(path)
    text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text(encoding="utf-8")
    pairs = (line.split() for line in text.splitlines() if line and not line.startswith("#"))
    return {name: round(float(value)) for name, value in pairs if round(float(value))}


_KIND = {"m": "objective", "s": "rows", "bo": "bounds", "bi": "binary", "g": "general", "i": "general", "e": "end"}


def _sections(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    here = "objective"
    for line in text.splitlines():
        stripped = line.strip()
        if _SECTION.match(stripped):
            lowered = stripped.lower()
            here = next(kind for start, kind in _KIND.items() if lowered.startswith(start))
        elif stripped:
            found.setdefault(here, []).append(stripped)
    return found


def _joined(lines: list[str]) -> list[str]:
    """Rows without their names, those that run over several lines put together."""
    rows: list[str] = []
    held = ""
    for line in lines:
        held = f"{held} {line}".strip()
        if _ROW.match(held):
            rows.append(held)
            held = ""
    if held:
        rows.append(held)
    return [row.partition(":")[2] if ":" in row else row for row in rows]


def _terms(text: str) -> list[tuple[float, str]]:
    body = text.partition(":")[2] if ":" in text else text
    return [
        ((-1.0 if sign == "-" else 1.0) * float(value or 1), name) for sign, value, name in _TERM.findall(body.strip())
    ]


def _bound(path: Path, line: str, index: dict[str, int], lower: Floats, upper: Floats) -> None:
    parts = line.split()
    if len(parts) == 3 and parts[0] in index:
        at, number = index[parts[0]], float(parts[2])
        if parts[1] in ("=", ">=", ">", "=>"):
            lower[at] = number
        if parts[1] in ("=", "<=", "<", "=<"):
            upper[at] = number
    elif len(parts) == 5 and parts[2] in index:
        lower[index[parts[2]]], upper[index[parts[2]]] = float(parts[0]), float(parts[4])
    elif len(parts) == 2 and parts[1].lower() == "free" and parts[0] in index:
        lower[index[parts[0]]] = -np.inf
    else:
        raise _unread(path, line)


def _unread(path: Path, line: str) -> InputError:
    what, expected = (
        "a line of the programme is not understood",
        "the CPLEX LP format, as in docs/concepts/reconstruction.md",
    )
    return InputError(Finding("bad-lp", what, Place(file=path.name), line[:80], expected, "simplify the programme"))
