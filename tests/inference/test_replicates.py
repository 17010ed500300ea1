"""Replicates of a release: from its own records alone, stamped, resumable; their errors as plain counting has them."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tests.kits import commands

import confide
from confide.cli.show import show_answer
from confide.errors import ConfideError
from confide.inference import replicates as room
from confide.inference.pooled_errors import (
    QUANTILES,
    SCHEMA,
    PossibleCells,
    area_kinds,
    calibrated_factors,
    pooled_rows,
    query_matrix,
    record_intervals,
    tallied,
)
from confide.inference.replicates import (
    ReplicatedRelease,
    Replicates,
    counts_matrix,
    records_file,
    replicate,
    replicate_name,
    sparse_counts,
)
from confide.mechanisms import MECHANISMS
from confide.mechanisms.topdown.figure_noise import SIZES, size_names
from confide.mechanisms.topdown.made_up import exchanged_homes, resized_blocks, shrinkage
from confide.releases.folder import read_manifest
from confide.releases.ledger import Ledger
from confide.releases.verify import Verification

NUMBER, CALIBRATION = 3, 2


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module", autouse=True)
def verified_once(seal: Callable[[str], Path]) -> Iterator[None]:
    """The release that all tests share is verified once; copies of it, which tests change, each time."""
    verify, shared = room.verify, seal("topdown")
    found = verify(shared, lambda name: MECHANISMS[name])

    def verified(folder: Path, mechanisms: Callable[[str], Any]) -> Verification:
        return found if folder == shared else verify(folder, mechanisms)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(room, "verify", verified)
        yield


@pytest.fixture(scope="module")
def answer(seal: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Replicates:
    """Three replicates of the small nation; the run's folder is compared before and after."""
    release, folder = seal("topdown"), tmp_path_factory.mktemp("replicates") / "out"
    before = files_of(release.parent.parent)
    made = replicate(release, folder, replicates=NUMBER, calibration=CALIBRATION, processes=1)
    assert files_of(release.parent.parent) == before, "neither release, nor records, nor ledger, nor run"
    return made


def test_nothing_is_charged_and_everything_is_stamped(answer: Replicates, seal: Callable[[str], Path]) -> None:
    ledger = Ledger(seal("topdown").parent.parent / "data-set.ledger")
    assert [entry.kind for entry in ledger.history()] == ["open", "reserve", "measured", "sealed"]
    assert (answer.folder / "NOT-FOR-RELEASE.txt").read_text().startswith("NOT FOR RELEASE: a replicate")
    tables = sorted(answer.folder.rglob("*.parquet"))
    assert len(tables) == NUMBER + CALIBRATION + 4
    for file in tables:
        assert ".NOT-FOR-RELEASE." in file.name
        assert pq.read_schema(file).metadata[b"stamp"] == b"NOT FOR RELEASE"
    stated = json.loads((answer.folder / "replicates.json").read_text())
    assert stated["stamp"] == "NOT FOR RELEASE"
    assert stated["charged"] is None
    assert not (answer.folder / "work").exists()


def test_replicates_keep_what_the_release_keeps_and_differ(answer: Replicates) -> None:
    problem = answer.source.problem
    own = counts_matrix(problem, answer.source.histogram)
    drawn = list(answer.histograms())
    assert len(drawn) == NUMBER
    for one in drawn:
        assert one.sum() == own.sum() == 397
        assert one.data.min() > 0
        assert (one != own).nnz > 0
        for level in problem.spine.levels:
            for name, (least, largest) in problem.limits(level).items():
                groups = query_matrix(problem, name)
                units = problem.spine.roll_up(level.name, (one @ groups).toarray())
                assert (units >= least).all()
                assert (units <= largest).all()
    assert all((a != b).nnz > 0 for i, a in enumerate(drawn) for b in drawn[:i])


def test_errors_are_those_of_the_noise_of_the_plan(answer: Replicates) -> None:
    """The same records with noise that is almost none come out as they went in; so the errors are the noise's."""
    loud = counts_matrix(answer.source.problem, answer.source.histogram)
    distance = [abs(one - loud).sum() for one in answer.histograms()]
    # 397 people in blocks at rho 2.56: most cells of a block are off, and never all people are.
    assert all(100 < far < 2 * 397 for far in distance)


