"""The manifest: what a release is, by which version, from which plan, at which cost. It holds nothing that only the
truth could tell, and no clock and no machine: the same key, records and plan give the same bytes anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from confide.noise import SAMPLER, ReleaseKey
from confide.privacy import ZCDP, epsilons, statements
from confide.releases.keys import STAMP
from confide.releases.load_spec import LoadedSpec
from confide.releases.plan import Plan, loss_by_attribute, loss_by_move
from confide.version import __version__

FORMAT = "confide/manifest/v1"


def make_manifest(loaded: LoadedSpec, plan: Plan, key: ReleaseKey, statistics: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest without its list of files, which the writer of the release adds.

    ``statistics`` is what the mechanism tells of how its measurements became the release.
    """
    spec = loaded.spec
    manifest: dict[str, Any] = {
        "format": FORMAT,
        "confide": __version__,
        "release": spec.release.name,
        "title": spec.release.title or spec.release.name,
        "mechanism": plan.mechanism,
    }
    if key.chosen:
        manifest["stamp"] = STAMP
    return manifest | {
        "privacy": privacy_of(plan, spec.privacy.delta),
        "noise": {"sampler": SAMPLER, "key": "chosen" if key.chosen else "from the operating system"},
        "statistics": dict(statistics),
        "plan_hash": plan.hash,
        "plan": plan.as_dict(),
    }


def privacy_of(plan: Plan, delta: Fraction) -> dict[str, Any]:
    """The guarantee in numbers: exact, and for zCDP as epsilon at delta in three ways, each rounded up."""
    loss = plan.loss
    stated: dict[str, Any] = {"neighbours": plan.neighbours.value, "loss": loss.as_dict()}
    if isinstance(loss, ZCDP):
        stated["epsilon_at_delta"] = {"delta": str(delta)} | epsilons(loss.rho, delta)
    stated["by_attribute"] = {name: part.as_dict() for name, part in loss_by_attribute(plan).items()}
    stated["by_move_within"] = {name: part.as_dict() for name, part in loss_by_move(plan).items()}
    unit = plan.question.get("record", "person")
    stated["in_words"] = [statement.text for statement in statements(loss, plan.neighbours, delta=delta, unit=unit)]
    return stated
