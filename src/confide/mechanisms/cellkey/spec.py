"""The spec of a release by the cell key method, with its part ``[magnitude]``, and the secret order that it may name.

``[magnitude]`` says how much noise the sum of a cell gets, in proportion to its contributions. The secret order of a
perturbation table is a file of its own, 0600: the spec itself is public.
"""

from __future__ import annotations

import re
import secrets
import stat
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from confide.errors import CONFIDENTIAL, Place, SpecError
from confide.file_system import open_to_others
from confide.inputs import OfficeFiles
from confide.mechanisms.cellkey.keys import BIG_N, MOST_COLUMNS, ROWS, SIZE, SMALL_N
from confide.releases import spec
from confide.releases.draft import SPEC, Draft, no_product, office_files, office_values
from confide.releases.tabular import AskedTable, level_problems
from confide.report.rendering import render

MOST_LARGEST, LARGEST_POWER = 6, 10


class NoiseTablePart(spec.Part):
    """A perturbation table for magnitudes: by its parameters, or as a file."""

    D: int | None = Field(None, ge=1, le=49, description="The largest noise, in steps of a contribution's size.")
    V: spec.ExactNumber | None = Field(None, description="The variance of the noise.")
    step: int = Field(1, ge=1, le=49, description="Noise goes in steps of 1/step; D times step is below 50.")
    icat: list[int] | None = Field(None, description="The rows of the table, from 1 to D; by default 1 and D.")
    ptable: spec.FilePath | None = Field(
        None, description="Or: a table as a file, in the form of tau-ARGUS, SAS or CSV."
    )


class SensitivePart(spec.Part):
    """Which cells are sensitive, and get more noise than others."""

    threshold: int | None = Field(None, ge=1, description="Cells with at most so many records.")
    p: spec.ExactNumber | None = Field(
        None, description="The p % rule: cells whose second contributor could bound the first that closely."
    )


class MagnitudePart(spec.Part):
    """The noise of a sum: what it is in proportion to, by how much, and where it is looked up."""

    noise: NoiseTablePart | None = Field(None, description="The perturbation table of all cells.")
    even: NoiseTablePart | None = Field(None, description="In its place: that of cells with an even number of records,")
    odd: NoiseTablePart | None = Field(None, description="and that of cells with an odd number.")
    small: NoiseTablePart | None = Field(
        None, description="The table of cells whose largest contribution is below the separation point."
    )
    contributions: Literal["largest", "mean", "range", "sum"] = Field(
        "largest", description="What noise is in proportion to: the largest contributions, or one figure of the cell."
    )
    factors: list[spec.ExactNumber] = Field(
        default_factory=lambda: [Fraction(1)],  # not in the JSON Schema: older pydantic cannot write a fraction there
        min_length=1,
        max_length=MOST_LARGEST,
        description="For each of the largest contributions its part of the noise, descending.",
    )
    p_small: spec.ExactNumber = Field(description="A step of noise is this share of a contribution up to fp, ...")
    p_large: spec.ExactNumber | None = Field(None, description="... and tends to this share for large ones.")
    fp: spec.ExactNumber | None = Field(
        None, description="The flex point, from which on shares decrease, in units of value."
    )
    q: int = Field(3, ge=2, le=LARGEST_POWER, description="How fast they decrease.")
    mu_c: spec.ExactNumber | None = Field(None, description="Noise of sensitive cells is larger by so many steps.")
    sensitive: SensitivePart | None = Field(None, description="Which cells are sensitive.")
    zero_keys: bool = Field(True, description="Whether the keys of records without a contribution count.")
    negative: bool = Field(False, description="Whether values may be negative.")


