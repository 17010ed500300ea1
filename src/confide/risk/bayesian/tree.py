"""The adversary who uses a whole tree of noisy counts: exact posteriors by passing messages.

Every node has a count; an inner node's count is the sum of its children's. Nodes may be measured: x* is published with
weights exp(−ρ(x*−n)²). Leaves have independent priors. The posterior of a node's count is proportional to

  up_v(n)·down_v(n),   up_v = m_v · (up_c1 * up_c2 * …)  with  m_v(n) = exp(−ρ_v(x_v*−n)²), for a leaf m_v·π_v,
                       down_c(n) = Σ_k s(k)·m_v(n+k)·down_v(n+k)  with  s = the convolution of c's siblings' up.

A target is a leaf with a law on two counts, so that nothing special is done for it. Two levels, one sibling with ρ1/d
and a flat prior are :class:`confide.risk.bayesian.two_level.TwoLevel`.

Messages are logarithms (:mod:`confide.risk.bayesian.log_convolution`). Their ends are cut where they fall below
exp(−C) of the peak. What all cuts can change together is bounded by (weight cut off)·(total weight of all other
leaves) over the weight that was found; if the bound is above :data:`ALLOWED`, C is quadrupled and the work done again.
Derivation: ``docs/proofs/bayesian-hierarchy.md``, section 4.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import exp, log

import numpy as np

from confide.errors import Finding, ParameterError, Place
from confide.exact import Exact, probability
from confide.risk.bayesian.counts import LARGEST_COUNT, CountLaw, FloatArray, bounded_rho, whole
from confide.risk.bayesian.log_convolution import is_concave, log_convolve
from confide.risk.bayesian.messages import Measured, Message, Passing
from confide.risk.bayesian.priors import CountPrior, Flat, Given

ALLOWED = 1e-14
"""The share of the posterior's weight that cutting may change; for a law on two counts, of the smaller weight."""
_CUTS = tuple(200.0 * 4**step for step in range(9))


@dataclass(frozen=True, init=False)
class Node:
    """A count in a tree: measured with ``rho`` as ``released`` or not at all; a leaf has a prior, others children."""

    name: str
    rho: Fraction | None
    released: int | None
    prior: CountPrior | None
    children: tuple[Node, ...]

    def __init__(
        self,
        name: str,
        *children: Node,
        rho: Exact | None = None,
        released: int | None = None,
        prior: CountPrior | None = None,
    ):
        if (rho is None) != (released is None):
            raise _bad(name, "a node is measured by half", "a rho and a released count, or neither")
        if (prior is None) != bool(children):
            raise _bad(name, "a node is neither a leaf nor has children, or is both", "a prior or children")
        if released is not None:
            whole(released, f"the released count of {name}", lowest=-LARGEST_COUNT)
        if isinstance(prior, Flat) and prior.last is None and rho is None:
            raise _bad(name, "a leaf has an endless prior and no measurement", "a measurement, or flat:LAST")
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "rho", None if rho is None else bounded_rho(rho, f"the rho of {name}"))
        object.__setattr__(self, "released", released)
        object.__setattr__(self, "prior", prior)
        object.__setattr__(self, "children", children)

    @property
    def measured(self) -> Measured:
        """m_v."""
        return Measured() if self.rho is None or self.released is None else Measured(float(self.rho), self.released)

    def nodes(self) -> Iterator[Node]:
        """The node and all below it."""
        yield self
        for child in self.children:
            yield from child.nodes()


def target(
    name: str, prior: Exact = Fraction(1, 2), *, known: int = 0, rho: Exact | None = None, released: int | None = None
) -> Node:
    """A leaf whose count is ``known``, or ``known`` + 1 with the prior probability."""
    p = probability(prior, "the prior probability")
    return Node(name, rho=rho, released=released, prior=Given((1 - p, p), first=whole(known, "the known count")))


@dataclass(frozen=True)
class TreePosterior:
    """The posterior of one node's count."""

    law: CountLaw
    log_probabilities: FloatArray
    bound: float
    """What leaving out the ends of messages can have changed, as a share."""

    @property
    def log_odds(self) -> float:
        """For a target: ln of P(known + 1)/P(known)."""
        if len(self.log_probabilities) != 2:
            raise _bad("", "this node is not a target", "a leaf with two possible counts")
        return float(self.log_probabilities[1] - self.log_probabilities[0])


@dataclass(frozen=True)
class Tree:
    """All counts of a hierarchy, as an adversary sees them.

    >>> rest = Node("rest", rho="0.1", released=-1, prior=Flat())
    >>> tree = Tree(Node("above", target("block", rho="0.1", released=2), rest, rho="0.25", released=1))
    >>> round(tree.posterior("block").law.p(1), 4)
    0.5488
    """

    root: Node

    def __post_init__(self) -> None:
        name, times = Counter(node.name for node in self.root.nodes()).most_common(1)[0]
        if times > 1:
            raise _bad(name, "several nodes have the same name", "names that are all different")

    def posterior(self, name: str) -> TreePosterior:
        """The law of the count of the node ``name``, given everything that was released."""
        path = self._path(self.root, name)
        if not path:
            raise _bad(name, "there is no node of this name", "the name of a node")
        for cut in _CUTS:
            found = _posterior(path, Passing(cut))
            if found.bound <= ALLOWED:
                return found
        raise _bad(name, "the released counts contradict each other", "counts that noise of this size could produce")

    def _path(self, node: Node, name: str) -> list[Node]:
        if node.name == name:
            return [node]
        below = next(filter(None, (self._path(child, name) for child in node.children)), [])
        return [node, *below] if below else []


def _up(node: Node, passing: Passing) -> Message:
    if node.prior is not None:
        return passing.leaf(node.prior, node.measured)
    joined = passing.joined([_up(child, passing) for child in node.children])
    assert joined is not None
    return passing.times(joined, node.measured)


def _posterior(path: list[Node], passing: Passing) -> TreePosterior:
    """Up from everything beside the path and from its end, then down the path."""
    end = _up(path[-1], passing)
    beside = [
        passing.joined([_up(child, passing) for child in node.children if child is not after])
        for node, after in pairwise(path)
    ]
    present = [message for message in beside if message is not None]
    first = end.first + sum(message.first for message in present)
    down = np.zeros(len(end) + sum(len(message) - 1 for message in present))
    scale, weight = end.scale, end.weight + sum(message.weight for message in present)
    for node, message in zip(path, beside, strict=False):
        down = down + node.measured.logs(first, len(down))
        if message is not None:
            concave = message.concave and is_concave(down)
            summed = log_convolve(down, message.logs[::-1], concave=concave)
            down = summed[len(message) - 1 : len(down)]
            first, scale = first - message.first, scale + message.scale
        top = float(down.max())
        down, scale = down - top, scale + top
    joint = end.logs + down
    total = float(np.logaddexp.reduce(joint))
    reference = float(joint[np.isfinite(joint)].min()) if len(joint) <= 2 else total
    bound = passing.log_lost + weight - (scale + reference)
    logs = joint - total
    return TreePosterior(CountLaw(end.first, np.exp(logs)), logs, exp(min(bound, 1 - log(ALLOWED))))


def _bad(name: str, what: str, expected: str) -> ParameterError:
    return ParameterError(
        Finding(
            code="bad-tree",
            what=what,
            where=Place(path=name) if name else Place(),
            found=name or None,
            expected=expected,
            remedy="correct the tree",
        )
    )
