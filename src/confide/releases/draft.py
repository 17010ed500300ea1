"""Where to start: the draft of a spec, a ledger where it comes with a budget, and drafts from an office's own files.

From an office's files come the schema, the table of areas, a strategy, and what all specs have in common.
"""

from __future__ import annotations

import copy
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

from confide.errors import ParameterError, Place, RunError
from confide.file_system import write_text
from confide.inputs import ColumnProposal, FileLook, OfficeFiles, PlacesProposal
from confide.inputs.column_proposal import NOT_STATED, free_name
from confide.inputs.office import table_name
from confide.releases.ledger import Ledger, UnitName
from confide.releases.spec import LoadedSpec, named_files
from confide.report.rendering import render

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
    unit: UnitName = "record"
    """What the ledger is kept in."""


def write_spec(path: Path, text: str, *, secret: bool = False) -> None:
    """Writes a spec, unless there is one already; for its owner alone if it holds a secret."""
    if path.exists():
        raise RunError("there-already/spec", where=Place(file=str(path)))
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
    path: Path,
    data_set: str,
    budget: Fraction,
    note: str,
    *,
    neighbours: LedgerNeighbours = "change-one",
    unit: UnitName = "record",
) -> Path:
    """A new ledger in zCDP with the given budget."""
    Ledger.open_new(
        path, data_set=data_set, definition="zcdp", neighbours=neighbours, budget=budget, note=note, unit=unit
    )
    return path


def one_of(what: str, name: str, names: Iterable[str]) -> str:
    """``name``, if it is one of those; raises with the names otherwise."""
    if name not in names:
        raise ParameterError("no-such-name", found=name, code=what, kind=what, names=", ".join(names))
    return name


def no_product(mechanism: str, product: str | None) -> None:
    """Raises if a product is asked of a mechanism that has none."""
    if product is not None:
        raise ParameterError("product/mechanism", found=product, mechanism=mechanism)


# Drafts from an office's own files: the schema, the table of areas, a strategy, and what all specs have in common.


SCHEMA, BLOCKS, AREAS = "schema.toml", "blocks.csv", "areas.csv"
"""The files beside a spec: ``BLOCKS`` is a code list laid out anew, ``AREAS`` a table read from the records."""
BUDGET = "1"


def schema_text(records: FileLook, columns: Sequence[ColumnProposal]) -> str:
    """A commented schema file with a proposal for every column, and why others have none."""
    attributes = [asdict(column) | {"ours": free_name(column.name)} for column in columns if not column.left_out]
    return render(
        "own_schema.toml.j2",
        file=records.source.file,
        layout=records.in_words(),
        id=table_name([records.source.path.stem]),
        left_out=[column for column in columns if column.left_out],
        attributes=attributes,
        not_stated=NOT_STATED,
    )


def office_values(
    office: OfficeFiles, folder: Path, mechanism: str, given: Mapping[str, str], *, named: bool = True
) -> dict[str, Any]:
    """What the templates of all specs are filled with.

    Args:
        office: The files, with what is proposed of them.
        folder: Where the spec is written: paths are relative to it.
        mechanism: The name of the mechanism.
        given: What somebody gave instead, such as ``name``.
        named: Whether releases of the mechanism have names of areas.
    """
    places, areas = office.places, office.areas
    assert places is not None
    levels = [name for name, _ in places.levels]
    called = places.called if named else {}
    values: dict[str, Any] = {
        "file": SPEC,
        "name": "my-release",
        "title": "My release",
        "mechanism": mechanism,
        "records": relative(office.records.source.path, folder),
        "records_name": office.records.source.file,
        "blocks": relative(areas.source.path, folder) if areas and places.table is None else table_file(places),
        "areas_name": None if areas is None else areas.source.file,
        "proposed": places.proposed,
        "without_place": places.without_place,
        "schema": True,
        "layout": _in_two_files(office, folder) | office.layout(),
        "columns": office.renamed(),
        "block_columns": {places.block: places.block_column} if places.block != places.block_column else {},
        "block": places.block,
        "smallest": places.smallest,
        "aliases": places.aliases,
        "unknown": places.unknown,
        "levels": places.levels,
        "called": called,
        "block_names": called.get(places.block_column),
        "areas": places.areas,
        "level_names": [*levels, places.smallest],
        "tables": office.tables,
        "ledger": LEDGER,
        "budget": BUDGET,
    }
    return values | dict(given)


