"""The folder of a run: the release that may leave, and the confidential zone that must not.

::

    NAME/
      release/                  sealed; what may leave the building
      confidential/             0700: run.json, the key, true counts, measurements, spilled rows
      dossier-confidential/     0700: the curator's report, which uses the truth
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from confide import file_system
from confide.engines.protocol import MAPPED, Advance
from confide.errors import CONFIDENTIAL, Finding, Place, RunError, Severity
from confide.noise import ReleaseKey

RELEASE = "release"
MANIFEST = "manifest.json"
"""The folder of a run that may leave."""


@dataclass(frozen=True, slots=True)
class RunIdentity:
    """What a run remembers of itself, so that it can go on after a crash. Kept in ``run.json``."""

    run_id: str
    spec: str
    """Where the spec is, seen from the folder of the run: both may be moved together."""
    release: str
    mechanism: str
    plan_hash: str
    records_fingerprint: str
    key_is_chosen: bool
    reservation_hash: str | None = None
    key_commitment: str | None = None
    """Which key the run draws with, where it is keyed: :attr:`confide.noise.ReleaseKey.commitment`."""
    ledger_id: str | None = None
    """Which ledger it was charged to."""
    manifest_sha256: str | None = None
    """Of the release that the run has made, noted before the release gets its name."""
    measured_hash: str | None = None
    """The hash of what the plan measures: what else the plan has may still be changed, until the run is sealed."""
    published_hash: str | None = None
    """The hash of the plan that is published, where it was changed in this way."""

    @property
    def imprint(self) -> str:
        """What counts and measurements of this run are marked with: run, question, records and key."""
        return " ".join((self.run_id, self.plan_hash, self.records_fingerprint, self.key_commitment or "-"))

    @property
    def final_hash(self) -> str:
        """The hash of the plan in the manifest. Noise and charge stay bound to ``plan_hash``."""
        return self.published_hash or self.plan_hash


@contextmanager
def one_process(lock: Path, root: Path) -> Iterator[None]:
    """One process at a time in the folder ``root``. The lock goes with the process, however it ends."""
    with no_room_is_an_error(root), file_system.private_umask():
        descriptor = os.open(lock, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        with no_room_is_an_error(root):
            try:
                file_system.lock_now(descriptor)
            except BlockingIOError:
                raise RunError("run-in-progress", where=Place(file=str(root))) from None
        yield
    finally:
        os.close(descriptor)


class Workspace:
    """The folders of one run."""

    def __init__(self, root: Path):
        self.root = root
        self.release = root / RELEASE
        self.confidential = root / "confidential"
        self.dossier = root / "dossier-confidential"
        self.counts = self.confidential / "counts"
        self.measured = self.confidential / "measured"
        self.scratch = self.confidential / "scratch"
        self.replayed = self.confidential / "replay"
        self.key_file = self.confidential / "key"
        self._record_file = self.confidential / "run.json"
        self._lock_file = self.confidential / "lock"
        self._made: list[Path] = []

    @property
    def sealed(self) -> bool:
        """Whether the run has its release."""
        return (self.release / MANIFEST).exists()

    @property
    def manifest_sha256(self) -> str | None:
        """What ledger and signature know the release by; none where there is none yet."""
        manifest = self.release / MANIFEST
        return file_system.sha256_of(manifest) if manifest.is_file() else None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One process at a time. The lock goes with the process, however it ends.

        The folder and both confidential zones are their owner's alone, also if they were there and open to others.
        """
        with file_system.private_umask():
            with no_room_is_an_error(self.root):
                self._made = [path for path in (self.confidential, self.root, *self.root.parents) if not path.exists()]
                with suppress(PermissionError):  # a folder of somebody else's is as its owner wants it
                    file_system.private_folder(self.root)
                file_system.private_folder(self.confidential)
                for zone in (self.confidential, self.dossier):
                    for folder, _, _ in os.walk(zone):
                        file_system.private_folder(Path(folder))
            with one_process(self._lock_file, self.root):
                yield

    def identity(self) -> RunIdentity | None:
        """The run that lives here, if one was begun."""
        try:
            return _identity(json.loads(self._record_file.read_text(encoding="utf-8")))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (ValueError, TypeError, OSError) as error:
            raise RunError(
                "run-record", where=Place(file=str(self._record_file)), error=getattr(error, "strerror", None)
            ) from None

    def begin(self, record: RunIdentity) -> RunIdentity:
        """Writes the record of a new run."""
        self._save(record)
        return record

    def note_reservation(self, record: RunIdentity, reservation_hash: str, ledger_id: str | None) -> RunIdentity:
        """Keeps the hash of the ledger's entry, by which a shortened ledger is found out, and which ledger it is."""
        noted = replace(record, reservation_hash=reservation_hash, ledger_id=ledger_id)
        if noted != record:
            self._save(noted)
        return noted

    def note_key(self, record: RunIdentity, key: ReleaseKey) -> RunIdentity:
        """Keeps the commitment of the key that the run draws with; another key than that of before is refused."""
        if record.key_commitment is None:
            record = replace(record, key_commitment=key.commitment)
            self._save(record)
        elif record.key_commitment != key.commitment:
            raise RunError("run-changed/key-folder-started", where=Place(file=str(self.root)), found=CONFIDENTIAL)
        return record

    def note_manifest(self, record: RunIdentity, manifest_sha256: str) -> None:
        """Keeps the hash of the release's manifest, which shows whether a release is of another run."""
        if record.manifest_sha256 != manifest_sha256:
            self._save(replace(record, manifest_sha256=manifest_sha256))

    def spilled(self) -> list[str]:
        """What a run that was killed has left in the scratch folder of the run, where nobody works in it now."""
        folder = self.confidential / self.scratch.name
        if folder == self.scratch:
            return []
        with suppress(OSError):
            return sorted(str(path.relative_to(self.root)) for path in folder.iterdir())
        return []

    def left_over(self) -> list[str]:
        """What lies in the folder of a run: its release, its key, its counts and measurements."""
        present: list[Path] = []
        with suppress(PermissionError):  # said of the record of the run
            folders = [self.release, *(folder for folder in (self.counts, self.measured) if _holds_files(folder))]
            present = [path for path in (self.key_file, *folders) if path.exists()]
        return [str(path.relative_to(self.root)) + ("/" if path.is_dir() else "") for path in present]

    def note_published(self, record: RunIdentity, plan_hash: str) -> RunIdentity:
        """Begins anew with what is made of the measurements, under another plan."""
        self.discard_estimates()
        noted = replace(record, published_hash=plan_hash, manifest_sha256=None)
        self._save(noted)
        return noted

    def forget(self) -> None:
        """Takes back :meth:`begin`, of a run that was never charged."""
        self._record_file.unlink(missing_ok=True)

    def read_whole(self, folder: Path) -> str | None:
        """The imprint of the run that ``folder`` was read for, if it was read to its end."""
        try:
            return self._read_mark(folder).read_text(encoding="ascii").strip()
        except (FileNotFoundError, NotADirectoryError, UnicodeDecodeError):
            return None

    def mark_read(self, folder: Path, imprint: str) -> None:
        """Says that ``folder`` was read to its end, for the run with this imprint."""
        if self.read_whole(folder) != imprint:
            file_system.write_text(self._read_mark(folder), imprint + "\n")

    def claim(self, folder: Path, imprint: str) -> None:
        """Makes ``folder`` the run's own before anything is put into it: what is there of another run is removed.

        It can be made again from the records and the key; and what another run has drawn, at another price or over
        other records, must never be published as ours.
        """
        mark = folder / ".run"
        try:
            own = mark.read_text(encoding="ascii").strip() == imprint
        except (FileNotFoundError, NotADirectoryError, UnicodeDecodeError):
            own = False
        if not own:
            self.discard(folder)
            file_system.private_folder(folder)
            file_system.write_text(mark, imprint + "\n")

    def discard(self, folder: Path) -> None:
        """Removes what was read from records, the mark first."""
        self._read_mark(folder).unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)

    def discard_estimates(self) -> None:
        """Removes everything that was made of records. Noise is a function of the key: the measurements of the next try
        are drawn as they were."""
        self.discard(self.measured)
        self.discard(self.counts)

    def _read_mark(self, folder: Path) -> Path:
        return folder.with_name(f"{folder.name}.read")

    def tidy(self) -> None:
        """Removes spilled rows and what a killed process has half written; and, if no run was begun, what was made for
        it: a refused spec leaves nothing behind.

        Folders go only if this process made them and they are empty: the folder may hold files of the user's own.
        """
        for drawing in self.scratch.rglob(f"{MAPPED}*"):  # of a process that was killed: it holds keys
            file_system.destroy_file(drawing)
        for folder in (self.scratch, self.replayed):
            shutil.rmtree(folder, ignore_errors=True)
        self.destroy_keys(partial_only=True)
        for partial in self.confidential.rglob(".*.partial"):
            with suppress(OSError):
                partial.unlink()
        with suppress(OSError):
            if not self._record_file.exists():
                self._lock_file.unlink(missing_ok=True)
                for folder in self._made:
                    folder.rmdir()

    def destroy_keys(self, *, partial_only: bool = False) -> None:
        """Overwrites and removes the key, and what a process that was killed while it wrote the key has left of it."""
        for path in self.confidential.glob(f".{self.key_file.name}.*.partial"):
            file_system.destroy_file(path)
        if not partial_only and self.key_file.exists():
            file_system.destroy_file(self.key_file)

    def _save(self, record: RunIdentity) -> None:
        file_system.write_text(self._record_file, json.dumps(asdict(record), indent=2) + "\n")


