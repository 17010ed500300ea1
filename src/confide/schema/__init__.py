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

from __future__ import annotations

from confide.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
