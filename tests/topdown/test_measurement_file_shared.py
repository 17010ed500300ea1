"""Rhode Island 2010: all measurements of a real state, and the same records made of them alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.kits.descent import PRODUCTION
from tests.kits.measurement_file import again, table
from tests.kits.rhode_island import NEEDED, lay_out_with_presence

from confide import api

pytestmark = [*NEEDED, pytest.mark.process]


def test_a_real_state_comes_out_of_its_measurements_byte_by_byte(tmp_path: Path) -> None:
    spec = lay_out_with_presence(tmp_path, PRODUCTION)
    spec.write_text(spec.read_text() + "\n[output]\nmeasurements = true\n")
    first = api.run(spec, insecure_key="3c" * 32, processes=2)
    assert first.plan.counts > 40_000_000
    verified = api.verify(first.release)
    assert verified.ok, verified.findings
    second = api.run(again(tmp_path, first), processes=2)
    for name in ("records", "mdf"):
        assert table(second.release, name) == table(first.release, name)
    assert api.verify(second.release).ok
