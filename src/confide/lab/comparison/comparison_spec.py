"""The spec of a comparison: whose records, which protections, which attack. A file of its own, in TOML.

::

    [comparison]
    title = "A made-up state, protected in six ways"
    made_up = 100000                      # or a part [data] with records and blocks

    [[protections]]
    name = "topdown"
    mechanism = "topdown"
    budget = "64/25"

Without ``[[protections]]`` all seven of :data:`DEFAULT` are compared. ``none`` is always there: what the others are
held against. Every key: ``docs/concepts/comparison.md``.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from confide.documents import FileKind, KeyPath, Loaded, Part, Problem, load
from confide.errors import ConfideError, ParameterError, Place
from confide.exact import positive_within
from confide.lab.attacks.reidentification import AttackerSettings, parse_attacker
from confide.lab.comparison import programme_file
from confide.lab.comparison.common_tables import CommonTables, common_tables, make_tables
from confide.releases.draft import SPEC, Draft, no_product
from confide.releases.spec import DataPart, ExactNumber, Name
from confide.report.rendering import render

RESERVED = ("data", "comparison")
"""Names of folders and files that a comparison has apart from those of protections."""
NONE = "none"


class ComparisonPart(Part):
    """What the page is called, and whether people are made up for it."""

    title: str = Field("A comparison of protections", min_length=1, max_length=200, description="A title for people.")
    made_up: int | None = Field(
        None, ge=100, le=10_000_000, description="So many people are made up, instead of a part [data]."
    )
    seed: int = Field(7, ge=0, description="Made-up people, chosen keys and samples follow from it.")
    programme: str | None = Field(
        None, description="What is published, and what is known: a shipped programme, or a file; default: us-state."
    )


US_LEVELS = ("state", "county", "tract", "block_group")


class ComparedGeographyPart(programme_file.ProgrammeGeographyPart):
    """Where the areas differ from those of the programme. The characters of a code of the United States have keys of
    their own, for the programme ``us-state``."""

    state: int | None = Field(None, ge=1, le=40, description="The characters of a state's code.")
    county: int | None = Field(None, ge=1, le=40, description="The characters of a county's code.")
    tract: int | None = Field(None, ge=1, le=40, description="The characters of a tract's code.")
    block_group: int | None = Field(None, ge=1, le=40, description="The characters of a block group's code.")

    def over(self, given: programme_file.ProgrammeGeographyPart) -> programme_file.ProgrammeGeographyPart:
        """The geography of a programme with what is here instead."""
        own = {
            key: value for key in self.model_fields_set - set(US_LEVELS) if (value := getattr(self, key)) is not None
        }
        digits = {name: number for name in US_LEVELS if (number := getattr(self, name)) is not None}
        levels = [
            level.model_copy(update={"digits": digits[level.name]}) if level.name in digits else level
            for level in own.get("levels", given.levels)
        ]
        plain = {name: getattr(given, name) for name in programme_file.ProgrammeGeographyPart.model_fields}
        return programme_file.ProgrammeGeographyPart(**plain | own | {"levels": levels})


class ProtectionPart(Part):
    """What every protection has."""

    name: Name = Field(description="A short name: of its folder, and on the page.")
    title: str = Field("", max_length=80, description="A title for people; default: made from the settings.")

    @property
    def unprotected(self) -> bool:
        """Whether these are the true tables, which the others are held against."""
        return False

    @property
    def counts_units(self) -> bool:
        """Whether the block table must say where somebody can live, if the programme has columns for that."""
        return False


class NoProtection(ProtectionPart):
    """The tables as they are."""

    mechanism: Literal["none"]

    @property
    def unprotected(self) -> bool:
        return True


class SwappingProtection(ProtectionPart):
    """Tables of records after some households have exchanged places."""

    mechanism: Literal["swapping"]
    settings: str = Field("light", description="Shipped settings of the mechanism swapping: light or heavy; or a file.")


class SuppressionProtection(ProtectionPart):
    """Small counts are left out."""

    mechanism: Literal["suppression"]
    threshold: int = Field(3, ge=1, le=100, description="Counts from 1 to this are not published.")


class CellKeyProtection(ProtectionPart):
    """Bounded noise that belongs to the members of a cell."""

    mechanism: Literal["cellkey"]
    D: int = Field(5, ge=1, le=100, description="The largest noise, up or down.")
    V: ExactNumber = Field(Fraction(2), description="The variance of the noise.")


class TablesProtection(ProtectionPart):
    """Independent noise in every cell, with a budget."""

    mechanism: Literal["tables"]
    budget: ExactNumber = Field(Fraction(64, 25), description="What all tables together spend: rho.")


class TopDownProtection(ProtectionPart):
    """Protected records from noisy measurements, with a budget."""

    mechanism: Literal["topdown"]
    budget: ExactNumber = Field(Fraction(64, 25), description="What all measurements together spend: rho.")

    @property
    def counts_units(self) -> bool:
        return True


AnyProtection = Annotated[
    NoProtection
    | SwappingProtection
    | SuppressionProtection
    | CellKeyProtection
    | TablesProtection
    | TopDownProtection,
    Field(discriminator="mechanism"),
]


WITH_BUDGET: Mapping[str, Any] = {"topdown": TopDownProtection, "tables": TablesProtection}
"""The protections that a rho decides."""


class AttackPart(Part):
    """What the attacker has, and how much of the work is done."""

    attacker: str = Field(
        "perfect", max_length=200, description="The attacker's file: perfect, or coverage=0.9,age_error=0.05 and so on."
    )
    blocks: int | None = Field(
        None, ge=1, description="How many inhabited blocks are attacked, drawn from the seed; default: all."
    )
    noisy_blocks: int | None = Field(
        300, ge=1, description="How many of them where tables have noise, which takes far longer."
    )
    suppressed_blocks: int | None = Field(
        150, ge=1, description="How many of them are protected by suppression, and attacked: that takes longest."
    )
    seconds: float = Field(
        2.0, gt=0, le=3600, allow_inf_nan=False, description="The longest that one programme of a block may take."
    )
    repeats: int = Field(0, ge=0, le=1000, description="Random repeats that say how sure each record is; 0: none.")
    processes: int | None = Field(None, ge=1, le=1024, description="How many processes to use; default: all cores.")

    def sample(self, *, noisy: bool, suppressed: bool) -> int | None:
        """How many blocks are attacked where tables are of a kind; None: all."""
        limits = [self.blocks, self.noisy_blocks if noisy else None, self.suppressed_blocks if suppressed else None]
        return min((number for number in limits if number is not None), default=None)

    @property
    def settings(self) -> AttackerSettings:
        """The attacker's file."""
        return parse_attacker(self.attacker)


