"""``confide attack reidentify`` as typed, with files of every kind."""

from __future__ import annotations

import json
import stat

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from confide.cli.main import app
from confide.errors import InputError, ParameterError
from confide.lab.attacks.reidentification import Role, parse_columns, read_people
from confide.report import charts


def run(*words, code=0):
    result = CliRunner().invoke(app, ["attack", "reidentify", *map(str, words)], env={"COLUMNS": "160"})
    assert result.exit_code == code, (result.output, result.exception)
    return result


def run_json(*words):
    return json.loads(run(*words, "--json").output)


@pytest.fixture
def files(tmp_path):
    """Sixty people in three blocks; a reconstruction without years of age from 22 on."""
    rng = np.random.default_rng(8)
    number = 60
    truth = pa.table(
        {
            "person_id": [f"P{n:03d}" for n in range(number)],
            "geocode": rng.choice(["010010001001001", "010010001001002", "010010001002001"], number),
            "sex": rng.integers(1, 3, number),
            "age": rng.integers(0, 60, number),
            "cenrace": rng.choice([0, 0, 1], number),
            "hispanic": rng.integers(0, 2, number),
        }
    )
    low = np.where(truth["age"].to_numpy() < 22, truth["age"].to_numpy(), truth["age"].to_numpy() // 5 * 5)
    ours = pa.table(
        {
            "geocode": truth["geocode"],
            "sex": truth["sex"],
            "age_low": low,
            "age_high": np.where(truth["age"].to_numpy() < 22, low, low + 4),
            "cenrace": truth["cenrace"],
            "hispanic": truth["hispanic"],
            "solution_variability": [0.0] * number,
        }
    )
    pq.write_table(ours, tmp_path / "ours.parquet")
    pq.write_table(truth, tmp_path / "truth.parquet")
    pacsv.write_csv(truth, tmp_path / "truth.csv")
    pacsv.write_csv(ours, tmp_path / "ours.csv")
    pq.write_table(truth.select(["person_id", "geocode", "sex", "age"]), tmp_path / "known.parquet")
    return tmp_path


def test_as_written(files):
    found = run_json(files / "ours.parquet", files / "known.parquet", "--truth", files / "truth.parquet")
    everyone = found["reidentification"]["all"]
    assert everyone["attacker_records"] == everyone["divided_by"] == 60
    assert 0 < everyone["confirmed"] <= everyone["putative"] <= 60
    assert everyone["precision"] == everyone["confirmed"] / everyone["putative"]
    assert {"unique&nonmodal&solvar0", "size:10-49", "nonmodal", "unique&modal"} <= set(found["reidentification"])
    assert found["agreement"]["all"]["records"] == 60
    assert found["attacker"] == "file"
    assert "matches" not in found


def test_files_of_every_kind_say_the_same(files):
    """CSV or Parquet, with leading zeros; the truth as the attacker's file."""
    first = run_json(files / "ours.parquet", files / "known.parquet", "--truth", files / "truth.parquet")
    assert run_json(files / "ours.csv", files / "truth.csv", "--truth", files / "truth.csv") == first
    assert run_json(files / "ours.csv", files / "known.parquet", "--truth", files / "truth.parquet") == first


def test_attacker_from_truth(files):
    perfect = run_json(files / "ours.parquet", "--truth", files / "truth.parquet", "--attacker-from-truth", "perfect")
    first = run_json(files / "ours.parquet", files / "known.parquet", "--truth", files / "truth.parquet")
    assert perfect["reidentification"] == first["reidentification"]
    assert perfect["attacker"]["coverage"] == 1.0
    few = run_json(
        files / "ours.parquet", "--truth", files / "truth.parquet", "--attacker-from-truth", "coverage=1/2,seed=3"
    )
    assert 0 < few["attacker_records"] < 60


def test_text_has_guessers_and_words(files):
    words = run(files / "ours.parquet", files / "known.parquet", "--truth", files / "truth.parquet").output
    for text in (
        "modal guesser",
        "proportional guesser",
        "Putative:",
        "Confirmed:",
        "Precision:",
        "block size",
        "non-modal",
        "solution variability 0",
        "for the curator",
    ):
        assert text in words, text
    assert "P001" not in words


def test_matches_are_private_and_only_on_request(files):
    words = ["reidentify", files / "ours.parquet", files / "known.parquet", "--truth", files / "truth.parquet"][1:]
    before = set(files.iterdir())
    run(*words)
    assert set(files.iterdir()) == before
    for name in ("matches.csv", "matches.parquet"):
        result = run(*words, "--matches", files / name)
        assert "confidential" in result.output
        assert stat.S_IMODE((files / name).stat().st_mode) == 0o600
        rows = pacsv.read_csv(files / name) if name.endswith("csv") else pq.read_table(files / name)
        found = run_json(*words)["reidentification"]["all"]
        assert (len(rows), sum(rows["confirmed"].to_pylist())) == (found["putative"], found["confirmed"])
    again = run(*words, "--matches", files / "matches.csv", code=1)
    assert isinstance(again.exception, ParameterError)


def test_usage(files):
    truth = ["--truth", files / "truth.parquet"]
    assert "not both" in run(files / "ours.parquet", *truth, code=2).output
    both = [files / "ours.parquet", files / "known.parquet", *truth, "--attacker-from-truth", "perfect"]
    assert "not both" in run(*both, code=2).output
    run(files / "ours.parquet", files / "known.parquet", code=2)
    run(files / "absent.parquet", files / "known.parquet", *truth, code=1)
    run(*both[:2], *truth, "--age-bins", "5,10", code=1)


def test_other_names_of_columns(files):
    renamed = pq.read_table(files / "truth.parquet").rename_columns(
        ["pik", "geocode", "sex", "age", "cenrace", "hispanic"]
    )
    pq.write_table(renamed, files / "renamed.parquet")
    words = [files / "ours.parquet", files / "known.parquet", "--truth", files / "renamed.parquet"]
    refused = run(*words, code=1)
    assert "do not identify persons" in str(refused.exception)
    named = run_json(*words, "--columns", "truth:person_id=pik")
    assert named == run_json(*words[:3], files / "truth.parquet")
    assert parse_columns(["age=AGE,truth:sex=SEX"])[Role.TRUTH] == {"age": "AGE", "sex": "SEX"}
    assert parse_columns(["age=AGE,truth:sex=SEX"])[Role.ATTACKER] == {"age": "AGE"}
    for wrong in ("age", "age=", "=x", "colour=x", "mine:age=x"):
        with pytest.raises(ParameterError):
            parse_columns([wrong])


def test_files_that_are_wrong(files):
    with pytest.raises(InputError, match="cenrace"):
        read_people(files / "known.parquet", Role.TRUTH)
    pq.write_table(pq.read_table(files / "ours.parquet").drop_columns(["age_low", "age_high"]), files / "x.parquet")
    with pytest.raises(InputError, match="age_low and age_high"):
        read_people(files / "x.parquet", Role.RECONSTRUCTED)
    (files / "broken.csv").write_text("person_id,geocode,sex,age\nP9,010010001001001,1\n", encoding="utf-8")
    with pytest.raises(InputError, match="cannot be read") as error:
        read_people(files / "broken.csv", Role.ATTACKER)
    assert "P9" not in str(error.value)


@pytest.mark.skipif(not charts.available(), reason="the extra `plots` is not installed")
def test_pictures(files):
    words = [files / "ours.parquet", files / "known.parquet", "--truth", files / "truth.parquet"]
    drawn = run_json(*words, "--plots", files / "pictures")["plots"]
    assert len(drawn) == 3
    for name in ("agreement-by-block-size.svg", "precision.svg", "rates.svg"):
        assert (files / "pictures" / name).read_text(encoding="utf-8").startswith("<svg")
    assert "proportional guesser" in (files / "pictures" / "precision.svg").read_text(encoding="utf-8")
