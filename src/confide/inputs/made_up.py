"""Made-up records: drawn from schema and frame, and from public margins where there are any. No record is looked at.

Whoever nothing is known of is drawn uniformly: a block in proportion to its size, every code of an attribute alike. A
margin, counts by some attributes or areas, decides the cell of each record that it speaks of; within the cell it is
uniform again. The generator is seeded: it makes up people, and protects nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from confide.arrays import Floats, Integers
from confide.engines import Engine, Source, identifier
from confide.errors import ConfideError, InputError
from confide.geography import Spine
from confide.inputs.frame import read_counts
from confide.schema import Attribute, Recode, identity

SIZE_COLUMNS = ("persons", "population", "inhabitants", "size", "households", "dwellings", "housing_units", "units")
"""Columns of a block table that say how large a block is; the first that is there is taken."""


@dataclass(frozen=True, eq=False)
class MeasuredCells:
    """A query that is measured in every unit of a level."""

    unit: Integers
    """Of each block the number of its unit; -1 where it is in none that is measured."""
    variables: tuple[Recode, ...]

    @property
    def cells(self) -> int:
        """How many counts a unit has."""
        return prod(len(variable.groups) for variable in self.variables)

    @property
    def units(self) -> int:
        """How many units are measured."""
        return len(np.unique(self.unit[self.unit >= 0]))


@dataclass(frozen=True, eq=False)
class RecordForm:
    """What a record is made of, from schema and frame alone: where it may lie, and which codes it may have."""

    attributes: tuple[Attribute, ...]
    variables: Mapping[str, Recode] = field(default_factory=dict)
    """What a margin may be given by apart from the attributes themselves: recodes of them."""
    block: str | None = None
    """The column of the block; none where records have no place."""
    blocks: Sequence[str] = ()
    areas: Mapping[str, tuple[Sequence[str], Integers]] = field(default_factory=dict)
    """For each level and kind of area its codes, and of each block the number of its unit (-1: in none)."""
    sizes: Floats | None = None
    """How large each block is; none: all alike."""
    fixed_number: int | None = None
    """How many records there are, where the frame says so."""
    measured: Sequence[MeasuredCells] = ()
    """What the plan measures, as far as canaries can be placed by it; empty: every cell of every block."""

    @classmethod
    def on_spine(
        cls, attributes: Sequence[Attribute], variables: Mapping[str, Recode], block: str, spine: Spine
    ) -> RecordForm:
        """Records that lie in the blocks of a spine."""
        # Partitions are in the order of the block table, codes of blocks in that of their units.
        order = spine.blocks.unit_of_block.argsort()
        areas = {level.name: (level.codes, level.unit_of_block[order]) for level in (*spine.levels, *spine.areas)}
        return cls(tuple(attributes), variables, block, spine.blocks.codes, areas)

    @property
    def recodes(self) -> dict[str, Recode]:
        """Every variable of a record, by name."""
        return {attribute.name: identity(attribute) for attribute in self.attributes} | {
            name: recode
            for name, recode in self.variables.items()
            if recode.attribute.name in {attribute.name for attribute in self.attributes}
        }

    def sized(self, sizes: Mapping[str, int]) -> RecordForm:
        """The same with the size of each block, by its code."""
        return replace(self, sizes=np.array([sizes.get(code, 0) for code in self.blocks], np.float64))


@dataclass(frozen=True, eq=False)
class PublicMargin:
    """Public counts by some attributes or areas: for each row where its records may lie, and which levels they have."""

    file: str
    counts: Integers
    blocks: Sequence[Integers] | None
    """For each row the blocks; none where the margin speaks of no area."""
    levels: Mapping[str, Sequence[Integers]]
    """For each attribute that it speaks of, and each row, the levels."""


@dataclass(eq=False)
class MadeUpPeople:
    """Made-up records in whole numbers: of each the block, and of each attribute the level. Mechanisms mend them where
    constraints ask for it, and add columns of their own."""

    form: RecordForm
    number: int
    block: Integers | None
    levels: dict[str, Integers]
    random: np.random.Generator
    from_margins: frozenset[str] = frozenset()
    """The attributes that a margin speaks of."""

    def table(self, theirs: Callable[[str], str]) -> pa.Table:
        """The records in the codes of the schema, under the names that the file of an office has."""
        columns: dict[str, pa.Array] = {}
        if self.form.block is not None and self.block is not None:
            columns[theirs(self.form.block)] = pa.array(self.form.blocks, pa.string()).take(pa.array(self.block))
        for attribute in self.form.attributes:
            codes = pa.array([level.code for level in attribute.levels])
            columns[theirs(attribute.name)] = codes.take(pa.array(self.levels[attribute.name]))
        # Where nothing of a record is asked for, there are as many all the same.
        return pa.table(columns or {"record": np.arange(self.number)})


def draw(form: RecordForm, number: int, margins: Sequence[PublicMargin], random: np.random.Generator) -> MadeUpPeople:
    """Made-up records.

    Args:
        form: What a record is made of.
        number: How many.
        margins: Public counts. No two of them speak of the same attribute, or both of areas.
        random: A seeded generator.

    Returns:
        The records, in whole numbers.

    >>> from confide.schema import Level
    >>> sex = Attribute("sex", "Sex", (Level(1, "male"), Level(2, "female")))
    >>> people = draw(RecordForm((sex,)), 3, (), np.random.default_rng(7))
    >>> people.table(str).column("sex").to_pylist()
    [2, 2, 2]
    """
    block: Integers | None = None
    levels: dict[str, Integers] = {}
    for margin in margins:
        share = margin.counts / margin.counts.sum()
        row = random.choice(len(share), number, p=share)
        order = np.argsort(row, kind="stable")
        ends = np.cumsum(np.bincount(row, minlength=len(share)))
        chosen = [order[end - size : end] for end, size in zip(ends, np.diff(ends, prepend=0), strict=True)]
        if margin.blocks is not None:
            block = np.zeros(number, np.int64)
            for people, blocks in zip(chosen, margin.blocks, strict=True):
                block[people] = _by_size(blocks, form.sizes, len(people), random)
        for name, allowed in margin.levels.items():
            levels[name] = np.zeros(number, np.int64)
            for people, of_row in zip(chosen, allowed, strict=True):
                levels[name][people] = random.choice(of_row, len(people))
    from_margins = frozenset(levels)
    if block is None and form.block is not None:
        block = _by_size(np.arange(len(form.blocks)), form.sizes, number, random)
    for attribute in form.attributes:
        if attribute.name not in levels:
            levels[attribute.name] = random.integers(attribute.size, size=number)
    return MadeUpPeople(form, number, block, levels, random, from_margins)


def _by_size(blocks: Integers, sizes: Floats | None, number: int, random: np.random.Generator) -> Integers:
    weights = None if sizes is None else sizes[blocks]
    if weights is None or not weights.sum():
        return np.asarray(random.choice(blocks, number))
    return np.asarray(random.choice(blocks, number, p=weights / weights.sum()))


def block_sizes(engine: Engine, blocks: Source, form: RecordForm, column: str | None) -> tuple[str, dict[str, int]]:
    """How large every block is, by a column of the block table.

    Args:
        engine: What reads the table, which is public knowledge.
        blocks: The block table.
        form: What a record is made of.
        column: The column, under the name that the table gives it; none: the first of :data:`SIZE_COLUMNS`.

    Returns:
        The column that was taken, none where there is none, and the size of each block by its code.

    Raises:
        InputError: Where the column is not there, or has other values than counts.
    """
    kinds = engine.kinds(blocks)
    named = column or next((name for name in SIZE_COLUMNS if name in kinds), "")
    if not named or form.block is None or blocks.theirs(form.block) not in kinds:
        return "", {}
    # By its own name: what the spec calls otherwise has nothing to do with it.
    plain = replace(blocks, columns={})
    try:
        counts = read_counts(engine, plain, [named])[named]
    except InputError:
        if column is not None:
            raise
        return "", {}  # nobody asked for it: a column of another kind that has the name of a size
    text = f"SELECT CAST({identifier(blocks.theirs(form.block))} AS VARCHAR) AS code FROM blocks"
    codes = engine.sql(text, blocks=plain).reveal("the block table is public knowledge").column("code").to_pylist()
    return named, dict(zip(codes, counts.tolist(), strict=True))


NOBODY = "nobody.parquet"


def nobody(folder: Path) -> Path:
    """A file without records, for a problem that is prepared before any are made up."""
    file = folder / NOBODY
    pq.write_table(pa.table({"nobody": pa.array([], pa.int64())}), file)
    return file


@contextmanager
def of_nobody() -> Iterator[None]:
    """Leaves out what is wrong with the file without records, which is nobody's mistake, where more is wrong."""
    try:
        yield
    except ConfideError as error:
        others = [finding for finding in error.findings if finding.where.file != NOBODY]
        if others and len(others) < len(error.findings):
            raise type(error)(others) from None
        raise
