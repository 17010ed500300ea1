"""Ids of spine units: text that is unique, hierarchical and in order.

The id of a unit is the id of its parent followed by a part of its own, and all parts of a level have one width. So the
ids of a level have one width, sort as text in the order of the tree, and begin with the ids of the levels above. The
part is, whichever comes first:

- for a unit that is made (a block group, a tract group): its number among the children of its parent, from one, with
  leading zeros;
- the official code without the official code of the parent, if every code of the level begins with that;
- the official code, whole;
- the number, as for a made unit, if the codes (or what is left of them) differ in width.

The level next to the root begins anew: the AIAN flag, if there is one, then the whole code. The ids of a State's units
are thus the same whether the State or the nation is the root. With optimised block groups a block has the id
``flag ‖ county ‖ tract ‖ number ‖ block code``, which ends in the official code: its parent has none to leave out.

(The published files of the 2020 system number the parts of counties and the tracts too, and widen every part to the
nation's maximum: the order is the same, the text is not.)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def own_parts(
    parent: NDArray[np.int64], codes: NDArray[np.str_] | None, above: NDArray[np.str_] | None
) -> NDArray[np.str_]:
    """The parts of the ids of a level's units.

    ``codes`` are their official codes, ``above`` the official code of each one's parent; none where made, and ``above``
    also next to the root. The units of each parent are contiguous.
    """
    if codes is None:
        return numbers(parent)
    parts = codes
    if above is not None and _one_width(above) and np.strings.startswith(codes, above).all():
        parts = _without_first(codes, int(np.strings.str_len(above[0])))
    return parts if _one_width(parts) else numbers(parent)


def numbers(parent: NDArray[np.int64]) -> NDArray[np.str_]:
    """The number of each unit among the children of its parent, from one, with leading zeros."""
    begins = np.flatnonzero(np.append(True, parent[1:] != parent[:-1]))
    sizes = np.diff(np.append(begins, len(parent)))
    number = np.arange(len(parent)) - np.repeat(begins, sizes) + 1
    width = len(str(int(sizes.max())))
    return np.strings.zfill(number.astype(f"U{width}"), width)


def joined(above: NDArray[np.str_], parts: NDArray[np.str_]) -> NDArray[np.str_]:
    """Each text with its part after it."""
    return np.strings.add(above, parts)


def _one_width(texts: NDArray[np.str_]) -> bool:
    widths = np.strings.str_len(texts)
    return bool(widths.min() == widths.max() > 0)


def _without_first(texts: NDArray[np.str_], count: int) -> NDArray[np.str_]:
    """Texts without their first characters. (``np.strings.slice`` is newer than the oldest numpy we support.)"""
    width = texts.dtype.itemsize // 4
    if width <= count:
        return np.full(len(texts), "", "U1")
    letters = np.ascontiguousarray(texts).view("U1").reshape(len(texts), width)
    return np.ascontiguousarray(letters[:, count:]).view(f"U{width - count}").reshape(len(texts))
