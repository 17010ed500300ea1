"""Something to infer from: a TopDown release, with its measurements or without, or a bare folder of measurements.

:func:`open_source` opens one. Of a release everything is read that is public: plan, frame, records, and the noisy
measurements where they are published. A folder of measurements, ours or in the layout of the public files of the 2010
and 2020 Censuses, is enough for least squares: units, levels and blocks follow from its ids.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from confide.arrays import Floats, Integers
from confide.errors import InputError, ParameterError, Place
from confide.estimation.linear_statements import quantile_intervals, share_intervals
from confide.estimation.sectors import Study
from confide.estimation.tree_gls import PlacedAreas, SpineUnits, TreeAnswers
from confide.estimation.unified_intervals import count_intervals
from confide.geography import AreaSet
from confide.inference import asked
from confide.inference.replicates import ReplicatedRelease, Replicates
from confide.mechanisms import SPECS
from confide.mechanisms.topdown.from_below import planned_tree
from confide.mechanisms.topdown.measurements.folder import find_product, product_words
from confide.mechanisms.topdown.measurements.layout import FOLDER, words_of
from confide.mechanisms.topdown.measurements.measured_tree import MeasuredTree, read_tree
from confide.mechanisms.topdown.output.settings import Output
from confide.mechanisms.topdown.released_problem import NEEDED, ReleasedPlan, released_plan
from confide.mechanisms.topdown.spec import TopDownSpec
from confide.mechanisms.topdown.strategy_file import load_strategy
from confide.releases import SealedRelease, load_spec

if TYPE_CHECKING:
    import pyarrow as pa

    from confide.estimation.tree_covariances import TreeCovariances

KNOWN_SD = 1e-3
"""A count whose standard deviation is below this is known: counts are whole numbers."""
NOT_TOLD = 1e12
"""A variance above this comes from the vague prior: nothing tells the count."""
BLOCK_DIGITS = 15
DIGITS = {"state": 2, "county": 5, "tract": 11, "block_group": 12, "block": BLOCK_DIGITS}
"""How many digits of a public block code name the official unit of each level."""
SPINE = "spine:"
"""Before the name of a level: its units as the spine has them, by their ids."""


@dataclass(frozen=True)
class AreaEstimate:
    """One number of an area, with what is known of its error."""

    value: float
    sd: float
    low: float
    high: float
    level: float
    method: str
    bounded: bool = True
    """Whether there is a bounded interval; of a share whose base may be zero there is none."""


@dataclass(eq=False)
class InferenceSource:
    """A release or a folder of measurements that was opened. :func:`open_source` makes one."""

    folder: Path
    title: str
    vocabulary: asked.Vocabulary
    block_codes: NDArray[np.str_]
    """The codes of the blocks of the source."""
    geographies: tuple[AreaSet, ...]
    covariances: TreeCovariances
    tree_block: Integers
    """For each block of the source its number in the tree, or −1 where nobody can be."""
    tree: MeasuredTree | None
    released: ReleasedPlan | None
    replicates: Replicates | None
    totals: Mapping[str, int]

    @cached_property
    def units(self) -> SpineUnits:
        """The units of the spine as sets of blocks."""
        return SpineUnits(self.covariances.parents)

    @cached_property
    def answers(self) -> TreeAnswers:
        """Least squares for queries of areas."""
        return TreeAnswers(self.covariances, None if self.tree is None else self.tree.estimates)

    @cached_property
    def counts(self) -> csr_matrix:
        """The released records as counts: blocks of the source x cells of the histogram."""
        assert self.released is not None
        row, cell = self.released.records()
        shape = (len(self.block_codes), int(np.prod(self.vocabulary.shape)))
        return csr_matrix((np.ones(len(row), np.int64), (row, cell)), shape=shape)

    @property
    def most_pieces(self) -> int:
        """Of how many units an area may be made that the spine follows."""
        settings = {} if self.released is None else self.released.facts.get("spine_settings", {})
        return int(settings.get("entity_threshold") or asked.MOST_PIECES)

    @property
    def default_queries(self) -> list[str]:
        """The total, and what is measured with few enough cells for a table."""
        if self.released is not None:
            measured = list(self.released.strategy.measured)
        else:
            assert self.tree is not None
            measured = [query.name for queries in self.tree.queries.values() for query in queries]
        # A study has not every variable that is measured.
        names = [n for n in dict.fromkeys(("total", *measured)) if self.vocabulary.knows(n)]
        return [name for name in names if self.vocabulary.query(name).cells <= MOST_DEFAULT_CELLS]

    @cached_property
    def tables(self) -> dict[str, tuple[asked.AskedQuery, ...]]:
        """The tables of the product by name, each with its lines: those of the release, or else those that ship for
        records with these attributes."""
        listed = () if self.released is None else Output.from_dict(self.released.facts["output"]).tables
        listed = listed or asked.shipped_tables(self.vocabulary.attributes)
        return {table.name: self.vocabulary.lines(table) for table in listed}

    @property
    def default_geographies(self) -> list[str]:
        """Every official level and kind of area but the blocks."""
        return [areas.kind for areas in self.geographies[:-1] if not areas.kind.startswith(SPINE)]

    def placed(self, areas: AreaSet) -> PlacedAreas:
        """Areas on the spine."""
        return PlacedAreas.on(areas, self.tree_block, self.units)

    # What is asked of single areas.

    def infer(
        self, query: str, *, geography: str, level: float = 0.9, method: str = "auto", at_once: bool = False
    ) -> pa.Table:
        """A query in all areas of a kind, as a table of Arrow: see :func:`confide.inference.infer`."""
        from confide.inference.inferring import infer

        return infer(self, [query], [geography], levels=[level], method=method, at_once=at_once).table(geography)

    def estimate(self, area: asked.Area, count: str, level: float = 0.9) -> AreaEstimate:
        """One count of an area, such as ``total`` or ``hispanic=1*votingage=1``, by least squares."""
        block, levels = self._blocks(area), self.vocabulary.count(count)
        value = float(self._estimating.counted(block, [levels])[0])
        sd = float(np.sqrt(max(0.0, self.answers.covariance([block], [levels])[0, 0])))
        known = sd < KNOWN_SD
        sd = 0.0 if known else sd
        ends = count_intervals([value], [sd], level)
        return AreaEstimate(value, sd, int(ends.low[0]), int(ends.high[0]), level, "exact" if known else "gls")

    def covariance(self, one: tuple[asked.Area, str], other: tuple[asked.Area, str]) -> float:
        """The covariance of the errors of two counts, each of an area."""
        blocks = [self._blocks(area) for area, _ in (one, other)]
        counts = [self.vocabulary.count(count) for _, count in (one, other)]
        return float(self.answers.covariance(blocks, counts)[0, 1])

    def share(self, area: asked.Area, part: str, base: str = "total", level: float = 0.9) -> AreaEstimate:
        """The share of one count in another, with Fieller's interval."""
        block = self._blocks(area)
        counts = [self.vocabulary.count(part), self.vocabulary.count(base)]
        x, y = self._estimating.counted(block, counts).tolist()
        v = self.answers.covariance([block, block], counts)
        ends = share_intervals([x], [y], v[0, 0], v[1, 1], v[0, 1], level)
        value = x / y if y else float("nan")
        sd = float(np.sqrt(max(0.0, v[0, 0] - 2 * value * v[0, 1] + value**2 * v[1, 1])) / abs(y)) if y else np.inf
        return AreaEstimate(value, sd, float(ends.low[0]), float(ends.high[0]), level, "gls", bool(ends.bounded[0]))

    def median(self, area: asked.Area, attribute: str, share: float = 0.5, level: float = 0.9) -> tuple[str, str]:
        """The levels of an ordered attribute between which the median lies, or another quantile: their labels."""
        (variable,) = self.vocabulary.query(attribute).variables
        counts = [{variable.axis: (variable.groups == group).astype(float)} for group in range(variable.size)]
        block = self._blocks(area)
        covariance = self.answers.covariance([block] * len(counts), counts)
        ends = quantile_intervals(self._estimating.counted(block, counts), covariance, share, level)
        return variable.labels[int(ends.low)], variable.labels[int(ends.high)]

    def cells(self, area: asked.Area) -> Floats:
        """The estimates of all cells of an area, with the shape of the schema."""
        block = self._blocks(area)
        assert self._estimating.estimates is not None
        cells = self._estimating.estimates.area_histogram(block, np.zeros(len(block), np.int64), 1)
        return np.asarray(cells[0], np.float64)

    @property
    def _estimating(self) -> TreeAnswers:
        if self.tree is None:
            raise no_measurements(self.folder)
        return self.answers

    def _blocks(self, area: asked.Area) -> Integers:
        """The blocks of an area in the tree; raises if the source does not have them all."""
        wrong = np.flatnonzero(asked.outside(area, self.block_codes))
        if len(wrong) or not area.blocks:
            raise ParameterError(
                "bad-area",
                area=area.name,
                block=area.blocks[int(wrong[0])] if area.blocks else None,
                block_code=str(self.block_codes[0]),
            )
        listed = self.tree_block[np.flatnonzero(np.isin(self.block_codes, np.array(area.blocks, np.str_)))]
        return np.asarray(listed[listed >= 0])


