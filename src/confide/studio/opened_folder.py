"""The folder that was opened: the releases, specs and ledgers in it, and no way out of it."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from confide.errors import InputError, ParameterError, Place
from confide.lazy_names import COMPARISON_FILES
from confide.opened import Release, open_release
from confide.releases.folder import MANIFEST

LEFT_OUT = frozenset({"confidential", "dossier-confidential", "node_modules", "__pycache__"})
"""Folders that are not looked into: what they have is confidential, or not ours."""
DEEPEST, MOST_ENTRIES = 6, 50_000
MOST_MANIFEST = 64 << 20
"""Bytes of a manifest that is read for a page: that of a large state has a few million."""
KINDS = ("release", "spec", "ledger", "map", "records", "comparison")
TABLES = (".csv", ".parquet", ".xlsx", ".asc")
HERE = "."


@dataclass(frozen=True)
class FoundFile:
    """A file or a folder in the opened one: what it is called there, and where it is."""

    name: str
    path: Path


@dataclass(frozen=True)
class FolderContents:
    """What was found in the folder, each in the order of names."""

    releases: tuple[FoundFile, ...] = ()
    specs: tuple[FoundFile, ...] = ()
    ledgers: tuple[FoundFile, ...] = ()
    maps: tuple[FoundFile, ...] = ()
    records: tuple[FoundFile, ...] = ()
    """Files that the data doctor can look at."""
    comparisons: tuple[FoundFile, ...] = ()
    """Folders that ``confide compare`` has made something in."""
    cut_short: bool = False
    """Whether there is so much in the folder that not all of it was looked at."""


class OpenedFolder:
    """A folder, seen from inside: names are paths below it, and a name that leads out of it is refused."""

    def __init__(self, root: Path):
        try:
            self.root = root.resolve(strict=True)
        except OSError as error:
            raise InputError("no-folder/open", where=Place(file=str(root)), strerror=error.strerror) from None
        if not self.root.is_dir():
            raise InputError("no-folder/file", where=Place(file=str(root)))
        self.desk: dict[Any, Any] = {}
        """What a screen has in hand while the studio runs. It is in memory alone, and never written."""
        self._releases: dict[str, tuple[tuple[int, int], Release]] = {}

    def inside(self, name: str) -> Path:
        """The path of a name, whether or not there is something.

        Args:
            name: A path below the folder, with slashes.

        Returns:
            The path, with links followed.
        """
        parts = name.split("/")
        wrong = not name or "\\" in name or "\0" in name or ".." in parts or name.startswith("/") or Path(name).drive
        path = self.root if wrong else (self.root / name).resolve()
        if wrong or not path.is_relative_to(self.root):
            raise ParameterError("outside-folder")
        return path

    def table(self, name: str) -> Path:
        """The path of a file of records or areas; below a folder that is not looked into there is none to open.

        Args:
            name: A path below the folder, with slashes.

        Returns:
            The path, with links followed.
        """
        path = self.inside(name)
        if LEFT_OUT & {*name.split("/"), *path.relative_to(self.root).parts}:
            raise ParameterError("left-out-folder", left_out=", ".join(sorted(LEFT_OUT)))
        return path

    def contents(self) -> FolderContents:
        """What is in the folder now."""
        sorted_out: dict[str, list[FoundFile]] = {key: [] for key in KINDS}
        entries = 0
        for folder, names in self._walk():
            entries += len(names)
            if MANIFEST in names:
                sorted_out["release"].append(self._named(folder))
                continue
            if any(name in names for name in COMPARISON_FILES):
                sorted_out["comparison"].append(self._named(folder))
                continue
            for name in sorted(names):
                if self._leads_out(folder / name):
                    continue
                if (kind := _kind(folder / name)) is not None:
                    sorted_out[kind].append(self._named(folder / name))
            if entries > MOST_ENTRIES:
                break
        release, spec, ledger, maps, records, comparisons = (tuple(each) for each in sorted_out.values())
        return FolderContents(release, spec, ledger, maps, records, comparisons, cut_short=entries > MOST_ENTRIES)

    def release(self, name: str) -> Release:
        """The release of a name, opened; again, once its manifest has changed."""
        path = self.inside(name)
        try:
            state = (path / MANIFEST).stat()
        except OSError:
            self._releases.pop(name, None)
            return open_release(path)
        stamp = (state.st_mtime_ns, state.st_size)
        known = self._releases.get(name)
        if known is None or known[0] != stamp:
            if state.st_size > MOST_MANIFEST:
                raise InputError(
                    "not-a-release/shown",
                    where=Place(file=str(path)),
                    st_size=state.st_size >> 20,
                    most_manifest=MOST_MANIFEST >> 20,
                )
            known = self._releases[name] = (stamp, self._open(path))
        return known[1]

    def _open(self, path: Path) -> Release:
        """A release that others may have made, and that may hold anything."""
        opened = open_release(path)
        listed = [MANIFEST, *(str(file["path"]) for file in opened.manifest["files"])]
        root = opened.folder.resolve()
        if any(not (root / file).resolve().is_relative_to(root) or (root / file).is_symlink() for file in listed):
            raise InputError("not-a-release/link", where=Place(file=str(path)))
        return opened

    def _walk(self) -> Iterator[tuple[Path, list[str]]]:
        for folder, folders, names in os.walk(self.root, followlinks=False):
            here = Path(folder)
            deep = len(here.relative_to(self.root).parts) >= DEEPEST
            stop = deep or any(name in names for name in (MANIFEST, *COMPARISON_FILES))
            folders[:] = [] if stop else sorted(n for n in folders if n not in LEFT_OUT and not n.startswith("."))
            yield here, names

    def _leads_out(self, path: Path) -> bool:
        """Whether a file is a link to another place, which is not looked at."""
        return path.is_symlink() and not path.resolve().is_relative_to(self.root)

    def _named(self, path: Path) -> FoundFile:
        name = path.relative_to(self.root).as_posix()
        return FoundFile(name, path)

    @cached_property
    def name(self) -> str:
        """What a person calls it."""
        return self.root.name or str(self.root)


def _kind(path: Path) -> str | None:
    if path.suffix == ".ledger":
        return "ledger"
    if path.suffix == ".geojson":
        return "map"
    if path.suffix.lower() in TABLES:
        return "records"
    return "spec" if path.suffix == ".toml" and _is_spec(path) else None


def _is_spec(path: Path) -> bool:
    try:
        if path.stat().st_size > 1 << 20:
            return False
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    release = values.get("release")
    return isinstance(release, dict) and isinstance(release.get("mechanism"), str)
