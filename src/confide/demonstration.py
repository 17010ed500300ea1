"""Where to start: a commented spec, and a whole release on made-up people."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from confide import api
from confide.api import Evaluated
from confide.engines.files import write_text
from confide.errors import Finding, ParameterError, Place, RunError
from confide.report.render import render
from confide.runs.execute import RunResult
from confide.runs.ledger import Ledger
from confide.runs.progress import Progress, Silent
from confide.runs.verifying import Verification
from confide.runs.workspace import no_room_is_an_error

BUDGET = Fraction(1)
DATA_SET = "made-up state"


@dataclass(frozen=True)
class Demonstration:
    """What the demonstration made."""

    folder: Path
    persons: int
    run: RunResult
    verification: Verification
    evaluated: Evaluated


def new(
    mechanism: str, folder: Path, *, name: str = "my-release", title: str = "My release", budget: str = "1"
) -> Path:
    """A commented spec to start from, in ``folder``."""
    if mechanism not in api.MECHANISMS:
        raise ParameterError(
            Finding(
                code="mechanism",
                what="there is no such mechanism",
                found=mechanism,
                expected="one of " + ", ".join(api.MECHANISMS),
                remedy="correct the name",
            )
        )
    path = folder / "spec.toml"
    if path.exists():
        raise _there_already(path, "a spec")
    text = render(
        f"{mechanism}.toml.j2", name=name, title=title, ledger="data-set.ledger", budget=budget, file=path.name
    )
    with no_room_is_an_error(folder):
        folder.mkdir(parents=True, exist_ok=True)
        write_text(path, text + "\n", mode=0o644)
    return path


def demo(folder: Path, *, persons: int = 200_000, seed: int = 7, progress: Progress | None = None) -> Demonstration:
    """Made-up people, a ledger, a release, its verification and its dossier, in ``folder``."""
    shown = progress or Silent()
    if (folder / "spec.toml").exists() or (folder / "data-set.ledger").exists():
        raise _there_already(folder, "a demonstration")
    api.synthesize(folder, persons=persons, seed=seed, progress=shown)
    spec = new("tables", folder, name="demonstration", title="Demonstration: tables of a made-up state", budget="1/2")
    Ledger.open_new(
        folder / "data-set.ledger",
        data_set=DATA_SET,
        definition="zcdp",
        neighbours="change-one",
        budget=BUDGET,
        note="opened by confide demo for made-up people",
    )
    result = api.run(spec, progress=shown)
    return Demonstration(folder, persons, result, api.verify(result.release), api.evaluate(spec, progress=shown))


def _there_already(path: Path, what: str) -> RunError:
    return RunError(
        Finding(
            code="there-already",
            what=f"there is {what} already",
            where=Place(file=str(path)),
            found="files of that name",
            expected="a new folder",
            remedy="name another folder, or remove this one yourself",
        )
    )
