"""What commands have in common: a command is made of a function, is loaded when it is called, and its help shows what
most calls give.

What a function asks for is written once: its signature has names, types and defaults, its docstring says what each
argument means. A command (:class:`Verb`) adds only what is a matter of typing: short names, and how a text becomes a
value. Both are read from the source, so that help imports neither solvers nor engines.

To list a command takes its name and one line; to run it takes its module. So a :class:`LazyGroup` holds a stand-in for
each (:class:`Later`). Help and shell completion see the stand-ins; what is called, asked for its own help or completed
further is resolved first, and resolving loads it.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache, cached_property
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, ClassVar, get_args, get_origin

import typer
from rich.markup import escape
from typer.core import TyperCommand, TyperGroup

from confide.answers import AnswerPart, TypedAnswer
from confide.cli import show
from confide.errors import ParameterError, Place
from confide.lazy_names import NONE, Request, asker, keep_pandas_out, named, requests, source

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
        if example := examples().get(" ".join(ctx.command_path.split()[1:])):
            yield f"[bold]Example:[/] {escape(example)}"
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


@cache
def examples() -> Mapping[str, str]:
    """An example of each command, by how it is called below ``confide``: ``data/commands/examples.toml``."""
    return tomllib.loads((files("confide") / "data" / "commands" / "examples.toml").read_text(encoding="utf-8"))


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
    for node in source(module).body:
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
        within: Further commands, called by two words: this name, then their own.
        row: The command whose line in the list names this one too, so that the list has no line for it.
    """

    def __init__(
        self, name: str, place: str, panel: str | None = None, within: Mapping[str, str] | None = None, row: str = ""
    ):
        super().__init__(name, rich_help_panel=panel)
        self.called, self.place, self.row = name, place, row
        self.within = {inner: Later(inner, where) for inner, where in (within or {}).items()}

    def load(self) -> Any:
        """The command itself, made as any other command of a Typer application is made."""
        module, _, name = self.place.partition(":")
        command = getattr(import_module(module), name)
        verb = command if isinstance(command, Verb) else None
        command = command if verb is None else verb.as_command()
        around = typer.Typer(rich_markup_mode="rich")
        if isinstance(command, typer.Typer):
            around.add_typer(command, name=self.called)
        else:
            around.command(self.called, cls=Command)(command)
        loaded = typer.main.get_group(around).commands[self.called]
        loaded.within, loaded.verb = self.within, verb  # type: ignore[attr-defined]
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

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The list of commands, without those that the line of another one names."""
        page = copy(self)
        page.commands = {name: each for name, each in self.commands.items() if not getattr(each, "row", "")}
        super(LazyGroup, page).format_help(ctx, formatter)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command that is called by the first argument, or the first two, loaded."""
        name, command, rest = super().resolve_command(ctx, args)
        if not isinstance(command, Later):
            return name, command, rest
        if rest and rest[0] in command.within:
            return f"{name} {rest[0]}", command.within[rest[0]].load(), rest[1:]
        return name, command.load(), rest


def listed(line: str, module: str, names: str, **elsewhere: str) -> typer.Typer:
    """A group of commands that are loaded when they are called.

    Args:
        line: What the group is for.
        module: Where most of its commands are.
        names: Their names with spaces between, ``name=object`` where the object is called otherwise.
        elsewhere: Further commands by name, each with its place ``module:object``.

    Returns:
        The group.
    """
    pairs = [(name, called or name) for name, _, called in (each.partition("=") for each in names.split())]
    places = {name: f"{module}:{called}" for name, called in pairs} | elsewhere
    later = tuple(Later(name, place) for name, place in places.items())
    group = type("Listed", (LazyGroup,), {"later": later})
    return typer.Typer(cls=group, help=line, no_args_is_help=True, rich_markup_mode="rich")


# A command made of a function.


TYPED_ALIKE = {
    "processes": show.Processes,
    "memory": show.Memory,
    "engine": show.EngineChoice,
    "spark_master": show.SparkMaster,
}


# The command.


@dataclass(frozen=True)
class Given:
    """How an argument is typed, where it is not as ``--its-name``.

    Args:
        written: Names and placeholder, such as ``-D --max-noise D``; a placeholder alone is an argument by its place.
        parse: From what is typed to what the function takes, or the place of such a function; by default the value.
        kind: The type of what is typed; by default that of the argument.
        meaning: What it means, where what is typed is not what the function takes.
        default: What is taken where the function has no default.
        least: The smallest number.
        most: The largest number.
    """

    written: str = ""
    parse: Callable[[Any], Any] | str | None = None
    kind: Any = None
    meaning: str = ""
    default: Any = None
    least: float | None = None
    most: float | None = None


@dataclass(frozen=True)
class Revealed(TypedAnswer):
    """What the command line shows of a confidential answer to somebody who may see it."""

    values: Mapping[str, Any]
    parts: Sequence[AnswerPart]
    ok: bool = True

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return dict(self.values)

    def described(self) -> Iterator[AnswerPart]:
        """What a terminal shows."""
        return iter(self.parts)


