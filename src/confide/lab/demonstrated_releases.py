"""What demonstrations make: releases that are verified and evaluated, and the account of all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from confide import api
from confide.answers import AnswerPart, ShownTable, TypedAnswer
from confide.exact import down, fraction_up
from confide.releases import Progress, RunResult, Verification
from confide.releases.dossier import Evaluated, headline


@dataclass(frozen=True)
class DemoRelease(TypedAnswer):
    """One release of the demonstration, looked at by its reader and by its curator."""

    run: RunResult
    verification: Verification
    evaluated: Evaluated
    beside: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Mean absolute errors of the total by geography, for other estimates from the same noise, by their names."""

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "release": str(self.run.release),
            "dossier": str(self.evaluated.dossier),
            "cost": self.run.plan.loss.as_dict() if self.run.plan.has_loss else None,
            "verified": self.verification.ok,
        } | ({"beside": {name: dict(errors) for name, errors in self.beside.items()}} if self.beside else {})

    def described_as(self, about: str) -> Iterator[AnswerPart]:
        """How accurate it is, what it cost, and where its files are.

        Args:
            about: Of whom the release is.
        """
        run = self.run
        accuracy = self.evaluated.accuracy.reveal("the demonstration's people are made up")
        yield ""
        yield from headline(accuracy, f"{about.capitalize()}: released compared with true", self.beside)
        if run.plan.has_loss:
            (rho,) = run.plan.loss.parameters().values()
            yield f"cost         rho = {fraction_up(rho)} ({run.plan.neighbours.value})"
        yield f"release      {run.release}  ({'verified' if self.verification.ok else 'NOT AS SEALED'})"
        document = "certificate" if run.plan.has_loss else "statement"
        yield f"{document:11}  {run.release / f'{document}.html'}"
        yield f"dossier      {self.evaluated.dossier}  (confidential: for the curator only)"


@dataclass(frozen=True)
class ProductCost:
    """What one release costs: what it protects itself, and one person of the account."""

    product: str
    protects: str
    compared: str
    rho: Fraction
    """By its own unit and neighbours."""
    charged: Fraction
    """What the ledger was charged."""


@dataclass(frozen=True)
class ProductAccount(TypedAnswer):
    """The account of all releases of the same people, in persons."""

    products: tuple[ProductCost, ...]
    budget: Fraction

    @classmethod
    def of(cls, releases: Mapping[str, DemoRelease]) -> ProductAccount:
        """The account of releases that were charged to one ledger, as the last of them left it."""
        account = list(releases.values())[-1].run.account
        assert account is not None, "every release here has a budget"
        charged = {run.release: run.charged for run in account.runs.values()}
        products = []
        for product, release in releases.items():
            plan = release.run.plan
            (rho,) = plan.loss.parameters().values()
            name = release.run.workspace.root.name
            products.append(ProductCost(product, plan.protects.value, plan.neighbours.value, rho, charged[name]))
        return cls(tuple(products), account.budget)

    @property
    def spent(self) -> Fraction:
        """What all releases were charged."""
        return sum((product.charged for product in self.products), Fraction(0))

    @property
    def remaining(self) -> Fraction:
        """What other releases may still cost."""
        return self.budget - self.spent

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``; exact fractions."""
        products = {
            each.product: {
                "protects": each.protects,
                "neighbours": each.compared,
                "rho": str(each.rho),
                "charged": str(each.charged),
            }
            for each in self.products
        }
        sums = {"spent": str(self.spent), "budget": str(self.budget), "left": str(self.remaining)}
        return {"unit": "person", "products": products, **sums}

    def described(self) -> Iterator[AnswerPart]:
        """A row for each release, the sum, and what is left."""
        rows = [
            (each.product, each.protects, each.compared, fraction_up(each.rho), fraction_up(each.charged))
            for each in self.products
        ]
        rows.append(("all releases", "person", "add-remove", "", fraction_up(self.spent)))
        rows.append(("left", "", "", "", down(float(self.remaining), 6)))
        yield ""
        heads = ["product", "protects one", "compared", "its own rho ", "charged "]
        yield ShownTable(
            heads, rows, title=f"The account, kept in persons who come or go: rho = {fraction_up(self.budget)}"
        )
        protected = {each.protects for each in self.products}
        if "household" in protected:
            yield "A person can change the row of a household into any other: that is twice what one more row costs."
        if any(each.compared == "change-one" for each in self.products):
            yield (
                "TopDown compares persons who are changed, for half of which a person comes or goes; "
                "the figures that it keeps exact, as the population of the state, are in no account."
            )


@dataclass(frozen=True)
class Demonstration(TypedAnswer):
    """What the demonstration made."""

    folder: Path
    persons: int
    releases: Mapping[str, DemoRelease]
    look_at: tuple[str, ...] = ()
    """What a person might look at first, a sentence each."""
    account: ProductAccount | None = None
    """What every release costs one person, where the ledger is kept in persons."""

    @property
    def ok(self) -> bool:
        """Whether every release is as it was sealed."""
        return all(release.verification.ok for release in self.releases.values())

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        releases = {about: release.as_dict() for about, release in self.releases.items()}
        account = {} if self.account is None else {"account": self.account.as_dict()}
        return {"ok": self.ok, "persons": self.persons, "releases": releases, **account}

    def described(self) -> Iterator[AnswerPart]:
        """Every release, what to look at first, and the account."""
        for about, release in self.releases.items():
            yield from release.described_as(about)
        yield "\nLook at:"
        yield from (f"  {sentence}" for sentence in self.look_at)
        last = list(self.releases.values())[-1].run
        spent = f"{last.plan.mechanism} has no privacy budget"
        if last.account is not None:
            account = last.account
            spent = f"the ledger has {fraction_up(account.spent)} spent of {fraction_up(account.budget)}"
        if self.account is not None:
            yield from self.account.described()
        yield f"\n{self.persons:,} made-up persons; {spent}."
        yield f"In the browser: confide studio {self.folder}"


def release_of_spec(spec: Path, display: Progress, *, same_people: bool = False) -> DemoRelease:
    """A release, verified and evaluated.

    Args:
        spec: What to release.
        display: Shows its stages.
        same_people: Whether its ledger was charged before, for another file of the same people.

    Returns:
        The run, its verification and its evaluation.
    """
    result = api.run(spec, accept_ledger=same_people, progress=display)
    return DemoRelease(result, api.verify(result.release), api.evaluate(spec, progress=display))


def free_folder(folder: Path, display: Progress) -> Path:
    """The folder, or the first of ``folder-2``, ``folder-3`` … where there is nothing yet: nothing is ever replaced."""
    free, number = folder, 1
    while free.exists() and not (free.is_dir() and not any(free.iterdir())):
        number += 1
        free = folder.with_name(f"{folder.name}-{number}")
    if number > 1:
        display.note(f"There is something in {folder} already: this demonstration goes into {free}.")
    return free
