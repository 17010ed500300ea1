"""Posteriors on trees: brute force on small supports, two levels as a special case, large trees, hard data."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from math import exp
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import fftconvolve

from confide.errors import ConfideError, InputError, ParameterError, SpecError
from confide.lab.risk.bayesian.counts import CountPrior, Flat, Geometric, ListedPrior, Point
from confide.lab.risk.bayesian.tree import (
    ALLOWED,
    Tree,
    TreeNode,
    is_concave,
    load_tree,
    log_convolve,
    parse_tree,
    target_leaf,
)
from confide.lab.risk.bayesian.two_level import TwoLevel

RHO1 = Fraction(64, 25) * Fraction(165, 4099) * Fraction(3945, 4097)
RHO2 = Fraction(64, 25) * Fraction(1256, 4099) * Fraction(1288, 4099)


def states(node: TreeNode) -> Iterator[tuple[dict[str, int], float]]:
    """Every combination of counts below a node with its weight; priors must be short lists."""
    if node.prior is not None:
        assert node.prior.last is not None
        for count in range(node.prior.first, node.prior.last + 1):
            weight = exp(float(node.prior.log_weight(np.array([count]))[0]))
            yield {node.name: count}, weight * _measured(node, count)
        return
    for parts in product(*(list(states(child)) for child in node.children)):
        counts: dict[str, int] = {}
        weight = 1.0
        for part, share in parts:
            counts |= part
            weight *= share
        whole = sum(counts[child.name] for child in node.children)
        yield counts | {node.name: whole}, weight * _measured(node, whole)


def _measured(node: TreeNode, count: int) -> float:
    return 1.0 if node.rho is None else exp(-float(node.rho) * ((node.released or 0) - count) ** 2)


def brute(root: TreeNode) -> dict[str, dict[int, float]]:
    found: dict[str, dict[int, float]] = {}
    total = 0.0
    for counts, weight in states(root):
        total += weight
        for name, count in counts.items():
            of = found.setdefault(name, {})
            of[count] = of.get(count, 0.0) + weight
    return {name: {count: weight / total for count, weight in law.items()} for name, law in found.items()}


@st.composite
def measured(draw: st.DrawFn) -> dict[str, object]:
    if draw(st.booleans()):
        return {}
    return {"rho": draw(st.fractions("1/20", 2, max_denominator=20)), "released": draw(st.integers(-6, 9))}


@st.composite
def priors(draw: st.DrawFn) -> CountPrior:
    weights = draw(st.lists(st.integers(0, 5), min_size=1, max_size=3).filter(any))
    return draw(st.sampled_from([ListedPrior(weights, first=draw(st.integers(0, 2))), Flat(2), Point(1)]))


@st.composite
def trees(draw: st.DrawFn) -> TreeNode:
    """Three levels with up to three children, of which one is the target."""
    middle = []
    for place in range(draw(st.integers(1, 2))):
        leaves = [
            TreeNode(f"leaf {place}.{each}", prior=draw(priors()), **draw(measured()))  # type: ignore[arg-type]
            for each in range(draw(st.integers(1, 2)))
        ]
        if place == 0:
            p = draw(st.sampled_from(["1/2", "1/9"]))
            leaves.append(target_leaf("target", p, known=draw(st.integers(0, 1)), **draw(measured())))  # type: ignore[arg-type]
        middle.append(TreeNode(f"middle {place}", *leaves, **draw(measured())))  # type: ignore[arg-type]
    return TreeNode("root", *middle, **draw(measured()))  # type: ignore[arg-type]


@settings(max_examples=60, deadline=None)
@given(trees())
def test_messages_give_the_laws_of_brute_force(root: TreeNode) -> None:
    expected, tree = brute(root), Tree(root)
    for name, law in expected.items():
        found = tree.posterior(name)
        assert found.bound <= ALLOWED
        for count, chance in law.items():
            assert found.law.p(count) == pytest.approx(chance, abs=1e-12)
    odds = expected["target"]
    low = min(odds)
    assert tree.posterior("target").log_odds == pytest.approx(np.log(odds[low + 1] / odds[low]), abs=1e-9)


def test_two_levels_with_one_flat_sibling_are_the_two_level_adversary() -> None:
    model = TwoLevel(RHO1, RHO2, 27)
    for x1, x2, y in ((2, 1, -1), (0, 14, 0), (5, -4, 60), (-3, 200, 150)):
        block = target_leaf("block", rho=RHO1, released=x1)
        rest = TreeNode("rest", rho=RHO1 / 27, released=y, prior=Flat())
        tree = Tree(TreeNode("above", block, rest, rho=RHO2, released=x2))
        assert tree.posterior("block").log_odds == pytest.approx(float(model.log_odds(x1, x2, y)), abs=1e-11)
        law = model.law_of_parent(x1, x2, y)
        found = tree.posterior("above").law
        assert found.p(law.first + 3) == pytest.approx(law.p(law.first + 3), abs=1e-13)


def test_siblings_that_are_known_leave_the_parent_to_the_target() -> None:
    """Siblings known to be empty: the parent is a second measurement of the target, log odds add up."""
    others = [TreeNode(f"other {place}", prior=Point(0)) for place in range(4)]
    tree = Tree(TreeNode("above", target_leaf("t", rho="1/10", released=2), *others, rho="1/4", released=3))
    assert tree.posterior("t").log_odds == pytest.approx(0.1 * 3 + 0.25 * 5, abs=1e-13)


def large(prior: CountPrior, mean: int, root: int | None = None, leaves: int = 30) -> Tree:
    draw = np.random.default_rng(3)
    middle = []
    for place in range(30):
        released = (draw.integers(0, mean + 1, leaves) + np.rint(draw.normal(0, 2.2, leaves))).astype(int).tolist()
        below = [
            TreeNode(f"leaf {place}.{each}", rho="0.0992", released=count, prior=prior)
            for each, count in enumerate(released)
        ]
        if place == 0:
            below[0] = target_leaf("target", rho="0.0992", released=1)
        middle.append(TreeNode(f"middle {place}", *below, rho="0.2465", released=sum(released)))
    total = sum(node.released or 0 for node in middle) if root is None else root
    return Tree(TreeNode("root", *middle, rho="0.05", released=total))


@pytest.mark.parametrize(("prior", "mean"), [(Geometric(1), 2), (Flat(3000), 200), (Flat(), 200), (Flat(5000), 3)])
def test_three_levels_of_thirty_with_thousands_of_counts(prior: CountPrior, mean: int) -> None:
    tree = large(prior, mean)
    begin = time.process_time()
    found = tree.posterior("target")
    assert time.process_time() - begin < 10
    assert found.bound <= ALLOWED
    assert found.law.probabilities.sum() == pytest.approx(1, abs=1e-13)
    root = tree.posterior("root").law
    assert abs(root.mean - (tree.root.released or 0)) < 60


def test_a_large_tree_of_gaussians_is_least_squares() -> None:
    """With flat priors and no boundary near, the target's log odds are those of the best linear estimate."""
    draw = np.random.default_rng(5)
    leaves, rho, above = 30, 0.1, 0.25
    released = (1000 + draw.integers(-5, 6, leaves - 1)).tolist()
    block = target_leaf("t", known=1000, rho="1/10", released=1002)
    others = [
        TreeNode(f"o{place}", rho="1/10", released=count, prior=Flat(5000)) for place, count in enumerate(released)
    ]
    parent = sum(released) + 1003
    found = Tree(TreeNode("above", block, *others, rho="1/4", released=parent)).posterior("t").log_odds
    w = 1 / (1 / above + (leaves - 1) / rho)
    assert found == pytest.approx(rho * (2 * 2 - 1) + w * (2 * 3 - 1), abs=1e-9)


