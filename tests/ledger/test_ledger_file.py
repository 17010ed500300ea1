"""The file: made whole or not at all, private, and a clear word about everything that can be wrong with it."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest
from tests.kits.ledger import new_ledger, reserve, rows, tamper

from confide.errors import Finding, LedgerError
from confide.releases.ledger import Ledger, entries
from confide.releases.ledger.entries import Measured, following


def refusal(attempt: Callable[[], object]) -> Finding:
    """The finding of the LedgerError that ``attempt`` raises; it has to be complete."""
    with pytest.raises(LedgerError) as caught:
        attempt()
    finding = caught.value.findings[0]
    assert finding.where.file
    assert finding.found
    assert finding.expected
    assert finding.remedy
    return finding


def test_a_new_ledger_is_one_private_file(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        path = new_ledger(tmp_path / "census.ledger").path
        reserve(Ledger(path))
    finally:
        os.umask(before)
    assert [entry.name for entry in tmp_path.iterdir()] == ["census.ledger"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.stat().st_nlink == 1


def test_entries_are_synced_to_the_disk_and_the_ledger_stays_one_file(ledger: Ledger) -> None:
    with closing(entries._connect(ledger.path, 1)) as connection:
        assert connection.execute("PRAGMA synchronous").fetchone() == (3,)  # EXTRA
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)


def test_odd_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a b?mode=ro#x%41.ledger", "ü'\".ledger", "-journal"):
        reserve(new_ledger(Path(name)))
        assert Ledger(name).account().spent == Fraction(1, 4)


def test_a_ledger_is_never_overwritten(ledger: Ledger) -> None:
    before = ledger.path.read_bytes()
    assert refusal(lambda: new_ledger(ledger.path)).code == "ledger-exists"
    assert ledger.path.read_bytes() == before
    assert list(ledger.path.parent.iterdir()) == [ledger.path]


def test_nor_is_anything_else(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    (tmp_path / "lost-journal").write_bytes(b"the journal of a ledger that was removed")
    for name in ("folder", "link", "lost"):
        assert refusal(lambda name=name: new_ledger(tmp_path / name)).code == "ledger-exists"
    assert len(list(tmp_path.iterdir())) == 3


def test_two_openings_at_once_make_one_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one is done between our look at the path and our link."""
    path = tmp_path / "census.ledger"
    link = os.link

    def slow_link(source: Path, target: Path) -> None:
        monkeypatch.setattr(os, "link", link)
        new_ledger(path, budget="7")
        link(source, target)

    monkeypatch.setattr(os, "link", slow_link)
    assert refusal(lambda: new_ledger(path, budget="8")).code == "ledger-exists"
    assert Ledger(path).account().budget == 7
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_system_without_links_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_link(source: Path, target: Path) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_link)
    assert refusal(lambda: new_ledger(tmp_path / "census.ledger")).code == "ledger-file-system"
    assert list(tmp_path.iterdir()) == []


def test_an_opening_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(connection: sqlite3.Connection, entry: object) -> None:
        connection.execute("PRAGMA max_page_count = 1")
        connection.execute("CREATE TABLE no_room (a)")

    monkeypatch.setattr(entries, "_insert", no_room)
    assert refusal(lambda: new_ledger(tmp_path / "census.ledger")).code == "ledger-disk-full"
    assert list(tmp_path.iterdir()) == []


def test_no_folder(tmp_path: Path) -> None:
    assert refusal(lambda: new_ledger(tmp_path / "none" / "census.ledger")).code == "ledger-cannot-open"


def test_missing(tmp_path: Path) -> None:
    assert refusal(lambda: Ledger(tmp_path / "census.ledger")).code == "ledger-missing"
    assert refusal(lambda: Ledger(tmp_path)).found == "a folder"
    assert list(tmp_path.iterdir()) == []


def test_removed_while_in_use(ledger: Ledger) -> None:
    ledger.path.unlink()
    assert refusal(lambda: reserve(ledger)).code == "ledger-missing"
    assert not ledger.path.exists()


