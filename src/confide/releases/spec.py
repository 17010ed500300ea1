"""The spec: what describes a release. The parts that every mechanism has, as data; ``load_spec`` reads the file."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import BaseModel, BeforeValidator, Field, PlainSerializer, ValidationInfo, WithJsonSchema

from confide.documents import LEVEL_PATTERN, NAME_PATTERN, Document, FileKind, Loaded, read
from confide.documents import KeyPath as KeyPath
from confide.documents import Part as Part
from confide.documents import Problem as Problem
from confide.engines.protocol import UTF_8, Format, Join, Source, format_of
from confide.errors import Finding, ParameterError, SpecError
from confide.exact import positive
from confide.inputs.frame import AreaRule, LevelRule
from confide.schema import Spelling

MOST_DIGITS = 100
"""How many digits the parts of an exact number in a spec may have: enough for any budget, few enough to be written."""


OWN_FILES = ("frame", "histogram")
"""Files beside the true counts of tables and levels, which are kept under the names of these."""
LARGEST_BUDGET = 10**15
"""Beyond this a number is a slip of the pen; trials with as good as no noise stay possible."""
LARGEST_EPSILON_WITH_DELTA = 10**4
"""The same for approximate differential privacy: to price a bound exactly takes minutes from here on."""


LONGEST_NAME, LONGEST_PATH = 255, 1_000
"""How many bytes a file system takes for the name of a file or folder, and how many of a path are enough."""


def is_path(text: str) -> bool:
    """Whether a file system could have a file or a folder of this path.

    >>> is_path("data/persons.csv"), is_path("a" * 300), is_path(" ")
    (True, False, False)
    """
    lengths = [len(part.encode()) for part in (text, *text.split("/"))]
    return bool(text.strip()) and "\0" not in text and lengths[0] <= LONGEST_PATH and max(lengths[1:]) <= LONGEST_NAME


def _exact(value: Any, info: ValidationInfo) -> Fraction:
    name = info.field_name or "number"
    number = positive(value, name)
    if max(number.numerator, number.denominator) >= 10**MOST_DIGITS:
        raise ParameterError("number-too-long", field_name=info.field_name, most_digits=MOST_DIGITS)
    return number


ExactNumber = Annotated[
    Fraction,
    BeforeValidator(_exact),
    PlainSerializer(str, return_type=str),
    WithJsonSchema(
        {
            "type": ["string", "integer"],
            "pattern": r"^\+?(\d+/\d+|(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?)$",
            "description": 'A positive exact number: 3, "2.56", "64/25" or "1e-10".',
        }
    ),
]
"""A positive exact number in a spec; a bare decimal is a float in TOML and is refused."""

Name = Annotated[str, Field(pattern=NAME_PATTERN)]
"""A name that is also a file name: lower case letters, digits and hyphens."""


class NamesFile:
    """Marks a key of a spec whose text is the path of a file, or the name of a shipped one."""


FilePath = Annotated[str, NamesFile()]
"""The path of a file, relative to the spec; or a shipped name, where there are any."""

PrintedText = Annotated[str, Field(min_length=1, max_length=1_000)]
"""A text for people, printed as it is."""
Language = Literal["en", "de", "fr"]
PUBLICATION = ("office", "contact", "licence", "citation", "language")
"""The entries of a spec that say who publishes a release, on which terms, and in which language its pages are."""


class ReleasePart(Part):
    """What the release is."""

    name: Name = Field(description="The name of the release; the folder it is written to unless output.folder says.")
    mechanism: str = Field(description="How the records are protected.")
    title: str = Field("", max_length=200, description="A title for people, on the certificate.")
    rehearsal: bool = Field(
        False, description="Written by `confide rehearse`: the records are made up, and everything is stamped."
    )
    office: PrintedText | None = Field(None, description="Who publishes the release, on its pages.")
    contact: PrintedText | None = Field(None, description="Whom to ask about it: an address that is read.")
    licence: PrintedText | None = Field(None, description="On which terms others may use it.")
    citation: PrintedText | None = Field(None, description="How to cite it.")
    language: Language = Field("en", description="The language of certificate or statement: en, de or fr.")

    @property
    def publication(self) -> dict[str, str]:
        """What is said of the publication itself, as far as it is said; English is not worth a word."""
        said = {name: getattr(self, name) for name in PUBLICATION}
        return {name: text for name, text in said.items() if text is not None and (name, text) != ("language", "en")}


TWO_FILES = (
    "join", "counts", "householder",
    "household_columns", "household_delimiter", "household_encoding", "household_sheet",
)  # fmt: skip
"""The keys that only records in two files have."""


class DataPart(Part):
    """Where the records and the frame are, and what their columns are called."""

    records: FilePath = Field(
        description="The confidential records: a Parquet, CSV or Excel file, relative to the spec."
    )
    blocks: FilePath = Field(description="The block table of the frame: one row for each block. Public knowledge.")
    columns: dict[str, str] = Field(
        default_factory=dict, description="Our name of a column = theirs, for both files, where they differ."
    )
    block_columns: dict[str, str] = Field(
        default_factory=dict, description="The same for the block table alone, where it calls a column otherwise."
    )
    delimiter: str = Field(",", min_length=1, max_length=1, description="The delimiter of CSV files.")
    encoding: str = Field(UTF_8, description="The encoding of CSV files, such as windows-1252 or utf-16.")
    sheet: str | None = Field(None, description="The sheet of an Excel file of records; default: the only one.")
    block_delimiter: str | None = Field(
        None, min_length=1, max_length=1, description="The delimiter of the block table, where it is another."
    )
    block_encoding: str | None = Field(None, description="The encoding of the block table, where it is another.")
    block_sheet: str | None = Field(None, description="The sheet of an Excel file of the block table.")
    households: FilePath | None = Field(
        None,
        description="A second confidential file, one row for each household: a person has the columns of its household "
        "beside its own. `records` are then the persons.",
    )
    join: str | None = Field(
        None, description="The column with the number of the household, in both files. It is never published."
    )
    counts: Literal["persons", "households"] = Field(
        "persons", description="Of two files: which rows are counted and protected, persons or households."
    )
    householder: dict[str, str] = Field(
        default_factory=dict,
        description="counts = households: which person's columns a household has beside its own, column = value.",
    )
    household_columns: dict[str, str] = Field(
        default_factory=dict,
        description="Our name of a column of the second file = theirs, where the first file has one of that name too.",
    )
    household_delimiter: str | None = Field(
        None, min_length=1, max_length=1, description="The delimiter of the households, where it is another."
    )
    household_encoding: str | None = Field(None, description="The encoding of the households, where it is another.")
    household_sheet: str | None = Field(None, description="The sheet of an Excel file of the households.")

    more_records: ClassVar[tuple[str, ...]] = ()
    """The keys of further files of records, where the records of a data set are in several: households beside
    persons. A run has one fingerprint of all of them, and leaves a witness beside each."""

    @property
    def record_files(self) -> dict[str, str]:
        """All files of records by their keys, the first one first."""
        more = {key: getattr(self, key) for key in (*self.more_records, "households")}
        return {"records": self.records} | {key: name for key, name in more.items() if name is not None}

    @property
    def one_row_for_each_block(self) -> bool:
        """Whether the records come counted by block: then their file may be the block table itself."""
        return False

    def problems(self, geography: GeographyPart) -> list[Problem]:
        """What is wrong with the keys about records in two files, although each value by itself is right."""
        given = {name: getattr(self, name) for name in TWO_FILES if getattr(self, name) not in (None, {}, "persons")}
        if self.households is None:
            return [Problem.of(("data", name), "two-files/alone", name=name) for name in given]
        if self.join is None:
            return [Problem.of(("data", "households"), "two-files/join")]
        problems = []
        if (self.counts == "households") != (len(self.householder) == 1) or len(self.householder) > 1:
            problems.append(Problem.of(("data", "householder"), "two-files/householder", given=len(self.householder)))
        if self.counts == "households" and set(self.household_columns) - {self.join}:
            problems.append(Problem.of(("data", "household_columns"), "two-files/columns"))
        twice = sorted(set(self.columns) & set(self.household_columns) - {self.join})
        if twice and self.counts == "persons":
            problems.append(Problem.of(("data", "household_columns", twice[0]), "two-files/twice", name=twice[0]))
        columns = {level.column for level in geography.levels} | {area.column for area in geography.areas}
        if self.join in columns | {geography.block}:
            problems.append(Problem.of(("data", "join"), "two-files/area", name=self.join))
        return problems


class LevelPart(Part):
    """A level of the spine."""

    name: Annotated[str, Field(pattern=LEVEL_PATTERN)] = Field(description="The name of the level.")
    digits: int | None = Field(
        None, ge=0, le=100, description="The code is that many first characters of the block code; 0: one unit of all."
    )
    column: str | None = Field(None, description="Or: the code is this column of the block table.")
    names: str | None = Field(None, description="The column of the block table with the names of the units.")
    geometry: FilePath | None = Field(
        None, description="A GeoJSON file with the outlines of the units, for a file of them in GeoParquet."
    )


class AreaPart(Part):
    """Off-spine areas, such as places or districts."""

    name: Annotated[str, Field(pattern=LEVEL_PATTERN)] = Field(description="The name of the areas.")
    column: str = Field(description="The column of the block table with the code of the area.")
    none: str | None = Field(None, description="The code that means: in no area. Empty values mean the same.")
    within: str | None = Field(
        None,
        description="A level inside whose units codes repeat: an area is then known by the unit's code and its own.",
    )
    names: str | None = Field(None, description="The column of the block table with the names of the areas.")
    geometry: FilePath | None = Field(
        None, description="A GeoJSON file with the outlines of the areas, for a file of them in GeoParquet."
    )


class GeographyPart(Part):
    """The spine: levels from the root down. The blocks themselves are the last level, named `block`."""

    block: str = Field("geocode", description="The column with the block code, in the records and the block table.")
    levels: list[LevelPart] = Field(default_factory=list, description="The levels above the blocks, root first.")
    areas: list[AreaPart] = Field(default_factory=list, description="Partitions that do not nest in the spine.")
    block_names: str | None = Field(None, description="The column of the block table with the names of the blocks.")
    block_geometry: FilePath | None = Field(None, description="A GeoJSON file with the outlines of the blocks.")
    smallest: Annotated[str, Field(pattern=LEVEL_PATTERN)] = Field(
        "block", description="What the smallest places are called in tables and messages, such as municipality."
    )
    trim: bool = Field(False, description="Whether blanks at either end of a code are no part of it, in both files.")
    aliases: dict[str, str | list[str]] = Field(
        default_factory=dict,
        description="Code of a block = others that records have for it, such as those of places merged into it.",
    )

    @property
    def has_names(self) -> bool:
        """Whether some level or area has names."""
        names = [*(level.names for level in self.levels), *(area.names for area in self.areas), self.block_names]
        return any(names)

    @property
    def outlines(self) -> dict[str, str]:
        """By level or area the file with its outlines, where there is one."""
        files = {level.name: level.geometry for level in self.levels}
        files |= {area.name: area.geometry for area in self.areas}
        files[self.smallest] = self.block_geometry
        return {name: file for name, file in files.items() if file is not None}


class PrivacyPart(Part):
    """What may be spent, by which definition, on which account."""

    ledger: FilePath = Field(description="The ledger of the data set, opened once by `confide ledger open`.")
    budget: ExactNumber = Field(description="What this release spends: rho for zcdp, epsilon for the others.")
    definition: Literal["zcdp", "pure", "approximate"] = Field(
        "zcdp", description="The privacy definition the budget is in; approximate has an epsilon and a delta."
    )
    neighbours: Literal["change-one", "add-remove"] = Field(
        "change-one", description="What is hidden: the content of any one record, or whether it is there at all."
    )
    delta: ExactNumber = Field(
        Fraction(1, 10**10),
        description="The delta at which epsilon is stated for readers, which changes no noise; in approximate, what "
        "this release spends of delta.",
    )


class UnitPrivacy(PrivacyPart):
    """The same for mechanisms whose records may be persons or households."""

    unit: Literal["record", "person", "household"] = Field(
        "record",
        description="What one record stands for, where the ledger is kept in persons or households: a release of "
        "households is charged to a ledger of persons as what one person can change.",
    )


class OneNumberPrivacy(PrivacyPart):
    """The same for mechanisms whose noise has a loss of one number."""

    definition: Literal["zcdp", "pure"] = Field("zcdp", description="The privacy definition the budget is in.")


class OutputPart(Part):
    """What is written, and where."""

    folder: str | None = Field(None, description="The folder of the run, relative to the spec; default: the name.")
    formats: list[Literal["parquet", "csv"]] = Field(
        ["parquet", "csv"], min_length=1, description="The file formats of the tables."
    )
    noise_margin: ExactNumber | None = Field(
        Fraction(19, 20), description="The probability of the noise margin given beside every figure."
    )
    explore: bool | None = Field(
        None,
        description="Whether the release has explore.html, one page with its tables to look at in a browser; true: "
        "with all tables that fit into 3 MB, the smallest first. Default: if the tables have at most 50,000 rows.",
    )

    def problems(self, geography: GeographyPart) -> list[Problem]:
        """What is wrong although each value by itself is right."""
        problems = []
        if geography.has_names:
            problems.append(Problem.of(("geography",), "no-names"))
        if geography.outlines:
            problems.append(Problem.of(("geography",), "no-geometry", found=", ".join(geography.outlines)))
        return problems


class ExplainedOutput(OutputPart):
    """The same for releases with tables of codes and labels, and files that explain them."""

    formats: list[Literal["parquet", "csv", "sdmx-csv", "xlsx", "csvw", "registry", "argus"]] = Field(  # type: ignore[assignment]
        ["parquet", "csv"],
        min_length=1,
        description="The file formats of the tables: parquet, csv, sdmx-csv; and what is made of them for readers: "
        "xlsx (a workbook), csvw (metadata of the W3C), registry (a record for a registry of deployments), argus "
        "(files of tau-ARGUS).",
    )
    agency: str = Field("CONFIDE", pattern=r"^[A-Za-z][A-Za-z0-9_-]*$", description="The agency in SDMX.")

    @property
    def companions(self) -> list[str]:
        """What is asked for beside the tables."""
        order = ("argus", "csvw", "dta", "registry", "sav", "sdmx-csv", "xlsx")
        return [name for name in order if name in self.formats]

    @property
    def explained(self) -> dict[str, object]:
        """The same as a plan has it, with what it depends on."""
        return {"formats": self.companions, "agency": self.agency}

    TABLES: ClassVar[tuple[str, ...]] = ("parquet", "csv", "sdmx-csv")
    """The formats; one of them must be there."""

    def problems(self, geography: GeographyPart) -> list[Problem]:  # noqa: ARG002 - names and outlines may be there
        problems = []
        if len(set(self.formats)) < len(self.formats):
            problems.append(Problem.of(("output", "formats"), "repeated-format", found=", ".join(self.formats)))
        if not set(self.formats) & set(self.TABLES):
            problems.append(Problem.of(("output", "formats"), "no-tables/themselves", found=", ".join(self.formats)))
        if "argus" in self.formats and not set(self.formats) & {"parquet", "csv"}:
            problems.append(Problem.of(("output", "formats"), "no-tables/files", found=", ".join(self.formats)))
        if self.explore and not set(self.formats) & {"parquet", "csv"}:
            problems.append(Problem.of(("output", "explore"), "no-tables/page", found=", ".join(self.formats)))
        return problems


class TabularOutput(ExplainedOutput):
    """The same for mechanisms whose releases are tables."""

    layout: Literal[2] = Field(
        2, description="Codes and labels, cells apart from margins, and files that explain the release."
    )


class Spec(Part):
    """What the specs of all mechanisms have in common."""

    release: ReleasePart
    data: DataPart
    geography: GeographyPart = GeographyPart()
    privacy: PrivacyPart
    output: OutputPart = OutputPart()
    names_smallest: ClassVar[bool] = True
    """Whether the smallest places have the office's own word in what is published."""

    def problems(self) -> list[Problem]:
        """What is wrong although each value by itself is right. Mechanisms add their own."""
        geography = self.geography
        named: list[tuple[KeyPath, str]] = [
            *((("geography", "levels", i, "name"), level.name) for i, level in enumerate(geography.levels)),
            *((("geography", "areas", i, "name"), area.name) for i, area in enumerate(geography.areas)),
        ]
        seen = {geography.smallest}
        problems = []
        if geography.smallest != "block" and not self.names_smallest:
            path: KeyPath = ("geography", "smallest")
            problems.append(
                Problem.of(path, "smallest", found=repr(geography.smallest), mechanism=self.release.mechanism)
            )
        for path, name in named:
            if name in seen:
                problems.append(
                    Problem.of(path, "duplicate-level/name", found=repr(name), name=name, smallest=geography.smallest)
                )
            seen.add(name)
        problems += [
            Problem.of(
                ("geography", "levels", position), "level-rule", level=level.name, with_digits=level.digits is not None
            )
            for position, level in enumerate(geography.levels)
            if (level.digits is None) == (level.column is None)
        ]
        above = [level.name for level in geography.levels]
        problems += [
            Problem.of(
                ("geography", "areas", position, "within"),
                "unknown-level/correct-spec-2",
                found=repr(area.within),
                within=area.within,
                above=", ".join(above),
            )
            for position, area in enumerate(geography.areas)
            if area.within is not None and area.within not in above
        ]
        for path, number in (
            (("privacy", "delta"), self.privacy.delta),
            (("output", "noise_margin"), self.output.noise_margin),
        ):
            if number is not None and number >= 1:
                problems.append(Problem.of(path, "probability/correct-spec", found=str(number), at=path[-1]))
        largest = LARGEST_EPSILON_WITH_DELTA if self.privacy.definition == "approximate" else LARGEST_BUDGET
        if self.privacy.budget > largest:
            problems.append(
                Problem.of(("privacy", "budget"), "budget-too-large", found=str(self.privacy.budget), largest=largest)
            )
        problems += self.output.problems(geography) + self.data.problems(geography)
        return problems + self._names(named) + self._texts()

    def _names(self, levels: list[tuple[KeyPath, str]]) -> list[Problem]:
        """Names that are also those of files: each once, and none of a file of our own."""
        tables = [(("tables", i, "name"), table.name) for i, table in enumerate(getattr(self, "tables", ()))]
        times = Counter(name for _, name in tables)
        problems = [
            Problem.of(path, "duplicate-table/two", found=repr(name), name=name)
            for path, name in tables
            if times[name] > 1
        ]
        return problems + [
            Problem.of(path, "reserved-name/file", found=repr(name), name=name, own_files=" and ".join(OWN_FILES))
            for path, name in (*levels, *tables)
            if name in OWN_FILES
        ]

    def _texts(self) -> list[Problem]:
        """Texts that no file system or reader of CSV could take."""
        problems = []
        paths: dict[KeyPath, str | None] = {
            **{("data", key): name for key, name in self.data.record_files.items()},
            ("data", "blocks"): self.data.blocks,
            ("data", "households"): self.data.households,
            ("data", "schema"): getattr(self.data, "schema_", None),
            ("privacy", "ledger"): self.privacy.ledger,
            ("output", "folder"): self.output.folder,
        }
        for path, text in paths.items():
            if text is not None and not is_path(text):
                problems.append(Problem.of(path, "bad-path/file", found=repr(text), at=path[-1]))
        for key in ("delimiter", "block_delimiter", "household_delimiter"):
            delimiter = getattr(self.data, key)
            if delimiter is not None and delimiter in '\r\n\0"':
                problems.append(Problem.of(("data", key), "delimiter", found=repr(delimiter)))
        for key in ("encoding", "block_encoding", "household_encoding"):
            encoding = getattr(self.data, key)
            if encoding is not None and not is_encoding(encoding):
                problems.append(Problem.of(("data", key), "encoding/utf", found=repr(encoding), encoding=encoding))
        return problems


