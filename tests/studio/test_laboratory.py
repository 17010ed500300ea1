"""The risk laboratory: its figures are those of the library, and its sliders lead to exact numbers."""

from __future__ import annotations

import re
import shlex
from fractions import Fraction
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import escape
from tests.kits.studio import entered
from typer.testing import CliRunner

from confide import risk
from confide.cli.main import app
from confide.lab.risk.bayesian.two_level import Variant
from confide.lab.risk.testing.loss_test import zcdp_power
from confide.lab.studio.laboratory import Experiment, experiments, moved, people_of


def test_beliefs_and_powers_are_those_of_the_library(tmp_path: Path) -> None:
    browser = entered(tmp_path)
    belief = browser.get("/api/laboratory/belief", params={"rho": "1/4", "prior": "0.2", "released": "3"}).json()
    answer = risk.bayes("1/4", ["0.2"], [3])
    assert belief["figures"]["Belief after this count"] == f"{answer.adversaries[0].belief.posterior[0]:.4f}"  # type: ignore[union-attr]
    assert belief["answer"] == answer.as_dict()
    asked = {
        "rho": "0.1",
        "above": "0.2",
        "siblings": "9",
        "prior": "0.5",
        "released": "2",
        "parent": "5",
        "others": "4",
    }
    around = browser.get("/api/laboratory/hierarchy", params=asked).json()
    exact = risk.hierarchy("0.1", "0.2", 9, prior="0.5", released=(2, 5, 4))
    assert around["figures"]["Belief after all counts"] == f"{exact.belief.posterior[Variant.STATED]:.4f}"  # type: ignore[union-attr]
    test = browser.get("/api/laboratory/test", params={"rho": "2.56", "level": "0.05"}).json()
    assert test["figures"]["Any release with this budget"] == "0.9344"
    assert zcdp_power("2.56", "0.05") <= 0.9344, "a bound is rounded up"


@pytest.mark.slow
def test_the_region_of_the_cell_key_method_is_that_of_the_library(tmp_path: Path) -> None:
    browser = entered(tmp_path)
    region = risk.tune_cellkey().region
    best = region.recommended
    assert best is not None
    pairs = {(best.risk.row.bound, str(best.variance)): "yes", (1, "5"): "no", (9, "19.9"): "no"}
    for (bound, variance), verdict in pairs.items():
        shown = browser.get("/api/laboratory/cellkey", params={"bound": bound, "variance": variance}).json()
        assert shown["figures"]["Withstands both attacks, and is useful"] == verdict
        assert shown["answer"]["region"] == region.as_dict()["region"]
    picture = browser.get("/laboratory/figure.svg", params={"experiment": "cellkey"})
    assert picture.content.startswith(b"<svg")


SLOW = ("cellkey", "averaging")
QUICK = [each for each in get_args(Experiment) if each not in SLOW]


@pytest.mark.parametrize("experiment", [*QUICK, *(pytest.param(each, marks=pytest.mark.slow) for each in SLOW)])
def test_the_command_that_is_shown_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, experiment: str, capsys: pytest.CaptureFixture[str]
) -> None:
    browser = entered(tmp_path)
    command = browser.get(f"/api/laboratory/{experiment}").json()["command"]
    page = browser.get("/laboratory", params={"experiment": experiment})
    assert page.status_code == 200
    assert escape(command) in page.text
    words = shlex.split(command)
    if words[0] == "python":
        exec(words[2])
        assert capsys.readouterr().out == "20.0\n"
        return
    done = CliRunner().invoke(app, words[1:])
    assert done.exit_code == 0, done.output


def test_every_experiment_has_a_proof_that_is_there_without_a_network(tmp_path: Path) -> None:
    browser = entered(tmp_path)
    assert set(experiments()) == set(get_args(Experiment))
    for part in experiments().values():
        for room, name in (("proofs", part.proof), ("concepts", part.more)):
            shown = browser.get(f"/documentation/{room}/{name}")
            assert shown.status_code == 200
            if part.id not in SLOW:
                page = browser.get(f"/laboratory?experiment={part.id}").text
                assert f'<a href="/documentation/{room}/{name}">' in page
            assert " style=" not in shown.text, "the policy forbids it, and the browser complains"
            inner = re.findall(r'href="(/documentation/[a-z]+/[a-z0-9-]+)', shown.text)
            assert all(browser.get(each).status_code == 200 for each in set(inner[:3]))
    assert "<table>" in browser.get("/documentation/concepts/bounded-noise").text
    for wrong in ("/documentation/proofs/none", "/documentation/proofs/..%2f..%2fREADME", "/documentation/x/README"):
        assert browser.get(wrong).status_code in (400, 404)


def test_the_table_of_invariants_is_a_file_that_gives_the_same_statement(tmp_path: Path) -> None:
    browser = entered(tmp_path)
    query = [("chosen", "1"), ("set", "C1"), ("by-0", "block"), ("who-0", "relationship=householder")]
    query += [("and-0", "age=18 and over"), ("rho", "1/2")]
    shown = browser.get("/api/laboratory/invariants", params=query).json()
    assert shown["command"] == "confide risk invariants C1 own.toml --rho 0.5 --explain"
    assert 'where = { relationship = ["householder"], age = ["18 and over"] }' in shown["file"]
    file = tmp_path / "own.toml"
    file.write_text(shown["file"], encoding="utf-8")
    same = risk.invariants(["C1", str(file)], rho="1/2", explained=True)
    assert shown["answer"]["single_record"] == same.as_dict()["single_record"]
    assert shown["answer"]["explain"] == list(same.sentences)
    alone = browser.get("/api/laboratory/invariants", params={"chosen": "1", "set": "C1"}).json()
    assert alone["answer"]["single_record"] != shown["answer"]["single_record"]
    page = browser.get("/laboratory", params=[("experiment", "invariants"), *query]).text
    assert escape(same.sentences[0]) in page
    assert "nothing" in browser.get("/laboratory", params={"experiment": "invariants", "chosen": "1"}).text.lower()
    both = browser.get("/api/laboratory/invariants", params=[("chosen", "1"), ("set", "C1"), ("set", "2020")])
    assert both.status_code == 400, "records of two forms"


