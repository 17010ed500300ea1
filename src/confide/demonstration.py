"""Where to start: a commented spec, and a whole release on made-up people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from confide import api, official_safetab
from confide.engines.files import write_text
from confide.errors import Finding, ParameterError, Place, RunError
from confide.report.dossier import Evaluated
from confide.report.render import render
from confide.runs.execute import RunResult
from confide.runs.ledger import Ledger
from confide.runs.progress import Progress, Silent
from confide.runs.verifying import Verification
from confide.runs.workspace import no_room_is_an_error
from confide.safetab.official.folder import DATA, PARAMETERS
from confide.safetab.tuning.production import production_settings
from confide.topdown.strategies.file import load_strategy
from confide.topdown.strategies.strategy import Strategy

LEDGER = "data-set.ledger"
DATA_SET = "made-up state"
PRODUCTS = {"pl94-persons": "persons", "pl94-units": "units"}
"""The products of ``topdown``: strategies that ship, and what they are about."""
WITH_TEMPLATES = ("tables", "topdown", "safetab")
"""The mechanisms that :func:`new` writes a spec for."""
QUARTERS = tuple(f"gq{kind}" for kind in range(1, 8))


@dataclass(frozen=True)
class Made:
    """One release of the demonstration, looked at by its reader and by its curator."""

    run: RunResult
    verification: Verification
    evaluated: Evaluated


@dataclass(frozen=True)
class Demonstration:
    """What the demonstration made."""

    folder: Path
    persons: int
    releases: Mapping[str, Made]

    @property
    def ok(self) -> bool:
        """Whether every release is as it was sealed."""
        return all(made.verification.ok for made in self.releases.values())


@dataclass(frozen=True)
class New:
    """A spec to start from, and the ledger that was opened for it, if one was."""

    spec: Path
    ledger: Path | None


def new(
    mechanism: str, folder: Path, *, product: str | None = None, open_ledger: bool | None = None, **values: str
) -> New:
    """A commented spec to start from, in ``folder``; where it comes with a budget, with a ledger of that budget."""
    _known("mechanism", "mechanism", mechanism, WITH_TEMPLATES)
    path = folder / "spec.toml"
    if mechanism == "topdown":
        strategy = load_strategy(_known("product", "product", product or "pl94-persons", PRODUCTS), root="state")
        text = _topdown(strategy, path, **values)
        amount = strategy.budget
    elif mechanism == "safetab" and product is None:
        settings = replace(production_settings(), puerto_rico=False)
        settings = replace(settings, levels=settings.passes["US"])
        files = {key: f"{stem}.txt" for key, stem in (PARAMETERS | DATA).items()}
        named = {"name": "detailed-groups", "title": "Detailed race and ethnicity groups"} | values
        text = official_safetab.spec_text(settings, files, **named, ledger=LEDGER, file=path.name)
    elif product is not None:
        raise _unknown("product", f"the mechanism {mechanism!r} has no products", product, "no --product")
    else:
        amount = Fraction(1)
        text = render(
            "tables.toml.j2",
            **{"name": "my-release", "title": "My release", "budget": "1"} | values,
            ledger=LEDGER,
            file=path.name,
        )
    with no_room_is_an_error(folder):
        folder.mkdir(parents=True, exist_ok=True)
        _write(path, text)
        opened = mechanism != "tables" if open_ledger is None else open_ledger
        if not opened or (folder / LEDGER).exists():
            return New(path, None)
        if mechanism == "safetab":
            return New(path, official_safetab.open_ledger(folder / LEDGER, settings, "my-data-set"))
        return New(path, _open_ledger(folder / LEDGER, "my-data-set", amount, "opened by confide new for one release"))


def demo(folder: Path, *, persons: int = 200_000, seed: int = 7, progress: Progress | None = None) -> Demonstration:
    """Made-up people, a ledger, and the persons and units of the redistricting data: released, verified, evaluated."""
    shown = progress or Silent()
    specs = {about: folder / f"{about}.toml" for about in PRODUCTS.values()}
    _only_new(folder)
    api.synthesize(folder, persons=persons, seed=seed, progress=shown)
    strategies = {about: load_strategy(product, root="state") for product, about in PRODUCTS.items()}
    for about, path in specs.items():
        title = f"Demonstration: {about} of a made-up state"
        _write(path, _topdown(strategies[about], path, name=about, title=title, facilities="yes"))
    budget = sum((strategy.budget for strategy in strategies.values()), Fraction(0))
    _open_ledger(folder / LEDGER, DATA_SET, budget, "opened by confide demo for made-up people")
    releases = {}
    for about, path in specs.items():
        shown.note(f"The {about}:")
        result = api.run(path, progress=shown)
        releases[about] = Made(result, api.verify(result.release), api.evaluate(path, progress=shown))
    return Demonstration(folder, persons, releases)


def demo_safetab(
    folder: Path, *, persons: int = 200_000, seed: int = 7, progress: Progress | None = None
) -> Demonstration:
    """Made-up people with detailed race and ethnicity codes, in the official layout: released, verified, evaluated."""
    shown = progress or Silent()
    _only_new(folder)
    official = api.synthesize_detailed(folder, persons=persons, seed=seed, progress=shown)
    spec = official_safetab.convert(official.parameters, official.data, folder)
    result = api.run(spec, progress=shown)
    made = Made(result, api.verify(result.release), api.evaluate(spec, progress=shown))
    return Demonstration(folder, persons, {"detailed groups": made})


def _topdown(strategy: Strategy, path: Path, *, facilities: str = "", **values: str) -> str:
    about = PRODUCTS[strategy.id]
    return render(
        "topdown.toml.j2",
        **{"name": about, "title": strategy.title} | values,
        strategy=strategy,
        attributes=["geocode", *(attribute.name for attribute in strategy.schema.attributes)],
        counted=about == "units",
        facilities=facilities,
        quarters=QUARTERS,
        ledger=LEDGER,
        budget=str(strategy.budget),
        file=path.name,
    )


def _only_new(folder: Path) -> None:
    if folder.exists() and any(folder.iterdir()):
        raise _there_already(folder, "something in the folder")


def _write(path: Path, text: str) -> None:
    if path.exists():
        raise _there_already(path, "a spec")
    write_text(path, text + "\n", mode=0o644)


def _open_ledger(path: Path, data_set: str, budget: Fraction, note: str) -> Path:
    Ledger.open_new(path, data_set=data_set, definition="zcdp", neighbours="change-one", budget=budget, note=note)
    return path


def _known(code: str, what: str, name: str, known: Iterable[str]) -> str:
    if name not in known:
        raise _unknown(code, f"there is no such {what}", name, "one of " + ", ".join(known))
    return name


def _unknown(code: str, what: str, found: str, expected: str) -> ParameterError:
    return ParameterError(Finding(code, what, found=found, expected=expected, remedy="correct the name"))


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
