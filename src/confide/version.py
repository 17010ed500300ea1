"""The version of Confide."""

__version__ = "0.1.0"