def _identity(values: dict[str, Any]) -> RunIdentity:
    """Checked, because the file may be an old copy or somebody's own."""
    identity = RunIdentity(**values)
    texts: list[Any] = [identity.run_id, identity.spec, identity.release, identity.mechanism]
    noted = [identity.reservation_hash, identity.key_commitment, identity.ledger_id, identity.manifest_sha256]
    noted += [identity.measured_hash, identity.published_hash]
    hashes = [identity.plan_hash, identity.records_fingerprint, *(digits for digits in noted if digits is not None)]
    if not all(isinstance(text, str) and text for text in texts) or values["key_is_chosen"] not in (True, False):
        raise ValueError
    if any(len(bytes.fromhex(digits)) != 32 for digits in hashes):
        raise ValueError
    return identity


def _holds_files(folder: Path) -> bool:
    return any(path.is_file() for path in folder.rglob("*"))


def new_run_id() -> str:
    """A name for a run that no other run has."""
    return secrets.token_hex(16)


@contextmanager
def no_room_is_an_error(folder: Path) -> Iterator[None]:
    """Turns what the operating system says of full disks, closed folders and memory into words with a remedy.

    Args:
        folder: Where files are written.

    Returns:
        A context: a :class:`RunError` comes out of it in place of an :class:`OSError`.

    >>> with no_room_is_an_error(tmp_path):
    ...     _ = (tmp_path / "note").write_text("there is room")
    """
    try:
        yield
    except MemoryError:
        raise RunError(out_of_memory(folder)) from None
    except OSError as error:
        if error.errno == errno.ENOMEM:
            raise RunError(out_of_memory(folder)) from None
        full = error.errno in file_system.DISK_FULL
        raise RunError(
            "disk-full/other" if full else "cannot-write/other",
            where=Place(file=str(folder)),
            found=error.strerror or type(error).__name__,
            full=full,
        ) from None


