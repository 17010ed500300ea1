"""``confide suppress``: tables of cells that an office has, protected by cell suppression."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress as suppress_errors
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pyarrow.compute as pc
import pyarrow.parquet as pq

from confide import api
from confide.answers import AnswerPart, Said, Tone, TypedAnswer
from confide.errors import ConfideError, ParameterError, Place, RunError
from confide.exact import Exact, exact
from confide.file_system import write_text
from confide.mechanisms.suppression.given import tables as given_tables
from confide.mechanisms.suppression.given.cells import REASONS
from confide.mechanisms.suppression.given.tables import describe_given
from confide.mechanisms.suppression.suppress import Method, Zeros
from confide.releases import Progress, RunResult, Silent, Verification, Workspace
from confide.releases.draft import SPEC

DESCRIPTION = "tables.toml"


@dataclass(frozen=True)
class SuppressedTables(TypedAnswer):
    """Protected tables: where they are, and that they are as they should be."""

    run: RunResult
    spec: Path
    verification: Verification
    taken_for: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """For each file what its columns were taken for that nobody named."""

    @property
    def release(self) -> Path:
        """The folder that may be published."""
        return self.run.release

    @property
    def hidden(self) -> int:
        """How many cells are hidden, over all tables."""
        cells = pq.read_table(self.run.workspace.confidential / REASONS, columns=["hidden"])
        return int(pc.sum(cells.column("hidden").cast("int64")).as_py() or 0)

    @property
    def ok(self) -> bool:
        """Whether everything that can be checked from the files holds."""
        return self.verification.ok

    def as_dict(self) -> dict[str, Any]:
        """The result as plain values for ``--json``."""
        question = self.run.plan.question
        return {
            "ok": self.ok,
            "release": str(self.release),
            "spec": str(self.spec),
            "manifest_sha256": self.run.manifest_sha256,
            "tables": [table["name"] for table in question["tables"]],
            "suppressed": self.hidden,
            "rules": {key: question["suppression"][key] for key in ("threshold", "dominance", "p", "q")},
            "checks": [
                {"name": check.name, "ok": check.ok, "detail": check.detail} for check in self.verification.checks
            ],
            "taken_for": {name: dict(columns) for name, columns in self.taken_for.items()},
        }

    def described(self) -> Iterator[AnswerPart]:
        """Where the release is, and whether anything is hidden."""
        if self.run.was_sealed_before:
            yield "This run was already sealed; nothing was done."
        verified = "verified" if self.ok else "NOT AS IT SHOULD BE"
        yield Said("Sealed", f" {self.release} ({verified})", Tone.GOOD if self.ok else Tone.BAD)
        yield f"  {self.run.contents}"
        if self.hidden:
            yield f"  {self.hidden:,} cells suppressed"
        else:
            lost = ": every figure is published as it is, since no rule hides one"
            yield Said("0 cells suppressed", lost, Tone.BAD, aside=True)
        yield f"  which cells are primary, and why: {self.run.workspace.confidential / REASONS}"
        yield Said("CONFIDENTIAL", ": everything but release/ must stay in the office", Tone.BAD, aside=True)


def suppress(
    tables: str | Path | Sequence[str | Path],
    *,
    out: str | Path,
    rule: str | Sequence[str] = (),
    value: str | None = None,
    unit: Exact | None = None,
    total: Mapping[str, str] | None = None,
    hierarchy: Mapping[str, str] | None = None,
    missing: Literal["zero"] | None = None,
    zeros: Zeros = "secondary",
    singletons: bool = True,
    method: Method = "auto",
    keep: Sequence[str] = (),
    title: str = "",
    formats: Sequence[str] = (),
    ignore: Sequence[str] = (),
    progress: Progress | None = None,
) -> SuppressedTables:
    """Protects tables of cells, all together, and seals them as a release (``confide suppress``).

    Args:
        tables: A CSV or Parquet file of cells, or several, which are linked by the names of their variables; or one
            description of tables (TOML), or the metadata of a table of tau-ARGUS (.rda).
        out: A new folder: ``release/`` may be published, ``confidential/`` must not.
        rule: Primary rules: ``threshold=3``, ``p=10``, ``pq=10,50``, ``dominance=1,75``. None: statuses decide.
        value: The column of figures, where it has no common name.
        unit: Magnitudes: every figure is a multiple of this, such as ``1/100``; 1 by default.
        total: For a variable the code of its total, where that has no common name.
        hierarchy: For a variable the file of its hierarchy (.hrc).
        missing: ``zero``: cells that are not in a file are zero.
        zeros: Whether zeros are always ``published``, may be hidden (``secondary``), or must be (``primary``).
        singletons: Whether somebody who is alone in a cell, and knows its figure, is thought of.
        method: How the other hidden cells are found.
        keep: Margins that are never hidden unless primary, such as ``total``.
        title: A title for people.
        formats: What is written: ``parquet``, ``csv``, ``sdmx-csv``, ``xlsx``, ``csvw``, ``registry``, ``argus``. By
            default ``parquet`` and ``csv``, and ``argus`` too where the table is one of tau-ARGUS.
        ignore: Columns that are used for nothing; any other is one of what is protected.
        progress: Receives stages; none by default.

    Returns:
        The release, verified from its files.

    Raises:
        ConfideError: With a finding for everything that is wrong with the tables: file, row, and what to do.

    >>> import confide
    >>> jobs = tmp_path / "jobs.csv"
    >>> rows = "a,s,2 a,l,20 a,total,22 b,s,9 b,l,30 b,total,39 total,s,11 total,l,50 total,total,61".split()
    >>> with jobs.open("w") as file:
    ...     print("sector,size,count", *rows, sep=chr(10), file=file)
    >>> confide.suppress(jobs, rule="threshold=3", out=tmp_path / "jobs").release.name
    'release'
    """
    files = [Path(tables)] if isinstance(tables, (str, Path)) else [Path(each) for each in tables]
    rules = [rule] if isinstance(rule, str) else list(rule)
    folder = Path(out)
    keys = given_tables.parse_rules(rules) | {"zeros": zeros, "singletons": singletons, "method": method}
    keys |= {"keep": list(keep)} if keep else {}
    for path in files:
        if not path.exists():
            _what, place = "there is no such file", Place(file=str(path))
            raise ParameterError("no-such-file/nothing", where=place)
        if path.suffix.lower() == ".jj":
            _what, place = "a problem in the exchange format has no variables to publish", Place(file=str(path))
            raise ParameterError("argus-file/problem", where=place)
    texts: dict[str, str] = {}
    if len(files) == 1 and given_tables.is_description(files[0]):
        if value is not None or total or hierarchy or missing or ignore:
            _what, place = "the description says what the columns are", Place(file=str(files[0]))
            raise ParameterError("table-description/columns", where=place)
        described = Path(_relative(files[0], folder)).as_posix()
        read = [describe_given(files[0])]
    else:
        description = given_tables.given_description(
            files, folder, value=value, totals=total, hierarchies=hierarchy, missing=missing, ignore=ignore
        )
        texts[DESCRIPTION] = given_tables.description_text(description)
        read = [describe_given(path, ",", value, total, hierarchy or (), ignore) for path in files]
        described = DESCRIPTION
    columns: dict[str, Mapping[str, str]] = {}
    for given in read:
        columns |= given.taken_for
        for name, meanings in given.taken_for.items():
            listed = "; ".join(f"{column}: {what}" for column, what in meanings.items())
            reason = "has no description" if given.assumed else "has columns that its description does not name"
            (progress or Silent()).note(f"note: {name} {reason}, so Confide assumes: {listed}.")
    of_argus = any(path.suffix.lower() in (".rda", ".tab") for path in files)
    written_as = list(formats) or ["parquet", "csv", *(["argus"] if of_argus else [])]
    named, step = folder.resolve().name, None if unit is None else str(exact(unit, "--unit"))
    texts[SPEC] = given_tables.given_spec_text(named, title or named, described, keys, written_as, step)
    written = _write(folder, texts)
    try:
        run = api.run(folder / SPEC, progress=progress)
    except ConfideError:
        if Workspace(folder).identity() is None:  # nothing was begun: nothing is left that a next try would meet
            for path in written:
                path.unlink(missing_ok=True)
            with suppress_errors(OSError):
                folder.rmdir()
        raise
    return SuppressedTables(run, folder / SPEC, api.verify(run.release), columns)


def _relative(path: Path, folder: Path) -> str:
    return os.path.relpath(path.resolve(), folder.resolve())


def _write(folder: Path, texts: Mapping[str, str]) -> list[Path]:
    """Writes spec and description, unless they are there as they would be written: then the run goes on. Says which
    files are new."""
    for name, text in texts.items():
        path = folder / name
        if path.exists() and path.read_text(encoding="utf-8") != text + "\n":
            raise RunError("there-already/release", where=Place(file=str(path)))
    if Workspace(folder).confidential.exists() and not (folder / SPEC).exists():
        raise RunError("there-already/run", where=Place(file=str(folder)))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        found = error.strerror or type(error).__name__
        raise RunError("unwritable/folder", where=Place(file=str(folder)), found=found) from None
    new = [folder / name for name in texts if not (folder / name).exists()]
    for path in new:
        write_text(path, texts[path.name] + "\n")
    return new
