"""The data doctor: from an office's own files to a schema, a spec and the cockpit.

It looks at files of the opened folder as ``confide new`` does, shows what the records have in a framed part of the
page, and writes schema, ledger and spec by the same verbs. What is read from records and what somebody changes stays in
the memory of the studio until it is written: it is in no address, log or cache, and goes when the studio stops.
"""

from __future__ import annotations

import hashlib
import shlex
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import Annotated, Any
from urllib.parse import parse_qsl

from fastapi import APIRouter, Depends, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from pydantic import BaseModel, Field

from confide import api, drafting, inputs
from confide.engines import LocalEngine
from confide.errors import ConfideError, Finding, ParameterError, Place
from confide.inputs.office import ColumnReading
from confide.lazy_names import meaning
from confide.releases.abilities import DRAFT_FROM
from confide.releases.ledger import Ledger
from confide.schema import Code
from confide.studio.cockpit import PATIENCE
from confide.studio.explorer import Folder
from confide.studio.jobs import require_data_set
from confide.studio.opened_folder import FoundFile, OpenedFolder
from confide.studio.pages import address, page

router = APIRouter(tags=["doctor"])
MOST_TEXTS = 300
"""Different texts of a column that are listed, the most frequent first."""
MOST_UNITS = 2_000
"""Areas that are drawn as a tree; of more, those that do not nest alone."""
RARE = 3
"""Levels that fewer records have are pointed out: their label may tell of somebody."""
MISSING, OWN, NONE = "missing", "own", "none"


@dataclass(frozen=True)
class DoctorView:
    """What an address names: files of the folder, and columns of them. Nothing of it is a value of a record."""

    file: str
    areas: str = ""
    household: str = ""
    place: str = ""
    column: str = ""
    households: str = ""

    def at(self, path: str = "/doctor", **changes: str) -> str:
        """The address of this view, with changes."""
        return address(path, **{**self.__dict__, **changes})


@dataclass
class OpenedOffice:
    """An office's files as they were read, and what somebody made of the proposal. All of it is confidential."""

    stamp: tuple[int, ...]
    look: inputs.FileLook
    values: Mapping[str, Mapping[str, int]]
    columns: dict[str, inputs.ColumnProposal]
    said: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    tree: inputs.AreaTree | None = None
    edited: dict[str, inputs.ColumnProposal] = field(default_factory=dict)
    """What was changed by hand, for all views of this file."""
    merged: dict[str, str] = field(default_factory=dict)
    _readings: dict[str, ColumnReading] = field(default_factory=dict)

    def reading(self, name: str) -> ColumnReading:
        """How the schema as it stands reads a column."""
        if name not in self._readings:
            self._readings[name] = inputs.read_column(self.columns[name], self.values[name])
        return self._readings[name]

    def change(self, column: inputs.ColumnProposal) -> None:
        """Takes a column as somebody changed it."""
        self.edited[column.name] = column
        self.take_up()

    def take_up(self) -> None:
        """Takes what was changed, here or in another view of the same file."""
        for name, column in self.edited.items():
            if self.columns.get(name) is not column:
                self.columns[name] = column
                self._readings.pop(name, None)

    @property
    def version(self) -> str:
        """Tells apart what a page showed from what is there now; nothing can be read from it."""
        return hashlib.sha256(repr(sorted(self.edited.items())).encode()).hexdigest()[:16]

    @property
    def all_findings(self) -> list[Finding]:
        return [*self.findings, *(each for name in self.columns for each in self.reading(name).findings)]


class ColumnAnswer(BaseModel):
    """A column of the records; nothing of what its rows hold."""

    name: str
    left_out: str = Field(description="Why the schema has no attribute for it; empty where it has one.")
    levels: int
    findings: list[dict[str, Any]]


class OfficeAnswer(BaseModel):
    """What the doctor says of a file: numbers, names of columns and findings."""

    file: str
    said: list[str]
    columns: list[ColumnAnswer]
    findings: list[dict[str, Any]]
    areas: int | None = Field(description="How many of the smallest areas there are, if the areas are known.")
    areas_that_do_not_nest: int | None


NEW = "confide.drafting:new"
"""The function whose documentation says what these arguments mean."""


