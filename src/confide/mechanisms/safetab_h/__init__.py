"""The mechanism ``safetab-h``: household type and tenure by detailed race and ethnicity (SafeTab-H).

Read :mod:`~confide.mechanisms.safetab_h.mechanism` first. Code lists, areas, the scan of the records and intervals are
those of :mod:`confide.mechanisms.safetab`. For users: ``docs/concepts/safetab-h.md``; proof:
``docs/proofs/safetab-h.md``.
"""
