"""A static programme of cross-tabulations with independent noise. Start at ``pipeline``."""

from confide.mechanisms.tables.mechanism import Tables

__all__ = ["Tables"]
