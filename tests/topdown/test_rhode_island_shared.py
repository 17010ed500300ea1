"""Rhode Island 2010 at production settings: how exact the counts of areas are, over ten keys, and what a run takes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kits.rhode_island import BLOCKS, KEYS, NEEDED, PERSONS, lay_out_as_published
from tests.kits.topdown import KEY, released, rows_of, sql

from confide import api
from confide.engines import LocalEngine
from confide.mechanisms.topdown.figure_noise import TopDownNoise, areas_there
from confide.mechanisms.topdown.mechanism import TopDown
from confide.mechanisms.topdown.problem import TopDownProblem
from confide.mechanisms.topdown.spec import TopDownSpec
from confide.releases.spec import load_spec

pytestmark = [*NEEDED, pytest.mark.process]


def prepared(folder: Path, around: list[str] | None) -> TopDownProblem:
    loaded = load_spec(lay_out_as_published(folder, around), {"topdown": TopDownSpec})
    with LocalEngine(folder / "scratch", processes=1) as engine:
        return TopDown().prepare(loaded, engine)


def write_areas(question: TopDownProblem, into: Path) -> Path:
    """For each block the place, the county subdivision and the made block group that it lies in."""
    spine = question.spine
    group = dict(zip(spine.block_codes.tolist(), spine.unit_of_block("block_group").tolist(), strict=True))
    blocks = pq.read_table(BLOCKS, columns=["geocode", "PLACE", "COUSUB", "COUNTY"]).to_pydict()
    made = [group.get(code) for code in blocks["geocode"]]
    table = {
        "geocode": blocks["geocode"],
        "place": [None if code == "99999" else f"44{code}" for code in blocks["PLACE"]],
        "cousub": [f"44{county}{code}" for county, code in zip(blocks["COUNTY"], blocks["COUSUB"], strict=True)],
        "made_group": [None if unit is None else str(unit) for unit in made],
    }
    pq.write_table(pa.table(table), into)
    return into


def totals(areas: Path, rows: str, kind: str) -> dict[str, int]:
    return dict(
        sql(
            f"SELECT {kind}, count(*) FROM {rows} JOIN {rows_of(areas)} USING (geocode) "
            f"WHERE {kind} IS NOT NULL GROUP BY 1"
        )
    )


def errors(areas: Path, rows: str, kind: str) -> dict[str, int]:
    """How far the total of each area is off, over the areas where somebody lives, truly or in the release."""
    truth, found = (totals(areas, one, kind) for one in (rows_of(PERSONS), rows))
    return {area: abs(truth.get(area, 0) - found.get(area, 0)) for area in truth.keys() | found.keys()}


def largest_groups(areas: Path, rows: str, kind: str) -> list[bool]:
    """For each area of 500 people or more, whether the group that is largest in the release has a share that is within
    five points of the true one. Groups are seven races (the last: two or more) by Hispanic origin."""
    query = (
        f"SELECT {kind}, hispanic * 7 + least(cenrace, 6), count(*) FROM {{rows}} "
        f"JOIN {rows_of(areas)} USING (geocode) WHERE {kind} IS NOT NULL GROUP BY 1, 2"
    )
    counts: list[dict[str, Any]] = []
    for one in (rows_of(PERSONS), rows):
        by_area: dict[str, Any] = {}
        for area, group, count in sql(query.format(rows=one)):
            by_area.setdefault(area, np.zeros(14, np.int64))[group] = count
        counts.append(by_area)
    truth, found = counts
    result = []
    for area in (area for area, groups in truth.items() if groups.sum() >= 500):
        largest = int(found[area].argmax())
        shares = [groups[area][largest] / groups[area].sum() for groups in (truth, found)]
        result.append(abs(shares[0] - shares[1]) <= 0.05)
    return result


def figures(areas: Path, release: Path) -> dict[str, Any]:
    rows = released(release)
    kept = [largest_groups(areas, rows, kind) for kind in ("place", "cousub")]
    found: dict[str, Any] = {kind: errors(areas, rows, kind) for kind in ("cousub", "place", "made_group")}
    return found | {
        "largest_group": float(np.mean([one for part in kept for one in part])),
        "people": int(sql(f"SELECT count(*) FROM {rows}")[0][0]),
    }


def over_keys(
    tmp_path_factory: pytest.TempPathFactory, around: list[str] | None
) -> tuple[TopDownProblem, list[dict[str, Any]]]:
    """The figures of ten releases of the same question."""
    question = prepared(tmp_path_factory.mktemp("question"), around)
    file = write_areas(question, tmp_path_factory.mktemp("areas") / "areas.parquet")
    found = []
    for key in KEYS:
        folder = tmp_path_factory.mktemp("key")
        found.append(
            figures(file, api.run(lay_out_as_published(folder, around), processes=2, insecure_key=key).release)
        )
        shutil.rmtree(folder)
    return question, found


def mean_error(found: list[dict[str, Any]], kind: str, among: set[str] | None = None) -> float:
    return float(np.mean([e for one in found for area, e in one[kind].items() if among is None or area in among]))


def noise_alone(question: TopDownProblem, kind: str) -> dict[str, float]:
    """The mean absolute error of the total of each area that the noise alone would make (of a normal: σ·√(2/π))."""
    areas = areas_there(question.spine)[kind]
    variance = TopDownNoise(question).variances({}, areas)[:, 0]
    return dict(zip(areas.codes, np.sqrt(2 * variance / np.pi).tolist(), strict=True))


def cut(question: TopDownProblem, kind: str) -> set[str]:
    """The areas that some made block group lies in with a part of its blocks."""
    level = question.frame.spine.level(kind)
    group = question.spine.unit_of_block("block_group")
    area = question.spine.official_of_block(kind)
    pairs = np.unique(np.stack([group, area]), axis=1)
    several = np.flatnonzero(np.bincount(pairs[0]) > 1)
    return {level.codes[number] for number in pairs[1][np.isin(pairs[0], several)].tolist() if number >= 0}


def check_what_both_spines_promise(found: list[dict[str, Any]]) -> None:
    assert {one["people"] for one in found} == {pq.read_metadata(PERSONS).num_rows}
    assert mean_error(found, "cousub") < 5
    assert mean_error(found, "made_group") < 2
    assert np.mean([one["largest_group"] for one in found]) >= 0.95


def test_over_ten_keys_areas_are_as_exact_as_the_production_spine_promises(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Rhode Island is a State of strong minor civil divisions, so block groups are made around those. Most of its
    places are statistical ones that block groups cut: their totals are sums of blocks, of which the noise alone would
    be tens of persons. Places that nothing cuts are as exact as the noise of their tracts."""
    question, found = over_keys(tmp_path_factory, None)
    check_what_both_spines_promise(found)
    promised, places = noise_alone(question, "place"), set(found[0]["place"])
    through = cut(question, "place")
    whole = places - through
    assert (len(whole), len(through)) == (9, 25)
    assert mean_error(found, "place", whole) == pytest.approx(np.mean([promised[area] for area in whole]), rel=0.25)
    assert np.mean([promised[area] for area in through]) > 50
    # Counts cannot be negative, which takes most of that away.
    assert 5 < mean_error(found, "place", through) < 25
    of_divisions = noise_alone(question, "cousub")
    expected = np.mean([of_divisions[area] for area in found[0]["cousub"]])
    assert mean_error(found, "cousub") == pytest.approx(expected, rel=0.25)


