"""What mechanisms leave: what someone who sees a release can learn from it. Nothing here reads records.

* :mod:`confide.risk.bounded_noise`: what noise of a known largest size gives away in static programmes (Bach 2020).
* :mod:`confide.risk.bayesian`: what an adversary who updates beliefs learns from noisy counts (Kazan & Reiter 2024).
* :mod:`confide.privacy.invariants`: what figures published as they are do to the promise (Ashmead et al. 2019).
* :mod:`confide.risk.testing`: what someone who tests one hypothesis against another can find out, as curves.
* :mod:`confide.risk.release_risk`: all of this for one release of the TopDown algorithm, from its plan.
"""
