"""The folder of a comparison: gone on with where it is the same comparison, and left alone where it is not."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from confide.cli.main import main
from confide.documents import FOLDER
from confide.errors import ConfideError
from confide.lab.comparison import compare, comparing
from confide.lab.population import simulate
from confide.releases.workspace import one_process

NONE = '[[protections]]\nname = "truth"\nmechanism = "none"\n[attack]\nprocesses = 1\nblocks = 1\n'
OURS = (FOLDER / "swapping/light.toml").read_text().replace('"0.05"', '"0.1"')
MADE_UP = "[comparison]\nmade_up = 300\nseed = 5\n"


def made(folder: Path, text: str):
    (folder / "spec.toml").write_text(text)
    return compare(folder / "spec.toml", folder / "out", processes=1)


def refused(folder: Path, text: str) -> str:
    before = {path: path.read_bytes() for path in (folder / "out").rglob("*") if path.is_file()}
    with pytest.raises(ConfideError) as caught:
        made(folder, text)
    assert {path: path.read_bytes() for path in (folder / "out").rglob("*") if path.is_file()} == before
    return caught.value.findings[0].code


def own(folder: Path) -> str:
    files = simulate(folder, persons=300, seed=5).files
    return f'[data]\nrecords = "{files.persons.name}"\nblocks = "{files.blocks.name}"\n'


def test_other_people_levels_or_seeds_are_not_mixed_with_what_is_there(tmp_path: Path) -> None:
    assert made(tmp_path, MADE_UP + NONE).numbers["persons"] == 300
    assert refused(tmp_path, MADE_UP.replace("300", "400") + NONE) == "other-people"
    assert refused(tmp_path, MADE_UP.replace("5", "6") + NONE) == "other-people"
    assert refused(tmp_path, MADE_UP + "[geography]\ntract = 9\n" + NONE) == "other-people"
    assert refused(tmp_path, own(tmp_path) + NONE) == "other-people"
    assert made(tmp_path, MADE_UP + NONE).numbers["persons"] == 300


def test_a_folder_of_real_people_is_never_shown_as_made_up(tmp_path: Path) -> None:
    data = own(tmp_path)
    assert made(tmp_path, data + NONE).numbers["confidential"]
    assert refused(tmp_path, MADE_UP + NONE) == "other-people"
    blocks = pq.read_table(tmp_path / "blocks.parquet")
    more = blocks.slice(0, 1).to_pydict()
    more["geocode"] = [more["geocode"][0][:-1] + "9"]
    more = blocks.schema.empty_table().from_pydict(more, schema=blocks.schema)
    pq.write_table(type(blocks).from_batches([*blocks.to_batches(), *more.to_batches()]), tmp_path / "blocks.parquet")
    assert refused(tmp_path, data + NONE) == "other-people"


def test_a_correction_of_the_file_needs_no_new_folder(tmp_path: Path) -> None:
    data = own(tmp_path)
    people = pq.read_table(tmp_path / "persons.parquet")
    pq.write_table(people.drop_columns(["age"]), tmp_path / "persons.parquet")
    with pytest.raises(ConfideError):
        made(tmp_path, data + NONE)
    assert not list((tmp_path / "out/data").iterdir())
    pq.write_table(people, tmp_path / "persons.parquet")
    assert made(tmp_path, data + NONE).page.exists()


def test_a_csv_gives_the_same_comparison(tmp_path: Path) -> None:
    import pyarrow.csv as pa_csv

    data = own(tmp_path)
    made(tmp_path, data + NONE)
    for name in ("persons", "blocks"):
        pa_csv.write_csv(pq.read_table(tmp_path / f"{name}.parquet"), tmp_path / f"{name}.csv")
    before = (tmp_path / "out/truth/result.json").stat().st_mtime_ns
    made(tmp_path, data.replace(".parquet", ".csv") + NONE)
    assert (tmp_path / "out/truth/result.json").stat().st_mtime_ns == before


def test_settings_in_a_file_are_what_the_file_says(tmp_path: Path) -> None:
    text = "[comparison]\nmade_up = 700\nseed = 3\n"
    text += '[[protections]]\nname = "ours"\nmechanism = "swapping"\nsettings = "ours.toml"\n' + NONE
    with pytest.raises(ConfideError):
        made(tmp_path, text)
    assert not (tmp_path / "out").exists()
    file = tmp_path / "ours.toml"
    file.write_text('[swapping]\nrate = "0.1"\n')
    assert refused(tmp_path, text) == "missing-key"
    file.write_text(OURS)
    assert "10 %" in made(tmp_path, text).numbers["protections"][1]["title"]
    titled = text.replace('"ours.toml"\n', '"ours.toml"\ntitle = "As ever"\n')
    assert made(tmp_path, titled).numbers["protections"][1]["title"] == "As ever"
    file.write_text(OURS.replace("0.1", "0.2"))
    assert refused(tmp_path, text) == "there-already"


def test_an_interrupted_attack_leaves_no_result_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(tmp_path, MADE_UP + NONE)
    write = comparing.write_text

    def interrupted(path: Path, text: str) -> None:
        if path.name == comparing.VARIABILITY:
            raise KeyboardInterrupt
        write(path, text)

    monkeypatch.setattr(comparing, "write_text", interrupted)
    with pytest.raises(KeyboardInterrupt):
        made(tmp_path, MADE_UP + NONE + "repeats = 1\n")
    assert not (tmp_path / "out/truth/result.json").exists()


def test_results_of_another_version_are_not_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(tmp_path, MADE_UP + NONE)
    monkeypatch.setattr(comparing, "__version__", "another")
    assert refused(tmp_path, MADE_UP + NONE) == "there-already"


def test_a_folder_with_data_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "out/data").mkdir(parents=True)
    (tmp_path / "out/data/mine.csv").write_text("mine")
    (tmp_path / "out").chmod(0o755)
    assert refused(tmp_path, MADE_UP + NONE) == "there-already"
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o755
    (tmp_path / "out/NOT-FOR-RELEASE.txt").write_text("a release with a chosen key")
    assert refused(tmp_path, MADE_UP + NONE) == "there-already"


def test_a_refusal_is_plain_values_for_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "spec.toml").write_text('[data]\nrecords = "p.parquet"\nblocks = "b.txt"\n' + NONE)
    arguments = ["compare", str(tmp_path / "spec.toml"), "--out", str(tmp_path / "out"), "--json"]
    monkeypatch.setattr("sys.argv", ["confide", *arguments])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 1
    told = json.loads(capsys.readouterr().out)
    assert [(each["code"], each["where"]["line"]) for each in told["findings"]] == [
        ("no-such-file", 2),
        ("no-such-file", 3),
    ]


def test_two_processes_do_not_work_in_one_folder(tmp_path: Path) -> None:
    made(tmp_path, MADE_UP + NONE)
    with one_process(tmp_path / "out" / comparing.LOCK, tmp_path / "out"):
        assert refused(tmp_path, MADE_UP + NONE) == "run-in-progress"
    assert made(tmp_path, MADE_UP + NONE).numbers["persons"] == 300
