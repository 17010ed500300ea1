"""A spec or a schema to start from, also from an office's own files: what ``confide new`` writes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from confide.answers import AnswerPart, ShownTable, TypedAnswer
from confide.confidential import Confidential
from confide.documents import FileKind, load_named
from confide.engines import LocalEngine
from confide.errors import ParameterError, Place, RunError
from confide.exact import fraction_up
from confide.file_system import write_text
from confide.inputs import ColumnProposal, OfficeFiles, propose_office
from confide.lazy_names import DRAFTS, named
from confide.mechanisms import MECHANISMS
from confide.privacy import Definition, Measurement, Neighbours, PrivacyUnit, price_for
from confide.releases import Name, Part, in_plural, no_room_is_an_error
from confide.releases import draft as releases_draft
from confide.releases.abilities import DRAFT, DRAFT_FROM
from confide.releases.ledger import read_witness


@dataclass(frozen=True)
class NewSpec(TypedAnswer):
    """A spec to start from, and the ledger that was opened for it, if one was."""

    spec: Path
    ledger: Path | None
    said: tuple[str, ...] = ()
    """What was guessed of an office's own files."""
    compared: bool = False
    """Whether it is a spec of a comparison."""

    def as_dict(self) -> dict[str, Any]:
        """All of it as plain values for ``--json``."""
        answer = {"ok": True, "spec": str(self.spec), "ledger": None if self.ledger is None else str(self.ledger)}
        return answer | ({"said": list(self.said)} if self.said else {})

    def described(self) -> Iterator[AnswerPart]:
        yield from self.said
        if self.ledger is not None:
            yield f"Opened {self.ledger}: the account of the data set, with the budget of this release."
        then = f"compare {self.spec} --out DIR" if self.compared else f"check {self.spec}"
        yield f"Wrote {self.spec}. Edit it, then: confide {then}"


def new(
    mechanism: str,
    folder: str | Path,
    *,
    product: str | None = None,
    method: str | None = None,
    open_ledger: bool | None = None,
    from_file: str | Path | None = None,
    geography: str | Path | None = None,
    merged: Mapping[str, str] | None = None,
    household: str | None = None,
    households: str | Path | None = None,
    place: str | None = None,
    ledger_file: str | Path | None = None,
    schema: str | Path | None = None,
    **values: str,
) -> NewSpec:
    """Writes a commented spec to start from; where it comes with a budget, with a ledger of that budget.

    Args:
        mechanism: How to protect the records: ``tables``, ``topdown``, ``safetab``, ``cellkey``, ``swapping``,
            ``suppression``, or another mechanism that is installed; or ``comparison``; or ``census-2020``, for the
            specs of six products of one census on one ledger.
        folder: Where ``spec.toml`` is written; a spec that is there already is never replaced.
        product: Which product of the mechanism, where it has several: of ``topdown`` ``pl94-persons`` (the default),
            ``pl94-persons-2026``, ``pl94-units`` or ``dhc-persons``.
        method: Which method of the mechanism, where it has several: of ``swapping`` ``targeted`` (the default),
            ``enhanced`` or ``permutation``.
        open_ledger: Whether to open a ledger; by default where the draft comes with a budget.
        from_file: An office's own records, CSV, Parquet or Excel: schema and spec are proposed from them, and become
            public only when the curator keeps them.
        geography: With ``from_file``: the file of areas, one row for each of the smallest, or a code list. Without it,
            a table of areas is proposed from the columns of the records, and is public only when the curator keeps it.
        merged: With ``from_file``: old codes of areas, and the code that each has now.
        household: With ``from_file``: the column that identifies households.
        households: With ``from_file``: a second file, one row for each household; persons get its columns.
        place: With ``from_file`` and without ``geography``: the column with the code of the smallest area.
        ledger_file: With ``from_file``: the ledger that the data set has already; none is opened then.
        schema: With ``from_file``: a schema file that the curator has looked at, taken in place of a proposal.
        values: What differs from the draft, such as ``name`` or ``title``.

    Returns:
        The paths of the spec and of the ledger.

    >>> import confide
    >>> made = confide.new("tables", tmp_path, open_ledger=False)
    >>> made.spec.name, made.ledger
    ('spec.toml', None)
    """
    folder = Path(folder)
    if mechanism in CENSUS.names:
        asked = {"product": product, "method": method, "from": from_file, "geography": geography, "merged": merged}
        asked |= {"household": household, "households": households, "place": place, "ledger-file": ledger_file}
        return new_census(mechanism, folder, open_ledger, {**asked, "schema": schema, **values})
    if method is not None:
        known = MECHANISMS[mechanism].methods if mechanism in MECHANISMS else ()
        if not known:
            raise ParameterError("method", found=method, mechanism=mechanism)
        values = {**values, "method": releases_draft.one_of("method", method, known)}
    said: tuple[str, ...] = ()
    compared = mechanism not in MECHANISMS
    if from_file is None:
        draft = _draft(mechanism, product, values)
    else:
        if ledger_file is not None:
            values, open_ledger = {**values, "ledger": releases_draft.relative(Path(ledger_file), folder)}, False
        elif open_ledger is not False:
            no_second_ledger(mechanism, Path(from_file))
        office = look_at_office(
            from_file,
            geography,
            mechanism,
            merged=merged,
            household=household,
            households=households,
            place=place,
            schema=schema,
        )
        draft, said = _office_draft(mechanism, office, folder, values), office_in_words(office)
    with no_room_is_an_error(folder):
        for name in draft.files:
            if (folder / name).exists():
                raise RunError("there-already/name", where=Place(file=str(folder / name)))
        folder.mkdir(parents=True, exist_ok=True)
        releases_draft.write_spec(folder / releases_draft.SPEC, draft.text, secret=draft.secret)
        releases_draft.keep_secrets(folder, draft.secrets)
        for name, text in draft.files.items():
            write_text(folder / name, text, mode=0o600)
        if draft.prepare is not None:
            draft.prepare(folder)
        if draft.budget is None or open_ledger is False or (folder / releases_draft.LEDGER).exists():
            return NewSpec(folder / releases_draft.SPEC, None, said, compared)
        note = "opened by confide new for one release"
        ledger = releases_draft.new_ledger(
            folder / releases_draft.LEDGER,
            "my-data-set",
            draft.budget,
            note,
            neighbours=draft.neighbours,
            unit=draft.unit,
        )
        return NewSpec(folder / releases_draft.SPEC, ledger, said, compared)


