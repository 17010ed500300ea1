"""What a release says does not depend on the order in which anything was written: rows, columns, words, tables,
attributes and levels of every example, with the noise moved along where there is any."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.kit import NAMES, OWN, Project, lay_out
from tests.kits.made_once import MadeOnce
from tests.kits.permuted import PERMUTATIONS, figures, noise_by_name, permute
from tests.kits.random_specs.project import toml

NOTHING_TO_PERMUTE = {
    *(
        (name, kind)
        for name in ("topdown", "postprocess", "safetab", "safetab-h", "phsafe")
        for kind in ("words", "attributes", "levels")
    ),
    *((name, "tables") for name in ("topdown", "postprocess")),
    ("safetab", "columns"),
    ("safetab-h", "columns"),
}
"""What strategies of TopDown have of these is permuted in ``tests/topdown/test_query_order.py``; the columns of the
files of SafeTab have an official order, and another one is refused. PHSafe has no schema and no spine."""
OF_SOME = {"words", "tables", "attributes", "levels"}
"""What a mechanism of another package need not have; rows and columns have an order in every example."""


def run_by_name(project: Project) -> None:
    with noise_by_name(project):
        project.run()


@pytest.fixture
def plain(name: str, made_once: MadeOnce) -> Project:
    """The release of the example in the order in which it is written, with noise that would move along."""
    folder = made_once.folder(f"plain-{name}", lambda folder: run_by_name(lay_out(name, folder / name)))
    return Project(name, folder / name)


@pytest.mark.parametrize("kind", PERMUTATIONS)
def test_no_order_changes_a_figure(name: str, kind: str, plain: Project, tmp_path: Path) -> None:
    permuted = lay_out(name, tmp_path / name)
    changed = permute(permuted, kind, seed=11)
    if name in OWN:
        assert changed != ((name, kind) in NOTHING_TO_PERMUTE)
    else:
        assert changed or kind in OF_SOME
    if not changed:
        return
    run_by_name(permuted)
    expected, released = figures(plain.release), figures(permuted.release)
    assert expected.keys() == released.keys()
    assert [file for file in expected if expected[file] != released[file]] == []


def test_tables_that_write_their_variables_in_another_order_share_their_measurements(tmp_path: Path) -> None:
    project = lay_out("tables", tmp_path / "tables")
    values = project.values
    table = values["tables"][1]
    values["tables"].append(table | {"name": "again", "variables": table["variables"][::-1]})
    project.spec.write_text(toml(values), encoding="utf-8")
    project.run()
    released = figures(project.release)
    (one,), (other,) = (
        [rows for file, rows in released.items() if file.startswith(n)] for n in (table["name"], "again")
    )
    assert one == other


def test_every_mechanism_is_permuted() -> None:
    tried = {(name, kind) for name in NAMES for kind in PERMUTATIONS} - NOTHING_TO_PERMUTE
    assert {name for name, kind in tried if kind == "rows"} == set(NAMES)
    assert {name for name, kind in tried if kind == "columns"} == set(NAMES) - {"safetab", "safetab-h"}
