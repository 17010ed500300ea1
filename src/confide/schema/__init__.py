"""What the records say: attributes, recodes, queries.

>>> from confide.documents import parse_schema
>>> sex = {"title": "Sex", "levels": [["1", "male"], ["2", "female"]]}
>>> age = {"title": "Age", "range": [0, 99], "recodes": {"adult": {"groups": {"minor": "0..17", "adult": "18..99"}}}}
>>> schema = parse_schema({"id": "demo", "provenance": "made up", "attributes": {"sex": sex, "age": age}})
>>> query = schema.query("sex*age:adult")                  # a marginal of recodes
>>> query.name, query.shape, query.cells
('sex*age:adult', (2, 2), 4)

For users: ``docs/concepts/schema.md``.
"""

from confide.schema.schema import ALL as ALL
from confide.schema.schema import DETAILED as DETAILED
from confide.schema.schema import NO_GROUP as NO_GROUP
from confide.schema.schema import TOTAL as TOTAL
from confide.schema.schema import TOTAL_CODE as TOTAL_CODE
from confide.schema.schema import Attribute as Attribute
from confide.schema.schema import CrossClassification as CrossClassification
from confide.schema.schema import Group as Group
from confide.schema.schema import Level as Level
from confide.schema.schema import Query as Query
from confide.schema.schema import Recode as Recode
from confide.schema.schema import Schema as Schema
from confide.schema.schema import identity as identity
from confide.schema.schema import query_name as query_name
from confide.schema.spelling import AS_WRITTEN as AS_WRITTEN
from confide.schema.spelling import BLANKS as BLANKS
from confide.schema.spelling import Code as Code
from confide.schema.spelling import Spelling as Spelling
