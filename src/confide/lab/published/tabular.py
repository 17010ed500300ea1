"""Releases of ``tables``, ``cellkey``, ``swapping`` and ``topdown`` read back, so that an attack can fit them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from confide.errors import ConfideError
from confide.lab.published import rows
from confide.lab.published.marginals import (
    NoiseBound,
    Published,
    PublishedMarginal,
    one_unit,
)
from confide.lab.published.rows import PublishedRows, marginals_of
from confide.mechanisms.cellkey.programme import describe
from confide.noise import ReleaseNoise
from confide.noise.ptables import count_settings, generate
from confide.releases.figure_noise import AdditiveLaw, FigureLaw, PTableLaw
from confide.releases.tabular import Table

# A release of ``tables`` read back: counts with independent noise, with the variance that the plan states.


def read_tables(asked: rows.ReadBack) -> Published:
    """The tables of a release."""
    facts, plan = asked.release.facts, asked.release.plan
    attributes = asked.schema(facts["schema"])
    laws = {(measure.level, measure.query): measure.law for measure in plan.measures}
    layouts = [Table.read(values) for values in facts["tables"]]
    # A count with noise can be below zero; the variance of each follows from its law.
    said = [(each, PublishedRows(each.name, each.queries, Fraction(1), file=each.name)) for each in layouts]
    tables = rows.AreaTables.read(asked, said, plan.spine)
    measured = {values["name"]: list(Table.measurements(values).values()) for values in facts["tables"]}
    marginals: dict[tuple[str, str], PublishedMarginal] = {}
    for table, level, of_queries in tables.marginals(attributes):
        for marginal, query in zip(of_queries, measured[table.name], strict=True):
            if (level, query) not in marginals:  # one measurement, shown in several tables
                marginals[level, query] = _with_noise(marginal, laws[level, query])
    largest = max((law.bound for law in laws.values() if law.bound is not None), default=None)
    bounded = () if largest is None else (rows.BOUNDED.format(largest),)
    notes = (rows.NOISE, *bounded, *tables.notes)
    return asked.published(attributes, tables.geography, marginals.values(), *notes)


def _with_noise(marginal: PublishedMarginal, law: ReleaseNoise) -> PublishedMarginal:
    """A marginal with the law of its noise, its variance, and how far it can go."""
    bound = None if law.bound is None else NoiseBound(law.bound)
    variance = Fraction(law.variance()).limit_denominator(10**9)
    return replace(marginal, variance=variance, bound=bound, law=AdditiveLaw(law))


# A release of ``cellkey`` read back: counts with noise of their members, within a bound that the manifest states.


ZEROS = "Nobody stays nobody: where a count is above zero, the records have somebody."


def read_cellkey(asked: rows.ReadBack) -> Published:
    """Tables for all records or by area, each cell with its own noise; what is not listed is published as zero."""
    question = asked.release.facts
    described = describe(question)
    if described.magnitude is not None or described.given:
        raise rows.not_attacked("values" if described.magnitude is not None else "cells without a schema")
    attributes = asked.schema(question["schema"])
    bound = NoiseBound(int(Fraction(question["ptable"]["D"])), zeros_kept=True)
    variance, law = _law(question["ptable"], bound)
    unknown = bool(question["threshold"])
    marginals: dict[tuple[str | None, str], PublishedMarginal] = {}

    def add(level: str | None, rows_of: PublishedRows, of_table: Sequence[PublishedMarginal]) -> None:
        for marginal, name in zip(of_table, rows_of.queries, strict=True):
            # The same people have the same noise in every table.
            marginals.setdefault((level, _set_name(name)), replace(marginal, law=law))

    said = [
        (table, PublishedRows(table.name, table.queries[::-1], variance, bound, unknown, table.name))
        for table in described.tables
    ]
    spatial = [each for each in said if each[0].levels]
    geography = one_unit()
    left_out: tuple[str, ...] = ()
    if spatial:
        by_area = rows.AreaTables.read(asked, spatial, question["spine"])
        geography, left_out = by_area.geography, by_area.notes
        for rows_of, level, of_level in by_area.marginals(attributes):
            add(level, rows_of, of_level)
    for table, rows_of in said:
        if spatial and not table.levels:
            left_out = (*left_out, f"The table {table.name} has no areas, and is left out.")
        elif not table.levels:
            add(None, rows_of, marginals_of(rows_of, asked.rows(table), attributes, geography, 0, None))
    notes = (rows.NOISE, rows.BOUNDED.format(bound.largest), ZEROS, *left_out)
    return asked.published(attributes, geography, marginals.values(), *notes)


def _set_name(query: str) -> str:
    return "*".join(sorted(query.split("*")))


def _law(said: Mapping[str, Any], bound: NoiseBound) -> tuple[Fraction, FigureLaw | None]:
    """The variance of the noise, and the table that the stated parameters give.

    A table that was read from a file is not in the manifest: without its variance, half of the bound stands for the
    standard deviation, and nothing else is taken to be known.
    """
    if said["V"] is None:
        return Fraction(bound.largest**2, 4), None
    variance = Fraction(str(said["V"]))
    try:
        design = generate(count_settings(bound.largest, variance, int(said["js"]), pstay=said.get("pstay")))
    except ConfideError:
        return variance, None
    return variance, PTableLaw(design.table())


# A release of ``swapping`` read back: tables of swapped records, exact as such, or the swapped records themselves.


def read_swapping(asked: rows.ReadBack) -> Published:
    """The records of a release that has them, otherwise its tables."""
    facts = asked.release.facts
    attributes = asked.schema(facts["schema"])
    records = asked.release.table(*rows.RECORDS)
    if records is not None:
        return asked.records(records, attributes)
    layouts = [Table.read(values) for values in facts["tables"]]
    said = [(each, PublishedRows(each.name, each.queries, file=each.name)) for each in layouts]
    tables = rows.AreaTables.read(asked, said, asked.release.plan.spine)
    marginals = (marginal for _, _, of_queries in tables.marginals(attributes) for marginal in of_queries)
    return asked.published(attributes, tables.geography, marginals, rows.PROTECTED, *tables.notes)


# The same read back, for attacks and comparison: its protected records, if it has them. There is nothing to
# reconstruct, and the result says so: a solution variability of zero says nothing about the true records.


def read_records(asked: rows.ReadBack) -> Published:
    """The records of a release, which itself says what lies in what; ``postprocess`` writes the same files."""
    release = asked.release
    records = release.table(*rows.RECORDS)
    if records is None:
        raise rows.not_attacked(release.manifest["mechanism"])
    named = release.facts.get("schema") or release.facts.get("strategy", {}).get("schema")
    return asked.records(records, asked.schema(named))
