"""A command made of a verb: its options are the arguments of the function, in the words of its documentation.

What a verb asks for is written once: its signature has names, types and defaults, its docstring says what each argument
means. A command adds only what is a matter of typing: short names, and how a text becomes a value.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import typer

from confide.cli.commands import SETTINGS
from confide.cli.show import DONE, REFUSED, Display, Json, Memory, Plots, Processes, show_answer, write
from confide.errors import ParameterError, Place
from confide.report.charts import Chart

COMMON = {"processes": Processes, "memory": Memory}
Pictures = Callable[[Any, Mapping[str, Any]], Mapping[str, Callable[[], Chart]]]
"""What draws an answer, which it takes with the arguments of the verb."""
PICTURES: Pictures = lambda answer, _: answer.pictures()  # noqa: E731 - a value like those that commands give
"""The pictures that an answer has itself."""
LISTS = (Sequence, Iterable, Collection, list, tuple)


@dataclass(frozen=True)
class Given:
    """How an argument is typed, where it is not as ``--its-name``.

    Args:
        written: Names and placeholder, such as ``-D --max-noise D``; a placeholder alone is an argument by its place.
        parse: From what is typed to what the verb takes; by default the value itself.
        kind: The type of what is typed; by default that of the argument.
        meaning: What it means, where what is typed is not what the verb takes.
        default: What is taken where the verb has no default.
        least: The smallest number.
        most: The largest number.
    """

    written: str = ""
    parse: Callable[[Any], Any] | None = None
    kind: Any = None
    meaning: str = ""
    default: Any = None
    least: int | None = None
    most: int | None = None


@dataclass(frozen=True)
class Request:
    """One argument of a verb: its name, type, default and what its documentation says of it.

    >>> from confide.releases.loss_account import epsilon_of_rho
    >>> [(each.name, each.kind, each.default) for each in requests(epsilon_of_rho)]
    [('rho', <class 'str'>, <class 'inspect._empty'>), ('delta', <class 'str'>, '1e-10')]
    """

    name: str
    kind: Any
    """What is typed: a text for an exact number, a list for what may be repeated."""
    default: Any
    meaning: str
    pairs: Any = None
    """The type of the values, where the argument is a mapping by name."""

    @property
    def needed(self) -> bool:
        """Whether there is no default."""
        return self.default is inspect.Parameter.empty


def requests(verb: Callable[..., Any]) -> list[Request]:
    """What a verb asks for."""
    plain = inspect.unwrap(verb)
    annotated = SimpleNamespace(__annotations__={**plain.__annotations__, "return": None})
    hints, meanings = get_type_hints(annotated, plain.__globals__), dict(_meanings(inspect.getdoc(verb) or ""))
    asked = []
    for name, parameter in inspect.signature(verb).parameters.items():
        if parameter.kind is not parameter.VAR_KEYWORD:
            kind, pairs = _typed(hints[name])
            kind = list[kind] if parameter.kind is parameter.VAR_POSITIONAL else kind  # type: ignore[valid-type]
            asked.append(Request(name, kind, parameter.default, meanings.get(name, ""), pairs))
    return asked


def _meanings(documentation: str) -> Iterator[tuple[str, str]]:
    """The arguments of a docstring with their texts."""
    section = re.search(r"^Args:\n((?:    .*\n?|\n)+)", documentation, re.MULTILINE)
    for entry in re.split(r"\n(?=    \S)", section.group(1).rstrip()) if section else ():
        name, _, text = entry.strip().partition(": ")
        yield name, " ".join(re.sub(r":\w+:`~?([^`<]*?)(?: <[^`]*)?`", r"``\1``", text).split())


def _typed(hint: Any) -> tuple[Any, Any]:
    """What is typed for an argument of a type, and for a mapping the type of its values."""
    members = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    listed = [each for each in members if get_origin(each) in LISTS]
    if listed:
        return list[_typed(get_args(listed[0])[0])[0]], None  # type: ignore[misc]
    mapped = [get_args(each)[1] for each in members if get_origin(each) is Mapping]
    if mapped:
        return list[str], _typed(mapped[0])[0]
    chosen = [each for each in members if get_origin(each) is Literal or _is(each, Enum)]
    if chosen:
        return chosen[0], None
    if Path in members:
        return Path, None
    return (
        next((each for each in (bool, int, float) if each in members), str) if Fraction not in members else str
    ), None


def _is(kind: Any, base: type) -> bool:
    return isinstance(kind, type) and issubclass(kind, base)


@dataclass(frozen=True)
class Way:
    """A verb with what shows its answer.

    Args:
        verb: The function that answers.
        show: Prints the answer for people.
        pictures: The pictures of an answer, for ``--plots``.
    """

    verb: Callable[..., Any]
    show: Callable[..., None]
    pictures: Pictures | None = None


def command(
    text: str,
    verb: Callable[..., Any],
    show: Callable[..., None],
    *,
    settings: str = "",
    options: Mapping[str, Given | str] | None = None,
    pictures: Pictures | None = None,
    extra: Mapping[str, tuple[Any, Any]] | None = None,
    prepare: Callable[[dict[str, Any]], None] | None = None,
    without: str = "",
    others: Mapping[str, Way] | None = None,
) -> Callable[..., None]:
    """A command that asks a verb and shows its answer.

    Args:
        text: What its help says.
        verb: The function that answers.
        show: Prints the answer for people; further arguments are those that were given, by name.
        settings: The arguments that few calls need, with spaces between.
        options: How arguments are typed, by name.
        pictures: The pictures of an answer, for ``--plots``.
        extra: Further options, each with its annotation and default, for ``prepare`` and ``show``.
        prepare: Looks at what was given, and may refuse or change it.
        without: Arguments that cannot be typed, with spaces between.
        others: Another verb that is asked where an argument of its own is given, by the name of that argument.

    Returns:
        The function of the command.
    """
    first, left_out = Way(verb, show, pictures), {"progress", *without.split()}
    ways = [first, *(others or {}).values()]
    taken_by = {id(way): {each.name: each for each in requests(way.verb) if each.name not in left_out} for way in ways}
    asked = {name: each for way in reversed(ways) for name, each in taken_by[id(way)].items()}
    asked = {name: asked[name] for way in ways for name in taken_by[id(way)]}
    if others:
        always = set.intersection(*({name for name, each in own.items() if each.needed} for own in taken_by.values()))
        absent = {name for name, each in asked.items() if (each.needed and name not in always) or name in others}
        asked = {name: replace(each, default=None) if name in absent else each for name, each in asked.items()}
    if unknown := {*settings.split(), *(options or {})} - set(asked):
        raise LookupError(f"{verb.__name__} does not ask for {', '.join(sorted(unknown))}")
    given_as = {name: Given(each) if isinstance(each, str) else each for name, each in (options or {}).items()}
    names = {name: _names(each, given_as.get(name, Given()))[-1] for name, each in asked.items()}
    for name, each in asked.items():
        asked[name] = replace(each, meaning=_as_typed(each.meaning, names))
    parameters = [
        _parameter(each, given_as.get(name, Given()), name in settings.split()) for name, each in asked.items()
    ]
    parameters += [_keyword("plots", Plots, None)] if any(way.pictures for way in ways) else []
    parameters += [_keyword(name, *hint_and_default) for name, hint_and_default in (extra or {}).items()]
    parameters += [_keyword("as_json", Json, False)]

    def call(*, as_json: bool = False, plots: Path | None = None, **typed: Any) -> None:
        values = {name: _value(each, given_as.get(name, Given()), typed.get(name)) for name, each in asked.items()}
        values |= {name: typed.get(name, default) for name, (_, default) in (extra or {}).items()}
        values = {name: value for name, value in values.items() if value is not None}
        if prepare is not None:
            prepare(values)
        way = next((way for name, way in (others or {}).items() if name in values), first)
        own = taken_by[id(way)]
        _check_given(values, asked, own)
        known = inspect.signature(way.verb).parameters
        rest = any(each.kind is each.VAR_KEYWORD for each in known.values())
        taken = {name: value for name, value in values.items() if name in known or (rest and name in (extra or {}))}
        answer = way.verb(**taken, **({"progress": Display(quiet=as_json)} if "progress" in known else {}))
        drawn = write(plots, way.pictures(answer, taken)) if plots is not None and way.pictures is not None else []
        _, *wanted = inspect.signature(way.show).parameters
        chosen = {name: values.get(name) for name in wanted}
        show_answer(answer, lambda: way.show(answer, **chosen), as_json=as_json, drawn=drawn)
        raise typer.Exit(DONE if getattr(answer, "ok", True) else REFUSED)

    call.__doc__ = text
    call.__name__ = call.__qualname__ = getattr(verb, "__name__", "command")
    call.__signature__ = inspect.Signature(sorted(parameters, key=_has_default))  # type: ignore[attr-defined]
    call.__annotations__ = {each.name: each.annotation for each in parameters}
    return call


def _check_given(values: Mapping[str, Any], asked: Mapping[str, Request], own: Mapping[str, Request]) -> None:
    """Raises where an argument of another verb is given, or one that this verb needs is missing."""
    others = {name: value for name, value in values.items() if name in asked and name not in own}
    foreign = [name for name, value in others.items() if value != asked[name].default]
    if foreign:
        named = ", ".join(f"--{name.replace('_', '-')}" for name in foreign)
        raise typer.BadParameter(f"{named} does not go with the other options")
    for name in (name for name, each in own.items() if each.needed and name not in values):
        option = f"--{name.replace('_', '-')}"
        needed = [each for each in own.values() if each.needed]
        raise ParameterError(
            "missing-option/give",
            where=Place(path=option),
            replace=name.replace("_", "-"),
            needed=" and ".join(f"--{each.name.replace('_', '-')}" for each in needed),
        )


def _has_default(parameter: inspect.Parameter) -> bool:
    return parameter.default is not inspect.Parameter.empty


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Parameter(name, kind, annotation=annotation, default=default)


def _names(asked: Request, given: Given) -> list[str]:
    """The options of an argument; where it has its place, the word that stands for it."""
    words = given.written.split()
    option = f"--{asked.name.replace('_', '-')}"
    both = asked.kind is bool and asked.default is not False
    return (
        [each for each in words if each.startswith("-")] or words or [f"{option}/--no-{option[2:]}" if both else option]
    )


def _as_typed(meaning: str, names: Mapping[str, str]) -> str:
    """What an argument means, in the words of the command line."""
    return re.sub(r"``([^`]*)``", lambda quoted: names.get(quoted[1], quoted[1]).partition("/--")[0], meaning)


def _parameter(asked: Request, given: Given, folded: bool) -> inspect.Parameter:
    if asked.name in COMMON and not given.written:
        return _keyword(asked.name, COMMON[asked.name], given.default if asked.needed else asked.default)
    names = _names(asked, given)
    placed, repeatable = not names[0].startswith("-"), get_origin(given.kind or asked.kind) is list
    placeholder = [each for each in given.written.split() if placed or each not in names]
    shown: dict[str, Any] = {"metavar": " ".join(placeholder) or None, "help": given.meaning or asked.meaning}
    shown["help"] += " Repeatable." if repeatable and not placed else ""
    shown |= {"min": given.least, "max": given.most} if given.least is not None or given.most is not None else {}
    kind, default = given.kind or asked.kind, given.default if given.default is not None else asked.default
    if isinstance(default, (Fraction, tuple)) or default is None or type(None) in get_args(kind):
        shown |= {"show_default": f"{float(default):g}"} if isinstance(default, Fraction) else {}
        kind, default = kind | None, None
    if placed:
        return _keyword(asked.name, Annotated[kind, typer.Argument(**shown)], default)
    panel = SETTINGS if folded else None
    return _keyword(asked.name, Annotated[kind, typer.Option(*names, rich_help_panel=panel, **shown)], default)


def _value(asked: Request, given: Given, typed: Any) -> Any:
    """What the verb takes; None where nothing was typed and the verb has a default."""
    if typed is None or (typed == [] and not asked.needed):
        return None
    if given.parse is not None:
        return given.parse(typed)
    return _pairs(typed, asked) if asked.pairs is not None else typed


def _pairs(texts: Sequence[str], asked: Request) -> dict[str, Any]:
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise typer.BadParameter(f"{asked.name.replace('_', '-')} takes NAME=VALUE, not {text!r}")
        pairs[name.strip()] = asked.pairs(value.strip())
    return pairs
