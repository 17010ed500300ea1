"""The specs of a census: one ledger in persons, and what all releases will cost before anything is spent."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest
from typer.testing import CliRunner

import confide
from confide.cli.main import app
from confide.drafting import NewCensus
from confide.errors import ParameterError, RunError
from confide.lab.population import simulate
from confide.mechanisms.topdown.strategy_file import load_strategy
from confide.releases.ledger import Ledger

PRODUCTS = (
    "redistricting-persons",
    "redistricting-units",
    "characteristics-persons",
    "detailed-groups",
    "household-groups",
    "people-in-households",
)


@pytest.fixture(scope="module")
def census(tmp_path_factory: pytest.TempPathFactory) -> NewCensus:
    made = confide.new("census-2020", tmp_path_factory.mktemp("census"))
    assert isinstance(made, NewCensus)
    return made


def test_every_product_has_its_spec_and_all_share_one_ledger_in_persons(census: NewCensus) -> None:
    assert tuple(product.spec.stem for product in census.products) == PRODUCTS
    assert census.ledger is not None
    account = Ledger(census.ledger).account()
    assert (account.unit, account.neighbours) == ("person", "add-remove")
    assert account.budget == census.charged == sum(product.charged for product in census.products)
    for product in census.products:
        text = product.spec.read_text(encoding="utf-8")
        assert f'name = "{product.spec.stem}"' in text
        assert '"data-set.ledger"' in text
        assert product.spec.name in text.splitlines()[1]


def test_the_price_in_persons_follows_from_what_a_person_can_change(census: NewCensus) -> None:
    charged = {product.spec.stem: product.charged for product in census.products}
    rho = {product.spec.stem: product.rho for product in census.products}
    budget = {name: load_strategy(name, root="state").budget for name in ("pl94-persons", "pl94-units", "dhc-persons")}
    # Who comes or goes is in one cell, who is changed in two; a person changes one home; both change one household.
    assert charged["redistricting-persons"] == budget["pl94-persons"] / 2
    assert charged["redistricting-units"] == budget["pl94-units"]
    assert charged["characteristics-persons"] == budget["dhc-persons"] / 2
    assert charged["household-groups"] == 2 * rho["household-groups"]
    three = ("detailed-groups", "household-groups", "people-in-households")
    assert round(float(sum(charged[name] for name in three)), 6) == 23.991885


@pytest.mark.parametrize(
    "names",
    [
        ("redistricting-persons", "redistricting-units"),
        pytest.param(("redistricting-persons", "characteristics-persons"), marks=pytest.mark.slow),
    ],
    ids=["redistricting", "characteristics"],
)
def test_what_a_ledger_is_charged_is_what_was_said(tmp_path: Path, names: tuple[str, ...]) -> None:
    """Made-up people through products with different promises."""
    census = confide.new("census-2020", tmp_path)
    simulate(tmp_path, persons=600, seed=5)
    simulate(tmp_path / "dhc", persons=600, seed=5, layout="us-dhc")
    (tmp_path / "dhc" / "persons.parquet").rename(tmp_path / "characteristics.parquet")
    assert isinstance(census, NewCensus)
    said = {product.spec.stem: product.charged for product in census.products}
    assert census.ledger is not None
    charged: dict[str, Fraction] = {}
    for name in names:
        before = Ledger(census.ledger).account().spent
        confide.run(tmp_path / f"{name}.toml", processes=1, accept_ledger=bool(charged))
        charged[name] = Ledger(census.ledger).account().spent - before
        assert confide.verify(tmp_path / name / "release").ok
    assert charged == {name: said[name] for name in names}


@pytest.mark.parametrize("setting", ["product", "method", "geography", "name"])
def test_settings_of_one_release_are_refused(tmp_path: Path, setting: str) -> None:
    with pytest.raises(ParameterError) as caught:
        confide.new("census-2020", tmp_path / "census", **{setting: "x"})
    (finding,) = caught.value.findings
    assert (finding.code, finding.found) == ("census-setting", setting)
    assert not (tmp_path / "census").exists()


def test_nothing_that_is_there_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "household-groups.toml").write_text("mine", encoding="utf-8")
    with pytest.raises(RunError, match="already"):
        confide.new("census-2020", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["household-groups.toml"]


def test_the_command_prints_the_account_before_anything_is_spent(tmp_path: Path) -> None:
    printed = CliRunner().invoke(app, ["new", "census-2020", str(tmp_path / "a")], catch_exceptions=False).stdout
    assert all(name in printed for name in ("redistricting-units", "17.790604", "costs one person", "Opened"))
    plain = CliRunner().invoke(app, ["new", "census-2020", str(tmp_path / "b"), "--no-ledger", "--json"])
    answer = json.loads(plain.stdout)
    assert answer["ledger"] is None
    assert [*answer["products"]] == [*PRODUCTS]
    assert Fraction(answer["costs_one_person"]) == sum(
        (Fraction(product["costs_one_person"]) for product in answer["products"].values()), Fraction(0)
    )
