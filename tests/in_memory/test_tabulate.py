"""Counts of a table in memory: right, priced, charged before they are drawn, and never over a domain from the data."""

from __future__ import annotations

import multiprocessing
import os
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import confide
from confide import in_memory
from confide.errors import BudgetExceededError, ConfideError, InputError, LedgerError, ParameterError
from confide.in_memory import Tabulation, open_ledger, tabulate
from confide.noise import DiscreteGaussian, TwoSidedGeometric
from confide.releases.ledger import Ledger

AREAS, SEXES = ["north", "south", "west"], ["f", "m"]
BY = {"area": AREAS, "sex": SEXES}
KEY = "0f" * 32
ROWS = {"area": ["north"] * 30 + ["south"] * 11, "sex": ["f", "m"] * 20 + ["f"]}
TRUTH = Counter(zip(*ROWS.values(), strict=True))


def people() -> pa.Table:
    return pa.table(ROWS)


def as_counts(answer: Tabulation) -> dict[tuple[str, ...], int]:
    names = answer.counts.column_names[:-2]
    return {tuple(row[name] for name in names): row["count"] for row in answer.counts.to_pylist()}


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    open_ledger(tmp_path / "my.ledger", data_set="survey", budget=1)
    return tmp_path / "my.ledger"


def charges(ledger: Path) -> list[str]:
    return [entry.kind for entry in Ledger(ledger).history()]


def test_with_next_to_no_noise_every_cell_is_the_true_one_and_every_cell_is_there() -> None:
    answer = tabulate(people(), by=BY, rho=10**6)
    assert as_counts(answer) == {(area, sex): TRUTH[area, sex] for area in AREAS for sex in SEXES}
    assert answer.margin == 0


def test_margins_are_measured_too_where_they_are_asked_for() -> None:
    answer = tabulate(people(), by=BY, rho=10**6, margins="all")
    counts = as_counts(answer)
    assert counts["total", "total"] == 41
    assert counts["north", "total"] == 30
    assert counts["total", "f"] == 21
    assert len(counts) == 12
    quarter = tabulate(people(), by=BY, rho=1, margins="all")
    assert {measurement.law for measurement in quarter.plan.measures} == {DiscreteGaussian(2)}
    assert quarter.loss.parameters() == {"rho": Fraction(1)}


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame(ROWS),
        pd.DataFrame(ROWS).astype("category"),
        pl.DataFrame(ROWS),
        pa.table(ROWS),
        pa.table(ROWS).to_batches()[0],
        ROWS,
    ],
    ids=["pandas", "pandas categories", "polars", "arrow", "batch", "columns"],
)
def test_the_same_people_in_any_table_give_the_same_counts(table: Any) -> None:
    answer = tabulate(table, by=BY, rho="1/2", insecure_key=KEY)
    assert as_counts(answer) == as_counts(tabulate(people(), by=BY, rho="1/2", insecure_key=KEY))
    assert answer.stamped
    assert "NOT FOR RELEASE" in str(answer)


def test_whole_numbers_are_values_too() -> None:
    ages = pd.DataFrame({"age": [0, 3, 3, 99]})
    counts = as_counts(tabulate(ages, by={"age": range(100)}, rho=10**6))
    assert {int(age): count for (age,), count in counts.items() if count} == {0: 1, 3: 2, 99: 1}


@pytest.mark.parametrize(
    ("budget", "neighbours", "law"),
    [
        ({"rho": "1/2"}, "add-remove", DiscreteGaussian(1)),
        ({"rho": "1/2"}, "change-one", DiscreteGaussian(2)),
        ({"epsilon": 1}, "add-remove", TwoSidedGeometric(1)),
        ({"epsilon": 1}, "change-one", TwoSidedGeometric("1/2")),
    ],
)
def test_the_noise_is_calibrated_to_what_is_hidden(budget: dict[str, Any], neighbours: Any, law: Any) -> None:
    answer = tabulate(people(), by=BY, neighbours=neighbours, **budget)
    assert [measurement.law for measurement in answer.plan.measures] == [law]
    assert list(answer.loss.parameters().values()) == [Fraction(next(iter(budget.values())))]


