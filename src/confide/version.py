"""The version of Confide."""

__version__ = "0.2.0"
