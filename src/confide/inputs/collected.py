"""Reading a settings file while collecting everything that is wrong with it."""

from __future__ import annotations

from confide.errors import Finding, Place, SpecError


class CollectingReader:
    """Notes what is wrong, place by place, and raises all of it at the end."""

    def __init__(self, file: str, *, code: str, remedy: str):
        self._file, self._code, self._remedy = file, code, remedy
        self._findings: list[Finding] = []

    def wrong(self, path: str, what: str, found: object, expected: str) -> None:
        """Note that something is wrong at a path of the file."""
        where = Place(file=self._file, path=path)
        self._findings.append(Finding(self._code, what, where, str(found)[:80], expected, self._remedy))

    def finish(self) -> None:
        """Raise what was noted, if anything was."""
        if self._findings:
            raise SpecError(self._findings)
