"""What can be said of a release by cell suppression, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confide.mechanisms.suppression.joint import joint_in_words
from confide.mechanisms.suppression.programme import HierarchicalTable, SuppressionProgramme, described
from confide.releases.folder import stamp_banner
from confide.releases.tabular import TOTAL_CODE
from confide.report.render import render

IN_WORDS = (
    "Cells of this release that would say too much of few people are left out, and others with them, so that none of "
    "the former can be worked out from what is published: for each, the figures that it could still have, given all "
    "published cells of these tables together, span at least the interval that the rules below ask for.",
    "No differential privacy is promised, and no budget was spent. What is published is published exactly. The "
    "protection holds against what follows from these tables by adding up, and for somebody who knows nothing else: "
    "any other table of the same people, published elsewhere, before or later, can undo it.",
    "Which of the hidden cells are small is not said, and must stay as secret as the records.",
)


def in_words() -> list[str]:
    return list(IN_WORDS)


def rules_in_words(question: Mapping[str, Any]) -> list[str]:
    """The primary rules of a plan, one sentence each."""
    part = question["suppression"]
    who = "contributors" if question["value"] else "records"
    sentences = []
    if part["threshold"] is not None:
        least = 0 if part["zeros"] == "primary" else 1
        sentences.append(f"Cells with {least} to {part['threshold']:,} {who} are primary.")
    if part["dominance"] is not None:
        n, k = part["dominance"]["n"], part["dominance"]["k"]
        of = "the largest contribution is" if n == 1 else f"the {n} largest contributions are"
        sentences.append(f"Cells are primary where {of} more than {k} % of the whole.")
    if part["p"] is not None and part["q"] is None:
        sentences.append(
            f"Cells are primary where the largest contribution could be estimated to within {part['p']} %."
        )
    if part["q"] is not None:
        sentences.append(
            f"Cells are primary where the largest contribution could be estimated to within {part['p']} % by somebody "
            f"who knows all contributions to within {part['q']} % beforehand."
        )
    given = question.get("given", {})
    if given.get("statuses"):
        sentences.append(
            "The office has decided of some cells beforehand: they are primary, or exempt from the rules, or never "
            "hidden, whatever the rules say."
        )
    if given.get("levels"):
        sentences.append("Cells for which the office asks for a protection level are primary.")
    return sentences


def protection_in_words(question: Mapping[str, Any]) -> list[str]:
    """How primary cells are protected, one sentence each."""
    part = question["suppression"]
    sentences = []
    if part["threshold"] is not None and not question["value"]:
        sentences.append(
            f"The interval of a small count reaches to {part['threshold'] + 1:,} at least, where it would not be small,"
            f" and is at least {part['threshold']:,} wide."
        )
        if part["lower"]:
            sentences.append(f"It reaches {part['lower']:,} below the count, as far as zero allows.")
    if question["value"]:
        sentences.append(
            "The interval of a primary figure reaches so far to both sides that no contribution can be estimated more "
            "closely than the rule allows."
        )
        if part["threshold"] is not None:
            sentences.append(f"Figures of few contributors are kept {part['range']} % away, to both sides.")
        sentences += _of_values(question)
    zeros = {
        "published": "Zeros are always published: whoever reads the tables knows that hidden cells are not zero, and "
        "intervals take that into account.",
        "secondary": "Zeros may be hidden to protect others.",
        "primary": "Zeros are hidden as small counts are.",
    }
    sentences.append(zeros[part["zeros"]])
    if question.get("insiders"):
        sentences.append(
            "This holds against every contributor as well, who knows what it gave to each cell: none can bound what "
            "another gave more tightly than the rules allow. Several who put together what they know are not thought "
            "of."
        )
    elif part["singletons"]:
        sentences.append(
            "Somebody who knows a hidden cell, being the only one in it, does not know another primary cell by it."
        )
    if question.get("unions"):
        sentences.append(
            "Hidden cells of one sum whose total is published, whose figures together are known, meet the rules "
            "together too. Of hidden cells whose sum follows from several sums only, each is protected; whether they "
            "meet the rules together is not asked."
        )
    return sentences + joint_in_words(question.get("joint"))


def _of_values(question: Mapping[str, Any]) -> list[str]:
    """What is declared of values, weights and contributors."""
    sentences = []
    if question.get("contributor"):
        sentences.append(f"Records with the same {question['contributor']} are those of one contributor.")
    if question.get("weight"):
        sentences.append(
            f"A record counts {question['weight']} times; thresholds are on the number of contributors, without "
            "weights, and the other rules take a contribution with its weight, as somebody does who knows it."
        )
    if question.get("below_zero"):
        sentences.append(
            f"Values can be negative, and everybody is taken to know that none is below -{question['below_zero']}, and "
            "how many there are in each cell; rules take contributions without their sign."
        )
    if question.get("unit"):
        sentences.append(f"All figures are multiples of {question['unit']}.")
    return sentences


# The statement of a release from which cells are left out: it certifies no loss, and says what holds instead. Made
# from the manifest alone.


def suppression_statement(manifest: Mapping[str, Any]) -> str:
    """The statement as an HTML page."""
    question = manifest["plan"]["question"]
    programme = described(question)
    return render(
        "suppression.html.j2",
        title=f"Statement: {manifest['title']}",
        banner=stamp_banner(manifest),
        manifest=manifest,
        words=manifest["privacy"]["in_words"],
        rules=manifest["privacy"]["rules"],
        protection=manifest["privacy"]["protection"],
        part=question["suppression"],
        magnitude=question["value"],
        insiders=question.get("insiders", False),
        sizes=suppression_sizes(programme),
        tables=[_row(table) for table in programme.tables],
        totals=sorted({variable.total for variable in programme.variables.values()} or {TOTAL_CODE}),
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
