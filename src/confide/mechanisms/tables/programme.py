"""The programme: which cross-tabulations are measured where, and with which part of the budget.

A table with variables A, published on some geolevels with all its margins, is the set of the cross-classifications of
P(A), the power set of A (Bach 2021, section 2.4). Every cross-classification is a partition of the records of a level
into cells, so measuring it costs what one histogram costs.

The budget goes down three steps, each by exact shares: to the tables by their weights, within a table to the geolevels
by theirs, within a level to the margins in equal parts. See ``docs/proofs/tables.md``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import isqrt
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from pydantic import Field

from confide import noise as noise_laws
from confide import privacy as confide_privacy
from confide.engines import Source
from confide.errors import ConfideError, ParameterError
from confide.geography import Geolevel, Spine
from confide.inputs import OfficeFiles
from confide.inputs.frame import Frame, reading_facts
from confide.noise.fitting import NoiseKind, of_margin, of_variance, smallest_bound
from confide.releases import Plan, PlannedMeasurement, spec, tabular
from confide.releases.draft import BUDGET, LEDGER, SPEC, Draft, no_product, office_files, office_values
from confide.report.rendering import render
from confide.schema import Query, Schema, query_name

# The spec of a static programme of tables.


class TablePart(tabular.AskedTable):
    """One table of the programme."""

    margins: Literal["all", "none"] = Field(
        "all", description="all: every margin of the table is measured too; none: the inner cells alone."
    )
    weight: spec.ExactNumber = Field(Fraction(1), description="The table's part of the budget, relative to the others.")
    level_weights: dict[str, spec.ExactNumber] = Field(
        default_factory=dict,
        description="A geolevel's part of this table's budget, in place of that in [programme]; default: as there.",
    )


class ProgrammePart(spec.Part):
    """How the tables share the budget."""

    repeated: Literal["independent", "pooled"] = Field(
        "independent",
        description="A cross-tabulation that several tables contain is measured by each on its own (independent: Bach, "
        "Eq. 6), or once, with their budgets put together, and shown in each (pooled: Eq. 7).",
    )
    level_weights: dict[str, spec.ExactNumber] = Field(
        default_factory=dict, description="A geolevel's part of a table's budget, relative to the others; default 1."
    )


class TablesData(spec.DataPart):
    """Where the records and the frame are, and what the records mean."""

    schema_: spec.FilePath = Field(
        alias="schema", description="The schema of the records: a shipped name, or a TOML file."
    )


LAWS = {
    "zcdp": ("discrete-gaussian",),
    "pure": ("two-sided-geometric",),
    "approximate": (
        "truncated-two-sided-geometric",
        "truncated-discrete-gaussian",
        "two-sided-geometric",
        "discrete-gaussian",
    ),
}
"""The noise that a definition has a price for; the first is taken where the spec names none."""


class NoisePart(spec.Part):
    """The noise, where it is not simply what the budget gives (Bach 2021, sections 2.3 and 2.4)."""

    law: (
        Literal[
            "discrete-gaussian", "two-sided-geometric", "truncated-discrete-gaussian", "truncated-two-sided-geometric"
        ]
        | None
    ) = Field(None, description="The kind of noise; default: what the definition has first.")
    bound: int | None = Field(
        None, ge=1, le=1 << 20, description="The largest noise, for truncated kinds; default: the smallest for delta."
    )
    variance: spec.ExactNumber | None = Field(
        None, description="Utility-driven: every count has noise of this variance, and the cost follows."
    )
    margin: int | None = Field(
        None, ge=0, le=1 << 20, description="Or: noise with this noise margin, at the level of output.noise_margin."
    )

    def problems(self, definition: str) -> list[spec.Problem]:
        """What is wrong although each value by itself is right."""
        problems = []
        law = self.law or LAWS[definition][0]
        if law not in LAWS[definition]:
            problems.append(
                spec.Problem.of(
                    ("noise", "law"),
                    "law-of-definition",
                    law=law,
                    definition=definition,
                    law_expected=" or ".join(LAWS[definition]),
                )
            )
        utility = self.variance is not None or self.margin is not None
        if self.variance is not None and self.margin is not None:
            problems.append(spec.Problem.of(("noise", "margin"), "noise-twice"))
        if self.bound is not None and not law.startswith("truncated"):
            problems.append(spec.Problem.of(("noise", "bound"), "no-bound/noise", found=str(self.bound), law=law))
        if self.bound is None and utility and law.startswith("truncated"):
            problems.append(spec.Problem.of(("noise",), "no-bound/missing"))
        return problems


class TablesSpec(spec.Spec):
    """A static programme of cross-tabulations with independent noise (Bach 2021, Eq. 6)."""

    data: TablesData
    privacy: spec.UnitPrivacy
    noise: NoisePart = NoisePart()

    tables: list[TablePart] = Field(min_length=1, description="The tables of the programme.")
    programme: ProgrammePart = ProgrammePart()
    output: spec.TabularOutput = spec.TabularOutput()

    def problems(self) -> list[spec.Problem]:
        problems = super().problems() + self.noise.problems(self.privacy.definition)
        known = tabular.levels_of(self.geography)
        problems += tabular.level_problems(self.tables, self.geography)
        problems += [
            spec.Problem.of(
                ("tables", position, "level_weights", level),
                "unknown-level/table",
                level=level,
                levels=", ".join(table.levels),
            )
            for position, table in enumerate(self.tables)
            for level in table.level_weights
            if level not in table.levels
        ]
        problems += [
            spec.Problem.of(
                ("programme", "level_weights", level),
                "unknown-level/correct-spec",
                found=repr(level),
                level=level,
                known=", ".join(known),
            )
            for level in self.programme.level_weights
            if level not in known
        ]
        return problems


# From a spec to the noise of each measurement: by the risk that is allowed, or by the utility that is wanted.
#
# Risk-driven, the budget is shared out and each share gives the scale. In approximate differential privacy, with the
# shares s of the measurements, which add up to one:
#
# * discrete Gaussian noise: rho s, where rho is the largest with an epsilon of at most the budget's at delta;
# * two-sided geometric noise: f s as a pure loss. f = epsilon always will do, and f = sqrt(rho / K) does too, where K
#   is the rho of all measurements at f = 1: for many measurements it is the larger, and is taken;
# * truncated noise: the same with rho at half of delta; the bound is the smallest whose edge takes at most delta s / 4
#   and which noise without it would pass with a probability of at most s / 4. Half of delta over one minus a quarter,
#   and a quarter, are together less than delta. Where f = epsilon the edge may take delta s.
#
# Utility-driven, every count has the same noise, of the variance or the noise margin asked for, and the price
# follows. Either way the plan is priced by the accountant, and a price above the budget is refused. Derivation:
# ``docs/proofs/accounting.md``, section 7. Reference: Bach (2020), sections 2.3 and 2.4.


class NoiseChoice:
    """The noise of a programme: one law for each share of the budget."""

    def __init__(
        self, privacy: spec.PrivacyPart, noise: NoisePart, margin_level: Fraction | None, shares: Iterable[Fraction]
    ):
        self.definition, self.neighbours = (
            confide_privacy.Definition(privacy.definition),
            confide_privacy.Neighbours(privacy.neighbours),
        )
        self.kind = NoiseKind(noise.law or LAWS[privacy.definition][0])
        self.delta = privacy.delta if self.definition is confide_privacy.Definition.APPROXIMATE else None
        self._budget = _as_loss(self.definition, privacy)
        self._bound = noise.bound
        self._same = self._wanted(noise, margin_level)
        self._scale, self._basic = self._scales(sum((share**2 for share in shares), Fraction(0)))

    def law(self, share: Fraction) -> noise_laws.ReleaseNoise:
        """The noise of a measurement with this share of the budget."""
        if self._same is not None:
            return self._same
        free = confide_privacy.calibrate(self._scale * share, self.neighbours)
        if self.delta is None or not self.kind.bounded:
            return free
        changed = confide_privacy.partition_marginal(self.neighbours).l1
        if self._bound is not None:
            return _truncated(free, self._bound)
        if self._basic:
            return _truncated(free, _smallest_bound(free, self.delta * share / changed, Fraction(1)))
        return _truncated(free, _smallest_bound(free, self.delta * share / (4 * changed), share / (4 * changed)))

    def loss(self, share: Fraction, law: noise_laws.ReleaseNoise) -> confide_privacy.PrivacyLoss:
        """What a measurement costs by itself; in approximate, at its share of delta."""
        if self._same is None and self.delta is None:
            return self._budget * share
        delta = None if self.delta is None else self.delta * share
        return confide_privacy.price(confide_privacy.event_of_noise(law), self.neighbours, self.definition, delta)

    def check(self, loss: confide_privacy.PrivacyLoss) -> None:
        """Refuse a price above the budget."""
        if not loss <= self._budget:
            raise ParameterError("noise-too-small", found=_numbers(loss), budget=_numbers(self._budget))

    def _scales(self, squares: Fraction) -> tuple[confide_privacy.PrivacyLoss, bool]:
        """The budget as a loss of the noise without its bound, and whether it composes by plain addition.

        ``squares`` is the sum of the squared shares: K = squares (Δ₂/Δ₁)²/2.
        """
        if self.delta is None:
            return self._budget, True
        assert isinstance(self._budget, confide_privacy.ApproxDP)
        rho = confide_privacy.cks_rho(self._budget.epsilon, self.delta / 2 if self.kind.bounded else self.delta)
        if not self.kind.by_epsilon:
            return confide_privacy.ZCDP(rho), False
        sensitivity = confide_privacy.partition_marginal(self.neighbours)
        epsilon_squared = rho / (squares * sensitivity.l2_squared / sensitivity.l1**2 / 2)
        factor = Fraction(isqrt(int(epsilon_squared * 10**24)), 10**12)
        plain = factor <= self._budget.epsilon
        return confide_privacy.PureDP(self._budget.epsilon if plain else factor), plain

    def _wanted(self, noise: NoisePart, margin_level: Fraction | None) -> noise_laws.ReleaseNoise | None:
        if noise.variance is not None:
            distribution = of_variance(self.kind, noise.variance, noise.bound)
        elif noise.margin is not None:
            distribution = of_margin(self.kind, noise.margin, margin_level or Fraction(19, 20), noise.bound)
        else:
            return None
        assert isinstance(distribution, noise_laws.NoiseDistribution | noise_laws.TruncatedDistribution)
        return distribution


def _as_loss(definition: confide_privacy.Definition, privacy: spec.PrivacyPart) -> confide_privacy.Loss:
    if definition is confide_privacy.Definition.APPROXIMATE:
        return confide_privacy.ApproxDP(privacy.budget, privacy.delta)
    return (
        confide_privacy.ZCDP(privacy.budget)
        if definition is confide_privacy.Definition.ZCDP
        else confide_privacy.PureDP(privacy.budget)
    )


def _truncated(law: noise_laws.NoiseDistribution, bound: int) -> noise_laws.TruncatedDistribution:
    if isinstance(law, noise_laws.DiscreteGaussian):
        return noise_laws.TruncatedGaussian(law.sigma2, bound)
    assert isinstance(law, noise_laws.TwoSidedGeometric)
    return noise_laws.TruncatedGeometric(law.epsilon, bound)


@lru_cache(maxsize=4096)
def _smallest_bound(law: noise_laws.NoiseDistribution, edge: Fraction, beyond: Fraction) -> int:
    """The smallest bound whose edge has at most one probability, and which noise without it passes with another."""

    def fits(bound: int) -> bool:
        return noise_laws.outside_mass(_truncated(law, bound)) <= edge and noise_laws.beyond_mass(law, bound) <= beyond

    return smallest_bound(fits, f"a share of {float(edge):.3g} of delta for one count")


def _numbers(loss: confide_privacy.PrivacyLoss) -> str:
    return ", ".join(f"{name} {float(value):.6g}" for name, value in loss.parameters().items())


def draft_tables(product: str | None, values: Mapping[str, str]) -> Draft:
    """The spec that ``confide new tables`` writes."""
    no_product("tables", product)
    named = {"name": "my-release", "title": "My release", "budget": "1"} | dict(values)
    return Draft(render("tables.toml.j2", **named, ledger=LEDGER, file=SPEC), Fraction(named["budget"]))


def draft_tables_from(office: OfficeFiles, folder: Path, values: Mapping[str, str]) -> Draft:
    """The same for an office's own files."""
    text = render("own_tables.toml.j2", **office_values(office, folder, "tables", values))
    return Draft(text, Fraction(BUDGET), files=office_files(office), secret=True)


