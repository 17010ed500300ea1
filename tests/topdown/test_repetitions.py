"""A thousand repetitions on a small spine: measurements have the planned variance, and no two are correlated.

Only what a run would measure is measured, with the laws and streams that a run would have. The keys are chosen, so the
figures are the same each time. The standard error of a ratio of variances is about √(2/n) for n draws; the smallest n
is 12,000, where 5 % are almost four of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from confide.confidential import Confidential
from confide.engines import LocalEngine
from confide.mechanisms.topdown.measure import Children, LevelQuery, TrueCounts, measure
from confide.mechanisms.topdown.mechanism import DrawnEvidence, TopDown
from confide.mechanisms.topdown.problem import TopDownProblem
from confide.mechanisms.topdown.spec import TopDownSpec
from confide.noise import DiscreteGaussian, NoiseStream, ReleaseKey
from confide.releases.mechanism import NoiseSource
from confide.releases.plan import Plan
from confide.releases.spec import load_spec
from confide.releases.workspace import Workspace

pytestmark = pytest.mark.slow  # make test has the noise audit, which sees smaller errors in one release

REPETITIONS = 1_000

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
range = [0, 11]

[schema.attributes.trait]
range = [0, 11]

[roots.top]
budget = 2
levels = ["state", "county", "tract", "block"]
shares = ["1/10", "2/10", "3/10", "4/10"]
estimation = ["root", "all", "all", "all"]

[roots.top.queries]
"total" = ["-", "1/2", "1/5", "1/10"]
"kind" = ["1/4", "1/10", "1/5", "1/10"]
"trait" = ["1/4", "1/10", "1/5", "1/10"]
"detailed" = ["1/2", "3/10", "2/5", "7/10"]

[estimation.root]
least_squares = [{ queries = ["kind", "trait", "detailed"] }]
rounding = [["detailed"]]

[estimation.all]
least_squares = [{ queries = ["total", "kind", "trait", "detailed"] }]
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
records = "persons.parquet"
blocks = "blocks.parquet"

[geography]
levels = [{ name = "state", digits = 1 }, { name = "county", digits = 3 }, { name = "tract", digits = 4 }]

[privacy]
ledger = "people.ledger"
budget = 2

[topdown]
strategy = "small.toml"
spine = "plain"
"""

Numbers = NDArray[Any]
Place = tuple[str, str, int]
"""A level, a query, and a class of shares."""


@dataclass(frozen=True)
class Small:
    """A question with the true histogram of every unit: units x cells, by level."""

    question: TopDownProblem
    plan: Plan
    truth: dict[str, NDArray[np.int64]]

    @cached_property
    def answers(self) -> dict[tuple[str, str], Numbers]:
        """The true answers to every query: units x cells of the query, by level and query."""
        found = {}
        for level_strategy, level in self.question.levels():
            for asked in level_strategy.queries:
                answers = np.zeros((level.units, asked.query.cells))
                np.add.at(answers.T, self.question.groups(asked.name), self.truth[level.name].T)
                found[level.name, asked.name] = answers
        return found


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    """16 counties with two tracts each, of which one has three blocks and the other one alone; some 200 people."""
    folder = tmp_path_factory.mktemp("small")
    blocks = [
        f"1{county:02d}{tract}{block}" for county in range(16) for tract in (0, 1) for block in range(1 + 2 * tract)
    ]
    rng = np.random.default_rng(4)
    people = {
        "geocode": pa.array(rng.choice(blocks, 200).tolist()),
        "kind": pa.array(rng.integers(0, 12, 200)),
        "trait": pa.array(rng.integers(0, 12, 200)),
    }
    pq.write_table(pa.table(people), folder / "persons.parquet")
    pq.write_table(pa.table({"geocode": blocks}), folder / "blocks.parquet")
    (folder / "small.toml").write_text(STRATEGY)
    (folder / "spec.toml").write_text(SPEC)
    loaded = load_spec(folder / "spec.toml", {"topdown": TopDownSpec})
    with LocalEngine(folder / "scratch", processes=1) as engine:
        question = TopDown().prepare(loaded, engine)
    place = {code: position for position, code in enumerate(question.spine.block_codes.tolist())}
    histogram = np.zeros((len(blocks), question.cells), np.int64)
    cell = people["kind"].to_numpy() * 12 + people["trait"].to_numpy()
    np.add.at(histogram, ([place[code] for code in people["geocode"].to_pylist()], cell), 1)
    truth = {level.name: question.spine.roll_up(level.name, histogram) for level in question.spine.levels}
    return Small(question, TopDown().plan(question), truth)


