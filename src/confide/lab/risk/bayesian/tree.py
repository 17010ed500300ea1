"""The adversary who uses a whole tree of noisy counts: exact posteriors by passing messages.

Every node has a count; an inner node's count is the sum of its children's. Nodes may be measured: x* is published with
weights exp(−ρ(x*−n)²). Leaves have independent priors. The posterior of a node's count is proportional to

  up_v(n)·down_v(n),   up_v = m_v · (up_c1 * up_c2 * …)  with  m_v(n) = exp(−ρ_v(x_v*−n)²), for a leaf m_v·π_v,
                       down_c(n) = Σ_k s(k)·m_v(n+k)·down_v(n+k)  with  s = the convolution of c's siblings' up.

A target is a leaf with a law on two counts, so that nothing special is done for it. Two levels, one sibling with ρ1/d
and a flat prior are :class:`confide.lab.risk.bayesian.two_level.TwoLevel`.

Messages are logarithms (:mod:`confide.lab.risk.bayesian.tree`). Their ends are cut where they fall below
exp(−C) of the peak. What all cuts can change together is bounded by (weight cut off)·(total weight of all other
leaves) over the weight that was found; if the bound is above :data:`ALLOWED`, C is quadrupled and the work done again.
Derivation: ``docs/proofs/bayesian-hierarchy.md``, section 4.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from math import exp, expm1, inf, log
from pathlib import Path
from typing import Any

import numba
import numpy as np
from pydantic import Field

from confide.documents import FileKind, KeyPath, Loaded, Part, Problem, load, load_values
from confide.errors import ConfideError, InputError, ParameterError, Place
from confide.exact import Exact, probability
from confide.lab.risk.bayesian import counts as bayesian_counts
from confide.lab.risk.bayesian.counts import Flat

# The compiled loops of :mod:`confide.lab.risk.bayesian.tree`.


@numba.njit("float64[::1](float64[::1], float64[::1])", cache=True, nogil=True, boundscheck=False)
def convolve_all(short: bayesian_counts.FloatArray, long: bayesian_counts.FloatArray) -> bayesian_counts.FloatArray:
    """All terms are looked at twice: for the largest, and to be added up."""
    few, many = short.shape[0], long.shape[0]
    result = np.empty(few + many - 1)
    for n in range(few + many - 1):
        # The pairs of places that add up to n, and the largest of their terms.
        begin, end = max(0, n - many + 1), min(few, n + 1)
        top = -np.inf
        for i in range(begin, end):
            top = max(top, short[i] + long[n - i])
        if top == -np.inf:
            result[n] = top
            continue
        # All terms as parts of the largest, without those that a double would lose.
        total = 0.0
        for i in range(begin, end):
            term = short[i] + long[n - i] - top
            if term > -46.0:
                total += np.exp(term)
        result[n] = top + np.log(total)
    return result


@numba.njit("float64[::1](float64[::1], float64[::1])", cache=True, nogil=True, boundscheck=False)
def convolve_near_peak(
    short: bayesian_counts.FloatArray, long: bayesian_counts.FloatArray
) -> bayesian_counts.FloatArray:
    """Terms around the peak alone, which moves forward with n: for concave logarithms."""
    few, many = short.shape[0], long.shape[0]
    result = np.empty(few + many - 1)
    peak = 0
    for n in range(few + many - 1):
        # The peak of the last n, moved to that of this one: forward, and back where it went too far.
        begin, end = max(0, n - many + 1), min(few, n + 1)
        peak = min(max(peak, begin), end - 1)
        top = short[peak] + long[n - peak]
        while peak + 1 < end and short[peak + 1] + long[n - peak - 1] >= top:
            peak += 1
            top = short[peak] + long[n - peak]
        while peak - 1 >= begin and short[peak - 1] + long[n - peak + 1] > top:
            peak -= 1
            top = short[peak] + long[n - peak]
        # From the peak to both sides, until terms are too small to count: of a concave law all further ones are.
        total = 1.0
        for i in range(peak + 1, end):
            term = short[i] + long[n - i] - top
            if term < -46.0:
                break
            total += np.exp(term)
        for i in range(peak - 1, begin - 1, -1):
            term = short[i] + long[n - i] - top
            if term < -46.0:
                break
            total += np.exp(term)
        result[n] = top + np.log(total)
    return result


# Convolution of weights that are kept as logarithms: nothing underflows, and every term is as accurate as the
# largest.
#
# The posterior of a tree can lie where single messages are exp(−1000) of their peak. A convolution by Fourier
# transforms is accurate to 1e-16 of the *peak*, so that there it returns rounding noise, even negative weights; a
# direct one in plain numbers underflows at exp(−745). Here each result is
#
#   ln Σ_i exp(f_i + g_{n−i}) = m + ln Σ exp(f_i + g_{n−i} − m),   m the largest term,
#
# with terms below exp(−46) of the largest left out: with N terms the result is low by at most N·1e-20, apart from the
# rounding of sums of positive numbers.
#
# If f and g are concave, so is the term in i: its peak moves forward with n, and what matters is an interval around
# it. Then the work is that of the intervals; otherwise all terms are looked at.


MOST_TERMS = 2e10
_CONCAVE = 1e-9
"""Second differences up to this are rounding: over 10^4 places they add up to 0.05, far below what is negligible."""


def is_concave(logs: bayesian_counts.FloatArray) -> bool:
    """Whether logarithms of weights are finite and concave, but for rounding."""
    return bool(np.isfinite(logs).all()) and bool((np.diff(logs, 2) <= _CONCAVE).all())


def log_convolve(
    one: bayesian_counts.FloatArray, other: bayesian_counts.FloatArray, *, concave: bool
) -> bayesian_counts.FloatArray:
    """ln of the convolution of exp(one) and exp(other). ``concave`` says that both are, by :func:`is_concave`."""
    if len(one) * len(other) > MOST_TERMS:
        raise ParameterError("too-many-terms", one=len(one), other=len(other), most_terms=MOST_TERMS)
    # Here, because compiled code is slow to load and most commands do without.

    short, long = sorted((np.ascontiguousarray(one), np.ascontiguousarray(other)), key=len)
    summed: bayesian_counts.FloatArray = convolve_near_peak(short, long) if concave else convolve_all(short, long)
    return summed


# Messages on a tree: weights of counts as logarithms, joined by convolution, with an account of what was cut off.
#
# Internal to :mod:`confide.lab.risk.bayesian.tree`. A message is exp(scale + logs) for a range of counts, with the
# largest of ``logs`` at 0; its scale is common to all counts, so that it cancels from posteriors.


_WIDEST = 1 << 24


@dataclass(frozen=True)
class NodeMeasurement:
    """exp(−ρ(x*−n)²), or 1 if nothing was released."""

    rho: float = 0.0
    released: int = 0

    def logs(self, first: int, number: int) -> bayesian_counts.FloatArray:
        """For the counts from ``first`` on."""
        return -self.rho * (self.released - np.arange(first, first + number, dtype=np.float64)) ** 2


@dataclass(frozen=True)
class Message:
    """Weights of the counts from ``first`` on. ``weight`` is ln of the product of the total weights of its leaves."""

    first: int
    logs: bayesian_counts.FloatArray
    scale: float
    weight: float
    concave: bool

    def __len__(self) -> int:
        return len(self.logs)


@dataclass
class MessagePassing:
    """One go, in which messages are cut where they fall below exp(−cut) of their peak.

    ``lost`` has, for every cut, ln of the weight cut off, divided by that of the leaves it belongs to.
    """

    cut: float
    lost: list[float] = field(default_factory=list)

    @property
    def log_lost(self) -> float:
        """ln of all that was cut off, over the weight of all leaves: no factor of an inner node exceeds 1."""
        return float(np.logaddexp.reduce([*self.lost, -inf]))

    def leaf(self, prior: bayesian_counts.CountPrior, measured: NodeMeasurement) -> Message:
        """π(n)·exp(−ρ(x*−n)²): the whole of a given law, or what lies around the peak of a log-concave one."""
        centre = float(measured.released if measured.rho else prior.first)
        mode = prior.mode(np.array([centre]), measured.rho or 1e-12)
        middle, half = (prior.first, bayesian_counts.LARGEST_COUNT) if mode is None else (int(mode[0]), 64)
        while True:
            low = max(prior.first, middle - half)
            high = middle + half if prior.last is None else min(prior.last, middle + half)
            if high - low >= _WIDEST:
                raise _too_wide(high - low + 1)
            logs = prior.log_weight(np.arange(low, high + 1, dtype=np.int64)) + measured.logs(low, high - low + 1)
            ends = [(logs[0], logs[1])] if low > prior.first else []
            ends += [(logs[-1], logs[-2])] if high != prior.last else []
            if all(outer < inner and outer < logs.max() - self.cut for outer, inner in ends):
                break
            half *= 2
        # Beyond an open end the ratio of neighbours only falls, so that the tail is at most outer·r/(1−r).
        tails = [float(2 * outer - inner) - log(-expm1(float(outer - inner))) for outer, inner in ends]
        weight = float(np.logaddexp.reduce([*logs, *tails]))
        self.lost += [tail - weight for tail in tails]
        return self.trimmed(low, logs, 0.0, weight)

    def joined(self, messages: list[Message]) -> Message | None:
        """The law of a sum, by convolution in pairs, so that long messages meet late."""
        while len(messages) > 1:
            pairs = [self._pair(*messages[place : place + 2]) for place in range(0, len(messages) - 1, 2)]
            messages = pairs + messages[2 * len(pairs) :]
        return messages[0] if messages else None

    def times(self, message: Message, measured: NodeMeasurement) -> Message:
        """A message with the factor of its node."""
        logs = message.logs + measured.logs(message.first, len(message))
        return self.trimmed(message.first, logs, message.scale, message.weight)

    def _pair(self, one: Message, other: Message) -> Message:
        logs = log_convolve(one.logs, other.logs, concave=one.concave and other.concave)
        return self.trimmed(one.first + other.first, logs, one.scale + other.scale, one.weight + other.weight)

    def trimmed(self, first: int, logs: bayesian_counts.FloatArray, scale: float, weight: float) -> Message:
        """A message without its ends, which are accounted for."""
        top = float(logs.max())
        places = np.flatnonzero(logs >= top - self.cut)
        begin, end = int(places[0]), int(places[-1]) + 1
        gone = np.concatenate([logs[:begin], logs[end:]])
        if np.isfinite(gone).any():
            self.lost.append(float(np.logaddexp.reduce(gone)) + scale - weight)
        inside = logs[begin:end] - top
        return Message(first + begin, inside, scale + top, weight, is_concave(inside))


def _too_wide(counts: int) -> ParameterError:
    return ParameterError("too-many-counts", counts=counts, widest=_WIDEST)


ALLOWED = 1e-14
"""The share of the posterior's weight that cutting may change; for a law on two counts, of the smaller weight."""
_CUTS = tuple(200.0 * 4**step for step in range(9))


