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

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from confide.errors import ConfideError, Finding, InputError, Place, SpecError
from confide.risk.bayesian.priors import CountPrior, ListedPrior, parse_count_prior
from confide.risk.bayesian.tree import Tree, TreeNode, target_leaf

_KEYS = {"name", "parent", "rho", "released", "prior", "known", "number", "first"}
_MOST = 10**4


@dataclass(frozen=True)
class TreeQuestion:
    """A tree, and the name of the leaf whose posterior is asked for."""

    tree: Tree
    target: str
    prior: str
    """The prior probability as it was written."""


def load_tree(path: Path) -> TreeQuestion:
    """Read a tree from a TOML or JSON file.

    :raises SpecError: with every finding.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
        values = (
            json.loads(text, parse_float=Decimal)
            if path.suffix.lower() == ".json"
            else tomllib.loads(text, parse_float=Decimal)
        )
    except (OSError, UnicodeDecodeError) as problem:
        raise InputError(_finding(path.name, "", "the file cannot be read", type(problem).__name__, "a file")) from None
    except (ValueError, RecursionError) as problem:
        raise SpecError(
            _finding(path.name, "", "the file is neither TOML nor JSON", str(problem)[:80], "TOML, or JSON in *.json")
        ) from None
    return parse_tree(values, path.name)


def parse_tree(values: Any, file: str = "tree") -> TreeQuestion:
    """The tree of a file's content.

    :raises SpecError: with every finding.
    """
    reader = _Reader(file)
    if not isinstance(values, Mapping) or not isinstance(values.get("nodes"), list) or not values["nodes"]:
        raise SpecError(_finding(file, "nodes", "a tree has nodes", None, "tables [[nodes]], and target = NAME"))
    for key in sorted(set(map(str, values)) - {"target", "nodes"}):
        reader.wrong(key, "this key is not part of a tree", key, "target and nodes")
    wanted = values.get("target")
    entries = reader.entries(values["nodes"])
    if wanted not in entries:
        reader.wrong("target", "the target is not one of the nodes", wanted, f"one of {', '.join(entries)[:80]}")
    reader.finish()
    below: dict[str | None, list[str]] = {}
    for name, entry in entries.items():
        below.setdefault(entry.get("parent"), []).append(name)
    for parent, names in below.items():
        if parent is not None and parent not in entries:
            reader.wrong(f"nodes.{names[0]}.parent", "no node has this name", parent, "the name of a node")
    if len(below.get(None, [])) != 1:
        found = ", ".join(below.get(None, [])) or "none"
        reader.wrong("nodes", "exactly one node has no parent: the root", found, "one node without a parent")
    reader.finish()
    built: list[TreeNode] = reader.build(below[None][0], entries, below, str(wanted))
    for name in sorted(set(entries) - reader.reached):
        reader.wrong(f"nodes.{name}.parent", "this node does not hang from the root", name, "parents up to the root")
    reader.finish()
    return TreeQuestion(Tree(built[0]), str(wanted), str(entries[str(wanted)].get("prior", "1/2")))


class _Reader:
    """Collects findings while it reads."""

    def __init__(self, file: str):
        self._file = file
        self._findings: list[Finding] = []
        self.reached: set[str] = set()

    def wrong(self, path: str, what: str, found: object, expected: str) -> None:
        self._findings.append(_finding(self._file, path, what, found, expected))

    def finish(self) -> None:
        if self._findings:
            raise SpecError(self._findings)

    def entries(self, listed: list[Any]) -> dict[str, dict[str, Any]]:
        """The nodes by name."""
        found: dict[str, dict[str, Any]] = {}
        for place, entry in enumerate(listed, start=1):
            path = f"nodes, {place}"
            if not isinstance(entry, dict) or not isinstance(entry.get("name"), str) or not entry["name"]:
                self.wrong(path, "a node has a name", entry if isinstance(entry, str) else None, 'name = "…"')
                continue
            for key in sorted(set(entry) - _KEYS):
                self.wrong(path, "this key is not part of a node", key, ", ".join(sorted(_KEYS)))
            if entry["name"] in found:
                self.wrong(path, "several nodes have the same name", entry["name"], "names that are all different")
            found[entry["name"]] = entry
        return found

    def build(
        self, name: str, entries: Mapping[str, dict[str, Any]], below: Mapping[str | None, list[str]], wanted: str
    ) -> list[TreeNode]:
        """The node of an entry with all below it; several leaves if several counts were released."""
        entry = entries[name]
        self.reached.add(name)
        children = [node for child in below.get(name, ()) for node in self.build(child, entries, below, wanted)]
        released = entry.get("released")
        try:
            if name == wanted:
                if children:
                    self.wrong(f"nodes.{name}", "the target has nodes below it", name, "a leaf")
                    return []
                known = entry.get("known", 0)
                return [
                    target_leaf(name, entry.get("prior", "1/2"), known=known, rho=entry.get("rho"), released=released)
                ]
            if children:
                return [TreeNode(name, *children, rho=entry.get("rho"), released=released)]
            prior = self._prior(entry)
            counts = self._copies(name, entry)
            names = [name] if len(counts) == 1 else [f"{name}.{place}" for place in range(1, len(counts) + 1)]
            return [
                TreeNode(each, rho=entry.get("rho"), released=count, prior=prior)
                for each, count in zip(names, counts, strict=True)
            ]
        except ConfideError as problem:
            for finding in problem.findings:
                self.wrong(f"nodes.{name}", finding.what, finding.found, finding.expected or "")
            return []

    def _copies(self, name: str, entry: Mapping[str, Any]) -> list[int | None]:
        released, number = entry.get("released"), entry.get("number", 1)
        if isinstance(released, list):
            if released:
                return released
            self.wrong(f"nodes.{name}.released", "the list is empty", None, "released counts")
        if type(number) is not int or not 1 <= number <= _MOST or (number > 1 and released is not None):
            self.wrong(f"nodes.{name}.number", "this is not a number of leaves", number, f"1 to {_MOST}, not measured")
            return [released]
        return [released] * number

    def _prior(self, entry: Mapping[str, Any]) -> CountPrior:
        prior = entry.get("prior", "")
        if isinstance(prior, list):
            return ListedPrior(prior, entry.get("first", 0))
        return parse_count_prior(prior if isinstance(prior, str) else repr(prior))


def _finding(file: str, path: str, what: str, found: object, expected: str) -> Finding:
    return Finding(
        code="bad-tree",
        what=what,
        where=Place(file=file, path=path or None),
        found=None if found is None else str(found)[:80],
        expected=expected,
        remedy="correct the file of the tree",
    )
