"""Tables of cells that an office has, in place of records: from files to the problem that they pose.

=================  ==================================================================================================
``description``    what a description (TOML), or the metadata of tau-ARGUS, say of files, columns and hierarchies
``assumed``        the same for a plain file: what its columns are taken for, and what would be mistaken for a code
``cell_rows``      the rows of a file by their codes; the codes of all files as variables
``tables``         the question: tables, variables, rules; no figure
``cells``          the figures, and what stands beside them; confidential
``problem``        primary cells, by rules and decisions; who contributes to cells; what is left for the curator
``draft``          the spec and the description that ``confide suppress`` writes
=================  ==================================================================================================

The audit (``confide.lab.attacks.suppression``) reads its tables by the first three.
"""
