"""What ``tables`` really draws, seen where truth and noise meet: each count of the plan once, by the law of the plan,
and nothing but that is published. Levels are measured in many parts, blocks are more than 64, one level has one unit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import confide
from confide.mechanisms.tables import mechanism, programme
from confide.noise import CountNoise, NoiseStream
from confide.releases.ledger import Ledger
from confide.releases.run import RunResult

KEY, OTHER_KEY = "5a" * 32, "5b" * 32
BLOCKS = [f"9{county}{block:02d}" for county in range(3) for block in range(30)]
SCHEMA = """
id = "s"
provenance = "Made up for a test."
[attributes.sex]
levels = [["m", "m"], ["f", "f"]]
[attributes.income]
levels = [["0", "0"], ["1", "1"], ["2", "2"]]
"""
SPEC = """
[release]
name = "r"
mechanism = "tables"
[data]
records = "persons.csv"
blocks = "blocks.csv"
schema = "schema.toml"
[geography]
levels = [{ name = "state", digits = 1 }, { name = "county", digits = 2 }]
[privacy]
ledger = "people.ledger"
budget = "1/100"
[programme]
level_weights = { block = 2 }
[[tables]]
name = "t"
variables = ["sex", "income"]
levels = ["state", "county", "block"]
[output]
formats = ["parquet"]
"""


@dataclass
class Recorder:
    """Stands where the mechanism adds noise, and notes what it was asked for and what it gave."""

    calls: list[tuple[CountNoise, bytes, int, Any, Any]] = field(default_factory=list)

    def __call__(self, counts: Any, law: CountNoise, stream: NoiseStream, start: int = 0) -> Any:
        noisy = PERTURB(counts, law, stream, start)
        self.calls.append((law, stream.word_key + stream.extension_key, start, np.array(counts), noisy))
        return noisy

    @property
    def streams(self) -> set[bytes]:
        return {stream for _, stream, *_ in self.calls}

    @property
    def used(self) -> list[tuple[bytes, int]]:
        """Stream and coordinate of every draw."""
        return [(stream, start + place) for _, stream, start, counts, _ in self.calls for place in range(counts.size)]


PERTURB = mechanism.perturb


def drawn(folder: Path, *, key: str = KEY, spec: str = SPEC, first_sex: str = "m") -> tuple[RunResult, Recorder]:
    """A release of 200 people, none of them in the last ten blocks, with everything that was drawn for it."""
    folder.mkdir()
    rows = [[BLOCKS[7 * i % (len(BLOCKS) - 10)], "mf"[i % 2], str(i % 3)] for i in range(200)]
    rows[0][1] = first_sex
    (folder / "blocks.csv").write_text("\n".join(["geocode", *BLOCKS]) + "\n")
    (folder / "persons.csv").write_text("\n".join(["geocode,sex,income", *map(",".join, rows)]) + "\n")
    (folder / "schema.toml").write_text(SCHEMA)
    (folder / "spec.toml").write_text(spec)
    ledger = folder / "people.ledger"
    Ledger.open_new(ledger, data_set="p", definition="zcdp", neighbours="change-one", budget=1)
    recorder = Recorder()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mechanism, "perturb", recorder)
        patch.setattr(programme, "PART_CELLS", 24)
        return confide.run(folder / "spec.toml", processes=1, insecure_key=key), recorder


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunResult, Recorder]:
    return drawn(tmp_path_factory.mktemp("drawn") / "p")


def test_no_float_touches_a_count() -> None:
    """Beyond 2^53 a float has no odd numbers: a sum that was one for a moment would show."""
    large = 2**53
    rows = pa.table({"unit": [4, 4, 5], "cell": [0, 1, 1], "n": [large, 1, large + 1]})
    truth = mechanism.dense_counts(rows, 4, 2, (2,))
    assert mechanism.margin_counts(truth, (1,), 2).tolist() == [large + 1, large + 1]
    assert mechanism.margin_counts(truth, (), 2).tolist() == [large, 1, 0, large + 1]


def test_every_count_of_the_plan_is_drawn_once_and_no_bit_serves_two(release: tuple[RunResult, Recorder]) -> None:
    result, recorder = release
    assert len(recorder.calls) > 2 * len(result.plan.measures), "levels are measured in several parts"
    assert len(recorder.used) == result.plan.counts
    assert len(set(recorder.used)) == len(recorder.used)
    assert len(recorder.streams) == len(result.plan.measures)


def test_every_draw_follows_the_law_that_was_priced(release: tuple[RunResult, Recorder]) -> None:
    result, recorder = release
    drawn: dict[tuple[bytes, str], int] = {}
    for law, stream, _, counts, _ in recorder.calls:
        drawn[stream, repr(law)] = drawn.get((stream, repr(law)), 0) + counts.size
    planned = [(repr(measure.law), measure.units * measure.cells) for measure in result.plan.measures]
    assert sorted((law, number) for (_, law), number in drawn.items()) == sorted(planned)
    assert {law for law, _ in planned} == {"DiscreteGaussian('800')", "DiscreteGaussian('1600')"}
    squares = [((noisy - counts) ** 2 / law.variance()).ravel() for law, *_, counts, noisy in recorder.calls]
    assert 0.8 < np.concatenate(squares).mean() < 1.25


def test_what_was_drawn_is_what_is_published(release: tuple[RunResult, Recorder]) -> None:
    result, recorder = release
    measured = sorted(int(count) for *_, noisy in recorder.calls for count in noisy.ravel())
    (file,) = (result.release / "tables").glob("*.parquet")
    published = pq.read_table(file).column("count").to_pylist()
    assert sorted(published) == measured
    assert measured[0] < 0, "a count that noise takes below zero stays there"


def test_every_unit_stands_under_its_own_code_in_whatever_part_it_is(release: tuple[RunResult, Recorder]) -> None:
    (file,) = (release[0].release / "tables").glob("*.parquet")
    rows = pq.read_table(file).to_pylist()
    assert [row["area"] for row in rows if row["level"] == "block"] == [block for block in BLOCKS for _ in range(12)]


def test_every_count_has_the_noise_margin_of_its_own_law(tmp_path: Path) -> None:
    """Pooled, the margin that two tables share is measured with the budgets of both: laws differ within a table."""
    second = '[[tables]]\nname = "u"\nvariables = ["sex"]\nlevels = ["block"]\n[output]\nnoise_margin = "9/10"'
    pooled = SPEC.replace("[programme]", '[programme]\nrepeated = "pooled"').replace("[output]", second)
    result, _ = drawn(tmp_path / "p", spec=pooled)
    names = {(False, False): "total", (True, False): "sex", (False, True): "income", (True, True): "sex*income"}
    seen = set()
    for row in pq.read_table(next((result.release / "tables").glob("t.*parquet"))).to_pylist():
        law = result.plan.measure(row["level"], names[row["sex"] != "_T", row["income"] != "_T"]).law
        assert row["noise_margin"] == law.noise_margin("9/10")
        seen.add((row["level"], row["noise_margin"]))
    assert len(seen) == 4, "one on each level above the blocks, two on the blocks"


def test_the_true_counts_of_the_level_are_what_noise_is_added_to(release: tuple[RunResult, Recorder]) -> None:
    _, recorder = release
    by_stream: dict[bytes, int] = {}
    for _, stream, _, counts, _ in recorder.calls:
        by_stream[stream] = by_stream.get(stream, 0) + int(counts.sum())
    assert set(by_stream.values()) == {200}, "every measurement counts every person once"


@pytest.mark.parametrize(
    "change",
    [
        {"first_sex": "f"},
        {"key": OTHER_KEY},
        {"spec": SPEC.replace('"1/100"', '"1/99"')},
    ],
    ids=["records", "key", "plan"],
)
def test_other_records_another_plan_or_another_key_have_no_stream_in_common(
    tmp_path: Path, release: tuple[RunResult, Recorder], change: dict[str, str]
) -> None:
    _, recorder = drawn(tmp_path / "p", **change)
    assert not recorder.streams & release[1].streams
