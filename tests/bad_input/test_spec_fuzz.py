"""Whatever stands in a spec file, reading it ends in a spec or a SpecError; a line that is named is the right one."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.kits.bad_input import SCHEMA, SPEC

from confide import api
from confide.documents import line_of, load_schema
from confide.errors import Finding, SpecError

fuzzed = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)

LINES = SPEC.splitlines()
FRAGMENTS = [
    *LINES,
    *("[", "[[", "]", "]]", "{", "}", '"', '"""', "'''", "=", "#", ",", ".", "\\", "\n", "\r\n", "\0", "\ufeff"),
    *("[tables]", "[[release]]", "[privacy.budget]", "tables = []", "release = 1", "budget = 1e400", "budget = -0"),
    *("name = nan", "x = 0x" + "f" * 5000, "x = " + "9" * 4400, "x = " + "[" * 1200, "x = 1979-99-99", "a.b.c.d = 1"),
    *('"\\u0000" = 1', "\"\\ud800\" = 1", "budget = { a = [1, { b = 2 }] }", "levels = [[[]]]", "digits = " + "1" * 99),
]  # fmt: skip


def findings_of(action: Callable[[], object]) -> Sequence[Finding]:
    """Nothing if all is well, or what a SpecError holds; any other error is an error of the test."""
    try:
        action()
    except SpecError as error:
        return error.findings or [Finding("none", "an error without a finding")]
    return []


def toml(path: Path) -> dict[str, Any] | None:
    """What Python's own reader makes of a file; none where it is no TOML."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError):
        return None


def unread(document: Any, accepted: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The keys that stand in a document and not in what was made of it."""
    if isinstance(document, dict):
        if not isinstance(accepted, dict):
            return [path]
        return [
            place
            for key, value in document.items()
            for place in (unread(value, accepted[key], (*path, key)) if key in accepted else [(*path, key)])
        ]
    if isinstance(document, list) and any(isinstance(value, dict) for value in document):
        if not isinstance(accepted, list | tuple) or len(accepted) != len(document):
            return [path]
        numbered = enumerate(zip(document, accepted, strict=True))
        return [place for number, (value, kept) in numbered for place in unread(value, kept, (*path, number))]
    return []


def read(path: Path, data: bytes) -> Sequence[Finding]:
    """What is wrong with a spec. What is accepted is TOML, and every key of it was read: nothing is passed over."""
    path.write_bytes(data)
    findings = findings_of(lambda: api.load(path))
    if not findings:
        document = toml(path)
        assert document is not None, "what is no TOML was accepted"
        assert not unread(document, api.load(path).spec.model_dump(by_alias=True))
    for finding in findings:
        assert finding.where.file
        assert finding.what
        assert finding.remedy
        if finding.where.line is not None:
            assert 1 <= finding.where.line <= data.count(b"\n") + data.count(b"\r") + 1
    return findings


@fuzzed
@given(st.binary(max_size=400))
def test_bytes_are_a_spec_error(tmp_path: Path, data: bytes) -> None:
    assert read(tmp_path / "spec.toml", data)


@fuzzed
@given(st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=20), max_size=30).map("\n".join))
@example("x = " + "[" * 100_000)
@example('release = { mechanism = "tables" }')
def test_fragments_are_a_spec_error(tmp_path: Path, text: str) -> None:
    findings = read(tmp_path / "spec.toml", text.encode("utf-8", "surrogatepass"))
    # Thirty lines in any order are no spec, unless they happen to be all that a spec must have.
    assert findings or tomllib.loads(SPEC).keys() <= tomllib.loads(text).keys()


@fuzzed
@given(st.integers(0, len(SPEC)), st.integers(0, 12), st.sampled_from(FRAGMENTS) | st.text(max_size=8))
def test_a_good_spec_with_a_change_anywhere_is_a_spec_or_a_spec_error(
    tmp_path: Path, start: int, length: int, put: str
) -> None:
    read(tmp_path / "spec.toml", (SPEC[:start] + put + SPEC[start + length :]).encode("utf-8", "surrogatepass"))


@fuzzed
@given(st.integers(0, len(SCHEMA)), st.integers(0, 12), st.sampled_from(FRAGMENTS) | st.text(max_size=8))
def test_a_good_schema_with_a_change_anywhere_is_a_schema_or_a_spec_error(
    tmp_path: Path, start: int, length: int, put: str
) -> None:
    data = (SCHEMA[:start] + put + SCHEMA[start + length :]).encode("utf-8", "surrogatepass")
    (tmp_path / "schema.toml").write_bytes(data)
    findings = findings_of(lambda: load_schema("schema.toml", tmp_path))
    assert all(finding.where.file for finding in findings)
    if not findings:
        document = toml(tmp_path / "schema.toml")
        assert document is not None, "what is no TOML was accepted"
        written = document["attributes"]
        schema = load_schema("schema.toml", tmp_path)
        assert [attribute.name for attribute in schema.attributes] == list(written)
        recodes = {f"{name}:{recode}" for name, body in written.items() for recode in body.get("recodes", {})}
        assert schema.variables.keys() == written.keys() | recodes
        assert document.keys() <= {"id", "title", "provenance", "attributes"}


# Values of every form that TOML has, for every key of the spec


plain = st.one_of(st.integers(), st.booleans(), st.floats(), st.text(max_size=9), st.dates(), st.times(), st.none())
values = st.recursive(plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner))