PART_CELLS = 1 << 19
"""About how many counts one group of units has: small enough to spread over processes, large enough not to matter."""

MOST_CELLS = 10_000_000
"""More cells in one area than this are a mistake: somebody crossed what should not be crossed."""

NOISE_MARGIN, VARIANCE = "noise_margin", "variance"


@dataclass(frozen=True, eq=False)
class MeasuredTable:
    """One table of the programme: what is measured, where, and with which part of the budget."""

    name: str
    title: str
    query: Query
    margins: tuple[Query, ...]
    levels: tuple[Geolevel, ...]
    weight: Fraction
    named: bool = False
    """Whether areas have names."""

    @cached_property
    def layout(self) -> tabular.Table:
        """How its rows are laid out."""
        levels = tuple(level.name for level in self.levels)
        return tabular.QueryTable(self.name, self.title, self.query, self.margins, levels, self.named).layout

    @property
    def rows_per_unit(self) -> int:
        """How many counts a geounit has in this table, margins included."""
        return sum(margin.cells for margin in self.margins)

    @property
    def units_per_part(self) -> int:
        """How many units are measured in one group."""
        return max(1, PART_CELLS // self.rows_per_unit)

    def parts(self, level: Geolevel) -> range:
        """The groups of units of a level, each by its first unit."""
        return range(0, level.units, self.units_per_part)


@dataclass(frozen=True)
class TablesProblem(tabular.TabularProblem):
    """Everything the release depends on but the records themselves."""

    spec: TablesSpec
    schema: Schema
    frame: Frame
    records: Source
    tables: tuple[MeasuredTable, ...]

    def query_key(self, table: MeasuredTable, margin: Query) -> str:
        """The name of a measurement. Pooled, the tables that contain a cross-classification share it, and so the key,
        the noise and the value; independent, each table has its own."""
        shared = self.spec.programme.repeated == "pooled"
        return query_name([variable.name for variable in margin.variables], "" if shared else table.name)


def build_table(part: TablePart, schema: Schema, *, spec: TablesSpec, spine: Spine | None) -> MeasuredTable | None:
    """A table of a spec; without a spine nothing, where it could be. Raises where it cannot."""
    query = _query(part, schema)
    return None if spine is None else _build(part, query, spine, spec)


def _query(part: TablePart, schema: Schema) -> Query:
    query = schema.ordered_query(part.variables)
    incomplete = [variable.name for variable in query.variables if (variable.assignment < 0).any()]
    if incomplete:
        raise ConfideError("incomplete-recode/add-group-rest", name=incomplete[0])
    tabular.check_column_names(
        (variable.attribute for variable in query.variables), (tabular.LEVEL, tabular.AREA, tabular.COUNT, NOISE_MARGIN)
    )
    return query


def _build(part: TablePart, query: Query, spine: Spine, spec: TablesSpec) -> MeasuredTable:
    margins = tuple(sorted(query.margins(), key=lambda margin: len(margin.variables)))
    rows = sum(margin.cells for margin in margins)
    if rows > MOST_CELLS:
        raise tabular.too_large(rows, MOST_CELLS, area=True, margins=True)
    table = MeasuredTable(
        part.name,
        part.title or part.name,
        query,
        margins if part.margins == "all" else (query,),
        tuple(spine.level(name) for name in part.levels),
        part.weight,
        spec.geography.has_names,
    )
    tabular.check_published(table.layout, (tabular.COUNT, NOISE_MARGIN, VARIANCE), spec.output.formats, spine)
    return table


def plan_programme(programme: TablesProblem) -> Plan:
    """The measurements of a programme and their cost."""
    spec = programme.spec
    shares: dict[tuple[str, str], Fraction] = {}
    asked: dict[tuple[str, str], tuple[Geolevel, Query]] = {}
    for table in programme.tables:
        of_table = table.weight / sum(other.weight for other in programme.tables)
        weights = [level_weight(spec, table.name, level.name) for level in table.levels]
        for level, weight in zip(table.levels, weights, strict=True):
            of_level = of_table * weight / sum(weights)
            for margin in table.margins:
                key = (level.name, programme.query_key(table, margin))
                shares[key] = shares.get(key, Fraction(0)) + of_level / len(table.margins)
                # One measurement for two tables only if it is the same cross-classification, group by group.
                assert asked.setdefault(key, (level, margin))[1].variables == margin.variables, key
    choice = NoiseChoice(spec.privacy, spec.noise, spec.output.noise_margin, shares.values())
    measures = []
    for (name, query), share in shares.items():
        level, margin = asked[name, query]
        attributes = tuple(variable.attribute.name for variable in margin.variables)
        law = choice.law(share)
        measures.append(
            PlannedMeasurement(name, query, level.units, margin.cells, law, choice.loss(share, law), attributes)
        )
    spine = tuple(level.name for level in programme.spine.levels)
    neighbours, definition = choice.neighbours, choice.definition
    question, free = _question(programme), ("noise_margin", "area_names", "companions")
    unit = confide_privacy.PrivacyUnit(spec.privacy.unit)
    plan = Plan(
        "tables", neighbours, definition, tuple(measures), spine, question, delta=choice.delta, unit=unit, free=free
    )
    choice.check(plan.loss)
    return plan


def level_weight(spec: TablesSpec, table: str, level: str) -> Fraction:
    """A level's part of a table's budget: as the table says, else as the programme does, else one."""
    own = next(part.level_weights for part in spec.tables if part.name == table)
    return own.get(level) or spec.programme.level_weights.get(level, Fraction(1))


def _question(programme: TablesProblem) -> dict[str, object]:
    """What decides the output apart from the measurements: all of it public."""
    data, output = programme.spec.data, programme.spec.output
    question: dict[str, object] = {
        "schema": {"id": programme.schema.id, "sha256": programme.schema.fingerprint},
        "frame": programme.frame.fingerprint,
        "layout": {
            "block": programme.spec.geography.block,
            "columns": data.columns,
            "block_columns": data.block_columns,
            "delimiter": data.delimiter,
        },
        "levels": {level.name: level.units for level in programme.published_levels},
        "attributes": {attribute.name: attribute.title for attribute in programme.attributes},
        "tables": [
            table.layout.as_dict({margin.name: programme.query_key(table, margin) for margin in table.margins})
            for table in programme.tables
        ],
        "noise_margin": None if output.noise_margin is None else str(output.noise_margin),
    }
    return (
        question
        | reading_facts(programme.schema, programme.records, programme.spec.geography.block)
        | programme.explained
    )


# Rows of a release: every count with its noise margin and its variance.
class NoisyTable:
    """The columns of one table: geography, variables, count, noise margin, variance.

    Every area has the same rows in the same order, margins first: the labels of one area are made once and repeated.
    """

    def __init__(self, programme: TablesProblem, plan: Plan, table: MeasuredTable):
        self._table = table
        self._places = [places.astype(np.int32) for places in table.layout.unit_places]
        self.figures = figure_columns(programme.spec.output.noise_margin)
        laws = {
            (level.name, margin.name): plan.measure(level.name, programme.query_key(table, query)).law
            for level in table.levels
            for margin, query in zip(table.layout.margins, table.margins, strict=True)
        }
        self._beside = {
            level.name: figures_beside(table.layout, level.name, laws, programme.spec.output.noise_margin)
            for level in table.levels
        }
        self.schema = tabular.plain_schema(table.layout, *self.figures)

    def batch(self, level: Geolevel, first: int, counts: np.ndarray[Any, Any]) -> pa.RecordBatch:
        """The rows of the units from ``first`` on."""
        layout, rows = self._table.layout, self._table.rows_per_unit
        units = len(counts) // rows
        columns = [
            pa.DictionaryArray.from_arrays(np.zeros(len(counts), np.int32), pa.array([level.name])),
            pa.DictionaryArray.from_arrays(
                np.repeat(np.arange(units, dtype=np.int32), rows), pa.array(level.codes[first : first + units])
            ),
            *(
                pa.DictionaryArray.from_arrays(np.tile(places, units), pa.array(layout.label_texts(variable)))
                for variable, places in zip(layout.variables, self._places, strict=True)
            ),
            pa.array(counts, pa.int64()),
        ]
        beside = self._beside[level.name]
        columns += [pa.array(np.tile(beside[field.name], units)) for field in self.figures[1:]]
        plain = [column.cast(self.schema.field(i).type) for i, column in enumerate(columns)]
        return pa.RecordBatch.from_arrays(plain, schema=self.schema)


def figure_columns(probability: Fraction | str | None) -> tuple[pa.Field, ...]:
    """The columns of figures; ``probability`` is that of the noise margin, if there is one."""
    figures = [tabular.figure_column(tabular.COUNT, "count with noise; may be negative")]
    if probability is not None:
        words = f"the noise is at most this far from zero with probability {probability}"
        figures.append(tabular.figure_column(NOISE_MARGIN, words))
    words = "the variance of the noise; of a sum of counts that were measured one by one, the sum of theirs"
    return (*figures, tabular.figure_column(VARIANCE, words, pa.float64()))


def figures_beside(
    table: tabular.Table,
    level: str,
    laws: Mapping[tuple[str, str], noise_laws.ReleaseNoise],
    probability: Fraction | str | None,
) -> dict[str, np.ndarray[Any, Any]]:
    """What is beside the counts of an area: for each of its rows the noise margin and the variance of its law."""
    cells = [margin.cells for margin in table.margins]
    of_margin = [laws[level, margin.name] for margin in table.margins]
    beside = {VARIANCE: np.repeat([law.variance() for law in of_margin], cells)}
    if probability is not None:
        beside[NOISE_MARGIN] = np.repeat(
            np.array([law.noise_margin(probability) for law in of_margin], np.int64), cells
        )
    return beside


# Released tables, read again from their files a run of rows at a time, whatever their size.


WHOLE_NUMBERS = (tabular.COUNT, NOISE_MARGIN)
_BATCH_BYTES = 1 << 24
_BATCH_ROWS = 1 << 17


class NoisyRows:
    """The rows of a released table in order, with labels. Text columns come as text, counts as 64-bit integers."""

    def __init__(self, path: Path, table: tabular.Table, format_: str, probability: str | None):
        columns = table.coded
        batches: Iterator[pa.Table]
        if format_ == tabular.SDMX:
            types = {field.name: field.type for field in figure_columns(probability)}
            rows = tabular.read_observations(path, table.name, columns, types)
            self.names, batches = rows.column_names, iter([rows])
        else:
            names, coded = _open(path)
            unnamed = [name for name in columns.names if name not in names]
            if unnamed:
                raise tabular.UnlikePlanError(f"the column {unnamed[0]} is missing")
            if names[: len(columns.names)] != list(columns.names):
                raise tabular.UnlikePlanError("the columns are in another order")
            self.names, batches = [*columns.keys, *names[len(columns.names) :]], map(columns.labelled, coded)
        self._rows = tabular.RowsInOrder(batches, pa.table({name: [] for name in self.names}))

    def take(self, rows: int) -> pa.Table:
        """The next ``rows`` rows, or as many as are left."""
        return self._rows.take(rows)


def _open(path: Path) -> tuple[list[str], Iterator[pa.Table]]:
    if path.suffix == ".parquet":
        file = pq.ParquetFile(path)
        plain = pa.schema([pa.field(field.name, field.type) for field in file.schema_arrow])
        return plain.names, (pa.table(batch).cast(plain) for batch in file.iter_batches(_BATCH_ROWS))
    return _open_csv(path)


def _open_csv(path: Path) -> tuple[list[str], Iterator[pa.Table]]:
    header: list[str] = pyarrow.csv.open_csv(path).schema.names
    figures = dict.fromkeys(WHOLE_NUMBERS, pa.int64()) | {VARIANCE: pa.float64()}
    types: dict[str, Any] = {name: figures.get(name, pa.string()) for name in header}
    reader = pyarrow.csv.open_csv(
        path,
        read_options=pyarrow.csv.ReadOptions(block_size=_BATCH_BYTES),
        convert_options=pyarrow.csv.ConvertOptions(column_types=types, strings_can_be_null=False),
    )
    return header, (pa.table(batch) for batch in reader)
