"""What commands and workers keep out of Arrow."""

from __future__ import annotations

import subprocess
import sys

import pytest

CODE = """
import sys
import pyarrow as pa
from confide.lazy_names import keep_pandas_out
{before}
pa.array(["a"]), pa.scalar(1)
print("pandas" in sys.modules)
import pandas as pd
kept = pa.table({{"n": [1, None]}}).to_pandas()
print(kept["n"].isna().tolist(), pa.Table.from_pandas(pd.DataFrame({{"x": [1]}})).column_names, len(sys.meta_path) < 9)
"""


@pytest.mark.process
@pytest.mark.parametrize(("before", "loaded"), [("keep_pandas_out()", "False"), ("", "True")])
def test_arrow_takes_no_pandas_until_somebody_asks(before: str, loaded: str) -> None:
    pytest.importorskip("pandas")
    command = [sys.executable, "-c", CODE.format(before=before)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert lines == [loaded, "[False, True] ['x'] True"]
