"""Measurement files in the public layout, read into whole-tree least squares; and files that cannot be read."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tests.kits.public_files import DHC, PL94, UNITS, PublicFiles, answered, write_public

from confide.errors import InputError, ParameterError
from confide.estimation import Study
from confide.inference.asked import read_totals
from confide.mechanisms.topdown.from_below import planned_tree
from confide.mechanisms.topdown.measurements.layout import public_words, words_of
from confide.mechanisms.topdown.measurements.measured_tree import MeasuredTree, read_tree
from confide.mechanisms.topdown.released_problem import released_plan


@pytest.fixture(scope="module")
def persons(tmp_path_factory: pytest.TempPathFactory) -> PublicFiles:
    return write_public(tmp_path_factory.mktemp("public") / "US_Person_PL_PROD")


@pytest.fixture(scope="module")
def tree(persons: PublicFiles) -> MeasuredTree:
    return read_tree(persons.folder, totals=persons.totals())


def test_units_parents_and_bypassed_units_come_from_the_ids(persons: PublicFiles, tree: MeasuredTree) -> None:
    assert tree.names == ("us", "state", "county", "tract", "block_group", "block")
    for name, level in zip(persons.levels, tree.units, strict=True):
        assert level.ids.tolist() == sorted(persons.ids[name])
        assert level.measured.tolist() == persons.measured[name].tolist()
    assert tree.block_codes[0][:2] == "44"
    assert len(tree.block_codes[0]) == 15
    assert not tree.units[2].measured.any()


def test_states_in_parts_are_known_together(persons: PublicFiles, tree: MeasuredTree) -> None:
    """The parts 044 and 144 are one State: a level between the nation and them has its total."""
    assert tree.position == (0, 2, 3, 4, 5, 6)
    states = tree.estimates.histogram(2).reshape(3, -1).sum(axis=1)
    known = persons.totals()
    assert states[0] + states[2] == pytest.approx(known["44"], abs=1e-7)
    assert states[1] == pytest.approx(known["50"], abs=1e-7)
    everybody = [tree.sectors.count({})]
    variance = tree.covariances.variances(2, everybody).ravel()
    assert variance[0] == pytest.approx(variance[2])
    assert variance[0] > 0.1
    assert variance[1] == pytest.approx(0, abs=1e-9)


def test_constraints_are_used_for_what_they_are(persons: PublicFiles, tree: MeasuredTree) -> None:
    assert tree.constraints.used == ("hhgq_total_ub_con", "nurse_nva_0_con", "total_con")
    assert set(tree.constraints.not_used) == {"hhgq_total_lb_con"}
    cells = tree.estimates.histogram(6)
    assert (cells[:, 3, 0] == 0).all()
    assert (cells[::2, 1:] == 0).all()
    assert cells[1, 1:].any()


def test_the_measurements_fit_and_estimates_are_near_the_truth(persons: PublicFiles, tree: MeasuredTree) -> None:
    fit = tree.fit()
    assert fit.worst is None
    assert sum(one.measurements for one in fit.fits) == sum(
        int(persons.measured[level].sum())
        * sum(
            answered(
                persons.words, {a: said.get(a, "*") for a in persons.words.attributes}, persons.truth["US"][0]
            ).size
            for name, said in PL94.items()
            if not (level == "US" and name == "total")
        )
        for level in persons.levels
    )
    for level, position in zip(persons.levels, tree.position, strict=True):
        counts = [tree.sectors.count({}), tree.sectors.count({1: np.array([0, 1])})]
        found = tree.estimates.counts(position, counts)
        true = persons.truth[level].reshape(-1, 8, 2, 2, 63)
        exact = np.stack([true.sum(axis=(1, 2, 3, 4)), true[:, :, 1].sum(axis=(1, 2, 3))], axis=1)
        deviation = np.sqrt(np.maximum(tree.covariances.variances(position, counts), 1e-12))
        assert (np.abs(found - exact) / deviation < 5).all()


@pytest.mark.parametrize("change", ["partitions", "widths", "one file"])
def test_the_estimates_do_not_depend_on_how_the_rows_are_stored(
    persons: PublicFiles, tree: MeasuredTree, tmp_path: Path, change: str
) -> None:
    folder = tmp_path / "other"
    if change == "partitions":
        write_public(folder, by_county=True)
        other = read_tree(tmp_path, totals=persons.totals())  # the folder above the product's
        assert other.estimates.histogram(6).shape == (9, 8, 2, 2, 63)
        return
    if change == "widths":
        write_public(folder, wide=False)
    else:
        shutil.copytree(persons.folder, folder)
        for kind in ("DPQuery", "Constraint"):
            files = sorted((folder / "Block.parquet" / kind).rglob("*.parquet"))
            tables = [pq.ParquetFile(file).read() for file in files]
            merged = pa.concat_tables(tables, promote_options="permissive")
            shutil.rmtree(folder / "Block.parquet" / kind)
            (folder / "Block.parquet" / kind).mkdir()
            order = np.random.default_rng(5).permutation(merged.num_rows)
            pq.write_table(merged.take(pa.array(order)), folder / "Block.parquet" / kind / "all.parquet")
    other = read_tree(folder, totals=persons.totals())
    for position in range(7):
        assert np.abs(other.estimates.histogram(position) - tree.estimates.histogram(position)).max() < 1e-9


def test_planned_variances_are_exact_and_others_stay(persons: PublicFiles) -> None:
    (file,) = (persons.folder / "US.parquet/DPQuery").glob("*.parquet")
    variance = float(pq.read_table(file).column("variance")[0].as_py())
    exact = variance * (1 + 4e-7)
    tree = read_tree(persons.folder, variances=[exact, 1e9])
    plain = read_tree(persons.folder)
    matrices = [one.covariances.levels[0].information for one in (tree, plain)]
    assert (matrices[0] != matrices[1]).any()
    assert matrices[0] == pytest.approx(matrices[1], rel=1e-6)


def test_some_queries_alone(persons: PublicFiles) -> None:
    tree = read_tree(persons.folder, queries=["cenrace*hispanic", "detailed"])
    assert {query.name for queries in tree.queries.values() for query in queries} == {"hispanic*cenrace", "detailed"}
    assert "votingage" in tree.left_out


def test_units_have_known_totals_everywhere(tmp_path: Path) -> None:
    """One free number in every unit: occupied and vacant add up to the housing units."""
    files = write_public(tmp_path / "US_Unit_PL_PROD", UNITS)
    tree = read_tree(files.folder)
    for level, position in zip(files.levels, tree.position, strict=True):
        found = tree.estimates.histogram(position)
        assert found.sum(axis=1) == pytest.approx(files.truth[level].sum(axis=1), abs=1e-8)
    variances = tree.covariances.variances(tree.position[-1], [tree.sectors.count({0: np.array([1, 0])})]).ravel()
    assert (variances < 5).all()
    assert (variances > 0.5).all()


def test_two_known_totals_of_a_unit_are_one_if_they_are_equal(tmp_path: Path) -> None:
    """As where a strategy fixes the number of a unit in two ways; two that differ are refused."""
    files = write_public(tmp_path / "US_Unit_PL_PROD", UNITS)
    once = read_tree(files.folder)

    def twice(more: int) -> Callable[[pa.Table], pa.Table]:
        def change(table: pa.Table) -> pa.Table:
            totals = table.filter(pc.equal(table.column("query_name"), "total_con"))
            others = pa.array([[value[0] + more] for value in totals.column("value").to_pylist()])
            place = totals.column_names.index("value")
            field = totals.schema.field("value")
            return pa.concat_tables([table, totals.set_column(place, field, others.cast(field.type))])

        return change

    _rewrite(files.folder, "County.parquet/Constraint/**/*.parquet", twice(0))
    again = read_tree(files.folder)
    assert len(once.units) == len(files.levels)
    for position in once.position:
        assert np.array_equal(once.estimates.histogram(position), again.estimates.histogram(position))
    _rewrite(files.folder, "County.parquet/Constraint/**/*.parquet", twice(1))
    with pytest.raises(InputError, match="two known totals that differ") as refusal:
        read_tree(files.folder)
    (finding,) = refusal.value.findings
    assert "County.parquet/Constraint" in finding.where.file
    assert finding.remedy


DHC_STUDY = {
    "relgq": "hhgq8lev",
    "sex": "sex",
    "age": "votingage",
    "hispanic": "hispanic",
    "cenrace": "*",
}


def _study() -> Study:
    words = public_words(list(DHC_STUDY))
    assert words is not None
    groups = []
    for attribute, word in DHC_STUDY.items():
        meaning = words.meaning(attribute, word)
        groups.append(np.zeros(words.attributes[attribute], np.int64) if meaning is None else meaning)
    return Study(tuple(groups))


def test_a_study_of_a_histogram_that_is_too_large(tmp_path: Path) -> None:
    """DHC: partitions of counties, a level that nobody measured, and a published table that is not the truth."""
    files = write_public(tmp_path / "US_DHCP_PROD", DHC, noise=1e-6, by_county=True)
    assert not (files.folder / "Tract_Subset.parquet" / "DPQuery").exists()
    with pytest.raises(ParameterError, match="too many cells"):
        read_tree(files.folder)
    tree = read_tree(files.folder, study=_study(), totals=files.totals())
    assert tree.constraints.not_used.keys() == {"pl94_con", "relgq0_age_0_con"}
    assert "noise of their own" in tree.constraints.not_used["pl94_con"]
    assert tree.constraints.used == ("total_con",)
    words = {name: DHC_STUDY[name] for name in files.words.attributes}
    for level, position in zip(files.levels, tree.position, strict=True):
        exact = np.stack([answered(files.words, words, cells) for cells in files.truth[level]])
        assert np.abs(tree.estimates.histogram(position) - exact).max() < 0.05


def test_a_nation_in_parts_from_its_plan_and_from_its_file(seal: Callable[[str], Path]) -> None:
    """Two States in parts whose totals are known together: the tree of the plan, and that of the file."""
    opened = released_plan(seal("topdown"))
    assert opened.spine.split is not None
    planned = planned_tree(opened.strategy, opened.spine, opened.plan, opened.columns)
    tree = read_tree(opened.folder / "measurements", words=words_of(opened.strategy))
    assert planned.position == tree.position == (0, 2, 3, 4, 5, 6)
    counts = [tree.sectors.count({}), tree.sectors.count({2: np.eye(2)[1], 3: np.arange(63) > 5})]
    for position in range(7):
        expected = planned.covariances.variances(position, counts)
        assert np.abs(tree.covariances.variances(position, counts) - expected).max() < 1e-7
    parts = planned.covariances.variances(2, counts)[:, 0]
    split = np.bincount(opened.spine.levels[1].official)[opened.spine.levels[1].official] > 1
    assert split.any()
    assert (parts[split] > 1e-3).all()
    assert (np.abs(parts[~split]) < 1e-9).all()
    assert tree.fit().worst is None


# Twenty inputs that are wrong.


def _rewrite(folder: Path, pattern: str, change: Callable[[pa.Table], pa.Table]) -> None:
    file = min(folder.glob(pattern))
    pq.write_table(change(pq.ParquetFile(file).read()), file)


def _column(name: str, change: Callable[[list[object]], list[object]]) -> Callable[[pa.Table], pa.Table]:
    def apply(table: pa.Table) -> pa.Table:
        column = table.column(name)
        place = table.column_names.index(name)
        return table.set_column(place, name, pa.array(change(column.to_pylist()), column.type))

    return apply


def _truncated(folder: Path) -> None:
    file = min(folder.glob("Block.parquet/DPQuery/**/*.parquet"))
    file.write_bytes(file.read_bytes()[:-200])


def _damaged(folder: Path) -> None:
    file = min(folder.glob("Block.parquet/DPQuery/**/*.parquet"))
    content = bytearray(file.read_bytes())
    content[4:400] = bytes(396)
    file.write_bytes(bytes(content))


def _second_file(folder: Path) -> None:
    file = min(folder.glob("Block.parquet/DPQuery/**/*.parquet"))
    shutil.copy(file, file.with_name("part-00001.parquet"))


def _first(value: object) -> Callable[[list[object]], list[object]]:
    return lambda values: [value, *values[1:]]


BLOCKS, CONSTRAINTS = "Block.parquet/DPQuery/**/*.parquet", "Block.parquet/Constraint/**/*.parquet"

WRONG: dict[str, tuple[Callable[[Path], object], str]] = {
    "no folder": (lambda f: shutil.rmtree(f), "there is no such folder"),
    "an empty folder": (lambda f: [shutil.rmtree(one) for one in f.iterdir()], "there are no measurements"),
    "two products": (lambda f: shutil.copytree(f / "Block.parquet", f / "PR" / "Block.parquet"), "several products"),
    "a missing level": (lambda f: shutil.rmtree(f / "Tract.parquet"), "the level 'tract' has no measurements"),
    "no constraints of blocks": (
        lambda f: [shutil.rmtree(f / "Block.parquet" / kind) for kind in ("DPQuery", "Constraint")],
        "the level 'block' has no measurements",
    ),
    "truncated Parquet": (_truncated, "cannot be read"),
    "damaged Parquet": (_damaged, "cannot be read"),
    "two files for one unit": (_second_file, "there twice for a unit"),
    "NaN variance": (lambda f: _rewrite(f, BLOCKS, _column("variance", _first(float("nan")))), "not a positive number"),
    "no variance": (lambda f: _rewrite(f, BLOCKS, _column("variance", _first(None))), "not a positive number"),
    "a variance of zero": (lambda f: _rewrite(f, BLOCKS, _column("variance", _first(0.0))), "not a positive number"),
    "another shape": (
        lambda f: _rewrite(f, BLOCKS, _column("query_shape", _first([2, 2, 2, 2]))),
        "a shape that its words do not have",
    ),
    "too few values": (lambda f: _rewrite(f, BLOCKS, _column("value", _first([1]))), "whole numbers in every unit"),
    "no values": (lambda f: _rewrite(f, BLOCKS, _column("value", _first(None))), "whole numbers in every unit"),
    "an unknown word": (lambda f: _rewrite(f, BLOCKS, _column("hhgq", _first("hhgq_new"))), "has a word that"),
    "no word": (lambda f: _rewrite(f, BLOCKS, _column("hhgq", _first(None))), "has a word that"),
    "a query that is missing in a unit": (lambda f: _rewrite(f, BLOCKS, lambda t: t.slice(1)), "in part only"),
    "no column of values": (lambda f: _rewrite(f, BLOCKS, lambda t: t.drop_columns(["value"])), "'value' is missing"),
    "another product's attributes": (
        lambda f: [
            pq.write_table(pq.ParquetFile(one).read().rename_columns({"hhgq": "relgq"}), one)
            for one in f.rglob("*.parquet")
            if one.is_file()
        ],
        "not the attributes of a public product",
    ),
    "an id without a parent": (
        lambda f: _rewrite(f, CONSTRAINTS, _column("geocode", lambda v: [f"9{str(x)[1:]}" for x in v])),
        "no parent|not among the units",
    ),
    "a unit that no constraint has": (
        lambda f: _rewrite(f, BLOCKS, _column("geocode", lambda v: [f"{str(x)[:-1]}9" for x in v])),
        "measured that is not among the units",
    ),
    "a row without an id": (lambda f: _rewrite(f, BLOCKS, _column("geocode", _first(None))), "no geocode"),
    "ids of two widths": (
        lambda f: _rewrite(f, BLOCKS, _column("geocode", lambda v: [f"{x}0" for x in v])),
        "not among the units",
    ),
    "limits that are not what their words say": (
        lambda f: _rewrite(f, CONSTRAINTS, _column("value", lambda v: [[0, 0] for _ in v])),
        "not what its words say",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_read_is_a_finding_with_file_and_remedy(persons: PublicFiles, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "US_Person_PL_PROD"
    shutil.copytree(persons.folder, folder)
    change, what = WRONG[name]
    change(folder)
    with pytest.raises(InputError, match=what) as refusal:
        read_tree(folder)
    for finding in refusal.value.findings:
        assert finding.where.file
        assert finding.remedy
        assert finding.expected


def test_totals_are_read_and_refused_in_words(persons: PublicFiles, tmp_path: Path) -> None:
    file = tmp_path / "totals.csv"
    file.write_text("code,total\n44,12\n50,7\n")
    assert read_totals(file) == {"44": 12, "50": 7}
    for text, what in (
        ("code,total\n", "no totals"),
        ("code,total\n44,12.5\n", "a code and a whole number"),
        ("code,total\n44,-3\n", "a code and a whole number"),
        ("code,total\n44,3\n44,4\n", "twice"),
    ):
        file.write_text(text)
        with pytest.raises(InputError, match=what):
            read_totals(file)
    with pytest.raises(InputError, match="cannot be read"):
        read_totals(tmp_path / "none.csv")
    with pytest.raises(InputError, match="not in the measurements"):
        read_tree(persons.folder, totals={"06": 5})