# A census: the specs of several products of the same people, and one ledger that is kept in persons.


class CensusProduct(Part):
    """One release of a census."""

    name: Name
    title: str = Field(min_length=1, max_length=200)
    mechanism: str = Field(description="The mechanism that makes it.")
    product: str | None = Field(None, description="Which product of the mechanism.")
    protects: Literal["person", "household"] = Field(description="What comes and goes, or is changed, in its promise.")
    settings: dict[str, str] = Field(default_factory=dict, description="What its spec has beside name and title.")


class CensusFile(Part):
    """The products of a census, in the order in which one needs another."""

    id: Name
    title: str = Field(min_length=1, max_length=200)
    provenance: str = Field(min_length=1, description="One sentence: where products and budgets come from.")
    products: list[CensusProduct] = Field(min_length=1)


CENSUS = FileKind("census", unreadable="bad-census", shipped="censuses")


@dataclass(frozen=True)
class PlannedProduct:
    """A product whose spec was written: its own price, and what it will cost a person of the account."""

    spec: Path
    protects: PrivacyUnit
    neighbours: Neighbours
    rho: Fraction
    charged: Fraction

    @classmethod
    def of(cls, spec: Path, product: CensusProduct, draft: releases_draft.Draft) -> PlannedProduct:
        """The price in persons is that of one measurement that costs the whole budget (``privacy.price_for``)."""
        assert draft.budget is not None, "every product of a census has a budget"
        neighbours = Neighbours(draft.neighbours)
        changed = neighbours is Neighbours.CHANGE_ONE
        everything = Measurement.discrete_gaussian(1 / draft.budget if changed else 1 / (2 * draft.budget))
        protects = PrivacyUnit(product.protects)
        cost = price_for(PrivacyUnit.PERSON, everything, protects, Neighbours.ADD_REMOVE, Definition.ZCDP)
        (charged,) = cost.parameters().values()
        return cls(spec, protects, neighbours, draft.budget, charged)


