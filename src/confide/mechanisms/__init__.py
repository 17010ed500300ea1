"""Every mechanism by name, ours and those of other packages: each is an entry point of the group
``confide.mechanisms``, ``name = "module:Class"`` (``docs/architecture.md`` adds one).

A mechanism brings solvers and readers with it that take a second to import, and a run needs one mechanism. So each is
imported when it is first looked up; to go through the names imports nothing.

What another package declares is taken as it is, or not at all. It never stands in for a mechanism of ours, two packages
never share a name, and what is looked up is the mechanism that it is declared to be: whatever else is installed is
refused when it is looked up, with the package that it comes from. Releases of another package's mechanism name it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any

from confide.errors import Finding, Place, SpecError
from confide.releases.abilities import ABILITIES
from confide.releases.mechanism import Mechanism, Package
from confide.releases.spec import Spec

GROUP = "confide.mechanisms"
"""The group of entry points."""
OURS = "confide"
"""The name of our own package."""
ORDER = ("tables", "topdown", "safetab", "safetab-h", "phsafe", "cellkey", "swapping", "suppression", "postprocess")
"""The order of our own, as ``pyproject.toml`` declares them: what installs a package sorts its entry points."""


@dataclass(frozen=True, order=True)
class Declared:
    """One entry point: the name of a mechanism, the place of its class, ``module:Class``, and whose it is."""

    name: str
    place: str
    package: Package

    @property
    def ours(self) -> bool:
        """Whether it is Confide's own."""
        return self.package.name == OURS

    def refused(self, key: str, found: str | None = None, **facts: Any) -> Finding:
        """What is wrong with it, for the people who installed it."""
        where = Place(file=f"{self.package}, entry points", path=f"{GROUP}.{self.name}")
        return Finding.of(key, where=where, found=found, **facts)


def installed() -> Iterator[Declared]:
    """What the packages of this environment declare, in any order."""
    from importlib.metadata import entry_points

    for entry in entry_points(group=GROUP):
        assert entry.dist is not None
        yield Declared(entry.name, entry.value, Package(entry.dist.name, entry.dist.version))


class Registry(Mapping[str, Mechanism[Any]]):
    """Mechanisms by name: ours first, in our order, then others by name.

    >>> MECHANISMS["tables"].accounted
    True
    """

    def __init__(self, declare: Callable[[], Iterable[Declared]]):
        self._declare = declare
        self._imported: dict[str, Mechanism[Any]] = {}

    @cached_property
    def _declared(self) -> dict[str, list[Declared]]:
        """Who declares a name; ours first, and then nobody else has it."""
        places = {name: place for place, name in enumerate(ORDER)}
        declared: dict[str, list[Declared]] = {}
        for each in sorted(self._declare(), key=lambda each: (not each.ours, places.get(each.name, len(places)), each)):
            declared.setdefault(each.name, []).append(each)
        if not all(name in declared and declared[name][0].ours for name in ORDER):
            raise SpecError("not-installed", where=Place(path=GROUP), order=", ".join(ORDER))
        return declared

    @property
    def own(self) -> tuple[str, ...]:
        """The names of our own mechanisms."""
        return tuple(name for name, (first, *_) in self._declared.items() if first.ours)

    def __getitem__(self, name: str) -> Mechanism[Any]:
        if name not in self._imported:
            self._imported[name] = _looked_up(*self._declared[name])
        return self._imported[name]

    def __contains__(self, name: object) -> bool:
        return name in self._declared

    def __iter__(self) -> Iterator[str]:
        return iter(self._declared)

    def __len__(self) -> int:
        return len(self._declared)


def _looked_up(first: Declared, *others: Declared) -> Mechanism[Any]:
    """The mechanism of an entry; raises with what is wrong if it is not one, or not the only one of its name."""
    if first.ours:
        mechanism = _imported(first)
        mechanism.refused_packages = tuple(_takes_our_name(each) for each in others)
        return mechanism
    if others:
        packages = ", ".join(str(each.package) for each in (first, *others))
        raise SpecError(first.refused("mechanism-package/several", packages, name=first.name))
    if not first.name.isidentifier():
        raise SpecError(first.refused("mechanism-package/name", repr(first.name), package=first.package.name))
    mechanism = _imported(first)
    mechanism.package = first.package
    return mechanism


def _imported(entry: Declared) -> Mechanism[Any]:
    module, _, class_name = entry.place.partition(":")
    name, package = entry.name, entry.package.name
    try:
        declared: Any = import_module(module)
        for part in class_name.split("."):
            declared = getattr(declared, part)
    except Exception as error:
        if entry.ours:
            raise  # a mistake of ours
        seen = f"{type(error).__name__}: {error}"
        raise SpecError(
            entry.refused("mechanism-package/import", seen, name=name, package=package, place=entry.place)
        ) from error
    if not (isinstance(declared, type) and issubclass(declared, Mechanism)):
        is_class = isinstance(declared, type)
        raise SpecError(
            entry.refused("mechanism-package/class", name=name, package=package, place=entry.place, is_class=is_class)
        )
    if missing := sorted(declared.__abstractmethods__):
        raise SpecError(
            entry.refused("mechanism-package/verbs", name=name, package=package, missing=", ".join(missing))
        )
    abilities = [ability.name for ability in ABILITIES]
    if unknown := sorted(set(declared.can) - set(abilities)):
        raise SpecError(
            entry.refused(
                "mechanism-package/abilities",
                name=name,
                package=package,
                unknown=", ".join(unknown),
                abilities=", ".join(abilities),
            )
        )
    if (called := getattr(declared, "name", None)) != name:
        raise SpecError(
            entry.refused(
                "mechanism-package/another-name", name=name, package=package, place=entry.place, called=called
            )
        )
    try:
        return declared()
    except TypeError as error:
        raise SpecError(entry.refused("mechanism-package/instance", str(error), name=name, package=package)) from error


def _takes_our_name(entry: Declared) -> Finding:
    seen = f"{entry.package}, {entry.place}"
    return entry.refused("mechanism-package/ours", seen, name=entry.name, package=entry.package.name)


MECHANISMS = Registry(installed)
"""Every mechanism by name."""


class SpecModels(Mapping[str, type[Spec]]):
    """For each mechanism the model of its spec, imported when it is looked up."""

    def __getitem__(self, name: str) -> type[Spec]:
        return MECHANISMS[name].spec

    def __contains__(self, name: object) -> bool:
        return name in MECHANISMS

    def __iter__(self) -> Iterator[str]:
        return iter(MECHANISMS)

    def __len__(self) -> int:
        return len(MECHANISMS)


SPECS: Mapping[str, type[Spec]] = SpecModels()
"""For each mechanism, the model of its spec."""
