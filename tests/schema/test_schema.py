"""Attributes, recodes and queries, and the schemas that ship."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest

from confide.documents import load_schema, parse_schema, shipped
from confide.errors import SpecError
from confide.schema import Attribute, Group, Level, Query, Recode, identity

PERSONS = load_schema("persons", Path())


@pytest.mark.parametrize("name", shipped("schemas"))
def test_shipped_schemas_have_an_id_and_a_provenance(name: str) -> None:
    schema = load_schema(name, Path())
    assert schema.id == name
    assert schema.provenance.endswith(".")
    assert schema.variables


def test_pl94_histogram_has_2016_cells_in_the_published_order() -> None:
    schema = load_schema("pl94-persons", Path())
    query = schema.query("hhgq*votingage*hispanic*cenrace")
    assert query.shape == (8, 2, 2, 63)
    assert query.cells == 2016


def test_races_are_all_subsets_by_size_and_order() -> None:
    race = next(attribute for attribute in PERSONS.attributes if attribute.name == "cenrace")
    single = [level.label for level in race.levels[:6]]
    expected = [" and ".join(subset) for size in range(1, 7) for subset in combinations(single, size)]
    assert [level.label for level in race.levels] == expected


@pytest.mark.parametrize("other", ["north ", "north\u200b", "no\u200brth"])
def test_codes_that_nobody_can_tell_apart_are_refused(other: str) -> None:
    """Released tables have a column of codes, by which a row is known."""
    with pytest.raises(SpecError, match="nobody sees"):
        Attribute("tongue", "Tongue", (Level("north", "Northern"), Level(other, "Southern")))
    assert Attribute("tongue", "Tongue", (Level("north", "Northern"), Level("North", "Southern"))).size == 2


def test_five_year_ages_cover_every_age_once() -> None:
    recode = PERSONS.variable("age:five-year")
    assert recode.size == 18
    assert recode.assignment.tolist() == [min(age // 5, 17) for age in range(116)]
    assert recode.labels[0] == "0 to 4"
    assert recode.labels[-1] == "85 and over"


def test_margins_are_the_power_set() -> None:
    query = PERSONS.query("sex*hispanic*votingage")
    margins = list(query.margins())
    assert [margin.name for margin in margins] == [
        "sex*votingage*hispanic", "sex*votingage", "sex*hispanic", "votingage*hispanic",
        "sex", "votingage", "hispanic", "total",
    ]  # fmt: skip
    assert sum(margin.cells for margin in margins) == 27


SEX = Attribute("sex", "Sex", (Level(1, "male"), Level(2, "female")))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Attribute("a", "A", ()),
        lambda: Attribute("a", "A", (Level(1, "x"), Level(1, "y"))),
        lambda: Attribute("a", "A", (Level(1, "x"), Level("1", "y"))),
        lambda: Recode("r", SEX, (Group("g", (1, 2)), Group("h", (2,)))),
        lambda: Recode("r", SEX, (Group("g", (3,)),)),
        lambda: Recode("r", SEX, (Group("g", ()),)),
        lambda: Recode("r", SEX, ()),
        lambda: PERSONS.query("sex*sex"),
        lambda: PERSONS.query("age*age:broad"),
        lambda: PERSONS.query("income"),
        lambda: parse_schema({}),
        lambda: parse_schema({"id": "x", "provenance": "p", "attributes": {"a": {}}}),
        lambda: parse_schema({"id": "x", "provenance": "p", "attributes": {"a": {"levels": [[1]]}}}),
    ],
)
def test_what_cannot_be_is_refused_with_a_remedy(make: object) -> None:
    with pytest.raises(SpecError) as caught:
        make()  # type: ignore[operator]
    assert caught.value.findings[0].remedy


def test_incomplete_recodes_are_known() -> None:
    some = Recode("sex:men", SEX, (Group("men", (1,)),))
    assert not Query((some,)).is_complete
    assert Query((identity(SEX),)).is_complete


@pytest.mark.parametrize("sign", ["\u202e", "\u202a", "\u2067", "\u2069", "\u200e", "\u200f", "\u061c"])
def test_a_label_that_turns_the_order_of_signs_is_refused(sign: str) -> None:
    for labels in (["one", f"a{sign}b"], [f"{sign}one", "two"], ["ذكر", f"أنثى{sign}"]):
        with pytest.raises(SpecError, match="turns the order"):
            Attribute("sex", "", tuple(Level(str(at), label) for at, label in enumerate(labels)))
    # Joiners are part of the writing of Persian and of Indian languages.
    Attribute("sex", "", (Level("a", "می\u200cخواهم"), Level("b", "क्\u200dष")))


AS_IN = {"id": "s", "provenance": "an example", "attributes": {"hispanic": {"as_in": "pl94-persons"}}}


def test_an_attribute_is_taken_from_a_schema_that_ships_and_may_be_added_to() -> None:
    source = load_schema("pl94-persons", Path())
    further = {
        "as_in": "pl94-persons",
        "aliases": {"1": "yes"},
        "recodes": {"any": {"groups": {"all of them": "0..1"}}},
    }
    schema = parse_schema({**AS_IN, "attributes": {"cenrace": {"as_in": "pl94-persons"}, "hispanic": further}})
    assert schema.attributes[0] == source.variables["cenrace"].attribute
    assert schema.variables["cenrace:major"] == source.variables["cenrace:major"]
    assert schema.attributes[1].levels == source.variables["hispanic"].attribute.levels
    assert schema.attributes[1].spelling.aliases == (("yes", 1),)
    assert schema.variables["hispanic:any"].size == 1


@pytest.mark.parametrize(
    ("attributes", "code", "found"),
    [
        ({"hispanic": {"as_in": "pl94-people"}}, "schema-attribute", "'pl94-people'"),
        ({"origin": {"as_in": "pl94-persons"}}, "schema-attribute", "'pl94-persons'"),
        ({"hispanic": {"as_in": "pl94-persons", "levels": [[0, "no"], [1, "yes"]]}}, "schema-attribute", "levels"),
        (
            {"hispanic": {"as_in": "pl94-persons", "range": [0, 1], "title": "Origin"}},
            "schema-attribute",
            "title, range",
        ),
    ],
)
def test_an_attribute_that_cannot_be_taken_from_elsewhere_is_refused(
    attributes: dict[str, object], code: str, found: str
) -> None:
    with pytest.raises(SpecError) as caught:
        parse_schema({**AS_IN, "attributes": attributes})
    (finding,) = caught.value.findings
    assert (finding.code, finding.found) == (code, found)
    assert finding.remedy
    assert finding.expected


DHC_SHAPE = {"relgq": 42, "sex": 2, "age": 116, "hispanic": 2, "cenrace": 63}
DHC_GROUPS = {
    "relgq:place*age:broad": 12,
    "sex*age:broad": 6,
    "sex*age:tables": 76,
    "sex*hispanic": 4,
    "relgq:place*sex": 8,
    "relgq:by-age*age:years-15-to-17": 60,
    "relgq:relationship": 19,
    "relgq:relationship-or-major*sex*age:years-to-17*hispanic*cenrace": 252_000,
    "relgq*sex*age:years-to-17*hispanic*cenrace": 423_360,
}


def test_dhc_persons_has_the_cells_of_the_2020_census_and_its_queries_the_groups() -> None:
    schema = load_schema("dhc-persons", Path())
    assert {attribute.name: attribute.size for attribute in schema.attributes} == DHC_SHAPE
    assert {name: schema.query(name).cells for name in DHC_GROUPS} == DHC_GROUPS
    assert all(schema.query(name).is_complete for name in DHC_GROUPS)
    # Every type of quarters belongs to one type of the redistricting file, and nobody at home to any.
    major, facility = schema.variables["relgq:major"], schema.variables["relgq:facility"]
    for code in range(1, facility.size):
        assert len({*major.assignment[facility.assignment == code].tolist()}) == 1
    assert [*major.assignment[:18]] == [0] * 18
    assert tuple(major.labels[1:]) == tuple(
        level.label for level in load_schema("pl94-persons", Path()).variables["hhgq"].attribute.levels[1:]
    )
