"""The translation of SQL, and the choice of an engine: what needs no Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from confide import api
from confide.engines import LocalEngine, SparkEngine, spark_session
from confide.engines.protocol import identifier, literal
from confide.engines.spark import spark_text, to_spark
from confide.errors import ConfideError, ParameterError
from confide.releases.ledger import Ledger
from confide.releases.run import choose_engine


@pytest.mark.parametrize(
    ("written", "for_spark"),
    [
        ('SELECT "a b" FROM rows', "SELECT `a b` FROM rows"),
        ('SELECT "a""b`c" FROM rows', 'SELECT `a"b``c` FROM rows'),
        ("SELECT 'it''s \\ \"x\"' AS x", "SELECT 'it\\'s \\\\ \"x\"' AS x"),
        ("SELECT CAST(a AS VARCHAR) AS varchars FROM rows", "SELECT CAST(a AS STRING) AS varchars FROM rows"),
        ("SELECT 'VARCHAR' AS \"VARCHAR\"", "SELECT 'VARCHAR' AS `VARCHAR`"),
        ("SELECT CAST(NULL AS BIGINT[]) AS v", "SELECT CAST(NULL AS ARRAY<BIGINT>) AS v"),
        ("SELECT CAST(NULL AS varchar[]) AS v", "SELECT CAST(NULL AS ARRAY<STRING>) AS v"),
        ("SELECT TRY_CAST(a AS BIGINT) FROM rows", "SELECT TRY_CAST(a AS BIGINT) FROM rows"),
        ("SELECT TRY_CAST(CAST(a AS VARCHAR) AS BIGINT)", "SELECT TRY_CAST(CAST(a AS STRING) AS BIGINT)"),
        ("SELECT TRY_CAST (f(a) AS BIGINT) AS b", "SELECT TRY_CAST(f(a) AS BIGINT) AS b"),
        ("SELECT a FROM rows ORDER BY a", "SELECT a FROM rows ORDER BY a NULLS LAST"),
        ("SELECT a FROM rows ORDER BY 1, 2 DESC", "SELECT a FROM rows ORDER BY 1 NULLS LAST , 2 DESC NULLS LAST"),
        ("SELECT a FROM rows ORDER BY f(a, b)", "SELECT a FROM rows ORDER BY f(a, b) NULLS LAST"),
        ("SELECT a FROM rows ORDER BY a NULLS FIRST", "SELECT a FROM rows ORDER BY a NULLS FIRST"),
        ("SELECT a FROM r ORDER BY a LIMIT 5", "SELECT a FROM r ORDER BY a NULLS LAST LIMIT 5"),
        ("(SELECT a FROM r ORDER BY a) UNION ALL b", "(SELECT a FROM r ORDER BY a NULLS LAST ) UNION ALL b"),
        ("SELECT a FROM r GROUP BY a", "SELECT a FROM r GROUP BY a"),
    ],
)
def test_what_is_written_for_spark(written: str, for_spark: str) -> None:
    assert " ".join(to_spark(written).split()) == " ".join(for_spark.split())


@given(st.text(), st.text())
def test_texts_and_names_keep_their_characters(text: str, name: str) -> None:
    """Read by Spark's rules, a constant and a name are what was written."""
    made = to_spark(literal(text))
    assert made == spark_text(text)
    inside, found, at = made[1:-1], [], 0
    while at < len(inside):
        at += inside[at] == "\\"
        found.append(inside[at])
        at += 1
    assert "".join(found) == text
    column = to_spark(identifier(name))
    assert column[1:-1].replace("``", "`") == name
    assert "`" not in column[1:-1].replace("``", "")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT code[:2] FROM rows",
        "SELECT * EXCLUDE (a) FROM rows",
        "SELECT unnest(codes) FROM rows",
        "SELECT a // 2 FROM rows",
        "SELECT regexp_full_match(a, 'b') FROM rows",
        "SELECT TRY_CAST(a AS BIGINT FROM rows",
    ],
)
def test_what_only_one_engine_understands_is_refused(text: str) -> None:
    with pytest.raises(ParameterError) as caught:
        to_spark(text)
    assert caught.value.findings[0].code == "spark-dialect"


def test_every_mechanism_is_for_spark_or_is_refused(tmp_path: Path) -> None:
    for mechanism in api.MECHANISMS.values():
        if mechanism.on_spark:
            choose_engine("spark", mechanism, processes=1, memory="1GiB")
        else:
            with pytest.raises(ParameterError) as caught:
                choose_engine("spark", mechanism, processes=1, memory="1GiB")
            assert mechanism.name in caught.value.findings[0].what
        with choose_engine("local", mechanism, processes=1, memory="1GiB")(tmp_path / mechanism.name) as engine:
            assert isinstance(engine, LocalEngine)


def test_a_master_without_spark_and_an_unknown_engine_are_refused(project: Path) -> None:
    for options in ({"spark_master": "local[2]"}, {"engine": "abacus"}):
        for verb in (api.check, api.run):
            with pytest.raises(ParameterError) as caught:
                verb(project / "spec.toml", **options)  # type: ignore[operator]
            assert caught.value.findings[0].code == "engine"


@pytest.mark.parametrize("lacking", ["pyspark", "java"])
def test_without_spark_it_is_said_how_to_get_it_and_nothing_is_spent(
    project: Path, monkeypatch: pytest.MonkeyPatch, lacking: str
) -> None:
    monkeypatch.setattr(spark_session, "find_spec", lambda _: None if lacking == "pyspark" else object())
    monkeypatch.setattr(spark_session, "_has_java", lambda: lacking != "java")
    assert not spark_session.has_spark()
    for verb in (api.check, api.run):
        with pytest.raises(ConfideError) as caught:
            verb(project / "spec.toml", engine="spark")  # type: ignore[operator]
        (finding,) = caught.value.findings
        assert finding.code == "no-spark"
        assert ("confide[spark]" if lacking == "pyspark" else "Java 17") in str(finding)
    assert [entry.kind for entry in Ledger(project / "people.ledger").history()] == ["open"]
    assert list(project.rglob("spark-*")) == []


def test_memory_is_said_as_for_the_other_engine(tmp_path: Path) -> None:
    from confide.engines.spark import _bytes

    assert [_bytes(text) for text in ("4GiB", "800MB", "1.5 GiB", "512mib")] == [4 << 30, 800_000_000, 3 << 29, 1 << 29]
    with pytest.raises(ParameterError):
        SparkEngine(tmp_path, memory="lots")
    assert list(tmp_path.iterdir()) == []
