"""Files that explain a release to people and to their programs, made from its tables and its manifest alone.

=========================  ==================================================================
``README.txt``             what this is, how to read it, how to add up, how to cite
``codebook.html``          columns, codes and labels, and how programs read them
``datapackage.json``       the same for programs: a Frictionless data package
``csvw-metadata.json``     CSV on the Web; where ``csvw`` is among the formats
``sdmx/structure.json``    SDMX 3.0: concepts, code lists, data structures; with ``sdmx-csv``
``tables.xlsx``            a workbook, unless the tables are too large; with ``xlsx``
``registry.json``          a record for a registry of deployments; with ``registry``
``argus/``                 tables, hierarchies and labels for tau-ARGUS; with ``argus``
``accuracy.html``          how far off a figure may be; where a mechanism says it in a table
``explore.html``           all tables to look at, on one page; in small releases
=========================  ==================================================================

The runner makes them when the tables are written; ``verify`` makes them anew and compares them byte by byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from confide.releases.companions import explanations
from confide.releases.companions.argus_files import argus_files
from confide.releases.companions.codebook import Codebook as Codebook
from confide.releases.companions.codebook import DescribedFile as DescribedFile
from confide.releases.companions.codebook import asked as asked
from confide.releases.companions.explore import EXPLORE, PAGE, explore_page
from confide.releases.companions.structure import sdmx_structure
from confide.releases.companions.workbook import tables_workbook
from confide.releases.tabular import CodeHierarchy as CodeHierarchy
from confide.releases.tabular import DescribedColumn as DescribedColumn
from confide.releases.tabular import DescribedTable as DescribedTable
from confide.releases.tabular import GivenColumns as GivenColumns


def companions(folder: Path, manifest: Mapping[str, Any], codebook: Codebook) -> dict[str, bytes]:
    """The explanations of a release.

    Args:
        folder: Where its tables are.
        manifest: Its manifest; of the files it lists only those with rows are looked at.
        codebook: What its mechanism says of the tables.

    Returns:
        The content of each file by its path.
    """
    files = [file for file in manifest["files"] if "rows" in file]
    texts = {"datapackage.json": explanations.data_package(manifest, files, codebook)}
    if "csvw" in codebook.formats:
        texts["csvw-metadata.json"] = explanations.csv_on_the_web(manifest, files, codebook)
    if "sdmx-csv" in codebook.formats and codebook.coded:
        texts["sdmx/structure.json"] = sdmx_structure(folder, manifest, files, codebook)
    if "registry" in codebook.formats:
        texts["registry.json"] = explanations.registry_record(manifest, codebook)
    contents = {path: text.encode() for path, text in texts.items()}
    if "xlsx" in codebook.formats and (book := tables_workbook(folder, manifest, files, codebook)) is not None:
        contents["tables.xlsx"] = book
    if "argus" in codebook.formats:
        contents |= argus_files(folder, manifest, files, codebook)
    if EXPLORE in manifest:
        contents[PAGE] = explore_page(folder, manifest, files, codebook).text.encode()
    contents |= {name: page(folder, manifest).encode() for name, page in codebook.pages.items()}
    contents["codebook.html"] = explanations.codebook_page(folder, manifest, files, codebook).encode()
    return contents | {"README.txt": explanations.readme(manifest, files, codebook, sorted(contents)).encode()}
