"""The manifest: what a release is, by which version, from which plan, at which cost. It holds nothing that only the
truth could tell, and no clock and no machine: the same key, records and plan give the same bytes anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from confide.noise import SAMPLER
from confide.privacy import ZCDP, epsilons, statements
from confide.releases.keys import CHOSEN, STAMP
from confide.releases.load_spec import LoadedSpec
from confide.releases.plan import Plan, loss_by_attribute, loss_by_move
from confide.version import __version__

FORMAT = "confide/manifest/v1"


def make_manifest(
    loaded: LoadedSpec, plan: Plan, guarantee: Mapping[str, Any], statistics: Mapping[str, Any], *, stamped: bool
) -> dict[str, Any]:
    """The manifest without its list of files, which the writer of the release adds.

    Args:
        loaded: The spec.
        plan: The plan of the release.
        guarantee: What the mechanism says is promised: ``privacy``, ``noise`` and the like.
        statistics: What the mechanism tells of how its measurements became the release.
        stamped: Whether it was made with a chosen key, and is not for release.

    Returns:
        The entries in the order in which they are written.
    """
    release = loaded.spec.release
    manifest: dict[str, Any] = {
        "format": FORMAT,
        "confide": __version__,
        "release": release.name,
        "title": release.title or release.name,
        "mechanism": plan.mechanism,
    }
    if stamped and plan.has_loss:
        manifest["stamp"] = STAMP
    manifest |= {
        **guarantee,
        "statistics": dict(statistics),
        "plan_hash": plan.hash,
        "plan": plan.as_dict(),
    }
    if stamped:
        # Readers know one form of the manifest: without a loss the stamp stands last.
        manifest |= {"noise": {**manifest["noise"], "key": CHOSEN}, "stamp": STAMP}
    return manifest


def formal_guarantee(plan: Plan, delta: Fraction) -> dict[str, Any]:
    """What is promised by noise with a loss, and where the noise comes from."""
    return {
        "privacy": privacy_of(plan, delta),
        "noise": {"sampler": SAMPLER, "key": "from the operating system"},
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
