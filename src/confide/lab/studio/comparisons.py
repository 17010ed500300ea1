"""Methods compared: what ``confide compare`` made, as a page on which one chooses, and one more protection on request.

The numbers are those of ``comparison.json``. Another budget is another run of the same verb, in a process of its own
(:mod:`.jobs`): what is finished is kept, so that a page that is reloaded, or a run that was interrupted, goes on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import parse_qsl

from fastapi import APIRouter, Depends, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from pydantic import BaseModel, Field

from confide.errors import ConfideError, ParameterError, Place, RunError
from confide.file_system import write_text
from confide.lab.comparison import ProtectionComparison, compare, read_comparison
from confide.lab.comparison.comparing import NUMBERS, asked_before
from confide.lab.comparison.comparison_spec import WITH_BUDGET, also_protected
from confide.lab.comparison.page import MADE_UP, ComparedView, percent, persons
from confide.releases.dossier import BANNER
from confide.report import charts, render
from confide.studio.explorer import Folder
from confide.studio.jobs import Jobs, JobState, Noting
from confide.studio.opened_folder import OpenedFolder
from confide.studio.pages import address, figure_answer, page

router = APIRouter(tags=["compare methods"])
SMALL = "comparison"
"""The folder of the small comparison that the page offers."""
SMALL_SPEC, SMALL_OUT = f"{SMALL}/spec.toml", f"{SMALL}/made"
PICTURES = {
    "trade-off": "Risk against error: lower is better protected, further left is more accurate.",
    "precision": "How often a match is right, beside what guessing about the same people gives.",
    "errors": "The mean absolute error of the count on each level.",
}


class ComparedAnswer(BaseModel):
    """A comparison as it is looked at."""

    comparison: str
    title: str
    confidential: bool = Field(description="Whether it is about real people: then nothing of it may leave the office.")
    view: dict[str, Any]
    job: str | None = Field(description="running, done, failed or interrupted; none where nothing was asked for here.")


class MoreWanted(BaseModel):
    """One more protection."""

    mechanism: str = Field("topdown", max_length=40, description="topdown or tables")
    rho: str = Field(max_length=200, description="Its budget, exactly, such as 1/2.")


@dataclass(frozen=True)
class Compared:
    """A comparison in the folder: what was made of it, from which spec, and the job that goes on."""

    name: str
    folder: Path
    comparison: ProtectionComparison | None
    spec: str
    """What the spec is called in the folder; nothing where it lies elsewhere, or is not known."""
    also: tuple[str, ...]
    job: JobState | None
    problem: str = ""

    @property
    def running(self) -> bool:
        return self.job is not None and self.job.state == "running"

    @property
    def command(self) -> str:
        """What makes it at a terminal, in the folder that was opened."""
        also = "".join(f" --also {each}" for each in self.also)
        return f"confide compare {self.spec or 'SPEC'} --out {self.name}{also}"


def opened_comparison(folder: Folder, comparison: str) -> Compared:
    """A comparison in the folder."""
    place = folder.inside(comparison)
    spec, also = asked_before(place)
    inside = spec is not None and spec.is_relative_to(folder.root) and spec.is_file()
    name = spec.relative_to(folder.root).as_posix() if spec is not None and inside else ""
    job = Jobs(folder.root).states(place / NUMBERS).get("compare")
    try:
        opened, problem = read_comparison(place), ""
    except ConfideError as error:
        opened, problem = None, error.findings[0].what
    if opened is None and job is None:
        raise ParameterError("no-comparison/name", where=Place(path="comparison"), found=comparison[:80])
    return Compared(comparison, place, opened, name, also, job, problem)


AskedComparison = Annotated[Compared, Depends(opened_comparison)]


@router.get("/compare", include_in_schema=False)
def shown_comparison(
    folder: Folder,
    comparison: str = "",
    characteristic: str = "",
    level: str = "",
    group: str = "",
    picture: str = "trade-off",
) -> HTMLResponse:
    """A comparison, or those that there are."""
    if not comparison:
        return _listed(folder)
    compared = opened_comparison(folder, comparison)
    values: dict[str, Any] = {"compared": compared, "do": address("/compare/do", comparison=comparison)}
    opened = compared.comparison
    view = None if opened is None else opened.view(characteristic, level, group)
    drawn = picture if picture in PICTURES else "trade-off"
    kept = {} if view is None else {"characteristic": view.characteristic, "level": view.level, "group": view.group}
    return page(
        "studio_compare.html.j2",
        "Comparison" if opened is None else str(opened.numbers["title"]),
        crumbs=[("Compare methods", "/compare")],
        view=view,
        banner=None if opened is None else MADE_UP if opened.numbers["made_up"] else BANNER,
        here=address("/compare", comparison=comparison, **kept, picture=drawn),
        drawing=address("/compare/figure.svg", comparison=comparison, **kept, picture=drawn),
        pictures=PICTURES,
        picture=drawn,
        drawable=charts.available(),
        mechanisms=list(WITH_BUDGET),
        percent=percent,
        persons=persons,
        **values,
    )


@router.get("/compare/figure.svg", include_in_schema=False)
def drawn_comparison(
    compared: AskedComparison, picture: str = "trade-off", characteristic: str = "", level: str = "", group: str = ""
) -> Response:
    """A picture of a comparison."""
    if compared.comparison is None or picture not in PICTURES:
        raise ParameterError(
            "no-such-comparison/picture", where=Place(path="picture"), value=picture[:60], expected=", ".join(PICTURES)
        )
    stamp = (compared.folder / NUMBERS).stat().st_mtime_ns
    return figure_answer(_svg(str(compared.folder), stamp, picture, characteristic, level, group))


@lru_cache(maxsize=128)
def _svg(folder: str, stamp: int, picture: str, *chosen: str) -> str:  # noqa: ARG001
    """A picture as it was drawn before, until the comparison has changed."""
    return read_comparison(folder).view(*chosen).pictures()[picture]().svg()


@router.post("/compare/do", include_in_schema=False)
async def one_more(request: Request, folder: Folder, compared: AskedComparison) -> Response:
    """Another protection, or what was interrupted goes on."""
    form = dict(parse_qsl((await request.body()).decode("utf-8", "replace")))
    wanted = None
    if form.get("rho"):
        wanted = MoreWanted(mechanism=form.get("mechanism", "")[:40], rho=form["rho"][:200])
    await run_in_threadpool(_start, folder, compared, wanted)
    return RedirectResponse(address("/compare", comparison=compared.name), 303)


@router.post("/compare/new", include_in_schema=False)
async def small_comparison(folder: Folder) -> Response:
    """A small comparison of made-up people, in a folder that has none."""
    await run_in_threadpool(_begin_small, folder)
    return RedirectResponse(address("/compare", comparison=SMALL_OUT), 303)


@router.get("/api/compare")
def answered_comparison(
    compared: AskedComparison, characteristic: str = "", level: str = "", group: str = ""
) -> ComparedAnswer:
    """A comparison: one count on one level, and one group of people, under every protection."""
    opened = compared.comparison
    view: ComparedView | None = None if opened is None else opened.view(characteristic, level, group)
    return ComparedAnswer(
        comparison=compared.name,
        title="" if opened is None else str(opened.numbers["title"]),
        confidential=opened is not None and bool(opened.numbers["confidential"]),
        view={} if view is None else view.as_dict(),
        job=None if compared.job is None else compared.job.state,
    )


@router.post("/api/compare")
def more(wanted: MoreWanted, folder: Folder, compared: AskedComparison) -> ComparedAnswer:
    """Begins one more protection, unless something runs."""
    _start(folder, compared, wanted)
    return answered_comparison(opened_comparison(folder, compared.name))


def _start(folder: OpenedFolder, compared: Compared, wanted: MoreWanted | None) -> None:
    if not compared.spec:
        raise ParameterError("no-such-comparison/spec", where=Place(path="comparison"), value=compared.name[:60])
    also = [] if wanted is None else [f"{wanted.mechanism}={wanted.rho.strip()}"]
    also_protected(also, ())  # for its findings, before a process begins
    Jobs(folder.root).start("compare", compared.folder / NUMBERS, also=also)


def _begin_small(folder: OpenedFolder) -> None:
    spec, out = folder.root / SMALL_SPEC, folder.root / SMALL_OUT
    if not spec.exists():
        spec.parent.mkdir(mode=0o700, exist_ok=True)
        write_text(spec, render("studio_comparison.toml.j2"))
    Jobs(folder.root).start("compare", out / NUMBERS, made_from=str(spec))


def _listed(folder: OpenedFolder) -> HTMLResponse:
    inside = folder.contents()
    listed: list[tuple[str, Any, str]] = []
    for each in inside.comparisons:
        try:
            listed.append((each.name, read_comparison(each.path).numbers, ""))
        except ConfideError as error:
            listed.append((each.name, None, error.findings[0].what))
    small = Jobs(folder.root).states(folder.root / SMALL_OUT / NUMBERS).get("compare")
    return page(
        "studio_comparisons.html.j2",
        "Compare methods",
        listed=listed,
        small=SMALL_OUT,
        begun=small is not None and small.state in ("running", "interrupted"),
    )


def compare_job(file: Path, progress: Noting, given: Mapping[str, Any]) -> dict[str, Any]:
    """Makes a comparison, or makes it again with more protections: what is finished is kept."""
    spec, before = asked_before(file.parent)
    spec = Path(given["made_from"]) if given.get("made_from") else spec
    if spec is None:
        raise RunError("no-spec", where=Place(file=str(file)))
    also = list(dict.fromkeys([*before, *given.get("also", ())]))
    answer = compare(spec, file.parent, also=also, progress=_StagesAlone(progress))
    return {"protections": len(answer.numbers["protections"])}


class _StagesAlone:
    """Progress without what protections say of their records: the notes of a job have no value of any."""

    def __init__(self, progress: Noting):
        self._progress = progress
        self.stage = progress.stage

    def note(self, text: str) -> None:
        """See :class:`confide.releases.workspace.Progress`."""
        if text.startswith("Protection "):
            self._progress.note(text)
