"""What the tables of a release hold, said once for every file that explains them.

A mechanism says it from its manifest alone (:meth:`confide.releases.plan.Explanation.codebook`), so that everybody
who has a release can make its explanations anew, and ``verify`` does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confide.releases.tabular import CodedVariable, DescribedColumn, DescribedTable, GivenColumns


@dataclass(frozen=True, eq=False)
class DescribedFile:
    """A file of a release that has columns of its own: records, what the frame says of places, tables of lines."""

    path: str
    """Without its ending: ``tables/records``."""
    title: str
    described: tuple[DescribedColumn, ...]
    key: tuple[str, ...] = ()
    """The columns that tell its rows apart, if any do."""

    @property
    def name(self) -> str:
        """What it is called after its folder."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, eq=False)
class Codebook:
    """Everything that has to be known to read a release."""

    tables: tuple[DescribedTable, ...]
    levels: Mapping[str, int] = field(default_factory=dict)
    """The levels and areas of the tables, with their numbers of areas."""
    formats: tuple[str, ...] = ()
    """What was asked for besides: ``argus``, ``csvw``, ``registry``, ``sdmx-csv``, ``xlsx``."""
    agency: str = "CONFIDE"
    protection: str = ""
    """How the figures are protected, in one sentence."""
    notes: tuple[str, ...] = ()
    """What a reader has to know of the figures, a sentence or two each."""
    records: str | None = None
    """The file of released records, without its ending, where there is one."""
    adding: tuple[str, ...] = ()
    """How counts are added up, where that is not the same as in all tables of counts."""
    others: Mapping[str, str] = field(default_factory=dict)
    """Folders with the same figures in the layout of another system, and what they are."""
    files: tuple[DescribedFile, ...] = ()
    """Files beside the tables."""
    consistent: bool = False
    """Whether a margin that several tables have is the same in all of them."""
    area_names: bool | None = None
    """Whether areas have names; without it, as the first table has them."""
    pages: Mapping[str, Callable[[Path, Mapping[str, Any]], str]] = field(default_factory=dict)
    """Further pages by name, each made from the files of the release and its manifest."""

    @property
    def named(self) -> bool:
        """Whether areas have names."""
        return self.tables[0].columns.named if self.area_names is None else self.area_names

    @property
    def coded(self) -> bool:
        """Whether tables have codes and labels, and say which rows are totals."""
        return bool(self.tables) and not any(isinstance(table.columns, GivenColumns) for table in self.tables)

    @property
    def variables(self) -> tuple[CodedVariable, ...]:
        """The variables of all tables and records, each once: a column has the same codes and labels in all of them."""
        of_files = [column.variable for file in self.files for column in file.described if column.variable is not None]
        of_tables = [variable for table in self.tables for variable in table.columns.variables]
        known: dict[tuple[str, tuple[str, ...], tuple[str, ...]], CodedVariable] = {}
        for each in (*of_files, *of_tables):
            known.setdefault((each.name, each.codes, each.labels), each)
        return tuple(known.values())


def asked(question: Mapping[str, Any]) -> tuple[tuple[str, ...], str]:
    """What the plan of a release says of its explanations: formats and agency."""
    stated = question["companions"]
    return tuple(stated["formats"]), str(stated["agency"])
