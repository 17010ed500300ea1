"""Made-up populations: from a number of persons and a seed to a frame and records, unit by unit.

A population is a pure function of (persons, seed, settings, generator version). It is made in units of work, runs of
tracts of one county with random streams of their own, so that memory stays that of one unit and any order of work gives
the same people.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

import pyarrow as pa

from confide.errors import Finding, ParameterError
from confide.population.draw import GENERATOR
from confide.population.frame import BLOCKS_SCHEMA, UnitFrame, block_batch, make_frame
from confide.population.group_quarters import own_blocks
from confide.population.households import HouseholdKinds
from confide.population.landscape import Unit, make_land
from confide.population.neighbourhoods import County, make_county
from confide.population.records import RecordMaker
from confide.population.settings import Settings, load_settings

FEWEST, MOST = 100, 400_000_000
LARGEST_SEED = 2**64 - 1


class Population:
    """A made-up population of exactly ``persons`` persons.

    >>> people = Population(persons=10_000, seed=7)
    >>> sum(batch.num_rows for batch in people.person_batches())
    10000
    """

    def __init__(self, persons: int, seed: int, settings: str | Path | Settings = "default"):
        _check(persons, seed)
        self.persons = persons
        self.seed = seed
        self.settings = settings if isinstance(settings, Settings) else load_settings(settings)
        self._land = make_land(persons, seed, self.settings)
        self.units: tuple[Unit, ...] = tuple(self._land.units())
        self._kinds = HouseholdKinds(self.settings)
        self._own_blocks = own_blocks(self.settings)
        self._records = RecordMaker(self.settings)
        self._county = lru_cache(maxsize=1)(self._make_county)  # units of one county follow each other

    def __repr__(self) -> str:
        return f"Population(persons={self.persons}, seed={self.seed}, settings={self.settings.id!r})"

    @property
    def identity(self) -> dict[str, str | int]:
        """What decides every byte of the files: persons, seed, settings and the version of the generator."""
        return {
            "made_up": "nothing here comes from a real person or place",
            "persons": self.persons,
            "seed": self.seed,
            "settings": self.settings.id,
            "settings_sha256": sha256(self.settings.model_dump_json().encode()).hexdigest(),
            "generator": GENERATOR,
        }

    def metadata(self) -> dict[str, str]:
        """:attr:`identity` as the metadata of a file."""
        return {"confide.population": json.dumps(self.identity, sort_keys=True)}

    def blocks(self) -> pa.Table:
        """The whole frame, in the order of the geocodes. For very large populations use :meth:`block_batches`."""
        return pa.Table.from_batches(self.block_batches(), schema=BLOCKS_SCHEMA)

    def block_batches(self) -> Iterator[pa.RecordBatch]:
        """The frame unit by unit, in the order of the geocodes, without making the persons."""
        return (block_batch(self._frame(unit)) for unit in self.units)

    def person_batches(self) -> Iterator[pa.RecordBatch]:
        """The records unit by unit, in the order of the geocodes."""
        return (self.unit(unit)[1] for unit in self.units)

    def unit(self, unit: Unit) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """Frame and records of one unit of work: the same whichever units were made before, and wherever."""
        frame = self._frame(unit)
        blocks = block_batch(frame)
        mixture = self._land.mixture[self._land.kind[unit.county]]
        return blocks, self._records.batch(unit, frame, blocks.column("geocode"), mixture, self.seed)

    def county(self, index: int) -> County:
        """The county with this index, with its neighbourhoods."""
        return self._county(index)

    def _make_county(self, index: int) -> County:
        return make_county(self._land, index, self.seed, self.settings)

    def _frame(self, unit: Unit) -> UnitFrame:
        county = self._county(unit.county)
        return make_frame(unit, self._land, county, self.seed, self.settings, self._kinds, self._own_blocks)


def _whole(value: object, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _check(persons: int, seed: int) -> None:
    findings = []
    if not _whole(persons, FEWEST, MOST):
        findings.append(
            Finding(
                code="persons-out-of-range",
                what="this number of made-up persons cannot be made",
                found=repr(persons),
                expected=f"a whole number from {FEWEST:,} to {MOST:,}",
                remedy="choose a number in that range",
            )
        )
    if not _whole(seed, 0, LARGEST_SEED):
        findings.append(
            Finding(
                code="seed-out-of-range",
                what="the seed of the made-up people is not one",
                found=repr(seed),
                expected="a whole number from 0 to 2^64 - 1",
                remedy="give such a number; the same seed gives the same people",
            )
        )
    if findings:
        raise ParameterError(findings)
