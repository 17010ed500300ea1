"""The words of measurement files: what stands in the column of an attribute, and which groups of levels it means.

In the public files of the 2010 and 2020 Censuses a column has ``*`` where the attribute is summed out, the attribute's
own name where a marginal keeps it, the name of a recode, or ``detailed``, in every column of the one query that keeps
everything. First files of ours have ``detailed`` for every attribute that is kept, recodes by our names, and codes in
the rows of structural zeros. All of these are read; a word has one meaning in all of them.

The words of public products are files under ``data/measurements``. A product is known by its attributes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from confide.arrays import Integers
from confide.documents import load_shipped, shipped
from confide.mechanisms.topdown.constraints import StructuralZero
from confide.mechanisms.topdown.strategy import Strategy
from confide.schema import DETAILED, NO_GROUP, Recode, Schema

SUMMED_OUT = "*"
PUBLIC = "public-"
"""How the names of the files of public products begin."""


@dataclass(frozen=True, eq=False)
class Words:
    """The attributes of a product, and what each word means in their columns."""

    title: str
    attributes: Mapping[str, int]
    """Attributes in the order of a shape, with their number of levels."""
    groups: Mapping[str, Mapping[str, Integers]]
    """For each attribute and word the group of each level; −1: in none."""
    codes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """For each attribute the places of its codes, for words that list codes."""
    levels: tuple[str, ...] = ()
    """The geolevels of the product, the root first, where they are known. A file may begin below the first."""
    not_true: frozenset[str] = frozenset()
    """Constraints that hold in published tables and not in the confidential counts."""
    true: frozenset[str] = frozenset()
    """Equalities that are known to be true: counts of the frame."""
    zeros: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Structural zeros by their public names: the word of each attribute."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The levels of each attribute."""
        return tuple(self.attributes.values())

    def meaning(self, attribute: str, word: str) -> Integers | None:
        """The group of each level, or None where the attribute is summed out. Raises KeyError for an unknown word."""
        if word == SUMMED_OUT:
            return None
        size = self.attributes[attribute]
        if word in (attribute, DETAILED):
            return np.arange(size)
        known = self.groups.get(attribute, {})
        if word in known:
            return known[word]
        listed = [self.codes.get(attribute, {}).get(code.strip(), -1) for code in word.split(",")]
        if min(listed) < 0:
            raise KeyError(word)
        result = np.full(size, NO_GROUP, np.int64)
        result[listed] = 0
        return result

    def query(self, words: Sequence[str]) -> dict[int, Integers]:
        """The query of a row, from the words of its attributes in order. Raises KeyError for an unknown word."""
        meanings = (self.meaning(name, word) for name, word in zip(self.attributes, words, strict=True))
        return {axis: groups for axis, groups in enumerate(meanings) if groups is not None}

    def word(self, recode: Recode) -> str | None:
        """The public word for a recode, if there is one."""
        own = recode.assignment
        for word, groups in self.groups.get(recode.attribute.name, {}).items():
            if np.array_equal(groups, own):
                return word
        return None


def words_of(strategy: Strategy, recodes: Mapping[str, str] | None = None) -> Words:
    """The words of the files of a strategy: our names for the recodes of its schema, and the public ones where its
    attributes are those of a public product.

    Args:
        strategy: What the measurements were made with.
        recodes: Other names of recodes: ours = theirs.
    """
    schema = strategy.schema
    attributes = {attribute.name: attribute.size for attribute in schema.attributes}
    public = public_words(attributes)
    groups: dict[str, dict[str, Integers]] = {name: {} for name in attributes}
    for name, recode in schema.variables.items():
        if name == recode.attribute.name:
            continue
        groups[recode.attribute.name][name] = recode.assignment.astype(np.int64)
        if recodes and name in recodes:
            groups[recode.attribute.name][recodes[name]] = recode.assignment.astype(np.int64)
    if public is not None:
        for name in attributes:
            groups[name] = {**public.groups.get(name, {}), **groups[name]}
    codes = {a.name: {str(code): place for code, place in a.index.items()} for a in schema.attributes}
    frame = [i.query for i in strategy.constraints.invariants if i.query is not None and i.frame]
    layouts = [FileLayout.of(number, strategy) for number in (FIRST, SECOND)]
    true = frozenset(f"{layout.spelled(query)}_con" for layout in layouts for query in frame)
    not_true = frozenset() if public is None else public.not_true
    return Words(schema.id, attributes, groups, codes, strategy.level_names, not_true, true)


def public_words(attributes: Mapping[str, int] | Sequence[str]) -> Words | None:
    """The words of the public product with these attributes, in whatever order; None if there is no such product.

    >>> public_words(["cenrace", "hispanic", "votingage", "hhgq"]).meaning("hhgq", "hhinstlevels").tolist()
    [0, 1, 1, 1, 1, 2, 2, 2]
    """
    for name in shipped("measurements"):
        if name.startswith(PUBLIC):
            words = _shipped_words(name)
            sizes = attributes if isinstance(attributes, Mapping) else words.attributes
            if set(words.attributes) == set(attributes) and all(sizes[a] == n for a, n in words.attributes.items()):
                return words
    return None


