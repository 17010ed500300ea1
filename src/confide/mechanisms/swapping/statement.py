"""What can be said of a release of swapped data: what stays, what changes, and that no loss is certified."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from confide.mechanisms.swapping.people import ADULTS, SIZE
from confide.mechanisms.swapping.settings import NOISE
from confide.report.render import exact_text, render

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


# The statement that stands in for a certificate where households were swapped: it certifies no loss, and says what
# stays as it was and what does not. Made from the manifest alone.


VARIANTS = {
    "targeted": "Households that stand out where they live were more likely to be taken; each changed places with a "
    "household that is alike in what is listed as kept.",
    "enhanced": "All households were as likely to be taken; each changed places with one of the same or nearly the "
    "same size.",
}
CHANGED = {
    (): "No count of people is kept in a block, not even their number: partners may differ in size.",
    (SIZE,): "How many of the people of a block are adults, and all else about them, may have changed.",
    (SIZE, ADULTS): "What the people of a block are like, apart from being adults or not, may have changed.",
}
OTHER = "All that is not listed as kept may have changed in any area smaller than that."


def swapping_statement(manifest: Mapping[str, Any]) -> str:
    """The statement as an HTML page."""
    question = manifest["plan"]["question"]
    facts = question["swapping"]
    stamp = manifest.get("stamp")
    return render(
        "swapping.html.j2",
        title=f"Statement: {manifest['title']}",
        banner=f"{stamp}: made with a chosen key; whoever knows it knows who moved" if stamp else "",
        manifest=manifest,
        words=manifest["privacy"]["in_words"],
        variant=VARIANTS[facts["variant"]],
        kept=kept_in_words(facts),
        changed=CHANGED.get(tuple(facts["kept_in_blocks"]), OTHER),
        exact=facts["exact_levels"],
        carried=facts["carried"],
        in_households=question["in_households"],
        settings=_settings(facts["settings"]) if facts["settings"] else [],
        tables=[_row(question, table) for table in question["tables"]],
        microdata=question["microdata"],
        figures=_figures(question),
    )


def sizes(question: Mapping[str, Any]) -> dict[str, int]:
    """How large a release is: tables, and the cells that they could have."""
    return {
        "tables": len(question["tables"]),
        "cells": sum(_cells(question, table) for table in question["tables"]),
    }


def _figures(question: Mapping[str, Any]) -> list[tuple[str, str]]:
    facts, size = question["swapping"], sizes(question)
    settings = facts["settings"]
    rate = ("secret", "the swap rate: the office does not publish it")
    if settings:
        rate = (f"{100 * float(Fraction(settings['rate'])):g} %", "of households to be moved: the swap rate")
    kept = len(facts["kept_in_blocks"])
    return [
        rate,
        (str(kept) if kept else "none", "counts of people kept in every block"),
        (f"{size['tables']:,}", "table of exact counts" if size["tables"] == 1 else "tables of exact counts"),
        ("yes" if question["microdata"] else "no", "swapped records published"),
    ]


def _cells(question: Mapping[str, Any], table: Mapping[str, Any]) -> int:
    sizes_ = {name: len(labels) for name, labels in table["variables"].items()}
    per_area, areas = 0, sum(int(question["levels"][level]) for level in table["levels"])
    for margin in table["margins"]:
        cells = 1
        for part in margin.split("*") if margin != "total" else ():
            cells *= sizes_[part.split(":")[0]]
        per_area += cells
    return per_area * areas


def _row(question: Mapping[str, Any], table: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": table["name"],
        "title": table["title"],
        "variables": [f"{name} ({len(labels):,})" for name, labels in table["variables"].items()],
        "levels": table["levels"],
        "cells": _cells(question, table),
    }


def _settings(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The settings in words, where they are stated."""
    shown = [("Swap rate", exact_text(Fraction(settings["rate"])))]
    if settings["variant"] == "targeted":
        profiles = "; then ".join(", ".join(profile) for profile in settings["profiles"])
        k = settings["k_anonymity"]
        shown += [
            ("Risk", "people alike in " + ", ".join(settings["risk"])),
            ("Must be swapped", f"who shares these with fewer than {k} people" if k > 1 else "nobody as such"),
            ("Partners have in common", profiles),
            ("Partners are looked for", "near by first" if settings["near"] else "anywhere"),
            ("Nobody leaves", settings["within"] or "the whole territory"),
        ]
    else:
        noise = zip(NOISE, settings["key_noise"], strict=True)
        key = ", ".join(f"{value:+d} with {exact_text(Fraction(p))}" if value else f"0 with {exact_text(Fraction(p))}"
                        for value, p in noise)  # fmt: skip
        groups = ", ".join(exact_text(Fraction(p)) for p in settings["groups"])
        shown += [("Added to the size in the key", key), ("Kept, or mixed one, two … levels up", groups)]
    if settings["levels"]:
        shown.append(("Levels", ", ".join(settings["levels"])))
    return shown
