"""What is read: household records in the official layout, made-up ones, and the published totals of groups.

**Published totals** decide what a group gets: ``t1`` of a release of SafeTab-P, or a file of it.
A group that has a total gets both tables, and one without gets nothing. The totals are public, so to look at them costs
nothing, and findings about them show values. Read are those of the passes that run: rows of the nation; rows of other
types whose code begins with a state of the filter; and of AIANNH areas those that the geographic file has. Of these,
rows of iterations that areas of the type are not tabulated for are left aside: coterminous processing puts some there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from confide.arrays import Integers
from confide.engines import Engine, Source
from confide.errors import Finding, InputError, Place
from confide.inputs.made_up import MadeUpPeople, RecordForm
from confide.mechanisms.safetab import records
from confide.mechanisms.safetab.code_files import SHOWN, Sheet, quoted, read_sheet
from confide.mechanisms.safetab.codes import CodeLists
from confide.mechanisms.safetab.made_up import coded_columns, form_of_groups
from confide.mechanisms.safetab.output import reading
from confide.mechanisms.safetab.output.coded import T1
from confide.mechanisms.safetab.regions import BLOCK_COLUMNS, NATION, Regions
from confide.mechanisms.safetab.settings import LARGE_REGIONS, PR_REGIONS, REGION_TYPES
from confide.mechanisms.safetab_h.settings import TENURES, TYPES
from confide.releases.abilities import MadeUpRecords
from confide.releases.verify import PublicInput

if TYPE_CHECKING:
    from confide.mechanisms.safetab_h.problem import SafeTabHProblem

TYPE, TENURE = "HOUSEHOLD_TYPE", "TEN"
HOUSEHOLD_COLUMNS = (*BLOCK_COLUMNS, "HHRACE", *records.CODE_COLUMNS, TYPE, TENURE)
"""The columns of the official layout, in order. The codes are those of the householder."""

HOUSEHOLDS = records.RecordLayout(
    HOUSEHOLD_COLUMNS,
    "HHRACE",
    (records.WholeColumn(TYPE, "a household type", 1, TYPES), records.WholeColumn(TENURE, "a tenure", 1, TENURES)),
)


def household_expressions(engine: Engine, source: Source) -> Mapping[str, str]:
    """SQL over records that passed the checks: ``code`` of the block (15 digits), ``cell`` (0 to 19, household type by
    tenure, see :mod:`confide.mechanisms.safetab_h.settings`), and the columns of race and ethnicity codes."""
    column, kinds = records.columns_of(source, HOUSEHOLDS), engine.kinds(source)
    kind, tenure = (
        records.whole_expression(column[name], integer=kinds[source.theirs(name)] == "integer")
        for name in (TYPE, TENURE)
    )
    return {
        "code": " || ".join(column[name] for name in BLOCK_COLUMNS),
        "cell": f"CAST({TENURES} * ({kind} - 1) + {tenure} - 1 AS BIGINT)",
        **{name: column[name] for name in records.CODE_COLUMNS},
    }


class SafeTabHRehearsal(MadeUpRecords["SafeTabHProblem"]):
    """Households of every type, tenure and code, each alike."""

    def record_form(self, problem: SafeTabHProblem) -> RecordForm:
        """Types, tenures and codes of the lists, each alike; areas by the names of the region types."""
        columns: dict[str, Iterable[str]] = {
            "HHRACE": (f"{number:02d}" for number in range(1, records.LAST_CENRACE + 1)),
            TYPE: map(str, range(1, TYPES + 1)),
            TENURE: map(str, range(1, TENURES + 1)),
        }
        return form_of_groups(problem, columns)

    def made_up_people(self, problem: SafeTabHProblem, people: MadeUpPeople) -> pa.Table:
        """Every column of the layout, all of it text; some householders have a second race code."""
        columns, theirs = coded_columns(problem.lists.codes, people), problem.records.theirs
        return pa.table({theirs(name): columns[name] for name in HOUSEHOLD_COLUMNS})


# The published totals of groups.


COLUMNS = tuple(T1.names)
REGION_ID, REGION_TYPE, ITERATION, COUNT = COLUMNS
Flags = npt.NDArray[np.bool_]
_WIDTHS = np.array([reading.width_of(kind) for kind in REGION_TYPES])


@dataclass(frozen=True, eq=False)
class GroupTotals:
    """The totals that count: a row for each group, in the order of region type, area and iteration."""

    region: Integers
    """The place of the region type."""
    area: Integers
    """The number of the area among those of its type."""
    iteration: Integers
    """The number of the iteration."""
    count: Integers

    def of(self, region_type: str, level: int, lists: CodeLists) -> GroupTotals:
        """Those of a population group level."""
        levels = np.array([each.level for each in lists.iterations], np.int64)
        wanted = self.region == REGION_TYPES.index(region_type)
        at = np.flatnonzero(wanted & (levels[self.iteration] == level))
        return GroupTotals(self.region[at], self.area[at], self.iteration[at], self.count[at])


def read_totals(given: PublicInput, regions: Regions, lists: CodeLists, settings: records.PassFilter) -> GroupTotals:
    """The totals of the passes that run. Raises an :class:`InputError` with all that is wrong with the file."""
    sheet = _sheet(given)
    return _Checked(sheet, regions, lists, settings).totals()


def _sheet(given: PublicInput) -> Sheet:
    """The rows of ``t1`` of a release, or of a file or a folder of files."""
    if given.release is None:
        paths = _files(given.path)
    else:
        listed = given.release.paths("t1/t1.")
        paths = [given.release.folder / path for path in listed if path.endswith(".csv")]
    sheets, findings = [], []
    for path in paths:
        sheet, wrong = read_sheet(path, COLUMNS)
        findings += wrong
        sheets += [] if sheet is None else [sheet]
    if findings:
        raise InputError(findings)
    if not sheets:
        raise InputError("group-totals/none", where=Place(file=given.path.name))
    rows = [row for sheet in sheets for row in sheet.rows]
    numbers = [number for sheet in sheets for number in sheet.numbers]
    return Sheet(sheets[0].file, COLUMNS, rows, numbers, sheets[0].unit)


def _files(path: Path) -> list[Path]:
    """The file, or those of a folder, such as the part files of the Bureau's program."""
    return [path] if path.is_file() else sorted(each for each in path.iterdir() if each.suffix in (".csv", ".parquet"))


