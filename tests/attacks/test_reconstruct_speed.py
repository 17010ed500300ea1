"""The bar: 1,000 blocks of 30 people on average, with solution variability, in under 60 seconds on two cores."""

from __future__ import annotations

import pytest
from benchmarks.reconstruction import measure


@pytest.mark.process
@pytest.mark.slow
def test_a_thousand_blocks_in_a_minute() -> None:
    result = measure(blocks=1_000, people=30_000, processes=2)
    assert len(result.people) == 1_000
    assert 27_000 < result.persons < 33_000
    assert result.seconds < 60