@dataclass(frozen=True)
class NewCensus(NewSpec):
    """The specs of a census, their ledger, and what all releases will cost one person."""

    products: tuple[PlannedProduct, ...] = ()

    @property
    def charged(self) -> Fraction:
        """What all of them cost one person."""
        return sum((product.charged for product in self.products), Fraction(0))

    def as_dict(self) -> dict[str, Any]:
        """All of it as plain values for ``--json``."""
        products = {
            product.spec.stem: {
                "spec": str(product.spec),
                "protects": product.protects.value,
                "neighbours": product.neighbours.value,
                "rho": str(product.rho),
                "costs_one_person": str(product.charged),
            }
            for product in self.products
        }
        return {**super().as_dict(), "products": products, "costs_one_person": str(self.charged)}

    def described(self) -> Iterator[AnswerPart]:
        rows = [
            (
                product.spec.stem,
                product.protects.value,
                product.neighbours.value,
                fraction_up(product.rho),
                fraction_up(product.charged),
            )
            for product in self.products
        ]
        rows.append(("all", "person", Neighbours.ADD_REMOVE.value, "", fraction_up(self.charged)))
        columns = ["release", "protects", "neighbours", "rho ", "costs one person "]
        yield ShownTable(columns, rows, title="What the releases will cost, before anything is spent")
        if self.ledger is not None:
            yield f"Opened {self.ledger}: the account of all of them, kept in persons."
        written = f"Wrote {len(self.products)} specs in {self.spec.parent}."
        yield f"{written} Edit them, then check and run each in this order."
        yield "Each new file of records needs --accept-ledger once: it says that these are the people of this account."


