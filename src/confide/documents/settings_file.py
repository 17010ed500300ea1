"""One reader of settings files: a file, a model of its keys, and everything that is wrong with the file at once.

::

    TREE = FileKind("tree", code="bad-tree")

    class TreeFile(Part):
        target: str
        nodes: list[NodePart]

    loaded = load(Path("tree.toml"), TreeFile, kind=TREE)
    loaded.value.target
    loaded.place("nodes", 0, "rho")                  # file, line and path, for findings of one's own
    loaded.refuse(problems(loaded.value))            # what is wrong although each value by itself is right

What a model forbids becomes a :class:`Finding` with the file, the line and the path of the value, in words for the
person who has to mend the file, and with a guess of what was meant. Files are TOML, or JSON where others chose it.
"""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from confide.documents.key_places import KeyPath, dotted, line_of
from confide.errors import NOWHERE, ConfideError, Finding, Place, Severity, SpecError

FOLDER = resources.files("confide") / "data"
"""The data files that ship with Confide."""
MOST_FINDINGS = 100
_MOST_ERRORS = 5 * MOST_FINDINGS  # of a model: several can be one finding
_MIB = 1 << 20

NAME_PATTERN, LEVEL_PATTERN = r"^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?$", r"^[a-z][a-z0-9_]{0,30}$"
PATTERNS_IN_WORDS = {
    NAME_PATTERN: "1 to 64 lower case letters, digits and hyphens, no hyphen at either end",
    LEVEL_PATTERN: "1 to 31 lower case letters, digits and underscores, a letter first",
}


class Part(BaseModel):
    """A table of a settings file: unknown keys are errors, values are not bent into shape."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


ModelT = TypeVar("ModelT", bound=BaseModel)


Stands: TypeAlias = Place | Callable[[], Place]
"""Where the name of a file to read was written; its line is looked for when it is wanted."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong with a settings file whose values are each of the right form."""

    path: KeyPath
    code: str
    what: str
    expected: str | None
    found: str | None = None
    remedy: str | None = "correct the spec"

    @classmethod
    def of(cls, path: KeyPath, key: str, /, found: str | None = None, **facts: object) -> Problem:
        """A problem with the texts of a key (:meth:`confide.errors.Finding.of`)."""
        return cls.passed_on(path, Finding.of(key, found=found, **facts))  # type: ignore[arg-type]  # facts have names of their own

    @classmethod
    def passed_on(cls, path: KeyPath, finding: Finding) -> Problem:
        """The problem of a place in the file that another part of Confide found."""
        return cls(path, finding.code, finding.what, finding.expected, finding.found, finding.remedy)


@dataclass(frozen=True)
class FileKind:
    """A kind of settings file: what it is called in messages, and the codes of what can be wrong with one."""

    name: str
    """As in "the tree cannot be read"."""
    code: str | None = None
    """The code of everything wrong inside; without it ``unknown-key``, ``missing-key`` and ``bad-value``."""
    unknown_key: str = ""
    missing_key: str = ""
    own_codes: bool = True
    """Whether a value that a rule of Confide refuses has the code of the rule."""
    absent: str = ""
    """The code for no such file; default ``no-NAME``."""
    unreadable: str = ""
    """The code for a file that cannot be read; default: ``code``, or ``bad-NAME``."""
    not_text: str = ""
    """The code for a file that is not UTF-8; default: that of an unreadable one."""
    syntax: str = ""
    """The code for a file that is not TOML or JSON; default: that of an unreadable one."""
    shipped: str = ""
    """The folder of those that ship with Confide, by name; these kinds are named by other files or commands."""
    example: str = ""
    """Where a person finds one to start from."""
    remedy: str = "correct the value"
    error: type[ConfideError] = SpecError
    unreadable_error: type[ConfideError] | None = None
    form: Literal["toml", "json", "by name"] = "toml"
    decimals: bool = False
    """Whether numbers with a point are read as they are written, as decimals."""
    unknown_keys: Severity = "error"
    largest: int = 64 * _MIB
    """In bytes."""

    def is_json(self, file: str) -> bool:
        """Whether a file of this kind and name is JSON."""
        return self.form == "json" or (self.form == "by name" and file.lower().endswith(".json"))

    @property
    def names(self) -> list[str]:
        """The names of those that ship."""
        return shipped(self.shipped) if self.shipped else []

    def code_of(self, code: str) -> str:
        """The code of an unknown or missing key or a bad value, in a file of this kind."""
        own = {"unknown-key": self.unknown_key, "missing-key": self.missing_key}
        return own.get(code) or self.code or code

    @property
    def code_of_file(self) -> str:
        return self.unreadable or self.code or f"bad-{self.name}"


