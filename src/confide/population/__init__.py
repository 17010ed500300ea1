"""Made-up people: seeded populations with a frame, of any size, that describe nobody.

- :func:`simulate` writes them to files; :class:`Population` makes them in memory, unit of work by unit of work.
- :class:`DetailedOrigins` gives them detailed race and ethnicity codes; :func:`write_official` writes those as the
  input folders of SafeTab-P.
- :func:`write_eu` makes another people, with the variables of the EU census programme; :func:`write_eu_country` a
  country of them, with municipalities and households.
- :func:`profile` says in numbers what a population is like.

>>> from confide.population import Population
>>> Population(persons=1_000, seed=7).blocks().column_names[:3]
['geocode', 'state', 'county']
"""

from confide.population.detailed import DetailedOrigins
from confide.population.eu import EuCountryFiles, EuFiles, write_eu, write_eu_country
from confide.population.eu_settings import EuAreas
from confide.population.generate import (
    Population,
    PopulationFiles,
    SimulatedPopulation,
    dissimilarity,
    profile,
    simulate,
    write_population,
)
from confide.population.household_members import PERSONS_SCHEMA
from confide.population.households import BLOCKS_SCHEMA
from confide.population.landscape import Unit
from confide.population.official import OfficialFiles, write_official
from confide.population.origins import RACES, SUBSETS, OriginCodes, load_origins, write_code_files
from confide.population.settings import PopulationSettings, load_settings

__all__ = [
    "BLOCKS_SCHEMA",
    "PERSONS_SCHEMA",
    "RACES",
    "SUBSETS",
    "DetailedOrigins",
    "EuAreas",
    "EuCountryFiles",
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
    "write_eu_country",
    "write_official",
    "write_population",
]
