from __future__ import annotations

from pathlib import Path

import pytest
from tests.kits.ledger import HandClock, new_ledger

from confide.releases.ledger import Ledger


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def ledger(tmp_path: Path, clock: HandClock) -> Ledger:
    """A ledger with a budget of one."""
    return new_ledger(tmp_path / "census.ledger", clock=clock)