# Reading a spec file, and the files that it names.
SPEC = FileKind(
    "spec",
    absent="spec-unreadable",
    unreadable="spec-unreadable",
    syntax="toml-syntax",
    example="`confide new tables FOLDER` writes one",
    largest=1 << 20,
)


@dataclass(frozen=True)
class LoadedSpec(Loaded[Spec]):
    """A spec with the file it came from."""

    @property
    def spec(self) -> Spec:
        """The spec itself."""
        return self.value

    @property
    def folder(self) -> Path:
        """The folder of the run."""
        return self.resolve(self.spec.output.folder or self.spec.release.name)

    def with_data(self, **paths: str) -> LoadedSpec:
        """The same spec with other files in ``[data]``; other records are one file."""
        alone = {"households": None} if "records" in paths else {}
        data = self.spec.data.model_copy(update={**alone, **paths})
        return replace(self, value=self.spec.model_copy(update={"data": data}))


def named_files(part: BaseModel, path: KeyPath = ()) -> Iterator[tuple[KeyPath, str]]:
    """Every text of a spec that names a file, at its path of keys, as they are in the file.

    Args:
        part: A spec, or a part of one.
        path: Where the part is.

    Yields:
        The keys, and the text.
    """
    for name, field in type(part).model_fields.items():
        value, at = getattr(part, name), (*path, field.alias or name)
        if isinstance(value, BaseModel):
            yield from named_files(value, at)
        elif isinstance(value, list):
            for place, item in enumerate(value):
                if isinstance(item, BaseModel):
                    yield from named_files(item, (*at, place))
        elif isinstance(value, str) and _marked(field.annotation, field.metadata):
            yield at, value


