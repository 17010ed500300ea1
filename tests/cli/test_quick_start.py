"""The command starts quickly: what is not needed is not imported, and nothing is lost by it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.kits.descent import lay_out
from typer.testing import CliRunner

from confide import api
from confide.cli.commands import COMMON, Later, LazyGroup, first_line, name_of
from confide.cli.main import Commands, app
from confide.mechanisms import MECHANISMS, ORDER, SPECS, Declared, Registry, installed
from confide.releases.ledger import Ledger
from confide.releases.mechanism import Package

SLOW = ("scipy", "duckdb", "pyarrow", "numpy", "numba", "piqp", "vl_convert", "pyspark", "jinja2")
"""What takes long to import, and no list of commands and no ledger needs."""
SOLVERS = ("numba", "scipy.optimize", "scipy.stats", "confide.inference.inferring", "confide.studio")
"""What takes longest, and no closed form needs."""


def loaded_by(script: str, names: tuple[str, ...] = SLOW) -> set[str]:
    """Which of the slow ones a script has imported at its end, in a process of its own."""
    asked = f"{script}\nimport sys; print('LOADED', *[name for name in {names!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split()[1:])


def command(*arguments: object) -> str:
    """A script that is the command with these arguments."""
    return (
        f"import sys; sys.argv = {['confide', *map(str, arguments)]!r}\n"
        "from confide.cli.main import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code, end.code"
    )


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """Every command below a group: its path, what the group lists for it, and what it is."""
    for name, listed in group.commands.items():
        found, real, rest = group.resolve_command(typer.Context(group), [name, "--further"])
        assert (found, rest) == (name, ["--further"])
        yield (*path, name), listed, real
        for inner, command in listed.within.items():
            yield (*path, name, inner), command, command.load()
        if hasattr(real, "commands"):
            yield from commands(real, (*path, name))


@pytest.fixture(scope="module")
def tree() -> dict[tuple[str, ...], tuple[Any, Any]]:
    return {path: (listed, real) for path, listed, real in commands(typer.main.get_command(app))}


@pytest.mark.process
def test_the_probe_sees_what_is_loaded() -> None:
    assert loaded_by("import duckdb, pyarrow.compute") >= {"duckdb", "pyarrow"}


@pytest.mark.process
@pytest.mark.parametrize(
    "script", ["import confide", "import confide.cli.main", "from confide.releases.ledger import Ledger"]
)
def test_an_import_loads_nothing_slow(script: str) -> None:
    assert loaded_by(script) == set()


@pytest.mark.process
@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("--version",),
        ("attack", "--help"),
        ("attack", "reconstruct", "--help"),
        ("risk", "--help"),
        ("tune", "--help"),
        ("check", "--help"),
    ],
    ids=" ".join,
)
def test_help_loads_nothing_slow(arguments: tuple[str, ...]) -> None:
    assert loaded_by(command(*arguments)) == set()


@pytest.mark.process
def test_a_ledger_is_shown_without_anything_slow(tmp_path: Path) -> None:
    Ledger.open_new(tmp_path / "l", data_set="people", definition="zcdp", neighbours="change-one", budget="1")
    assert loaded_by(command("ledger", "show", tmp_path / "l")) == set()


@pytest.mark.process
def test_a_spec_loads_its_own_mechanism_alone(tmp_path: Path) -> None:
    spec = tmp_path / "spec.toml"
    spec.write_text('[release]\nmechanism = "tables"\n', encoding="utf-8")
    script = (
        "import sys, confide\n"
        "from confide.errors import SpecError\n"
        f"try: confide.check({str(spec)!r})\n"
        "except SpecError as error: assert 'mechanism' not in {f.code for f in error.findings}, error\n"
        "else: raise AssertionError\n"
        "assert 'confide.mechanisms.tables.mechanism' in sys.modules\n"
        "assert not {f'confide.{name}.pipeline' for name in ('topdown', 'safetab', 'suppression')} & set(sys.modules)"
    )
    assert not loaded_by(script) & {"scipy", "numba", "piqp", "vl_convert", "pyspark"}


@pytest.mark.process
def test_what_given_shares_need_is_found_without_solvers(population_folder: Path, tmp_path: Path) -> None:
    target = ("--target", "hispanic<=5 in tract @95%", "--present-shares")
    assert loaded_by(command("tune", lay_out(tmp_path, population_folder), *target), SOLVERS) == set()


def test_the_tree_is_whole(tree: dict[tuple[str, ...], tuple[Any, Any]]) -> None:
    assert {("check",), ("ledger", "show"), ("risk", "areas"), ("attack", "reidentify"), ("import", "pl94")} <= set(
        tree
    )
    assert len(tree) > 50
    stood_in = {path for path, (listed, _) in tree.items() if isinstance(listed, Later)}
    assert {path for path in tree if len(path) == 1} <= stood_in
    assert not [path for path, (_, real) in tree.items() if isinstance(real, Later)]


def test_every_command_shows_its_help(tree: dict[tuple[str, ...], tuple[Any, Any]]) -> None:
    for path, (_, real) in tree.items():
        shown = CliRunner().invoke(app, [*path, "--help"])
        assert shown.exit_code == 0, (path, shown.output)
        assert real.name == path[-1]
        assert f"confide {' '.join(path)} " in shown.output
        assert real.help.split()[0] in shown.output, path


def test_every_line_of_a_list_is_that_of_the_command(tree: dict[tuple[str, ...], tuple[Any, Any]]) -> None:
    def line(command: Any) -> str:
        return " ".join(command.help.split("\n\n")[0].split())

    assert {path: first_line(listed.place) for path, (listed, _) in tree.items()} == {
        path: line(real) for path, (_, real) in tree.items()
    }


def rows_of_help() -> list[str]:
    """The first word of every line of `confide --help` that begins with a command."""
    shown = CliRunner().invoke(app, ["--help"]).output
    return re.findall(r"^│ ([a-z][\w-]*) {2,}\S", shown, re.MULTILINE)


def test_every_command_has_a_line_or_is_named_in_the_line_of_another(
    tree: dict[tuple[str, ...], tuple[Any, Any]],
) -> None:
    listed = {path[0]: each for path, (each, _) in tree.items() if len(path) == 1}
    assert rows_of_help() == [name for name, each in listed.items() if not each.row]
    elsewhere = {name: first_line(listed[each.row].place) for name, each in listed.items() if each.row}
    assert set(elsewhere) == {"safetab-h", "phsafe"}
    assert [name for name, line in elsewhere.items() if f"confide {name}" not in line] == []


def test_the_lists_are_short(tree: dict[tuple[str, ...], tuple[Any, Any]]) -> None:
    assert len(rows_of_help()) <= 22
    assert len({listed.rich_help_panel for path, (listed, _) in tree.items() if len(path) == 1}) == 5
    options = [
        option
        for path, (_, real) in tree.items()
        for option in real.params
        if option.param_type_name == "option" and not hasattr(real, "commands")
    ]
    assert len(options) + len(COMMON) <= 240


def test_a_setting_is_listed_and_given_by_its_name(tree: dict[tuple[str, ...], tuple[Any, Any]]) -> None:
    folded = {path: real.settings for path, (_, real) in tree.items() if getattr(real, "settings", ())}
    assert len(folded) > 15
    for path, settings in folded.items():
        shown = CliRunner().invoke(app, [*path, "--help"]).output
        for setting in settings:
            above, _, below = shown.partition("Settings, each as --set NAME=VALUE:")
            assert f"\n {name_of(setting)}" in below, (path, setting.opts)
            assert not re.search(rf"│ +\*? *--{name_of(setting)} ", above), path


def test_a_setting_means_the_same_as_the_option_of_its_name() -> None:
    def shown(*arguments: str) -> str:
        done = CliRunner().invoke(app, ["risk", "hierarchy", "--rho1=1", "--rho2=1", "--siblings=3", *arguments])
        assert done.exit_code == 0, done.output
        return done.output

    plain = shown()
    assert shown("--set", "known-count=2") == shown("--set=known-count=2") == shown("--known-count", "2") != plain
    accuracy = shown("--set", "accuracy", "--set", "x2=1,2")
    assert accuracy == shown("--set", "accuracy=yes", "--set", "x2=1,2") == shown("--accuracy", "--x2", "1,2") != plain
    assert shown("--set", "accuracy=no") == plain


def test_two_values_of_a_setting_have_a_comma_between() -> None:
    done = [
        CliRunner().invoke(app, ["infer", "x", *words]) for words in (["--set", "difference=a,b"], ["--set", "ranks"])
    ]
    assert [str(each.exception) for each in done] == [str(CliRunner().invoke(app, ["infer", "x"]).exception)] * 2


@pytest.mark.parametrize("text", ["knwon-count=2", "known-count", "accuracy=perhaps", "=", ""])
def test_a_setting_that_is_not_understood_is_a_usage_error(text: str) -> None:
    done = CliRunner().invoke(app, ["risk", "hierarchy", "--set", text])
    assert done.exit_code == 2
    assert "--set" in done.output


def test_what_follows_two_hyphens_is_no_setting() -> None:
    done = CliRunner().invoke(app, ["attack", "statistics", "--", "--set"])
    assert done.exit_code == 1
    done = CliRunner().invoke(app, ["attack", "reconstruct", "--", "--set", "seed=1"])
    assert "seed=1" in done.output


def test_the_list_keeps_its_order_and_what_is_registered_comes_last() -> None:
    names = [command.called for command in Commands.later]
    assert list(typer.main.get_command(app).commands) == names  # type: ignore[attr-defined]
    assert len(set(names)) == len(names)

    class Some(LazyGroup):
        later = (Later("new", "confide.cli.verbs:new"), Later("ledger", "confide.cli.main:ledgers"))

    mixed = typer.Typer(cls=Some)

    @mixed.command()
    def here() -> None:
        """Here already."""

    mixed.callback()(lambda: None)
    shown = CliRunner().invoke(mixed, ["--help"]).output
    assert shown.index("a commented spec") < shown.index("The ledger of a data set") < shown.index("Here already.")
    assert CliRunner().invoke(mixed, ["here"]).exit_code == 0
    assert "reconcile" in CliRunner().invoke(mixed, ["ledger", "--help"]).output


def test_a_command_that_does_not_exist_is_a_usage_error_with_a_suggestion() -> None:
    for arguments in (["ledgr"], ["risk", "bayse"]):
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 2
        assert "Did you mean" in done.output


def test_shell_completion_completes_names_and_goes_on_below_them() -> None:
    """As a shell asks: names at each depth, with their lines; and the options of a command."""
    root: Any = typer.main.get_command(app)
    context = typer.Context(root, info_name="confide")
    assert [item.value for item in root.shell_complete(context, "a")] == ["account", "audit", "attack"]
    (item,) = root.shell_complete(context, "ledg")
    assert "ledger of a data set" in item.help
    _, group, _ = root.resolve_command(context, ["ledger"])
    below = typer.Context(group, info_name="ledger", parent=context)
    assert [item.value for item in group.shell_complete(below, "s")] == ["show"]
    _, show, _ = group.resolve_command(below, ["show"])
    assert "--json" in [item.value for item in show.shell_complete(typer.Context(show, parent=below), "--")]


def test_mechanisms_are_imported_once_and_when_they_are_looked_up() -> None:
    read: list[int] = []

    def declared() -> Iterator[Declared]:
        read.append(1)
        yield from installed()
        yield Declared("gone", "confide_gone.mechanism:Gone", Package("confide-gone", "1.0"))

    registry = Registry(declared)
    assert read == [], "a registry that nobody asks reads no metadata"
    assert [name for name in registry if name in (*ORDER, "gone")] == [*ORDER, "gone"]
    assert (len(registry), "gone" in registry, "c" in registry) == (len([*registry]), True, False)
    assert registry["tables"] is registry["tables"]
    with pytest.raises(KeyError):
        registry["c"]
    assert read == [1], "the metadata of all packages is read once"


@pytest.mark.process
def test_to_go_through_the_names_imports_no_mechanism() -> None:
    names = tuple(f"confide.mechanisms.{name.replace('-', '_')}.mechanism" for name in ORDER)
    script = "from confide.mechanisms import MECHANISMS, SPECS\nassert [*MECHANISMS] == [*SPECS]"
    assert loaded_by(script, names) == set()
    assert loaded_by(f"{script}\nMECHANISMS['tables']", names) == {"confide.mechanisms.tables.mechanism"}


@pytest.mark.process
def test_the_list_of_commands_reads_no_metadata() -> None:
    assert loaded_by(command("--help"), ("confide.mechanisms", "importlib.metadata")) <= {"importlib.metadata"}


def test_every_mechanism_can_be_loaded_and_has_its_own_name() -> None:
    assert MECHANISMS.own == ORDER
    assert [MECHANISMS[name].name for name in ORDER] == [*ORDER]
    assert all(SPECS[name] is MECHANISMS[name].spec for name in ORDER)
    assert api.MECHANISMS is MECHANISMS
