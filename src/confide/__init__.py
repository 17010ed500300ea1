"""Confide: a disclosure avoidance system for official statistics."""

__version__ = "0.1.0"
