"""What can be said of a release by the cell key method, in words and in figures of its perturbation table.

Nothing here is a privacy loss. The figures compare two counts that differ by one in one cell
(:mod:`confide.noise.ptables.ptable_answer`); they follow from the table alone, never from records.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from confide.mechanisms.cellkey.given import GivenTable
from confide.mechanisms.cellkey.programme import PerturbedTables, describe
from confide.noise.ptables import NOT_A_GUARANTEE, PTable, epsilon_delta_reading
from confide.releases.folder import stamp_banner
from confide.releases.tabular import NAMED, Table
from confide.report.render import exact_text, render

IN_WORDS = (
    "The counts of this release are perturbed by the cell key method: each by at most {D}, always by the same amount "
    "for the same members. Counts of nobody are published as they are.{hidden}",
    "No differential privacy is promised, and no budget was spent. The noise is bounded and never changes, so what one "
    "release gives away stays given away. Counts that occur in many tables can be averaged out; from the largest "
    "differences the bound can be seen. How likely both are follows from the tables and the noise: confide risk.",
    "The keys of records, and with them all noise, are secret. Whoever has them has the true counts.",
)


HIDDEN = " What comes out below {threshold:,} is published as zero, however far that is from the count."


def in_words(largest_noise: str, threshold: int | None) -> list[str]:
    """What is promised and what is not."""
    hidden = "" if threshold is None else HIDDEN.format(threshold=threshold)
    return [text.format(D=largest_noise, hidden=hidden) for text in IN_WORDS]


MAGNITUDE_WORDS = (
    "The values of this release are perturbed by the cell key method: each in proportion to its largest contributions, "
    "always by the same amount for the same members. {bound} Zero stays zero.",
    "No differential privacy is promised, and no budget was spent. The noise never changes, so what one release gives "
    "away stays given away. Sums that occur in many tables can be averaged out, and somebody who knows a large part of "
    "a cell knows how much noise the rest has at most.",
    "The keys of records, and with them all noise, are secret. Whoever has them has the true values.",
)


def magnitude_words(magnitude: Mapping[str, Any]) -> list[str]:
    """The same for magnitude tables."""
    share, small = Fraction(magnitude["largest_share"]), Fraction(magnitude["largest_small"])
    if magnitude["negative"] or magnitude["contributions"] == "range":
        bound = "How far a value can be off follows from the contributions, and is not said for all."
    else:
        bound = f"No value is off by more than {exact_text(100 * share)} % of itself"
        bound += f", or by {exact_text(small)} where contributions are small." if small else "."
    return [text.format(bound=bound) for text in MAGNITUDE_WORDS]


def magnitude_facts(magnitude: Mapping[str, Any]) -> dict[str, Any]:
    """The noise of a value: by what share of itself it can be off, and by how much where contributions are small."""
    return {
        "sampler": None,
        "key": "record keys",
        "largest_share": magnitude["largest_share"],
        "largest_small": magnitude["largest_small"],
    }


def single_count(ptable: PTable) -> dict[str, Any] | None:
    """How well two counts that differ by one can be reading apart from one cell; None where rows are used in turn."""
    if not ptable.for_counts or ptable.cycle != 1:
        return None
    reading = epsilon_delta_reading(ptable).as_dict()
    return {
        "epsilon": _short(reading["epsilon"]),
        "delta": _short(reading["delta"]),
        "delta_all_counts": _short(reading["delta_all_counts"]),
        "worst_counts": [reading["worst_pair"], reading["worst_pair"] + 1],  # type: ignore[operator]
        "note": NOT_A_GUARANTEE,
    }


def noise_facts(ptable: PTable) -> dict[str, Any]:
    """The noise of a count that is not zero: its bound, its largest bias, its variance from the smallest to the last
    row."""
    places = range(1, len(ptable.rows))
    variances = [ptable.variance(place) for place in places]
    return {
        "sampler": None,
        "key": "record keys",
        "largest": str(ptable.largest_noise),
        "bias": _short(max(abs(ptable.mean(place)) for place in places)),
        "variance": {"least": _short(min(variances)), "most": _short(max(variances)), "large": _short(variances[-1])},
    }


def _short(value: Any) -> float:
    """Four digits: the same on every machine, whatever the last bit of a logarithm is."""
    return float(f"{float(value):.4g}")


# The statement that stands in for a certificate where counts have bounded noise that never changes: it certifies no
# loss, and says what holds instead. Made from the manifest alone.


LARGEST_ROUNDING = 1e-3
"""A larger mean of the noise is a bias of the table, not of its rounding to keys."""

LEAST_DECIMAL = 1e-4
"""Smaller numbers are written with a power of ten."""


def cellkey_statement(manifest: Mapping[str, Any]) -> str:
    """The statement as an HTML page."""
    question = manifest["plan"]["question"]
    described, ptable = describe(question), question["ptable"]
    named = question.get("layout") == NAMED
    if described.magnitude is not None:
        return _magnitude_statement(manifest, described)
    return render(
        "cellkey.html.j2",
        title=f"Statement: {manifest['title']}",
        banner=stamp_banner(manifest),
        manifest=manifest,
        words=manifest["privacy"]["in_words"],
        biased=manifest["noise"]["bias"] > LARGEST_ROUNDING,
        bias=_small(manifest["noise"]["bias"]),
        variance={name: f"{value:.4g}" for name, value in manifest["noise"]["variance"].items()},
        ptable=ptable,
        asked=exact_text(Fraction(ptable["V"])) if ptable["V"] is not None else None,
        stay=exact_text(Fraction(ptable["pstay"])) if ptable["pstay"] is not None else None,
        threshold=question["threshold"],
        weighted=question["weighted"],
        partial=question["partial"],
        reading=_reading(manifest["privacy"]["single_count"]),
        not_a_promise=NOT_A_GUARANTEE,
        sizes=sizes(described),
        tables=[*(_row(described, table) for table in described.tables), *map(_given_row, described.given)],
        order=question["order"] if named else None,
        levels=[f"{name} ({units:,})" for name, units in described.units.items()],
        given=bool(described.given),
    )


def _magnitude_statement(manifest: Mapping[str, Any], described: PerturbedTables) -> str:
    magnitude = described.magnitude
    assert magnitude is not None
    return render(
        "cellkey_magnitude.html.j2",
        title=f"Statement: {manifest['title']}",
        banner=stamp_banner(manifest),
        manifest=manifest,
        words=manifest["privacy"]["in_words"],
        magnitude=magnitude,
        share=exact_text(100 * Fraction(magnitude["largest_share"])),
        bounded=not magnitude["negative"] and magnitude["contributions"] != "range",
        partial=manifest["plan"]["question"]["partial"],
        order=manifest["plan"]["question"]["order"],
        sizes=sizes(described),
        tables=[_row(described, table) for table in described.tables],
        levels=[f"{name} ({units:,})" for name, units in described.units.items()],
    )


def sizes(described: PerturbedTables) -> dict[str, int]:
    """How large a programme is: tables, cells in them, distinct cross-classifications, and cells in these."""
    return {
        "tables": len(described.tables) + len(described.given),
        "cells": sum(described.cells(table) for table in described.tables),
        "distinct": len(described.distinct),
        "distinct_cells": sum(described.distinct.values()),
    }


def _row(described: PerturbedTables, table: Table) -> dict[str, Any]:
    levels = [f"{level} ({described.units[level]:,})" for level in table.levels]
    variables = [f"{variable.name} ({len(variable.labels):,})" for variable in table.variables]
    return {
        "name": table.name,
        "title": table.title,
        "variables": [*([" + ".join(levels)] if levels else []), *variables],
        "margins": len(table.margins),
        "cells": described.cells(table),
    }


def _given_row(table: GivenTable) -> dict[str, Any]:
    return {"name": table.name, "title": table.title, "variables": table.variables, "margins": None, "cells": None}


def _reading(single: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if single is None:
        return None
    shown = {name: _small(single[name]) for name in ("epsilon", "delta", "delta_all_counts")}
    return {**shown, "worst_counts": single["worst_counts"]}


def _small(value: float) -> str:
    """A number with its leading digits; far below one with a power of ten."""
    if not value or abs(value) >= LEAST_DECIMAL:
        return f"{value:.4g}"
    digits, _, exponent = f"{value:.3g}".partition("e")
    return f"{digits} · 10⁻" + exponent.lstrip("-0").translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
