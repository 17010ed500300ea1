"""Tables of cells that an office has, in place of records: what the spec, the description and the codes say of them.

A table lists cells by their codes, with a figure and perhaps with contributors, largest contributions, statuses that
were decided beforehand, costs and required levels. Every table comes out with all margins: totals that are missing are
computed. The codes that tables list are taken for public: they are what the release lists.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from confide.documents import NAME_PATTERN
from confide.engines import Source
from confide.errors import ConfideError, Finding, InputError, ParameterError, Place, SpecError
from confide.exact import exact
from confide.inputs.records import records_fingerprint
from confide.mechanisms.suppression import programme
from confide.mechanisms.suppression.given.assumed import assumed, completed, read_plain
from confide.mechanisms.suppression.given.description import (
    NAMES,
    CellCodes,
    SuppressionDescription,
    TableInput,
    TableText,
    VariableText,
    describe,
    read_codes,
    unused,
    variables_of,
)
from confide.mechanisms.suppression.spec import SuppressionSpec
from confide.mechanisms.suppression.structure import ROOT
from confide.mechanisms.suppression.variables import PublishedCodes, Variable, VariableGrouping
from confide.releases.spec import LoadedSpec
from confide.releases.tabular import TOTAL_CODE
from confide.schema import Schema, check_labels, check_name

OWN_COLUMNS = set(programme.PUBLISHED_FIGURES)


@dataclass(frozen=True, eq=False)
class GivenTablesProblem(programme.SuppressionProblem):
    """Tables of cells that are to be protected, but for their figures."""

    given: TableInput = field(repr=False)
    rows: tuple[CellCodes, ...] = field(repr=False)

    @property
    def magnitude(self) -> bool:
        """Whether the figures are sums of contributions and no counts: contributors, or contributions, are given beside
        them, or a rule asks for some."""
        return _are_magnitudes(self.spec, self.rows)

    @property
    def value(self) -> str | None:
        return self.rows[0].text.value if self.magnitude else None

    def fingerprint(self) -> str:
        """SHA-256 of the tables, their description, and everything that belongs to it."""
        files = [records_fingerprint(path) for path in self.given.files]
        return hashlib.sha256("confide/tables/v1 ".join(files).encode("ascii")).hexdigest()

    def facts(self) -> dict[str, Any]:
        """What the plan says of the question: no figure, status, cost or level of any cell."""
        facts = super().facts()
        texts = [table.text for table in self.rows]
        beside = {
            "statuses": any(text.decided or text.apriori for text in texts),
            "costs": any(text.cost or text.apriori for text in texts),
            "levels": any(text.lower or text.upper or text.sliding or text.apriori for text in texts),
        }
        names = {
            name: name if variable.published is None else variable.published.title
            for name, variable in self.programme.variables.items()
        }
        return {**facts, "schema": None, "attributes": names, "given": beside}


def prepare_given(loaded: LoadedSpec) -> GivenTablesProblem:
    """What the spec, the description and the codes of its tables say. Raises with all findings."""
    spec = loaded.spec
    assert isinstance(spec, SuppressionSpec)
    assert spec.data.tables is not None
    path = loaded.resolve(spec.data.tables)
    if not path.exists():
        place = loaded.place("data", "tables")
        raise SpecError("no-such-file/description", where=place, found=spec.data.tables)
    given = describe_given(path, spec.data.delimiter)
    rows = tuple(read_given_codes(given, text) for text in given.description.tables)
    findings = _names(given, rows) + unused(given, rows, computed=True)
    for name, text in given.description.variables.items():
        lacking = [table for table in rows if name not in table.variables]
        if not text.adds_up and lacking:
            place = Place(file=lacking[0].path.name, column=name)
            findings.append(Finding.of("nothing-added-up/column", where=place, name=name))
    if findings:
        raise InputError(findings)
    _require_rule(loaded, spec, rows)
    variables = {name: _whole(variable) for name, variable in variables_of(given, rows).items()}
    variables = {name: replace(each, published=_published(given, each)) for name, each in variables.items()}
    tables = tuple(
        programme.HierarchicalTable(
            table.name,
            table.text.title or table.name,
            tuple(variables[name] for name in table.variables),
            tuple((table.name,) for _ in table.variables),
        )
        for table in rows
    )
    try:
        for name, variable in variables.items():
            codes = variable.tree.codes[1:]
            check_labels([*codes], f"the variable {name!r}", codes)
        for table in tables:
            table.coded.check(programme.PUBLISHED_FIGURES)
    except ConfideError as error:
        raise InputError(error.findings) from None
    cells = sum(prod(table.layout.shape) for table in tables)
    if cells > programme.MOST_CELLS:
        raise SpecError(
            "table-too-large/tables-many-cells",
            where=loaded.place("data", "tables"),
            cells=cells,
            most_cells=programme.MOST_CELLS,
        )
    findings = programme.margins_unknown(loaded, spec, [set(table.variables) for table in rows])
    if findings:
        raise SpecError(findings)
    _require_magnitudes(loaded, spec, rows)
    nobody = Schema("given", "tables of cells", (), ())
    source = Source(rows[0].path, "csv")
    return GivenTablesProblem(
        spec, nobody, source, None, programme.SuppressionProgramme(variables, tables), given, rows
    )


def _published(given: TableInput, variable: Variable) -> PublishedCodes:
    """The codes of a variable as the files have them, with the labels of the description."""
    text = given.description.variables[variable.name]
    codes = (TOTAL_CODE, *variable.tree.codes[1:])
    labels = given.labels.get(variable.name, {})
    return PublishedCodes(text.title or variable.name, codes, tuple(labels.get(code, code) for code in codes))


def _require_rule(loaded: LoadedSpec, spec: SuppressionSpec, rows: tuple[CellCodes, ...]) -> None:
    """Refuses tables without any cell that could be primary: neither a rule nor anything beside the figures says so."""
    part = spec.suppression
    beside = [(t.text.decided, t.text.apriori, t.text.lower, t.text.upper, t.text.sliding) for t in rows]
    if part.threshold is None and part.dominance is None and part.p is None and not any(map(any, beside)):
        raise SpecError("no-rule/primary", where=loaded.place("suppression"))


def _require_magnitudes(loaded: LoadedSpec, spec: SuppressionSpec, rows: tuple[CellCodes, ...]) -> None:
    """Refuses a unit of counts: whether a count with decimals is small is asked of those who contribute to it."""
    if spec.data.unit != 1 and not _are_magnitudes(spec, rows):
        raise SpecError("magnitude-rule/unit", where=loaded.place("data", "unit"), found=str(spec.data.unit))


def _are_magnitudes(spec: SuppressionSpec, rows: tuple[CellCodes, ...]) -> bool:
    beside = any(table.text.contributors or table.text.largest for table in rows)
    return beside or spec.suppression.p is not None or spec.suppression.dominance is not None


def describe_given(
    path: Path,
    delimiter: str = ",",
    value: str | None = None,
    totals: Mapping[str, str] | None = None,
    hierarchies: Collection[str] = (),
    ignore: Sequence[str] = (),
) -> TableInput:
    """The description of tables that are to be protected, complete: what nobody has named is found by common names,
    whether there is a description or none. ``value``, ``totals``, ``hierarchies`` and ``ignore`` are what somebody
    also says."""
    plain = path.is_file() and path.suffix.lower() in (".csv", ".parquet") and not path.with_suffix(".toml").is_file()
    if not plain:
        return completed(describe(path), value, totals or (), hierarchies, ignore)
    rows, delimiter = read_plain(path, delimiter)
    if value is not None and value not in rows:
        raise InputError("no-column/figures", where=Place(file=path.name), found=repr(value), rows=", ".join(rows))
    return assumed(
        path, rows, delimiter, protect=True, value=value, totals=totals, hierarchies=hierarchies, ignore=ignore
    )


def read_given_codes(given: TableInput, text: TableText) -> CellCodes:
    """A table with all columns that its description names."""
    path = given.path_of(text)
    optional = [text.contributors, text.decided, text.cost, text.lower, text.upper, text.sliding]
    needed = [text.value, *text.largest, *(name for name in optional if name is not None)]
    table = read_codes(given, text, path, needed)
    name = text.name if text.name is not None and re.match(NAME_PATTERN, text.name) else slug(text.name or path.stem)
    return CellCodes(text.model_copy(update={"name": name}), path, table.variables, table.codes, table.columns)


def slug(text: str) -> str:
    """A text as the name of a table: lower case letters, digits and hyphens.

    >>> slug("Jobs by region (2020)")
    'jobs-by-region-2020'
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:64].strip("-") or "table"