@cache
def _shipped_words(name: str) -> Words:
    values: Mapping[str, Any] = load_shipped("measurements", name)
    attributes: dict[str, int] = values["attributes"]
    groups = {
        attribute: {word: _levels(attributes[attribute], listed) for word, listed in words.items()}
        for attribute, words in values.get("words", {}).items()
    }
    for ours, theirs in load_shipped("measurements", "recodes")["recodes"].items():
        for words in groups.values():
            words |= {ours: words[theirs]} if theirs in words else {}
    codes = {attribute: {str(place): place for place in range(size)} for attribute, size in attributes.items()}
    return Words(
        values["title"],
        attributes,
        groups,
        codes,
        tuple(values["levels"]),
        frozenset(values["not_true"]),
        zeros=values.get("zeros", {}),
    )


def _levels(size: int, listed: Sequence[str]) -> Integers:
    """Groups such as ``0-17`` and ``33,37-41`` as the group of each level."""
    result = np.full(size, NO_GROUP, np.int64)
    for number, text in enumerate(listed):
        for part in text.split(","):
            first, _, last = re.sub(r"\s", "", part).partition("-")
            result[int(first) : int(last or first) + 1] = number
    return result


# What our own files write.


FIRST, SECOND = 1, 2


@dataclass(frozen=True)
class FileLayout:
    """Which words a file of ours has: those of first releases, or those of the public files."""

    number: int = FIRST
    recodes: Mapping[str, str] = field(default_factory=dict)
    """Recodes by our names, with the public word for each that has one."""

    @classmethod
    def of(cls, number: int, strategy: Strategy) -> FileLayout:
        """The words for a strategy."""
        public = public_words({attribute.name: attribute.size for attribute in strategy.schema.attributes})
        if number == FIRST or public is None:
            return cls(number)
        names = {v.name for level in strategy.levels for share in level.queries for v in share.query.variables}
        names |= {v.name for name in strategy.constraints.limited for v in strategy.query(name).variables}
        recodes = {n: r for n, r in strategy.schema.variables.items() if n in names and n != r.attribute.name}
        found = {name: public.word(recode) for name, recode in recodes.items()}
        return cls(number, {name: word for name, word in sorted(found.items()) if word is not None})

    @classmethod
    def read(cls, value: Any) -> FileLayout:
        """From what a plan says of its measurements."""
        return cls(value["layout"], value["words"]) if isinstance(value, Mapping) else cls()

    @property
    def as_question(self) -> Any:
        """What a plan says of measurements that are published."""
        return True if self.number == FIRST else {"layout": self.number, "words": dict(self.recodes)}

    @property
    def metadata(self) -> dict[str, str]:
        """What every file says of itself."""
        return {} if self.number == FIRST else {"measurement_layout": str(self.number)}

    def spelled(self, name: str) -> str:
        """``hispanic*cenrace`` as the public files write it: ``hispanic * cenrace``."""
        return " * ".join(self.recodes.get(part.strip(), part.strip()) for part in name.split("*"))

    def word(self, query: str, recode: Recode) -> str:
        """What stands in the column of an attribute that a query keeps."""
        if recode.name != recode.attribute.name:
            return self.recodes.get(recode.name, recode.name)
        return DETAILED if self.number == FIRST or query == DETAILED else recode.attribute.name

    def zero(self, zero: StructuralZero, schema: Schema) -> tuple[str, tuple[str, ...]]:
        """Name and words of a structural zero: the public ones if there are any, and codes otherwise."""
        names = [attribute.name for attribute in schema.attributes]
        public = public_words({attribute.name: attribute.size for attribute in schema.attributes})
        if self.number != FIRST and public is not None:
            own = zero.cells(schema)
            for name, words in public.zeros.items():
                said = tuple(words.get(attribute, SUMMED_OUT) for attribute in names)
                if np.array_equal(_cells(public, said, names), own):
                    return name, said
        codes = {name: ",".join(str(code) for code in listed) for name, listed in zero.where.items()}
        return f"{zero.name.replace('-', '_')}_0_con", tuple(codes.get(name, SUMMED_OUT) for name in names)


def _cells(words: Words, said: Sequence[str], names: Sequence[str]) -> Any:
    """The cells of the histogram, in C order, that words of one group each are about."""
    mask = np.ones(tuple(words.attributes[name] for name in names), bool)
    for axis, (name, word) in enumerate(zip(names, said, strict=True)):
        groups = words.meaning(name, word)
        if groups is not None:
            mask &= (groups >= 0).reshape([-1 if other == axis else 1 for other in range(mask.ndim)])
    return mask.ravel()
