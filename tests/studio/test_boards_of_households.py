"""The boards of SafeTab-P, SafeTab-H and PHSafe, alone and as one: margins of sums, thresholds, groups, one total."""

from __future__ import annotations

import json
import math
import shutil
import tomllib
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.contract.kit import EXAMPLES
from typer.testing import CliRunner

from confide import api
from confide.cli.main import app
from confide.errors import ConfideError
from confide.mechanisms import MECHANISMS
from confide.mechanisms.phsafe import official as of_phsafe
from confide.mechanisms.phsafe.board import PHSafeBoard
from confide.mechanisms.phsafe.settings import budget_keys, measured_tables
from confide.mechanisms.phsafe.spec import production_settings as phsafe_production
from confide.mechanisms.safetab import official as of_safetab
from confide.mechanisms.safetab.board import SafeTabBoard
from confide.mechanisms.safetab.tuning.question import law_of, production_settings
from confide.mechanisms.safetab_h import spec as of_households
from confide.mechanisms.safetab_h.board import SafeTabHBoard
from confide.mechanisms.safetab_h.settings import production_settings as safetab_h_production
from confide.noise import NoiseDistribution
from confide.privacy import Definition
from confide.releases.boards import Moving, declared_board
from confide.releases.joint_board import JointBoard
from confide.trade_offs import Spare, tune

PAIR = {"of_safetab": of_safetab, "of_households": of_households, "of_phsafe": of_phsafe}
ITERATIONS = {1: "regional", 2: "detailed"}
DELTA = Fraction(1, 10**10)
NOBODY = np.zeros(0, np.int64)


def board_p() -> SafeTabBoard:
    """The settings of 2020, United States, with nine groups for each person."""
    settings = production_settings()
    levels = {(each.region_type, ITERATIONS[each.iteration_level]): each for each in settings.passes["US"]}
    return SafeTabBoard(
        budgets={row: each.budget for row, each in levels.items()},
        base=settings,
        delta=DELTA,
        stabilities=dict.fromkeys(levels, 9),
        areas=dict.fromkeys(levels, 50),
        thresholds={row: each.thresholds for row, each in levels.items()},
        stage_1_fraction=settings.stage_1_fraction,
        zero_suppression=settings.zero_suppression,
        universe={row: (row[0], frozenset({"1001", "1002"}), 100) for row in levels},
        sizes={},
    )


def board_h() -> SafeTabHBoard:
    settings = safetab_h_production()
    levels = {
        (each.region_type, ITERATIONS[each.iteration_level], kind): (each, family)
        for each in settings.passes["US"]
        for family, kind in (("t3", "type"), ("t4", "tenure"))
    }
    return SafeTabHBoard(
        budgets={row: each.budget(family) for row, (each, family) in levels.items()},  # type: ignore[arg-type]
        base=settings,
        delta=DELTA,
        stabilities=dict.fromkeys(levels, 9),
        areas=dict.fromkeys(levels, 50),
        thresholds={row: each.thresholds_of(family) for row, (each, family) in levels.items()},  # type: ignore[arg-type]
        totals={row: np.array([3, 970, 971, 5000, 20000]) for row in levels},
        levels_of_totals={},
    )


def board_phsafe() -> PHSafeBoard:
    settings = phsafe_production()
    keys = {(each.name, *levels): (each.name, *key.split("_", 1)) for each in measured_tables() for key, levels in
            budget_keys(each).items()}  # fmt: skip
    return PHSafeBoard(
        budgets={keys[query.table, query.level, query.iteration_level]: query.budget for query in settings.queries},
        base=settings,
        delta=DELTA,
        states=51,
    )


def example(name: str) -> Any:
    return declared_board(MECHANISMS[name], api.load(EXAMPLES / name / "spec.toml"))


def spread(law: NoiseDistribution, cells: int, seed: int) -> int:
    """The 95 % quantile of the size of a sum of draws, by drawing."""
    sigma = math.sqrt(law.variance())
    values = np.arange(-math.ceil(9 * sigma), math.ceil(9 * sigma) + 1)
    chances = np.array([law.pmf(int(each)) for each in values])
    drawn = np.random.default_rng(seed).choice(values, size=(200_000, cells), p=chances / chances.sum()).sum(axis=1)
    return int(np.quantile(np.abs(drawn), 0.95))