@dataclass(frozen=True, init=False)
class TreeNode:
    """A count in a tree: measured with ``rho`` as ``released`` or not at all; a leaf has a prior, others children."""

    name: str
    rho: Fraction | None
    released: int | None
    prior: bayesian_counts.CountPrior | None
    children: tuple[TreeNode, ...]

    def __init__(
        self,
        name: str,
        *children: TreeNode,
        rho: Exact | None = None,
        released: int | None = None,
        prior: bayesian_counts.CountPrior | None = None,
    ):
        if (rho is None) != (released is None):
            raise ParameterError("bad-tree/measured", where=Place(path=name) if name else Place(), found=name or None)
        if (prior is None) != bool(children):
            raise ParameterError("bad-tree/children", where=Place(path=name) if name else Place(), found=name or None)
        if released is not None:
            bayesian_counts.checked_count(
                released, f"the released count of {name}", lowest=-bayesian_counts.LARGEST_COUNT
            )
        if isinstance(prior, Flat) and prior.last is None and rho is None:
            raise ParameterError("bad-tree/endless", where=Place(path=name) if name else Place(), found=name or None)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "rho", None if rho is None else bayesian_counts.bounded_rho(rho, f"the rho of {name}"))
        object.__setattr__(self, "released", released)
        object.__setattr__(self, "prior", prior)
        object.__setattr__(self, "children", children)

    @property
    def measured(self) -> NodeMeasurement:
        """m_v."""
        return (
            NodeMeasurement()
            if self.rho is None or self.released is None
            else NodeMeasurement(float(self.rho), self.released)
        )

    def nodes(self) -> Iterator[TreeNode]:
        """The node and all below it."""
        yield self
        for child in self.children:
            yield from child.nodes()


