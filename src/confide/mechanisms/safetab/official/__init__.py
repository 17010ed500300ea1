"""The Census Bureau's input folder for SafeTab-P: ``config.json``, where its files are, and a spec of ours from it."""

from confide.mechanisms.safetab.official.config import INFINITE, OfficialConfig, filter_of, read_config
from confide.mechanisms.safetab.official.folder import OfficialFolder, find_folder

__all__ = ["INFINITE", "OfficialConfig", "OfficialFolder", "filter_of", "find_folder", "read_config"]
