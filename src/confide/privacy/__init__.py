"""Privacy definitions, accounting and what the numbers mean. Pure: no records, no files, no noise is drawn here.

>>> from confide.privacy import ZCDP, Definition, Neighbours, Sequential, calibrate, epsilons, event_of_noise, price
>>> noise = calibrate(ZCDP("1/10"), Neighbours.CHANGE_ONE)         # the noise with which one table costs rho = 1/10
>>> noise
DiscreteGaussian('10')
>>> three = Sequential([event_of_noise(noise, table) for table in ("age", "sex", "place")])
>>> loss = price(three, Neighbours.CHANGE_ONE, Definition.ZCDP)    # exact, before anything is measured
>>> str(loss)
'zcdp rho = 3/10'
>>> round(epsilons(loss.rho, "1e-10")["canonne_kamath_steinke"], 3)
5.182

* :mod:`~confide.privacy.definitions`: neighbours, losses in three definitions, from noise to loss and back, and real
  numbers between two decimals;
* :mod:`~confide.privacy.accountant`: what is done with the records, and its price;
* :mod:`~confide.privacy.loss_distribution`: the privacy loss distribution, bracketed;
* :mod:`~confide.privacy.conversion`: from ρ to ε at δ, and the loss of permutation swapping, subject to its invariants;
* :mod:`~confide.privacy.statements`: the guarantee in sentences; :mod:`~confide.privacy.invariants`: what figures
  without noise do to it.

Derivation: ``docs/proofs/accounting.md``. For users: ``docs/concepts/privacy.md``.
"""

from __future__ import annotations

from confide.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