@dataclass(frozen=True)
class Verb:
    """A command that asks a function and shows its answer.

    Args:
        text: What its help says.
        place: The function that answers, ``module:name``.
        settings: The arguments that few calls need, with spaces between.
        options: How arguments are typed, by name.
        plots: Whether its answers have pictures, for ``--plots``.
        extra: Further options, each with its annotation and default, for ``prepare`` and ``reveal``.
        prepare: Looks at what was given, and may refuse or change it.
        without: Arguments that cannot be typed, with spaces between.
        others: Another function that is asked where an argument of its own is given, by the name of that argument.
        reveal: What is shown in place of an answer that says less than somebody at a terminal may see.
        also: A function that the first hands on to what it has no argument for itself, where there are targets.
        json: Whether it can answer as JSON; one that goes on until it is stopped cannot.
    """

    text: str
    place: str
    settings: str = ""
    options: Mapping[str, Given | str] = field(default_factory=dict)
    plots: bool = False
    extra: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    prepare: Callable[[dict[str, Any]], None] | None = None
    without: str = ""
    others: Mapping[str, str] = field(default_factory=dict)
    reveal: Callable[[Any], TypedAnswer] | None = None
    also: str = ""
    json: bool = True

    @cached_property
    def given(self) -> dict[str, Given]:
        """How each argument is typed."""
        typed = {name: Given(each) if isinstance(each, str) else each for name, each in self.options.items()}
        return {name: typed.get(name, Given()) for name in self.asked}

    @cached_property
    def taken_by(self) -> dict[str, dict[str, Request]]:
        """For each function its arguments that can be typed, by name."""
        left_out = {"progress", *self.without.split()}
        places = (self.place, *self.others.values())
        taken = {place: {each.name: each for each in requests(place) if each.name not in left_out} for place in places}
        for each in requests(self.also) if self.also else ():
            if each.name not in left_out:
                said = f"With targets: {each.meaning}"
                taken[self.place].setdefault(each.name, replace(each, written=None, meaning=said, optional=True))
        return taken

    @cached_property
    def asked(self) -> dict[str, Request]:
        """All arguments by name; those that only some functions need are optional."""
        ways = list(self.taken_by.values())
        asked = {name: each for own in reversed(ways) for name, each in own.items()}
        always = set.intersection(*({name for name, each in own.items() if each.needed} for own in ways))
        if unknown := {*self.settings.split(), *self.options} - set(asked):
            raise LookupError(f"{self.place} does not ask for {', '.join(sorted(unknown))}")
        absent = {name for name, each in asked.items() if each.needed and name not in always} | {*self.others}
        return {
            name: replace(asked[name], optional=True, written=None) if name in absent else asked[name]
            for own in ways
            for name in own
        }

    def parameters(self) -> list[inspect.Parameter]:
        """The options and arguments of the command."""
        names = {name: _names(each, self.given[name])[-1] for name, each in self.asked.items()}
        listed = [
            _parameter(
                replace(each, meaning=_as_typed(each.meaning, names)), self.given[name], name in self.settings.split()
            )
            for name, each in self.asked.items()
        ]
        listed += [_keyword("plots", show.Plots, None)] if self.plots else []
        listed += [_keyword(name, *hint_and_default) for name, hint_and_default in self.extra.items()]
        listed += [_keyword("as_json", show.Json, False)] if self.json else []
        return sorted(listed, key=lambda each: each.default is not NONE)

    def as_command(self) -> Callable[..., None]:
        """The command, as Typer takes it."""
        parameters = self.parameters()

        def call(*, as_json: bool = False, plots: Path | None = None, **typed: Any) -> None:
            self.ask(typed | {"as_json": as_json}, plots)

        call.__doc__ = self.text
        call.__name__ = call.__qualname__ = self.place.partition(":")[2]
        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        call.__annotations__ = {each.name: each.annotation for each in parameters}
        return call

    def ask(self, typed: Mapping[str, Any], plots: Path | None) -> None:
        """Asks the function, and shows its answer.

        Args:
            typed: What was typed, by name.
            plots: A folder for pictures.
        """
        values = {name: _value(each, self.given[name], typed.get(name)) for name, each in self.asked.items()}
        values |= {name: typed.get(name, default) for name, (_, default) in self.extra.items()}
        values = {name: value for name, value in values.items() if value is not None} | {"as_json": typed["as_json"]}
        if self.prepare is not None:
            self.prepare(values)
        place = next((place for name, place in self.others.items() if name in values), self.place)
        own = self.taken_by[place]
        _check_given(values, self.asked, own)
        function = asker(place, values)
        if "pyarrow" in sys.modules:
            keep_pandas_out()
        known = inspect.signature(function).parameters
        rest = any(each.kind is each.VAR_KEYWORD for each in known.values())
        taken = {
            name: value
            for name, value in values.items()
            if name in known or (rest and name in (self.extra if not self.also else self.asked))
        }
        taken |= {"progress": show.Display(quiet=typed["as_json"])} if "progress" in known else {}
        answer = function(*_by_place(known, taken), **taken)
        shown = answer if self.reveal is None else self.reveal(answer)
        drawn = [] if plots is None or not hasattr(answer, "pictures") else show.write(plots, answer.pictures())
        show.show_answer(shown, as_json=typed["as_json"], drawn=drawn)
        raise typer.Exit(show.DONE if getattr(shown, "ok", True) else show.REFUSED)


