"""``python -m tests.contract.write_bytes NAME...`` writes down which bytes the examples of mechanisms release.

For a mechanism that has none written down yet. Those of another are changed only with ``--replace``: every release that
somebody has kept a key of could then not be replayed any more, and a reader should know why.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.contract.kit import NAMES, digests, lay_out, written_down

BYTES = Path(__file__).with_name("bytes.json")


def made_now(name: str) -> dict[str, str]:
    """The digests of a release of the example, made now."""
    with tempfile.TemporaryDirectory() as folder:
        project = lay_out(name, Path(folder) / name)
        project.run()
        return digests(project.release)


def write_bytes(
    names: Sequence[str],
    *,
    replace: bool = False,
    file: Path = BYTES,
    make: Callable[[str], dict[str, str]] = made_now,
) -> str | None:
    """Writes the digests of these mechanisms into the file; or says why not, and writes nothing."""
    listed = written_down(file)
    if unknown := [name for name in names if name not in NAMES]:
        return f"There is no mechanism {unknown[0]!r}: there are {', '.join(NAMES)}."
    if not replace and (kept := [name for name in names if name in listed]):
        return f"The bytes of {', '.join(kept)} are written down already. To change them on purpose: --replace"
    listed |= {name: make(name) for name in names}
    ordered = {name: listed[name] for name in sorted(listed)}
    file.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")
    return None


if __name__ == "__main__":
    given = [argument for argument in sys.argv[1:] if argument != "--replace"]
    sys.exit(write_bytes(given, replace="--replace" in sys.argv) if given else __doc__)
