"""Neighbouring inputs are asked the same: the same plan, universe, streams and laws, whoever is in the records.

Everything that a run does before noise is added may depend on public files alone. A run on one person more or less is
recorded call by call, and compared: the plan, the noise streams that are asked for, the law that each is used with, and
the groups that are measured. What may differ is the noise itself, which is bound to the fingerprint of the records, and
what follows from noisy totals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.kits.safetab import (
    GEOGRAPHY,
    KEY,
    MEMORY,
    PEOPLE,
    budgets,
    config,
    person,
    tables,
    thresholds,
    write_input,
)

from confide import api
from confide.mechanisms.safetab import measure as measuring
from confide.noise import NoiseDistribution
from confide.official_runs import convert
from confide.releases.mechanism import NoiseSource

# Both ways of drawing; the passes and levels of one setting are enough for the others.
SPARSE = config(**budgets(0.05), **thresholds(400, 500, 600), zero_suppression_chance=0.9999)
DENSE = config(**budgets(0.5), **thresholds(0, 5, 10), run_pr=False)
PURE = SPARSE | {"privacy_defn": "puredp", "run_pr": False} | budgets(1)

NEIGHBOURS: dict[str, Sequence[str]] = {
    "one more": [*PEOPLE, PEOPLE[0]],
    "one less": PEOPLE[1:],
    "one changed": [person(GEOGRAPHY[6], "2020", "2000", age="99", sex="2", span="9000"), *PEOPLE[1:]],
    "one in groups that were empty": [*PEOPLE, person(GEOGRAPHY[3], "2020", "1030", age="5", span="9010")],
    "one in no group": [*PEOPLE, person(GEOGRAPHY[6], "3010")],
}


@dataclass
class Recorded:
    """The calls of a run, in order."""

    asked: list[tuple[str, str]] = field(default_factory=list)
    names: dict[bytes, tuple[str, str]] = field(default_factory=dict)
    laws: dict[tuple[str, str], set[NoiseDistribution]] = field(default_factory=dict)
    coordinates: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    empty: dict[tuple[str, str], tuple[Any, int]] = field(default_factory=dict)
    noise: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    plan: str = ""
    records: str = ""
    tables: Any = None

    def universe(self) -> dict[tuple[str, str], int]:
        """How many groups every choice of a table, and every total-only measurement, was made for."""
        sizes = {
            key: len(places)
            for key, places in self.coordinates.items()
            if key[1].endswith(("choice of table", "total-only groups"))
        }
        for (region, query), (_, number) in self.empty.items():
            sizes[region, query.split(":")[0] + ": choice of table"] += number
        return sizes


def recorded(folder: Path, people: Sequence[str], values: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Recorded:
    record = Recorded()
    stream, noise_at, draw_survivors = NoiseSource.stream, measuring.noise_at, measuring.draw_survivors

    def asked(source: NoiseSource, level: str, query: str) -> Any:
        made = stream(source, level, query)
        record.asked.append((level, query))
        record.names[made.word_key] = (level, query)
        record.plan, record.records = source.plan_hash, source.records_fingerprint
        return made

    def drawn(law: NoiseDistribution, made: Any, coordinates: Any) -> Any:
        name, noise = record.names[made.word_key], noise_at(law, made, coordinates)
        record.laws.setdefault(name, set()).add(law)
        record.coordinates.setdefault(name, []).extend(np.asarray(coordinates).tolist())
        record.noise.setdefault(name, []).extend(noise.tolist())
        return noise

    def survived(rule: Any, made: Any, empty: int) -> Any:
        name = record.names[made.word_key]
        assert name not in record.empty
        record.empty[name] = (rule, empty)
        return draw_survivors(rule, made, empty)

    with monkeypatch.context() as patch:
        patch.setattr(NoiseSource, "stream", asked)
        patch.setattr(measuring, "noise_at", drawn)
        patch.setattr(measuring, "draw_survivors", survived)
        spec = convert(*write_input(folder, values, people=people), folder / "spec")
        release = api.run(spec, processes=1, memory=MEMORY, insecure_key=KEY).release
    record.tables = tables(release)
    return record


@pytest.mark.parametrize("values", [DENSE, SPARSE, PURE], ids=["dense", "sparse", "pure"])
def test_neighbours_are_asked_the_same(tmp_path: Path, values: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    base = recorded(tmp_path / "base", PEOPLE, values, monkeypatch)
    assert base.asked
    assert bool(base.empty) == (values is not DENSE)
    universe = base.universe()
    assert sum(universe.values()) > 200
    for name, people in NEIGHBOURS.items():
        if values is not SPARSE and name not in ("one more", "one in groups that were empty"):
            continue
        other = recorded(tmp_path / name.replace(" ", "-"), people, values, monkeypatch)
        assert other.plan == base.plan, name
        assert other.asked == base.asked, name
        assert other.universe() == universe, name
        assert {key: rule for key, (rule, _) in other.empty.items()} == {
            key: rule for key, (rule, _) in base.empty.items()
        }, name
        # Each stream has one law, whichever of them are used: which tables there are follows from noisy totals.
        assert all(len(laws) == 1 for laws in (*base.laws.values(), *other.laws.values()))
        both = base.laws.keys() & other.laws.keys()
        assert all(base.laws[key] == other.laws[key] for key in both), name
        always = {key for key in base.laws if not key[1].split()[-1].startswith("T02")}
        assert always <= both, name
        for key in always:
            assert len(set(other.coordinates[key])) == len(other.coordinates[key])
        if values is DENSE:
            for key in universe:
                assert other.coordinates[key] == base.coordinates[key], name
        assert other.records != base.records, name


def test_other_records_meet_other_noise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same key and the same plan, one person more changes all noise: differences of releases tell nothing."""
    base = recorded(tmp_path / "base", PEOPLE, DENSE, monkeypatch)
    again = recorded(tmp_path / "again", PEOPLE, DENSE, monkeypatch)
    other = recorded(tmp_path / "other", [*PEOPLE, PEOPLE[0]], DENSE, monkeypatch)
    assert again.noise == base.noise
    assert again.tables == base.tables
    key = ("TRACT", "detailed: choice of table")
    same = sum(one == two for one, two in zip(base.noise[key], other.noise[key], strict=True))
    assert len(base.noise[key]) > 20
    assert same < len(base.noise[key]) / 3
    assert other.noise.keys() >= {key}


def test_no_stream_is_asked_for_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = recorded(tmp_path, PEOPLE, SPARSE, monkeypatch)
    assert len(set(base.asked)) == len(base.asked) == len(base.names)
    for name, places in base.coordinates.items():
        assert len(set(places)) == len(places), name


def test_the_universe_is_that_of_the_public_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Areas of the geography times iterations of the lists, though hardly any of them have a person."""
    universe = recorded(tmp_path, PEOPLE[:1] + PEOPLE[-1:], SPARSE, monkeypatch).universe()
    areas = {
        "USA": 1,
        "STATE": 2,
        "COUNTY": 3,
        "TRACT": 4,
        "PLACE": 3,
        "AIANNH": 2,
        "PR-STATE": 1,
        "PR-COUNTY": 2,
        "PR-TRACT": 2,
        "PR-PLACE": 1,
    }
    expected = {}
    for region, number in areas.items():
        large = region in ("USA", "STATE", "PR-STATE")
        expected[region, "regional: choice of table"] = 5 * number
        expected[region, "detailed: choice of table"] = (6 if large else 9) * number
        if large:
            expected[region, "detailed: total-only groups"] = 3 * number
    assert universe == expected