MOST_DEFAULT_CELLS = 300


def open_source(
    path: str | Path,
    *,
    totals: str | Path | Mapping[str, int] | None = None,
    replicates: str | Path | None = None,
    spec: str | Path | None = None,
    study: str | Path | Mapping[str, str] | None = None,
) -> InferenceSource:
    """Opens a release or a folder of noisy measurements for inference.

    Args:
        path: A sealed TopDown release or the folder of its run; or a folder of measurements, ours or public.
        totals: Known numbers of records by code, or a CSV file with them: those of the States, which public
            measurement files do not have.
        replicates: A folder that ``confide infer replicate`` made of the release.
        spec: For a folder of measurements: the spec with their strategy, where that does not ship.
        study: Coarser groups for a folder of measurements whose histogram is too large: for each attribute the word of
            its groups, or a TOML file with them.

    Returns:
        The source. Raises with findings if a file is not what it should be.

    >>> import confide
    >>> source = confide.open_source(topdown)  # topdown: the folder of a run of that mechanism
    >>> [geography.kind for geography in source.geographies][:2]
    ['state', 'county']
    """
    folder = Path(path)
    release = SealedRelease.at(folder)
    given = asked.read_totals(Path(totals)) if isinstance(totals, str | Path) else dict(totals or {})
    coarser = asked.read_study(Path(study)) if isinstance(study, str | Path) else study
    if release is not None:
        if coarser is not None:
            raise InputError("bad-study/folder", where=Place(path="--study"), found=folder.name)
        no_spec(spec)
        return _of_release(release, replicates, given)
    if replicates is not None:
        raise InputError("no-release", where=Place(path="--replicates"), found=folder.name)
    return _of_folder(folder, None if spec is None else Path(spec), given, coarser)