@dataclass(frozen=True)
class Document:
    """A settings file that was read, as values that nothing is known of yet."""

    kind: FileKind
    path: Path
    text: str
    values: dict[str, Any]
    repeated: tuple[str, ...] = ()
    """Keys that a JSON text has more than once."""
    warnings: tuple[Finding, ...] = ()

    @property
    def file(self) -> str:
        """The name of the file."""
        return self.path.name

    def resolve(self, name: str) -> Path:
        """A path that is in the file, relative to the file's folder."""
        return self.path.parent / name

    def place(self, *path: str | int) -> Place:
        """Where a value of the file is."""
        line = line_of(self.text, path, is_json=self.kind.is_json(self.file))
        return Place(file=self.file or None, line=line, path=dotted(path) or None)

    def finding(self, problem: Problem) -> Finding:
        """A problem of the file, with its line."""
        where = self.place(*problem.path)
        return Finding(problem.code, problem.what, where, problem.found, problem.expected, problem.remedy)

    def error(self, *problems: Problem) -> ConfideError:
        """The error that carries some problems, each once."""
        listed = list(dict.fromkeys(problems))
        findings = [self.finding(problem) for problem in listed[:MOST_FINDINGS]]
        return self.kind.error([*findings, *self._more(len(listed)), *self.warnings])

    def refuse(self, problems: Iterable[Problem]) -> None:
        """Raise all of some problems, if there are any."""
        listed = list(problems)
        if listed:
            raise self.error(*listed)

    def check(self, model: type[ModelT]) -> Loaded[ModelT]:
        """The file as a value of a model.

        Args:
            model: The model of the file's keys, usually a :class:`Part`.

        Returns:
            The value, with the file it came from; unknown keys that are no errors as warnings.

        Raises:
            ConfideError: the error of the kind, with everything that the model forbids.
        """
        values = self.values
        try:
            value, warnings = model.model_validate(values), list[Finding]()
        except ValidationError as error:
            findings = self._form(model, error)
            number = len(findings) + max(0, error.error_count() - _MOST_ERRORS)
            warnings = [finding for finding in findings if finding.severity == "warning"]
            if len(warnings) < number:
                raise self.kind.error([*findings[:MOST_FINDINGS], *self._more(number), *self.warnings]) from None
            value = model.model_validate(_without(values, error))
        every = (*self.warnings, *warnings)
        return Loaded(self.kind, self.path, self.text, self.values, self.repeated, every, value=value)

    def _form(self, model: type[BaseModel], error: ValidationError) -> list[Finding]:
        """What the model does not allow. A value that is none of several things is one finding, not several."""
        findings: dict[tuple[KeyPath, str], Finding] = {}
        problems = [_FormProblem(self.values, dict(problem)) for problem in error.errors()[:_MOST_ERRORS]]
        around = {problem.path[:length] for problem in problems for length in range(len(problem.path))}
        for problem in problems:
            if problem.of_choice and problem.path in around:
                continue  # it was meant as another of the choices, which says what is wrong inside it
            finding = problem.finding(self, model)
            same = findings.get((problem.path, finding.code))
            if same is not None and finding.expected not in (same.expected or "").split(", or "):
                finding = replace(finding, expected=f"{same.expected}, or {finding.expected}")
            findings[problem.path, finding.code] = finding
        return list(findings.values())

    def _more(self, number: int) -> list[Finding]:
        if number <= MOST_FINDINGS:
            return []
        where = Place(file=self.file)
        return [
            Finding.of(
                "more-findings", where=where, number=number - MOST_FINDINGS, number_found=number, kind=self.kind.name
            )
        ]


