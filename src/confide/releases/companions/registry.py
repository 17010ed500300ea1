"""``registry.json``: what a registry of deployments of differential privacy asks for, as far as a release says it.

Dwork, Kohli and Mulligan (2019) proposed such a registry; arXiv 2509.13509 describes what its records hold: what is
published, whose privacy is protected, by which definition, at which loss, by which mechanism.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from confide.releases.companions.codebook import Codebook

FORMAT = "confide/registry/v1"
DEFINITIONS = {
    "zcdp": "zero-concentrated differential privacy",
    "pure": "pure differential privacy",
    "approximate": "approximate differential privacy",
}


def registry_record(manifest: Mapping[str, Any], codebook: Codebook) -> str:
    """The record of a release; what only its office knows stands there as null, to be filled in."""
    plan, privacy, publication = manifest["plan"], manifest["privacy"], manifest.get("publication", {})
    loss = privacy.get("loss")
    formal = loss is not None
    record = {
        "format": FORMAT,
        "name": manifest["title"],
        "identifier": manifest["release"],
        "data_curator": publication.get("office"),
        "contact": publication.get("contact"),
        "licence": publication.get("licence"),
        "intended_use": None,
        "publication_date": None,
        "data_product": {
            "kind": "records, and tables of counts" if codebook.files else "tables of counts",
            "tables": [
                *({"name": file.name, "title": file.title} for file in codebook.files),
                *({"name": table.name, "title": table.title} for table in codebook.tables),
            ],
            "access": "everybody, once",
        },
        "differentially_private": formal,
        "protection": codebook.protection,
        "privacy_unit": plan["question"].get("record", "person"),
        "neighbouring_relation": privacy.get("neighbours") if formal else None,
        "definition": DEFINITIONS.get(plan.get("definition", "")) if formal else None,
        "privacy_loss": loss,
        "epsilon_at_delta": privacy.get("epsilon_at_delta"),
        "loss_by_attribute": privacy.get("by_attribute"),
        "deployment_model": "central: one curator holds all records",
        "mechanism": {
            "name": manifest["mechanism"],
            "noise": sorted({measure["law"]["law"] for measure in plan.get("measures", ())}),
            "measurements": len(plan.get("measures", ())),
        },
        "implementation": {
            "software": "Confide",
            "version": manifest["confide"],
            "sampler": manifest["noise"].get("sampler"),
        },
        "plan_sha256": manifest["plan_hash"],
        "trial": "stamp" in manifest,
    }
    return json.dumps(record, indent=1, ensure_ascii=False) + "\n"
