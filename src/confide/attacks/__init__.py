"""What someone does who wants the records back: reconstruction from published tables, re-identification, suppression.

- :func:`reconstruct`: records that have the published tables, and how much others with the same tables could differ.
  The tables come from a release, a folder, or memory: :meth:`Published.from_tables`.
- :func:`reconstruct_statistics`: everybody who fits counts, median and mean ages of a few people, step by step.
- :func:`reidentify`: whom somebody would recognise in reconstructed records, and how often rightly.
- :func:`audit_suppression`: what follows from tables about the cells that were left out.

>>> from confide.attacks import Published, reconstruct
>>> tables = {"sex": {"sex": ["male", "female"], "count": [1, 1]}, "hispanic": {"hispanic": [0, 1], "count": [2, 0]}}
>>> reconstruct(Published.from_tables(tables, "persons"), processes=1).records().column("sex").to_pylist()
[1, 2]

Names are loaded when they are first used: the solvers take their time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from confide.lazy_names import lazy_names

if TYPE_CHECKING:
    from confide.attacks.reconstruction import (
        NoiseBound,
        Published,
        PublishedGeography,
        PublishedMarginal,
        Reconstruction,
        StatisticsReconstruction,
        TablesFolder,
        Variability,
        read_areas,
        read_release,
        read_source,
        read_tables,
        reconstruct,
        reconstruct_statistics,
        tabulate_records,
        tabulate_sf1,
        write_records,
    )
    from confide.attacks.reidentification import (
        AttackerSettings,
        RankedMatches,
        Rates,
        Reidentification,
        attacker_settings,
        make_attacker,
        match_rates,
        reidentification_rates,
        reidentify,
        reidentify_files,
    )
    from confide.attacks.suppression import Audit, Suspect, audit, audit_suppression

_ROOMS = {
    "reconstruction": (
        "NoiseBound",
        "Published",
        "PublishedGeography",
        "PublishedMarginal",
        "Reconstruction",
        "StatisticsReconstruction",
        "TablesFolder",
        "Variability",
        "read_areas",
        "read_release",
        "read_source",
        "read_tables",
        "reconstruct",
        "reconstruct_statistics",
        "tabulate_records",
        "tabulate_sf1",
        "write_records",
    ),
    "reidentification": (
        "AttackerSettings",
        "RankedMatches",
        "Rates",
        "Reidentification",
        "attacker_settings",
        "make_attacker",
        "match_rates",
        "reidentification_rates",
        "reidentify",
        "reidentify_files",
    ),
    "suppression": ("Audit", "Suspect", "audit", "audit_suppression"),
}

__all__ = [
    "AttackerSettings",
    "Audit",
    "NoiseBound",
    "Published",
    "PublishedGeography",
    "PublishedMarginal",
    "RankedMatches",
    "Rates",
    "Reconstruction",
    "Reidentification",
    "StatisticsReconstruction",
    "Suspect",
    "TablesFolder",
    "Variability",
    "attacker_settings",
    "audit",
    "audit_suppression",
    "make_attacker",
    "match_rates",
    "read_areas",
    "read_release",
    "read_source",
    "read_tables",
    "reconstruct",
    "reconstruct_statistics",
    "reidentification_rates",
    "reidentify",
    "reidentify_files",
    "tabulate_records",
    "tabulate_sf1",
    "write_records",
]

__getattr__, __dir__ = lazy_names(__name__, _ROOMS)
