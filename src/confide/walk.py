"""The walk of a release: every function that ``confide run`` enters on its way to the sealed folder, in order.

    python -m confide.walk SPEC            the walk, indented as functions call one another
    python -m confide.walk SPEC --files    the files, in the order of the first visit
    python -m confide.walk SPEC --page     the walk as a page of the documentation
    python -m confide.walk SPEC --trusted  the modules between the first record and the seal
    python -m confide.walk SPEC SPEC... --trusted --page   the same as a page, of several mechanisms

The modules between the first record and the seal are the *trusted base*, which an audit reads first. It begins where a
verb of the mechanism that reads records is entered, and ends when the folder of the release has its name.

The command runs for real, in a folder that is thrown away, with a ledger of its own and a chosen key: nothing is spent,
and nothing is kept. What runs while modules are imported is not part of the walk. ``docs/walks`` has one for each
mechanism and one of the trusted base, written by this module from the examples of the contract suite (``make walks``).
"""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path
from types import FrameType
from typing import Any

from confide import api
from confide.cli.main import app
from confide.releases import LoadedSpec, ReleaseWriter
from confide.releases.ledger import Ledger

HOUSE = Path(__file__).parent
TRIAL_KEY = "0f" * 32
READING = ("fingerprint", "check", "count")
"""The verbs of a mechanism that read records, up to the true counts."""


@dataclass(frozen=True)
class Visit:
    """The first time that a function is entered."""

    depth: int
    file: str
    function: str


@dataclass
class Walk:
    """The functions of the house that a release runs through, each at its first visit."""

    visits: list[Visit] = field(default_factory=list)
    modules: int = 0
    """How many modules of the house are imported at the end."""

    @property
    def files(self) -> list[str]:
        """The files in the order of the first visit, relative to the package."""
        return list(dict.fromkeys(visit.file for visit in self.visits))

    def as_text(self) -> str:
        """The walk, indented as functions call one another."""
        lines = [f"{'  ' * visit.depth}{visit.file}: {visit.function}" for visit in self.visits]
        return "\n".join([*lines, "", self.sentence])

    @property
    def sentence(self) -> str:
        """How long the walk is."""
        return f"{len(self.files)} files, {len(self.visits)} functions; {self.modules} modules imported"


def walk(spec: str | Path) -> Walk:
    """Runs a spec for a trial and writes down where it went.

    Args:
        spec: The spec file of a release of any mechanism. Its records are read; they should be few.

    Returns:
        The functions in the order in which they were first entered.
    """
    steps = _Steps()
    _run(spec, steps)
    imported = sum(name.partition(".")[0] == "confide" for name in sys.modules)
    return Walk(steps.visits, imported)


def trusted_base(spec: str | Path) -> list[str]:
    """Runs a spec for a trial and writes down which modules have to be trusted with its records.

    Args:
        spec: As for :func:`walk`, of our mechanisms or another package's.

    Returns:
        The files of the modules that are entered between the first record and the seal, sorted: ours
        relative to our package, those of another package beginning with its name.
    """
    steps = _Between(type(api.MECHANISMS[api.load(spec).spec.release.mechanism]))
    _run(spec, steps)
    if not steps.ended:
        raise RuntimeError("the release was not sealed")
    return sorted(map(_file_of, steps.modules))


def _file_of(module: str) -> str:
    file = Path(str(sys.modules[module].__file__))
    top = Path(str(sys.modules[module.partition(".")[0]].__file__))
    if top.parent == HOUSE:
        return file.relative_to(HOUSE).as_posix()
    return file.name if file == top and top.name != "__init__.py" else file.relative_to(top.parent.parent).as_posix()


def _run(spec: str | Path, steps: Any) -> None:
    """``confide run`` for a trial; ``steps`` is called at every entry and exit of a function."""
    with tempfile.TemporaryDirectory(prefix="confide-walk-") as folder, _instead(Path(folder)) as keyed:
        arguments = ["run", str(spec), "--processes", "1", "--json"]
        if keyed(spec):
            arguments += ["--insecure-key", TRIAL_KEY]
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            sys.setprofile(steps)
            try:
                app(arguments, standalone_mode=False)
            finally:
                sys.setprofile(None)


@contextmanager
def _instead(folder: Path) -> Iterator[Any]:
    """While it is open, every spec is loaded as one that writes into ``folder`` and is charged to a ledger there."""
    load = api.load

    def trial(path: str | Path) -> LoadedSpec:
        loaded = load(path)
        spec = loaded.spec
        output = spec.output.model_copy(update={"folder": str(folder / "run")})
        changes: dict[str, Any] = {"output": output}
        if api.MECHANISMS[spec.release.mechanism].accounted:
            changes["privacy"] = spec.privacy.model_copy(update={"ledger": str(_open_ledger(loaded, folder))})
        return replace(loaded, value=spec.model_copy(update=changes))

    api.load = trial
    try:
        yield lambda path: api.MECHANISMS[load(path).spec.release.mechanism].keyed
    finally:
        api.load = load


def _open_ledger(loaded: LoadedSpec, folder: Path) -> Path:
    path, privacy = folder / "trial.ledger", loaded.spec.privacy
    if not path.exists():
        Ledger.open_new(
            path,
            data_set="trial",
            definition=privacy.definition,
            neighbours=privacy.neighbours,
            budget=privacy.budget,
            delta=privacy.delta if privacy.definition == "approximate" else 0,
        )
    return path