def test_a_margin_of_fifty_for_cells_is_much_more_for_sums() -> None:
    board = board_p()
    rows = {row.name: row.entries for row in board.rows}
    assert board.numbers(("USA", "regional"))["total"] == {"8": 139, "18": 208, "46": 332}
    assert rows["USA:regional"]["total"].text == "332"  # type: ignore[union-attr]
    assert rows["USA:regional"]["total"].note == "139/208/332"  # type: ignore[union-attr]
    assert rows["USA:regional"]["margin"].text == "49"  # type: ignore[union-attr]


@pytest.mark.parametrize("cells", [4, 9, 23, 46])
@pytest.mark.statistical
def test_margins_of_sums_are_those_of_draws(cells: int) -> None:
    """200,000 draws: their quantile is within 1 % of the margin, false alarms below 1e-6 (sd 0.3 %)."""
    board = board_p()
    numbers = board.numbers(("COUNTY", "detailed"))
    margin = (numbers["total"] | numbers["sex"])[str(cells)]
    assert spread(board.law(("COUNTY", "detailed")), cells, cells) == pytest.approx(margin, rel=0.015, abs=1)


def test_stage_2_costs_what_table_7_says() -> None:
    published = {
        "3": (1.921, 2.134, 3.842, 4.268),
        "11": (0.143, 0.159, 0.286, 0.318),
        "50": (0.007, 0.008, 0.014, 0.016),
    }
    board = board_p()
    for row in board.budgets:
        loss = {name: float(Fraction(text)) for name, text in board.numbers(row)["loss"].items()}
        target = "50" if row[1] == "regional" else "3" if row[0] in ("USA", "STATE") else "11"
        step, total, bounded_step, bounded = published[target]
        assert round(loss["step_2"], 3) == pytest.approx(step, abs=1e-9)
        assert (loss["total"], loss["total_bounded"]) == (total, bounded)
        assert loss["step_2_bounded"] == pytest.approx(bounded_step, abs=1.1e-3)


@pytest.mark.parametrize(
    ("board", "kind", "statistic", "limit", "row"),
    [
        (board_p, "total", "total", 100, ("COUNTY", "detailed")),
        (board_p, "sex", "sex", 30, ("COUNTY", "detailed")),
        (board_h, "total", "total", 30, ("COUNTY", "detailed", "type")),
        (board_phsafe, "total", "total", 100, ("PH3", "state", "A-G")),
    ],
)
def test_a_target_for_a_sum_takes_the_least_part(board: Any, kind: str, statistic: str, limit: int, row: Any) -> None:
    start = board()
    now = start.moved(f"{kind}:{':'.join(row)}", str(limit), Moving(keep_total=False))
    assert max(now.numbers(row)[statistic].values()) <= limit
    less = now.with_budgets({row: now.budgets[row] - start.step()})
    assert max(less.numbers(row)[statistic].values()) > limit
    assert {other: part for other, part in now.budgets.items() if other != row} == {
        other: part for other, part in start.budgets.items() if other != row
    }


def test_targets_of_one_row_are_all_met(tmp_path: Path) -> None:
    for name, kind in (("safetab", "county"), ("safetab-h", "county"), ("phsafe", "state")):
        spec = shutil.copytree(EXAMPLES / name, tmp_path / name) / "spec.toml"
        board = tune(spec, [f"margin<=20 in {kind}", f"total<=45 in {kind}"]).board.now
        rows = [row for row in board.budgets if kind in {part.lower() for part in row}]  # type: ignore[attr-defined]
        assert rows
        for row in rows:
            numbers = board.numbers(row)  # type: ignore[attr-defined]
            assert numbers["margin"] <= 20
            assert max(numbers["total"].values(), default=0) <= 45


def test_a_figure_that_no_board_has_is_no_target() -> None:
    with pytest.raises(ConfideError) as error:
        tune(EXAMPLES / "phsafe" / "spec.toml", ["sex<=20 in state"])
    assert error.value.findings[0].code == "bad-target"
    assert "total" in str(error.value)


