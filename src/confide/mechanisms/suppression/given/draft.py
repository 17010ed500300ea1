"""The spec and the description that ``confide suppress`` writes for tables: what a person would write by hand."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from confide.errors import ConfideError, InputError, ParameterError, Place
from confide.exact import exact
from confide.mechanisms.suppression.given.description import (
    NAMES,
    SuppressionDescription,
    TableInput,
    TableText,
    VariableText,
)
from confide.mechanisms.suppression.given.tables import describe_given, read_given_codes, slug


def parse_rules(rules: Sequence[str]) -> dict[str, Any]:
    """Primary rules as they are typed, as the keys of ``[suppression]``.

    Args:
        rules: Such as ``threshold=3``, ``p=10``, ``pq=10,50`` and ``dominance=1,75``, each kind once.

    Returns:
        The keys of the spec.

    Raises:
        ParameterError: A rule is none of these.

    >>> parse_rules(["threshold=3", "pq=10,50"])
    {'threshold': 3, 'p': '10', 'q': '50'}
    """
    keys: dict[str, Any] = {}
    for rule in rules:
        name, _, text = rule.replace(" ", "").partition("=")
        kind, numbers = name.lower(), text.split(",") if text else []
        try:
            if any(exact(number, name) <= 0 for number in numbers):
                raise ValueError
            if kind == "threshold" and len(numbers) == 1:
                of_rule: dict[str, Any] = {"threshold": int(numbers[0])}
            elif kind == "p" and len(numbers) == 1:
                of_rule = {"p": numbers[0]}
            elif kind == "pq" and len(numbers) == 2:
                of_rule = {"p": numbers[0], "q": numbers[1]}
            elif kind in ("dominance", "nk") and len(numbers) == 2:
                of_rule = {"dominance": {"n": int(numbers[0]), "k": numbers[1]}}
            else:
                raise ValueError
        except (ValueError, ConfideError):
            place = Place(path="--rule")
            raise ParameterError("primary-rule/threshold", where=place, found=repr(rule)) from None
        twice = sorted(set(of_rule) & set(keys))
        if twice:
            place = Place(path="--rule")
            raise ParameterError("primary-rule/kind", where=place, found=repr(rule))
        keys |= of_rule
    return keys


def given_description(
    files: Sequence[Path],
    out: Path,
    *,
    value: str | None = None,
    totals: Mapping[str, str] | None = None,
    hierarchies: Mapping[str, str] | None = None,
    missing: str | None = None,
    ignore: Sequence[str] = (),
) -> SuppressionDescription:
    """One description of several files of cells, each described beside it or taken for what it seems.

    Args:
        files: CSV or Parquet files.
        out: The folder that the description will be in: paths are relative to it.
        value: The column of figures, where it has no common name.
        totals: For a variable the code of its total, where that has no common name.
        hierarchies: For a variable the file of its hierarchy (.hrc).
        missing: What a cell is that is not there: ``zero``.
        ignore: Columns that are used for nothing.

    Returns:
        The description, linked by the names of variables.
    """
    variables: dict[str, VariableText] = {}
    tables: list[TableText] = []
    for path in files:
        given = describe_given(path, value=value, totals=totals, hierarchies=hierarchies or (), ignore=ignore)
        for name, text in given.description.variables.items():
            text = _moved(given, text, out)
            if totals and name in totals:
                text = text.model_copy(update={"total": totals[name]})
            if hierarchies and name in hierarchies:
                text = text.model_copy(update={"hierarchy": _relative(Path(hierarchies[name]), out), "parts": {}})
            before = variables.setdefault(name, text)
            if before.model_copy(update={"total": text.total}) == text and before != text:
                # One file has the total under a name, and the other has none.
                codes = read_given_codes(given, given.description.tables[0])
                if text.total not in codes.codes[codes.variables.index(name)]:
                    continue
                variables[name] = text
            elif before != text:
                what = f"two files describe the variable {name!r} differently"
                raise InputError("table-description/two-files", where=Place(file=path.name), name=name)
        for table in given.description.tables:
            update: dict[str, Any] = {"file": _relative(given.path_of(table), out)}
            for key in ("metadata", "apriori"):
                if getattr(table, key) is not None:
                    update[key] = _relative(given.beside(getattr(table, key)), out)
            if missing is not None:
                update["missing"] = missing
            tables.append(table.model_copy(update=update))
    for asked, what in ((totals, "--total"), (hierarchies, "--hierarchy")):
        unknown = next((name for name in asked or () if name not in variables), None)
        if unknown is not None:
            names = ", ".join(variables)
            raise ParameterError("unknown-variable/table", where=Place(path=what), found=repr(unknown), names=names)
    return SuppressionDescription(variables=variables, tables=tables)


def _moved(given: TableInput, text: VariableText, out: Path) -> VariableText:
    update: dict[str, Any] = {}
    if text.hierarchy is not None:
        update["hierarchy"] = _relative(given.beside(text.hierarchy), out)
    if isinstance(text.labels, str):
        update["labels"] = _relative(given.beside(text.labels), out)
    if any(isinstance(each, str) for each in text.also.values()):
        update["also"] = {
            name: _relative(given.beside(each), out) if isinstance(each, str) else each
            for name, each in text.also.items()
        }
    return text.model_copy(update=update)


def _relative(path: Path, out: Path) -> str:
    return Path(os.path.relpath(path.resolve(), out.resolve())).as_posix()


def is_description(path: Path) -> bool:
    """Whether a path stands for a description of its own, and not for a plain file of cells."""
    if path.is_dir():
        return any((path / name).is_file() for name in NAMES) or bool(list(path.glob("*.toml")))
    return path.suffix.lower() in (".toml", ".rda", ".tab")


def description_text(description: SuppressionDescription) -> str:
    """A description as a TOML file, with what differs from the defaults."""
    lines = ["# The tables that are to be protected: docs/concepts/suppression.md has every key.", ""]
    for name, variable in description.variables.items():
        lines.append(f"[variables.{_key(name)}]")
        lines += [f"{key} = {toml_value(value)}" for key, value in _told(variable, always=("total",)).items()]
        lines.append("")
    for table in description.tables:
        lines.append("[[tables]]")
        lines += [f"{key} = {toml_value(value)}" for key, value in _told(table, always=("file", "value")).items()]
        lines.append("")
    return "\n".join(lines).rstrip()


def given_spec_text(
    name: str, title: str, tables: str, keys: Mapping[str, Any], formats: Sequence[str], unit: str | None = None
) -> str:
    """The spec of a release of given tables."""
    lines = [
        "# Tables of cells, protected by cell suppression. Run it again with `confide run`.",
        "",
        "[release]",
        f"name = {toml_value(slug(name))}",
        'mechanism = "suppression"',
        f"title = {toml_value(title)}",
        "",
        "[data]",
        f"tables = {toml_value(tables)}",
        *([] if unit is None else [f"unit = {toml_value(unit)}"]),
        "",
        "[suppression]",
        *(f"{key} = {toml_value(value)}" for key, value in keys.items()),
        "",
        "[output]",
        'folder = "."',
        f"formats = {toml_value(list(formats))}",
    ]
    return "\n".join(lines)


def _told(part: VariableText | TableText, always: Sequence[str]) -> dict[str, Any]:
    plain = part.model_dump(mode="json")
    defaults = type(part)().model_dump(mode="json")
    return {key: plain[key] for key in plain if key in always or plain[key] != defaults[key]}


def toml_value(value: Any) -> str:
    """A value as TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        inside = ", ".join(f"{_key(str(key))} = {toml_value(each)}" for key, each in value.items())
        return "{ " + inside + " }" if inside else "{}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(toml_value(each) for each in value) + "]"
    # The strings of JSON are those of TOML, but for the character DEL.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F") if isinstance(value, str) else str(value)


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml_value(name)