def _published(answer: Replicates, table: pa.Table, kind: str, query: str) -> dict[tuple[str, int], int]:
    """Figures counted from rows of text, with the codes of the frame: no sparse matrix."""
    problem = answer.source.problem
    names = {area.name: area for area in (*problem.frame.spine.levels, *problem.frame.spine.areas)}
    level, groups = names[kind], problem.groups(query)
    result: dict[tuple[str, int], int] = {}
    for unit, cell, n in zip(*(table.column(name).to_pylist() for name in ("unit", "cell", "n")), strict=True):
        area = level.unit_of_block[problem.spine.rows[unit]]
        if area >= 0:
            key = (level.codes[area], int(groups[cell]))
            result[key] = result.get(key, 0) + n
    return result


@pytest.mark.parametrize(("kind", "query"), [("county", "hispanic*cenrace"), ("place", "total"), ("block", "hhgq")])
def test_pooled_errors_are_those_of_plain_counting(answer: Replicates, kind: str, query: str) -> None:
    before = _published(answer, answer.source.histogram, kind, query)
    tables = [pq.read_table(records_file(answer.folder, replicate_name(k))) for k in range(1, NUMBER + 1)]
    after = [_published(answer, table, kind, query) for table in tables]
    keys = set(before).union(*after)
    rows = {row["size"]: row for row in answer.rows if (row["kind"], row["query"]) == (kind, query)}
    for (low, high), size in zip(SIZES, size_names(), strict=True):

        def inside(count: int, low: int = low, high: int | None = high) -> bool:
            return low <= count and (high is None or count <= high)

        errors = [one.get(key, 0) - before.get(key, 0) for key in keys for one in after if inside(before.get(key, 0))]
        shown = sorted(
            abs(one.get(key, 0) - before.get(key, 0)) for key in keys for one in after if inside(one.get(key, 0))
        )
        if size not in rows:
            assert not errors
            assert not shown
            continue
        row = rows[size]
        # Cells that are zero throughout are in no list of ours.
        assert row["cells"] * NUMBER >= len(errors)
        assert row["cells"] * NUMBER == len(errors) or size == "0"
        if row["cells"]:
            assert row["mse"] * row["cells"] * NUMBER == pytest.approx(sum(e * e for e in errors))
            assert row["bias"] * row["cells"] * NUMBER == pytest.approx(sum(errors))
            assert row["sd"] ** 2 == pytest.approx(row["mse"] - row["bias"] ** 2, abs=1e-9)
        if row["shown"]:
            assert row["mse_shown"] * row["shown"] == pytest.approx(sum(e * e for e in shown))
            filled = [0] * (row["shown"] - len(shown)) + shown
            for q in QUANTILES:
                least = next(m for m in range(max(filled) + 1) if sum(e <= m for e in filled) >= q * len(filled))
                assert row[f"p{round(100 * q)}_shown"] == least


def test_the_floor_for_zeros_is_the_percentile_of_its_class(answer: Replicates) -> None:
    of = answer.statistics("county", "hispanic*cenrace")
    problem = answer.source.problem
    (row,) = (
        row for row in answer.rows if (row["kind"], row["query"], row["size"]) == ("county", "hispanic*cenrace", "0")
    )
    (kind,) = (kind for kind in area_kinds(problem) if kind.name == "county")
    assert PossibleCells(problem).number(kind, query_matrix(problem, "hispanic*cenrace")) == of.released.size
    roots = np.sort(np.sqrt(of.mse[of.released == 0]))
    assert row["rmse_p95"] == pytest.approx(roots[int(np.ceil(0.95 * len(roots))) - 1])
    assert row["rmse_p95"] > 0


