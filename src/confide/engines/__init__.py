"""How rows are scanned, counted and mapped: one protocol, an engine for one machine."""

from confide.engines.local import LocalEngine
from confide.engines.protocol import Advance, Engine, GroupFunction
from confide.engines.source import Source, format_of

__all__ = ["Advance", "Engine", "GroupFunction", "LocalEngine", "Source", "format_of"]