@fuzzed
@given(st.data())
def test_any_value_at_any_key_is_a_spec_or_a_spec_error(tmp_path: Path, data: st.DataObject) -> None:
    """Straight into the model: what a parser could hand over."""
    document: dict[str, Any] = tomllib.loads(SPEC)
    part = data.draw(st.sampled_from(["release", "data", "geography", "privacy", "output", "tables"]))
    body = document[part][0] if part == "tables" else document[part]
    key = data.draw(st.sampled_from([*body, "x"]))
    before, value = body.get(key), data.draw(values)
    body[key] = value
    (tmp_path / "spec.toml").write_text(SPEC)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("confide.documents.settings_file.parse", lambda *_, **__: (document, []))
        findings = findings_of(lambda: api.load(tmp_path / "spec.toml"))
    assert all(finding.remedy for finding in findings)
    # A float is not exact, a table is no value, one value is no list, and nobody knows the key x.
    one_for_list = isinstance(before, list) and value is not None and not isinstance(value, list)
    assert findings or not (key == "x" or isinstance(value, float | dict) or one_for_list)


# Lines


bare = st.from_regex(r"[A-Za-z0-9_-]{1,6}", fullmatch=True)
quoted = st.text(st.characters(exclude_characters='"\\', exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=5)
keys = bare | quoted.map(lambda text: f'"{text}"')
tricky = st.sampled_from([
    "1", "true", '"text"', "'# no comment'", '"a \\" = 1"', "1979-05-27 07:32:00", "[1, 2]", "{ }", "[]", "1.5e3",
    '"""\n[no.header]\nno_key = 1\n"""', "'''\n[[no]]\nx = '''", '"""two quotes at the end"""""',
    "[\n  1, # ] }\n  2,\n]",
    '[\n  ["a", "b"],\n  [\n    "x = 1",\n  ],\n]', "{ a = 1, b = { c = [1, 2] } }", '[{ x = "]" }, { y = "}" }]',
])  # fmt: skip


@st.composite
def documents(draw: st.DrawFn) -> tuple[str, dict[tuple[str | int, ...], int]]:
    """A TOML text with the line of every key and header that was written into it."""
    lines: list[str] = []
    places: dict[tuple[str | int, ...], int] = {}

    def write(text: str) -> int:
        start = sum(line.count("\n") + 1 for line in lines) + 1
        lines.append(text)
        return start

    def pairs(table: tuple[str | int, ...]) -> None:
        for key in draw(st.lists(keys, max_size=3, unique_by=unquoted)):
            if draw(st.booleans()):
                write(draw(st.sampled_from(["", "# [comment] = 1", "   \t", "#"])))
            blank = draw(st.sampled_from(["", " ", "\t "]))
            places[(*table, unquoted(key))] = write(f"{blank}{key}{blank}={blank}{draw(tricky)}{blank}# end")

    pairs(())
    tops = [place[0] for place in places]
    for name in draw(st.lists(bare.filter(lambda name: name not in tops), max_size=3, unique=True)):
        if draw(st.booleans()):
            places[(name,)] = write(f"[ {name} ]  # a table")
            pairs((name,))
            continue
        for number in range(draw(st.integers(1, 3))):
            line = write(f"[[{name}]]")
            places.setdefault((name,), line)
            places[(name, number)] = line
            pairs((name, number))
            if draw(st.booleans()) and (name, number, "sub") not in places:
                places[(name, number, "sub")] = write(f"[{name}.sub]")
                pairs((name, number, "sub"))
    return "\n".join(lines), places


def unquoted(key: str) -> str:
    return key.strip('"')


@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(documents())
def test_the_line_of_a_value_is_where_it_was_written(document: tuple[str, dict[tuple[str | int, ...], int]]) -> None:
    text, places = document
    tomllib.loads(text)
    lines = text.split("\n")
    for path, line in places.items():
        assert line_of(text, path) == line, path
        key = path[-1] if isinstance(path[-1], str) else path[-2]
        assert str(key) in lines[line - 1]
        assert line_of(text, (*path, "is not there")) == line
        assert line_of(text, (*path, 99, "x")) == line


@pytest.mark.parametrize(
    ("path", "has"),
    [
        (("tables", 1, "levels", 1), '"block"'),
        (("tables", 1, "levels"), "levels = ["),
        (("geography", "levels", 1, "digits"), "digits = 3"),
        (("geography", "areas", 0), "[[geography.areas]]"),
        (("privacy", "delta"), "[privacy]"),
    ],
)
def test_lines_of_the_spec(path: tuple[str | int, ...], has: str) -> None:
    line = line_of(SPEC, path)
    assert line is not None
    assert has in LINES[line - 1]


def test_a_path_into_nothing_has_no_line() -> None:
    assert line_of(SPEC, ("nothing", "of", 1)) is None
    assert line_of(SPEC, ()) is None
    assert line_of("", ("a",)) is None


def test_elements_of_inline_tables_and_lists_have_their_lines() -> None:
    text = 'a = [\n  { name = "x" },\n  # note\n  { name = "y",\n  },\n]\n'
    assert line_of(text, ("a", 1, "name")) == 4
    assert line_of(text, ("a", 0)) == 2


@fuzzed
@given(st.text(max_size=200) | st.lists(st.sampled_from(FRAGMENTS), max_size=9).map("\n".join))
@example("[" * 300)
@example("a = " + "{a=" * 300)
@example('a = "\\')
def test_looking_for_a_line_never_fails(text: str) -> None:
    for path in ((), ("a",), ("tables", 0, "name"), ("release", "name", 3)):
        line = line_of(text, path)
        assert line is None or 1 <= line <= text.count("\n") + 1
