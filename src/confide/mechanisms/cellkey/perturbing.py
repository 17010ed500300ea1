"""A table that was counted elsewhere, perturbed and sealed: the answer of ``confide cellkey perturb``.

A spec is written beside the release, and the one runner makes it: the run can be checked, verified, evaluated and made
again like any other.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.csv
import pyarrow.parquet as pq

from confide.answers import TypedAnswer
from confide.engines import format_of
from confide.engines.groups import write_text
from confide.errors import InputError, ParameterError, Place
from confide.exact import Exact, exact
from confide.mechanisms.cellkey.secret_order import ORDER, new_order
from confide.releases.draft import keep_secrets
from confide.report.render import render

SPEC, FOLDER = "spec.toml", "run"
DRAWN = "secret"


@dataclass(frozen=True)
class PerturbedTable(TypedAnswer):
    """A sealed release of one table of given cells, and the spec that it was made from."""

    spec: Path
    release: Path
    name: str
    variables: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain values; no count is among them."""
        return {
            "ok": True,
            "spec": str(self.spec),
            "release": str(self.release),
            "table": self.name,
            "variables": list(self.variables),
        }


@dataclass(frozen=True, kw_only=True)
class CellsSpec:
    """The spec of a table of given cells: what :func:`confide.perturb_cells` takes."""

    ptable: str | Path | None = None
    D: int | None = None
    V: Exact | None = None
    js: int = 0
    pstay: Exact | None = None
    mono: bool = True
    keys: int | None = None
    shuffle: str | None = None
    threshold: int | None = None
    count: str = "count"
    cell_key: str = "cell_key"
    weight: str | None = None
    variables: Sequence[str] | None = None
    name: str | None = None
    title: str = ""
    delimiter: str = ","

    def write(self, table: Path, folder: Path) -> tuple[Path, str, tuple[str, ...]]:
        """Writes it into a new folder; gives its path, the name of the table and the columns of its labels."""
        columns, figures = _columns(table, self.delimiter), (self.count, self.cell_key, self.weight)
        chosen = list(self.variables) if self.variables else [name for name in columns if name not in figures]
        if (folder / SPEC).exists():
            expected = "a new folder; its spec can be run again with `confide run`"
            raise _wrong("--out", "there is a spec in this folder already", SPEC, expected)
        parameters = self.D is not None or self.V is not None or self.js > 0 or self.pstay is not None or not self.mono
        if parameters if self.ptable is not None else self.D is None or self.V is None:
            expected = "--ptable, or -D and -V"
            raise _wrong("--ptable", "the perturbation table is not given, or given twice", "", expected)
        name = self.name or re.sub(r"[^a-z0-9]+", "-", table.stem.lower()).strip("-") or "table"
        text = render(
            "cellkey_cells.toml.j2",
            name=name,
            title=self.title or name,
            cells=_relative(table, folder),
            variables=chosen,
            count=self.count,
            cell_key=self.cell_key,
            weight=self.weight,
            delimiter=self.delimiter,
            settings={key: value for key, value in self._settings(folder).items() if value is not None},
            folder=FOLDER,
        )
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / SPEC, text)
        (folder / SPEC).chmod(0o600)  # an order that somebody gave may stand in it
        if self.shuffle == DRAWN:
            keep_secrets(folder, {ORDER: new_order()})
        return folder / SPEC, name, tuple(chosen)

    def _settings(self, folder: Path) -> dict[str, Any]:
        """The keys of [cellkey]; a secret order is drawn now, and kept in a file beside the spec."""
        order = {"shuffle_file": ORDER} if self.shuffle == DRAWN else {"shuffle": self.shuffle}
        rest: dict[str, Any] = {**order, "threshold": self.threshold, "keys": self.keys}
        if self.ptable is not None or self.V is None:
            return {"ptable": _relative(Path(str(self.ptable)), folder)} | rest
        return {
            "D": self.D,
            "V": str(exact(self.V, "V")),
            "js": self.js or None,
            "pstay": None if self.pstay is None else str(exact(self.pstay, "pstay")),
            "mono": None if self.mono else "false",
        } | rest


def _columns(source: Path, delimiter: str) -> list[str]:
    """The names of the columns of a file."""
    form = format_of(source)
    if not source.is_file() or form is None:
        what, expected = "there is no such table", "a file that ends in .csv or .parquet"
        raise InputError("no-such-file", what, Place(file=str(source)), source.name, expected, "correct the path")
    try:
        if form == "parquet":
            return list(pq.read_schema(source).names)
        options = pyarrow.csv.ParseOptions(delimiter=delimiter)
        with pyarrow.csv.open_csv(source, parse_options=options) as reader:
            return list(reader.schema.names)
    except (OSError, ValueError) as error:
        what, expected = "the table cannot be read", f"{form.upper()} with a first line of names"
        raise InputError(
            "unreadable", what, Place(file=source.name), type(error).__name__, expected, "export it again"
        ) from None


def _relative(path: Path, folder: Path) -> str:
    return Path(os.path.relpath(path.resolve(), folder.resolve())).as_posix()


def _wrong(option: str, what: str, found: str, expected: str) -> ParameterError:
    return ParameterError("bad-option", what, Place(path=option), found or "nothing", expected, f"correct {option}")