def _by_place(known: Mapping[str, inspect.Parameter], taken: dict[str, Any]) -> list[Any]:
    """Takes out what a function takes by its place, where it takes any number of arguments."""
    many = [name for name, each in known.items() if each.kind is each.VAR_POSITIONAL]
    before = [name for name, each in known.items() if many and each.kind is each.POSITIONAL_OR_KEYWORD]
    return [taken.pop(name) for name in before] + [each for name in many for each in taken.pop(name, ())]


def _check_given(values: Mapping[str, Any], asked: Mapping[str, Request], own: Mapping[str, Request]) -> None:
    """Raises where an argument of another function is given, or one that this function needs is missing."""
    others = {name: value for name, value in values.items() if name in asked and name not in own}
    foreign = [name for name, value in others.items() if value != asked[name].default]
    if foreign:
        listed = ", ".join(f"--{name.replace('_', '-')}" for name in foreign)
        raise typer.BadParameter(f"{listed} does not go with the other options")
    for name in (name for name, each in own.items() if each.needed and name not in values):
        option = f"--{name.replace('_', '-')}"
        needed = [each for each in own.values() if each.needed]
        raise ParameterError(
            "missing-option/give",
            where=Place(path=option),
            replace=name.replace("_", "-"),
            needed=" and ".join(f"--{each.name.replace('_', '-')}" for each in needed),
        )


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Parameter(name, kind, annotation=annotation, default=default)


def _names(asked: Request, given: Given) -> list[str]:
    """The options of an argument; where it has its place, the word that stands for it."""
    words = given.written.split()
    option = f"--{asked.name.replace('_', '-')}"
    if listed := [each for each in words if each.startswith("-")] or words:
        return listed
    common = asked.name in TYPED_ALIKE or given.kind is not None
    both = not common and asked.kind is bool and asked.default is not False
    return [f"{option}/--no-{option[2:]}" if both else option]


def _as_typed(meaning: str, names: Mapping[str, str]) -> str:
    """What an argument means, in the words of the command line."""
    return re.sub(r"``([^`]*)``", lambda quoted: names.get(quoted[1], quoted[1]).partition("/--")[0], meaning)


def _parameter(asked: Request, given: Given, folded: bool) -> inspect.Parameter:
    if asked.name in TYPED_ALIKE and not given.written:
        return _keyword(asked.name, TYPED_ALIKE[asked.name], given.default if asked.needed else asked.default)
    kind = asked.kind if given.kind is None else given.kind
    names = _names(asked, given)
    placed, repeatable = not names[0].startswith("-"), get_origin(kind) is list
    placeholder = [each for each in given.written.split() if placed or each not in names]
    shown: dict[str, Any] = {"metavar": " ".join(placeholder) or None, "help": given.meaning or asked.meaning}
    shown["help"] += " Repeatable." if repeatable and not placed else ""
    shown |= {"min": given.least, "max": given.most} if given.least is not None or given.most is not None else {}
    default = given.default if given.default is not None else asked.default
    if isinstance(default, (Fraction, tuple)) or default is None or type(None) in get_args(kind):
        shown |= {"show_default": f"{float(default):g}"} if isinstance(default, Fraction) else {}
        kind, default = kind | None, None
    if placed:
        return _keyword(asked.name, Annotated[kind, typer.Argument(**shown)], default)
    panel = SETTINGS if folded else None
    return _keyword(asked.name, Annotated[kind, typer.Option(*names, rich_help_panel=panel, **shown)], default)


def _value(asked: Request, given: Given, typed: Any) -> Any:
    """What the function takes; None where nothing was typed and it has a default."""
    if typed is None or (typed == [] and not asked.needed):
        return None
    if given.parse is not None:
        return (named(given.parse) if isinstance(given.parse, str) else given.parse)(typed)
    if asked.name in TYPED_ALIKE or (given.kind is not None and get_origin(given.kind) is not list):
        return typed
    return _pairs(typed, asked) if asked.typed[1] is not None else typed


def _pairs(texts: Sequence[str], asked: Request) -> dict[str, Any]:
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise typer.BadParameter(f"{asked.name.replace('_', '-')} takes NAME=VALUE, not {text!r}")
        pairs[name.strip()] = asked.typed[1](value.strip())
    return pairs
