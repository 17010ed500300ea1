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

from confide.utility.metrics import SIZE_CLASSES as SIZE_CLASSES
from confide.utility.metrics import ErrorSums as ErrorSums
from confide.utility.metrics import ErrorTally as ErrorTally
from confide.utility.metrics import LargestGroup as LargestGroup
from confide.utility.metrics import LargestGroups as LargestGroups
from confide.utility.metrics import OverKeys as OverKeys
from confide.utility.metrics import add_tallies as add_tallies
from confide.utility.metrics import by_size_class as by_size_class
from confide.utility.metrics import combine as combine
from confide.utility.metrics import error_sums as error_sums
from confide.utility.metrics import largest_group as largest_group
from confide.utility.metrics import over_keys as over_keys
from confide.utility.metrics import tally as tally
from confide.utility.metrics import tally_by as tally_by
