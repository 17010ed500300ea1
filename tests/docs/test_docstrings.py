"""Public functions say what they take and give, and show it: what ``dir()`` of the package and of its rooms lists."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOMS = (
    "confide",
    *(f"confide.{room}" for room in ("noise", "privacy", "estimation", "schema", "geography", "utility")),
    *(f"confide.{room}" for room in ("releases", "inference", "report")),
    *(f"confide.lab.{room}" for room in ("attacks", "comparison", "population", "risk", "pl94")),
)
WITHOUT: dict[str, str] = {}
"""The functions that lack something, with what; it may only become shorter."""


@cache
def public() -> dict[str, Callable[..., Any]]:
    """Every public function by its first name; one that has several is there once."""
    functions: dict[int, tuple[str, Callable[..., Any]]] = {}
    for room in ROOMS:
        listed = import_module(room)
        for name in (each for each in dir(listed) if not each.startswith("_")):
            each = getattr(listed, name)
            if not inspect.isfunction(each):
                continue
            ours = each.__module__.startswith("confide") if hasattr(listed, "__path__") else each.__module__ == room
            if ours:
                functions.setdefault(id(each), (f"{room}.{name}", each))
    return dict(functions.values())


def lacking(function: Callable[..., Any]) -> Iterator[str]:
    """What the documentation of a function lacks."""
    text, signature = inspect.getdoc(function) or "", inspect.signature(function)
    section = text.partition("Args:\n")[2].partition("\n\n")[0]
    yield from (
        f"{name} in Args"
        for name, each in signature.parameters.items()
        if not any(line.strip().startswith(f"{name}: ") for line in section.splitlines())
    )
    if signature.return_annotation not in (None, "None") and not ("Returns:\n" in text or "Yields:\n" in text):
        yield "Returns"
    if ">>> " not in text or "doctest: +SKIP" in text:
        yield "an example"


def test_every_public_function_says_what_it_takes_and_gives_and_shows_it() -> None:
    """The examples run by `make doctest`, with the folders of `src/conftest.py`."""
    assert len(public()) > 160
    found = {name: ", ".join(lacking(function)) for name, function in public().items()}
    assert {name: what for name, what in found.items() if what} == WITHOUT


def test_what_is_lacking_is_noticed() -> None:
    def bare(number: int, other: int) -> int:
        """A function.

        Args:
            number: A number.
        """
        return number + other

    assert list(lacking(bare)) == ["other in Args", "Returns", "an example"]


def kernels() -> Iterator[tuple[str, str]]:
    """The source of every compiled function, by its place."""
    for path in sorted((ROOT / "src" / "confide").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "numba" in text else ():
            if isinstance(node, ast.FunctionDef) and any("njit" in ast.unparse(each) for each in node.decorator_list):
                yield f"{path.stem}.{node.name}", "\n".join(text.splitlines()[node.lineno - 1 : node.end_lineno])


def test_every_kernel_has_a_comment_at_its_steps() -> None:
    """One at least, and one for every twenty lines."""
    few = [name for name, text in kernels() if text.count(" # ") < max(1, text.count("\n") // 20)]
    assert len(list(kernels())) > 10
    assert few == []


ROOT = Path(__file__).parents[2]
OTHER_GRAMMAR = re.compile(
    r"\b(?:(?:is|are|was|were) told(?! apart)|catch(?:es)? the eye|besides)\b"
    r"|\bstands? (?:there|twice|in the (?!way)|beside)"
)
"""Words that are good grammar elsewhere. Messages that releases have are left: their bytes are promises."""
RELEASED = {"data/messages/en.toml", "mechanisms/safetab/statement.py", "mechanisms/safetab_h/statement.py"}


def plain_texts() -> Iterator[Path]:
    """Modules, texts of findings and pages of the documentation."""
    house = ROOT / "src" / "confide"
    yield from (path for path in house.rglob("*.py") if str(path.relative_to(house)) not in RELEASED)
    yield house / "data" / "messages" / "findings.en.toml"
    yield from (ROOT / "docs").rglob("*.md")
    yield from (ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"))


def test_sentences_name_who_does_what() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in plain_texts()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if OTHER_GRAMMAR.search(line)
    ]
    assert found == []


@pytest.mark.parametrize(
    "line", ["the curator is told of it", "a cell stands twice", "and five besides", "it catches the eye"]
)
def test_another_grammar_is_noticed(line: str) -> None:
    assert OTHER_GRAMMAR.search(line)
    assert not OTHER_GRAMMAR.search("X stands for two codes, which nobody can tell apart")
