"""``make bench``: every benchmark, one after the other, with ratios against peers measured in the same run."""

from __future__ import annotations

import subprocess
import sys

for name in (
    "noise",
    "tabulation",
    "estimation",
    "rounding",
    "topdown",
    "dhc",
    "safetab",
    "cellkey",
    "hierarchy",
    "reconstruction",
    "inference",
    "suppression",
    "studio",
):
    print(f"\n── {name} " + "─" * (70 - len(name)), flush=True)
    subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=True)