def key(number: int) -> ReleaseKey:
    return ReleaseKey.choose(hashlib.sha256(f"repetition {number}".encode()).hexdigest())


Change = Callable[[LevelQuery], LevelQuery]


def noise_of(
    small: Small,
    repetitions: int,
    source: type[NoiseSource] = NoiseSource,
    change: Change = lambda asked: asked,
) -> dict[Place, Numbers]:
    """What measurements differ from the truth by: repetitions x units x cells, for each level, query and class."""
    found: dict[Place, list[Numbers]] = {}
    for number in range(repetitions):
        noise = source(key(number), "ab" * 32, small.plan.hash, "topdown")
        drawn = DrawnEvidence(small.question, small.plan, noise, Workspace(Path("nowhere")))
        for level_strategy, level in small.question.levels():
            asked = [change(query) for query in drawn.level_queries(level_strategy, level)]
            for query, share_class, differences in _measured(small, level.name, asked):
                found.setdefault((level.name, query, share_class), []).append(differences)
    return {place: np.stack(parts) for place, parts in found.items()}


def _measured(small: Small, name: str, asked: list[LevelQuery]) -> Iterator[tuple[str, int, Numbers]]:
    level, truth = small.question.spine.level(name), small.truth[name]
    position, cell = np.nonzero(truth)
    counts = Confidential(TrueCounts(position, cell, truth[position, cell]))
    classes = level.shares.index.astype(np.int64)
    (result,) = measure(asked, [Children(counts, np.arange(level.units), classes, np.arange(small.question.cells))])
    for query, measured in zip(asked, result, strict=True):
        differences = (measured.measured.T - small.answers[name, query.name]).astype(np.float32)
        for share_class, law in enumerate(query.laws):
            if law is not None and (classes == share_class).any():
                yield query.name, share_class, differences[classes == share_class]


def planned(small: Small) -> dict[Place, float]:
    """The variance of every measurement, from the shares: the law with σ² = 1/(ρ·s·q)."""
    return {
        (level.name, asked.name, share_class): DiscreteGaussian(1 / (Fraction(2) * share * asked.share)).variance()
        for level_strategy, level in small.question.levels()
        for share_class, share in enumerate(level.shares.table)
        for asked in level_strategy.queries
        if share
    }


def ratios(small: Small, noise: dict[Place, Numbers]) -> dict[Place, float]:
    variances = planned(small)
    assert noise.keys() == variances.keys()
    return {place: float(np.mean(found**2, dtype=np.float64)) / variances[place] for place, found in noise.items()}


@pytest.fixture(scope="module")
def noise(small: Small) -> dict[Place, Numbers]:
    return noise_of(small, REPETITIONS)


def test_the_spine_has_two_classes_of_shares_and_enough_cells(small: Small, noise: dict[Place, Numbers]) -> None:
    """An only block leaves its share to its tract."""
    tracts = small.question.spine.level("tract").shares
    assert sorted(tracts.table) == [Fraction(3, 10), Fraction(7, 10)]
    assert {place[0] for place in noise} == {"state", "county", "tract", "block"}
    assert {place[2] for place in noise if place[0] == "tract"} == {0, 1}
    assert min(found.size for found in noise.values()) >= 12_000


