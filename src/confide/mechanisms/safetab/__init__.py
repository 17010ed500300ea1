"""The mechanism ``safetab``: detailed race and ethnicity groups, adaptively tabulated (SafeTab-P).

Read :mod:`~confide.mechanisms.safetab.mechanism` first. Reference: Haney et al., "SafeTab-P: Disclosure Avoidance
for the 2020 Census Detailed DHC-A", 2024. For users: ``docs/concepts/safetab.md``; proof: ``docs/proofs/safetab.md``.
"""
