"""Hierarchies of tau-ARGUS (.hrc): a code on each line, as many leading strings before it as it is deep. And labels of
codes (.cdl): a code, a comma, and its label."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from confide.inputs.argus.argus_lines import read_lines, refused, unquoted

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


def hierarchy_text(parts: Mapping[str, Sequence[str]], total: str, lead: str = LEAD) -> str:
    """A hierarchy as :func:`read_hierarchy` reads it.

    Args:
        parts: The parts of the total and of every other code that has some.
        total: The code of the total.
        lead: What stands before a code once for each level that it is below the parts of the total.

    >>> hierarchy_text({"_T": ["N", "S"], "N": ["N1", "N2"]}, "_T").splitlines()
    ['N', '@N1', '@N2', 'S']
    """
    lines: list[str] = []
    waiting = [(0, code) for code in reversed(parts[total])]
    while waiting:
        depth, code = waiting.pop()
        lines.append(lead * depth + code)
        waiting += [(depth + 1, part) for part in reversed(parts.get(code, ()))]
    return "\n".join(lines) + "\n"


def free_lead(codes: Iterable[str]) -> str:
    """A leading string that no code begins with: ``@`` where it can be."""
    every = list(codes)
    return next(lead for lead in _leads() if not any(code.startswith(lead[0]) for code in every))


def _leads() -> Iterator[str]:
    yield from (LEAD, "$", "%", "~", "^", "!")
    yield from map(chr, range(0x2190, 0x2200))


def read_labels(path: str | Path) -> dict[str, str]:
    """For each code of a code list its label; where a label has a comma, all of what stands behind the first.

    Raises:
        InputError: With the line: a code twice, or no comma.
    """
    path = Path(path)
    labels: dict[str, str] = {}
    for number, text in enumerate(read_lines(path), start=1):
        if not text.strip():
            continue
        code, comma, label = text.partition(",")
        code, label = unquoted(code), unquoted(label)
        if not comma or not code:
            raise refused(
                path, number, "a line has no code with a label", repr(text.strip()[:40]), "a code, a comma, a label"
            )
        if code in labels:
            raise refused(path, number, "a code has two labels", repr(code), "each code once")
        labels[code] = label or code
    return labels
