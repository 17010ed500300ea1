from confide.engines.local import LocalEngine as LocalEngine
from confide.engines.protocol import Advance as Advance
from confide.engines.protocol import Engine as Engine
from confide.engines.protocol import GroupFunction as GroupFunction
from confide.engines.protocol import Source as Source
from confide.engines.protocol import format_of as format_of
from confide.engines.spark import SparkEngine as SparkEngine
