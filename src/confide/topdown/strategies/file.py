"""Reading a strategy file: TOML in, checked strategies out, every problem at once and at its line.

One file says everything of a product: schema, levels, shares, passes, constraints, for each root it can be used with.
"""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from confide.errors import ConfideError, Finding, ParameterError, Place, SpecError
from confide.exact import Exact
from confide.inputs.shipped import FOLDER, load_schema, read_toml, shipped
from confide.runs import toml_lines
from confide.runs.load_spec import dotted
from confide.runs.spec import PATTERNS_IN_WORDS, Problem
from confide.runs.wrong_form import expected_in_words
from confide.schema import Schema, parse_schema
from confide.topdown.strategies.checks import build
from confide.topdown.strategies.parts import StrategyFile
from confide.topdown.strategies.strategy import Strategy

KIND = "strategies"


def load_strategy(
    name: str,
    base: Path = Path(),
    *,
    root: str | None = None,
    budget: Exact | None = None,
    renormalise: bool | None = None,
) -> Strategy:
    """The strategy shipped under ``name``, or in the file ``name`` relative to ``base``, for one of its roots.

    ``budget`` replaces the one of the file; the shares stay. ``renormalise`` replaces the setting of a derived root.
    Raises a :class:`SpecError` with all findings.
    """
    strategies, default = load_strategies(name, base, renormalise=renormalise)
    chosen = default if root is None else root
    if chosen not in strategies:
        raise ParameterError(
            Finding(
                code="unknown-root",
                what=f"the strategy {name!r} has no root {chosen!r}",
                where=Place(path="root"),
                found=repr(chosen),
                expected="one of " + ", ".join(strategies),
                remedy="name one of these roots",
            )
        )
    strategy = strategies[chosen]
    return strategy if budget is None else strategy.with_budget(budget)


def load_strategies(
    name: str, base: Path = Path(), *, renormalise: bool | None = None
) -> tuple[dict[str, Strategy], str]:
    """Every root of a strategy file, and the name of the default one."""
    if name in shipped(KIND):
        text, file = (FOLDER / KIND / f"{name}.toml").read_text(encoding="utf-8"), f"{name}.toml"
    else:
        path = base / name
        read_toml(path, kind="strategy", known=shipped(KIND))  # for its findings
        text, file = path.read_text(encoding="utf-8-sig"), path.name
    return parse_strategies(text, file, base, renormalise=renormalise)


def parse_strategies(
    text: str, file: str, base: Path = Path(), *, renormalise: bool | None = None
) -> tuple[dict[str, Strategy], str]:
    """Every root of the strategy in the text of a TOML file, and the name of the default one."""
    try:
        values = StrategyFile.model_validate(toml_lines.parse(text))
    except ValidationError as error:
        raise SpecError(_form(problem, text, file) for problem in error.errors()) from None
    try:
        schema = _schema(values.schema_, base)
    except ConfideError as error:
        place = Place(file, toml_lines.line_of(text, ("schema",)), path="schema")
        raise SpecError(
            Finding(f.code, f.what, _inside(place, f.where), f.found, f.expected, f.remedy) for f in error.findings
        ) from None
    strategies, problems = build(values, schema, renormalise=renormalise)
    if problems:
        raise SpecError(_finding(problem, text, file) for problem in dict.fromkeys(problems))
    return strategies, values.root


def _schema(given: str | dict[str, Any], base: Path) -> Schema:
    return load_schema(given, base) if isinstance(given, str) else parse_schema(given)


def _inside(place: Place, inner: Place) -> Place:
    path = f"{place.path}.{inner.path}" if inner.path else place.path
    return Place(place.file, place.line, path=path)


def _finding(problem: Problem, text: str, file: str) -> Finding:
    place = Place(file, toml_lines.line_of(text, problem.path), path=dotted(problem.path))
    return Finding(problem.code, problem.what, place, problem.found, problem.expected, problem.remedy)


def _form(problem: Any, text: str, file: str) -> Finding:
    """A finding about a value that is not of the right form."""
    path = tuple(part for part in problem["loc"] if part not in ("[key]", "str", "int") and "[" not in str(part))
    place = Place(file, toml_lines.line_of(text, path), path=dotted(path))
    key = str(path[-1]) if path else "file"
    found = "nothing" if problem["type"] == "missing" else repr(problem.get("input"))[:80]
    if problem["type"] == "missing":
        return Finding("missing-key", f"{key!r} is missing", place, found, f"a value for {place.path}", "add it")
    if problem["type"] == "extra_forbidden":
        known = [field.alias or name for name, field in StrategyFile.model_fields.items()] if len(path) == 1 else []
        close = difflib.get_close_matches(key, known, 1)
        remedy = f'did you mean "{close[0]}"?' if close else "remove it"
        return Finding("unknown-key", f"unknown key {key!r}", place, found, "a key of a strategy file", remedy)
    context = problem.get("ctx", {})
    raised = context.get("error")
    if isinstance(raised, ParameterError):
        reason = raised.findings[0]
        what = reason.what.replace("shares", "the share").replace("queries", "the share")
        remedy = f'write "{problem["input"]!r}" if that is meant' if reason.code == "float-refused" else "correct it"
        return Finding(reason.code, what, place, found, reason.expected, remedy)
    expected = PATTERNS_IN_WORDS.get(context.get("pattern", ""), expected_in_words(problem))
    return Finding("bad-value", f"{key!r} is not of the right form", place, found, expected, "correct the value")