DEFAULT: tuple[Any, ...] = (
    NoProtection(name=NONE, mechanism="none"),
    SwappingProtection(name="swap-light", mechanism="swapping", settings="light"),
    SwappingProtection(name="swap-heavy", mechanism="swapping", settings="heavy"),
    SuppressionProtection(name="suppression", mechanism="suppression"),
    CellKeyProtection(name="cellkey", mechanism="cellkey"),
    TablesProtection(name="tables", mechanism="tables"),
    TopDownProtection(name="topdown", mechanism="topdown"),
)
"""What is compared unless the spec says otherwise."""


class ComparisonSpec(Part):
    """The whole file."""

    comparison: ComparisonPart = ComparisonPart()
    data: DataPart | None = None
    geography: ComparedGeographyPart = ComparedGeographyPart()
    programme: programme_file.ComparedProgrammePart | None = None
    protections: list[AnyProtection] = Field(default_factory=lambda: list(DEFAULT), min_length=1)
    attack: AttackPart = AttackPart()


COMPARISON = FileKind(
    "comparison",
    code="bad-comparison",
    own_codes=False,
    absent="no-spec",
    unreadable="no-spec",
    syntax="not-toml",
    example="`confide new comparison FOLDER` writes one to start from",
    remedy="correct the spec",
)


