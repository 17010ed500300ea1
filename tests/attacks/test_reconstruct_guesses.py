"""Attributes that no figure tells: against every exchange of a cell for another, tried one by one."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from tests.kits.reconstruction import CELLS, SHAPE, SMALL, answers, geography, marginal

from confide.lab.attacks.reconstruction import Published, reconstruct
from confide.lab.attacks.reconstruction.description import layer


@pytest.mark.parametrize("noisy", [False, True])
def test_a_guess_is_what_can_be_exchanged(noisy: bool) -> None:
    rng = np.random.default_rng(3)
    seen = set()
    for _ in range(25):
        truth = rng.multinomial(6, np.full(CELLS, 1 / CELLS)).reshape(-1)
        made = [marginal(SMALL.query("total"), [answers(SMALL.query("total"), truth)])]
        for text in ("a*c", "b:halves", "b:odd*c"):
            counts = answers(SMALL.query(text), truth)
            hidden = rng.random(len(counts)) < 0.5
            counts[hidden | (counts == 0)] = np.nan
            variance = Fraction(1) if noisy else None
            made.append(marginal(SMALL.query(text), [counts], variance=variance, unknown=True))
        found = reconstruct(Published(SMALL, geography(1), tuple(made)), processes=1)
        shape = found.space.shape
        rows = []
        for item in (layer(found.space, each) for each in made):
            known = ~np.isnan(np.append(item.counts(0), np.nan))[item.assignment]
            rows.append(np.where(known, item.assignment, -1))
        counted = np.stack(rows)
        for cell, bits in zip(found.cell.tolist(), found.guessed.tolist(), strict=True):
            alike = [other for other in range(found.space.cells) if (counted[:, other] == counted[:, cell]).all()]
            places = np.array([np.unravel_index(other, shape) for other in alike])
            expected = [len(set(column)) > 1 for column in places.T.tolist()]
            assert [bool(bits >> axis & 1) for axis in range(len(shape))] == expected
            seen.add(bits)
        names = [axis.attribute.name for axis in found.space.axes]
        texts = [" ".join(name for bit, name in enumerate(names) if bits >> bit & 1) for bits in found.guessed.tolist()]
        assert found.records().column("guessed").to_pylist() == texts
        assert found.as_dict()["guessed_persons"] == sum(text != "" for text in texts)
    assert len(seen) > 3


def test_whole_tables_leave_no_guess() -> None:
    truth = np.random.default_rng(4).multinomial(9, np.full(CELLS, 1 / CELLS))
    made = [marginal(SMALL.query(text), [answers(SMALL.query(text), truth)]) for text in ("total", "a*b", "b*c")]
    found = reconstruct(Published(SMALL, geography(1), tuple(made)), processes=1)
    assert found.space.shape == SHAPE
    assert not found.guessed.any()
