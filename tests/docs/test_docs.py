"""The documentation is whole: links lead somewhere, commands parse, specs validate, Python runs."""

from __future__ import annotations

import doctest
import re
import shlex
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from confide import api, drafting
from confide.cli.main import app
from confide.documents import parse_schema
from confide.mechanisms.tables.programme import TablesSpec
from confide.releases.ledger import Ledger
from confide.releases.spec import load_spec

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = [README, ROOT / "SECURITY.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMMANDS = [README, ROOT / "docs" / "first-release.md", ROOT / "docs" / "from-your-own-files.md"]
SPECS = [README, ROOT / "docs" / "concepts" / "spec.md"]
NOT_RUN = "<!-- not run -->"
"""Stands on the line before a Python block of the README that is not to be run."""

_BLOCK = re.compile(r"(?:^|\n)(?P<before>[^\n]*)\n```(?P<language>[a-z]*)\n(?P<text>.*?)\n```", re.DOTALL)
_LINK = re.compile(r"\]\(([\w./#:%~-]+)\)", re.ASCII)


def blocks(page: Path, language: str) -> Iterator[tuple[str, str]]:
    """The fenced blocks of a language, each with the line before it."""
    text = page.read_text(encoding="utf-8").replace("\n```\n\n```", "\n```\n\n\n```")
    for found in _BLOCK.finditer(text):
        if found["language"] == language:
            yield found["before"], found["text"]


def shown_commands() -> list[str]:
    """Every line of a block that is a command of ours, without its comment."""
    lines = [line for page in COMMANDS for _, text in blocks(page, "") for line in text.splitlines()]
    return sorted({line.split("  #")[0].strip() for line in lines if line.startswith("confide ")})


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as they are made where the pages are read."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    dead = []
    for link in _LINK.findall(page.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            dead.append(link)
    assert not dead


@pytest.mark.parametrize("page", [p for p in PAGES if "docs" in p.parts], ids=name_of)
def test_every_page_can_be_reached_from_the_map(page: Path) -> None:
    start = ROOT / "docs" / "index.md"
    reached = {start.parent / link.partition("#")[0] for link in _LINK.findall(start.read_text(encoding="utf-8"))}
    assert page in {path.resolve() for path in reached} | {start}


def test_there_are_commands_to_look_at() -> None:
    assert len(shown_commands()) > 12


@pytest.mark.parametrize("line", shown_commands())
def test_every_command_shown_parses(line: str) -> None:
    """Through all subcommands, with arguments and options, but without running anything."""
    arguments = shlex.split(line)[1:]
    command: Any = typer.main.get_command(app)
    context = command.context_class(command, info_name="confide")
    while hasattr(command, "commands"):
        assert arguments, f"{line}: the subcommand is missing"
        assert arguments[0] in command.commands, f"{line}: there is no command {arguments[0]}"
        name, command, arguments = command.resolve_command(context, arguments)
        context = command.context_class(command, info_name=name, parent=context)
    command.parse_args(context, arguments)


@pytest.mark.parametrize("page", SPECS, ids=name_of)
def test_every_spec_shown_is_valid(page: Path, tmp_path: Path) -> None:
    shown = [text for _, text in blocks(page, "toml")]
    assert shown
    for number, text in enumerate(shown):
        path = tmp_path / f"{number}.toml"
        path.write_text(text, encoding="utf-8")
        assert isinstance(load_spec(path, {"tables": TablesSpec}).spec, TablesSpec)


def test_the_spec_page_names_every_key() -> None:
    page = (ROOT / "docs" / "concepts" / "spec.md").read_text(encoding="utf-8")
    keys = {key for part in (api.json_schema()["$defs"]).values() for key in part.get("properties", {})}
    assert not {key for key in keys if not re.search(rf"`(\w+\.)?{key}`", page)}


def test_the_schema_shown_can_be_read() -> None:
    (_, text), (_, spelled) = blocks(ROOT / "docs" / "concepts" / "schema.md", "toml")
    assert parse_schema(tomllib.loads(spelled)).variable("age:broad").labels[-2:] == ["65 and over", "not stated"]
    schema = parse_schema(tomllib.loads(text))
    assert schema.variable("age:broad").labels == ["15 to 24", "25 to 44", "45 to 64", "65 and over"]
    assert schema.query("sex*age:broad").cells == 12


def test_the_examples_of_the_schema_page_are_true() -> None:
    page = ROOT / "docs" / "concepts" / "schema.md"
    failed, tried = doctest.testfile(str(page), module_relative=False, encoding="utf-8")
    assert (failed, tried) == (0, 6)


@pytest.mark.parametrize("name", api.MECHANISMS.own)
@pytest.mark.parametrize("kind", ["concepts", "proofs"])
def test_every_mechanism_has_its_pages(name: str, kind: str) -> None:
    assert (ROOT / "docs" / kind / f"{name}.md").is_file()


def test_the_python_of_the_readme_runs(
    population_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    census = tmp_path / "census"
    drafting.new("tables", census, open_ledger=False)
    for name in ("persons.parquet", "blocks.parquet"):
        shutil.copy(population_folder / name, census / name)
    Ledger.open_new(
        census / "data-set.ledger", data_set="made-up census", definition="zcdp", neighbours="change-one", budget="1"
    )
    monkeypatch.chdir(tmp_path)
    shown = [text for before, text in blocks(README, "python") if before != NOT_RUN and "tabulate" not in text]
    assert shown
    for text in shown:
        exec(compile(text, "README.md", "exec"), {"__name__": "readme"})
    assert capsys.readouterr().out.startswith("True zcdp rho = 1 0\n")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_pages_keep_to_our_words(page: Path) -> None:
    """The noise margin may be called a margin of error where it is said what it is, once, and nowhere else."""
    text = page.read_text(encoding="utf-8").lower()
    assert "error margin" not in text
    assert text.count("margin of error") == text.count("noise margin (margin of error")
    assert text.count("margin of error") <= 1