def _marked(annotation: Any, metadata: Iterable[Any]) -> bool:
    """Whether a key is marked itself, or the text that it may have."""
    inner = (each for member in get_args(annotation) for each in getattr(member, "__metadata__", ()))
    return any(isinstance(mark, NamesFile) for mark in (*metadata, *inner))


def load_spec(path: Path, models: Mapping[str, type[Spec]]) -> LoadedSpec:
    """The spec in a file, checked against the model of its mechanism. Raises a :class:`SpecError` with all findings.

    Args:
        path: The spec file.
        models: The model of the spec of each mechanism, by name.

    Returns:
        The spec, with its file and the lines of its keys.

    >>> from confide.mechanisms import SPECS
    >>> load_spec(project / "spec.toml", SPECS).spec.release.mechanism
    'tables'
    """
    document = read(path, kind=SPEC)
    checked = document.check(models[_mechanism(document, models)])
    checked.refuse(checked.value.problems())
    return LoadedSpec(SPEC, path, document.text, document.values, value=checked.value)


def _mechanism(document: Document, models: Mapping[str, type[Spec]]) -> str:
    release = document.values.get("release")
    name = release.get("mechanism") if isinstance(release, dict) else None
    if isinstance(name, str) and name in models:
        return name
    close = difflib.get_close_matches(str(name), models, 1)
    raise SpecError(
        "mechanism/other",
        where=document.place("release", "mechanism"),
        with_name=name is not None,
        name=name,
        models=", ".join(models),
        close=close[0] if close else None,
    )