def asked(
    file: Annotated[str, Query(max_length=400, description="A file of records in the folder.")],
    areas: Annotated[str, Query(max_length=400, description="A file of areas in the folder.")] = "",
    household: Annotated[str, Query(max_length=400, description=meaning(NEW, "household"))] = "",
    place: Annotated[str, Query(max_length=400, description=meaning(NEW, "place"))] = "",
    column: Annotated[str, Query(max_length=400, description="The column to look at.")] = "",
    households: Annotated[str, Query(max_length=400, description=meaning(NEW, "households"))] = "",
) -> DoctorView:
    """An address as a view of the doctor."""
    return DoctorView(file, areas, household, place, column, households)


Asked = Annotated[DoctorView, Depends(asked)]
_reading = Lock()


def opened_office(folder: OpenedFolder, view: DoctorView, merged: Mapping[str, str] | None = None) -> OpenedOffice:
    """The office's files of an address: read again once one of them has changed, or other codes merged."""
    records = folder.table(view.file)
    areas, homes = (folder.table(name) if name else None for name in (view.areas, view.households))
    key = ("doctor", view.file, view.areas, view.household, view.place, view.households)
    with _reading:
        known: OpenedOffice | None = folder.desk.get(key)
        stamp = tuple(_stamp(path) for path in (records, areas, homes) if path is not None)
        codes = (known.merged if known else {}) if merged is None else dict(merged)
        if known is None or known.stamp != stamp or known.merged != codes:
            read = _read(records, areas, homes, view, codes, stamp)
            edited: dict[str, inputs.ColumnProposal] = folder.desk.setdefault(("edited", view.file, stamp[0]), {})
            read.edited = edited
            known = folder.desk[key] = read
        known.take_up()
    return known


def _read(
    records: Path,
    areas: Path | None,
    homes: Path | None,
    view: DoctorView,
    merged: dict[str, str],
    stamp: tuple[int, ...],
) -> OpenedOffice:
    household, place = view.household or None, view.place or None
    with tempfile.TemporaryDirectory(prefix="confide-doctor-") as scratch, LocalEngine(Path(scratch)) as engine:
        places, findings, tree = None, tuple[Finding, ...](), None
        try:
            look, _, household = inputs.look_at_people(records, homes, household, engine)
        except ConfideError as error:  # two files that do not fit: the persons are shown as they are
            look, homes, findings = inputs.look_at_file(records, engine), None, tuple(error.findings)
        values = {name: look.values(engine, name) for name in look.columns}
        try:
            office = drafting.look_at_office(
                records, areas, "tables", merged=merged, household=household, households=homes, place=place
            )
            places = office.places
        except ConfideError as error:
            findings += tuple(each for each in error.findings if each not in findings)
            office = drafting.look_at_office(records, None, None, household=household, households=homes)
        try:
            tree = inputs.area_tree(
                look, None if areas is None else inputs.look_at_file(areas, engine), places, engine, place
            )
        except ConfideError as error:
            findings = findings or tuple(error.findings)
    if places is not None and places.unknown:
        findings += (Finding.of("unknown-areas", where=Place(file=view.areas), number=places.unknown),)
    columns = {column.name: column for column in office.columns}
    said = drafting.office_in_words(office)
    return OpenedOffice(stamp, look, values, columns, said, findings, tree, merged=merged)


@router.get("/doctor", include_in_schema=False)
def shown(view: Asked, folder: Folder) -> HTMLResponse:
    """The doctor's page of a file."""
    return _page(view, folder, opened_office(folder, view))


@router.post("/doctor/column", include_in_schema=False)
async def changed(request: Request, view: Asked, folder: Folder) -> Response:
    """What somebody made of a column."""
    form = _form(await request.body())
    await run_in_threadpool(_change, folder, view, form)
    return RedirectResponse(view.at(), 303)


@router.post("/doctor/merged", include_in_schema=False)
async def merged(request: Request, view: Asked, folder: Folder) -> Response:
    """Old codes of areas, and the code that each has now."""
    form = _form(await request.body())
    pairs = {form.get(f"old-{at}", "").strip(): form.get(f"now-{at}", "").strip() for at in range(len(form))}
    given = {old: now for old, now in pairs.items() if old and now}
    await run_in_threadpool(opened_office, folder, view, given)
    return RedirectResponse(view.at() + "#areas", 303)


