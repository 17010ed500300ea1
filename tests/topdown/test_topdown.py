"""The descent: what it keeps exactly, and that nothing but the key decides it."""

from __future__ import annotations

import shutil
from fractions import Fraction
from pathlib import Path

import pytest
from tests.kits.descent import COLUMNS, ENDLESS, PRODUCTION, lay_out, released, run, sql
from tests.kits.forged import rehash
from tests.kits.times import mostly_slow

from confide.engines import LocalEngine
from confide.errors import RunError
from confide.mechanisms.topdown.mechanism import TopDown
from confide.mechanisms.topdown.spec import TopDownSpec
from confide.privacy import ZCDP
from confide.releases.check import check
from confide.releases.ledger import Ledger
from confide.releases.replay import compare
from confide.releases.run import RunResult
from confide.releases.spec import load_spec
from confide.releases.verify import verify
from confide.releases.workspace import Silent, Workspace


@pytest.mark.parametrize("spine", ["optimised", "plain"])
def test_with_an_endless_budget_the_output_is_the_input(tmp_path: Path, people: Path, spine: str) -> None:
    result = run(lay_out(tmp_path, people, budget=ENDLESS, spine=spine))
    truth = f"read_parquet('{tmp_path}/persons.parquet')"
    for one, other in ((truth, released(result)), (released(result), truth)):
        assert sql(f"SELECT {COLUMNS} FROM {one} EXCEPT ALL SELECT {COLUMNS} FROM {other}") == []


def test_the_price_is_the_budget_exactly_although_units_are_bypassed(tmp_path: Path, people: Path) -> None:
    spec = lay_out(tmp_path, people)
    loaded = load_spec(spec, {"topdown": TopDownSpec})
    with LocalEngine(tmp_path / "scratch", processes=1) as engine:
        mechanism = TopDown()
        plan = mechanism.plan(mechanism.prepare(loaded, engine))
    assert plan.loss == ZCDP(PRODUCTION)
    assert len(plan.paths) > 1
    assert plan.event != plan.event_of(lambda measure: measure.level != "block")
    # As one sequence, in which every record takes part in everything, the same measurements would cost more.
    assert sum(Fraction(measure.loss.rho) for measure in plan.measures) > Fraction(PRODUCTION)


def test_what_is_promised_exactly_holds_in_the_written_records(sealed: RunResult, people: Path) -> None:
    rows, blocks = released(sealed), f"read_parquet('{people}/blocks.parquet')"
    assert sql(f"SELECT count(*) FROM {rows}") == [(12_000,)]
    assert sql(f"SELECT count(*) FROM {rows} WHERE hhgq = 3 AND votingage = 0") == [(0,)]
    bounds = f"""
        WITH found AS (SELECT geocode, hhgq, count(*) AS n FROM {rows} WHERE hhgq > 0 GROUP BY ALL),
        known AS (SELECT geocode, unnest([{", ".join(f"gq{k}" for k in range(1, 8))}]) AS facilities,
                         unnest([1, 2, 3, 4, 5, 6, 7]) AS hhgq FROM {blocks})
        SELECT count(*) FROM known FULL JOIN found USING (geocode, hhgq)
        WHERE coalesce(n, 0) < facilities OR (facilities = 0 AND coalesce(n, 0) > 0)
    """
    assert sql(bounds) == [(0,)]
    empty = f"SELECT count(*) FROM {rows} JOIN {blocks} USING (geocode) WHERE hhgq = 0 AND housing_units = 0"
    assert sql(empty) == [(0,)]


def test_verify_checks_every_constraint_from_the_files(sealed: RunResult) -> None:
    verified = verify(sealed.release, lambda _: TopDown())
    assert verified.ok, verified.findings
    names = [check.name for check in verified.checks]
    assert any("structural zero" in name for name in names)
    assert sum(name.startswith("bound ") for name in names) >= 2