def _of_release(release: SealedRelease, replicates: str | Path | None, totals: Mapping[str, int]) -> InferenceSource:
    _require_tree(release)
    released = released_plan(release)
    measured = (released.folder / FOLDER).is_dir() and bool(released.facts.get("measurements"))
    released.require_unchanged("tables/records.", "tables/units.", *([f"{FOLDER}/"] if measured else []))
    schema, spine = released.strategy.schema, released.spine
    words = words_of(released.strategy)
    frame = spine.frame
    codes = np.array(frame.blocks.codes)[frame.blocks.unit_of_block]
    geographies = [
        AreaSet.partition(level.name, level.codes, level.unit_of_block) for level in (*frame.levels[:-1], *frame.areas)
    ]
    blocks = AreaSet.partition(frame.blocks.name, frame.blocks.codes, frame.blocks.unit_of_block)
    tree = None
    if measured:
        variances = {measure.law.variance() for measure in released.plan.measures}
        tree = read_tree(
            released.folder / FOLDER, words=words, levels=spine.names, totals=totals or None, variances=variances
        )
        covariances, tree_block = tree.covariances, asked.numbers_of(codes, tree.block_codes)
        position, ids = tree.position, {units.name: units.ids for units in tree.units}
    else:
        planned = planned_tree(released.strategy, spine, released.plan, released.columns)
        covariances, tree_block = planned.covariances, np.full(len(codes), -1, np.int64)
        tree_block[spine.rows] = np.arange(len(spine.rows))
        position, ids = planned.position, {name: spine.ids(name) for name in spine.names[:-1]}
    geographies += _spine_levels(covariances, position, ids, tree_block, list(spine.names))
    opened = None if replicates is None else Replicates.open_with(replicates, ReplicatedRelease(released))
    return InferenceSource(
        released.folder,
        str(released.manifest["title"]),
        asked.Vocabulary.of(words, schema),
        codes,
        (*geographies, blocks),
        covariances,
        tree_block,
        tree,
        released,
        opened,
        totals,
    )