@router.post("/doctor/write", include_in_schema=False)
async def written(request: Request, view: Asked, folder: Folder) -> Response:
    """Writes schema, ledger and spec, and goes on to the cockpit."""
    form = _form(await request.body())
    spec = await run_in_threadpool(_write, folder, view, form)
    return RedirectResponse(view.at() if spec is None else address("/cockpit", spec=spec), 303)


@router.get("/api/doctor")
def answered(view: Asked, folder: Folder) -> OfficeAnswer:
    """What the doctor says of a file. Values of records are on the page alone."""
    office = opened_office(folder, view)
    columns = [
        ColumnAnswer(
            name=name,
            left_out=column.left_out,
            levels=0 if column.left_out else column.size,
            findings=[finding.as_dict() for finding in office.reading(name).findings],
        )
        for name, column in office.columns.items()
    ]
    tree = office.tree
    return OfficeAnswer(
        file=view.file,
        said=list(office.said),
        columns=columns,
        findings=[finding.as_dict() for finding in office.findings],
        areas=None if tree is None else len(tree.units),
        areas_that_do_not_nest=None if tree is None else len(tree.wrong),
    )


# What somebody changes.


def _change(folder: OpenedFolder, view: DoctorView, form: Mapping[str, str]) -> None:
    """Takes a form for a column: whether it is in the schema, its levels with labels, and what each text means."""
    office = opened_office(folder, view)
    column = office.columns.get(view.column)
    if column is None:
        raise ParameterError("no-column/file", where=Place(file=view.file, column=view.column[:60]))
    if form.get("version") != office.version:
        raise ParameterError("changed-meanwhile", where=Place(column=view.column))
    if form.get("use") != "yes":
        office.change(replace(column, left_out="you left it out"))
        return
    if column.left_out:
        proposed = replace(column, left_out="") if column.levels or column.bounds else None
        office.change(proposed or _as_categories(column.name, office.values[column.name]))
        return
    office.change(_edited(column, office.values[column.name], office.reading(view.column), form))


def _edited(
    column: inputs.ColumnProposal, values: Mapping[str, int], reading: ColumnReading, form: Mapping[str, str]
) -> inputs.ColumnProposal:
    """The column as a form has it."""
    numbered = bool(column.levels) and all(isinstance(code, int) for code, _ in column.levels)
    levels: list[tuple[Code, str]] = []
    for at, (code, label) in enumerate(column.levels):
        if form.get(f"gone-{at}") != "yes":
            levels.append((code, form.get(f"label-{at}", label).strip() or str(code)))
    if new := form.get("new-code", "").strip():
        levels.append((_as_code(new, numbered=numbered), form.get("new-label", "").strip() or new))
    kept = {str(code) for code, _ in levels}
    aliases: dict[str, list[str]] = {
        str(code): list(texts) for code, texts in column.aliases.items() if column.bounds or str(code) in kept
    }
    absent = list(column.missing_codes)
    codes = [str(code) for code, _, _ in reading.levels]
    for at, text in enumerate(list(values)[:MOST_TEXTS]):
        means = form.get(f"means-{at}")
        if means is None or not text:
            continue
        aliases = {code: [each for each in texts if each != text] for code, texts in aliases.items()}
        absent = [each for each in absent if each != text]
        if means == MISSING:
            absent.append(text)
        elif means == OWN and text not in kept:
            levels.append((_as_code(text, numbered=numbered), text))
        elif means.isdecimal() and int(means) < len(codes) and codes[int(means)] != text:
            aliases.setdefault(codes[int(means)], []).append(text)
    bounds = column.bounds
    if bounds is not None:
        ends = [form.get(end, "").strip() for end in ("first", "last")]
        bounds = (int(ends[0]), int(ends[1])) if all(each.lstrip("-").isdecimal() for each in ends) else bounds
    return replace(
        column,
        title=form.get("title", "").strip(),
        levels=tuple(levels),
        bounds=bounds,
        missing=form.get("missing") == "yes" or bool(absent),
        missing_codes=tuple(absent),
        aliases={code: tuple(texts) for code, texts in aliases.items() if texts},
        ignore_case=form.get("ignore_case") == "yes",
    )


