"""The release cockpit: what cannot be undone is typed, and whatever happens, nothing is charged twice."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.contract.kit import Project, lay_out
from tests.kits.studio import ORIGIN, Visitor, entered

from confide.errors import RunError
from confide.releases.ledger import Ledger
from confide.releases.workspace import one_process
from confide.studio import cockpit, jobs
from confide.studio.jobs import LOCK, Jobs, work

SPEC = {"spec": "spec.toml"}
NAME = "two-states"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return lay_out("tables", tmp_path / "office")


def do(browser: Visitor, action: str, **wanted: str) -> dict[str, Any]:
    answer = browser.post(
        f"/api/cockpit/{action}", params=SPEC, headers=ORIGIN | {"content-type": "application/json"},
        content=json.dumps(wanted).encode(),
    )  # fmt: skip
    return {"status": answer.status_code} | answer.json()


def price(browser: Visitor) -> str:
    do(browser, "check")
    return "3/2"


@pytest.mark.usefixtures("here")
def test_nothing_is_run_or_destroyed_without_the_name_of_the_release(project: Project) -> None:
    browser = entered(project.folder)
    cost = price(browser)
    for typed in ("", "two-state", "two-states2"):
        for action in ("run", "destroy"):
            refused = do(browser, action, typed=typed, cost=cost)
            assert (refused["status"], refused["findings"][0]["code"]) == (400, "not-confirmed")
            form = {"action": action, "typed": typed, "cost": cost}
            assert browser.post("/cockpit/do", params=SPEC, headers=ORIGIN, form=form).status_code == 400
    assert not project.run_folder.exists()
    assert project.charges() == ["open"]


@pytest.mark.usefixtures("here")
def test_from_a_check_to_a_final_release(project: Project) -> None:
    browser = entered(project.folder)
    assert "Check the spec first" in browser.get("/cockpit", params=SPEC).text
    pressed = browser.post("/cockpit/do", params=SPEC, headers=ORIGIN, form={"action": "check"})
    assert (pressed.status_code, pressed.headers["location"]) == (303, "/cockpit?spec=spec.toml")
    page = browser.get("/cockpit", params=SPEC).text
    assert "no problems" in page
    assert "The ledger will be charged <b>1.5</b>" in page
    other = do(browser, "run", typed=NAME, cost="1")
    assert other["jobs"]["run"]["findings"][0]["code"] == "price-changed"
    assert project.charges() == ["open"]
    done = do(browser, "run", typed=NAME, cost="3/2")
    assert (done["sealed"], done["key"], done["spent"], done["budget"]) == (True, True, "3/2", "3/2")
    assert project.charges() == ["open", "reserve", "measured", "sealed"]
    again = do(browser, "run", typed=NAME, cost="3/2")
    assert again["sealed"]
    assert project.charges() == ["open", "reserve", "measured", "sealed"], "nothing is charged again"
    assert "Look at it" in browser.get("/cockpit", params=SPEC).text
    final = do(browser, "destroy", typed=NAME)
    assert (final["sealed"], final["key"]) == (True, False)
    assert project.charges()[-1] == "key-destroyed"


@pytest.mark.usefixtures("here")
def test_a_check_of_another_spec_says_nothing_of_this_one(project: Project) -> None:
    browser = entered(project.folder)
    do(browser, "check")
    project.spec.write_text(project.spec.read_text() + "\n")
    os.utime(project.spec, ns=(1, 1))
    assert "The spec has changed since it was checked" in browser.get("/cockpit", params=SPEC).text


@pytest.mark.usefixtures("here")
def test_a_spec_that_was_changed_after_it_was_looked_at_is_not_run(project: Project) -> None:
    browser = entered(project.folder)
    do(browser, "check")
    page = browser.get("/cockpit", params=SPEC).text
    form = dict(re.findall(r'<input type="hidden" name="(cost|plan|stamp)" value="([^"]*)">', page))
    assert set(form) == {"cost", "plan", "stamp"}
    assert all(form.values())
    known = do(browser, "check")
    assert (known["cost"], known["plan"]) == (form["cost"], form["plan"])
    before = project.spec.stat().st_mtime_ns
    project.spec.write_text(project.spec.read_text().replace("Age by sex", "Age and sex"))
    pressed = browser.post("/cockpit/do", params=SPEC, headers=ORIGIN, form=form | {"action": "run", "typed": NAME})
    assert pressed.status_code == 400
    assert "changed after the check" in pressed.text
    os.utime(project.spec, ns=(before, before))  # as if another file that counts had been changed
    refused = do(browser, "run", typed=NAME, **form)["jobs"]["run"]
    assert refused["findings"][0]["code"] == "spec-changed"
    assert project.charges() == ["open"]
    assert not (project.run_folder / "release").exists()


def test_a_ledger_that_another_process_holds_is_said_and_waited_for_briefly(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cockpit, "PATIENCE", 0.05)
    browser = entered(project.folder)
    with closing(sqlite3.connect(project.ledger)) as other:
        other.execute("BEGIN EXCLUSIVE")
        page = browser.get("/cockpit", params=SPEC)
    assert page.status_code == 200
    assert "The ledger cannot be read" in page.text
    assert "the other process" in page.text
    assert "The ledger cannot be read" not in browser.get("/cockpit", params=SPEC).text


def test_a_dossier_is_kept_nowhere_and_may_do_nothing(project: Project) -> None:
    browser = entered(project.folder)
    assert browser.get("/cockpit/dossier", params=SPEC).status_code == 400
    folder = project.run_folder / "dossier-confidential"
    folder.mkdir(parents=True)
    (folder / "dossier-confidential.html").write_text("<script>alert(1)</script>")
    page = browser.get("/cockpit/dossier", params=SPEC)
    assert page.headers["cache-control"] == "no-store"
    assert "sandbox" in page.headers["content-security-policy"]
    assert "script-src" not in page.headers["content-security-policy"]
    stranger = Visitor(browser.application)
    assert stranger.get("/cockpit/dossier", params=SPEC).status_code == 403
    assert browser.get("/cockpit", params={"spec": "../spec.toml"}).status_code == 400


@pytest.mark.usefixtures("here")
def test_notes_of_jobs_are_private_and_have_findings_but_no_values(project: Project) -> None:
    text = (project.folder / "persons.csv").read_text().splitlines()
    first = text[1].split(",")
    (project.folder / "persons.csv").write_text(
        "\n".join([text[0], ",".join(["SECRET-PLACE", *first[1:]]), *text[2:]]) + "\n"
    )
    browser = entered(project.folder)
    found = do(browser, "check")["jobs"]["check"]
    assert found["state"] == "done"
    page = browser.get("/cockpit", params=SPEC).text
    assert "finding" in page
    notes = [file for file in (project.folder / jobs.OWN).rglob("*") if file.is_file()]
    assert notes
    for file in notes:
        assert "SECRET-PLACE" not in file.read_text()
        assert file.stat().st_mode & 0o077 == 0
    assert "SECRET-PLACE" not in page
    assert (project.folder / jobs.OWN).stat().st_mode & 0o077 == 0


def test_a_second_job_ends_before_it_begins_and_a_lost_one_is_interrupted(project: Project) -> None:
    spec = project.spec.resolve()
    folder = project.folder.resolve() / jobs.OWN / jobs._key(project.folder.resolve(), spec)
    folder.mkdir(parents=True)
    asked = {"action": "check", "spec": str(spec), "folder": str(folder), "job": "a", "given": {}}
    begun = {"action": "run", "spec": "spec.toml", "job": "b", "state": "running", "begun": 0.0, "stages": []}
    (folder / "run.json").write_text(json.dumps(begun))
    with one_process(folder / LOCK, folder):
        with pytest.raises(RunError):
            work(asked)
        assert not (folder / "check.json").exists()
        assert Jobs(project.folder.resolve()).states(spec)["run"].state == "running"
        with pytest.raises(RunError, match="another job is at work"):
            Jobs(project.folder.resolve()).start("check", spec)
        assert not (folder / "check.json").exists(), "one is running: nothing is begun"
        pressed = entered(project.folder).post("/cockpit/do", params=SPEC, headers=ORIGIN, form={"action": "check"})
        assert pressed.status_code == 400
        assert "another job is at work" in pressed.text
        Jobs(project.folder.resolve()).start("run", spec)  # the same is at work already, and the page shows it
        assert json.loads((folder / "run.json").read_text()) == begun
    assert Jobs(project.folder.resolve()).states(spec)["run"].state == "interrupted"
    page = entered(project.folder).get("/cockpit", params=SPEC).text
    assert "The same button goes on" in page


def wait_for(browser: Visitor, wanted: Any) -> dict[str, Any]:
    until = time.monotonic() + 120
    while time.monotonic() < until:
        now: dict[str, Any] = browser.get("/api/cockpit", params=SPEC).json()
        if wanted(now):
            return now
        time.sleep(0.1)
    raise AssertionError("it did not come to an end")


@pytest.mark.process
def test_two_people_at_once_are_charged_once(project: Project) -> None:
    browser = entered(project.folder)
    with ThreadPoolExecutor(2) as both:
        list(both.map(lambda _: do(browser, "run", typed=NAME, cost="3/2"), range(2)))
    wait_for(browser, lambda now: now["sealed"] and now["jobs"]["run"]["state"] == "done")
    assert project.charges() == ["open", "reserve", "measured", "sealed"]


@pytest.mark.slow
@pytest.mark.process
def test_after_a_crash_the_same_button_goes_on_and_nothing_is_charged_again(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[bytes]] = []
    real = subprocess.Popen

    def noted(*arguments: Any, **named: Any) -> Any:
        started.append(real(*arguments, **named))
        return started[-1]

    monkeypatch.setattr(jobs.subprocess, "Popen", noted)
    browser = entered(project.folder)
    do(browser, "run", typed=NAME, cost="3/2")
    while "reserve" not in project.charges():
        time.sleep(0.005)
    os.killpg(started[0].pid, signal.SIGKILL)
    started[0].wait()
    stopped = browser.get("/api/cockpit", params=SPEC).json()
    if not stopped["sealed"]:
        assert stopped["jobs"]["run"]["state"] == "interrupted"
        do(browser, "run", typed=NAME, cost="3/2")
    wait_for(browser, lambda now: now["sealed"] and now["jobs"]["run"]["state"] == "done")
    assert project.charges() == ["open", "reserve", "measured", "sealed"]


@pytest.mark.usefixtures("here")
def test_a_ledger_that_paid_for_other_records_needs_the_name_of_its_data_set(project: Project) -> None:
    ledger = Ledger(project.ledger)
    name = ledger.account().data_set
    ledger.reserve("other", release="other", plan_hash="a" * 64, records_fingerprint="b" * 64, cost="1/1000")
    project.spec.write_text(project.spec.read_text().replace('"3/2"', '"1"'))
    browser = entered(project.folder)
    do(browser, "check")
    page = browser.get("/cockpit", params=SPEC).text
    assert "Are these the same people as in" in page
    assert "Mend what the check found" in page
    refused = do(browser, "run", typed=NAME, cost="1")["jobs"]["run"]
    assert refused["findings"][0]["code"] == "ledger-other-records"
    for action in ("check", "run"):
        wrong = do(browser, action, typed=NAME, cost="1", data_set=NAME)
        assert (wrong["status"], wrong["findings"][0]["code"]) == (400, "not-confirmed")
    form = {"action": "check", "data_set": name}
    assert browser.post("/cockpit/do", params=SPEC, headers=ORIGIN, form=form).status_code == 303
    page = browser.get("/cockpit", params=SPEC).text
    assert "The ledger was charged for other records so far" in page
    again = do(browser, "run", typed=NAME, cost="1")["jobs"]["run"]
    assert again["findings"][0]["code"] == "ledger-other-records", "said for the check alone"
    assert project.charges() == ["open", "reserve"]
    assert do(browser, "run", typed=NAME, cost="1", data_set=name)["sealed"]


def test_a_job_that_loses_the_lock_to_another_says_so(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two buttons at once: neither saw the other, and only one process gets the lock."""
    monkeypatch.setattr(Jobs, "_busy", staticmethod(lambda _: False))

    class Late:
        stdin = property(lambda self: self)
        write = close = lambda *_: None

        def __init__(self, *_: Any, **__: Any):
            return

        def poll(self) -> int:
            return 0

        wait = poll

    monkeypatch.setattr(jobs.subprocess, "Popen", Late)
    with pytest.raises(RunError, match="was not begun"):
        Jobs(project.folder.resolve()).start("check", project.spec.resolve())
