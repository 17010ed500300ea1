"""The corpus: what a planted bug is, and how it is read from the TOML files beside this one, one for each room."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
SOURCE = "src/confide"
FIELDS = {"name", "file", "harm", "old", "new", "killed_by"}


class CorpusError(Exception):
    """A bug that cannot be planted as it is written."""


@dataclass(frozen=True)
class Bug:
    """One wrong version of the source."""

    room: str
    """The TOML file it stands in, without its ending."""
    name: str
    file: str
    """Seen from ``src/confide``."""
    harm: str
    """What it would do to people."""
    old: str
    new: str
    killed_by: tuple[str, ...]
    """Node ids of tests that must fail, seen from the root of the project."""

    def path(self, root: Path) -> Path:
        """The file that is changed."""
        return root / SOURCE / self.file

    def planted(self, root: Path) -> str:
        """The text of the file with the bug in it; raises where the bug does not fit the source any more."""
        path = self.path(root)
        if not path.is_file():
            raise CorpusError(f"{self.name}: there is no file {SOURCE}/{self.file}")
        changed = self.changed(path.read_text(encoding="utf-8"))
        try:
            ast.parse(changed if path.suffix == ".py" else "")
        except SyntaxError as error:
            raise CorpusError(f"{self.name}: the new text is no Python: {error}") from None
        return changed

    def changed(self, text: str) -> str:
        """A text with the bug in it, whatever it is then; raises where the bug does not fit it."""
        times = text.count(self.old)
        if times != 1:
            raise CorpusError(f"{self.name}: the old text occurs {times} times in {SOURCE}/{self.file}, not once")
        if self.old.split() == self.new.split():
            raise CorpusError(f"{self.name}: the new text says what the old text says")
        return text.replace(self.old, self.new)


def read_corpus(folder: Path = FOLDER) -> list[Bug]:
    """All bugs, by room, in the order in which they are written."""
    bugs = []
    for file in sorted(folder.glob("*.toml")):
        for entry in tomllib.loads(file.read_text(encoding="utf-8"))["bug"]:
            if entry.keys() != FIELDS:
                odd = sorted(entry.keys() ^ FIELDS)
                raise CorpusError(f"{file.name}: {entry.get('name')}: missing or unknown: {', '.join(odd)}")
            bugs.append(Bug(room=file.stem, **entry | {"killed_by": tuple(entry["killed_by"])}))
    return bugs


def misfits(bugs: Sequence[Bug], root: Path) -> list[str]:
    """Which bugs do not fit the source, and why. Bugs of one file are planted together, and parsed once.

    Where that is no Python, or where one changes what another one needs, they are planted one by one.
    """
    problems = []
    for file in dict.fromkeys(bug.file for bug in bugs):
        of_file = [bug for bug in bugs if bug.file == file]
        try:
            path = of_file[0].path(root)
            original = together = path.read_text(encoding="utf-8")
            for bug in of_file:
                bug.changed(original)
                together = bug.changed(together)
            ast.parse(together if path.suffix == ".py" else "")
        except (CorpusError, OSError, SyntaxError):
            for bug in of_file:
                try:
                    bug.planted(root)
                except CorpusError as error:
                    problems.append(str(error))
    return problems


@lru_cache(maxsize=1024)
def _parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def missing_test(root: Path, node: str) -> str | None:
    """Why there is no such test, or none if there is; without importing it."""
    file, *names = node.partition("[")[0].split("::")
    if not (root / file).is_file():
        return f"{node}: there is no file {file}"
    if not names:
        return f"{node}: a bug is killed by single tests, file.py::test_name"
    inside: list[ast.stmt] = _parsed(root / file).body
    for name in names:
        item = next((i for i in inside if isinstance(i, ast.FunctionDef | ast.ClassDef) and i.name == name), None)
        if item is None:
            return f"{node}: there is no {name} in the file"
        inside = item.body
    return None
