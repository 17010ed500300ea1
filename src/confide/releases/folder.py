"""The release: a sealed folder. What is written here may leave the building, so no confidential type gets in."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from confide.confidential import Confidential
from confide.errors import Place, ReleaseError
from confide.exact import exact
from confide.file_system import flush, sha256_of
from confide.messages import ENGLISH, messages
from confide.noise import SAMPLER
from confide.privacy import ZCDP, Loss, Neighbours, PrivacyUnit, epsilons
from confide.privacy.invariants import stated_constraints
from confide.privacy.statements import rounded_up, statements
from confide.releases.plan import PUBLIC_INPUTS, Plan, loss_by_attribute, loss_by_move, read_plan
from confide.releases.spec import LoadedSpec
from confide.releases.workspace import CHOSEN, RELEASE, STAMP
from confide.releases.workspace import MANIFEST as MANIFEST
from confide.version import __version__

SIGNATURE = "signature.json"
"""Lies beside the manifest of a release that its office has signed: :mod:`confide.releases.signature`."""
CHOSEN_KEY = "made with a chosen key; its noise protects nobody"
REHEARSAL = "a rehearsal on made-up records; nobody real is in it"
"""Why a release is stamped."""
COMPANIONS = frozenset(
    {
        "README.txt",
        "accuracy.html",
        "codebook.html",
        "csvw-metadata.json",
        "datapackage.json",
        "explore.html",
        "registry.json",
        "sdmx/structure.json",
        "tables.xlsx",
    }
)
"""Files for readers that follow from the tables and the manifest: :mod:`confide.releases.companions`."""
ARGUS = "argus/"
"""The folder of those that tau-ARGUS reads."""
PUBLIC_FILE, PUBLIC_FOLDER = 0o644, 0o755
"""What everybody may read and nobody but the owner may change."""
ROWS_PER_GROUP = 1 << 19
VALUES_PER_GROUP = 1 << 23
"""A wide table has fewer rows in a group, so that what is held of it stays below some hundred megabytes."""


@dataclass(frozen=True, slots=True)
class ReleasedFile:
    """One file of a release, as its manifest has it."""

    path: str
    sha256: str
    bytes: int
    rows: int | None = None
    columns: Mapping[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        plain: dict[str, Any] = {"path": self.path, "sha256": self.sha256, "bytes": self.bytes}
        if self.rows is not None:
            plain |= {"rows": self.rows, "columns": dict(self.columns)}
        return plain


class ReleaseWriter:
    """Writes a release beside its final place; :meth:`seal` gives it its name, whole or not at all."""

    def __init__(self, final: Path, *, stamped: bool, metadata: Mapping[str, str]):
        """``stamped``: whether every file says in its name and its metadata that it is not for release."""
        self._final = final
        self._partial = final.with_name(final.name + ".partial")
        self._stamped = stamped
        self._metadata = dict(metadata) | ({"stamp": STAMP} if stamped else {})
        self.files: list[ReleasedFile] = []
        self.copies: set[str] = set()
        """The files that have the rows of another one, written at the same time in another format."""
        self._open: list[Any] = []
        shutil.rmtree(self._partial, ignore_errors=True)
        self._partial.mkdir(parents=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Whatever is not sealed by now is not kept."""
        for writer in self._open:
            with suppress(OSError, pa.ArrowException):
                writer.close()
        shutil.rmtree(self._partial, ignore_errors=True)

    def table(
        self,
        name: str,
        schema: pa.Schema,
        batches: Iterable[pa.RecordBatch],
        formats: Iterable[str],
        title: str,
        folder: str = "tables",
    ) -> None:
        """A table in every format asked for, streamed. The columns' ``description`` metadata goes into the manifest.
        Without a ``folder`` it is beside the pages."""
        place = f"{folder}/{name}" if folder else name
        paths = {format_: self._path(place, format_) for format_ in formats}
        self._write(paths, schema, batches, title)

    def part(
        self,
        place: str,
        schema: pa.Schema,
        batches: Iterable[pa.RecordBatch],
        title: str,
        rows_per_group: int | None = None,
    ) -> None:
        """One Parquet file at a place of its own (a path without ending), such as a part of a data set in folders."""
        self._write({"parquet": self._path(place, "parquet")}, schema, batches, title, rows_per_group)

    def text(
        self,
        place: str,
        schema: pa.Schema,
        batches: Iterable[pa.RecordBatch],
        title: str,
        delimiter: str,
        *,
        quoted: bool = False,
    ) -> None:
        """One text file at a place of its own, with ``delimiter`` between values. Unless ``quoted`` there are no quotes
        anywhere: for layouts whose values never need them."""
        separator = None if quoted and delimiter == "," else delimiter
        self._write({"csv": self._path(place, "csv")}, schema, batches, title, delimiter=separator)

    def _write(
        self,
        paths: Mapping[str, str],
        schema: pa.Schema,
        batches: Iterable[pa.RecordBatch],
        title: str,
        size: int | None = None,
        delimiter: str | None = None,
    ) -> None:
        """The same rows to a file for each format, ``size`` at a time."""
        if isinstance(batches, Confidential):
            raise TypeError("Confide does not release a confidential value")
        schema = schema.with_metadata({**(schema.metadata or {}), **self._metadata, "title": title})
        writers = self._open = []
        for format_, path in paths.items():
            writers.append(_open_writer(format_, self._partial / path, schema, delimiter))
        rows = 0
        for batch in _same_size(batches, size or min(ROWS_PER_GROUP, VALUES_PER_GROUP // len(schema))):
            rows += batch.num_rows
            for writer in writers:
                writer.write_batch(batch)
        for writer in writers:
            writer.close()
        self._open = []
        columns = {name: _description(schema.field(name)) for name in schema.names}
        for path in paths.values():
            self._note(path, rows, columns)
        first = min(paths.values(), key=lambda path: not path.endswith(".parquet"))
        self.copies |= {*paths.values()} - {first}

    def foreign(
        self, place: str, ending: str, rows: int, columns: Mapping[str, str], write: Callable[[Path], object]
    ) -> None:
        """A file of data at a place of its own that another library writes; ``columns`` has their descriptions."""
        path = self._path(place, ending)
        write(self._partial / path)
        self._note(path, rows, columns)

    def document(self, name: str, content: str | bytes) -> None:
        """A text for people, such as the certificate, or what explains the tables to programs."""
        file = self._partial / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        self._note(name)

    @property
    def folder(self) -> Path:
        """Where the files are before the release has its name."""
        return self._partial

    def seal(self, manifest: Mapping[str, Any], *, before_naming: Callable[[Self], object] = lambda _: None) -> None:
        """Writes the manifest, makes everything durable and gives the folder its name.

        Args:
            manifest: Without its list of files.
            before_naming: Is shown the release while it has no name yet; raises if it must not get one.
        """
        if self._stamped:
            self.document(*stamp_document(manifest))
        content = dict(manifest) | {
            "files": [file.as_dict() for file in sorted(self.files, key=lambda file: file.path)]
        }
        path = self._partial / MANIFEST
        path.write_text(manifest_text(content), encoding="utf-8", newline="\n")
        for file in (self._partial, *self._partial.rglob("*")):
            file.chmod(PUBLIC_FOLDER if file.is_dir() else PUBLIC_FILE)
            flush(file)
        flush(self._partial)
        before_naming(self)
        self._partial.replace(self._final)
        flush(self._final.parent)

    def _path(self, stem: str, format_: str) -> str:
        stamp = ".NOT-FOR-RELEASE" if self._stamped else ""
        (self._partial / stem).parent.mkdir(parents=True, exist_ok=True)
        return f"{stem}{stamp}.{format_}"

    def _note(self, path: str, rows: int | None = None, columns: Mapping[str, str] | None = None) -> None:
        file = self._partial / path
        self.files.append(ReleasedFile(path, sha256_of(file), file.stat().st_size, rows, columns or {}))


def _same_size(batches: Iterable[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of one size: the bytes of a file depend on its rows, not on how they came."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        if not isinstance(batch, pa.RecordBatch):
            raise TypeError(f"a release takes record batches, not {type(batch).__name__}")
        held.append(batch)
        rows += batch.num_rows
        while rows >= size:
            rows_held = pa.Table.from_batches(held).combine_chunks()
            yield from rows_held.slice(0, size).to_batches()
            held = rows_held.slice(size).to_batches()
            rows -= size
    if rows:
        yield from pa.Table.from_batches(held).combine_chunks().to_batches()


def rehearsal_banner(manifest: Mapping[str, Any]) -> str:
    """What a page of a rehearsal says above everything else; nothing on those of other releases.

    Args:
        manifest: The manifest of a release.

    Returns:
        The banner, or an empty text.

    >>> rehearsal_banner({"stamp": None})
    ''
    """
    return f"{STAMP}: {REHEARSAL}" if manifest.get("rehearsal") else ""


def stamp_document(manifest: Mapping[str, Any]) -> tuple[str, str]:
    """The file that a stamped release has, and what it says."""
    return "NOT-FOR-RELEASE.txt", (rehearsal_banner(manifest) or f"{STAMP}: {CHOSEN_KEY}") + ".\n"


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a release folder."""
    path = folder / MANIFEST
    try:
        manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_each_key_once)
        if not _has_form(manifest):
            raise ValueError
    except FileNotFoundError:
        raise ReleaseError("not-a-release/folder", where=Place(file=str(path))) from None
    except (ValueError, RecursionError, OSError) as error:
        raise ReleaseError(
            "not-a-release/read", where=Place(file=str(path)), error=getattr(error, "strerror", None)
        ) from None
    return manifest


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Readers of JSON differ in which of two equal keys they take: a manifest has none."""
    if len(values := dict(pairs)) < len(pairs):
        raise ValueError
    return values


@dataclass(frozen=True, eq=False)
class SealedRelease:
    """A release that was opened: its folder and its manifest. What else is read of it is read through this."""

    folder: Path
    manifest: dict[str, Any]

    @classmethod
    def of(cls, path: str | Path) -> SealedRelease:
        """The release that somebody means, by its folder or by that of its run."""
        return cls.at(path) or SealedRelease(Path(path), read_manifest(Path(path)))

    @classmethod
    def at(cls, path: str | Path) -> SealedRelease | None:
        """The same; none where there is no manifest, so that something else is meant."""
        folder, inside = Path(path), Path(path) / RELEASE
        if not (folder / MANIFEST).exists() and (inside / MANIFEST).is_file():
            folder = inside
        return SealedRelease(folder, read_manifest(folder)) if (folder / MANIFEST).is_file() else None

    @cached_property
    def manifest_sha256(self) -> str:
        """What ledger and signature know the release by."""
        return sha256_of(self.folder / MANIFEST)

    @cached_property
    def plan(self) -> Plan:
        """Every measurement, and what it cost."""
        return read_plan(self.manifest["plan"])

    @property
    def title(self) -> str:
        """What reports call it."""
        return f"release {self.manifest.get('release', self.folder.name)} ({self.manifest['mechanism']})"

    @property
    def files(self) -> list[str]:
        """The paths of all files that are listed."""
        return [file["path"] for file in self.manifest["files"]]

    @property
    def data(self) -> list[dict[str, Any]]:
        """What is listed of each file that has rows."""
        return [file for file in self.manifest["files"] if "rows" in file]

    def rows_of(self, file: Path) -> int:
        """How many rows a file has, as the manifest says."""
        path = file.relative_to(self.folder).as_posix()
        return next(int(each["rows"]) for each in self.data if each["path"] == path)

    def without(self, paths: Collection[str]) -> SealedRelease:
        """The same release as if it did not have some files."""
        files = [file for file in self.manifest["files"] if file["path"] not in paths]
        return SealedRelease(self.folder, self.manifest | {"files": files})

    @property
    def facts(self) -> dict[str, Any]:
        """What decided the release apart from its measurements."""
        question: dict[str, Any] = self.manifest["plan"]["question"]
        return question

    def paths(self, *starts: str) -> list[str]:
        """The files that are listed, by the beginnings of their paths."""
        return [path for path in self.files if path.startswith(starts)]

    def table(self, *starts: str) -> Path | None:
        """The file of a table by the beginning of its path, without stamp and ending: Parquet before CSV."""
        paths = [path for path in self.paths(*starts) if path.endswith((".parquet", ".csv"))]
        return self.folder / min(paths, key=lambda path: not path.endswith(".parquet")) if paths else None

    def require_unchanged(self, *starts: str) -> None:
        """Refuses a release with files that are not those that the manifest lists, as far as they are read."""
        wrong = [(path, words) for path, words in self.file_states(*starts) if words]
        if wrong:
            raise ReleaseError(
                "not-as-sealed/files",
                where=Place(file=str(self.folder / wrong[0][0])),
                found=wrong[0][1],
                wrong=len(wrong),
                one=len(wrong) == 1,
            )

    def file_states(self, *starts: str) -> Iterator[tuple[str, str]]:
        """What is wrong with each file that is listed, by path; nothing with one that is as it was written."""
        root = self.folder.resolve()
        for file in self.manifest["files"]:
            if starts and not file["path"].startswith(starts):
                continue
            path = self.folder / file["path"]
            try:
                if path.is_symlink() or not path.resolve().is_relative_to(root) or not path.is_file():
                    words = "the file is missing" if not path.is_symlink() else "a link in place of the file"
                    yield file["path"], words
                elif sha256_of(path) != file["sha256"]:
                    yield file["path"], "the content differs from the manifest"
                else:
                    yield file["path"], ""
            except OSError as error:
                yield file["path"], f"the file cannot be read: {error.strerror}"

    def unlisted(self) -> list[str]:
        """Whatever lies in the folder and is neither in the manifest nor its signature: files, links of any kind and
        folders that hold nothing of the release."""
        listed = {MANIFEST, SIGNATURE, *self.files}
        folders = {parent.as_posix() for path in listed for parent in Path(path).parents}
        extra = []
        for where, inner, files in os.walk(self.folder):  # links are listed and not followed
            for name in (*inner, *files):
                path = Path(where, name)
                relative = path.relative_to(self.folder).as_posix()
                if path.is_symlink() or relative not in (folders if path.is_dir() else listed):
                    extra.append(relative + ("/" if path.is_dir() else ""))
        return sorted(extra)

    def file_problems(self) -> list[str]:
        """Everything in which the files of the folder are not what the manifest lists."""
        wrong = [f"{path}: {problem}" for path, problem in self.file_states() if problem]
        return wrong + [f"{path}: not in the manifest" for path in self.unlisted()]


def _has_form(manifest: Any) -> bool:
    if not isinstance(manifest, dict) or not isinstance(manifest.get("files"), list):
        return False
    if not isinstance(manifest.get("plan"), dict):
        return False
    texts = [manifest.get(key) for key in ("confide", "release", "mechanism")]
    for file in manifest["files"]:
        if not isinstance(file, dict) or not isinstance(file.get("bytes"), int):
            return False
        texts += [file.get("path"), file.get("sha256")]
    return all(isinstance(text, str) and "\0" not in text for text in texts)


def _open_writer(format_: str, path: Path, schema: pa.Schema, delimiter: str | None) -> Any:
    if format_ == "parquet":
        return pq.ParquetWriter(path, schema, compression="zstd")
    options = pyarrow.csv.WriteOptions(quoting_style="needed")
    if delimiter is not None:
        options = pyarrow.csv.WriteOptions(delimiter=delimiter, quoting_style="none", quoting_header="none")
    return pyarrow.csv.CSVWriter(path, schema, write_options=options)


def _description(column: pa.Field) -> str:
    return str((column.metadata or {}).get(b"description", b"").decode())


def require_package(folder: Path, manifest: Mapping[str, Any], find_mechanism: Callable[[str], object]) -> None:
    """Raises if a release was made by another package's mechanism, and that is not here or cannot be used."""
    stated = manifest.get("package")
    if not isinstance(stated, dict):
        return
    try:
        find_mechanism(manifest["mechanism"])
    except KeyError:
        raise ReleaseError(
            "no-package",
            where=Place(file=str(folder / MANIFEST), path="package"),
            mechanism=manifest["mechanism"],
            stated=stated.get("name"),
            stated_expected=stated.get("version"),
        ) from None


# The manifest: what a release is, by which version, from which plan, at which cost.
FORMAT = "confide/manifest/v1"


def make_manifest(
    loaded: LoadedSpec,
    plan: Plan,
    guarantee: Mapping[str, Any],
    statistics: Mapping[str, Any],
    *,
    stamped: bool,
    explore: str | None = None,
    package: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The manifest without its list of files, which the writer of the release adds.

    Args:
        loaded: The spec.
        plan: The plan of the release.
        guarantee: What the mechanism says is promised: ``privacy``, ``noise`` and the like.
        statistics: What the mechanism tells of how its measurements became the release.
        stamped: Whether it was made with a chosen key, and is not for release.
        explore: The version of the page ``explore.html``, where the release has one.
        package: Name and version of the package that the mechanism comes from, where that is not Confide.

    Returns:
        The entries in the order in which they are written.
    """
    release = loaded.spec.release
    return manifest_of(
        release.name,
        release.title or release.name,
        plan,
        guarantee,
        statistics,
        stamped=stamped,
        rehearsal=release.rehearsal,
        publication=release.publication,
        explore=explore,
        package=package,
    )


def manifest_of(
    release: str,
    title: str,
    plan: Plan,
    guarantee: Mapping[str, Any],
    statistics: Mapping[str, Any],
    *,
    stamped: bool,
    rehearsal: bool = False,
    version: str = __version__,
    publication: Mapping[str, str] | None = None,
    explore: str | None = None,
    package: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The manifest of a release with this name and title: see :func:`make_manifest`.

    ``publication`` is who publishes it and how it is cited, and the language of its pages; no entry where a spec says
    nothing of that. ``explore`` is the version of the page of all tables; no entry where there is none. ``package`` is
    what another package's mechanism comes from; no entry where the mechanism is Confide's own.
    """
    manifest: dict[str, Any] = {
        "format": FORMAT,
        "confide": version,
        "release": release,
        "title": title,
        **({"publication": dict(publication)} if publication else {}),
        "mechanism": plan.mechanism,
        **({} if package is None else {"package": dict(package)}),
        **({} if explore is None else {"explore": explore}),
    }
    if stamped and plan.has_loss:
        manifest["stamp"] = STAMP
    manifest |= {
        **guarantee,
        "statistics": dict(statistics),
        "plan_hash": plan.hash,
        "plan": plan.as_dict(),
    }
    if stamped:
        # Readers know one form of the manifest: without a loss the stamp is last.
        manifest |= {"noise": {**manifest["noise"], "key": CHOSEN}, "stamp": STAMP}
    if rehearsal:
        # Also where nothing is drawn with a key that could be chosen.
        manifest |= {"stamp": STAMP, "rehearsal": True}
    return manifest


def manifest_text(manifest: Mapping[str, Any]) -> str:
    """A manifest as it is written: there is one form, byte by byte."""
    return json.dumps(manifest, indent=1, ensure_ascii=False) + "\n"


def stated_delta(manifest: Mapping[str, Any]) -> Fraction:
    """The delta at which a manifest states its epsilon; any, where it states none."""
    stated = manifest["privacy"].get("epsilon_at_delta", {"delta": "1/10000000000"})
    return exact(stated["delta"], "delta")


def formal_guarantee(plan: Plan, delta: Fraction) -> dict[str, Any]:
    """What is promised by noise with a loss, and where the noise comes from."""
    return {
        "privacy": privacy_of(plan, delta),
        "noise": {"sampler": SAMPLER, "key": "from the operating system"},
    }


def privacy_of(plan: Plan, delta: Fraction) -> dict[str, Any]:
    """The guarantee in numbers: exact, and for zCDP as epsilon at delta in three ways, each rounded up."""
    loss = plan.loss
    stated: dict[str, Any] = {"neighbours": plan.neighbours.value, "loss": loss.as_dict()}
    if isinstance(loss, ZCDP):
        stated["epsilon_at_delta"] = {"delta": str(delta)} | epsilons(loss.rho, delta)
    if plan.unit is not PrivacyUnit.RECORD:
        stated["unit"] = {"name": plan.unit.value, "cost_of_one_person": cost_of_person(plan).as_dict()}
    stated["by_attribute"] = {name: part.as_dict() for name, part in loss_by_attribute(plan).items()}
    stated["by_move_within"] = {name: part.as_dict() for name, part in loss_by_move(plan).items()}
    if limited := plan.left_by_invariants.as_dict():
        stated["left_by_invariants"] = limited
    stated["in_words"] = in_words(plan, delta)
    return stated


def in_words(plan: Plan, delta: Fraction, language: str = ENGLISH) -> list[str]:
    """What the loss of a plan promises, in sentences: a manifest has them in English, a page in its own language."""
    constraints, text = stated_constraints(plan.question), messages(language)
    paragraphs = statements(
        plan.loss,
        plan.neighbours,
        delta=delta,
        unit=plan.record,
        invariants=bool(constraints.get("invariants")),
        text=text,
        not_covered=[part.words(text) for part in plan.left_by_invariants.limited],
    )
    said = [paragraph.text for paragraph in paragraphs]
    return [*said, *unit_in_words(plan, language), *inputs_in_words(plan, language)]


def unit_in_words(plan: Plan, language: str = ENGLISH) -> list[str]:
    """Of which neighbours a plan speaks that names its unit, and what a release of households costs one person."""
    if plan.unit is PrivacyUnit.RECORD:
        return []
    loss = None if plan.unit is PrivacyUnit.PERSON else next(iter(cost_of_person(plan).parameters().items()))
    name, amount = ("", "") if loss is None else (loss[0], rounded_up(loss[1], 6))
    return [messages(language).text(f"statements.unit_{plan.unit.value}", name=name, loss=amount)]


def inputs_in_words(plan: Plan, language: str = ENGLISH) -> Iterator[str]:
    """What other published figures the release was made of, and that they cost nothing more."""
    for given in plan.question.get(PUBLIC_INPUTS, {}).values():
        kind, name = ("file", "") if "file_sha256" in given else ("release", given["release"])
        digest = given.get("file_sha256") or given["manifest_sha256"]
        yield messages(language).text(f"statements.input_{kind}", name=name, hash=digest)


def cost_of_person(plan: Plan) -> Loss:
    """What a release costs one person who comes, goes, or changes where it is."""
    return plan.cost_to(PrivacyUnit.PERSON, Neighbours.ADD_REMOVE, plan.definition, plan.delta)