def test_over_ten_keys_places_are_as_exact_where_the_spine_is_made_around_them_too(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """As `confide new` has it: the noise of production, and block groups that neither divisions nor places cut."""
    question, found = over_keys(tmp_path_factory, ["cousub", "place"])
    check_what_both_spines_promise(found)
    assert not cut(question, "place")
    assert mean_error(found, "place") < 5


def timed(spec: Path, **environment: str) -> tuple[float, float]:
    """Seconds and gigabytes of `confide run` with two processes and `confide verify`, as they are typed."""
    began, largest = time.monotonic(), 0.0
    release = spec.parent / "descent" / "release"
    for arguments in (["run", spec, "--processes", "2", "--insecure-key", KEY], ["verify", release]):
        command = [sys.executable, "-m", "confide", *map(str, arguments), "--json"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=os.environ | environment)
        while process.poll() is None:
            largest = max(largest, _resident(process.pid))
            time.sleep(0.05)
        assert process.returncode == 0, arguments
    return time.monotonic() - began, largest


def _resident(pid: int) -> float:
    """What a process and its children hold in memory, in GiB; shared pages are counted in each."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**30 + sum(_resident(int(child)) for child in children)


def test_a_real_state_takes_less_than_ninety_seconds_and_three_gigabytes(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """From Parquet to a verified release with warm caches; a first run, which has to compile, at most 30 s more."""
    timed(lay_out_as_published(tmp_path_factory.mktemp("warm"), output=""))
    seconds, gigabytes = timed(lay_out_as_published(tmp_path_factory.mktemp("real"), output=""))
    assert seconds < 90, seconds
    assert gigabytes < 3, gigabytes
    cache = tmp_path_factory.mktemp("cache")
    first, _ = timed(lay_out_as_published(tmp_path_factory.mktemp("first"), output=""), NUMBA_CACHE_DIR=str(cache))
    assert any(cache.rglob("*.nbc"))
    assert first - seconds < 30, (first, seconds)


def test_columns_that_count_the_persons_in_quarters_are_refused_without_presence(tmp_path: Path) -> None:
    """The block table of the state counts persons, not facilities. No type 4 lives there."""
    spec = lay_out_as_published(tmp_path)
    assert not api.check(spec).errors
    lines = spec.read_text().splitlines(keepends=True)
    spec.write_text("".join(line for line in lines if not line.startswith("presence")))
    refused = api.check(spec).errors
    assert {finding.code for finding in refused} == {"frame-tells-records"}
    assert [finding.where.column for finding in refused] == [f"gq{kind}_imputed" for kind in (1, 2, 3, 5, 6, 7)]