class _Steps:
    """What :func:`sys.setprofile` calls at every entry and exit: keeps the first visit of each function."""

    def __init__(self) -> None:
        self.visits: list[Visit] = []
        self._known: set[Any] = set()
        self._depth = 0
        self._importing = 0

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if event not in ("call", "return"):
            return
        code = frame.f_code
        if not (code.co_filename.startswith(str(HOUSE)) and code.co_filename.endswith(".py")):
            return
        if code.co_filename == __file__:
            return
        step = 1 if event == "call" else -1
        if not code.co_flags & inspect.CO_OPTIMIZED:  # the body of a module or a class: it is being imported
            self._importing += step
            return
        if self._importing:
            return
        self._depth = max(self._depth + (0 if event == "call" else -1), 0)
        if event == "call":
            if code not in self._known:
                self._known.add(code)
                file = Path(code.co_filename).relative_to(HOUSE).as_posix()
                self.visits.append(Visit(self._depth, file, code.co_qualname))
            self._depth += 1


class _Between:
    """What :func:`sys.setprofile` calls: keeps the modules that are entered between the first record and the seal.

    Modules are found by the names that functions see, so that functions which a decorator has made count as well.
    """

    def __init__(self, mechanism: type) -> None:
        self.modules: set[str] = set()
        self.ended = False
        self._tops = {"confide", mechanism.__module__.partition(".")[0]}
        self._begins = {getattr(mechanism, verb).__code__ for verb in READING}
        self._begun = False

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if event not in ("call", "return") or self.ended:
            return
        code = frame.f_code
        self._begun = self._begun or code in self._begins
        if event == "return":
            self.ended = code is ReleaseWriter.seal.__code__
        elif self._begun and code.co_flags & inspect.CO_OPTIMIZED:
            module = frame.f_globals.get("__name__", "")
            if module.partition(".")[0] in self._tops:
                self.modules.add(module)


def trusted_page(specs: Sequence[str | Path]) -> str:
    """The trusted base of several mechanisms as a page of the documentation.

    Args:
        specs: One spec for each mechanism. Each is walked in an interpreter of its own, where nothing is cached.

    Returns:
        The page: how many modules each mechanism needs, and every module with what it is and for whom.
    """
    bases = {}
    for spec in specs:
        command = [sys.executable, "-m", "confide.walk", str(spec), "--trusted"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
        bases[api.load(spec).spec.release.mechanism] = [line for line in done.stdout.splitlines() if ".py" in line]
    modules = sorted(set().union(*bases.values()), key=lambda file: ("/" in file, file))
    lines = [*TRUSTED_HEAD.format(modules=len(modules), house=len([*HOUSE.rglob("*.py")])).splitlines(), ""]
    lines += ["| mechanism | modules |", "|---|---|", *(f"| `{name}` | {len(base)} |" for name, base in bases.items())]
    lines += ["", "| module | what it is | needed by |", "|---|---|---|"]
    for file in modules:
        users = [name for name, base in bases.items() if file in base]
        needed = "all" if len(users) == len(bases) else ", ".join(users)
        lines.append(f"| `{file}` | {first_sentence(HOUSE / file)} | {needed} |")
    return "\n".join(lines)


TRUSTED_HEAD = (
    "# The trusted base\n"
    "\n"
    "These modules run between the moment when a release reads its first record and the moment when its folder "
    "is sealed.\n"
    "An audit of what could harm a record reads them first: {modules} of the {house} modules of Confide for "
    "all mechanisms together, fewer for each.\n"
    "What comes before (spec, plan) sees no record, and what comes after (opening, inference, the studio) sees "
    "the sealed folder; the laboratory is needed for neither.\n"
    "`make walks` writes this page from the examples of the contract suite; nobody writes it by hand.\n"
    "Options that no example takes, records that are wrong and a cluster enter more modules, and those that "
    "have only types and constants are not listed.\n"
    "For a spec of your own, also of a mechanism that another package has: `python -m confide.walk SPEC "
    "--trusted`.\n"
    "Python itself and the packages of [dependencies](../dependencies.md) are trusted as well."
)


def first_sentence(file: Path) -> str:
    """What a module says of itself first, for a cell of a table; nothing, if it says nothing."""
    said = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    sentence = re.split(r"(?<=\.) (?=[A-Z])", " ".join(said.partition("\n\n")[0].split()))[0]
    return sentence.replace("``", "`").replace("|", "\\|")


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m confide.walk", description=__doc__.partition("\n")[0])
    parser.add_argument("spec", type=Path, nargs="+", help="the spec of a release with few records")
    parser.add_argument("--files", action="store_true", help="list the files instead of the functions")
    parser.add_argument("--page", action="store_true", help="write the walk as a page of the documentation")
    parser.add_argument("--trusted", action="store_true", help="list the modules between the first record and the seal")
    chosen = parser.parse_args(arguments)
    if chosen.trusted and chosen.page:
        sys.stdout.write(trusted_page(chosen.spec) + "\n")
        return
    if len(chosen.spec) > 1:
        parser.error("several specs make one page: --trusted --page")
    (spec,) = chosen.spec
    if chosen.trusted:
        base = trusted_base(spec)
        sys.stdout.write("\n".join([*base, "", f"{len(base)} modules between the first record and the seal"]) + "\n")
        return
    taken = walk(spec)
    lines = [taken.as_text()]
    if chosen.files:
        lines = [*taken.files, "", taken.sentence]
    elif chosen.page:
        mechanism = api.load(spec).spec.release.mechanism
        lines = [f"# The walk of a release by `{mechanism}`", "", taken.sentence + ".", "", "```"]
        lines += [*taken.as_text().splitlines()[:-2], "```"]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