def _names(given: TableInput, rows: tuple[CellCodes, ...]) -> list[Finding]:
    """Names of tables that are there twice, and variables whose names tables need for something else."""
    findings = []
    names = [table.name for table in rows]
    for at, table in enumerate(rows):
        if table.name in names[:at]:
            place = Place(file=given.file.name, path=f"tables.{at}.name")
            remedy = "give them names in the description"
            findings.append(Finding.of("duplicate-table/two-tables-name", where=place, found=table.name))
        if not table.variables:
            remedy = "describe its columns: [variables.NAME]"
            findings.append(Finding.of("table-description/variable", where=Place(file=table.path.name)))
    folded: dict[str, str] = {}
    for name in given.description.variables:
        place = Place(file=given.file.name, path=f"variables.{name}")
        remedy = f'call it otherwise, and say where it is: [[tables]] columns = {{ OTHER = "{name}" }}'
        if name.lower() in OWN_COLUMNS or folded.setdefault(name.lower(), name) != name:
            findings.append(Finding.of("reserved-name/whatever", where=place, name=name))
        try:
            check_name(name, "the variable")
        except ConfideError as error:
            findings += [Finding(f.code, f.what, place, f.found, f.expected, remedy) for f in error.findings]
    return findings


def _whole(variable: Variable) -> Variable:
    """The same variable whose tables list every code that they go down to: missing totals are computed."""
    groupings = []
    for grouping in variable.groupings:
        codes = [code for code in variable.kept([grouping.name]).tolist() if code != ROOT]
        labels = tuple(variable.tree.codes[code] for code in codes)
        groupings.append(VariableGrouping(grouping.name, labels, np.array(codes, np.int64)))
    return replace(variable, groupings=tuple(groupings))


# The spec and the description that ``confide suppress`` writes for tables: what a person would write by hand.


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
