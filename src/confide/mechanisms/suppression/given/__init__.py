"""Tables of cells that an office has, in place of records: from files to the problem that they pose.

=================  ==================================================================================================
``description``    what a description (TOML), or the metadata of tau-ARGUS, say of files, columns and hierarchies;
                   the rows of a file by their codes; the codes of all files as variables
``assumed``        the same for a plain file: what its columns are taken for, and what would be mistaken for a code
``tables``         the question: tables, variables, rules; no figure; the spec and the description that
                   ``confide suppress`` writes
``cells``          the figures, and what is said beside them; primary cells, by rules and decisions; who contributes
                   to cells; what the curator keeps; confidential
=================  ==================================================================================================

The audit (``confide.lab.attacks.suppression_audit``) reads its tables by the first two.
"""