def frame_rules(geography: GeographyPart) -> tuple[list[LevelRule], list[AreaRule]]:
    """How the levels and areas of a spec are found in the block table."""
    levels = [LevelRule(level.name, level.digits, level.column, level.names) for level in geography.levels]
    areas = [AreaRule(area.name, area.column, area.none, area.within, area.names) for area in geography.areas]
    return levels, areas


# The files that a spec names, as sources with the columns it declares.


BLOCKS = "blocks"
"""The key of the block table; every other key of a source is that of a file of records."""


def find_sources(loaded: LoadedSpec) -> tuple[dict[str, Source], list[Finding]]:
    """All files of a spec, as far as they are there, and what is wrong with the others."""
    keys = ("records", *(key for key in loaded.spec.data.more_records if getattr(loaded.spec.data, key)), BLOCKS)
    sources_or_findings = {key: find_source(loaded, key) for key in keys}
    sources = {key: source for key, source in sources_or_findings.items() if isinstance(source, Source)}
    return sources, [finding for finding in sources_or_findings.values() if isinstance(finding, Finding)]


def is_encoding(name: str) -> bool:
    """Whether this names an encoding of text.

    >>> is_encoding("latin-1"), is_encoding("rot13"), is_encoding("ANSI")
    (True, False, False)
    """
    try:
        return isinstance("".encode(name), bytes)
    except LookupError:
        return False


