"""How far off figures may be, in every TopDown release: from the plan alone, made again by whoever verifies it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from tests.contract.kit import lay_out
from tests.kits.dense_noise import cells_of, means_within
from tests.kits.forged import rehash, remake
from tests.kits.topdown_evaluation import STRATEGY

import confide
from confide.geography import build_spine
from confide.mechanisms.topdown.build_spine import build_topdown_spine
from confide.mechanisms.topdown.figure_noise import TopDownNoise
from confide.mechanisms.topdown.output.accuracy import (
    accuracy_lines,
    accuracy_rows,
    accuracy_table,
    page_of,
    verify_accuracy,
)
from confide.mechanisms.topdown.released_problem import released_problem, released_strategy
from confide.mechanisms.topdown.strategy import groups_of
from confide.mechanisms.topdown.strategy_file import load_strategy
from confide.releases.folder import SealedRelease, read_manifest

FOLLOWS = "accuracy: follows from the plan"
BLOCKS = ["01a", "01b", "01c", "02a", "03a", "03b"]


def wrong(release: Path) -> list[str]:
    """What is wrong with the table of a release; all that else can be wrong with one is looked at elsewhere."""
    return [check.name for check in verify_accuracy(release, read_manifest(release)) if not check.ok]


def copied(release: Path, folder: Path) -> tuple[Path, dict[str, Any]]:
    copy = shutil.copytree(release, folder / "release")
    return copy, read_manifest(copy)


def file_of(release: Path, ending: str, stem: str = "accuracy") -> Path:
    return next(path for path in release.glob(f"{stem}.*") if path.suffix == ending and path.name != "accuracy.html")


def with_column(file: Path, name: str, change: Callable[[Any], Any]) -> None:
    """Changes a column of a Parquet file."""
    table = pq.read_table(file)
    place = table.schema.get_field_index(name)
    pq.write_table(table.set_column(place, table.schema.field(place), change(table.column(name))), file)


def small_problem(path: Path, text: str = STRATEGY) -> Any:
    path.write_text(text)
    strategy = load_strategy(str(path))
    frame = build_spine({"land": ["x"] * 6, "county": [code[:2] for code in BLOCKS], "block": BLOCKS})
    spine = build_topdown_spine(frame, strategy.shares)
    return SimpleNamespace(
        strategy=strategy,
        spine=spine,
        frame=SimpleNamespace(spine=frame),
        groups=lambda name: groups_of(strategy.schema, strategy.query(name)),
        levels=lambda: [(strategy.level(level.name), level) for level in spine.levels],
    )


# --- in the release ---


def test_every_release_has_the_table_and_the_page_and_explains_them(seal: Callable[[str], Path]) -> None:
    release = seal("topdown")
    manifest = read_manifest(release)
    assert manifest["accuracy"]["method"] == "least-squares"
    assert "hhgq:residence" in manifest["accuracy"]["recodes"]
    rows = accuracy_rows(release, manifest)
    described = pyarrow.csv.read_csv(file_of(release, ".csv"))
    assert described.num_rows == rows.num_rows == pq.read_metadata(file_of(release, ".parquet")).num_rows
    page = (release / "accuracy.html").read_text(encoding="utf-8")
    for said in ("How far off may a figure be?", "Errors of the census itself", "never negative", "catch the eye"):
        assert said in page
    assert '<a href="accuracy.html">' in (release / "certificate.html").read_text(encoding="utf-8")
    assert "accuracy.html" in (release / "README.txt").read_text(encoding="utf-8")
    package = json.loads((release / "datapackage.json").read_text(encoding="utf-8"))
    (resource,) = (each for each in package["resources"] if each["name"] == "accuracy")
    assert [field["name"] for field in resource["schema"]["fields"]] == rows.column_names
    assert "expected absolute error" in (release / "codebook.html").read_text(encoding="utf-8")


def test_figures_are_written_to_four_digits_and_lines_agree_with_queries(seal: Callable[[str], Path]) -> None:
    release = seal("topdown")
    rows = accuracy_rows(release, read_manifest(release))
    for name in ("sd", "margin_90", "expected_error", "expected_percent", "figure"):
        assert all(value == float(f"{value:.4g}") for value in rows.column(name).drop_null().to_pylist())

    def of(query: str, line: str) -> pa.Table:
        chosen = rows.filter(pc.and_(pc.equal(rows["query"], query), pc.equal(rows["line"], line)))
        return chosen.drop_columns(["query", "line", "label", "cells"])

    assert of("p1", "P0010001").equals(of("total", ""))  # everybody
    race = of("cenrace", "")
    assert of("p1", "P0010003").equals(race)  # White alone, as any other race
    two = of("p1", "P0010002")  # six races together have more noise than one, and less than six
    one = race.column("sd").to_numpy()
    below = two.column("sd").to_numpy() < np.sqrt(6) * one * (1 + 1e-3)
    assert below.all()
    assert (two.column("sd").to_numpy() >= one * (1 - 1e-3)).all()


@pytest.mark.parametrize("ending", [".parquet", ".csv"])
def test_a_forged_table_is_noticed(seal: Callable[[str], Path], tmp_path: Path, ending: str) -> None:
    release, _ = copied(seal("postprocess"), tmp_path)
    file = file_of(release, ending)
    if ending == ".csv":
        lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
        lines[1:3] = reversed(lines[1:3])
        file.write_text("".join(lines), encoding="utf-8")
    else:
        with_column(file, "sd", lambda sd: pc.divide(sd, 2.0))
    assert wrong(release) == [FOLLOWS]


@pytest.mark.parametrize("change", ["method", "recodes", "spine"])
def test_a_forged_entry_is_noticed(seal: Callable[[str], Path], tmp_path: Path, change: str) -> None:
    release, manifest = copied(seal("postprocess"), tmp_path)
    assert wrong(release) == []
    if change == "method":
        manifest["accuracy"]["method"] = "means-of-queries"
    elif change == "recodes":
        groups = manifest["accuracy"]["recodes"]["hhgq:residence"]
        groups[0]["codes"], groups[1]["codes"] = groups[1]["codes"], groups[0]["codes"]
    else:
        with_column(file_of(release, ".parquet", "spine"), "measured", lambda measured: pc.subtract(1, measured))
    rehash(release, manifest)
    assert wrong(release) == ["accuracy: the method is named" if change == "method" else FOLLOWS]


def test_files_without_their_entry_are_noticed(seal: Callable[[str], Path], tmp_path: Path) -> None:
    release, manifest = copied(seal("postprocess"), tmp_path)
    del manifest["accuracy"]
    remake(release, manifest)
    assert "no other files" in {check.name for check in confide.verify(release).checks if not check.ok}


def test_a_release_from_before_is_verified_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was sealed before releases had margins: no entry, no files, and the words of before."""
    monkeypatch.setattr("confide.mechanisms.topdown.mechanism.accuracy_entry", lambda _: {})
    monkeypatch.setattr("confide.mechanisms.topdown.output.publish.publish_accuracy", lambda *_: None)
    project = lay_out("topdown", tmp_path / "early")
    project.run()
    assert not list(project.release.glob("accuracy*"))
    assert "is not published. Figures" in " ".join((project.release / "README.txt").read_text().split())
    assert confide.verify(project.release).ok