@dataclass(frozen=True)
class Loaded(Document, Generic[ModelT]):
    """A settings file that was read and is of the right form."""

    value: ModelT = field(kw_only=True)


def load(path: Path, model: type[ModelT], *, kind: FileKind) -> Loaded[ModelT]:
    """The settings in a file.

    Args:
        path: The path of the file.
        model: The model of its keys.
        kind: What such files are called, and the codes of their findings.

    Returns:
        The value of the model, with the file.

    Raises:
        ConfideError: the error of the kind, with every finding: unreadable, not TOML, or all that the model forbids.
    """
    return read(path, kind=kind).check(model)


def load_named(
    name: str, base: Path, model: type[ModelT], *, kind: FileKind, where: Stands = NOWHERE
) -> Loaded[ModelT]:
    """The settings that another file or a command names.

    Args:
        name: A name that ships, or the path of a file.
        base: The folder that the path is relative to.
        model: The model of the file's keys.
        kind: What such files are called, and the codes of their findings.
        where: Where the name is: the place of the finding that there is no such file.

    Returns:
        The value of the model, with the file.
    """
    return read_named(name, base, kind=kind, where=where).check(model)


def load_text(text: str, file: str, model: type[ModelT], *, kind: FileKind) -> Loaded[ModelT]:
    """The settings in the text of a file; ``file`` is what findings call it.

    >>> class Colours(Part):
    ...     colour: str
    >>> load_text('colour = "red"', "own.toml", Colours, kind=FileKind("palette")).value.colour
    'red'
    >>> load_text('color = "red"', "own.toml", Colours, kind=FileKind("palette"))
    Traceback (most recent call last):
    ...
    confide.errors.SpecError: own.toml, colour: 'colour' is missing
      found: nothing
      expected: a value for colour
      remedy: add it
    own.toml, line 1, color: unknown key 'color'
      found: 'red'
      expected: one of colour
      remedy: did you mean "colour"?
    """
    return _parsed(text, Path(file), kind).check(model)


def load_values(values: Any, file: str, model: type[ModelT], *, kind: FileKind) -> Loaded[ModelT]:
    """The settings in values that were parsed before; their findings have no lines."""
    return Document(kind, Path(file), "", _table(values, Path(file), kind)).check(model)


def read_named(name: str, base: Path, *, kind: FileKind, where: Stands = NOWHERE) -> Document:
    """The file that ships under ``name``, or the file ``name`` relative to the folder ``base``."""
    if name in kind.names:
        text = (FOLDER / kind.shipped / f"{name}.toml").read_text(encoding="utf-8")
        return _parsed(text, Path(f"{name}.toml"), kind)
    return read(base / name, kind=kind, where=where)


def read(path: Path, *, kind: FileKind, where: Stands = NOWHERE) -> Document:
    """A settings file as plain values; ``where`` is the place that names it, if another file does."""
    return _parsed(_text(path, kind, where), path, kind)


