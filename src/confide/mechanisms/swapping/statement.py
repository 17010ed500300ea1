"""What can be said of a release of swapped data: what stays, what changes, and which loss is stated, if any."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from confide.mechanisms.swapping.people import ADULTS, SIZE
from confide.mechanisms.swapping.settings import NOISE, SwapSettings
from confide.privacy.permutations import exchange_epsilon, exchange_odds
from confide.releases.folder import stamp_banner
from confide.report.render import exact_text, fraction_up, render

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


def privacy_of(facts: Mapping[str, Any]) -> dict[str, Any]:
    """What the manifest says is promised: with a permutation, a loss subject to invariants."""
    stated = privacy_facts(facts) if "guarantee" in facts else {}
    return {"loss": None, **stated, "in_words": in_words(facts)}


def in_words(facts: Mapping[str, Any]) -> list[str]:
    """What is promised and what is not."""
    if "guarantee" in facts:
        return guarantee_in_words(facts)
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


# What permutation swapping promises: ε for one exchange of places, subject to what stays; and what it does not.
#
# All of it follows from the settings and the plan, which are public. There is no ledger for it: the account of a data
# set adds up losses of releases that keep nothing as it is, for a record that is changed, added or removed. A release
# with these invariants has no finite loss in that sense, since whoever changes a record changes a figure that is
# published exactly; its ε is one of exchanges that leave the invariants as they are. The two cannot be added up, so
# nothing is charged, and the statement says how such releases add up among themselves.


NEIGHBOURS = "two households of one stratum, each in the place of the other"
DIGITS = 6


def stated_guarantee(settings: SwapSettings) -> dict[str, Any]:
    """The loss of a permutation in numbers: as it stands in the plan."""
    b, p = settings.largest_stratum, settings.rate
    return {
        "definition": "pure",
        "neighbours": NEIGHBOURS,
        "epsilon": exact_text(exchange_epsilon(b, p, DIGITS)),
        "odds": str(exchange_odds(b, p)),
        "charged": False,
    }


def privacy_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """What the manifest says of it beside the words: the loss, and what it is subject to."""
    return {"subject_to_invariants": facts["guarantee"] | {"invariants": invariants(facts)}}


def epsilon_text(facts: Mapping[str, Any]) -> str:
    """ε with two digits, rounded up."""
    return fraction_up(Fraction(facts["guarantee"]["epsilon"]), 4)


def stratum_words(facts: Mapping[str, Any]) -> str:
    """What the households of a stratum have in common."""
    settings = facts["settings"]
    names = {SIZE: "size", ADULTS: f"number of people of {settings['adult_age']} or more"}
    alike = [names.get(name, f"numbers of members by {name}") for name in settings["match"]]
    same = "the same " + " and ".join(alike) if alike else "any size and kind"
    place = f" in one {settings['within']}" if settings["within"] else " in the whole territory"
    return f"households of {same}{place}"


def invariants(facts: Mapping[str, Any]) -> list[str]:
    """What the swap leaves as it is and the loss is subject to, in words."""
    settings = facts["settings"]
    place = "block, with " + " and ".join(settings["carry"]) if settings["carry"] else "block"
    around = f"of every {settings['within']}" if settings["within"] else "of the whole territory"
    alike = " by what their stratum has in common" if settings["match"] else ""
    rest = f", but for {' and '.join(settings['carry'])}," if settings["carry"] else ""
    return [
        f"The number of households{alike}, in every {place}.",
        f"The households {around}, whole, with everything that is recorded of their members{rest} and without their "
        "block: how many there are of each kind, however rare.",
        "Everybody who lives in no household, with all that is recorded of them, in their block.",
    ]


def guarantee_in_words(facts: Mapping[str, Any]) -> list[str]:
    """What is promised and what is not, in sentences that need no formula."""
    settings, epsilon = facts["settings"], epsilon_text(facts)
    around = f"its {settings['within']}" if settings["within"] else "the territory"
    return [
        f"In every stratum ({stratum_words(facts)}), each household was selected with a probability of "
        f"{exact_text(Fraction(settings['rate']))}, and the places of the selected were exchanged at random, so that "
        "none of them kept its own. Every figure is an exact count of the records after that.",
        f"Subject to the invariants listed below, this is pure differential privacy with epsilon = {epsilon} for one "
        "exchange of places. It protects where a household lives, among the places of its stratum: if two households "
        "of one stratum had lived in each other's place, no release would have been more than e^epsilon times likelier "
        "or less likely than it was, whatever else somebody knows. The loss holds for strata of up to "
        f"{settings['largest_stratum']:,} households; none is larger.",
        "It promises nothing about the invariants themselves: they are the true figures, published as they are, and "
        "whatever follows from them is known for certain. A household that is alone in its stratum is seen where it "
        f"lives; and that there is a household of some rare kind in {around} is seen, too.",
        "It is no promise for a person who takes part or not, or who gives another answer: that would change an "
        "invariant. Its epsilon cannot be compared with that of a release that keeps less, and no ledger is charged, "
        "because no account of a data set could hold it. Every further permutation of the same records with the same "
        "strata adds its own epsilon; with another release of the same people that keeps, or publishes, other figures "
        "exactly, something is promised only for exchanges that leave the figures of both as they are, and for those "
        "the losses add up.",
        "The settings are no secret, and need not be one. Which households were selected is a secret, and so is the "
        "key that decided it.",
    ]


def no_budget(facts: Mapping[str, Any]) -> str:
    """What a terminal says of the price."""
    return (
        f"No budget is spent: epsilon = {epsilon_text(facts)} for an exchange of two places holds subject to the "
        "invariants of the statement, and no ledger adds up such losses."
    )


# The statement that stands in for a certificate where households were swapped: it certifies no loss, and says what
# stays as it was and what does not. Made from the manifest alone.


VARIANTS = {
    "targeted": "Households that stand out where they live were more likely to be taken; each changed places with a "
    "household that is alike in what is listed as kept.",
    "enhanced": "All households were as likely to be taken; each changed places with one of the same or nearly the "
    "same size.",
    "permutation": "All households were as likely to be selected; the places of the selected of a stratum were "
    "permuted, each way in which none keeps its own being as likely.",
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
    return render(
        "swapping.html.j2",
        title=f"Statement: {manifest['title']}",
        banner=stamp_banner(manifest, "made with a chosen key; whoever knows it knows who moved"),
        manifest=manifest,
        words=manifest["privacy"]["in_words"],
        variant=VARIANTS[facts["variant"]],
        kept=kept_in_words(facts),
        changed=CHANGED.get(tuple(facts["kept_in_blocks"]), OTHER),
        exact=facts["exact_levels"],
        carried=facts["carried"],
        epsilon=epsilon_text(facts) if "guarantee" in facts else None,
        invariants=invariants(facts) if "guarantee" in facts else [],
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
    if "guarantee" in facts:
        probability = exact_text(Fraction(settings["rate"]))
        rate = (epsilon_text(facts), f"epsilon, subject to the invariants; selected with probability {probability}")
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
    if settings["variant"] == "permutation":
        return [
            ("Probability to be selected", exact_text(Fraction(settings["rate"]))),
            ("A stratum has in common", ", ".join(settings["match"]) or "nothing"),
            ("Nobody leaves", settings["within"] or "the whole territory"),
            ("Households in a stratum", f"at most {settings['largest_stratum']:,}"),
        ]
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