@pytest.mark.statistical
def test_the_noise_has_the_variance_of_the_plan_and_differs_between_cells_margins_and_calls() -> None:
    """2,000 cells of sigma² = 50: the sample variance is off by more than 5 standard errors once in a million runs;
    a scale that is wrong by 30 % is off by more than that."""
    by = {"cell": range(1000), "sex": SEXES}
    nobody = pa.table({"cell": pa.array([], pa.int64()), "sex": pa.array([], pa.string())})
    first, second = (tabulate(nobody, by=by, rho="1/100").counts["count"].to_numpy() for _ in range(2))
    error = 50 * np.sqrt(2 / 2000)
    for noise in (first, second):
        assert abs(noise.var() - 50) < 5 * error
        assert abs(noise.mean()) < 5 * np.sqrt(50 / 2000)
    assert abs(np.corrcoef(first, second)[0, 1]) < 5 / np.sqrt(2000)
    assert abs(np.corrcoef(first[0::2], first[1::2])[0, 1]) < 5 / np.sqrt(1000)
    both = tabulate(nobody, by=by, rho="1/25", margins="all")
    cells = (
        both.counts.filter(
            pa.compute.and_(
                pa.compute.not_equal(both.counts["cell"], "total"), pa.compute.not_equal(both.counts["sex"], "total")
            )
        )["count"]
        .to_numpy()
        .reshape(1000, 2)
    )
    margin = both.counts.filter(
        pa.compute.and_(
            pa.compute.not_equal(both.counts["cell"], "total"), pa.compute.equal(both.counts["sex"], "total")
        )
    )["count"].to_numpy()
    assert abs(np.corrcoef(cells.sum(axis=1), margin)[0, 1]) < 5 / np.sqrt(1000)
    # Coordinate by coordinate: one stream for the table and its margin would give both the same noise.
    assert abs(np.corrcoef(cells.ravel()[:1000], margin)[0, 1]) < 5 / np.sqrt(1000)


def test_other_records_or_another_question_have_other_noise_under_the_same_key() -> None:
    def noise(table: Any, **options: Any) -> list[int]:
        answer = tabulate(table, **{"by": BY, "rho": "1/200", "insecure_key": KEY} | options)
        true = [TRUTH.get(tuple(row.values())[:2], 0) for row in answer.counts.to_pylist()]
        return [count - truth for count, truth in zip(answer.counts["count"].to_pylist(), true, strict=True)]

    same = noise(people())
    assert same == noise(people())
    changed = ROWS | {"sex": ["m", "f", *ROWS["sex"][2:]]}
    assert noise(pa.table(changed)) != same
    assert noise(people(), rho="1/201") != same
    assert noise(people(), by={"area": AREAS, "sex": [*SEXES]}, insecure_key="0e" * 32) != same


def test_the_ledger_is_charged_once_for_each_call_and_refuses_what_does_not_fit(ledger: Path) -> None:
    answer = tabulate(people(), by=BY, rho="3/4", ledger=ledger)
    assert charges(ledger) == ["open", "reserve", "measured", "sealed"]
    assert answer.account is not None
    assert answer.account.left == Fraction(1, 4)
    with pytest.raises(BudgetExceededError):
        tabulate(people(), by=BY, rho="1/3", ledger=ledger)
    assert Ledger(ledger).account().left == Fraction(1, 4)
    assert tabulate(people(), by=BY, rho="1/4", ledger=ledger).account.left == 0


def test_the_neighbours_are_those_of_the_ledger(tmp_path: Path) -> None:
    open_ledger(tmp_path / "l", data_set="d", budget=1, neighbours="change-one")
    answer = tabulate(people(), by=BY, rho=1, ledger=tmp_path / "l")
    assert answer.plan.neighbours.value == "change-one"
    assert [measurement.law for measurement in answer.plan.measures] == [DiscreteGaussian(1)]


def _dies_before_the_counts(ledger: Path) -> None:
    in_memory._draw = lambda *_: os._exit(9)
    tabulate(people(), by=BY, rho="1/2", ledger=ledger)


@pytest.mark.process
def test_a_process_that_dies_while_drawing_has_paid(ledger: Path) -> None:
    child = multiprocessing.get_context("spawn").Process(target=_dies_before_the_counts, args=(ledger,))
    child.start()
    child.join()
    assert child.exitcode == 9
    assert charges(ledger) == ["open", "reserve", "measured"]
    assert Ledger(ledger).account().left == Fraction(1, 2)


