"""Releases of the first layout of tables: read and verified as they are, and made again by a spec that asks for it.

``first-layout/`` is the release of tests/contract/examples/cellkey as it was made when columns stood in the order of
the schema, under the names of attributes.
"""

from __future__ import annotations

import json
from math import floor
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from tests.contract.kit import lay_out
from tests.kits.cellkey import tree
from tests.kits.labelled import read_labelled

import confide
from confide.mechanisms.cellkey.verify import read_published
from confide.releases.folder import read_manifest

FIRST = Path(__file__).parent / "first-layout"


def rows_of(path: str, content: bytes) -> pa.Table:
    buffer = pa.BufferReader(content)
    return pq.read_table(buffer) if path.endswith(".parquet") else pyarrow.csv.read_csv(buffer)


def weighted_in(table: pa.Table) -> list[str]:
    return [name for name in table.column_names if "weighted" in name.lower()]


def test_an_old_release_is_consistent_with_itself() -> None:
    assert confide.verify(FIRST / "release").ok


def test_an_old_release_is_read_back_for_attacks() -> None:
    found = read_published(FIRST / "release", read_manifest(FIRST / "release"), FIRST / "schema.toml")
    assert len(found.marginals) == 9
    assert {variable.name for marginal in found.marginals for variable in marginal.query.variables} >= {"county:state"}


def test_a_spec_can_ask_for_the_old_layout_and_gets_the_old_bytes(tmp_path: Path) -> None:
    project = lay_out("cellkey", tmp_path / "p")
    text = project.spec.read_text(encoding="utf-8")
    project.spec.write_text(text.replace("[output]\n", "[output]\nlayout = 1\n"), encoding="utf-8")
    made = confide.run(project.spec, processes=1).release
    folders = (FIRST / "release", made)
    old, new = ({path: data for path, data in tree(folder).items() if "/" in path} for folder in folders)
    assert old.keys() == new.keys()
    for path, content in old.items():
        before, after = (rows_of(path, data) for data in (content, new[path]))
        assert before.drop_columns(weighted_in(before)).equals(after.drop_columns(weighted_in(after))), path
        for name in weighted_in(before):
            # Weighted figures had all their digits then, which gave the counts away.
            distance = pc.abs(pc.subtract(before.column(name), after.column(name)))
            assert pc.max(distance).as_py() <= 0.25 + 1e-9
    plans = [json.loads((folder / "manifest.json").read_text())["plan"] for folder in folders]
    assert plans[1]["question"].pop("weighted_step") == "1/2"
    assert plans[1]["question"].pop("weight_gap") == "1/10"
    for plan in plans:
        plan.pop("sha256", None)
    assert plans[0] == plans[1]


@pytest.mark.parametrize("name", ["age-by-sex", "work"])
def test_the_new_layout_has_the_same_figures_under_other_names(tmp_path: Path, name: str) -> None:
    project = lay_out("cellkey", tmp_path / "p")
    release = confide.run(project.spec, processes=1).release
    (asked,) = [
        t
        for t in json.loads((release / "manifest.json").read_text())["plan"]["question"]["tables"]
        if t["name"] == name
    ]
    new = read_labelled(release / f"tables/{name}.parquet")
    old = pq.read_table(FIRST / "release" / f"tables/{name}.parquet")
    variables = [part["name"] for part in asked["variables"]]
    assert new.column_names == [*variables, "count", "weighted"]
    named = [
        [row[each.split(":")[0]] for each in variables] + [row["count"], floor(2 * row["weighted"] + 0.5) / 2]
        for row in old.to_pylist()
    ]
    assert sorted(map(tuple, named)) == sorted(tuple(row.values()) for row in new.to_pylist())
