"""Releases of Confide as published tables: what the attack can make of each mechanism's figures.

- ``tables``: counts with independent noise; the plan in the manifest says with which variance.
- ``cellkey``: counts with noise of their members, within a bound; the manifest says with which variance.
- ``swapping``: tables of swapped records, exact as such.
- ``suppression``: exact tables with holes, which are unknown.
- ``safetab``: counts with independent noise, of groups that overlap (:mod:`.safetab_release`).
- ``topdown``, ``postprocess``, and swapping with microdata: records. There is nothing to reconstruct, and the result
  says so: these are the *protected* records, and a solution variability of zero says nothing about the true ones.

Magnitudes count no persons and are refused. For a part of a release, write a folder of tables
(``docs/concepts/reconstruction.md``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from confide.attacks.reconstruction.description import BLOCK, DESCRIPTION, TablePart, impossible
from confide.attacks.reconstruction.marginals import (
    EVERYWHERE,
    Bound,
    Geography,
    Marginal,
    Published,
    group_of_unit,
    one_unit,
    sparse,
)
from confide.attacks.reconstruction.reading import group_of_label, marginals_of, nested, read_tables
from confide.attacks.reconstruction.safetab_release import read_safetab
from confide.attacks.table_files import read_text
from confide.documents import load_schema, shipped
from confide.errors import InputError, ParameterError, Place, ReleaseError
from confide.noise import ReleaseNoise
from confide.releases.folder import MANIFEST, read_manifest
from confide.releases.plan import read_plan
from confide.releases.workspace import Workspace
from confide.schema import Query, Schema

AREA = "area"
RECORDS = ("tables/records.", "microdata/persons.")
PROTECTED = (
    "What was published are protected records: nothing is reconstructed beyond them, and the true ones may differ."
)
NOISE = "The counts have noise: the records are a fit, and not a reconstruction."
HOLES = "Figures that were left out are unknown: any record that the others allow will do in their place."
BOUNDED = "The noise never passes ±{}, and the records keep to that."
ZEROS = "Nobody stays nobody: where a count is above zero, the records have somebody."


def read_source(folder: str | Path, schema: str | Path | None = None, groups: Sequence[str] = ()) -> Published:
    """The tables of a folder with a ``tables.toml``, or those of a release folder.

    ``schema`` is the schema file of a release whose schema does not ship; ``groups`` are the iteration codes of a
    SafeTab-P release to attack, all if there is none.
    """
    folder = Path(folder)
    if (folder / DESCRIPTION).exists():
        _no_groups(groups, DESCRIPTION)
        if schema is not None:
            what = f"{DESCRIPTION} names the schema of its tables itself"
            remedy = f"leave out --schema, or change it in {DESCRIPTION}"
            raise ParameterError("schema-twice", what, Place(path="--schema"), str(schema), None, remedy)
        return read_tables(folder)
    if not (folder / MANIFEST).exists():
        inside = Workspace(folder).release
        raise InputError(
            "no-tables",
            "the folder has no tables that could be attacked",
            where=Place(file=folder.name),
            found=f"neither {DESCRIPTION} nor {MANIFEST}",
            expected=f"a {DESCRIPTION} that describes the files, or a release folder of Confide",
            remedy=f"give the release in it: {folder.name}/{inside.name}"
            if (inside / MANIFEST).exists()
            else "give another folder, or describe the tables: docs/concepts/reconstruction.md",
        )
    return read_release(folder, schema, groups)


def read_release(folder: Path, schema: str | Path | None = None, groups: Sequence[str] = ()) -> Published:
    """The tables of a release folder."""
    manifest = read_manifest(folder)
    mechanism, question = manifest["mechanism"], manifest["plan"]["question"]
    title = f"release {manifest.get('release', folder.name)} ({mechanism})"
    if mechanism == "safetab":
        return read_safetab(folder, manifest, groups, title)
    _no_groups(groups, mechanism)
    records = _file(folder, manifest, *RECORDS)
    if records is not None and mechanism in ("topdown", "postprocess", "swapping"):
        known = _schema(question.get("schema") or question.get("strategy", {}).get("schema"), schema)
        return _of_records(folder, manifest, records, known, title)
    if mechanism in ("tables", "swapping"):
        return _of_tables(folder, manifest, _schema(question["schema"], schema), title)
    if mechanism == "suppression" and question["value"] is None:
        return _of_suppression(folder, manifest, _schema(question["schema"], schema), title)
    if mechanism == "cellkey":
        return _of_cellkey(folder, manifest, _schema(question["schema"], schema), title)
    raise ReleaseError(
        "not-attacked",
        "the release has no figures that count persons, so that no persons follow from it",
        where=Place(file=MANIFEST, path="mechanism"),
        found=f"{mechanism} of magnitudes" if mechanism == "suppression" else mechanism,
        expected="counts of persons, or their records",
        remedy="ask what an attacker learns of each magnitude that was left out: confide audit suppression",
    )


def _no_groups(groups: Sequence[str], source: str) -> None:
    """Groups can be chosen in releases of SafeTab-P alone."""
    if groups:
        raise ParameterError(
            "no-groups",
            "only a release of safetab has groups to choose from",
            where=Place(path="--group"),
            found=source,
            expected="a release of safetab",
            remedy="leave out --group",
        )


def _schema(named: Any, given: str | Path | None) -> Schema:
    """The schema of a release: one that ships, with the same fingerprint, or the file given."""
    named = named if isinstance(named, Mapping) else {"id": named}
    if given is not None:
        found = load_schema(str(given), Path())
    elif named.get("id") in shipped("schemas"):
        found = load_schema(str(named["id"]), Path())
    else:
        raise _unlike("the schema of the release does not ship", str(named.get("id")), "give its file: --schema FILE")
    if named.get("sha256") not in (None, found.fingerprint):
        raise _unlike(
            "the schema is not the one of the release", found.id, "give the file that the release was made with"
        )
    return found


def _unlike(what: str, found: str, remedy: str) -> ReleaseError:
    return ReleaseError(
        "release-schema", what, Place(file=MANIFEST, path="plan.question"), found, "the release's own", remedy
    )


def _file(folder: Path, manifest: Mapping[str, Any], *starts: str) -> Path | None:
    """The file of a release whose path begins so; Parquet before CSV."""
    paths = [file["path"] for file in manifest["files"] if file["path"].startswith(starts)]
    paths = [path for path in paths if path.endswith((".parquet", ".csv"))]
    return folder / min(paths, key=lambda path: not path.endswith(".parquet")) if paths else None


def _of_records(folder: Path, manifest: Mapping[str, Any], file: Path, schema: Schema, title: str) -> Published:
    """Released records as one table with all their attributes."""
    rows = read_text(file)
    attributes = [attribute for attribute in schema.attributes if attribute.name in rows.column_names]
    question = manifest["plan"]["question"]
    block = (question.get("microdata") or question.get("layout") or {}).get("block", "geocode")
    units = _file(folder, manifest, "tables/units.")
    levels = [name for name in reversed(manifest["plan"].get("spine", ())) if name != BLOCK]
    frame = rows if units is None else read_text(units)
    columns = {BLOCK: frame.column(block).to_pylist()}
    columns |= {name: frame.column(name).to_pylist() for name in levels if name in frame.column_names}
    geography = nested(columns, BLOCK)
    query = Query(tuple(schema.variable(attribute.name) for attribute in attributes))
    cell = np.zeros(rows.num_rows, np.int64)
    for variable in query.variables:
        cell = cell * variable.size + group_of_label(rows.column(variable.attribute.name), variable)
    unit = group_of_unit(rows.column(block).to_pylist(), geography.blocks)
    key, count = np.unique(unit * query.cells + cell, return_counts=True)
    arrays = sparse(key // query.cells, key % query.cells, count.astype(np.float64), len(geography.blocks))
    return Published(schema, geography, (Marginal("records", 0, query, *arrays),), (), title, (PROTECTED,))


def _of_tables(folder: Path, manifest: Mapping[str, Any], schema: Schema, title: str) -> Published:
    """Tables with a column for the level and the area; with noise if the plan measures them."""
    noisy = manifest["mechanism"] == "tables"
    laws = {(m.level, m.query): m.law for m in read_plan(manifest["plan"]).measures} if noisy else {}
    question = manifest["plan"]["question"]
    spine = [*manifest["plan"].get("spine", ())] or [*question["levels"]]
    contents: list[tuple[Mapping[str, Any], str, pa.Table]] = []
    units: dict[str, list[str]] = {}
    left_out: list[str] = []
    for table in question["tables"]:
        file = _file(folder, manifest, f"tables/{table['name']}.")
        if file is None:
            raise _unlike("a table of the plan has no file", table["name"], "get the release again from its office")
        rows = read_text(file)
        for level in table["levels"]:
            here = rows.filter(pc.equal(rows.column("level"), level))
            if level in spine:
                contents.append((table, level, here))
                units.setdefault(level, []).extend(dict.fromkeys(here.column(AREA).to_pylist()))
            elif level not in left_out:
                left_out.append(level)
    geography = _by_prefix(units, spine)
    left_out += [level for level in units if level not in geography.levels]
    marginals: list[Marginal] = []
    seen: set[tuple[str, str]] = set()
    for table, level, rows in contents:
        if level not in geography.levels:
            continue
        part = _part(table["name"], level, list(table["margins"]), noisy=noisy)
        made = marginals_of(part, rows, schema, geography, geography.depth(level), AREA)
        for marginal, name in zip(made, table["margins"].values(), strict=True):
            if (level, name) in seen:  # one measurement, shown in several tables
                continue
            seen.add((level, name) if noisy else (level, f"{table['name']}/{name}"))
            marginals.append(_with_noise(marginal, laws[level, name]) if noisy else marginal)
    notes = [NOISE] if noisy else [PROTECTED]
    largest = max((law.bound for law in laws.values() if law.bound is not None), default=None)
    notes += [BOUNDED.format(largest)] if largest is not None else []
    notes += [f"Tables of {', '.join(left_out)} are left out: these areas do not nest."] if left_out else []
    return Published(schema, geography, tuple(marginals), impossible(schema), title, tuple(notes))


def _with_noise(marginal: Marginal, law: ReleaseNoise) -> Marginal:
    """A marginal with the variance of its noise, and how far that can go."""
    bound = None if law.bound is None else Bound(law.bound)
    return replace(marginal, variance=Fraction(law.variance()).limit_denominator(10**9), bound=bound)


def _part(name: str, level: str, queries: list[str], *, noisy: bool, unknown: bool = False) -> TablePart:
    return TablePart(
        name=name,
        level=level,
        file=name,
        queries=queries,
        variance=Fraction(1) if noisy else None,
        absent="unknown" if unknown else "zero",
    )


def _by_prefix(units: Mapping[str, list[str]], spine: list[str]) -> Geography:
    """Levels of a spine whose codes begin with the codes of the level above; others are dropped."""
    there = [level for level in reversed(spine) if level in units]
    finest = there[0]
    blocks = sorted(set(units[finest]))
    columns = {finest: blocks}
    for level in there[1:]:
        codes = set(units[level])
        lengths = {len(code) for code in codes}
        if len(lengths) == 1 and all(block[: next(iter(lengths))] in codes for block in blocks):
            columns[level] = [block[: next(iter(lengths))] for block in blocks]
    return nested(columns, finest)


def _of_suppression(folder: Path, manifest: Mapping[str, Any], schema: Schema, title: str) -> Published:
    """Tables of exact counts, some of them left out: every crossing of one grouping of each variable, or of none."""
    question = manifest["plan"]["question"]
    levels = list(question["variables"][AREA]["groupings"])
    contents: list[tuple[str, list[str], str, pa.Table]] = []
    units: dict[str, list[str]] = {}
    for table in question["tables"]:
        file = _file(folder, manifest, f"tables/{table['name']}.")
        if file is None:
            raise _unlike("a table of the plan has no file", table["name"], "get the release again from its office")
        rows = read_text(file)
        groupings = [["", *names] for variable, names in table["variables"].items() if variable != AREA]
        queries = ["*".join(filter(None, chosen)) or "total" for chosen in product(*groupings)]
        for level in table["variables"][AREA]:
            here = rows.filter(pc.equal(rows.column("level"), level))
            contents.append((table["name"], queries, level, here))
            units.setdefault(level, []).extend(dict.fromkeys(here.column(AREA).to_pylist()))
    geography = _by_prefix(units, levels)
    marginals: list[Marginal] = []
    for name, queries, level, rows in contents:
        if level in geography.levels:
            part = _part(name, level, queries, noisy=False, unknown=True)
            marginals += marginals_of(part, rows, schema, geography, geography.depth(level), AREA)
    return Published(schema, geography, tuple(marginals), impossible(schema), title, (HOLES,))


def _of_cellkey(folder: Path, manifest: Mapping[str, Any], schema: Schema, title: str) -> Published:
    """Tables without geography, each cell with its own noise; what is not listed is published as zero."""
    question = manifest["plan"]["question"]
    variance, bound = Fraction(str(question["ptable"]["V"])), Bound(int(question["ptable"]["D"]), zeros_kept=True)
    marginals: list[Marginal] = []
    seen: set[str] = set()
    for table in question["tables"]:
        file = _file(folder, manifest, f"tables/{table['name']}.")
        if file is None:
            raise _unlike("a table of the plan has no file", table["name"], "get the release again from its office")
        rows = read_text(file)
        part = _part(table["name"], EVERYWHERE, table["margins"], noisy=True, unknown=bool(question["threshold"]))
        for marginal, name in zip(marginals_of(part, rows, schema, one_unit(), 0, None), table["margins"], strict=True):
            if name not in seen:
                seen.add(name)
                marginals.append(replace(marginal, variance=variance, bound=bound))
    notes = (NOISE, BOUNDED.format(bound.largest), ZEROS)
    return Published(schema, one_unit(), tuple(marginals), impossible(schema), title, notes)