def test_values_that_nobody_offers_are_refused_or_ignored(tmp_path: Path) -> None:
    browser = entered(tmp_path)
    script = "<script>alert(1)</script>"
    assert browser.get("/laboratory", params={"experiment": "bound", "country": script}).status_code == 400
    assert browser.get("/laboratory", params={"experiment": "areas", "sizes": "../x.txt"}).status_code == 400
    ignored = {"experiment": "invariants", "by-0": "block", "who-0": script, "picture": script}
    for query in (ignored, {"experiment": "levels", "rhos": script}, {"experiment": "reconstruction", "leave": script}):
        assert script not in browser.get("/laboratory", params=query).text
    assert "relationship=householder" in dict(people_of("census-persons"))["Relationship to the householder"]
    (tmp_path / "sizes.txt").write_text("120\n40\n3000\n")
    far = browser.get("/api/laboratory/areas", params={"sizes": "sizes.txt"}).json()
    assert far["answer"]["size_classes"]
    assert "--populations sizes.txt" in far["command"]


def test_the_command_names_the_country_and_gives_its_figures(tmp_path: Path) -> None:
    shown = (
        entered(tmp_path).get("/api/laboratory/bound", params={"country": "MT", "bound": "5", "variance": "2"}).json()
    )
    answer = risk.bound(5, 2, country="MT")
    assert shown["command"] == "confide risk bound -D 5 -V 2 --country MT"
    assert shown["figures"]["Sums that there are"] == f"{answer.triples:,}"
    assert answer.triples != risk.bound(5, 2).triples


def test_the_seven_people_are_found_step_by_step(tmp_path: Path) -> None:
    browser = entered(tmp_path)
    page = browser.get("/laboratory", params={"experiment": "reconstruction", "step": "5"}).text
    assert "<b>84</b> male, Black, married" in page
    assert page.count("<li><a data-live") == 6
    assert "496 possible" in page
    less = browser.get("/api/laboratory/reconstruction", params={"leave": "Black women"}).json()
    assert less["figures"]["Sets of people with these figures"] == "2"
    assert less["command"] == "confide attack statistics --leave-out 'Black women' --digits 1"


@pytest.mark.parametrize(
    ("experiment", "picture", "words"),
    [
        ("belief", "risk-by-released", "R′"),
        ("levels", "posterior-by-levels", "expected posterior"),
        ("hierarchy", "hierarchy-sum-of-noises", "one discrete Gaussian"),
        ("hierarchy", "hierarchy-noise-variance", "variance of the noise"),
        ("areas", "epsilon-by-bound", "areas"),
    ],
)
def test_pictures_are_those_of_the_answer(tmp_path: Path, experiment: str, picture: str, words: str) -> None:
    drawn = entered(tmp_path).get("/laboratory/figure.svg", params={"experiment": experiment, "picture": picture})
    assert drawn.headers["content-type"].startswith("image/svg")
    assert words in drawn.text


def test_every_picture_of_the_laboratory_belongs_to_its_answer_and_stands_in_the_docs(tmp_path: Path) -> None:
    table = (Path(__file__).parents[2] / "docs" / "studio.md").read_text(encoding="utf-8")
    (tmp_path / "sizes.txt").write_text("120\n")
    for part in experiments().values():
        if part.id in SLOW:
            continue
        query = {"experiment": part.id} | ({"sizes": "sizes.txt"} if part.id == "areas" else {})
        page = entered(tmp_path).get("/laboratory", params=query).text
        for picture in part.pictures:
            assert len(part.pictures) == 1 or f'value="{picture.name}"' in page
            assert picture.paper.partition(";")[0].partition(":")[0] in table
        assert part.title in table


@given(place=st.integers(-80, 20))
def test_a_slider_that_is_moved_gives_a_short_number_and_stays_there(place: int) -> None:
    slider = experiments()["belief"].sliders[0]
    number = slider.number(place * 0.05)
    assert slider.place(number) == pytest.approx(place * 0.05, abs=0.03)
    query = {"rho": "0.1", "rho_was": "-1.0", "rho_at": str(place * 0.05)}
    expected = number if str(place * 0.05) != "-1.0" else Fraction(1, 10)
    assert moved("belief", query)["rho"] == expected
    assert moved("belief", query | {"rho_at": "-1.0", "rho": "1/3"})["rho"] == Fraction(1, 3), "typed, it is exact"


@pytest.mark.parametrize("asked", [{"rho": "0"}, {"rho": "-1"}, {"rho": "x"}, {"released": "1.5"}, {"prior": "2"}])
def test_a_number_out_of_range_is_a_finding(tmp_path: Path, asked: dict[str, str]) -> None:
    answer = entered(tmp_path).get("/api/laboratory/belief", params=asked)
    assert answer.status_code == 400
    assert answer.json()["findings"]
