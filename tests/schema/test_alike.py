"""Levels that a reader could not tell apart, or that would stand for two things, are refused for every mechanism."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.contract.kit import NAMES, lay_out

import confide
from confide.documents import load_schema
from confide.engines import LocalEngine, Source
from confide.errors import ConfideError, SpecError
from confide.inputs.frame import codes_meant
from confide.inputs.records import code_expressions
from confide.schema import Attribute, Level, Schema

SCHEMA = 'id = "s"\nprovenance = "made up"\n[attributes.kind]\n'


def loaded(folder: Path, text: str) -> Schema:
    (folder / "s.toml").write_text(SCHEMA + text, encoding="utf-8")
    return load_schema("s.toml", folder)


def code_of(folder: Path, text: str) -> str:
    with pytest.raises(SpecError) as error:
        loaded(folder, text)
    (finding,) = error.value.findings
    return finding.code


@pytest.mark.parametrize(
    "text",
    [
        'levels = [["a", "yes"], ["ns", "not stated"]]\nmissing = "ns"',
        'levels = [["a", "yes"], ["ns", "not stated"]]\nmissing = "NS"',
        'levels = [["a", "yes"], ["ns", "not stated"]]\nmissing = { label = "ns" }',
        'levels = [["1", "low"], ["2", "high"]]\nmissing = "2"',
        'levels = [[1, "low"], [2, "high"]]\nmissing = "2"',
        'levels = [["1", "low"], ["2", "high"]]\nmissing = "２"',
        'levels = [["да", "yes"], ["н", "не указано"]]\nmissing = "Н"',
    ],
)
def test_missing_that_is_the_code_of_a_level_is_refused(tmp_path: Path, text: str) -> None:
    assert code_of(tmp_path, text) == "missing-is-a-code"


@pytest.mark.parametrize(
    "text",
    [
        'levels = [["a", "yes"], ["ns", "not stated"]]\nmissing = "not stated"',
        'levels = [["a", "yes"], ["b", "no"]]\nmissing = "not stated"',
        'levels = [["a", "b"], ["b", "no"]]\nmissing = "b"',
        'levels = [["a", "a"], ["A", "A"]]',
        'levels = [["a", "a"], ["ns", "ns"]]\nmissing = "ns"',
    ],
)
def test_missing_that_is_a_label_is_taken(tmp_path: Path, text: str) -> None:
    assert loaded(tmp_path, text).attributes


def in_full_width(text: str) -> str:
    return "".join(chr(ord(sign) + 0xFEE0) if "!" <= sign <= "~" else sign for sign in text)


RESPELL = (str.upper, str.title, in_full_width, lambda text: f"  {text} ", lambda text: text.replace(" ", "   "))
SPELLINGS = st.sampled_from(RESPELL)


@given(SPELLINGS, st.sampled_from(["not stated", "sans emploi", "не указано", "δεν απάντησε", "ohne angabe"]))
def test_labels_that_read_alike_are_refused(respell, label: str) -> None:  # type: ignore[no-untyped-def]
    other = respell(label)
    if other == label:
        return
    with pytest.raises(SpecError) as error:
        Attribute("kind", "kind", (Level("a", label), Level("b", other)))
    assert error.value.findings[0].code == "repeated-label"


@pytest.mark.parametrize("name", NAMES)
def test_every_mechanism_with_a_schema_of_its_own_refuses_both(name: str, tmp_path: Path) -> None:
    for number, (old, new) in enumerate((('"works"]', '"neither"]'), ('"works"]', '"NEITHER"]'))):
        project = lay_out(name, tmp_path / str(number))
        if project.schema is None:
            pytest.skip("its example has no schema of its own")
        text = project.schema.read_text(encoding="utf-8")
        assert '"neither"' in text
        assert old in text
        project.schema.write_text(text.replace(old, new, 1), encoding="utf-8")
        with pytest.raises(ConfideError) as error:
            confide.run(project.spec, processes=1)
        assert "repeated-label" in {finding.code for finding in error.value.findings}
        assert "reserved" not in project.charges()


def test_the_code_na_is_a_code_like_others(tmp_path: Path) -> None:
    """Namibia is not missing, however missing values are called: in Python and in the SQL of the engines."""
    levels = '[["NA", "Namibia"], ["NULL", "Nullarbor"], ["-", "dash"], ["ZA", "South Africa"]]'
    schema = loaded(tmp_path, f'levels = {levels}\nmissing = "not stated"')
    (attribute,) = schema.attributes
    texts = ["NA", "NULL", "-", "ZA", "", "  ", None, "na", "N/A"]
    wanted = ["NA", "NULL", "-", "ZA", "_U", "_U", "_U", None, None]
    assert codes_meant(texts, attribute) == wanted
    records = tmp_path / "records.parquet"
    pq.write_table(pa.table({"kind": pa.array(texts, pa.string())}), records)
    with LocalEngine(tmp_path / "scratch", processes=1) as engine:
        source = Source(records, "parquet")
        expression = code_expressions(engine, source, [attribute], listed=True)["kind"]
        table = engine.sql(f"SELECT {expression} AS level FROM records", records=source).reveal("to test it")
    places = [None if code is None else [level.code for level in attribute.levels].index(code) for code in wanted]
    assert table.column("level").to_pylist() == places


def test_a_missing_code_that_is_a_level_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError):
        loaded(
            tmp_path, 'levels = [["NA", "Namibia"], ["ZA", "South Africa"]]\nmissing = { label = "?", codes = ["NA"] }'
        )
