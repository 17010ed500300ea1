"""``sdmx/structure.json``: what SDMX has to know of the tables, in SDMX-JSON 2.0, the form of SDMX 3.0.

One scheme of concepts, a code list for each variable and for the levels, one for the areas unless these are too many or
their codes are no identifiers, and for each table a data structure and a data flow. With it a file ``sdmx/TABLE.csv``
can be loaded and validated.
"""

from __future__ import annotations

import json
import re
from typing import Any

from confide.releases import tabular
from confide.releases.folder import SealedRelease
from confide.releases.tabular import flow_name, sdmx_name
from confide.releases.tabular.rows import ACTION, STRUCTURE, STRUCTURE_ID

VERSION = "1.0"
MOST_AREAS = 20_000
NO_DATE = "1970-01-01T00:00:00Z"
"""When it was prepared must be said, and a release has no date: the same release is the same file at any time."""
SCHEMA = "https://json.sdmx.org/2.0.0/sdmx-json-structure-schema.json"
CONCEPTS = "CONCEPTS"
STATUSES = {"OBS_STATUS": "Observation status", "CONF_STATUS": "Confidentiality status"}
STATUS_NAMES = {
    "A": "Normal value",
    "Q": "Missing value; suppressed",
    "F": "Free (free for publication)",
    "C": "Confidential statistical information",
}
"""As the code lists CL_OBS_STATUS and CL_CONF_STATUS of SDMX have them."""
_IDENTIFIER = re.compile(r"[A-Za-z0-9_@$-]+")
_TYPES = {"string": "String", "integer": "BigInteger", "number": "Double"}


def same_in_sdmx(codebook: tabular.Codebook) -> str | None:
    """Two columns that would have one identifier in SDMX, in words; none where every identifier is of one column.

    Identifiers of concepts and code lists are those of the whole release: two variables called alike in two tables
    would have one list of codes, and readers would take the one for the other.
    """
    figures = dict.fromkeys(each.name for table in codebook.tables for each in table.figures[1:])
    taken = {name: name for figure in figures for name in tabular.sdmx_attributes(figure)} | {
        tabular.OBSERVATION: tabular.OBSERVATION
    }
    taken |= {name: name for name in (STRUCTURE, STRUCTURE_ID, ACTION)}
    taken |= {sdmx_name(name): name for name in ((tabular.LEVEL, tabular.AREA) if codebook.levels else ())}
    for variable in codebook.variables:
        name = sdmx_name(variable.name)
        if (other := taken.setdefault(name, variable.name)) != variable.name:
            return f"{other} and {variable.name}: both {name}"
    return None


def sdmx_structure(release: SealedRelease, codebook: tabular.Codebook) -> str:
    """The structure message of a release."""
    manifest, agency = release.manifest, codebook.agency
    concepts = {
        tabular.OBSERVATION: "Observation",
        **({sdmx_name(tabular.LEVEL): "Geographic level", sdmx_name(tabular.AREA): "Area"} if codebook.levels else {}),
    }
    concepts |= {sdmx_name(each.name): each.title or each.name for each in codebook.variables}
    figures = dict.fromkeys(each.name for table in codebook.tables for each in table.figures[1:])
    concepts |= {name: STATUSES.get(name, figure) for figure in figures for name in tabular.sdmx_attributes(figure)}
    lists = {_list_of(variable): _codes(variable) for variable in codebook.variables}
    if codebook.levels:
        lists["CL_LEVEL"] = [(level, level) for level in codebook.levels]
    if tabular.STATUS in figures:
        lists |= {
            f"CL_{name}": [(code, STATUS_NAMES[code]) for code in codes.values()]
            for name, codes in tabular.STATUS_CODES.items()
        }
    areas = _areas(release)
    if areas:
        lists["CL_AREA"] = areas
    message = {
        "meta": {
            "id": _identifier(str(manifest["release"])),
            "schema": SCHEMA,
            "prepared": NO_DATE,
            "test": "stamp" in manifest,
            "contentLanguages": ["en"],
            "sender": {"id": agency},
        },
        "data": {
            "conceptSchemes": [
                _named(agency, CONCEPTS, "Concepts")
                | {"concepts": [{"id": name, "name": title} for name, title in concepts.items()]}
            ],
            "codelists": [
                _named(agency, name, name) | {"codes": [{"id": code, "name": label or code} for code, label in codes]}
                for name, codes in lists.items()
            ],
            "dataStructures": [_data_structure(table, agency, set(lists)) for table in codebook.tables],
            "dataflows": [
                _named(agency, flow_name(table.name), table.title) | {"structure": _urn(agency, table)}
                for table in codebook.tables
            ],
        },
    }
    return json.dumps(message, indent=1, ensure_ascii=False) + "\n"


