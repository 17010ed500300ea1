"""Perturbation tables: made, checked, written, read, looked up in.

>>> from confide.noise.ptables import count_settings, generate
>>> design = generate(count_settings(2, 1))              # noise of at most 2, a variance of at most 1
>>> [round(p, 4) for p in design.symmetric.p]            # what counts of 2 and more get: a truncated Gaussian
[0.0638, 0.2447, 0.383, 0.2447, 0.0638]
>>> table = design.table()
>>> table.lookup([0, 1, 50], [99_999_999] * 3)           # the noise of three counts with one cell key; zero stays
array([0, 2, 2])

* :mod:`~confide.noise.ptables.ptable_settings`: D, V, js and further conditions; the problem of each row;
* :mod:`~confide.noise.ptables.design`: which variances are possible, exactly; all rows of maximum entropy
  (:mod:`confide.noise.max_entropy`);
* :mod:`~confide.noise.ptables.ptable`: the table in whole numbers, the lookup, what can be wrong with one, and the same
  distribution in another layout;
* :mod:`~confide.noise.ptables.formats`, :mod:`~confide.noise.ptables.parse`: text forms of other programs;
* :mod:`~confide.noise.ptables.ptable_answer`: two neighbouring counts, told apart.

Derivation: ``docs/proofs/ptables.md``. For users: ``docs/concepts/ptables.md``.
"""

from confide.noise.max_entropy import RowCertificate as RowCertificate
from confide.noise.max_entropy import RowProblem as RowProblem
from confide.noise.ptables.design import Design as Design
from confide.noise.ptables.design import DesignedRow as DesignedRow
from confide.noise.ptables.design import feasible as feasible
from confide.noise.ptables.design import generate as generate
from confide.noise.ptables.formats import PTableFile as PTableFile
from confide.noise.ptables.formats import export_ons as export_ons
from confide.noise.ptables.formats import export_text as export_text
from confide.noise.ptables.formats import read_table as read_table
from confide.noise.ptables.ptable import DECIMAL as DECIMAL
from confide.noise.ptables.ptable import LookupRow as LookupRow
from confide.noise.ptables.ptable import PTable as PTable
from confide.noise.ptables.ptable import modify as modify
from confide.noise.ptables.ptable import same_distribution as same_distribution
from confide.noise.ptables.ptable_answer import NOT_A_GUARANTEE as NOT_A_GUARANTEE
from confide.noise.ptables.ptable_answer import EpsilonDeltaReading as EpsilonDeltaReading
from confide.noise.ptables.ptable_answer import epsilon_delta_reading as epsilon_delta_reading
from confide.noise.ptables.ptable_settings import PTableSettings as PTableSettings
from confide.noise.ptables.ptable_settings import count_settings as count_settings
from confide.noise.ptables.ptable_settings import magnitude_settings as magnitude_settings
