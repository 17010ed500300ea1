"""A full disk, a closed folder, half a file, a clock set back, two at once: a clear error, and nothing spent that is
not due, nothing half-written; once the cause is gone, the run goes on to the bytes of an undisturbed one."""

from __future__ import annotations

import codecs
import errno
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import pyarrow as pa
import pytest
from tests.kits.bad_input import (
    KEY,
    SPEC,
    Outcome,
    confide,
    entries,
    make_project,
    persons,
    records,
    spec,
    tree,
    write_csv,
    write_parquet,
)
from tests.kits.small_disk import FILLER, fill, make_room, mounted_disk

from confide import api
from confide.engines.protocol import Workers, map_groups
from confide.errors import ConfideError, RunError
from confide.mechanisms.tables import Tables
from confide.releases.folder import ReleaseWriter
from confide.releases.ledger import Ledger
from confide.releases.replay import compare
from confide.releases.workspace import Workspace

SEALED = ["open", "reserve", "measured", "sealed"]


def run(project: Path, *more: object) -> Outcome:
    return confide("run", project / "spec.toml", "--processes", "1", "--insecure-key", KEY, *more)


def refused(outcome: Outcome, *codes: str) -> dict[str, Any]:
    assert outcome.exit_code == 1, outcome.text
    assert "Traceback" not in outcome.text
    finding = outcome.findings[0]
    assert finding["code"] in codes, finding
    for part in ("what", "where", "found", "expected", "remedy"):
        assert finding[part], finding
    return finding


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path / "project")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The release of the same records, plan and key, made in one go."""
    project = make_project(tmp_path_factory.mktemp("undisturbed") / "project")
    assert run(project).exit_code == 0
    return project / "tiny" / "release"


# A full disk


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A disk of one megabyte."""
    with mounted_disk(1) as folder:
        yield folder


def on_small_disk(project: Path, disk: Path) -> Path:
    spec("[output]", f'[output]\nfolder = "{disk}/tiny"')(project)
    return disk / "tiny"


@pytest.mark.process
def test_a_disk_that_is_full_before_the_run_costs_nothing(project: Path, small_disk: Path) -> None:
    on_small_disk(project, small_disk)
    fill(small_disk)
    before = tree(project)
    finding = refused(run(project, "--json"), "disk-full")
    assert str(small_disk) in finding["where"]["file"]
    assert tree(project) == before
    assert sorted(path.name for path in small_disk.iterdir()) == [FILLER]


class Moment(NamedTuple):
    """A step of a run at whose beginning the disk is full, and what the ledger then says."""

    owner: type
    step: str
    ledger: list[str]


MOMENTS = [
    Moment(Ledger, "reserve", ["open", "reserve"]),
    Moment(Tables, "count", ["open", "reserve"]),
    Moment(Tables, "measure", ["open", "reserve", "measured"]),
    Moment(Tables, "publish", ["open", "reserve", "measured"]),
    Moment(ReleaseWriter, "document", ["open", "reserve", "measured"]),
    Moment(ReleaseWriter, "seal", ["open", "reserve", "measured"]),
]


@pytest.mark.process
@pytest.mark.parametrize("moment", MOMENTS, ids=lambda moment: moment.step)
def test_a_disk_that_fills_up_on_the_way_is_charged_once_and_the_run_goes_on(
    moment: Moment, project: Path, small_disk: Path, undisturbed: Path
) -> None:
    folder = on_small_disk(project, small_disk)
    step = getattr(moment.owner, moment.step)

    def on_a_full_disk(*arguments: Any, **named: Any) -> Any:
        fill(small_disk)
        return step(*arguments, **named)

    with mock.patch.object(moment.owner, moment.step, on_a_full_disk):
        finding = refused(run(project, "--json"), "disk-full")
    assert "continues" in finding["remedy"]
    assert entries(project) == moment.ledger
    assert not list(folder.glob("release*"))
    assert not list(folder.rglob("*.partial"))
    make_room(small_disk)
    assert run(project).exit_code == 0
    assert entries(project) == SEALED
    assert compare(folder / "release", undisturbed).ok