def _as_code(text: str, *, numbered: bool) -> Code:
    return int(text) if numbered and text.lstrip("-").isdecimal() and str(int(text)) == text else text


def _as_categories(name: str, values: Mapping[str, int]) -> inputs.ColumnProposal:
    """A column that was left out, with a level for each of its texts."""
    texts = sorted(text for text in values if text)
    if len(texts) > MOST_TEXTS:
        raise ParameterError("too-many-values", where=Place(column=name), texts=len(texts), most_texts=MOST_TEXTS)
    return inputs.ColumnProposal(name, levels=tuple((text, text) for text in texts), missing="" in values)


# What is written.


def _write(folder: OpenedFolder, view: DoctorView, form: Mapping[str, str]) -> str | None:
    """Writes what a form asks for: the schema, and with a mechanism a spec beside it, and its ledger."""
    office, wanted = opened_office(folder, view), _Wanted.of(form)
    schema = folder.inside(wanted.schema)
    text = drafting.new_schema(folder.table(view.file), columns=list(office.columns.values())).text
    if not (schema.is_file() and schema.read_text("utf-8") == text.reveal("compared with the same text")):
        drafting.new_schema(folder.table(view.file), schema, columns=list(office.columns.values()))
    if not wanted.mechanism:
        return None
    accounted = wanted.mechanism in api.MECHANISMS and api.MECHANISMS[wanted.mechanism].accounted
    ledger = folder.inside(wanted.ledger) if accounted and wanted.ledger else None
    opening = ledger is not None and not ledger.exists()
    if accounted and ledger is None:
        raise ParameterError("whose-people", where=Place(path="ledger"))
    if ledger is not None and not opening:
        require_data_set(Ledger(ledger).account().data_set, wanted.typed)
    if opening:
        _require_typed(wanted)
        drafting.no_second_ledger(wanted.mechanism, folder.table(view.file))
    drafted = drafting.new(
        wanted.mechanism,
        folder.inside(wanted.folder),
        open_ledger=False,
        from_file=folder.table(view.file),
        geography=folder.table(view.areas) if view.areas else None,
        merged=office.merged,
        household=view.household or None,
        households=folder.table(view.households) if view.households else None,
        place=None if view.areas else view.place or None,
        ledger_file=ledger,
        schema=schema,
    )
    if opening and ledger is not None:
        Ledger.open_new(
            ledger,
            data_set=wanted.data_set,
            definition="zcdp",
            neighbours="change-one",
            budget=wanted.budget,
            note=wanted.note,
        )
    return drafted.spec.resolve().relative_to(folder.root).as_posix()


@dataclass(frozen=True)
class _Wanted:
    """What somebody wants to be written."""

    schema: str
    mechanism: str = ""
    folder: str = ""
    ledger: str = ""
    data_set: str = ""
    budget: str = ""
    note: str = ""
    typed: str = ""

    @classmethod
    def of(cls, form: Mapping[str, str]) -> _Wanted:
        given = {name: form.get(name, "").strip()[:400] for name in cls.__dataclass_fields__}
        if given["ledger"] == "new":
            given["ledger"] = given["folder"] + "/data-set.ledger" if given["folder"] else ""
        return cls(**given)


def _require_typed(wanted: _Wanted) -> None:
    if not wanted.data_set or wanted.typed != wanted.data_set:
        raise ParameterError("not-confirmed/opened", where=Place(path="data_set"), typed=wanted.typed)


def _ledgers(files: Iterable[FoundFile]) -> list[tuple[str, str]]:
    """Each ledger of the folder, by its file, with the name of its data set where it can be read."""
    listed = []
    for file in files:
        with suppress(ConfideError):
            listed.append((file.name, Ledger(file.path, lock_timeout=PATIENCE).account().data_set))
    return listed


