"""What every engine reports alike: files that cannot be read, a full disk, an amount of memory that is none."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable
from pathlib import Path

from confide.engines.protocol import Source
from confide.errors import Finding, ParameterError, Place


def unreadable(sources: Iterable[Source | Path], by: str, line: int | None = None) -> Finding:
    """Damage, or another layout, ``by`` the word of an engine; files of ours are named if there is none of the user."""
    listed = list(sources)
    of_the_user = [source.file for source in listed if isinstance(source, Source)]
    files = ", ".join(of_the_user or [path.name for path in listed if isinstance(path, Path)])
    return Finding(
        code="unreadable",
        what="the file cannot be read",
        where=Place(file=files, line=line),
        found=f"damage or another layout ({by})",
        expected="a whole Parquet file, or a CSV in UTF-8 with as many values in every row as in the first line",
        remedy="check that the file is complete and is what the spec says it is; write it again if need be",
    )


def no_room(message: str) -> OSError | None:
    """An engine's error for a full disk as the operating system's; none for any other."""
    full = re.search("No space left|File too large", message)
    return OSError(errno.ENOSPC, "No space left on device") if full else None


def bad_memory(memory: str) -> ParameterError:
    """The error for an amount of memory that cannot be understood."""
    return ParameterError(
        "memory",
        "this is not an amount of memory",
        where=Place(path="--memory"),
        found=repr(memory[:40]),
        expected="a number with a unit, such as 4GiB or 800MB",
        remedy="correct --memory",
    )
