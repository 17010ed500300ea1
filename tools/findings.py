"""The page of all findings: ``python tools/findings.py`` writes ``docs/findings.md`` from their texts and the code."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

from confide.messages import choices, code_of, texts_of_findings

ROOT = Path(__file__).parents[1]
HOUSE, PAGE = ROOT / "src" / "confide", ROOT / "docs" / "findings.md"
HEAD = """# Findings

What Confide finds wrong has a code that never changes.
This page lists every code by the room of the code that finds it, with what it means and, after the arrow, what to do.
Words in *italics* are the facts of the one case.

The texts are in `src/confide/data/messages/findings.en.toml`; `python tools/findings.py` writes this page.
"""


def parsed() -> dict[str, ast.Module]:
    """Every module by its place in the house."""
    files = sorted(HOUSE.rglob("*.py"))
    return {path.relative_to(HOUSE).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in files}


def rooms(modules: dict[str, ast.Module]) -> dict[str, str]:
    """For each key the first room whose code names it."""
    result: dict[str, str] = {}
    for place, module in modules.items():
        parts = place.split("/")
        room = "/".join(parts[:2] if parts[0] in ("mechanisms", "lab") else parts[:1]).removesuffix(".py")
        for node in ast.walk(module):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                result.setdefault(node.value, room)
    return result


def readable(text: str) -> str:
    """A text for a reader: facts in italics, of two choices both.

    >>> readable("{one:?one row|{rows:,} rows} of {name!r}")
    'one row/*rows* rows of *name*'
    """
    said = ""
    for before, name, form, _ in Formatter().parse(text):
        said += before
        if name is not None and form and form.startswith("?"):
            said += "/".join(filter(None, map(readable, choices(form))))
        elif name is not None:
            said += f"*{name.replace('_', ' ')}*"
    return said


def page(modules: dict[str, ast.Module]) -> str:
    """The page as it should be."""
    room_of, texts = rooms(modules), texts_of_findings()
    keys: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for key in texts:
        if key in room_of:
            keys[room_of[key]][code_of(key)].append(key)
    return HEAD + "".join(line for room in sorted(keys) for line in _section(room, keys[room]))


def _section(room: str, codes: dict[str, list[str]]) -> Iterator[str]:
    texts = texts_of_findings()
    yield f"\n## {room}\n\n"
    for code in sorted(codes):
        for key in sorted(codes[code]):
            remedy = texts[key].get("remedy")
            yield f"- `{code}`: {readable(texts[key]['what'])}" + (f" → {readable(remedy)}" if remedy else "") + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(parsed()), encoding="utf-8")