def test_the_problem_is_made_again_from_the_release_alone(seal: Callable[[str], Path]) -> None:
    for name in ("topdown", "postprocess"):
        release = seal(name)
        manifest = read_manifest(release)
        problem = released_problem(SealedRelease(release, manifest))
        assert problem.spine.fingerprint() == manifest["plan"]["question"]["spine"]
        assert accuracy_table(problem, problem.output).equals(accuracy_rows(release, manifest))
        other = json.loads(json.dumps(manifest))
        other["plan"]["question"]["strategy"]["levels"][1]["share"] = "1/7"
        assert released_strategy(other).level_names == problem.strategy.level_names  # read, and not loaded
        other["accuracy"]["recodes"]["hhgq:residence"][0]["label"] = "another"
        with pytest.raises(ValueError, match="not that of the plan"):
            released_strategy(other)


def test_the_page_speaks_the_language_of_the_release(seal: Callable[[str], Path]) -> None:
    release = seal("topdown")
    manifest = read_manifest(release)
    rows = accuracy_rows(release, manifest)
    german = page_of(rows, manifest | {"publication": {"language": "de"}}, "means-of-queries", in_release=True)
    assert "Wie weit kann eine Zahl abweichen?" in german
    assert "zu groß für kleinste Quadrate" in german
    assert "Fehler des Zensus selbst" in german
    french = page_of(rows, manifest | {"publication": {"language": "fr"}}, "least-squares", in_release=False)
    assert "Les erreurs du recensement" in french


# --- the numbers ---


def test_histograms_that_are_too_large_have_means_of_queries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against the same by sets of cells, which shares no code with it, and against least squares, which is smaller."""
    problem = small_problem(tmp_path / "small.toml")
    best = TopDownNoise(problem)
    assert best.method == "least-squares"
    monkeypatch.setattr("confide.estimation.sectors.MOST_CORE_CELLS", 0)
    simple = TopDownNoise(problem)
    assert simple.method == "means-of-queries"
    for line in accuracy_lines(problem):
        for place, (level, _) in enumerate(problem.levels()):
            expected = means_within(problem, level, cells_of(problem, line.query), total_known=place == 0)
            np.testing.assert_allclose(simple.within(line.groups)[place], expected, rtol=1e-12)
        assert (simple.within(line.groups) >= best.within(line.groups) * (1 - 1e-9)).all()


def test_nothing_is_said_of_what_no_measurement_determines(tmp_path: Path) -> None:
    """Where blocks are measured by work alone, noise does not say how far off their other parts are."""
    text = STRATEGY.replace('["-",   "1/2", "1/5"]', '["-",   "1/2", "4/5"]').replace('"1/4", "3/5"]', '"1/4", "-"]')
    text = text.replace('[{ queries = ["total", "work", "detailed"] }]', '[{ queries = ["total", "work"] }]')
    problem = small_problem(tmp_path / "small.toml", text)
    rows = accuracy_table(problem).to_pylist()
    told = {(row["geography"], row["query"]): row["sd"] is not None for row in rows}
    assert told.pop(("block", "detailed")) is False
    assert all(told.values())


def test_a_sum_of_figures_says_where_their_errors_stand(seal: Callable[[str], Path]) -> None:
    release = confide.open_release(seal("topdown"))
    summed = release.sum(release.tables["hispanic"].rows(level="state"))
    assert summed.margin is None
    assert "accuracy.html" in summed.note