_OTHER_PROGRAMS = {
    ".xls": "save it as .xlsx, or as CSV in UTF-8",
    ".ods": "save it as .xlsx, or as CSV in UTF-8",
    ".sav": "export it from SPSS as CSV in UTF-8, with codes rather than labels",
    ".dta": "export it from Stata as CSV in UTF-8: export delimited, nolabel",
    ".sas7bdat": "export it from SAS as CSV in UTF-8",
    ".rds": "write it from R: arrow::write_parquet, or write.csv with row.names = FALSE and fileEncoding = 'UTF-8'",
    ".gz": "unpack it",
    ".zip": "unpack it",
}
"""What to do with files of other programs."""


def _are_confidential(loaded: LoadedSpec, path: Path) -> bool:
    """Whether the block table is a file of records, by this name or by another; two sheets are two files."""
    data = loaded.spec.data
    if data.one_row_for_each_block:
        return False
    sheets = {"records": data.sheet, "households": data.household_sheet}
    files = [(loaded.resolve(name), sheets.get(key, data.sheet)) for key, name in data.record_files.items() if name]
    return any(file.is_file() and file.samefile(path) and sheet == data.block_sheet for file, sheet in files)


def _file(loaded: LoadedSpec, key: str, name: str) -> tuple[Path, Format] | Finding:
    """A file that ``[data]`` names, and its format."""
    path = loaded.resolve(name)
    if not path.is_file():
        return Finding.of("no-such-file/correct", where=loaded.place("data", key), found=name)
    format_ = format_of(path)
    if format_ is None:
        remedy = _OTHER_PROGRAMS.get(path.suffix.lower(), "give the file the ending of what it is, or convert it")
        return Finding.of("unknown-format/name", where=loaded.place("data", key), suffix=path.suffix, remedy=remedy)
    return path, format_


