"""What a release of swapped data is asked for: people, settings and tables; and what of it stands in the plan."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from confide.engines import Source
from confide.geography import Spine
from confide.inputs.frame import Frame
from confide.inputs.records import records_fingerprint
from confide.schema import Attribute, Query, Recode, Schema
from confide.swapping.core import exact_levels
from confide.swapping.settings import SwapSettings
from confide.swapping.spec import SwappingSpec

ALL = "all"
"""What stands in the column of a variable that a margin sums over."""


@dataclass(frozen=True, eq=False)
class Table:
    """One table; ``margins`` has the total first and its own cross-classification last."""

    name: str
    title: str
    query: Query
    margins: tuple[Query, ...]
    levels: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class SwappingQuestion:
    """Everything that decides the release but the records and the key."""

    spec: SwappingSpec
    schema: Schema
    frame: Frame
    records: Source
    settings: SwapSettings
    tables: tuple[Table, ...]

    @property
    def spine(self) -> Spine:
        return self.frame.spine

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        """The attributes that are read, in the order of the schema: with microdata all of them."""
        if self.spec.output.microdata:
            return self.schema.attributes
        named = {variable.attribute.name for table in self.tables for variable in table.query.variables}
        named |= {recode.attribute.name for recode in self.variables.values()}
        named |= {*self.settings.carry, *self.spec.data.in_households}
        named |= {self.spec.data.age} if self.settings.needs_age else set()
        return tuple(attribute for attribute in self.schema.attributes if attribute.name in named)

    @property
    def variables(self) -> dict[str, Recode]:
        """What the settings look at."""
        return {name: self.schema.variable(name) for name in self.settings.variables}

    def fingerprint(self) -> str:
        """SHA-256 of the records and of what may be a secret: it is kept with the run and never published."""
        whole = hashlib.sha256(b"confide/swapping/run/v1" + bytes.fromhex(records_fingerprint(self.records.path)))
        return hashlib.sha256(whole.digest() + self.settings.fingerprint).hexdigest()

    def facts(self) -> Mapping[str, Any]:
        """What stands in the plan: all of it public. The settings are there only if the spec says so."""
        part = self.spec.swapping
        return {
            "record": "person",
            "schema": {"id": self.schema.id, "sha256": self.schema.fingerprint},
            "frame": self.frame.fingerprint,
            "levels": {level.name: level.units for level in (*self.spine.levels, *self.spine.areas)},
            "attributes": {attribute.name: attribute.title for attribute in self.attributes},
            "swapping": {
                "variant": self.settings.variant,
                "kept_in_blocks": [*self.settings.kept],
                "adult_age": self.settings.adult_age if self.settings.needs_age else None,
                "exact_levels": [*exact_levels(self.spine, self.settings)],
                "carried": [*self.settings.carry],
                "settings": self.settings.as_dict() if part.publish_rate else None,
            },
            "in_households": bool(self.spec.data.in_households),
            "tables": [
                {
                    "name": table.name,
                    "title": table.title,
                    "levels": [*table.levels],
                    "variables": {variable.attribute.name: variable.labels for variable in table.query.variables},
                    "margins": {margin.name: margin.name for margin in table.margins},
                    "codes": [[[*group.codes] for group in variable.groups] for variable in table.query.variables],
                }
                for table in self.tables
            ],
            "microdata": self._microdata() if self.spec.output.microdata else None,
        }

    def _microdata(self) -> dict[str, Any]:
        return {
            "levels": [level.name for level in self.spine.levels[:-1]],
            "areas": [level.name for level in self.spine.areas],
            "block": self.spec.geography.block,
            "attributes": [attribute.name for attribute in self.attributes],
        }