@pytest.mark.parametrize(
    ("change", "check"),
    [
        ("* REPLACE (CAST(3 AS BIGINT) AS hhgq, CAST(0 AS BIGINT) AS votingage)", "structural zero"),
        ("* REPLACE (CAST(6 AS BIGINT) AS hhgq)", "bound"),
        ("* REPLACE ('nowhere' AS geocode)", "records: in blocks of the frame"),
    ],
)
def test_verify_finds_records_that_break_a_promise(tmp_path: Path, sealed: RunResult, change: str, check: str) -> None:
    release = shutil.copytree(sealed.release, tmp_path / "release")
    for kind, options in (("parquet", ""), ("csv", "(HEADER)")):
        file = next((release / "tables").glob(f"records*.{kind}"))
        sql(f"COPY (SELECT {change} FROM {released(sealed)}) TO '{tmp_path}/forged.{kind}' {options}")
        if kind == "parquet":
            continue
        shutil.move(tmp_path / "forged.csv", file)
    shutil.move(tmp_path / "forged.parquet", next((release / "tables").glob("records*.parquet")))
    rehash(release)
    failed = [found.name for found in verify(release, lambda _: TopDown()).checks if not found.ok]
    assert any(name.startswith(check) for name in failed), failed


def test_with_a_nation_as_root_every_state_keeps_its_total(tmp_path: Path, people: Path) -> None:
    """Two states, the second a copy with fewer people; both have parts in and outside of AIAN areas."""
    spec = lay_out(tmp_path, people, budget="293764/114921")
    moved, area = "'91' || geocode[3:]", "CASE WHEN hash(geocode) % 4 = 0 THEN '0100' ELSE '9999' END"
    for name, changed, some in (
        ("persons", "", "WHERE hash(household_id) % 3 > 0"),
        ("blocks", f", {area} AS aiannh", ""),
    ):
        rows = f"read_parquet('{people}/{name}.parquet')"
        one = f"SELECT * REPLACE (geocode AS geocode{changed}) FROM {rows}"
        other = f"SELECT * REPLACE ({moved} AS geocode{changed}) FROM {rows} {some}"
        sql(f"COPY ({one} UNION ALL {other}) TO '{tmp_path}/{name}.parquet'")
    nation = '{ name = "us", digits = 0 }, { name = "state", digits = 2 }'
    text = spec.read_text().replace('{ name = "state", digits = 2 }', nation).replace('root = "state"', 'root = "us"')
    spec.write_text(text)
    result = run(spec)
    by_state = "SELECT geocode[:2] AS state, count(*) FROM {rows} GROUP BY 1 ORDER BY 1"
    truth = f"read_parquet('{tmp_path}/persons.parquet')"
    assert sql(by_state.format(rows=released(result))) == sql(by_state.format(rows=truth))
    assert len(sql(by_state.format(rows=truth))) == 2
    assert {measure.units for measure in result.plan.measures if measure.level == "state"} == {4}
    assert result.plan.loss == ZCDP("293764/114921")


