"""The text of a strategy: a land of counties and blocks, whose people work or not and have one of three tongues."""

from __future__ import annotations

from collections.abc import Sequence


def strategy_text(name: str, title: str, *, estimation: Sequence[str], rest: str, attributes: str = "") -> str:
    """A strategy with a budget of 2, whose ``rest`` begins with the queries of its levels.

    ``estimation`` names the estimation of the land, the counties and the blocks; ``attributes`` come before the others.
    """
    return f"""
id = "{name}"
title = "{title}"
provenance = "Made up for tests."
definition = "zcdp"
neighbours = "change-one"
root = "land"

[schema]
id = "{name}-people"
provenance = "Made up for tests."
{attributes}
[schema.attributes.work]
title = "Work"
levels = [[0, "none"], [1, "some"]]

[schema.attributes.tongue]
title = "Mother tongue"
levels = [["a", "A"], ["b", "B"], ["c", "C"]]

[schema.attributes.tongue.recodes.two.groups]
"A" = "a"
"B or C" = ["b", "c"]

[roots.land]
budget = "2"
levels = ["land", "county", "block"]
shares = ["1/5", "2/5", "2/5"]
estimation = {list(estimation)}

[roots.land.queries]
{rest}"""
