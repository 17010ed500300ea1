"""Sets of invariants from their files: shipped ones by name, the user's own by path, several put together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confide.documents import CollectingReader, load_shipped, read_toml, shipped
from confide.errors import ParameterError
from confide.exact import Exact, integer, positive
from confide.privacy.invariants.language import (
    ANY,
    InvariantAttribute,
    InvariantBound,
    InvariantCount,
    Invariants,
    LevelGrouping,
    Never,
    Records,
    Where,
)

KIND = "invariants"
RECORDS = "invariants/records"
_KEYS = {"id", "title", "provenance", "records", "geography", "attributes", "groupings", "counts", "bounds", "never"}
_COUNT = {"by", "where"}
_BOUND = {"name", "by", "attribute", "units", "at_least", "at_most", "when_least", "when_full"}
_MOST_LEVELS = 1000


def load_invariants(names: Iterable[str], base: Path | None = None) -> Invariants:
    """The invariants of all these names together; a name that does not ship is the path of a TOML file."""
    listed = list(names)
    if not listed:
        raise ParameterError(
            "no-invariants",
            "no invariants are named",
            found="nothing",
            expected=f"some of {', '.join(shipped(KIND))}, or the path of a TOML file",
            remedy="name the invariants, such as C1 C2",
        )
    return combine(_load(name, base or Path()) for name in dict.fromkeys(listed))


def combine(parts: Iterable[Invariants]) -> Invariants:
    """Several sets of invariants about the same records as one."""
    first, *rest = parts
    for other in rest:
        if other.records != first.records:
            raise ParameterError(
                "other-records",
                "these invariants are about different records",
                found=f"{', '.join(first.names)}: {first.records.id}; {', '.join(other.names)}: {other.records.id}",
                expected="invariants about records of one form",
                remedy="name invariants that belong together",
            )
    every = [first, *rest]
    return Invariants(
        tuple(name for part in every for name in part.names),
        first.records,
        tuple(count for part in every for count in part.counts),
        tuple(bound for part in every for bound in part.bounds),
        tuple(never for part in every for never in part.never),
    )


def parse_invariants(values: Mapping[str, Any], file: str) -> Invariants:
    """A set of invariants from the values of its file.

    :raises SpecError: with every finding.
    """
    reader = _Reader(file)
    reader.keys(values, _KEYS, "")
    records = reader.records(values)
    counts = [reader.count(item, f"counts.{n}", records) for n, item in reader.tables(values, "counts")]
    bounds = [b for n, item in reader.tables(values, "bounds") for b in reader.bounds(item, f"bounds.{n}", records)]
    never = [
        Never(reader.where(item.get("where"), f"never.{n}", records)) for n, item in reader.tables(values, "never")
    ]
    name = reader.text(values.get("id", Path(file).stem), "id")
    reader.finish()
    return Invariants((name,), records, tuple(counts), tuple(bounds), tuple(never))


def _load(name: str, base: Path) -> Invariants:
    if name in shipped(KIND):
        return parse_invariants(load_shipped(KIND, name), f"{name}.toml")
    path = base / name
    return parse_invariants(read_toml(path, kind=KIND, known=shipped(KIND)), path.name)


class _Reader(CollectingReader):
    def __init__(self, file: str):
        super().__init__(file, code="bad-invariants", remedy="correct the file of invariants")

    def keys(self, values: Mapping[str, Any], known: set[str], path: str) -> None:
        for key in sorted(set(values) - known):
            self.wrong(f"{path}.{key}".strip("."), "this key is not known here", key, f"keys among {sorted(known)}")

    def text(self, value: Any, path: str) -> str:
        if not isinstance(value, str):
            self.wrong(path, "this is not a text", value, "a text")
            return ""
        return value.strip()

    def tables(self, values: Mapping[str, Any], key: str) -> list[tuple[int, Mapping[str, Any]]]:
        value = values.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            self.wrong(key, "this is not a list of tables", value, f"entries [[{key}]]")
            return []
        return list(enumerate(value, start=1))

    def records(self, values: Mapping[str, Any]) -> Records:
        """The records that a file is about: named in it, or written out."""
        name = values.get("records")
        if name is not None:
            if name not in shipped(RECORDS):
                self.wrong("records", "there are no records of this name", name, f"one of {shipped(RECORDS)}")
                self.finish()
            values = load_shipped(RECORDS, str(name))
        geography = values.get("geography", ["block"])
        if not isinstance(geography, list) or not geography or len(set(map(str, geography))) < len(geography):
            self.wrong("geography", "this is no list of geolevels", geography, 'such as ["state", "block"]')
            geography = ["block"]
        attributes = values.get("attributes")
        if not isinstance(attributes, dict) or not attributes:
            self.wrong("attributes", "records have attributes", attributes, "records = NAME, or tables [attributes.X]")
            self.finish()
            attributes = {}
        read = tuple(self._attribute(key, item) for key, item in attributes.items())
        for item in read:
            if item.name in geography:
                self.wrong(f"attributes.{item.name}", "a geolevel has this name", item.name, "another name")
        self.finish()
        found = Records(str(values.get("id", self._file)), tuple(map(str, geography)), read)
        groupings = values.get("groupings", {})
        if not isinstance(groupings, dict):
            self.wrong("groupings", "these are no groupings", groupings, "tables [groupings.X]")
            groupings = {}
        listed = tuple(self._grouping(name, item, found) for name, item in groupings.items())
        self.finish()
        return replace(found, groupings=listed)

    def _grouping(self, name: str, item: Any, records: Records) -> LevelGrouping:
        path = f"groupings.{name}"
        values = item if isinstance(item, dict) else {}
        self.keys(values, {"title", "of", "groups"}, path)
        of, groups = str(values.get("of")), values.get("groups")
        if not isinstance(groups, dict):
            self.wrong(path, "this is no grouping", item, "of = ATTRIBUTE and groups = { NAME = LEVELS }")
            groups = {}
        read = {str(group): self._levels(of, members, path, records) for group, members in groups.items()}
        known = {attribute.name: attribute for attribute in records.attributes}
        if of in known and sorted(level for levels in read.values() for level in levels) != sorted(known[of].levels):
            self.wrong(path, "the groups do not divide the attribute", list(read), "every level in one group")
        return LevelGrouping(name, self.text(values.get("title", name), path), of, read)

    def _attribute(self, name: str, item: Any) -> InvariantAttribute:
        path = f"attributes.{name}"
        if not isinstance(item, dict):
            self.wrong(path, "this is not an attribute", item, "a table with levels")
            return InvariantAttribute(name, name, {"any": 1}, {})
        self.keys(item, {"title", "levels", "groups", "residence"}, path)
        written = item.get("levels")
        levels: dict[str, int] = {}
        if type(written) is int:
            levels = {"any": written}
        elif isinstance(written, list):
            levels = dict.fromkeys(map(str, written), 1)
        elif isinstance(written, dict):
            levels = written
        sizes = levels.values()
        if not 0 < len(levels) <= _MOST_LEVELS or not all(type(size) is int and size > 0 for size in sizes):
            self.wrong(f"{path}.levels", "these are no levels", written, "a number, a list, or names with numbers")
            levels = {"any": 1}
        groups = item.get("groups", {})
        found = {}
        for group, members in groups.items() if isinstance(groups, dict) else ():
            if not isinstance(members, list) or not set(map(str, members)) <= set(levels):
                self.wrong(f"{path}.groups.{group}", "a group is a list of levels", members, "names of levels")
                continue
            found[group] = frozenset(map(str, members))
        title = self.text(item.get("title", name), f"{path}.title")
        return InvariantAttribute(name, title, levels, found, residence=item.get("residence") is True)

    def count(self, item: Mapping[str, Any], path: str, records: Records) -> InvariantCount:
        self.keys(item, _COUNT, path)
        by = item.get("by", "all")
        if by != "all" and by not in records.geography:
            self.wrong(f"{path}.by", "there is no such geolevel", by, f"all, {', '.join(records.geography)}")
            by = "all"
        return InvariantCount(None if by == "all" else by, self.where(item.get("where", {}), path, records))

    def where(self, value: Any, path: str, records: Records) -> Where:
        """Levels or groups by attribute."""
        if not isinstance(value, dict):
            self.wrong(f"{path}.where", "this does not say who is meant", value, 'such as { sex = ["female"] }')
            return {}
        return {name: self._levels(name, members, f"{path}.where", records) for name, members in value.items()}

    def _levels(self, name: str, members: Any, path: str, records: Records) -> frozenset[str]:
        found = next((item for item in records.attributes if item.name == name), None)
        if found is None:
            known = ", ".join(item.name for item in records.attributes)
            self.wrong(path, "records have no such attribute", name, f"one of {known}")
            return frozenset()
        result: set[str] = set()
        for member in members if isinstance(members, list) else [members]:
            if member not in found.levels and member not in found.groups:
                known = ", ".join([*found.groups, *found.levels])
                self.wrong(f"{path}.{name}", "the attribute has no such level or group", member, f"some of {known}")
            else:
                result |= found.named(member)
        return frozenset(result)

    def bounds(self, item: Mapping[str, Any], path: str, records: Records) -> list[InvariantBound]:
        self.keys(item, _BOUND, path)
        by, units = item.get("by"), item.get("units")
        least, most = item.get("at_least", 0), item.get("at_most")
        if by not in records.geography:
            self.wrong(f"{path}.by", "there is no such geolevel", by, f"one of {', '.join(records.geography)}")
        if type(least) is not int or least < 0:
            self.wrong(f"{path}.at_least", "this is no number of records per unit", least, "0 or more")
            least = 0
        if most is not None and most != ANY and (type(most) is not int or most < max(least, 1)):
            self.wrong(f"{path}.at_most", "this is no number of records per unit", most, 'a number, or "any"')
            most = None
        if not isinstance(units, dict) or not units:
            self.wrong(f"{path}.units", "it is not said what is counted in the frame", units, "LEVEL = NAME OF A COUNT")
            units = {}
        name = self.text(item.get("name", path), f"{path}.name")
        when_least = self.text(item.get("when_least", f"{name}: no more than there must be"), path)
        when_full = self.text(item.get("when_full", f"{name}: no room for more"), path)
        attribute = str(item.get("attribute"))
        return [
            InvariantBound(
                name,
                str(by),
                {attribute: self._levels(attribute, [member], path, records)},
                str(counted),
                least,
                most,
                when_least,
                when_full,
            )
            for member, counted in units.items()
        ]


# The example in which invariants give everybody away (Kifer & Machanavajjhala 2011; Ashmead et al. 2019, section 5).
#
# n numbers R_1, …, R_n between 0 and k. Each is published with Laplace noise of scale k/ε, which is ε-differentially
# private; and all sums R_i + R_{i+1} are published exactly. Then R_1 = s_j ± R_j for every j, with known s_j, so
# there are n independent unbiased estimates of R_1, each of variance 2k²/ε², and their mean has the variance
# 2k²/(nε²). This remains so if R_1 itself is replaced before the noise is added: the mean square error is at most
# k²/n² + 2k²/(nε²). So one record cannot be hidden, and the group that would have to be replaced is everybody: a
# factor of exp(2nε).


Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Chain:
    """``n`` records with values up to ``k``, each noisy at ``epsilon``, with all sums of neighbours exact."""

    n: int
    k: Fraction
    epsilon: Fraction

    @property
    def single_variance(self) -> Fraction:
        """2k²/ε²: of one noisy value."""
        return 2 * self.k**2 / self.epsilon**2

    @property
    def mean_variance(self) -> Fraction:
        """2k²/(nε²): of the mean of the n estimates."""
        return self.single_variance / self.n

    @property
    def counterfactual_error(self) -> Fraction:
        """k²/n² + 2k²/(nε²): at most the mean square error if the first record was replaced before noise was added."""
        return self.k**2 / self.n**2 + self.mean_variance

    @property
    def median_variance(self) -> Fraction:
        """k²/(nε²): of the sample median, for large n; 1/(4n f(0)²) with the Laplace density f(0) = ε/(2k)."""
        return self.k**2 / (self.n * self.epsilon**2)

    @property
    def group(self) -> int:
        """The smallest group: a change of one record forces one of every other, so everybody."""
        return self.n

    @property
    def multiplier(self) -> int:
        """The multiple of ε in the exponent of the bound."""
        return 2 * self.group


def chain(n: int, k: Exact, epsilon: Exact) -> Chain:
    """The example for given n, k and ε."""
    return Chain(integer(n, "n"), positive(k, "k"), positive(epsilon, "epsilon"))


def estimates(noisy: Floats, sums: Floats) -> Floats:
    """The estimates of the first value: one from every noisy value, along the last axis.

    With s_1 = 0 and s_{j+1} = s_j + (−1)^{j+1}(R_j + R_{j+1}), R_1 = s_j + (−1)^{j+1} R_j.
    """
    signs = np.where(np.arange(noisy.shape[-1]) % 2 == 0, 1.0, -1.0)
    start = np.zeros((*sums.shape[:-1], 1))
    offsets = np.concatenate([start, np.cumsum(signs[:-1] * sums, axis=-1)], axis=-1)
    return np.asarray(offsets + signs * noisy, np.float64)
