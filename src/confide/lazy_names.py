"""Names that are loaded when they are first used: a command imports the solvers that it needs and no more.

By such names the faces show the laboratory too, without importing it. What a function asks for (:func:`requests`) is
read from its source: commands, their pages and forms are made of it, and none of them imports the function.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from functools import cache, cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints


def lazy_names(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of a package (PEP 562), from the file ``__init__.pyi`` beside it.

    Each import of that file gives a name, and the module that is loaded when the name is first used. The same file
    tells a type checker and an editor what there is: the names of a package are written down once.

    Args:
        package: The package's ``__name__``.

    Returns:
        What the package binds to the three names.

    >>> load, names, exported = lazy_names("confide.utility")
    >>> load("ErrorSums").__module__, names() == exported
    ('confide.utility.metrics', True)
    """

    @cache
    def homes() -> dict[str, tuple[str, str]]:
        stub = Path(str(sys.modules[package].__file__)).with_suffix(".pyi")
        imports = [
            node for node in ast.parse(stub.read_text(encoding="utf-8")).body if isinstance(node, ast.ImportFrom)
        ]
        return {alias.asname or alias.name: (str(node.module), alias.name) for node in imports for alias in node.names}

    def load(name: str) -> Any:
        if name.startswith("__") or name not in homes():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, attribute = homes()[name]
        if module == package:  # a room of the package itself
            return import_module(f"{package}.{attribute}")
        home = import_module(module)
        return getattr(home, attribute) if hasattr(home, attribute) else import_module(f"{module}.{attribute}")

    def names() -> list[str]:
        return sorted(homes())

    return load, names, names()


def named(place: str) -> Any:
    """The object at a place, ``module:object``.

    >>> named("confide.exact:positive").__name__
    'positive'
    """
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


class NoPandas:
    """A finder of modules for which pandas is not installed."""

    def find_spec(self, name: str, *_: object) -> None:
        """See :class:`importlib.abc.MetaPathFinder`."""
        if name == "pandas":
            raise ImportError("nobody has asked for pandas")


def keep_pandas_out() -> None:
    """Lets Arrow make arrays without pandas, until somebody asks for pandas.

    The first time that Arrow is given Python objects it loads pandas, wherever that is installed, to see whether they
    are its series: 300 modules, a third of a second in every process. Commands and workers have none. What needs
    pandas later, such as ``to_pandas``, loads it then.
    """
    if "pandas" not in sys.modules:
        finder: Any = NoPandas()
        sys.meta_path.insert(0, finder)
        try:
            import_module("pyarrow").array([0])
        finally:
            sys.meta_path.remove(finder)


# What a function asks for, from its source.


LISTS = (Sequence, Iterable, Collection, list, tuple)
NONE = inspect.Parameter.empty
"""The default of an argument that has none."""


@cache
def source(module: str) -> ast.Module:
    """The source of a module, which is not imported."""
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    return ast.parse(Path(spec.origin).read_text(encoding="utf-8"))


def _resolved(module: str, name: str) -> Any:
    """What a name is in a module, which is imported only where its source does not say it."""
    if module in sys.modules and hasattr(sys.modules[module], name):
        return getattr(sys.modules[module], name)
    for node in source(module).body:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if (alias.asname or alias.name) == name and node.module is not None:
                    return _resolved(node.module, alias.name)
        elif isinstance(node, ast.Assign) and [getattr(target, "id", "") for target in node.targets] == [name]:
            if isinstance(node.value, ast.Subscript):
                return _type_of(module, node.value)
            with suppress(ValueError):
                return ast.literal_eval(node.value)
    loaded = import_module(module)
    return getattr(loaded, name) if hasattr(loaded, name) else import_module(f"{module}.{name}")


def _type_of(module: str, hint: ast.expr) -> Any:
    names = {node.id for node in ast.walk(hint) if isinstance(node, ast.Name)}
    space = {name: _resolved(module, name) for name in names if not hasattr(builtins, name)}
    return get_type_hints(SimpleNamespace(__annotations__={"hint": ast.unparse(hint)}), space)["hint"]


@dataclass(frozen=True)
class Request:
    """One argument of a function: its name, type, default and what its documentation says of it.

    >>> [(each.name, each.kind, each.default) for each in requests("confide.releases.loss_account:epsilon_of_rho")]
    [('rho', <class 'str'>, <class 'inspect._empty'>), ('delta', <class 'str'>, '1e-10')]
    """

    place: str
    """The function, ``module:name``."""
    name: str
    hint: ast.expr
    written: ast.expr | None
    """The default as it is written."""
    meaning: str
    many: bool = False
    """Whether it takes all further arguments."""
    optional: bool = False
    """Whether another function of the command does without it."""

    @cached_property
    def typed(self) -> tuple[Any, Any]:
        """What is typed for it, and for a mapping the type of its values."""
        kind, pairs = _typed(_type_of(self.place.partition(":")[0], self.hint))
        return (list[kind] if self.many else kind), pairs  # type: ignore[valid-type]

    @property
    def kind(self) -> Any:
        """What is typed: a text for an exact number, a list for what may be repeated."""
        return self.typed[0]

    @cached_property
    def default(self) -> Any:
        """What it is if nothing is typed."""
        if self.written is None:
            return None if self.optional else NONE
        if isinstance(self.written, ast.Name):
            return _resolved(self.place.partition(":")[0], self.written.id)
        try:
            return ast.literal_eval(self.written)
        except ValueError:
            return inspect.signature(named(self.place)).parameters[self.name].default

    @property
    def needed(self) -> bool:
        """Whether there is no default."""
        return self.written is None and not self.optional


