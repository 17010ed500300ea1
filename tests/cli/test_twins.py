"""Every command has its twin in Python, with arguments that are documented and an answer with a type."""

from __future__ import annotations

import inspect
import subprocess
import sys
from importlib import import_module
from typing import Any

import pytest
import typer

import confide
from confide.cli.main import app

TWINS = {
    "demo": "confide.lab.demonstration:demo",
    "new": "confide:new",
    "new schema": "confide:new_schema",
    "check": "confide:check",
    "rehearse": "confide:rehearse",
    "run": "confide:run",
    "verify": "confide:verify",
    "infer replicate": "confide:replicate",
    "infer": "confide:infer",
    "suppress": "confide:suppress",
    "evaluate": "confide:evaluate",
    "replay": "confide:replay",
    "seal": "confide:destroy_key",
    "new json-schema": "confide:json_schema",
    "import made-up": "confide:simulate",
    "cellkey ptable": "confide:perturbation_table",
    "compare": "confide:compare",
    "studio": "confide.studio.serving:serve",
    "studio page": "confide.opened:write_explore",
    "import pl94": "confide:import_pl94",
    "new signature": "confide:new_signature_key",
    "ledger open": "confide:open_ledger",
    "ledger show": "confide:Ledger.account",
    "ledger history": "confide:Ledger.history",
    "ledger reconcile": "confide:reconcile",
    "ledger void": "confide:Ledger.void",
    "account convert": "confide:epsilon_of_rho",
    "account release": "confide:account_release",
    "account strategy": "confide:account_strategy",
    "account noise compare": "confide:compare_noise",
    "account noise pmf": "confide.noise.fitting:noise_probabilities",
    "account noise quantile": "confide.noise.fitting:noise_quantile",
    "account noise margin": "confide.noise.fitting:noise_margin",
    "safetab tune": "confide:tune_safetab",
    "tune": "confide:tune",
    "risk region": "confide:tune_cellkey",
    "risk profile": "confide:tune_risk",
    "risk bayes": "confide.lab.risk:bayes",
    "risk hierarchy": "confide.lab.risk:hierarchy",
    "risk invariants": "confide.lab.risk:invariants",
    "risk curve": "confide.lab.risk:curve",
    "risk release": "confide.lab.risk:release",
    "risk bound": "confide.lab.risk:bound",
    "risk averaging": "confide.lab.risk:averaging",
    "risk areas": "confide.lab.risk:areas",
    "attack reconstruct": "confide:reconstruct",
    "attack arithmetic": "confide:attack_arithmetic",
    "attack statistics": "confide.lab.attacks.reconstruction:reconstruct_statistics",
    "attack tabulate": "confide.lab.attacks:tabulate_sf1",
    "attack reidentify": "confide:reidentify_files",
    "audit noise": "confide:audit_noise",
    "audit privacy": "confide:audit_privacy",
    "audit suppression": "confide:audit_suppression",
    "phsafe validate": "confide.official_runs:validate",
    "phsafe execute": "confide.official_runs:execute",
    "phsafe convert": "confide.official_runs:convert",
    "phsafe exact": "confide.mechanisms.phsafe.official:exact_households",
    "phsafe estimate": "confide.mechanisms.phsafe.estimate:estimate_release",
    "safetab validate": "confide.official_runs:validate",
    "safetab execute": "confide.official_runs:execute",
    "safetab convert": "confide.official_runs:convert",
    "safetab coterminous": "confide.mechanisms.safetab.output.coterminous:coterminous",
    "safetab-h validate": "confide.official_runs:validate",
    "safetab-h execute": "confide.official_runs:execute",
    "safetab-h convert": "confide.official_runs:convert",
    "cellkey keys": "confide:give_record_keys",
    "cellkey table": "confide.mechanisms.cellkey.cellkey_answers:table_on_request",
    "cellkey perturb": "confide:perturb_cells",
    "cellkey abs-table": "confide.mechanisms.cellkey.cellkey_answers:make_abs_table",
}


def commands() -> list[str]:
    """Every command, as it is typed."""
    root: Any = typer.main.get_command(app)
    names: list[str] = []

    def walk(group: Any, path: tuple[str, ...]) -> None:
        for name in group.list_commands(None):
            listed = group.commands[name]
            command = listed.load()
            names.extend(f"{name} {inner}" for inner in listed.within)
            if hasattr(command, "list_commands"):
                walk(command, (*path, name))
            else:
                names.append(" ".join((*path, name)))

    walk(root, ())
    return names


def test_every_command_has_its_twin() -> None:
    assert sorted(commands()) == sorted(TWINS)


@pytest.mark.parametrize("command", TWINS)
def test_a_twin_is_documented_and_says_what_it_gives(command: str) -> None:
    module, _, path = TWINS[command].partition(":")
    twin: Any = import_module(module)
    for name in path.split("."):
        twin = getattr(twin, name)
    signature = inspect.signature(twin)
    assert signature.return_annotation not in (inspect.Signature.empty, "Any", Any)
    if len([name for name in signature.parameters if name != "self"]) > 1:
        assert "Args:" in (twin.__doc__ or ""), command


def test_all_that_is_listed_is_there() -> None:
    listed = dir(confide)
    assert {"run", "check", "tabulate", "protect", "reconstruct", "noise", "risk", "Ledger"} <= set(listed)
    for name in listed:
        assert getattr(confide, name) is not None, name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        confide.nothing  # noqa: B018


@pytest.mark.process
def test_to_import_confide_loads_nothing_slow() -> None:
    slow = "{'numpy', 'pydantic', 'pyarrow', 'typer'}"
    code = f"import sys, confide; print(sorted({{name.partition('.')[0] for name in sys.modules}} & {slow}))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