def test_every_measured_query_has_the_planned_variance(small: Small, noise: dict[Place, Numbers]) -> None:
    found = ratios(small, noise)
    assert all(abs(ratio - 1) < 0.05 for ratio in found.values()), found
    means = {
        place: abs(values.mean(dtype=float)) / np.sqrt(values.var() / values.size) for place, values in noise.items()
    }
    assert max(means.values()) < 4.5, means


@pytest.mark.parametrize("wrong", [Fraction(9, 10), Fraction(11, 10)])
def test_a_scale_that_is_a_tenth_off_would_be_seen_in_every_query(small: Small, wrong: Fraction) -> None:
    def off(asked: LevelQuery) -> LevelQuery:
        laws = (None if law is None else DiscreteGaussian(law.parameter * wrong**2) for law in asked.laws)
        return replace(asked, laws=tuple(laws))

    found = ratios(small, noise_of(small, REPETITIONS // 10, change=off))
    assert all(abs(ratio - 1) > 0.05 for ratio in found.values()), found


def correlation(one: Numbers, other: Numbers) -> float:
    """r·√n of two samples of the same size: within 5 for independent ones but once in two million."""
    one, other = one.ravel() - one.mean(), other.ravel() - other.mean()
    r = np.dot(one, other) / np.sqrt(np.dot(one, one) * np.dot(other, other))
    return float(r * np.sqrt(one.size))


def pairs(noise: dict[Place, Numbers]) -> Iterator[tuple[str, float]]:
    """Noise that something different decides, at the same coordinates as far as both have them."""
    for place, found in noise.items():
        for lag in (1, 2, 100):
            yield f"keys {lag} apart: {place}", correlation(found[lag:], found[:-lag])
        if found.shape[1] > 1:
            yield f"neighbouring units: {place}", correlation(found[:, 1:], found[:, :-1])
        if found.shape[2] > 1:
            yield f"neighbouring cells: {place}", correlation(found[:, :, 1:], found[:, :, :-1])
    for (place, found), (other_place, other) in combinations(noise.items(), 2):
        size = min(found[0].size, other[0].size)
        flat, other_flat = (values.reshape(len(values), -1)[:, :size] for values in (found, other))
        yield f"{place} and {other_place}", correlation(flat, other_flat)
        units = min(found.shape[1], other.shape[1])
        cells = min(found.shape[2], other.shape[2])
        yield f"{place} and {other_place}, by unit", correlation(found[:, :units, :cells], other[:, :units, :cells])


def test_no_two_measurements_have_correlated_noise(noise: dict[Place, Numbers]) -> None:
    found = dict(pairs(noise))
    assert len(found) > 200
    assert max(map(abs, found.values())) < 5, sorted(found.items(), key=lambda item: -abs(item[1]))[:5]


def test_no_two_keys_have_correlated_noise(noise: dict[Place, Numbers]) -> None:
    """All half a million pairs of keys at once: beyond 6.5 once in some 25,000 such tests."""
    scaled = [found.reshape(len(found), -1) / found.std() for found in noise.values()]
    whole = np.concatenate(scaled, axis=1).astype(np.float32)
    products = whole @ whole.T / np.sqrt(whole.shape[1])
    assert np.abs(products[~np.eye(len(products), dtype=bool)]).max() < 6.5


class OneStreamForAllLevels(NoiseSource):
    """Wrong: every level of a release has the same bits."""

    def stream(self, level: str, query: str) -> NoiseStream:
        return super().stream("state", query)


class OneStreamForAllQueries(NoiseSource):
    """Wrong: every query of a level has the same bits."""

    def stream(self, level: str, query: str) -> NoiseStream:
        return super().stream(level, "detailed")


@pytest.mark.parametrize("source", [OneStreamForAllLevels, OneStreamForAllQueries])
def test_bits_that_are_used_twice_would_be_seen(small: Small, source: type[NoiseSource]) -> None:
    found = dict(pairs(noise_of(small, 101, source)))
    assert max(map(abs, found.values())) > 50
