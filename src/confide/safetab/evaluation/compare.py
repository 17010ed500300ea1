"""Released tables beside true counts, level by level: nothing is done group by group.

Only groups with anybody in them, and groups that were released, are ever listed; how many others there are follows from
the universe. Counts that were measured are compared: totals of groups that got nothing else, and the cells of tables.
Sums of them, by sex or altogether, are not measured and not compared, but for the total of the headline.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from confide.confidential import Confidential
from confide.runs.evaluating import no_truth
from confide.runs.release import read_manifest
from confide.runs.workspace import Workspace
from confide.safetab.evaluation.tallies import SIZES, Class, Curve, Errors, Evaluation, LevelTally
from confide.safetab.evaluation.theory import LevelTheory
from confide.safetab.grids import CELLS_OF_LEVEL, GRIDS, SEXES, TOTAL_TABLE
from confide.safetab.output.reading import CODES, area_of, code_of, find, region_of
from confide.safetab.output.released import TABLES, TableForPeople, open_table, read_table
from confide.safetab.question import GroupLevel, SafeTabQuestion
from confide.safetab.settings import REGION_TYPES
from confide.safetab.tabulating import counts_file
from confide.utility.metrics import bin_of

Integers = npt.NDArray[np.int64]
_CELLS = np.array(CELLS_OF_LEVEL)


def evaluate(
    question: SafeTabQuestion, workspace: Workspace, advance: Callable[[int], None]
) -> Confidential[Evaluation]:
    """A sealed release against the truth. The result tells of the truth and stays with the curator."""
    margins = question.spec.output.noise_margin is not None
    manifest = read_manifest(workspace.release)
    left_out = question.spec.output.tabulation_suppression
    opened = {name: open_table(workspace.release, manifest, name, margins=margins) for name in TABLES}
    tables = {name: read_table(name, each, margins=margins, left_out=left_out) for name, each in opened.items()}
    shared = {kind for areas in question.coterminous for kind, _ in areas}
    tallies, theory = [], []
    for level in question.levels:
        own = level.settings.region_type not in shared and not question.spec.output.tabulation_suppression
        expected = LevelTheory(level, clamped=not question.settings.negative_counts)
        tallies.append(_Level(question, level, workspace, tables, expected).tally())
        theory.append(own)
        advance(1)
    return Confidential(Evaluation(question.levels, tallies, theory))


@dataclass(frozen=True, eq=False)
class _Truth:
    """The true counts of a level: a row for each group and finest cell with anybody."""

    group: Integers
    cell: Integers
    n: Integers

    @classmethod
    def read(cls, workspace: Workspace, level: GroupLevel) -> _Truth:
        file = counts_file(workspace, level)
        try:
            rows = pq.read_table(file, columns=["group", "cell", "n"])
        except FileNotFoundError:
            raise no_truth(file) from None
        return cls(*(np.asarray(rows.column(name).to_numpy(), np.int64) for name in ("group", "cell", "n")))

    def sizes(self) -> tuple[Integers, Integers]:
        """The groups with anybody, sorted, and how many each has."""
        groups, start = np.unique(self.group, return_index=True)
        if not len(groups):
            return groups, groups
        return groups, np.add.reduceat(self.n, start)

    def cells(self, groups: Integers, number: int) -> Integers:
        """For sorted groups the counts of the cells of a grid, a row for each group."""
        grid = GRIDS[number - 1]
        place = find(groups, self.group)
        there = place >= 0
        counts = np.zeros((len(groups), grid.cells), np.int64)
        np.add.at(counts, (place[there], grid.of_finest[self.cell[there]]), self.n[there])
        return counts


class _Level:
    """One level of one run."""

    def __init__(
        self,
        question: SafeTabQuestion,
        level: GroupLevel,
        workspace: Workspace,
        tables: dict[str, TableForPeople],
        theory: LevelTheory,
    ):
        self._level = level
        self._theory = theory
        self._left_out = question.spec.output.tabulation_suppression
        self._truth = _Truth.read(workspace, level)
        self._occupied, self._sizes = self._truth.sizes()
        self._numbers = _Numbers(question, level)
        rows, self._released = self._numbers.of(tables[TOTAL_TABLE])
        self._totals, self._chosen = tables[TOTAL_TABLE].total[rows], tables[TOTAL_TABLE].level[rows]
        self._tables = tables

    def tally(self) -> LevelTally:
        true, total_only = self._size_of(self._released), self._is_total_only(self._released)
        classes: dict[tuple[bool, int], Class] = {}
        for kind in (False, True):
            if (self._level.total_only == kind).any():
                classes |= {(kind, size): each for size, each in self._classes(kind).items()}
        for number in range(len(CELLS_OF_LEVEL)):
            for key, errors in self._errors(number, true, total_only).items():
                empty = [Errors()] * len(CELLS_OF_LEVEL)
                classes[key] += Class(errors=(*empty[:number], errors, *empty[number + 1 :]))
        return LevelTally(
            classes, Errors.of(self._totals - true), int(true.sum()), self._noise_alone(total_only), self._curve()
        )

    def _classes(self, total_only: bool) -> dict[int, Class]:
        """Groups of one kind by size: which table they got, what was suppressed, and what theory says of that."""
        sizes, groups = self._by_size(total_only)
        at = np.flatnonzero(self._is_total_only(self._released) == total_only)
        place = np.searchsorted(sizes, self._size_of(self._released[at]))
        chosen = np.zeros((len(sizes), len(CELLS_OF_LEVEL)), np.int64)
        np.add.at(chosen, (place, self._chosen[at]), 1)
        expected = np.zeros(chosen.shape)
        if total_only:
            expected[:, 0], out = 1, np.zeros(len(sizes))
        else:
            expected, out = self._theory.chances(sizes), self._theory.suppressed(sizes)
            expected[:, 0] -= out
        mean, variance = self._theory.bias(sizes, total_only=total_only)
        result: dict[int, Class] = {}
        for size in np.unique(bin_of(SIZES, sizes)).tolist():
            of = bin_of(SIZES, sizes) == size
            number = int(groups[of].sum())
            result[size] = Class(
                number,
                chosen[of].sum(axis=0),
                number - int(chosen[of].sum()),
                expected=groups[of] @ expected[of],
                expected_suppressed=float(groups[of] @ out[of]),
                variance_suppressed=float(groups[of] @ (out[of] * (1 - out[of]))),
                expected_error=float(chosen[of, 0] @ mean[of]),
                variance_error=float(chosen[of, 0] @ variance[of]),
            )
        return result

    def _by_size(self, total_only: bool) -> tuple[Integers, Integers]:
        """The distinct sizes of groups of one kind, and how many have each; empty ones follow from the universe."""
        sizes, groups = np.unique(self._sizes[self._is_total_only(self._occupied) == total_only], return_counts=True)
        universe = self._level.areas * int((self._level.total_only == total_only).sum())
        empty = universe - int(groups.sum())
        return np.concatenate([[0], sizes]), np.concatenate([[empty], groups]).astype(np.int64)

    def _errors(self, number: int, true: Integers, total_only: npt.NDArray[np.bool_]) -> dict[tuple[bool, int], Errors]:
        """The errors of measured counts in the tables of one statistics level, by class."""
        at = np.flatnonzero(self._chosen == number)
        size = bin_of(SIZES, true[at])
        shown: npt.NDArray[np.bool_] = np.ones((len(at), 1), np.bool_)
        if number == 0:
            error = (self._totals[at] - true[at])[:, None]
        else:
            table = self._tables[GRIDS[number - 1].table]
            rows, groups = self._numbers.of(table)
            grid = GRIDS[number - 1]
            released = table.figures[rows].reshape(len(rows), len(SEXES), grid.ages + 1)[:, :, 1:]
            released = released.reshape(len(rows), grid.cells)
            error = released - self._truth.cells(groups, number)
            if self._left_out:
                shown = released >= 0
        shown = np.broadcast_to(shown, error.shape)
        return {
            (kind, each): Errors.of(error[shown & ((total_only[at] == kind) & (size == each))[:, None]])
            for kind in np.unique(total_only[at]).tolist()
            for each in np.unique(size[total_only[at] == kind]).tolist()
        }

    def _noise_alone(self, total_only: npt.NDArray[np.bool_]) -> float:
        alone = 0.0
        for kind in (False, True):
            times = np.bincount(self._chosen[total_only == kind], minlength=len(CELLS_OF_LEVEL))
            alone += sum(
                int(number) * self._theory.mean_absolute(cells, total_only=kind)
                for number, cells in zip(times, CELLS_OF_LEVEL, strict=True)
                if number
            )
        return alone

    def _curve(self) -> Curve | None:
        """Suppression by size, up to twice the number up to which totals are suppressed."""
        limit = self._level.suppressed_up_to
        if limit is None or limit <= 0:
            return None
        end = 2 * limit + 1
        sizes, groups = self._by_size(False)
        released = self._size_of(self._released[~self._is_total_only(self._released)])
        there, of_size = np.zeros(end, np.int64), sizes < end
        there[sizes[of_size]] = groups[of_size]
        shown = np.bincount(released[released < end], minlength=end)
        return Curve(there, there - shown, self._theory.suppressed(np.arange(end)))

    def _size_of(self, groups: Integers) -> Integers:
        place = find(self._occupied, groups)
        sizes = np.concatenate([self._sizes, [0]])
        return np.asarray(sizes[place])

    def _is_total_only(self, groups: Integers) -> npt.NDArray[np.bool_]:
        return np.asarray(self._level.total_only[groups % len(self._level.iterations)])


class _Numbers:
    """From groups as files name them to their numbers in a level."""

    def __init__(self, question: SafeTabQuestion, level: GroupLevel):
        self._region = REGION_TYPES.index(level.settings.region_type)
        self._areas = np.array([int(area) for area in question.regions.areas[level.settings.region_type]], np.int64)
        self._position = np.full(CODES, -1, np.int64)
        codes = [int(question.lists.iterations[number].code) for number in level.iterations]
        self._position[codes] = np.arange(len(codes))

    def of(self, table: TableForPeople) -> tuple[Integers, Integers]:
        """The rows of a table that are of this level, and the numbers of their groups, sorted as the rows are."""
        rows = np.flatnonzero(region_of(table.key) == self._region)
        position = self._position[code_of(table.key[rows])]
        rows, position = rows[position >= 0], position[position >= 0]
        area = find(self._areas, area_of(table.key[rows]))
        return rows, area * int((self._position >= 0).sum()) + position
