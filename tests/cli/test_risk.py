"""``confide risk`` and ``confide risk region`` as a person types them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.kits.commands import codes, run, run_json
from typer.testing import CliRunner

from confide.cli.main import app
from confide.report import charts


def test_the_bound() -> None:
    found = run_json("risk", "bound", "-D", 5, "-V", 2)
    assert found["p1"] == pytest.approx(1.52e-7, rel=5e-3)
    assert found["m"] == 7_488_040
    assert found["revealed"] > 0.9
    assert run_json("risk", "bound", "-D", 5, "-V", 2, "--triples", 10)["revealed"] < 1e-5
    assert "not protected" in run("risk", "bound", "-D", 5, "-V", 2)
    assert "is protected" in run("risk", "bound", "-D", 5, "-V", 2, "--country", "MT")
    assert "uniform" in run("risk", "bound", "-D", 2, "-V", 9)


def test_averaging_of_every_target() -> None:
    found = run_json("risk", "averaging", "--programme", "eu-2021")
    targets = {row["target"]: row for row in found["targets"]}
    assert len(targets) == 1244
    assert (targets["total"]["with_spsn"]["t"], targets["total"]["without_spsn"]["t"]) == (1244, 3432)
    assert targets["AGE.M SEX"]["with_spsn"]["t"] == 221
    assert found["targets"][0]["target"] == "total"
    text = run("risk", "averaging", "--target", "total")
    assert "1,244" in text
    assert "3,432" in text


def test_averaging_of_one_target_with_inner_levels() -> None:
    found = run_json(
        "risk", "averaging", "--rule", "inner-levels", "--target", "total", "--target", "SEX,AGE.M", "--country", "MT"
    )
    assert [row["target"] for row in found["targets"]] == ["total", "AGE.M SEX"]
    total = found["targets"][0]
    assert (total["with_spsn"]["t"], total["without_spsn"]["t"]) == (2775, 6378)
    assert total["with_spsn"]["k"] == 2_028_088


def test_small_areas(tmp_path: Path) -> None:
    found = run_json("risk", "areas", "--epsilon", "0.4", "--country", "MT")
    assert found["epsilon_at_least"] == pytest.approx(0.268, abs=5e-4)
    (tmp_path / "sizes.txt").write_text("12\n70\n\n900\n")
    found = run_json("risk", "areas", "--epsilon", "0.1", "--populations", tmp_path / "sizes.txt")
    assert found["areas"] == 3
    assert sum(row["areas"] for row in found["size_classes"] if row["relative_error"] == 0.5) == 3
    assert "off by 50%" in run("risk", "areas", "--epsilon", "0.1", "--populations", tmp_path / "sizes.txt")
    (tmp_path / "bad.txt").write_text("12\nmany\n")
    assert codes("risk", "areas", "--epsilon", "0.1", "--populations", str(tmp_path / "bad.txt")) == ["bad-populations"]


@pytest.mark.slow  # the same answer is made in tests/risk/test_answers.py
def test_tuning_recommends_bound_and_variance() -> None:
    found = run_json("risk", "region", "--country", "MT")
    assert (found["recommended"]["D"], found["recommended"]["V"]) == (8, 6.9)
    assert found["country"] == "MT"
    assert set(found["limits"]) == {"averaging", "bound", "utility"}
    assert "D = 8, V = 6.9" in run("risk", "region", "--country", "MT")


def test_a_programme_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text('id = "own"\n[breakdowns]\nSEX = 2\nAGE = 2\n[tables.persons]\n1 = ["SEX AGE"]\n')
    found = run_json("risk", "averaging", "--programme", path)
    assert {row["target"]: row["with_spsn"]["k_over_t2"] for row in found["targets"]} == {
        "total": 9 / 16,
        "SEX": 3 / 4,
        "AGE": 3 / 4,
        "AGE SEX": 1.0,
    }
    answer = run_json("risk", "region", "--programme", path)
    assert answer["epsilon"]["utility_at_least"] is None
    assert answer["recommended"]["D"] == 2
    assert "relaxed limits alone" in run("risk", "region", "--programme", path, "--largest-noise", 1)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("risk", "bound", "-D", "0", "-V", "2"), "bad-bound"),
        (("risk", "bound", "-D", "5", "-V", "two"), "not-a-number"),
        (("risk", "bound", "-D", "5", "-V", "2", "--alpha", "1"), "bad-level"),
        (("risk", "averaging", "--target", "FOO"), "unknown-target"),
        (("risk", "averaging", "--country", "XX"), "unknown-country"),
        (("risk", "averaging", "--areas", "LAU=many"), "not-areas"),
        (("risk", "averaging", "--programme", "none"), "no-programme"),
        (("risk", "region", "--unit", "dogs"), "unknown-unit"),
        (("risk", "region", "--relaxed", "0.5"), "bad-level"),
    ],
)
def test_mistakes(arguments: tuple[str, ...], code: str) -> None:
    assert codes(*arguments) == [code]


@pytest.mark.skipif(not charts.available(), reason="the extra plots is not installed")
def test_the_picture_of_the_region(tmp_path: Path) -> None:
    found = run_json("risk", "region", "--country", "MT", "--plots", tmp_path)
    assert [Path(path).name for path in found["plots"]] == ["epsilon-band.svg", "region.svg"]
    assert "D 8, V 6.9" in (tmp_path / "region.svg").read_text()


@pytest.mark.slow
@pytest.mark.skipif(not charts.available(), reason="the extra plots is not installed")
def test_pictures(tmp_path: Path) -> None:
    (tmp_path / "sizes.txt").write_text("\n".join(map(str, range(1, 400, 3))))
    run("risk", "bound", "-D", 5, "-V", 2, "--plots", tmp_path)
    run("risk", "averaging", "--target", "total", "--plots", tmp_path)
    run("risk", "areas", "--epsilon", "0.1", "--populations", tmp_path / "sizes.txt", "--plots", tmp_path)
    names = sorted(path.name for path in tmp_path.glob("*.svg"))
    assert names == [
        "averaging-epsilon.svg",
        "averaging-ratios.svg",
        "averaging-variance.svg",
        "distortions-epsilon-0.1.svg",
        "epsilon-by-bound.svg",
        "triples-needed.svg",
    ]
    assert all(path.read_text().startswith("<svg") for path in tmp_path.glob("*.svg"))


def test_the_command_that_statements_of_cell_key_releases_name_finds_the_region() -> None:
    assert run_json("tune", "cellkey") == run_json("risk", "region")
    refused = CliRunner().invoke(app, ["tune", "cellkey", "--total", "1"])
    assert refused.exit_code == 2
    assert "cellkey is no file" in " ".join(refused.output.split())