# Thresholds.


def test_thresholds_are_judged_and_proposed_by_the_relative_margin() -> None:
    board = board_p().with_other("relative_margin", "1/4")
    row = ("COUNTY", "detailed")
    judged = board.judged(row)
    assert [each["table"] for each in judged] == ["T02001", "T02002", "T02003"]
    assert judged[0]["cell"] == pytest.approx(11 * 8 / judged[0]["from"])
    assert [each["proposed"] for each in judged] == [11 * 8 * 4, 11 * 18 * 4, 11 * 46 * 4]
    taken = board.with_other("thresholds:COUNTY:detailed", "proposed")
    assert taken.thresholds[row] == (352, 792, 2024)
    assert all(each["cell"] <= 0.25 for each in taken.judged(row))


def test_the_wrong_table_becomes_unlikely_away_from_a_threshold() -> None:
    board, row = board_p(), ("COUNTY", "detailed")
    distance = board.wrong_within(row)
    assert distance is not None
    law = law_of(Definition.ZCDP, 9, board.stage_1_fraction * board.budgets[row])
    beyond = sum(law.pmf(x) for x in range(distance, distance + 400))
    nearer = sum(law.pmf(x) for x in range(distance - 1, distance + 400))
    assert beyond <= 0.05 < nearer
    assert board.chance_beyond(row, 100, 1) == pytest.approx(0.5, abs=0.05)


def test_published_totals_of_larger_tables_are_noisier_and_choose_worse() -> None:
    """SafeTab-H is decided by a total that may be the sum of a table of SafeTab-P."""
    plain, row = board_h(), ("COUNTY", "detailed", "type")
    assert plain.wrong_within(row) is None
    law = law_of(Definition.ZCDP, 9, Fraction("0.1431"))
    board = SafeTabHBoard(**{**vars(plain), "levels_of_totals": {row: (law, (500, 5000, 20000))}})
    assert board.chance_beyond(row, 499, 20) == law.tail(19)
    assert board.chance_beyond(row, 500, 20) == pytest.approx(_tail_of_sum(law, 8, 20), rel=0.01)


def _tail_of_sum(law: NoiseDistribution, cells: int, least: int) -> float:
    reach = math.ceil(10 * math.sqrt(law.variance()))
    one = np.array([law.pmf(x) for x in range(-reach, reach + 1)])
    summed = one
    for _ in range(cells - 1):
        summed = np.convolve(summed, one)
    return float(summed[cells * reach + least :].sum())


def test_groups_with_each_table_of_households_are_counted() -> None:
    board, row = board_h(), ("COUNTY", "detailed", "type")
    assert board.thresholds[row] == (971, 4971, 19971)
    assert list(board.published(row).values()) == [2, 1, 1, 1]
    now = board.with_other("thresholds:COUNTY:detailed:type", "970/4971/30000")
    assert list(now.published(row).values()) == [1, 2, 2, 0]


def test_how_many_groups_are_published_is_that_of_drawing_them(tmp_path: Path) -> None:
    """Public sizes: each group alone, by the laws, against the sums of the board."""
    listed = [("01001", "COUNTY", "1001", 15), ("01003", "COUNTY", "1002", 520), ("01003", "COUNTY", "9999", 7)]
    lines = ["REGION_ID|REGION_TYPE|ITERATION_CODE|COUNT", *("|".join(map(str, each)) for each in listed)]
    file = tmp_path / "sizes.txt"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    board, row = board_p().with_other("public_sizes", str(file)), ("COUNTY", "detailed")
    published = board.published(row)
    assert published is not None
    first, second = board.choice(row), board.law(row)
    limit, (one, two, three) = board.left_out_to(row), board.thresholds[row]
    assert limit is not None
    expected = np.zeros(4)
    for size, times in ((15, 1), (520, 1), (0, 98)):  # of the hundred groups, two are listed
        cuts = [first.cdf(edge - size - 1) for edge in (one, two, three)]
        shares = np.diff([0, *cuts, 1])
        shares[0] *= second.tail(limit - size)
        expected += times * shares
    assert list(published.values()) == pytest.approx(list(expected), rel=1e-6, abs=1e-7)
    assert board.published(("TRACT", "detailed"))["T01001"] == pytest.approx(  # type: ignore[index]
        100 * board.law(("TRACT", "detailed")).tail(board.left_out_to(("TRACT", "detailed"))),
        rel=1e-6,  # type: ignore[arg-type]
    )
    assert board.with_other("public_sizes", "").published(row) is None
    file.write_text(lines[0] + "\n01001|COUNTY|1001|many\n", encoding="utf-8")
    with pytest.raises(ConfideError):
        board_p().with_other("public_sizes", str(file))


