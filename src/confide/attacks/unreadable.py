"""Why a file of an attack cannot be read, in words: parsers quote the line they stumble over, which may be a record."""

from __future__ import annotations

import re
from pathlib import Path


def why_unreadable(path: Path, error: Exception) -> str:
    """What is wrong with a file that Arrow, or the operating system, could not read."""
    if isinstance(error, FileNotFoundError):
        return "no such file"
    if isinstance(error, OSError) and error.errno:
        return error.strerror or type(error).__name__
    if path.is_file() and not path.stat().st_size:
        return "an empty file"
    message = str(error)
    if "invalid UTF8" in message:
        return "bytes that are not UTF-8"
    if "Expected" in message and "columns" in message:
        row = re.search(r"Row #(\d+)", message)
        return "a row with more or fewer values than the first" + (f": line {int(row.group(1)):,}" if row else "")
    return "a file of another format, or a damaged one"