def magnitude_problems(part: MagnitudePart | None, value: str | None, keys: int) -> Iterator[spec.Problem]:
    """What is wrong with the part although each value by itself is right."""
    if (part is None) != (value is None):
        yield spec.Problem.of(("magnitude",), "magnitude")
    if part is None:
        return
    tables = (part.noise,) if part.noise is not None else (part.even, part.odd)
    if any(table is None for table in tables) or (part.noise is not None and (part.even or part.odd)):
        yield spec.Problem.of(("magnitude",), "ptable/magnitudes")
    for name in ("noise", "even", "odd", "small"):
        table = getattr(part, name)
        if table is not None:
            parameters = table.model_fields_set & {"D", "V", "step", "icat"}
            if parameters if table.ptable is not None else table.D is None or table.V is None:
                yield spec.Problem.of(("magnitude", name), "ptable/perturbation-table")
    if part.noise is None and len(part.factors) > 1:
        yield spec.Problem.of(("magnitude", "factors"), "parity", found=str(len(part.factors)))
    if len(part.factors) > 1 and (
        part.contributions != "largest" or set(str(keys)[1:]) != {"0"} or str(keys)[0] != "1"
    ):
        yield spec.Problem.of(("magnitude", "factors"), "factors/several", factors=len(part.factors), keys=keys)
    if any(after > before for before, after in pairwise(part.factors)):
        yield spec.Problem.of(("magnitude", "factors"), "factors/smaller")
    if (part.p_large is None) != (part.fp is None):
        yield spec.Problem.of(("magnitude",), "flex/decrease")
    elif part.p_large is not None and part.p_large > part.p_small:
        yield spec.Problem.of(("magnitude", "p_large"), "flex/get", found=str(part.p_large))
    elif part.p_large is not None and part.q * (part.p_small - part.p_large) < 2 * part.p_small:
        yield spec.Problem.of(("magnitude", "q"), "flex/beyond", found=str(part.q))
    if (part.mu_c is None) != (part.sensitive is None):
        yield spec.Problem.of(("magnitude",), "sensitive/noise")
    if part.sensitive is not None and part.sensitive.threshold is None and part.sensitive.p is None:
        yield spec.Problem.of(("magnitude", "sensitive"), "sensitive/rule-cells")
    if part.negative and part.sensitive is not None and part.sensitive.p is not None:
        yield spec.Problem.of(("magnitude", "sensitive", "p"), "sensitive/values")


# The spec itself.


NOTHING = "-"
LARGEST_KEYS = 1 << 32
"""Key sums of a million records at a time stay exact in the arithmetic that is used."""
DERIVED, UNSHUFFLED = "derived", "none"
_SHUFFLE = rf"^([0-9a-f]{{64}}|{DERIVED}|{UNSHUFFLED})$"
MOST_DECIMALS = 6
WEIGHT_UNIT = 10**MOST_DECIMALS
"""Weights are whole numbers of millionths."""
OF_COUNTS = frozenset(("D", "V", "js", "pstay", "mono", "ptable", "threshold", "lookup", "pieces"))
"""Keys of [cellkey] that have no role in magnitude tables."""


class CellKeyData(spec.DataPart):
    """Where the records are, what they mean, and which column holds their keys; or the columns of given cells."""

    records: spec.FilePath = Field(
        NOTHING, description="The confidential records: a Parquet or CSV file, relative to the spec."
    )
    schema_: spec.FilePath = Field(
        NOTHING, alias="schema", description="The schema of the records: a shipped name, or a TOML file."
    )
    blocks: spec.FilePath = Field(NOTHING, description="The block table of the frame; needed where a table has levels.")
    record_key: str = Field("record_key", description="The column with the key of each record, drawn once for ever.")
    weight: str | None = Field(None, description="A column of weights: counts are then also published weighted.")
    weight_gap: spec.ExactNumber = Field(
        default_factory=lambda: Fraction(1),
        description="Neighbouring weights that somebody has to think possible are at most so far apart: weighted "
        "figures are published in multiples of (D + 1) times this. 1 by default.",
    )
    value: str | None = Field(
        None, description="A column of numbers: its sums are published in place of counts (magnitude tables)."
    )
    decimals: int = Field(
        0, ge=0, le=MOST_DECIMALS, description="How many decimals values have, and published sums of them."
    )
    count: str = Field("count", description="Given cells: the column with their true counts.")
    cell_key: str = Field("cell_key", description="Given cells: the column with their cell keys.")