def parse(text: str, *, is_json: bool = False, decimals: bool = False) -> tuple[Any, list[str]]:
    """The values of a text, and the keys that a JSON text has twice."""
    repeated: list[str] = []

    def keyed(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        repeated.extend(name for name in dict.fromkeys(names) if names.count(name) > 1)
        return dict(pairs)

    number: Any = Decimal if decimals else float
    if is_json:
        values = json.loads(text, parse_float=number, parse_constant=number, object_pairs_hook=keyed)
    else:
        values = tomllib.loads(text, parse_float=number)
    return values, repeated


def shipped(folder: str) -> list[str]:
    """The names of the shipped files of one kind (``schemas``)."""
    return sorted(
        file.name.removesuffix(".toml") for file in (FOLDER / folder).iterdir() if file.name.endswith(".toml")
    )


def load_shipped(folder: str, name: str) -> dict[str, Any]:
    """The plain values of a shipped file."""
    return tomllib.loads((FOLDER / folder / f"{name}.toml").read_text(encoding="utf-8"))


# From a file to its text, and from the text to values.

OF_SHELLS = (Path("/dev"), Path("/dev/fd"))
"""Where a shell has the pipes that it makes, such as those of ``<(...)``."""


def _text(path: Path, kind: FileKind, where: Stands) -> str:
    article = "an" if kind.name[0] in "aeiou" else "a"
    try:
        if path.stat().st_size > kind.largest:
            found = f"{path.stat().st_size:,} bytes"
            raise _unreadable(
                "unreadable-settings/too-large", path, kind, found, a=article, largest=kind.largest // _MIB
            )
        if path.is_fifo() and path.parent not in OF_SHELLS:  # a pipe that a shell makes has a writer, others may not
            raise _unreadable("unreadable-settings/pipe", path, kind, "a pipe")
        return path.read_text(encoding="utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        raise _absent(path, kind, article, where) from None
    except IsADirectoryError:
        raise _unreadable("unreadable-settings/folder", path, kind, "a folder") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        found = f"byte 0x{error.object[error.start]:02x}"
        of_text = replace(kind, unreadable=kind.not_text or kind.unreadable)
        raise _unreadable(
            "unreadable-settings/encoding", path, of_text, found, line, form=_form_of(kind, path)
        ) from None
    except (OSError, ValueError) as error:
        found = getattr(error, "strerror", None) or type(error).__name__
        raise _unreadable("unreadable-settings/system", path, kind, found) from None


def _absent(path: Path, kind: FileKind, article: str, where: Stands) -> ConfideError:
    code, error = kind.absent or f"no-{kind.name}", kind.unreadable_error or kind.error
    if kind.shipped:
        place, names = where() if callable(where) else where, ", ".join(kind.names)
        return error(
            Finding.of("no-settings/name", code=code, where=place, found=path.name, kind=kind.name, names=names)
        )
    place = Place(file=str(path))
    example = kind.example
    return error(Finding.of("no-settings/file", code=code, where=place, kind=kind.name, a=article, example=example))


def _unreadable(
    key: str, path: Path, kind: FileKind, found: str, line: int | None = None, **facts: Any
) -> ConfideError:
    error = kind.unreadable_error or kind.error
    where = Place(file=path.name if kind.shipped else str(path), line=line)
    return error(Finding.of(key, code=kind.code_of_file, where=where, found=found, kind=kind.name, **facts))


def _parsed(text: str, path: Path, kind: FileKind) -> Document:
    try:
        values, repeated = parse(text, is_json=kind.is_json(path.name), decimals=kind.decimals)
    except (ValueError, RecursionError) as error:
        raise kind.error(_syntax(text, path, kind, error)) from None
    return Document(kind, path, text, _table(values, path, kind), tuple(repeated))


def _table(values: Any, path: Path, kind: FileKind) -> dict[str, Any]:
    if isinstance(values, Mapping):
        return dict(values)
    code, where = kind.syntax or kind.code_of_file, Place(path.name)
    raise kind.error(Finding.of("no-table-of-settings", code=code, where=where, found=_shown(values), kind=kind.name))


def _syntax(text: str, path: Path, kind: FileKind, error: Exception) -> Finding:
    line, message = re.search(r"at line (\d+)", str(error)), str(error)
    number = int(line.group(1)) if line else None
    if isinstance(error, json.JSONDecodeError):
        number, message = error.lineno, error.msg
    elif "at end of document" in message:
        number, message = text.count("\n") + 1, message.removesuffix("(at end of document)").strip()
    nested = isinstance(error, RecursionError)
    parsed = isinstance(error, json.JSONDecodeError | tomllib.TOMLDecodeError)
    return Finding.of(
        "unreadable-settings/json" if kind.is_json(path.name) else "unreadable-settings/toml",
        code=kind.syntax or kind.code_of_file,
        where=Place(file=path.name, line=number),
        nested=nested,
        digits=not nested and not parsed,  # the parsers of the standard library give up on these
        message=message,
    )


def _form_of(kind: FileKind, path: Path) -> str:
    return "a JSON object in UTF-8" if kind.is_json(path.name) else "a TOML file in UTF-8"


# From what a model does not allow to findings.


class _FormProblem:
    """One of the errors of a model, at its place in the file.

    The model's location has names of its own apart from keys and positions: of a choice between several models, of a
    function that looks at a value. Only what leads further into the values of the file is its place.
    """

    def __init__(self, values: Any, error: dict[str, Any]):
        self._error, self._type, self._values = error, str(error["type"]), values
        location = tuple(error["loc"])
        steps: list[str | int] = []
        for number, part in enumerate(location):
            last = number == len(location) - 1
            there = (isinstance(values, Mapping) and part in values) or (
                isinstance(values, list | tuple) and isinstance(part, int) and part < len(values)
            )
            if there:
                values = values[part]
            if there or (last and self._type == "missing"):
                steps.append(part)
        self.path: KeyPath = tuple(steps)
        self.of_choice = len(steps) < len(location)

    def finding(self, document: Document, model: type[BaseModel]) -> Finding:
        kind, place = document.kind, document.place(*self.path)
        key = next((part for part in reversed(self.path) if isinstance(part, str)), kind.name)
        found = _shown(self._error.get("input"))
        if self._type == "extra_forbidden":
            known = keys_at(model, self.path[:-1], self._values)
            close = difflib.get_close_matches(key, known, 1)
            return Finding.of(
                "unknown-key/setting",
                where=place,
                found=found,
                code=kind.code_of("unknown-key"),
                severity=kind.unknown_keys,
                key=key,
                names=", ".join(known),
                close=close[0] if close else "",
            )
        if self._type == "missing" and isinstance(self.path[-1], str):
            code, path = kind.code_of("missing-key"), dotted(self.path)
            return Finding.of("missing-key/setting", where=place, code=code, key=key, path=path)
        context = self._error.get("ctx", {})
        raised = context.get("error")
        if isinstance(raised, ConfideError):
            reason = raised.findings[0]
            code = reason.code if kind.own_codes else kind.code_of("bad-value")
            return replace(reason, code=code, where=place, found=found, remedy=reason.remedy or kind.remedy)
        code, remedy = kind.code_of("bad-value"), kind.remedy
        if isinstance(raised, ValueError):
            return Finding.of("bad-value/together", where=place, found=found, code=code, what=raised, remedy=remedy)
        return Finding.of(
            "bad-value/form",
            where=place,
            found=found,
            code=code,
            key=key,
            is_name="pattern" in context,
            expected=expected_in_words(self._error),
            remedy=remedy,
        )


def _without(values: dict[str, Any], error: ValidationError) -> dict[str, Any]:
    """The values without the keys that the model does not know."""
    result = _copied(values)
    for problem in error.errors():
        *path, key = problem["loc"]
        table = result
        for part in path:
            table = table[part]
        del table[key]
    return result  # type: ignore[no-any-return]


def _copied(values: Any) -> Any:
    if isinstance(values, dict):
        return {key: _copied(value) for key, value in values.items()}
    return [_copied(value) for value in values] if isinstance(values, list) else values


@lru_cache
def _json_schema(model: type[BaseModel]) -> dict[str, Any]:
    return model.model_json_schema(by_alias=True)


def keys_at(model: type[BaseModel], path: KeyPath, values: Any) -> list[str]:
    """The keys that a model allows at a path of a file.

    Args:
        model: The model of the file.
        path: Where a table is in the file.
        values: The file's values, which say what was meant where a model has choices.

    Returns:
        The keys in alphabetical order; none where the model has no table with keys of its own.

    >>> class Table(Part):
    ...     name: str
    ...     level: str = "block"
    >>> keys_at(Table, (), {"nam": "P12"})
    ['level', 'name']
    """
    schema = _json_schema(model)
    node = _resolved(schema, schema, values)
    for part in path:
        inner: Any
        if isinstance(part, int):
            inner = node.get("items") or next(iter(node.get("prefixItems", ())), {})
        else:
            patterns = iter(node.get("patternProperties", {}).values())
            inner = node.get("properties", {}).get(part) or next(patterns, node.get("additionalProperties"))
        values = values[part]
        node = _resolved(schema, inner if isinstance(inner, dict) else {}, values)
    return sorted(node.get("properties", {}))


def _resolved(schema: dict[str, Any], node: dict[str, Any], value: Any) -> dict[str, Any]:
    """A part of a JSON Schema without references, and of several choices the one that a value is meant as."""
    while True:
        choices = node.get("anyOf") or node.get("oneOf") or node.get("allOf")
        if "$ref" in node:
            node = schema["$defs"][node["$ref"].rsplit("/", 1)[-1]]
        elif "discriminator" in node:
            tag = value.get(node["discriminator"]["propertyName"]) if isinstance(value, Mapping) else None
            mapping = node["discriminator"]["mapping"]
            node = {"$ref": mapping[tag]} if isinstance(tag, str) and tag in mapping else {}
        elif choices:
            form = "array" if isinstance(value, list) else "object"
            listed = [_resolved(schema, choice, value) for choice in choices]
            node = next((choice for choice in listed if choice.get("type") == form), {})
        else:
            return node


def _shown(value: Any) -> str:
    if isinstance(value, Decimal):
        value = float(value)
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a whole number of more digits than Python writes
        return "a value too long to show"
    return text if len(text) <= 80 else text[:77] + "..."


# What a value of a file should have been, in plain words. The models speak to programmers, of inputs, fields and
# instances. The finding says what to write instead to whoever has to mend the file.

_KINDS = {
    "string_type": "text in quotes",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "decimal_type": "a number",
    "is_instance_of": "a number",  # of a class of exact numbers: no file has any other
    "decimal_parsing": "a number",
    "finite_number": "a number that is finite",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list, in square brackets",
    "tuple_type": "a list, in square brackets",
    "dict_type": "a table of keys with values",
    "model_type": "a table of keys with values",
    "model_attributes_type": "a table of keys with values",
    "missing": "a list with one value more",
}
_LIMITS = {
    "greater_than": ("gt", "greater than {}"),
    "greater_than_equal": ("ge", "at least {}"),
    "less_than": ("lt", "less than {}"),
    "less_than_equal": ("le", "at most {}"),
    "string_too_short": ("min_length", "text of at least {} characters"),
    "string_too_long": ("max_length", "text of at most {} characters"),
    "too_short": ("min_length", "at least {} of them"),
    "too_long": ("max_length", "at most {} of them"),
    "literal_error": ("expected", "{}"),
    "enum": ("expected", "{}"),
    "union_tag_invalid": ("expected_tags", "{}"),
}


def expected_in_words(problem: Mapping[str, Any]) -> str:
    """What a validation error of pydantic (one of ``ValidationError.errors()``) asks for.

    >>> expected_in_words({"type": "list_type", "msg": "Input should be a valid list"})
    'a list, in square brackets'
    >>> expected_in_words({"type": "too_short", "ctx": {"min_length": 1}, "msg": "List should have ..."})
    'at least one'
    """
    kind, context = str(problem["type"]), problem.get("ctx", {})
    if context.get("pattern") in PATTERNS_IN_WORDS:
        return PATTERNS_IN_WORDS[context["pattern"]]
    if kind in _KINDS:
        return _KINDS[kind]
    if context.get("min_length") == 1:
        return "at least one character" if kind == "string_too_short" else "at least one"
    if kind in _LIMITS:
        name, words = _LIMITS[kind]
        if name in context:
            return words.format(context[name])
    message = str(problem["msg"]).removeprefix("Value error, ")
    return message[:1].lower() + message[1:]
