"""The risk of a whole release of the TopDown algorithm, from its plan and public files.

* :mod:`~confide.mechanisms.topdown.released_plan`: plan, strategy and spine of a sealed release;
* :mod:`~confide.mechanisms.topdown.released_plan`: the effective rho of every count, by generalised least squares;
* :mod:`.report`: what it does to beliefs, small published counts, where protection is least,
  and all of it together.

Derivations: ``docs/proofs/release-risk.md``. For users: ``docs/concepts/release-risk.md``.
"""

from __future__ import annotations

from confide.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
