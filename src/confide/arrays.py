"""The arrays that everything here is made of, by what they hold.

Whoever uses an array says its shape; ``cells x children`` means one row for each cell and one column for each child.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Integers: TypeAlias = NDArray[np.int64]
"""Counts, codes, places: whole numbers of 64 bits."""

Floats: TypeAlias = NDArray[np.float64]
"""Estimates, weights, probabilities: double precision. Never a confidential count."""

Booleans: TypeAlias = NDArray[np.bool_]
"""Masks."""
