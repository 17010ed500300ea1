"""A static programme of cross-tabulations with independent noise. Start at ``mechanism``."""

from confide.mechanisms.tables.mechanism import Tables

__all__ = ["Tables"]
