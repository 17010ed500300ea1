"""The certificate: two pages that a lawyer can read, made from the manifest alone.

What every release with a loss says is written here; what only one mechanism can say, it hands over as
:class:`CertificateWords`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from confide.exact import fraction_up, up
from confide.messages import Messages
from confide.privacy import ZCDP, ApproxDP, Neighbours, PrivacyLoss, cks_epsilon, loss_from_dict, price
from confide.privacy.statements import short_probability
from confide.releases.folder import in_words, rehearsal_banner, stated_delta
from confide.releases.plan import Plan, amount_of, measured_levels, read_plan
from confide.report.rendering import messages_of, render

CERTIFICATE = "certificate.html"
STATEMENT = "statement.html"
"""What stands in for a certificate where there is no loss to certify."""

LOSS_NAMES = {"zcdp": "ρ", "pure": "ε", "approximate": "ε"}


@dataclass(frozen=True)
class CertificateWords:
    """What a mechanism adds to the certificate of its releases."""

    counts: str
    """What the noisy counts of the plan are."""
    promise: Sequence[str] = ()
    """What else there is to say of the promise, a paragraph each."""
    invariants: Sequence[str] = ()
    """A line for each figure that is published without noise."""
    invariants_note: str = ""
    """What they mean for the promise."""
    effective: Sequence[str] = ()
    """What the promise is worth together with them, in sentences."""
    estimates: Mapping[str, Any] | None = None
    """How estimates were made of measurements: in all, and by level."""
    groups: Sequence[Mapping[str, Any]] = ()
    """Levels of groups that overlap, in place of geolevels."""
    passes: Sequence[Mapping[str, str]] = ()
    """Parts of the population that are measured apart, each with its budget."""
    accuracy: bool = False
    """Whether a page beside it says how far off figures may be."""


def certificate(manifest: Mapping[str, Any], said: CertificateWords) -> str:
    """The certificate as an HTML page.

    Args:
        manifest: The manifest of a release whose plan has a loss.
        said: What else its mechanism has to say.

    Returns:
        A page that needs no other file.
    """
    plan = read_plan(manifest["plan"])
    privacy = manifest["privacy"]
    epsilon = privacy.get("epsilon_at_delta")
    number, text = amount_of(plan.loss), messages_of(manifest)
    chosen = text.text("page.stamp_noise", stamp=manifest["stamp"]) if "stamp" in manifest else ""
    return render(
        "certificate.html.j2",
        text.language,
        title=text.text("page.title_certificate", title=manifest["title"]),
        banner=rehearsal_banner(manifest) or chosen,
        manifest=manifest,
        loss={"name": LOSS_NAMES[plan.definition.value], "exact": str(number), "short": fraction_up(number)},
        delta=short_probability(plan.loss.delta) if isinstance(plan.loss, ApproxDP) else "",
        epsilon=epsilon and {**epsilon, "delta_short": short_probability(Fraction(epsilon["delta"]))},
        counts=plan.counts,
        counts_words=said.counts,
        words=[*in_words(plan, stated_delta(manifest), text.language), *said.promise],
        definition_words=text.text(f"certificate.definition_{plan.definition.value}"),
        neighbours_words=text.text(f"certificate.neighbours_{_key(plan.neighbours)}"),
        invariants=list(said.invariants),
        invariants_note=said.invariants_note,
        effective=list(said.effective),
        parts=_parts(privacy, "by_attribute", plan.question.get("attributes", {})),
        moves=_parts(privacy, "by_move_within", {}),
        away=[part.words(text) for part in plan.left_by_invariants.limited],
        levels=list(measured_levels(plan)),
        has_paths=bool(plan.paths),
        smallest=plan.spine[-1] if plan.spine and "frame" in plan.question else "block",
        estimates=said.estimates,
        accuracy=said.accuracy,
        groups=list(said.groups),
        passes=list(said.passes),
        both=both_neighbours(plan, Fraction(epsilon["delta"]) if epsilon else Fraction(1), text)
        if plan.neighbours is Neighbours.ADD_REMOVE
        else [],
    )


def _parts(privacy: Mapping[str, Any], key: str, titles: Mapping[str, str]) -> list[dict[str, str]]:
    """What holds for a record that differs in a part only."""
    delta = privacy.get("epsilon_at_delta", {}).get("delta")
    rows = []
    for name, values in privacy[key].items():
        loss = loss_from_dict(values)
        number = amount_of(loss)
        epsilon = "0.00"
        if isinstance(loss, ZCDP) and delta is not None and number:
            epsilon = up(cks_epsilon(loss.rho, delta), 2)
        title = titles.get(name, name.replace("_", " "))
        rows.append({"name": title, "loss": fraction_up(number), "epsilon": epsilon})
    return rows


def both_neighbours(plan: Plan, delta: Fraction, text: Messages) -> list[dict[str, str]]:
    """The loss for one record more or less, and for one record changed, side by side (Theorems 1 and 2)."""
    rows = []
    for neighbours in (Neighbours.ADD_REMOVE, Neighbours.CHANGE_ONE):
        loss = price(plan.event, neighbours, plan.definition, plan.delta)
        words = text.text(f"certificate.both_{_key(neighbours)}")
        rows.append({"words": words, "loss": fraction_up(amount_of(loss)), "epsilon": _epsilon(loss, delta)})
    return rows


def _key(neighbours: Neighbours) -> str:
    return neighbours.value.replace("-", "_")


def _epsilon(loss: PrivacyLoss, delta: Fraction) -> str:
    return up(cks_epsilon(loss.rho, delta), 2) if isinstance(loss, ZCDP) and loss.rho else ""