def target_leaf(
    name: str, prior: Exact = Fraction(1, 2), *, known: int = 0, rho: Exact | None = None, released: int | None = None
) -> TreeNode:
    """A leaf whose count is ``known``, or ``known`` + 1 with the prior probability.

    Args:
        name: The name of the node.
        prior: The belief that the target is there.
        known: The count without the target.
        rho: The budget of its noisy count, if it was measured.
        released: The noisy count.

    Returns:
        A leaf with two possible counts.

    >>> target_leaf("block", known=3).prior.first
    3
    """
    p = probability(prior, "the prior probability")
    return TreeNode(
        name,
        rho=rho,
        released=released,
        prior=bayesian_counts.ListedPrior((1 - p, p), first=bayesian_counts.checked_count(known, "the known count")),
    )


@dataclass(frozen=True)
class TreePosterior:
    """The posterior of one node's count."""

    law: bayesian_counts.CountLaw
    log_probabilities: bayesian_counts.FloatArray
    bound: float
    """What leaving out the ends of messages can have changed, as a share."""

    @property
    def log_odds(self) -> float:
        """For a target: ln of P(known + 1)/P(known)."""
        if len(self.log_probabilities) != 2:
            raise ParameterError("bad-tree/target")
        return float(self.log_probabilities[1] - self.log_probabilities[0])


