"""Every question of a command can be asked in Python: the answer has the values that the command prints."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass
from fractions import Fraction
from html import escape
from pathlib import Path
from typing import Any

import pytest
from tests.kits import commands

from confide import risk
from confide.answers import MOST_ROWS, ShownTable, TypedAnswer, html_of, plain_tables
from confide.errors import ConfideError, ParameterError
from confide.mechanisms.cellkey.cellkey_answers import give_record_keys, make_abs_table
from confide.mechanisms.safetab.tuning import tune_safetab
from confide.mechanisms.topdown.strategy_file import account_strategy
from confide.noise.fitting import NoiseKind, noise_law, noise_margin, noise_probabilities, noise_quantile
from confide.noise.ptables.ptable_answer import perturbation_table
from confide.privacy import Neighbours
from confide.releases.loss_account import epsilon_of_rho, rho_of_epsilon

TREE = """
target = "block"
[[nodes]]
name = "county"
rho = "0.05"
released = 12
[[nodes]]
name = "block"
parent = "county"
rho = "0.0992"
released = 2
prior = "1/2"
[[nodes]]
name = "other"
parent = "county"
rho = "0.0992"
released = 1
prior = "geometric:0.1"
"""

Twin = tuple[str, Callable[[], TypedAnswer]]
QUESTIONS: list[Twin] = [
    ("risk bayes --rho 0.0992 --released 3", lambda: risk.bayes("0.0992", released=[3])),
    (
        "risk bayes --rho 0.1 --prior 1/2 --prior 1/50 --released -1,0 --known-count 2",
        lambda: risk.bayes("0.1", ["1/2", "1/50"], [-1, 0], known_count=2),
    ),
    (
        "risk bayes --rho 0.1 --also-rho 0.2 --released 3,1",
        lambda: risk.bayes("0.1", released=[3, 1], also_rho=["0.2"]),
    ),
    (
        "risk bayes --law geometric --epsilon 1/2 --neighbours change-one",
        lambda: risk.bayes(epsilon="1/2", law="geometric", neighbours=Neighbours.CHANGE_ONE),
    ),
    (
        "risk hierarchy --rho1 0.0992 --rho2 0.2465 --siblings 5 --released 2,1,-1 --accuracy --x2 1,2 "
        "--post-processed 1,10",
        lambda: risk.hierarchy("0.0992", "0.2465", 5, released=(2, 1, -1), accuracy_at=[1, 2], post_processed=[1, 10]),
    ),
    ("risk hierarchy --tree tree.toml --node county", lambda: risk.hierarchy_of_tree("tree.toml", ["county"])),
    (
        "risk invariants C1 C2 --rho 2.56 --explain",
        lambda: risk.invariants(["C1", "C2"], rho="2.56", explained=True),
    ),
    ("risk curve --rho 2.56 --level 0.05", lambda: risk.curve("2.56", levels=["0.05"])),
    ("risk curve --epsilon 1 --level 0.1", lambda: risk.curve_of_epsilon(1, levels=["0.1"])),
    (
        "risk curve --epsilon 1 --level 0.1 --delta 1e-6",
        lambda: risk.curve_of_epsilon(1, levels=["0.1"], deltas=["1e-6"]),
    ),
    ("risk bound -D 5 -V 2 --country MT --areas LAU=9", lambda: risk.bound(5, 2, country="MT", areas={"LAU": 9})),
    ("risk averaging --country MT --target SEX", lambda: risk.averaging(country="MT", targets=["SEX"])),
    ("risk areas --epsilon 1/2 --number 68", lambda: risk.areas(["1/2"], number=68)),
    ("risk region --country MT", lambda: risk.tune_cellkey(country="MT")),
    ("account noise compare -V 2 -D 5", lambda: risk.compare_noise(variance=2, bound=5)),
    ("account noise compare --epsilon 1 -t 3", lambda: risk.compare_noise(epsilon=1, measurements=3)),
    (
        "account noise pmf --law discrete-gaussian --sigma2 5 --at 0,1",
        lambda: noise_probabilities(noise_law(NoiseKind.GAUSSIAN, sigma2=5), [0, 1]),
    ),
    (
        "account noise quantile --law two-sided-geometric --epsilon 1 -p 0.9",
        lambda: noise_quantile(noise_law(NoiseKind.GEOMETRIC, epsilon=1), "0.9"),
    ),
    (
        "account noise margin --law truncated-discrete-gaussian --sigma2 5 --bound 3",
        lambda: noise_margin(noise_law(NoiseKind.TRUNCATED_GAUSSIAN, sigma2=5, bound=3)),
    ),
    ("account convert --rho 2.56", lambda: epsilon_of_rho("2.56")),
    ("account convert --epsilon 10", lambda: rho_of_epsilon("10")),
    ("account strategy pl94-persons --root pr", lambda: account_strategy("pl94-persons", root="pr")),
    ("cellkey ptable -D 3 -V 1 --js 1 --format csv", lambda: perturbation_table(3, 1, js=1, form="csv")),
    (
        "safetab tune --level STATE:2=2.134 --moe USA:1=3",
        lambda: tune_safetab(budgets={("STATE", 2): "2.134"}, targets={("USA", 1): 3}),
    ),
]


@pytest.mark.parametrize(("command", "ask"), QUESTIONS, ids=[command for command, _ in QUESTIONS])
def test_the_answer_in_python_is_what_the_command_prints(
    command: str, ask: Callable[[], TypedAnswer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tree.toml").write_text(TREE)
    printed = commands.run_json(*command.split())
    answer = ask()
    plain = answer.as_dict()
    assert json.loads(json.dumps(plain)) == printed
    assert list(plain) == list(printed), "the order of the keys"
    html = answer._repr_html_()
    assert html.startswith(("<p>", "<table><caption>"))
    assert html.count("<table>") == html.count("</table>") == html.count("<caption>")
    shown = commands.run(*command.split())
    for table in (part for part in answer.described() if isinstance(part, ShownTable)):
        texts = [*table.columns, *(str(cell) for row in table.rows for cell in row)]
        assert [text for text in texts if escape(text.strip()) not in html] == []
        # A narrow terminal breaks words at hyphens too.
        assert [text for text in texts if text.split() and text.split()[0].partition("-")[0] not in shown] == []


def test_an_answer_cannot_be_changed() -> None:
    answer = risk.bayes("1/10")
    with pytest.raises(FrozenInstanceError):
        answer.known_count = 3  # type: ignore[misc]


def test_texts_are_escaped_and_long_tables_are_cut() -> None:
    @dataclass(frozen=True)
    class Odd(TypedAnswer):
        name: str

        def as_dict(self) -> dict[str, Any]:
            rows: list[dict[str, Any]] = [{"<b>": self.name, "list": [1, 2]}] * (MOST_ROWS + 7)
            return {"name": self.name, "none": None, "rows": rows, "by_name": {self.name: {"x": {"y": "&"}}}}

    html = Odd("<script>alert(1)</script>")._repr_html_()
    assert "<script>" not in html
    assert "<b>" not in html
    assert html.count("&lt;script&gt;") == MOST_ROWS + 2
    assert "and 7 more" in html
    assert '<th scope="row">none</th><td></td>' in html
    assert "{&quot;y&quot;: &quot;&amp;&quot;}" in html
    assert html_of(plain_tables("empty", {}), "") == "<table><caption>empty</caption><tbody></tbody></table>"


def test_the_study_lists_its_questions() -> None:
    assert {"bayes", "hierarchy", "curve", "release", "BayesAnswer"} <= set(dir(risk))
    for _ in range(2):  # what is imported on the way must not take the place of a function
        assert [name for name in risk.__all__ if not callable(getattr(risk, name))] == []
    with pytest.raises(AttributeError, match="no attribute 'bayess'"):
        _ = risk.bayess


@pytest.mark.parametrize(
    ("ask", "code"),
    [
        (lambda: risk.bayes(), "no-budget"),
        (lambda: risk.bayes("1", epsilon="1"), "no-budget"),
        (lambda: risk.bayes("1e-20"), "out-of-range"),
        (lambda: risk.bayes(0.1), "float-refused"),
        (lambda: risk.bayes("1", ["2"]), "not-a-probability"),
        (lambda: risk.bayes("1", released=["3"]), "not-a-count"),
        (lambda: risk.bayes("1", also_rho=["1"], released=[1]), "releases-differ"),
        (lambda: risk.hierarchy("1", "1", 0), "out-of-range"),
        (lambda: risk.hierarchy("1", "1", 2, known_count=1, accuracy_at=[1]), "not-counts"),
        (lambda: risk.invariants(["C1"], epsilon=1, rho=1), "two-losses"),
        (lambda: risk.curve(), "curve-of-what"),
        (lambda: risk.curve("1", root="us"), "curve-of-what"),
        (lambda: risk.curve("1", levels=["2"]), "out-of-range"),
        (lambda: risk.compare_noise(variance=2), "noise-of-what"),
        (lambda: risk.compare_noise(variance=2, epsilon=1, bound=3), "noise-of-what"),
        (lambda: risk.averaging(targets=["NOTHING"]), "unknown-target"),
        (lambda: risk.bound(5, 2, country="XX"), "unknown-country"),
        (lambda: noise_law(NoiseKind.GAUSSIAN, epsilon=1), "no-such-noise"),
        (lambda: noise_law(NoiseKind.GAUSSIAN, sigma2=1, bound=3), "no-such-noise"),
        (lambda: perturbation_table(5, 2, no_mono_rows=[9]), "bad-option"),
        (lambda: perturbation_table(5, 2, seed="00"), "bad-option"),
        (lambda: tune_safetab(budgets={("STATE", 2): 1}, targets={("STATE", 2): 3}), "budget-and-target"),
        (lambda: tune_safetab(definition="renyi"), "unknown-definition"),
    ],
)
def test_wrong_questions_are_refused_with_a_finding(ask: Callable[[], object], code: str) -> None:
    with pytest.raises(ParameterError) as refused:
        ask()
    assert [finding.code for finding in refused.value.findings] == [code]


def test_levels_that_replace_those_of_2020_have_no_thresholds_of_theirs() -> None:
    level = {("STATE", 2): "2.134"}
    alone, added = tune_safetab(budgets=level), tune_safetab(budgets=level, add=True)
    assert [item.level_question.thresholds for item in alone.release.levels] == [None]
    (state,) = (
        item
        for item in added.release.levels
        if (item.level_question.region_type, item.level_question.iteration_level) == ("STATE", 2)
    )
    assert state.level_question.thresholds is not None
    assert state.budget == Fraction("2.134")


def test_keys_and_noise_for_the_lookup_abs(tmp_path: Path) -> None:
    records = tmp_path / "people.csv"
    records.write_text("sex\nf\nm\nf\n")
    answer = give_record_keys(records, tmp_path / "keyed.parquet", keys=1000)
    assert answer.as_dict() == {
        "ok": True,
        "records": str(tmp_path / "keyed.parquet"),
        "rows": 3,
        "column": "record_key",
        "keys": 1000,
    }
    table = make_abs_table(3, 2, tmp_path / "abs.txt")
    assert (table.table.size, table.drawn) == (30, False)
    assert len((tmp_path / "abs.txt").read_text().splitlines()) == 256
    with pytest.raises(ConfideError, match="such a file already"):
        make_abs_table(3, 2, tmp_path / "abs.txt")
