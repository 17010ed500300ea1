"""What an attack found: records with their confidence, and the solution variability of every block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from confide.answers import AnswerPart, Said, ShownTable, Tone, TypedAnswer
from confide.arrays import Floats, Integers
from confide.file_system import PRIVATE_FILE
from confide.inputs.table_files import write_file
from confide.lab.attacks.reconstruction.integer_program import Flags
from confide.lab.attacks.reconstruction.space import Axis, Space
from confide.lab.attacks.reconstruction.unit import Attack, UnitSolution, Variability
from confide.lab.published.marginals import Published

SIZES = ((1, 9), (10, 49), (50, 99), (100, 249), (250, 499), (500, 999), (1000, None))
"""The classes of block sizes of Abowd and Hawes (2023), Table 1."""


CONFIDENT = 0.9
"""From this confidence on a record is counted as a confident one."""


def size_name(size: tuple[int, int | None]) -> str:
    """``10-49``, ``1000+``."""
    return f"{size[0]}+" if size[1] is None else f"{size[0]}-{size[1]}"


@dataclass(frozen=True, eq=False)
class Reconstruction(TypedAnswer):
    """Records, one entry for each person, and what is known of every block with people."""

    published: Published = field(repr=False)
    level: str
    space: Space = field(repr=False)
    block_space: Space = field(repr=False)
    block: Integers = field(repr=False)
    cell: Integers = field(repr=False)
    confidence: Floats = field(repr=False)
    certain: Flags = field(repr=False)
    guessed: Integers = field(repr=False)
    """For each person the attributes that no figure tells, as bits: 1 for the first axis of the space, and so on."""
    variability: dict[int, Variability | None] = field(repr=False)
    exact: bool
    deviation: float
    unsolved: int
    """Units for which the time was up before a solution was found."""
    seconds: float
    records_file: Path | None = None
    """Where the records were written, if they were."""
    repeats: int = 0
    """How many programmes with random objectives there were."""

    @classmethod
    def gather(cls, attack: Attack, results: Sequence[UnitSolution], seconds: float) -> Reconstruction:
        """The results of all units, records in the order of blocks and cells."""
        nothing: Any = np.zeros(0, np.int64)
        block = np.concatenate([nothing, *(item.block for item in results)])
        cell = np.concatenate([nothing, *(item.cell for item in results)])
        confidence = np.concatenate([np.zeros(0), *(item.confidence for item in results)])
        certain = np.concatenate([np.zeros(0, bool), *(item.certain for item in results)])
        guessed = np.concatenate([nothing, *(item.guessed for item in results)])
        order = np.lexsort((cell, block))
        variability = {number: value for item in results for number, value in item.variability.items()}
        return cls(
            attack.published,
            attack.published.geography.levels[attack.settings.depth],
            attack.plan.space,
            attack.block_plan.space,
            block[order],
            cell[order],
            confidence[order],
            certain[order],
            guessed[order],
            dict(sorted(variability.items())),
            attack.published.exact,
            sum(item.deviation for item in results),
            sum(not item.solved for item in results),
            seconds,
            repeats=attack.settings.repeats,
        )

    @property
    def persons(self) -> int:
        """How many records there are."""
        return len(self.block)

    @property
    def people(self) -> dict[int, int]:
        """For each block with people, how many."""
        blocks, counts = np.unique(self.block, return_counts=True)
        return dict(zip(blocks.tolist(), counts.tolist(), strict=True))

    @property
    def mean(self) -> float | None:
        """The mean solution variability, weighted by people; an upper bound where a block's is one."""
        if not self.variability or any(item is None for item in self.variability.values()):
            return None
        people = self.people
        weighted = sum(people[block] * item.at_most for block, item in self.variability.items() if item is not None)
        return weighted / max(1, self.persons)

    @property
    def expected_matches(self) -> float | None:
        """How many records are expected to be true, by their confidence; None where figures are exact."""
        return None if self.exact else float(np.nansum(self.confidence))

    def by_size(self) -> list[dict[str, Any]]:
        """For each class of block sizes: blocks, people, and how many of both have one solution alone."""
        people = self.people
        rows = []
        for size in SIZES:
            blocks = [b for b, n in people.items() if size[0] <= n and (size[1] is None or n <= size[1])]
            unique = [b for b in blocks if (item := self.variability.get(b)) is not None and item.unique]
            persons = sum(people[block] for block in blocks)
            in_unique = sum(people[block] for block in unique)
            rows.append(
                {
                    "size": size_name(size),
                    "blocks": len(blocks),
                    "persons": persons,
                    "blocks_at_0": len(unique),
                    "persons_at_0": in_unique,
                    "share_of_blocks_at_0": len(unique) / len(blocks) if blocks and self.exact else None,
                    "share_of_persons_at_0": in_unique / persons if persons and self.exact else None,
                }
            )
        return rows

    def as_dict(self) -> dict[str, Any]:
        """The result in plain numbers, without records: what ``confide attack reconstruct --json`` prints."""
        codes = self.published.geography.blocks
        sizes = self.by_size()
        unique = [item for item in self.variability.values() if item is not None and item.unique]
        bounds = {codes[b]: [v.at_least, v.at_most] for b, v in self.variability.items() if v and v.status != "proven"}
        has_variability = self.mean is not None
        return {
            "ok": True,
            "out": None if self.records_file is None else str(self.records_file),
            "source": self.published.source,
            "tables": list(self.published.tables),
            "level": self.level,
            "exact": self.exact,
            "blocks": len(self.people),
            "empty_blocks": len(codes) - len(self.people),
            "persons": self.persons,
            "unsolved": self.unsolved,
            "deviation": None if self.exact else self.deviation,
            "solution_variability": {
                codes[block]: None if item is None else item.at_most for block, item in self.variability.items()
            },
            "bounds": bounds,
            "mean_solution_variability": self.mean,
            "share_of_blocks_at_0": len(unique) / len(self.variability) if has_variability else None,
            "share_of_persons_at_0": sum(row["persons_at_0"] for row in sizes) / self.persons
            if has_variability
            else None,
            "by_size": sizes,
            "certain_persons": int(self.certain.sum()),
            "guessed_persons": int((self.guessed > 0).sum()),
            "expected_matches": self.expected_matches,
            "confident_persons": int((self.confidence >= CONFIDENT).sum()),
            "notes": list(self.published.notes),
            "seconds": self.seconds,
        }

    def records(self) -> pa.Table:
        """The records: where, what, how sure.

        An attribute whose levels tables tell apart one by one is a column with codes. One that is published in groups
        has its code where the group is a single one, the lowest and highest code of the group, and the label of the
        group that block tables show (``age``, ``age_low``, ``age_high``, ``age_bin``). ``guessed`` names attributes
        that no figure tells: another value would do as well.
        """
        block = pa.array(self.block)
        columns: dict[str, pa.Array] = {
            name: pa.array(values, pa.string()).take(block) for name, values in self.published.geography.columns.items()
        }
        places = np.unravel_index(self.cell, self.space.shape) if self.space.axes else ()
        for axis, coarse, place in zip(self.space.axes, self.block_space.axes, places, strict=True):
            columns |= _attribute(axis, coarse, np.asarray(place))
        columns["confidence"] = pa.array(self.confidence, from_pandas=True)
        columns["certain"] = pa.array(self.certain)
        variability = {block: None if item is None else item.at_most for block, item in self.variability.items()}
        columns["guessed"] = self._guesses()
        columns["solution_variability"] = pa.array([variability.get(int(b)) for b in self.block], pa.float64())
        return pa.table(columns)

    def _guesses(self) -> pa.Array:
        """For each person the names of the attributes that are a guess, with blanks between."""
        names = [axis.attribute.name for axis in self.space.axes]
        kinds, which = np.unique(self.guessed, return_inverse=True)
        texts = [" ".join(name for bit, name in enumerate(names) if kind >> bit & 1) for kind in kinds.tolist()]
        return pa.array(texts, pa.string()).take(pa.array(which))

    def described(self) -> Iterator[AnswerPart]:
        """What was found, and how sure it is."""
        result = self.as_dict()
        tables = len(result["tables"])
        word = "table" if tables == 1 else "tables"
        yield (
            f"{self.persons:,} records in {result['blocks']:,} blocks from {tables} {word} "
            f"({self.published.source}), solved by {self.level} in {self.seconds:.1f} s."
        )
        yield from (f"  {each}" for each in self.published.notes)
        if self.unsolved:
            why = ": the time was up. --time-limit gives more."
            yield Said(f"{self.unsolved:,} units have no solution yet", why, Tone.CAREFUL, aside=True)
        guessed = result["guessed_persons"]
        if guessed:
            yield (
                f"{guessed:,} records have an attribute that no published figure tells; another value would do as well "
                "(column guessed)."
            )
        if not self.exact:
            yield (
                f"\nThe likeliest people, given the law of the noise and what is published above: "
                f"{self.deviation:,.1f} standard deviations over all figures. Others are nearly as likely, so that no "
                f"solution variability is claimed; of these records about {self.expected_matches or 0:,.0f} are "
                f"expected to be true, and {result['confident_persons']:,} have a probability of at least 90 % "
                "(column confidence)."
            )
            return
        yield "Every published figure was checked again: the records have these tables exactly.\n"
        if self.mean is None:
            yield "The number of people of a block is not published, so that no solution variability is claimed."
            return
        yield from _sizes_described(self)
        bounds = len(result["bounds"])
        if bounds:
            yield (
                f"For {bounds:,} blocks the time was up: their variability is an upper bound. --time-limit gives more."
            )
        at_most = "at most " if bounds else ""
        yield (
            f"Mean solution variability {at_most}{self.mean:.1f} %: another set of records with the same tables "
            "differs in at most that share of people."
        )
        sure = result["certain_persons"]
        yield f"At least {sure:,} of {self.persons:,} records are in every solution that the tables allow."
        if self.repeats:
            always = int((self.confidence == 1.0).sum()) - sure
            often = f"{self.repeats:,} repeats with random objectives"
            yield f"{always:,} more were in all of {often}, which proves nothing."
        if self.records_file is not None:
            yield f"Records: {self.records_file}"


