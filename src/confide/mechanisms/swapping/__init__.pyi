from confide.mechanisms.swapping.core import Columns as Columns
from confide.mechanisms.swapping.core import swap_records as swap_records
from confide.mechanisms.swapping.spec import SwapSettings as SwapSettings
from confide.mechanisms.swapping.spec import load_settings as load_settings
from confide.mechanisms.swapping.spec import swap_settings as swap_settings
