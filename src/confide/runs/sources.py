"""The files that a spec names, as sources with the columns it declares."""

from __future__ import annotations

from typing import Literal, get_args

from confide.engines import Source, format_of
from confide.errors import Finding
from confide.runs.load_spec import LoadedSpec

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