@pytest.mark.slow  # for a smaller state: tests/contract
@pytest.mark.process
def test_the_number_of_processes_does_not_change_a_byte(
    tmp_path_factory: pytest.TempPathFactory, people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("confide.mechanisms.topdown.descent.CHILDREN_PER_GROUP", 50)
    releases = []
    for processes in (1, 4):
        folder = tmp_path_factory.mktemp(f"p{processes}")
        releases.append(run(lay_out(folder, people), processes).release)
    assert compare(*releases).ok


def test_the_size_of_groups_does_not_change_a_byte(
    tmp_path_factory: pytest.TempPathFactory, people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    releases = []
    for size in (30, 100_000):
        monkeypatch.setattr("confide.mechanisms.topdown.descent.CHILDREN_PER_GROUP", size)
        folder = tmp_path_factory.mktemp(f"g{size}")
        releases.append(run(lay_out(folder, people)).release)
    assert compare(*releases).ok


class StopHere(Exception):  # noqa: N818
    """Stands for a power cut."""


@pytest.mark.parametrize("stopped_at", mostly_slow((3, 1, 2, 4), 1))
def test_stopped_in_any_level_the_descent_goes_on_to_the_same_bytes(
    tmp_path: Path, people: Path, sealed: RunResult, monkeypatch: pytest.MonkeyPatch, stopped_at: int
) -> None:
    monkeypatch.setattr("confide.mechanisms.topdown.descent.CHILDREN_PER_GROUP", 50)
    spec = lay_out(tmp_path, people)
    with pytest.MonkeyPatch.context() as patch:
        import confide.engines.protocol as groups

        original, calls = groups._map_one, [0]

        def interrupted(*arguments: object) -> None:
            calls[0] += 1
            if calls[0] == stopped_at * 2:
                raise StopHere
            original(*arguments)  # type: ignore[arg-type]

        patch.setattr(groups, "_map_one", interrupted)
        with pytest.raises(StopHere):
            run(spec)
    assert compare(sealed.release, run(spec).release).ok
    kinds = [entry.kind for entry in Ledger(tmp_path / "people.ledger").history()]
    assert kinds == ["open", "reserve", "measured", "sealed"]


def test_a_record_where_nobody_can_live_is_found_by_its_row(tmp_path: Path, people: Path) -> None:
    spec = lay_out(tmp_path, people)
    blocks = f"read_parquet('{tmp_path}/blocks.parquet')"
    ((code,),) = sql(f"SELECT min(geocode) FROM read_parquet('{tmp_path}/persons.parquet')")
    zeros = ", ".join(f"0 AS {name}" for name in ("housing_units", *(f"gq{kind}" for kind in range(1, 8))))
    sql(
        f"COPY (SELECT * REPLACE ({zeros}) FROM {blocks} WHERE geocode = '{code}' UNION ALL "
        f"SELECT * FROM {blocks} WHERE geocode <> '{code}') TO '{tmp_path}/changed.parquet'"
    )
    shutil.move(tmp_path / "changed.parquet", tmp_path / "blocks.parquet")
    with pytest.raises(RunError, match="without housing units and facilities") as caught:
        run(spec)
    assert str(code) not in str(caught.value)


def test_records_that_contradict_the_frame_are_named_and_do_not_stop_the_run(
    tmp_path: Path, people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = lay_out(tmp_path, people)
    rows = f"read_parquet('{people}/persons.parquet')"
    # Everybody of the first block becomes a minor in a nursing facility, which no block of minors can have.
    wrong = "CAST(3 AS TINYINT) AS hhgq, CAST(0 AS TINYINT) AS votingage"
    first = f"SELECT min(geocode) FROM {rows}"
    sql(
        f"COPY (SELECT * REPLACE ({wrong}) FROM {rows} WHERE geocode = ({first}) UNION ALL "
        f"SELECT * FROM {rows} WHERE geocode <> ({first})) TO '{tmp_path}/persons.parquet'"
    )
    loaded = load_spec(spec, {"topdown": TopDownSpec})
    with LocalEngine(tmp_path / "scratch", processes=1) as engine:
        workspace = Workspace(tmp_path / "checked")
        checked = check(loaded, TopDown(), engine, workspace, Silent())
    assert {finding.code for finding in checked.findings} == {"record-against-frame"}
    assert checked.errors == ()
    notes: list[str] = []
    monkeypatch.setattr(Silent, "note", lambda _, text: notes.append(text))
    assert verify(run(spec).release, lambda _: TopDown()).ok
    assert len(notes) == len(checked.findings)
    assert all(note.startswith("warning persons.parquet, row ") for note in notes)


def test_levels_that_are_not_the_strategys_are_refused(tmp_path: Path, people: Path) -> None:
    spec = lay_out(tmp_path, people)
    spec.write_text(spec.read_text().replace('{ name = "tract", digits = 11 }, ', ""))
    loaded = load_spec(spec, {"topdown": TopDownSpec})
    with LocalEngine(tmp_path / "scratch", processes=1) as engine:
        checked = check(loaded, TopDown(), engine, Workspace(tmp_path / "descent"), Silent())
    assert [finding.code for finding in checked.errors] == ["strategy-levels"]
    assert "state > county > tract > block_group > block" in str(checked.errors[0])
