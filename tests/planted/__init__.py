"""Planted bugs: small changes of the source that would hurt people, each with the tests that must notice it."""