def test_cell_by_cell_statistics(answer: Replicates) -> None:
    of = answer.statistics("tract", "votingage")
    members = next(kind.members for kind in area_kinds(answer.source.problem) if kind.name == "tract")
    matrix = query_matrix(answer.source.problem, "votingage")
    figures = np.array([(members @ one @ matrix).toarray() for one in answer.histograms()])
    assert of.mean == pytest.approx(figures.mean(axis=0))
    assert of.mse == pytest.approx(((figures - of.released) ** 2).mean(axis=0))
    assert of.sd == pytest.approx(figures.std(axis=0, ddof=1))
    assert len(of.codes) == len(of.released)
    with pytest.raises(ConfideError, match="no query 'agee'"):
        answer.statistics("tract", "agee")


def test_possible_cells_are_those_that_no_constraint_excludes(answer: Replicates) -> None:
    problem = answer.source.problem
    zero = problem.strategy.constraints.zero_cells(problem.strategy.schema)
    allowed = np.repeat(~zero[None], len(problem.spine.rows), axis=0)
    for name, (_, largest) in problem.limits(problem.spine.levels[-1]).items():
        allowed &= largest[:, problem.groups(name)] > 0
    assert allowed.any(axis=0).sum() < len(zero)
    for kind in area_kinds(problem):
        for query in ("detailed", "hhgq", "total"):
            reached = (kind.members @ allowed.astype(int) @ query_matrix(problem, query)) > 0
            assert PossibleCells(problem).number(kind, query_matrix(problem, query)) == reached.sum()


def test_which_areas_are_units_of_the_spine(answer: Replicates) -> None:
    kinds = {kind.name: kind for kind in area_kinds(answer.source.problem)}
    assert kinds["us"].on_spine
    assert kinds["block"].on_spine
    assert kinds["block"].single == 1
    assert not kinds["block_group"].on_spine, "block groups were made around places"
    assert {row["factor"] for row in answer.rows if row["on_spine"] and row["kind"] != "block"} == {1.0}
    stated = {("block" if row["on_spine"] else "off the spine", row["query"]): row["factor"] for row in answer.rows}
    of = {(row.areas_of, row.query): row.factor for row in answer.factors}
    assert {areas for areas, _ in of} == {"block", "off the spine"}
    assert {key: factor for key, factor in stated.items() if key[0] == "off the spine"}.items() <= of.items()
    blocks = {row["query"]: row["factor"] for row in answer.rows if row["kind"] == "block"}
    assert blocks == {query: factor for (areas, query), factor in of.items() if areas == "block"}
    assert min(of.values()) >= 1


def test_made_up_people_keep_what_the_frame_says_of_them(answer: Replicates) -> None:
    problem, own = answer.source.problem, answer.source.histogram
    people = exchanged_homes(problem, own, 5)
    before, after = counts_matrix(problem, own), counts_matrix(problem, people)
    assert (before != after).nnz > 0
    assert exchanged_homes(problem, own, 5).equals(people)
    assert not exchanged_homes(problem, own, 6).equals(people)
    assert (np.asarray(before.sum(axis=1)) == np.asarray(after.sum(axis=1))).all(), "every block keeps its number"
    tract = problem.spine.names[-3]
    one, other = (problem.spine.roll_up(tract, counts.toarray()) for counts in (before, after))
    assert (one == other).all()
    for name in problem.strategy.constraints.limited:
        groups = query_matrix(problem, name)
        assert ((before @ groups) != (after @ groups)).nnz == 0


def test_resized_blocks_are_more_uneven_and_keep_what_the_frame_says(answer: Replicates) -> None:
    problem, own = answer.source.problem, answer.source.histogram
    parent = problem.spine.names[-2]
    before = counts_matrix(problem, own).toarray()
    assert resized_blocks(problem, own, 1.0, 3).column("n").to_numpy().sum() == before.sum()
    sizes = [before.sum(axis=1).astype(float)]
    for times in (1.5, 3.0):
        people = resized_blocks(problem, own, times, 3)
        after = counts_matrix(problem, people).toarray()
        assert (problem.spine.roll_up(parent, after) == problem.spine.roll_up(parent, before)).all()
        for name, (least, largest) in problem.limits(problem.spine.levels[-1]).items():
            held = after @ query_matrix(problem, name)
            assert (held >= least).all()
            assert (held <= largest).all()
        sizes.append(after.sum(axis=1).astype(float))
    unit = problem.spine.unit_of_block(parent)
    means = [(np.bincount(unit, size) / np.bincount(unit))[unit] for size in sizes]
    uneven = [float(((size - mean) ** 2).sum()) for size, mean in zip(sizes, means, strict=True)]
    assert uneven[0] < uneven[1] < uneven[2]
    assert resized_blocks(problem, own, 3.0, 3).equals(people)
    assert shrinkage(problem, people, own) < 0.9
    assert shrinkage(problem, own, own) == 1


