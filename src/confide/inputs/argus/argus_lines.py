"""Lines of files of tau-ARGUS, and the one way in which such a file is refused."""

from __future__ import annotations

from pathlib import Path

from confide.errors import CONFIDENTIAL, InputError, Place

CODE = "argus-file"


def read_lines(path: Path) -> list[str]:
    """The lines of a text file in UTF-8 or, as Windows writes it, in Latin 1; without their ends."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise refused(path, None, "the file is not there", "no such file", "a file beside the others") from None
    except OSError as error:
        found = error.strerror or type(error).__name__
        raise refused(path, None, "the file cannot be read", found, "a file that can be read") from None
    if b"\0" in content:
        raise refused(path, None, "the file is not a text file", "bytes of zero", "a text file")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    return text.splitlines()


def refused(path: Path, line: int | None, what: str, found: str | None, expected: str) -> InputError:
    """A file of tau-ARGUS that cannot be read. What stands in a table is confidential: pass None for ``found``."""
    place, remedy = Place(file=path.name, line=line), "correct the line, or the file"
    return InputError(CODE, what, place, CONFIDENTIAL if found is None else found, expected, remedy)


def unquoted(text: str) -> str:
    """A text without the quotation marks around it."""
    text = text.strip()
    for mark in ('"', "'", "“", "”"):
        if text.startswith(mark):
            return text.strip("\"'“”")
    return text
