"""The certificate: two pages that a lawyer can read, made from the manifest alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from confide.privacy import ZCDP, PrivacyLoss, cks_epsilon, loss_from_dict
from confide.report.render import fraction_up, render, up
from confide.runs.plan import Plan, read_plan

LOSS_NAMES = {"zcdp": "ρ", "pure": "ε"}
DEFINITIONS = {
    "zcdp": "zero-concentrated differential privacy (zCDP; Bun and Steinke 2016)",
    "pure": "pure differential privacy (Dwork, McSherry, Nissim and Smith 2006)",
}
NEIGHBOURS = {
    "change-one": "two data sets that differ in the content of one record; how many records there are is not hidden",
    "add-remove": "two data sets of which one has a record more; also how many records there are is hidden",
}


def documents(manifest: Mapping[str, Any]) -> dict[str, str]:
    """The documents of a release, by file name."""
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
        epsilon=epsilon and {**epsilon, "delta_short": short_probability(Fraction(epsilon["delta"]))},
        counts=plan.counts,
        words=privacy["in_words"],
        definition_words=DEFINITIONS[plan.definition.value],
        neighbours_words=NEIGHBOURS[plan.neighbours.value],
        parts=list(_parts(privacy, plan.question.get("attributes", {}))),
        levels=list(_levels(plan)),
    )


def short_probability(value: Fraction) -> str:
    """1e-10 as 10⁻¹⁰ where it is a power of ten, otherwise as a decimal."""
    if value.numerator == 1 and set(str(value.denominator)) <= {"0", "1"} and str(value.denominator).count("1") == 1:
        exponent = len(str(value.denominator)) - 1
        return "10⁻" + str(exponent).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{float(value):g}"


def _parts(privacy: Mapping[str, Any], titles: Mapping[str, str]) -> Iterator[dict[str, str]]:
    delta = privacy.get("epsilon_at_delta", {}).get("delta")
    named = [(titles.get(name, name), loss) for name, loss in privacy["by_attribute"].items()]
    named += [(f"block, within the same {name}", loss) for name, loss in privacy["by_move_within"].items()]
    for name, values in named:
        loss = loss_from_dict(values)
        number = _number(loss)
        epsilon = "0.00"
        if isinstance(loss, ZCDP) and delta is not None and number:
            epsilon = up(cks_epsilon(loss.rho, delta), 2)
        yield {"name": name, "loss": fraction_up(number), "epsilon": epsilon}


def _levels(plan: Plan) -> Iterator[dict[str, Any]]:
    whole = _number(plan.loss)
    for name in dict.fromkeys(measure.level for measure in plan.measures):
        measures = [measure for measure in plan.measures if measure.level == name]
        share = sum((_number(measure.loss) for measure in measures), Fraction(0)) / whole
        yield {
            "name": name,
            "units": measures[0].units,
            "queries": len(measures),
            "counts": sum(measure.units * measure.cells for measure in measures),
            "share": f"{100 * float(share):.2f} %",
        }


def _number(loss: PrivacyLoss) -> Fraction:
    (number,) = loss.parameters().values()
    return number