@dataclass(frozen=True)
class Tree:
    """All counts of a hierarchy, as an adversary sees them.

    >>> rest = TreeNode("rest", rho="0.1", released=-1, prior=Flat())
    >>> tree = Tree(TreeNode("above", target_leaf("block", rho="0.1", released=2), rest, rho="0.25", released=1))
    >>> round(tree.posterior("block").law.p(1), 4)
    0.5488
    """

    root: TreeNode

    def __post_init__(self) -> None:
        name, times = Counter(node.name for node in self.root.nodes()).most_common(1)[0]
        if times > 1:
            raise ParameterError("bad-tree/several", where=Place(path=name) if name else Place(), found=name or None)

    def posterior(self, name: str) -> TreePosterior:
        """The law of the count of a node, given everything that was released.

        Args:
            name: The name of the node.

        Returns:
            The law, with a bound for what leaving out the ends of messages can have changed.
        """
        path = self._path(self.root, name)
        if not path:
            raise ParameterError("bad-tree/node-name", where=Place(path=name) if name else Place(), found=name or None)
        for cut in _CUTS:
            posterior = _posterior(path, MessagePassing(cut))
            if posterior.bound <= ALLOWED:
                return posterior
        raise ParameterError("bad-tree/released", where=Place(path=name) if name else Place(), found=name or None)

    def _path(self, node: TreeNode, name: str) -> list[TreeNode]:
        if node.name == name:
            return [node]
        below = next(filter(None, (self._path(child, name) for child in node.children)), [])
        return [node, *below] if below else []