def new_census(name: str, folder: Path, open_ledger: bool | None, asked: Mapping[str, Any]) -> NewCensus:
    """Writes the specs of the products of a census, and opens one ledger with what they cost together.

    Args:
        name: A census that ships.
        folder: Where the specs go; none that is there already is replaced.
        open_ledger: Whether to open the ledger; by default it is opened.
        asked: Settings of single specs, none of which a census takes.

    Returns:
        The specs, and the account in persons.
    """
    given = sorted(key for key, value in asked.items() if value is not None)
    if given:
        raise ParameterError("census-setting", where=Place(path=f"--{given[0]}"), found=", ".join(given), name=name)
    census = load_named(name, Path(), CensusFile, kind=CENSUS).value
    drafts: dict[Path, tuple[CensusProduct, releases_draft.Draft]] = {}
    for product in census.products:
        path = folder / f"{product.name}.toml"
        titled = {"name": product.name, "title": f"{census.title}: {product.title}", "file": path.name}
        drafts[path] = product, _draft(product.mechanism, product.product, {**titled, **product.settings})
    for path in (path for path in drafts if path.exists()):
        raise RunError("there-already/spec", where=Place(file=str(path)))
    products = tuple(PlannedProduct.of(path, *drafted) for path, drafted in drafts.items())
    with no_room_is_an_error(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for path, (_, draft) in drafts.items():
            releases_draft.write_spec(path, draft.text, secret=draft.secret)
        answer = NewCensus(products[0].spec, None, products=products)
        if open_ledger is False or (folder / releases_draft.LEDGER).exists():
            return answer
        note = "opened by confide new for the releases of a census"
        ledger = releases_draft.new_ledger(
            folder / releases_draft.LEDGER, census.id, answer.charged, note, neighbours="add-remove", unit="person"
        )
    return replace(answer, ledger=ledger)


def no_second_ledger(mechanism: str, records: Path) -> None:
    """Raises if a ledger would be opened for records that have one: the spending of two would add up unseen."""
    accounted = mechanism in MECHANISMS and MECHANISMS[mechanism].accounted
    if accounted and (noted := read_witness(records)):
        raise ParameterError(
            "second-ledger",
            where=Place(file=str(records)),
            noted=", ".join(sorted({repr(one.data_set) for one in noted})),
        )


@dataclass(frozen=True)
class NewSchema(TypedAnswer):
    """A proposed schema: its file, if it was written, and its text, which is confidential until somebody keeps it."""

    file: Path | None
    text: Confidential[str]
    said: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """What may be printed, as plain values for ``--json``."""
        return {"ok": True, "schema": None if self.file is None else str(self.file), "said": list(self.said)}

    def described(self) -> Iterator[AnswerPart]:
        yield from self.said
        if self.file is not None:
            private = "Only you can read it. What it lists becomes public when you keep it: look at every line."
            yield f"Wrote {self.file}. {private}"


def new_schema(
    file: str | Path,
    out: str | Path | None = None,
    *,
    households: str | Path | None = None,
    columns: Sequence[ColumnProposal] | None = None,
) -> NewSchema:
    """Looks at a CSV, Parquet or Excel file, and proposes a schema for it.

    Args:
        file: The records.
        out: A new file for the schema, which only its owner may read; without it nothing is written.
        households: A second file, one row for each household; persons get its columns.
        columns: What somebody made of the proposal, in place of it.

    Returns:
        The schema, and what was guessed of the layout. Its domains are what occurs in the records: they become public
        only when the curator keeps the file.

    >>> import confide
    >>> people = tmp_path / "people.csv"
    >>> with people.open("w") as file:
    ...     print("sex,age", "1,30", "2,41", "1,7", sep=chr(10), file=file)
    >>> confide.new_schema(people, tmp_path / "schema.toml").file.name
    'schema.toml'
    """
    office = look_at_office(file, None, None, households=households)
    text = releases_draft.schema_text(office.records, office.columns if columns is None else columns)
    target = None if out is None else Path(out)
    if target is not None:
        if target.exists():
            raise RunError("there-already/name", where=Place(file=str(target)))
        with no_room_is_an_error(target.parent):
            target.parent.mkdir(parents=True, exist_ok=True)
            write_text(target, text, mode=0o600)
    return NewSchema(target, Confidential(text), office_in_words(office))


def look_at_office(
    records: str | Path,
    geography: str | Path | None,
    mechanism: str | None,
    *,
    merged: Mapping[str, str] | None = None,
    household: str | None = None,
    households: str | Path | None = None,
    place: str | None = None,
    schema: str | Path | None = None,
) -> OfficeFiles:
    """What an office's files look like; without a ``mechanism``, the columns alone and no geography."""
    if geography is not None and place is not None:
        raise ParameterError("two-geographies", where=Place(path="--place"))
    with tempfile.TemporaryDirectory(prefix="confide-new-") as scratch, LocalEngine(Path(scratch)) as engine:
        areas = None if geography is None else Path(geography)
        return propose_office(
            Path(records),
            areas,
            engine,
            merged=merged,
            household=household,
            households=None if households is None else Path(households),
            place=place,
            schema=None if schema is None else Path(schema),
            with_places=mechanism is not None,
        )


def _office_draft(mechanism: str, office: OfficeFiles, folder: Path, values: Mapping[str, str]) -> releases_draft.Draft:
    draft_from = DRAFT_FROM.of(MECHANISMS[mechanism]) if mechanism in MECHANISMS else None
    if draft_from is None:
        raise ParameterError("mechanism/draft", found=mechanism, mechanisms=", ".join(DRAFT_FROM.among(MECHANISMS)))
    return draft_from(office, folder, values)


def office_in_words(office: OfficeFiles) -> tuple[str, ...]:
    """What was guessed, in lines for a terminal: numbers and names of columns, and nothing that a row holds."""
    lines = [office.records.in_words()] + ([] if office.areas is None else [office.areas.in_words()])
    places = office.places
    if places is not None:
        above = [name for name, _ in places.levels]
        lines.append(
            f"areas: the smallest are in column {places.block!r}; levels: {' > '.join([*above, places.smallest])}"
        )
        if places.areas:
            lines.append(f"areas that cut across these levels, which you may add: {', '.join(places.areas)}")
        if places.proposed:
            lines.append(
                f"{releases_draft.AREAS}: {places.proposed:,} areas, proposed from the records. "
                "Only you can read the file. It "
                "becomes public when you keep it: look at every line, and add the areas where nobody was counted."
            )
        if places.without_place:
            lines.append(
                f"records without a code in {places.block!r}: {places.without_place:,}; give each of them an area"
            )
        if places.aliases:
            by_name = f"; {places.by_name} guessed by name: check [geography] aliases" if places.by_name else ""
            number = sum(map(len, places.aliases.values()))
            lines.append(f"codes of areas that merged into others: {number}{by_name}")
        if places.unknown:
            lines.append(
                f"codes of areas that are not in {office.areas.source.file if office.areas else ''}: {places.unknown}; "
                "give the new code of each, with --merged OLD=NEW or in [geography] aliases"
            )
    for column in office.attributes:
        said = [in_plural(column.size, "level")]
        said += ["a range"] if column.bounds else []
        said += [f"{len(column.aliases)} with aliases"] if column.aliases else []
        said += ["missing values"] if column.missing else []
        lines.append(f"{column.name}: {', '.join(said)}")
    return (*lines, *(f"{column.name}: left out; {column.left_out}" for column in office.left_out))


def _draft(name: str, product: str | None, values: Mapping[str, str]) -> releases_draft.Draft:
    """The draft of a mechanism, or of a comparison, which is none; raises with the names that there are."""
    draft = DRAFT.of(MECHANISMS[name]) if name in MECHANISMS else None
    if draft is not None:
        return draft(product, values)
    releases_draft.one_of("mechanism", name, [*DRAFT.among(MECHANISMS), *DRAFTS])
    other: releases_draft.Draft = named(DRAFTS[name])(product, values)
    return other
