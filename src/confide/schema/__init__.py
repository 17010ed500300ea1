"""What the records say: attributes, recodes, queries."""

from confide.schema.attribute import NO_GROUP, Attribute, Code, Group, Level, Recode, identity
from confide.schema.schema import TOTAL, Query, Schema

__all__ = [
    "NO_GROUP",
    "TOTAL",
    "Attribute",
    "Code",
    "Group",
    "Level",
    "Query",
    "Recode",
    "Schema",
    "identity",
]
