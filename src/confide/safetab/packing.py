"""The race and ethnicity codes of a person as a few whole numbers: quicker to compare than nine texts.

A code has four digits, the first not 0, so four codes are the digits of a number below 10**16; ``Null`` is 0000. Only
the codes that count are packed: the first ``max_race_codes`` races and the ethnicity.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from confide.engines.expressions import literal
from confide.safetab.record_rules import CODE_COLUMNS, NULL, RACE_COLUMNS

CODES_PER_KEY = 4
BASE = 10_000


def key_expressions(max_race_codes: int, columns: Mapping[str, str] | None = None) -> dict[str, str]:
    """SQL for each key, over the expressions of the code columns (their names, if they are not given)."""
    number = {
        name: f"CASE WHEN {text} = {literal(NULL)} THEN 0 ELSE CAST({text} AS BIGINT) END"
        for name, text in (columns or {name: name for name in CODE_COLUMNS}).items()
    }
    keys = {}
    for position, names in enumerate(_packed(max_race_codes)):
        scaled = [f"({number[name]}) * {BASE**place}" for place, name in enumerate(names)]
        keys[f"key_{position}"] = f"CAST({' + '.join(scaled)} AS BIGINT)"
    return keys


def unpack(keys: pa.Table, max_race_codes: int) -> pa.Table:
    """The columns of codes of rows of keys; columns that do not count are ``Null``."""
    texts = pa.array([NULL, *(f"{code:04d}" for code in range(1, BASE))])
    nothing = np.zeros(keys.num_rows, np.int64)
    codes = dict.fromkeys(CODE_COLUMNS, nothing)
    for position, names in enumerate(_packed(max_race_codes)):
        left = keys.column(f"key_{position}").to_numpy()
        for name in names:
            left, codes[name] = np.divmod(left, BASE)
    return pa.table(
        {name: pa.DictionaryArray.from_arrays(pa.array(each.astype(np.int32)), texts) for name, each in codes.items()}
    )


def _packed(max_race_codes: int) -> list[tuple[str, ...]]:
    """The columns that are packed into each key."""
    used = (CODE_COLUMNS[-1], *RACE_COLUMNS[:max_race_codes])
    return [used[begin : begin + CODES_PER_KEY] for begin in range(0, len(used), CODES_PER_KEY)]
