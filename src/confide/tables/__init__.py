"""A static programme of cross-tabulations with independent noise. Start at ``pipeline``."""

from confide.tables.pipeline import Tables

__all__ = ["Tables"]