def test_the_factor_finds_errors_that_replicates_do_not_have(answer: Replicates) -> None:
    """Replicates are off by ±1 in each cell of a block, the release by ±1 or ±3: the ratio is 1 or 3."""
    problem, rng = answer.source.problem, np.random.default_rng(1)
    blocks, cells = len(problem.spine.rows), problem.cells
    cell = int(np.flatnonzero(~problem.strategy.constraints.zero_cells(problem.strategy.schema))[0])

    def plus(size: int) -> Any:
        sign = size * rng.choice([-1, 1], blocks)
        return counts_matrix(
            problem, pa.table({"unit": np.arange(blocks), "cell": np.full(blocks, cell), "n": 50 + sign})
        )

    level = counts_matrix(
        problem, pa.table({"unit": np.arange(blocks), "cell": np.full(blocks, cell), "n": np.full(blocks, 50)})
    )
    assert level.shape == (blocks, cells)
    rows = pooled_rows(problem, tallied(problem, level, (plus(1) for _ in range(10))))
    for size in (1, 3):
        factors = [row for row in calibrated_factors(problem, rows, plus(size), [level]) if row.query == "total"]
        assert {row.areas_of for row in factors} == {"block", "off the spine"}
        for total in factors:
            assert total.ratio == pytest.approx(size, rel=0.35)
            assert 0 <= total.standard_error < 0.5 * size
            assert total.factor == max(1, total.ratio)


def test_intervals_have_floor_factor_and_no_negative_end() -> None:
    ends = record_intervals(np.array([0, 3, 100]), np.array([0.0, 2.0, 2.0]), 0.9, floor=np.array([1.5, 0, 0]))
    assert ends.low.tolist() == [0, 0, 95]
    assert ends.high.tolist() == [2, 8, 105]
    wide = record_intervals(np.array([100]), np.array([2.0]), 0.9, factor=1.5)
    assert (wide.low[0], wide.high[0]) == (93, 107)


