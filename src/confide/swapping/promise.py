"""What can be said of a release of swapped data: what stays, what changes, and that no loss is certified."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confide.swapping.people import ADULTS, SIZE

IN_WORDS = (
    "Some households of this release have exchanged their places with others before anything was counted. Every figure "
    "is an exact count of the records after that.",
    "No differential privacy is promised, and no budget was spent. Whatever a table says of households that were not "
    "moved is true, and nothing in the release limits what can be worked out from all tables together: reconstruct "
    "records from them, and see, before you rely on it.",
    "Which households moved is a secret, and so is the key that decided it. {settings}",
)
NOT_STATED = "So are the swap rate and the other settings: whoever knows them knows how far a figure can be trusted."
STATED = "The swap rate and the other settings are stated below."


def in_words(facts: Mapping[str, Any]) -> list[str]:
    """What is promised and what is not."""
    settings = NOT_STATED if facts["settings"] is None else STATED
    return [text.format(settings=settings) for text in IN_WORDS]


def kept_in_words(facts: Mapping[str, Any]) -> list[str]:
    """What stays as it was, from the plan alone."""
    names = facts["kept_in_blocks"]
    words = ["The number of households in every block."]
    if SIZE in names:
        words.append("The number of people in every block, and so in every area.")
    if ADULTS in names:
        age = facts["adult_age"]
        words.append(f"The number of people of {age} or more in every block, and so in every area.")
    words += [f"The counts by {name} in every block." for name in names if name not in (SIZE, ADULTS)]
    if facts["exact_levels"]:
        levels = " and ".join(facts["exact_levels"])
        without = f" without {', '.join(facts['carried'])}" if facts["carried"] else ""
        words.append(f"Every figure{without} on the level {levels}: no household left its unit.")
    words.append("Who lives together: no household was parted, added or left out.")
    return words


def noise_facts() -> dict[str, Any]:
    """There is no noise in a count; the key is that of the swap."""
    return {"sampler": "confide/v1", "key": "system", "what": "places of households exchanged"}
