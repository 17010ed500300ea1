"""Where the records are: the spine of geographic units, and areas off it.

>>> from confide.geography import build_spine
>>> codes = {"state": ["S", "S", "S"], "county": ["S1", "S1", "S2"], "block": ["S1a", "S1b", "S2a"]}
>>> spine = build_spine(codes, areas={"place": ["town", None, "town"]})
>>> spine.level("county").codes, spine.parents("block")
(('S1', 'S2'), array([0, 0, 1]))
>>> spine.level("place").unit_of_block                     # -1 is OUTSIDE: in no place
array([ 0, -1,  0])

For users: ``docs/concepts/geography.md``.
"""

from __future__ import annotations

from confide.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
