"""Record swapping: some households exchange their places before anything is tabulated."""

from confide.mechanisms.swapping.core import Columns, swap_records
from confide.mechanisms.swapping.settings import SwapSettings, load_settings, swap_settings

__all__ = ["Columns", "SwapSettings", "load_settings", "swap_records", "swap_settings"]
