"""Record swapping: some households exchange their places before anything is tabulated."""

from confide.swapping.records import Columns, swap_records
from confide.swapping.settings import SwapSettings, load_settings, swap_settings

__all__ = ["Columns", "SwapSettings", "load_settings", "swap_records", "swap_settings"]
