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

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from confide import documents
from confide.attacks.reidentification import AttackerSettings, parse_attacker
from confide.errors import ConfideError, Finding, Place, SpecError
from confide.releases.draft import SPEC, Draft, no_product
from confide.releases.load_spec import dotted
from confide.releases.spec import DataPart, ExactNumber, Name, Part
from confide.report.render import render

RESERVED = ("data", "comparison")
"""Names of folders and files that a comparison has besides those of protections."""
NONE = "none"
_VALUE = re.compile(r"^Value error, ")


class ComparisonPart(Part):
    """What the page is called, and whether people are made up for it."""

    title: str = Field("A comparison of protections", min_length=1, max_length=200, description="A title for people.")
    made_up: int | None = Field(
        None, ge=100, le=10_000_000, description="So many people are made up, instead of a part [data]."
    )
    seed: int = Field(7, ge=0, description="Made-up people, chosen keys and samples follow from it.")


class AreaDigitsPart(Part):
    """How many first characters of a block's code name each level."""

    state: int = Field(2, ge=1, le=40, description="The characters of a state's code.")
    county: int = Field(5, ge=1, le=40, description="The characters of a county's code.")
    tract: int = Field(11, ge=1, le=40, description="The characters of a tract's code.")
    block_group: int = Field(12, ge=1, le=40, description="The characters of a block group's code.")

    @property
    def digits(self) -> dict[str, int]:
        """The levels above the blocks, coarsest first."""
        return {
            "state": self.state,
            "county": self.county,
            "tract": self.tract,
            "block_group": self.block_group,
        }


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
        """Whether the block table must say how many housing units and group quarters a block has."""
        return False


class NoProtection(ProtectionPart):
    """The tables as they are."""

    mechanism: Literal["none"]

    @property
    def unprotected(self) -> bool:
        return True


class SwappingProtection(ProtectionPart):
    """Tables of records of which some households have exchanged places."""

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
    processes: int | None = Field(None, ge=1, le=1024, description="How many processes; default: all cores.")

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
    geography: AreaDigitsPart = AreaDigitsPart()
    protections: list[AnyProtection] = Field(default_factory=lambda: list(DEFAULT), min_length=1)
    attack: AttackPart = AttackPart()


@dataclass(frozen=True)
class LoadedComparison:
    """A spec with the file it came from."""

    spec: ComparisonSpec
    path: Path
    text: str

    @property
    def protections(self) -> tuple[Any, ...]:
        """The protections, with ``none`` first, whether it was named or not."""
        named = tuple(self.spec.protections)
        first = [each for each in named if each.unprotected] or [DEFAULT[0]]
        return (*first, *(each for each in named if not each.unprotected))

    def resolve(self, name: str) -> Path:
        """A path of the spec, relative to the spec's folder."""
        return self.path.parent / name

    def place(self, *path: str | int) -> Place:
        """Where in the file a key is."""
        return Place(file=self.path.name, line=documents.line_of(self.text, path), path=dotted(path))


def load_comparison(path: str | Path) -> LoadedComparison:
    """The spec in a file. Raises a :class:`SpecError` with all findings."""
    path = Path(path)
    text = _read(path)
    try:
        values = documents.parse(text)
    except (ValueError, RecursionError) as error:
        line = re.search(r"at line (\d+)", str(error))
        where = Place(file=path.name, line=int(line.group(1)) if line else None)
        what, remedy = "the spec is not a TOML file", "correct the file"
        raise SpecError("not-toml", what, where, str(error)[:200], "TOML in UTF-8", remedy) from None
    try:
        spec = ComparisonSpec.model_validate(values)
    except ValidationError as error:
        raise SpecError(_finding(path, text, dict(problem)) for problem in error.errors()[:100]) from None
    findings = list(_problems(spec, path, text))
    if findings:
        raise SpecError(findings)
    return LoadedComparison(spec, path, text)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        found = error.strerror if isinstance(error, OSError) else "bytes that are not UTF-8"
        remedy = "check the path; `confide new comparison FOLDER` writes one to start from"
        what, expected = "the spec cannot be read", "a TOML file in UTF-8"
        raise SpecError("no-spec", what, Place(file=str(path)), found, expected, remedy) from None


def _finding(path: Path, text: str, problem: dict[str, Any]) -> Finding:
    location = tuple(part for part in problem["loc"] if part not in _MECHANISMS or not isinstance(part, str))
    shown = str(problem["input"])[:60] if problem["type"] not in ("missing", "value_error") else "nothing of the kind"
    context = problem.get("ctx", {}).get("error")
    if isinstance(context, ConfideError):
        inner = context.findings[0]
        what, expected = inner.what, inner.expected or "another value"
        shown = inner.found or shown
    else:
        what = {"extra_forbidden": "there is no such key", "missing": "a key is missing"}.get(
            problem["type"], "a value is not of the right form"
        )
        expected = "no such key" if problem["type"] == "extra_forbidden" else _VALUE.sub("", str(problem["msg"]))
    where = Place(file=path.name, line=documents.line_of(text, location), path=dotted(location))
    return Finding("bad-comparison", what, where, shown, expected, "correct the spec")


_MECHANISMS = ("none", "swapping", "suppression", "cellkey", "tables", "topdown")


def _problems(spec: ComparisonSpec, path: Path, text: str) -> list[Finding]:
    """What is wrong although each value by itself is right."""
    found: list[Finding] = []

    def wrong(place: tuple[str | int, ...], what: str, was: str, expected: str) -> None:
        where = Place(file=path.name, line=documents.line_of(text, place), path=dotted(place))
        found.append(Finding("bad-comparison", what, where, was, expected, "correct the spec"))

    if (spec.data is None) == (spec.comparison.made_up is None):
        was = "neither" if spec.data is None else "both"
        wrong(("comparison",), "whose records are compared is not clear", was, "made_up = NUMBER, or a part [data]")
    digits = list(spec.geography.digits.values())
    if digits != sorted(set(digits)):
        expected = "more characters on every level, from the state down"
        wrong(("geography",), "the levels do not nest", ", ".join(map(str, digits)), expected)
    times = Counter(each.name for each in spec.protections)
    for position, each in enumerate(spec.protections):
        if times[each.name] > 1 or each.name in RESERVED or (each.name == NONE and not each.unprotected):
            wrong(("protections", position, "name"), "the name is taken", each.name, "a name of its own")
    if sum(each.unprotected for each in spec.protections) > 1:
        wrong(("protections",), "the true tables are there twice", "none, twice", "at most one protection none")
    try:
        _ = spec.attack.settings
    except ConfideError as error:
        inner = error.findings[0]
        wrong(("attack", "attacker"), inner.what, inner.found or spec.attack.attacker, inner.expected or "perfect")
    return found


COMPARISON = "comparison"
"""What ``confide new`` calls the draft of a comparison."""


def comparison_draft(product: str | None, values: Mapping[str, str]) -> Draft:
    """The spec of a comparison to start from."""
    no_product(COMPARISON, product)
    named = {"title": "A made-up state, protected in six ways", "made_up": "100000"} | dict(values)
    return Draft(render("comparison.toml.j2", **named, file=SPEC))
