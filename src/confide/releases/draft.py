"""Where to start: the draft of a spec, and a ledger where it comes with a budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Literal

from confide.engines.groups import write_text
from confide.errors import ParameterError, Place, RunError
from confide.releases.ledger import Ledger

LEDGER = "data-set.ledger"
SPEC = "spec.toml"

LedgerNeighbours = Literal["change-one", "add-remove"]


@dataclass(frozen=True)
class Draft:
    """The text of a spec, and the budget of the ledger that goes with it."""

    text: str
    budget: Fraction | None = None
    neighbours: LedgerNeighbours = "change-one"
    secret: bool = False
    """Whether the text holds a secret, such as the settings of a swap."""
    secrets: Mapping[str, str] = field(default_factory=dict)
    """Secret files beside the spec, such as the order of a perturbation table: what each holds, by its name."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Other files beside the spec, by their names, such as a schema."""
    prepare: Callable[[Path], object] | None = None
    """What else has to be done in the folder, such as giving keys to records."""


def write_spec(path: Path, text: str, *, secret: bool = False) -> None:
    """Writes a spec, unless there is one already; for its owner alone if it holds a secret."""
    if path.exists():
        raise there_already(path, "a spec")
    write_text(path, text + "\n", mode=0o600 if secret else 0o644)


def keep_secrets(folder: Path, files: Mapping[str, str]) -> list[Path]:
    """Writes secret files for their owner alone. One that is there already stays as it is: secrets are drawn once.

    Args:
        folder: Where the spec is that names them.
        files: What each holds, by its name.

    Returns:
        The files that were written.
    """
    written = [folder / name for name in files if not (folder / name).exists()]
    for path in written:
        write_text(path, files[path.name])
    return written


def new_ledger(
    path: Path, data_set: str, budget: Fraction, note: str, *, neighbours: LedgerNeighbours = "change-one"
) -> Path:
    """A new ledger in zCDP with the given budget."""
    Ledger.open_new(path, data_set=data_set, definition="zcdp", neighbours=neighbours, budget=budget, note=note)
    return path


def one_of(what: str, name: str, names: Iterable[str]) -> str:
    """``name``, if it is one of those; raises with the names otherwise."""
    if name not in names:
        raise unknown_name(what, f"there is no such {what}", name, "one of " + ", ".join(names))
    return name


def no_product(mechanism: str, product: str | None) -> None:
    """Raises if a product is asked of a mechanism that has none."""
    if product is not None:
        raise unknown_name("product", f"the mechanism {mechanism!r} has no products", product, "no --product")


def unknown_name(code: str, what: str, found: str, expected: str) -> ParameterError:
    """The error for a name that is not one of those that there are."""
    return ParameterError(code, what, found=found, expected=expected, remedy="correct the name")


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
