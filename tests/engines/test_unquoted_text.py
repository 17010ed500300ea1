"""Text without quoting, as every engine must read it: all bad lines at once, by number, without their content."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from confide.engines import Engine, LocalEngine, Source, local
from confide.engines.local import LONGEST_LINE, look_at_lines
from confide.errors import Finding, InputError

ENGINES = {"local": lambda scratch: LocalEngine(scratch, processes=2)}


@pytest.fixture(params=sorted(ENGINES), scope="module")
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with ENGINES[request.param](tmp_path_factory.mktemp("scratch")) as opened:
        yield opened


def unquoted(folder: Path, content: bytes) -> Source:
    path = folder / "rows.txt"
    path.write_bytes(content)
    return Source(path, "csv", delimiter="|", quoted=False)


def rows(engine: Engine, source: Source) -> list[tuple[str | None, ...]]:
    table = engine.sql("SELECT * FROM rows", rows=source).reveal("test")
    return [tuple(row.values()) for row in table.to_pylist()]


def findings(engine: Engine, source: Source) -> dict[str, Finding]:
    with pytest.raises(InputError) as caught:
        engine.sql("SELECT * FROM rows", rows=source)
    assert caught.value.__cause__ is None
    assert "CANARY" not in f"{caught.value} {caught.value!r}"
    return {finding.code: finding for finding in caught.value.findings}


@pytest.mark.process
@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"a|b\n1|2\n03|4\n", id="LF"),
        pytest.param(b"a|b\r\n1|2\r\n03|4\r\n", id="CRLF"),
        pytest.param(b"a|b\n1|2\n03|4", id="no last line end"),
        pytest.param(b"a|b\r\n1|2\r\n03|4", id="CRLF, no last line end"),
        pytest.param(b"a|b\r\n1|2\r\n03|4\r", id="half a last line end"),
        pytest.param(b"a|b\r\n1|2\n03|4\r\n", id="LF and CRLF"),
        pytest.param(b"a|b\n1|2\n03|4\n\n\n", id="empty last lines"),
        pytest.param(b"a|b\r\n1|2\r\n03|4\r\n\r\n\r\n", id="CRLF, empty last lines"),
        pytest.param(b"a|b\r\n1|2\r\n03|4\r\n\n", id="CRLF, an empty last line with LF"),
        pytest.param(b"a|b\n1|2\n\n03|4\n", id="an empty line between"),
        pytest.param(b"\xef\xbb\xbfa|b\n1|2\n03|4\n", id="byte order mark"),
    ],
)
def test_the_same_rows_whatever_the_line_ends(engine: Engine, tmp_path: Path, content: bytes) -> None:
    source = unquoted(tmp_path, content)
    assert rows(engine, source) == [("1", "2"), ("03", "4")]
    assert list(engine.kinds(source)) == ["a", "b"]
    assert engine.first_rows(source, "b = '4'", 5) == [2]


@pytest.mark.process
def test_a_quotation_mark_is_a_character(engine: Engine, tmp_path: Path) -> None:
    source = unquoted(tmp_path, b'a|"b\n"1|2\n"3"|"\n')
    assert list(engine.kinds(source)) == ["a", '"b']
    assert rows(engine, source) == [('"1', "2"), ('"3"', '"')]


@pytest.mark.process
def test_a_mark_is_still_a_quote_where_a_source_is_quoted(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text('a|b\n"1|x"|2\n')
    assert rows(engine, Source(tmp_path / "rows.csv", "csv", delimiter="|")) == [("1|x", "2")]


@pytest.mark.process
def test_null_and_na_are_texts(engine: Engine, tmp_path: Path) -> None:
    assert rows(engine, unquoted(tmp_path, b"a|b\nNull|NA\nNULL|nan\n")) == [("Null", "NA"), ("NULL", "nan")]


@pytest.mark.process
@pytest.mark.parametrize("content", [b"a|b", b"a|b\n", b"a|b\r\n\r\n"])
def test_names_alone_are_no_rows(engine: Engine, tmp_path: Path, content: bytes) -> None:
    assert rows(engine, unquoted(tmp_path, content)) == []


@pytest.mark.process
def test_all_short_and_long_lines_are_told_at_once(engine: Engine, tmp_path: Path) -> None:
    found = findings(engine, unquoted(tmp_path, b"a|b\n1|2\nCANARY\n1|2|CANARY\n\n1|2|\n1|2\nCANARY"))
    assert sorted(found) == ["long-line", "short-line"]
    assert str(found["short-line"].where) == "rows.txt, line 3"
    assert found["short-line"].what == "a line has too few values (the first such lines: 3, 8)"
    assert found["long-line"].what == "a line has too many values (the first such lines: 4, 6)"
    assert (found["long-line"].found, found["long-line"].expected) == (
        "2 such lines",
        "2 values in every line, as in the first",
    )


@pytest.mark.process
def test_no_more_than_five_lines_are_named(engine: Engine, tmp_path: Path) -> None:
    found = findings(engine, unquoted(tmp_path, b"a|b\n" + b"CANARY\n" * 1000))
    assert found["short-line"].what.endswith("lines: 2, 3, 4, 5, 6)")
    assert found["short-line"].found == "1,000 such lines"


@pytest.mark.process
@pytest.mark.parametrize("verb", ["sql", "write", "count_by", "first_rows"])
def test_every_verb_refuses_a_line_with_a_value_too_many(engine: Engine, tmp_path: Path, verb: str) -> None:
    source = unquoted(tmp_path, b"a|b\n1|2|\n")
    calls = {
        "sql": lambda: engine.sql("SELECT a FROM rows", rows=source),
        "write": lambda: engine.write("SELECT a FROM rows", tmp_path / "out.parquet", rows=source),
        "count_by": lambda: engine.count_by(source, {"a": "a"}, tmp_path / "out.parquet"),
        "first_rows": lambda: engine.first_rows(source, "a = '1'", 1),
    }
    with pytest.raises(InputError, match="too many values"):
        calls[verb]()
    assert not (tmp_path / "out.parquet").exists()


@pytest.mark.process
def test_a_carriage_return_inside_a_line_is_refused(engine: Engine, tmp_path: Path) -> None:
    found = findings(engine, unquoted(tmp_path, b"a|b\n1|2\nCANARY\r|4\n"))
    assert found["lone-return"].where.line == 3
    assert "lone-return" in findings(engine, unquoted(tmp_path, b"a|b\r1|2\r3|CANARY\r"))


@pytest.mark.process
def test_lines_that_are_not_utf_8_are_told_by_number(engine: Engine, tmp_path: Path) -> None:
    content = "a|b\ncafé|1\n".encode() + "CANARY é|2\n".encode("latin-1") + b"1|2\n" + "é|CANARY\n".encode("latin-1")
    found = findings(engine, unquoted(tmp_path, content))
    assert found["encoding"].what == "a line is not UTF-8 text (the first such lines: 3, 5)"
    assert rows(engine, unquoted(tmp_path, "a|b\ncafé|1\n".encode())) == [("café", "1")]


@pytest.mark.process
def test_a_file_that_changes_is_looked_at_again(engine: Engine, tmp_path: Path) -> None:
    assert rows(engine, unquoted(tmp_path, b"a|b\n1|2\n")) == [("1", "2")]
    findings(engine, unquoted(tmp_path, b"a|b\n1|2\n1|CANARY|\n"))
    assert rows(engine, unquoted(tmp_path, b"a|b\n3|4\n")) == [("3", "4")]


def test_a_file_without_line_ends_is_not_held_in_memory(tmp_path: Path) -> None:
    source = unquoted(tmp_path, b"a|b\n" + b"x" * (3 * LONGEST_LINE))
    (finding,) = look_at_lines(source, 2).findings(source, 2)
    assert (finding.code, finding.where.line) == ("endless-line", 2)


@pytest.mark.process
def test_mixed_line_ends_and_empty_lines_over_many_buffers(engine: Engine, tmp_path: Path) -> None:
    """DuckDB's several threads would not read this one; it must come out whole and in order."""
    ends = (b"\n", b"\r\n", b"\r\n\r\n", b"\n\n", b"\r\n\n")
    number = 400_000
    chosen = np.random.default_rng(1).integers(0, 5, number).tolist()
    content = b"".join(b"%06d|%s%s" % (n, b"x" * 80, ends[end]) for n, end in enumerate(chosen))
    source = unquoted(tmp_path, b"a|b\n" + content)
    table = engine.sql("SELECT a FROM rows WHERE length(b) = 80", rows=source).reveal("test")
    assert table.column("a").to_pylist() == [f"{n:06d}" for n in range(number)]