def test_released_counts_that_contradict_each_other_do_not_underflow() -> None:
    """The parent says 3,000, the siblings 0: each message matters at exp(−1000) of its peak."""
    others = [TreeNode(f"o{place}", rho="0.1", released=0, prior=Flat(3000)) for place in range(29)]
    tree = Tree(TreeNode("above", target_leaf("t", rho="0.1", released=0), *others, rho="1/4", released=3000))
    w = 1 / (4 + 29 / 0.1)
    assert tree.posterior("t").log_odds == pytest.approx(-0.1 + w * (2 * 3000 - 1), rel=1e-9)


def test_a_fourier_convolution_would_not_do() -> None:
    """The same tails by Fourier transforms are rounding noise; in logarithms they are right to the last digits."""
    counts = np.arange(60.0)
    one, other = -0.5 * (counts - 3) ** 2, -0.5 * (counts - 5) ** 2
    found = log_convolve(one, other, concave=True)
    exact_tail = np.array([np.logaddexp.reduce(one[20:] + other[::-1][:40]), found[79]])
    assert exact_tail[0] == pytest.approx(exact_tail[1], abs=1e-11)
    with np.errstate(invalid="ignore", divide="ignore"):
        fourier = np.log(fftconvolve(np.exp(one), np.exp(other)))
    assert fourier[79] != pytest.approx(found[79], rel=0.1)
    assert found[8] == pytest.approx(fourier[8], abs=1e-12)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 30), st.integers(1, 30), st.integers(0, 2**32 - 1), st.booleans())
def test_convolutions_in_logarithms(few: int, many: int, seed: int, concave: bool) -> None:
    draw = np.random.default_rng(seed)
    one, other = draw.normal(0, 30, few), draw.normal(0, 30, many)
    if concave:
        one, other = (np.cumsum(np.sort(part)[::-1]) for part in (one, other))
        assert is_concave(one)
        assert is_concave(other)
    else:
        one[draw.random(few) < 0.3] = -np.inf
    found = log_convolve(one, other, concave=concave)
    for n in range(few + many - 1):
        terms = [one[i] + other[n - i] for i in range(few) if 0 <= n - i < many]
        assert found[n] == pytest.approx(np.logaddexp.reduce(terms), rel=1e-12, abs=1e-12)


