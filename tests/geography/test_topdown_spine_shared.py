"""The spine of Rhode Island 2010, as the production settings make it."""

from __future__ import annotations

import tomllib
from fractions import Fraction
from importlib import resources
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from confide.geography import Spine, build_spine
from confide.mechanisms.topdown.build_spine import (
    Optimisation,
    aian_flags,
    build_topdown_spine,
    divisions_or_places,
    off_spine_entities,
    parse_area_types,
    parse_strong_mcd_states,
    split_areas,
)
from confide.mechanisms.topdown.spine import TopDownSpine

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT.parent / "shared" / "data" / "ri2010_pl94" / "ri2010_blocks_geo_units_gq.parquet"
pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not FILE.exists(), reason=f"../shared/data/ri2010_pl94/{FILE.name} is not there"),
]

LEVELS = {"us": 104, "state": 1440, "county": 447, "tract": 687, "block_group": 1256, "block": 165}
SHARES = {name: Fraction(share, 4099) for name, share in LEVELS.items()}


def shipped(name: str) -> dict[str, object]:
    return tomllib.loads((resources.files("confide") / "data" / "geography" / f"{name}.toml").read_text("utf-8"))


class Frame:
    """The block table, its spine and what the entities are made from."""

    def __init__(self) -> None:
        table = pq.read_table(FILE)
        codes = table["geocode"].to_pylist()
        levels = {
            name: [code[:digits] for code in codes]
            for name, digits in {"state": 2, "county": 5, "tract": 11, "block_group": 12, "block": 15}.items()
        }
        columns = {"place": "PLACE", "cousub": "COUSUB", "aiannh": "AIANHH"}
        self.spine: Spine = build_spine(
            {"us": ["us"] * len(codes)} | levels, {ours: table[theirs].to_pylist() for ours, theirs in columns.items()}
        )
        self.quarters = np.column_stack([table[f"gq{number}_imputed"].to_numpy() > 0 for number in range(1, 8)])
        self.with_units = (table["hu_total"].to_numpy() > 0) | self.quarters.any(axis=1)
        self.people = table["pop"].to_numpy()
        self.flag = aian_flags(self.spine.level("aiannh"), parse_area_types(shipped("aiannh-types")))

    def build(self, *, persons: bool, root: str = "us", tract_groups: bool = False) -> TopDownSpine:
        entity = divisions_or_places(
            self.spine.level("state"),
            parse_strong_mcd_states(shipped("strong-mcd-states")),
            division=self.spine.level("cousub"),
            place=self.spine.level("place"),
            split=self.flag,
        )
        kinds = [entity, split_areas(self.spine.level("aiannh"), self.flag)]
        entities = off_spine_entities(kinds, self.quarters if persons else None)
        shares = {name: share for name, share in SHARES.items() if root == "us" or name != "us"}
        shares[root] += 1 - sum(shares.values())
        if tract_groups:
            names = [name for name in shares if name != "us"]
            names.insert(names.index("tract"), "tract_group")
            shares = {name: Fraction(1, len(names)) for name in names}
        made = Optimisation(entities, tract_groups="tract_group" if tract_groups else None)
        return build_topdown_spine(self.spine, shares, with_units=self.with_units, split=self.flag, optimise=made)


@pytest.fixture(scope="module")
def frame() -> Frame:
    return Frame()


@pytest.fixture(scope="module")
def persons(frame: Frame) -> TopDownSpine:
    return frame.build(persons=True)


def test_units_per_level(frame: Frame, persons: TopDownSpine) -> None:
    assert [level.units for level in persons.levels] == [1, 2, 6, 242, 1_044, 17_850]
    assert [int(level.measured.sum()) for level in persons.levels] == [1, 2, 5, 241, 1_040, 17_754]
    units = frame.build(persons=False)
    assert [level.units for level in units.levels] == [1, 2, 6, 242, 941, 17_850]
    state = frame.build(persons=True, root="state")
    assert [level.units for level in state.levels] == [1, 6, 242, 1_044, 17_850]


def test_the_documentation_has_these_figures(frame: Frame, persons: TopDownSpine) -> None:
    page = (ROOT / "docs" / "concepts" / "topdown-spine.md").read_text(encoding="utf-8")
    assert persons.describe() in page
    assert frame.build(persons=False).describe() in page
    assert frame.build(persons=True, root="state").describe() in page


def test_everybody_is_on_the_spine_and_towns_are_unions_of_block_groups(frame: Frame, persons: TopDownSpine) -> None:
    people = frame.people[persons.rows]
    assert people.sum() == frame.people.sum() == 1_052_567
    for level in persons.levels:
        assert persons.roll_up(level.name, people).sum() == 1_052_567
    towns = persons.official_of_unit("block_group", "cousub")
    by_group = np.bincount(
        towns, weights=persons.roll_up("block_group", people), minlength=len(frame.spine.level("cousub").codes)
    )
    unit_of_block = frame.spine.level("cousub").unit_of_block
    assert (by_group == np.bincount(unit_of_block, weights=frame.people)).all()


def test_the_reservation_is_apart(persons: TopDownSpine) -> None:
    assert persons.ids("state").tolist() == ["044", "144"]
    assert [code[-15:] for code in persons.ids("block")[persons.level("state").blocks(1)]] == persons.block_codes[
        -3:
    ].tolist()
    assert set(persons.official_of_block("aiannh")[-3:]) == {0}


def test_tract_groups(frame: Frame) -> None:
    spine = frame.build(persons=True, root="state", tract_groups=True)
    assert spine.names == ["state", "county", "tract_group", "tract", "block_group", "block"]
    assert [level.units for level in spine.levels][3:] == [242, 1_044, 17_850]
    assert 6 < spine.level("tract_group").units < 242