LIMITED = """
import resource, sys
from confide.cli.main import main
spec, key = sys.argv[1:]
for limit in (0, 200, 2000, 6000, 12_000, 20_000, 40_000, resource.RLIM_INFINITY):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    sys.argv = ["confide", "run", spec, "--processes", "1", "--insecure-key", key, "--json"]
    try:
        main()
        code = 0
    except SystemExit as ended:
        code = ended.code
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    sys.stderr.write(f"ended {code}\\n")
"""


@pytest.mark.process
def test_no_file_may_grow_beyond_any_limit(project: Path, undisturbed: Path) -> None:
    """What a quota does, and what a user without the right to mount can try: every write fails somewhere else."""
    command = [sys.executable, "-c", LIMITED, str(project / "spec.toml"), KEY]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    codes = [line.split()[1] for line in ended.stderr.splitlines() if line.startswith("ended")]
    assert len(codes) == 8, ended.stderr
    assert codes[0] == "1"
    assert codes[-1] == "0", ended.stdout[-2000:]
    assert set(codes) == {"0", "1"}, ended.stderr + ended.stdout
    assert "Traceback" not in ended.stderr
    assert entries(project) == SEALED
    assert compare(project / "tiny/release", undisturbed).ok


def test_room_is_looked_for_before_anything_is_reserved(project: Path) -> None:
    before = tree(project)
    with mock.patch.object(shutil, "disk_usage", return_value=mock.Mock(free=6_000)):
        for command in ("check", "run"):
            outcome = confide(command, project / "spec.toml", "--processes", "1", "--json")
            finding = refused(outcome, "disk-full")
            assert finding["found"] == "0.01 MB free"
        assert finding["expected"].startswith("about 0.0")
    assert tree(project) == before


def test_no_room_for_temporary_files(project: Path) -> None:
    with mock.patch.object(tempfile, "tempdir", str(project / "none")):
        finding = refused(confide("check", project / "spec.toml", "--json"), "cannot-write")
    assert finding["where"]["file"] == str(project / "none")


# Folders and files that are closed


@pytest.fixture
def ordinary_user() -> Iterator[Path]:
    """A project of a user who is bound by permissions (root is not), and the rest of the test as that user."""
    folder = Path(tempfile.mkdtemp())
    root = os.geteuid() == 0
    # Loaded when first used, which the ordinary user cannot do where Python itself belongs to root.
    codecs.lookup("utf-8-sig")
    if root:
        os.chown(folder, 65534, 65534)
        os.seteuid(65534)
    try:
        yield make_project(folder / "project")
    finally:
        if root:
            os.seteuid(0)
        for path in (folder / "project", *(folder / "project").rglob("*")):
            if path.is_dir():
                path.chmod(0o700)
        shutil.rmtree(folder)


def test_a_folder_that_cannot_be_written(ordinary_user: Path) -> None:
    ordinary_user.chmod(0o500)
    before = tree(ordinary_user)
    for command in ("check", "run"):
        outcome = confide(command, ordinary_user / "spec.toml", "--processes", "1", "--json")
        finding = refused(outcome, "run-folder")
        assert finding["where"]["line"] == 2
    assert tree(ordinary_user) == before


def test_a_run_folder_that_was_closed_goes_on_when_it_is_open(ordinary_user: Path) -> None:
    with mock.patch.object(Tables, "publish", side_effect=OSError(errno.EIO, "Input/output error")):
        refused(run(ordinary_user, "--json"), "cannot-write")
    folder = ordinary_user / "tiny"
    folder.chmod(0o500)
    refused(run(ordinary_user, "--json"), "run-folder")
    folder.chmod(0o700)
    (folder / "confidential").chmod(0o000)
    refused(confide("check", ordinary_user / "spec.toml", "--processes", "1", "--json"), "run-record")
    (folder / "confidential").chmod(0o700)
    assert run(ordinary_user).exit_code == 0
    assert entries(ordinary_user) == SEALED


