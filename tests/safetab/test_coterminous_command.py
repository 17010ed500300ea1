"""``confide safetab coterminous``: a finished release made alike afterwards is what the run would have made."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.kits.safetab import GEOGRAPHY, INFINITY, US, budgets, config, execute, person, tables, write_input

from confide.errors import ConfideError
from confide.mechanisms.safetab.output.coterminous import coterminous

ONE_COUNTY = [GEOGRAPHY[0], *(line for line in GEOGRAPHY[1:] if not line.startswith("72"))]
"""State 02 is one county and one tract, whose blocks lie in two places; county 003 of state 01 is one tract."""
PEOPLE = [person(block, *codes) for block in ONE_COUNTY[1:] for codes in (("1010",), ("1020", "2010"), ("3010",))]


def made(folder: Path, *, noise: object = INFINITY, left_out: float = 0.9, **options: str) -> tuple[Path, Path]:
    """An input whose tables are made: parameters and data, and the folder of tables."""
    values = config(run_pr=False, zero_suppression_chance=left_out, **budgets(noise))
    values["thresholds_p"] = {key: [2, 5, 9] for key in values["thresholds_p"]}
    parameters, data = write_input(folder / "input", values, people=PEOPLE, geography=ONE_COUNTY)
    out = folder / "out"
    execute(parameters, data, out, **options)
    return data, out


@pytest.mark.parametrize("sets", ["derived", "file"])
def test_it_gives_what_the_option_of_the_run_gives(sets: str, tmp_path: Path) -> None:
    """Without noise both see the same figures."""
    file = tmp_path / "sets.txt"
    file.write_text("SET|REGION_TYPE|REGION_ID\na|STATE|02\na|COUNTY|02020\nb|COUNTY|01003\nb|AIANNH|5000\n")
    chosen = "derived" if sets == "derived" else str(file)
    _, plain = made(tmp_path / "plain")
    _, at_once = made(tmp_path / "at-once", coterminous=chosen)
    answer = coterminous(plain, tmp_path / "after", sets=chosen)
    assert tables(answer.folder) == tables(at_once)
    assert tables(answer.folder) != tables(plain)
    assert (answer.sets, answer.stamped) == (2, True)
    assert answer.copied > 0
    # The names say what the names of the release said, and both formats are there.
    released = {path.relative_to(plain) for path in plain.glob("t?/*")}
    assert {path.relative_to(answer.folder) for path in answer.folder.rglob("*") if path.is_file()} == released


def test_with_noise_every_figure_is_the_donors(tmp_path: Path) -> None:
    """And nothing outside of the sets changes."""
    _, plain = made(tmp_path, noise=0.5, left_out=0)
    answer = coterminous(plain, tmp_path / "after")
    (before, _), (after, _) = tables(plain), tables(answer.folder)
    old, new = ({row[:3]: row[3] for row in rows} for rows in (before, after))
    state = {code: count for (area, kind, code), count in old.items() if (area, kind) == ("02", "STATE")}
    county = {code: count for (area, kind, code), count in new.items() if (area, kind) == ("02020", "COUNTY")}
    for code, count in state.items():
        assert county[code] == count
    same = {key for key in old if key[1] == "PLACE" or key[1] == "USA"}
    assert {key: new[key] for key in same} == {key: old[key] for key in same}
    order = [(US.index(kind), area, code) for area, kind, code, _ in after]
    assert order == sorted(order)


def test_blocks_of_water_are_passed_over_where_that_is_asked_for(tmp_path: Path) -> None:
    """A county whose second tract is water has the extent of its first one."""
    geography = [*ONE_COUNTY, "01|003|990000|0001|99999|9999"]
    values = config(run_pr=False, **budgets(INFINITY))
    parameters, data = write_input(tmp_path / "input", values, people=PEOPLE, geography=geography)
    execute(parameters, data, tmp_path / "out")
    exact = coterminous(tmp_path / "out", tmp_path / "exact")
    on_land = coterminous(tmp_path / "out", tmp_path / "on-land", sets="derived-on-land")
    of_county, of_tract = (
        {row[2]: row[3] for row in tables(on_land.folder)[0] if row[:2] == area}
        for area in (("01003", "COUNTY"), ("01003000100", "TRACT"))
    )
    assert of_county == of_tract
    assert on_land.copied > exact.copied


def test_a_release_without_its_run_needs_the_geography(tmp_path: Path) -> None:
    data, plain = made(tmp_path)
    alone = Path(shutil.copytree(plain, tmp_path / "elsewhere" / "alone"))
    with pytest.raises(ConfideError, match="geography"):
        coterminous(alone, tmp_path / "after")
    other = tmp_path / "other.txt"
    other.write_text("\n".join(ONE_COUNTY[:-1]) + "\n")
    with pytest.raises(ConfideError, match="not the geography"):
        coterminous(alone, tmp_path / "after", geography=other)
    assert not (tmp_path / "after").exists()
    answer = coterminous(alone, tmp_path / "after", geography=data / "GRF-C.txt")
    assert answer.as_dict()["groups_copied"] > 0
    with pytest.raises(ConfideError, match="something already"):
        coterminous(alone, tmp_path / "after", geography=data / "GRF-C.txt")


def test_a_release_that_was_changed_is_refused(tmp_path: Path) -> None:
    _, plain = made(tmp_path)
    manifest = plain / "manifest.json"
    values = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(values | {"title": "another"}))
    with pytest.raises(ConfideError) as error:
        coterminous(plain, tmp_path / "after")
    assert error.value.findings[0].code == "public-input"
