"""A group of commands that are listed now and loaded when one of them is called.

To list a command takes its name and one line; to run it takes its module, which may import solvers and engines. So a
:class:`LazyGroup` holds a stand-in for each (:class:`Later`). Help and shell completion see the stand-ins; what is
called, asked for its own help or completed further is resolved first, and resolving loads it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup


class Later(TyperCommand):
    """A command, or a group of commands, at a place ``module:object`` that is not imported yet.

    The line is the first paragraph of its own help.
    """

    def __init__(self, name: str, place: str, line: str):
        super().__init__(name, help=line)
        self.called, self.place = name, place

    def load(self) -> Any:
        """The command itself, made as any other command of a Typer application is made."""
        module, _, name = self.place.partition(":")
        found = getattr(import_module(module), name)
        around = typer.Typer(rich_markup_mode=self.rich_markup_mode)
        if isinstance(found, typer.Typer):
            around.add_typer(found, name=self.called)
        else:
            around.command(self.called)(found)
        return typer.main.get_group(around).commands[self.called]


class LazyGroup(TyperGroup):
    """A group that begins with stand-ins; commands that are registered as usual come after them."""

    later: ClassVar[tuple[Later, ...]] = ()

    def __init__(self, **settings: Any):
        super().__init__(**settings)
        self.commands = {command.called: command for command in self.later} | dict(self.commands)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command that is called by the first argument, loaded."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.load() if isinstance(command, Later) else command, rest