@pytest.mark.parametrize(
    "content", [b"", b"data_set,budget\ncensus,1\n" * 100, b"SQLite format 3\x00" + b"\xff" * 5000]
)
def test_not_a_ledger(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "census.ledger"
    path.write_bytes(content)
    assert refusal(lambda: Ledger(path)).code == "ledger-not-a-ledger"
    assert path.read_bytes() == content


def test_a_database_of_somebody_else(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE entries (a)")
    assert "another program" in (refusal(lambda: Ledger(path)).found or "")


def test_a_newer_format(ledger: Ledger) -> None:
    tamper(ledger.path, "PRAGMA user_version = 2", dropping=())
    finding = refusal(lambda: reserve(ledger))
    assert finding.code == "ledger-format"
    assert (finding.found, finding.expected) == ("format 2", "format 1")


def test_a_damaged_file(ledger: Ledger) -> None:
    for number in range(20):
        reserve(ledger, f"run-{number}", "1/100")
    content = ledger.path.read_bytes()
    for damaged in (content[:4096], content[:5000], content[:4096] + bytes(4096) + content[8192:]):
        ledger.path.write_bytes(damaged)
        assert refusal(lambda: Ledger(ledger.path)).code in ("ledger-damaged", "ledger-broken")
    ledger.path.write_bytes(content)
    assert ledger.account().spent == Fraction(20, 100)


@pytest.fixture
def ordinary_user() -> Iterator[Path]:
    """A folder of a user who is bound by permissions (root is not), and the rest of the test as that user."""
    folder = Path(tempfile.mkdtemp())
    root = os.geteuid() == 0
    if root:
        os.chown(folder, 65534, 65534)
        os.seteuid(65534)
    try:
        yield folder
    finally:
        if root:
            os.seteuid(0)
        folder.chmod(0o700)
        shutil.rmtree(folder)


def test_a_read_only_file_can_be_read_and_not_written(ordinary_user: Path) -> None:
    ledger = new_ledger(ordinary_user / "census.ledger")
    ledger.path.chmod(0o400)
    assert Ledger(ledger.path).account().left == 1
    assert refusal(lambda: reserve(ledger)).code == "ledger-read-only"
    assert len(rows(ledger.path)) == 1


def test_a_read_only_folder(ordinary_user: Path) -> None:
    ledger = new_ledger(ordinary_user / "census.ledger")
    ordinary_user.chmod(0o500)
    assert Ledger(ledger.path).account().left == 1
    assert refusal(lambda: reserve(ledger)).code == "ledger-read-only"
    assert refusal(lambda: new_ledger(ordinary_user / "other")).code == "ledger-cannot-open"
    assert len(rows(ledger.path)) == 1
    assert list(ordinary_user.iterdir()) == [ledger.path]


def test_a_file_of_somebody_else(ordinary_user: Path) -> None:
    ledger = new_ledger(ordinary_user / "census.ledger")
    ledger.path.chmod(0)
    assert refusal(lambda: Ledger(ledger.path)).code == "ledger-cannot-open"
    ordinary_user.chmod(0)
    assert refusal(lambda: Ledger(ledger.path)).code in ("ledger-missing", "ledger-cannot-open")


def test_a_full_disk_writes_nothing_and_is_over_when_there_is_room(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = entries._connect

    def small_disk(path: Path, timeout: float) -> sqlite3.Connection:
        connection = connect(path, timeout)
        connection.execute("PRAGMA max_page_count = 4")
        return connection

    monkeypatch.setattr(entries, "_connect", small_disk)
    kept = 0
    while ledger.path.stat().st_size < 4 * 4096:  # up to the last page that fits
        reserve(ledger, f"run-{kept}", "1/100", release="long " * 39)
        kept += 1
    code = None
    while code is None:
        try:
            reserve(ledger, f"run-{kept}", "1/100", release="long " * 39)
            kept += 1
        except LedgerError as error:
            code = error.findings[0].code
    assert code == "ledger-disk-full"
    assert len(ledger.account().runs) == kept
    monkeypatch.undo()
    reserve(ledger, f"run-{kept}", "1/100", release="long " * 39)
    assert ledger.account().spent == Fraction(kept + 1, 100)
    assert list(ledger.path.parent.iterdir()) == [ledger.path]


FILE_SIZE_LIMIT = """
import resource, sys
sys.path.insert(0, sys.argv[2])
from confide.errors import LedgerError
from confide.releases.ledger import Ledger
from tests.kits.ledger import reserve
ledger = Ledger(sys.argv[1])
for limit in (*range(0, 24_000, 500), resource.RLIM_INFINITY):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    before = len(ledger.history())
    try:
        reserve(ledger, f"run-{limit}", "1/1000", release="long " * 39)
    except LedgerError as error:
        finding = error.findings[0]
        assert finding.code in ("ledger-disk-full", "ledger-disk-error", "ledger-cannot-open"), finding
        assert len(ledger.history()) == before
        print("refused")
    else:
        print("kept")
"""


@pytest.mark.process
def test_a_disk_that_is_full_at_any_byte(ledger: Ledger) -> None:
    """The operating system refuses to let any file grow beyond a limit: the journal first, the ledger later."""
    command = [sys.executable, "-W", "error", "-c", FILE_SIZE_LIMIT, str(ledger.path), str(Path(__file__).parents[2])]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr
    outcomes = result.stdout.split()
    assert outcomes[0] == "refused"
    assert outcomes[-1] == "kept"
    assert ledger.account().spent == Fraction(outcomes.count("kept"), 1000)


def test_a_lock_that_cannot_be_had(ledger: Ledger) -> None:
    impatient = Ledger(ledger.path, lock_timeout=0.05)
    with closing(sqlite3.connect(ledger.path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        assert refusal(lambda: reserve(impatient)).code == "ledger-locked"
        assert impatient.account().left == 1  # a writer that has not come to its commit does not stop readers
        connection.execute("ROLLBACK")
        connection.execute("BEGIN EXCLUSIVE")
        assert refusal(impatient.account).code == "ledger-locked"
    assert len(rows(ledger.path)) == 1


def test_a_reader_that_stays_stops_the_commit_and_nothing_is_written(ledger: Ledger) -> None:
    impatient = Ledger(ledger.path, lock_timeout=0.05)
    with closing(sqlite3.connect(ledger.path, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT * FROM entries").fetchall()
        assert refusal(lambda: reserve(impatient)).code == "ledger-locked"
    assert len(rows(ledger.path)) == 1
    reserve(impatient)


def test_a_lock_is_waited_for(ledger: Ledger) -> None:
    holder = sqlite3.connect(ledger.path, isolation_level=None, check_same_thread=False)
    holder.execute("BEGIN EXCLUSIVE")
    freed: list[float] = []

    def free() -> None:
        freed.append(time.monotonic())
        holder.close()

    timer = threading.Timer(0.2, free)
    began = time.monotonic()
    timer.start()
    reserve(ledger)
    done = time.monotonic()
    assert freed, "the entry was written while another held the ledger"
    assert done >= freed[0] >= began + 0.2
    timer.join()
    assert len(rows(ledger.path)) == 2


def test_what_was_appended_is_not_kept_if_anything_is_raised_before_the_end(ledger: Ledger) -> None:
    before = ledger.history()

    def interrupted() -> None:
        with entries.writing(ledger.path, 1.0) as transaction:
            transaction.append(following(transaction.last, Measured(run_id="run"), transaction.last.time))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert Ledger(ledger.path).history() == before


def test_one_handle_in_many_threads(ledger: Ledger) -> None:
    def take(number: int) -> None:
        reserve(ledger, f"run-{number}", "1/8")

    threads = [threading.Thread(target=take, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ledger.account().left == 0


def test_a_copy_is_a_ledger(ledger: Ledger, tmp_path: Path) -> None:
    reserve(ledger)
    ledger.back_up(tmp_path / "copy.ledger")
    copy = Ledger(tmp_path / "copy.ledger")
    assert copy.history() == ledger.history()
    assert stat.S_IMODE(copy.path.stat().st_mode) == 0o600
    assert refusal(lambda: ledger.back_up(copy.path)).code == "ledger-exists"
    tamper(ledger.path, "DELETE FROM entries WHERE sequence = 1")
    finding = refusal(lambda: ledger.back_up(tmp_path / "copy-2.ledger"))
    assert (finding.code, finding.where.file) == ("ledger-broken", str(ledger.path))
    assert {entry.name for entry in tmp_path.iterdir()} == {"census.ledger", "copy.ledger"}
