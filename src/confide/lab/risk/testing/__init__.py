"""What someone who tests one hypothesis about a record against another can find out: the guarantee as curves.

J. M. Abowd & M. B. Hawes, *Confidentiality protection in the 2020 US Census of Population and Housing* (2023), sections
4, 5 and 7, with L. Wasserman & S. Zhou (2010), B. Balle et al. (2020) and J. Dong, A. Roth & W. J. Su (2022). Nothing
here reads records. Start with :mod:`confide.lab.risk.testing.curve_answer`; the question of a user is ``risk.curve``.

>>> from confide.lab.risk.testing import gaussian_power, zcdp_power
>>> f"{zcdp_power('2.56', '0.05'):.4f} {gaussian_power('2.56', '0.05'):.4f}"
'0.9343 0.7317'
"""

from __future__ import annotations

from confide.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
