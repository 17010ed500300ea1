"""The certificate: two pages that a lawyer can read, made from the manifest alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any

from confide.exact import rounded_up
from confide.mechanisms.cellkey.statement import cellkey_statement
from confide.mechanisms.postprocess.mechanism import statement
from confide.mechanisms.safetab.statement import both_neighbours, group_levels, passes
from confide.mechanisms.suppression.statement import suppression_statement
from confide.mechanisms.swapping.statement import swapping_statement
from confide.mechanisms.topdown.descent import problems, solver_words
from confide.mechanisms.topdown.statement import effective_privacy, invariants, invariants_note
from confide.privacy import ZCDP, ApproxDP, Definition, Neighbours, PrivacyLoss, cks_epsilon, loss_from_dict
from confide.privacy.invariants.group_statements import DELTA
from confide.releases.plan import Plan, read_plan
from confide.report.render import fraction_up, render, up

LOSS_NAMES = {"zcdp": "ρ", "pure": "ε", "approximate": "ε"}
DEFINITIONS = {
    "zcdp": "zero-concentrated differential privacy (zCDP; Bun and Steinke 2016)",
    "pure": "pure differential privacy (Dwork, McSherry, Nissim and Smith 2006)",
    "approximate": "approximate differential privacy (Dwork, Kenthapadi, McSherry, Mironov and Naor 2006)",
}
NEIGHBOURS = {
    "change-one": "two data sets that differ in the content of one record; how many records there are is not hidden",
    "add-remove": "two data sets of which one has a record more; also how many records there are is hidden",
}
COUNTS = {
    "tables": "published counts, every one with noise",
    "topdown": "noisy counts, at most, that the records were estimated from",
    "safetab": "noisy counts, at most, that the tables were made from",
}

STATEMENTS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "cellkey": cellkey_statement,
    "suppression": suppression_statement,
    "swapping": swapping_statement,
}
"""For mechanisms that promise no differential privacy: what they say in its place."""


def documents(manifest: Mapping[str, Any]) -> dict[str, str]:
    """The documents of a release, by file name. Where there is no loss there is no certificate, but a statement."""
    if "source" in manifest:
        return {"certificate.html": statement(manifest)}
    plan = read_plan(manifest["plan"])
    if not plan.accounted:
        return {"statement.html": STATEMENTS[plan.mechanism](manifest)}
    return {"certificate.html": certificate(manifest)}


def certificate(manifest: Mapping[str, Any]) -> str:
    """The certificate as an HTML page."""
    plan = read_plan(manifest["plan"])
    privacy = manifest["privacy"]
    epsilon = privacy.get("epsilon_at_delta")
    number = _number(plan.loss)
    return render(
        "certificate.html.j2",
        title=f"Certificate: {manifest['title']}",
        banner=f"{manifest['stamp']}: made with a chosen key; its noise protects nobody" if "stamp" in manifest else "",
        manifest=manifest,
        loss={"name": LOSS_NAMES[plan.definition.value], "exact": str(number), "short": fraction_up(number)},
        delta=short_probability(plan.loss.delta) if isinstance(plan.loss, ApproxDP) else "",
        epsilon=epsilon and {**epsilon, "delta_short": short_probability(Fraction(epsilon["delta"]))},
        counts=plan.counts,
        counts_words=COUNTS[plan.mechanism],
        words=privacy["in_words"],
        definition_words=DEFINITIONS[plan.definition.value],
        neighbours_words=NEIGHBOURS[plan.neighbours.value],
        invariants=invariants(plan),
        invariants_note=invariants_note(plan),
        effective=effective_privacy(plan, epsilon["delta"] if epsilon else DELTA),
        parts=_parts(privacy, "by_attribute", plan.question.get("attributes", {})),
        moves=_parts(privacy, "by_move_within", {}),
        levels=list(levels(plan)),
        has_paths=bool(plan.paths),
        estimates=estimates(manifest["statistics"]),
        groups=list(group_levels(plan)) if plan.mechanism == "safetab" else [],
        passes=passes(plan) if plan.mechanism == "safetab" else [],
        both=both_neighbours(plan, Fraction(epsilon["delta"]) if epsilon else Fraction(1))
        if plan.neighbours is Neighbours.ADD_REMOVE
        else [],
    )


def short_probability(value: Fraction) -> str:
    """1e-10 as 10⁻¹⁰ where it is a power of ten, otherwise as a decimal, rounded up."""
    if value.numerator == 1 and set(str(value.denominator)) <= {"0", "1"} and str(value.denominator).count("1") == 1:
        exponent = len(str(value.denominator)) - 1
        return "10⁻" + str(exponent).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{float(rounded_up(value, 4)):g}"


def _parts(privacy: Mapping[str, Any], key: str, titles: Mapping[str, str]) -> list[dict[str, str]]:
    """What holds for a record that differs in a part only."""
    delta = privacy.get("epsilon_at_delta", {}).get("delta")
    result = []
    for name, values in privacy[key].items():
        loss = loss_from_dict(values)
        number = _number(loss)
        epsilon = "0.00"
        if isinstance(loss, ZCDP) and delta is not None and number:
            epsilon = up(cks_epsilon(loss.rho, delta), 2)
        title = titles.get(name, name.replace("_", " "))
        result.append({"name": title, "loss": fraction_up(number), "epsilon": epsilon})
    return result


def levels(plan: Plan) -> Iterator[dict[str, Any]]:
    """For each level: areas measured, queries, counts, and the share of the budget that an area has.

    Areas of one level can have different shares (an only child leaves its own to its parent). They are then classes,
    each with all queries of the level in the same order: the k-th measurement of every query is of the k-th class.
    """
    whole = _number(plan.loss)
    for name in dict.fromkeys(measure.level for measure in plan.measures):
        by_query: dict[str, list[tuple[int, int, Fraction]]] = {}
        for measure in plan.measures:
            if measure.level == name:
                of_query = by_query.setdefault(measure.query, [])
                of_query.append((measure.units, measure.cells, _number(measure.loss)))
        classes = list(zip(*by_query.values(), strict=True))
        shares = sorted({sum((loss for _, _, loss in each), Fraction(0)) / whole for each in classes})
        yield {
            "name": name,
            "units": sum(each[0][0] for each in classes),
            "queries": len(by_query),
            "counts": sum(units * cells for each in classes for units, cells, _ in each),
            # In approximate a measurement has no share: together they cost less than one by one.
            "share": ""
            if plan.definition is Definition.APPROXIMATE
            else " to ".join(f"{100 * float(share):.2f} %" for share in dict.fromkeys((shares[0], shares[-1]))),
        }


def estimates(statistics: Mapping[str, Any]) -> dict[str, Any] | None:
    """How the estimates were made, where a mechanism says so: in all, and the least-squares problems by level."""
    if not statistics:
        return None
    whole, by_level = statistics["whole"], statistics["levels"]
    return {
        "words": solver_words(whole),
        "inexact": whole["least_squares"]["inexact"],
        "problems": {name: problems(part) for name, part in by_level.items()},
        "not_proved": {name: part["least_squares"]["inexact"] for name, part in by_level.items()},
    }


def _number(loss: PrivacyLoss) -> Fraction:
    """ρ or ε; where there is a δ too, it is stated once, for the whole."""
    return next(iter(loss.parameters().values()))
