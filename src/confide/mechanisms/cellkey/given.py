"""Tables that were counted elsewhere: cells with their true counts and cell keys, perturbed as those of records are.

An office that tabulates by itself brings its cells: labels, a count, and the sum of the record keys of the members. The
noise of a cell is what the perturbation table has for its count and key, so the same members have the same noise here
and in a release from records with the same keys. Margins are rows like others. Which cells there are is as public as in
any table by cell keys: those that are published above zero are listed, in the order of their labels, which says nothing
of the order of the file.

A cell key is a whole number from 0 to below the number of keys, or a decimal from 0 to below 1, as other programs write
them: ``floor(key · keys)`` finds the same interval, as bounds are whole numbers.

``confide cellkey perturb`` perturbs and seals one such table. A spec is written beside the release, and the one runner
makes it: the run can be checked, verified, evaluated and made again like any other.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from confide.answers import AnswerPart, TypedAnswer
from confide.arrays import Integers
from confide.confidential import Confidential
from confide.engines import Engine, Source, format_of, identifier
from confide.errors import CONFIDENTIAL, Finding, InputError, ParameterError, Place, SpecError
from confide.exact import Exact, exact
from confide.file_system import write_text
from confide.inputs.frame import missing_columns
from confide.inputs.records import ROWS_NAMED, bad_record, records_fingerprint, wrong_type
from confide.mechanisms.cellkey.keys import CellSums, lower_parts, uneven
from confide.mechanisms.cellkey.spec import ORDER, WEIGHT_UNIT, CellKeySpec, new_order
from confide.releases.draft import keep_secrets
from confide.releases.spec import LoadedSpec
from confide.releases.tabular import SDMX
from confide.report.rendering import render
from confide.schema import as_read

COUNT, KEY, WEIGHT = "cell/count", "cell/key", "cell/weight"
"""Columns of ours: no column of labels has a name with such a sign."""
MOST_COUNT = 1 << 52
_NO_SDMX = re.compile(r"[^A-Z0-9_-]")


@dataclass(frozen=True)
class GivenTable:
    """A table of given cells: the columns of its labels, and its file."""

    name: str
    title: str
    variables: tuple[str, ...]
    source: Source | None = None
    """The file; none for a table that is read from a plan."""

    def as_dict(self) -> dict[str, Any]:
        """For the plan: no label is in it, because labels are those of a confidential file."""
        return {"name": self.name, "title": self.title, "variables": list(self.variables)}

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> GivenTable:
        """The table that a plan describes."""
        return cls(values["name"], values["title"], tuple(values["variables"]))


def find_given(loaded: LoadedSpec, spec: CellKeySpec) -> tuple[GivenTable, ...]:
    """The tables of a spec with their files. Raises a :class:`SpecError` for each that is not there."""
    findings, tables = [], []
    for position, part in enumerate(spec.tables):
        path, place = loaded.resolve(str(part.cells)), loaded.place("tables", position, "cells")
        form = format_of(path)
        if not path.is_file() or form is None:
            findings.append(Finding.of("no-such-file/cells", where=place, found=str(part.cells)))
            continue
        findings += _bad_names(loaded, spec, position)
        columns = {name: spec.data.columns.get(name, name) for name in part.variables}
        figures = {COUNT: spec.data.count, KEY: spec.data.cell_key, WEIGHT: spec.data.weight}
        columns |= {ours: theirs for ours, theirs in figures.items() if theirs is not None}
        source = Source(path, form, columns, spec.data.delimiter)
        tables.append(GivenTable(part.name, part.title or part.name, tuple(part.variables), source))
    if findings:
        raise SpecError(findings)
    return tuple(tables)


def _bad_names(loaded: LoadedSpec, spec: CellKeySpec, position: int) -> Iterator[Finding]:
    """Columns of labels that could be taken for figures, or for one another."""
    names = spec.tables[position].variables
    reserved = {"count", "weighted", "dataflow", "obs_value", "obs_value_weighted"}
    folded = [name.lower() for name in names]
    if SDMX in spec.output.formats:
        folded = [column.lower() for column in sdmx_names(names)]
    times = Counter(folded)
    wrong = [
        name
        for name, column in zip(names, folded, strict=True)
        if column in reserved or not name.strip() or times[column] > 1
    ]
    if wrong or not names:
        expected = "at least one name, each once, none of " + ", ".join(sorted(reserved))
        expected += "; in SDMX-CSV only letters and digits tell them apart" if SDMX in spec.output.formats else ""
        place = loaded.place("tables", position, "variables")
        yield Finding.of("reserved-name/columns", where=place, wrong=", ".join(wrong), expected=expected)


def sdmx_names(names: Sequence[str]) -> list[str]:
    """The columns in SDMX-CSV, whose names are of letters, digits, hyphens and low lines.

    >>> sdmx_names(["age class"])
    ['AGE_CLASS']
    """
    return [_NO_SDMX.sub("_", name.upper()) for name in names]


def given_fingerprint(tables: Sequence[GivenTable]) -> str:
    """SHA-256 of all files of cells, in the order of the tables."""
    digest = hashlib.sha256(b"confide/cells/v1")
    for table in tables:
        assert table.source is not None
        digest.update(records_fingerprint(table.source.path).encode())
    return digest.hexdigest()


def check_given(engine: Engine, table: GivenTable, modulus: int) -> list[Finding]:
    """Every problem of a file of cells."""
    assert table.source is not None
    source = table.source
    wanted = [*table.variables, *(name for name in (COUNT, KEY, WEIGHT) if name in source.columns)]
    missing = missing_columns(engine, source, wanted, confidential=True)
    if missing:
        return missing
    kinds = engine.kinds(source)
    wrong = [
        wrong_type(source, name, kinds, "counts" if name == COUNT else "cell keys", integer=True)
        for name in (COUNT, KEY)
        if kinds[source.theirs(name)] == "other"
    ]
    if wrong:
        return wrong
    try:
        sums, _ = read_given(engine, table, modulus).reveal("to check cells")
    except InputError as error:
        return list(error.findings)
    return _not_drawn(table, sums, modulus)


def read_given(engine: Engine, table: GivenTable, modulus: int) -> Confidential[tuple[CellSums, pa.Table]]:
    """The cells of a file in the order of their labels: counts, keys and weights; and the labels."""
    assert table.source is not None
    source = table.source
    names = [*table.variables, *(name for name in (COUNT, KEY, WEIGHT) if name in source.columns)]
    columns = ", ".join(f"CAST({identifier(source.theirs(name))} AS VARCHAR) AS {identifier(name)}" for name in names)
    rows = engine.sql(f"SELECT {columns} FROM cells", cells=source).reveal("to perturb given cells")
    findings: list[Finding] = []
    count = _numbers(source, rows, COUNT, findings, "a whole number of at least zero", MOST_COUNT)
    key = _keys(source, rows, modulus, findings)
    weight = _weights(source, rows, findings) if WEIGHT in names else None
    labels = rows.select(list(table.variables))
    findings += _bad_labels(source, labels)
    if not rows.num_rows:
        findings.append(Finding.of("no-records/cells", where=Place(file=source.file)))
    if findings:
        raise InputError(findings)
    order = np.asarray(pc.sort_indices(labels, [(name, "ascending") for name in table.variables]).to_numpy(), np.int64)
    findings += _repeated(source, labels, order)
    if findings:
        raise InputError(findings)
    number: Integers = np.arange(len(order), dtype=np.int64)
    sums = CellSums(number, count[order], key[order], None if weight is None else weight[order])
    return Confidential((sums, labels.take(pa.array(order))))


def _numbers(source: Source, rows: pa.Table, name: str, findings: list[Finding], expected: str, below: int) -> Integers:
    text = rows.column(name).combine_chunks()
    digits = pc.fill_null(pc.match_substring_regex(pc.utf8_trim_whitespace(text), r"^\+?\d{1,18}$"), fill_value=False)
    numbers = pc.cast(pc.if_else(digits, pc.utf8_trim_whitespace(text), "0"), pa.int64()).to_numpy()
    wrong = np.flatnonzero(~digits.to_numpy(zero_copy_only=False) | (numbers >= below))
    if len(wrong):
        findings.append(
            bad_record(
                "bad-cell/first",
                source,
                name,
                [int(row) + 1 for row in list(wrong)[:ROWS_NAMED]],
                name=name.removeprefix("cell/"),
                expected=expected,
            )
        )
    return np.asarray(numbers, np.int64)


def _keys(source: Source, rows: pa.Table, modulus: int, findings: list[Finding]) -> Integers:
    """Whole numbers; or, if one of them has a point, decimals from 0 to below 1, all of them."""
    texts = [(text or "").strip() for text in rows.column(KEY).to_pylist()]
    if not any("." in text or "e" in text.lower() for text in texts):
        return _numbers(source, rows, KEY, findings, f"a whole number from 0 to {modulus - 1:,}", modulus)
    keys: Integers = np.zeros(len(texts), np.int64)
    wrong = []
    for row, text in enumerate(texts):
        try:
            decimal = Decimal(text)
        except InvalidOperation:
            decimal = Decimal(-1)
        if decimal.is_finite() and 0 <= decimal < 1:
            keys[row] = int(Fraction(decimal) * modulus)
        else:
            wrong.append(row)
    if wrong:
        findings.append(
            bad_record(
                "bad-cell/key", source, KEY, [int(row) + 1 for row in list(wrong)[:ROWS_NAMED]], modulus=modulus - 1
            )
        )
    return keys


def _weights(source: Source, rows: pa.Table, findings: list[Finding]) -> Integers:
    weights: Integers = np.zeros(rows.num_rows, np.int64)
    wrong = []
    for row, text in enumerate(rows.column(WEIGHT).to_pylist()):
        try:
            millionths = Fraction((text or "").strip()) * WEIGHT_UNIT
        except (ValueError, ZeroDivisionError):
            millionths = Fraction(-1)
        if 0 <= millionths < MOST_COUNT:
            weights[row] = (2 * millionths.numerator + millionths.denominator) // (2 * millionths.denominator)
        else:
            wrong.append(row)
    if wrong:
        findings.append(
            bad_record(
                "bad-cell/weighted",
                source,
                WEIGHT,
                [int(row) + 1 for row in list(wrong)[:ROWS_NAMED]],
                most_count=MOST_COUNT // WEIGHT_UNIT,
            )
        )
    return weights


def _bad_labels(source: Source, labels: pa.Table) -> Iterator[Finding]:
    for name in labels.column_names:
        column = labels.column(name).combine_chunks()
        broken = pc.match_substring_regex(pc.fill_null(column, ""), r"^\s*$|[\x00-\x1f\x7f]")
        wrong = np.flatnonzero(broken.to_numpy(zero_copy_only=False))
        if len(wrong):
            yield bad_record("bad-cell/label", source, name, [int(row) + 1 for row in list(wrong)[:ROWS_NAMED]])
        distinct = [text for text in pc.unique(column).to_pylist() if text is not None]
        times = Counter(map(as_read, distinct))
        alike = pa.array([text for text in distinct if times[as_read(text)] > 1], pa.string())
        if len(alike):
            wrong = np.flatnonzero(pc.is_in(column, alike).to_numpy(zero_copy_only=False))
            yield bad_record("bad-cell/two", source, name, [int(row) + 1 for row in list(wrong)[:ROWS_NAMED]])


def _repeated(source: Source, labels: pa.Table, order: Integers) -> Iterator[Finding]:
    """Two rows with the same labels would be two figures of one cell."""
    ordered = labels.take(pa.array(order))
    same = np.ones(max(0, len(order) - 1), np.bool_)
    for column in ordered.columns:
        values = column.combine_chunks()
        same &= pc.equal(values.slice(1), values.slice(0, max(0, len(values) - 1))).to_numpy(zero_copy_only=False)
    if same.any():
        rows = np.sort(order[1:][same])
        yield bad_record(
            "bad-cell/combination", source, labels.column_names[0], [int(row) + 1 for row in list(rows)[:ROWS_NAMED]]
        )


def _not_drawn(table: GivenTable, sums: CellSums, modulus: int) -> list[Finding]:
    """A finding if the keys of the distinct cells that somebody is in are none that were drawn.

    Cells of other members have keys that are uniform and independent in pairs (``docs/proofs/cellkey.md``, section 3).
    So about half of them are in the lower half (:func:`uneven`), cells of different size share a key about once in
    ``modulus`` pairs, and one key for very many cells means that these have the same members, which each margin of a
    table has in one cell alone.
    """
    occupied = sums.count > 0
    cells = np.unique(np.stack([sums.count[occupied], sums.key[occupied]], axis=1), axis=0)
    keys, times = np.unique(cells[:, 1], return_counts=True)
    number = len(cells)
    lower = [int((cells[:, 1] < part).sum()) for part in lower_parts(modulus)]
    shared = int((times * (times - 1) // 2).sum())
    by_chance = Fraction(number * (number - 1), 2 * modulus)
    often = shared > 1 and (shared - by_chance) > 0 and (shared - by_chance) ** 2 > 64 * by_chance
    repeated = len(keys) * 4 ** len(table.variables) < int(occupied.sum())
    if not (often or repeated or uneven(number, lower, modulus)):
        return []
    assert table.source is not None
    return [
        Finding.of(
            "keys-not-drawn/cell",
            where=Place(file=table.source.file, column=table.source.theirs(KEY)),
            found=CONFIDENTIAL,
            modulus=modulus,
        )
    ]


# A table that was counted elsewhere, perturbed and sealed: the answer of ``confide cellkey perturb``.


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

    def described(self) -> Iterator[AnswerPart]:
        yield f"Sealed {self.release}. Its spec is {self.spec}."


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
    weight_gap: Exact | None = None
    variables: Sequence[str] | None = None
    name: str | None = None
    title: str = ""
    delimiter: str = ","

    def write(self, table: Path, folder: Path) -> tuple[Path, str, tuple[str, ...]]:
        """Writes it into a new folder; gives its path, the name of the table and the columns of its labels."""
        columns, figures = _columns(table, self.delimiter), (self.count, self.cell_key, self.weight)
        chosen = list(self.variables) if self.variables else [name for name in columns if name not in figures]
        if (folder / SPEC).exists():
            raise ParameterError("bad-option/spec", where=Place(path="--out"), seen=SPEC)
        parameters = self.D is not None or self.V is not None or self.js > 0 or self.pstay is not None or not self.mono
        if parameters if self.ptable is not None else self.D is None or self.V is None:
            raise ParameterError("bad-option/perturbation", where=Place(path="--ptable"))
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
            weight_gap=None if self.weight_gap is None else str(exact(self.weight_gap, "weight_gap")),
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
        raise InputError("no-such-file/table", where=Place(file=str(source)), found=source.name)
    try:
        if form == "parquet":
            return list(pq.read_schema(source).names)
        options = pyarrow.csv.ParseOptions(delimiter=delimiter)
        with pyarrow.csv.open_csv(source, parse_options=options) as reader:
            return list(reader.schema.names)
    except (OSError, ValueError) as error:
        raise InputError(
            "unreadable/table", where=Place(file=source.name), found=type(error).__name__, form=form.upper()
        ) from None


def _relative(path: Path, folder: Path) -> str:
    return Path(os.path.relpath(path.resolve(), folder.resolve())).as_posix()
