"""Manual pages of the commands, made from the commands themselves: ``python tools/man_pages.py DIR``.

A page for ``confide`` and one for each command, ``confide-ledger-open.1`` and the like, in the language of ``man``. And
one page of all commands with the Python call beside each: ``python tools/man_pages.py --page`` writes
``docs/reference/commands.md``.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

import confide
from confide.cli.commands import Later, examples, name_of
from confide.cli.main import app
from confide.lazy_names import named
from confide.version import __version__

EXIT = (
    ("0", "done"),
    ("1", "findings, or refused; nothing was spent that is not said"),
    ("2", "wrong usage"),
    ("3", "an error of Confide itself"),
)


def man_pages() -> dict[str, str]:
    """The text of every page, by the name of its file.

    >>> sorted(man_pages())[:2]
    ['confide-account-convert.1', 'confide-account-release.1']
    """
    root = typer.main.get_command(app)
    return {f"{'-'.join(path)}.1": _page(path, command) for path, command in _commands(("confide",), root)}


def _commands(path: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(command, Later):
        command = command.load()
    yield path, command
    below = getattr(command, "commands", {}) | getattr(command, "within", {})
    for name, inner in below.items():
        yield from _commands((*path, name), inner)


PAGE = Path(__file__).parents[1] / "docs" / "reference" / "commands.md"
HEAD = """# Commands

Every command, its options and settings, an example, and the Python function that answers it.
A setting is given as `--set NAME=VALUE`, or as the option that is listed.
The column *argument* says how the function calls it; what has none is a matter of the command line alone.
`python tools/man_pages.py --page` writes this page from the functions themselves.
"""


def reference_page() -> str:
    """The page of all commands."""
    exported = {id(getattr(confide, name)): f"confide.{name}" for name in dir(confide)}
    parts = [HEAD.rstrip("\n")]
    for path, command in _commands(("confide",), typer.main.get_command(app)):
        if not hasattr(command, "commands"):
            parts += _section(path, command, exported)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(parts)).rstrip("\n") + "\n"


def _section(path: Sequence[str], command: Any, exported: Mapping[int, str]) -> Iterator[str]:
    verb = command.verb
    calls = [_call(place, own, exported) for place, own in verb.taken_by.items()]
    yield f"\n\n## {' '.join(path)}\n"
    for part in (command.help or "").split("\n\n"):
        yield re.sub(r"(?<=[.!?]) (?=[A-Z`])", "\n", " ".join(part.split())) + "\n"
    yield f"Example: `{examples()[' '.join(path[1:])]}`\n"
    yield f"Python: {', or '.join(f'`{call}`' for call in dict.fromkeys(calls))}\n"
    rows = [
        _row(each, verb.asked) for each in (*command.params, *getattr(command, "folded", ())) if not _is_common(each)
    ]
    if rows:
        yield "| option | argument | default | meaning |\n|---|---|---|---|"
        yield from rows


def _call(place: str, own: Mapping[str, Any], exported: Mapping[int, str]) -> str:
    module, _, path = place.partition(":")
    owner, dot, method = path.partition(".")
    called = exported.get(id(named(f"{module}:{owner}")), f"{module}.{owner}")
    needed = [argument for argument, each in own.items() if each.needed]
    made = f"({needed.pop(0)}).{method}" if dot else ""
    return f"{called}{made}({', '.join(needed)})"


def _is_common(option: Any) -> bool:
    return option.name in ("help", "as_json") or "--set" in option.opts


def _row(option: Any, asked: Collection[str]) -> str:
    placed = option.param_type_name == "argument"
    names = _called(option) if placed else ", ".join(option.opts + option.secondary_opts)
    default = (
        "" if option.default is None or option.default is False else getattr(option.default, "value", option.default)
    )
    argument = f"`{option.name}`" if option.name in asked else ""
    meaning = " ".join((option.help or "").split()).replace("|", "\\|")
    shown = "needed" if option.required else f"`{default}`" if default != "" else ""
    return f"| `{names}` | {argument} | {shown} | {meaning} |"


def _page(path: Sequence[str], command: Any) -> str:
    name = "-".join(path)
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    options = [each for each in command.params if each.param_type_name == "option" and not each.hidden]
    inner = getattr(command, "commands", {})
    usage = [*path, *(["COMMAND"] if inner else []), *(["[OPTIONS]"] if options else [])]
    usage += [_called(each) for each in arguments]
    lines = [
        f'.TH "{name.upper()}" "1" "" "Confide {__version__}" "Confide"',
        ".SH NAME",
        _plain(f"{name} - {_first_sentence(command.help or '')}"),
        ".SH SYNOPSIS",
        _plain(" ".join(usage)),
        ".SH DESCRIPTION",
        *(line for part in (command.help or "").split("\n\n") for line in (".PP", _plain(" ".join(part.split())))),
    ]
    settings, common = getattr(command, "settings", ()), getattr(command, "common", ())
    listings = {
        "ARGUMENTS": {_called(each): each for each in arguments},
        "OPTIONS": {", ".join(each.opts + each.secondary_opts): each for each in (*options, *common)},
        "SETTINGS": {f"--set {name_of(each)}=": each for each in settings},
    }
    for title, listed in listings.items():
        if listed:
            lines.append(f".SH {title}")
            for names, each in listed.items():
                lines += [".TP", f"\\fB{_plain(names)}\\fR", _plain(" ".join((each.help or "").split()) or "-")]
    if inner:
        lines.append(".SH COMMANDS")
        for called, each in inner.items():
            lines += [".TP", f"\\fB{_plain(called)}\\fR", _plain(_first_sentence(each.help or ""))]
    if example := examples().get(" ".join(path[1:])):
        lines += [".SH EXAMPLE", ".PP", _plain(example)]
    lines += [".SH EXIT STATUS", *(line for code, said in EXIT for line in (".TP", code, said))]
    return "\n".join(lines) + "\n"


def _called(argument: Any) -> str:
    return str(argument.metavar or argument.name.upper())


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=\.)\s", " ".join(text.split()))[0].rstrip(".")


def _plain(text: str) -> str:
    """A text in which nothing is a command of the page."""
    escaped = re.sub(r"\[/?[a-z ]+\]", "", text).replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped


def write_man_pages(folder: Path) -> list[Path]:
    """Writes every page into a folder.

    Args:
        folder: Is made, if it is not there.

    Returns:
        The files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    pages = man_pages()
    for name, text in pages.items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
    return [folder / name for name in pages]


if __name__ == "__main__":
    if sys.argv[1:] == ["--page"]:
        PAGE.parent.mkdir(exist_ok=True)
        PAGE.write_text(reference_page(), encoding="utf-8", newline="\n")
        sys.exit()
    written = write_man_pages(Path(sys.argv[1] if len(sys.argv) > 1 else "man"))
    sys.stdout.write(f"{len(written)} pages in {written[0].parent}: man {written[0]}\n")
