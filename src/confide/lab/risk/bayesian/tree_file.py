"""A tree of noisy counts in a small file, TOML or JSON, read with every mistake reported at once.

::

  target = "block"

  [[nodes]]
  name = "county"
  rho = "0.05"
  released = 12

  [[nodes]]
  name = "block"              # the target: known = 0 others, and a prior probability that the target is there
  parent = "county"
  rho = "0.0992"
  released = 2
  prior = "1/2"

  [[nodes]]
  name = "others"             # leaves of the same kind, one for each released count; or number = 3, not measured
  parent = "county"
  rho = "0.0992"
  released = [0, 1, -1]
  prior = "geometric:0.1"

The node without a parent is the root. Leaves have priors: ``flat``, ``flat:LAST``, ``point:N``, ``geometric:MEAN``,
``poisson:MEAN``, or a list of probabilities from the count ``first`` (default 0) on. Numbers are exact as written.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from pydantic import Field

from confide.documents import FileKind, KeyPath, Loaded, Part, Problem, load, load_values
from confide.errors import ConfideError, InputError
from confide.lab.risk.bayesian.counts import CountPrior, ListedPrior, parse_count_prior
from confide.lab.risk.bayesian.tree import Tree, TreeNode, target_leaf

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

    def _prior(self, part: NodePart) -> CountPrior:
        if isinstance(part.prior, list):
            return ListedPrior(part.prior, part.first)
        return parse_count_prior("" if part.prior is None else str(part.prior))

    def _at(self, name: str, *key: str) -> KeyPath:
        return ("nodes", self._places[name], *key)

    def _wrong(self, path: KeyPath, what: str, found: str, expected: str) -> None:
        self.problems.append(
            Problem.of(path, "bad-tree/other", found=found[:80], what=what, expected=expected, remedy=TREE.remedy)
        )
