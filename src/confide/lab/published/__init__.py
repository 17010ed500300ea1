"""What is published, as somebody has it who was never in the office: for attacks and comparisons.

``marginals``       published tables as marginals of one histogram, exact, noisy or in part unknown; the law of their
                    noise, read backwards
``published_rows``  their rows, from memory, a folder of tables or a release
``tabular``         releases of ``tables``, ``cellkey``, ``swapping``, ``topdown`` and ``suppression`` read back
``safetab``         releases of ``safetab``

A mechanism names its reader as the ability ``published``.
"""

from __future__ import annotations

from confide.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