def _up(node: TreeNode, passing: MessagePassing) -> Message:
    if node.prior is not None:
        return passing.leaf(node.prior, node.measured)
    joined = passing.joined([_up(child, passing) for child in node.children])
    assert joined is not None
    return passing.times(joined, node.measured)


def _posterior(path: list[TreeNode], passing: MessagePassing) -> TreePosterior:
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
    return TreePosterior(bayesian_counts.CountLaw(end.first, np.exp(logs)), logs, exp(min(bound, 1 - log(ALLOWED))))


# A tree of noisy counts in a small file, TOML or JSON, read with every mistake reported at once.
#
# ::
#
#   target = "block"
#
#   [[nodes]]
#   name = "county"
#   rho = "0.05"
#   released = 12
#
#   [[nodes]]
#   name = "block"              # the target: known = 0 others, and a prior probability that the target is there
#   parent = "county"
#   rho = "0.0992"
#   released = 2
#   prior = "1/2"
#
#   [[nodes]]
#   name = "others"             # leaves of the same kind, one for each released count; or number = 3, not measured
#   parent = "county"
#   rho = "0.0992"
#   released = [0, 1, -1]
#   prior = "geometric:0.1"
#
# The node without a parent is the root. Leaves have priors: ``flat``, ``flat:LAST``, ``point:N``, ``geometric:MEAN``,
# ``poisson:MEAN``, or a list of probabilities from the count ``first`` (default 0) on. Numbers are exact as written.


_MOST = 10**4

TREE = FileKind(
    "tree",
    code="bad-tree",
    own_codes=False,
    absent="bad-tree",
    remedy="correct the file of the tree",
    form="by name",
    decimals=True,
    unreadable_error=InputError,
)

Number = str | int | Decimal
"""An exact number as it is written."""


class NodePart(Part):
    """One of ``[[nodes]]``."""

    name: str = Field(min_length=1)
    parent: str | None = None
    rho: Number | None = None
    released: int | list[int] | None = None
    prior: Number | list[Number] | None = None
    known: int = 0
    number: int = Field(1, ge=1, le=_MOST)
    first: int = 0


class TreeFile(Part):
    """The whole file."""

    target: str
    nodes: list[NodePart] = Field(min_length=1)


@dataclass(frozen=True)
class TreeQuestion:
    """A tree, and the name of the leaf whose posterior is asked for."""

    tree: Tree
    target: str
    prior: str
    """The prior probability as it was written."""


def load_tree(path: Path) -> TreeQuestion:
    """Read a tree from a TOML or JSON file.

    Args:
        path: The path of the file; it is JSON if its name ends so.

    Returns:
        The tree and its target.

    Raises:
        SpecError: with every finding, each at its line.
        InputError: if the file cannot be read.
    """
    return _question(load(path, TreeFile, kind=TREE))


def parse_tree(values: Any, file: str = "tree") -> TreeQuestion:
    """The tree of a file's content.

    :raises SpecError: with every finding.
    """
    return _question(load_values(values, file, TreeFile, kind=TREE))


def _question(loaded: Loaded[TreeFile]) -> TreeQuestion:
    builder = _Builder(loaded.value)
    loaded.refuse(builder.problems)
    root = builder.root()
    loaded.refuse(builder.problems)
    nodes = builder.nodes(root)
    builder.check_reached()
    loaded.refuse(builder.problems)
    prior = builder.parts[loaded.value.target].prior
    return TreeQuestion(Tree(nodes[0]), loaded.value.target, "1/2" if prior is None else str(prior))


