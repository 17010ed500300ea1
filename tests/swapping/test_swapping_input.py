"""Bad specs and bad records give findings that say where, and show no confidential value."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.kits.swapping import KEY, TARGETED, town, write_project

import confide
from confide.errors import ConfideError, RunError


def codes_of(spec: Path) -> dict[str, str]:
    """The codes of the findings with where they are; a spec of the wrong form raises them."""
    try:
        findings = confide.check(spec, processes=1).findings
    except ConfideError as error:
        findings = tuple(error.findings)
    assert findings
    assert all(finding.remedy and finding.expected for finding in findings)
    return {finding.code: str(finding.where) for finding in findings}


def test_a_good_spec_has_no_findings(tmp_path: Path) -> None:
    assert confide.check(write_project(tmp_path), processes=1).findings == ()


@pytest.mark.parametrize(
    ("swapping", "code", "where"),
    [
        (TARGETED.replace('"1/5"', '"-0.05"'), "swapping-rate", "swapping.rate"),
        (TARGETED.replace('"1/5"', "0.05"), "float-refused", "swapping.rate"),
        (TARGETED.replace('rate = "1/5"\n', ""), "missing-key", "swapping"),
        ('settings = "medium"', "no-swapping", "swapping.settings"),
        ('settings = "light"\nnear = true', "swapping-variant", "swapping.near"),
        (TARGETED + "\ngroups = [1, 0, 0]", "swapping-variant", "swapping.groups"),
        (TARGETED.replace('["race"]', '["creed"]'), "unknown-variable", "swapping.risk"),
        (TARGETED.replace('["race"]', '["race", "size"]'), "swapping-risk", "swapping.risk"),
        (TARGETED.replace('["race"]', '["adults"]'), "swapping-risk", "swapping.risk"),
        (TARGETED.replace('"size", "adults"', '"size", "creed"'), "unknown-variable", "swapping.profiles"),
        (TARGETED.replace('"size", "adults"', '"age:some"'), "incomplete-recode", "swapping.profiles"),
        (TARGETED.replace('within = "state"', 'within = "town"'), "swapping-within", "swapping.within"),
        (TARGETED + '\nlevels = ["hamlet"]', "swapping-levels", "swapping.levels"),
        (TARGETED + '\ncarry = ["creed"]', "unknown-attribute", "swapping.carry"),
        (TARGETED + '\ncarry = ["race"]', "swapping-carry", "swapping.carry"),
        ('settings = "light"\ngroups = ["1/2", "1/2", "1/2"]', "swapping-groups", "swapping.groups"),
        (TARGETED + "\nspeed = 3", "unknown-key", "swapping.speed"),
    ],
)
def test_settings_give_findings_at_their_lines(tmp_path: Path, swapping: str, code: str, where: str) -> None:
    found = codes_of(write_project(tmp_path, swapping=swapping))
    assert code in found, found
    assert where in found[code]
    assert "line" in found[code]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"tables": "", "output": ""}, "no-tables"),
        ({"tables": '[[tables]]\nname = "x"\nvariables = []\nlevels = ["hamlet"]'}, "unknown-level"),
        ({"tables": '[[tables]]\nname = "x"\nvariables = []\nlevels = ["block", "block"]'}, "repeated-level"),
        ({"tables": '[[tables]]\nname = "x"\nvariables = ["age:some"]\nlevels = ["block"]'}, "incomplete-recode"),
        ({"tables": '[[tables]]\nname = "x"\nvariables = ["creed"]\nlevels = ["block"]'}, "unknown-variable"),
        ({"tables": 2 * '[[tables]]\nname = "x"\nvariables = []\nlevels = ["block"]\n'}, "duplicate-table"),
        ({"data": 'age = "years"'}, "no-age"),
        ({"data": 'household = "home"'}, "missing-column"),
    ],
)
def test_the_rest_of_a_spec(tmp_path: Path, changes: dict[str, Any], code: str) -> None:
    assert code in codes_of(write_project(tmp_path, **changes))


def test_in_households_names_attributes_and_their_codes(tmp_path: Path) -> None:
    spec = write_project(tmp_path)
    text = spec.read_text()
    spec.write_text(text.replace("{ hhgq = 0 }", "{ hhgq = 7 }"))
    assert "unknown-code" in codes_of(spec)
    spec.write_text(text.replace("{ hhgq = 0 }", "{ home = 1 }"))
    assert "unknown-attribute" in codes_of(spec)
    spec.write_text(text.replace("in_households = { hhgq = 0 }", ""))
    assert "no-household" in codes_of(spec)


def edited(records: pa.Table, column: str, row: int, value: Any) -> pa.Table:
    values = records.column(column).to_pylist()
    values[row] = value
    field = records.schema.field(column)
    return records.set_column(records.column_names.index(column), field, pa.array(values, field.type))


def test_records_give_findings_with_their_rows_and_no_values(tmp_path: Path) -> None:
    records = town(50)
    ids = records.column("household_id").to_pylist()
    large = next(row for row in range(len(ids) - 1) if ids[row] == ids[row + 1])
    other = "0112" if records["geocode"][large].as_py() != "0112" else "0111"
    tenure = "rent" if records["tenure"][large].as_py() == "own" else "own"
    for number, (broken, code, extra) in enumerate(
        (
            (edited(records, "geocode", large, other), "household-in-two-blocks", ""),
            (edited(records, "household_id", 4, None), "no-household", ""),
            (edited(records, "geocode", 4, "9999"), "bad-record", ""),
            (edited(records, "race", 4, "q"), "bad-record", ""),
            (edited(records, "tenure", large, tenure), "carried-differs", '\ncarry = ["tenure"]'),
        )
    ):
        spec = write_project(tmp_path / str(number), broken, swapping=TARGETED + extra)
        findings = confide.check(spec, processes=1).findings
        assert [finding.code for finding in findings] == [code]
        row = large + 1 if code in ("household-in-two-blocks", "carried-differs") else 5
        assert findings[0].where.row in (row, next(place for place, each in enumerate(ids, 1) if each == ids[row - 1]))
        assert "confidential" in str(findings[0].found)
        assert "9999" not in str(findings[0])
        with pytest.raises(ConfideError):
            confide.run(spec, processes=1)
        assert not (spec.parent / "town").exists()


def test_settings_of_a_file_of_ones_own(tmp_path: Path) -> None:
    spec = write_project(tmp_path, swapping='settings = "own.toml"\nrate = "1/4"')
    (tmp_path / "own.toml").write_text('[swapping]\nvariant = "enhanced"\nrate = "1/2"\ngroups = ["1/2", "1/2", 0]\n')
    assert confide.check(spec, processes=1).findings == ()
    (tmp_path / "own.toml").write_text('[swapping]\nvariant = "enhanced"\nspeed = 1\n')
    assert "swapping-settings" in codes_of(spec)
    (tmp_path / "own.toml").write_text("[swapping\n")
    assert "bad-swapping" in codes_of(spec)


def test_an_attribute_with_the_name_of_a_column_of_ours(tmp_path: Path) -> None:
    spec = write_project(tmp_path)
    (tmp_path / "town.toml").write_text(
        (tmp_path / "town.toml").read_text() + '\n[attributes.county]\nlevels = [[1, "x"]]\n'
    )
    assert "reserved-name" in codes_of(spec)


@pytest.mark.parametrize("name", ["household", "geocode"])
def test_a_level_with_the_name_of_a_column_of_published_records(tmp_path: Path, name: str) -> None:
    spec = write_project(tmp_path, tables="")
    spec.write_text(spec.read_text().replace('name = "county"', f'name = "{name}"'))
    with pytest.raises(ConfideError) as refused:
        confide.check(spec, processes=1)
    assert "reserved-name" in [finding.code for finding in refused.value.findings]


RARELY = TARGETED.replace('"1/5"', '"1/1000000000000"')


def test_records_that_nobody_swapped_are_not_released_as_swapped(tmp_path: Path) -> None:
    """The statement says that some households exchanged their places; where by chance none did, there is a way back."""
    spec = write_project(tmp_path, swapping=RARELY)
    assert confide.check(spec, processes=1).findings == ()
    with pytest.raises(RunError) as caught:
        confide.run(spec, processes=1, insecure_key=KEY)
    (finding,) = caught.value.findings
    assert (finding.code, finding.found) == ("nobody-moved", "nobody to be swapped")
    assert not (tmp_path / "town" / "release").exists()
    spec.write_text(spec.read_text().replace(RARELY, TARGETED).replace('name = "town"', 'name = "again"'))
    assert "new name" in str(finding.remedy)
    assert confide.verify(confide.run(spec, processes=1, insecure_key=KEY).release).ok


@pytest.mark.parametrize(
    "change",
    [
        lambda: {"records": moved_to(town(), "0000")},
        lambda: {"records": moved_to(town(), "0000"), "swapping": 'settings = "light"'},
        lambda: {"records": with_code(town(), "hhgq", 1)},
        lambda: {"swapping": TARGETED.replace('"size", "adults"', '"age", "race", "sex"'), "records": town(4)},
    ],
)
def test_check_says_that_nobody_can_move(tmp_path: Path, change: Callable[[], dict[str, Any]]) -> None:
    spec = write_project(tmp_path, **change())
    assert "swapping" in codes_of(spec)["nobody-moves"]
    with pytest.raises(RunError):
        confide.run(spec, processes=1, insecure_key=KEY)
    assert not (tmp_path / "town").exists()


def with_code(records: pa.Table, column: str, code: object) -> pa.Table:
    at = records.column_names.index(column)
    return records.set_column(at, column, pa.array([code] * records.num_rows, records.schema.field(column).type))


def moved_to(records: pa.Table, block: str) -> pa.Table:
    return with_code(records, "geocode", block)
