"""Confide: a disclosure avoidance system for official statistics.

The verbs are functions here, and every command has its twin among them; the nouns are classes. All are loaded when
first used.

=============  ==============================================================================================
a release      ``new`` ``new_schema`` ``check`` ``rehearse`` ``run`` ``verify`` ``evaluate`` ``replay``
               ``destroy_key`` ``json_schema`` ``new_signature_key`` ``sign_release``
its budget     ``open_ledger`` ``Ledger`` ``reconcile`` ``account_release`` ``account_strategy``
tables         ``open_release`` ``suppress``
how far off    ``open_source`` ``infer`` ``replicate``
in memory      ``tabulate`` ``protect`` ``give_record_keys`` ``perturb_cells`` ``swap_records``
               ``suppress_tables``
choosing       ``epsilon_of_rho`` ``rho_of_epsilon`` ``compare_noise`` ``perturbation_table`` ``tune``
               ``tune_safetab`` ``tune_cellkey`` ``tune_risk``
what is left   ``risk.bayes`` ``risk.hierarchy`` ``risk.curve`` …  ``reconstruct`` ``reidentify_files``
               ``attack_arithmetic`` ``audit_suppression`` ``audit_privacy`` ``audit_canaries``
               ``compare`` ``Published``
made up        ``simulate`` ``demo``
=============  ==============================================================================================

>>> import confide
>>> "tabulate" in dir(confide), confide.epsilon_of_rho("1/2", "1e-10").as_dict()["canonne_kamath_steinke"] > 6
(True, True)
"""

from __future__ import annotations

from confide.lazy_names import lazy_names
from confide.version import __version__ as __version__

__getattr__, __dir__, __all__ = lazy_names(__name__)
