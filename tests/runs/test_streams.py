"""No two measurements share a noise stream: names are one-to-one or refused, and so is a plan in which they are not."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from confide.errors import ReleaseError, SpecError
from confide.noise import DiscreteGaussian, ReleaseKey
from confide.privacy import ZCDP, Definition, Neighbours
from confide.releases.mechanism import NoiseSource
from confide.releases.plan import Plan, PlannedMeasurement, read_plan
from confide.schema import Attribute, Group, Level, Query, Recode, Schema, identity, query_name

OURS = st.sampled_from(["total", "detailed", "Total", "a:b", "a*b", "a/b"])
ODD = st.text(alphabet="abT*:/ \t\0_é", max_size=4) | OURS
TABLE_NAMES = st.text(alphabet="abt/*-", max_size=3)
SOURCE = NoiseSource(ReleaseKey.choose("ab" * 32), "01" * 32, "02" * 32, "tables")
LAW, LOSS = DiscreteGaussian(2), ZCDP(Fraction(1, 4))


def named(variables: tuple[str, ...], table: str) -> str | None:
    try:
        return query_name(variables, table)
    except SpecError:
        return None


@given(st.lists(st.tuples(st.lists(ODD, max_size=3).map(tuple), TABLE_NAMES), max_size=8, unique=True))
def test_queries_that_differ_have_streams_that_differ(queries: list[tuple[tuple[str, ...], str]]) -> None:
    names = [name for query in queries if (name := named(*query)) is not None]
    assert len(set(names)) == len(names)
    keys = {(level, name): SOURCE.stream(level, name).word_key for name in names for level in ("county", "block")}
    assert len(set(keys.values())) == len(keys)


def attribute(name: str) -> Attribute:
    return Attribute(name, "a title", (Level(1, "one"), Level(2, "two")))


@given(st.lists(st.tuples(ODD, st.lists(ODD, max_size=2)), min_size=1, max_size=4))
def test_a_schema_names_every_query_in_one_way_or_is_refused(asked: list[tuple[str, list[str]]]) -> None:
    try:
        attributes = [attribute(name) for name, _ in asked]
        recodes = [
            Recode(f"{of.name}:{name}", of, (Group("both", (1, 2)),))
            for of, (_, names) in zip(attributes, asked, strict=True)
            for name in names
        ]
        variables = Schema("odd", "made up", tuple(attributes), tuple(recodes)).variables
    except SpecError:
        return
    queries = [
        query
        for chosen in [Query((recode,)) for recode in variables.values()] + [Query(tuple(map(identity, attributes)))]
        for query in chosen.margins()
    ]
    by_name = {query.name: query.variables for query in queries}
    assert all(by_name[query.name] == query.variables for query in queries)
    schema = Schema("odd", "made up", tuple(attributes), tuple(recodes))
    assert all(schema.query(query.name) == query for query in queries)


def measurement(level: str, query: str, cells: int = 2) -> PlannedMeasurement:
    return PlannedMeasurement(level, query, 3, cells, LAW, LOSS)


def plan(*measures: PlannedMeasurement, paths: tuple[tuple[int, ...], ...] = ()) -> Plan:
    return Plan("tables", Neighbours.CHANGE_ONE, Definition.ZCDP, measures, ("block",), {}, paths)


LEVELS, QUERIES = st.sampled_from(["county", "block"]), st.sampled_from(["total", "sex", "t/sex"])


@given(st.lists(st.builds(measurement, LEVELS, QUERIES, st.sampled_from([1, 2])), max_size=5))
def test_a_plan_whose_measurements_are_not_all_different_is_refused(measures: list[PlannedMeasurement]) -> None:
    names = {(measure.level, measure.query) for measure in measures}
    if len(names) == len(measures):
        assert read_plan(plan(*measures).as_dict()).measures == tuple(measures)
        return
    with pytest.raises(SpecError, match="one name") as caught:
        plan(*measures)
    assert caught.value.findings[0].code == "shared-stream"


def test_classes_of_units_share_a_stream_because_no_record_is_in_two() -> None:
    first, second = measurement("block", "sex"), replace(measurement("block", "sex"), law=DiscreteGaussian(3))
    assert plan(first, second, paths=((0,), (1,))).counts == 12
    with pytest.raises(SpecError, match="one name"):
        plan(first, second, paths=((0,), (0, 1)))
    # Of other cells, the coordinates of two units could meet.
    with pytest.raises(SpecError, match="one name"):
        plan(first, replace(second, cells=3), paths=((0,), (1,)))


def test_a_manifest_with_such_a_plan_is_none_of_ours() -> None:
    values = plan(measurement("block", "sex")).as_dict()
    values["measures"] *= 2
    with pytest.raises(ReleaseError, match="not one that Confide wrote"):
        read_plan(values)
