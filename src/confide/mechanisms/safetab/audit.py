"""Audits of SafeTab-P: what a sealed run drew; and made-up persons for rehearsals.

**What a run drew in both stages**, level by level, beside the laws that it promises.

With n persons in a group, X of the first law, Y of the second, thresholds θ₁ ≤ θ₂ ≤ θ₃ and the suppression number T:

* *which table a group got* is k with θ_k ≤ n + X < θ_{k+1}, or nothing, if k = 0 and n + Y ≤ T: a choice by X;
* *the first noise*, X itself, is kept nowhere, but follows from the key. Given the table it lies between θ_k − n and
  θ_{k+1} − n, and has its law given that; an X outside of it did not choose this table. Choice and X given the choice
  are together X: nothing is lost, and given all choices, X and Y are independent;
* *the second noise* Y, in totals given that they are above T, and in the cells of tables;
* *empty groups* that are drawn as survivors (:mod:`confide.noise.sparse`) are published independently of each other
  with one probability. So of any stretch of them the number published is binomial, and all stretches are independent:
  that is their number and their places. What is published of each is a choice given that it is not hidden.

Where the key is kept, survivors are drawn again, and have to be those that were published.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, sqrt

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from confide.arrays import Integers
from confide.inputs.made_up import MadeUpPeople, RecordForm
from confide.mechanisms.safetab.evaluate import TrueGroups
from confide.mechanisms.safetab.made_up import coded_columns, form_of_groups
from confide.mechanisms.safetab.output.publish import measured_folder
from confide.mechanisms.safetab.output.reading import find
from confide.mechanisms.safetab.problem import (
    GroupLevel,
    SafeTabProblem,
    empty_rule,
    is_sparse,
    query_key,
)
from confide.mechanisms.safetab.records import LAST_CENRACE, PERSON_COLUMNS
from confide.mechanisms.safetab.settings import CHOICE, GRIDS, OLDEST, SEXES, TABLE, TOTAL_ONLY, TOTAL_TABLE
from confide.noise import DiscreteGaussian, NoiseDistribution, draw_at, draw_survivors, rank_to_place
from confide.releases import Job, MadeUpRecords, NoiseSource
from confide.releases.replay import HIDDEN, ChoiceLaw, OutcomeLaw, Residuals, SurvivorLaw, require_sealed

MEASURED, DRAWN_AGAIN = "measured", "drawn again"
STAGE = "stage 1"
TOTAL_ALONE = -1
"""In place of a statistics level: the total of a group that gets nothing else."""
MOST_GROUPS = 1 << 23
"""Of a level so many choices are looked at."""
STRETCHES = 256
"""Into at most so many stretches the empty groups of a part are cut, of so many survivors each at least, on average:"""
SURVIVORS_OF_A_STRETCH = 16
FURTHEST = 40
"""A threshold further away than so many standard deviations, or so many times 1/epsilon, is as good as infinite."""
ANYTHING = np.iinfo(np.int64).max // 4


def residuals(problem: SafeTabProblem, job: Job, noise: NoiseSource | None) -> Iterator[Residuals]:
    """Every array of every level; see the module. ``noise`` is there while the key is kept."""
    workspace = job.workspace
    require_sealed(workspace)
    for level in problem.levels:
        folder = measured_folder(workspace, level)
        rows = pa.concat_tables([pq.read_table(folder / f"{part:08d}.parquet") for part in level.parts])
        yield from LevelDraws.of(level, TrueGroups.read(workspace, level), rows, noise).arrays()


@dataclass(frozen=True, eq=False)
class LevelDraws:
    """A level: its true groups, and a row for each measured count with group, statistics level and noisy count."""

    level: GroupLevel
    truth: TrueGroups
    group: Integers
    number: Integers
    count: Integers
    noise: NoiseSource | None

    @classmethod
    def of(cls, level: GroupLevel, truth: TrueGroups, rows: pa.Table, noise: NoiseSource | None) -> LevelDraws:
        """Of the rows that a measurement left; ``noise`` is there while the key is kept."""
        columns = (rows.column(name).to_numpy() for name in ("group", "level", "count"))
        group, number, count = (np.asarray(column, np.int64) for column in columns)
        total_only = level.total_only[group % len(level.iterations)]
        return cls(level, truth, group, np.where(total_only, TOTAL_ALONE, number), count, noise)

    def arrays(self) -> Iterator[Residuals]:
        """What was drawn in the level."""
        if self.level.adaptive < self.level.groups:
            at = self.number == TOTAL_ALONE
            noise = (self.count[at] - self._size_of(self.group[at]))[:, None]
            yield self._array(TOTAL_ONLY, "", noise, (self.level.total,), units=self.group[at], complete=True)
        if not self.level.adaptive:
            return
        yield from self._choices()
        if is_sparse(self.level):
            yield from self._empty_groups()
        yield self._totals()
        yield from self._tables()

    def _array(
        self,
        planned: str,
        what: str,
        values: Integers,
        laws: tuple[NoiseDistribution | OutcomeLaw | ChoiceLaw | SurvivorLaw, ...],
        source: str = MEASURED,
        *,
        units: Integers | None = None,
        complete: bool = False,
    ) -> Residuals:
        key = query_key(self.level, planned)
        comma = "," if planned == CHOICE else ""
        query = f"{key}{comma} {what}" if what else key
        region = self.level.settings.region_type
        return Residuals(region, query, values, laws, source, units=units, planned=key, complete=complete)

    @cached_property
    def _sizes(self) -> tuple[Integers, Integers]:
        return self.truth.sizes()

    def _size_of(self, groups: Integers) -> Integers:
        occupied, sizes = self._sizes
        return np.asarray(np.concatenate([sizes, [0]])[find(occupied, groups)])

    # Stage 1

    def _drawn_groups(self) -> Integers:
        """The groups whose first noise is drawn one by one: those with anybody in them, or all."""
        groups = self._sizes[0] if is_sparse(self.level) else np.arange(self.level.groups)
        return np.asarray(groups[~self.level.total_only[groups % len(self.level.iterations)]][:MOST_GROUPS])

    def _choices(self) -> Iterator[Residuals]:
        """Which table each group got, or that nothing is seen of it; and the first noise, given that."""
        groups = self._drawn_groups()
        sizes = self._size_of(groups)
        published, first = np.unique(self.group, return_index=True)
        place = find(published, groups)
        outcome = np.where(place >= 0, self.number[first][place] if len(first) else HIDDEN, HIDDEN)
        # Sizes from which on every threshold is passed for certain have one law.
        distinct, law_of = np.unique(np.minimum(sizes, self._certain_from), return_inverse=True)
        choices = self._array(
            CHOICE, "", outcome[:, None], tuple(self._choice(int(size)) for size in distinct), units=groups
        )
        choices = replace(choices, law_of=law_of.reshape(-1, 1), stage=STAGE)
        if self.noise is None:
            yield choices
            return
        # What a draw led to is not independent of the draw.
        yield replace(choices, family="choices of tables")
        region = self.level.settings.region_type
        drawn = draw_at(self.level.first, self.noise.stream(region, query_key(self.level, CHOICE)), groups)
        cuts = np.array([-ANYTHING, *self.level.settings.thresholds, ANYTHING], np.int64)
        chosen = np.maximum(outcome, 0)
        array = self._array(CHOICE, "first noise", drawn[:, None], (self.level.first,), DRAWN_AGAIN, units=groups)
        yield replace(
            array,
            above=(cuts[chosen] - sizes - 1)[:, None],
            up_to=(cuts[chosen + 1] - sizes - 1)[:, None],
            stage=STAGE,
        )

    @cached_property
    def _certain_from(self) -> int:
        law = self.level.first
        width = sqrt(law.parameter) if isinstance(law, DiscreteGaussian) else 1 / float(law.parameter)
        return max(0, self.level.settings.thresholds[-1]) + ceil(FURTHEST * width)

    def _choice(self, size: int) -> ChoiceLaw:
        cuts = tuple(threshold - size for threshold in self.level.settings.thresholds)
        limit = self.level.suppressed_up_to
        if limit is None:
            return ChoiceLaw(self.level.first, cuts)
        return ChoiceLaw(self.level.first, cuts, self.level.second, limit - size)

    # Empty groups that are drawn as survivors

    def _empty_groups(self) -> Iterator[Residuals]:
        """How many are published in stretches of them, what is published of each, and whether all follows from the
        key."""
        choice, occupied = self._choice(0), self._sizes[0]
        chance = empty_rule(self.level).survival()
        groups, first = np.unique(self.group, return_index=True)
        empty = find(occupied, groups) < 0
        survivors, levels, values = groups[empty], self.number[first][empty], self.count[first][empty]
        trials, successes, wrong = [], [], []
        for part in self.level.parts:
            begin, end = (area * len(self.level.iterations) for area in (part, part + self.level.areas_per_part))
            end = min(end, self.level.groups)
            taken = occupied[(occupied >= begin) & (occupied < end)]
            here = (survivors >= begin) & (survivors < end)
            ranks = survivors[here] - begin - np.searchsorted(taken, survivors[here])
            empties = end - begin - len(taken)
            stretches = int(np.clip(empties * chance / SURVIVORS_OF_A_STRETCH, 1, STRETCHES))
            edges = np.arange(stretches + 1) * empties // stretches
            trials.append(np.diff(edges))
            successes.append(np.diff(np.searchsorted(ranks, edges)))
            published = survivors[here], levels[here], np.where(levels[here] == 0, values[here], 0)
            wrong.append(self._differ(part, begin, end, taken, published))
        sizes, law_of = np.unique(np.concatenate(trials), return_inverse=True)
        number = self._array(
            CHOICE,
            "published empty groups",
            np.concatenate(successes)[:, None],
            tuple(SurvivorLaw(int(size), choice) for size in sizes),
        )
        yield replace(number, law_of=law_of.reshape(-1, 1), stage=STAGE)
        kept = slice(None, MOST_GROUPS)
        which = self._array(CHOICE, "tables of empty groups", levels[kept, None], (choice,), units=survivors[kept])
        yield replace(which, above=np.array([[HIDDEN]]), stage=STAGE)
        if self.noise is not None:
            as_drawn = self._array(
                CHOICE, "empty groups as drawn", np.array(wrong, np.int64)[:, None], (OutcomeLaw((0,), (1.0,)),)
            )
            yield replace(as_drawn, family="choices of tables")

    def _differ(
        self, part: int, begin: int, end: int, occupied: Integers, published: tuple[Integers, Integers, Integers]
    ) -> bool:
        """Whether other empty groups were published in a part than the key gives, or something else of them."""
        if self.noise is None:
            return False
        name = f"{query_key(self.level, TABLE)}, empty groups from area {part}"
        stream = self.noise.stream(self.level.settings.region_type, name)
        drawn = draw_survivors(empty_rule(self.level), stream, end - begin - len(occupied))
        places = begin + rank_to_place(drawn.places, occupied - begin, end - begin)
        again = places, drawn.levels.astype(np.int64), drawn.values
        return not all(np.array_equal(one, other) for one, other in zip(published, again, strict=True))

    # Stage 2

    def _totals(self) -> Residuals:
        """Totals of groups that got nothing else; those that are suppressed are not seen."""
        at = self.number == 0
        size, limit = self._size_of(self.group[at]), self.level.suppressed_up_to
        noise = (self.count[at] - size)[:, None]
        array = self._array(TABLE, TOTAL_TABLE, noise, (self.level.second,), units=self.group[at])
        return array if limit is None else replace(array, above=(limit - size)[:, None])

    def _tables(self) -> Iterator[Residuals]:
        """Every cell of every table."""
        for position, grid in enumerate(GRIDS, start=1):
            at = self.number == position
            groups = self.group[at][:: grid.cells]
            if len(groups):
                noise = self.count[at].reshape(-1, grid.cells) - self.truth.cells(groups, position)
                yield self._array(TABLE, grid.table, noise, (self.level.second,), units=groups)


# Made-up persons, in the official layout.


class SafeTabRehearsal(MadeUpRecords[SafeTabProblem]):
    """Persons of every age, sex and code, each alike."""

    def record_form(self, problem: SafeTabProblem) -> RecordForm:
        """Ages, sexes and codes of the lists, each alike; areas by the names of the region types."""
        columns: dict[str, Iterable[str]] = {
            "QAGE": map(str, range(OLDEST + 1)),
            "QSEX": SEXES,
            "HOUSEHOLDER": ("True", "False"),
            "CENRACE": (f"{number:02d}" for number in range(1, LAST_CENRACE + 1)),
        }
        return form_of_groups(problem, columns)

    def made_up_people(self, problem: SafeTabProblem, people: MadeUpPeople) -> pa.Table:
        """Every column of the layout, all of it text; some persons have a second race code."""
        columns = coded_columns(problem.lists.codes, people)
        theirs = problem.records.theirs
        return pa.table({theirs(name): columns[name] for name in PERSON_COLUMNS})