WRONG = {
    "no domain": ({"by": ["area", "sex"]}, ParameterError, "no-domain"),
    "no variables": ({"by": {}}, ParameterError, "no-domain"),
    "a text for values": ({"by": {"sex": "fm"}}, ParameterError, "bad-domain"),
    "values twice": ({"by": {"sex": ["f", "m", "f"]}}, ConfideError, "schema-attribute"),
    "another column": ({"by": {"region": ["north"]}}, InputError, "missing-column"),
    "a value left out": ({"by": {"sex": ["f"]}}, InputError, "value-not-in-domain"),
    "numbers for texts": ({"by": {"sex": [1, 2]}}, InputError, "value-not-in-domain"),
    "a reserved name": ({"by": {"count": [1]}}, ParameterError, "reserved-name"),
    "too many cells": ({"by": {"a": range(10_000), "b": range(10_000)}}, ParameterError, "table-too-large"),
    "no budget": ({"rho": None}, ParameterError, "budget"),
    "two budgets": ({"epsilon": 1}, ParameterError, "budget"),
    "a float": ({"rho": 0.5}, ParameterError, "float-refused"),
    "a negative budget": ({"rho": "-1/2"}, ParameterError, None),
    "nothing": ({"rho": 0}, ParameterError, None),
    "next to nothing, whose noise cannot be drawn": ({"rho": f"1/{10**60}"}, ParameterError, None),
    "a list of people": ({"people": [1, 2]}, ParameterError, "not-a-table"),
    "a ledger of another loss": ({"rho": None, "epsilon": 1}, ParameterError, "ledger-definition"),
    "other neighbours": ({"neighbours": "change-one"}, ParameterError, "ledger-definition"),
}


@pytest.mark.parametrize("slip", WRONG)
def test_what_is_wrong_costs_nothing_and_shows_no_value(slip: str, ledger: Path) -> None:
    options, kind, code = WRONG[slip]
    given = {"people": people(), "by": BY, "rho": "1/2"} | options
    with pytest.raises(kind) as caught:
        tabulate(given.pop("people"), **given, ledger=ledger)
    (finding,) = caught.value.findings
    assert code is None or finding.code == code
    assert finding.remedy
    assert charges(ledger) == ["open"]
    if kind is InputError:
        assert not any(value in str(finding.found) for value in ("north", "south", "'m'"))


def test_missing_values_are_refused_with_their_row(ledger: Path) -> None:
    with pytest.raises(InputError) as caught:
        tabulate(pd.DataFrame({"sex": ["f", None]}), by={"sex": SEXES}, rho=1, ledger=ledger)
    assert caught.value.findings[0].where.row == 2
    assert charges(ledger) == ["open"]


def test_a_schema_declares_the_values() -> None:
    persons = pa.table({"sex": [1, 2], "age": [7, 90]})
    answer = tabulate(persons, by=["sex", "age:five-year"], schema="persons", rho=10**6)
    assert sum(as_counts(answer).values()) == 2
    assert answer.counts.num_rows > 30


def test_the_answer_shows_itself() -> None:
    answer = tabulate(people(), by={"area": ["north", "south", "<west>"], "sex": SEXES}, rho="1/2", insecure_key=KEY)
    assert answer.as_dict()["loss"] == {"definition": "zcdp", "rho": "1/2"}
    assert len(answer.as_dict()["counts"]) == 6
    assert "± 2" in str(answer)
    assert "&lt;west&gt;" in answer._repr_html_()
    assert list(answer.to_pandas().columns) == ["area", "sex", "count", "margin"]
    long = tabulate(pa.table({"age": [1]}), by={"age": range(50)}, rho=1)
    assert "… and 30 more rows" in str(long)