def _require_tree(release: SealedRelease) -> None:
    """Refuses a release that is no tree of measurements, and says where its margins are."""
    if not set(NEEDED) <= release.facts.keys():
        raise InputError("no-tree", where=Place(file=str(release.folder)), mechanism=release.manifest["mechanism"])


def _of_folder(
    path: Path, spec: Path | None, totals: Mapping[str, int], coarser: Mapping[str, str] | None
) -> InferenceSource:
    words, levels = None, None
    if spec is not None:
        loaded = load_spec(spec, SPECS).spec
        if isinstance(loaded, TopDownSpec):
            strategy = load_strategy(loaded.topdown.strategy, spec.parent, root=loaded.topdown.root)
            words, levels = words_of(strategy), strategy.level_names
    vocabulary, groups = None, None
    if coarser is not None:
        product = find_product(path, Place(file=path.name))
        known = asked.Vocabulary.of(words or product_words(product.path, product.folders), None)
        vocabulary, groups = known.coarser(coarser)
    grouped = None if groups is None else Study(groups)
    tree = read_tree(path, words=words, levels=levels, totals=totals or None, study=grouped)
    codes = tree.block_codes
    blocks = np.arange(len(codes))
    names = [units.name for units in tree.units]
    ids = {units.name: units.ids for units in tree.units}
    geographies = list(_official_levels(tree)) + _spine_levels(tree.covariances, tree.position, ids, blocks, names)
    return InferenceSource(
        tree.folder.path,
        tree.words.title,
        vocabulary or asked.Vocabulary.of(tree.words, None),
        codes,
        (*geographies, AreaSet.partition(names[-1], codes.tolist(), blocks)),
        tree.covariances,
        blocks,
        tree,
        None,
        None,
        totals,
    )


def _official_levels(tree: MeasuredTree) -> list[AreaSet]:
    """Official units by the codes of the file, or by those of the blocks; otherwise units of the spine by their ids."""
    units, result = SpineUnits(tree.covariances.parents), []
    codes = tree.block_codes
    public = bool((np.strings.str_len(codes) == BLOCK_DIGITS).all()) and bool(np.char.isdigit(codes).all())
    for level, position in zip(tree.units[:-1], tree.position[:-1], strict=True):
        of_block = units.of_block[position]
        if level.codes is not None:
            listed = level.codes[of_block]
        elif public and level.name in DIGITS:
            listed = codes.astype(f"U{DIGITS[level.name]}")
        else:
            listed = level.ids[of_block]
        areas, area = np.unique(listed, return_inverse=True)
        result.append(AreaSet.partition(level.name, areas.tolist(), area.reshape(-1)))
    return result


def _spine_levels(
    covariances: TreeCovariances,
    positions: Sequence[int],
    ids: Mapping[str, NDArray[np.str_]],
    tree_block: Integers,
    names: Sequence[str],
) -> list[AreaSet]:
    """The units of the spine by their ids, but for the blocks."""
    units, result = SpineUnits(covariances.parents), []
    for name, position in zip(names[:-1], positions[:-1], strict=True):
        area = np.where(tree_block >= 0, units.of_block[position][tree_block], -1)
        result.append(AreaSet.partition(f"{SPINE}{name}", ids[name].tolist(), area))
    return result


def no_spec(given: str | Path | None) -> None:
    """Refuses a spec beside a release."""
    if given is not None:
        raise InputError("option-without-effect/release", where=Place(path="--spec"), found=str(given))


def no_measurements(folder: Path) -> InputError:
    """What is refused where there is nothing to estimate from."""
    return InputError("no-measurements/noisy", where=Place(file=str(folder)))
