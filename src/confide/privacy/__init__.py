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

from confide.privacy.accountant import Accountant as Accountant
from confide.privacy.accountant import BoundedDegree as BoundedDegree
from confide.privacy.accountant import Event as Event
from confide.privacy.accountant import Loss as Loss
from confide.privacy.accountant import Measurement as Measurement
from confide.privacy.accountant import Noisy as Noisy
from confide.privacy.accountant import Parallel as Parallel
from confide.privacy.accountant import Sequential as Sequential
from confide.privacy.accountant import TruncatedMeasurement as TruncatedMeasurement
from confide.privacy.accountant import WeightedMeasurement as WeightedMeasurement
from confide.privacy.accountant import event_from_dict as event_from_dict
from confide.privacy.accountant import event_of_noise as event_of_noise
from confide.privacy.accountant import price as price
from confide.privacy.accountant import price_for as price_for
from confide.privacy.conversion import bun_steinke_epsilon as bun_steinke_epsilon
from confide.privacy.conversion import cks_delta as cks_delta
from confide.privacy.conversion import cks_epsilon as cks_epsilon
from confide.privacy.conversion import cks_rho as cks_rho
from confide.privacy.conversion import derangements as derangements
from confide.privacy.conversion import epsilons as epsilons
from confide.privacy.conversion import exchange_epsilon as exchange_epsilon
from confide.privacy.conversion import exchange_odds as exchange_odds
from confide.privacy.conversion import gaussian_limit_delta as gaussian_limit_delta
from confide.privacy.conversion import gaussian_limit_epsilon as gaussian_limit_epsilon
from confide.privacy.conversion import to_approximate as to_approximate
from confide.privacy.definitions import ZCDP as ZCDP
from confide.privacy.definitions import ApproxDP as ApproxDP
from confide.privacy.definitions import Definition as Definition
from confide.privacy.definitions import Distribution as Distribution
from confide.privacy.definitions import Neighbours as Neighbours
from confide.privacy.definitions import PrivacyLoss as PrivacyLoss
from confide.privacy.definitions import PrivacyUnit as PrivacyUnit
from confide.privacy.definitions import PureDP as PureDP
from confide.privacy.definitions import Sensitivity as Sensitivity
from confide.privacy.definitions import StatedSensitivity as StatedSensitivity
from confide.privacy.definitions import bounded_degree as bounded_degree
from confide.privacy.definitions import budget_of as budget_of
from confide.privacy.definitions import calibrate as calibrate
from confide.privacy.definitions import gaussian_loss as gaussian_loss
from confide.privacy.definitions import gaussian_sigma2 as gaussian_sigma2
from confide.privacy.definitions import geometric_epsilon as geometric_epsilon
from confide.privacy.definitions import geometric_loss as geometric_loss
from confide.privacy.definitions import geometric_zcdp_loss as geometric_zcdp_loss
from confide.privacy.definitions import loss_from_dict as loss_from_dict
from confide.privacy.definitions import partition_marginal as partition_marginal
from confide.privacy.loss_distribution import Bracket as Bracket
from confide.privacy.loss_distribution import NoisyCells as NoisyCells
from confide.privacy.loss_distribution import delta_bracket as delta_bracket
from confide.privacy.loss_distribution import epsilon_bracket as epsilon_bracket
from confide.privacy.loss_distribution import event_epsilon_bracket as event_epsilon_bracket
from confide.privacy.loss_distribution import noisy_cells as noisy_cells
from confide.privacy.statements import Statement as Statement
from confide.privacy.statements import factor as factor
from confide.privacy.statements import rounded_up as rounded_up
from confide.privacy.statements import statements as statements
