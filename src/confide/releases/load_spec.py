"""Reading a spec file: TOML in, a checked value out, every problem at once and at its line."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import BaseModel, ValidationError

from confide import documents
from confide.documents import expected_in_words
from confide.engines import Source, format_of
from confide.errors import Finding, ParameterError, Place, SpecError
from confide.releases.spec import PATTERNS_IN_WORDS, Problem, Spec

MAXIMUM_SIZE = 1 << 20
MOST_FINDINGS = 100


@dataclass(frozen=True)
class LoadedSpec:
    """A spec with the file it came from."""

    spec: Spec
    path: Path
    text: str

    def resolve(self, name: str) -> Path:
        """A path of the spec, relative to the spec's folder."""
        return self.path.parent / name

    def place(self, *path: str | int) -> Place:
        """Where a value of the spec stands."""
        return Place(file=self.path.name, line=documents.line_of(self.text, path), path=dotted(path))

    def finding(self, problem: Problem) -> Finding:
        """A problem of the spec, with its line."""
        return Finding(
            problem.code, problem.what, self.place(*problem.path), problem.found, problem.expected, problem.remedy
        )

    @property
    def folder(self) -> Path:
        """The folder of the run."""
        return self.resolve(self.spec.output.folder or self.spec.release.name)


def load_spec(path: Path, models: Mapping[str, type[Spec]]) -> LoadedSpec:
    """The spec in a file, checked against the model of its mechanism. Raises a :class:`SpecError` with all findings."""
    text = _read(path)
    try:
        values = documents.parse(text)
    except (ValueError, RecursionError) as error:
        raise SpecError(_not_toml(path, text, error)) from None
    model = models[_mechanism(path, text, values, models)]
    try:
        spec = model.model_validate(values)
    except ValidationError as error:
        problems = error.errors()
        findings = [form_finding(path.name, text, model, dict(problem)) for problem in problems[:MOST_FINDINGS]]
        raise SpecError(findings + _more(path, len(problems))) from None
    loaded = LoadedSpec(spec, path, text)
    wrong = spec.problems()
    if wrong:
        findings = [loaded.finding(problem) for problem in wrong[:MOST_FINDINGS]]
        raise SpecError(findings + _more(path, len(wrong)))
    return loaded


def dotted(path: documents.KeyPath) -> str:
    """A path as people write it: ``tables[1].levels``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _read(path: Path) -> str:
    try:
        if path.stat().st_size > MAXIMUM_SIZE:
            size = f"{path.stat().st_size:,} bytes"
            raise _unreadable(path, "the file is too large for a spec", "a TOML file of at most 1 MiB", size)
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        expected = "a spec; `confide new tables FOLDER` writes one"
        raise _unreadable(path, "there is no such file", expected, "nothing") from None
    except IsADirectoryError:
        raise _unreadable(path, "this is a folder", "the spec file in it", "a folder") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        found = f"byte 0x{error.object[error.start]:02x}"
        raise _unreadable(path, "the file is not text in UTF-8", "a TOML file", found, line) from None
    except (OSError, ValueError) as error:
        found = getattr(error, "strerror", None) or type(error).__name__
        raise _unreadable(path, "the file cannot be read", "a readable file", found) from None


def _not_toml(path: Path, text: str, error: Exception) -> Finding:
    if isinstance(error, RecursionError):
        found = "brackets nested too deeply"
    elif not isinstance(error, tomllib.TOMLDecodeError):  # the parser of the standard library gives up on these
        found = "a number of several thousand digits"
    else:
        found = str(error).removesuffix("(at end of document)").strip()
    at_end = "at end of document" in str(error)
    return Finding(
        code="toml-syntax",
        what="the file is not TOML",
        where=Place(file=path.name, line=text.count("\n") + 1 if at_end else documents.error_line(error)),
        found=found,
        expected="key = value lines under [table] headers",
        remedy="correct the line; text values stand in quotes",
    )


def _more(path: Path, number: int) -> list[Finding]:
    if number <= MOST_FINDINGS:
        return []
    what = f"{number - MOST_FINDINGS:,} further findings are not shown"
    remedy = "correct the first ones and check again"
    return [Finding("more-findings", what, Place(file=path.name), f"{number:,} findings", "a spec without", remedy)]


def _unreadable(path: Path, what: str, expected: str, found: str, line: int | None = None) -> SpecError:
    return SpecError(
        "spec-unreadable",
        what,
        where=Place(file=str(path), line=line),
        found=found,
        expected=expected,
        remedy="give the path of the spec file",
    )


def _mechanism(path: Path, text: str, values: dict[str, Any], models: Mapping[str, type[Spec]]) -> str:
    release = values.get("release")
    name = release.get("mechanism") if isinstance(release, dict) else None
    if isinstance(name, str) and name in models:
        return name
    close = difflib.get_close_matches(str(name), models, 1)
    raise SpecError(
        "mechanism",
        "the spec names no mechanism" if name is None else "there is no such mechanism",
        where=Place(path.name, documents.line_of(text, ("release", "mechanism")), path="release.mechanism"),
        found="nothing" if name is None else repr(name),
        expected="one of " + ", ".join(models),
        remedy=f'did you mean "{close[0]}"?' if close else 'write, under [release], mechanism = "tables"',
    )


def form_finding(file: str, text: str, model: type[BaseModel], problem: dict[str, Any]) -> Finding:
    """What a TOML file has that its model does not allow, from one of the model's validation errors."""
    where = tuple(part for part in problem["loc"] if part != "function-after")
    place = Place(file, documents.line_of(text, where), path=dotted(where))
    key = next((part for part in reversed(where) if isinstance(part, str)), "")
    found = _shown(problem.get("input"))
    if problem["type"] == "extra_forbidden":
        known = _keys_at(model, where[:-1])
        close = difflib.get_close_matches(key, known, 1)
        remedy = f'did you mean "{close[0]}"?' if close else "remove it"
        expected = "one of " + ", ".join(known) if known else "no such key"
        return Finding("unknown-key", f"unknown key {key!r}", place, found, expected, remedy)
    if problem["type"] == "missing":
        return Finding("missing-key", f"{key!r} is missing", place, "nothing", f"a value for {dotted(where)}", "add it")
    context = problem.get("ctx", {})
    raised = context.get("error")
    if isinstance(raised, ParameterError):
        reason = raised.findings[0]
        return Finding(reason.code, reason.what, place, found, reason.expected, reason.remedy)
    expected = PATTERNS_IN_WORDS.get(context.get("pattern", ""), expected_in_words(problem))
    what = "the name is not of the right form" if "pattern" in context else "the value is not of the right form"
    return Finding("bad-value", f"{key!r}: {what}", place, found, expected, "correct the value")


@lru_cache
def _json_schema(model: type[BaseModel]) -> dict[str, Any]:
    return model.model_json_schema(by_alias=True)


def _keys_at(model: type[BaseModel], path: tuple[str | int, ...]) -> list[str]:
    """The keys that the model allows at a path."""
    schema = _json_schema(model)
    node: dict[str, Any] = schema
    for part in path:
        node = node.get("items", {}) if isinstance(part, int) else node.get("properties", {}).get(part, {})
        node = next((one for one in node.get("anyOf", ()) if "$ref" in one), node)
        while "$ref" in node:
            node = schema["$defs"][node["$ref"].rsplit("/", 1)[-1]]
    return sorted(node.get("properties", {}))


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a whole number of more digits than Python writes
        return "a value too long to show"
    return text if len(text) <= 80 else text[:77] + "..."


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
