"""What a release publishes without noise, in words, from its plan alone.

An invariant is of one of three kinds: figures of the frame; an answer about the records that the frame already tells;
an answer about the records that only they tell. The first two are known before a record is read. The third is outside
the promise (``docs/proofs/accounting.md``, section 6): data sets that differ in it are told apart with certainty.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confide.runs.plan import Plan


def invariants(plan: Plan) -> list[str]:
    """One line for each invariant of the plan; empty where nothing is published without noise."""
    lines = (_line(invariant) for invariant in _stated(plan))
    return [line[0].upper() + line[1:] for line in lines]


def invariants_note(plan: Plan) -> str:
    """What the invariants mean for the promise; empty where there are none."""
    stated = _stated(plan)
    if not stated:
        return ""
    sentences = ["The promise compares data sets that agree in what is published without noise."]
    if any(invariant["frame"] for invariant in stated):
        sentences.append(
            "Figures of the frame are public knowledge: they were known before a record was read, and are not the "
            "records' own."
        )
    for invariant in stated:
        if invariant["frame"]:
            continue
        level = _words(invariant["level"])
        if invariant["level"] == plan.spine[0] and invariant["query"] == "total":
            sentences.append(
                f"The number of records in the {level} stays the same when one record is changed, so it tells nothing "
                "that the promise covers."
            )
        else:
            sentences.append(
                f"The {_asked(invariant['query'])} in every {level} is the records' own: which {level} a record is "
                "in is not hidden from someone who knows all the others."
            )
    return " ".join(sentences)


def _stated(plan: Plan) -> list[Mapping[str, Any]]:
    stated: list[Mapping[str, Any]] = plan.question.get("strategy", {}).get("constraints", {}).get("invariants", [])
    return stated


def _line(invariant: Mapping[str, Any]) -> str:
    name, level = _words(invariant["name"]), _words(invariant["level"])
    columns = ", ".join(invariant["frame"])
    if invariant["query"] is None:
        return f"{name} by {level}: the frame's {columns}"
    asked = f"{name}: the {_asked(invariant['query'])} in every {level}"
    return f"{asked}, which the frame tells ({columns})" if columns else asked


def _asked(query: str) -> str:
    return "number of records" if query == "total" else f"answer to the query {query}"


def _words(name: str) -> str:
    return name.replace("-", " ").replace("_", " ")
