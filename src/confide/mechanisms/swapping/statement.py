"""What can be said of a release of swapped data: what stays, what changes, and which loss is stated, if any."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from confide.exact import exact_text, fraction_up
from confide.mechanisms.swapping.people import ADULTS, SIZE
from confide.mechanisms.swapping.settings import NOISE, SwapSettings
from confide.messages import Messages, messages
from confide.privacy.conversion import exchange_epsilon, exchange_odds
from confide.releases.folder import rehearsal_banner
from confide.releases.tabular import Table
from confide.report.certificate import messages_of
from confide.report.render import render


def privacy_of(facts: Mapping[str, Any], smallest: str) -> dict[str, Any]:
    """What the manifest says is promised: with a permutation, a loss subject to invariants. ``smallest`` is the
    office's word for its smallest places."""
    stated = privacy_facts(facts, smallest) if "guarantee" in facts else {}
    return {"loss": None, **stated, "in_words": in_words(facts)}


def in_words(facts: Mapping[str, Any], text: Messages | None = None) -> list[str]:
    """What is promised and what is not."""
    m = text or messages()
    if "guarantee" in facts:
        return guarantee_in_words(facts, m)
    settings = "secret_settings" if facts["settings"] is None else "stated_settings"
    return [m.text(f"swapping.words_{part}") for part in ("swapped", "no_dp", settings)]


def kept_in_words(facts: Mapping[str, Any], text: Messages | None = None) -> list[str]:
    """What stays as it was, from the plan alone."""
    m, names = text or messages(), facts["kept_in_blocks"]
    words = [m.text("swapping.kept_households")]
    if SIZE in names:
        words.append(m.text("swapping.kept_people"))
    if ADULTS in names:
        words.append(m.text("swapping.kept_adults", age=facts["adult_age"]))
    words += [m.text("swapping.kept_counts", name=name) for name in names if name not in (SIZE, ADULTS)]
    if facts["exact_levels"]:
        levels, carried = m.listed(facts["exact_levels"]), ", ".join(facts["carried"])
        if carried:
            words.append(m.text("swapping.kept_levels_carried", levels=levels, carried=carried))
        else:
            words.append(m.text("swapping.kept_levels", levels=levels))
    words.append(m.text("swapping.kept_members"))
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


def privacy_facts(facts: Mapping[str, Any], smallest: str) -> dict[str, Any]:
    """What the manifest says of it beside the words: the loss, and what it is subject to."""
    kept = invariants(facts, messages().calling(smallest))
    return {"subject_to_invariants": facts["guarantee"] | {"invariants": kept}}


def epsilon_text(facts: Mapping[str, Any]) -> str:
    """ε with two digits, rounded up."""
    return fraction_up(Fraction(facts["guarantee"]["epsilon"]), 4)


def stratum_words(facts: Mapping[str, Any], text: Messages | None = None) -> str:
    """What the households of a stratum have in common."""
    m, settings = text or messages(), facts["settings"]
    names = {SIZE: m.text("swapping.size"), ADULTS: m.text("swapping.adults", age=settings["adult_age"])}
    alike = [names.get(name) or m.text("swapping.members_by", name=name) for name in settings["match"]]
    households = m.text("swapping.stratum_alike", alike=m.listed(alike)) if alike else m.text("swapping.stratum_any")
    if settings["within"]:
        return m.text("swapping.stratum_district", households=households, district=settings["within"])
    return m.text("swapping.stratum_territory", households=households)


def invariants(facts: Mapping[str, Any], text: Messages | None = None) -> list[str]:
    """What the swap leaves as it is and the loss is subject to, in words."""
    m, settings = text or messages(), facts["settings"]
    carried = {"carried": m.listed(settings["carry"])} if settings["carry"] else {}
    ending = "_carried" if carried else ""
    place = m.text(f"swapping.invariant_place{ending}", **carried)
    households = "swapping.invariant_households_alike" if settings["match"] else "swapping.invariant_households"
    if settings["within"]:
        kinds = m.text(f"swapping.invariant_kinds_district{ending}", district=settings["within"], **carried)
    else:
        kinds = m.text(f"swapping.invariant_kinds_territory{ending}", **carried)
    return [m.text(households, place=place), kinds, m.text("swapping.invariant_others")]


def guarantee_in_words(facts: Mapping[str, Any], text: Messages | None = None) -> list[str]:
    """What is promised and what is not, in sentences that need no formula."""
    m, settings = text or messages(), facts["settings"]
    rate, largest = exact_text(Fraction(settings["rate"])), settings["largest_stratum"]
    not_promised = m.text("swapping.loss_not_territory")
    if settings["within"]:
        not_promised = m.text("swapping.loss_not_district", district=settings["within"])
    return [
        m.text("swapping.loss_how", stratum=stratum_words(facts, m), rate=rate),
        m.text("swapping.loss_what", epsilon=epsilon_text(facts), largest=largest),
        not_promised,
        m.text("swapping.loss_not_person"),
        m.text("swapping.loss_secret"),
    ]


def no_budget(facts: Mapping[str, Any]) -> str:
    """What a terminal says of the price."""
    return messages().text("swapping.no_budget", epsilon=epsilon_text(facts))


# The statement that stands in for a certificate where households were swapped: it certifies no loss, and says what
# stays as it was and what does not. Made from the manifest alone.


