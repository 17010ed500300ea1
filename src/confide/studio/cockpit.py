"""The release cockpit: from a spec to a sealed release, with the ledger in sight.

Every button is a verb of the library, run in a process of its own (:mod:`.jobs`). The state of each is read from the
run folder and the ledger, so that a page that is reloaded, a second person, or a terminal all see the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import parse_qsl

from fastapi import APIRouter, Depends, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from pydantic import BaseModel, Field

from confide import api
from confide.errors import ConfideError, ParameterError, Place
from confide.releases import LoadedSpec, Workspace
from confide.releases.ledger import OTHER_RECORDS, Account, Entry, Ledger
from confide.studio.door import DOCUMENT_POLICY
from confide.studio.explorer import Folder
from confide.studio.jobs import Jobs, JobState, require_data_set, require_name, require_unchanged
from confide.studio.opened_folder import OpenedFolder
from confide.studio.pages import address, page
from confide.trade_offs import tunable

Action = Literal["check", "rehearse", "run", "evaluate", "destroy"]
DEMONSTRATION = "demo/census.toml"
DOSSIER = "dossier-confidential.html"
PROMISES = ("certificate.html", "statement.html")
"""Documents of a release that say what it promises."""
PATIENCE = 2.0
"""Seconds that a page waits for a ledger which another process holds; a run waits longer."""
router = APIRouter(tags=["cockpit"])


class StageAnswer(BaseModel):
    """A stage of a job."""

    title: str
    steps: int
    done: int


class JobAnswer(BaseModel):
    """A job: how far it is, and what came of it."""

    state: str
    stages: list[StageAnswer]
    seconds_left: float | None
    findings: list[dict[str, Any]]


class CockpitAnswer(BaseModel):
    """A release on its way."""

    spec: str
    release: str
    mechanism: str
    begun: bool = Field(description="Whether a run was begun, and charged.")
    sealed: bool
    key: bool = Field(description="Whether the key is still there.")
    budget: str | None
    spent: str | None
    cost: str | None = Field(description="The price, as the last check of the spec stated it.")
    plan: str | None = Field(description="The hash of the plan that was checked.")
    jobs: dict[str, JobAnswer]


class Wanted(BaseModel):
    """What somebody wants to be done."""

    typed: str = Field("", max_length=200, description="The name of the release, for what cannot be undone.")
    data_set: str = Field(
        "", max_length=400, description="The name of the ledger's data set, where its records were other ones so far."
    )
    cost: str = Field("", max_length=4000, description="The price that was shown, for a run.")
    plan: str = Field("", max_length=200, description="The plan that was shown; a run of another is refused.")
    stamp: str = Field("", max_length=40, description="When the spec that was shown was last changed, likewise.")


@dataclass(frozen=True)
class Cockpit:
    """A spec, its run folder, its ledger, and its jobs."""

    name: str
    loaded: LoadedSpec
    workspace: Workspace
    account: Account | None
    history: tuple[Entry, ...]
    ledger_problem: str
    jobs: dict[str, JobState]

    @property
    def running(self) -> JobState | None:
        return next((job for job in self.jobs.values() if job.state == "running"), None)

    @property
    def checked(self) -> JobState | None:
        """The last check, if it was of the spec as it is."""
        job = self.jobs.get("check")
        same = job is not None and job.stamp == self.loaded.path.stat().st_mtime_ns
        return job if same else None

    @property
    def cost(self) -> Fraction | None:
        """The price that the check stated."""
        stated = self.checked.result.get("cost") if self.checked and self.checked.result else None
        return None if stated is None else Fraction(stated)

    @property
    def plan(self) -> str:
        """The hash of the plan that was checked; nothing where none was."""
        return str(self.checked.result.get("plan") or "") if self.checked and self.checked.result else ""

    @property
    def other_records(self) -> bool:
        """Whether the check says that the ledger was charged for other records: a person says whether it may be."""
        findings = self.checked.result.get("findings", ()) if self.checked and self.checked.result else ()
        return any(finding["code"] == OTHER_RECORDS for finding in findings)

    @property
    def begun(self) -> bool:
        return self.workspace.identity() is not None

    @property
    def sealed(self) -> bool:
        return self.workspace.sealed

    @property
    def key(self) -> bool:
        return self.workspace.key_file.is_file()

    @property
    def dossier(self) -> Path | None:
        file = self.workspace.dossier / DOSSIER
        return file if file.is_file() else None

    @property
    def accounted(self) -> bool:
        return api.MECHANISMS[self.loaded.spec.release.mechanism].accounted

    @property
    def charged_here(self) -> Fraction:
        """What the ledger has charged for this release."""
        if self.account is None:
            return Fraction(0)
        name = self.loaded.spec.release.name
        return sum((run.charged for run in self.account.runs.values() if run.release == name), Fraction(0))


def opened_cockpit(folder: Folder, spec: str) -> Cockpit:
    """The cockpit of a spec in the folder."""
    path = folder.inside(spec)
    loaded = api.load(path)
    account, history, problem = None, tuple[Entry, ...](), ""
    if api.MECHANISMS[loaded.spec.release.mechanism].accounted:
        try:
            ledger = Ledger(loaded.resolve(loaded.spec.privacy.ledger), lock_timeout=PATIENCE)
            account, history = ledger.account(), ledger.history()
        except ConfideError as error:
            finding = error.findings[0]
            problem = (
                f"{finding.what}. {finding.remedy[:1].upper()}{finding.remedy[1:]}" if finding.remedy else finding.what
            )
    jobs = Jobs(folder.root).states(loaded.path)
    return Cockpit(spec, loaded, Workspace(loaded.folder), account, history, problem, jobs)


AskedCockpit = Annotated[Cockpit, Depends(opened_cockpit)]


@router.get("/cockpit", include_in_schema=False)
def shown_cockpit(cockpit: AskedCockpit, folder: Folder) -> HTMLResponse:
    """The cockpit of a release."""
    release = cockpit.loaded.spec.release
    return page("studio_cockpit.html.j2", release.title or release.name, **_values(cockpit, folder))


@router.post("/cockpit/do", include_in_schema=False)
async def pressed(request: Request, folder: Folder, cockpit: AskedCockpit) -> Response:
    """A button of the cockpit."""
    form = dict(parse_qsl((await request.body()).decode("utf-8", "replace")))
    action = form.get("action", "")
    if action not in ("check", "rehearse", "run", "evaluate", "destroy"):
        raise ParameterError("no-action/cockpit", where=Place(path="action"), action=action[:40])
    shown = {"plan": form.get("plan", "")[:200], "stamp": form.get("stamp", "")[:40]}
    names = {"typed": form.get("typed", "")[:200], "data_set": form.get("data_set", "")[:400]}
    wanted = Wanted(**names, cost=form.get("cost", "")[:4000], **shown)
    await run_in_threadpool(_start, folder, cockpit, action, wanted)
    return RedirectResponse(address("/cockpit", spec=cockpit.name), 303)


@router.get("/cockpit/dossier", include_in_schema=False)
def dossier(cockpit: AskedCockpit) -> Response:
    """The dossier of a release: confidential, so no cache keeps it."""
    if cockpit.dossier is None:
        raise ParameterError("no-action/dossier", where=Place(path="action"))
    content = cockpit.dossier.read_bytes()
    kept_nowhere = {"content-security-policy": DOCUMENT_POLICY, "cache-control": "no-store"}
    return Response(content, media_type="text/html; charset=utf-8", headers=kept_nowhere)


@router.post("/demonstration", include_in_schema=False)
async def demonstration(folder: Folder) -> Response:
    """Makes a demonstration in a folder that has nothing of the kind."""
    await run_in_threadpool(_demonstrate, folder)
    return RedirectResponse("/", 303)


@router.get("/api/cockpit")
def answered_cockpit(cockpit: AskedCockpit) -> CockpitAnswer:
    """How far a release has come, and its jobs."""
    account = cockpit.account
    jobs = {
        action: JobAnswer(
            state=job.state,
            stages=[StageAnswer(title=each["title"], steps=each["steps"], done=each["done"]) for each in job.stages],
            seconds_left=job.seconds_left,
            findings=[dict(finding) for finding in job.findings],
        )
        for action, job in cockpit.jobs.items()
    }
    return CockpitAnswer(
        spec=cockpit.name,
        release=cockpit.loaded.spec.release.name,
        mechanism=cockpit.loaded.spec.release.mechanism,
        begun=cockpit.begun,
        sealed=cockpit.sealed,
        key=cockpit.key,
        budget=None if account is None else str(account.budget),
        spent=None if account is None else str(account.spent),
        cost=None if cockpit.cost is None else str(cockpit.cost),
        plan=cockpit.plan or None,
        jobs=jobs,
    )


@router.post("/api/cockpit/{action}")
def do(action: Action, wanted: Wanted, folder: Folder, cockpit: AskedCockpit) -> CockpitAnswer:
    """Begins a job, unless one is running; a run and the end of a key need the name of the release."""
    _start(folder, cockpit, action, wanted)
    return answered_cockpit(opened_cockpit(folder, cockpit.name))


def _start(folder: OpenedFolder, cockpit: Cockpit, action: str, wanted: Wanted) -> None:
    given: dict[str, Any] = {}
    if action in ("check", "run") and wanted.data_set.strip() and cockpit.account is not None:
        require_data_set(cockpit.account.data_set, wanted.data_set)
        given["data_set"] = wanted.data_set
    if action in ("run", "destroy"):
        require_name(cockpit.loaded.path, wanted.typed)
        given["typed"] = wanted.typed
    if action == "run":
        require_unchanged(cockpit.loaded.path, wanted.stamp)
        given |= {"cost": wanted.cost, "plan": wanted.plan, "stamp": wanted.stamp}
    Jobs(folder.root).start(action, cockpit.loaded.path, **given)


def demonstrating(folder: OpenedFolder) -> JobState | None:
    """The demonstration that is made, or was, in this folder."""
    return Jobs(folder.root).states(folder.root / DEMONSTRATION).get("demonstrate")


def _demonstrate(folder: OpenedFolder) -> None:
    spec = folder.root / DEMONSTRATION
    if not spec.parent.exists():
        Jobs(folder.root).start("demonstrate", spec)


def _values(cockpit: Cockpit, folder: OpenedFolder) -> dict[str, Any]:
    account = cockpit.account
    parts = []
    if account is not None:
        after = account.spent + (cockpit.cost or 0 if not cockpit.charged_here else 0)
        parts = [float(100 * part / account.budget) for part in (account.spent, min(after, account.budget))]
    rehearsed = cockpit.jobs.get("rehearse")
    kept = rehearsed.result if rehearsed and rehearsed.state == "done" else None
    return {
        "cockpit": cockpit,
        "here": address("/cockpit", spec=cockpit.name),
        "do": address("/cockpit/do", spec=cockpit.name),
        "account": account,
        "parts": parts,
        "release_name": _inside(folder, cockpit.workspace.release),
        "promises": [name for name in PROMISES if (cockpit.workspace.release / name).is_file()],
        "tunable": cockpit.loaded.spec.release.mechanism in tunable(),
        "rehearsal": kept,
        "rehearsal_name": _inside(folder, Path(kept["release"])) if kept else "",
        "running": cockpit.running,
    }


def _inside(folder: OpenedFolder, path: Path) -> str:
    """What a release is called in the folder; nothing where it lies elsewhere."""
    resolved = path.resolve()
    return resolved.relative_to(folder.root).as_posix() if resolved.is_relative_to(folder.root) else ""
