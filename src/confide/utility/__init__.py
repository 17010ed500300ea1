"""What a release is worth: its error, measured where the truth may be used.

>>> import numpy as np
>>> from confide.utility import over_keys, tally
>>> truth, released = np.array([120, 0, 45]), np.array([118, 1, 45])
>>> tally(truth, released).mean_absolute_error
1.0
>>> round(over_keys([1.0, 1.5, 0.5]).high, 3)              # the mean over three keys, with its interval
2.242

* :mod:`~confide.utility.metrics`: errors by size of the area, and of the largest group;
* :mod:`~confide.utility.metrics`: several releases that differ in their key alone.
"""

from __future__ import annotations

from confide.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
