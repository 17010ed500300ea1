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
        raise refused(path, None, "the file is no text", "bytes of zero", "a text file")
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


# Hierarchies of tau-ARGUS (.hrc): a code on each line, as many leading strings before it as it is deep.


LEAD = "@"


def read_hierarchy(path: str | Path, total: str, lead: str = LEAD) -> dict[str, list[str]]:
    """For the total and every other code with parts, these parts.

    Args:
        path: The file.
        total: The code of the total, which the file does not have.
        lead: What stands before a code once for each level that it is below the parts of the total.

    Returns:
        The parts of each code that has some, in the order of the file.

    Raises:
        InputError: With the line: a code deeper by more than one, or twice, or an empty file.
    """
    path = Path(path)
    parts: dict[str, list[str]] = {total: []}
    chain = [total]
    seen = {total}
    if not lead:
        raise refused(path, None, "the leading string is empty", "nothing", "a character such as @")
    for number, text in enumerate(read_lines(path), start=1):
        rest, depth = text.strip(), 0
        if not rest:
            continue
        while rest.startswith(lead):
            rest, depth = rest[len(lead) :], depth + 1
        code = rest.strip()
        if not code:
            raise refused(path, number, "a line has no code", repr(text.strip()), f"a code after each {lead}")
        if depth >= len(chain):
            found = f"{code!r} at depth {depth}"
            raise refused(path, number, "a code is deeper than its parent by more than one", found, "one level a step")
        if code in seen:
            raise refused(path, number, "a code stands in the hierarchy twice", repr(code), "each code once")
        seen.add(code)
        chain = [*chain[: depth + 1], code]
        parts.setdefault(chain[depth], []).append(code)
    if not parts[total]:
        raise refused(path, None, "the hierarchy has no codes", "no lines", "a code on each line")
    return parts