@dataclass(frozen=True)
class LoadedComparison(Loaded[ComparisonSpec]):
    """A spec with the file it came from, the tables that it compares, and the areas that they are of."""

    tables: CommonTables = field(kw_only=True)
    areas: programme_file.ProgrammeGeographyPart = field(kw_only=True)

    @property
    def spec(self) -> ComparisonSpec:
        """The spec itself."""
        return self.value

    @property
    def protections(self) -> tuple[Any, ...]:
        """The protections, with ``none`` first, whether it was named or not."""
        named = tuple(self.spec.protections)
        first = [each for each in named if each.unprotected] or [DEFAULT[0]]
        return (*first, *(each for each in named if not each.unprotected))


def load_comparison(path: str | Path) -> LoadedComparison:
    """The spec in a file. Raises a :class:`SpecError` with all findings.

    Args:
        path: The spec file of a comparison.

    Returns:
        The spec, with the tables that protections are compared by.

    >>> load_comparison(compared / "spec.toml").value.comparison.made_up
    300
    """
    loaded = load(Path(path), ComparisonSpec, kind=COMPARISON)
    loaded.refuse(_problems(loaded.value))
    tables = _tables(loaded)
    areas = loaded.value.geography.over(tables.part.geography or programme_file.ProgrammeGeographyPart())
    loaded.refuse(_problems_of_geography(tables, areas))
    return LoadedComparison(
        COMPARISON, loaded.path, loaded.text, loaded.values, value=loaded.value, tables=tables, areas=areas
    )


def _tables(loaded: Loaded[ComparisonSpec]) -> CommonTables:
    """The tables of the programme that the spec has in it, or names."""
    spec, base = loaded.value, loaded.path.parent
    if spec.programme is not None:

        def refuse(problems: Iterable[Problem]) -> None:
            loaded.refuse(replace(each, path=("programme", *each.path)) for each in problems)

        return make_tables(spec.programme, base, refuse)
    name = spec.comparison.programme or programme_file.US_STATE
    if name in programme_file.PROGRAMME.names:
        return common_tables(name)
    named = programme_file.load_compared_programme(name, base, loaded.place("comparison", "programme"))
    return make_tables(named.value, named.path.parent, named.refuse)


def _problems_of_geography(tables: CommonTables, areas: programme_file.ProgrammeGeographyPart) -> Iterator[Problem]:
    def wrong(place: KeyPath, what: str, found: str, expected: str) -> Problem:
        return Problem.of(place, "bad-comparison/spec", found=found, what=what, expected=expected)

    if areas.areas:
        found, expected = ", ".join(area.name for area in areas.areas), "levels that nest, and no areas beside them"
        yield wrong(("geography", "areas"), "areas that do not nest are not compared", found, expected)
    digits = [level.digits for level in areas.levels if level.digits is not None]
    if digits != sorted(set(digits)):
        expected = "more characters on every level, from the largest areas down"
        yield wrong(("geography",), "the levels do not nest", ", ".join(map(str, digits)), expected)
    for position, level in enumerate(areas.levels):
        at: KeyPath = ("geography", "levels", position)
        if (level.digits is None) == (level.column is None):
            found = "neither digits nor column" if level.digits is None else "digits and column"
            yield wrong(at, "a level has no single rule", found, "digits of the code, or a column of the block table")
        if level.name == programme_file.BLOCK or level.name in [each.name for each in areas.levels[:position]]:
            yield wrong(
                (*at, "name"), "the name is taken", level.name, f"names that differ; {programme_file.BLOCK} is taken"
            )
    for problem in programme_file.problems_of_levels(tables.part, areas, tables.schema):
        yield replace(problem, path=("programme", *problem.path))


