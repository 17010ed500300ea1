"""The attack of a comparison against a plain Bayesian one, written down in a few lines and sharing no code with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from confide.lab.comparison import compare
from confide.lab.comparison.attacking import EXPOSED, sample
from confide.lab.comparison.compared_people import prepare
from confide.lab.comparison.comparison_spec import load_comparison
from confide.lab.comparison.protections import ProtectionJob, protect
from confide.releases.workspace import Silent

SPEC = """
[comparison]
made_up = 8000
[[protections]]
name = "cellkey"
mechanism = "cellkey"
[[protections]]
name = "tables"
mechanism = "tables"
[[protections]]
name = "topdown"
mechanism = "topdown"
[attack]
blocks = 60
processes = 2
"""
NAMES = ("sex", "agebin", "hispanic", "cenrace")


def fitted(rows: list[Any], figures: list[Any], variance: float, prior: Any) -> Any:
    """The counts of largest posterior with a Poisson prior and normal noise, by damped multiplicative steps."""
    x = prior.copy()
    for step in range(400):
        slope = np.log(x / prior)
        for row, figure in zip(rows, figures, strict=True):
            off = (np.bincount(row, x, len(figure)) - figure) / variance
            slope += off[row]
        x = np.maximum(x * np.exp(-np.clip(0.02 * slope, -0.2, 0.2)), 1e-12)
        if step > 50 and np.abs(x * slope).max() < 1e-3:
            break
    return x


def plain_attack(population: Any, figures: Any, variance: float, blocks: Any, exposed: Any) -> int:
    """For each exposed person the race and origin that are likeliest given block, sex and age: prior of the county,
    likelihood of the block's tables, each block by itself. How many are right."""
    programme, areas, right = population.programme, population.areas, 0
    attributes = {item.name: item for item in programme.schema.attributes}
    place = np.indices([attributes[name].size for name in NAMES]).reshape(4, -1)
    rows = [np.zeros(place.shape[1], int) for _ in programme.tables]
    for row, table in zip(rows, programme.tables, strict=True):
        for variable in table.query.variables:
            row *= variable.size
            row += variable.assignment[place[NAMES.index(variable.attribute.name)]]
    groups = place.shape[1] // (attributes["sex"].size * attributes["agebin"].size)
    counties: dict[int, Any] = {}
    for block in blocks:
        county = int(areas.unit_of_block["county"][block])
        if county not in counties:
            above = [figures.counts["county", table.name][county] for table in programme.tables]
            counties[county] = fitted(
                rows, above, variance, np.full(place.shape[1], max(above[0][0], 1) / place.shape[1])
            )
        here = [figures.counts["block", table.name][block] for table in programme.tables]
        prior = counties[county] / counties[county].sum() * max(here[0][0], 1)
        counts = fitted(rows, here, variance, prior).reshape(-1, groups)
        right += sum(counts[cell].argmax() == group for cell, group in exposed.get(int(block), ()))
    return right


@pytest.mark.process
@pytest.mark.slow
def test_the_attack_finds_as_many_as_a_plain_bayesian_one(tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text(SPEC)
    numbers = compare(tmp_path / "spec.toml", tmp_path / "out", processes=2).numbers["protections"]
    loaded = load_comparison(tmp_path / "spec.toml")
    population = prepare(loaded, tmp_path / "out", Silent())
    blocks = sample(population, 60, loaded.spec.comparison.seed)
    certain = json.loads((tmp_path / "out/none/solution-variability.json").read_text())
    exposed = exposed_people(population, certain)
    found = {each["name"]: each for each in numbers}
    for part in loaded.protections[1:]:
        job = ProtectionJob(population, tmp_path / "out" / part.name, loaded.spec.comparison.seed, 1, Silent())
        figures = protect(part, job).figures
        variance = float(next(iter(figures.variances.values()), 9.375))
        universe = found[part.name]["attack"]["perfect"]["universes"][EXPOSED]
        reconstruction = found[part.name]["attack"]["reconstruction"]
        assert reconstruction["persons"] == pytest.approx(reconstruction["true_persons"], rel=0.02), part.name
        assert sum(len(exposed.get(int(block), ())) for block in blocks) == universe["records"]
        assert universe["confirmed"] >= plain_attack(population, figures, variance, blocks, exposed), part.name


def exposed_people(population: Any, certain: dict[str, Any]) -> dict[int, list[tuple[int, int]]]:
    """Sex by age, and race by origin, of those who are alone, not of the modal group, and in a certain block."""
    people, number = population.people, {code: place for place, code in enumerate(population.areas.blocks)}
    attributes = {item.name: item for item in population.programme.schema.attributes}
    index = {
        name: np.array([attributes[name].index[code] for code in people.column(name).to_pylist()]) for name in NAMES
    }
    block = np.array([number[code] for code in people.column("geocode").to_pylist()])
    cell = index["sex"] * attributes["agebin"].size + index["agebin"]
    group = index["hispanic"] * attributes["cenrace"].size + index["cenrace"]
    group_of_block = np.array([code[:12] for code in population.areas.blocks])
    everybody = np.bincount(group).argmax()

    def mode(members: Any) -> int | None:
        times = np.bincount(group[members])
        return int(times.argmax()) if len(members) > 1 and (times == times.max()).sum() == 1 else None

    result: dict[int, list[tuple[int, int]]] = {}
    for place, code in enumerate(population.areas.blocks):
        members = np.flatnonzero(block == place)
        if certain.get(code) != 0 or not len(members):
            continue
        modal = mode(members)
        if modal is None:
            modal = mode(np.flatnonzero(group_of_block[block] == code[:12]))
        modal = everybody if modal is None else modal
        alone = [i for i in members if (cell[members] == cell[i]).sum() == 1 and group[i] != modal]
        result[place] = [(int(cell[i]), int(group[i])) for i in alone]
    return result
