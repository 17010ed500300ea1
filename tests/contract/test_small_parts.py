"""Work that is cut into parts of three gives the same release, byte by byte, and no draw serves two counts.

Examples are small: without this, the second part of most work would be seen by no test.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import confide
from confide.mechanisms.safetab import measure as safetab_measure
from confide.mechanisms.safetab.settings import GRIDS
from confide.mechanisms.topdown import measure as topdown_measure
from confide.mechanisms.topdown.descent import RowKind
from confide.mechanisms.topdown.measurements.writing import MeasureUnits
from confide.noise import DiscreteGaussian, NoiseStream, draw_at
from tests.contract.kit import KEY, Project, accounted, declares_noise, lay_out, tree, unverified
from tests.kits.crossed_topdown import CrossedProject
from tests.kits.dp_recorder import not_as_planned, record
from tests.kits.random_specs.project import toml
from tests.kits.small_parts import FEW, constants, small_parts


def test_parts_are_small_in_every_room() -> None:
    places = [place for place in (module.__name__.split(".") for module, _ in constants()) if place[0] == "confide"]
    rooms = {place[1] for place in places}
    of_mechanisms = {place[2] for place in places if place[1] == "mechanisms"}
    assert rooms == {"engines", "estimation", "inputs", "mechanisms", "noise", "releases"}
    assert of_mechanisms == {"cellkey", "safetab", "safetab_h", "suppression", "swapping", "tables", "topdown"}


def test_small_parts_give_the_same_bytes_and_noise_as_planned(sealed: Project, tmp_path: Path) -> None:
    project = lay_out(sealed.name, tmp_path / sealed.name)
    with small_parts():
        with unverified():  # in parts of three it takes as long as all else; of a hundred there are many as well
            project.run()
        assert tree(project.release) == tree(sealed.release)
        if declares_noise(project.name):
            answer = confide.audit_noise(project.run_folder, processes=1)
            assert answer.ok, [check for check in answer.checks if not check.ok]
    with small_parts(100):
        assert confide.verify(project.release, ledger=project.ledger).ok


def test_estimates_from_below_do_not_depend_on_parts(tmp_path: Path) -> None:
    project = CrossedProject(4, "tree", regions=FEW + 2)
    first = confide.run(project.write(tmp_path / "a"), processes=1, insecure_key=KEY).release
    with small_parts(), unverified():
        second = confide.run(project.write(tmp_path / "b"), processes=1, insecure_key=KEY).release
    assert tree(first) == tree(second)


@pytest.mark.parametrize("dense", [False, True])
def test_no_draw_of_a_part_is_one_of_another(name: str, dense: bool, tmp_path: Path) -> None:
    """Every planned count meets a coordinate of its own, and no coordinate meets two counts. ``dense``: where empty
    groups are drawn one by one."""
    if not accounted(name) or (dense and name != "safetab"):
        return
    project = lay_out(name, tmp_path / name)
    values = project.values
    if name == "topdown":
        values["output"]["measurements"] = True
        project.spec.write_text(toml(values), encoding="utf-8")
    with small_parts(), pytest.MonkeyPatch.context() as patch:
        if dense:
            patch.setattr(safetab_measure, "is_sparse", lambda _: False)
        run = record(project.spec, tmp_path / "run")
    assert run is not None
    assert run.faults == []
    assert not_as_planned(run) == []


FAR_APART = np.array([3, 3 + 64, 3 + 1_000, 3 + 1_024, 3 + 4_096, 3 + 65_536, 3 + 10**6, 3 + 2**32])
"""Units that any number of units in a part might take for one another."""


def test_units_far_apart_share_no_noise() -> None:
    law, cells = DiscreteGaussian(10**12), 5
    stream = NoiseStream.fresh("units far apart")
    query = topdown_measure.LevelQuery("all", np.arange(cells), cells, stream, (law,))
    rows = {"kind": np.full(len(FAR_APART), RowKind.CHILD), "unit": FAR_APART}
    rows |= {name: np.zeros(len(FAR_APART), np.int64) for name in ("cell", "n")}
    measured = MeasureUnits((query,))(0, pa.table(rows))
    values = np.array(measured.column("value").to_pylist())
    assert len(np.unique(values)) == values.size
    expected = draw_at(law, stream, (FAR_APART[:, None] * cells + np.arange(cells)).ravel())
    assert values.ravel().tolist() == expected.tolist()


def test_groups_of_safetab_far_apart_share_no_noise() -> None:
    law = DiscreteGaussian(10**12)
    streams = {name: NoiseStream.fresh(name) for name in (safetab_measure.TOTAL_ONLY, *(g.table for g in GRIDS))}
    level = SimpleNamespace(second=law, total=law, iterations=["one"], total_only=np.array([True]))
    measure = safetab_measure.MeasureGroups(level, streams, {})  # type: ignore[arg-type]
    none = np.zeros(0, np.int64)
    nobody = safetab_measure.OccupiedGroups(none, np.zeros(1, np.int64), none, none)
    for number, grid in enumerate(GRIDS, 1):
        noise = np.concatenate([piece.column("count").to_numpy() for piece in measure._grid(number, FAR_APART, nobody)])
        places = (FAR_APART[:, None] * grid.cells + np.arange(grid.cells)).ravel()
        assert noise.tolist() == draw_at(law, streams[grid.table], places).tolist()
    for first in FAR_APART.tolist():
        totals = measure._total_only(first, first + 5, none, none).column("count").to_pylist()
        assert totals == draw_at(law, streams[safetab_measure.TOTAL_ONLY], np.arange(first, first + 5)).tolist()