def _problems(spec: ComparisonSpec) -> Iterator[Problem]:
    """What is wrong although each value by itself is right."""

    def wrong(place: KeyPath, what: str, found: str, expected: str) -> Problem:
        return Problem.of(place, "bad-comparison/spec", found=found, what=what, expected=expected)

    if (spec.data is None) == (spec.comparison.made_up is None):
        found = "neither" if spec.data is None else "both"
        what = "whose records are compared is not clear"
        yield wrong(("comparison",), what, found, "made_up = NUMBER, or a part [data]")
    if spec.programme is not None and spec.comparison.programme is not None:
        what, found = "there are two programmes", "a part [programme], and the name of one"
        yield wrong(("comparison", "programme"), what, found, "one of the two")
    own = spec.programme.people if spec.programme is not None else programme_file.US_STATE
    if spec.comparison.made_up is not None and spec.programme is not None and own is None:
        what, found = "nobody knows which people to make up", "a programme of your own without people"
        yield wrong(("programme", "people"), what, found, "a part [data]; or people = a shipped layout")
    times = Counter(each.name for each in spec.protections)
    for position, each in enumerate(spec.protections):
        if times[each.name] > 1 or each.name in RESERVED or (each.name == NONE and not each.unprotected):
            yield wrong(("protections", position, "name"), "the name is taken", each.name, "a name of its own")
    if sum(each.unprotected for each in spec.protections) > 1:
        yield wrong(("protections",), "the true tables are there twice", "none, twice", "at most one protection none")
    try:
        _ = spec.attack.settings
    except ConfideError as error:
        inner = error.findings[0]
        found, expected = inner.found or spec.attack.attacker, inner.expected or "perfect"
        yield wrong(("attack", "attacker"), inner.what, found, expected)


def also_protected(asked: Sequence[str], named: Iterable[ProtectionPart]) -> tuple[AnyProtection, ...]:
    """Protections that are asked for apart from those of a spec, such as ``topdown=1/2``: the mechanism and its rho.

    Args:
        asked: What was asked for; a protection that is there already is not asked for again.
        named: The protections of the spec.

    Returns:
        A protection for each, named after its mechanism and its budget.

    >>> [part.name for part in also_protected(["topdown=0.5", "topdown=1/2"], ())]
    ['topdown-at-1-over-2']
    """
    known: set[tuple[str, Fraction]] = {
        (each.mechanism, each.budget) for each in named if isinstance(each, TablesProtection | TopDownProtection)
    }
    parts: list[AnyProtection] = []
    for text in asked:
        mechanism, equals, amount = text.partition("=")
        if mechanism not in WITH_BUDGET or not equals:
            raise ParameterError(
                "bad-protection",
                where=Place(path="--also"),
                found=text[:40],
                with_budget=" or ".join(f"{each}=RHO" for each in WITH_BUDGET),
            )
        budget = positive_within(amount, "--also", Fraction(1, 10**6), Fraction(10**6))
        if (mechanism, budget) in known:
            continue
        known.add((mechanism, budget))
        name = f"{mechanism}-at-{str(budget).replace('/', '-over-')}"
        if len(name) > 60:
            name = f"{mechanism}-at-{hashlib.sha256(str(budget).encode()).hexdigest()[:16]}"
        parts.append(WITH_BUDGET[mechanism](name=name, mechanism=mechanism, budget=budget))
    return tuple(parts)


COMPARISON_DRAFT = "comparison"
"""What ``confide new`` calls the draft of a comparison."""


def comparison_draft(product: str | None, values: Mapping[str, str]) -> Draft:
    """The spec of a comparison to start from."""
    no_product(COMPARISON_DRAFT, product)
    named = {"title": "A made-up state, protected in six ways", "made_up": "100000"} | dict(values)
    return Draft(render("comparison.toml.j2", **named, file=SPEC))