def find_source(loaded: LoadedSpec, key: str) -> Source | Finding:
    """A file of records or the block table of a spec, or what is wrong with its name."""
    data = loaded.spec.data
    name = data.blocks if key == BLOCKS else data.record_files[key]
    file = _file(loaded, key, name)
    if isinstance(file, Finding):
        return file
    path, format_ = file
    if key == BLOCKS and _are_confidential(loaded, path):
        return Finding.of("records-as-frame", where=loaded.place("data", "blocks"), found=name)
    geography = loaded.spec.geography
    aliases = tuple(
        (text, code)
        for code, texts in geography.aliases.items()
        for text in ([texts] if isinstance(texts, str) else texts)
    )
    spellings = {geography.block: Spelling(geography.trim, aliases=aliases)}
    if key in data.more_records and (first := loaded.resolve(data.records)).is_file() and first.samefile(path):
        return Finding.of("records-twice", where=loaded.place("data", key), found=name)
    if key != BLOCKS:
        records = Source(
            path,
            format_,
            data.columns,
            data.delimiter,
            encoding=data.encoding,
            sheet=data.sheet,
            spellings=spellings,
        )
        return records if key != "records" or data.households is None else _with_households(loaded, records)
    places = [level.column for level in geography.levels] + [area.column for area in geography.areas]
    return Source(
        path,
        format_,
        {**data.columns, **data.block_columns},
        data.block_delimiter or data.delimiter,
        encoding=data.block_encoding or data.encoding,
        sheet=data.block_sheet,
        spellings={name: Spelling(geography.trim) for name in places if name} | spellings,
    )


def _with_households(loaded: LoadedSpec, persons: Source) -> Source | Finding:
    """Persons with the columns of their household, or households with those of their householder."""
    data = loaded.spec.data
    assert data.households is not None
    file = _file(loaded, "households", data.households)
    if isinstance(file, Finding):
        return file
    path, format_ = file
    if path.samefile(persons.path) and data.sheet == data.household_sheet:
        return Finding.of("records-twice", where=loaded.place("data", "households"), found=data.households)
    households = Source(
        path,
        format_,
        {**data.columns, **data.household_columns},
        data.household_delimiter or data.delimiter,
        encoding=data.household_encoding or data.encoding,
        sheet=data.household_sheet,
        spellings=persons.spellings,
    )
    assert data.join is not None  # else the spec has a problem
    if data.counts == "households":
        (householder,) = data.householder.items()
        return replace(households, joined=Join(persons, data.join, householder))
    named = tuple((ours, theirs) for ours, theirs in data.household_columns.items() if ours != data.join)
    return replace(persons, joined=Join(households, data.join, named=named))
