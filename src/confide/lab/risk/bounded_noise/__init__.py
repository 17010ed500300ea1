"""What bounded noise gives away in static programmes, and attacks to try it (Bach 2020).

F. Bach, *Differential privacy and noisy confidentiality concepts for European population statistics* (2020). Nothing
here reads records; attacks run on published numbers. Start with :mod:`confide.lab.risk.bounded_noise.withstanding`,
which puts all limits together; the questions of a user are in :mod:`confide.lab.risk.bounded_noise.programme_risks`.

>>> from confide.lab.risk.bounded_noise import bound_risk
>>> bound_risk(5, 2).m > 1_000_000
True
"""

from __future__ import annotations

from confide.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