def requests(place: str) -> list[Request]:
    """What a function asks for; for a method also what its object needs to be made.

    Args:
        place: The function, ``module:name``, or the method, ``module:Class.name``.

    Returns:
        Its arguments in order.
    """
    module, _, path = place.partition(":")
    scope: Sequence[ast.stmt] = source(module).body
    *classes, name = path.split(".")
    of_object: list[Request] = []
    for each in classes:
        (scope,) = (node.body for node in scope if isinstance(node, ast.ClassDef) and node.name == each)
        of_object += [one for one in _of_function(place, _function(scope, "__init__")) if one.needed]
    return [*of_object, *_of_function(place, _function(scope, name))]


def _function(scope: Sequence[ast.stmt], name: str) -> ast.FunctionDef:
    (function,) = (node for node in scope if isinstance(node, ast.FunctionDef) and node.name == name)
    return function


def asker(place: str, given: dict[str, Any]) -> Any:
    """The function at a place; for a method that of an object, which is made of what it needs of what is given.

    Args:
        place: As :func:`requests` takes it.
        given: Values by name; those that the object is made of are taken out.

    Returns:
        What is called with the rest.

    >>> asker("confide.exact:positive", {}).__name__
    'positive'
    """
    module, _, path = place.partition(":")
    owner, dot, name = path.partition(".")
    if not dot:
        return named(place)
    scope = next(node.body for node in source(module).body if isinstance(node, ast.ClassDef) and node.name == owner)
    needed = [each.name for each in _of_function(place, _function(scope, "__init__")) if each.needed]
    return getattr(named(f"{module}:{owner}")(*(given.pop(each) for each in needed)), name)


def meaning(place: str, argument: str) -> str:
    """What a function's documentation says of an argument, without the condition under which it is asked for.

    Args:
        place: As :func:`requests` takes it.
        argument: Its name.

    Returns:
        The text, on one line.

    >>> meaning("confide.drafting:new", "household")
    'The column that identifies households.'
    """
    text = next(each.meaning for each in requests(place) if each.name == argument)
    said = re.sub(r"^With(out)? ``[^:]*: ", "", text)
    return said[:1].upper() + said[1:]


def _of_function(place: str, function: ast.FunctionDef) -> list[Request]:
    meanings, given = dict(_meanings(ast.get_docstring(function) or "")), function.args
    defaults = [None] * (len(given.args) - len(given.defaults)) + list(given.defaults)
    listed = [*zip(given.args, defaults, strict=True), *([] if given.vararg is None else [(given.vararg, None)])]
    listed += zip(given.kwonlyargs, given.kw_defaults, strict=True)
    return [
        Request(
            place,
            each.arg,
            each.annotation,
            default,
            meanings.get(each.arg, ""),
            many=each is given.vararg,
            optional=each is given.vararg,
        )
        for each, default in listed
        if each.annotation is not None
    ]


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


# What the faces show of the laboratory.


STUDIO_PAGES = ("confide.lab.studio.laboratory:router", "confide.lab.studio.comparisons:router")
"""The pages of the laboratory in the studio."""
STUDIO_JOBS = {
    "demonstrate": "confide.lab.demonstration:demonstrate_job",
    "compare": "confide.lab.studio.comparisons:compare_job",
}
"""What the studio does in the background for the laboratory: each takes a file, progress and what was given."""
COMPARISON_FILES = ("comparison.json", "asked.json")
"""What a folder of ``confide compare`` has in it, by which the studio knows it."""

DEMONSTRATION = "confide.lab.demonstration:demo_studio"
"""What ``confide studio demo`` shows."""
DRAFTS = {"comparison": "confide.lab.comparison.comparison_spec:comparison_draft"}
"""What ``confide new`` writes beside the specs of mechanisms."""
SHIELDS = {
    "LossClaim": "confide.lab.studio.shields_of_claims:shield_of_loss",
    "BoundedNoiseClaim": "confide.lab.studio.shields_of_claims:shield_of_bounded_noise",
}
"""What looks at a claim of a board, by its type: each takes the claim and a prior."""
REGION = "confide.lab.lab_commands:region"
"""``confide risk region``, which ``confide tune cellkey`` asks before there is a spec."""
