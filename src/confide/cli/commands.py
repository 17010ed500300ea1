"""What commands have in common: they are loaded when they are called, and their help shows what most calls give.

To list a command takes its name and one line; to run it takes its module, which may import solvers and engines. So a
:class:`LazyGroup` holds a stand-in for each (:class:`Later`). Help and shell completion see the stand-ins; what is
called, asked for its own help or completed further is resolved first, and resolving loads it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer
from rich.markup import escape
from typer.core import TyperCommand, TyperGroup

SETTINGS = "Settings"
COMMON = {
    "--json": "print the answer as JSON, for programs",
    "--processes": "how many processes to use; default: all cores",
    "--memory": "how much memory counting may use before it writes to disk; default: 4GiB",
}
"""Options that mean the same wherever a command takes them."""
YES, NO = "yes", "no"


def setting(*names: str, **more: Any) -> Any:
    """An option that few calls need: :class:`Command` takes it by ``--set NAME=VALUE``."""
    return typer.Option(*names, rich_help_panel=SETTINGS, **more)


def _with_settings(
    _: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", expose_value=False, help="One of the settings below; repeatable."),
    ] = None,
) -> None:
    """The option that every command with settings has."""


class Command(TyperCommand):
    """A command whose help lists its own options; its settings (:func:`setting`) in lines of their own below, and what
    it has in common with others by name alone.

    A setting is given as ``--set NAME=VALUE``, or by its own name, as ``--NAME VALUE``.
    """

    def __init__(self, *args: Any, **settings: Any):
        super().__init__(*args, **settings)
        self.common = [each for each in self.params if each.opts[0] in COMMON]
        self.settings = [each for each in self.params if getattr(each, "rich_help_panel", None) == SETTINGS]
        self.folded = [*self.settings, *self.common]
        self.params = [each for each in self.params if each not in self.folded]
        if self.settings:
            with_settings = typer.Typer(add_completion=False)
            with_settings.command()(_with_settings)
            self.params += typer.main.get_command(with_settings).params

    def get_params(self, ctx: Any) -> list[Any]:
        """All that can be given."""
        *own, last = super().get_params(ctx)
        return [*own, *self.folded, last]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The options alone as a table; settings as lines below."""
        page = copy(self)
        page.folded = []
        page.epilog = "\n\n".join(self.lines_below(ctx))
        super(Command, page).format_help(ctx, formatter)

    def lines_below(self, ctx: Any) -> Iterable[str]:
        """What the help says below the options."""
        if self.settings:
            yield "[bold]Settings[/], each as --set NAME=VALUE:"
            yield from (_in_a_line(each, ctx) for each in self.settings)
        if self.common:
            yield f"Also {', '.join(each.opts[0] for each in self.common)}: see confide --help."

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Takes ``--set NAME=VALUE`` as the option NAME."""
        return super().parse_args(ctx, list(self._spelled_out(args)) if self.settings else args)

    def _spelled_out(self, args: Iterable[str]) -> Iterator[str]:
        known, waiting = {name_of(each): each for each in self.settings}, iter(args)
        for text in waiting:
            if text == "--":
                yield from (text, *waiting)
            elif text != "--set" and not text.startswith("--set="):
                yield text
            else:
                pair = next(waiting, "") if text == "--set" else text.removeprefix("--set=")
                name = pair.partition("=")[0]
                if name not in known:
                    raise typer.BadParameter(f"--set {pair!r}: the settings are {', '.join(known)}")
                yield from _as_option(known[name], pair)


def name_of(option: Any) -> str:
    """The name of a setting: that of its longest option."""
    return str(max(option.opts, key=len).lstrip("-"))


def _in_a_line(option: Any, ctx: Any) -> str:
    names, said = option.get_help_record(ctx)
    value = "" if option.is_flag else names.rpartition(f"--{name_of(option)}")[2].strip()
    value = "yes|no" if option.secondary_opts else value
    return escape(f"{name_of(option)}{f'={value}' if value else ''}  {said}")


def _as_option(option: Any, pair: str) -> list[str]:
    name, equals, value = pair.partition("=")
    if option.is_flag:
        if equals and value not in (YES, NO):
            raise typer.BadParameter(f"--set {pair!r}: {name} is {YES} or {NO}")
        return list((option.secondary_opts if value == NO else option.opts)[:1])
    parts = value.split(",", option.nargs - 1) if option.nargs > 1 else [value]
    if not equals or len(parts) != option.nargs:
        raise typer.BadParameter(f"--set {pair!r}: write {name}={','.join(['VALUE'] * option.nargs)}")
    return [f"--{name}={value}"] if option.nargs == 1 else [f"--{name}", *parts]


def first_line(place: str) -> str:
    """The first paragraph of the help of a command or a group at a place ``module:object``, which is not imported.

    >>> first_line("confide.cli.verbs:replay")
    'Make a release again from its key, and compare every byte. Costs nothing.'
    """
    module, _, name = place.partition(":")
    file = Path(__file__).parents[2].joinpath(*module.split(".")).with_suffix(".py")
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return _paragraph(ast.get_docstring(node) or "")
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and _is_named(node, name):
            said = [each.value for each in node.value.keywords if each.arg == "help"]
            return _paragraph(str(ast.literal_eval((said or node.value.args)[0])))
    raise LookupError(place)


def _paragraph(text: str) -> str:
    return " ".join(text.split("\n\n")[0].split())


def _is_named(node: ast.Assign, name: str) -> bool:
    return any(isinstance(target, ast.Name) and target.id == name for target in node.targets)


class Later(TyperCommand):
    """A command, or a group of commands, at a place ``module:object`` that is not imported yet.

    Args:
        name: How it is called.
        place: Where it is.
        panel: The heading that it is listed under.
        within: Further commands, called by two words, the first of which is this name.
    """

    def __init__(self, name: str, place: str, panel: str | None = None, within: Mapping[str, str] | None = None):
        super().__init__(name, rich_help_panel=panel)
        self.called, self.place = name, place
        self.within = {inner: Later(inner, where) for inner, where in (within or {}).items()}

    def load(self) -> Any:
        """The command itself, made as any other command of a Typer application is made."""
        module, _, name = self.place.partition(":")
        command = getattr(import_module(module), name)
        around = typer.Typer(rich_markup_mode="rich")
        if isinstance(command, typer.Typer):
            around.add_typer(command, name=self.called)
        else:
            around.command(self.called, cls=Command)(command)
        loaded = typer.main.get_group(around).commands[self.called]
        loaded.within = self.within  # type: ignore[attr-defined]
        return loaded


class LazyGroup(TyperGroup):
    """A group that begins with stand-ins; commands that are registered as usual come after them."""

    later: ClassVar[tuple[Later, ...]] = ()

    def __init__(self, **settings: Any):
        super().__init__(**settings)
        self.commands = {command.called: command for command in self.later} | dict(self.commands)

    def list_commands(self, ctx: Any) -> list[str]:
        """The names in order; each stand-in has its line from now on."""
        for command in self.commands.values():
            if isinstance(command, Later):
                command.help = command.help or first_line(command.place)
        return super().list_commands(ctx)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command that is called by the first argument, or the first two, loaded."""
        name, command, rest = super().resolve_command(ctx, args)
        if not isinstance(command, Later):
            return name, command, rest
        if rest and rest[0] in command.within:
            return f"{name} {rest[0]}", command.within[rest[0]].load(), rest[1:]
        return name, command.load(), rest


def listed(line: str, **places: str) -> typer.Typer:
    """A group of commands that are loaded when they are called.

    Args:
        line: What the group is for.
        places: Its commands by name, ``_`` for a hyphen, each with its place ``module:object``.

    Returns:
        The group.
    """
    later = tuple(Later(name.replace("_", "-"), place) for name, place in places.items())
    group = type("Listed", (LazyGroup,), {"later": later})
    return typer.Typer(cls=group, help=line, no_args_is_help=True, rich_markup_mode="rich")
