"""Made-up people: seeded populations with a frame, of any size, that describe nobody.

- :func:`simulate` writes them to files; :class:`Population` makes them in memory, unit of work by unit of work.
- :class:`DetailedOrigins` gives them detailed race and ethnicity codes; :func:`write_official` writes those as the
  input folders of SafeTab-P.
- :func:`write_eu` makes another people, with the variables of the EU census programme; :func:`write_eu_country` a
  country of them, with municipalities and households.
- :func:`profile` says in numbers what a population is like.

>>> from confide.lab.population import Population
>>> Population(persons=1_000, seed=7).blocks().column_names[:3]
['geocode', 'state', 'county']
"""

from __future__ import annotations

from confide.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