class _Checked:
    """A sheet with what must hold of it."""

    def __init__(self, sheet: Sheet, regions: Regions, lists: CodeLists, settings: records.PassFilter):
        self.sheet, self.regions, self.lists, self.settings = sheet, regions, lists, settings
        table = pa.table({name: pa.array(sheet.column(name), pa.string()) for name in COLUMNS})
        self.region_id, self.type, self.code, self.text = (table.column(name).combine_chunks() for name in COLUMNS)
        self.region = _places(self.type, REGION_TYPES)
        self.area, self.iteration = self._areas(), _places(self.code, [each.code for each in lists.iterations])

    def totals(self) -> GroupTotals:
        findings = list(self._forms())
        if findings:
            raise InputError(findings)
        chosen = self._of_passes()
        findings = [*self._twice(), *self._without_rows(chosen), *self._unknown(chosen)]
        if findings:
            raise InputError(findings)
        at = np.flatnonzero(chosen & (self.area >= 0) & self._tabulated)
        order = at[np.lexsort((self.iteration[at], self.area[at], self.region[at]))]
        count = self.text.take(pa.array(order)).cast(pa.int64()).to_numpy()
        return GroupTotals(self.region[order], self.area[order], self.iteration[order], count)

    def _areas(self) -> Integers:
        """For each row the number of its area among those of its type, -1 where there is none."""
        area = np.full(len(self.region), -1, np.int64)
        for name, codes in self.regions.areas.items():
            here = np.flatnonzero(self.region == REGION_TYPES.index(name))
            area[here] = _places(self.region_id.take(pa.array(here)), codes)
        return area

    @property
    def _tabulated(self) -> Flags:
        """Whether areas of the type have the iteration."""
        by_size = {
            large: np.array([each.tabulated(large=large) for each in self.lists.iterations], np.bool_)
            for large in (True, False)
        }
        of_large = np.isin(self.region, [REGION_TYPES.index(name) for name in LARGE_REGIONS])
        known = np.where(of_large, by_size[True][self.iteration], by_size[False][self.iteration])
        return np.asarray(known & (self.iteration >= 0), np.bool_)

    def _of_passes(self) -> Flags:
        """The rows that belong to a pass that runs."""
        runs = [name for name in REGION_TYPES if name in self.regions.areas]
        listed = np.isin(self.region, [REGION_TYPES.index(name) for name in runs])
        states = pc.utf8_slice_codeunits(self.region_id, 0, 2)
        in_states = pc.is_in(states, pa.array(self.settings.all_states, pa.string())).to_numpy(zero_copy_only=False)
        by_code = np.isin(self.region, [REGION_TYPES.index(name) for name in ("USA", "AIANNH")])
        aiannh = self.region == REGION_TYPES.index("AIANNH")
        known = ~aiannh | (self.area >= 0)
        return np.asarray(listed & (by_code | in_states) & known, np.bool_)

    # Rules

    def _forms(self) -> Iterator[Finding]:
        """Every value has the form of its column."""
        width = pc.binary_length(self.region_id).to_numpy()
        # Of rows that no pass has, no more is asked than this; of the others the area must be there.
        fits = _matches(self.region_id, "^[0-9]+$") & np.isin(width, _WIDTHS)
        fits &= (width > 1) | (_places(self.region_id, [NATION]) == 0)
        yield from self._broken("group-totals/type", self.region < 0, REGION_TYPE, self.type)
        yield from self._broken("group-totals/area-code", ~fits, REGION_ID, self.region_id)
        yield from self._broken("group-totals/iteration-code", ~_matches(self.code, "^[0-9]{4}$"), ITERATION, self.code)
        yield from self._broken("group-totals/count", ~_matches(self.text, "^-?[0-9]{1,15}$"), COUNT, self.text)

    def _twice(self) -> Iterator[Finding]:
        """Each group once."""
        keys = [pc.rank(each, tiebreaker="dense").to_numpy() for each in (self.code, self.region_id)]
        order = np.lexsort((*keys, self.region))
        same = np.logical_and.reduce([each[order][1:] == each[order][:-1] for each in (*keys, self.region)])
        again = np.zeros(len(self.region), np.bool_)
        again[order[1:][same]] = True
        yield from self._broken("group-totals/twice", again, ITERATION, self.code)

    def _without_rows(self, chosen: Flags) -> Iterator[Finding]:
        """A total at least for each pass."""
        of_puerto_rico = np.isin(self.region, [REGION_TYPES.index(name) for name in PR_REGIONS])
        for runs, here, name in (
            (bool(self.settings.states), chosen & ~of_puerto_rico, "US"),
            (self.settings.puerto_rico, chosen & of_puerto_rico, "PR"),
        ):
            if runs and not here.any():
                yield Finding.of("group-totals/no-rows", where=Place(file=self.sheet.file), name=name)

    def _unknown(self, chosen: Flags) -> Iterator[Finding]:
        """Areas of the filter that the geographic file lacks, which would be published as noise alone; and iterations
        that no list has: these are totals of other lists."""
        yield from self._broken("group-totals/no-area", chosen & (self.area < 0), REGION_ID, self.region_id)
        yield from self._broken("group-totals/no-iteration", chosen & (self.iteration < 0), ITERATION, self.code)

    def _broken(self, key: str, broken: Flags, column: str, values: pa.Array, **facts: object) -> Iterator[Finding]:
        """A finding for all rows that break a rule."""
        rows = np.flatnonzero(broken).tolist()
        if not rows:
            return
        texts = values.take(pa.array(rows[:SHOWN], pa.int64())).to_pylist()
        cases = [(row, quoted(texts[place]) if place < SHOWN else "") for place, row in enumerate(rows)]
        listed = self.sheet.listed(cases)
        yield Finding.of(key, where=self.sheet.place(rows[0], column), found=listed, **facts)  # type: ignore[arg-type]


def _matches(column: pa.Array, pattern: str) -> Flags:
    return np.asarray(pc.match_substring_regex(column, pattern).to_numpy(zero_copy_only=False), np.bool_)


def _places(column: pa.Array, texts: Sequence[str]) -> Integers:
    """For each text its place among some, or -1."""
    place = pc.fill_null(pc.index_in(column, pa.array(list(texts), pa.string())), -1)
    return np.asarray(place.to_numpy(), np.int64)