def _in_two_files(office: OfficeFiles, folder: Path) -> dict[str, str]:
    """The keys of ``[data]`` for households in a file of their own."""
    if office.households is None or office.household is None:
        return {}
    return {"households": relative(office.households.source.path, folder), "join": office.household}


def office_files(office: OfficeFiles) -> dict[str, str]:
    """The files beside the spec: the schema, and the table of areas where it was laid out anew or proposed."""
    files = {SCHEMA: office.schema or schema_text(office.records, office.columns)}
    if office.places is not None and office.places.table is not None:
        files[table_file(office.places)] = office.places.table
    return files


def table_file(places: PlacesProposal) -> str:
    """The name of the table of areas that is written beside the spec."""
    return AREAS if places.proposed else BLOCKS


def relative(path: Path, folder: Path) -> str:
    """A path as a spec in ``folder`` writes it."""
    return Path(os.path.relpath(path.absolute(), folder.absolute())).as_posix()


# A spec as a file, from its values.


_BARE = re.compile(r"[A-Za-z0-9_-]+")


def toml_text(values: Mapping[str, Any]) -> str:
    """The text of a TOML file with these values: a table for each part, and all that is deeper in one line each.

    Args:
        values: Texts, whole numbers, decimals, truth values, lists and dictionaries of them.

    Returns:
        The text.

    >>> print(toml_text({"release": {"name": "a"}, "tables": [{"variables": ["sex", "age:five-year"]}]}), end="")
    [release]
    name = "a"
    <BLANKLINE>
    [[tables]]
    variables = ["sex", "age:five-year"]
    """
    plain = {key: value for key, value in values.items() if not _is_toml_table(value)}
    parts = ["".join(f"{_key(key)} = {toml_value(value)}\n" for key, value in plain.items())] if plain else []
    for key, value in values.items():
        if _is_toml_table(value):
            opened = f"[{_key(key)}]" if isinstance(value, Mapping) else f"[[{_key(key)}]]"
            for table in [value] if isinstance(value, Mapping) else value:
                lines = "".join(f"{_key(name)} = {toml_value(inner)}\n" for name, inner in table.items())
                parts.append(f"{opened}\n{lines}")
    return "\n".join(parts)


def _is_toml_table(value: Any) -> bool:
    return isinstance(value, Mapping) or (
        isinstance(value, list) and bool(value) and all(isinstance(item, Mapping) for item in value)
    )


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)


def toml_value(value: Any) -> str:
    """A value as it is in a TOML file, in one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float | Decimal):
        return str(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(str(key))} = {toml_value(inner)}" for key, inner in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    raise TypeError(f"no value of a settings file: {type(value).__name__}")


def _text(value: str) -> str:
    # The escapes of JSON are those of TOML, but for one character that JSON leaves as it is.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def relocated_values(loaded: LoadedSpec, folder: Path) -> dict[str, Any]:
    """The values of a spec, with the files that it names as seen from another folder.

    Args:
        loaded: The spec.
        folder: Where a changed copy of it will lie.

    Returns:
        A copy of its values; what stands for a default stays away.
    """
    values = copy.deepcopy(dict(loaded.values))
    for path, text in named_files(loaded.spec):
        # Only what is in the file: a default of the model stays one. A name that ships has no ending; a file with
        # one may be there later, as the records are not where shares are tuned.
        if _at(values, path) == text and (loaded.resolve(text).is_file() or Path(text).suffix):
            place = Path(os.path.relpath(loaded.resolve(text).resolve(), folder.resolve())).as_posix()
            _at(values, path[:-1])[path[-1]] = place
    return values


def _at(values: Any, path: Sequence[str | int]) -> Any:
    for key in path:
        try:
            values = values[key]
        except (KeyError, IndexError, TypeError):
            return None
    return values