MEGABYTE = 10**6
RESIDENT, RESIDENT_AT_LEAST = 300 * MEGABYTE, 180 * MEGABYTE
"""Memory of a run with few areas, generously, and what it cannot do without: measured with DuckDB and Arrow."""
ADDRESSES, ADDRESSES_AT_LEAST = 2_600 * MEGABYTE, 1_000 * MEGABYTE
"""The same in addresses, which threads and allocators take in advance: what ``ulimit -v`` counts."""
PER_BLOCK, PER_BLOCK_AT_LEAST = 1_500, 400
"""Bytes for each of the smallest areas."""


def memory_limits() -> dict[str, int]:
    """What this process may take at most: bytes of memory (``memory``) and of addresses (``addresses``), as known."""
    limits: dict[str, int] = {}
    with suppress(OSError, ValueError, AttributeError):
        limits["memory"] = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    group = Path("/sys/fs/cgroup")
    with suppress(OSError):
        own = Path("/proc/self/cgroup").read_text(encoding="ascii").rpartition("::/")[2].strip()
        above = [group / own, *(group / own).parents]
        files = [folder / "memory.max" for folder in above if folder.is_relative_to(group)]
        for file in (*files, group / "memory/memory.limit_in_bytes"):
            with suppress(OSError, ValueError):
                limits["memory"] = min(limits.get("memory", 1 << 62), int(file.read_text(encoding="ascii")))
    with suppress(ImportError, OSError, ValueError):
        import resource

        if (most := resource.getrlimit(resource.RLIMIT_AS)[0]) != resource.RLIM_INFINITY:
            limits["addresses"] = most
    return limits


