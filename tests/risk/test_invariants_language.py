"""Invariants as data: files that ship, files of one's own, what belongs together, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from confide.documents import shipped
from confide.errors import ParameterError, SpecError
from confide.lab.risk.invariant_sets import KIND, load_invariants, parse_invariants
from confide.privacy.invariants import ANY, single_record

OWN = """
id = "own"
geography = ["region", "block"]

[attributes.sex]
levels = ["male", "female"]

[attributes.age]
levels = { "young" = 18, "old" = 80 }
groups = { "all" = ["young", "old"] }

[[counts]]
by = "region"
where = { age = ["old"] }

[[bounds]]
by = "block"
attribute = "sex"
units = { "female" = "convents" }
at_least = 2
at_most = "any"
"""


def test_everything_that_ships_can_be_read_and_answered() -> None:
    assert {"C1", "C2", "C3", "C4", "C5", "C5-vacant", "2020"} <= set(shipped(KIND))
    for name in shipped(KIND):
        found = load_invariants([name])
        assert found.names == (name,)
        assert single_record(found)


def test_several_are_put_together_in_order_and_once() -> None:
    both = load_invariants(["C2", "C1", "C2"])
    assert both.names == ("C2", "C1")
    assert [dict(count.where) for count in both.counts] == [{"age": frozenset({"18 and over"})}, {}]


def test_levels_that_nothing_tells_apart_are_one_atom() -> None:
    world = load_invariants(["C1", "C2"]).world
    sizes = {a.name: len(atoms) for a, atoms in zip(world.records.attributes, world.atoms, strict=True)}
    assert sizes == {"relationship": 3, "sex": 1, "age": 2, "ethnicity": 1, "race": 1}
    assert world.size(4, 0) == 63


def test_edit_rules_leave_out_kinds() -> None:
    world = load_invariants(["C5"]).world
    place = [a.name for a in world.records.attributes].index("relationship")
    dorm = next(n for n, atom in enumerate(world.atoms[place]) if atom == ("women's dormitory",))
    sexes = {world.atoms[1][kind[1]] for kind in world.kinds if kind[place] == dorm}
    assert sexes == {("female",)}


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(OWN, encoding="utf-8")
    found = load_invariants(["own.toml"], tmp_path)
    (bound,) = found.bounds
    assert (bound.at_least, bound.at_most, bound.units) == (2, ANY, "convents")
    answers = single_record(found)
    assert answers["age"].status == "coarse"
    assert set(answers["block"].cells) == {"the same region", "any"}  # only the old are counted


def test_other_records_cannot_be_mixed() -> None:
    with pytest.raises(ParameterError, match="different records"):
        load_invariants(["C1", "2020"])


def test_no_name_and_a_wrong_name() -> None:
    with pytest.raises(ParameterError, match="no invariants are named"):
        load_invariants([])
    with pytest.raises(SpecError, match="no such file"):
        load_invariants(["C9"])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"wrong": 1}, "unknown key"),
        ({"records": "nobody"}, "no records of this name"),
        ({"attributes": {}}, "records have attributes"),
        ({"attributes": {"a": {"levels": 0}}}, "no levels"),
        ({"attributes": {"a": {"levels": {"x": 1}, "groups": {"g": ["y"]}}}}, "a group is a list of levels"),
        ({"attributes": {"block": {"levels": 2}}}, "a geolevel has this name"),
        ({"geography": []}, "no list of geolevels"),
        ({"counts": [{"by": "moon"}]}, "no such geolevel"),
        ({"counts": [{"where": {"b": ["x"]}}]}, "no such attribute"),
        ({"counts": [{"where": {"a": ["z"]}}]}, "no such level or group"),
        ({"counts": 3}, "a list, in square brackets"),
        ({"bounds": [{"by": "block", "attribute": "a", "units": {}}]}, "at least one"),
        ({"bounds": [{"by": "block", "attribute": "a", "units": {"x": "u"}, "at_least": -1}]}, "at least 0"),
        (
            {"bounds": [{"by": "block", "attribute": "a", "units": {"x": "u"}, "at_most": "lots"}]},
            "a whole number, or 'any'",
        ),
        ({"bounds": [{"by": "block", "attribute": "a", "units": {"x": "u"}, "at_most": 0}]}, "records per unit"),
        ({"never": [{"where": 3}]}, "a table of keys"),
        ({"groupings": {"g": {"of": "a", "groups": {"one": ["x"]}}}}, "do not divide"),
    ],
)
def test_what_is_wrong_is_said(change: dict[str, object], said: str) -> None:
    values = {"id": "t", "attributes": {"a": {"levels": ["x", "y"]}}} | change
    with pytest.raises(SpecError, match=said):
        parse_invariants(values, "t.toml")
