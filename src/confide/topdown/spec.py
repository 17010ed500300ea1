"""The spec of a TopDown release."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from confide.runs.spec import Part, Problem, Spec


class TopDownPart(Part):
    """What is measured, and along which spine."""

    strategy: str = Field(description="The strategy: a shipped name (pl94-persons, pl94-units), or a TOML file.")
    root: str | None = Field(None, description="The root of the strategy: us, pr or state; default: the file's own.")
    spine: Literal["optimised", "plain"] = Field(
        "optimised",
        description="optimised: block groups are made around off-spine entities (the areas place, cousub and aiannh, "
        "where they are declared) and group quarters; plain: the levels of the frame as they are.",
    )
    split_aian: bool = Field(
        True, description="Whether units below the root are split by American Indian and Alaska Native areas (aiannh)."
    )


class TopDownSpec(Spec):
    """Consistent, whole, non-negative records from noisy measurements along a spine (Abowd et al. 2022)."""

    topdown: TopDownPart

    def problems(self) -> list[Problem]:
        found = super().problems()
        if self.privacy.definition != "zcdp" or self.privacy.neighbours != "change-one":
            what = "a TopDown release is accounted in zcdp, for neighbours that change one record"
            expected = 'definition = "zcdp" and neighbours = "change-one"'
            found.append(Problem(("privacy", "definition"), "topdown-definition", what, expected))
        return found
