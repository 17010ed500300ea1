"""What can be said of a release by cell suppression, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confide.mechanisms.suppression.joint import joint_in_words
from confide.mechanisms.suppression.programme import HierarchicalTable, SuppressionProgramme, described
from confide.messages import Messages, messages
from confide.releases.folder import rehearsal_banner
from confide.releases.tabular import TOTAL_CODE
from confide.report.certificate import messages_of
from confide.report.render import render


def in_words(text: Messages | None = None) -> list[str]:
    """What is promised and what is not."""
    m = text or messages()
    return [m.text(f"suppression.words_{part}") for part in ("hidden", "no_dp", "secret")]


def rules_in_words(question: Mapping[str, Any], text: Messages | None = None) -> list[str]:
    """The primary rules of a plan, one sentence each."""
    m, part = text or messages(), question["suppression"]
    sentences = []
    if part["threshold"] is not None:
        key = "suppression.rule_threshold_contributors" if question["value"] else "suppression.rule_threshold"
        least = 0 if part["zeros"] == "primary" else 1
        sentences.append(m.text(key, least=least, threshold=part["threshold"]))
    if part["dominance"] is not None:
        sentences.append(m.counted("suppression.rule_dominance", part["dominance"]["n"], k=part["dominance"]["k"]))
    if part["p"] is not None and part["q"] is None:
        sentences.append(m.text("suppression.rule_p", p=part["p"]))
    if part["q"] is not None:
        sentences.append(m.text("suppression.rule_pq", p=part["p"], q=part["q"]))
    given = question.get("given", {})
    if given.get("statuses"):
        sentences.append(m.text("suppression.rule_given"))
    if given.get("levels"):
        sentences.append(m.text("suppression.rule_levels"))
    return sentences


def protection_in_words(question: Mapping[str, Any], text: Messages | None = None) -> list[str]:
    """How primary cells are protected, one sentence each."""
    m, part = text or messages(), question["suppression"]
    sentences = []
    if part["threshold"] is not None and not question["value"]:
        threshold = part["threshold"]
        sentences.append(m.text("suppression.protect_count", next=threshold + 1, threshold=threshold))
        if part["lower"]:
            sentences.append(m.text("suppression.protect_below", lower=part["lower"]))
    if question["value"]:
        sentences.append(m.text("suppression.protect_value"))
        if part["threshold"] is not None:
            sentences.append(m.text("suppression.protect_few", range=part["range"]))
        sentences += _of_values(question, m)
    sentences.append(m.text(f"suppression.zeros_{part['zeros']}"))
    if question.get("insiders"):
        sentences.append(m.text("suppression.insiders"))
    elif part["singletons"]:
        sentences.append(m.text("suppression.singletons"))
    if question.get("unions"):
        sentences.append(m.text("suppression.unions"))
    return sentences + joint_in_words(question.get("joint"), m)


def _of_values(question: Mapping[str, Any], m: Messages) -> list[str]:
    """What is declared of values, weights and contributors."""
    sentences = []
    if question.get("contributor"):
        sentences.append(m.text("suppression.contributor", column=question["contributor"]))
    if question.get("weight"):
        sentences.append(m.text("suppression.weight", column=question["weight"]))
    if question.get("below_zero"):
        sentences.append(m.text("suppression.below_zero", least=question["below_zero"]))
    if question.get("unit"):
        sentences.append(m.text("suppression.unit", unit=question["unit"]))
    return sentences


# The statement of a release from which cells are left out: it certifies no loss, and says what holds instead. Made
# from the manifest alone.


def suppression_statement(manifest: Mapping[str, Any]) -> str:
    """The statement as an HTML page."""
    question, text = manifest["plan"]["question"], messages_of(manifest)
    programme = described(question)
    return render(
        "suppression.html.j2",
        text.language,
        title=text.text("page.title_statement", title=manifest["title"]),
        banner=rehearsal_banner(manifest),
        manifest=manifest,
        words=in_words(text),
        rules=rules_in_words(question, text),
        protection=protection_in_words(question, text),
        part=question["suppression"],
        magnitude=question["value"],
        insiders=question.get("insiders", False),
        sizes=suppression_sizes(programme),
        tables=[_row(table) for table in programme.tables],
        totals=[TOTAL_CODE],
    )


def suppression_sizes(programme: SuppressionProgramme) -> dict[str, int]:
    """How large the tables are: how many, their rows, and the distinct cells behind these."""
    return {
        "tables": len(programme.tables),
        "rows": sum(len(table.lines[0]) for table in programme.tables),
        "cells": int(programme.linked.listed.sum()),
        "sums": programme.linked.structure.rows,
    }


def _row(table: HierarchicalTable) -> dict[str, Any]:
    return {
        "name": table.name,
        "title": table.title,
        "variables": [
            f"{variable.name if variable.given else ' > '.join(names)} ({sum(variable.listed(names)):,})"
            for variable, names in zip(table.variables, table.listed, strict=True)
        ],
        "rows": len(table.lines[0]),
    }
