"""What made-up persons and households have in common: blocks, and codes that count in many groups. For rehearsals and
audits, from geography and code lists alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from confide.arrays import Floats, Integers
from confide.inputs.made_up import MadeUpPeople, RecordForm
from confide.mechanisms.safetab.codes import CodeLists, iterations_of
from confide.mechanisms.safetab.problem import GroupProblem
from confide.mechanisms.safetab.records import CODE_COLUMNS, NULL
from confide.mechanisms.safetab.regions import BLOCK_COLUMNS, DIGITS, Regions
from confide.schema import Attribute, Level

SECOND_RACE = 0.1
"""The share of records with a second race code."""
BLOCK = "block"
Person = dict[str, str]
"""Some columns of a record."""
GroupWeights = Sequence[tuple[Integers, float]]
"""For each level the iterations that are tabulated there, and what a group of it costs."""


def coded_columns(codes: Sequence[str], people: MadeUpPeople) -> dict[str, pa.Array]:
    """Every column of made-up records as text: those that are drawn, blocks, and codes; some have a second race."""
    drawn = people.table(str)
    columns = {name: drawn.column(name) for name in drawn.column_names if name != BLOCK}
    start = 0
    for name in BLOCK_COLUMNS:
        columns[name] = pc.utf8_slice_codeunits(drawn.column(BLOCK), start, start + DIGITS[name])
        start += DIGITS[name]
    nothing = pa.array(np.full(people.number, NULL))
    second = people.random.integers(len(codes), size=people.number)
    second[people.random.random(people.number) >= SECOND_RACE] = len(codes)
    columns["QRACE2"] = pa.array([*codes, NULL], pa.string()).take(pa.array(second))
    for name in CODE_COLUMNS:
        columns.setdefault(name, nothing)
    return columns


def form_of_groups(problem: GroupProblem, columns: Mapping[str, Iterable[str]]) -> RecordForm:
    """Records of these columns and of the codes of the lists, each value alike; areas by the names of their types."""
    regions, codes = problem.regions, problem.lists.codes
    attributes = tuple(
        Attribute(name, name, tuple(Level(str(code), str(code)) for code in values))
        for name, values in {**columns, "QRACE1": codes, "QSPAN": codes}.items()
    )
    areas = {name: (identifiers, regions.numbers(name)) for name, identifiers in regions.areas.items()}
    return RecordForm(attributes, {}, BLOCK, regions.blocks.column("code").to_pylist(), areas)


def block_costs(regions: Regions, budgets: Mapping[str, float]) -> Floats:
    """For each block what the levels cost that it lies in an area of, by region type."""
    cost = np.zeros(regions.blocks.num_rows)
    for region_type, budget in budgets.items():
        cost += budget * (regions.numbers(region_type) >= 0)
    return cost


def block_columns(regions: Regions, block: int) -> Person:
    """A block, as columns of a record."""
    code, columns = str(regions.blocks.column("code")[block]), {}
    for name in BLOCK_COLUMNS:
        columns[name], code = code[: DIGITS[name]], code[DIGITS[name] :]
    return columns


def blocks_apart(regions: Regions, region_type: str, costs: Floats) -> list[Person]:
    """One block for each area of a type, from the block that lies in areas of the costliest levels on."""
    areas = regions.numbers(region_type)
    order = np.argsort(-costs, kind="stable")
    order = order[areas[order] >= 0]
    _, first = np.unique(areas[order], return_index=True)
    return [block_columns(regions, int(block)) for block in order[np.sort(first)]]


def codes_within(lists: CodeLists, max_race_codes: int, weights: GroupWeights) -> list[Person]:
    """The race and ethnicity codes of the record that counts in many groups, and of those with another first code that
    count in no more of any level."""
    best, codes = best_codes(lists, max_race_codes, weights), [str(code) for code in lists.codes]
    tried = pa.table({name: [best[name]] * (len(codes) + 1) for name in CODE_COLUMNS})
    tried = tried.set_column(tried.column_names.index("QRACE1"), "QRACE1", pa.array([best["QRACE1"], *codes]))
    counted = iterations_of(lists, tried, max_race_codes)
    pattern, iteration = (counted.column(name).to_numpy() for name in ("pattern", "iteration"))
    of_level = (pattern[np.isin(iteration, iterations)] for iterations, _ in weights)
    counts = np.stack([np.bincount(patterns, minlength=len(codes) + 1) for patterns in of_level])
    within = np.flatnonzero((counts <= counts[:, :1]).all(axis=0) & counts.any(axis=0))[1:]
    others = {codes[place - 1]: best | {"QRACE1": codes[place - 1]} for place in within.tolist()}
    return list(({best["QRACE1"]: best} | others).values())


def best_codes(lists: CodeLists, max_race_codes: int, weights: GroupWeights) -> Person:
    """The race and ethnicity codes of a record that counts in many groups: one code after the other, each the best."""
    codes = np.array(lists.codes)
    chosen = dict.fromkeys(CODE_COLUMNS, NULL) | {"QRACE1": str(codes[0]), "QSPAN": str(codes[0])}
    best = -1.0
    for column in ("QRACE1", "QSPAN", *CODE_COLUMNS[1:max_race_codes]):
        tried = pa.table({name: pa.array([value] * len(codes)) for name, value in chosen.items()})
        tried = tried.set_column(tried.column_names.index(column), column, pa.array(codes.tolist()))
        counted = iterations_of(lists, tried, max_race_codes)
        pattern, iteration = (counted.column(name).to_numpy() for name in ("pattern", "iteration"))
        cost = np.zeros(len(codes))
        for iterations, weight in weights:
            here = pattern[np.isin(iteration, iterations)]
            cost += weight * np.bincount(here, minlength=len(codes))
        if cost.max() <= best:
            if column != "QSPAN":
                break
            continue
        best, chosen[column] = float(cost.max()), str(codes[int(cost.argmax())])
    return chosen