class CellKeyPart(spec.Part):
    """The perturbation table, by its parameters or as a file, and how it is looked up."""

    D: int | None = Field(None, ge=1, le=100, description="The largest noise, up or down.")
    V: spec.ExactNumber | None = Field(None, description="The variance of the noise.")
    js: int = Field(0, ge=0, le=99, description="Small counts, from 1 to js, are never published.")
    pstay: spec.ExactNumber | None = Field(
        None, description="The least probability with which a count is left as it is."
    )
    mono: bool = Field(True, description="Whether probabilities increase from the most negative noise to zero.")
    ptable: spec.FilePath | None = Field(
        None, description="Or: a table as a file, in the form of tau-ARGUS, SAS, ONS or CSV."
    )
    keys: int = Field(10**8, ge=2, le=LARGEST_KEYS, description="Record keys are whole numbers from 0 to below this.")
    pieces: spec.ExactNumber | None = Field(
        None,
        description="The table is cut into pieces of this probability, in an order that shuffle decides; by default "
        "of a hundredth of the keys.",
    )
    shuffle: Annotated[str, Field(pattern=_SHUFFLE)] | None = Field(
        None,
        description="The order of the pieces: 64 hexadecimal digits, a secret that is drawn once like the keys; "
        'derived: an order that follows from the table, the default; none: not shuffled. A "ptable" from a file '
        "stays as it is, unless this says otherwise.",
    )
    shuffle_file: spec.FilePath | None = Field(
        None,
        description="Or: a secret file, readable by its owner alone, with the 64 digits; the spec can then be shown.",
    )
    threshold: int | None = Field(None, ge=1, description="Published counts below it are left out, as ONS does.")
    lookup: Literal["ess", "abs"] = Field(
        "ess", description="ess: by intervals of the cell key; abs: by its bytes, in 256 values drawn beforehand."
    )
    big_n: int = Field(BIG_N, ge=ROWS, le=LARGEST_KEYS, description="abs: cell keys are sums modulo this prime.")
    small_n: int = Field(SMALL_N, ge=1, le=1000, description="abs: so many columns are shared by all larger counts.")
    table_size: int = Field(SIZE, ge=2, le=MOST_COLUMNS, description="abs: columns of the table made from D and V.")


class CellKeyTable(AskedTable):
    """One table of the programme."""

    variables: list[str] = Field(
        description="The variables crossed: attributes of the schema, or recodes such as age:five-year; of given "
        "cells the columns with their labels."
    )
    levels: list[str] = Field(
        default_factory=list, description="The geolevels and areas the table is published for; none: for all records."
    )
    cells: spec.FilePath | None = Field(
        None,
        description="A table that was counted elsewhere, Parquet or CSV: labels, counts and cell keys; its margins "
        "are rows of it.",
    )


class CellKeyOutput(spec.TabularOutput):
    """What is written."""

    noise_margin: ClassVar[None] = None  # type: ignore[misc]


