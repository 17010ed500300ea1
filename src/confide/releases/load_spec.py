"""Reading a spec file: TOML in, a checked value out, every problem at once and at its line."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from confide.documents import Document, FileKind, Loaded, read
from confide.engines import Source, format_of
from confide.errors import Finding, SpecError
from confide.releases.spec import Spec

SPEC = FileKind(
    "spec",
    absent="spec-unreadable",
    unreadable="spec-unreadable",
    syntax="toml-syntax",
    example="`confide new tables FOLDER` writes one",
    largest=1 << 20,
)


@dataclass(frozen=True)
class LoadedSpec(Loaded[Spec]):
    """A spec with the file it came from."""

    @property
    def spec(self) -> Spec:
        """The spec itself."""
        return self.value

    @property
    def folder(self) -> Path:
        """The folder of the run."""
        return self.resolve(self.spec.output.folder or self.spec.release.name)


def load_spec(path: Path, models: Mapping[str, type[Spec]]) -> LoadedSpec:
    """The spec in a file, checked against the model of its mechanism. Raises a :class:`SpecError` with all findings."""
    document = read(path, kind=SPEC)
    checked = document.check(models[_mechanism(document, models)])
    checked.refuse(checked.value.problems())
    return LoadedSpec(SPEC, path, document.text, document.values, value=checked.value)


def _mechanism(document: Document, models: Mapping[str, type[Spec]]) -> str:
    release = document.values.get("release")
    name = release.get("mechanism") if isinstance(release, dict) else None
    if isinstance(name, str) and name in models:
        return name
    close = difflib.get_close_matches(str(name), models, 1)
    raise SpecError(
        "mechanism",
        "the spec names no mechanism" if name is None else "there is no such mechanism",
        where=document.place("release", "mechanism"),
        found="nothing" if name is None else repr(name),
        expected="one of " + ", ".join(models),
        remedy=f'did you mean "{close[0]}"?' if close else 'write, under [release], mechanism = "tables"',
    )


# The files that a spec names, as sources with the columns it declares.


SourceKey = Literal["records", "blocks"]


def find_sources(loaded: LoadedSpec) -> tuple[dict[str, Source], list[Finding]]:
    """Both files of a spec, as far as they are there, and what is wrong with the others."""
    found = {key: find_source(loaded, key) for key in get_args(SourceKey)}
    sources = {key: source for key, source in found.items() if isinstance(source, Source)}
    return sources, [finding for finding in found.values() if isinstance(finding, Finding)]


def find_source(loaded: LoadedSpec, key: SourceKey) -> Source | Finding:
    """The records or the block table of a spec, or what is wrong with its name."""
    data = loaded.spec.data
    name = data.records if key == "records" else data.blocks
    path, where = loaded.resolve(name), loaded.place("data", key)
    if not path.is_file():
        remedy = "correct the path; it is relative to the folder of the spec"
        return Finding("no-such-file", "there is no such file", where, name, "a file", remedy)
    format_ = format_of(path)
    if format_ is None:
        what, expected = "the file is neither Parquet nor CSV by its name", "a name that ends in .parquet or .csv"
        return Finding(
            "unknown-format", what, where, path.suffix or "no ending", expected, "rename or convert the file"
        )
    columns = data.columns if key == "records" else {**data.columns, **data.block_columns}
    return Source(path, format_, columns, data.delimiter)
