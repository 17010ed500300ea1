"""Where the records are: the spine of geographic units, and areas off it."""

from confide.geography.spine import OUTSIDE, Geolevel, Spine, build_spine

__all__ = ["OUTSIDE", "Geolevel", "Spine", "build_spine"]
