"""What the attack can be made on: a folder of tables with a description, or a release of Confide.

How a release is read back belongs to its mechanism (``mechanisms/NAME/published.py``): tables with noise, tables with
figures left out, or the protected records themselves. For a part of a release, write a folder of tables
(``docs/concepts/reconstruction.md``).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from confide.attacks.reconstruction.description import DESCRIPTION
from confide.attacks.reconstruction.table_folder import read_tables
from confide.errors import InputError, ParameterError, Place
from confide.mechanisms import MECHANISMS
from confide.releases.folder import MANIFEST, read_manifest
from confide.releases.published import Published
from confide.releases.published_rows import no_groups, not_attacked
from confide.releases.workspace import Workspace


def read_source(folder: str | Path, schema: str | Path | None = None, groups: Sequence[str] = ()) -> Published:
    """The tables of a folder with a ``tables.toml``, or those of a release folder.

    Args:
        folder: The folder.
        schema: The schema file of a release whose schema does not ship.
        groups: The iteration codes of a SafeTab-P release to attack; all if there is none.

    Returns:
        The tables, for :func:`confide.attacks.reconstruct`.
    """
    folder = Path(folder)
    if (folder / DESCRIPTION).exists():
        no_groups(groups, DESCRIPTION)
        if schema is not None:
            what = f"{DESCRIPTION} names the schema of its tables itself"
            remedy = f"leave out --schema, or change it in {DESCRIPTION}"
            raise ParameterError("schema-twice", what, Place(path="--schema"), str(schema), None, remedy)
        return read_tables(folder)
    if not (folder / MANIFEST).exists():
        inside = Workspace(folder).release
        raise InputError(
            "no-tables",
            "the folder has no tables that could be attacked",
            where=Place(file=folder.name),
            found=f"neither {DESCRIPTION} nor {MANIFEST}",
            expected=f"a {DESCRIPTION} that describes the files, or a release folder of Confide",
            remedy=f"give the release in it: {folder.name}/{inside.name}"
            if (inside / MANIFEST).exists()
            else "give another folder, or describe the tables: docs/concepts/reconstruction.md",
        )
    return read_release(folder, schema, groups)


def read_release(folder: str | Path, schema: str | Path | None = None, groups: Sequence[str] = ()) -> Published:
    """The tables of a release folder, as its mechanism reads them back; see :func:`read_source`."""
    folder = Path(folder)
    manifest = read_manifest(folder)
    if manifest["mechanism"] not in MECHANISMS:
        raise not_attacked(manifest["mechanism"])
    return MECHANISMS[manifest["mechanism"]].published(folder, manifest, schema, groups)
