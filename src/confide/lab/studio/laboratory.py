"""The risk laboratory: what somebody can learn, live, for researchers and teachers.

The pages of the experiments (:mod:`.experiments`), each with sliders, choices and tables to edit; and the derivations,
read from the documentation that comes with Confide, so that they are there without a network.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from fractions import Fraction
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response
from markdown_it import MarkdownIt
from markupsafe import Markup
from pydantic import BaseModel, Field

from confide.documents import FileKind, Part, load_shipped, load_values
from confide.errors import ParameterError, Place
from confide.exact import exact, exact_text
from confide.lab.risk import shipped_invariants
from confide.lab.risk.bounded_noise.programme_risks import PROGRAMME
from confide.lab.risk.bounded_noise.static_programme import load_programme
from confide.lab.risk.invariant_sets import records_of
from confide.lab.studio.experiments import EXPERIMENTS, OWN, ROWS, Chosen, Shown
from confide.report import charts
from confide.studio.explorer import Folder
from confide.studio.opened_folder import OpenedFolder
from confide.studio.pages import address, figure_answer, page

router = APIRouter(tags=["risk laboratory"])
Experiment = Literal[
    "belief",
    "levels",
    "hierarchy",
    "test",
    "invariants",
    "chain",
    "bound",
    "averaging",
    "areas",
    "cellkey",
    "reconstruction",
]
ROOMS = ("proofs", "concepts")
"""The parts of the documentation that pages of the laboratory lead to."""
LONGEST = 200
"""Characters of anything that is typed."""
SIZES = (".txt", ".csv")


class Slider(Part):
    """A number that is moved: by a slider, or typed."""

    name: str
    title: str
    start: str
    low: float
    high: float
    step: float
    powers: bool = False
    """Whether the slider goes by powers of ten."""

    def place(self, number: Fraction) -> float:
        """Where the slider stands for a number."""
        at = math.log10(number) if self.powers else float(number)
        return round(min(self.high, max(self.low, round(at / self.step) * self.step)), 6)

    def number(self, place: float) -> Fraction:
        """The number at a place of the slider: a short decimal."""
        return Fraction(f"{10**place:.3g}") if self.powers else Fraction(f"{place:g}")


class OfferedChoice(Part):
    """One of several, by name: listed, or the countries of the programme, or the files of the folder."""

    name: str
    title: str
    start: str = ""
    options: dict[str, str] | Literal["countries", "files"]


class TypedList(Part):
    """Numbers with commas between them."""

    name: str
    title: str
    start: str


class PicturePart(Part):
    """A picture of an experiment, and which figure of which paper it is."""

    name: str
    title: str
    caption: str
    paper: str
    slow: bool = False
    """Whether it takes seconds."""


class ExperimentPart(Part):
    """What an experiment asks and what it is about."""

    id: Experiment
    tab: str
    group: str
    title: str
    words: str
    formula: str
    reference: str
    proof: str
    more: str
    sliders: list[Slider] = Field(default_factory=list)
    choices: list[OfferedChoice] = Field(default_factory=list)
    lists: list[TypedList] = Field(default_factory=list)
    pictures: list[PicturePart] = Field(default_factory=list)


class LaboratoryFile(Part):
    """``data/studio/laboratory.toml``."""

    experiments: list[ExperimentPart]


@cache
def experiments() -> Mapping[str, ExperimentPart]:
    """Every experiment by its name, in the order of the page."""
    values = load_shipped("studio", "laboratory")
    parts = load_values(values, "laboratory.toml", LaboratoryFile, kind=FileKind("laboratory")).value.experiments
    return {part.id: part for part in parts}


class LaboratoryAnswer(BaseModel):
    """What an experiment says."""

    experiment: str
    command: str
    figures: dict[str, str]
    """What is shown, in words."""
    answer: dict[str, Any]
    """What the library says, in full."""
    file: str = Field("", description=f"A file that the command names, {OWN}: what was written into the table.")


def moved(experiment: str, query: Mapping[str, str]) -> dict[str, Fraction]:
    """The numbers of an address: what was typed, unless the slider was moved."""
    numbers = {}
    for slider in experiments()[experiment].sliders:
        number = exact((query.get(slider.name) or slider.start)[:LONGEST], slider.name)
        before, now = query.get(f"{slider.name}_was"), query.get(f"{slider.name}_at")
        if now is not None and before is not None and now != before:
            number = slider.number(float(exact(now[:LONGEST], slider.name)))
        whole_only = slider.step == 1 and number.denominator != 1
        if whole_only or abs(number) > 10**6 or (slider.powers and number <= 0):
            raise ParameterError(
                "slider-range/number",
                where=Place(path=slider.name),
                title=slider.title.lower(),
                value=str(query.get(slider.name))[:40],
                whole=slider.step == 1,
            )
        numbers[slider.name] = number
    return numbers


def chosen(experiment: str, request: Request, folder: OpenedFolder) -> Chosen:
    """All that an address says about an experiment."""
    query, part = request.query_params, experiments()[experiment]
    words = {each.name: (query.get(each.name) or each.start)[:LONGEST] for each in part.lists}
    for choice in part.choices:
        options = _options(choice, folder)
        value = query.get(choice.name, choice.start)
        if value not in options:
            raise ParameterError(
                "slider-range/choice",
                where=Place(path=choice.name),
                title=choice.title.lower(),
                value=value[:40],
                expected=", ".join(options)[:400],
            )
        words[choice.name] = value
        if choice.options == "files" and value:
            words[f"{choice.name}_file"] = str(folder.inside(value))
    ticked: dict[str, tuple[str, ...]] = {}
    if experiment == "invariants":
        known = [each.name for each in shipped_invariants()]
        ticked["set"] = _ticked(request, "set", known) if "chosen" in query else ("C1",)
        words |= _own_rows(query)
    if experiment == "reconstruction":
        ticked["leave"] = tuple(dict.fromkeys(each[:LONGEST] for each in query.getlist("leave")))
    return Chosen(moved(experiment, query), words, ticked)


def _ticked(request: Request, name: str, known: list[str]) -> tuple[str, ...]:
    values = dict.fromkeys(request.query_params.getlist(name))
    for value in values:
        if value not in known:
            raise ParameterError(
                "slider-range/invariants", where=Place(path=name), value=value[:40], expected=", ".join(known)[:400]
            )
    return tuple(values)


def _own_rows(query: Mapping[str, str]) -> dict[str, str]:
    """The rows of the table of counts: the level, who is counted, and of these who else."""
    records = query.get("records", "census-persons")
    if records not in RECORDS:
        raise ParameterError(
            "slider-range/records", where=Place(path="records"), value=records[:40], expected=", ".join(RECORDS)[:400]
        )
    known, whom = records_of(records).geography, {value for _, values in people_of(records) for value in values}
    words = {"records": records}
    for place in range(ROWS):
        level = query.get(f"by-{place}", "")
        if level not in (*known, "all"):
            continue
        words[f"by-{place}"] = level
        for kind in ("who", "and"):
            value = query.get(f"{kind}-{place}", "")
            words[f"{kind}-{place}"] = value if value in whom else ""
    return words


RECORDS = {"census-persons": "persons of a census", "pl94-persons": "persons of a redistricting file"}
"""Forms of records that ship, in words."""


@cache
def people_of(records: str) -> list[tuple[str, list[str]]]:
    """For each attribute of the records whom a count may be of: ``attribute=level or group``."""
    return [
        (each.title, [f"{each.name}={name}" for name in (*each.groups, *each.levels)])
        for each in records_of(records).attributes
        if len(each.levels) > 1
    ]


def carried_out(experiment: str, given: Chosen) -> Shown:
    """Carries an experiment out."""
    return EXPERIMENTS[experiment](given)


@router.get("/laboratory", include_in_schema=False)
def laboratory(request: Request, folder: Folder, experiment: Experiment = "belief", step: int = -1) -> HTMLResponse:
    """An experiment with its sliders."""
    part, given = experiments()[experiment], chosen(experiment, request, folder)
    shown = carried_out(experiment, given)
    drawn = [each for each in part.pictures if each.name in shown.pictures]
    wanted = request.query_params.get("picture")
    picture = next((each for each in drawn if each.name == wanted), drawn[0] if drawn else None)
    values = _values(part, given)
    kept = values | {"picture": None if picture is None else picture.name}
    steps = shown.steps.steps if shown.steps else ()
    return page(
        "studio_laboratory.html.j2",
        part.title,
        crumbs=[("Risk laboratory", "/laboratory")],
        experiment=part,
        groups=_groups(),
        given=given,
        shown=shown,
        sliders=[(each, values[each.name], each.place(given.numbers[each.name])) for each in part.sliders],
        choices=[(each, _options(each, folder), given.words[each.name]) for each in part.choices],
        lists=[(each, given.words[each.name]) for each in part.lists],
        pictures=drawn,
        picture=picture,
        drawable=charts.available(),
        here=address("/laboratory", **kept, step=step if 0 <= step < len(steps) else None),
        drawing=address("/laboratory/figure.svg", **kept),
        step=step if 0 <= step < len(steps) else len(steps) - 1,
        step_address=lambda number: address("/laboratory", **kept, step=str(number)),
        sets=shipped_invariants() if experiment == "invariants" else (),
        records=RECORDS,
        record_levels=records_of(given.words["records"]).geography if experiment == "invariants" else (),
        people=people_of(given.words["records"]) if experiment == "invariants" else (),
        rows=ROWS,
        own=OWN,
    )


@router.get("/laboratory/figure.svg", include_in_schema=False)
def drawn(request: Request, folder: Folder, experiment: Experiment = "belief", picture: str = "") -> Response:
    """A picture of an experiment."""
    given = chosen(experiment, request, folder)
    stamp = Path(given.words["sizes_file"]).stat().st_mtime_ns if "sizes_file" in given.words else 0
    frozen = (tuple(given.numbers.items()), tuple(given.words.items()), tuple(given.ticked.items()))
    return figure_answer(_svg(experiment, frozen, picture, stamp))


@lru_cache(maxsize=256)
def _svg(experiment: str, frozen: Any, picture: str, stamp: int) -> str:  # noqa: ARG001
    """A picture as it was drawn before, as long as nothing is chosen otherwise and no file has changed."""
    shown = carried_out(experiment, Chosen(*(dict(each) for each in frozen)))
    if not shown.pictures:
        raise ParameterError("slider-range/experiment", where=Place(path="picture"), value=picture[:40])
    return shown.pictures.get(picture, next(iter(shown.pictures.values())))().svg()


@router.get("/api/laboratory/{experiment}")
def answered(request: Request, folder: Folder, experiment: Experiment) -> LaboratoryAnswer:
    """What an experiment says; its numbers are those of its sliders, such as ``rho`` and ``prior``."""
    shown = carried_out(experiment, chosen(experiment, request, folder))
    figures = {title: figure for title, (figure, _) in shown.figures.items()}
    return LaboratoryAnswer(
        experiment=experiment, command=shown.command, figures=figures, answer=shown.answer, file=shown.file
    )


@router.get("/documentation/{room}/{name}", include_in_schema=False)
def documentation(room: str, name: str) -> HTMLResponse:
    """A page of the documentation: a derivation, or what it is about."""
    texts = _texts()
    if (room, name) not in texts:
        raise ParameterError("slider-range/page", where=Place(path="name"), value=f"{room}/{name}"[:40])
    title, body = _rendered(room, name)
    return page("studio_documentation.html.j2", title, body=Markup(body))  # noqa: S704 - of our own file, HTML off


@cache
def _texts() -> Mapping[tuple[str, str], str]:
    """The pages of the documentation that come with Confide: in a wheel beside the data, else in the sources."""
    packed, sources = files("confide") / "data" / "docs", Path(str(files("confide"))).parents[1] / "docs"
    texts: dict[tuple[str, str], str] = {}
    for room in ROOMS:
        place = packed / room if (packed / room).is_dir() else sources / room
        if place.is_dir():
            texts |= {
                (room, each.name.removesuffix(".md")): each.read_text(encoding="utf-8")
                for each in place.iterdir()
                if each.name.endswith(".md")
            }
    return texts


@lru_cache(maxsize=64)
def _rendered(room: str, name: str) -> tuple[str, str]:
    """Title and HTML of a page. Links lead to pages that are here; others are text."""
    text = _texts()[room, name]
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")

    def link(match: re.Match[str]) -> str:
        words, target = match.group(1), match.group(2)
        path, _, mark = target.partition("#")
        other = path.removesuffix(".md").removeprefix("../").split("/")
        where = (room, other[0]) if len(other) == 1 and path else tuple(other)
        if where in _texts():
            return f"[{words}](/documentation/{'/'.join(where)}{'#' + mark if mark else ''})"
        return words

    linked = re.sub(r"\[([^\]]+)\]\(([^)\s]+)\)", link, text)
    title = next((line.removeprefix("# ") for line in text.splitlines() if line.startswith("# ")), name)
    html = re.sub(r' style="text-align:right"', ' class="n"', markdown.render(linked))  # no page may style itself
    html = re.sub(r' style="text-align:\w+"', "", html)
    return title.replace("`", ""), re.sub(
        r"<table>(.*?)</table>",
        r'<div class="scroll" tabindex="0" role="region" aria-label="Table"><table>\1</table></div>',
        re.sub(r"<pre>", '<pre class="code" tabindex="0">', html),
        flags=re.DOTALL,
    )


def _values(part: ExperimentPart, given: Chosen) -> dict[str, Any]:
    """The address of an experiment: what was chosen, as it is written."""
    values: dict[str, Any] = {"experiment": part.id}
    values |= {name: exact_text(number) for name, number in given.numbers.items()}
    values |= {name: word for name, word in given.words.items() if not name.endswith("_file")}
    values |= {name: list(ticked) for name, ticked in given.ticked.items()}
    return values | ({"chosen": "1"} if part.id == "invariants" else {})


def _groups() -> dict[str, list[ExperimentPart]]:
    groups: dict[str, list[ExperimentPart]] = {}
    for part in experiments().values():
        groups.setdefault(part.group, []).append(part)
    return groups


def _options(choice: OfferedChoice, folder: OpenedFolder) -> dict[str, str]:
    if choice.options == "countries":
        programme = load_programme(PROGRAMME)
        return {"": f"{programme.country}: that of the programme"} | {code: code for code in programme.countries or ()}
    if choice.options == "files":
        listed = sorted(each.name for each in folder.root.iterdir() if each.suffix in SIZES and each.is_file())
        return {"": "none"} | {name: name for name in listed[:200]}
    return choice.options
