"""Small tables made by hand, and every histogram that has them, found by trying all."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from confide.documents import parse_schema
from confide.lab.attacks.reconstruction import Published, PublishedGeography, PublishedMarginal
from confide.lab.published.marginals import ImpossibleCells, sparse
from confide.schema import NO_GROUP, Query, Schema

SMALL = parse_schema(
    {
        "id": "small",
        "provenance": "made up for tests",
        "attributes": {
            "a": {"levels": [[0, "a0"], [1, "a1"]]},
            "b": {
                "range": [0, 3],
                "recodes": {
                    "halves": {"starts": [0, 2]},
                    "odd": {"groups": {"odd": [1, 3]}},
                    "low": {"groups": {"0": 0, "1": 1}},
                    "p01": {"groups": {"0 or 1": [0, 1]}},
                    "p12": {"groups": {"1 or 2": [1, 2]}},
                    "p02": {"groups": {"0 or 2": [0, 2]}},
                },
            },
            "c": {"levels": [["x", "cx"], ["y", "cy"]]},
        },
    }
)
SHAPE = (2, 4, 2)
CELLS = 16


def answers(query: Query, histogram: Any) -> Any:
    """The answers to a query for a histogram over all attributes of the small schema, one cell after the other."""
    result = np.zeros(query.cells)
    for cell, count in enumerate(histogram):
        place = np.unravel_index(cell, SHAPE)
        index = 0
        for variable in query.variables:
            group = variable.assignment[place["abc".index(variable.attribute.name)]]
            if group == NO_GROUP:
                break
            index = index * variable.size + int(group)
        else:
            result[index] += count
    return result


def marginal(
    query: Query, counts: Sequence[Any], *, depth: int = 0, variance: Fraction | None = None, unknown: bool = False
) -> PublishedMarginal:
    """A marginal from the dense counts of each unit; with ``unknown``, zeros are left out and mean nothing."""
    unit, cell = np.nonzero(np.array([np.nan_to_num(count, nan=1.0) != 0 for count in counts]))
    value = np.array([counts[u][c] for u, c in zip(unit.tolist(), cell.tolist(), strict=True)], np.float64)
    arrays = sparse(unit, cell, value, len(counts))
    return PublishedMarginal(query.name, depth, query, *arrays, variance=variance, absent_unknown=unknown)


def geography(blocks: int, per_tract: int = 0) -> PublishedGeography:
    """Blocks, in tracts of so many if asked for."""
    codes = tuple(f"{number:03d}" for number in range(blocks))
    own = np.arange(blocks)
    if not per_tract:
        return PublishedGeography(("block",), (codes,), (own,))
    tract = own // per_tract
    tracts = tuple(f"T{number}" for number in range(int(tract.max()) + 1))
    return PublishedGeography(("block", "tract"), (codes, tracts), (own, tract))


def published(
    histograms: Sequence[Any],
    queries: Sequence[str],
    *,
    tract: Sequence[str] = (),
    zeros: tuple[ImpossibleCells, ...] = (),
) -> Published:
    """The exact tables of some blocks; those of ``tract`` for all blocks together."""
    schema: Schema = SMALL
    made = [marginal(q, [answers(q, h) for h in histograms]) for q in map(schema.query, queries)]
    whole = np.sum(histograms, axis=0)
    made += [marginal(q, [answers(q, whole)], depth=1) for q in map(schema.query, tract)]
    return Published(schema, geography(len(histograms), len(histograms) if tract else 0), tuple(made), zeros)


@cache
def all_histograms(people: int) -> Any:
    """Every histogram of so many people over the 16 cells."""
    every = combinations_with_replacement(range(CELLS), people)
    return np.array([np.bincount(np.array(cells, int), minlength=CELLS) for cells in every])


def solutions(histogram: Any, queries: Sequence[str]) -> Any:
    """Every histogram with the same number of people and the same answers."""
    candidates = all_histograms(int(np.sum(histogram)))
    keep = np.ones(len(candidates), bool)
    for text in queries:
        query = SMALL.query(text)
        table = np.array([answers(query, row) for row in np.eye(CELLS)])
        keep &= (candidates @ table == answers(query, histogram)).all(axis=1)
    return candidates[keep]


def folded(histograms: Any, space: Any) -> Any:
    """Histograms over all cells as histograms over the cells that tables tell apart."""
    axes = {axis.attribute.name: axis.class_of for axis in space.axes}
    result = np.zeros((len(histograms), space.cells), int)
    for cell in range(CELLS):
        place = dict(zip("abc", np.unravel_index(cell, SHAPE), strict=True))
        index = 0
        for axis in space.axes:
            index = index * axis.size + int(axes[axis.attribute.name][place[axis.attribute.name]])
        result[:, index] += histograms[:, cell]
    return result