@settings(max_examples=200, deadline=None)
@given(
    text=st.lists(st.sampled_from([b"a", b"|", b"\n", b"\r\n", b"\r", b"\xc3\xa9", b"\xff"]), max_size=40),
    chunk=st.integers(1, 12),
)
def test_lines_are_counted_alike_whatever_the_chunks(
    text: list[bytes], chunk: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Against a plain reading line by line of the same rules."""
    content = b"a|b\n" + b"".join(text)
    source = unquoted(tmp_path_factory.mktemp("lines"), content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "_CHUNK", chunk)
        seen = look_at_lines(source, 2)
    expected: dict[str, list[int]] = {code: [] for code in seen.broken}
    lines = content.split(b"\n")
    for number, line in enumerate(lines if lines[-1] else lines[:-1], start=1):
        bare = line.removesuffix(b"\r")
        values = line.count(b"|") + 1
        if bare and values != 2:
            expected["short-line" if values < 2 else "long-line"].append(number)
        if b"\r" in bare:
            expected["lone-return"].append(number)
        if b"\xff" in line:
            expected["encoding"].append(number)
    assert {code: bad.number for code, bad in seen.broken.items()} == {code: len(n) for code, n in expected.items()}
    assert {code: bad.first for code, bad in seen.broken.items()} == {code: n[:5] for code, n in expected.items()}
