"""The laboratory: what is never needed to make a release, and never reads the records of one.

=================  =====================================================================================
``risk``           what an adversary learns, from one level, the hierarchy, bounded noise or a whole release
``attacks``        reconstruction, re-identification, and the audit of suppressed tables
``comparison``     several mechanisms on the same people, each attacked
``population``     made-up people and places
``pl94``           published files of the Census Bureau as records
``demonstration``  ``confide demo``
``commands``       its commands, ``studio`` its pages
=================  =====================================================================================

Nothing outside this folder imports it but by name: the commands (``cli/main.py``), the pages
(``studio/application.py``) and the verbs (``confide/__init__.pyi``) are found in tables of names. A review of what
touches confidential records need not read it.
"""
