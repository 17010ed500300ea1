"""Files that explain a release to people and to their programs, made from its tables and its manifest alone.

=========================  ==================================================================
``README.txt``             what this is, how to read it, how to add up, how to cite
``codebook.html``          columns, codes and labels, and how programs read them
``datapackage.json``       the same for programs: a Frictionless data package
``csvw-metadata.json``     CSV on the Web; where ``csvw`` is among the formats
``sdmx/structure.json``    SDMX 3.0: concepts, code lists, data structures; with ``sdmx-csv``
``tables.xlsx``            a workbook, unless the tables are too large; with ``xlsx``
``registry.json``          a record for a registry of deployments; with ``registry``
``argus/``                 tables, hierarchies and labels for tau-ARGUS; with ``argus``
``accuracy.html``          how far off a figure may be; where a mechanism says it in a table
``explore.html``           all tables to look at, on one page; in small releases
=========================  ==================================================================

The runner makes them when the tables are written; ``verify`` makes them anew and compares them byte by byte.
"""