def write_records(reconstruction: Reconstruction, file: str | Path) -> Path:
    """The records as a file that only its owner can read: they may be true.

    Args:
        reconstruction: The people that it is made of.
        file: A name that ends in ``.parquet`` or ``.csv``.
    """
    file = Path(file)
    write_file(reconstruction.records(), file, mode=PRIVATE_FILE)
    return file


def _attribute(axis: Axis, coarse: Axis, place: Integers) -> dict[str, pa.Array]:
    name = axis.attribute.name
    kind = pa.int64() if axis.attribute.is_integer else pa.string()
    index = pa.array(place)
    single = pa.array([codes[0] if len(codes) == 1 else None for codes in axis.codes], kind)
    columns = {name: single.take(index)}
    if max(len(codes) for codes in (*axis.codes, *coarse.codes)) == 1:
        return columns
    if axis.attribute.is_integer:
        columns[f"{name}_low"] = pa.array([min(codes) for codes in axis.codes], kind).take(index)
        columns[f"{name}_high"] = pa.array([max(codes) for codes in axis.codes], kind).take(index)
    labels = pa.array(coarse.labels, pa.string())
    columns[f"{name}_bin"] = labels.take(pa.array(axis.to(coarse)[place]))
    return columns


# The answer in sentences and tables.


def _sizes_described(answer: Reconstruction) -> Iterator[AnswerPart]:
    rows = [
        (
            row["size"],
            f"{row['blocks']:,}",
            f"{row['persons']:,}",
            f"{row['blocks_at_0']:,}",
            f"{row['share_of_blocks_at_0']:.1%}",
            f"{row['share_of_persons_at_0']:.1%}",
        )
        for row in answer.by_size()
        if row["blocks"]
    ]
    headings = ["people in block", "blocks ", "people ", "one solution ", "of blocks ", "of people "]
    yield ShownTable(headings, rows, title="Blocks with one solution alone (solution variability 0)")
