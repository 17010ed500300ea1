"""The texts of findings and the places that use them agree: every key has texts, every place of a text is given."""

from __future__ import annotations

import ast
import re
import runpy
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from string import Formatter

from tests.kits.source import calls, nodes, trees

from confide.messages import FIELDS, code_of, texts_of_findings

ROOT = Path(__file__).parents[2]
FORM = re.compile(r"[a-z0-9._]+(-[a-z0-9_]+)*(/[a-z0-9]+(-[a-z0-9]+)*)?")
"""The form of a key."""
OWN = {"where", "found", "code", "severity"}
"""What a finding has of itself, whatever its texts say."""
OF_A_KEY = {"Finding.of", "Problem.of"}
"""What makes a finding of a key, beside the errors."""


@cache
def errors() -> set[str]:
    """The names of all errors that carry findings, by the classes as they are written."""
    names = {"ConfideError"}
    classes = [node for place in trees() for node in nodes(place) if isinstance(node, ast.ClassDef)]
    for _ in range(5):
        names |= {
            each.name
            for each in classes
            if {getattr(base, "id", getattr(base, "attr", "")) for base in each.bases} & names
        }
    return names


def functions_of_calls(place: str) -> dict[int, ast.FunctionDef]:
    """The innermost function around each call of a module, by the identity of the call."""
    result: dict[int, ast.FunctionDef] = {}
    waiting: list[tuple[ast.AST, ast.FunctionDef | None]] = [(trees()[place], None)]
    while waiting:
        node, around = waiting.pop()
        if isinstance(node, ast.Call) and around is not None:
            result[id(node)] = around
        inner = node if isinstance(node, ast.FunctionDef) else around
        waiting += [(child, inner) for child in ast.iter_child_nodes(node)]
    return result


def callee_of(call: ast.Call) -> str:
    """What is called, with its dots but without its module; nothing where that is no name."""
    names, node = [], call.func
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    dotted = ".".join(reversed([*names, node.id if isinstance(node, ast.Name) else ""]))
    return re.sub(r"^(?:[a-z_]+\.)+(?=[A-Z])", "", dotted)


@dataclass(frozen=True)
class Use:
    """A call that names the key of a text."""

    place: str
    key: str
    others: tuple[str, ...]
    """The other keys that may stand in the same call."""
    facts: frozenset[str]
    open: bool
    """Whether it hands on facts that its own callers give."""


def places_of(text: str) -> set[str]:
    """The names of the places of a text, those inside of choices with them."""
    names = set()
    for _, name, form, _ in Formatter().parse(text):
        if name is not None:
            names.add(name)
            names |= places_of(form or "")
    return names


@cache
def wanted(key: str) -> set[str]:
    return set().union(*(places_of(text) for text in texts_of_findings()[key].values()))


@cache
def given_to(function: ast.AST) -> dict[str, list[ast.expr]]:
    """What a function gives to each name."""
    given = defaultdict(list)
    for each in ast.walk(function):
        if isinstance(each, ast.Assign) and len(each.targets) == 1 and isinstance(each.targets[0], ast.Name):
            given[each.targets[0].id].append(each.value)
    return given


def literals(node: ast.expr, function: ast.AST | None) -> list[str]:
    """The keys that an expression may be: a text, one of two, or a name that was given such texts before."""
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) else []
    if isinstance(node, ast.IfExp):
        return literals(node.body, function) + literals(node.orelse, function)
    if isinstance(node, ast.Name) and function is not None:
        return [text for value in given_to(function).get(node.id, ()) for text in literals(value, None)]
    return []


@cache
def uses() -> list[Use]:
    return list(_uses())


def _uses() -> Iterator[Use]:
    """Every call that names a key, with the facts that it gives. A helper that takes the key from its callers adds the
    facts that it gives itself; what it takes for other purposes is no fact."""
    known, raising = set(texts_of_findings()), errors()
    for place in trees():
        inside = functions_of_calls(place)
        for call in calls(place):
            candidates = [key for given in call.args[:2] for key in literals(given, inside.get(id(call)))]
            if not candidates:
                continue
            callee = callee_of(call)
            name = callee.rpartition(".")[2]
            direct = callee in OF_A_KEY or name in raising
            helper = helpers().get((place, name)) or helpers().get(("", name))
            keys = candidates if direct and not helper else [key for key in candidates if key in known or _variant(key)]
            if not keys or not (direct or helper):
                continue
            facts = {keyword.arg for keyword in call.keywords if keyword.arg is not None} - OWN
            extra = helper[1] if helper else set()
            for key in keys:
                own = facts - (helper[0] if helper else set()) | (extra & (wanted(key) if key in known else set()))
                spread = any(keyword.arg is None for keyword in call.keywords)
                yield Use(f"{place}:{call.lineno}", key, tuple(keys), frozenset(own), spread)


@cache
def codes() -> set[str]:
    return {code_of(key) for key in texts_of_findings()}


def _variant(key: str) -> bool:
    """Whether a text is meant as the variant of a code that there is."""
    return bool(FORM.fullmatch(key)) and "/" in key and code_of(key) in codes()


@cache
def helpers() -> dict[tuple[str, str], tuple[set[str], set[str]]]:
    """Functions that take a key and facts from their callers, by module and name, the public ones by name alone: their
    own parameters, and the facts that they add."""
    result: dict[tuple[str, str], tuple[set[str], set[str]]] = {}
    raising = errors()
    for place in trees():
        for function in (node for node in nodes(place) if isinstance(node, ast.FunctionDef)):
            if function.args.kwarg is None or function.args.kwarg.arg != "facts" or function.name in ("of", "__init__"):
                continue
            given = {
                keyword.arg
                for call in ast.walk(function)
                if isinstance(call, ast.Call) and (callee_of(call) in raising or callee_of(call) in OF_A_KEY)
                for keyword in call.keywords
                if keyword.arg
            }
            names = {each.arg for each in function.args.args + function.args.kwonlyargs}
            result[place if function.name.startswith("_") else "", function.name] = (names, given - OWN)
    return result


def test_every_key_that_is_named_has_texts_and_every_text_is_named() -> None:
    named = {use.key for use in uses()}
    assert sorted(named - set(texts_of_findings())) == []
    unnamed = set(texts_of_findings()) - named - {code_of(key) for key in named if "/" in key}
    assert sorted(unnamed) == []


def test_every_place_of_a_text_is_given_and_no_fact_too_many() -> None:
    known, wrong = texts_of_findings(), []
    for use in uses():
        if use.key not in known or use.open:
            continue
        lacking = wanted(use.key) - use.facts
        needed = set().union(*(wanted(key) for key in use.others if key in known))
        if lacking or use.facts - needed:
            wrong.append((use.place, use.key, sorted(lacking), sorted(use.facts - needed)))
    assert wrong == []


def test_every_text_says_what_is_wrong_and_has_nothing_else() -> None:
    for key, texts in texts_of_findings().items():
        assert {"what"} <= set(texts) <= set(FIELDS), key
        assert FORM.fullmatch(key), key


def test_the_page_of_findings_is_current() -> None:
    """`python tools/findings.py` writes it."""
    page = runpy.run_path(str(ROOT / "tools" / "findings.py"))["page"]
    assert (ROOT / "docs" / "findings.md").read_text(encoding="utf-8") == page(trees())
