"""The spec of a release that is made from published measurements: no records, no budget, no ledger."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, ClassVar, Literal

from pydantic import Field

from confide.runs.spec import PrivacyPart, Problem
from confide.topdown.spec import CountedPart, TopDownData, TopDownPart, TopDownSpec

NOTHING = "-"


class PostprocessData(TopDownData):
    """Where the measurements are."""

    measurements: str = Field(
        description="The noisy measurement file: a folder with LEVEL.parquet/DPQuery and LEVEL.parquet/Constraint."
    )
    blocks: str | None = Field(  # type: ignore[assignment]
        None, description="The block table: for areas, for levels by column, and for counts that no constraint tells."
    )
    recodes: dict[str, str] = Field(
        default_factory=dict, description="Our name of a recode = what the measurements call it, where they differ."
    )
    totals: dict[str, int] = Field(
        default_factory=dict,
        description="Known numbers of records, by code of the unit, where the constraints do not have them.",
    )
    records: ClassVar[str] = NOTHING  # type: ignore[misc]
    counted: ClassVar[list[CountedPart]] = []  # type: ignore[misc]
    presence: ClassVar[list[str]] = []  # type: ignore[misc]


class PostprocessPart(TopDownPart):
    """What was measured: the strategy says which queries there are and how they become estimates."""

    spine: ClassVar[Literal["plain"]] = "plain"  # type: ignore[misc]
    split_aian: ClassVar[bool] = False  # type: ignore[misc]
    around: ClassVar[None] = None  # type: ignore[misc]
    fanout: ClassVar[int] = 0  # type: ignore[misc]
    entity_threshold: ClassVar[int] = 0  # type: ignore[misc]


class PostprocessSpec(TopDownSpec):
    """Records from noisy measurements that were published. Nothing confidential is read and nothing is spent."""

    data: PostprocessData
    topdown: PostprocessPart
    privacy: ClassVar[PrivacyPart] = PrivacyPart(ledger=NOTHING, budget=Fraction(1))  # type: ignore[misc]

    def problems(self) -> list[Problem]:
        found = super().problems()
        if self.output.measurements:
            what, expected = "the measurements are there already, and are not written again", "false, or nothing"
            found.append(Problem(("output", "measurements"), "measured-before", what, expected, "true"))
        texts: dict[str, Any] = {"measurements": self.data.measurements}
        found += [
            Problem(
                ("data", key), "bad-path", f"{key} is no path of a folder", "a path, relative to the spec", repr(text)
            )
            for key, text in texts.items()
            if not text.strip() or "\0" in text
        ]
        found += [
            Problem(("data", "totals", code), "bad-total", "a number of records is negative", "0, 1, 2, ...", str(n))
            for code, n in self.data.totals.items()
            if n < 0
        ]
        if self.data.blocks is None:
            found += [
                Problem(
                    ("geography", "areas", position),
                    "no-block-table",
                    f"the areas {area.name!r} are a column of the block table, and there is none",
                    '[data] blocks = "..."',
                    "no block table",
                    "name the block table, or leave the areas out",
                )
                for position, area in enumerate(self.geography.areas)
                if not area.optional
            ]
            found += [
                Problem(
                    ("geography", "levels", position),
                    "no-block-table",
                    f"the level {level.name!r} is a column of the block table, and there is none",
                    "digits = N, or a block table",
                    "no block table",
                    "name the block table, or cut the level from the block code",
                )
                for position, level in enumerate(self.geography.levels)
                if level.column is not None
            ]
        return found
