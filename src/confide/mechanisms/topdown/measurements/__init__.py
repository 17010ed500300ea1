"""Noisy measurements as files: written by a release, read back by post-processing."""