class CellKeySpec(spec.Spec):
    """Tables whose counts are perturbed by a key of their members, always by the same for the same members."""

    data: CellKeyData
    cellkey: CellKeyPart
    magnitude: MagnitudePart | None = Field(None, description="The noise of magnitude tables: with [data] value.")
    tables: list[CellKeyTable] = Field(min_length=1)
    output: CellKeyOutput = CellKeyOutput()
    privacy: ClassVar[spec.PrivacyPart] = spec.PrivacyPart(ledger=NOTHING, budget=Fraction(1))  # type: ignore[misc]

    @property
    def given(self) -> bool:
        """Whether the tables were counted elsewhere: cells with their counts and keys are given, and no records."""
        return any(table.cells is not None for table in self.tables)

    def problems(self) -> list[spec.Problem]:
        return [
            *super().problems(),
            *self._sources(),
            *self._geography(),
            *self._ptable(),
            *magnitude_problems(self.magnitude, self.data.value, self.cellkey.keys),
            *self._weights(),
        ]

    def _sources(self) -> Iterator[spec.Problem]:
        """Records with their schema, or tables of cells; and what neither goes with."""
        data = self.data
        if not self.given:
            for name, text in (("records", data.records), ("schema", data.schema_)):
                if text == NOTHING:
                    yield spec.Problem.of(("data",), "missing-key/spec", name=name)
            given = sorted(data.model_fields_set & {"count", "cell_key"})
            if given:
                yield spec.Problem.of(("data", given[0]), "no-cells", given=given[0])
        else:
            for name in sorted(data.model_fields_set & {"records", "schema_", "blocks", "value", "decimals"}):
                yield spec.Problem.of(("data", name.rstrip("_")), "given-cells/tables", rstrip=name.rstrip("_"))
            for position, table in enumerate(self.tables):
                if table.cells is None or table.levels or "margins" in table.model_fields_set:
                    yield spec.Problem.of(("tables", position), "given-cells/table")
            if "argus" in self.output.formats:
                yield spec.Problem.of(("output", "formats"), "given-cells/codes")

    def _geography(self) -> Iterator[spec.Problem]:
        spatial = any(table.levels for table in self.tables)
        if self.geography.model_fields_set and not spatial:
            yield spec.Problem.of(("geography",), "geography/table")
        if not spatial:
            return
        if self.data.blocks == NOTHING and not self.given:
            yield spec.Problem.of(("data", "blocks"), "no-blocks/tables")
        yield from level_problems(self.tables, self.geography)

    def _weights(self) -> Iterator[spec.Problem]:
        """How coarse weighted figures are is asked where there are any."""
        data = self.data
        if "weight_gap" not in data.model_fields_set:
            return
        if data.weight is None or data.value is not None:
            yield spec.Problem.of(("data", "weight_gap"), "weight-gap/counts")
        elif data.weight_gap <= 0 or (data.weight_gap * WEIGHT_UNIT).denominator != 1:
            yield spec.Problem.of(("data", "weight_gap"), "weight-gap/between", found=str(data.weight_gap))

    def _ptable(self) -> Iterator[spec.Problem]:
        part = self.cellkey
        parameters = part.D is not None or part.V is not None or part.js > 0 or part.pstay is not None or not part.mono
        if self.data.value is not None:
            of_counts = OF_COUNTS & part.model_fields_set
            if of_counts:
                name = min(of_counts)
                yield spec.Problem.of(("cellkey", name), "ptable/belongs", name=name)
        elif parameters if part.ptable is not None else part.D is None or part.V is None:
            yield spec.Problem.of(("cellkey",), "ptable/js")
        if part.pstay is not None and part.pstay >= 1:
            yield spec.Problem.of(("cellkey", "pstay"), "probability/pstay", found=str(part.pstay))
        if part.shuffle is not None and part.shuffle_file is not None:
            yield spec.Problem.of(("cellkey", "shuffle_file"), "shuffle/order")
        shuffled = part.pieces is not None or part.shuffle not in (None, UNSHUFFLED) or part.shuffle_file is not None
        if (part.pieces is not None and part.shuffle == UNSHUFFLED) or (shuffled and part.lookup == "abs"):
            yield spec.Problem.of(("cellkey",), "shuffle/cut")
        given = sorted(part.model_fields_set & {"big_n", "small_n", "table_size"})
        if part.lookup == "ess" and given:
            yield spec.Problem.of(("cellkey", given[0]), "lookup", given=given[0])