def test_six_lines_make_a_priced_and_ledgered_release(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The script of the README."""
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    (script,) = [part.partition("```")[0] for part in readme.split("```python\n")[1:] if "confide.tabulate" in part]
    assert len([line for line in script.splitlines() if line.strip()]) <= 6
    pd.DataFrame(ROWS).to_csv(tmp_path / "people.csv", index=False)
    here = Path.cwd()
    os.chdir(tmp_path)
    try:
        exec(compile(script, "README.md", "exec"), {})
    finally:
        os.chdir(here)
    printed = capsys.readouterr().out
    assert "±" in printed
    assert "left" in printed


def test_the_verbs_can_be_found() -> None:
    for name in ("tabulate", "open_ledger"):
        assert name in dir(confide)
        assert callable(getattr(confide, name))
        assert "Args:" in (getattr(confide, name).__doc__ or "")


@pytest.mark.parametrize("label", ["total", "Total", "ｔｏｔａｌ", " total "])
def test_a_level_that_is_called_total_is_refused_where_there_are_totals(label: str) -> None:
    table = pa.table({"x": ["a", label]})
    by = {"x": ["a", label]}
    with pytest.raises(ParameterError) as error:
        tabulate(table, by, rho="1/2", margins="all")
    assert error.value.findings[0].code == "reserved-name"
    with pytest.raises(ParameterError):
        confide.protect(table, by, method="suppression")
    assert tabulate(table, by, rho="1/2").counts.num_rows == 2


@pytest.mark.parametrize("margins", ["none", "all"])
@pytest.mark.parametrize("variables", [1, 2, 3])
def test_a_ledger_is_charged_for_every_margin(tmp_path: Path, margins: str, variables: int) -> None:
    names = [f"v{at}" for at in range(variables)]
    table = pa.table({name: ["a", "b"] for name in names})
    ledger = confide.open_ledger(tmp_path / "people.ledger", data_set="people", budget=1)
    answer = tabulate(
        table, {name: ["a", "b"] for name in names}, rho="1/3", margins=margins, ledger=tmp_path / "people.ledger"
    )
    assert len(answer.plan.measures) == (2**variables if margins == "all" else 1)
    assert ledger.account().left == Fraction(2, 3)
    assert sum((measurement.loss.parameters()["rho"] for measurement in answer.plan.measures), Fraction(0)) == Fraction(
        1, 3
    )


def test_two_columns_of_one_name_are_a_finding() -> None:
    twice = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["x", "x"])
    frame = pd.DataFrame([["a", "b"]], columns=["x", "x"])
    for people in (twice, frame):
        for verb in (tabulate, confide.protect):
            with pytest.raises(InputError) as error:
                verb(people, {"x": ["a", "b"]}, **({"rho": 1} if verb is tabulate else {"method": "suppression"}))
            assert error.value.findings[0].code == "repeated-column"


def test_a_ledger_that_paid_for_other_people_does_not_pay_for_these(ledger: Path) -> None:
    """The same people by other variables, in other chunks, columns or containers are known; others are not."""
    first = pa.table(ROWS | {"age": list(range(len(ROWS["sex"])))})
    tabulate(first, by=BY, rho="1/10", ledger=ledger)
    chunked = pa.concat_tables([first.slice(0, 2), first.slice(2)])
    for same in (first.select(["age", "sex", "area"]), chunked, first.to_pandas(), first.slice(0)):
        tabulate(same, by={"sex": SEXES}, rho="1/10", ledger=ledger)
    paid = charges(ledger)
    ages = first["age"].to_pylist()
    older = first.set_column(2, "age", [[*ages[:-1], ages[-1] + 1]])
    for other in (first.slice(1), older, first.drop_columns(["age"]), first.rename_columns(["area", "sex", "old"])):
        with pytest.raises(LedgerError, match="charged for other records"):
            tabulate(other, by=BY, rho="1/10", ledger=ledger)
    assert charges(ledger) == paid
    tabulate(older, by=BY, rho="1/10", ledger=ledger, accept_ledger=True)
    tabulate(older, by=BY, rho="1/10", ledger=ledger)


def test_people_with_lists_for_values_are_known_again(ledger: Path) -> None:
    people = pa.table(ROWS | {"langs": [["a"], *[["b", "c"]] * (len(ROWS["sex"]) - 1)]})
    tabulate(people, by=BY, rho="1/4", ledger=ledger)
    tabulate(people, by=BY, rho="1/4", ledger=ledger)
    with pytest.raises(LedgerError):
        tabulate(people.set_column(2, "langs", [[["z"]] * people.num_rows]), by=BY, rho="1/4", ledger=ledger)
