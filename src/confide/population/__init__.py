"""Made-up people: seeded populations with a frame, of any size, that describe nobody.

>>> from confide.population import Population, write_population
>>> write_population(Population(persons=100_000, seed=7), "made-up")    # doctest: +SKIP
"""

from confide.population.detailed import DetailedOrigins
from confide.population.eu import EuFiles, write_eu
from confide.population.eu_settings import EuAreas
from confide.population.generate import Population, PopulationFiles, SimulatedPopulation, simulate, write_population
from confide.population.household_members import PERSONS_SCHEMA
from confide.population.households import BLOCKS_SCHEMA
from confide.population.landscape import Unit
from confide.population.official import OfficialFiles, write_official
from confide.population.origins import RACES, SUBSETS, OriginCodes, load_origins, write_code_files
from confide.population.profile import dissimilarity, profile
from confide.population.settings import PopulationSettings, load_settings

__all__ = [
    "BLOCKS_SCHEMA",
    "PERSONS_SCHEMA",
    "RACES",
    "SUBSETS",
    "DetailedOrigins",
    "EuAreas",
    "EuFiles",
    "OfficialFiles",
    "OriginCodes",
    "Population",
    "PopulationFiles",
    "PopulationSettings",
    "SimulatedPopulation",
    "Unit",
    "dissimilarity",
    "load_origins",
    "load_settings",
    "profile",
    "simulate",
    "write_code_files",
    "write_eu",
    "write_official",
    "write_population",
]
