"""What the records say: attributes, recodes, queries."""

from confide.schema.attribute import Attribute, Code, Level
from confide.schema.query import TOTAL, Query
from confide.schema.recode import NO_GROUP, Group, Recode, identity
from confide.schema.schema import Schema, parse_schema

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
    "parse_schema",
]
