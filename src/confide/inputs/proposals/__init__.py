"""Proposals: what an office's own files look like, and the schema and geography that would fit them.

A proposal is read from records, so it is confidential until the curator has looked at it and keeps the file: domains
are public, and are never taken from records by themselves.
"""

from confide.inputs.proposals.column_proposal import ColumnProposal as ColumnProposal
from confide.inputs.proposals.column_proposal import propose_column as propose_column
from confide.inputs.proposals.file_look import FileLook as FileLook
from confide.inputs.proposals.file_look import look_at_file as look_at_file
from confide.inputs.proposals.office import OfficeFiles as OfficeFiles
from confide.inputs.proposals.office import area_tree as area_tree
from confide.inputs.proposals.office import propose_office as propose_office
from confide.inputs.proposals.office import propose_schema as propose_schema
from confide.inputs.proposals.office import read_column as read_column
from confide.inputs.proposals.place_proposal import PlacesProposal as PlacesProposal
from confide.inputs.proposals.place_proposal import propose_places as propose_places
from confide.inputs.proposals.record_places import AreaTree as AreaTree
from confide.inputs.proposals.record_places import AreaUnit as AreaUnit
from confide.inputs.proposals.record_places import propose_record_places as propose_record_places