def _data_structure(table: tabular.DescribedTable, agency: str, lists: set[str]) -> dict[str, Any]:
    dimensions = []
    if table.columns.areas:
        dimensions.append(_component(agency, tabular.LEVEL, "CL_LEVEL"))
        dimensions.append(_component(agency, tabular.AREA, "CL_AREA" if "CL_AREA" in lists else None))
    dimensions += [_component(agency, each.name, _list_of(each)) for each in table.columns.variables]
    for position, dimension in enumerate(dimensions, start=1):
        dimension["position"] = position
    kinds = {column.name: _TYPES[column.kind] for column in table.described}
    first, *others = table.figures
    components: dict[str, Any] = {
        "dimensionList": {"id": "DimensionDescriptor", "dimensions": dimensions},
        "measureList": {
            "id": "MeasureDescriptor",
            "measures": [_component(agency, tabular.OBSERVATION) | {"localRepresentation": _plain(kinds[first.name])}],
        },
    }
    if others:
        related = {"attributeRelationship": {"observation": {}}, "measureRelationship": [tabular.OBSERVATION]}
        attributes = [
            (
                _component(agency, name, f"CL_{name}")
                if each.name == tabular.STATUS
                else _component(agency, each.name) | {"localRepresentation": _plain(kinds[each.name])}
            )
            | related
            | {"usage": "optional"}
            for each in others
            for name in tabular.sdmx_attributes(each.name)
        ]
        components["attributeList"] = {"id": "AttributeDescriptor", "attributes": attributes}
    return _named(agency, flow_name(table.name), table.title) | {"dataStructureComponents": components}


def _component(agency: str, column: str, codes: str | None = None) -> dict[str, Any]:
    name = column if column == tabular.OBSERVATION else sdmx_name(column)
    concept = f"urn:sdmx:org.sdmx.infomodel.conceptscheme.Concept={agency}:{CONCEPTS}({VERSION}).{name}"
    listed = f"urn:sdmx:org.sdmx.infomodel.codelist.Codelist={agency}:{codes}({VERSION})"
    return {
        "id": name,
        "conceptIdentity": concept,
        "localRepresentation": _plain("String") if codes is None else {"enumeration": listed},
    }


def _plain(kind: str) -> dict[str, Any]:
    return {"format": {"dataType": kind}}


def _named(agency: str, name: str, title: str) -> dict[str, Any]:
    return {"id": name, "agencyID": agency, "version": VERSION, "name": title}


def _urn(agency: str, table: tabular.DescribedTable) -> str:
    return f"urn:sdmx:org.sdmx.infomodel.datastructure.DataStructure={agency}:{flow_name(table.name)}({VERSION})"


def _list_of(variable: tabular.CodedVariable) -> str:
    return f"CL_{sdmx_name(variable.name)}"


def _codes(variable: tabular.CodedVariable) -> list[tuple[str, str]]:
    return [(tabular.TOTAL_CODE, "total"), *zip(tabular.sdmx_codes(variable.codes), variable.labels, strict=True)]


def _areas(release: SealedRelease) -> list[tuple[str, str]]:
    """The areas of all levels, where they can be one list: not too many, and a code has one name on every level."""
    rows = tabular.listed_areas(release, MOST_AREAS)
    if rows is None:
        return []
    codes = rows.column(tabular.AREA).to_pylist()
    named = rows.column(tabular.AREA_NAME).to_pylist() if tabular.AREA_NAME in rows.column_names else codes
    areas: dict[str, str] = {}
    for code, name in zip(codes, named, strict=True):
        if not _IDENTIFIER.fullmatch(code) or areas.setdefault(code, name) != name:
            return []
    return list(areas.items())


def _identifier(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_@$-]", "_", text)