# One total.


def test_what_is_left_of_a_total_and_where_it_would_help(tmp_path: Path) -> None:
    board = board_p()
    spare = Spare.of(board, board.total + Fraction(1, 10))
    assert spare.needed == board.total
    for name, before, then in spare.helped:
        row = tuple(name.split(":"))
        assert before == board.facts(row).size
        assert then == board.with_budgets({row: board.budgets[row] + Fraction(1, 10)}).facts(row).size < before
    gains = [then / before for _, before, then in spare.helped]
    everywhere = [
        board.with_budgets({row: part + Fraction(1, 10)}).facts(row).size / board.facts(row).size
        for row, part in board.budgets.items()
    ]
    assert gains == sorted(everywhere)[: len(gains)]
    assert Spare.of(board, board.total - 1).helped == ()
    spec = shutil.copytree(EXAMPLES / "safetab", tmp_path / "office") / "spec.toml"
    shown = CliRunner().invoke(app, ["tune", str(spec), "--target", "margin<=50 in county", "--total", "5", "--json"])
    said = json.loads(shown.stdout)
    assert said["entries"]["budget"] == "5"
    assert Fraction(said["total"]["left"]) == 5 - Fraction(said["total"]["needed"])
    assert said["before"]["entries"]["budget"] == tomllib.loads(spec.read_text())["privacy"]["budget"]


def test_three_releases_cost_a_person_what_the_account_says() -> None:
    """4.944 + 2 x 8.895302 + 1.257281, in the settings of 2020."""
    joint = JointBoard.joined({"p": board_p(), "h": board_h(), "s": board_phsafe()})
    assert joint.total == Fraction("23.991885")
    assert joint.claim.unit == "person"
    more = joint.with_total(joint.total * 2)
    assert more.current["h"].total == 2 * board_h().total
    assert sum(more.current[name].total * weight for name, weight in (("p", 1), ("h", 2), ("s", 1))) == more.total


def test_a_row_of_a_joint_board_has_the_margin_of_its_own_board() -> None:
    own = {"p": board_p(), "h": board_h(), "s": board_phsafe()}
    joint = JointBoard.joined(own)
    margins = {row: joint.facts(row).margin for row in joint.budgets}
    assert margins == {(name, *row): board.facts(row).margin for name, board in own.items() for row in board.budgets}
    now = joint.moved("margin:h:COUNTY:detailed:type", "5", Moving(keep_total=False))
    row = ("COUNTY", "detailed", "type")
    alone = own["h"].with_row(row, margin=5, keep_total=False)
    assert now.current["h"].facts(row).margin == "5"
    assert now.current["h"].budgets[row] == pytest.approx(alone.budgets[row], rel=1e-2)


def test_boards_that_cannot_be_one_are_refused(tmp_path: Path) -> None:
    spec = shutil.copytree(EXAMPLES / "safetab", tmp_path / "office") / "spec.toml"
    for others, code in ((spec, "joint-board"), (EXAMPLES / "swapping" / "spec.toml", "joint-board")):
        with pytest.raises(ConfideError) as error:
            tune([spec, others])
        assert error.value.findings[0].code == code
    with pytest.raises(ConfideError, match="no common account"):
        JointBoard.joined({"p": board_p(), "h": SafeTabHBoard(**{**vars(board_h()), "delta": Fraction(1, 10**9)})})


