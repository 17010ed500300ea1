"""Every command has its twin in Python, with arguments that are documented and an answer with a type."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
import typer

import confide
from confide.cli.commands import Verb
from confide.cli.main import app


def commands() -> Iterator[tuple[str, Any]]:
    """Every command, as it is typed and as it is."""

    def walk(group: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
        for name in group.list_commands(None):
            command = group.commands[name].load()
            yield from ((f"{name} {inner}", each.load()) for inner, each in command.within.items())
            if hasattr(command, "list_commands"):
                yield from walk(command, (*path, name))
            else:
                yield " ".join((*path, name)), command

    yield from walk(typer.main.get_command(app), ())


TWINS = {called: [verb.place, *verb.others.values()] for called, verb in ((c, each.verb) for c, each in commands())}
"""The functions that each command is made of."""


def test_every_command_is_made_of_a_function() -> None:
    """None is written by hand: what it asks for and what it answers are those of the library."""
    assert len(TWINS) >= 69
    assert all(isinstance(each.verb, Verb) for _, each in commands())
    own = {"confide.run", "confide.check", "confide.seal", "confide.verify", "confide.tune", "confide.infer"}
    assert {f"confide.{name}" for name in dir(confide)} > own


@pytest.mark.parametrize("command", TWINS)
def test_a_twin_is_documented_and_says_what_it_gives(command: str) -> None:
    for place in TWINS[command]:
        module, _, path = place.partition(":")
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
