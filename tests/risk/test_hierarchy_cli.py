"""``confide risk hierarchy`` as text, as JSON, and its pictures."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from tests.kits import commands

from confide.report import charts

run = partial(commands.run, "risk", "hierarchy")
ask = partial(commands.run_json, "risk", "hierarchy")
codes = partial(commands.codes, "risk", "hierarchy")
CENSUS = ["--rho1", "0.099226354", "--rho2", "0.24648451", "--siblings", "27"]


def test_the_published_release() -> None:
    found = ask(*CENSUS, "--released", "2,1,-1", "--prior", "1/2")
    assert found["posterior"] == pytest.approx(0.503288, abs=5e-7)
    assert found["posterior_unrestricted"] == pytest.approx(0.577702, abs=5e-7)
    assert found["posterior_without_hierarchy"] == pytest.approx(0.573875, abs=5e-7)
    assert found["effective_rho"] == pytest.approx(0.102847, abs=5e-7)
    assert found["law_of_x2"]["0"] == pytest.approx(0.129354, abs=6e-7)
    assert found["law_of_x2_unrestricted"]["1"] == pytest.approx(0.395028, abs=6e-7)


def test_released_counts_may_begin_with_a_negative_one() -> None:
    assert ask(*CENSUS, "--released", "-2,1,-1")["released"] == {"x1": -2, "x2": 1, "y": -1}
    assert ask(*CENSUS, "--released=-2,1,-1")["released"]["x1"] == -2


def test_other_priors_of_the_parent() -> None:
    flat = ask(*CENSUS, "--released", "2,1,-1")["posterior"]
    ten = ask(*CENSUS, "--released", "2,1,-1", "--prior-x2", "uniform:10")
    assert ten["posterior"] == pytest.approx(0.527089, abs=6e-7)
    assert ten["posterior"] != flat
    point = ask(*CENSUS, "--released", "2,1,-1", "--prior-x2", "point:25")
    assert point["law_of_x2"] == {"25": 1.0}


def test_accuracy() -> None:
    found = ask(*CENSUS, "--accuracy", "--x2", "1,4", "--ties", "one")
    rows = {(row["x2"], row["variant"]): row for row in found["accuracy"]}
    assert rows[1, "stated"]["correct_given_1"] == pytest.approx(0.318191, abs=6e-7)
    assert rows[1, "stated"]["correct_given_0"] == pytest.approx(0.889271, abs=6e-7)
    assert rows[4, "unrestricted"]["correct_given_1"] == pytest.approx(0.590092, abs=6e-7)
    assert rows[1, "without-hierarchy"]["average_accuracy"] == pytest.approx(0.588860, abs=6e-7)
    changes = {(row["x2"], row["variant"]): row for row in found["changes"]}
    assert changes[1, "unrestricted"]["gain"] == pytest.approx(0.023776, abs=6e-7)
    assert changes[1, "unrestricted"]["in_region_of_figure_4"]["mass"] == pytest.approx(0.9898, abs=5e-5)


def test_post_processed() -> None:
    found = ask(*CENSUS, "--post-processed", "1,100")["post_processed"]
    assert found["risk"] == {"1": pytest.approx(1.032219, abs=6e-7), "100": pytest.approx(1.047947, abs=6e-7)}
    assert found["bound"] == pytest.approx(1.049005, abs=6e-7)


def test_as_text() -> None:
    words = [*CENSUS, "--released", "2,1,-1", "--accuracy", "--x2", "1", "--post-processed", "10"]
    text = run(*words)
    for part in ("0.503288", "0.577702", "0.102847", "31.8191%", "88.9271%", "1.041723", "is not a posterior"):
        assert part in text


def test_a_tree(tmp_path: Path) -> None:
    file = tmp_path / "tree.toml"
    file.write_text(
        'target = "block"\n'
        '[[nodes]]\nname = "above"\nrho = 0.25\nreleased = 3\n'
        '[[nodes]]\nname = "block"\nparent = "above"\nrho = "0.1"\nreleased = 2\nprior = "1/2"\n'
        '[[nodes]]\nname = "others"\nparent = "above"\nnumber = 3\nprior = "point:0"\n',
        encoding="utf-8",
    )
    found = ask("--tree", file, "--node", "above")
    assert found["log_odds"] == pytest.approx(0.3 + 1.25, abs=1e-12)
    assert found["laws"]["above"]["1"] == pytest.approx(found["posterior"])
    assert found["nodes"] == 5
    assert "posterior probability" in run("--tree", file, "--node", "above")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--rho1", "0.1", "--rho2", "0.2"], "missing-option"),
        ([*CENSUS, "--released", "2,1"], "not-counts"),
        ([*CENSUS, "--released", "2,1,x"], "not-counts"),
        ([*CENSUS, "--released", "2,1,-1", "--prior", "1"], "not-a-probability"),
        ([*CENSUS, "--prior-x2", "uniform:ten"], "bad-prior"),
        ([*CENSUS, "--accuracy", "--x2", "0"], "not-counts"),
        (["--rho1", "1e-40", "--rho2", "1", "--siblings", "3"], "out-of-range"),
    ],
)
def test_mistakes(words: list[str], code: str) -> None:
    assert codes(*words) == [code]


@pytest.mark.slow
@pytest.mark.skipif(not charts.available(), reason="the extra `plots` is not installed")
def test_pictures(tmp_path: Path) -> None:
    # Strong measurements, so that few releases have to be looked at.
    words = ["--rho1", "2", "--rho2", "2", "--siblings", "3", "--plots", tmp_path]
    names = [Path(path).name for path in ask(*words)["plots"]]
    assert names == [
        "hierarchy-accuracy-by-parent.svg",
        "hierarchy-accuracy-by-rho2.svg",
        "hierarchy-decisions.svg",
        "hierarchy-post-processing.svg",
    ]
    assert "changed to “not in”" in (tmp_path / "hierarchy-decisions.svg").read_text(encoding="utf-8")
    assert "the bound" in (tmp_path / "hierarchy-post-processing.svg").read_text(encoding="utf-8")
