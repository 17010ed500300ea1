"""The spec of a static programme of tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import lru_cache
from math import isqrt
from pathlib import Path
from typing import Literal

from pydantic import Field

from confide.errors import ParameterError
from confide.inputs.proposals import OfficeFiles
from confide.noise import (
    DiscreteGaussian,
    NoiseDistribution,
    ReleaseNoise,
    TruncatedDistribution,
    TruncatedGaussian,
    TruncatedGeometric,
    TwoSidedGeometric,
    beyond_mass,
    outside_mass,
)
from confide.noise.fitting import NoiseKind, of_margin, of_variance, smallest_bound
from confide.privacy import (
    ZCDP,
    ApproxDP,
    Definition,
    Loss,
    Neighbours,
    PrivacyLoss,
    PureDP,
    calibrate,
    cks_rho,
    event_of_noise,
    partition_marginal,
    price,
)
from confide.releases import spec
from confide.releases.draft import BUDGET, LEDGER, SPEC, Draft, no_product, office_files, office_values
from confide.report.render import render


class TablePart(spec.Part):
    """One table of the programme."""

    name: spec.Name = Field(description="The name of the table, and of its file.")
    title: str = Field("", max_length=200, description="A title for people.")
    variables: list[str] = Field(
        description="The variables crossed: attributes of the schema, or recodes such as age:five-year."
    )
    levels: list[str] = Field(min_length=1, description="The geolevels and areas the table is published for.")
    margins: Literal["all", "none"] = Field(
        "all", description="all: every margin of the table is measured too; none: the inner cells alone."
    )
    weight: spec.ExactNumber = Field(Fraction(1), description="The table's part of the budget, relative to the others.")
    level_weights: dict[str, spec.ExactNumber] = Field(
        default_factory=dict,
        description="A geolevel's part of this table's budget, in place of that in [programme]; default: as there.",
    )


class ProgrammePart(spec.Part):
    """How the tables share the budget."""

    repeated: Literal["independent", "pooled"] = Field(
        "independent",
        description="A cross-tabulation that several tables contain is measured by each on its own (independent: Bach, "
        "Eq. 6), or once, with their budgets put together, and shown in each (pooled: Eq. 7).",
    )
    level_weights: dict[str, spec.ExactNumber] = Field(
        default_factory=dict, description="A geolevel's part of a table's budget, relative to the others; default 1."
    )


class TablesData(spec.DataPart):
    """Where the records and the frame are, and what the records mean."""

    schema_: spec.FilePath = Field(
        alias="schema", description="The schema of the records: a shipped name, or a TOML file."
    )


LAWS = {
    "zcdp": ("discrete-gaussian",),
    "pure": ("two-sided-geometric",),
    "approximate": (
        "truncated-two-sided-geometric",
        "truncated-discrete-gaussian",
        "two-sided-geometric",
        "discrete-gaussian",
    ),
}
"""The noise that a definition has a price for; the first is taken where the spec names none."""


class NoisePart(spec.Part):
    """The noise, where it is not simply what the budget gives (Bach 2021, sections 2.3 and 2.4)."""

    law: (
        Literal[
            "discrete-gaussian", "two-sided-geometric", "truncated-discrete-gaussian", "truncated-two-sided-geometric"
        ]
        | None
    ) = Field(None, description="The kind of noise; default: what the definition has first.")
    bound: int | None = Field(
        None, ge=1, le=1 << 20, description="The largest noise, for truncated kinds; default: the smallest for delta."
    )
    variance: spec.ExactNumber | None = Field(
        None, description="Utility-driven: every count has noise of this variance, and the cost follows."
    )
    margin: int | None = Field(
        None, ge=0, le=1 << 20, description="Or: noise with this noise margin, at the level of output.noise_margin."
    )

    def problems(self, definition: str) -> list[spec.Problem]:
        """What is wrong although each value by itself is right."""
        problems = []
        law = self.law or LAWS[definition][0]
        if law not in LAWS[definition]:
            problems.append(
                spec.Problem.of(
                    ("noise", "law"),
                    "law-of-definition",
                    found=law,
                    law=law,
                    definition=definition,
                    law_expected=" or ".join(LAWS[definition]),
                )
            )
        utility = self.variance is not None or self.margin is not None
        if self.variance is not None and self.margin is not None:
            problems.append(spec.Problem.of(("noise", "margin"), "noise-twice"))
        if self.bound is not None and not law.startswith("truncated"):
            problems.append(spec.Problem.of(("noise", "bound"), "no-bound/noise", found=str(self.bound), law=law))
        if self.bound is None and utility and law.startswith("truncated"):
            problems.append(spec.Problem.of(("noise",), "no-bound/missing"))
        return problems


class TablesSpec(spec.Spec):
    """A static programme of cross-tabulations with independent noise (Bach 2021, Eq. 6)."""

    data: TablesData
    noise: NoisePart = NoisePart()

    tables: list[TablePart] = Field(min_length=1, description="The tables of the programme.")
    programme: ProgrammePart = ProgrammePart()
    output: spec.TabularOutput = spec.TabularOutput()

    def problems(self) -> list[spec.Problem]:
        problems = super().problems() + self.noise.problems(self.privacy.definition)
        known = [
            self.geography.smallest,
            *(level.name for level in self.geography.levels),
            *(a.name for a in self.geography.areas),
        ]
        for position, table in enumerate(self.tables):
            for level, times in Counter(table.levels).items():
                path = ("tables", position, "levels", table.levels.index(level))
                if level not in known:
                    problems.append(
                        spec.Problem.of(
                            path, "unknown-level/correct-spec", found=repr(level), level=level, known=", ".join(known)
                        )
                    )
                if times > 1:
                    problems.append(spec.Problem.of(path, "repeated-level/times", level=level, times=times))
            problems += [
                spec.Problem.of(
                    ("tables", position, "level_weights", level),
                    "unknown-level/table",
                    found=repr(level),
                    level=level,
                    levels=", ".join(table.levels),
                )
                for level in table.level_weights
                if level not in table.levels
            ]
        problems += [
            spec.Problem.of(
                ("programme", "level_weights", level),
                "unknown-level/correct-spec",
                found=repr(level),
                level=level,
                known=", ".join(known),
            )
            for level in self.programme.level_weights
            if level not in known
        ]
        return problems


# From a spec to the noise of each measurement: by the risk that is allowed, or by the utility that is wanted.
#
# Risk-driven, the budget is shared out and each share gives the scale. In approximate differential privacy, with the
# shares s of the measurements, which add up to one:
#
# * discrete Gaussian noise: rho s, where rho is the largest with an epsilon of at most the budget's at delta;
# * two-sided geometric noise: f s as a pure loss. f = epsilon always will do, and f = sqrt(rho / K) does too, where
# K is   the rho of all measurements at f = 1: for many measurements it is the larger, and is taken;
# * truncated noise: the same with rho at half of delta; the bound is the smallest whose edge takes at most delta s / 4
#   and which noise without it would pass with a probability of at most s / 4. Half of delta over one minus a quarter,
#   and a quarter, are together less than delta. Where f = epsilon the edge may take delta s.
#
# Utility-driven, every count has the same noise, of the variance or the noise margin asked for, and the price
# follows. Either way the plan is priced by the accountant, and a price above the budget is refused. Derivation:
# ``docs/proofs/accounting.md``, section 7. Reference: Bach (2020), sections 2.3 and 2.4.


class NoiseChoice:
    """The noise of a programme: one law for each share of the budget."""

    def __init__(
        self, privacy: spec.PrivacyPart, noise: NoisePart, margin_level: Fraction | None, shares: Iterable[Fraction]
    ):
        self.definition, self.neighbours = Definition(privacy.definition), Neighbours(privacy.neighbours)
        self.kind = NoiseKind(noise.law or LAWS[privacy.definition][0])
        self.delta = privacy.delta if self.definition is Definition.APPROXIMATE else None
        self._budget = _as_loss(self.definition, privacy)
        self._bound = noise.bound
        self._same = self._wanted(noise, margin_level)
        self._scale, self._basic = self._scales(sum((share**2 for share in shares), Fraction(0)))

    def law(self, share: Fraction) -> ReleaseNoise:
        """The noise of a measurement with this share of the budget."""
        if self._same is not None:
            return self._same
        free = calibrate(self._scale * share, self.neighbours)
        if self.delta is None or not self.kind.bounded:
            return free
        changed = partition_marginal(self.neighbours).l1
        if self._bound is not None:
            return _truncated(free, self._bound)
        if self._basic:
            return _truncated(free, _smallest_bound(free, self.delta * share / changed, Fraction(1)))
        return _truncated(free, _smallest_bound(free, self.delta * share / (4 * changed), share / (4 * changed)))

    def loss(self, share: Fraction, law: ReleaseNoise) -> PrivacyLoss:
        """What a measurement costs by itself; in approximate, at its share of delta."""
        if self._same is None and self.delta is None:
            return self._budget * share
        delta = None if self.delta is None else self.delta * share
        return price(event_of_noise(law), self.neighbours, self.definition, delta)

    def check(self, loss: PrivacyLoss) -> None:
        """Refuse a price above the budget."""
        if not loss <= self._budget:
            raise ParameterError("noise-too-small", found=_numbers(loss), budget=_numbers(self._budget))

    def _scales(self, squares: Fraction) -> tuple[PrivacyLoss, bool]:
        """The budget as a loss of the noise without its bound, and whether it composes by plain addition.

        ``squares`` is the sum of the squared shares: K = squares (Δ₂/Δ₁)²/2.
        """
        if self.delta is None:
            return self._budget, True
        assert isinstance(self._budget, ApproxDP)
        rho = cks_rho(self._budget.epsilon, self.delta / 2 if self.kind.bounded else self.delta)
        if not self.kind.by_epsilon:
            return ZCDP(rho), False
        sensitivity = partition_marginal(self.neighbours)
        epsilon_squared = rho / (squares * sensitivity.l2_squared / sensitivity.l1**2 / 2)
        factor = Fraction(isqrt(int(epsilon_squared * 10**24)), 10**12)
        plain = factor <= self._budget.epsilon
        return PureDP(self._budget.epsilon if plain else factor), plain

    def _wanted(self, noise: NoisePart, margin_level: Fraction | None) -> ReleaseNoise | None:
        if noise.variance is not None:
            distribution = of_variance(self.kind, noise.variance, noise.bound)
        elif noise.margin is not None:
            distribution = of_margin(self.kind, noise.margin, margin_level or Fraction(19, 20), noise.bound)
        else:
            return None
        assert isinstance(distribution, NoiseDistribution | TruncatedDistribution)
        return distribution


def _as_loss(definition: Definition, privacy: spec.PrivacyPart) -> Loss:
    if definition is Definition.APPROXIMATE:
        return ApproxDP(privacy.budget, privacy.delta)
    return ZCDP(privacy.budget) if definition is Definition.ZCDP else PureDP(privacy.budget)


def _truncated(law: NoiseDistribution, bound: int) -> TruncatedDistribution:
    if isinstance(law, DiscreteGaussian):
        return TruncatedGaussian(law.sigma2, bound)
    assert isinstance(law, TwoSidedGeometric)
    return TruncatedGeometric(law.epsilon, bound)


@lru_cache(maxsize=4096)
def _smallest_bound(law: NoiseDistribution, edge: Fraction, beyond: Fraction) -> int:
    """The smallest bound whose edge has at most one probability, and which noise without it passes with another."""

    def fits(bound: int) -> bool:
        return outside_mass(_truncated(law, bound)) <= edge and beyond_mass(law, bound) <= beyond

    return smallest_bound(fits, f"a share of {float(edge):.3g} of delta for one count")


def _numbers(loss: PrivacyLoss) -> str:
    return ", ".join(f"{name} {float(value):.6g}" for name, value in loss.parameters().items())


def draft_tables(product: str | None, values: Mapping[str, str]) -> Draft:
    """The spec that ``confide new tables`` writes."""
    no_product("tables", product)
    named = {"name": "my-release", "title": "My release", "budget": "1"} | dict(values)
    return Draft(render("tables.toml.j2", **named, ledger=LEDGER, file=SPEC), Fraction(named["budget"]))


def draft_tables_from(office: OfficeFiles, folder: Path, values: Mapping[str, str]) -> Draft:
    """The same for an office's own files."""
    text = render("own_tables.toml.j2", **office_values(office, folder, "tables", values))
    return Draft(text, Fraction(BUDGET), files=office_files(office), secret=True)
