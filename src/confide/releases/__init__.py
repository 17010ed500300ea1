"""How any release is made, whatever its mechanism: spec, plan, ledger, run, folder, verification.

Here are the words that every mechanism speaks: a ``Plan`` of a ``LoadedSpec``, a ``Job`` in its ``Workspace``, a
``ReleaseWriter``, the ``SealedRelease`` that comes of it, and the ``Check`` of what was written. Names are loaded when
they are first used.
"""

from __future__ import annotations

from confide.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