def commands(view: DoctorView, office: OpenedOffice, mechanism: str = "tables") -> list[str]:
    """What does the same at a terminal; changes of the schema are made in its file there."""
    new = ["confide", "new", mechanism, "office", "--from", view.file, "--schema", schema_name(view)]
    given = {
        "--households": view.households,
        "--geography": view.areas,
        "--place": view.place,
        "--household": view.household,
    }
    for option, value in given.items():
        new += [option, value] if value else []
    for old, now in office.merged.items():
        new += ["--merged", f"{old}={now}"]
    return [
        shlex.join(
            ["confide", "new", "schema", view.file, "--out", schema_name(view)]
            + (["--set", f"households={view.households}"] if view.households else [])
        ),
        "confide ledger open office/data-set.ledger --data-set NAME --budget BUDGET",
        shlex.join([*new, "--ledger-file", "office/data-set.ledger"]),
        "confide check office/spec.toml",
    ]


def schema_name(view: DoctorView) -> str:
    """What a new schema is called: beside the records."""
    return f"{Path(view.file).with_suffix('').as_posix()}-schema.toml"


# The page.


def _page(view: DoctorView, folder: OpenedFolder, office: OpenedOffice) -> HTMLResponse:
    names = list(office.columns)
    chosen = view.column if view.column in office.columns else next(
        (name for name in names if office.reading(name).findings),
        next((name for name in names if not office.columns[name].left_out), names[0]),
    )  # fmt: skip
    view = replace(view, column=chosen)
    column, reading, contents = office.columns[chosen], office.reading(chosen), folder.contents()
    return page(
        "studio_doctor.html.j2",
        "Data doctor",
        view=view,
        office=office,
        column=column,
        reading=reading,
        texts=_texts(column, office.values[chosen], reading),
        hidden=max(0, len(office.values[chosen]) - MOST_TEXTS),
        rows=sum(office.values[chosen].values()),
        rare=RARE,
        files=[each.name for each in contents.records if each.name != view.file],
        ledgers=_ledgers(contents.ledgers),
        mechanisms=DRAFT_FROM.among(api.MECHANISMS),
        tree=None if office.tree is None else _nodes(office.tree),
        new_folder=_free_folder({file.name for file in contents.specs}),
        new_schema=schema_name(view),
        commands=commands(view, office),
        levels=[(code, label, rows) for code, label, rows in reading.levels],
    )


def _free_folder(specs: set[str]) -> str:
    names = ("office", *(f"office-{number}" for number in range(2, 1_000)))
    return next((name for name in names if f"{name}/spec.toml" not in specs), "")


def _texts(
    column: inputs.ColumnProposal, values: Mapping[str, int], reading: ColumnReading
) -> list[tuple[int, str, int, str, bool]]:
    """Number, text, rows, what it means now, and whether that can be changed: of columns that are in the schema."""
    if column.left_out:
        return []
    codes = [code for code, _, _ in reading.levels]
    listed = []
    for at, (text, rows) in enumerate(list(values.items())[:MOST_TEXTS]):
        code = reading.meant.get(text)
        means = NONE if code is None else MISSING if code == reading.missing else str(codes.index(code))
        plain = column.bounds is not None and code is not None and str(code) == text.lstrip("0+")
        listed.append((at, text, rows, means, bool(text) and not plain))
    return listed


def _nodes(tree: inputs.AreaTree) -> dict[str, Any]:
    """The tree as the page draws it: areas in areas; of very many those alone that do not nest."""
    many = len(tree.units) > MOST_UNITS
    root: dict[str, Any] = {"inside": {}, "units": [], "records": 0, "wrong": 0}
    for unit in tree.wrong if many else tree.units:
        node = root
        for code in ("", *(unit.path if unit.known else ())):
            if code:
                node = node["inside"].setdefault(code, {"inside": {}, "units": [], "records": 0, "wrong": 0})
            node["records"] += unit.records
            node["wrong"] += not unit.nests
        node["units"].append(unit)
    _sort(root)
    return {"root": root, "levels": tree.levels, "many": many, "number": len(tree.units), "wrong": len(tree.wrong)}


def _sort(node: dict[str, Any]) -> None:
    units: Sequence[inputs.AreaUnit] = node["units"]
    node["units"] = sorted(units, key=lambda unit: (unit.nests, unit.code))
    for inner in node["inside"].values():
        _sort(inner)


def _form(body: bytes) -> dict[str, str]:
    return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))


def _stamp(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
