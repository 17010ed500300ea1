"""The cell key method: noise of bounded size that is the same wherever the same records are counted.

Every record has a key, a cell has the sum of the keys of its records, and a perturbation table says which noise a count
with such a key gets: :mod:`confide.noise.ptables`. Reference: Bach, "Differential privacy and noisy confidentiality
concepts for European population statistics", 2020.
"""
