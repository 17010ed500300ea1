"""Manual pages for every command, completion in the shell, and an image that names files that are there."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from confide.cli.commands import examples
from confide.cli.main import Commands, app

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("man_pages", ROOT / "tools" / "man_pages.py")
assert SPEC is not None
assert SPEC.loader is not None
TOOL = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(TOOL)


def test_every_command_has_a_page_with_its_options(tmp_path: Path) -> None:
    pages = TOOL.man_pages()
    assert {f"confide-{command.called}.1" for command in Commands.later} | {"confide.1"} <= set(pages)
    assert "confide-ledger-open.1" in pages
    page = pages["confide-rehearse.1"]
    assert "\\-\\-set margins=" in page
    assert "\\-\\-json" in page
    assert page.startswith('.TH "CONFIDE-REHEARSE" "1"')
    assert not re.search(r"\[/?(bold|dim)", page)
    files = TOOL.write_man_pages(tmp_path)
    assert len(files) == len(pages)


def test_the_page_of_all_commands_is_current() -> None:
    """`python tools/man_pages.py --page` writes it."""
    page = TOOL.reference_page()
    assert TOOL.PAGE.read_text(encoding="utf-8") == page
    assert "\nPython: `confide.run(spec)`\n" in page
    assert "| `--accept-ledger` | `accept_ledger` |" in page.partition("## confide run\n")[2].partition("\n## ")[0]


def test_every_command_has_an_example_that_it_can_read() -> None:
    """Each is read as the shell would hand it over, and nothing is done."""
    commands = {
        " ".join(path[1:]): command
        for path, command in TOOL._commands(("confide",), typer.main.get_command(app))
        if not hasattr(command, "commands")
    }
    assert set(examples()) == set(commands)
    for called, example in examples().items():
        words = shlex.split(example.partition(" > ")[0])
        assert words[: 1 + len(called.split())] == ["confide", *called.split()]
        context = commands[called].make_context(called, words[1 + len(called.split()) :])
        assert context.args == [], called
        assert f"\nExample: `{example}`\n" in TOOL.PAGE.read_text(encoding="utf-8")
    shown = CliRunner().invoke(app, ["ledger", "show", "--help"]).output
    assert f"Example: {examples()['ledger show']}" in shown


@pytest.mark.skipif(shutil.which("man") is None, reason="no man on this machine")
@pytest.mark.process
def test_man_reads_them(tmp_path: Path) -> None:
    (file,) = [path for path in TOOL.write_man_pages(tmp_path) if path.name == "confide-run.1"]
    shown = subprocess.run(["man", "-l", file], capture_output=True, text=True, check=True)
    assert "EXIT STATUS" in shown.stdout
    assert shown.stderr == ""


@pytest.mark.process
def test_the_shell_completes_commands_and_options() -> None:
    def completed(words: str, place: int) -> str:
        environment = os.environ | {"_CONFIDE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(place)}
        script = "import sys; sys.argv[0] = 'confide'; from confide.cli.main import app; app(prog_name='confide')"
        done = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False
        )
        return done.stdout

    assert completed("confide rehe", 1).split() == ["rehearse"]
    assert "--margins" in completed("confide rehearse --mar", 2)


def test_the_image_is_made_of_files_that_are_there() -> None:
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    copied = [name for line in lines if line.startswith("COPY") for name in line.split()[1:-1]]
    assert {"src", "pyproject.toml"} <= set(copied)
    assert [name for name in copied if not (ROOT / name).exists()] == []
    allowed = {
        line[1:] for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines() if line[:1] == "!"
    }
    assert set(copied) <= allowed, "what is copied is not kept away from the builder"
