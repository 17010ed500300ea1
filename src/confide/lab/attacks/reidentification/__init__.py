"""Re-identification: from reconstructed records, and a file of people one knows, to what they keep to themselves
(in the United States: their race and ethnicity).

Start with :mod:`confide.lab.attacks.reidentification.rates`, which does all of it; what the words mean is in
:mod:`confide.lab.attacks.reidentification.linking` and in ``docs/concepts/reidentification.md``.
"""

from __future__ import annotations

from confide.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
