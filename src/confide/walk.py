"""The walk of a release: every function that ``confide run`` enters on its way to the sealed folder, in order.

    python -m confide.walk SPEC            the walk, indented as functions call one another
    python -m confide.walk SPEC --files    the files, in the order of the first visit
    python -m confide.walk SPEC --page     the walk as a page of the documentation

The command runs for real, in a folder that is thrown away, with a ledger of its own and a chosen key: nothing is spent,
and nothing is kept. What runs while modules are imported is not part of the walk. ``docs/walks`` has one for each
mechanism, written by this module from the examples of the contract suite (``make walks``).
"""

from __future__ import annotations

import argparse
import inspect
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
from confide.releases.ledger import Ledger
from confide.releases.spec import LoadedSpec

HOUSE = Path(__file__).parent
TRIAL_KEY = "0f" * 32


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
    with tempfile.TemporaryDirectory(prefix="confide-walk-") as folder, _instead(Path(folder)) as keyed:
        arguments = ["run", str(spec), "--processes", "1", "--json"]
        if keyed(spec):
            arguments += ["--insecure-key", TRIAL_KEY]
        steps = _Steps()
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            sys.setprofile(steps)
            try:
                app(arguments, standalone_mode=False)
            finally:
                sys.setprofile(None)
    imported = sum(name.partition(".")[0] == "confide" for name in sys.modules)
    return Walk(steps.visits, imported)


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


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m confide.walk", description=__doc__.partition("\n")[0])
    parser.add_argument("spec", type=Path, help="the spec of a release with few records")
    parser.add_argument("--files", action="store_true", help="list the files instead of the functions")
    parser.add_argument("--page", action="store_true", help="write the walk as a page of the documentation")
    chosen = parser.parse_args(arguments)
    taken = walk(chosen.spec)
    lines = [taken.as_text()]
    if chosen.files:
        lines = [*taken.files, "", taken.sentence]
    elif chosen.page:
        mechanism = api.load(chosen.spec).spec.release.mechanism
        lines = [f"# The walk of a release by `{mechanism}`", "", taken.sentence + ".", "", "```"]
        lines += [*taken.as_text().splitlines()[:-2], "```"]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
