"""Several runs of the mechanism tables, with different keys: means over keys, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.kits.bad_input import make_project

from confide import api
from confide.errors import ParameterError, RunError


def runs_of(project: Path, *keys: str) -> list[Path]:
    text = (project / "spec.toml").read_text()
    assert 'name = "tiny"' in text
    runs = []
    for key in keys:
        spec = project / f"{key}.toml"
        changed = text.replace('name = "tiny"', f'name = "key-{key}"').replace('budget = "1/2"', 'budget = "1/8"')
        spec.write_text(changed)
        runs.append(api.run(spec, processes=1, insecure_key=key * 32).workspace.root)
    return runs


def test_every_number_becomes_a_mean_over_keys(tmp_path: Path) -> None:
    runs = runs_of(make_project(tmp_path / "project"), "11", "22")
    single = [api.evaluate(run).accuracy.reveal("made-up people")["cells"] for run in runs]
    evaluated = api.evaluate(*runs)
    combined = evaluated.accuracy.reveal("made-up people")
    assert combined["runs"] == ["key-11", "key-22"]
    assert len(combined["cells"]) == len(single[0])
    for one, *parts in zip(combined["cells"], *single, strict=True):
        assert all(one[name] == parts[0][name] for name in ("table", "query", "cells", "true_size"))
        assert one["mean_error"]["values"] == [part["mean_error"] for part in parts]
        assert one["noise_margin"] == parts[0]["noise_margin"]
    assert len({json.dumps(cells) for cells in single}) == 2
    written = json.loads((runs[0] / "dossier-confidential" / "over-keys-confidential.json").read_text())
    assert written["cells"] == combined["cells"]
    assert "must not leave" in written["warning"]
    assert all((run / "dossier-confidential" / "dossier-confidential.html").exists() for run in runs)


def test_a_run_is_not_taken_twice_and_only_its_levels_are_mapped(tmp_path: Path) -> None:
    (run,) = runs_of(make_project(tmp_path / "project"), "11")
    with pytest.raises(RunError, match="given twice"):
        api.evaluate(run, run)
    with pytest.raises(ParameterError, match="no geography 'nowhere'"):
        api.evaluate(run, geometry={"nowhere": "counties.geojson"})
