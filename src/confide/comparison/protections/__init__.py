"""The protections of a comparison, one module each: a mechanism run on a spec of its own, brought to one form."""

from confide.comparison.protections.making import Made, Making, content, make

__all__ = ["Made", "Making", "content", "make"]