def weighted_step(largest_noise: Fraction, gap: Fraction) -> Fraction:
    """What weighted figures are published in multiples of: (D + 1) · gap.

    The attacker has p = n + v and p · W / n, W being the sum of the n weights of a cell. Were the second figure
    published to the last digit, n would be the one number within D of p for which n · weighted / p is a sum of weights.
    In multiples of this step, every number within D of p has such a sum: ``docs/proofs/cellkey.md``, section 4a.

    Args:
        largest_noise: D, the largest noise of a count.
        gap: Neighbouring weights that somebody has to think possible are at most so far apart.

    Returns:
        The step, exact.

    >>> weighted_step(Fraction(4), Fraction(1, 10))
    Fraction(1, 2)
    """
    return (largest_noise + 1) * gap


def cellkey_spec(file: str, tables: Iterable[Mapping[str, object]], **values: str) -> str:
    """The text of a spec of the cell key method. The secret order of its perturbation table is in a file that it
    names (``shuffle_file``), which :mod:`confide.mechanisms.cellkey.spec` writes.

    Args:
        file: The name that the spec will have.
        tables: For each table its ``name`` and its ``variables``.
        values: What differs from the draft: ``name``, ``title``, ``records``, ``schema``, ``D``, ``V``, ``js``.

    Returns:
        A commented TOML file.
    """
    named = {"name": "my-tables", "title": "My tables", "records": "keyed.parquet", "schema": "persons"}
    return render(
        "cellkey.toml.j2",
        **named | {"D": "5", "V": "2", "js": "0", "shuffle_file": "order.secret"} | values,
        tables=tables,
        file=file,
    )


# The secret order of a perturbation table.


ORDER = "order.secret"
"""The file beside a spec that `confide new cellkey` writes."""
_DIGITS = re.compile(r"[0-9a-f]{64}")


def new_order() -> str:
    """A secret order, drawn by the operating system, as the content of its file."""
    return secrets.token_hex(32) + "\n"


def with_order(loaded: spec.LoadedSpec, part: CellKeyPart) -> CellKeyPart:
    """The part with the secret order that its file holds; as it is, where it names none.

    Args:
        loaded: The spec.
        part: Its part ``[cellkey]``.

    Returns:
        The part as if the order was in it.

    Raises:
        SpecError: Where the file cannot be read, can be read by others, or holds something else.
    """
    if part.shuffle_file is None:
        return part
    path = loaded.resolve(part.shuffle_file)
    where = loaded.place("cellkey", "shuffle_file")
    try:
        mode, content = stat.S_IMODE(path.stat().st_mode), path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError("secret-order/file-table-read", where=where, error=getattr(error, "strerror", None)) from None
    if open_to_others(mode):
        raise SpecError("secret-order/others", where=Place(file=str(path)), mode=mode, at=path)
    if not _DIGITS.fullmatch(content):
        raise SpecError("secret-order/hold", where=Place(file=str(path)), found=CONFIDENTIAL)
    return part.model_copy(update={"shuffle": content})


KEYED = "keyed.parquet"
"""Where the records of an office are kept with their keys."""


def draft_cellkey(product: str | None, values: Mapping[str, str]) -> Draft:
    """The spec that ``confide new cellkey`` writes."""
    no_product("cellkey", product)
    tables = [
        {"name": "age-by-sex", "variables": ["sex", "age:five-year"]},
        {"name": "origin", "variables": ["sex", "hispanic", "cenrace:major"]},
    ]
    return Draft(cellkey_spec(SPEC, tables, **values), secrets={ORDER: new_order()})


def draft_cellkey_from(office: OfficeFiles, folder: Path, values: Mapping[str, str]) -> Draft:
    """The same for an office's own files. Records are given keys in a file beside the spec: without keys there is
    nothing to check."""
    from confide.mechanisms.cellkey.cellkey_answers import give_keys

    named = office_values(office, folder, "cellkey", values)
    named |= {"records": KEYED, "layout": office.block_layout(), "shuffle_file": ORDER}
    text = render("own_cellkey.toml.j2", **named)
    records = office.records.source
    return Draft(
        text,
        secrets={ORDER: new_order()},
        files=office_files(office),
        prepare=lambda where: give_keys(records, where / KEYED),
    )