def test_a_ledger_that_cannot_be_written_costs_nothing_and_binds_nobody(ordinary_user: Path) -> None:
    ledger = ordinary_user / "people.ledger"
    ledger.chmod(0o400)
    before = tree(ordinary_user)
    refused(run(ordinary_user, "--json"), "ledger-read-only")
    assert tree(ordinary_user) == before
    ledger.chmod(0o600)
    spec('budget = "1/2"', 'budget = "1/3"')(ordinary_user)
    assert run(ordinary_user).exit_code == 0
    assert Ledger(ledger).account().spent == Fraction(1, 3)


@pytest.mark.parametrize("name", ["persons.parquet", "persons.csv", "blocks.parquet", "schema.toml", "spec.toml"])
def test_a_file_that_cannot_be_read(name: str, ordinary_user: Path) -> None:
    if name == "persons.csv":
        write_csv(ordinary_user / name, persons())
        spec("persons.parquet", name)(ordinary_user)
    (ordinary_user / name).chmod(0)
    outcome = confide("check", ordinary_user / "spec.toml", "--processes", "1", "--json")
    finding = refused(outcome, "unreadable", "csv-header", "bad-schema", "spec-unreadable")
    assert finding["where"]["file"].endswith(name)
    (ordinary_user / name).chmod(0o600)
    assert entries(ordinary_user) == ["open"]


def test_a_release_whose_files_cannot_be_read(ordinary_user: Path) -> None:
    assert run(ordinary_user).exit_code == 0
    (ordinary_user / "tiny/release/certificate.html").chmod(0)
    outcome = confide("verify", ordinary_user / "tiny/release", "--json")
    assert refused(outcome, "not-as-sealed")["where"]["path"] == "certificate.html"


# Files that are not whole, or do not stay as they are


