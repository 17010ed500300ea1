"""The zip file that a state's PL 94-171 data come in.

Three members count: ``SSgeoYYYY.pl`` and ``SS0000nYYYY.pl`` for segments 1 and 2 (SS the state's letters, YYYY the
year). Members are read as streams and never extracted, so a name in the zip cannot reach outside it. Sizes are
declared in the zip's directory; what declares more than the limit is not opened.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, Self

from confide.errors import Finding, InputError, Place

# Findings about one file, gathered up to a limit.
#
# A PL 94-171 file is published, so its values may be shown. A damaged file would give as many findings as it has
# rows: after ``limit`` of them the rest are only counted.


@dataclass(slots=True)
class Findings:
    """The findings of one file. ``name`` is the zip's name; a place inside it is ``zip/member``."""

    name: str
    limit: int = 20
    items: list[Finding] = field(default_factory=list)
    more: int = 0

    def note(
        self, key: str, member: str | None = None, line: int | None = None, *, column: str | None = None, **facts: Any
    ) -> None:
        """Keep a finding, or count it when the limit is reached. Unless it says what to do: download the file again."""
        if len(self.items) >= self.limit:
            self.more += 1
            return
        place = Place(file=self.name if member is None else f"{self.name}/{member}", line=line, column=column)
        finding = Finding.of(key, where=place, **facts)
        self.items.append(finding if finding.remedy else replace(finding, remedy=Finding.of("pl94.download").remedy))

    def stop_if_any(self) -> None:
        """Raise what was gathered, if anything."""
        if not self.items:
            return
        number_more = Finding.of("pl94.more", where=Place(file=self.name), more=self.more)
        raise InputError([*self.items, number_more] if self.more else self.items)

    def fail(
        self, key: str, member: str | None = None, line: int | None = None, *, column: str | None = None, **facts: Any
    ) -> InputError:
        """The error for a problem that leaves nothing more to look at: ``raise findings.fail(...)``."""
        self.limit += 1
        self.note(key, member, line, column=column, **facts)
        return InputError(list(self.items))


Progress = Callable[[str, int, int], None]
"""Called as ``progress(stage, done, total)``."""

MEMBER = re.compile(r"([a-z]{2})(geo|0000\d)(\d{4})\.pl", re.IGNORECASE)
PARTS = {"geo": "geographic header", "00001": "segment 1", "00002": "segment 2"}
YEAR = "2010"
SIZE_LIMIT = 16 << 30  # bytes, uncompressed; the largest state of 2010 has about 1.5 GiB
CHUNK = 8 << 20
LONGEST_LINE = 64 << 10


def _inside(name: str) -> bool:
    """Whether a member's name is printable and stays inside the zip; others are left alone."""
    path = PurePosixPath(name.replace("\\", "/"))
    return name.isprintable() and not path.is_absolute() and ".." not in path.parts and ":" not in name


class Archive:
    """An open PL 94-171 zip. Use as a context manager."""

    def __init__(
        self, path: Path, findings: Findings, *, size_limit: int = SIZE_LIMIT, progress: Progress | None = None
    ):
        self.findings = findings
        self.path = path
        self._progress = progress
        try:
            self._zip = zipfile.ZipFile(path)
        except FileNotFoundError:
            raise findings.fail("pl94.file/absent") from None
        except (zipfile.BadZipFile, EOFError, ValueError) as error:
            raise findings.fail("pl94.zip", found=str(error)) from None
        except OSError as error:
            raise findings.fail("pl94.file/unreadable", found=error.strerror) from None
        try:
            self.members = self._find(size_limit)
        except BaseException:
            self._zip.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    def _find(self, size_limit: int) -> dict[str, zipfile.ZipInfo]:
        """The member for each part."""
        candidates: dict[str, list[zipfile.ZipInfo]] = {}
        states: set[str] = set()
        for info in self._zip.infolist():
            match = MEMBER.fullmatch(PurePosixPath(info.filename).name)
            if match is None or not _inside(info.filename):
                continue
            state, part, year = match.groups()
            if year != YEAR:
                raise self.findings.fail("pl94.layout/year", info.filename, year=year)
            states.add(state.lower())
            candidates.setdefault(part.lower(), []).append(info)
        for part, title in PARTS.items():
            like = f"ri{part}{YEAR}.pl"
            match candidates.get(part, []):
                case []:
                    self.findings.note("pl94.member/missing", found="none", title=title, name=like)
                case [info]:
                    if info.flag_bits & 1:
                        self.findings.note("pl94.encrypted", info.filename)
                case several:
                    names = ", ".join(sorted(info.filename for info in several))
                    self.findings.note("pl94.member/several", found=names, title=title, name=like)
        if len(states) > 1:
            self.findings.note("pl94.states/zip", found=", ".join(sorted(states)))
        self.findings.stop_if_any()
        members = {part: candidates[part][0] for part in PARTS}
        declared = sum(info.file_size for info in members.values())
        if declared > size_limit:
            raise self.findings.fail("pl94.size", found=f"{declared:,} bytes", most=size_limit)
        return members

    def name(self, part: str) -> str:
        """The member's name, for findings."""
        return self.members[part].filename

    def chunks(self, part: str) -> Iterator[bytes]:
        """The member's bytes in pieces of whole lines. Damage found on the way raises :class:`InputError`."""
        info = self.members[part]
        unfinished_line = b""
        done = 0
        try:
            with self._zip.open(info) as stream:
                while block := stream.read(CHUNK):
                    done += len(block)
                    cut = block.rfind(b"\n") + 1
                    if cut:
                        yield unfinished_line + block[:cut]
                        unfinished_line = b""
                    unfinished_line += block[cut:]
                    if len(unfinished_line) > LONGEST_LINE:
                        raise self.findings.fail("pl94.line/long", info.filename)
                    if self._progress is not None:
                        self._progress(f"reading {PARTS[part]}", done, info.file_size)
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError) as error:
            raise self.findings.fail("pl94.damaged", info.filename, message=str(error)) from None
        if unfinished_line:
            yield unfinished_line + b"\n"
