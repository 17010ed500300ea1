"""Reconstruction: from published tables to records, one for each person (Abowd and Hawes 2023, section 3)."""

from confide.attacks.reconstruction.age_statistics import StatisticsReconstruction, reconstruct_statistics
from confide.attacks.reconstruction.own_tables import read_areas, tabulate_records
from confide.attacks.reconstruction.reconstructing import reconstruct
from confide.attacks.reconstruction.result import Reconstruction, write_records
from confide.attacks.reconstruction.sf1 import TablesFolder, tabulate_sf1, write_sf1_tables, write_tables
from confide.attacks.reconstruction.sources import read_release, read_source, read_tables
from confide.attacks.reconstruction.unit import Variability
from confide.inputs.table_files import read_records, refuse_unwritable
from confide.releases.published import NoiseBound, Published, PublishedGeography, PublishedMarginal

__all__ = [
    "NoiseBound",
    "Published",
    "PublishedGeography",
    "PublishedMarginal",
    "Reconstruction",
    "StatisticsReconstruction",
    "TablesFolder",
    "Variability",
    "read_areas",
    "read_records",
    "read_release",
    "read_source",
    "read_tables",
    "reconstruct",
    "reconstruct_statistics",
    "refuse_unwritable",
    "tabulate_records",
    "tabulate_sf1",
    "write_records",
    "write_sf1_tables",
    "write_tables",
]