def test_a_parquet_file_cut_at_any_place_is_refused(project: Path) -> None:
    data = (project / "persons.parquet").read_bytes()
    for length in {*range(0, len(data), len(data) // 20), 4, 8, len(data) - 1, len(data) - 4, len(data) - 8}:
        (project / "persons.parquet").write_bytes(data[:length])
        errors = api.check(project / "spec.toml", processes=1).errors
        assert [finding.code for finding in errors] == ["unreadable"], length
        assert errors[0].where.file == "persons.parquet"
    with pytest.raises(ConfideError):
        api.run(project / "spec.toml", processes=1)
    assert entries(project) == ["open"]
    assert not (project / "tiny").exists()


def test_records_that_change_while_they_are_counted_are_not_measured(project: Path) -> None:
    count = Tables.count

    def changing(*arguments: Any) -> None:
        count(*arguments)
        records(sex=[1] * 40)(project)

    with mock.patch.object(Tables, "count", changing):
        refused(run(project, "--json"), "run-changed")
    assert entries(project) == ["open", "reserve"]
    assert not list((project / "tiny").glob("release*"))


def test_counts_of_changed_records_are_not_taken_up_when_the_old_records_are_back(
    project: Path, undisturbed: Path
) -> None:
    """A process dies after it counted records that somebody had changed, and before it compared them."""
    count, before = Tables.count, (project / "persons.parquet").read_bytes()

    def dying(*arguments: Any) -> None:
        records(sex=[1] * 40)(project)
        count(*arguments)
        raise KeyboardInterrupt

    with mock.patch.object(Tables, "count", dying), pytest.raises(KeyboardInterrupt):
        api.run(project / "spec.toml", processes=1, insecure_key=KEY)
    (project / "persons.parquet").write_bytes(before)
    result = api.run(project / "spec.toml", processes=1, insecure_key=KEY)
    assert compare(result.release, undisturbed).ok


# The clock


class SetClock:
    """What the ledger takes for the time."""

    def __init__(self, **difference: float):
        self._difference = timedelta(**difference)

    def __enter__(self) -> None:
        defaults = Ledger.__init__.__kwdefaults__
        self._patch = mock.patch.dict(defaults, {"clock": lambda: datetime.now(UTC) + self._difference})
        self._patch.start()

    def __exit__(self, *_: object) -> None:
        self._patch.stop()


def test_a_clock_set_back_costs_nothing_and_leaves_nothing(project: Path) -> None:
    before = tree(project)
    with SetClock(days=-2):
        finding = refused(run(project, "--json"), "ledger-clock")
    assert "people.ledger" in finding["where"]["file"]
    assert "clock" in finding["remedy"]
    assert tree(project) == before
    assert run(project).exit_code == 0


def test_a_clock_set_back_on_the_way_is_charged_once(project: Path, undisturbed: Path) -> None:
    count = Tables.count

    def late(*arguments: Any) -> None:
        count(*arguments)
        for ledger in ledgers:
            ledger._clock = lambda: datetime.now(UTC) - timedelta(days=2)

    ledgers: list[Ledger] = []
    made = Ledger.__init__

    def noted(self: Ledger, *arguments: Any, **named: Any) -> None:
        made(self, *arguments, **named)
        ledgers.append(self)

    with mock.patch.object(Tables, "count", late), mock.patch.object(Ledger, "__init__", noted):
        refused(run(project, "--json"), "ledger-clock")
    assert entries(project) == ["open", "reserve"]
    with SetClock(days=-2):
        refused(run(project, "--json"), "ledger-clock")
    assert entries(project) == ["open", "reserve"]
    assert run(project).exit_code == 0
    assert entries(project) == SEALED
    assert compare(project / "tiny/release", undisturbed).ok


# Others at work


def test_a_second_run_of_one_spec_is_refused_while_the_first_works(project: Path) -> None:
    with Workspace(project / "tiny").locked():
        before = tree(project)
        finding = refused(run(project, "--json"), "run-in-progress")
        assert "wait" in finding["remedy"]
        assert tree(project) == before
    assert run(project).exit_code == 0


@pytest.mark.process
def test_two_processes_at_once_make_one_release_at_one_charge(project: Path) -> None:
    command = [sys.executable, "-m", "confide", "run", str(project / "spec.toml"), "--processes", "1", "--json"]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    ended = [(process.communicate(timeout=120), process.returncode) for process in both]
    assert sorted(code for _, code in ended) in ([0, 0], [0, 1]), ended
    for (out, err), code in ended:
        assert "Traceback" not in err
        assert code == 0 or "run-in-progress" in out
    assert entries(project) == SEALED


def die(group: int, rows: pa.Table) -> pa.Table:
    """What the system does to a process when memory is used up."""
    os.kill(os.getpid(), signal.SIGKILL)
    return rows


@pytest.mark.process
def test_a_worker_that_is_killed_is_a_clear_error(tmp_path: Path) -> None:
    write_parquet(tmp_path / "rows.parquet", {"part": [0, 1]})
    workers = Workers(2)
    workers.begun(die).result()  # until then this process would do their work
    with pytest.raises(RunError) as caught:
        map_groups(die, tmp_path / "rows.parquet", "part", [0, 1], tmp_path / "into", workers=workers)
    assert caught.value.findings[0].code == "worker-died"
    assert not list((tmp_path / "into").iterdir())


def test_a_run_in_the_way_of_its_own_ledger_is_settled_first(project: Path) -> None:
    """The budget that is left is taken between the check and the charge: nothing is begun."""
    reserve: Callable[..., Any] = Ledger.reserve

    def raced(self: Ledger, run_id: str, **named: Any) -> Any:
        reserve(self, "another run", **(named | {"release": "other", "cost": Fraction(3, 4)}))
        return reserve(self, run_id, **named)

    with mock.patch.object(Ledger, "reserve", raced):
        refused(run(project, "--json"), "budget-exceeded")
    assert not (project / "tiny").exists()
    (project / "spec.toml").write_text(SPEC.replace('"1/2"', '"1/4"'))
    assert run(project).exit_code == 0
