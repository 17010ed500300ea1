"""Where to start: a commented spec for each mechanism, and a ledger where it comes with a budget."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Literal

from confide import official_safetab
from confide.documents import shipped
from confide.engines.atomic_files import write_text
from confide.errors import ParameterError, Place, RunError
from confide.mechanisms.safetab.official.folder import DATA, PARAMETERS
from confide.mechanisms.safetab.tuning.question import production_settings
from confide.mechanisms.topdown.strategies.file import load_strategy
from confide.mechanisms.topdown.strategies.strategy import Strategy
from confide.releases.ledger import Ledger
from confide.releases.workspace import no_room_is_an_error
from confide.report.render import render

LEDGER = "data-set.ledger"
SPEC = "spec.toml"
COMPARISON = "comparison"
PRODUCTS = {"pl94-persons": "persons", "pl94-units": "units"}
"""The products of ``topdown``: strategies that ship, and what they are about."""
QUARTERS = tuple(f"gq{kind}" for kind in range(1, 8))


@dataclass(frozen=True)
class New:
    """A spec to start from, and the ledger that was opened for it, if one was."""

    spec: Path
    ledger: Path | None


@dataclass(frozen=True)
class Draft:
    """The text of a spec, and the budget of the ledger that goes with it."""

    text: str
    budget: Fraction | None = None
    neighbours: Literal["change-one", "add-remove"] = "change-one"
    opened: bool = True
    """Whether a ledger is opened unless somebody says otherwise."""
    secret: bool = False
    """Whether the text holds a secret, such as the order of a perturbation table."""


def new(
    mechanism: str, folder: Path, *, product: str | None = None, open_ledger: bool | None = None, **values: str
) -> New:
    """A commented spec to start from, in ``folder``; where it comes with a budget, with a ledger of that budget."""
    drafts = DRAFTS | NO_RELEASES
    draft = drafts[known("mechanism", mechanism, drafts)](product, values)
    with no_room_is_an_error(folder):
        folder.mkdir(parents=True, exist_ok=True)
        write_spec(folder / SPEC, draft.text, secret=draft.secret)
        opened = draft.opened if open_ledger is None else open_ledger
        if draft.budget is None or not opened or (folder / LEDGER).exists():
            return New(folder / SPEC, None)
        note = "opened by confide new for one release"
        return New(
            folder / SPEC,
            new_ledger(folder / LEDGER, "my-data-set", draft.budget, note, neighbours=draft.neighbours),
        )


def topdown_spec(strategy: Strategy, file: str, *, facilities: str = "", **values: str) -> str:
    """A spec of a product of TopDown."""
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
        file=file,
    )


def cellkey_spec(file: str, tables: Iterable[Mapping[str, object]], **values: str) -> str:
    """A spec of the cell key method."""
    named = {"name": "my-tables", "title": "My tables", "records": "keyed.parquet", "schema": "persons"}
    return render(
        "cellkey.toml.j2",
        **named | {"D": "5", "V": "2", "js": "0", "shuffle": secrets.token_hex(32)} | values,
        tables=tables,
        file=file,
    )


def swapping_spec(file: str, tables: Iterable[Mapping[str, object]], **values: str) -> str:
    """A spec of swapped data; ``settings`` names shipped ones, by default households are chosen by their risk."""
    named = {"name": "my-swap", "title": "My swapped tables", "records": "persons.parquet", "blocks": "blocks.parquet"}
    return render(
        "swapping.toml.j2", **named | {"schema": "persons", "settings": ""} | values, tables=tables, file=file
    )


def suppression_spec(file: str, tables: Iterable[Mapping[str, object]], **values: str) -> str:
    """A spec of tables with suppressed cells."""
    named = {"name": "my-tables", "title": "My tables", "records": "persons.parquet", "blocks": "blocks.parquet"}
    return render("suppression.toml.j2", **named | {"schema": "persons"} | values, tables=tables, file=file)


def write_spec(path: Path, text: str, *, secret: bool = False) -> None:
    """A spec, unless there is one already; for its owner alone if it holds a secret."""
    if path.exists():
        raise there_already(path, "a spec")
    write_text(path, text + "\n", mode=0o600 if secret else 0o644)


def new_ledger(
    path: Path,
    data_set: str,
    budget: Fraction,
    note: str,
    *,
    neighbours: Literal["change-one", "add-remove"] = "change-one",
) -> Path:
    """A ledger in zCDP."""
    Ledger.open_new(path, data_set=data_set, definition="zcdp", neighbours=neighbours, budget=budget, note=note)
    return path


def known(what: str, name: str, names: Iterable[str]) -> str:
    """``name``, if it is one of those."""
    if name not in names:
        raise _unknown(what, f"there is no such {what}", name, "one of " + ", ".join(names))
    return name


def there_already(path: Path, what: str) -> RunError:
    """The error for a place that is taken."""
    return RunError(
        "there-already",
        f"there is {what} already",
        where=Place(file=str(path)),
        found="files of that name",
        expected="a new folder",
        remedy="name another folder, or remove this one yourself",
    )


def _tables(product: str | None, values: Mapping[str, str]) -> Draft:
    _no_product("tables", product)
    named = {"name": "my-release", "title": "My release", "budget": "1"} | dict(values)
    return Draft(render("tables.toml.j2", **named, ledger=LEDGER, file=SPEC), Fraction(1), opened=False)


def _topdown(product: str | None, values: Mapping[str, str]) -> Draft:
    strategy = load_strategy(known("product", product or "pl94-persons", PRODUCTS), root="state")
    return Draft(topdown_spec(strategy, SPEC, **values), strategy.budget)


def _safetab(product: str | None, values: Mapping[str, str]) -> Draft:
    _no_product("safetab", product)
    settings = replace(production_settings(), puerto_rico=False)
    settings = replace(settings, levels=settings.passes["US"])
    files = {key: f"{stem}.txt" for key, stem in (PARAMETERS | DATA).items()}
    named = {"name": "detailed-groups", "title": "Detailed race and ethnicity groups"} | dict(values)
    text = official_safetab.spec_text(settings, files, **named, ledger=LEDGER, file=SPEC)
    return Draft(text, settings.total, "add-remove")


def _cellkey(product: str | None, values: Mapping[str, str]) -> Draft:
    _no_product("cellkey", product)
    tables = [
        {"name": "age-by-sex", "variables": ["sex", "age:five-year"]},
        {"name": "origin", "variables": ["sex", "hispanic", "cenrace:major"]},
    ]
    return Draft(cellkey_spec(SPEC, tables, **values), secret=True)


def _swapping(product: str | None, values: Mapping[str, str]) -> Draft:
    tables = [
        {"name": "population", "variables": ["votingage"], "levels": ["county", "tract", "block"]},
        {"name": "age-by-sex", "variables": ["sex", "age:five-year"], "levels": ["county", "tract"]},
        {"name": "origin", "variables": ["hispanic", "cenrace:major"], "levels": ["county", "tract", "block"]},
    ]
    settings = "" if product is None else known("product", product, shipped("swapping"))
    return Draft(swapping_spec(SPEC, tables, **{"settings": settings} | dict(values)), secret=True)


def _suppression(product: str | None, values: Mapping[str, str]) -> Draft:
    _no_product("suppression", product)
    tables = [
        {"name": "age-by-sex", "variables": ["sex", "age:ten-year", "age:five-year"], "levels": ["state", "county"]},
        {"name": "origin", "variables": ["hispanic", "cenrace:major"], "levels": ["state", "county", "tract"]},
    ]
    return Draft(suppression_spec(SPEC, tables, **values))


def _comparison(product: str | None, values: Mapping[str, str]) -> Draft:
    _no_product("comparison", product)
    named = {"title": "A made-up state, protected in six ways", "made_up": "100000"} | dict(values)
    return Draft(render("comparison.toml.j2", **named, file=SPEC))


def _no_product(mechanism: str, product: str | None) -> None:
    if product is not None:
        raise _unknown("product", f"the mechanism {mechanism!r} has no products", product, "no --product")


def _unknown(code: str, what: str, found: str, expected: str) -> ParameterError:
    return ParameterError(code, what, found=found, expected=expected, remedy="correct the name")


DRAFTS: dict[str, Callable[[str | None, Mapping[str, str]], Draft]] = {
    "tables": _tables,
    "topdown": _topdown,
    "safetab": _safetab,
    "cellkey": _cellkey,
    "swapping": _swapping,
    "suppression": _suppression,
}
"""The mechanisms that a spec can be begun for."""
NO_RELEASES = {COMPARISON: _comparison}
"""Other specs."""
