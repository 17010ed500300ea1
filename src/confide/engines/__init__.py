"""How rows are scanned, counted and mapped: one protocol, an engine for one machine and one for several."""

from confide.engines.local import LocalEngine
from confide.engines.protocol import Advance, Engine, GroupFunction, Source, format_of
from confide.engines.spark import SparkEngine

__all__ = ["Advance", "Engine", "GroupFunction", "LocalEngine", "Source", "SparkEngine", "format_of"]
