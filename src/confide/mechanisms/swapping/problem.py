"""What a release of swapped data is asked for: people, settings and tables; and what of it is in the plan."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

from confide.engines import Engine, Source
from confide.errors import ConfideError, Finding, SpecError
from confide.exact import exact_text, fraction_up
from confide.inputs.frame import BLOCK, Frame, reading_facts
from confide.inputs.records import (
    records_fingerprint,
)
from confide.mechanisms.swapping import spec as swapping_spec
from confide.mechanisms.swapping.core import check_levels, exact_levels
from confide.messages import Messages, messages
from confide.privacy.conversion import exchange_epsilon, exchange_odds
from confide.releases import LoadedSpec, rehearsal_banner, tabular
from confide.releases.companions.programs import LABELLED, absent
from confide.releases.tabular import noting
from confide.report.rendering import messages_of, render
from confide.schema import NO_GROUP, Attribute, Query, Recode, Schema

# What can be said of a release of swapped data: what stays, what changes, and which loss is stated, if any.


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
    if swapping_spec.SIZE in names:
        words.append(m.text("swapping.kept_people"))
    if swapping_spec.ADULTS in names:
        words.append(m.text("swapping.kept_adults", age=facts["adult_age"]))
    words += [
        m.text("swapping.kept_counts", name=name)
        for name in names
        if name not in (swapping_spec.SIZE, swapping_spec.ADULTS)
    ]
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


def stated_guarantee(settings: swapping_spec.SwapSettings) -> dict[str, Any]:
    """The loss of a permutation in numbers: as the plan says it."""
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
    names = {
        swapping_spec.SIZE: m.text("swapping.size"),
        swapping_spec.ADULTS: m.text("swapping.adults", age=settings["adult_age"]),
    }
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


CHANGED = {
    (): "changed_size",
    (swapping_spec.SIZE,): "changed_adults",
    (swapping_spec.SIZE, swapping_spec.ADULTS): "changed_rest",
}
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
        settings=_shown_settings(facts["settings"], text) if facts["settings"] else [],
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
    return tabular.Table.read(table).cells * areas


def _row(question: Mapping[str, Any], table: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": table["name"],
        "title": table["title"],
        "variables": [f"{variable.name} ({variable.size:,})" for variable in tabular.Table.read(table).variables],
        "levels": table["levels"],
        "cells": _cells(question, table),
    }


def _shown_settings(settings: Mapping[str, Any], m: Messages) -> list[tuple[str, str]]:
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
            for value, probability in zip(swapping_spec.NOISE, settings["key_noise"], strict=True)
        ]
        groups = [m.number(exact_text(Fraction(part))) for part in settings["groups"]]
        shown += [
            (m.text("swapping.setting_key_noise"), ", ".join(noise)),
            (m.text("swapping.setting_groups"), ", ".join(groups)),
        ]
    if settings["levels"]:
        shown.append((m.text("swapping.setting_levels"), ", ".join(settings["levels"])))
    return shown


@dataclass(frozen=True, eq=False)
class SwappingProblem(tabular.TabularProblem):
    """Everything that decides the release but the records and the key."""

    spec: swapping_spec.SwappingSpec
    schema: Schema
    frame: Frame
    records: Source
    settings: swapping_spec.SwapSettings
    tables: tuple[tabular.QueryTable, ...]

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        """The attributes that are read, in the order of the schema: with microdata all of them."""
        if self.spec.output.microdata:
            return self.schema.attributes
        named = {variable.attribute.name for table in self.tables for variable in table.query.variables}
        named |= {recode.attribute.name for recode in self.variables.values()}
        named |= {*self.settings.carry, *self.spec.data.in_households}
        named |= {self.spec.data.age} if self.settings.needs_age else set()
        return tuple(attribute for attribute in self.schema.attributes if attribute.name in named)

    @property
    def variables(self) -> dict[str, Recode]:
        """What the settings look at."""
        return {name: self.schema.variable(name) for name in self.settings.variables}

    def fingerprint(self) -> str:
        """SHA-256 of the records and of what may be a secret: it is kept with the run and never published."""
        digest = hashlib.sha256(b"confide/swapping/run/v1" + bytes.fromhex(records_fingerprint(self.records)))
        return hashlib.sha256(digest.digest() + self.settings.fingerprint).hexdigest()

    def facts(self) -> Mapping[str, Any]:
        """What is in the plan: all of it public. The settings are there only if the spec says so."""
        part = self.spec.swapping
        return (
            {
                "record": "person",
                "schema": {"id": self.schema.id, "sha256": self.schema.fingerprint},
                "frame": self.frame.fingerprint,
                "levels": {level.name: level.units for level in (*self.spine.levels, *self.spine.areas)},
                "attributes": {attribute.name: attribute.title for attribute in self.attributes},
                "swapping": {
                    "variant": self.settings.variant,
                    "kept_in_blocks": [*self.settings.kept],
                    "adult_age": self.settings.adult_age if self.settings.needs_age else None,
                    "exact_levels": [*exact_levels(self.spine, self.settings)],
                    "carried": [*self.settings.carry],
                    "settings": self.settings.as_dict() if part.publish_rate or self._states_loss else None,
                }
                | (self._stated_loss() if self._states_loss else {}),
                "in_households": bool(self.spec.data.in_households),
                "tables": [
                    table.layout.as_dict()
                    | {"codes": [[[*group.codes] for group in variable.groups] for variable in table.query.variables]}
                    for table in self.tables
                ],
                "microdata": self._microdata() if self.spec.output.microdata else None,
            }
            | reading_facts(self.schema, self.records, self.spec.geography.block)
            | self.explained
            | ({"labels": self._labels()} if any(name in self.spec.output.formats for name in LABELLED) else {})
        )

    def _labels(self) -> dict[str, Any]:
        """What files for Stata and SPSS say of the codes of records."""
        return {
            attribute.name: {
                "title": attribute.title,
                "codes": [level.code for level in attribute.levels],
                "labels": [level.label for level in attribute.levels],
            }
            for attribute in self.attributes
        }

    @property
    def _states_loss(self) -> bool:
        return self.settings.variant == "permutation"

    def _stated_loss(self) -> dict[str, Any]:
        """What a stratum is, in the codes of the records, and the loss that follows from it."""
        codes = {
            name: {"attribute": recode.attribute.name, "groups": [[*group.codes] for group in recode.groups]}
            for name, recode in self.variables.items()
        }
        age = self.spec.data.age if self.settings.needs_age else None
        return {"strata": {"codes": codes, "age": age}, "guarantee": stated_guarantee(self.settings)}

    def _microdata(self) -> dict[str, Any]:
        return {
            "levels": [level.name for level in self.spine.levels[:-1]],
            "areas": [level.name for level in self.spine.areas],
            "block": self.spec.geography.block,
            "attributes": [attribute.name for attribute in self.attributes],
        }


# From a spec to its prepared problem: schema, frame, settings and tables, with every problem of them at once.


MOST_CELLS = 1_000_000
"""More cells in one area than this are a mistake: somebody crossed what should not be crossed."""
INVARIANTS = "invariants_sha256"
"""Where the manifest has the hashes of what a permutation leaves as it is."""


def prepare(loaded: LoadedSpec, engine: Engine) -> SwappingProblem:
    """What the spec and its public files say. Raises a :class:`SpecError` with all findings."""
    spec = loaded.spec
    assert isinstance(spec, swapping_spec.SwappingSpec)
    public = tabular.PublicFiles.of(loaded, engine)
    findings, schema, frame, settings = public.findings, public.schema, public.frame, None
    try:
        settings = _settings(loaded, spec)
    except ConfideError as error:
        findings += [placed_in_spec(loaded, finding) for finding in error.findings]
    findings += absent(spec.output.formats, loaded.place("output", "formats"))
    geography = spec.geography
    units = [*(level.name for level in geography.levels), *(area.name for area in geography.areas)]
    columns = (tabular.LEVEL, tabular.AREA, tabular.COUNT, swapping_spec.HOUSEHOLD, BLOCK, geography.block, *units)
    if schema is not None and spec.output.microdata:
        attributes, where = schema.attributes, partial(loaded.place, "output", "microdata")
        noting(findings, lambda: tabular.check_column_names(attributes, columns), where)
    tables = public.tables(loaded, partial(_table, spec=spec, columns=columns, frame=frame))
    if schema is not None and settings is not None:
        findings += _people(loaded, spec, schema, settings)
    if settings is not None and frame is not None:
        findings += [placed_in_spec(loaded, finding) for finding in check_levels(frame.spine, settings)]
    if findings or schema is None or frame is None or settings is None:
        raise SpecError(findings)
    return SwappingProblem(spec, schema, frame, public.sources["records"], settings, tables)


def _table(
    part: swapping_spec.SwappingTable,
    schema: Schema,
    *,
    spec: swapping_spec.SwappingSpec,
    columns: Sequence[str],
    frame: Frame | None,
) -> tabular.QueryTable:
    query = _query(schema, part.variables, columns)
    margins = tuple(sorted(query.margins(), key=lambda margin: len(margin.variables)))
    margins = margins if part.margins == "all" else (query,)
    named, levels = spec.geography.has_names, tuple(part.levels)
    table = tabular.QueryTable(part.name, part.title or part.name, query, margins, levels, named)
    tabular.check_published(table.layout, (tabular.COUNT,), spec.output.formats, None if frame is None else frame.spine)
    return table


def _settings(loaded: LoadedSpec, spec: swapping_spec.SwappingSpec) -> swapping_spec.SwapSettings:
    part = spec.swapping
    where, values = loaded.place("swapping", "settings"), dict[str, Any]()
    if part.settings is not None:
        values = swapping_spec.settings_values(part.settings, loaded.path.parent, where)
    values |= part.given()
    missing = [name for name in ("variant", "rate") if name not in values]
    if missing:
        raise SpecError("missing-key/settings-light", where=loaded.place("swapping"), missing=missing[0])
    foreign = [name for name in swapping_spec.foreign_to(values["variant"]) if name in values]
    if foreign:
        where = loaded.place("swapping", foreign[0])
        raise SpecError("swapping-variant/belongs", where=where, foreign=foreign[0], variant=values["variant"])
    if values["variant"] == "permutation" and part.publish_rate is False:
        where = loaded.place("swapping", "publish_rate")
        raise SpecError("swapping-publish_rate", where=where)
    return swapping_spec.swap_settings(**values)


def placed_in_spec(loaded: LoadedSpec, finding: Finding) -> Finding:
    """A problem of the settings at its line in the spec."""
    path = finding.where.path
    if finding.where.file is not None:
        return finding
    return replace(finding, where=loaded.place(*(path or "swapping.settings").split(".")))


def _query(schema: Schema, variables: Sequence[str], columns: Sequence[str]) -> Query:
    query = schema.ordered_query(variables)
    if query.cells > MOST_CELLS:
        raise tabular.too_large(query.cells, MOST_CELLS, area=True)
    tabular.check_column_names((variable.attribute for variable in query.variables), columns)
    for variable in query.variables:
        if (variable.assignment == NO_GROUP).any():
            raise ConfideError("incomplete-recode/puts-level-into", name=variable.name)
    return query


def _people(
    loaded: LoadedSpec, spec: swapping_spec.SwappingSpec, schema: Schema, settings: swapping_spec.SwapSettings
) -> list[Finding]:
    """What settings and data say of the attributes."""
    findings = []
    by_name = {attribute.name: attribute for attribute in schema.attributes}
    for name in settings.variables:
        among = "match" if settings.variant == "permutation" else "risk" if name in settings.risk else "profiles"
        where = loaded.place("swapping", among)
        try:
            if (schema.variable(name).assignment == NO_GROUP).any():
                findings += tabular.placed(ConfideError("incomplete-recode/households", name=name), where)
        except ConfideError as error:
            findings += tabular.placed(error, where)
    for name in settings.carry:
        if name not in by_name:
            where = loaded.place("swapping", "carry")
            findings.append(Finding.of("unknown-attribute/schema", where=where, name=name, by_name=", ".join(by_name)))
    for name, code in spec.data.in_households.items():
        where = loaded.place("data", "in_households")
        if name not in by_name:
            findings.append(Finding.of("unknown-attribute/schema", where=where, name=name, by_name=", ".join(by_name)))
        elif code not in by_name[name].index:
            codes = by_name[name].describe_codes()
            findings.append(Finding.of("unknown-code/correct", where=where, found=repr(code), name=name, codes=codes))
    if settings.needs_age:
        age = by_name.get(spec.data.age)
        if age is None or not age.is_integer:
            among = "match" if settings.variant == "permutation" else "profiles"
            where = loaded.place("swapping", among)
            findings.append(Finding.of("no-age", where=where, age=spec.data.age))
    return findings
