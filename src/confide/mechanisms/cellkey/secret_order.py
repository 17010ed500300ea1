"""The secret order of a perturbation table: a file of its own, 0600, that the spec names. The spec itself is public."""

from __future__ import annotations

import re
import secrets
import stat

from confide.errors import CONFIDENTIAL, Place, SpecError
from confide.file_system import open_to_others
from confide.mechanisms.cellkey.spec import CellKeyPart
from confide.releases.spec import LoadedSpec

ORDER = "order.secret"
"""The file beside a spec that `confide new cellkey` writes."""
_DIGITS = re.compile(r"[0-9a-f]{64}")


def new_order() -> str:
    """A secret order, drawn by the operating system, as the content of its file."""
    return secrets.token_hex(32) + "\n"


def with_order(loaded: LoadedSpec, part: CellKeyPart) -> CellKeyPart:
    """The part with the secret order that its file holds; as it is, where it names none.

    Args:
        loaded: The spec.
        part: Its part ``[cellkey]``.

    Returns:
        The part as if the order stood in it.

    Raises:
        SpecError: Where the file cannot be read, can be read by others, or holds something else.
    """
    if part.shuffle_file is None:
        return part
    path = loaded.resolve(part.shuffle_file)
    where = loaded.place("cellkey", "shuffle_file")
    try:
        mode, content = stat.S_IMODE(path.stat().st_mode), path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        found = getattr(error, "strerror", None) or "another content"
        remedy = "restore the file from a backup: another order would give other figures for the same cells"
        what = "the file with the secret order of the table cannot be read"
        raise SpecError("secret-order", what, where, found, "a file of 64 hexadecimal digits", remedy) from None
    if open_to_others(mode):
        what = "the secret order of the table can be read by others"
        remedy = f"find out who has read it; if nobody has: chmod 600 {path}"
        raise SpecError("secret-order", what, Place(file=str(path)), f"permissions {mode:04o}", "0600", remedy)
    if not _DIGITS.fullmatch(content):
        what, expected = "the file does not hold the order of a table", "64 hexadecimal digits"
        remedy = "restore the file from a backup"
        raise SpecError("secret-order", what, Place(file=str(path)), CONFIDENTIAL, expected, remedy)
    return part.model_copy(update={"shuffle": content})