def test_trees_that_are_none() -> None:
    leaf = TreeNode("leaf", prior=Point(0))
    for make in (
        lambda: TreeNode("x"),
        lambda: TreeNode("x", leaf, prior=Point(0)),
        lambda: TreeNode("x", prior=Flat()),
        lambda: TreeNode("x", prior=Point(0), rho="1"),
        lambda: TreeNode("x", prior=Point(0), rho="1", released=1.5),  # type: ignore[arg-type]
        lambda: Tree(TreeNode("x", leaf, leaf)),
        lambda: Tree(TreeNode("x", leaf)).posterior("y"),
        lambda: Tree(TreeNode("x", leaf)).posterior("leaf").log_odds,
        lambda: target_leaf("t", "1"),
        lambda: Tree(TreeNode("x", TreeNode("y", prior=Geometric(10**8)), target_leaf("t"))).posterior("t"),
    ):
        with pytest.raises(ParameterError):
            make()  # type: ignore[no-untyped-call]


FILE = """
target = "block"
[[nodes]]
name = "county"
rho = 0.05
released = 12
[[nodes]]
name = "tract"
parent = "county"
rho = "0.2465"
released = 1
[[nodes]]
name = "elsewhere"
parent = "county"
number = 3
prior = "flat:100"
[[nodes]]
name = "block"
parent = "tract"
rho = "0.0992"
released = 2
prior = "1/2"
[[nodes]]
name = "others"
parent = "tract"
rho = "0.0992"
released = [0, 1, -1]
prior = ["9/10", 0.1]
"""


def test_a_tree_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "tree.toml").write_text(FILE, encoding="utf-8")
    question = load_tree(tmp_path / "tree.toml")
    others = [
        TreeNode(f"others.{place}", rho="0.0992", released=count, prior=ListedPrior([9, 1]))
        for place, count in enumerate((0, 1, -1), start=1)
    ]
    tract = TreeNode("tract", target_leaf("block", rho="0.0992", released=2), *others, rho="0.2465", released=1)
    elsewhere = [TreeNode(f"elsewhere.{place}", prior=Flat(100)) for place in (1, 2, 3)]
    tree = Tree(TreeNode("county", tract, *elsewhere, rho="1/20", released=12))
    assert question.target == "block"
    found = question.tree.posterior("block").log_odds
    assert found == pytest.approx(tree.posterior("block").log_odds, abs=1e-13)
    as_json = {
        "target": "a",
        "nodes": [
            {"name": "p", "rho": "1/4", "released": 3},
            {"name": "a", "parent": "p", "rho": 0.1, "released": 2},
            {"name": "b", "parent": "p", "prior": "point:0"},
        ],
    }
    (tmp_path / "tree.json").write_text(json.dumps(as_json), encoding="utf-8")
    assert load_tree(tmp_path / "tree.json").tree.posterior("a").log_odds == pytest.approx(0.3 + 1.25, abs=1e-13)


def test_every_mistake_of_a_file_is_reported(tmp_path: Path) -> None:
    def findings(values: object) -> str:
        with pytest.raises(SpecError) as caught:
            parse_tree(values)
        return str(caught.value)

    root = {"name": "root", "rho": "1", "released": 1}
    leaf = {"name": "leaf", "parent": "root", "prior": "flat:3"}
    both = findings({"target": 3, "colour": 1, "nodes": [root | {"size": 3}, {"parent": "root"}]})
    assert all(part in both for part in ("target", "colour", "size", "nodes[1].name"))
    both = findings({"target": "nobody", "nodes": [root, leaf, leaf]})
    assert all(part in both for part in ("nobody", "several nodes have the same name"))
    assert "no node has this name" in findings({"target": "leaf", "nodes": [leaf | {"parent": "x"}, root]})
    assert "root" in findings({"target": "leaf", "nodes": [root, leaf | {"parent": None}]})
    loop = [{"name": "a", "parent": "b"}, {"name": "b", "parent": "a"}]
    assert "hang" in findings({"target": "leaf", "nodes": [root, leaf, *loop]} | {"target": "leaf"})
    for wrong in ({"prior": "normal:1"}, {"rho": "1"}, {"rho": "1", "released": 1.5}, {"number": 0}, {"prior": 3}):
        assert "nodes[2]" in findings(
            {"target": "leaf", "nodes": [root, leaf | {"prior": "1/2"}, leaf | {"name": "other"} | wrong]}
        )
    assert "target" in findings({"target": "root", "nodes": [root, leaf]})
    assert "this is no tree" in findings([])
    with pytest.raises(InputError):
        load_tree(tmp_path / "missing.toml")
    (tmp_path / "broken.toml").write_text("target = [", encoding="utf-8")
    with pytest.raises(ConfideError):
        load_tree(tmp_path / "broken.toml")
