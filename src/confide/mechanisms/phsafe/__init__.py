"""The mechanism ``phsafe``: people in households, and households, for the nation and the states (PHSafe)."""
