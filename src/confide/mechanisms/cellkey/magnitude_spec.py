"""The part ``[magnitude]`` of a spec: how much noise the sum of a cell gets, in proportion to its contributions."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from typing import Literal

from pydantic import Field

from confide.releases.spec import ExactNumber, FilePath, Part, Problem

MOST_LARGEST, LARGEST_POWER = 6, 10


class NoiseTablePart(Part):
    """A perturbation table for magnitudes: by its parameters, or as a file."""

    D: int | None = Field(None, ge=1, le=49, description="The largest noise, in steps of a contribution's size.")
    V: ExactNumber | None = Field(None, description="The variance of the noise.")
    step: int = Field(1, ge=1, le=49, description="Noise goes in steps of 1/step; D times step is below 50.")
    icat: list[int] | None = Field(None, description="The rows of the table, from 1 to D; by default 1 and D.")
    ptable: FilePath | None = Field(None, description="Or: a table as a file, in the form of tau-ARGUS, SAS or CSV.")


class SensitivePart(Part):
    """Which cells are sensitive, and get more noise than others."""

    threshold: int | None = Field(None, ge=1, description="Cells with at most so many records.")
    p: ExactNumber | None = Field(
        None, description="The p % rule: cells whose second contributor could bound the first that closely."
    )


class MagnitudePart(Part):
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
    factors: list[ExactNumber] = Field(
        default_factory=lambda: [Fraction(1)],  # not in the JSON Schema: older pydantic cannot write a fraction there
        min_length=1,
        max_length=MOST_LARGEST,
        description="For each of the largest contributions its part of the noise, descending.",
    )
    p_small: ExactNumber = Field(description="A step of noise is this share of a contribution up to fp, ...")
    p_large: ExactNumber | None = Field(None, description="... and tends to this share for large ones.")
    fp: ExactNumber | None = Field(
        None, description="The flex point, from which on shares decrease, in units of value."
    )
    q: int = Field(3, ge=2, le=LARGEST_POWER, description="How fast they decrease.")
    mu_c: ExactNumber | None = Field(None, description="Noise of sensitive cells is larger by so many steps.")
    sensitive: SensitivePart | None = Field(None, description="Which cells are sensitive.")
    zero_keys: bool = Field(True, description="Whether the keys of records without a contribution count.")
    negative: bool = Field(False, description="Whether values may be negative.")


def magnitude_problems(part: MagnitudePart | None, value: str | None, keys: int) -> Iterator[Problem]:
    """What is wrong with the part although each value by itself is right."""
    if (part is None) != (value is None):
        what = "magnitude tables have a column of values and a part [magnitude]"
        yield Problem(("magnitude",), "magnitude", what, "both [data] value and [magnitude], or neither")
    if part is None:
        return
    tables = (part.noise,) if part.noise is not None else (part.even, part.odd)
    if any(table is None for table in tables) or (part.noise is not None and (part.even or part.odd)):
        what = "the perturbation table of magnitudes is not given, or given twice"
        yield Problem(("magnitude",), "ptable", what, "noise; or even and odd")
    for name in ("noise", "even", "odd", "small"):
        table = getattr(part, name)
        if table is not None:
            parameters = table.model_fields_set & {"D", "V", "step", "icat"}
            if parameters if table.ptable is not None else table.D is None or table.V is None:
                what = "the perturbation table is not given, or given twice"
                yield Problem(("magnitude", name), "ptable", what, "D and V, with step and icat; or ptable")
    if part.noise is None and len(part.factors) > 1:
        what = "tables for even and odd numbers go with one contribution"
        yield Problem(("magnitude", "factors"), "parity", what, "one factor", str(len(part.factors)))
    if len(part.factors) > 1 and (
        part.contributions != "largest" or set(str(keys)[1:]) != {"0"} or str(keys)[0] != "1"
    ):
        what = "several contributions have keys of their own: the digits of the cell key, moved by one each"
        expected = 'contributions = "largest", and as many keys as a power of ten'
        yield Problem(
            ("magnitude", "factors"), "factors", what, expected, f"{len(part.factors)} factors, {keys:,} keys"
        )
    if any(after > before for before, after in pairwise(part.factors)):
        what = "a smaller contribution would get more noise"
        yield Problem(("magnitude", "factors"), "factors", what, "numbers that do not increase")
    if (part.p_large is None) != (part.fp is None):
        what = "shares that decrease have a flex point and a share for large contributions"
        yield Problem(("magnitude",), "flex", what, "both fp and p_large, or neither")
    elif part.p_large is not None and part.p_large > part.p_small:
        what = "large contributions would get more noise than small ones, relative to their size"
        yield Problem(("magnitude", "p_large"), "flex", what, "at most p_small", str(part.p_large))
    elif part.p_large is not None and part.q * (part.p_small - part.p_large) < 2 * part.p_small:
        what = "beyond the flex point shares would rise before they fall"
        expected = "q of at least 2 p_small / (p_small - p_large); or neither fp nor p_large"
        yield Problem(("magnitude", "q"), "flex", what, expected, str(part.q))
    if (part.mu_c is None) != (part.sensitive is None):
        what = "more noise for sensitive cells needs both mu_c and a rule"
        yield Problem(("magnitude",), "sensitive", what, "both mu_c and sensitive, or neither")
    if part.sensitive is not None and part.sensitive.threshold is None and part.sensitive.p is None:
        what = "no rule says which cells are sensitive"
        yield Problem(("magnitude", "sensitive"), "sensitive", what, "threshold or p")
    if part.negative and part.sensitive is not None and part.sensitive.p is not None:
        what = "the p % rule is one for values without signs"
        yield Problem(("magnitude", "sensitive", "p"), "sensitive", what, "threshold, or no negative values")
