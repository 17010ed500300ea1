"""What a TopDown run really draws, seen where truth and noise meet: no bit serves two counts, and every law is that of
the plan. Blocks are more than 64, in several groups of parents."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import confide
from confide.mechanisms.topdown import descent, measure
from confide.noise import NoiseDistribution, NoiseStream
from confide.releases.ledger import Ledger
from confide.releases.run import RunResult

KEY = "5a" * 32
COUNTIES, BLOCKS_EACH, CELLS = 5, 20, 12
STRATEGY = """
id = "small"
title = "A small strategy"
provenance = "Made up for a test."
definition = "zcdp"
neighbours = "change-one"
root = "top"
[schema]
id = "small"
provenance = "Made up for a test."
[schema.attributes.kind]
range = [0, 3]
[schema.attributes.trait]
range = [0, 2]
[roots.top]
budget = 2
levels = ["state", "county", "block"]
shares = ["1/10", "4/10", "5/10"]
estimation = ["all", "all", "all"]
[roots.top.queries]
"kind" = ["1/4", "1/2", "1/2"]
"detailed" = ["3/4", "1/2", "1/2"]
[estimation.all]
least_squares = [{ queries = ["kind", "detailed"] }]
rounding = [["detailed"]]
[[invariants]]
name = "people"
level = "state"
query = "total"
"""
SPEC = """
[release]
name = "small"
mechanism = "topdown"
[data]
records = "persons.csv"
blocks = "blocks.csv"
[geography]
levels = [{ name = "state", digits = 1 }, { name = "county", digits = 2 }]
[privacy]
ledger = "people.ledger"
budget = 2
[topdown]
strategy = "small.toml"
spine = "plain"
[output]
measurements = true
"""


@dataclass
class Recorder:
    """Stands where the mechanism draws, and notes what it was asked for and what it gave."""

    calls: list[tuple[NoiseDistribution, bytes, Any, Any]] = field(default_factory=list)

    def __call__(self, law: NoiseDistribution, stream: NoiseStream, coordinates: Any) -> Any:
        noise = DRAW_AT(law, stream, coordinates)
        self.calls.append((law, stream.word_key + stream.extension_key, np.array(coordinates), noise))
        return noise


DRAW_AT = measure.draw_at


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunResult, list[tuple[Any, ...]], int]:
    """A release, what was drawn for it, and how many of the draws came before the full set that is published."""
    folder = tmp_path_factory.mktemp("drawn")
    blocks = [f"1{county}{block:02d}" for county in range(COUNTIES) for block in range(BLOCKS_EACH)]
    rows = [f"{blocks[i % len(blocks)]},{i % 4},{i // 4 % 3}" for i in range(1200)]
    (folder / "blocks.csv").write_text("\n".join(["geocode", *blocks]) + "\n")
    (folder / "persons.csv").write_text("\n".join(["geocode,kind,trait", *rows]) + "\n")
    (folder / "small.toml").write_text(STRATEGY)
    (folder / "spec.toml").write_text(SPEC)
    ledger = folder / "people.ledger"
    Ledger.open_new(ledger, data_set="p", definition="zcdp", neighbours="change-one", budget=2)
    recorder, lazily = Recorder(), []
    descend = descent.descend
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measure, "draw_at", recorder)
        patch.setattr(descent, "CHILDREN_PER_GROUP", BLOCKS_EACH)

        def noted(*arguments: Any) -> None:
            descend(*arguments)
            lazily.append(len(recorder.calls))

        patch.setattr(descent, "descend", noted)
        result = confide.run(folder / "spec.toml", processes=1, insecure_key=KEY)
    return result, recorder.calls, lazily[0]


def test_no_bit_serves_two_counts(release: tuple[RunResult, list[tuple[Any, ...]], int]) -> None:
    """In the descent each coordinate is drawn once; it reaches into every unit of every level."""
    result, calls, lazily = release
    used: dict[bytes, list[int]] = {}
    for _, stream, coordinates, _ in calls[:lazily]:
        used.setdefault(stream, []).extend(coordinates.tolist())
    assert len(used) == len(result.plan.measures) == 6
    assert all(len(set(places)) == len(places) for places in used.values())
    units = COUNTIES * BLOCKS_EACH
    largest = max(used.values(), key=len)
    assert len(largest) > 0.8 * units * CELLS, "nearly every cell of every block has somebody above it"
    assert {place // CELLS for place in largest} == set(range(units)), "every block has noise of its own"


def test_what_is_published_of_a_measurement_is_what_the_estimate_was_made_from(
    release: tuple[RunResult, list[tuple[Any, ...]], int],
) -> None:
    result, calls, lazily = release
    drawn, full = (
        {(stream, place): value for _, stream, *pair in part for place, value in zip(*pair, strict=True)}
        for part in (calls[:lazily], calls[lazily:])
    )
    assert len(full) == result.plan.counts
    assert drawn.items() <= full.items()


def test_every_draw_follows_the_law_that_was_priced(
    release: tuple[RunResult, list[tuple[Any, ...]], int],
) -> None:
    result, calls, lazily = release
    drawn: dict[tuple[bytes, str], int] = {}
    for law, stream, coordinates, _ in calls[lazily:]:
        drawn[stream, repr(law)] = drawn.get((stream, repr(law)), 0) + len(coordinates)
    planned = [(repr(measured.law), measured.units * measured.cells) for measured in result.plan.measures]
    assert sorted((law, number) for (_, law), number in drawn.items()) == sorted(planned)
    assert {(stream, repr(law)) for law, stream, *_ in calls[:lazily]} <= drawn.keys()
    noise = np.concatenate([noise for law, _, _, noise in calls if law.parameter == 2])
    assert 0.8 < noise.var() / 2 < 1.25, "2 times 5/10 times 1/2 of change-one: sigma2 = 2"
