"""What mechanisms leave: what someone who sees a release can learn from it. Nothing here reads records.

Each question of ``confide risk`` is a function here, and its answer an object with typed fields, ``as_dict()`` for
programs and tables for a notebook:

=========================== ==================================================== =======================================
question                    what is learnt                                       more in
=========================== ==================================================== =======================================
:func:`bayes`               about one person, from noisy counts of a cell        :mod:`confide.lab.risk.bayesian`
:func:`hierarchy`           the same, with the counts of larger areas            :mod:`confide.lab.risk.bayesian`
:func:`hierarchy_of_tree`   the same, from a whole tree of counts                :mod:`confide.lab.risk.bayesian`
:func:`curve`               by the best test about one record, from a rho        :mod:`confide.lab.risk.testing`
:func:`curve_of_epsilon`    the same, from an epsilon                            :mod:`confide.lab.risk.testing`
:func:`invariants`          where some figures have no noise                     :mod:`confide.privacy.invariants`
:func:`release`             from all measurements of one TopDown release         :mod:`confide.lab.risk.release_risk`
:func:`bound`               of the largest noise, from triples of counts         :mod:`confide.lab.risk.bounded_noise`
:func:`averaging`           by averaging a count that is published many times    :mod:`confide.lab.risk.bounded_noise`
:func:`areas`               nothing: what unbounded noise does to small areas    :mod:`confide.lab.risk.bounded_noise`
:func:`tune_cellkey`        which bounded noise withstands all of these          :mod:`confide.lab.risk.bounded_noise`
:func:`tune_risk`           which rho keeps beliefs within a profile             :mod:`confide.lab.risk.bayesian`
:func:`compare_noise`       nothing: what each kind of noise promises            :mod:`.noise_comparison`
:func:`audit_privacy`       about made-up records, from many runs on them        :mod:`confide.lab.risk.privacy_audit`
:func:`audit_canaries`      the same, from one run with canaries                 :mod:`confide.lab.risk.privacy_audit`
=========================== ==================================================== =======================================

A tour. Someone knows everybody else in a block, believes with probability 1/2 that the target is in a cell, and sees
its noisy count, 3; after that, they believe it with probability 0.62:

>>> from confide import risk
>>> answer = risk.bayes(rho="0.0992", priors=["1/2"], released=[3])
>>> round(answer.adversaries[0].belief.posterior[0], 2)
0.62

They also see the counts of the 27 other blocks of the tract and of the tract itself, which adds next to nothing:

>>> answer = risk.hierarchy("0.0992", "0.2465", siblings=27, released=(3, 5, 2))
>>> round(float(answer.model.effective_rho), 4)
0.1028

Whatever they know and whichever test they carry out at the level 0.05, they find a changed record with a probability
of at most 0.94 if the whole release has rho = 2.56; against Gaussian noise, of 0.73:

>>> power = risk.curve("2.56", levels=["0.05"]).powers[0]
>>> f"{power.zcdp:.3f} {power.gaussian:.3f}"
'0.934 0.732'

Published instead are tables with cell keys, noise of at most 5 and variance 2. Malta's programme has too few triples
of counts to find the 5 out:

>>> risk.bound(5, 2, country="MT").protected
True
"""

from __future__ import annotations

from confide.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
