"""The commands as a person types them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from fractions import Fraction
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow.parquet as pq
import pytest
from tests.kits.small import KEY
from typer.testing import CliRunner

from confide import api, drafting
from confide.cli.main import app, main
from confide.lab.population import Population, write_official


def confide(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exit_code != code:
        raise AssertionError(f"exit code {result.exit_code}: {result.output}") from result.exception
    return result.stdout


def confide_json(*arguments: object, code: int = 0) -> Any:
    return json.loads(confide(*arguments, "--json", code=code))


def process(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "confide", *(str(argument) for argument in arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.process
def test_the_demo_makes_verified_releases_and_dossiers_with_pictures(tmp_path: Path) -> None:
    done = process("demo", "--out", tmp_path / "demo", "--persons", 20_000)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("(verified)") == 2
    assert done.stdout.count("released compared with true") == 2
    assert "occupied" in done.stdout
    assert done.stdout.count("own alone") == 1
    assert '"evidence": "tree"' in (tmp_path / "demo/persons/release/manifest.json").read_text()
    for about in ("persons", "units"):
        run = tmp_path / "demo" / about
        page = (run / "dossier-confidential/dossier-confidential.html").read_text()
        assert page.count("<svg") >= 3
        assert "CONFIDENTIAL" in page
        assert confide_json("verify", run / "release")["ok"] is True
    account = confide_json("ledger", "show", tmp_path / "demo/data-set.ledger")
    assert Fraction(account["left"]) == 0


@pytest.mark.process
@pytest.mark.parametrize(
    "product",
    [*(pytest.param(name, marks=pytest.mark.slow) for name in ("pl94-persons", "pl94-persons-2026")), "pl94-units"],
)
def test_new_topdown_check_run_verify_evaluate(tmp_path: Path, product: str) -> None:
    confide("import", "made-up", "--persons", 3_000, "--out", tmp_path)
    made = confide_json("new", "topdown", tmp_path, "--product", product)
    checked = confide_json("check", made["spec"])
    assert checked["ok"] is True
    assert checked["cost"] == checked["left"]
    ran = confide_json("run", made["spec"], "--processes", 2)
    assert confide_json("verify", ran["release"])["ok"] is True
    assert confide_json("evaluate", made["spec"])["confidential"] is True
    manifest = json.loads((Path(ran["release"]) / "manifest.json").read_text())
    assert manifest["mechanism"] == "topdown"
    (root, *_) = confide_json("account", "strategy", product, "--root", "state")["levels"]
    assert root == "state"


def test_new_knows_its_products_and_methods(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for mechanism, option, name in (
        ("topdown", "product", "pl94-dogs"),
        ("tables", "product", "pl94-units"),
        ("swapping", "method", "magic"),
        ("tables", "method", "permutation"),
    ):
        monkeypatch.setattr("sys.argv", ["confide", "new", mechanism, str(tmp_path), f"--{option}", name, "--json"])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 1
        assert [finding["code"] for finding in json.loads(capsys.readouterr().out)["findings"]] == [option]
    assert not (tmp_path / "spec.toml").exists()


def test_check_run_verify_show_as_the_readme_has_them(project: Path) -> None:
    checked = confide_json("check", project / "spec.toml")
    assert checked["ok"] is True
    assert Fraction(checked["cost"]) == Fraction(1, 2)
    assert checked["plan"]["loss"] == {"definition": "zcdp", "rho": "1/2"}
    assert not (project / "small").exists()
    ran = confide_json("run", project / "spec.toml")
    assert ran["ok"] is True
    assert confide_json("verify", ran["release"])["ok"] is True
    shown = confide_json("ledger", "show", project / "people.ledger")
    assert (Fraction(shown["spent"]), Fraction(shown["left"])) == (Fraction(1, 2), Fraction(1, 2))
    assert [run["state"] for run in shown["runs"]] == ["sealed"]
    assert "sealed" in confide("ledger", "history", project / "people.ledger")


def test_the_words_for_people_say_what_was_done(project: Path) -> None:
    assert "No problems found" in confide("check", project / "spec.toml")
    assert "Sealed" in confide("run", project / "spec.toml")
    assert "as sealed" in confide("verify", project / "small/release")
    assert "byte for byte" in confide("replay", project / "small")
    assert "dossier-confidential" in confide("evaluate", project / "small")
    assert "agree" in confide("ledger", "reconcile", project / "people.ledger", project / "small")
    assert "final" in confide("seal", "--destroy-key", project / "small")
    assert "destroyed" in confide("ledger", "show", project / "people.ledger")


def test_the_answers_of_ledger_and_seal_are_the_same_for_programs(project: Path) -> None:
    confide("run", project / "spec.toml")
    ledger = project / "people.ledger"
    entries = confide_json("ledger", "history", ledger)
    assert [entry["kind"] for entry in entries] == ["open", "reserve", "measured", "sealed"]
    assert not any("records_fingerprint" in entry["payload"] for entry in entries)
    assert confide_json("ledger", "reconcile", ledger, project / "small") == {"ok": True, "findings": []}
    sealed = confide_json("seal", project / "small", "--destroy-key")
    assert sealed == {"signature": None, "key_destroyed": True, "in_ledger": True}
    confide("seal", project / "small", code=2)
    lost = confide_json("ledger", "reconcile", ledger, project / "small", project / "small", code=1)
    assert [finding["code"] for finding in lost["findings"]] == ["reconcile-twice"]


def test_evaluate_reads_from_the_run_folder_or_the_spec(project: Path) -> None:
    confide("run", project / "spec.toml")
    by_folder = confide_json("evaluate", project / "small")
    by_spec = confide_json("evaluate", project / "spec.toml")
    assert by_folder["confidential"] is True
    assert by_folder["cells"] == by_spec["cells"]
    cells = by_folder["cells"]
    assert sum(row["cells"] for row in cells if row["level"] == "state") == 12
    assert all(0 <= row["share_within_margin"] <= 1 for row in cells)


def test_convert_has_the_three_ways_rounded_up() -> None:
    converted = confide_json("account", "convert", "--rho", "293764/114921", "--delta", "1e-10")
    assert converted["canonne_kamath_steinke"] == pytest.approx(17.1435507435959, abs=1e-12)
    assert converted["canonne_kamath_steinke"] >= 17.1435507435959
    simple = confide_json("account", "convert", "--rho", "2.56", "--delta", "1e-10")
    assert simple["rho"] == "64/25"
    assert simple["bun_steinke"] == pytest.approx(17.9153, abs=5e-5)
    assert simple["canonne_kamath_steinke"] == pytest.approx(17.1583, abs=5e-5)
    assert simple["gaussian_limit"] == pytest.approx(16.4794, abs=5e-5)


def test_rho_of_an_epsilon_keeps_the_epsilon() -> None:
    rho = confide_json("account", "convert", "--epsilon", "17.14", "--delta", "1e-10")["rho"]
    assert confide_json("account", "convert", "--rho", rho)["canonne_kamath_steinke"] <= 17.14


@pytest.mark.parametrize("delta", ["1e-10", "1e-15"])
def test_the_loss_of_a_release_is_bracketed(sealed_project: Path, delta: str) -> None:
    release = sealed_project / "small/release"
    account = confide_json("account", "release", release, "--delta", delta)
    bracket = account["privacy_loss_distribution"]
    assert bracket["lower"] <= bracket["upper"] <= account["canonne_kamath_steinke"] <= account["bun_steinke"]
    assert bracket["upper"] - bracket["lower"] < 0.01
    # What is printed lies around it: the lower end is rounded down, the upper end up.
    printed = " ".join(confide("account", "release", release, "--delta", delta).split())
    ends = re.search(r"measurements gives ([0-9.]+) to ([0-9.]+)\.", printed)
    assert ends is not None, printed
    lower, upper = (Fraction(end) for end in ends.groups())
    assert 0 <= Fraction(bracket["lower"]) - lower < Fraction(1, 10**4)
    assert 0 <= upper - Fraction(bracket["upper"]) < Fraction(1, 10**4)


def test_noise_commands_answer_exactly() -> None:
    pmf = confide_json("account", "noise", "pmf", "--law", "discrete-gaussian", "--sigma2", "289", "--at", "0,1,17")
    assert pmf["pmf"] == pytest.approx([0.02346719296479016, 0.0234266273863697, 0.014233572030537845])
    sigma2 = ["--law", "discrete-gaussian", "--sigma2", "31.446540880503143"]
    assert confide_json("account", "noise", "quantile", *sigma2, "-p", "0.9999")["quantile"] == 21
    geometric = ["--law", "two-sided-geometric", "--epsilon", "1/10"]
    assert confide_json("account", "noise", "margin", *geometric)["noise_margin"] == 30
    assert confide_json("account", "noise", "pmf", *geometric, "--at", "-3,3")["pmf"][0] > 0


def test_synthesize_writes_person_and_block_files(tmp_path: Path) -> None:
    confide("import", "made-up", "--persons", 1_000, "--seed", 7, "--out", tmp_path)
    persons = pq.read_table(tmp_path / "persons.parquet")
    assert persons.num_rows == 1_000
    assert {"geocode", "household_id", "age", "sex", "hhgq", "cenrace", "hispanic"} <= set(persons.column_names)
    assert {"geocode", "housing_units", "gq1", "gq7", "place"} <= set(
        pq.read_table(tmp_path / "blocks.parquet").column_names
    )


def test_synthesize_detailed_adds_the_official_folders(tmp_path: Path) -> None:
    made = confide_json("import", "made-up", "--persons", 1_000, "--seed", 7, "--out", tmp_path, "--detailed")
    names = ["persons.parquet", "blocks.parquet", "parameters", "data"]
    assert made["files"] == [str(tmp_path / name) for name in names]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)
    assert len((tmp_path / "data/person-records.txt").read_text().splitlines()) == 1_001


def test_the_json_schema_accepts_our_specs_and_refuses_wrong_ones(project: Path, tmp_path: Path) -> None:
    schema = json.loads(confide("new", "json-schema"))
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    spec = tomllib.loads((project / "spec.toml").read_text())
    validator.validate(spec)
    drafted = [name for name in api.MECHANISMS.own if "draft" in api.MECHANISMS[name].can]
    assert set(api.MECHANISMS.own) - set(drafted) == {"postprocess"}
    for mechanism in drafted:
        template = drafting.new(mechanism, tmp_path / mechanism).spec
        validator.validate(tomllib.loads(template.read_text()))
    for key, value in (("budget", 0.5), ("budget", "-1"), ("definition", "renyi"), ("surprise", 1)):
        wrong = spec | {"privacy": spec["privacy"] | {key: value}}
        assert list(validator.iter_errors(wrong)), (key, value)


def test_new_writes_a_spec_that_checks(tmp_path: Path) -> None:
    confide("import", "made-up", "--persons", 2_000, "--out", tmp_path)
    assert "Opened" in confide("new", "tables", tmp_path)
    checked = confide_json("check", tmp_path / "spec.toml")
    assert (checked["ok"], checked["cost"], checked["left"]) == (True, "1", "1")
    other = tmp_path / "without"
    confide("new", "tables", other, "--no-ledger")
    assert confide_json("check", other / "spec.toml", code=1)["findings"][0]["code"] == "no-ledger"


@pytest.mark.process
def test_an_insecure_key_is_shown_as_such(project: Path) -> None:
    done = process("run", project / "spec.toml", "--insecure-key", KEY)
    assert done.returncode == 0
    assert "NOT FOR RELEASE" in done.stderr
    assert confide_json("verify", project / "small/release")["stamp"] == "NOT FOR RELEASE"


@pytest.mark.process
def test_exit_codes() -> None:
    assert process("--version").returncode == 0
    assert process("check", "no-such-file.toml").returncode == 1
    assert process("check").returncode == 2
    assert process("no-such-command").returncode == 2


@pytest.mark.process
def test_an_internal_error_shows_no_stack_trace_unless_asked_for(project: Path) -> None:
    """A spec that makes our own code fail is simulated by a broken installation: the templates are gone."""
    script = (
        "import sys; from confide.mechanisms.tables.mechanism import Tables\n"
        "def broken(*_): raise KeyError('CANARY')\n"
        "Tables.documents = broken\n"
        f"sys.argv = ['confide', 'run', {str(project / 'spec.toml')!r}]\n"
        "from confide.cli.main import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "CANARY" not in done.stderr + done.stdout
    assert "Traceback" not in done.stderr
    assert not (project / "small/release").exists()


def test_every_command_explains_itself() -> None:
    def walk(command: Any, path: list[str]) -> None:
        assert command.help, path
        for parameter in command.params:
            assert getattr(parameter, "help", "ok") is not None, (path, parameter.name)
        for name in getattr(command, "commands", ()):
            _, child, _ = command.resolve_command(typer.Context(command), [name])
            walk(child, [*path, name])

    import typer

    walk(typer.main.get_command(app), ["confide"])


def test_the_account_of_releases_by_other_mechanisms(tmp_path: Path) -> None:
    """Groups that overlap have a cost but no loss distribution; the cell key method has no cost to state."""
    official = write_official(Population(300, 2), tmp_path / "in")
    confide("safetab", "execute", official.parameters, official.data, tmp_path / "out")
    found = confide_json("account", "release", tmp_path / "out")
    assert found["loss"] == {"definition": "zcdp", "rho": "957/200"}, "so few persons have no AIANNH area"
    assert 24 < found["canonne_kamath_steinke"] < 25.4
    assert found["privacy_loss_distribution"] is None
    assert "groups that overlap" in confide("account", "release", tmp_path / "out")
    confide("import", "made-up", "--persons", 300, "--out", tmp_path)
    confide("cellkey", "keys", tmp_path / "persons.parquet", "--out", tmp_path / "keyed.parquet")
    confide("new", "cellkey", tmp_path)
    spec = tmp_path / "spec.toml"
    order = tmp_path / tomllib.loads(spec.read_text())["cellkey"]["shuffle_file"]
    assert order.stat().st_mode & 0o777 == 0o600, "it holds the secret order of the perturbation table"
    secret = order.read_bytes().strip()
    assert len(secret) == 64
    assert secret not in spec.read_bytes(), "the spec may be shown"
    confide("run", spec)
    for file in (tmp_path / "my-tables/release").rglob("*"):
        assert file.is_dir() or secret not in file.read_bytes()
    assert confide_json("account", "release", tmp_path / "my-tables/release") == {"loss": None}
    assert "promises no differential privacy" in confide("account", "release", tmp_path / "my-tables/release")