class _Builder:
    """Makes nodes and collects what is wrong."""

    def __init__(self, file: TreeFile):
        self.problems: list[Problem] = []
        self.parts: dict[str, NodePart] = {}
        self._target = file.target
        self._places: dict[str, int] = {}
        self._below: dict[str | None, list[str]] = {}
        self._reached: set[str] = set()
        for place, part in enumerate(file.nodes):
            if part.name in self.parts:
                expected = "names that are all different"
                self._wrong(("nodes", place, "name"), "several nodes have the same name", part.name, expected)
            self.parts[part.name] = part
            self._places[part.name] = place
        if file.target not in self.parts:
            expected = f"one of {', '.join(self.parts)[:80]}"
            self._wrong(("target",), "the target is not one of the nodes", file.target, expected)
        for name, part in self.parts.items():
            self._below.setdefault(part.parent, []).append(name)

    def root(self) -> str:
        """The one node without a parent."""
        for parent, names in self._below.items():
            if parent is not None and parent not in self.parts:
                self._wrong(self._at(names[0], "parent"), "no node has this name", parent, "the name of a node")
        roots = self._below.get(None, [])
        if len(roots) != 1:
            found, expected = ", ".join(roots) or "none", "one node without a parent"
            self._wrong(("nodes",), "exactly one node has no parent: the root", found, expected)
        return roots[0] if roots else ""

    def check_reached(self) -> None:
        """Every node hangs from the root."""
        for name in sorted(set(self.parts) - self._reached):
            expected = "parents up to the root"
            self._wrong(self._at(name, "parent"), "this node does not hang from the root", name, expected)

    def nodes(self, name: str) -> list[TreeNode]:
        """The node of that name with all below it; several leaves if several counts were released."""
        part = self.parts[name]
        self._reached.add(name)
        children = [node for child in self._below.get(name, ()) for node in self.nodes(child)]
        try:
            if name == self._target:
                if children:
                    self._wrong(self._at(name), "the target has nodes below it", name, "a leaf")
                    return []
                prior = "1/2" if part.prior is None else part.prior
                return [target_leaf(name, prior, known=part.known, rho=part.rho, released=part.released)]  # type: ignore[arg-type]
            if children:
                return [TreeNode(name, *children, rho=part.rho, released=part.released)]  # type: ignore[arg-type]
            prior_of_count = self._prior(part)
            counts = self._copies(name, part)
            names = [name] if len(counts) == 1 else [f"{name}.{place}" for place in range(1, len(counts) + 1)]
            return [
                TreeNode(leaf, rho=part.rho, released=count, prior=prior_of_count)
                for leaf, count in zip(names, counts, strict=True)
            ]
        except ConfideError as error:
            for finding in error.findings:
                self._wrong(self._at(name), finding.what, finding.found or name, finding.expected or "another value")
            return []

    def _copies(self, name: str, part: NodePart) -> list[int | None]:
        if isinstance(part.released, list):
            if part.released:
                return list(part.released)
            self._wrong(self._at(name, "released"), "the list is empty", "nothing", "released counts")
            return [None]
        if part.number > 1 and part.released is not None:
            what, expected = "this is not a number of leaves", f"1 to {_MOST}, not measured"
            self._wrong(self._at(name, "number"), what, str(part.number), expected)
            return [part.released]
        return [part.released] * part.number

    def _prior(self, part: NodePart) -> bayesian_counts.CountPrior:
        if isinstance(part.prior, list):
            return bayesian_counts.ListedPrior(part.prior, part.first)
        return bayesian_counts.parse_count_prior("" if part.prior is None else str(part.prior))

    def _at(self, name: str, *key: str) -> KeyPath:
        return ("nodes", self._places[name], *key)

    def _wrong(self, path: KeyPath, what: str, found: str, expected: str) -> None:
        self.problems.append(
            Problem.of(path, "bad-tree/other", found=found[:80], what=what, expected=expected, remedy=TREE.remedy)
        )
