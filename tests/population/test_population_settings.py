"""Settings are data: read, checked, and refused with the place of what is wrong."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from confide.errors import SpecError
from confide.lab.population import Population, load_settings, profile
from confide.lab.population.origins import weights_of

DEFAULT = (files("confide") / "data" / "population" / "default.toml").read_text(encoding="utf-8")


def changed(folder: Path, before: str, after: str) -> Path:
    assert before in DEFAULT
    path = folder / "own.toml"
    path.write_text(DEFAULT.replace(before, after, 1), encoding="utf-8")
    return path


def test_the_shipped_settings_say_what_they_are() -> None:
    settings = load_settings()
    assert settings.id == "default-1"
    assert "no real place or person" in settings.provenance


def test_settings_of_ones_own_change_the_people(tmp_path: Path) -> None:
    path = changed(tmp_path, "sizes = [0.280, 0.340, 0.152, 0.130,", "sizes = [0.600, 0.340, 0.152, 0.130,")
    own = Population(20_000, 7, path)
    assert profile(own)["households of 1"] > 0.4
    assert own.identity["settings_sha256"] != Population(20_000, 7).identity["settings_sha256"]


def test_settings_can_be_given_as_text_path_or_object(tmp_path: Path) -> None:
    path = changed(tmp_path, 'id = "default-1"', 'id = "own-1"')
    assert Population(1_000, 1, str(path)).settings == Population(1_000, 1, path).settings
    assert Population(1_000, 1, load_settings(path)).settings.id == "own-1"


@pytest.mark.parametrize(
    ("before", "after", "code", "where"),
    [
        ("county_growth = 0.56", "county_growth = 1.56", "settings-invalid", "spine.county_growth"),
        ("county_growth = 0.56", "county_grwth = 0.56", "settings-invalid", "spine.county_growth"),
        ("[spine]", "[spine", "settings-not-toml", ""),
        ("first_state = 90", "first_state = 95", "settings-invalid", ""),
        ("mixture = [0.50, 0.155,", "mixture = [0.655,", "settings-invalid", ""),
        ("bands = [18, 25,", "bands = [25, 18,", "settings-invalid", ""),
        ("share = 0.0065", "share = 0.9", "settings-invalid", ""),
    ],
)
def test_wrong_settings_are_refused_with_their_place(
    tmp_path: Path, before: str, after: str, code: str, where: str
) -> None:
    with pytest.raises(SpecError) as caught:
        load_settings(changed(tmp_path, before, after))
    assert {finding.code for finding in caught.value.findings} == {code}
    assert any(where in str(finding.where) for finding in caught.value.findings)


@pytest.mark.parametrize("name", ["nowhere", "nowhere.toml", "../default", ""])
def test_settings_that_are_not_there(name: str) -> None:
    with pytest.raises(SpecError) as caught:
        Population(1_000, 1, name)
    assert caught.value.findings[0].code == "settings-not-found"
    assert "default" in str(caught.value)


def test_too_fine_a_spine_is_refused(tmp_path: Path) -> None:
    path = changed(tmp_path, "place_persons = 6_000", "place_persons = 1")
    with pytest.raises(SpecError) as caught:
        Population(10_000_000, 1, path)
    assert caught.value.findings[0].code == "settings-too-fine"


def test_every_group_can_have_every_race_that_holds_its_own() -> None:
    for group in load_settings().groups:
        weights = weights_of(group)
        assert weights.sum() == pytest.approx(1)
        assert np.count_nonzero(weights) >= 32
        assert weights[6:].sum() == pytest.approx(sum(group.more_races[1:]) / sum(group.more_races))