def test_specs_of_one_board_are_written_beside_themselves(tmp_path: Path) -> None:
    folders = [shutil.copytree(EXAMPLES / name, tmp_path / name) for name in ("safetab", "phsafe")]
    specs = [folder / "spec.toml" for folder in folders]
    before = [api.load(spec).spec.settings.total for spec in specs]  # type: ignore[attr-defined]
    tune(specs, total=2 * sum(before), out="agreed.toml")
    after = [api.load(folder / "spec-agreed.toml").spec.settings.total for folder in folders]  # type: ignore[attr-defined]
    assert sum(after) == 2 * sum(before)
    with pytest.raises(ConfideError) as error:
        tune(specs, out=tmp_path / "agreed.toml")
    assert error.value.findings[0].code == "joint-board"


# The configuration of the Bureau's programs.


@pytest.mark.parametrize(
    ("module", "settings"),
    [
        ("of_safetab", production_settings()),
        ("of_households", safetab_h_production()),
        ("of_phsafe", phsafe_production()),
    ],
)
def test_a_configuration_that_is_written_is_read_as_it_was_meant(tmp_path: Path, module: str, settings: Any) -> None:
    file = tmp_path / "config.json"
    file.write_text(of_safetab.config_text(PAIR[module].config_of(settings)), encoding="utf-8")  # type: ignore[attr-defined]
    read = PAIR[module].read_config(file)  # type: ignore[attr-defined]
    assert read.settings == settings
    assert not [finding for finding in read.warnings if finding.severity == "error"]


@pytest.mark.parametrize(
    ("name", "module"), [("safetab", "of_safetab"), ("safetab-h", "of_households"), ("phsafe", "of_phsafe")]
)
def test_a_board_is_written_as_the_program_has_it(tmp_path: Path, name: str, module: str) -> None:
    spec = shutil.copytree(EXAMPLES / name, tmp_path / name) / "spec.toml"
    tuned = tune(spec, moves={"budget": "3"}, out=tmp_path / "config.json").board
    settings = PAIR[module].read_config(tmp_path / "config.json").settings  # type: ignore[attr-defined]
    assert settings.total == 3
    tune(spec, moves={"budget": "3"}, out=spec.with_name("tuned.toml"))
    assert {**vars_of(api.load(spec.with_name("tuned.toml")).spec.settings)} == vars_of(settings)  # type: ignore[attr-defined]
    assert tuned.written == (tmp_path / "config.json",)
    with pytest.raises(ConfideError):
        tune(spec, out=tmp_path / "config.json")


def vars_of(settings: Any) -> dict[str, Any]:
    """What a configuration says of settings: not the sensitivity, and no budget that is zero."""
    names = [name for kind in type(settings).__mro__ for name in getattr(kind, "__annotations__", {})]
    return {name: getattr(settings, name) for name in names if name != "sensitivity"}


def test_a_number_without_a_last_decimal_is_in_no_configuration() -> None:
    with pytest.raises(ConfideError) as error:
        of_safetab.config_text({"privacy_budget": Fraction(1, 3)})
    assert error.value.findings[0].code == "config-number"
    assert json.loads(of_safetab.config_text({"a": [Fraction("0.10"), True, "x"]})) == {"a": [0.1, True, "x"]}


def test_a_mechanism_without_a_program_has_no_configuration(tmp_path: Path) -> None:
    with pytest.raises(ConfideError) as error:
        tune(EXAMPLES / "tables" / "spec.toml", out=tmp_path / "config.json")
    assert error.value.findings[0].code == "no-configuration"


def test_truncation_and_sensitivity_change_the_noise_of_their_table_alone() -> None:
    board = board_phsafe()
    now = board.with_other("tau:PH3", "3").with_other("sensitivity", "household")
    row = ("PH3", "state", "A-G")
    assert board.law(row).parameter == Fraction(14**2) / (2 * board.budgets[row])
    assert now.law(row).parameter == Fraction(2 * 3**2) / (2 * board.budgets[row])
    assert now.law(("PH2", "state", "*")).parameter == Fraction(2 * 10**2) / (2 * board.budgets["PH2", "state", "*"])
    for name, text in (("tau:PH1_denom", "3"), ("sensitivity", "none"), ("tau:PH3", "0")):
        with pytest.raises(ConfideError):
            board.with_other(name, text)