def memory_forecast(folder: Path, blocks: int = 0, more: int = 0) -> list[Finding]:
    """What the memory of this process does not hold: an error where it surely does not, a warning where it may not.

    Args:
        folder: That of the run.
        blocks: How many of the smallest areas there are.
        more: Further bytes that records take.
    """
    needed = {"memory": (RESIDENT, RESIDENT_AT_LEAST), "addresses": (ADDRESSES, ADDRESSES_AT_LEAST)}
    for kind, limit in memory_limits().items():
        usually, surely = needed[kind]
        usually, surely = usually + PER_BLOCK * blocks + more, surely + PER_BLOCK_AT_LEAST * blocks + more // 4
        if limit < usually:
            severity: Severity = "error" if limit < surely else "warning"
            return [replace(out_of_memory(folder, usually, blocks), severity=severity)]
    return []


def out_of_memory(folder: Path, needed: int | None = None, blocks: int = 0) -> Finding:
    """The finding for memory that is full, or will be."""
    limits = ", ".join(f"{limit // MEGABYTE:,} MB of {kind}" for kind, limit in memory_limits().items())
    return Finding.of(
        "out-of-memory/hold",
        where=Place(file=str(folder)),
        limits=limits,
        needed=needed // MEGABYTE if needed is not None else None,
        resident=RESIDENT // MEGABYTE,
        with_needed=needed is not None,
        blocks=blocks,
        addresses=ADDRESSES // MEGABYTE,
    )


def changed(what: str, workspace: Workspace, found: str = CONFIDENTIAL) -> RunError:
    """The error for inputs that are not those the run was begun with."""
    return RunError("run-changed/same-spec-frame", where=Place(file=str(workspace.root)), found=found, what=what)


# The release key: made once by the operating system, kept 0600 while a release may be replayed, then destroyed.
STAMP = "NOT FOR RELEASE"
"""What is written on everything made with a chosen key."""
CHOSEN = "chosen"
"""What the manifest calls such a key."""


def keep_key(key: ReleaseKey, path: Path) -> None:
    """Writes the key so that only its owner can read it."""
    file_system.write_text(path, f"{'chosen' if key.chosen else 'system'} {key.secret.hex()}\n")


def recall_key(path: Path) -> ReleaseKey:
    """The key that was kept."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        content = path.read_bytes()
    except FileNotFoundError:
        raise RunError("key/run", where=Place(file=str(path))) from None
    except OSError as error:
        found = error.strerror or type(error).__name__
        raise RunError("key/read", where=Place(file=str(path)), found=found) from None
    if file_system.open_to_others(mode):
        found = f"permissions {mode:04o}"
        raise RunError("key/others", where=Place(file=str(path)), mode=mode, at=path)
    kept = _key_in(content)
    if kept is None:
        raise RunError("key/file", where=Place(file=str(path)), found=CONFIDENTIAL)
    return kept


def _key_in(content: bytes) -> ReleaseKey | None:
    """The key in the content of a key file. What is wrong with it is not said: an error could show a part of it."""
    try:
        kind, digits = content.decode("ascii").split()
        return ReleaseKey(bytes.fromhex(digits), chosen=kind == "chosen") if kind in {"chosen", "system"} else None
    except ValueError:
        return None


# What a long run tells the person who waits for it: the stage, how much of it is done. Faces draw it.


class Progress(Protocol):
    """A display of stages."""

    def stage(self, title: str, steps: int) -> AbstractContextManager[Advance]:
        """Begins a stage of ``steps`` steps; the function given reports steps done."""

    def note(self, text: str) -> None:
        """One line worth reading."""


class Silent:
    """Shows nothing."""

    def stage(self, title: str, steps: int) -> AbstractContextManager[Advance]:  # noqa: ARG002
        return nullcontext(lambda _: None)

    def note(self, text: str) -> None:
        pass