CHANGED = {(): "changed_size", (SIZE,): "changed_adults", (SIZE, ADULTS): "changed_rest"}
"""What may have changed, by what is kept in every block."""


def swapping_statement(manifest: Mapping[str, Any]) -> str:
    """The statement as an HTML page."""
    question, text = manifest["plan"]["question"], messages_of(manifest)
    facts = question["swapping"]
    changed = CHANGED.get(tuple(facts["kept_in_blocks"]), "changed_other")
    chosen = text.text("page.stamp_swap", stamp=manifest["stamp"]) if "stamp" in manifest else ""
    return render(
        "swapping.html.j2",
        text.language,
        title=text.text("page.title_statement", title=manifest["title"]),
        banner=rehearsal_banner(manifest) or chosen,
        manifest=manifest,
        words=in_words(facts, text),
        variant=text.text(f"swapping.variant_{facts['variant']}"),
        kept=kept_in_words(facts, text),
        changed=text.text(f"swapping.{changed}"),
        exact=facts["exact_levels"],
        carried=facts["carried"],
        epsilon=epsilon_text(facts) if "guarantee" in facts else None,
        invariants=invariants(facts, text) if "guarantee" in facts else [],
        in_households=question["in_households"],
        settings=_settings(facts["settings"], text) if facts["settings"] else [],
        tables=[_row(question, table) for table in question["tables"]],
        microdata=question["microdata"],
        figures=_figures(question, text),
        places=text.places,
    )


def sizes(question: Mapping[str, Any]) -> dict[str, int]:
    """How large a release is: tables, and the cells that they could have."""
    return {
        "tables": len(question["tables"]),
        "cells": sum(_cells(question, table) for table in question["tables"]),
    }


def _figures(question: Mapping[str, Any], m: Messages) -> list[tuple[str, str]]:
    facts, size = question["swapping"], sizes(question)
    settings = facts["settings"]
    rate = (m.text("swapping.figure_secret"), m.text("swapping.figure_secret_rate"))
    if settings:
        rate = (m.number(f"{100 * float(Fraction(settings['rate'])):g} %"), m.text("swapping.figure_rate"))
    kept = len(facts["kept_in_blocks"])
    if "guarantee" in facts:
        probability = exact_text(Fraction(settings["rate"]))
        rate = (m.number(epsilon_text(facts)), m.text("swapping.figure_epsilon", probability=probability))
    return [
        rate,
        (str(kept) if kept else m.text("swapping.figure_none"), m.text("swapping.figure_kept")),
        (m.number(size["tables"]), m.counted("swapping.figure_tables", size["tables"])),
        (
            m.text("swapping.figure_yes" if question["microdata"] else "swapping.figure_no"),
            m.text("swapping.figure_records"),
        ),
    ]


def _cells(question: Mapping[str, Any], table: Mapping[str, Any]) -> int:
    areas = sum(int(question["levels"][level]) for level in table["levels"])
    return Table.read(table).cells * areas


def _row(question: Mapping[str, Any], table: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": table["name"],
        "title": table["title"],
        "variables": [f"{variable.name} ({variable.size:,})" for variable in Table.read(table).variables],
        "levels": table["levels"],
        "cells": _cells(question, table),
    }


def _settings(settings: Mapping[str, Any], m: Messages) -> list[tuple[str, str]]:
    """The settings in words, where they are stated."""
    rate = m.number(exact_text(Fraction(settings["rate"])))
    within = (m.text("swapping.setting_within"), settings.get("within") or m.text("swapping.setting_territory"))
    if settings["variant"] == "permutation":
        alike, largest = ", ".join(settings["match"]), settings["largest_stratum"]
        return [
            (m.text("swapping.setting_probability"), rate),
            (m.text("swapping.setting_stratum"), alike or m.text("swapping.setting_nothing")),
            within,
            (m.text("swapping.setting_largest"), m.text("swapping.setting_largest_value", number=largest)),
        ]
    shown = [(m.text("swapping.setting_rate"), rate)]
    if settings["variant"] == "targeted":
        profiles = [", ".join(profile) for profile in settings["profiles"]]
        partners = profiles[0] if profiles else ""
        for profile in profiles[1:]:
            partners = m.text("swapping.setting_then", first=partners, last=profile)
        k, near = settings["k_anonymity"], "near_first" if settings["near"] else "anywhere"
        must = m.text("swapping.setting_must_value", k=k) if k > 1 else m.text("swapping.setting_must_nobody")
        shown += [
            (m.text("swapping.setting_risk"), m.text("swapping.setting_risk_value", names=", ".join(settings["risk"]))),
            (m.text("swapping.setting_must"), must),
            (m.text("swapping.setting_partners"), partners),
            (m.text("swapping.setting_near"), m.text(f"swapping.setting_{near}")),
            within,
        ]
    else:
        noise = [
            m.text(
                "swapping.setting_key_value",
                value=f"{value:+d}" if value else "0",
                probability=exact_text(Fraction(probability)),
            )
            for value, probability in zip(NOISE, settings["key_noise"], strict=True)
        ]
        groups = [m.number(exact_text(Fraction(part))) for part in settings["groups"]]
        shown += [
            (m.text("swapping.setting_key_noise"), ", ".join(noise)),
            (m.text("swapping.setting_groups"), ", ".join(groups)),
        ]
    if settings["levels"]:
        shown.append((m.text("swapping.setting_levels"), ", ".join(settings["levels"])))
    return shown