@pytest.mark.parametrize("after", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_what_was_finished_stays_and_the_rest_is_the_same(
    answer: Replicates, seal: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """The power goes off within a descent; the next call goes on and gives the same bytes."""
    calls, descend = [], room.descend

    def dying(*arguments: Any) -> None:
        calls.append(1)
        if len(calls) == after + 1:
            raise KeyboardInterrupt
        descend(*arguments)

    monkeypatch.setattr(room, "descend", dying)
    with pytest.raises(KeyboardInterrupt):
        replicate(seal("topdown"), tmp_path / "out", replicates=NUMBER, calibration=CALIBRATION, processes=1)
    runs = NUMBER + 1 + CALIBRATION
    replicate(seal("topdown"), tmp_path / "out", replicates=NUMBER, calibration=CALIBRATION, processes=1)
    assert len(calls) == runs + 1, "what was there is not made again"
    assert files_of(tmp_path / "out") == files_of(answer.folder)


def test_damaged_files_are_made_again_and_more_can_be_added(
    answer: Replicates, seal: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = shutil.copytree(answer.folder, tmp_path / "out")
    damaged = records_file(folder, replicate_name(2))
    damaged.write_bytes(damaged.read_bytes()[:-20])
    replicate(seal("topdown"), folder, replicates=NUMBER, calibration=CALIBRATION, processes=1)
    assert files_of(folder) == files_of(answer.folder)
    more = replicate(seal("topdown"), folder, replicates=NUMBER + 1, calibration=0, processes=1)
    assert len(list(more.histograms())) == NUMBER + 1
    assert not more.factors
    assert (
        records_file(folder, replicate_name(1)).read_bytes()
        == records_file(answer.folder, replicate_name(1)).read_bytes()
    )


@pytest.mark.slow
@pytest.mark.process
def test_a_killed_process_goes_on(answer: Replicates, seal: Callable[[str], Path], tmp_path: Path) -> None:
    folder = tmp_path / "out"
    arguments = [seal("topdown"), "--replicates", NUMBER, "--calibration", CALIBRATION, "--out", folder]
    words = [sys.executable, "-m", "confide", "infer", "replicate", *map(str, arguments), "--processes", "1", "--json"]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(600):
        if records_file(folder, replicate_name(1)).exists() or process.poll() is not None:
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert process.returncode == -signal.SIGKILL
    subprocess.run(words, check=True, capture_output=True)
    assert files_of(folder) == files_of(answer.folder)


def test_a_changed_release_is_refused(seal: Callable[[str], Path], tmp_path: Path) -> None:
    folder = shutil.copytree(seal("topdown"), tmp_path / "release")
    units = next(folder.glob("tables/units*.parquet"))
    table = pq.read_table(units)
    place = table.column_names.index("housing_units")
    more = table.set_column(place, table.field(place), pc.add(table.column(place), 1))
    pq.write_table(more, units)
    assert "not-as-sealed" in commands.codes("infer", "replicate", folder, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_release_with_other_laws_in_its_plan_is_refused(seal: Callable[[str], Path], tmp_path: Path) -> None:
    folder = shutil.copytree(seal("topdown"), tmp_path / "release")
    manifest = read_manifest(folder)
    manifest["plan"]["measures"][0]["law"]["sigma2"] = "1/1000"
    (folder / "manifest.json").write_text(json.dumps(manifest))
    assert "not-as-sealed" in commands.codes("infer", "replicate", folder, "--out", tmp_path / "out")


@pytest.mark.parametrize("mechanism", ["tables", "swapping"])
def test_other_releases_are_refused(seal: Callable[[str], Path], tmp_path: Path, mechanism: str) -> None:
    assert commands.codes("infer", "replicate", seal(mechanism), "--out", tmp_path / "out") == ["not-replicated"]


def test_records_are_no_input(seal: Callable[[str], Path], tmp_path: Path) -> None:
    run = seal("topdown").parent
    for path in (run.parent / "persons.parquet", run.parent, run / "confidential", tmp_path / "nothing"):
        with pytest.raises(ConfideError):
            replicate(path, tmp_path / "out", replicates=2)
    assert not (tmp_path / "out").exists()


def test_the_folder_of_a_run_will_do(answer: Replicates, seal: Callable[[str], Path]) -> None:
    again = replicate(seal("topdown").parent, answer.folder, replicates=NUMBER, calibration=CALIBRATION, processes=1)
    assert again.rows == answer.rows
    opened = Replicates.open(answer.folder, seal("topdown"))
    assert [dict(row) for row in opened.rows] == [dict(row) for row in answer.rows]
    assert opened.factors == answer.factors


def test_other_folders_stay_as_they_are(answer: Replicates, seal: Callable[[str], Path], tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("all of it")
    assert commands.codes("infer", "replicate", seal("topdown"), "--out", tmp_path / "mine") == ["not-these-replicates"]
    assert files_of(tmp_path / "mine") == {"thesis.txt": b"all of it"}
    other = shutil.copytree(answer.folder, tmp_path / "other")
    stated = json.loads((other / "replicates.json").read_text())
    (other / "replicates.json").write_text(json.dumps(stated | {"manifest_sha256": "0" * 64}))
    assert commands.codes("infer", "replicate", seal("topdown"), "--out", other) == ["not-these-replicates"]
    with pytest.raises(ConfideError, match="not one of replicates"):
        Replicates.open(other, seal("topdown"))


def test_two_processes_do_not_work_in_one_folder(
    answer: Replicates, seal: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    from confide.releases.workspace import one_process

    with one_process(answer.folder / "lock", answer.folder), pytest.raises(ConfideError, match="another process"):
        replicate(seal("topdown"), answer.folder, replicates=NUMBER, calibration=CALIBRATION, processes=1)


@pytest.mark.parametrize(("option", "number"), [("--replicates", 1), ("--replicates", 9999), ("--calibration", 1)])
def test_numbers_that_say_nothing_are_refused(
    seal: Callable[[str], Path], tmp_path: Path, option: str, number: int
) -> None:
    assert commands.codes("infer", "replicate", seal("topdown"), "--out", tmp_path / "out", option, number) == [
        "replicates"
    ]


def test_the_command_says_what_its_margins_are(
    answer: Replicates, seal: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("infer", "replicate", seal("topdown"), "--replicates", NUMBER, "--calibration", CALIBRATION)
    show_answer(answer, as_json=False)
    text = " ".join(capsys.readouterr().out.split())
    assert "3 replicates of small-nation, from its own records. Nothing was spent" in text
    assert "errors of the census itself" in text
    assert "Made-up people, whose truth is known" in text
    values = commands.run_json(*arguments, "--out", answer.folder)
    assert values["stamp"] == "NOT FOR RELEASE"
    assert values["charged"] is None
    assert len(values["errors"]) == len(answer.rows)
    assert set(values["errors"][0]) == set(SCHEMA.names)
    assert confide.replicate is replicate


def test_every_query_of_the_strategy_is_pooled(answer: Replicates) -> None:
    problem = answer.source.problem
    assert {row["query"] for row in answer.rows} == set(problem.strategy.measured)
    assert {row["kind"] for row in answer.rows} == {kind.name for kind in area_kinds(problem)}
    exact = [row for row in answer.rows if row["kind"] == "state" and row["query"] == "total"]
    assert [row["mse"] for row in exact] == [0.0] * len(exact), "states' totals are invariant"
    own = counts_matrix(problem, answer.source.histogram)
    backwards = [sparse_counts(problem, records_file(answer.folder, replicate_name(k))) for k in (3, 2, 1)]
    people = sparse_counts(problem, records_file(answer.folder, room.MADE_UP))
    made_up = [sparse_counts(problem, records_file(answer.folder, room.calibration_name(k))) for k in (2, 1)]
    again = pooled_rows(problem, tallied(problem, own, backwards), tallied(problem, people, made_up))
    assert [{**row, "factor": 0} for row in again] == [{**row, "factor": 0} for row in answer.rows], "no order shows"


def test_margins_hold_in_replicates_and_for_made_up_people(answer: Replicates) -> None:
    """By plain counting: of the figures that show a class, at least the stated share is covered in both sets."""
    sets = [
        (answer.source.histogram, [replicate_name(k) for k in range(1, NUMBER + 1)]),
        (
            pq.read_table(records_file(answer.folder, room.MADE_UP)),
            [room.calibration_name(k) for k in range(1, CALIBRATION + 1)],
        ),
    ]
    looked_at = 0
    for kind, query in (("county", "hispanic*cenrace"), ("block", "total"), ("place", "votingage")):
        rows = {row["size"]: row for row in answer.rows if (row["kind"], row["query"]) == (kind, query)}
        for truth, names in sets:
            before = _published(answer, truth, kind, query)
            after = [
                _published(answer, pq.read_table(records_file(answer.folder, name)), kind, query) for name in names
            ]
            for q in QUANTILES:
                percent = round(100 * q)
                for (low, high), size in zip(SIZES[1:], size_names()[1:], strict=True):
                    held = [
                        figure - rows[size][f"below_{percent}"] <= before.get(key, 0)
                        and before.get(key, 0) <= figure + rows[size][f"above_{percent}"]
                        for one in after
                        for key, figure in one.items()
                        if low <= figure and (high is None or figure <= high)
                    ]
                    assert sum(held) >= q * len(held), (kind, query, size, q)
                    looked_at += len(held)
    assert looked_at > 300


def test_public_keys_belong_to_one_release_and_one_purpose(seal: Callable[[str], Path]) -> None:
    source = ReplicatedRelease.open(seal("topdown"))
    keys = [source.key(purpose) for purpose in ("replicate-0001", "replicate-0002", "made-up-release")]
    assert len({key.secret for key in keys}) == 3
    assert all(key.chosen for key in keys)
    assert source.key("replicate-0001") == keys[0]
